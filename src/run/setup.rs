//! Set-up of a checkout: whether an earlier run's can be begun with, the commands that run where it
//! cannot, what their failure means, and what is kept for later runs. Called by `run`.
//! Never keeps anything of a run that does not begin at the head of the default branch, nor of a
//! workspace in which an agent worked.

use std::sync::Arc;

use super::opening::{Source, local_failure};
use super::verify::tail_of;
use super::{Desk, Ports, Work};
use crate::config::{SandboxBackend, SetupFailure};
use crate::event::RunEvent;
use crate::job::{JobError, Outcome};
use crate::phrase::reason;
use crate::sandbox::{Exec, Exit, Sandbox};
use crate::text;
use crate::workspace::{Begun, RunFolder, SetupKey, tools_of_this_machine};

/// What an agent is told whose run must not change anything.
pub(super) const ONLY_READ: &str = "Because set-up failed, this run only reads: no file can be changed and no command \
                                    runs. Find out what the request is about, and say in your answer what you found, \
                                    what would have to be changed, and what keeps set-up from working.";

/// Most lines of a failed command that people are shown.
const SHOWN_LINES: usize = 12;

/// A set-up command that failed.
pub(super) struct Failed {
    command: String,
    how: String,
    tail: String,
}

/// What comes after set-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// It worked: what it left may be kept.
    Keep,
    /// It did not, and the agent is told.
    GoOn,
    /// It did not, and nothing is to be changed.
    OnlyRead,
}

/// Lets a fresh folder begin with what an earlier set-up left.
pub(super) async fn begin(ports: &Ports, folder: &RunFolder, source: Source<'_>, work: &Work) -> Result<(), JobError> {
    let (Some(setups), false) = (ports.setups.clone(), work.setup.is_empty()) else {
        return Ok(());
    };
    let key = key(ports, source, work).await?;
    let folder = folder.clone();
    let begun = tokio::task::spawn_blocking(move || setups.begin(&folder, &key)).await;
    let begun = begun
        .map_err(|error| JobError::Retry(error.to_string()))?
        .map_err(local_failure)?;
    match begun {
        Begun::Whole => tracing::info!("set-up was done by an earlier run"),
        Begun::Warm => tracing::info!("set-up begins with what an earlier one fetched"),
        Begun::Cold => {}
    }
    Ok(())
}

/// Everything that the commands depend on at a commit.
async fn key(ports: &Ports, source: Source<'_>, work: &Work) -> Result<SetupKey, JobError> {
    let (git, repo, at) = (ports.git.clone(), source.repo.to_owned(), source.at.clone());
    let (sandbox, commands) = (work.sandbox(ports), work.setup.clone());
    let key = tokio::task::spawn_blocking(move || {
        let tools = match sandbox.backend {
            SandboxBackend::Local => tools_of_this_machine(&sandbox.toolchains),
            SandboxBackend::Docker | SandboxBackend::OpenSandbox => {
                format!("image {}", sandbox.image.as_deref().unwrap_or_default())
            }
        };
        Ok(SetupKey::new(&commands, &git.tree(&repo, &at)?, &tools))
    });
    key.await.map_err(|error| JobError::Retry(error.to_string()))?
}

/// Runs the commands in a sandbox over a folder, unless it began with what they leave, and tells which
/// failed. A broken set-up may be the very thing to mend.
pub(super) async fn set_up(
    desk: &Desk<'_>,
    commands: &[String],
    folder: &RunFolder,
    sandbox: &Arc<dyn Sandbox>,
) -> Result<Vec<Failed>, JobError> {
    let mut failures = Vec::new();
    if folder.is_set_up() {
        return Ok(failures);
    }
    for command in commands {
        let ran = sandbox.exec(&Exec::shell(command.clone()), desk.cancel).await?;
        let took_ms = u64::try_from(ran.took.as_millis()).unwrap_or(u64::MAX);
        desk.recorder
            .record(RunEvent::SetUpRan {
                command: command.clone(),
                exit_code: ran.code(),
                took_ms,
            })
            .await?;
        if ran.code() != Some(0) {
            let how = match &ran.exit {
                Exit::Code(code) => format!("exit code {code}"),
                Exit::Signal(signal) => format!("signal {signal}"),
                Exit::Limit(limit) => limit.clone(),
                Exit::Cancelled => "the run was stopped".to_owned(),
            };
            failures.push(Failed {
                command: command.clone(),
                how,
                tail: tail_of(&ran.output),
            });
        }
    }
    Ok(failures)
}

/// The failures as notes for the agent.
pub(super) fn in_words(failures: &[Failed]) -> Vec<String> {
    let note = |failed: &Failed| {
        let Failed { command, how, tail } = failed;
        format!("The set-up command `{command}` failed ({how}):\n{tail}")
    };
    failures.iter().map(note).collect()
}

/// What the configuration says to failures.
///
/// # Errors
/// [`JobError::End`] where they end the run.
pub(super) fn judge(ports: &Ports, work: &Work, failures: &[Failed]) -> Result<Then, JobError> {
    let Some(first) = failures.first() else {
        return Ok(Then::Keep);
    };
    let usual = match work.setup_of.is_named {
        true => SetupFailure::Stop,
        false => SetupFailure::GoOn,
    };
    match ports.workspace.setup_failure.unwrap_or(usual) {
        SetupFailure::GoOn => Ok(Then::GoOn),
        SetupFailure::ReadOnly => Ok(Then::OnlyRead),
        SetupFailure::Stop => {
            let tail = ports.redactor.redact(&text::reveal(&first.tail));
            let lines: Vec<&str> = tail.lines().collect();
            let shown = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
            let reason = reason::setup_failed(ports.language, &first.command, &first.how, &shown);
            Err(JobError::End(Outcome::GaveUp { reason, branch: None }))
        }
    }
}

/// Keeps what the commands left for later runs. A set-up that cannot be kept runs again the next time.
pub(super) async fn keep(desk: &Desk<'_>, work: &Work) {
    let may_keep = work.setup_of.is_default_branch && !work.setup.is_empty() && !desk.folder.is_set_up();
    let (Some(setups), true) = (desk.ports.setups.clone(), may_keep) else {
        return;
    };
    let source = Source {
        repo: &work.mirror,
        remote: &work.remote,
        at: &work.base,
    };
    let kept: Result<(), JobError> = async {
        let key = key(desk.ports, source, work).await?;
        let Some(left) = desk.sandbox.left_by_setup(&work.base, desk.cancel).await? else {
            return Ok(());
        };
        let keeping = tokio::task::spawn_blocking(move || setups.keep(&key, &left)).await;
        keeping
            .map_err(|error| JobError::Retry(error.to_string()))?
            .map_err(local_failure)
    }
    .await;
    if let Err(error) = kept {
        tracing::info!(?error, "what set-up left is not kept");
    }
}
