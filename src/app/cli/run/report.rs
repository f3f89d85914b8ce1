//! The result of a local run for scripts, and its exit code; how people see it is in `print`.
//! Never decides anything about the work: it was done before.

use serde_json::{Value, json};

use super::args::Presence;
use super::drafts;
use super::ending::Ending;
use super::local::Done;
use crate::agent::Stop;
use crate::event::CheckRun;
use crate::git::LocalRepo;
use crate::phrase::Language;
use crate::publish::risks_of;
use crate::run::Finished;
use crate::tool::{Finish, Mode};

mod print;

/// What came of a run.
pub(super) struct Report<'a> {
    /// The checkout it began from.
    pub(super) repo: &'a LocalRepo,
    /// What the run came to.
    pub(super) done: &'a Done,
    /// Whether somebody was there to stop it.
    pub(super) presence: Presence,
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
    pub(super) fn ending(&self) -> (&'static str, Ending) {
        let finished = match (&self.done.failure, &self.done.finished) {
            (Some(_), _) => return ("failed", Ending::Error),
            (None, None) => return ("cancelled", self.stopped()),
            (None, Some(finished)) => finished,
        };
        let accepted = finished.verdict.accepted().map(CheckRun::passed);
        match &finished.stop {
            Stop::Finished(Finish::Done { .. } | Finish::NothingToDo { .. }) if accepted == Some(false) => {
                ("not_accepted", Ending::NoResult)
            }
            Stop::Finished(Finish::Done { .. }) if !finished.violations.is_empty() => ("not_allowed", Ending::NoResult),
            Stop::Finished(Finish::Done { .. }) if finished.change.is_none() => ("no_change", Ending::NoResult),
            Stop::Finished(Finish::Done { .. }) if accepted.is_none() && !finished.verdict.regressions().is_empty() => {
                ("checks_failed", Ending::NoResult)
            }
            Stop::Finished(Finish::Done { unfinished, .. }) if !unfinished.is_empty() => {
                ("unfinished", Ending::NoResult)
            }
            Stop::Finished(Finish::Done { .. }) => ("done", Ending::Done),
            Stop::Finished(Finish::NothingToDo { .. }) => ("nothing_to_do", Ending::Done),
            Stop::Finished(Finish::Answered { .. }) => match (self.mode, finished.drafts.is_empty()) {
                (Mode::Draft, true) => ("nothing_drafted", Ending::NoResult),
                (Mode::Draft, false) => ("drafted", Ending::Done),
                _ => ("answered", Ending::Done),
            },
            Stop::Finished(Finish::Planned(_)) => ("planned", Ending::Done),
            Stop::Finished(Finish::Reviewed(_)) => ("reviewed", Ending::Done),
            Stop::Finished(Finish::Refused { .. }) => ("refused", Ending::NoResult),
            Stop::Stuck(_) => ("stuck", Ending::NoResult),
            Stop::NeedsInput(_) => ("needs_input", Ending::NoResult),
            Stop::Budget(_) => ("budget", Ending::Limit),
            Stop::Cancelled => ("cancelled", self.stopped()),
        }
    }

    /// Whoever stops a run that nobody watches means it: the scheduler has nothing to repair.
    fn stopped(&self) -> Ending {
        match self.presence {
            Presence::Attended => Ending::Interrupted,
            Presence::Unattended => Ending::Done,
        }
    }

    /// Why it did not end with a change, if it did not.
    pub(super) fn reason(&self) -> Option<&str> {
        if let Some(failure) = &self.done.failure {
            return Some(failure);
        }
        match &self.finished()?.stop {
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
        let change = self.finished().and_then(|finished| finished.change.as_ref());
        let files = change.map_or(&[][..], |change| &change.import.changes);
        let files: Vec<Value> = files
            .iter()
            .map(|file| {
                let (added, removed) = file.lines;
                json!({"path": file.path, "status": file.status, "added": added, "removed": removed})
            })
            .collect();
        let verdict = self.finished().map(|finished| &finished.verdict);
        let mut value = json!({
            "outcome": outcome,
            "exit_code": code.code(),
            "reason": self.reason(),
            "base": self.done.base,
            "branch": self.done.left.as_ref().map(|(branch, _)| branch),
            "commit": self.done.left.as_ref().map(|(_, commit)| commit),
            "files": files,
            "diff": change.map(|change| &change.diff),
            "noticed": change.map(|change| risks_of(Language::English, &change.diff)),
            "violations": self.finished().map(|finished| &finished.violations),
            "checks": {"base": verdict.map(|verdict| &verdict.base), "head": verdict.map(|verdict| &verdict.head)},
            "totals": self.done.totals,
        });
        if let Some(finished) = self
            .finished()
            .filter(|finished| self.mode == Mode::Draft || !finished.drafts.is_empty())
        {
            value["drafts"] = drafts::as_json(finished, self.language);
        }
        match self.finished().map(|finished| &finished.stop) {
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
            unfinished,
            ..
        })) = self.finished().map(|finished| &finished.stop)
        {
            for (name, text) in [
                ("title", title),
                ("summary", summary),
                ("risks", risks),
                ("not_done", not_done),
            ] {
                value[name] = json!(text);
            }
            if !unfinished.is_empty() {
                value["unfinished"] = json!(unfinished);
            }
        }
        value
    }

    fn finished(&self) -> Option<&Finished> {
        self.done.finished.as_ref()
    }
}
