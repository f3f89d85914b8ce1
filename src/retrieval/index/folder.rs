//! The folder of an index: which segments and trees are in it, opening them, putting new ones there.
//! Called by `index`, `read` and `keep`. Never leaves a half-written file under a name that counts,
//! and removes what cannot be read.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::IndexError;
use super::tree::CommitTree;
use crate::closed;
use crate::ids::CommitSha;
use crate::retrieval::segment::{Built, Segment, SegmentError};

const SEGMENT: &str = "seg";
const TREE: &str = "tree";
const BEGUN: &str = "begun";

/// The folder.
#[derive(Debug)]
pub(super) struct Folder {
    dir: PathBuf,
    version: u64,
    /// The segments that are open, by file name.
    open: Mutex<BTreeMap<String, Arc<Segment>>>,
}

impl Folder {
    pub(super) fn open(dir: &Path, version: u64) -> Result<Self, IndexError> {
        closed::make_folder(dir).map_err(|error| failed(dir, &error))?;
        let folder = Self {
            dir: dir.to_owned(),
            version,
            open: Mutex::default(),
        };
        folder.refresh()?;
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.dir
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The open segments, the largest first: most blobs are there.
    pub(super) fn segments(&self) -> Vec<Arc<Segment>> {
        self.named().into_iter().map(|(_, segment)| segment).collect()
    }

    /// The same with their names.
    pub(super) fn named(&self) -> Vec<(String, Arc<Segment>)> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut named: Vec<_> = open
            .iter()
            .map(|(name, segment)| (name.clone(), segment.clone()))
            .collect();
        named.sort_by_key(|(_, segment)| std::cmp::Reverse(segment.bytes()));
        named
    }

    /// Bytes of all segments.
    pub(super) fn segment_bytes(&self) -> u64 {
        self.segments().iter().map(|segment| segment.bytes()).sum()
    }

    /// Looks which segments there are now. One that is damaged or of another version is removed:
    /// its blobs are parsed again when a commit needs them.
    pub(super) fn refresh(&self) -> Result<(), IndexError> {
        let names = self.names(SEGMENT)?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|name, segment| {
            if segment.is_damaged() {
                tracing::warn!(index = %self.dir.display(), name, "a damaged segment is made anew");
                let _ = fs::remove_file(self.dir.join(name));
                return false;
            }
            names.contains(name)
        });
        for name in names {
            if open.contains_key(&name) {
                continue;
            }
            let path = self.dir.join(&name);
            match Segment::open(&path, self.version) {
                Ok(segment) => drop(open.insert(name, Arc::new(segment))),
                // Another process has put it into a larger one, which is there already.
                Err(SegmentError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(SegmentError::Io(error)) => return Err(failed(&path, &error)),
                Err(problem) => {
                    tracing::warn!(index = %self.dir.display(), name, %problem, "a segment is made anew");
                    let _ = fs::remove_file(&path);
                }
            }
        }
        Ok(())
    }

    fn names(&self, extension: &str) -> Result<Vec<String>, IndexError> {
        let entries = fs::read_dir(&self.dir).map_err(|error| failed(&self.dir, &error))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let has = |name: &String| Path::new(name).extension().is_some_and(|found| found == extension);
        Ok(names.filter(has).collect())
    }

    /// Removes what a process that died had begun. Only under the lock.
    pub(super) fn sweep(&self) -> Result<(), IndexError> {
        for name in self.names(BEGUN)? {
            let _ = fs::remove_file(self.dir.join(name));
        }
        Ok(())
    }

    /// Adds a segment. Only under the lock.
    pub(super) fn add(
        &self,
        write: impl FnOnce(BufWriter<File>) -> Result<(BufWriter<File>, Built), SegmentError>,
    ) -> Result<(), IndexError> {
        let fail = |error: &std::io::Error| failed(&self.dir, error);
        // A name that nobody had before: other processes know segments by their names.
        let begun = tempfile::Builder::new()
            .prefix("")
            .suffix(&format!(".{BEGUN}"))
            .rand_bytes(16)
            .tempfile_in(&self.dir);
        let (file, begun) = begun.map_err(|error| fail(&error))?.into_parts();
        let (to, _) = write(BufWriter::with_capacity(1 << 18, file))?;
        let file = to.into_inner().map_err(|error| fail(error.error()))?;
        file.sync_data().map_err(|error| fail(&error))?;
        let segment = Segment::open(&begun, self.version)?;
        let path = begun.with_extension(SEGMENT);
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        begun.persist(&path).map_err(|error| fail(&error.error))?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(name.unwrap_or_default(), Arc::new(segment));
        Ok(())
    }

    /// Removes segments whose blobs are elsewhere or not needed. Views that stand on them stay as
    /// they are: the system keeps the bytes until the last map is gone.
    pub(super) fn remove(&self, names: &[String]) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            open.remove(name);
            let _ = fs::remove_file(self.dir.join(name));
        }
    }

    fn tree_path(&self, commit: &CommitSha) -> PathBuf {
        self.dir.join(format!("{commit}.{TREE}"))
    }

    /// The tree of a commit that was indexed.
    pub(super) fn tree(&self, commit: &CommitSha) -> Option<CommitTree> {
        let path = self.tree_path(commit);
        let bytes = fs::read(&path).ok()?;
        let tree = CommitTree::decode(&bytes, self.version);
        if tree.is_none() {
            let _ = fs::remove_file(path);
        }
        tree
    }

    /// Keeps the tree of a commit. Only under the lock.
    pub(super) fn save_tree(&self, commit: &CommitSha, tree: &CommitTree) -> Result<(), IndexError> {
        let begun = self.dir.join(format!("{}-tree.{BEGUN}", std::process::id()));
        let write = || {
            let mut file = File::create(&begun)?;
            file.write_all(&tree.encode(self.version))?;
            // Not synced: a torn one has a wrong checksum, and is read from git again.
            drop(file);
            fs::rename(&begun, self.tree_path(commit))
        };
        write().map_err(|error| failed(&begun, &error))
    }

    /// The commits that are remembered, the one used last first.
    pub(super) fn commits(&self) -> Vec<CommitSha> {
        let names = self.names(TREE).unwrap_or_default();
        let mut used: Vec<_> = names
            .iter()
            .filter_map(|name| {
                let commit: CommitSha = Path::new(name).file_stem()?.to_str()?.parse().ok()?;
                let at = fs::metadata(self.dir.join(name)).ok()?.modified().ok()?;
                Some((at, commit))
            })
            .collect();
        used.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        used.into_iter().map(|(_, commit)| commit).collect()
    }

    /// The tree that was used last.
    pub(super) fn latest(&self) -> Option<(CommitSha, CommitTree)> {
        let commit = self.commits().into_iter().next()?;
        let tree = self.tree(&commit)?;
        Some((commit, tree))
    }

    pub(super) fn forget(&self, commit: &CommitSha) {
        let _ = fs::remove_file(self.tree_path(commit));
    }

    /// Marks a tree as used now.
    pub(super) fn touch(&self, commit: &CommitSha) {
        use rustix::fs::{Timespec, Timestamps, UTIME_NOW, futimens};
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        if let Ok(file) = File::options().write(true).open(self.tree_path(commit)) {
            let _ = futimens(
                &file,
                &Timestamps {
                    last_access: now,
                    last_modification: now,
                },
            );
        }
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        let entries = fs::read_dir(&self.dir).into_iter().flatten();
        entries
            .filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len()))
            .sum()
    }
}

fn failed(path: &Path, error: &std::io::Error) -> IndexError {
    IndexError::Folder(format!("{}: {error}", path.display()))
}
