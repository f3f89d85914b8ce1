//! What happens in a run, as lines of JSON that can be followed while it goes on: one that says what
//! they are, one for each event, and one with the end. In a file or on standard error. Never stops
//! a run: what cannot be written is said once and left out.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::args::EventsTo;
use super::ending::Ending;
use crate::app::cli::Usage;
use crate::event::Event;
use crate::git::LocalRepo;
use crate::ids::{BranchName, CommitSha, JobId, RunId};
use crate::secret::Redactor;

/// Raised when a line changes in a way that readers have to know.
const FORMAT: u32 = 1;

/// A line that is no event.
#[derive(Serialize)]
#[serde(tag = "events", rename_all = "snake_case")]
enum Frame<'a> {
    /// What follows.
    Begin {
        format: u32,
        program: &'a str,
        run: Option<&'a RunId>,
        /// What its events are told by.
        job: Option<&'a JobId>,
        repository: Option<String>,
        base: Option<&'a CommitSha>,
        at: DateTime<Utc>,
    },
    /// How it ended.
    End {
        run: Option<&'a RunId>,
        outcome: &'a str,
        exit_code: u8,
        reason: Option<String>,
        branch: Option<&'a BranchName>,
        commit: Option<&'a CommitSha>,
        at: DateTime<Utc>,
    },
}

/// How it ended, for the last line.
#[derive(Default)]
pub(super) struct End<'a> {
    pub(super) outcome: &'a str,
    pub(super) exit_code: u8,
    pub(super) reason: Option<&'a str>,
    pub(super) left: Option<&'a (BranchName, CommitSha)>,
}

/// Where the lines go.
pub(super) struct Events {
    state: Mutex<State>,
    redactor: Redactor,
}

struct State {
    to: To,
    run: Option<RunId>,
    /// A beginning has been written that has no end yet.
    is_open: bool,
    is_broken: bool,
}

enum To {
    Nowhere,
    File(File),
    Errors,
}

impl Events {
    /// Opens what was asked for. A file is appended to, unless it is to begin anew.
    ///
    /// # Errors
    /// When it cannot be written; whoever named it can name another.
    pub(super) fn open(wanted: &EventsTo, redactor: Redactor) -> Result<Self, Usage> {
        let to = match wanted {
            EventsTo::Nowhere => To::Nowhere,
            EventsTo::Errors => To::Errors,
            EventsTo::Append(file) => To::File(append(file).map_err(|error| said("--events", file, &error))?),
            EventsTo::Anew(file) => To::File(anew(file).map_err(|error| said("--log", file, &error))?),
        };
        Ok(Self {
            state: Mutex::new(State {
                to,
                run: None,
                is_open: false,
                is_broken: false,
            }),
            redactor,
        })
    }

    /// A run begins.
    pub(super) fn begin(&self, run: &RunId, job: &JobId, repo: &LocalRepo, base: &CommitSha, at: DateTime<Utc>) {
        let mut state = self.lock();
        state.run = Some(run.clone());
        state.begin(Some(job), Some((repo, base)), at);
    }

    /// Something happened. Events are free of secrets already.
    pub(super) fn write(&self, event: &Event) {
        self.lock().write(event);
    }

    /// It is over; without a beginning, one is made up for.
    pub(super) fn end(&self, end: &End<'_>, at: DateTime<Utc>) {
        let mut state = self.lock();
        if !state.is_open {
            state.begin(None, None, at);
        }
        state.is_open = false;
        // What is said afterwards is about no run, or about the next one.
        let run = state.run.take();
        state.write(&Frame::End {
            run: run.as_ref(),
            outcome: end.outcome,
            exit_code: end.exit_code,
            reason: end.reason.map(|reason| self.redactor.redact(reason)),
            branch: end.left.map(|(branch, _)| branch),
            commit: end.left.map(|(_, commit)| commit),
            at,
        });
    }

    /// The process is left in the middle of a run; nothing if none goes on.
    pub(super) fn left_at_once(&self, at: DateTime<Utc>) {
        if self.lock().is_open {
            let end = End {
                outcome: "left_at_once",
                exit_code: Ending::Interrupted.code(),
                ..End::default()
            };
            self.end(&end, at);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn begin(&mut self, job: Option<&JobId>, at_work: Option<(&LocalRepo, &CommitSha)>, at: DateTime<Utc>) {
        self.is_open = true;
        let run = self.run.clone();
        self.write(&Frame::Begin {
            format: FORMAT,
            program: env!("CARGO_PKG_VERSION"),
            run: run.as_ref(),
            job,
            repository: at_work.map(|(repo, _)| repo.root.display().to_string()),
            base: at_work.map(|(_, base)| base),
            at,
        });
    }

    /// One line in one write, so that whoever follows sees whole lines, also of two runs that share
    /// a file.
    fn write(&mut self, line: &impl Serialize) {
        if self.is_broken {
            return;
        }
        let Ok(mut bytes) = serde_json::to_vec(line) else {
            return;
        };
        bytes.push(b'\n');
        let written = match &mut self.to {
            To::Nowhere => Ok(()),
            To::File(file) => file.write_all(&bytes),
            To::Errors => io::stderr().lock().write_all(&bytes),
        };
        if let Err(error) = written {
            self.is_broken = true;
            tracing::warn!(%error, "what happens is not written any more");
        }
    }
}

fn said(option: &str, file: &Path, error: &io::Error) -> Usage {
    Usage(format!("{option} {}: {error}", file.display()))
}

/// A file or a device that takes everything. A pipe without a reader would hold the run up.
fn is_patient(file: &Path) -> io::Result<()> {
    match std::fs::metadata(file) {
        Ok(about) if about.is_file() || about.file_type().is_char_device() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(_) => Err(io::Error::other("it is no file")),
        Err(error) => Err(error),
    }
}

fn anew(file: &Path) -> io::Result<File> {
    is_patient(file)?;
    File::create(file)
}

fn append(path: &Path) -> io::Result<File> {
    is_patient(path)?;
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    if file.metadata()?.is_file() && file.metadata()?.len() > 0 {
        // A run that was killed may have left half a line.
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
    }
    Ok(file)
}
