//! Entries of a folder. Called by `files`. Never follows a link.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, OFlags, statat};

use super::super::{Entry, EntryKind, FileReply};
use super::{Refusal, Tree, escape, existing_path, explain};

/// Levels below the folder, however many are asked for.
const MAX_DEPTH: u32 = 64;

/// The largest answer, however much is asked for.
pub(super) const MAX_ENTRIES: usize = 20_000;

/// Most bytes of paths and lines in one answer; as JSON it may become six times as long.
pub(super) const MAX_REPLY_BYTES: usize = 8 * 1024 * 1024;

pub(super) fn list(tree: &Tree, path: &str, depth: u32, max_entries: u32) -> Result<FileReply, Refusal> {
    let folder = existing_path(tree, path)?;
    let mut listing = Listing {
        tree,
        entries: Vec::new(),
        max: (max_entries as usize).min(MAX_ENTRIES),
        bytes: 0,
        truncated: false,
    };
    // The folder itself may be reached through a link inside the workspace; those below are not.
    listing.add(path, &folder, depth.clamp(1, MAX_DEPTH), OFlags::empty())?;
    Ok(FileReply::Entries {
        entries: listing.entries,
        truncated: listing.truncated,
    })
}

struct Listing<'t> {
    tree: &'t Tree,
    entries: Vec<Entry>,
    max: usize,
    bytes: usize,
    truncated: bool,
}

impl Listing<'_> {
    fn add(&mut self, shown: &str, folder: &Path, depth: u32, follow: OFlags) -> Result<(), Refusal> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | follow;
        let opened = self
            .tree
            .open_at(folder, flags)
            .map_err(|error| explain(shown, error))?;
        let names = self.names(&opened).map_err(|error| explain(shown, error))?;
        for (name, kind) in names {
            if self.entries.len() >= self.max || self.bytes >= MAX_REPLY_BYTES {
                self.truncated = true;
                return Ok(());
            }
            let path = folder.join(&name);
            let bytes = match statat(&opened, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) if kind == EntryKind::File => u64::try_from(found.st_size).unwrap_or(0),
                _ => 0,
            };
            let shown = escape(path.as_os_str());
            self.bytes += shown.len();
            self.entries.push(Entry {
                path: shown.clone(),
                kind,
                bytes,
            });
            if kind == EntryKind::Folder && depth > 1 && name != ".git" {
                // A folder that vanished or may not be read is listed, with nothing in it.
                let _ = self.add(&shown, &path, depth - 1, OFlags::NOFOLLOW);
            }
        }
        Ok(())
    }

    fn names(&mut self, folder: &impl rustix::fd::AsFd) -> Result<BTreeMap<OsString, EntryKind>, rustix::io::Errno> {
        let mut names = BTreeMap::new();
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems do not say.
                FileType::Unknown => statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |found| FileType::from_raw_mode(found.st_mode)),
                known => known,
            };
            names.insert(name.to_owned(), kind_of(kind));
            if names.len() > self.max.saturating_sub(self.entries.len()) {
                // Only the first ones in order will be shown, however large the folder is.
                names.pop_last();
                self.truncated = true;
            }
        }
        Ok(names)
    }
}

fn kind_of(kind: FileType) -> EntryKind {
    match kind {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Folder,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    }
}

/// An entry for a path that was found by other means.
pub(super) fn file_entry(path: PathBuf, bytes: u64) -> Entry {
    Entry {
        path: escape(path.as_os_str()),
        kind: EntryKind::File,
        bytes,
    }
}
