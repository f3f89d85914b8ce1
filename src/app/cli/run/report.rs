//! The result of a local run, for people and for scripts, and its exit code.
//! Never decides anything about the work: it was done before.

use serde_json::{Value, json};

use super::super::progress::ending;
use super::{ERROR, INTERRUPTED};
use crate::agent::Stop;
use crate::event::{CheckRun, Totals};
use crate::ids::{BranchName, CommitSha};
use crate::publish::risks_of;
use crate::run::Finished;
use crate::text;
use crate::tool::Finish;

/// The agent got nowhere or refused, or its change broke what worked.
const NO_RESULT: u8 = 2;
/// A limit stopped it.
const LIMIT: u8 = 3;

/// What came of a run.
pub(super) struct Report<'a> {
    /// The commit it began from.
    pub(super) base: &'a CommitSha,
    /// What it came to; nothing when it failed before there was any work.
    pub(super) finished: Option<&'a Finished>,
    /// Why it failed, if it did.
    pub(super) failure: Option<String>,
    /// The branch that holds the change.
    pub(super) left: Option<(BranchName, CommitSha)>,
    /// What it took.
    pub(super) totals: Totals,
}

/// A failure before there was anything to report.
pub(super) fn failure(reason: &str, code: u8) -> Value {
    json!({"outcome": "failed", "exit_code": code, "reason": reason})
}

impl Report<'_> {
    /// The outcome in a word, and the exit code.
    pub(super) fn ending(&self) -> (&'static str, u8) {
        let finished = match (&self.failure, self.finished) {
            (Some(_), _) => return ("failed", ERROR),
            (None, None) => return ("cancelled", INTERRUPTED),
            (None, Some(finished)) => finished,
        };
        match &finished.stop {
            Stop::Finished(Finish::Done { .. }) if !finished.violations.is_empty() => ("not_allowed", NO_RESULT),
            Stop::Finished(Finish::Done { .. }) if finished.change.is_none() => ("no_change", NO_RESULT),
            Stop::Finished(Finish::Done { .. }) if !finished.verdict.regressions().is_empty() => {
                ("checks_failed", NO_RESULT)
            }
            Stop::Finished(Finish::Done { .. }) => ("done", 0),
            Stop::Finished(Finish::NothingToDo { .. }) => ("nothing_to_do", 0),
            Stop::Finished(Finish::Refused { .. }) => ("refused", NO_RESULT),
            Stop::Stuck(_) => ("stuck", NO_RESULT),
            Stop::NeedsInput(_) => ("needs_input", NO_RESULT),
            Stop::Budget(_) => ("budget", LIMIT),
            Stop::Cancelled => ("cancelled", INTERRUPTED),
        }
    }

    /// Why it did not end with a change, if it did not.
    fn reason(&self) -> Option<&str> {
        if let Some(failure) = &self.failure {
            return Some(failure);
        }
        match &self.finished?.stop {
            Stop::Finished(Finish::Done { .. }) | Stop::Cancelled | Stop::NeedsInput(_) => None,
            Stop::Finished(Finish::NothingToDo { reason } | Finish::Refused { reason })
            | Stop::Stuck(reason)
            | Stop::Budget(reason) => Some(reason),
        }
    }

    /// For scripts.
    pub(super) fn as_json(&self) -> Value {
        let (outcome, code) = self.ending();
        let change = self.finished.and_then(|finished| finished.change.as_ref());
        let files = change.map_or(&[][..], |change| &change.import.changes);
        let files: Vec<Value> = files
            .iter()
            .map(|file| {
                let (added, removed) = file.lines;
                json!({"path": file.path, "status": file.status, "added": added, "removed": removed})
            })
            .collect();
        let verdict = self.finished.map(|finished| &finished.verdict);
        let mut value = json!({
            "outcome": outcome,
            "exit_code": code,
            "reason": self.reason(),
            "base": self.base,
            "branch": self.left.as_ref().map(|(branch, _)| branch),
            "commit": self.left.as_ref().map(|(_, commit)| commit),
            "files": files,
            "diff": change.map(|change| &change.diff),
            "noticed": change.map(|change| risks_of(&change.diff)),
            "violations": self.finished.map(|finished| &finished.violations),
            "checks": {"base": verdict.map(|verdict| &verdict.base), "head": verdict.map(|verdict| &verdict.head)},
            "totals": self.totals,
        });
        if let Some(Stop::Finished(Finish::Done {
            title,
            summary,
            risks,
            not_done,
        })) = self.finished.map(|finished| &finished.stop)
        {
            for (name, text) in [
                ("title", title),
                ("summary", summary),
                ("risks", risks),
                ("not_done", not_done),
            ] {
                value[name] = json!(text);
            }
        }
        value
    }

    /// For people.
    pub(super) fn print(&self) {
        if let Some(finished) = self.finished {
            if let Some(change) = &finished.change {
                say!("{}\n", change.diff.trim_end());
            }
            print_checks(&finished.verdict.base, &finished.verdict.head);
        }
        self.print_words();
        let change = self.finished.and_then(|finished| finished.change.as_ref());
        for risk in change.map(|change| risks_of(&change.diff)).unwrap_or_default() {
            say!("\nNoticed in the difference: {risk}");
        }
        if let Some((branch, _)) = &self.left {
            let base = self.base.short();
            say!("\nThe change is on the branch {branch}. To see it: git diff {base}..{branch}");
        }
        let cost = if self.totals.price_unknown {
            "price unknown".to_owned()
        } else {
            format!("${:.4}", self.totals.cost_usd)
        };
        let Totals {
            turns,
            input_tokens,
            output_tokens,
            ..
        } = self.totals;
        say!("\n{turns} turns · {input_tokens} tokens in · {output_tokens} out · {cost}");
    }

    fn print_words(&self) {
        if let Some(failure) = &self.failure {
            note!("forgehand: {failure}");
            return;
        }
        let Some(finished) = self.finished else {
            say!("Stopped before there was a change.");
            return;
        };
        match &finished.stop {
            Stop::Finished(Finish::Done {
                title,
                summary,
                risks,
                not_done,
            }) => {
                say!("{title}\n\n{}", summary.trim());
                for (heading, text) in [("Look closely at", risks), ("Not done", not_done)] {
                    if !text.trim().is_empty() {
                        say!("\n{heading}: {}", text.trim());
                    }
                }
            }
            Stop::Finished(Finish::NothingToDo { reason }) => say!("No change needed: {reason}"),
            Stop::Finished(Finish::Refused { reason }) => say!("Not done: {reason}"),
            Stop::Budget(limit) => say!("Stopped by a limit: {limit}"),
            Stop::Stuck(why) => say!("It did not work out: {why}"),
            Stop::NeedsInput(_) => say!("It needs an answer of a person."),
            Stop::Cancelled => say!("Stopped."),
        }
        self.print_objections(finished);
    }

    /// Why a change that the agent calls done is not good.
    fn print_objections(&self, finished: &Finished) {
        for violation in &finished.violations {
            say!("\nNot allowed: {violation}");
        }
        match self.ending().0 {
            "no_change" => say!("\nBut no file differs from the base."),
            "checks_failed" => {
                for check in finished.verdict.regressions() {
                    let tail = text::cap_middle(check.output_tail.trim(), 2_000);
                    say!("\nPassed before and fails now: {}\n{tail}", check.command);
                }
            }
            _ => {}
        }
    }
}

/// One line for each check: before and after.
fn print_checks(base: &[CheckRun], head: &[CheckRun]) {
    let mut commands: Vec<&str> = Vec::new();
    for check in base.iter().chain(head) {
        if !commands.contains(&check.command.as_str()) {
            commands.push(&check.command);
        }
    }
    if commands.is_empty() {
        return;
    }
    let of = |side: &[CheckRun], command: &str| {
        let check = side.iter().find(|check| check.command == command);
        check.map_or_else(|| "not run".to_owned(), ending)
    };
    let rows: Vec<[String; 3]> = commands
        .iter()
        .map(|command| [(*command).to_owned(), of(base, command), of(head, command)])
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0).max("check".len()), width(1).max("before".len()));
    say!("{:first$}  {:second$}  after", "check", "before");
    for [command, before, after] in &rows {
        say!("{command:first$}  {before:second$}  {after}");
    }
    say!();
}
