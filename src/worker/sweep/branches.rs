//! Branches that jobs pushed which came to nothing afterwards. Called by `forgehand recover` only.
//! Never deletes one unasked, nor one that somebody pushed to or opened a pull request from, however it ended.

use super::{Leftover, What};
use crate::git::{Git, Remote};
use crate::github::{Access, GitHub, GitHubError};
use crate::store::{LeftBranch, Store, StoreError};

/// Most branches that are looked at in one go: each costs two calls.
const MAX_BRANCHES: u32 = 100;

/// Those that are still there, without any pull request; deleted where there is a `git` to do it with.
///
/// # Errors
/// Of the database.
pub async fn branches(store: &Store, github: &GitHub, git: Option<&Git>) -> Result<Vec<Leftover>, StoreError> {
    let known = store.begin().await?.branches_left(MAX_BRANCHES).await?;
    let mut left = Vec::new();
    for branch in known {
        match look(github, &branch, git).await {
            Ok(found) => left.extend(found),
            Err(error) => {
                tracing::warn!(repo = %branch.repo, branch = %branch.branch, %error, "a branch could not be looked at")
            }
        }
    }
    Ok(left)
}

async fn look(github: &GitHub, left: &LeftBranch, git: Option<&Git>) -> Result<Option<Leftover>, GitHubError> {
    let client = |access| github.repo(left.installation, left.repo_id, left.repo.clone(), access);
    let reader = client(Access::Read).under_present_name().await?;
    let Some(sha) = reader.branch_sha(&left.branch).await? else {
        return Ok(None);
    };
    if !reader.pulls_by_head(&left.branch).await?.is_empty() {
        return Ok(None);
    }
    let what = format!(
        "of job {}, which ended on {} and opened no pull request",
        left.job,
        left.since.format("%Y-%m-%d")
    );
    let found = Leftover::new(What::Branch, format!("{} {}", left.repo, left.branch), what);
    if sha != left.sha {
        return Ok(Some(found.done("it stays: somebody pushed to it since")));
    }
    let Some(git) = git else {
        return Ok(Some(found));
    };
    let writer = client(Access::Write).under_present_name().await?;
    let remote = Remote {
        url: writer.git_url(),
        token: Some(writer.git_token().await?),
    };
    if let Err(error) = writer.turn_to_push().await {
        return Ok(Some(found.done(format!("it stays: {error}"))));
    }
    Ok(Some(match git.delete_branch(&remote, &left.branch, &left.sha).await {
        Ok(()) => found.done("deleted"),
        Err(error) => found.done(format!("it stays: {error}")),
    }))
}
