//! The files that a pull request changes, as GitHub lists them. Called by `run` and `publish`.
//! Never fails for a pull request that is too large for GitHub: it says that the list is not
//! whole, and what can be known of it comes from git.

use serde::Deserialize;

use crate::ids::IssueNumber;

use super::RepoClient;
use super::client::Call;
use super::error::GitHubError;

/// GitHub lists no more files than this, however many there are.
const MOST_FILES: usize = 3_000;

/// How a file changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// New.
    Added,
    /// Deleted.
    Removed,
    /// Changed.
    Modified,
    /// Moved, perhaps with changes.
    Renamed,
    /// A copy of another file.
    Copied,
    /// Only its mode or kind.
    Changed,
    /// Not at all.
    Unchanged,
    /// A word that GitHub has added since.
    #[serde(other)]
    Other,
}

/// A changed file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PullFile {
    /// Path, after a move the new one.
    #[serde(rename = "filename")]
    pub path: String,
    /// Path before a move.
    #[serde(rename = "previous_filename", default)]
    pub previous_path: Option<String>,
    /// How it changed.
    #[serde(rename = "status")]
    pub kind: ChangeKind,
    /// Added lines.
    pub additions: u64,
    /// Deleted lines.
    pub deletions: u64,
    /// The hunks; `None` for binary and for very large files.
    #[serde(default)]
    pub patch: Option<String>,
}

/// Changed files, as far as GitHub tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullFiles {
    /// The files.
    pub files: Vec<PullFile>,
    /// Whether these are all.
    pub whole: bool,
}

impl RepoClient {
    /// `GET /pulls/{number}/files`, at most `max`.
    pub async fn pull_files(&self, number: IssueNumber, max: usize) -> Result<PullFiles, GitHubError> {
        let call = Call::get(&self.path(&["pulls", &number.to_string(), "files"]));
        // One more than wanted tells whether there are more.
        match self.list::<PullFile>(call, max.saturating_add(1), |_| true).await {
            Ok(mut files) => {
                let whole = files.len() <= max && files.len() < MOST_FILES;
                files.truncate(max);
                Ok(PullFiles { files, whole })
            }
            // GitHub's words for a diff that is too large to be made.
            Err(GitHubError::Rejected { .. }) => Ok(PullFiles {
                files: Vec::new(),
                whole: false,
            }),
            Err(error) => Err(error),
        }
    }
}
