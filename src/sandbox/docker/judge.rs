//! What the end of a helper in a container means. Called by `docker` and `opensandbox`.
//! Never takes a helper that said nothing for a success.

use std::time::{Duration, Instant};

use super::engine::Users;
use crate::sandbox::local;
use crate::sandbox::output::SharedOutput;
use crate::sandbox::process::{Ended, Stopped};
use crate::sandbox::spec::{Report, Task};
use crate::sandbox::{ExecOutput, Exit, FileReply, FileRequest, Program, SandboxError};

/// Whether the helper came to its own end: then nothing that it started is left.
pub(in crate::sandbox) fn is_whole(task: &Task, ended: &Ended) -> bool {
    match (task, ended.reports.last()) {
        (_, None) => false,
        (Task::Probe, Some(_)) => ended.stopped.is_none(),
        (Task::Command(_) | Task::Files(_) | Task::Examine | Task::Wait, Some(last)) => {
            !matches!(last, Report::Ready { .. })
        }
    }
}

/// How a command ended. A helper without a last word was killed, which only the command, or memory
/// that was full, can have done; its container is gone by now.
pub(in crate::sandbox) fn exit_of(ended: &Ended, timeout: Duration) -> Result<Exit, SandboxError> {
    match (ended.stopped, ended.reports.last()) {
        (None, Some(Report::Ready { .. })) => Ok(Exit::Signal(9)),
        _ => local::exit(ended, timeout).map_err(container_words),
    }
}

pub(in crate::sandbox) fn output(
    ended: &Ended,
    timeout: Duration,
    kept: &SharedOutput,
    started: Instant,
) -> Result<ExecOutput, SandboxError> {
    Ok(ExecOutput {
        exit: exit_of(ended, timeout)?,
        output_bytes: kept.total(),
        output: kept.text(),
        took: started.elapsed(),
    })
}

pub(in crate::sandbox) fn files(mut ended: Ended, request: &FileRequest) -> Result<FileReply, SandboxError> {
    match ended.reports.pop() {
        Some(Report::Files(reply)) => Ok(reply),
        Some(Report::Ready { .. })
            if matches!(request, FileRequest::AstGrep { .. }) && ended.stopped != Some(Stopped::Cancelled) =>
        {
            Ok(local::broken_search())
        }
        last => {
            ended.reports.extend(last);
            Err(container_words(local::failure(&ended)))
        }
    }
}

/// Why the first look inside failed.
pub(super) fn not_ready(ended: &Ended, said: &str) -> SandboxError {
    match (ended.stopped, ended.reports.last()) {
        (None, None) => SandboxError::Broken(format!(
            "the helper does not start in the container: {}",
            crate::text::cap_middle(said.trim(), 500)
        )),
        _ => container_words(local::failure(ended)),
    }
}

/// What the kernel's namespaces need is no remedy for a container.
fn container_words(error: SandboxError) -> SandboxError {
    match error {
        SandboxError::Unavailable { problem, .. } => SandboxError::Unavailable {
            problem,
            remedy: "Look at the engine's configuration and at sandbox.docker_runtime: a container must come without \
                     network, capabilities and new privileges, with seccomp and with a read-only root"
                .to_owned(),
        },
        other => other,
    }
}

/// The layer that says who runs inside.
pub(super) fn user(inner: u32, users: Users) -> String {
    match users {
        Users::Same => format!("user id {inner}"),
        Users::From(first) => format!("user id {inner} (here {})", first.saturating_add(inner)),
        Users::OwnAsRoot => "user namespace of a rootless engine (user id 0 is the service's user)".to_owned(),
        Users::OwnKept => format!("user namespace of a rootless engine, user id {inner}"),
    }
}

pub(in crate::sandbox) fn argv(program: &Program) -> Vec<String> {
    match program {
        Program::Argv(argv) => argv.clone(),
        Program::Shell(line) => ["/bin/bash", "-c", line].map(str::to_owned).to_vec(),
    }
}
