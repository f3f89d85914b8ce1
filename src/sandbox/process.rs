//! One helper process from the service's side: start it, send the spec, gather output and
//! reports, end it gently or by force. Called by `local`.
//! Never returns while something of the sandbox may still run, and never buffers without bound.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::FusedFuture;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf, pipe};
use tokio::process::{Child, Command};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::SandboxError;
use super::helper::{COMMAND, ENTER, INSIDE};
use super::output::SharedOutput;
use super::overlay::Join;
use super::spec::{Isolation, Report, Spec, TERMINATE, Task};

/// How long a command may tidy up after SIGTERM.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// How long the kernel may take to kill everything once it was told to.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// Files of 16 MiB in base64 and listings in JSON are the largest reports.
pub(super) const MAX_REPORT_BYTES: u64 = 64 * 1024 * 1024;

/// When a helper is stopped from outside.
pub(super) struct Stops<'s> {
    pub(super) timeout: Duration,
    pub(super) cancel: &'s CancellationToken,
    pub(super) closing: &'s CancellationToken,
}

/// Why it was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    Timeout,
    Cancelled,
}

/// What a helper left.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) reports: Vec<Report>,
    pub(super) stopped: Option<Stopped>,
    pub(super) status: Option<ExitStatus>,
}

impl Ended {
    /// A limit that its group counted, where the helper itself was ended by it.
    pub(super) fn add_limit(&mut self, limit: Option<String>) {
        if matches!(self.reports.last(), None | Some(Report::Ready { .. })) {
            self.reports.extend(limit.map(Report::Limit));
        }
    }
}

/// Runs a helper to its end; what it writes is `kept`. Once nothing of the sandbox is left, the end of its
/// own process is one of `ends`.
pub(super) async fn run(
    helper: &Path,
    spec: &Spec,
    kept: &SharedOutput,
    stops: Stops<'_>,
    ends: &TaskTracker,
) -> Result<Ended, SandboxError> {
    let message = spec.encode().map_err(SandboxError::Broken)?;
    let helper = start(helper, spec.isolation, spec.join.as_ref()).map_err(|error| not_started(helper, &error))?;
    Ok(finish(helper, &message, kept, stops, ends).await)
}

/// A helper that runs.
#[derive(Debug)]
struct Helper {
    child: Child,
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    output: pipe::Receiver,
}

/// A helper whose walls stand and that waits for its task.
#[derive(Debug)]
pub(super) struct Spare(Helper);

impl Spare {
    /// Whether it still waits.
    pub(super) fn lives(&mut self) -> bool {
        matches!(self.0.child.try_wait(), Ok(None))
    }

    /// Gives it its task and runs it to its end, like [`run`].
    pub(super) async fn run(
        self,
        task: &Task,
        kept: &SharedOutput,
        stops: Stops<'_>,
        ends: &TaskTracker,
    ) -> Result<Ended, SandboxError> {
        let message = task.encode().map_err(SandboxError::Broken)?;
        Ok(finish(self.0, &message, kept, stops, ends).await)
    }

    /// Ends it without a task.
    pub(super) async fn end(self) {
        let Helper { mut child, writer, .. } = self.0;
        drop(writer);
        wait(&mut child).await;
    }
}

/// Starts a helper that waits once its walls stand, and returns it with what it said of them; or what
/// it left, where they do not stand.
pub(super) async fn prepare(
    helper: &Path,
    spec: &Spec,
    stops: Stops<'_>,
) -> Result<Result<(Spare, Report), Ended>, SandboxError> {
    let message = spec.encode().map_err(SandboxError::Broken)?;
    let mut helper = start(helper, spec.isolation, spec.join.as_ref()).map_err(|error| not_started(helper, &error))?;
    let stop = stops.reached();
    tokio::pin!(stop);
    let mut line = Vec::new();
    let said = async {
        // Helpers that fail before they read the spec close the socket; their report says why.
        let _ = helper.writer.write_all(&message).await;
        let mut limited = (&mut helper.reader).take(MAX_REPORT_BYTES);
        let _ = limited.read_until(b'\n', &mut line).await;
    };
    let stopped = tokio::select! {
        () = said => None,
        why = &mut stop => Some(why),
    };
    match serde_json::from_slice(&line) {
        Ok(ready @ Report::Ready { .. }) if stopped.is_none() => Ok(Ok((Spare(helper), ready))),
        report => {
            drop(helper.writer);
            Ok(Err(Ended {
                reports: report.into_iter().collect(),
                stopped,
                status: wait(&mut helper.child).await,
            }))
        }
    }
}

impl Stops<'_> {
    /// What ends a command whose time begins once its helper is `ready`, or after `longest` at most: an
    /// engine or a server under load takes its time.
    pub(super) async fn reached_once(&self, ready: &Notify, longest: Duration) -> Stopped {
        let timeout = async {
            let _ = tokio::time::timeout(longest, ready.notified()).await;
            tokio::time::sleep(self.timeout).await;
        };
        tokio::select! {
            () = timeout => Stopped::Timeout,
            () = self.cancel.cancelled() => Stopped::Cancelled,
            () = self.closing.cancelled() => Stopped::Cancelled,
        }
    }

    async fn reached(&self) -> Stopped {
        tokio::select! {
            () = tokio::time::sleep(self.timeout) => Stopped::Timeout,
            () = self.cancel.cancelled() => Stopped::Cancelled,
            () = self.closing.cancelled() => Stopped::Cancelled,
        }
    }
}

async fn finish(helper: Helper, message: &[u8], kept: &SharedOutput, stops: Stops<'_>, ends: &TaskTracker) -> Ended {
    let Helper {
        mut child,
        reader,
        mut writer,
        output,
    } = helper;
    let stop = stops.reached();
    tokio::pin!(stop);
    let mut reports = Vec::new();
    let mut stopped = None;
    {
        let gather = async { tokio::join!(read_output(output, kept), read_reports(reader, &mut reports)) };
        let gather = gather.fuse();
        tokio::pin!(gather);
        tokio::select! {
            // Helpers that fail before they read the spec close the socket; their report says why.
            _ = writer.write_all(message) => {}
            why = &mut stop => stopped = Some(why),
        }
        if stopped.is_none() {
            tokio::select! {
                _ = &mut gather => {}
                why = &mut stop => {
                    stopped = Some(why);
                    end_gently(&mut writer, &mut gather).await;
                }
            }
        }
        // Letting go of the socket makes the helper kill what is left.
        drop(writer);
        if !gather.is_terminated() && tokio::time::timeout(LAST_WAIT, &mut gather).await.is_err() {
            let _ = child.start_kill();
        }
    }
    let is_gone = matches!(reports.last(), Some(Report::Gone));
    let status = if is_gone {
        reports.pop();
        ends.spawn(async move { wait(&mut child).await });
        None
    } else {
        wait(&mut child).await
    };
    Ended {
        reports,
        stopped,
        status,
    }
}

fn start(helper: &Path, isolation: Isolation, join: Option<&Join>) -> std::io::Result<Helper> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    let (reader, writer) = std::io::pipe()?;
    let stage = match isolation {
        Isolation::Namespaces => ENTER,
        Isolation::None | Isolation::Container => INSIDE,
    };
    ours.set_nonblocking(true)?;
    let child = Command::new(helper)
        .args([COMMAND, stage])
        .args(join.into_iter().flat_map(Join::arguments))
        .env_clear()
        .current_dir("/")
        .stdin(OwnedFd::from(theirs))
        .stdout(writer.try_clone()?)
        .stderr(writer)
        // From its first moment out of reach of a Ctrl-C at this terminal: the run ends it, gently.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let (from_helper, to_helper) = UnixStream::from_std(ours)?.into_split();
    Ok(Helper {
        child,
        reader: BufReader::new(from_helper),
        writer: to_helper,
        output: pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?,
    })
}

async fn end_gently(writer: &mut OwnedWriteHalf, gather: impl Future) {
    if writer.write_all(&[TERMINATE]).await.is_ok() {
        let _ = tokio::time::timeout(GRACE, gather).await;
    }
}

/// Reads as fast as it comes and keeps a bounded part; the pipe slows down who writes faster.
async fn read_output(mut pipe: pipe::Receiver, kept: &SharedOutput) {
    let mut block = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = pipe.read(&mut block).await {
        kept.push(&block[..length]);
    }
}

/// Up to the last word, or the end of the stream.
async fn read_reports(reader: BufReader<OwnedReadHalf>, reports: &mut Vec<Report>) {
    let mut reader = reader.take(MAX_REPORT_BYTES);
    let mut line = Vec::new();
    // A helper that is killed resets the connection; what came before counts.
    while let Ok(1..) = reader.read_until(b'\n', &mut line).await {
        reports.extend(serde_json::from_slice::<Report>(&line).ok());
        if matches!(reports.last(), Some(Report::Gone)) {
            return;
        }
        line.clear();
    }
}

/// Reports that are whole count at once, whatever happens to the rest of the stream.
pub(super) fn take_lines(said: &mut Vec<u8>, reports: &mut Vec<Report>) {
    while let Some(end) = said.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = said.drain(..=end).collect();
        reports.extend(serde_json::from_slice::<Report>(&line).ok());
    }
}

async fn wait(child: &mut Child) -> Option<ExitStatus> {
    match tokio::time::timeout(LAST_WAIT, child.wait()).await {
        Ok(status) => status.ok(),
        Err(_) => {
            let _ = child.start_kill();
            tokio::time::timeout(LAST_WAIT, child.wait()).await.ok()?.ok()
        }
    }
}

/// A helper that is not there will not be there at the next attempt either.
fn not_started(helper: &Path, error: &io::Error) -> SandboxError {
    let problem = format!("start {}: {error}", helper.display());
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => SandboxError::Unavailable {
            problem,
            remedy: "Let sandbox.helper name a forgehand program that the service may execute, or remove the key"
                .to_owned(),
        },
        _ => SandboxError::Broken(problem),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use rustix::process::Pid;

    use super::*;

    #[tokio::test]
    async fn a_signal_to_the_group_of_the_service_does_not_reach_a_helper() {
        let folder = tempfile::tempdir().unwrap();
        let helper = folder.path().join("helper");
        std::fs::write(&helper, "#!/bin/sh\nread -r line\n").unwrap();
        std::fs::set_permissions(&helper, std::fs::Permissions::from_mode(0o755)).unwrap();
        for isolation in [Isolation::Namespaces, Isolation::None] {
            let helper = start(&helper, isolation, None).unwrap();
            let pid = Pid::from_raw(i32::try_from(helper.child.id().unwrap()).unwrap()).unwrap();
            assert_eq!(rustix::process::getpgid(Some(pid)).unwrap(), pid);
        }
    }
}
