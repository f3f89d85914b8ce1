//! The bytes of a view's files, from the mirror or from a folder, and the search of a literal in the
//! files that the index names for it. Called by tools and by ranking. Never reads a file as a whole
//! that is larger than asked for, and never follows a link out of the folder.

use std::io::Read;
use std::path::Path;

use super::view::{FileId, View};
use crate::git::{Blob, Git, GitError};

/// Where the bytes are.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// A repository; files that were edited since are not in it.
    Mirror {
        /// Git.
        git: &'a Git,
        /// The bare repository.
        repo: &'a Path,
    },
    /// A folder with a checkout of the view.
    Folder(&'a Path),
}

/// A line that holds what was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// The file.
    pub file: FileId,
    /// The line, from 1.
    pub line: u32,
    /// The line's text, at most 400 bytes of it.
    pub text: String,
}

/// Bytes of a line that are shown.
const MAX_LINE: usize = 400;

impl Source<'_> {
    /// Calls `found` with the bytes of each file that is there and not larger than `max_bytes`, until
    /// it says no. Blocks its thread.
    pub fn each(
        &self,
        view: &View,
        files: &[FileId],
        max_bytes: u64,
        mut found: impl FnMut(FileId, &[u8]) -> bool,
    ) -> Result<(), GitError> {
        let mut bytes = Vec::new();
        match self {
            Self::Mirror { git, repo } => {
                let ids = files.iter().map(|file| view.blob(*file)).collect();
                let mut blobs = git.blobs(repo, ids, max_bytes)?;
                for file in files {
                    let blob = blobs.next(&mut bytes)?;
                    if blob == Some(Blob::Here) && !found(*file, &bytes) {
                        break;
                    }
                }
            }
            Self::Folder(folder) => {
                for file in files {
                    let is_read = read(folder, view.path(*file), max_bytes, &mut bytes).is_some();
                    if is_read && !found(*file, &bytes) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Lines with a literal, at most `max`, by path and line.
    pub fn find(&self, view: &View, literal: &str, max: usize) -> Result<Vec<Hit>, GitError> {
        let candidates = view.literal(literal);
        let finder = memchr::memmem::Finder::new(literal);
        let mut hits = Vec::new();
        if literal.is_empty() {
            return Ok(hits);
        }
        self.each(view, &candidates.files, MAX_SEARCHED, |file, bytes| {
            add_hits(&finder, file, bytes, max, &mut hits);
            hits.len() < max
        })?;
        Ok(hits)
    }
}

/// Largest file that is searched; the index has none that is larger.
const MAX_SEARCHED: u64 = 16 << 20;

fn add_hits(finder: &memchr::memmem::Finder<'_>, file: FileId, bytes: &[u8], max: usize, hits: &mut Vec<Hit>) {
    let (mut line, mut counted, mut from) = (1, 0, 0);
    while let Some(at) = finder.find(&bytes[from..]).map(|at| from + at) {
        if hits.len() == max {
            return;
        }
        line += memchr::memchr_iter(b'\n', &bytes[counted..at]).count() as u32;
        counted = at;
        let start = memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |end| end + 1);
        let end = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |end| at + end);
        let shown = &bytes[start..end.min(start + MAX_LINE)];
        hits.push(Hit {
            file,
            line,
            text: String::from_utf8_lossy(shown).trim_end().to_owned(),
        });
        // One hit a line; a literal with a line's end in it goes on behind its first line.
        from = end.max(at + 1).min(bytes.len());
    }
}

/// A file's bytes through no link, neither its own nor that of a folder above it.
fn read(folder: &Path, path: &str, max_bytes: u64, into: &mut Vec<u8>) -> Option<()> {
    use rustix::fs::{CWD, Mode, OFlags, openat};
    into.clear();
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = openat(CWD, folder, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    for part in folders.split('/').filter(|part| !part.is_empty()) {
        if part == ".." {
            return None;
        }
        at = openat(&at, part, flags | OFlags::DIRECTORY, Mode::empty()).ok()?;
    }
    // Without waiting: a pipe in place of the file would wait for ever.
    let file = openat(&at, name, flags | OFlags::NONBLOCK, Mode::empty()).ok()?;
    let file = std::fs::File::from(file);
    let about = file.metadata().ok()?;
    if !about.is_file() || about.len() > max_bytes {
        return None;
    }
    file.take(max_bytes).read_to_end(into).ok()?;
    Some(())
}
