//! Set-up and checks: which commands ran, on which side, with which exit code. The verdict comes
//! from exit codes only. Never asks the model what it thinks of them.

use std::sync::Arc;
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::egress::sandbox_over;
use super::opening::{Source, fresh};
use super::setup::set_up;
use super::{ChangeSet, Desk, Finished, Work, stage};
use crate::agent::Stop;
use crate::event::{CheckRun, RunEvent, Side, Stage};
use crate::git::Signature;
use crate::job::JobError;
use crate::recorder::Recorder;
use crate::sandbox::{Exec, Exit, Sandbox};
use crate::text;
use crate::tool::Finish;

/// Most bytes of a command's output that are kept with its result.
const MAX_TAIL_BYTES: usize = 4 * 1024;

/// What the checks said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// The commands, in order.
    pub commands: Vec<String>,
    /// Results before the change.
    pub base: Vec<CheckRun>,
    /// Results after the change; empty when they did not run.
    pub head: Vec<CheckRun>,
    /// The command that alone decides whether the work is done; one of `commands`.
    pub acceptance: Option<String>,
}

impl Verdict {
    /// A verdict to be filled.
    pub fn new(commands: Vec<String>) -> Self {
        Self {
            commands,
            ..Self::default()
        }
    }

    /// The last result of the command that decides, where there is one and it ran.
    pub fn accepted(&self) -> Option<&CheckRun> {
        let command = self.acceptance.as_deref()?;
        let last = self.head.iter().chain(&self.base);
        last.filter(|check| check.command == command)
            .max_by_key(|check| check.side == Side::Head)
    }

    /// Every check ran on the change and passed. Without any check nothing is verified.
    pub fn passed(&self) -> bool {
        !self.head.is_empty() && self.head.len() == self.commands.len() && self.head.iter().all(CheckRun::passed)
    }

    /// Checks that do not pass after the change and are not known to have failed before it.
    pub fn regressions(&self) -> Vec<&CheckRun> {
        let failed_before = |check: &CheckRun| {
            self.base
                .iter()
                .any(|base| base.command == check.command && !base.passed())
        };
        self.head
            .iter()
            .filter(|check| !check.passed() && !failed_before(check))
            .collect()
    }

    /// Checks that failed before the change and pass after it.
    pub fn repaired(&self) -> Vec<&CheckRun> {
        let failed_before = |check: &CheckRun| {
            self.base
                .iter()
                .any(|base| base.command == check.command && !base.passed())
        };
        self.head
            .iter()
            .filter(|check| check.passed() && failed_before(check))
            .collect()
    }

    /// What the agent is told of the base before it begins.
    pub(super) fn base_in_words(&self) -> Vec<String> {
        let failed = self.base.iter().filter(|check| !check.passed());
        failed
            .map(|check| {
                format!(
                    "Before any change, `{}` ends with {}:\n{}",
                    check.command,
                    exit_in_words(check),
                    check.output_tail
                )
            })
            .collect()
    }

    /// What the agent is told when its change does not pass.
    fn failure_in_words(&self) -> Option<String> {
        let failing: Vec<&CheckRun> = self.head.iter().filter(|check| !check.passed()).collect();
        if failing.is_empty() {
            return None;
        }
        let regressions = self.regressions();
        let mut words = "The checks were run on a fresh checkout of the change and do not pass. Mend the change and call finish again, or finish again and say under not_done why they cannot pass.\n".to_owned();
        for check in failing {
            let before = if regressions.contains(&check) {
                ""
            } else {
                " (it failed before your change, too; look for what is new in it)"
            };
            words.push_str(&format!(
                "\n`{}` ends with {}{before}:\n{}\n",
                check.command,
                exit_in_words(check),
                check.output_tail
            ));
        }
        Some(words)
    }
}

/// A verdict to be filled. The command that decides is a check like the others and runs last.
pub(super) fn verdict_of(work: &mut Work) -> Verdict {
    if let Some(acceptance) = &work.acceptance {
        work.brief.checks.retain(|check| check != acceptance);
        work.brief.checks.push(acceptance.clone());
    }
    Verdict {
        acceptance: work.acceptance.clone(),
        ..Verdict::new(work.brief.checks.clone())
    }
}

/// How a run ends that has nothing to do: the command that decides passes before any change.
pub(super) fn done_before(verdict: &Verdict, is_untouched: bool) -> Option<Finished> {
    let passes = verdict.accepted().is_some_and(CheckRun::passed);
    (is_untouched && passes).then(|| Finished {
        stop: Stop::Finished(Finish::NothingToDo {
            reason: format!("`{}` passes already", verdict.acceptance.as_deref().unwrap_or_default()),
            threads: Vec::new(),
        }),
        last_words: String::new(),
        change: None,
        violations: Vec::new(),
        verdict: verdict.clone(),
        drafts: Vec::new(),
    })
}

/// What the agent has to look at again. Failures that were there before its change, and that it
/// named, are no reason.
pub(super) fn complaint(verdict: &Verdict, violations: &[String], stop: &Stop) -> Option<String> {
    if !violations.is_empty() {
        return Some(format!(
            "The change cannot be published. Undo or change this, then call finish again:\n{}",
            violations.join("\n")
        ));
    }
    if verdict.accepted().is_some_and(CheckRun::passed) {
        return None; // it alone decides
    }
    let named = verdict.acceptance.is_none()
        && matches!(stop, Stop::Finished(Finish::Done { not_done, .. }) if !not_done.trim().is_empty());
    if named && verdict.regressions().is_empty() {
        return None;
    }
    verdict.failure_in_words()
}

fn exit_in_words(check: &CheckRun) -> String {
    match (&check.killed, check.exit_code) {
        (Some(killed), _) => killed.clone(),
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => "no exit code".to_owned(),
    }
}

/// Runs set-up and checks on a fresh checkout of exactly the tree that would be published, so
/// that nothing the agent left beside it can help.
pub(super) async fn check_head(desk: &Desk<'_>, work: &Work, change: &ChangeSet) -> Result<Vec<CheckRun>, JobError> {
    let checks = async {
        let (ports, cancel) = (desk.ports, desk.cancel);
        let by = Signature::of_program(ports.clock.now());
        let sha = ports
            .git
            .commit(&change.import, &work.base, "verification", &by)
            .await?;
        let beside = desk.folder.root().join("verify");
        let source = Source {
            repo: &change.import.repo,
            remote: &work.remote,
            at: &sha,
        };
        let folder = fresh(ports, &beside, &desk.place.job, source, work).await?;
        let sandbox = sandbox_over(ports, work, &folder, desk.gate).await?;
        let result = async {
            set_up(desk, &work.setup, &folder, &sandbox).await?;
            run_checks(&sandbox, &work.brief.checks, Side::Head, desk.recorder, cancel).await
        }
        .await;
        sandbox.close().await;
        result
    };
    stage(desk.recorder, Stage::Verify, checks).await
}

/// Runs the checks in a sandbox.
pub(super) async fn run_checks(
    sandbox: &Arc<dyn Sandbox>,
    commands: &[String],
    side: Side,
    recorder: &Recorder,
    cancel: &CancellationToken,
) -> Result<Vec<CheckRun>, JobError> {
    let mut checks = Vec::new();
    for command in commands {
        let started = Instant::now();
        let ran = sandbox.exec(&Exec::shell(command.clone()), cancel).await?;
        let (exit_code, killed) = match &ran.exit {
            Exit::Code(code) => (Some(*code), None),
            Exit::Signal(signal) => (None, Some(format!("signal {signal}"))),
            Exit::Limit(limit) => (None, Some(limit.clone())),
            Exit::Cancelled => return Ok(checks),
        };
        let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let output_tail = recorder.redactor().redact(&text::reveal(&tail_of(&ran.output)));
        let check = CheckRun {
            command: command.clone(),
            side,
            exit_code,
            killed,
            took_ms,
            output_tail,
        };
        recorder.record(RunEvent::Checked { check: check.clone() }).await?;
        checks.push(check);
    }
    Ok(checks)
}

/// The last lines of an output: what failed stands there, and not before it.
pub(super) fn tail_of(output: &str) -> String {
    let from = output.ceil_char_boundary(output.len().saturating_sub(MAX_TAIL_BYTES));
    let from = match output[from..].find('\n') {
        Some(end) if from > 0 => from + end + 1,
        _ => from,
    };
    if from == 0 {
        return output.to_owned();
    }
    let before = text::bytes_in_words(from as u64);
    format!("[{before} of output before this]\n{}", &output[from..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &str, side: Side, exit_code: i32) -> CheckRun {
        CheckRun {
            command: command.into(),
            side,
            exit_code: Some(exit_code),
            killed: None,
            took_ms: 1,
            output_tail: String::new(),
        }
    }

    #[test]
    fn the_verdict_comes_from_exit_codes() {
        let mut verdict = Verdict::new(vec!["test".into(), "lint".into()]);
        assert!(!verdict.passed(), "nothing ran");
        verdict.base = vec![check("test", Side::Base, 1), check("lint", Side::Base, 0)];
        verdict.head = vec![check("test", Side::Head, 0), check("lint", Side::Head, 2)];
        assert!(!verdict.passed());
        assert_eq!(verdict.regressions()[0].command, "lint");
        assert_eq!(verdict.repaired()[0].command, "test");
        verdict.head[1].exit_code = Some(0);
        assert!(verdict.passed() && verdict.regressions().is_empty());
    }

    #[test]
    fn failures_that_were_there_before_and_are_named_are_accepted() {
        let done = |not_done: &str| {
            Stop::Finished(Finish::Done {
                title: "t".into(),
                summary: "s".into(),
                risks: String::new(),
                not_done: not_done.into(),
                unfinished: Vec::new(),
                threads: Vec::new(),
            })
        };
        let mut verdict = Verdict::new(vec!["test".into()]);
        verdict.base = vec![check("test", Side::Base, 1)];
        verdict.head = vec![check("test", Side::Head, 1)];
        assert_eq!(complaint(&verdict, &[], &done("one test fails as before")), None);
        let asked = complaint(&verdict, &[], &done(" ")).unwrap();
        assert!(
            asked.contains("`test` ends with exit code 1 (it failed before"),
            "{asked}"
        );
        verdict.base[0].exit_code = Some(0);
        let asked = complaint(&verdict, &[], &done("it fails")).unwrap();
        assert!(asked.contains("`test` ends with exit code 1:"), "{asked}");
        let broken = complaint(&verdict, &["no".into()], &done("")).unwrap();
        assert!(broken.contains("cannot be published") && broken.ends_with("no"));
        verdict.head[0].exit_code = Some(0);
        assert_eq!(complaint(&verdict, &[], &done("")), None);
    }

    #[test]
    fn the_end_of_an_output_is_kept() {
        assert_eq!(tail_of("a\nb"), "a\nb");
        let output = format!("{}the end\n", "warning: ä\n".repeat(1_000));
        let tail = tail_of(&output);
        assert!(tail.len() < MAX_TAIL_BYTES + 60, "{}", tail.len());
        assert!(
            tail.starts_with("[7.7 KiB of output before this]\nwarning: ä\n"),
            "{tail}"
        );
        assert!(tail.ends_with("\nthe end\n"));
        assert!(tail_of(&"ä".repeat(5_000)).ends_with('ä'));
    }
}
