//! What the end of a helper means: for a command, a file operation, a look inside. Called by every
//! backend. Never takes a helper that said nothing for a success.

use std::time::{Duration, Instant};

use super::output::SharedOutput;
use super::process::{Ended, Stopped};
use super::spec::{Report, Task};
use super::{ExecOutput, Exit, FileReply, FileRequest, SandboxError};

/// How the helpers of a backend are judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judge {
    /// What an administrator can do where walls cannot stand.
    pub(super) remedy: fn() -> String,
    /// Whether helpers say that they are ready in the same breath as what came of the task. One whose
    /// last word that is was killed, which only the command, or memory that was full, can have done.
    pub(super) says_ready: bool,
}

impl Judge {
    /// How a command ended.
    pub(super) fn exit(self, ended: &Ended, timeout: Duration) -> Result<Exit, SandboxError> {
        match ended.stopped {
            Some(Stopped::Timeout) => return Ok(Exit::Limit(format!("timeout after {} s", timeout.as_secs_f64()))),
            Some(Stopped::Cancelled) => return Ok(Exit::Cancelled),
            None => {}
        }
        match ended.reports.last() {
            Some(Report::Exited(code)) => Ok(Exit::Code(*code)),
            Some(Report::Signaled(signal)) => Ok(Exit::Signal(*signal)),
            Some(Report::Limit(limit)) => Ok(Exit::Limit(limit.clone())),
            Some(Report::Ready { .. }) if self.says_ready => Ok(Exit::Signal(9)),
            _ => Err(self.failure(ended)),
        }
    }

    /// The same, with what the command wrote.
    pub(super) fn output(
        self,
        ended: &Ended,
        timeout: Duration,
        kept: &SharedOutput,
        started: Instant,
    ) -> Result<ExecOutput, SandboxError> {
        Ok(ExecOutput {
            exit: self.exit(ended, timeout)?,
            output_bytes: kept.total(),
            output: kept.text(),
            took: started.elapsed(),
        })
    }

    /// The answer to a file operation.
    pub(super) fn files(self, mut ended: Ended, request: &FileRequest) -> Result<FileReply, SandboxError> {
        // Grammars are C code that reads hostile files, in a process of its own.
        let reads_syntax = matches!(request, FileRequest::AstGrep { .. });
        let last = ended.reports.pop();
        let broke_off = match last {
            Some(Report::Ready { .. }) => true,
            None => !self.says_ready,
            _ => false,
        };
        match last {
            Some(Report::Files(reply)) => Ok(reply),
            _ if broke_off && reads_syntax && ended.stopped != Some(Stopped::Cancelled) => Ok(FileReply::Failed {
                problem: "the search broke off: a grammar cannot cope with some file; narrow it with path or glob, or \
                          use grep"
                    .to_owned(),
            }),
            last => {
                ended.reports.extend(last);
                Err(self.failure(&ended))
            }
        }
    }

    /// Why a helper did not do its task.
    pub(super) fn failure(self, ended: &Ended) -> SandboxError {
        if ended.stopped == Some(Stopped::Cancelled) {
            return SandboxError::Cancelled;
        }
        match ended.reports.last() {
            Some(Report::Unavailable(problem)) => SandboxError::Unavailable {
                problem: problem.clone(),
                remedy: (self.remedy)(),
            },
            Some(Report::Broken(problem)) => SandboxError::Broken(problem.clone()),
            _ => {
                let status = ended
                    .status
                    .map_or_else(|| "no exit status".to_owned(), |status| status.to_string());
                SandboxError::Broken(format!("the helper ended without a report ({status})"))
            }
        }
    }
}

/// Whether the helper came to its own end: then nothing that it started is left.
pub(super) fn is_whole(task: &Task, ended: &Ended) -> bool {
    match (task, ended.reports.last()) {
        (_, None) => false,
        (Task::Probe, Some(_)) => ended.stopped.is_none(),
        (Task::Command(_) | Task::Files(_) | Task::Examine | Task::Wait, Some(last)) => {
            !matches!(last, Report::Ready { .. })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_backend_tells_of_its_own_remedy_and_of_its_own_killed_helpers() {
        let judge = |says_ready| Judge {
            remedy: || "its own remedy".to_owned(),
            says_ready,
        };
        let ended = |report| Ended {
            reports: vec![report],
            stopped: None,
            status: None,
        };
        let refused = ended(Report::Unavailable("no wall".to_owned()));
        let said = judge(true).failure(&refused);
        assert!(
            matches!(&said, SandboxError::Unavailable { remedy, .. } if remedy == "its own remedy"),
            "{said:?}"
        );
        let ready = || {
            ended(Report::Ready {
                layers: Vec::new(),
                warnings: Vec::new(),
            })
        };
        let second = Duration::from_secs(1);
        assert_eq!(judge(true).exit(&ready(), second).unwrap(), Exit::Signal(9));
        assert!(judge(false).exit(&ready(), second).is_err());
    }
}
