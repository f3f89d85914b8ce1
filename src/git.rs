//! Host git under one hardened profile: bare mirrors, checkouts for a run, import of what a
//! sandbox made, and the push. Everything is done with the `git` program, because partial clones,
//! bundles and leases on push are its own and libgit2 lacks them. Called by `workspace` and
//! `publish`. Never uses a work tree or a `.git` that a sandbox could write, never runs a shell,
//! and never puts a token into arguments, files or addresses.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::ids::{BranchName, CommitSha};
use crate::right::Right;
use crate::secret::Secret;

mod bundle;
mod checkout;
mod file;
mod grown;
mod history;
mod import;
mod local;
mod merge;
mod mirror;
#[cfg(target_os = "linux")]
mod orphan;
mod pack;
mod policy;
mod prepared;
mod push;
mod remote;
mod run;
mod tree;
mod uncommitted;

pub use grown::{Growth, Source};
pub use history::{Logged, Touch};
pub use local::LocalRepo;
pub use merge::{Conflict, Line, Merge, Merged};
pub use policy::may_change;
pub use prepared::{Laying, Place, PreparedTree, Step, copy_tree};
pub use tree::{Blob, BlobId, Blobs, Entry, EntryKind, Tree};
pub use uncommitted::Uncommitted;

/// Removes a mirror that nobody refreshed since a time. False: somebody did, or is at it.
///
/// # Errors
/// When it cannot be removed; what is left is made anew when it is needed.
pub fn remove_unused_mirror(mirror: &Path, since: std::time::SystemTime) -> std::io::Result<bool> {
    mirror::remove_unused(mirror, since)
}

/// Why git did not do it, named by what the caller can do.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// The ref, commit or path does not exist.
    #[error("git does not find {0}")]
    NotFound(String),
    /// The remote refuses our credentials.
    #[error("the git server refuses our credentials: {0}")]
    Unauthorized(String),
    /// The remote cannot be reached or broke off.
    #[error("the git server is not available: {0}")]
    Unavailable(String),
    /// The remote limits how often we may ask.
    #[error("the git server limits our rate: {0}")]
    Limited(String),
    /// The branch does not point where we expected.
    #[error("the branch moved: {0}")]
    Moved(String),
    /// The remote refused the push for another reason, such as a rule.
    #[error("the git server refuses the push: {0}")]
    Refused(String),
    /// What the sandbox made breaks a rule; one line per violation.
    #[error("the change breaks the rules for trees:\n{}", .0.join("\n"))]
    Policy(Vec<String>),
    /// The server was not asked: the caller's right to was over.
    #[error("{0} was not done, because the right to it may be over")]
    Withheld(String),
    /// Anything else.
    #[error("git failed: {0}")]
    Failed(String),
}

/// A remote repository.
#[derive(Debug, Clone)]
pub struct Remote {
    /// `https://HOST/owner/name.git` (or http in tests).
    pub url: String,
    /// Installation token; sent to exactly this URL.
    pub token: Option<Secret>,
}

/// Host git.
#[derive(Debug, Clone)]
pub struct Git {
    program: Arc<Path>,
    version: Arc<str>,
    right: Right,
}

/// How one path changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Path, with bytes that are not UTF-8 escaped.
    pub path: String,
    /// `A`dded, `M`odified, `D`eleted, `T`ype changed.
    pub status: char,
    /// New size in bytes.
    pub bytes: u64,
    /// Whether the new content is binary.
    pub binary: bool,
    /// Lines added and removed.
    pub lines: (u64, u64),
}

/// What may be imported.
#[derive(Debug, Clone)]
pub struct TreePolicy {
    /// Globs of paths that may not change at all (the repository's own wish).
    pub protected: Vec<String>,
    /// Most bytes of a bundle.
    pub max_bundle_bytes: u64,
    /// Most changed paths.
    pub max_changes: usize,
    /// Most bytes of one file.
    pub max_file_bytes: u64,
    /// What people and the agent are told in.
    pub language: crate::phrase::Language,
}

impl Default for TreePolicy {
    fn default() -> Self {
        Self {
            protected: Vec::new(),
            max_bundle_bytes: 200 * 1024 * 1024,
            max_changes: 5_000,
            max_file_bytes: 20 * 1024 * 1024,
            language: crate::phrase::Language::default(),
        }
    }
}

/// A checked import: a fresh bare repository that holds the sandbox's tree.
#[derive(Debug)]
pub struct Import {
    /// The bare repository; alternates to the base's objects.
    pub repo: PathBuf,
    /// The commit that the changes are relative to.
    pub base: CommitSha,
    /// The imported tree's id.
    pub tree: String,
    /// Changes relative to the base.
    pub changes: Vec<Change>,
}

/// Who a commit is by.
#[derive(Debug, Clone)]
pub struct Signature {
    /// Name.
    pub name: String,
    /// Address.
    pub email: String,
    /// Time; the same time gives the same SHA.
    pub at: DateTime<Utc>,
}

impl Signature {
    /// This program's own, where no App signs.
    pub fn of_program(at: DateTime<Utc>) -> Self {
        Self {
            name: "Forgehand".to_owned(),
            email: "forgehand@localhost".to_owned(),
            at,
        }
    }
}

impl Git {
    /// Finds git and checks its version.
    pub fn find() -> Result<Self, GitError> {
        let (program, version) = run::find()?;
        Ok(Self {
            program: program.into(),
            version: version.into(),
            right: Right::default(),
        })
    }

    /// The same git, which speaks with other machines only while a right holds. It is looked at right
    /// before each call.
    #[must_use]
    pub fn only_while(mut self, right: &Right) -> Self {
        self.right = self.right.and(right);
        self
    }

    /// The version found, for `doctor`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Which git, for `doctor`.
    pub fn describe(&self) -> String {
        format!("git {} at {}", self.version, self.program.display())
    }

    /// The checkout that a folder of this machine lies in.
    pub async fn open_local(&self, folder: &Path) -> Result<LocalRepo, GitError> {
        local::open(self, folder).await
    }

    /// The remotes of the checkout that a folder lies in, by name, each with its address as written.
    pub async fn remotes(&self, folder: &Path) -> Result<Vec<(String, String)>, GitError> {
        local::remotes(self, folder).await
    }

    /// How many files of a checkout differ from its last commit.
    pub async fn uncommitted(&self, repo: &LocalRepo) -> Result<Uncommitted, GitError> {
        uncommitted::count(self, repo).await
    }

    /// The last commit of a bare repository.
    pub async fn head(&self, bare: &Path) -> Result<CommitSha, GitError> {
        local::head(self, &absolute(bare)?, bare).await
    }

    /// The paths of a checkout's files that differ from its last commit.
    pub async fn uncommitted_paths(&self, repo: &LocalRepo) -> Result<Vec<String>, GitError> {
        uncommitted::paths(self, repo).await
    }

    /// Puts a commit of an import on a new branch of a checkout and returns the branch's name.
    pub async fn leave_branch(
        &self,
        repo: &LocalRepo,
        import: &Import,
        sha: &CommitSha,
        wanted: &BranchName,
    ) -> Result<BranchName, GitError> {
        local::leave_branch(self, repo, import, sha, wanted).await
    }

    /// Makes the objects of a commit of ours part of a checkout's repository, where no branch shows
    /// it yet.
    pub async fn place_commit(&self, repo: &LocalRepo, growth: &Growth<'_>) -> Result<CommitSha, GitError> {
        grown::place(self, repo, growth).await
    }

    /// Moves a branch of ours in a checkout from a commit, or from nowhere, to another one.
    pub async fn move_branch(
        &self,
        repo: &LocalRepo,
        branch: &BranchName,
        from: Option<&CommitSha>,
        to: &CommitSha,
    ) -> Result<(), GitError> {
        grown::advance(self, repo, branch, from, to).await
    }

    /// The commit of a branch of a checkout, if there is one.
    pub async fn tip(&self, repo: &LocalRepo, branch: &BranchName) -> Result<Option<CommitSha>, GitError> {
        grown::tip(self, repo, branch).await
    }

    /// Removes a branch of ours that stands at this commit.
    pub async fn remove_branch(&self, repo: &LocalRepo, branch: &BranchName, at: &CommitSha) -> Result<(), GitError> {
        grown::remove(self, repo, branch, at).await
    }

    /// All files of a commit. Blocks its thread.
    pub fn tree(&self, repo: &Path, at: &CommitSha) -> Result<Tree, GitError> {
        tree::list(self, &absolute(repo)?, at)
    }

    /// The files that one commit has otherwise than another. Blocks its thread.
    pub fn changed(&self, repo: &Path, from: &CommitSha, to: &CommitSha) -> Result<Tree, GitError> {
        tree::changed(self, &absolute(repo)?, from, to)
    }

    /// Blobs one after the other, each with at most `max_bytes`. Blocks the thread that reads.
    pub fn blobs(&self, repo: &Path, ids: Vec<BlobId>, max_bytes: u64) -> Result<Blobs, GitError> {
        tree::blobs(self, absolute(repo)?, ids, max_bytes)
    }

    /// What each commit said and changed, from `at` back to the ancestors of `known`, newest first,
    /// until `each` breaks. Blocks its thread.
    pub fn log(
        &self,
        repo: &Path,
        at: &CommitSha,
        known: &[CommitSha],
        each: &mut dyn FnMut(Logged) -> std::ops::ControlFlow<()>,
    ) -> Result<(), GitError> {
        history::log(self, &absolute(repo)?, at, known, each)
    }

    fn call(&self, fixed: &[&str]) -> run::Call<'_> {
        run::Call::new(&self.program, &self.right, fixed)
    }

    /// Creates or refreshes the mirror under its lock: branches, tags, and the given extra
    /// refs (`refs/pull/7/head`). Partial (`blob:none`) where the remote offers it.
    pub async fn refresh_mirror(
        &self,
        mirror: &Path,
        remote: &Remote,
        extra_refs: &[String],
        timeout: Duration,
    ) -> Result<(), GitError> {
        mirror::refresh(self, &absolute(mirror)?, remote, extra_refs, timeout).await
    }
    /// The commit of a ref in the mirror, for example `refs/heads/main`.
    pub async fn resolve(&self, mirror: &Path, full_ref: &str) -> Result<CommitSha, GitError> {
        mirror::resolve(self, &absolute(mirror)?, full_ref).await
    }
    /// A file's bytes at a commit, following symbolic links inside the tree; `None` when absent.
    pub async fn read_file(
        &self,
        mirror: &Path,
        remote: &Remote,
        at: &CommitSha,
        path: &str,
        max_bytes: u64,
    ) -> Result<Option<Vec<u8>>, GitError> {
        file::read(self, &absolute(mirror)?, remote, at, path, max_bytes).await
    }
    /// Paths of all files at a commit, at most `max`.
    pub async fn list_files(&self, mirror: &Path, at: &CommitSha, max: usize) -> Result<Vec<String>, GitError> {
        Ok(mirror::list_below(self, &absolute(mirror)?, at, None, max).await?.0)
    }
    /// Paths of all files below a folder at a commit; nothing when there are more than `max`.
    pub async fn list_below(
        &self,
        mirror: &Path,
        at: &CommitSha,
        folder: &str,
        max: usize,
    ) -> Result<Option<Vec<String>>, GitError> {
        let (files, is_whole) = mirror::list_below(self, &absolute(mirror)?, at, Some(folder), max).await?;
        Ok(is_whole.then_some(files))
    }
    /// Makes `base_git` (bare, depth 1, host-owned) and fills `workspace` with the files of the
    /// commit and a throw-away `.git` on a branch `work` at that commit. The `.git` borrows its
    /// objects from where the sandbox sees `base_git`, so it works only in there.
    pub async fn check_out(
        &self,
        mirror: &Path,
        remote: &Remote,
        at: &CommitSha,
        base_git: &Path,
        workspace: &Path,
    ) -> Result<(), GitError> {
        let (base_git, workspace) = (absolute(base_git)?, absolute(workspace)?);
        checkout::check_out(self, &absolute(mirror)?, remote, at, &base_git, &workspace).await
    }
    /// Fetches what the mirror lacks of a commit's files.
    pub async fn complete(&self, mirror: &Path, remote: &Remote, at: &CommitSha) -> Result<(), GitError> {
        let objects = mirror::complete_objects(self, &absolute(mirror)?, remote, at).await;
        objects.map(drop)
    }
    /// Checks a commit out into the absent folder of a prepared tree.
    pub async fn prepare(&self, mirror: &Path, remote: &Remote, tree: &PreparedTree) -> Result<(), GitError> {
        prepared::prepare(self, &absolute(mirror)?, remote, tree).await
    }
    /// How a commit of `repo` differs from another, unless that is more than `max` files and folders
    /// or `repo` does not know both.
    pub async fn step(
        &self,
        repo: &Path,
        from: &CommitSha,
        to: &CommitSha,
        max: usize,
    ) -> Result<Option<Step>, GitError> {
        prepared::step(self, &absolute(repo)?, from, to, max).await
    }
    /// What [`Git::check_out`] makes, from a prepared tree and perhaps a step of a repository further.
    pub async fn lay_out(
        &self,
        tree: &PreparedTree,
        step: Option<(&Step, &Path, &Remote)>,
        laying: Laying,
        place: Place<'_>,
    ) -> Result<(), GitError> {
        prepared::lay_out(self, tree, step, laying, place).await
    }
    /// Imports an untrusted bundle into the fresh bare repository `into`, checks it with fsck
    /// and the tree policy against `base`.
    pub async fn import(
        &self,
        bundle: &Path,
        base_git: &Path,
        base: &CommitSha,
        into: &Path,
        policy: &TreePolicy,
    ) -> Result<Import, GitError> {
        let (base_git, into) = (absolute(base_git)?, absolute(into)?);
        import::import(self, bundle, &base_git, base, &into, policy).await
    }
    /// The import's changes as a unified diff, at most `max_bytes`.
    pub async fn diff(&self, import: &Import, max_bytes: usize) -> Result<String, GitError> {
        import::diff(self, import, max_bytes).await
    }
    /// Rebuilds the import's tree as a commit of ours on `parent`. Deterministic.
    pub async fn commit(
        &self,
        import: &Import,
        parent: &CommitSha,
        message: &str,
        by: &Signature,
    ) -> Result<CommitSha, GitError> {
        import::commit(self, import, parent, message, by).await
    }
    /// Puts two lines of work together in a fresh bare repository.
    pub async fn merge(&self, wanted: &Merge<'_>) -> Result<Merged, GitError> {
        let (mirror, into) = (absolute(wanted.mirror)?, absolute(wanted.into)?);
        let lender = wanted.lender.map(absolute).transpose()?;
        let wanted = Merge {
            mirror: &mirror,
            into: &into,
            lender: lender.as_deref(),
            ..*wanted
        };
        merge::merge(self, &wanted).await
    }
    /// What is left of a merge's conflicts in a tree of `repo`, one line for each file.
    pub async fn left_over(&self, repo: &Path, tree: &str, merged: &Merged) -> Result<Vec<String>, GitError> {
        merge::left_over(self, &absolute(repo)?, tree, merged).await
    }
    /// Lets one bare repository of ours borrow the objects of another one, too.
    pub fn lend(&self, repo: &Path, lender: &Path) -> Result<(), GitError> {
        merge::lend(&absolute(repo)?, &absolute(lender)?)
    }
    /// A tree as a commit of ours on these parents. Deterministic.
    pub async fn commit_tree(
        &self,
        repo: &Path,
        tree: &str,
        parents: &[&CommitSha],
        message: &str,
        by: &Signature,
    ) -> Result<CommitSha, GitError> {
        import::commit_tree(self, &absolute(repo)?, tree, parents, message, by).await
    }
    /// Whether `old` is `new` or behind it.
    pub async fn is_behind(&self, repo: &Path, old: &CommitSha, new: &CommitSha) -> Result<bool, GitError> {
        merge::is_behind(self, &absolute(repo)?, old, new).await
    }
    /// Whether two commits have the same files.
    pub async fn is_same_tree(&self, repo: &Path, one: &CommitSha, other: &CommitSha) -> Result<bool, GitError> {
        merge::is_same_tree(self, &absolute(repo)?, one, other).await
    }
    /// Whether a commit that is there is by this signature, at the same second.
    pub async fn is_by(&self, repo: &Path, commit: &CommitSha, by: &Signature) -> Result<bool, GitError> {
        merge::is_by(self, &absolute(repo)?, commit, by).await
    }
    /// The last commits of one line that another does not have, a line each.
    pub async fn commits(
        &self,
        repo: &Path,
        of: &CommitSha,
        without: &CommitSha,
        max: usize,
    ) -> Result<Vec<String>, GitError> {
        merge::commits(self, &absolute(repo)?, of, without, max).await
    }
    /// Writes a commit of ours, without what its parents have, into a file.
    pub async fn write_bundle(
        &self,
        repo: &Path,
        commit: &CommitSha,
        parents: &[&CommitSha],
        file: &Path,
        max_bytes: u64,
    ) -> Result<(), GitError> {
        pack::write(self, &absolute(repo)?, commit, parents, &absolute(file)?, max_bytes).await
    }
    /// Reads a commit of ours from such a file into the fresh bare repository `into`, which borrows
    /// from the mirror. It must be the promised one on the promised parents.
    pub async fn read_bundle(
        &self,
        file: &Path,
        (mirror, remote): (&Path, &Remote),
        commit: &CommitSha,
        parents: &[&CommitSha],
        into: &Path,
    ) -> Result<(), GitError> {
        let (file, mirror, into) = (absolute(file)?, absolute(mirror)?, absolute(into)?);
        pack::read(self, &file, (&mirror, remote), commit, parents, &into).await
    }
    /// The tree of a commit with one more file, in the fresh bare repository `into`.
    pub async fn with_file(
        &self,
        (mirror, remote): (&Path, &Remote),
        commit: &CommitSha,
        (path, content): (&str, &[u8]),
        into: &Path,
    ) -> Result<String, GitError> {
        let (mirror, into) = (absolute(mirror)?, absolute(into)?);
        pack::with_file(self, (&mirror, remote), commit, (path, content), &into).await
    }
    /// A commit as a letter for `git am`; nothing when it has more than `max_bytes`.
    pub async fn letter(&self, repo: &Path, commit: &CommitSha, max_bytes: usize) -> Result<Option<Vec<u8>>, GitError> {
        pack::letter(self, &absolute(repo)?, commit, max_bytes).await
    }
    /// Pushes a commit of `repo` to a branch if the branch points to `expect` (nothing: does not
    /// exist). A repeat of a push that landed succeeds. Afterwards the remote's SHA equals `sha`.
    pub async fn push(
        &self,
        repo: &Path,
        remote: &Remote,
        sha: &CommitSha,
        branch: &BranchName,
        expect: Option<&CommitSha>,
    ) -> Result<(), GitError> {
        push::push(self, &absolute(repo)?, remote, sha, branch, expect).await
    }
    /// Deletes a branch that this program made, if it still points to `expect`.
    pub async fn delete_branch(
        &self,
        remote: &Remote,
        branch: &BranchName,
        expect: &CommitSha,
    ) -> Result<(), GitError> {
        push::delete(self, remote, branch, expect).await
    }
    /// Where a branch points on the remote.
    pub async fn remote_sha(&self, remote: &Remote, branch: &BranchName) -> Result<Option<CommitSha>, GitError> {
        self.ask(&remote::Target::parse(remote)?, branch).await
    }
}

/// Git runs at the root of the file system, where a relative path would mean something else.
fn absolute(path: &Path) -> Result<PathBuf, GitError> {
    std::path::absolute(path).map_err(|error| GitError::Failed(format!("{}: {error}", path.display())))
}
