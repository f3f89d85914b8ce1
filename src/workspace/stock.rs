//! A stock of folders that many runs use and none changes: each is made once, found by its name below its
//! repository, and removed when others need the room more. Called by `trees` and `setups`.
//! Never removes a folder that a run lies on, and never shows a half-made one: it gets its name last.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, Result};
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, futimens};
use sha2::{Digest as _, Sha256};

use super::folder::{Kind, RunFolder, create_closed};
use super::remove::{HOLDING_PREFIX, remove_tree};
use crate::closed;

/// Written into a folder when it is complete: its bytes. Its time is that of the last use.
pub(super) const READY: &str = "ready";
/// Who lies on a folder: one file for each run folder.
const USERS: &str = "users";
/// A folder in the making; one at a time in each repository.
const MAKING: &str = ".making";
/// Held while folders are made in a repository's folder, or given out and removed in all.
const LOCK: &str = "lock";

/// The folders of all repositories, or of one. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Stock {
    root: PathBuf,
    repository: String,
    max_bytes: u64,
    max_folders: usize,
}

/// A complete folder.
#[derive(Debug, Clone)]
pub(super) struct Listed {
    pub(super) folder: PathBuf,
    bytes: u64,
    used: SystemTime,
}

/// A place in which a folder is made; the lock is held as long as this lives.
pub(super) struct Making {
    /// The place, absent.
    pub(super) place: PathBuf,
    folder: PathBuf,
    _lock: File,
}

impl Stock {
    pub(super) fn new(root: PathBuf, max_bytes: u64, max_folders: usize) -> Self {
        Self {
            root,
            repository: "other".to_owned(),
            max_bytes,
            max_folders,
        }
    }

    /// What one repository has.
    pub(super) fn of(&self, repository: String) -> Self {
        Self {
            repository,
            ..self.clone()
        }
    }

    /// The folder of all, made when it is missing: for our user alone.
    pub(super) fn root(&self) -> Result<&Path> {
        create_closed(&self.root)?;
        Ok(&self.root)
    }

    fn repository_folder(&self) -> PathBuf {
        self.root.join(&self.repository)
    }

    /// Complete folders of the repository, those used last first.
    pub(super) fn complete(&self) -> Result<Vec<Listed>> {
        let mut found = complete_in(&self.repository_folder())?;
        found.sort_by_key(|listed| std::cmp::Reverse(listed.used));
        Ok(found)
    }

    /// Notes that a run folder lies on a folder, on both sides; false when it is gone.
    pub(super) fn keep(&self, run: &RunFolder, kind: Kind, folder: &Path) -> Result<bool> {
        let _lock = lock(self.root()?)?;
        let Ok(ready) = File::options().write(true).open(folder.join(READY)) else {
            return Ok(false);
        };
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        let now = Timestamps {
            last_access: now,
            last_modification: now,
        };
        futimens(&ready, &now).with_context(|| format!("note the use of {}", folder.display()))?;
        run.lie_on(kind, folder)?;
        let users = folder.join(USERS);
        closed::make_folder(&users).with_context(|| format!("create {}", users.display()))?;
        let root = run.root().as_os_str().as_encoded_bytes();
        let user = users.join(hex::encode(&Sha256::digest(root)[..12]));
        fs::write(&user, root).with_context(|| format!("write {}", user.display()))?;
        Ok(true)
    }

    /// A place for the folder of this name; `None` when it is there, perhaps since just now.
    pub(super) fn begin(&self, name: &str) -> Result<Option<Making>> {
        self.root()?;
        let repository = self.repository_folder();
        closed::make_folder(&repository).with_context(|| format!("create {}", repository.display()))?;
        let held = lock(&repository)?;
        let folder = repository.join(name);
        if folder.join(READY).is_file() {
            return Ok(None);
        }
        let place = repository.join(MAKING);
        // What an earlier maker left that died.
        remove_tree(&place).with_context(|| format!("remove {}", place.display()))?;
        Ok(Some(Making {
            place,
            folder,
            _lock: held,
        }))
    }

    /// The folder of a name.
    pub(super) fn folder(&self, name: &str) -> PathBuf {
        self.repository_folder().join(name)
    }

    /// Removes folders that nobody lies on, those used longest ago first, until all are within bounds,
    /// and what processes left that died.
    pub(super) fn tidy(&self) -> Result<()> {
        for repository in folders(&self.root)? {
            let making = repository.join(MAKING);
            // Whoever makes one holds the lock.
            if making.exists()
                && let Some(_lock) = try_lock(&repository)?
            {
                remove_tree(&making).with_context(|| format!("remove {}", making.display()))?;
            }
        }
        self.make_room()
    }

    /// The part of [`Stock::tidy`] that is done after each making.
    pub(super) fn make_room(&self) -> Result<()> {
        let going = self.set_aside()?;
        // Removals that were interrupted go on, too.
        for repository in folders(&self.root)? {
            for folder in folders(&repository)? {
                if name_of(&folder).starts_with(HOLDING_PREFIX) {
                    remove_folder(&folder)?;
                }
            }
        }
        for folder in going {
            tracing::info!(folder = %folder.display(), "removed to make room");
        }
        Ok(())
    }

    /// Takes the names of folders that have to go, under the lock: nobody can find them any more.
    fn set_aside(&self) -> Result<Vec<PathBuf>> {
        let _lock = lock(self.root()?)?;
        let mut all = Vec::new();
        for repository in folders(&self.root)? {
            all.extend(complete_in(&repository)?);
        }
        all.sort_by_key(|listed| listed.used);
        let (mut bytes, mut count) = (all.iter().map(|listed| listed.bytes).sum::<u64>(), all.len());
        let mut going = Vec::new();
        for Listed { folder, bytes: own, .. } in all {
            if bytes <= self.max_bytes && count <= self.max_folders {
                break;
            }
            if is_used(&folder) {
                continue;
            }
            let aside = folder.with_file_name(format!("{HOLDING_PREFIX}{}", name_of(&folder)));
            fs::rename(&folder, aside).with_context(|| format!("remove {}", folder.display()))?;
            going.push(folder);
            bytes -= own;
            count -= 1;
        }
        Ok(going)
    }
}

impl Making {
    /// What was made gets its name.
    pub(super) fn finish(self) -> Result<()> {
        let Self { place, folder, .. } = &self;
        let finished = size_of(place).and_then(|bytes| {
            let mut ready = File::create(place.join(READY))?;
            ready.write_all(format!("{bytes}\n").as_bytes())?;
            ready.sync_all()?;
            fs::rename(place, folder)
        });
        finished.with_context(|| format!("finish {}", folder.display()))
    }
}

/// Whether a run lies on a folder; notes of runs that are over are removed.
fn is_used(folder: &Path) -> bool {
    let users = fs::read_dir(folder.join(USERS)).into_iter().flatten().flatten();
    let mut used = false;
    for user in users {
        let root = fs::read(user.path()).unwrap_or_default();
        let root = PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(root));
        let run = RunFolder::at(root);
        if Kind::ALL
            .iter()
            .any(|kind| run.lies_on(*kind).is_some_and(|on| on == folder))
        {
            used = true;
        } else {
            // One that cannot be removed is looked at again.
            drop(fs::remove_file(user.path()));
        }
    }
    used
}

fn complete_in(repository: &Path) -> Result<Vec<Listed>> {
    let mut found = Vec::new();
    for folder in folders(repository)? {
        let ready = folder.join(READY);
        let (Ok(text), Ok(of_ready)) = (fs::read_to_string(&ready), fs::metadata(&ready)) else {
            continue;
        };
        if name_of(&folder).starts_with('.') {
            continue;
        }
        found.push(Listed {
            folder,
            bytes: text.trim().parse().unwrap_or(0),
            used: of_ready.modified().unwrap_or(SystemTime::UNIX_EPOCH),
        });
    }
    Ok(found)
}

/// Bytes on the disk of everything in a folder.
pub(super) fn size_of(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0_u64;
    let mut left = vec![folder.to_owned()];
    while let Some(path) = left.pop() {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let found = entry.metadata()?;
            bytes += found.blocks() * 512;
            if found.is_dir() {
                left.push(entry.path());
            }
        }
    }
    Ok(bytes)
}

/// Two removals of the same folder may meet.
fn remove_folder(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn name_of(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The folders in a folder that may not be there.
fn folders(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("list {}", folder.display())),
    };
    let folders = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    Ok(folders.map(|entry| entry.path()).collect())
}

/// A lock that ends with the file, and thus with the process.
fn lock(folder: &Path) -> Result<File> {
    let file = lock_file(folder)?;
    file.lock().with_context(|| format!("lock {}", folder.display()))?;
    Ok(file)
}

fn try_lock(folder: &Path) -> Result<Option<File>> {
    let file = lock_file(folder)?;
    Ok(file.try_lock().is_ok().then_some(file))
}

fn lock_file(folder: &Path) -> Result<File> {
    let path = folder.join(LOCK);
    let opened = File::options().create(true).truncate(false).write(true).open(&path);
    opened.with_context(|| format!("open {}", path.display()))
}
