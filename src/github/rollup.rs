//! What all check runs and statuses of a commit say together. Called by `run` and `worker`.
//! Never says that something passed that it does not know: no check at all, a part that could
//! not be read and a word that nobody knows are all unknown.

use crate::ids::{AppId, CommitSha};

use super::checks::{CheckRun, CommitStatus};
use super::error::GitHubError;
use super::{AppRef, RepoClient};

/// More than GitHub shows of a commit; a list that reaches it is not whole.
const MAX_CHECKS: usize = 2_000;

/// Where a check stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckState {
    /// Not begun: `queued`, `waiting`, `requested`, `pending`.
    Queued,
    /// Under way.
    Running,
    /// Success.
    Passed,
    /// Failure, or it could not even start.
    Failed,
    /// It took too long.
    TimedOut,
    /// It waits for a person.
    ActionRequired,
    /// Somebody stopped it.
    Cancelled,
    /// Neither good nor bad.
    Neutral,
    /// Not needed.
    Skipped,
    /// GitHub gave it up.
    Stale,
    /// A word that we do not know.
    Unknown,
}

impl CheckState {
    /// Whether nothing more will come of it.
    pub fn is_completed(self) -> bool {
        !matches!(self, CheckState::Queued | CheckState::Running)
    }

    /// Whether it says that something is wrong with the commit.
    pub fn is_failure(self) -> bool {
        matches!(self, CheckState::Failed | CheckState::TimedOut)
    }
}

/// What a check was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckSource {
    /// A check run.
    Run {
        /// Its id, for [`RepoClient::rerequest_check_run`].
        id: u64,
    },
    /// A commit status.
    Status,
}

/// One check of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Name, or the status's context.
    pub name: String,
    /// The App of a check run; a status does not tell.
    pub app: Option<AppRef>,
    /// What it was read from.
    pub source: CheckSource,
    /// Where it stands.
    pub state: CheckState,
    /// A line of words.
    pub title: Option<String>,
    /// What it says at length.
    pub summary: Option<String>,
    /// Where its maker shows it.
    pub details_url: Option<String>,
}

/// What all of it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// At least one check passed, none is missing, and the rest are neutral or skipped.
    Passed,
    /// At least one check failed, whatever the others do.
    Failed,
    /// None failed so far and some are not completed.
    Pending,
    /// Nothing that could be trusted.
    Unknown,
}

/// All checks of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollup {
    /// The commit.
    pub sha: CommitSha,
    /// Check runs, then statuses.
    pub checks: Vec<Check>,
    /// Why a part could not be read, for people.
    pub unread: Vec<String>,
}

impl Rollup {
    /// What it means together.
    pub fn verdict(&self) -> Verdict {
        let any = |wanted: &dyn Fn(CheckState) -> bool| self.checks.iter().any(|check| wanted(check.state));
        if any(&CheckState::is_failure) {
            return Verdict::Failed;
        }
        if !self.unread.is_empty() || self.checks.is_empty() {
            return Verdict::Unknown;
        }
        if any(&|state| !state.is_completed()) {
            return Verdict::Pending;
        }
        let fine = |state| matches!(state, CheckState::Passed | CheckState::Neutral | CheckState::Skipped);
        if any(&|state| !fine(state)) || !any(&|state| state == CheckState::Passed) {
            return Verdict::Unknown;
        }
        Verdict::Passed
    }

    /// Whether everything was read and nothing is under way.
    pub fn is_completed(&self) -> bool {
        self.unread.is_empty() && self.checks.iter().all(|check| check.state.is_completed())
    }

    /// The checks that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| check.state.is_failure())
    }

    /// Without the checks of one App: our own say nothing about the commit.
    #[must_use]
    pub fn without_app(mut self, app: AppId) -> Self {
        self.checks
            .retain(|check| check.app.as_ref().is_none_or(|by| by.id != app));
        self
    }
}

impl RepoClient {
    /// All checks of a commit. A part that the App may not read is named in
    /// [`Rollup::unread`]; any other failure to read is an error.
    pub async fn rollup(&self, sha: &CommitSha) -> Result<Rollup, GitHubError> {
        let mut rollup = Rollup {
            sha: sha.clone(),
            checks: Vec::new(),
            unread: Vec::new(),
        };
        let runs = self.check_runs(sha, MAX_CHECKS).await;
        rollup.take("check runs", runs, of_run)?;
        let statuses = self.combined_status(sha, MAX_CHECKS).await;
        rollup.take("commit statuses", statuses.map(|combined| combined.statuses), of_status)?;
        Ok(rollup)
    }
}

impl Rollup {
    fn take<T>(
        &mut self,
        what: &str,
        part: Result<Vec<T>, GitHubError>,
        read: impl Fn(T) -> Check,
    ) -> Result<(), GitHubError> {
        match part {
            Ok(part) => {
                if part.len() >= MAX_CHECKS {
                    self.unread.push(format!("{what}: there are more than {MAX_CHECKS}"));
                }
                self.checks.extend(part.into_iter().map(read));
                Ok(())
            }
            Err(GitHubError::Forbidden { detail, .. }) => {
                self.unread.push(format!("{what}: {detail}"));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

fn of_run(run: CheckRun) -> Check {
    Check {
        state: run_state(&run.status, run.conclusion.as_deref()),
        name: run.name,
        app: run.app,
        source: CheckSource::Run { id: run.id },
        title: run.output.title,
        summary: run.output.summary,
        details_url: run.details_url,
    }
}

fn of_status(status: CommitStatus) -> Check {
    let state = match status.state.as_str() {
        "pending" => CheckState::Queued,
        "success" => CheckState::Passed,
        "failure" | "error" => CheckState::Failed,
        _ => CheckState::Unknown,
    };
    Check {
        name: status.context,
        app: None,
        source: CheckSource::Status,
        state,
        title: status.description,
        summary: None,
        details_url: status.target_url,
    }
}

fn run_state(status: &str, conclusion: Option<&str>) -> CheckState {
    match (status, conclusion) {
        ("queued" | "waiting" | "requested" | "pending", _) => CheckState::Queued,
        ("in_progress", _) => CheckState::Running,
        ("completed", Some("success")) => CheckState::Passed,
        ("completed", Some("failure" | "startup_failure")) => CheckState::Failed,
        ("completed", Some("timed_out")) => CheckState::TimedOut,
        ("completed", Some("action_required")) => CheckState::ActionRequired,
        ("completed", Some("cancelled")) => CheckState::Cancelled,
        ("completed", Some("neutral")) => CheckState::Neutral,
        ("completed", Some("skipped")) => CheckState::Skipped,
        ("completed", Some("stale")) => CheckState::Stale,
        _ => CheckState::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rollup(states: &[CheckState], unread: &[&str]) -> Rollup {
        let check = |state: &CheckState| Check {
            name: "test".to_owned(),
            app: Some(AppRef { id: AppId(1) }),
            source: CheckSource::Status,
            state: *state,
            title: None,
            summary: None,
            details_url: None,
        };
        Rollup {
            sha: "a".repeat(40).parse().unwrap(),
            checks: states.iter().map(check).collect(),
            unread: unread.iter().map(|&text| text.to_owned()).collect(),
        }
    }

    #[test]
    fn what_is_not_known_has_not_passed() {
        use CheckState::*;
        for (states, unread, expected) in [
            ([].as_slice(), [].as_slice(), Verdict::Unknown),
            (&[Passed], &[], Verdict::Passed),
            (&[Passed, Neutral, Skipped], &[], Verdict::Passed),
            (&[Skipped], &[], Verdict::Unknown),
            (&[Passed, Running], &[], Verdict::Pending),
            (&[Passed, Queued], &[], Verdict::Pending),
            (&[Failed, Queued], &[], Verdict::Failed),
            (&[Passed, TimedOut], &[], Verdict::Failed),
            (&[Passed, Cancelled], &[], Verdict::Unknown),
            (&[Passed, ActionRequired], &[], Verdict::Unknown),
            (&[Passed, Stale], &[], Verdict::Unknown),
            (&[Passed, Unknown], &[], Verdict::Unknown),
            (&[Passed], &["statuses: forbidden"], Verdict::Unknown),
            (&[Failed], &["statuses: forbidden"], Verdict::Failed),
        ] {
            assert_eq!(rollup(states, unread).verdict(), expected, "{states:?} {unread:?}");
        }
    }

    #[test]
    fn our_own_checks_can_be_left_out() {
        let both = rollup(&[CheckState::Running], &[]);
        assert_eq!(both.clone().without_app(AppId(1)).verdict(), Verdict::Unknown);
        assert_eq!(both.without_app(AppId(2)).verdict(), Verdict::Pending);
    }

    #[test]
    fn the_words_of_check_runs_are_read() {
        for (status, conclusion, expected) in [
            ("queued", None, CheckState::Queued),
            ("in_progress", None, CheckState::Running),
            ("completed", Some("success"), CheckState::Passed),
            ("completed", Some("startup_failure"), CheckState::Failed),
            ("completed", Some("splendid"), CheckState::Unknown),
            ("completed", None, CheckState::Unknown),
            ("dreaming", None, CheckState::Unknown),
        ] {
            assert_eq!(run_state(status, conclusion), expected, "{status} {conclusion:?}");
        }
    }
}
