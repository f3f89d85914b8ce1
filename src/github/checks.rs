//! What others say about a commit: check runs and commit statuses, as GitHub lists them. (What it all means together is in `rollup`.) Called by `run` and `worker`.
//! Never judges, and never writes: that is `check_writes`.

use chrono::{DateTime, Utc};
use serde::Deserialize;

use crate::ids::CommitSha;

use super::client::{Call, Need};
use super::error::GitHubError;
use super::payload::null_is_default;
use super::{AppRef, RepoClient};

/// One check of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct CheckRun {
    /// Id.
    pub id: u64,
    /// Name.
    pub name: String,
    /// The commit.
    pub head_sha: CommitSha,
    /// `queued`, `in_progress`, `completed`, `waiting`, `requested`, `pending`.
    pub status: String,
    /// Once completed: `success`, `failure`, `neutral`, `cancelled`, `skipped`, `timed_out`,
    /// `action_required`, `stale`, `startup_failure`.
    pub conclusion: Option<String>,
    /// The App that made it.
    pub app: Option<AppRef>,
    /// What its maker calls it.
    #[serde(default, deserialize_with = "null_is_default")]
    pub external_id: String,
    /// Where its maker shows it.
    #[serde(default)]
    pub details_url: Option<String>,
    /// When it ended.
    #[serde(default)]
    pub completed_at: Option<DateTime<Utc>>,
    /// What it says.
    #[serde(default)]
    pub output: CheckOutput,
}

/// The words of a check run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct CheckOutput {
    /// Title.
    #[serde(default)]
    pub title: Option<String>,
    /// Summary.
    #[serde(default)]
    pub summary: Option<String>,
    /// Details.
    #[serde(default)]
    pub text: Option<String>,
    /// Number of remarks on lines.
    #[serde(default)]
    pub annotations_count: u64,
}

/// A remark of a check run on lines of a file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Annotated {
    /// File.
    pub path: String,
    /// First line.
    #[serde(default, deserialize_with = "null_is_default")]
    pub start_line: u64,
    /// What it says.
    #[serde(default, deserialize_with = "null_is_default")]
    pub message: String,
}

/// One status of a commit, the older way of saying what a check run says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct CommitStatus {
    /// What it is about.
    pub context: String,
    /// `pending`, `success`, `failure`, `error`.
    pub state: String,
    /// A line of words.
    #[serde(default)]
    pub description: Option<String>,
    /// Where its maker shows it.
    #[serde(default)]
    pub target_url: Option<String>,
    /// When it was set.
    pub updated_at: DateTime<Utc>,
}

/// The last status of each context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CombinedStatus {
    /// The statuses. GitHub's own sum is left out: without any status it says `pending`.
    pub statuses: Vec<CommitStatus>,
}

impl RepoClient {
    /// The latest check runs of a commit of each name and App, at most `max`.
    pub async fn check_runs(&self, sha: &CommitSha, max: usize) -> Result<Vec<CheckRun>, GitHubError> {
        let call = Call::get(&self.path(&["commits", sha.as_str(), "check-runs"])).needs(Need::Checks);
        self.list_inside(call, "check_runs", max, |_| true).await
    }

    /// Remarks of a check run on lines, at most `max`.
    pub async fn annotations(&self, run: u64, max: usize) -> Result<Vec<Annotated>, GitHubError> {
        let call = Call::get(&self.path(&["check-runs", &run.to_string(), "annotations"])).needs(Need::Checks);
        self.list(call, max, |_| true).await
    }

    /// `GET /commits/{sha}/status`, at most `max` contexts.
    pub async fn combined_status(&self, sha: &CommitSha, max: usize) -> Result<CombinedStatus, GitHubError> {
        let call = Call::get(&self.path(&["commits", sha.as_str(), "status"])).needs(Need::Statuses);
        let statuses = self.list_inside(call, "statuses", max, |_| true).await?;
        Ok(CombinedStatus { statuses })
    }
}
