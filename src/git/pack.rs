//! Commits of ours in a file, so that they can be kept and pushed later, also from another machine:
//! written from the repository that they were made in, and read into a fresh one. Called by `run` and
//! `publish`. Never takes a commit out of a file whose id was not known before.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::checkout::init_bare;
use super::{Git, GitError, Remote, bundle, mirror};
use crate::ids::CommitSha;
use crate::text;

/// The ref that a bundle has.
const CHANGE_REF: &str = "refs/heads/change";
/// Longest time of one step.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Most memory of git on a pack.
const MAX_MEMORY: u64 = 4 << 30;

/// Writes a commit, without what its parents have, into a file of at most `max_bytes`.
pub(super) async fn write(
    git: &Git,
    repo: &Path,
    commit: &CommitSha,
    parents: &[&CommitSha],
    file: &Path,
    max_bytes: u64,
) -> Result<(), GitError> {
    let call = git.call(&["update-ref", "--end-of-options", CHANGE_REF]);
    call.arg(commit.as_str()).git_dir(repo).run().await?;
    let mut call = git
        .call(&["bundle", "create", "--quiet"])
        .arg(file)
        .arg(CHANGE_REF)
        .git_dir(repo)
        .timeout(TIMEOUT)
        .limits(max_bytes, MAX_MEMORY);
    for parent in parents {
        call = call.arg(format!("^{parent}"));
    }
    let output = call.output().await?;
    match output.code {
        Some(0) => Ok(()),
        _ => Err(GitError::Failed(format!(
            "a commit could not be written into a file of at most {}: {}",
            text::bytes_in_words(max_bytes),
            output.stderr
        ))),
    }
}

/// Reads a commit of ours into the fresh repository `into`, which borrows from the mirror. It must
/// be the one that was promised, and stand on these parents.
pub(super) async fn read(
    git: &Git,
    file: &Path,
    (mirror_path, remote): (&Path, &Remote),
    commit: &CommitSha,
    parents: &[&CommitSha],
    into: &Path,
) -> Result<(), GitError> {
    for parent in parents {
        mirror::complete_objects(git, mirror_path, remote, parent).await?;
    }
    borrow(git, mirror_path, commit, into).await?;
    let fail = |error: std::io::Error| GitError::Failed(format!("read {}: {error}", file.display()));
    let mut opened = bundle::open(file).map_err(fail)?;
    let size = opened.metadata().map_err(fail)?.len();
    let tip = bundle::read_head(&mut opened, parents).map_err(GitError::Failed)?;
    if tip != *commit {
        return Err(GitError::NotFound(format!(
            "commit {commit} in the stored change, which has {tip}"
        )));
    }
    let output = git
        .call(&["index-pack", "--stdin", "--fix-thin", "--strict", "--fsck-objects"])
        .git_dir(into)
        .stdin_file(opened)
        .timeout(TIMEOUT)
        .limits(size.saturating_mul(4).max(64 << 20), MAX_MEMORY)
        .output()
        .await?;
    if output.code != Some(0) {
        return Err(GitError::Failed(format!(
            "git refuses the stored change: {}",
            output.stderr
        )));
    }
    let call = git.call(&["update-ref", "--end-of-options", CHANGE_REF]);
    call.arg(commit.as_str()).git_dir(into).run().await?;
    let wanted = parents.iter().map(|parent| format!("parent {parent}"));
    match parents_of(git, into, commit).await?.into_iter().eq(wanted) {
        true => Ok(()),
        false => Err(GitError::Failed(format!(
            "the stored change {} does not stand on what it should",
            commit.short()
        ))),
    }
}

/// A fresh bare repository that borrows from the mirror.
async fn borrow(git: &Git, mirror_path: &Path, like: &CommitSha, into: &Path) -> Result<(), GitError> {
    init_bare(git, into, like).await?;
    let fail = |error: std::io::Error| GitError::Failed(format!("prepare {}: {error}", into.display()));
    fs::create_dir_all(into.join("objects/info")).map_err(fail)?;
    let lender = format!("{}\n", mirror_path.join("objects").display());
    fs::write(into.join("objects/info/alternates"), lender).map_err(fail)
}

async fn parents_of(git: &Git, repo: &Path, commit: &CommitSha) -> Result<Vec<String>, GitError> {
    let call = git.call(&["cat-file", "commit"]).arg(commit.as_str());
    let output = call.git_dir(repo).max_stdout(1 << 20).run().await?;
    let content = String::from_utf8_lossy(&output.stdout);
    let headers = content.lines().take_while(|line| !line.is_empty());
    Ok(headers
        .filter(|line| line.starts_with("parent "))
        .map(str::to_owned)
        .collect())
}

/// The tree of a commit with one more file at its root.
pub(super) async fn with_file(
    git: &Git,
    (mirror_path, remote): (&Path, &Remote),
    commit: &CommitSha,
    (path, content): (&str, &[u8]),
    into: &Path,
) -> Result<String, GitError> {
    mirror::complete_objects(git, mirror_path, remote, commit).await?;
    borrow(git, mirror_path, commit, into).await?;
    let call = git.call(&["hash-object", "-w", "--no-filters", "--stdin"]);
    let blob = call.git_dir(into).stdin(content).run().await?.line();
    let index = into.join("index");
    let indexed = |fixed: &[&str]| git.call(fixed).git_dir(into).env("GIT_INDEX_FILE", &index);
    indexed(&["read-tree"]).arg(commit.as_str()).run().await?;
    let entry = format!("100644,{blob},{path}");
    indexed(&["update-index", "--add", "--cacheinfo"])
        .arg(entry)
        .run()
        .await?;
    Ok(indexed(&["write-tree"]).run().await?.line())
}

/// A commit as a letter that `git am` takes; nothing when it has more than `max_bytes`.
pub(super) async fn letter(
    git: &Git,
    repo: &Path,
    commit: &CommitSha,
    max_bytes: usize,
) -> Result<Option<Vec<u8>>, GitError> {
    let output = git
        .call(&[
            "format-patch",
            "--stdout",
            "-1",
            "--binary",
            "--full-index",
            "--no-signature",
            "--no-ext-diff",
            "--no-textconv",
            "--no-attach",
            "--no-renames",
            "--no-base",
            "--end-of-options",
        ])
        .arg(commit.as_str())
        .git_dir(repo)
        .timeout(TIMEOUT)
        .max_stdout(max_bytes)
        .output()
        .await?;
    match (output.truncated, output.code) {
        (true, _) => Ok(None),
        (false, Some(0)) => Ok(Some(output.stdout)),
        (false, _) => Err(GitError::Failed(format!("git format-patch: {}", output.stderr))),
    }
}
