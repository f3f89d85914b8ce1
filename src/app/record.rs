//! Records of local runs: one file a run, a line of JSON for its head, each entry of its
//! conversations and its end, written as the run goes on and readable by its owner alone. Called by
//! the command line. Never stops a run: what cannot be written is said once and left out.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use super::Surroundings;
use crate::agent::Stop;
use crate::closed;
use crate::config::Config;
use crate::conversation::Entry;
use crate::ids::RunId;
use crate::recorder::{Tape, Taped};
use crate::run::{RECORD, RECORD_END, Record, RecordEnd};

/// As many records are kept; the oldest go first.
const MAX_RECORDS: usize = 50;

/// Most bytes of one record. A thousand turns have some tens of megabytes.
const MAX_RECORD_BYTES: u64 = 512 * 1024 * 1024;

/// A line of a record.
#[derive(Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
enum Line {
    Head { record: Box<Record> },
    Entry { agent: String, seq: u64, entry: Entry },
    End { end: RecordEnd },
}

/// A record as it is read again.
#[derive(Debug)]
pub(super) struct Recorded {
    /// Its head.
    pub(super) record: Record,
    /// Each agent's conversation, in the order in which they began.
    pub(super) logs: Vec<(String, Vec<Entry>)>,
    /// How the run ended, if it did.
    pub(super) end: Option<RecordEnd>,
}

/// The folder of records: in the state folder where one is configured, otherwise where programs
/// keep what they remember for their user. `None`: there is no such place.
pub(super) fn folder(config: &Config, surroundings: &Surroundings) -> Option<PathBuf> {
    if config.origins.contains_key("server.state_dir") {
        return Some(config.server.state_dir.join("records"));
    }
    let home = || Some(surroundings.home.as_ref()?.join(".local/state"));
    let state = surroundings.state_home.clone().or_else(home)?;
    Some(state.join("forgehand/records"))
}

/// The file of a run's record.
pub(super) fn file(folder: &Path, run: &RunId) -> PathBuf {
    folder.join(format!("{run}.jsonl"))
}

/// Begins a record, and lets the oldest go.
pub(super) fn begin(folder: &Path, run: &RunId) -> anyhow::Result<Tape> {
    closed::make_folder(folder).with_context(|| format!("make the folder {}", folder.display()))?;
    let path = file(folder, run);
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let file = made.with_context(|| format!("make {}", path.display()))?;
    // Held for as long as the process lives, however it ends: nobody has to believe a flag.
    file.lock().with_context(|| format!("lock {}", path.display()))?;
    prune(folder)?;
    let writing = Mutex::new(Writing {
        file,
        path,
        left: MAX_RECORD_BYTES,
        is_broken: false,
    });
    Ok(Arc::new(move |taped: Taped<'_>| {
        writing.lock().unwrap_or_else(PoisonError::into_inner).take(&taped);
    }))
}

/// A record being written.
struct Writing {
    file: File,
    path: PathBuf,
    left: u64,
    is_broken: bool,
}

impl Writing {
    fn take(&mut self, taped: &Taped<'_>) {
        if self.is_broken {
            return;
        }
        if let Err(error) = self.write(taped) {
            self.is_broken = true;
            tracing::warn!(%error, record = %self.path.display(), "the record of this run is not complete");
        }
    }

    fn write(&mut self, taped: &Taped<'_>) -> io::Result<()> {
        let line = match taped {
            Taped::Latest { kind, body } if *kind == RECORD => Line::Head {
                record: serde_json::from_slice(body)?,
            },
            Taped::Latest { kind, body } if *kind == RECORD_END => Line::End {
                end: serde_json::from_slice(body)?,
            },
            Taped::Latest { .. } => return Ok(()),
            Taped::Entry { agent, seq, entry } => Line::Entry {
                agent: (*agent).to_owned(),
                seq: *seq,
                entry: (*entry).clone(),
            },
        };
        let mut line = serde_json::to_vec(&line)?;
        line.push(b'\n');
        self.left = self
            .left
            .checked_sub(line.len() as u64)
            .ok_or_else(|| io::Error::other("it has grown too long"))?;
        self.file.write_all(&line)
    }
}

/// Removes the oldest records. Their names begin with the time.
fn prune(folder: &Path) -> anyhow::Result<()> {
    for (_, old) in all(folder)?.iter().rev().skip(MAX_RECORDS) {
        fs::remove_file(old).with_context(|| format!("remove {}", old.display()))?;
    }
    Ok(())
}

/// Every record, the oldest first.
fn all(folder: &Path) -> anyhow::Result<Vec<(RunId, PathBuf)>> {
    let entries = fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
    let mut records: Vec<(RunId, PathBuf)> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
        .filter_map(|path| Some((path.file_stem()?.to_string_lossy().parse().ok()?, path)))
        .collect();
    records.sort();
    Ok(records)
}

/// How a recorded run stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// A process works on it.
    Running,
    /// It came to its end.
    Ended(Stop),
    /// The process that worked on it is gone.
    Interrupted,
}

/// A record in a list.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) run: RunId,
    pub(super) state: State,
    /// What it was asked; nothing when it was interrupted before it began to work, or the record
    /// is broken.
    pub(super) title: Option<String>,
}

/// Most bytes of a head or an end that are read for a list.
const MAX_LISTED_BYTES: u64 = 4 * 1024 * 1024;

/// Every record, the newest first. One that is broken is in it, too.
pub(super) fn list(folder: &Path) -> anyhow::Result<Vec<Listed>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let listed = all(folder)?.into_iter().rev().filter_map(|(run, path)| {
        // What went away meanwhile is not in the list.
        let file = File::open(path).ok()?;
        let is_running = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
        let title = first_line(&file).ok().flatten();
        let state = match last_line(&file).ok().flatten() {
            Some(stop) => State::Ended(stop),
            None if is_running => State::Running,
            None => State::Interrupted,
        };
        Some(Listed { run, state, title })
    });
    Ok(listed.collect())
}

fn first_line(file: &File) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    BufReader::new(file.take(MAX_LISTED_BYTES)).read_until(b'\n', &mut line)?;
    Ok(match serde_json::from_slice(&line) {
        Ok(Line::Head { record }) => Some(record.brief.title),
        _ => None,
    })
}

/// How the run ended, if its end is the last whole line.
fn last_line(mut file: &File) -> io::Result<Option<Stop>> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MAX_LISTED_BYTES)))?;
    let mut tail = Vec::new();
    file.take(MAX_LISTED_BYTES).read_to_end(&mut tail)?;
    let Some(tail) = tail.strip_suffix(b"\n") else {
        return Ok(None);
    };
    let last = tail.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(match serde_json::from_slice(last) {
        Ok(Line::End { end }) => Some(end.stop),
        _ => None,
    })
}

/// Reads a record. One that breaks off in the middle of a line, as that of a killed run may, is
/// read up to there.
pub(super) fn read(path: &Path) -> anyhow::Result<Recorded> {
    let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    let mut lines = BufReader::new(file.take(MAX_RECORD_BYTES));
    let (mut head, mut end) = (None, None);
    let mut logs: Vec<(String, Vec<Entry>)> = Vec::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        lines
            .read_until(b'\n', &mut line)
            .with_context(|| format!("read {}", path.display()))?;
        if line.pop() != Some(b'\n') {
            break;
        }
        let parsed: Line = serde_json::from_slice(&line)
            .with_context(|| format!("{}: line {number} is not of a run's record", path.display()))?;
        match parsed {
            Line::Head { record } => head = Some(*record),
            Line::End { end: ended } => end = Some(ended),
            Line::Entry { agent, seq, entry } => {
                let at = logs.iter().position(|(name, _)| *name == agent).unwrap_or_else(|| {
                    logs.push((agent, Vec::new()));
                    logs.len() - 1
                });
                if logs[at].1.len() as u64 != seq {
                    bail!(
                        "{}: line {number}: entry {seq} of {} follows none",
                        path.display(),
                        logs[at].0
                    );
                }
                logs[at].1.push(entry);
            }
        }
    }
    let record = head.with_context(|| format!("{} holds no run that began", path.display()))?;
    Ok(Recorded { record, logs, end })
}
