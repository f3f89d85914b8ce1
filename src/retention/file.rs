//! Files of what left the database: JSON, one row a line, compressed, readable by its owner alone. A file
//! has its name only once it is whole and on the disk. Called by `retention`.
//! Never writes over a file in place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use chrono::{DateTime, SecondsFormat, Utc};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::closed;
use crate::ids::JobId;
use crate::secret::random_hex;

/// The shape of these files.
const VERSION: u32 = 1;
/// What a file that is being written ends with.
pub(super) const PART: &str = ".part";
/// Most bytes of a line that is read: a checkpoint of 64 MiB in base64.
const MAX_LINE_BYTES: u64 = 128 * 1024 * 1024;

/// A job in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archive {
    /// The file.
    pub path: PathBuf,
    /// Hash of its bytes, in hex.
    pub sha256: String,
    /// Rows in it.
    pub rows: u64,
}

/// The file of a job: by the month in which it was made, which its id says.
pub fn archive_path(state_dir: &Path, job: &JobId) -> PathBuf {
    let made = ulid::Ulid::from_string(job.as_str())
        .ok()
        .and_then(|id| DateTime::from_timestamp_millis(i64::try_from(id.timestamp_ms()).ok()?))
        .unwrap_or_default();
    let month = made.format("%Y/%m").to_string();
    state_dir.join("archive").join(month).join(format!("{job}.jsonl.gz"))
}

/// A file of a job on its way.
pub(super) struct Writing {
    out: GzEncoder<Hashed>,
    part: Part,
    rows: u64,
}

impl Writing {
    pub(super) fn begin(path: &Path, job: &JobId, at: DateTime<Utc>) -> io::Result<Self> {
        let (part, file) = Part::make(path)?;
        let mut writing = Self {
            out: GzEncoder::new(Hashed::new(file), Compression::default()),
            part,
            rows: 0,
        };
        let at = at.to_rfc3339_opts(SecondsFormat::Secs, true);
        writing.line(&json!({"archive": VERSION, "job": job, "archived_at": at}))?;
        Ok(writing)
    }

    pub(super) fn add(&mut self, table: &str, rows: Vec<Value>) -> io::Result<()> {
        for row in rows {
            self.line(&json!({"table": table, "row": row}))?;
            self.rows += 1;
        }
        Ok(())
    }

    pub(super) fn end(mut self) -> io::Result<Archive> {
        let rows = self.rows;
        self.line(&json!({"end": rows}))?;
        let sha256 = self.part.finish(self.out.finish()?)?;
        Ok(Archive {
            path: self.part.path.clone(),
            sha256,
            rows,
        })
    }

    fn line(&mut self, value: &Value) -> io::Result<()> {
        writeln!(self.out, "{value}")
    }
}

/// Writes rows of another kind into a file of their own; gives the hash of its bytes.
pub(super) fn write_lines<T: Serialize>(path: &Path, rows: &[T]) -> io::Result<String> {
    let (mut part, file) = Part::make(path)?;
    let mut out = GzEncoder::new(Hashed::new(file), Compression::default());
    for row in rows {
        writeln!(out, "{}", serde_json::to_string(row).map_err(io::Error::other)?)?;
    }
    part.finish(out.finish()?)
}

/// A file under another name until it is whole; what is not finished is removed.
struct Part {
    path: PathBuf,
    part: PathBuf,
    is_done: bool,
}

impl Part {
    fn make(path: &Path) -> io::Result<(Self, File)> {
        let folder = path
            .parent()
            .ok_or_else(|| io::Error::other("a file stands in a folder"))?;
        closed::make_folder(folder)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let part = folder.join(format!(".{name}.{}{PART}", random_hex::<4>()));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&part)?;
        let part = Self {
            path: path.to_owned(),
            part,
            is_done: false,
        };
        Ok((part, file))
    }

    /// On the disk with its bytes first, then with its name.
    fn finish(&mut self, out: Hashed) -> io::Result<String> {
        let (file, sha256) = out.finish()?;
        file.sync_all()?;
        fs::rename(&self.part, &self.path)?;
        self.is_done = true;
        let mut folder = self.path.parent();
        // New folders above it are names, too: year and month.
        for _ in 0..3 {
            let Some(here) = folder else { break };
            File::open(here)?.sync_all()?;
            folder = here.parent();
        }
        Ok(sha256)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.is_done {
            drop(fs::remove_file(&self.part));
        }
    }
}

/// A file that hashes what is written into it.
struct Hashed {
    file: BufWriter<File>,
    hash: Sha256,
}

impl Hashed {
    fn new(file: File) -> Self {
        Self {
            file: BufWriter::new(file),
            hash: Sha256::new(),
        }
    }

    fn finish(self) -> io::Result<(File, String)> {
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok((file, hex::encode(self.hash.finalize())))
    }
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The rows of a job's file, as table and row, in the order in which they were written.
///
/// # Errors
/// When it cannot be read, or is not whole.
pub fn read_archive(path: &Path) -> io::Result<Vec<(String, Value)>> {
    let mut reader = BufReader::new(GzDecoder::new(File::open(path)?));
    let (mut rows, mut is_whole) = (Vec::new(), false);
    loop {
        let mut line = String::new();
        if reader.by_ref().take(MAX_LINE_BYTES).read_line(&mut line)? == 0 {
            break;
        }
        let mut line: Value = serde_json::from_str(&line)?;
        if let Some(end) = line["end"].as_u64() {
            is_whole = end == rows.len() as u64;
        } else if let Some(table) = line["table"].as_str().map(str::to_owned) {
            rows.push((table, line["row"].take()));
        }
    }
    match is_whole {
        true => Ok(rows),
        false => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is not whole")),
    }
}
