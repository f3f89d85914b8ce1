//! Commands that go on while others run. Called by `local`. Never more than a few at once, never
//! with more output in memory than a command in front has, and never beyond the end of the run.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::output::SharedOutput;
use super::{BackgroundOutput, Exit, Part};

/// Most that run at once.
pub(super) const MAX_RUNNING: usize = 4;

/// Most that have ended and whose output can still be read; the oldest goes first.
const MAX_ENDED: usize = 8;

/// Output kept of each.
pub(super) const KEEP_BYTES: usize = 256 * 1024;

/// All of a sandbox.
#[derive(Debug, Default)]
pub(super) struct Background {
    commands: Mutex<Commands>,
}

#[derive(Debug, Default)]
struct Commands {
    last: u32,
    all: BTreeMap<u32, Command>,
}

#[derive(Debug)]
struct Command {
    line: String,
    started: Instant,
    output: SharedOutput,
    /// Bytes that were read already.
    read: u64,
    stop: CancellationToken,
    ended: watch::Receiver<Option<(Exit, Duration)>>,
}

/// What a new command is given.
pub(super) struct Slot {
    pub(super) id: u32,
    pub(super) output: SharedOutput,
    pub(super) stop: CancellationToken,
    pub(super) ended: watch::Sender<Option<(Exit, Duration)>>,
}

impl Background {
    /// A place for another command; nothing when as many run as may.
    pub(super) fn slot(&self, line: &str, cancel: &CancellationToken) -> Option<Slot> {
        let mut commands = self.lock();
        if commands.running().count() >= MAX_RUNNING {
            return None;
        }
        while commands.all.len() >= MAX_RUNNING + MAX_ENDED {
            let oldest = commands
                .all
                .iter()
                .find(|(_, command)| command.has_ended())
                .map(|(id, _)| *id);
            commands.all.remove(&oldest?);
        }
        commands.last += 1;
        let id = commands.last;
        let (sender, receiver) = watch::channel(None);
        let output = SharedOutput::new(KEEP_BYTES);
        let stop = cancel.child_token();
        let command = Command {
            line: line.to_owned(),
            started: Instant::now(),
            output: output.clone(),
            read: 0,
            stop: stop.clone(),
            ended: receiver,
        };
        commands.all.insert(id, command);
        Some(Slot {
            id,
            output,
            stop,
            ended: sender,
        })
    }

    /// Those that run, with their lines.
    pub(super) fn running(&self) -> Vec<(u32, String)> {
        let commands = self.lock();
        commands
            .running()
            .map(|(id, command)| (*id, command.line.clone()))
            .collect()
    }

    /// What a command wrote, after it ended or so much time has passed.
    pub(super) async fn output(
        &self,
        id: u32,
        part: Part,
        wait: Duration,
        cancel: &CancellationToken,
    ) -> Option<BackgroundOutput> {
        let mut ended = self.lock().all.get(&id)?.ended.clone();
        tokio::select! {
            _ = ended.wait_for(Option::is_some) => {}
            () = tokio::time::sleep(wait) => {}
            () = cancel.cancelled() => {}
        }
        let mut commands = self.lock();
        let command = commands.all.get_mut(&id)?;
        let ended = command.ended.borrow().clone();
        let since = match part {
            Part::New => command.read,
            Part::All => 0,
        };
        let (text, total) = command.output.since(since);
        command.read = total;
        Some(BackgroundOutput {
            line: command.line.clone(),
            took: ended
                .as_ref()
                .map_or_else(|| command.started.elapsed(), |(_, took)| *took),
            exit: ended.map(|(exit, _)| exit),
            output: text,
            output_bytes: total,
        })
    }

    /// Tells a command to end. Whoever wants its output asks for it and waits.
    pub(super) fn stop(&self, id: u32) {
        if let Some(command) = self.lock().all.get(&id) {
            command.stop.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Commands> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Commands {
    fn running(&self) -> impl Iterator<Item = (&u32, &Command)> {
        self.all.iter().filter(|(_, command)| !command.has_ended())
    }
}

impl Command {
    fn has_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }
}
