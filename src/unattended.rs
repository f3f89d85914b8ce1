//! Work that nobody waits for: schedules, queues that are polled, work graphs, and the account of it.
//! Each part is one pass over the database and the clock that may be repeated, or run in several
//! processes at once; rows decide, not memory.
//! Never works on anything itself: it inserts jobs, and reads what became of them.

mod accounts;
mod alerts;
pub mod autotask;
pub mod cron;
mod graphs;
pub mod ledger;

pub use accounts::Accounts;
pub use alerts::Alerts;
pub use graphs::{Advanced, Concluded, Graphs};

use crate::github::{GitHub, GitHubError};
use crate::ids::RepoName;
use crate::store::{RepoRow, Store, StoreError};

/// Why a repository was not found by its name.
#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    /// There is none, or the App is not installed on it.
    #[error("{0} does not exist, or the App is not installed on it")]
    Unknown(RepoName),
    /// GitHub does not tell now.
    #[error(transparent)]
    GitHub(GitHubError),
    /// The database does not.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The repository of a name, with the installation that may speak for it: as last heard, else asked
/// of GitHub and stored. A name may have moved since: the job compares the number.
///
/// # Errors
/// [`LocateError`] by what can be done about it.
pub async fn locate(github: &GitHub, store: &Store, name: &RepoName) -> Result<RepoRow, LocateError> {
    let mut tx = store.begin().await?;
    if let Some(known) = tx.repo_by_name(name).await? {
        return Ok(known);
    }
    drop(tx);
    let located = match github.locate(name).await {
        Ok(located) => located,
        Err(GitHubError::NotFound { .. } | GitHubError::Rejected { .. }) => {
            return Err(LocateError::Unknown(name.clone()));
        }
        Err(error) => return Err(LocateError::GitHub(error)),
    };
    let row = RepoRow {
        id: located.id,
        name: located.name,
        installation: located.installation,
        active: true,
    };
    let mut tx = store.begin().await?;
    tx.upsert_repo(&row).await?;
    tx.commit().await?;
    Ok(row)
}
