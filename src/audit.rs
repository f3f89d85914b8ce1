//! The audit in words: what is worth a row, the row itself with its hash, and the check of a chain of
//! rows. Called by `store`, which appends rows with the acts that they are about, and by whoever
//! verifies or exports them. Never knows a database, and never changes a row.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::ids::{IdError, JobId, RepoName, Subject};
use crate::job::word_enum;
use crate::text;

#[cfg(test)]
mod tests;

/// Most bytes of one text in a row.
const MAX_TEXT_BYTES: usize = 500;
/// Most bytes of all details of a row.
const MAX_DETAIL_BYTES: usize = 8 * 1024;
/// What is hashed begins with this, so that another encoding is another hash.
const ENCODING: &str = "forgehand-audit-1";
/// Rows looked back at to tell a fork from a gap.
const RECENT: usize = 1_000;
/// Most problems that are told; the first ones say enough.
const MAX_PROBLEMS: usize = 100;

word_enum! {
    /// What was done.
    Action, "act of the audit" {
        /// A process of the service began, with this configuration.
        ServiceStarted = "service_started",
        /// GitHub confirmed that somebody may have this done.
        Authorized = "authorized",
        /// It is not done: somebody may not, or it is not to be done here.
        Refused = "refused",
        /// Somebody answered what a job asked.
        Answered = "answered",
        /// Somebody, or something, asked a job to stop.
        StopRequested = "stop_requested",
        /// A job that was over was begun again.
        Retried = "retried",
        /// Stored work of a job that was over is published again.
        Republished = "republished",
        /// Somebody set what an issue or pull request may cost.
        BudgetSet = "budget_set",
        /// Somebody switched an issue queue.
        AutotaskSwitched = "autotask_switched",
        /// Somebody added a schedule.
        ScheduleAdded = "schedule_added",
        /// Somebody removed a schedule.
        ScheduleRemoved = "schedule_removed",
        /// Somebody confirmed a draft of an issue.
        DraftConfirmed = "draft_confirmed",
        /// A work graph may be worked on, or may not any more.
        GraphStanding = "graph_standing",
        /// Something was written to GitHub.
        Written = "written",
        /// A command in a sandbox reached a host.
        HostReached = "host_reached",
        /// A command in a sandbox was kept from a host.
        HostBlocked = "host_blocked",
        /// A job that was over was moved into a file.
        RunArchived = "run_archived",
        /// Rows of the audit itself were moved into a file.
        AuditArchived = "audit_archived",
        /// Old rows or files were removed.
        Removed = "removed",
    }
}

/// Something that is worth a row, before it has its place in the chain.
#[derive(Debug, Clone, PartialEq)]
pub struct Act {
    /// Who, if it is not whoever the transaction is for.
    pub actor: Option<String>,
    /// What.
    pub action: Action,
    /// Where, if it is about a repository.
    pub repository: Option<String>,
    /// The issue, pull request or task.
    pub subject: Option<String>,
    /// The job.
    pub job: Option<String>,
    /// What else there is to know.
    pub detail: Map<String, Value>,
}

impl Act {
    /// An act without any detail.
    pub fn new(action: Action) -> Self {
        Self {
            actor: None,
            action,
            repository: None,
            subject: None,
            job: None,
            detail: Map::new(),
        }
    }

    /// By somebody.
    #[must_use]
    pub fn by(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// In a repository.
    #[must_use]
    pub fn at(mut self, repository: &RepoName) -> Self {
        self.repository = Some(repository.to_string());
        self
    }

    /// About an issue, a pull request or a task.
    #[must_use]
    pub fn about(mut self, subject: &Subject) -> Self {
        self.subject = Some(subject.to_string());
        self
    }

    /// About a job.
    #[must_use]
    pub fn of(mut self, job: &JobId) -> Self {
        self.job = Some(job.to_string());
        self
    }

    /// With a detail; long texts are cut.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        let value = match value.into() {
            Value::String(text) => Value::String(text::cap(&text, MAX_TEXT_BYTES)),
            other => other,
        };
        self.detail.insert(name.to_owned(), value);
        self
    }

    /// The details as they are stored: JSON text without what a database cannot keep.
    pub fn detail_text(&self) -> String {
        let written = Value::Object(self.detail.clone()).to_string();
        match written.len() <= MAX_DETAIL_BYTES {
            true => written,
            false => format!("{{\"left_out_bytes\":{}}}", written.len()),
        }
    }
}

/// A person on GitHub, as an actor.
pub fn person(login: &str) -> String {
    format!("github:{}", text::cap(login, MAX_TEXT_BYTES))
}

/// Whoever has a command line on this machine, as an actor.
pub const OPERATOR: &str = "operator";
/// The program by itself, as an actor.
pub const SERVICE: &str = "service";

/// A row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its place, from 1.
    pub seq: i64,
    /// When, by the database's clock.
    #[serde(serialize_with = "in_micros")]
    pub at: DateTime<Utc>,
    /// Who: `github:LOGIN`, `operator` or `service`.
    pub actor: String,
    /// What, a word of [`Action`] or of a later version.
    pub action: String,
    /// Where.
    pub repository: Option<String>,
    /// The issue, pull request or task.
    pub subject: Option<String>,
    /// The job.
    pub job: Option<String>,
    /// What else there is to know: an object as JSON text.
    pub detail: String,
    /// Hash of the row before it.
    pub prev: String,
    /// Hash of everything above.
    pub hash: String,
}

/// Both databases keep microseconds, so that nothing is lost on the way through a file.
fn in_micros<S: serde::Serializer>(at: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&at.to_rfc3339_opts(SecondsFormat::Micros, true))
}

impl Entry {
    /// SHA-256, in hex, over every field but itself: each with its length before it, so that no two
    /// rows have the same bytes.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        let mut field = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        };
        field(ENCODING.as_bytes());
        field(&self.seq.to_be_bytes());
        field(&self.at.timestamp_micros().to_be_bytes());
        field(self.actor.as_bytes());
        field(self.action.as_bytes());
        for optional in [&self.repository, &self.subject, &self.job] {
            match optional {
                Some(text) => field(&[b"+", text.as_bytes()].concat()),
                None => field(b""),
            }
        }
        field(self.detail.as_bytes());
        field(self.prev.as_bytes());
        hex::encode(hash.finalize())
    }

    /// Its place with its hash.
    pub fn point(&self) -> Point {
        Point {
            seq: self.seq,
            hash: self.hash.clone(),
        }
    }

    /// One of its details.
    pub fn said(&self, name: &str) -> Option<Value> {
        serde_json::from_str::<Value>(&self.detail).ok()?.get(name).cloned()
    }
}

/// A place in the chain with the hash of the row there. Written `SEQ:HASH`, it proves later that
/// neither that row nor any before it was changed or removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// The place; 0 is before the first row.
    pub seq: i64,
    /// The hash, in hex.
    pub hash: String,
}

impl Point {
    /// Where every chain begins.
    pub fn origin() -> Self {
        Self {
            seq: 0,
            hash: "0".repeat(64),
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, self.hash)
    }
}

impl FromStr for Point {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let wrong = || IdError::new("anchor", text, "it is written SEQ:HASH, with 64 hex digits");
        let (seq, hash) = text.split_once(':').ok_or_else(wrong)?;
        let seq = seq.parse().ok().filter(|seq| *seq >= 0).ok_or_else(wrong)?;
        let hash = hash.to_ascii_lowercase();
        if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        Ok(Self { seq, hash })
    }
}

/// Something that is wrong with a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The row where it shows.
    pub seq: i64,
    /// What it is, in one word.
    pub fault: FaultKind,
    /// For people.
    pub what: String,
}

word_enum! {
    /// What can be wrong with a chain.
    FaultKind, "fault of the audit" {
        /// The row is not what its hash says.
        Changed = "changed",
        /// Rows before it are missing.
        Missing = "missing",
        /// It does not continue the row before it.
        Unlinked = "unlinked",
        /// It continues a row that another one continues already.
        Forked = "forked",
        /// It stands before a row that it should follow.
        Reordered = "reordered",
        /// Rows at the end are missing.
        Cut = "cut",
        /// The chain does not begin where it says.
        Beginning = "beginning",
        /// It is another row than the one that an anchor names.
        Rewritten = "rewritten",
        /// An anchor names a row that was moved into a file meanwhile.
        Archived = "archived",
    }
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Rows that were looked at.
    pub rows: u64,
    /// What the first row continues.
    pub start: Point,
    /// The last row.
    pub head: Point,
    /// What is wrong, at most a hundred findings.
    pub faults: Vec<Fault>,
}

/// Follows a chain row by row.
pub struct Checker {
    start: Point,
    last: Point,
    recent: VecDeque<Point>,
    anchors: Vec<Point>,
    /// Whether a row says that the rows before the start were moved into a file.
    start_is_stated: bool,
    rows: u64,
    faults: Vec<Fault>,
}

impl Checker {
    /// Begins after `start`. Every anchor has to be found.
    pub fn new(start: Point, anchors: &[Point]) -> Self {
        Self {
            start_is_stated: start.seq == 0,
            last: start.clone(),
            recent: VecDeque::from([start.clone()]),
            anchors: anchors.to_vec(),
            start,
            rows: 0,
            faults: Vec::new(),
        }
    }

    /// The same for a part of a chain, which says nothing about what was before it.
    #[must_use]
    pub fn of_a_part(mut self) -> Self {
        self.start_is_stated = true;
        self
    }

    /// The next row.
    pub fn add(&mut self, entry: &Entry) {
        self.rows += 1;
        let seq = entry.seq;
        if let Some(fault) = self.link(entry) {
            self.faults.push(fault);
        }
        if entry.digest() != entry.hash {
            self.fault(seq, FaultKind::Changed, "its fields do not give its hash".to_owned());
        }
        let rewritten = self
            .anchors
            .iter()
            .any(|anchor| anchor.seq == seq && anchor.hash != entry.hash);
        if rewritten {
            self.fault(seq, FaultKind::Rewritten, "an anchor names another row here".to_owned());
        }
        if entry.action == Action::AuditArchived.as_str() {
            let through = entry.said("through").and_then(|through| through.as_str()?.parse().ok());
            self.start_is_stated |= through.is_some_and(|through: Point| through == self.start);
        }
        self.last = entry.point();
        self.recent.push_back(entry.point());
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    /// Whether a row continues the last one.
    fn link(&self, entry: &Entry) -> Option<Fault> {
        let last = &self.last;
        let fault = |fault, what| {
            Some(Fault {
                seq: entry.seq,
                fault,
                what,
            })
        };
        if entry.seq <= last.seq {
            return fault(FaultKind::Reordered, format!("it comes after row {}", last.seq));
        }
        if entry.seq > last.seq + 1 {
            return fault(
                FaultKind::Missing,
                format!("rows {} to {} before it are missing", last.seq + 1, entry.seq - 1),
            );
        }
        if entry.prev == last.hash {
            return None;
        }
        match self.recent.iter().find(|point| point.hash == entry.prev) {
            Some(earlier) => fault(
                FaultKind::Forked,
                format!(
                    "it continues row {}, which row {} continues already",
                    earlier.seq,
                    earlier.seq + 1
                ),
            ),
            None => fault(FaultKind::Unlinked, format!("it does not continue row {}", last.seq)),
        }
    }

    /// The end, which has to be at `head` where somebody says so.
    pub fn end(mut self, head: Option<&Point>) -> Checked {
        let last = self.last.clone();
        if !self.start_is_stated {
            let what = "no row says that the rows up to here were moved into a file".to_owned();
            self.fault(self.start.seq, FaultKind::Beginning, what);
        }
        match head {
            Some(head) if head.seq > last.seq => {
                self.fault(
                    last.seq + 1,
                    FaultKind::Cut,
                    format!("rows up to {} are missing", head.seq),
                );
            }
            Some(head) if *head != last => {
                self.fault(
                    last.seq,
                    FaultKind::Rewritten,
                    "the chain's end names another row".to_owned(),
                );
            }
            Some(_) | None => {}
        }
        for anchor in self.anchors.clone() {
            if anchor.seq > last.seq {
                let what = format!("an anchor names row {}, which is missing", anchor.seq);
                self.fault(last.seq + 1, FaultKind::Cut, what);
            } else if anchor.seq == self.start.seq && anchor != self.start {
                let what = "an anchor names another row here".to_owned();
                self.fault(anchor.seq, FaultKind::Rewritten, what);
            } else if anchor.seq < self.start.seq {
                let what = "the anchor's row was moved into a file; check it there, with --file".to_owned();
                self.fault(anchor.seq, FaultKind::Archived, what);
            }
        }
        self.faults.truncate(MAX_PROBLEMS);
        Checked {
            rows: self.rows,
            start: self.start,
            head: last,
            faults: self.faults,
        }
    }

    fn fault(&mut self, seq: i64, fault: FaultKind, what: String) {
        if self.faults.len() < MAX_PROBLEMS {
            self.faults.push(Fault { seq, fault, what });
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {}: {}: {}", self.seq, self.fault, self.what)
    }
}
