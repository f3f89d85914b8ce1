//! The result of a local run for scripts, and its exit code; how people see it is in `print`.
//! Never decides anything about the work: it was done before.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ERROR, INTERRUPTED, drafts};
use crate::agent::Stop;
use crate::event::Totals;
use crate::git::LocalRepo;
use crate::ids::{BranchName, CommitSha};
use crate::phrase::Language;
use crate::publish::risks_of;
use crate::run::Finished;
use crate::tool::{Finish, Mode};

mod print;

/// The agent got nowhere or refused, or its change broke what worked.
const NO_RESULT: u8 = 2;
/// A limit stopped it.
const LIMIT: u8 = 3;

/// What came of a run.
pub(super) struct Report<'a> {
    /// The checkout it began from.
    pub(super) repo: &'a LocalRepo,
    /// What it came to; nothing when it failed before there was any work.
    pub(super) finished: Option<&'a Finished>,
    /// Why it failed, if it did.
    pub(super) failure: Option<String>,
    /// The branch that holds the change.
    pub(super) left: Option<(BranchName, CommitSha)>,
    /// What it took.
    pub(super) totals: Totals,
    /// How long it took.
    pub(super) took: Duration,
    /// What it was for.
    pub(super) mode: Mode,
    /// What the program's own words in a draft are written in.
    pub(super) language: Language,
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
            Stop::Finished(Finish::Answered { .. }) => match (self.mode, finished.drafts.is_empty()) {
                (Mode::Draft, true) => ("nothing_drafted", NO_RESULT),
                (Mode::Draft, false) => ("drafted", 0),
                _ => ("answered", 0),
            },
            Stop::Finished(Finish::Planned(_)) => ("planned", 0),
            Stop::Finished(Finish::Reviewed(_)) => ("reviewed", 0),
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
            Stop::Finished(
                Finish::Done { .. } | Finish::Answered { .. } | Finish::Planned(_) | Finish::Reviewed(_),
            )
            | Stop::Cancelled
            | Stop::NeedsInput(_) => None,
            Stop::Finished(Finish::NothingToDo { reason, .. } | Finish::Refused { reason })
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
            "base": self.repo.head,
            "branch": self.left.as_ref().map(|(branch, _)| branch),
            "commit": self.left.as_ref().map(|(_, commit)| commit),
            "files": files,
            "diff": change.map(|change| &change.diff),
            "noticed": change.map(|change| risks_of(Language::English, &change.diff)),
            "violations": self.finished.map(|finished| &finished.violations),
            "checks": {"base": verdict.map(|verdict| &verdict.base), "head": verdict.map(|verdict| &verdict.head)},
            "totals": self.totals,
        });
        if let Some(finished) = self
            .finished
            .filter(|finished| self.mode == Mode::Draft || !finished.drafts.is_empty())
        {
            value["drafts"] = drafts::as_json(finished, self.language);
        }
        match self.finished.map(|finished| &finished.stop) {
            Some(Stop::Finished(Finish::Answered { answer })) => value["answer"] = json!(answer),
            Some(Stop::Finished(Finish::Planned(plan))) => value["plan"] = json!(plan),
            Some(Stop::Finished(Finish::Reviewed(review))) => value["review"] = json!(review),
            _ => {}
        }
        if let Some(Stop::Finished(Finish::Done {
            title,
            summary,
            risks,
            not_done,
            ..
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
}
