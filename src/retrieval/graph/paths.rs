//! The paths of a view by folder, by last name and by stem, so that what an import writes is found
//! without a walk. Made once for a view. Never knows what a file holds.

use std::collections::HashMap;

use crate::retrieval::view::{FileId, View};

/// The paths of a view.
#[derive(Debug, Default)]
pub(super) struct Paths {
    folders: HashMap<Box<str>, Vec<FileId>>,
    by_last: HashMap<Box<str>, Vec<Box<str>>>,
    by_stem: HashMap<Box<str>, Vec<FileId>>,
}

impl Paths {
    pub(super) fn of(view: &View) -> Self {
        let mut paths = Self::default();
        for file in view.files() {
            let path = view.path(file);
            let folder = folder_of(path);
            if !paths.folders.contains_key(folder) {
                paths.add_folder(folder);
            }
            if let Some(files) = paths.folders.get_mut(folder) {
                files.push(file);
            }
            let stem = stem_of(path);
            if let Some(files) = paths.by_stem.get_mut(stem) {
                files.push(file);
            } else {
                paths.by_stem.insert(stem.into(), vec![file]);
            }
        }
        paths
    }

    fn add_folder(&mut self, folder: &str) {
        let mut folder = folder;
        while !self.folders.contains_key(folder) {
            self.folders.insert(folder.into(), Vec::new());
            let last = last_of(folder);
            self.by_last.entry(last.into()).or_default().push(folder.into());
            if folder.is_empty() {
                break;
            }
            folder = folder_of(folder);
        }
    }

    /// The files that stand in a folder itself.
    pub(super) fn in_folder(&self, folder: &str) -> &[FileId] {
        self.folders.get(folder).map_or(&[], Vec::as_slice)
    }

    /// Whether there is such a folder.
    pub(super) fn has_folder(&self, folder: &str) -> bool {
        self.folders.contains_key(folder)
    }

    /// Folders whose path ends with this one: `a/b` finds `x/a/b`.
    pub(super) fn folders_ending(&self, tail: &str) -> impl Iterator<Item = &str> {
        let all = self.by_last.get(last_of(tail)).map_or(&[][..], Vec::as_slice);
        all.iter()
            .map(|folder| &**folder)
            .filter(move |folder| ends(folder, tail))
    }

    /// Files of this stem: `a/b.rs` has `b`.
    pub(super) fn of_stem(&self, stem: &str) -> &[FileId] {
        self.by_stem.get(stem).map_or(&[], Vec::as_slice)
    }
}

/// Whether a path is another or ends with it at a slash.
pub(super) fn ends(path: &str, tail: &str) -> bool {
    path.strip_suffix(tail)
        .is_some_and(|before| before.is_empty() || before.ends_with('/') || tail.is_empty())
}

/// What stands before the last slash.
pub(super) fn folder_of(path: &str) -> &str {
    path.rfind('/').map_or("", |at| &path[..at])
}

/// What stands behind the last slash.
pub(super) fn last_of(path: &str) -> &str {
    path.rfind('/').map_or(path, |at| &path[at + 1..])
}

/// A file's name without its extensions. `a.test.ts` has `a.test`: only the last one goes, but for
/// declarations in TypeScript.
pub(super) fn stem_of(path: &str) -> &str {
    let last = last_of(path);
    let last = last.strip_suffix(".d.ts").unwrap_or(last);
    match last.rfind('.') {
        Some(at) if at > 0 => &last[..at],
        _ => last,
    }
}

/// A path put behind a folder, with its `.` and `..` taken out; nothing when it leaves the
/// repository.
pub(super) fn join(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// A folder and those above it, nearest first, the root as the last.
pub(super) fn ancestors(folder: &str) -> impl Iterator<Item = &str> {
    let mut next = Some(folder);
    std::iter::from_fn(move || {
        let folder = next?;
        next = (!folder.is_empty()).then(|| folder_of(folder));
        Some(folder)
    })
}

/// How many bytes two paths begin with alike: more for files that stand nearer to each other.
pub(super) fn in_common(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}
