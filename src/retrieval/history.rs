//! What a repository's own history says: for each commit its words, and the files it changed under
//! the names they have now. Kept by commit id in a file that only grows, so a fetch costs its new
//! commits. Called by ranking. Never looks past the commit that is asked about.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::ops::ControlFlow;
use std::path::Path;

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::terms;
use crate::git::{Git, GitError, Logged, Touch};
use crate::ids::CommitSha;

/// Most bytes of the file that are read; more would be another program's file.
const MAX_FILE_BYTES: u64 = 512 << 20;
/// Most moves that are followed from a path of long ago to the one it has now.
const MAX_MOVES: usize = 8;
/// First line of the file; another one is a file of another version, which is made anew.
const HEADER: &str = "forgehand history 1";
/// Names that say nothing about which file moved where.
const COMMON_NAMES: &[&str] = &[
    "mod",
    "__init__",
    "index",
    "lib",
    "main",
    "package-info",
    "doc",
    "types",
    "utils",
];

/// The history of a repository: all commits that were ever asked for, of any branch.
#[derive(Debug, Default)]
pub struct History {
    commits: Vec<Past>,
    by_id: HashMap<Box<str>, u32>,
    paths: Vec<Box<str>>,
    by_path: HashMap<Box<str>, u32>,
    words: HashMap<Box<str>, Vec<(u32, u16)>>,
    tips: Vec<CommitSha>,
    /// How much of the file is in here; what follows is torn, or another process added it.
    read_bytes: u64,
}

/// A commit as it is kept.
#[derive(Debug)]
pub(super) struct Past {
    /// Parents that are known.
    pub(super) parents: Vec<u32>,
    /// Seconds since 1970.
    pub(super) time: i64,
    /// Changed paths, by their number.
    pub(super) paths: Vec<u32>,
    /// Paths that went and where they went to.
    pub(super) moves: Vec<(u32, u32)>,
    /// Words of its message.
    pub(super) words: u32,
    /// First line of its message.
    pub(super) subject: Box<str>,
    /// Its id.
    pub(super) id: Box<str>,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    id: String,
    up: Vec<String>,
    at: i64,
    say: String,
    /// Paths that are named for the first time; their numbers follow on.
    new: Vec<String>,
    did: Vec<u32>,
    moved: Vec<(u32, u32)>,
}

impl History {
    /// The history in a file; empty when there is none, or none of this version. A torn last line, as
    /// a killed process leaves it, is left out.
    pub fn load(file: &Path) -> Self {
        let mut history = Self::default();
        let Ok(opened) = fs::File::open(file) else {
            return history;
        };
        if opened.metadata().is_ok_and(|about| about.len() > MAX_FILE_BYTES) {
            return history;
        }
        let mut reader = BufReader::new(opened);
        let mut text = Vec::new();
        let mut next = |text: &mut Vec<u8>| {
            text.clear();
            let read = reader.read_until(b'\n', text);
            read.is_ok() && text.pop() == Some(b'\n')
        };
        if !next(&mut text) || text != HEADER.as_bytes() {
            return history;
        }
        history.read_bytes = text.len() as u64 + 1;
        while next(&mut text) {
            let Ok(line) = serde_json::from_slice::<Line>(&text) else {
                break;
            };
            let is_sound = line.did.iter().chain(line.moved.iter().flat_map(|(a, b)| [a, b]));
            let known = history.paths.len() + line.new.len();
            if !is_sound.into_iter().all(|path| (*path as usize) < known) {
                break;
            }
            history.read_bytes += text.len() as u64 + 1;
            history.add(line);
        }
        history
    }

    /// Reads what is new up to `at`, and writes it to `file` too, if one is given. Returns how many
    /// commits were new.
    pub fn extend(&mut self, git: &Git, repo: &Path, at: &CommitSha, file: Option<&Path>) -> Result<usize, GitError> {
        if self.by_id.contains_key(at.as_str()) {
            return Ok(0);
        }
        let mut fresh: Vec<Logged> = Vec::new();
        let read = |known: &[CommitSha], fresh: &mut Vec<Logged>| {
            fresh.clear();
            git.log(repo, at, known, &mut |commit| {
                fresh.push(commit);
                ControlFlow::Continue(())
            })
        };
        if read(&self.tips.clone(), &mut fresh).is_err() {
            // A tip may be gone from the mirror after a forced push; then everything is read again.
            read(&[], &mut fresh)?;
        }
        fresh.retain(|commit| !self.by_id.contains_key(commit.id.as_str()));
        let mut written = String::new();
        if self.read_bytes == 0 {
            written.push_str(HEADER);
            written.push('\n');
        }
        let count = fresh.len();
        // Oldest first, so that a commit's parents have their numbers already.
        for commit in fresh.into_iter().rev() {
            let line = self.line_of(commit);
            if file.is_some()
                && let Ok(json) = serde_json::to_string(&line)
            {
                written.push_str(&json);
                written.push('\n');
            }
            self.add(line);
        }
        self.tips.push(at.clone());
        // Old tips are behind newer ones most of the time; a few suffice to say what is known.
        let spare = self.tips.len().saturating_sub(64);
        self.tips.drain(..spare);
        if let Some(file) = file {
            let saved = self.save(file, &written);
            saved.map_err(|error| GitError::Failed(format!("{}: {error}", file.display())))?;
        }
        Ok(count)
    }

    /// Number of commits.
    pub fn len(&self) -> usize {
        self.commits.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.commits.is_empty()
    }

    /// Whether a commit is known.
    pub fn knows(&self, commit: &CommitSha) -> bool {
        self.by_id.contains_key(commit.as_str())
    }

    /// Which commits are `at` or before it; nothing when it is not known.
    pub(super) fn up_to(&self, at: &CommitSha) -> Option<Vec<bool>> {
        let start = *self.by_id.get(at.as_str())?;
        let mut is_before = vec![false; self.commits.len()];
        let mut open = vec![start];
        is_before[start as usize] = true;
        while let Some(commit) = open.pop() {
            for parent in &self.commits[commit as usize].parents {
                if !std::mem::replace(&mut is_before[*parent as usize], true) {
                    open.push(*parent);
                }
            }
        }
        Some(is_before)
    }

    /// A commit's number.
    pub(super) fn number(&self, at: &CommitSha) -> Option<u32> {
        self.by_id.get(at.as_str()).copied()
    }

    /// All commits, by number.
    pub(super) fn commits(&self) -> &[Past] {
        &self.commits
    }

    /// The commits that say a word, and how often.
    pub(super) fn saying(&self, word: &str) -> &[(u32, u16)] {
        self.words.get(word).map_or(&[], Vec::as_slice)
    }

    /// What each path that was ever changed is called now, by the number that `number_of` gives to
    /// paths of today. Moves count that happened in a commit of `is_before`.
    pub(super) fn names_now(&self, is_before: &[bool], number_of: impl Fn(&str) -> Option<u32>) -> Vec<Option<u32>> {
        let mut moves: HashMap<u32, u32> = HashMap::new();
        for (commit, is_before) in self.commits.iter().zip(is_before) {
            if *is_before {
                moves.extend(commit.moves.iter().copied());
            }
        }
        let now = |path: u32| {
            let mut path = path;
            for _ in 0..=MAX_MOVES {
                if let Some(number) = number_of(&self.paths[path as usize]) {
                    return Some(number);
                }
                path = *moves.get(&path)?;
            }
            None
        };
        (0..self.paths.len() as u32).map(now).collect()
    }

    /// Adds to the file, unless another process holds it or added to it: its lines number paths in
    /// another way, and what they say will be read from the repository again.
    fn save(&mut self, file: &Path, text: &str) -> std::io::Result<()> {
        let mut opened = fs::OpenOptions::new().create(true).append(true).read(true).open(file)?;
        if rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(());
        }
        let length = opened.metadata()?.len();
        let is_others = length > self.read_bytes && Self::load(file).read_bytes > self.read_bytes;
        if length < self.read_bytes || is_others {
            return Ok(());
        }
        // What stands there beyond is a line that somebody was killed in, or another version.
        opened.set_len(self.read_bytes)?;
        opened.write_all(text.as_bytes())?;
        self.read_bytes += text.len() as u64;
        Ok(())
    }

    fn line_of(&self, commit: Logged) -> Line {
        let mut new = Vec::new();
        let mut fresh: HashMap<String, u32> = HashMap::new();
        let mut number = |path: &str| {
            let known = self.by_path.get(path).or_else(|| fresh.get(path)).copied();
            known.unwrap_or_else(|| {
                let number = (self.paths.len() + new.len()) as u32;
                new.push(path.to_owned());
                fresh.insert(path.to_owned(), number);
                number
            })
        };
        let did = commit.changes.iter().map(|touch| number(&touch.path)).collect();
        let moved = moves(&commit.changes);
        let moved = moved.iter().map(|(from, to)| (number(from), number(to))).collect();
        Line {
            id: commit.id,
            up: commit.parents,
            at: commit.time,
            say: said(&commit.message),
            new,
            did,
            moved,
        }
    }

    fn add(&mut self, line: Line) {
        let number = self.commits.len() as u32;
        for path in line.new {
            let at = self.paths.len() as u32;
            self.by_path.insert(path.as_str().into(), at);
            self.paths.push(path.into());
        }
        let mut words: HashMap<String, u16> = HashMap::new();
        let mut count = 0;
        terms::names(&line.say, |name| {
            terms::parts(name, |part| {
                if !terms::is_noise(part) {
                    count += 1;
                    let times = words.entry(part.to_owned()).or_default();
                    *times = times.saturating_add(1);
                }
            });
        });
        for (word, times) in words {
            self.words.entry(word.into()).or_default().push((number, times));
        }
        self.by_id.insert(line.id.as_str().into(), number);
        self.commits.push(Past {
            parents: line
                .up
                .iter()
                .filter_map(|id| self.by_id.get(id.as_str()).copied())
                .collect(),
            time: line.at,
            paths: line.did,
            moves: line.moved,
            words: count,
            subject: line.say.lines().next().unwrap_or_default().into(),
            id: line.id.into(),
        });
    }
}

/// What of a message is about the change: no trailers, nothing quoted from other places.
fn said(message: &str) -> String {
    let is_trailer = |line: &str| {
        let key = line.split(':').next().unwrap_or_default();
        key.ends_with("-by") || line.starts_with("(cherry picked") || line.starts_with("git-svn-id")
    };
    let lines = message.lines().filter(|line| !is_trailer(line.trim_start())).take(60);
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// Files that were moved in a commit: the same bytes at another path, or else the only file of its
/// name that went while the other came. Bytes that changed a little are not compared: a partial mirror
/// has none.
fn moves(changes: &[Touch]) -> Vec<(&str, &str)> {
    let name = |path: &'_ str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let gone: Vec<&Touch> = changes.iter().filter(|touch| touch.new.is_none()).collect();
    let mut found = Vec::new();
    for came in changes.iter().filter(|touch| touch.old.is_none()) {
        let same_bytes = gone.iter().find(|gone| gone.old == came.new);
        let own_name = name(&came.path);
        let stem = own_name.split('.').next().unwrap_or_default();
        let mut same_name = gone.iter().filter(|gone| name(&gone.path) == own_name);
        let only = match (same_name.next(), same_name.next()) {
            (Some(only), None) if !COMMON_NAMES.contains(&stem) => Some(only),
            _ => None,
        };
        if let Some(from) = same_bytes.or(only) {
            found.push((from.path.as_str(), came.path.as_str()));
        }
    }
    found
}
