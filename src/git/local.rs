//! A person's own checkout as base and as destination: found from any folder in it, read at its
//! last commit, and given one new branch. Never touches its files, its index or a branch that
//! exists, and never runs what its configuration names.

use std::path::{Path, PathBuf};

use super::checkout::pack_into;
use super::{Git, GitError, Import};
use crate::ids::{BranchName, CommitSha};

/// A checkout on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalRepo {
    /// Its folder.
    pub root: PathBuf,
    /// Where its objects and branches are; with several work trees, the one they share.
    pub git_dir: PathBuf,
    /// Its last commit.
    pub head: CommitSha,
    /// The branch it is on, if it is on one.
    pub branch: Option<String>,
}

/// Finds the checkout that a folder lies in.
pub(super) async fn open(git: &Git, folder: &Path) -> Result<LocalRepo, GitError> {
    let root = root_of(folder)?;
    let own = git_folder(&root)?;
    Ok(LocalRepo {
        git_dir: shared_folder(&own)?,
        head: head(git, &own, &root).await?,
        branch: branch(git, &own).await?,
        root,
    })
}

fn root_of(folder: &Path) -> Result<PathBuf, GitError> {
    let folder = folder
        .canonicalize()
        .map_err(|error| GitError::NotFound(format!("{}: {error}", folder.display())))?;
    let root = folder.ancestors().find(|ancestor| ancestor.join(".git").exists());
    root.map(Path::to_owned).ok_or_else(|| {
        GitError::NotFound(format!(
            "a repository at {} or above it; run `git init` there first",
            folder.display()
        ))
    })
}

/// The remotes of the checkout that a folder lies in, each with the address that is fetched from.
/// As its own file has them: what a person's settings make of them is not known here.
pub(super) async fn remotes(git: &Git, folder: &Path) -> Result<Vec<(String, String)>, GitError> {
    let own = git_folder(&root_of(folder)?)?;
    let call = git
        .call(&["config", "--null", "--get-regexp", r"^remote\..*\.url$"])
        .git_dir(&own);
    let listed = call.output().await?;
    if listed.truncated {
        return Err(GitError::Failed("the checkout has too many remotes".to_owned()));
    }
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut remotes: Vec<(String, String)> = Vec::new();
    for entry in text.split('\0') {
        let Some((key, address)) = entry.split_once('\n') else {
            continue;
        };
        let name = key.strip_prefix("remote.").and_then(|key| key.strip_suffix(".url"));
        let Some(name) = name else { continue };
        // A remote may have several addresses; git fetches from the first.
        if !remotes.iter().any(|(known, _)| known == name) {
            remotes.push((name.to_owned(), address.to_owned()));
        }
    }
    Ok(remotes)
}

/// The last commit of a git folder; `shown` is what people call it.
pub(super) async fn head(git: &Git, own: &Path, shown: &Path) -> Result<CommitSha, GitError> {
    let head = git
        .call(&["rev-parse", "--verify", "--end-of-options"])
        .git_dir(own)
        .arg("HEAD^{commit}")
        .output()
        .await?;
    if head.code != Some(0) {
        return Err(GitError::NotFound(format!(
            "a commit in {}; commit something first",
            shown.display()
        )));
    }
    head.line()
        .parse()
        .map_err(|error| GitError::Failed(format!("the last commit: {error}")))
}

async fn branch(git: &Git, own: &Path) -> Result<Option<String>, GitError> {
    let call = git.call(&["symbolic-ref", "--quiet", "--short", "HEAD"]).git_dir(own);
    let named = call.output().await?;
    Ok((named.code == Some(0)).then(|| named.line()))
}

/// `.git` itself, or where it points to in a work tree or submodule.
pub(super) fn git_folder(root: &Path) -> Result<PathBuf, GitError> {
    let dot_git = root.join(".git");
    if dot_git.is_dir() {
        return Ok(dot_git);
    }
    let text = read_small(&dot_git)?;
    let target = text.strip_prefix("gitdir:").map(str::trim).unwrap_or_default();
    let target = root.join(target);
    target
        .canonicalize()
        .map_err(|error| GitError::NotFound(format!("{} names {}: {error}", dot_git.display(), target.display())))
}

/// The folder with objects and branches that a work tree's folder belongs to.
fn shared_folder(own: &Path) -> Result<PathBuf, GitError> {
    let common = own.join("commondir");
    if !common.exists() {
        return Ok(own.to_owned());
    }
    let target = own.join(read_small(&common)?.trim());
    target
        .canonicalize()
        .map_err(|error| GitError::NotFound(format!("{}: {error}", target.display())))
}

fn read_small(file: &Path) -> Result<String, GitError> {
    use std::io::Read as _;
    let fail = |error: std::io::Error| GitError::NotFound(format!("{}: {error}", file.display()));
    let mut text = String::new();
    std::fs::File::open(file)
        .map_err(fail)?
        .take(4096)
        .read_to_string(&mut text)
        .map_err(fail)?;
    Ok(text)
}

/// Puts a commit of an import on a new branch of the checkout; the name gets a suffix when the
/// branch exists. The objects were checked at the import, so their pack is written into place.
pub(super) async fn leave_branch(
    git: &Git,
    repo: &LocalRepo,
    import: &Import,
    sha: &CommitSha,
    wanted: &BranchName,
) -> Result<BranchName, GitError> {
    let branch = match free_name(git, repo, wanted, sha).await? {
        Free::Name(branch) => branch,
        // The same change on the same base in the same second is the same commit: it was left before.
        Free::Left(branch) => return Ok(branch),
    };
    pack_into(git, &import.repo, &repo.git_dir, &["--revs"])
        .stdin(format!("{sha}\n^{}\n", import.base))
        .run()
        .await?;
    // The old value of a branch that must not exist is all zeros.
    let nothing = "0".repeat(sha.as_str().len());
    git.call(&["update-ref"])
        .git_dir(&repo.git_dir)
        .arg(branch.full_ref())
        .arg(sha.as_str())
        .arg(nothing)
        .run()
        .await?;
    Ok(branch)
}

/// Where a commit can stand in a checkout.
enum Free {
    /// A branch that git can make.
    Name(BranchName),
    /// A branch that stands at this very commit already.
    Left(BranchName),
}

/// The wanted name, or one like it that git can still make: a branch may neither exist already nor
/// be a folder of others, and no branch may stand where it needs a folder.
async fn free_name(git: &Git, repo: &LocalRepo, wanted: &BranchName, sha: &CommitSha) -> Result<Free, GitError> {
    let mut name = wanted.clone();
    let slashes: Vec<usize> = wanted.as_str().match_indices('/').map(|(at, _)| at).collect();
    for at in slashes {
        let above = format!("refs/heads/{}", &wanted.as_str()[..at]);
        if ref_at(git, repo, &above)
            .await?
            .is_some_and(|(found, _)| found == above)
        {
            let flat = wanted.as_str().replace('/', "-");
            name = flat
                .parse()
                .map_err(|error| GitError::Failed(format!("the branch {flat}: {error}")))?;
            break;
        }
    }
    let second = name.with_suffix(sha.short());
    for name in [name, second] {
        match ref_at(git, repo, &name.full_ref()).await? {
            None => return Ok(Free::Name(name)),
            Some((found, at)) if found == name.full_ref() && at == sha.as_str() => return Ok(Free::Left(name)),
            Some(_) => {}
        }
    }
    Err(GitError::Failed(format!(
        "the branches {wanted} and {wanted}-{} exist already, at other commits: name another branch",
        sha.short()
    )))
}

/// The ref with this name, or the first one in the folder of this name, and its commit.
async fn ref_at(git: &Git, repo: &LocalRepo, name: &str) -> Result<Option<(String, String)>, GitError> {
    let found = git
        .call(&["for-each-ref", "--count=1", "--format=%(refname) %(objectname)"])
        .git_dir(&repo.git_dir)
        .arg(name)
        .run()
        .await?;
    Ok(found
        .line()
        .split_once(' ')
        .map(|(name, at)| (name.to_owned(), at.to_owned())))
}
