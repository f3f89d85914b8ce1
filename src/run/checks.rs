//! Failed checks of a commit: which of them are the change's own, which fail on the base as well,
//! and what the agent is shown of them. What checks say is text of strangers.
//! Never takes a check for passed that nobody says has passed.

use std::fmt::Write as _;

use crate::github::{Annotated, Check, CheckRun, CheckState, GitHubError, RepoClient, Rollup};
use crate::ids::{CommitSha, JobId};
use crate::job::JobError;
use crate::phrase::check::NAME;
use crate::text;

/// Most checks of a commit that are read, and most failed ones that are shown.
const MAX_CHECKS: usize = 2_000;
const MAX_SHOWN: usize = 10;
/// Most bytes of one text of a check, and of everything that is shown.
const MAX_TEXT_BYTES: usize = 4 * 1024;
const MAX_SHOWN_BYTES: usize = 24 * 1024;
/// Most remarks on lines that are shown of one check, and most bytes of one.
const MAX_ANNOTATIONS: usize = 30;
const MAX_ANNOTATION_BYTES: usize = 500;

/// The failed checks of a head, by what the base says to them.
#[derive(Debug, Default)]
pub struct Sorted<'a> {
    /// They pass on the base.
    pub own: Vec<&'a Check>,
    /// They fail on the base, too.
    pub base: Vec<&'a Check>,
    /// They are under way on the base.
    pub pending: Vec<&'a Check>,
    /// The base says nothing of them that could be trusted.
    pub unknown: Vec<&'a Check>,
}

/// Sorts the failed checks of a head.
pub fn sort<'a>(head: &'a Rollup, base: &Rollup) -> Sorted<'a> {
    let mut sorted = Sorted::default();
    for check in head.failed() {
        let same = |other: &&Check| other.name == check.name && other.app == check.app;
        let group = match base.checks.iter().find(same).map(|check| check.state) {
            Some(CheckState::Passed) => &mut sorted.own,
            Some(state) if state.is_failure() => &mut sorted.base,
            Some(state) if !state.is_completed() => &mut sorted.pending,
            _ => &mut sorted.unknown,
        };
        group.push(check);
    }
    sorted
}

/// What the failed checks of a commit say, for the agent.
///
/// # Errors
/// When GitHub does not answer; what may not be read is left out.
pub(super) async fn shown(client: &RepoClient, sha: &CommitSha) -> Result<String, JobError> {
    let mut out = "\n\n--- failed checks, as they describe themselves ---\n".to_owned();
    let runs = readable(client.check_runs(sha, MAX_CHECKS).await)?.unwrap_or_default();
    let failed = |run: &&CheckRun| {
        matches!(
            run.conclusion.as_deref(),
            Some("failure" | "timed_out" | "startup_failure")
        )
    };
    for run in runs.iter().filter(failed).filter(|run| !is_ours(run)).take(MAX_SHOWN) {
        let remarks = match run.output.annotations_count {
            0 => Vec::new(),
            _ => readable(client.annotations(run.id, MAX_ANNOTATIONS).await)?.unwrap_or_default(),
        };
        of_run(&mut out, run, &remarks);
    }
    let statuses = readable(client.combined_status(sha, MAX_CHECKS).await)?;
    let statuses = statuses.map(|combined| combined.statuses).unwrap_or_default();
    let failed = statuses
        .iter()
        .filter(|status| matches!(status.state.as_str(), "failure" | "error"));
    for status in failed.take(MAX_SHOWN) {
        let _ = writeln!(out, "\n=== {}: {}", line(&status.context), status.state);
        words(&mut out, status.description.as_deref());
        words(&mut out, status.target_url.as_deref());
    }
    Ok(text::cap_middle(&out, MAX_SHOWN_BYTES))
}

/// Without the permission there is nothing to show.
fn readable<T>(read: Result<T, GitHubError>) -> Result<Option<T>, JobError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(GitHubError::Forbidden { .. } | GitHubError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Our own check run is named and marked by us.
fn is_ours(run: &CheckRun) -> bool {
    run.name == NAME && run.external_id.parse::<JobId>().is_ok()
}

fn of_run(out: &mut String, run: &CheckRun, remarks: &[Annotated]) {
    let ended = run.conclusion.as_deref().unwrap_or_default();
    let _ = writeln!(out, "\n=== {}: {ended}", line(&run.name));
    for part in [
        &run.output.title,
        &run.output.summary,
        &run.output.text,
        &run.details_url,
    ] {
        words(out, part.as_deref());
    }
    for remark in remarks {
        let said = text::cap(&remark.message, MAX_ANNOTATION_BYTES).replace('\n', " ");
        let _ = writeln!(out, "- {}:{}: {said}", line(&remark.path), remark.start_line);
    }
}

fn words(out: &mut String, part: Option<&str>) {
    let part = part.map(str::trim).filter(|part| !part.is_empty());
    if let Some(part) = part {
        let _ = writeln!(out, "{}", text::cap_middle(part, MAX_TEXT_BYTES));
    }
}

fn line(words: &str) -> String {
    text::cap(words, MAX_ANNOTATION_BYTES).replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::github::CheckSource;

    fn rollup(checks: &[(&str, CheckState)]) -> Rollup {
        let check = |(name, state): &(&str, CheckState)| Check {
            name: (*name).to_owned(),
            app: None,
            source: CheckSource::Status,
            state: *state,
            title: None,
            summary: None,
            details_url: None,
        };
        Rollup {
            sha: "a".repeat(40).parse().unwrap(),
            checks: checks.iter().map(check).collect(),
            unread: Vec::new(),
        }
    }

    #[test]
    fn only_what_passes_on_the_base_is_the_changes_own() {
        use CheckState::*;
        let head = rollup(&[
            ("a", Failed),
            ("b", TimedOut),
            ("c", Failed),
            ("d", Failed),
            ("e", Failed),
            ("f", Passed),
        ]);
        let base = rollup(&[
            ("a", Passed),
            ("b", Failed),
            ("c", Running),
            ("d", Neutral),
            ("f", Failed),
        ]);
        let sorted = sort(&head, &base);
        let names = |checks: &[&Check]| checks.iter().map(|check| check.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&sorted.own), ["a"]);
        assert_eq!(names(&sorted.base), ["b"]);
        assert_eq!(names(&sorted.pending), ["c"]);
        assert_eq!(names(&sorted.unknown), ["d", "e"]);
    }
}
