//! Paths without end, resolved by us and by a walker written by hand, over a real tree with links in
//! every direction. Never may a reply hold a byte from outside, and never may a file outside change.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fastrand::Rng;

use super::*;
use crate::clock::fuzz;

const PIECES: &[&str] = &[
    "a",
    "b",
    "file",
    "deep",
    "..",
    ".",
    "",
    "in",
    "up",
    "out",
    "absolute",
    "loop",
    "dangling",
    "folder-out",
    "self",
    "%2e%2e",
    "\\",
    "..\\..",
    "workspace",
    "/workspace",
    "/workspace/",
    "/workspace-evil",
    "workspace-evil",
    "secret",
    "new",
    "\0",
    "é",
    "\\xff",
    "...",
    " ",
    "~",
    "proc/self/root",
    "/proc/self/root",
    "/etc/passwd",
    "/",
];

/// The parts of a path, the first on top.
fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.as_os_str().as_bytes().split(|byte| *byte == b'/').rev();
    parts.map(|part| OsStr::from_bytes(part).to_owned()).collect()
}

/// Where a path of the tree leads, or nothing where it leaves it on the way.
fn walk(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut left = parts(path);
    let mut at: Vec<OsString> = Vec::new();
    let mut links = 0;
    while let Some(part) = left.pop() {
        match part.to_str() {
            // Nothing between two slashes, or behind the last one: a folder must be there.
            Some("" | ".") => {}
            Some("..") => drop(at.pop()?),
            _ => at.push(part),
        }
        let full = root.join(at.iter().collect::<PathBuf>());
        let found = fs::symlink_metadata(&full).ok()?;
        if found.is_symlink() {
            links += 1;
            let target = fs::read_link(&full).ok()?;
            if links > 40 || target.is_absolute() {
                return None;
            }
            at.pop();
            left.extend(parts(&target));
        } else if !found.is_dir() && !left.is_empty() {
            return None;
        }
    }
    Some(root.join(at.iter().collect::<PathBuf>()))
}

/// A workspace, a neighbour whose name begins alike, and what lies above.
fn tree(base: &Path) -> PathBuf {
    let root = base.join("workspace");
    for folder in ["workspace/a/b/deep", "workspace-evil", "outside/folder"] {
        fs::create_dir_all(base.join(folder)).unwrap();
    }
    for file in [
        "secret",
        "workspace-evil/secret",
        "outside/secret",
        "outside/folder/file",
    ] {
        fs::write(base.join(file), format!("OUTSIDE {file}")).unwrap();
    }
    for file in ["file", "a/file", "a/b/file", "a/b/deep/file"] {
        fs::write(root.join(file), format!("inside {file}")).unwrap();
    }
    for (target, name) in [
        ("a/b", "in"),
        ("../file", "a/up"),
        ("../../secret", "a/out"),
        ("../outside", "folder-out"),
        ("../workspace/a", "self"),
        ("loop", "loop"),
        ("nowhere", "dangling"),
        ("../../../../../../../../etc", "a/b/out"),
    ] {
        symlink(target, root.join(name)).unwrap();
    }
    symlink(base.join("outside"), root.join("absolute")).unwrap();
    symlink("/", root.join("a/b/absolute")).unwrap();
    root
}

fn outside(base: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![base.to_path_buf()];
    while let Some(path) = left.pop() {
        if path == base.join("workspace") {
            continue;
        }
        if path.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().flatten().map(|entry| entry.path()));
            found.insert(path, Vec::new());
        } else {
            let content = fs::read(&path).unwrap();
            found.insert(path, content);
        }
    }
    found
}

fn path(chance: &mut Rng) -> String {
    let parts: Vec<&str> = (0..chance.usize(1..7))
        .map(|_| PIECES[chance.usize(..PIECES.len())])
        .collect();
    let separator = if chance.u8(..) < 16 { "" } else { "/" };
    parts.join(separator)
}

#[test]
fn f01_f02_f03_no_path_reads_or_writes_outside() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path().canonicalize().unwrap();
    let root = tree(&base);
    let before = outside(&base);
    let mut read = 0_u64;
    fuzz("paths", |chance| {
        for _ in 0..100 {
            let path = path(chance);
            read += u64::from(check_read(&root, &path));
        }
        let path = path(chance);
        check_write(&root, &path);
        assert_eq!(outside(&base), before, "writing {path:?} changed something outside");
    });
    assert!(read > 0, "no path led to a file");
}

/// Where a path as a model writes it leads: bytes that are not UTF-8 may stand as `\\xNN`.
fn leads(root: &Path, path: &str) -> Option<PathBuf> {
    let relative = parse_path(path).ok()?;
    walk(root, &relative).or_else(|| {
        let meant = path.contains(r"\x").then(|| unescape(relative.as_os_str()))?;
        walk(root, &meant)
    })
}

fn check_read(root: &Path, path: &str) -> bool {
    let expected = leads(root, path).filter(|file| file.is_file());
    let expected = expected.map(|file| fs::read(file).unwrap());
    let request = FileRequest::Read {
        path: path.to_owned(),
        max_bytes: 1_000,
    };
    match answer(root, &request) {
        FileReply::Content { content, .. } => {
            let content = BASE64_STANDARD.decode(content).unwrap();
            assert!(!content.starts_with(b"OUTSIDE"), "{path:?} leads outside");
            assert_eq!(Some(content), expected, "{path:?} leads elsewhere for the walker");
            true
        }
        FileReply::Failed { problem } => {
            assert!(!problem.contains("OUTSIDE"), "{path:?}: {problem}");
            assert_eq!(
                expected, None,
                "{path:?} is refused ({problem}), but leads to a file inside"
            );
            false
        }
        other => panic!("{path:?}: {other:?}"),
    }
}

/// Writes and takes it back, where a file was made; what was there keeps its content.
fn check_write(root: &Path, path: &str) {
    let known = leads(root, path).filter(|file| file.is_file());
    let content = known
        .as_ref()
        .map_or_else(|| b"inside new".to_vec(), |file| fs::read(file).unwrap());
    let request = FileRequest::Write {
        path: path.to_owned(),
        content: BASE64_STANDARD.encode(content),
        expect_sha256: None,
    };
    if matches!(answer(root, &request), FileReply::Failed { .. }) || known.is_some() {
        return;
    }
    // A new file is made by its name, also where a `.` behind it asks for a folder, and where the name
    // stands for other bytes. One that is not found again stays: the tree may grow, inside.
    let named = || {
        let relative: PathBuf = parse_path(path).ok()?.components().collect();
        walk(root, &relative).or_else(|| walk(root, &unescape(relative.as_os_str())))
    };
    if let Some(made) = leads(root, path).or_else(named).filter(|made| made.is_file()) {
        fs::remove_file(made).unwrap();
    }
}
