//! A file's bytes out and in. Called by `files`.
//! Never truncates in place: a write is a new file that takes the old one's name and mode.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::super::FileReply;
use super::{Refusal, Tree, escape, existing_path, explain, parse_path};
use crate::text::bytes_in_words;

/// Larger files are for shell commands; hashing them would take seconds.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Most bytes of one transfer.
const MAX_TRANSFER_BYTES: u64 = 16 * 1024 * 1024;

/// Folders made for one write.
const MAX_NEW_FOLDERS: usize = 64;

const BLOCK: usize = 64 * 1024;

pub(super) fn read(tree: &Tree, path: &str, max_bytes: u64) -> Result<FileReply, Refusal> {
    let found = existing_path(tree, path)?;
    let file = tree
        .open_at(&found, OFlags::RDONLY)
        .map_err(|error| explain(path, error))?;
    let bytes = regular_size(path, &file)?;
    let (content, sha256) = digest(path, file, max_bytes.min(MAX_TRANSFER_BYTES))?;
    Ok(FileReply::Content {
        content: BASE64_STANDARD.encode(content),
        sha256,
        bytes,
    })
}

fn regular_size(path: &str, file: &OwnedFd) -> Result<u64, Refusal> {
    let found = rustix::fs::fstat(file).map_err(|error| explain(path, error))?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(format!("{path} is a folder; list it instead")),
        _ => return Err(format!("{path} is not a regular file (a pipe, socket or device)")),
    }
    let bytes = u64::try_from(found.st_size).unwrap_or(0);
    if bytes > MAX_FILE_BYTES {
        let size = bytes_in_words(bytes);
        return Err(format!(
            "{path} has {size}; files over {} are only for commands such as head, tail or grep",
            bytes_in_words(MAX_FILE_BYTES)
        ));
    }
    Ok(bytes)
}

/// The head of a file and the SHA-256 of all of it.
fn digest(path: &str, file: OwnedFd, keep: u64) -> Result<(Vec<u8>, String), Refusal> {
    // A file may grow while it is read.
    let mut file = File::from(file).take(MAX_FILE_BYTES + 1);
    let keep = usize::try_from(keep).unwrap_or(usize::MAX);
    let (mut content, mut hash, mut block) = (Vec::new(), Sha256::new(), vec![0; BLOCK]);
    loop {
        let length = file
            .read(&mut block)
            .map_err(|error| format!("{path} cannot be read: {error}"))?;
        if length == 0 {
            return Ok((content, hex::encode(hash.finalize())));
        }
        hash.update(&block[..length]);
        let wanted = length.min(keep.saturating_sub(content.len()));
        content.extend_from_slice(&block[..wanted]);
    }
}

pub(super) fn write(tree: &Tree, path: &str, content: &str, expect: Option<&str>) -> Result<FileReply, Refusal> {
    let content = BASE64_STANDARD
        .decode(content)
        .map_err(|error| format!("the content is not base64: {error}"))?;
    if content.len() as u64 > MAX_TRANSFER_BYTES {
        return Err(format!(
            "at most {} can be written at once",
            bytes_in_words(MAX_TRANSFER_BYTES)
        ));
    }
    let target = write_path(tree, path)?;
    let (Some(name), Some(parent)) = (target.file_name(), target.parent()) else {
        return Err(format!("{path:?} does not name a file"));
    };
    let folder = make_folders(tree, parent).map_err(|problem| format!("{path}: {problem}"))?;
    let old = old_file(path, &folder, name)?;
    if let Some(expected) = expect {
        check_unchanged(tree, path, &target, old.is_some(), expected)?;
    }
    let mode = old.map_or(0o666, |old| old.st_mode & 0o777);
    replace(&folder, name, &content, mode).map_err(|error| format!("{path} cannot be written: {error}"))?;
    Ok(FileReply::Written {
        sha256: hex::encode(Sha256::digest(&content)),
        created: old.is_none(),
    })
}

/// A path to write: existing names may be escaped, and the last part must be a plain name.
pub(super) fn write_path(tree: &Tree, path: &str) -> Result<PathBuf, Refusal> {
    parse_path(path)?;
    if path.ends_with('/') {
        return Err(format!("{path} names a folder"));
    }
    let target = existing_path(tree, path)?;
    match target.components().next_back() {
        Some(Component::Normal(_)) => refuse_git(path, &target).map(|()| target),
        _ => Err(format!("{path:?} does not name a file")),
    }
}

/// The workspace's own repository belongs to git.
fn refuse_git(path: &str, resolved: &Path) -> Result<(), Refusal> {
    let is_git = |part: Component<'_>| part.as_os_str().eq_ignore_ascii_case(".git");
    if resolved.components().any(is_git) {
        return Err(format!("{path} lies in a .git folder, which only git may write"));
    }
    Ok(())
}

/// Opens the folder, making what is missing of it.
pub(super) fn make_folders(tree: &Tree, folder: &Path) -> Result<OwnedFd, Refusal> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut missing = Vec::new();
    let mut existing = folder;
    let mut opened = loop {
        match tree.open_at(existing, flags) {
            Ok(opened) => break opened,
            Err(Errno::NOENT) if missing.len() < MAX_NEW_FOLDERS => {
                let (Some(parent), Some(name)) = (existing.parent(), existing.file_name()) else {
                    return Err("the folder does not exist".to_owned());
                };
                missing.push(name);
                existing = parent;
            }
            Err(Errno::NOENT) => return Err(format!("more than {MAX_NEW_FOLDERS} folders would have to be made")),
            Err(error) => return Err(explain(&escape(existing.as_os_str()), error)),
        }
    };
    // Through a link the path may lead into .git under another name.
    let resolved = tree
        .path_of(&opened)
        .map_err(|error| explain(&escape(existing.as_os_str()), error))?;
    refuse_git("the path", &resolved)?;
    for name in missing.into_iter().rev() {
        opened = make_folder(&opened, name).map_err(|error| format!("a folder cannot be made: {error}"))?;
    }
    Ok(opened)
}

fn make_folder(parent: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

pub(super) fn old_file(path: &str, folder: &OwnedFd, name: &OsStr) -> Result<Option<Stat>, Refusal> {
    let found = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(explain(path, error)),
    };
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Ok(Some(found)),
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(folder, name, Vec::new()).unwrap_or_default();
            let target = target.to_string_lossy().into_owned();
            Err(format!(
                "{path} is a symbolic link to {target}; write to that file, or remove the link first"
            ))
        }
        FileType::Directory => Err(format!("{path} is a folder")),
        _ => Err(format!("{path} is not a regular file (a pipe, socket or device)")),
    }
}

pub(super) fn check_unchanged(
    tree: &Tree,
    path: &str,
    target: &Path,
    exists: bool,
    expected: &str,
) -> Result<(), Refusal> {
    if !exists {
        return Err(format!("{path} no longer exists; look again before writing"));
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW;
    let file = tree.open_at(target, flags).map_err(|error| explain(path, error))?;
    regular_size(path, &file)?;
    let (_, sha256) = digest(path, file, 0)?;
    if sha256.eq_ignore_ascii_case(expected) {
        Ok(())
    } else {
        Err(format!(
            "{path} changed since it was read; read it again before writing"
        ))
    }
}

fn replace(folder: &OwnedFd, name: &OsStr, content: &[u8], mode: u32) -> Result<(), std::io::Error> {
    let temporary = temporary_name();
    let written = new_file(folder, OsStr::new(&temporary), content, mode)
        .and_then(|()| Ok(rustix::fs::renameat(folder.as_fd(), &temporary, folder.as_fd(), name)?));
    if written.is_err() {
        let _ = rustix::fs::unlinkat(folder, &temporary, AtFlags::empty());
    }
    written
}

/// A name beside a file that nobody else uses and no export takes along.
pub(super) fn temporary_name() -> String {
    format!(".forgehand-{}", hex::encode(crate::secret::random_bytes::<8>()))
}

pub(super) fn new_file(folder: &OwnedFd, name: &OsStr, content: &[u8], mode: u32) -> Result<(), std::io::Error> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fill(
        rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(mode))?,
        content,
        mode,
    )
}

fn fill(opened: OwnedFd, content: &[u8], mode: u32) -> Result<(), std::io::Error> {
    let mut file = File::from(opened);
    file.write_all(content)?;
    // Of a new file the mask decides; an old one keeps its mode exactly.
    if mode != 0o666 {
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
    }
    Ok(())
}
