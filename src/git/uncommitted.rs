//! How many files of a person's checkout differ from its last commit, so that it can be said that a
//! run leaves them out. Never runs a filter or another program that the checkout's configuration
//! names, never writes its index, and never looks into submodules.

use std::time::Duration;

use super::local::{LocalRepo, git_folder};
use super::{Git, GitError};

/// A checkout that takes longer to look through is not counted.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Most bytes of the list; a longer one is not counted.
const MAX_LIST: usize = 4 * 1024 * 1024;

/// Files that are not as in the last commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Uncommitted {
    /// Files of the commit that were changed or removed, and files added to the index.
    pub changed: usize,
    /// Files that git does not know and does not ignore; a folder of them counts as one.
    pub unknown: usize,
}

/// Counts them.
pub(super) async fn count(git: &Git, repo: &LocalRepo) -> Result<Uncommitted, GitError> {
    let mut found = Uncommitted::default();
    for entry in list(git, repo, "normal").await? {
        if entry.starts_with(b"?? ") {
            found.unknown += 1;
        } else {
            found.changed += 1;
        }
    }
    Ok(found)
}

/// Their paths from the root of the checkout, those that are not UTF-8 left out. A path that is not
/// there any more was removed.
pub(super) async fn paths(git: &Git, repo: &LocalRepo) -> Result<Vec<String>, GitError> {
    let entries = list(git, repo, "all").await?;
    let path = |entry: &Vec<u8>| entry.get(3..).and_then(|path| String::from_utf8(path.to_vec()).ok());
    Ok(entries.iter().filter_map(path).collect())
}

/// What git says of each: two letters, a space, the path.
async fn list(git: &Git, repo: &LocalRepo, unknown: &str) -> Result<Vec<Vec<u8>>, GitError> {
    let own = git_folder(&repo.root)?;
    let mut call = git
        .call(&[
            "status",
            "--porcelain=v1",
            "-z",
            "--no-renames",
            "--ignore-submodules=all",
        ])
        .arg(format!("--untracked-files={unknown}"))
        .git_dir(&own)
        .env("GIT_WORK_TREE", &repo.root)
        .timeout(TIMEOUT)
        .max_stdout(MAX_LIST);
    for filter in filters(git, &own).await? {
        for (key, nothing) in [("clean", ""), ("process", ""), ("required", "false")] {
            call = call.config(format!("filter.{filter}.{key}={nothing}"));
        }
    }
    let listed = call.run().await?;
    let entries = listed.stdout.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    Ok(entries.map(<[u8]>::to_vec).collect())
}

/// Names of the filters that the checkout's configuration defines. Git would run them on files
/// that may have changed; without them such a file counts as changed, which is good enough.
async fn filters(git: &Git, own: &std::path::Path) -> Result<Vec<String>, GitError> {
    let listed = git
        .call(&[
            "config",
            "-z",
            "--name-only",
            "--get-regexp",
            r"^filter\..*\.(clean|process)$",
        ])
        .git_dir(own)
        .output()
        .await?;
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut filters = Vec::new();
    for key in names.split('\0').filter(|key| !key.is_empty()) {
        let name = key.strip_prefix("filter.").and_then(|rest| rest.rsplit_once('.'));
        let Some((name, _)) = name else { continue };
        if name.contains(['=', '\n', '\u{fffd}']) {
            return Err(GitError::Failed(format!("the filter {name:?} cannot be switched off")));
        }
        filters.push(name.to_owned());
    }
    match listed.truncated {
        true => Err(GitError::Failed("the checkout defines too many filters".to_owned())),
        false => Ok(filters),
    }
}
