//! Reads and parses the blobs that no segment has, on several threads: each takes the next blob from
//! one git process and fills a builder of its own, which becomes a segment when it is large or the
//! work is over. Called by `index`. Never loses what is done when it has to stop.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::folder::Folder;
use super::tree::{CommitTree, Kind};
use super::{Bounds, IndexError, Limits, Progress, Reader, Reading};
use crate::git::{Blob, BlobId, Blobs, Git};
use crate::retrieval::segment::{self, BlobKey, Builder, Traits};

/// Longest time for one blob: a grammar may hang on a generated file.
const BLOB_TIMEOUT: Duration = Duration::from_secs(5);
/// Fewer blobs than this are read by one thread.
const FEW: usize = 32;
/// Git looks for a zero byte in as many bytes to tell what is text.
const SNIFFED: usize = 8000;
/// Extraction leaves out longer names, and names of larger files when there are too many.
const MAX_NAME: usize = 120;
const MAX_TOLD: usize = 256 * 1024;

/// What there is to do, and with what.
pub(super) struct Job<'a> {
    pub(super) git: &'a Git,
    pub(super) repo: &'a Path,
    pub(super) folder: &'a Folder,
    pub(super) reader: Reader,
    pub(super) limits: &'a Limits,
    pub(super) bounds: &'a Bounds<'a>,
}

/// How it went.
pub(super) struct Done {
    pub(super) parsed: usize,
    pub(super) result: Result<(), IndexError>,
}

/// What the threads share.
struct Shared<'a> {
    wanted: &'a [(BlobKey, String)],
    feed: Mutex<Feed>,
}

struct Feed {
    blobs: Blobs,
    next: usize,
    problem: Option<IndexError>,
    unread: HashMap<BlobId, Kind>,
}

impl Job<'_> {
    /// Reads blobs, each with a path that tells its language, and marks in the tree what could not
    /// be read.
    pub(super) fn run(&self, wanted: &[(BlobKey, String)], tree: &mut CommitTree) -> Done {
        let ids = wanted.iter().map(|(key, _)| key.id).collect();
        let blobs = match self.git.blobs(self.repo, ids, self.limits.max_file_bytes) {
            Ok(blobs) => blobs,
            Err(error) => {
                return Done {
                    parsed: 0,
                    result: Err(error.into()),
                };
            }
        };
        let shared = Shared {
            wanted,
            feed: Mutex::new(Feed {
                blobs,
                next: 0,
                problem: None,
                unread: HashMap::new(),
            }),
        };
        let threads = if wanted.len() < FEW { 1 } else { self.threads() };
        let parsed = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads)
                .map(|_| scope.spawn(|| self.work(&shared, threads)))
                .collect();
            let own = self.work(&shared, threads);
            own + others
                .into_iter()
                .map(|thread| thread.join().unwrap_or_default())
                .sum::<usize>()
        });
        let feed = shared.feed.into_inner().unwrap_or_else(PoisonError::into_inner);
        tree.settle(&feed.unread);
        Done {
            parsed,
            result: feed.problem.map_or(Ok(()), Err),
        }
    }

    fn threads(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        cores.min(self.limits.max_threads).max(1)
    }

    /// One thread's work; returns how many blobs it parsed.
    fn work(&self, shared: &Shared<'_>, threads: usize) -> usize {
        let mut builder = Builder::default();
        let mut bytes = Vec::new();
        let mut parsed = 0;
        while let Some(at) = self.take(shared, &mut bytes) {
            let (key, path) = &shared.wanted[at];
            parsed += 1;
            if is_binary(&bytes) {
                let traits = Traits {
                    is_binary: true,
                    ..Traits::default()
                };
                builder.add(*key, traits, &Default::default(), None);
                continue;
            }
            let until = self.bounds.until.min(Instant::now() + BLOB_TIMEOUT);
            let reading = (self.reader.read)(path, &bytes, until);
            builder.add(*key, traits(&bytes, &reading), &reading.facts, reading.note.as_deref());
            if builder.bytes() > self.limits.max_memory / threads
                && let Err(problem) = self.flush(&mut builder)
            {
                stop(shared, problem);
                return parsed;
            }
        }
        if let Err(problem) = self.flush(&mut builder) {
            stop(shared, problem);
        }
        parsed
    }

    /// The next blob; nothing when there is none or the work has to stop.
    fn take(&self, shared: &Shared<'_>, bytes: &mut Vec<u8>) -> Option<usize> {
        let mut feed = shared.feed.lock().unwrap_or_else(PoisonError::into_inner);
        let feed = &mut *feed;
        loop {
            if feed.problem.is_some() {
                return None;
            }
            if let Err(problem) = self.bounds.check() {
                feed.problem = (feed.next < shared.wanted.len()).then_some(problem);
                return None;
            }
            let at = feed.next;
            match feed.blobs.next(bytes) {
                Ok(None) => return None,
                Err(problem) => {
                    feed.problem = Some(problem.into());
                    return None;
                }
                Ok(Some(blob)) => {
                    feed.next += 1;
                    (self.bounds.progress)(Progress {
                        done: feed.next,
                        all: shared.wanted.len(),
                    });
                    let id = shared.wanted[at].0.id;
                    match blob {
                        Blob::Here => return Some(at),
                        Blob::Missing => drop(feed.unread.insert(id, Kind::Missing)),
                        Blob::TooLarge(_) => drop(feed.unread.insert(id, Kind::TooLarge)),
                    }
                }
            }
        }
    }

    fn flush(&self, builder: &mut Builder) -> Result<(), IndexError> {
        if builder.is_empty() {
            return Ok(());
        }
        self.folder.add(|file| builder.write(file, self.folder.version()))
    }
}

fn stop(shared: &Shared<'_>, problem: IndexError) {
    let mut feed = shared.feed.lock().unwrap_or_else(PoisonError::into_inner);
    feed.problem.get_or_insert(problem);
}

/// Whether bytes are not text, as git sees it.
pub(super) fn is_binary(bytes: &[u8]) -> bool {
    memchr::memchr(0, &bytes[..bytes.len().min(SNIFFED)]).is_some()
}

/// What else the index has to know of a blob.
pub(super) fn traits(bytes: &[u8], reading: &Reading) -> Traits {
    Traits {
        language: segment::number_of(reading.language),
        is_binary: false,
        is_opaque: reading.note.is_some()
            || bytes.len() > MAX_TOLD
            || reading.facts.terms.is_empty()
            || has_long_name(bytes),
    }
}

/// Whether there is a name that extraction leaves out. Looks at the last byte such a name could have
/// and goes back from there, so that it sees few of the bytes.
fn has_long_name(bytes: &[u8]) -> bool {
    let is_other = |byte: &u8| !(byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80);
    let mut start = 0;
    while let Some(name) = bytes.get(start..=start + MAX_NAME) {
        match name.iter().rposition(is_other) {
            Some(at) => start += at + 1,
            None => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_noticed_wherever_they_stand() {
        for before in 0..130 {
            for (length, expected) in [(0, false), (119, false), (120, false), (121, true), (400, true)] {
                let text = format!("{} {} and more", "ab ".repeat(before), "x".repeat(length));
                assert_eq!(has_long_name(text.as_bytes()), expected, "{before} {length}");
            }
        }
        assert!(!has_long_name(b"") && has_long_name(&[b'_'; 121]));
    }

    #[test]
    fn text_is_what_git_takes_for_text() {
        assert!(is_binary(b"\x89PNG\0") && !is_binary("größe".as_bytes()) && !is_binary(b""));
    }
}
