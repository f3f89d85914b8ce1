//! The index of one repository: a folder of segments and of trees of commits. Called by the brief of
//! a run, by tools and from the command line. Parses a blob once ever, whatever commit or file it is
//! in. Never waited for: who has no time asks for a view that is ready. Never fails because of one
//! file, and never trusts what it finds in the folder: what is damaged or old is made anew.
//!
//! The folder is its own list. A segment or tree is written under another name, synced and moved to
//! its name, so whatever has a name is complete. Two segments may hold the same blob; either will do.
//! One process at a time writes, under a lock that the system gives back when it dies.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::extract::{self, Extracted};
use super::facts::Facts;
use super::segment::{BlobKey, Builder, Segment, SegmentError};
use super::view::{self, Place, View};
use crate::git::{BlobId, Git, GitError};
use crate::ids::CommitSha;
use crate::language::{self, Language};

mod folder;
mod keep;
mod lock;
mod read;
mod tree;

use folder::Folder;
use keep::Work;
use lock::Lock;
use tree::{CommitTree, Kind};

/// Why there is no view.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// Somebody asked to stop. What was parsed until then is kept.
    #[error("indexing was stopped")]
    Cancelled,
    /// The time is over. What was parsed until then is kept.
    #[error("indexing takes longer than allowed")]
    Late,
    /// The commit cannot be read.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The folder cannot be used.
    #[error("the index: {0}")]
    Folder(String),
}

impl From<SegmentError> for IndexError {
    fn from(error: SegmentError) -> Self {
        Self::Folder(error.to_string())
    }
}

/// What an index may use.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Most bytes of the folder; older commits are forgotten to stay below.
    pub max_bytes: u64,
    /// Largest file that is read; larger ones are generated or data.
    pub max_file_bytes: u64,
    /// Most bytes of facts in memory while indexing, for all threads together.
    pub max_memory: usize,
    /// Most threads.
    pub max_threads: usize,
    /// Most commits that are remembered.
    pub max_commits: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bytes: 4 << 30,
            // Hand-written files over a megabyte are rarer than bundles and fixtures of that size.
            max_file_bytes: 2 << 20,
            max_memory: 192 << 20,
            max_threads: 4,
            max_commits: 64,
        }
    }
}

/// What was found in a blob.
#[derive(Debug, Default)]
pub struct Reading {
    /// The language that they were read with.
    pub language: Option<&'static Language>,
    /// Facts, empty for what could not be read.
    pub facts: Facts,
    /// What was skipped, and why.
    pub note: Option<String>,
}

/// How blobs are read.
#[derive(Clone, Copy)]
pub struct Reader {
    /// Counts up when the same bytes give other facts: an index of another version is made anew.
    pub version: u64,
    /// Reads a blob at a path, of which only the language matters, until the deadline.
    pub read: fn(path: &str, bytes: &[u8], until: Instant) -> Reading,
}

impl Default for Reader {
    /// The one that reads source code, with a query for each language.
    fn default() -> Self {
        Self {
            version: extract::VERSION,
            read: |path, bytes, until| {
                let Extracted { language, facts, note } = extract::facts_of(path, bytes, until);
                Reading { language, facts, note }
            },
        }
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reader(version {})", self.version)
    }
}

/// How far indexing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Blobs that were read.
    pub done: usize,
    /// Blobs to read.
    pub all: usize,
}

/// Within which bounds an update works.
pub struct Bounds<'a> {
    /// Stops it at the next blob.
    pub cancel: &'a CancellationToken,
    /// When it has to end.
    pub until: Instant,
    /// Told after each blob, on any thread.
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

impl Bounds<'_> {
    fn check(&self) -> Result<(), IndexError> {
        if self.cancel.is_cancelled() {
            Err(IndexError::Cancelled)
        } else if Instant::now() >= self.until {
            Err(IndexError::Late)
        } else {
            Ok(())
        }
    }
}

/// An edited file.
#[derive(Debug, Clone)]
pub struct Edit {
    /// Its path.
    pub path: String,
    /// Its bytes; nothing when it is gone.
    pub content: Option<Vec<u8>>,
}

/// What an index holds and what it did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Blobs that this process parsed.
    pub parsed: u64,
    /// Segments in the folder.
    pub segments: usize,
    /// Blobs in them.
    pub blobs: u64,
    /// Bytes of the folder.
    pub bytes: u64,
    /// Commits that are remembered.
    pub commits: usize,
}

/// Views that stay at hand; another one is put together from the folder in milliseconds.
const MAX_VIEWS: usize = 4;
/// Longest time for the parse of one blob of an edited file, which is waited for.
const EDIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Segments in memory under a view before they are put into one.
const MAX_OVERLAYS: usize = 6;

/// The index of one repository.
#[derive(Debug)]
pub struct Index {
    folder: Folder,
    limits: Limits,
    reader: Reader,
    parsed: AtomicU64,
    views: Mutex<VecDeque<(CommitSha, Arc<View>)>>,
    /// The tree of the last update: the next one is probably a few files away.
    last: Mutex<Option<(CommitSha, CommitTree)>>,
}

impl Index {
    /// The index in a folder, which is made when it does not exist.
    pub fn open(dir: &Path, limits: Limits, reader: Reader) -> Result<Self, IndexError> {
        Ok(Self {
            folder: Folder::open(dir, full_version(reader.version))?,
            limits,
            reader,
            parsed: 0.into(),
            views: Mutex::default(),
            last: Mutex::default(),
        })
    }

    /// The view of a commit, when it is in the index. Waits for nobody.
    pub fn view(&self, commit: &CommitSha) -> Option<Arc<View>> {
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = views.iter().position(|(of, _)| of == commit) {
            let found = views.remove(at)?;
            views.push_front(found.clone());
            if !found.1.is_damaged() {
                return Some(found.1);
            }
            views.pop_front();
        }
        drop(views);
        let tree = self.folder.tree(commit)?;
        self.folder.refresh().ok()?;
        let view = self.look_up(&tree)?;
        self.folder.touch(commit);
        Some(self.remember(commit, view))
    }

    /// The view of a commit, for which blobs that were never seen are read and parsed. Blocks its
    /// thread. Waits for another process that does the same, and then has nothing left to do.
    pub fn update(
        &self,
        git: &Git,
        repo: &Path,
        commit: &CommitSha,
        bounds: &Bounds<'_>,
    ) -> Result<Arc<View>, IndexError> {
        if let Some(view) = self.view(commit).filter(|view| !view.is_incomplete()) {
            return Ok(view);
        }
        let _lock = Lock::take(self.folder.path(), bounds)?;
        self.folder.sweep()?;
        self.folder.refresh()?;
        if let Some(view) = self.view(commit).filter(|view| !view.is_incomplete()) {
            return Ok(view);
        }
        let mut tree = self.read_tree(git, repo, commit)?;
        let segments = self.folder.segments();
        let places = tree.places(&segments)?;
        let wanted = tree.unknown(&places);
        let mut view = None;
        if wanted.is_empty() {
            tree.settle(&HashMap::new());
            view = view_of(&tree, segments, places);
        } else {
            self.read_blobs((git, repo), &wanted, &mut tree, bounds)?;
        }
        self.folder.save_tree(commit, &tree)?;
        if view.is_none() || self.is_too_large() {
            self.evict(commit)?;
            view = self.look_up(&tree);
        }
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((commit.clone(), tree));
        let view = view.ok_or_else(|| IndexError::Folder("a segment was damaged just now".to_owned()))?;
        Ok(self.remember(commit, view))
    }

    /// Does the work that an update puts off, so that it is not waited for: few large segments
    /// instead of many small ones. To be called when there is time. Does nothing while somebody else
    /// writes.
    pub fn tidy(&self) -> Result<(), IndexError> {
        let Some(_lock) = Lock::try_take(self.folder.path())? else {
            return Ok(());
        };
        self.folder.refresh()?;
        keep::merge(&self.folder, Work::Any)
    }

    fn evict(&self, current: &CommitSha) -> Result<(), IndexError> {
        if keep::evict(&self.folder, &self.limits, current)? {
            self.views.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        Ok(())
    }

    /// The tree of a commit, from the last one and what changed since, which is quicker.
    fn read_tree(&self, git: &Git, repo: &Path, commit: &CommitSha) -> Result<CommitTree, IndexError> {
        if let Some(tree) = self.folder.tree(commit) {
            return Ok(tree);
        }
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((base, mut tree)) = last.or_else(|| self.folder.latest())
            && let Ok(changes) = git.changed(repo, &base, commit)
            && changes.unreadable == 0
        {
            tree.change(changes);
            return Ok(tree);
        }
        Ok(CommitTree::new(git.tree(repo, commit)?))
    }

    fn read_blobs(
        &self,
        (git, repo): (&Git, &Path),
        wanted: &[(BlobKey, String)],
        tree: &mut CommitTree,
        bounds: &Bounds<'_>,
    ) -> Result<(), IndexError> {
        let before = self.folder.segment_bytes();
        let job = read::Job {
            git,
            repo,
            folder: &self.folder,
            reader: self.reader,
            limits: &self.limits,
            bounds,
        };
        let read = job.run(wanted, tree);
        self.parsed.fetch_add(read.parsed as u64, Relaxed);
        read.result?;
        let written = self.folder.segment_bytes().saturating_sub(before);
        keep::merge(&self.folder, Work::After(written))
    }

    fn is_too_large(&self) -> bool {
        self.folder.bytes() > self.limits.max_bytes || self.folder.commits().len() > self.limits.max_commits
    }

    /// Nothing when a blob is in no segment.
    fn look_up(&self, tree: &CommitTree) -> Option<View> {
        let segments = self.folder.segments();
        let places = tree.places(&segments).ok()?;
        view_of(tree, segments, places)
    }

    fn remember(&self, commit: &CommitSha, view: View) -> Arc<View> {
        let view = Arc::new(view);
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        views.retain(|(of, _)| of != commit);
        views.push_front((commit.clone(), view.clone()));
        views.truncate(MAX_VIEWS);
        view
    }

    /// A view with edited files on top; costs no more than the edited files.
    pub fn overlay(&self, base: &View, edits: &[Edit]) -> Result<View, IndexError> {
        let mut builder = Builder::default();
        let mut keys = Vec::new();
        for edit in edits {
            let content = edit.content.as_deref();
            let content = content
                .filter(|content| content.len() as u64 <= self.limits.max_file_bytes && !read::is_binary(content));
            let key = content.map(|content| {
                let key = BlobKey::new(id_of(content), &edit.path);
                let reading = (self.reader.read)(&edit.path, content, Instant::now() + EDIT_TIMEOUT);
                builder.add(
                    key,
                    read::traits(content, &reading),
                    &reading.facts,
                    reading.note.as_deref(),
                );
                key
            });
            keys.push((edit.path.clone(), key));
        }
        let segment = view::in_memory(builder)?;
        let changes: Result<Vec<_>, SegmentError> = keys
            .into_iter()
            .map(|(path, key)| Ok((path, key.map(|key| segment.find(&key)).transpose()?.flatten())))
            .collect();
        let view = base.with(Arc::new(segment), &changes?);
        Ok(view.joined(MAX_OVERLAYS)?)
    }

    /// What it holds.
    pub fn stats(&self) -> Stats {
        let segments = self.folder.segments();
        Stats {
            parsed: self.parsed.load(Relaxed),
            segments: segments.len(),
            blobs: segments.iter().map(|segment| u64::from(segment.blobs())).sum(),
            bytes: self.folder.bytes(),
            commits: self.folder.commits().len(),
        }
    }
}

/// A view of a tree; nothing when a blob is in no segment.
fn view_of(tree: &CommitTree, segments: Vec<Arc<Segment>>, places: Vec<Option<Place>>) -> Option<View> {
    let mut files = Vec::with_capacity(places.len());
    let mut notes = tree.notes();
    for (entry, place) in tree.entries().iter().zip(places) {
        let Some(place) = place else {
            if entry.kind == Kind::File {
                return None;
            }
            continue;
        };
        let segment = &segments[place.segment as usize];
        let row = segment.judge(segment.row(place.blob)).ok()?;
        if row.has_note && notes.len() < tree::MAX_NOTES {
            let note = segment.record(place.blob).and_then(|record| record.note());
            let note = segment.judge(note).ok()?;
            notes.extend(note.map(|note| format!("{}: {note}", entry.path)));
        }
        if !row.traits.is_binary {
            files.push((entry.path.as_str(), place));
        }
    }
    Some(View::new(segments, files, notes).incomplete(tree.is_incomplete()))
}

/// Facts also change when a language is added: its number is in the keys.
fn full_version(version: u64) -> u64 {
    let mut names = version.to_string();
    for language in language::all() {
        names.push(' ');
        names.push_str(language.name);
    }
    u64::from(crc32fast::hash(names.as_bytes())) << 16 | (version & 0xffff)
}

/// An id for bytes that git has not seen.
fn id_of(content: &[u8]) -> BlobId {
    use sha2::Digest as _;
    let hash: [u8; 32] = sha2::Sha256::digest(content).into();
    let mut id = [0; 20];
    id.copy_from_slice(&hash[..20]);
    BlobId(id)
}
