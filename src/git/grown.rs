//! A branch of ours in a person's checkout that grows commit by commit, as a work graph goes on.
//! Called through `Git`. Never moves a branch that somebody has checked out, and never one that does
//! not stand where it is expected.

use super::checkout::pack_into;
use super::import::{commit, commit_tree};
use super::{Git, GitError, Import, LocalRepo, Signature};
use crate::ids::{BranchName, CommitSha};

/// Where the files of a commit come from.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// A change that was imported and checked.
    Import(&'a Import),
    /// A commit that the checkout has already.
    Commit(&'a CommitSha),
}

/// A commit of ours in a checkout.
#[derive(Debug, Clone, Copy)]
pub struct Growth<'a> {
    /// Its files.
    pub source: Source<'a>,
    /// What it stands on.
    pub parent: &'a CommitSha,
    /// What it says.
    pub message: &'a str,
    /// Who it is by.
    pub by: &'a Signature,
}

/// Puts a commit's objects into the checkout. The objects of an import were checked when it was
/// made, so their pack is written into place.
pub(super) async fn place(git: &Git, repo: &LocalRepo, growth: &Growth<'_>) -> Result<CommitSha, GitError> {
    let tree = match growth.source {
        Source::Import(import) => {
            // On its own base, which the import knows; what it is to stand on may be another commit.
            let carrier = commit(git, import, &import.base, growth.message, growth.by).await?;
            pack_into(git, &import.repo, &repo.git_dir, &["--revs"])
                .stdin(format!("{carrier}\n^{}\n", import.base))
                .run()
                .await?;
            import.tree.clone()
        }
        Source::Commit(sha) => {
            let call = git.call(&["rev-parse", "--verify", "--end-of-options"]);
            let tree = call.git_dir(&repo.git_dir).arg(format!("{sha}^{{tree}}")).run();
            tree.await?.line()
        }
    };
    commit_tree(git, &repo.git_dir, &tree, &[growth.parent], growth.message, growth.by).await
}

/// Moves a branch.
pub(super) async fn advance(
    git: &Git,
    repo: &LocalRepo,
    branch: &BranchName,
    from: Option<&CommitSha>,
    to: &CommitSha,
) -> Result<(), GitError> {
    checked_out_nowhere(git, repo, branch).await?;
    // The old value of a branch that must not exist is all zeros.
    let old = from.map_or_else(|| "0".repeat(to.as_str().len()), ToString::to_string);
    let moved = git
        .call(&["update-ref"])
        .git_dir(&repo.git_dir)
        .arg(branch.full_ref())
        .arg(to.as_str())
        .arg(old)
        .output()
        .await?;
    match moved.code {
        Some(0) => Ok(()),
        _ => Err(GitError::Moved(format!("{branch}: {}", moved.stderr.trim()))),
    }
}

/// The commit of a branch.
pub(super) async fn tip(git: &Git, repo: &LocalRepo, branch: &BranchName) -> Result<Option<CommitSha>, GitError> {
    match git.resolve(&repo.git_dir, &branch.full_ref()).await {
        Ok(sha) => Ok(Some(sha)),
        Err(GitError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes a branch.
pub(super) async fn remove(git: &Git, repo: &LocalRepo, branch: &BranchName, at: &CommitSha) -> Result<(), GitError> {
    checked_out_nowhere(git, repo, branch).await?;
    git.call(&["update-ref", "-d"])
        .git_dir(&repo.git_dir)
        .arg(branch.full_ref())
        .arg(at.as_str())
        .run()
        .await
        .map(drop)
}

/// A branch that somebody stands on is theirs for as long as they do.
async fn checked_out_nowhere(git: &Git, repo: &LocalRepo, branch: &BranchName) -> Result<(), GitError> {
    let found = git
        .call(&["for-each-ref", "--count=1", "--format=%(worktreepath)"])
        .git_dir(&repo.git_dir)
        .arg(branch.full_ref())
        .run()
        .await?;
    match found.line().as_str() {
        "" => Ok(()),
        place => Err(GitError::Refused(format!(
            "the branch {branch} is checked out in {place}; switch to another one there"
        ))),
    }
}
