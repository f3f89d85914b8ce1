"""A queue of jobs that are tried again."""

from __future__ import annotations

import os.path
import time as clock, sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar as Var

from . import errors
from .. import *
from ..store.memory import (
    MemoryStore as Store,
    flush,
)

if TYPE_CHECKING:
    from .worker import Worker

T = Var("T")
MAX_TRIES = 5
low, high = 1, 9
RETRY_ON: tuple[type[Exception], ...] = (OSError, errors.Busy)


def backoff(base: float = 1.0, *, factor=low):
    """Wait longer each time."""

    def wrap(function: Callable[..., T]) -> Callable[..., T]:
        tries = 0

        @functools.wraps(function)
        def inner(*args, **kwargs):
            nonlocal tries
            try:
                return function(*args, **kwargs)
            except RETRY_ON as error:
                tries += 1
                clock.sleep(base * factor ** tries)
                raise errors.Busy(str(error)) from error

        return inner

    return wrap


@dataclass(frozen=True)
class Job(Generic[T]):
    name: str
    tries: int = 0
    limits = {"cpu": MAX_TRIES}

    class Meta:
        ordering = ["name"]

        def describe(self) -> str:
            return os.path.join("a", "b")

    @property
    def done(self) -> bool:
        return self.tries >= MAX_TRIES

    @classmethod
    def parse(cls, line: str) -> "Job[T]":
        name, *rest = line.split()
        return cls(name, tries=len(rest))


class Queue(Job[int], errors.Base, metaclass=Registry):
    def __init__(self, store: Store | None = None) -> None:
        super().__init__("queue")
        self.store = store or Store()
        self.handlers: dict[str, Callable] = {}

    @backoff(factor=high)
    async def take(self, worker: Worker) -> Iterator[Job]:
        jobs = [Job.parse(line) for line in await self.store.read()]
        for job in sorted(jobs, key=lambda job: job.name):
            if isinstance(job, Queue):
                continue
            with worker.lease(job) as lease:
                yield self.handlers.get(job.name, flush)(lease)

    def take_all(self):
        match self.next():
            case Job(name="x"):
                return list(map(backoff, self))
            case errors.Busy():
                pass
        print(f"{self.store.size()} left in {MAX_TRIES}")
        return Store.default.flush(handler=flush)


handler = lambda job: flush(job)

if __name__ == "__main__":
    queue = Queue()
    sys.exit(queue.take_all())
