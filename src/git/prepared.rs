//! Prepared trees: the files of a commit, checked out once and never written again, with what a run
//! needs of git beside them. A workspace is laid out from one in a moment: over it or as a copy, at its
//! commit or, where few files differ, at another. Called by `workspace`.
//! Never used as a work tree once it is ready, and never shown to a sandbox for writing.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, makedev, mknodat, utimensat};

use super::checkout::{self, failed};
use super::{Git, GitError, Remote, mirror};
use crate::ids::CommitSha;

/// Most bytes of the list of files that differ.
const MAX_CHANGES_BYTES: usize = 1 << 20;

/// Threads that copy a tree: more than two wait for the same disk.
const COPIERS: usize = 2;

/// A prepared tree in a folder of its own.
#[derive(Debug, Clone)]
pub struct PreparedTree {
    /// The folder: `tree`, `index` and `base.git` are in it.
    pub folder: PathBuf,
    /// What is checked out.
    pub commit: CommitSha,
}

impl PreparedTree {
    /// The files.
    pub fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    fn base_git(&self) -> PathBuf {
        self.folder.join("base.git")
    }

    fn index(&self) -> PathBuf {
        self.folder.join("index")
    }
}

/// How files of another commit differ from a prepared tree's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    to: CommitSha,
    /// Files and folders that differ.
    size: usize,
    /// Files and whole folders that the other commit does not have.
    gone: BTreeSet<PathBuf>,
}

impl Step {
    /// The other commit.
    pub fn to(&self) -> &CommitSha {
        &self.to
    }

    /// How many files and folders differ.
    pub fn size(&self) -> usize {
        self.size
    }
}

/// How the files of a prepared tree come into a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Laying {
    /// Only what differs is written: the tree itself is mounted below.
    Over,
    /// Every file is copied.
    Copy,
}

/// Where a workspace is laid out: folders that no sandbox has seen.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The bare repository with the commit, absent.
    pub base_git: &'a Path,
    /// The files, absent or empty: what lies over the tree, or the whole.
    pub files: &'a Path,
}

/// Checks a commit out into a folder that becomes a prepared tree.
pub(super) async fn prepare(git: &Git, mirror: &Path, remote: &Remote, tree: &PreparedTree) -> Result<(), GitError> {
    fs::create_dir_all(&tree.folder).map_err(|error| failed(&tree.folder, &error))?;
    checkout::base_repository(git, mirror, remote, &tree.commit, &tree.base_git()).await?;
    checkout::fill(git, &tree.base_git(), &tree.commit, &tree.index(), &tree.tree()).await?;
    checkout::make_readable(&tree.base_git()).map_err(|error| failed(&tree.folder, &error))
}

/// What differs between a prepared tree and a commit of `repo`; `None` when that is more than `max`
/// files and folders, when rules for line ends and the like are among it, or when `repo` does not
/// know both.
pub(super) async fn step(
    git: &Git,
    repo: &Path,
    from: &CommitSha,
    to: &CommitSha,
    max: usize,
) -> Result<Option<Step>, GitError> {
    let listed = git
        .call(&["diff-tree", "-r", "-t", "-z", "--raw", "--no-renames", "--no-abbrev"])
        .arg("--end-of-options")
        .arg(from.as_str())
        .arg(to.as_str())
        .git_dir(repo)
        .max_stdout(MAX_CHANGES_BYTES)
        .output()
        .await?;
    if listed.truncated || listed.code != Some(0) {
        return Ok(None);
    }
    let mut gone = BTreeSet::new();
    let mut fields = listed.stdout.split(|byte| *byte == 0);
    let mut size = 0;
    while let (Some(what), Some(path)) = (fields.next(), fields.next()) {
        size += 1;
        let path = path_of(path);
        let sets_rules = path.file_name().is_some_and(|name| name == ".gitattributes");
        if size > max || sets_rules {
            return Ok(None);
        }
        if what.ends_with(b"D") {
            gone.insert(path);
        }
    }
    Ok(Some(Step {
        to: to.clone(),
        size,
        gone,
    }))
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes))
}

/// Lays a workspace out: at the prepared tree's own commit, or a step further. `repo` has the objects
/// of the step.
pub(super) async fn lay_out(
    git: &Git,
    tree: &PreparedTree,
    step: Option<(&Step, &Path, &Remote)>,
    laying: Laying,
    place: Place<'_>,
) -> Result<(), GitError> {
    let (from, to, index) = (tree.clone(), place.base_git.to_owned(), place.base_git.join("index"));
    let copied = (laying == Laying::Copy).then(|| place.files.to_owned());
    let copying = tokio::task::spawn_blocking(move || {
        share_repository(&from.base_git(), &to).map_err(|error| failed(&to, &error))?;
        fs::copy(from.index(), to.join("index")).map_err(|error| failed(&to, &error))?;
        match copied {
            Some(files) => copy_tree(&from.tree(), &files).map_err(|error| failed(&files, &error)),
            None => Ok(()),
        }
    });
    copying.await.map_err(|error| GitError::Failed(error.to_string()))??;
    fs::create_dir_all(place.files).map_err(|error| failed(place.files, &error))?;
    let at = step.map_or(&tree.commit, |(step, _, _)| &step.to);
    if let Some((step, repo, remote)) = step {
        advance(git, tree, step, (repo, remote), place).await?;
        if laying == Laying::Over {
            hide(&step.gone, place.files).map_err(|error| failed(place.files, &error))?;
        }
    }
    checkout::make_inner_git(at, &index, place.files)?;
    checkout::make_readable(place.base_git).map_err(|error| failed(place.base_git, &error))
}

/// Brings the bare repository, the index and the files that differ to another commit.
async fn advance(
    git: &Git,
    tree: &PreparedTree,
    step: &Step,
    (repo, remote): (&Path, &Remote),
    place: Place<'_>,
) -> Result<(), GitError> {
    let (from, to) = (&tree.commit, &step.to);
    let objects = mirror::objects_beside(git, repo, remote, to, Some(from)).await?;
    checkout::pack_into(git, repo, place.base_git, &["--window=0"])
        .stdin(objects)
        .run()
        .await?;
    checkout::begin_at(git, place.base_git, to, Some(from)).await?;
    checkout::measure(git, place.base_git, to).await?;
    git.call(&["read-tree", "-m", "-u"])
        .arg(from.as_str())
        .arg(to.as_str())
        .git_dir(place.base_git)
        .config("core.bare=false")
        .config("core.symlinks=true")
        // As in the workspace itself: a copy is another file with the same time.
        .config("core.checkStat=minimal")
        .config("core.trustctime=false")
        .env("GIT_WORK_TREE", place.files)
        .env("GIT_INDEX_FILE", place.base_git.join("index"))
        .run()
        .await?;
    Ok(())
}

/// Makes what is gone invisible in the layer above: the kernel takes a device without number for a
/// file that was removed.
fn hide(gone: &BTreeSet<PathBuf>, files: &Path) -> io::Result<()> {
    let mut hidden: Option<&PathBuf> = None;
    for path in gone {
        // Folders come before what is in them.
        if hidden.is_some_and(|folder| path.starts_with(folder)) {
            continue;
        }
        hidden = Some(path);
        let place = files.join(path);
        if fs::symlink_metadata(&place).is_ok() {
            // Something else has the name now, and hides it already.
            continue;
        }
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder)?;
        }
        mknodat(CWD, &place, FileType::CharacterDevice, Mode::empty(), makedev(0, 0))?;
    }
    Ok(())
}

/// The same repository once more: the packs under a second name, which is safe because nothing
/// ever writes into a pack; everything else copied.
fn share_repository(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let is_pack = from.ends_with("objects/pack");
        if entry.file_type()?.is_dir() {
            share_repository(&source, &target)?;
        } else if !(is_pack && fs::hard_link(&source, &target).is_ok()) {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

/// Copies a tree of ours into a folder, every file with the time that an index knows it by. On file systems that can, a copy shares its
/// blocks with the file until one of them is written.
pub fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        fs::create_dir_all(to.join(&folder))?;
        // Folders keep who may enter them.
        fs::set_permissions(
            to.join(&folder),
            fs::symlink_metadata(from.join(&folder))?.permissions(),
        )?;
        for entry in fs::read_dir(from.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            match entry.file_type()?.is_dir() {
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    let share = files.len().div_ceil(COPIERS).max(1);
    std::thread::scope(|scope| {
        let copy = |files: &[PathBuf]| -> io::Result<()> {
            files
                .iter()
                .try_for_each(|path| copy_file(&from.join(path), &to.join(path)))
        };
        let copiers: Vec<_> = files
            .chunks(share)
            .map(|files| scope.spawn(move || copy(files)))
            .collect();
        copiers
            .into_iter()
            .try_for_each(|copier| copier.join().map_err(|_| io::Error::other("copying broke off"))?)
    })
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(from)?;
    if found.is_symlink() {
        std::os::unix::fs::symlink(fs::read_link(from)?, to)?;
    } else if found.is_file() {
        fs::copy(from, to)?;
    } else {
        // A pipe would keep whoever reads it waiting, and nothing of the kind is worth keeping.
        return Ok(());
    }
    let time = Timespec {
        tv_sec: found.mtime(),
        tv_nsec: found.mtime_nsec(),
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    Ok(utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}
