//! Commands that go on while others run. Called by every backend. Never more than a few at once, never
//! with more output in memory than a command in front has, and never beyond the end of the run.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::output::SharedOutput;
use super::process::Stops;
use super::{BackgroundOutput, Exec, Exit, Part, Program, SandboxError, Started};

/// Most that run at once.
pub(super) const MAX_RUNNING: usize = 4;

/// Most that have ended and whose output can still be read; the oldest goes first.
const MAX_ENDED: usize = 8;

/// Output kept of each.
pub(super) const KEEP_BYTES: usize = 256 * 1024;

/// Longest command in the background; the run's own limits come before.
const TIMEOUT: Duration = Duration::from_secs(4 * 3600);

/// Longer than the grace and the last wait of an end by force.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

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
struct Slot {
    id: u32,
    ended: watch::Sender<Option<(Exit, Duration)>>,
    own: Own,
}

/// What a command in the background has of its own.
pub(super) struct Own {
    pub(super) timeout: Duration,
    pub(super) output: SharedOutput,
    stop: CancellationToken,
    closing: CancellationToken,
}

impl Own {
    /// What ends it before its time.
    pub(super) fn stops(&self) -> Stops<'_> {
        Stops {
            timeout: self.timeout,
            cancel: &self.stop,
            closing: &self.closing,
        }
    }
}

impl Background {
    /// Begins a command, unless as many run as may. `run` does it to its end, as a task of `running`,
    /// which is told to stop by `closing`.
    pub(super) fn start<R>(
        &self,
        exec: &Exec,
        cancel: &CancellationToken,
        closing: &CancellationToken,
        running: &TaskTracker,
        run: impl FnOnce(Own) -> R,
    ) -> Result<Started, SandboxError>
    where
        R: Future<Output = Result<Exit, SandboxError>> + Send + 'static,
    {
        if closing.is_cancelled() {
            return Err(SandboxError::Cancelled);
        }
        let Some(Slot { id, ended, own }) = self.slot(exec, cancel, closing) else {
            return Ok(Started::TooMany(self.running()));
        };
        let (started, work) = (Instant::now(), run(own));
        running.spawn(async move {
            let exit = work.await.unwrap_or_else(|broken| Exit::Limit(broken.to_string()));
            // Whoever asks later finds it in the channel; nobody need be asking now.
            ended.send_replace(Some((exit, started.elapsed())));
        });
        Ok(Started::Running(id))
    }

    /// A place for another command; nothing when as many run as may.
    fn slot(&self, exec: &Exec, cancel: &CancellationToken, closing: &CancellationToken) -> Option<Slot> {
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
            line: line_of(&exec.program),
            started: Instant::now(),
            output: output.clone(),
            read: 0,
            stop: stop.clone(),
            ended: receiver,
        };
        commands.all.insert(id, command);
        let timeout = exec.timeout.map_or(TIMEOUT, |asked| asked.min(TIMEOUT));
        Some(Slot {
            id,
            ended: sender,
            own: Own {
                timeout,
                output,
                stop,
                closing: closing.clone(),
            },
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

    /// Ends a command, and gives what it wrote since it was asked last.
    pub(super) async fn stop(&self, id: u32) -> Option<BackgroundOutput> {
        self.lock().all.get(&id)?.stop.cancel();
        self.output(id, Part::New, STOP_TIMEOUT, &CancellationToken::new())
            .await
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

/// The words of a command, for lists.
fn line_of(program: &Program) -> String {
    match program {
        Program::Shell(line) => line.clone(),
        Program::Argv(argv) => argv.join(" "),
    }
}
