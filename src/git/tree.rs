//! What a commit consists of, without a checkout: its files with their blobs, what differs between
//! two commits, and the bytes of many blobs from one process. Called by `retrieval`, on threads that
//! may block. Never fetches: a blob that a partial mirror does not have is told as missing.

use std::fmt;
use std::io::{BufRead, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::run::Stream;
use super::{Git, GitError};
use crate::ids::CommitSha;

/// Most entries of a tree; the largest public repositories have half a million files.
const MAX_ENTRIES: usize = 2_000_000;
/// Longest path that is taken; the limit of the system for a path is 4096.
const MAX_PATH: usize = 4096;
/// Bytes of an unwanted blob that are rather read than avoided by starting git again.
const DRAINED: u64 = 8 << 20;
/// Longest time for all blobs of a repository.
const BLOBS_TIMEOUT: Duration = Duration::from_secs(3600);

/// A blob's id: all of a SHA-1, and of a SHA-256 the first twenty bytes, by which git finds it too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobId(pub [u8; 20]);

impl BlobId {
    /// From 40 or 64 hexadecimal digits.
    pub fn parse(hex: &[u8]) -> Option<Self> {
        let mut bytes = [0; 32];
        let length = hex.len() / 2;
        if !matches!(hex.len(), 40 | 64) {
            return None;
        }
        hex::decode_to_slice(hex, &mut bytes[..length]).ok()?;
        bytes.first_chunk().copied().map(Self)
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A symbolic link; it is not followed, so circles cannot matter.
    Link,
    /// A commit of another repository.
    Submodule,
    /// Nothing any more, in a list of changes.
    Gone,
}

/// A path with what stands there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The path from the root.
    pub path: String,
    /// What is there.
    pub kind: EntryKind,
    /// The blob; of a submodule, the commit; zeros where nothing is left.
    pub id: BlobId,
}

/// Paths of a commit, or the changed ones.
#[derive(Debug, Default)]
pub struct Tree {
    /// In git's order.
    pub entries: Vec<Entry>,
    /// How many paths are not UTF-8, or too long, and were left out.
    pub unreadable: usize,
}

/// All files of a commit.
pub(super) fn list(git: &Git, repo: &Path, at: &CommitSha) -> Result<Tree, GitError> {
    let stream = git
        .call(&["ls-tree", "-r", "-z", "--full-tree"])
        .arg(at.as_str())
        .git_dir(repo)
        .stream()?;
    let mut tree = Tree::default();
    let mut stdout = stream.records(0);
    while let Some(record) = stdout.next()? {
        let tab = record.iter().position(|byte| *byte == b'\t');
        let (meta, path) = record.split_at(tab.ok_or_else(|| odd("ls-tree", record))?);
        let mut meta = meta.split(|byte| *byte == b' ');
        let mode = meta.next().unwrap_or_default();
        let id = meta.nth(1).and_then(BlobId::parse);
        tree.add(mode, id.ok_or_else(|| odd("ls-tree", record))?, &path[1..])?;
    }
    stdout.finish(&format!("commit {at}"))?;
    Ok(tree)
}

/// What `to` has otherwise than `from`.
pub(super) fn changed(git: &Git, repo: &Path, from: &CommitSha, to: &CommitSha) -> Result<Tree, GitError> {
    let stream = git
        .call(&[
            "diff-tree",
            "-r",
            "-z",
            "--raw",
            "--no-renames",
            "--full-index",
            "--end-of-options",
        ])
        .arg(from.as_str())
        .arg(to.as_str())
        .git_dir(repo)
        .stream()?;
    let mut tree = Tree::default();
    let mut stdout = stream.records(0);
    while let Some(meta) = stdout.next()? {
        // `:100644 100644 <old> <new> M`, and the path as a record of its own.
        let fields: Vec<&[u8]> = meta.split(|byte| *byte == b' ').collect();
        let [_, mode, _, id, _] = fields[..] else {
            return Err(odd("diff-tree", meta));
        };
        let (mode, id) = (mode.to_vec(), BlobId::parse(id).ok_or_else(|| odd("diff-tree", meta))?);
        let path = stdout.next()?.ok_or_else(|| odd("diff-tree", b""))?;
        tree.add(&mode, id, path)?;
    }
    stdout.finish(&format!("commits {from} and {to}"))?;
    Ok(tree)
}

impl Tree {
    fn add(&mut self, mode: &[u8], id: BlobId, path: &[u8]) -> Result<(), GitError> {
        let kind = match mode {
            b"120000" => EntryKind::Link,
            b"160000" => EntryKind::Submodule,
            b"000000" => EntryKind::Gone,
            _ => EntryKind::File,
        };
        match std::str::from_utf8(path) {
            Ok(path) if path.len() <= MAX_PATH => self.entries.push(Entry {
                path: path.to_owned(),
                kind,
                id,
            }),
            _ => self.unreadable += 1,
        }
        if self.entries.len() > MAX_ENTRIES {
            return Err(GitError::Failed(format!("the tree has more than {MAX_ENTRIES} files")));
        }
        Ok(())
    }
}

fn odd(verb: &str, record: &[u8]) -> GitError {
    let shown = String::from_utf8_lossy(&record[..record.len().min(80)]);
    GitError::Failed(format!("git {verb} answers with {shown:?}"))
}

/// The size in `<id> blob <size>`, nothing for `<id> missing`.
fn parse_header(line: &[u8]) -> Result<Option<u64>, GitError> {
    let text = std::str::from_utf8(line).map_err(|_| odd("cat-file", line))?;
    let mut words = text.split(' ').skip(1);
    match (words.next(), words.next()) {
        (Some("missing"), None) => Ok(None),
        (Some(_), Some(size)) => size.parse().map(Some).map_err(|_| odd("cat-file", line)),
        _ => Err(odd("cat-file", line)),
    }
}

/// Ids, a line each, as a nameless file: a pipe would have to be fed while it is read.
fn list_of(ids: &[BlobId]) -> Result<std::fs::File, GitError> {
    let write = || {
        let mut file = tempfile::tempfile()?;
        let mut text = String::with_capacity(ids.len() * 41);
        for id in ids {
            text.push_str(&id.to_string());
            text.push('\n');
        }
        file.write_all(text.as_bytes())?;
        file.rewind()?;
        Ok(file)
    };
    write().map_err(|error: std::io::Error| GitError::Failed(format!("a list of blobs: {error}")))
}

/// A blob as it was read.
#[derive(Debug, PartialEq, Eq)]
pub enum Blob {
    /// Its bytes are in the buffer.
    Here,
    /// The mirror does not have it.
    Missing,
    /// It has this many bytes, more than wanted.
    TooLarge(u64),
}

/// Blobs in the order in which they were asked for.
pub struct Blobs {
    git: Git,
    repo: PathBuf,
    ids: Vec<BlobId>,
    next: usize,
    max_bytes: u64,
    stream: Stream,
}

impl fmt::Debug for Blobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blobs({} of {})", self.next, self.ids.len())
    }
}

/// Starts to read blobs.
pub(super) fn blobs(git: &Git, repo: PathBuf, ids: Vec<BlobId>, max_bytes: u64) -> Result<Blobs, GitError> {
    Ok(Blobs {
        stream: start(git, &repo, &ids)?,
        git: git.clone(),
        repo,
        ids,
        next: 0,
        max_bytes,
    })
}

fn start(git: &Git, repo: &Path, ids: &[BlobId]) -> Result<Stream, GitError> {
    git.call(&["cat-file", "--batch", "--buffer"])
        // Git reads smaller blobs into memory before it tells how large they are.
        .config(format!("core.bigFileThreshold={DRAINED}"))
        .git_dir(repo)
        .stdin_file(list_of(ids)?)
        .timeout(BLOBS_TIMEOUT)
        .stream()
}

impl Blobs {
    /// The next blob, its bytes in `into`; nothing after the last one.
    pub fn next(&mut self, into: &mut Vec<u8>) -> Result<Option<Blob>, GitError> {
        let fail = |error: std::io::Error| GitError::Failed(format!("git cat-file: {error}"));
        into.clear();
        if self.next == self.ids.len() {
            return Ok(None);
        }
        self.next += 1;
        let from = &mut self.stream.stdout;
        from.by_ref().take(256).read_until(b'\n', into).map_err(fail)?;
        if into.pop() != Some(b'\n') {
            return Err(GitError::Failed("git cat-file ends before the last blob".to_owned()));
        }
        let Some(size) = parse_header(into)? else {
            return Ok(Some(Blob::Missing));
        };
        into.clear();
        if size > self.max_bytes {
            self.skip(size)?;
            return Ok(Some(Blob::TooLarge(size)));
        }
        // The line's end after the blob belongs to the answer.
        from.take(size + 1).read_to_end(into).map_err(fail)?;
        if into.pop() != Some(b'\n') || into.len() as u64 != size {
            return Err(GitError::Failed("git cat-file ends within a blob".to_owned()));
        }
        Ok(Some(Blob::Here))
    }

    /// Goes past a blob: by reading it, or with another git when it is very large.
    fn skip(&mut self, size: u64) -> Result<(), GitError> {
        if size > DRAINED {
            self.stream = start(&self.git, &self.repo, &self.ids[self.next..])?;
            return Ok(());
        }
        let mut rest = self.stream.stdout.by_ref().take(size + 1);
        let drained = std::io::copy(&mut rest, &mut std::io::sink());
        drained.map_err(|error| GitError::Failed(format!("git cat-file: {error}")))?;
        Ok(())
    }
}
