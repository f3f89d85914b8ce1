//! File operations inside the sandbox: the kernel resolves every path beneath the workspace, so
//! that no link and no race leads out of it. Called by the helper, once per process.
//! Never follows a link to write, and never opens what is not a regular file.

mod change;
mod edited;
mod lines;
mod list;
mod search;
mod syntax;
mod transfer;
mod words;

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{FileReply, FileRequest, WORKSPACE};

/// The kernel's own limit of a path.
const MAX_PATH_BYTES: usize = 4096;

/// The kernel asks to try again when folders are being renamed at the same moment.
const RETRIES: usize = 64;

/// Why an operation was refused, in words for the model.
type Refusal = String;

pub(super) fn answer(workspace: &Path, request: &FileRequest) -> FileReply {
    let done = Tree::open(workspace).and_then(|tree| match request {
        FileRequest::List {
            path,
            depth,
            max_entries,
        } => list::list(&tree, path, *depth, *max_entries),
        FileRequest::Read { path, max_bytes } => transfer::read(&tree, path, *max_bytes),
        FileRequest::Write {
            path,
            content,
            expect_sha256,
        } => transfer::write(&tree, path, content, expect_sha256.as_deref()),
        FileRequest::Change { steps } => change::change(&tree, steps),
        FileRequest::Glob { pattern, max_entries } => search::glob(&tree, pattern, *max_entries),
        FileRequest::Grep { .. } => search::grep(&tree, request),
        FileRequest::AstGrep { .. } => syntax::search(&tree, request),
        FileRequest::Words { .. } => words::search(&tree, request),
        FileRequest::Lines { places } => Ok(lines::read(&tree, places)),
        FileRequest::Edited { since_ns, known } => edited::look(&tree, *since_ns, known),
    });
    done.unwrap_or_else(|problem| FileReply::Failed { problem })
}

/// The folder in which a command starts: below the workspace, and there.
pub(super) fn resolve_folder(workspace: &Path, folder: &str) -> Result<PathBuf, Refusal> {
    if folder.is_empty() {
        return Ok(workspace.to_path_buf());
    }
    let tree = Tree::open(workspace)?;
    let path = parse_path(folder)?;
    tree.open_at(&path, OFlags::PATH | OFlags::DIRECTORY)
        .map_err(|error| explain(folder, error))?;
    Ok(workspace.join(path))
}

/// The workspace.
struct Tree {
    root: OwnedFd,
    path: PathBuf,
}

impl Tree {
    fn open(workspace: &Path) -> Result<Self, Refusal> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(workspace, flags, Mode::empty())
            .map_err(|error| format!("the workspace cannot be opened: {error}"))?;
        Ok(Self {
            root,
            path: workspace.to_path_buf(),
        })
    }

    /// The path without links, still beneath the workspace.
    fn resolve(&self, path: &Path) -> Result<PathBuf, Errno> {
        self.path_of(&self.open_at(path, OFlags::PATH)?)
    }

    fn path_of(&self, opened: &OwnedFd) -> Result<PathBuf, Errno> {
        let link = format!("/proc/self/fd/{}", opened.as_raw_fd());
        let resolved = PathBuf::from(OsString::from_vec(rustix::fs::readlink(link, Vec::new())?.into_bytes()));
        resolved
            .strip_prefix(&self.path)
            .map(Path::to_path_buf)
            .map_err(|_| Errno::XDEV)
    }

    /// Opens something beneath the workspace, without waiting for the other end of a pipe.
    fn open_at(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        // A handle of the path alone takes no other flags.
        let harmless = if flags.contains(OFlags::PATH) {
            OFlags::empty()
        } else {
            OFlags::NOCTTY | OFlags::NONBLOCK
        };
        let flags = flags | OFlags::CLOEXEC | harmless;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut tries = 0;
        loop {
            match rustix::fs::openat2(self.root.as_fd(), path, flags, Mode::empty(), beneath) {
                Err(Errno::AGAIN) if tries < RETRIES => tries += 1,
                opened => return opened,
            }
        }
    }
}

/// A path as the model wrote it, relative to the workspace. The kernel judges `..` and links; this
/// only takes off the ways of naming the workspace itself.
fn parse_path(path: &str) -> Result<PathBuf, Refusal> {
    if path.len() > MAX_PATH_BYTES {
        return Err(format!(
            "the path is {} bytes long; at most {MAX_PATH_BYTES} are possible",
            path.len()
        ));
    }
    if path.contains('\0') {
        return Err("the path contains a NUL character".to_owned());
    }
    let relative = match path.strip_prefix(WORKSPACE) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.trim_start_matches('/'),
        _ => path,
    };
    if relative.starts_with('/') {
        return Err(format!(
            "{path} is outside the workspace; paths are relative to {WORKSPACE}"
        ));
    }
    let mut relative = relative;
    while let Some(rest) = relative.strip_prefix("./") {
        relative = rest.trim_start_matches('/');
    }
    Ok(PathBuf::from(relative))
}

/// As [`parse_path`], then tried with `\xNN` taken as bytes when no such file exists: listings
/// write names that are not UTF-8 that way.
fn existing_path(tree: &Tree, path: &str) -> Result<PathBuf, Refusal> {
    let literal = parse_path(path)?;
    let missing = || tree.open_at(&literal, OFlags::PATH | OFlags::NOFOLLOW).err() == Some(Errno::NOENT);
    if path.contains(r"\x") && missing() {
        Ok(unescape(literal.as_os_str()))
    } else {
        Ok(literal)
    }
}

fn explain(path: &str, error: Errno) -> Refusal {
    let path: String = match path {
        "" => "the workspace".to_owned(),
        path => path.chars().take(200).collect(),
    };
    match error {
        Errno::NOENT => format!("{path} does not exist"),
        Errno::XDEV => format!("{path} leads outside the workspace"),
        Errno::LOOP => format!("{path} goes through a link that may not be followed"),
        Errno::NOTDIR => format!("{path} is not a folder, or goes through something that is none"),
        Errno::ISDIR => format!("{path} is a folder"),
        Errno::NAMETOOLONG => format!("{path}… is too long"),
        Errno::ACCESS | Errno::PERM => format!("{path} may not be opened: permission denied"),
        Errno::NXIO => format!("{path} is not a regular file"),
        other => format!("{path} cannot be opened: {other}"),
    }
}

/// Bytes that are not UTF-8 as `\xNN`.
fn escape(name: &OsStr) -> String {
    let mut text = String::new();
    for chunk in name.as_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

fn unescape(name: &OsStr) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = name.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let code = rest
            .strip_prefix(br"\x")
            .and_then(|digits| std::str::from_utf8(digits.get(..2)?).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(code.unwrap_or(byte));
        rest = if code.is_some() { &rest[4..] } else { tail };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: Option<&str>) {
        assert_eq!(parse_path(path).ok(), expected.map(PathBuf::from));
    }

    #[test]
    fn paths_are_relative_to_the_workspace() {
        check("src/a.rs", Some("src/a.rs"));
        check("./src", Some("src"));
        check("", Some(""));
        check("/workspace", Some(""));
        check("/workspace/src/a.rs", Some("src/a.rs"));
        check("/workspace-evil/a", None);
        check("/etc/passwd", None);
        check("a\0b", None);
        check(&"a/".repeat(5000), None);
        // The kernel judges these.
        check("../x", Some("../x"));
        check("%2e%2e/x", Some("%2e%2e/x"));
    }

    #[test]
    fn names_that_are_not_utf8_survive_both_ways() {
        let name = OsStr::from_bytes(b"caf\xe9-\xff.txt");
        assert_eq!(escape(name), r"caf\xe9-\xff.txt");
        assert_eq!(unescape(OsStr::new(r"caf\xe9-\xff.txt")).as_os_str(), name);
        assert_eq!(unescape(OsStr::new(r"\xzz\x")).as_os_str(), OsStr::new(r"\xzz\x"));
    }
}
