//! Run folders: `<state_dir>/runs/<job id>`, made, found again after a restart, removed, and
//! swept when no job wants them. The parts above the run are for our user alone; what the sandbox
//! gets is bound into it before it gives up its rights. Never trusts a checkout that was not
//! finished: a marker beside it, out of the sandbox's reach, says which commit it is.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::remove::{HOLDING_PREFIX, remove_tree};
use super::setups::{HOME, WORKSPACE};
use super::stock::READY;
use crate::closed;
use crate::git::{Git, Remote};
use crate::ids::{CommitSha, JobId, RepoId};
use crate::sandbox::{Below, SandboxFolders};
use crate::secret::random_hex;

/// Written after a complete checkout, with its commit.
const MARKER: &str = "ready";

/// What a run folder may lie on, or is being copied from; a file of this name says on which folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A prepared tree.
    Tree,
    /// What a set-up left.
    Setup,
    /// The home folder of an earlier set-up.
    Warm,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Tree, Self::Setup, Self::Warm];

    fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Setup => "setup",
            Self::Warm => "warm",
        }
    }
}

/// Which of all folders that a job ever had this is.
const IDENTITY: &str = "identity";

/// Written when what a set-up left was copied.
const SET_UP: &str = "set-up";

/// Written once, when the first sandbox was opened over the checkout.
const OPENED: &str = "opened";

/// Where the mirror of a repository is: by number, because names can move.
pub fn mirror_path(state_dir: &Path, repo: RepoId) -> PathBuf {
    state_dir.join("mirrors").join(format!("{repo}.git"))
}

/// Parts of the state folder that have one folder for each job in progress.
const PER_JOB: [&str; 2] = ["runs", "publish"];

/// Where a job's change is rebuilt to be pushed.
pub fn publish_path(state_dir: &Path, job: &JobId) -> PathBuf {
    state_dir.join("publish").join(job.as_str())
}

/// Removes what a job that is over left on this machine. Its sandbox must be closed.
pub fn remove_all(state_dir: &Path, job: &JobId) -> Result<()> {
    for part in PER_JOB {
        let folder = absolute(state_dir)?.join(part).join(job.as_str());
        remove_tree(&folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    Ok(())
}

/// The folder of one job's runs.
#[derive(Debug, Clone)]
pub struct RunFolder {
    root: PathBuf,
}

impl RunFolder {
    /// A fresh folder; what an earlier attempt left is removed.
    pub fn create(state_dir: &Path, job: &JobId) -> Result<Self> {
        let runs = runs_folder(state_dir)?;
        create_closed(&runs)?;
        let folder = Self {
            root: runs.join(job.as_str()),
        };
        folder.remove()?;
        fs::create_dir(&folder.root).with_context(|| format!("create {}", folder.root.display()))?;
        set_mode(&folder.root, 0o700)?;
        for part in [folder.workspace(), folder.home(), folder.tmp(), folder.out()] {
            fs::create_dir(&part).with_context(|| format!("create {}", part.display()))?;
            // Reachable only through the closed folder above, or bound into a sandbox.
            set_mode(&part, 0o755)?;
        }
        let identity = folder.root.join(IDENTITY);
        write_whole(&identity, &random_hex::<16>()).with_context(|| format!("write {}", identity.display()))?;
        Ok(folder)
    }

    /// The folder of an interrupted run with the commit it was checked out at; nothing when there
    /// is none or its checkout was not finished.
    pub fn open_existing(state_dir: &Path, job: &JobId) -> Result<Option<(Self, CommitSha)>> {
        let folder = Self {
            root: runs_folder(state_dir)?.join(job.as_str()),
        };
        let marker = folder.root.join(MARKER);
        let text = match fs::read_to_string(&marker) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(error).with_context(|| format!("read {}", marker.display())),
        };
        // A torn marker is as good as none.
        let Ok(base) = text.trim().parse() else {
            return Ok(None);
        };
        let whole = [folder.workspace(), folder.home(), folder.base_git(), folder.out()]
            .iter()
            .all(|part| fs::symlink_metadata(part).is_ok_and(|found| found.is_dir()));
        let is_there = |on: PathBuf| on.join(READY).is_file() && folder.upper().is_dir();
        let lies = Kind::ALL.iter().all(|kind| folder.lies_on(*kind).is_none_or(is_there));
        Ok((whole && lies).then_some((folder, base)))
    }

    /// Which of all folders that its job ever had this is: other machines may have made others since.
    pub fn identity(&self) -> Option<String> {
        fs::read_to_string(self.root.join(IDENTITY)).ok()
    }

    /// A folder that may be there.
    pub(super) fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// Notes what the checkout lies on.
    pub(super) fn lie_on(&self, kind: Kind, folder: &Path) -> Result<()> {
        let note = self.root.join(kind.name());
        let path = folder.to_str().context("the state folder's path is not text")?;
        write_whole(&note, path).with_context(|| format!("write {}", note.display()))
    }

    /// What the checkout lies on.
    pub(super) fn lies_on(&self, kind: Kind) -> Option<PathBuf> {
        fs::read_to_string(self.root.join(kind.name())).ok().map(PathBuf::from)
    }

    /// Forgets what the checkout was copied from.
    pub(super) fn leave(&self, kind: Kind) -> Result<()> {
        let note = self.root.join(kind.name());
        fs::remove_file(&note).with_context(|| format!("remove {}", note.display()))
    }

    /// Fills the fresh folder with the files of a commit and marks it as complete.
    pub async fn check_out(&self, git: &Git, mirror: &Path, remote: &Remote, at: &CommitSha) -> Result<()> {
        git.check_out(mirror, remote, at, &self.base_git(), &self.workspace())
            .await
            .with_context(|| format!("check out {} of {}", at.short(), remote.url))?;
        self.mark_complete(at)
    }

    /// Marks the checkout as complete, at its commit.
    pub(super) fn mark_complete(&self, at: &CommitSha) -> Result<()> {
        let marker = self.root.join(MARKER);
        write_whole(&marker, &format!("{at}\n")).with_context(|| format!("write {}", marker.display()))
    }

    /// When a sandbox was first opened over the fresh checkout, in nanoseconds since 1970 by the clock
    /// of its files: whatever changed later was edited.
    pub fn opened_ns(&self) -> Result<i64> {
        use std::os::unix::fs::MetadataExt as _;
        let marker = self.root.join(OPENED);
        let made = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&marker);
        let found = made.and_then(|file| file.metadata());
        let found = found.with_context(|| format!("mark {}", marker.display()))?;
        Ok(found
            .ctime()
            .saturating_mul(1_000_000_000)
            .saturating_add(found.ctime_nsec()))
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The checkout; the sandbox can write it, so no command of the host ever looks at it. Empty on this
    /// side where it lies on a prepared tree.
    pub fn workspace(&self) -> PathBuf {
        self.root.join("workspace")
    }

    /// What differs from the prepared tree that the checkout lies on, if it lies on one.
    pub(super) fn upper(&self) -> PathBuf {
        self.root.join("upper")
    }

    /// Home of the sandbox's user.
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Scratch space of the host for this run.
    pub fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// The bare repository with the base commit.
    pub fn base_git(&self) -> PathBuf {
        self.root.join("base.git")
    }

    /// Where the sandbox leaves its bundles.
    pub fn out(&self) -> PathBuf {
        self.root.join("out")
    }

    /// A place for the next import, which starts fresh: what an earlier import left is removed.
    pub fn import(&self) -> Result<PathBuf> {
        let place = self.root.join("import");
        remove_tree(&place).with_context(|| format!("remove {}", place.display()))?;
        Ok(place)
    }

    /// What the sandbox gets.
    pub fn sandbox_folders(&self) -> SandboxFolders {
        SandboxFolders {
            workspace: self.workspace(),
            home: self.home(),
            base_git: self.base_git(),
            out: self.out(),
            below: self.below(),
        }
    }

    fn below(&self) -> Option<Below> {
        let tree = self.lies_on(Kind::Tree)?.join("tree");
        let setup = self.lies_on(Kind::Setup);
        let home = setup.clone().or_else(|| self.lies_on(Kind::Warm));
        Some(Below {
            workspace: setup
                .map(|setup| setup.join(WORKSPACE))
                .into_iter()
                .chain([tree])
                .collect(),
            home: home.map(|home| home.join(HOME)),
        })
    }

    /// Whether set-up was done before, so that its commands need not run.
    pub fn is_set_up(&self) -> bool {
        let lies = |kind| self.lies_on(kind).is_some();
        lies(Kind::Tree) && lies(Kind::Setup) || self.root.join(SET_UP).exists()
    }

    /// Where this side puts a file into the home folder before the sandbox is opened.
    pub fn own_home(&self) -> PathBuf {
        match self.below().and_then(|below| below.home) {
            Some(_) => self.root.join("home-upper"),
            None => self.home(),
        }
    }

    /// Notes that what a set-up left was copied here.
    pub(super) fn mark_set_up(&self) -> Result<()> {
        let note = self.root.join(SET_UP);
        write_whole(&note, "").with_context(|| format!("write {}", note.display()))
    }

    /// Removes everything, whatever the sandbox did to it. The sandbox must be closed.
    pub fn remove(&self) -> Result<()> {
        remove_tree(&self.root).with_context(|| format!("remove {}", self.root.display()))
    }
}

/// Jobs that have folders here, also half removed ones. Whoever sweeps lists them before asking
/// which jobs are over: a job that comes later is not among them.
pub fn jobs_with_folders(state_dir: &Path) -> Result<BTreeSet<JobId>> {
    let mut jobs = BTreeSet::new();
    for part in PER_JOB {
        let part = absolute(state_dir)?.join(part);
        let entries = match fs::read_dir(&part) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| format!("list {}", part.display())),
        };
        for entry in entries {
            let entry = entry.with_context(|| format!("list {}", part.display()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // A name that is neither was not made here, and is not ours to remove.
            jobs.extend(name.strip_prefix(HOLDING_PREFIX).unwrap_or(&name).parse::<JobId>());
        }
    }
    Ok(jobs)
}

fn runs_folder(state_dir: &Path) -> Result<PathBuf> {
    Ok(absolute(state_dir)?.join("runs"))
}

/// Sandboxes bind these folders and git runs elsewhere.
pub(super) fn absolute(state_dir: &Path) -> Result<PathBuf> {
    std::path::absolute(state_dir).with_context(|| format!("find {}", state_dir.display()))
}

/// A folder for our user alone.
pub(super) fn create_closed(folder: &Path) -> Result<()> {
    closed::make_folder(folder).with_context(|| format!("create {}", folder.display()))?;
    set_mode(folder, closed::MODE)
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .with_context(|| format!("set the mode of {}", path.display()))
}

/// The whole text or nothing, also after a power cut.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file = fs::File::create(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(fresh, path)
}
