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
use crate::git::{Git, Remote};
use crate::ids::{CommitSha, JobId, RepoId};
use crate::sandbox::SandboxFolders;

/// Written after a complete checkout, with its commit.
const MARKER: &str = "ready";

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
        fs::create_dir_all(&runs).with_context(|| format!("create {}", runs.display()))?;
        set_mode(&runs, 0o700)?;
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
        Ok(whole.then_some((folder, base)))
    }

    /// Fills the fresh folder with the files of a commit and marks it as complete.
    pub async fn check_out(&self, git: &Git, mirror: &Path, remote: &Remote, at: &CommitSha) -> Result<()> {
        git.check_out(mirror, remote, at, &self.base_git(), &self.workspace())
            .await
            .with_context(|| format!("check out {} of {}", at.short(), remote.url))?;
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

    /// The checkout; the sandbox can write it, so no command of the host ever looks at it.
    pub fn workspace(&self) -> PathBuf {
        self.root.join("workspace")
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
        }
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
fn absolute(state_dir: &Path) -> Result<PathBuf> {
    std::path::absolute(state_dir).with_context(|| format!("find {}", state_dir.display()))
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
