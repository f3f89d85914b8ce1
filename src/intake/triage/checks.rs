//! What other programs say about a commit, and what people push to a pull request meanwhile.
//! Never decides whether a commit is ours: that stands in the database.

use super::{Intent, Seen};
use crate::ids::Subject;
use crate::intake::payload::{CheckFacts, PullFacts};
use crate::phrase::check as words;

/// Conclusions and states that say that something is wrong with the commit.
const FAILED: [&str; 5] = ["failure", "timed_out", "startup_failure", "error", "failed"];

impl Seen<'_> {
    pub(super) fn check(&self, check: &CheckFacts) -> Intent {
        let is_over = matches!(self.delivery.action.as_str(), "" | "completed");
        if !is_over || !FAILED.contains(&check.result.as_str()) {
            return Intent::Ignore("no check failed");
        }
        if check.app().is_some() && check.app() == self.rules.app_id {
            return Intent::Ignore("our own check");
        }
        match check.head_sha() {
            Some(sha) => Intent::ChecksFailed {
                repo: self.repo.id,
                sha,
                max_attempts: self.rules.max_attempts,
            },
            None => Intent::Ignore("the commit is not named"),
        }
    }

    pub(super) fn head_moved(&self, pull: &PullFacts) -> Intent {
        if let Err(reason) = self.person(None) {
            return Intent::Ignore(reason);
        }
        let who = self.delivery.sender.as_ref().map(|sender| sender.login.as_str());
        let (Some(who), Some(sha)) = (who, pull.head_sha()) else {
            return Intent::Ignore("the new head is not named");
        };
        Intent::HeadMoved {
            repo: self.repo.id,
            subject: Subject::Pull(pull.number),
            note: words::head_moved(self.rules.language, who, &sha.short()),
        }
    }
}
