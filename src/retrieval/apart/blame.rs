//! Which file a process was reading when it died. Each thread writes down what it is about to read,
//! in the folder of the index; what stands there after a death is left out from then on. A grammar
//! that does not come back at all is a death, too: a watch ends the process then. Never believes a
//! list that it cannot read, and never keeps more than a bounded number of names.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::closed;
use crate::retrieval::index::{Reader, Reading};

/// Folder below the index for what follows.
const FOLDER: &str = "apart";
/// Files with what a thread is reading: `reading-PROCESS-THREAD`.
const READING: &str = "reading-";
/// The contents that are left out, a line each.
const LEFT_OUT: &str = "left-out";
/// Bytes of a name and its line end.
const NAME_BYTES: usize = 17;
/// Most contents that are left out.
const MAX_LEFT_OUT: usize = 1000;

/// What this process leaves out, and where it writes what it reads.
struct Here {
    folder: PathBuf,
    left_out: HashSet<String>,
}

/// Longest that a file may take. Extraction ends far before by itself, unless the scanner of a grammar
/// goes round in circles, where nobody asks it to stop.
pub(super) const MAX_READING: Duration = Duration::from_secs(20);
/// How often it is looked for such a file.
const WATCH_EVERY: Duration = Duration::from_millis(500);

static HERE: OnceLock<Here> = OnceLock::new();
/// What each thread is reading, in the order in which they began to read.
static NOTES: Mutex<Vec<Arc<Note>>> = Mutex::new(Vec::new());

thread_local! {
    static NOTE: Option<Arc<Note>> = note();
}

/// What a thread is reading.
struct Note {
    path: PathBuf,
    file: File,
    /// Milliseconds from the process's start to that of the reading, and one; 0 while nothing is read.
    since: AtomicU64,
}

impl Note {
    fn write(&self, name: &str) {
        // Whoever cannot write here cannot write the index either.
        let _ = self.file.write_all_at(format!("{name:16}\n").as_bytes(), 0);
    }
}

fn note() -> Option<Arc<Note>> {
    let mut notes = NOTES.lock().unwrap_or_else(PoisonError::into_inner);
    let name = format!("{READING}{}-{}", std::process::id(), notes.len());
    let path = HERE.get()?.folder.join(name);
    let file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .open(&path)
        .ok()?;
    let note = Arc::new(Note {
        path,
        file,
        since: 0.into(),
    });
    notes.push(note.clone());
    Some(note)
}

/// Ends this process when a thread reads one file for longer than `longest`, so that the file is
/// left out by the next one. Returns at once.
pub(super) fn watch(longest: Duration) {
    let started = started();
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(WATCH_EVERY);
            let notes = NOTES.lock().unwrap_or_else(PoisonError::into_inner);
            let is_late = |note: &Note| {
                let since = note.since.load(Ordering::Relaxed);
                since > 0 && started.elapsed() > Duration::from_millis(since - 1) + longest
            };
            if !notes.iter().any(|note| is_late(note)) {
                continue;
            }
            // What the others read is not to blame.
            for other in notes.iter().filter(|note| !is_late(note)) {
                let _ = std::fs::remove_file(&other.path);
            }
            eprintln!("a file was not read within {} seconds", longest.as_secs());
            std::process::exit(1);
        }
    });
}

/// When this process began to measure.
fn started() -> Instant {
    static STARTED: OnceLock<Instant> = OnceLock::new();
    *STARTED.get_or_init(Instant::now)
}

/// From now on this process says what it reads. Gives the folder where it does so.
pub(super) fn begin(index: &Path) -> io::Result<PathBuf> {
    let folder = folder(index)?;
    let left_out = left_out(&folder)?.into_iter().collect();
    let scratch = folder.clone();
    HERE.set(Here { folder, left_out })
        .map_err(|_| io::Error::other("one process makes one index"))?;
    Ok(scratch)
}

fn folder(index: &Path) -> io::Result<PathBuf> {
    let folder = index.join(FOLDER);
    closed::make_folder(&folder)?;
    Ok(folder)
}

/// The usual reader, which says what it reads and leaves out what a process died of.
pub(super) fn reader() -> Reader {
    Reader {
        read,
        ..Reader::default()
    }
}

fn read(path: &str, bytes: &[u8], until: Instant) -> Reading {
    let name = name_of(path, bytes);
    if HERE.get().is_some_and(|here| here.left_out.contains(&name)) {
        return Reading {
            note: Some("a process that parsed it died".to_owned()),
            ..Reading::default()
        };
    }
    NOTE.with(|note| {
        let Some(note) = note else {
            return (Reader::default().read)(path, bytes, until);
        };
        note.write(&name);
        note.since
            .store(started().elapsed().as_millis() as u64 + 1, Ordering::Relaxed);
        let reading = (Reader::default().read)(path, bytes, until);
        note.since.store(0, Ordering::Relaxed);
        note.write("");
        reading
    })
}

/// A name for contents of a kind: the language depends on the end of the path.
fn name_of(path: &str, bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    path.rsplit(['/', '.']).next().hash(&mut hasher);
    bytes.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Leaves out whatever a process was reading when it died, and gives the names of it. What other
/// processes left that are gone is removed.
pub(super) fn settle(index: &Path, process: u32) -> io::Result<Vec<String>> {
    let folder = folder(index)?;
    let mut blamed = Vec::new();
    for (file, of) in notes(&folder)? {
        if of == process {
            blamed.extend(name_in(&file)?);
        }
        if of == process || !Path::new(&format!("/proc/{of}")).exists() {
            std::fs::remove_file(&file)?;
        }
    }
    if !blamed.is_empty() && left_out(&folder)?.len() < MAX_LEFT_OUT {
        let mut list = OpenOptions::new()
            .create(true)
            .append(true)
            .open(folder.join(LEFT_OUT))?;
        list.write_all(format!("{}\n", blamed.join("\n")).as_bytes())?;
    }
    Ok(blamed)
}

fn name_in(file: &Path) -> io::Result<Option<String>> {
    let mut name = String::new();
    File::open(file)?.take(NAME_BYTES as u64).read_to_string(&mut name)?;
    let name = name.trim();
    let is_name = name.len() == NAME_BYTES - 1 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    Ok(is_name.then(|| name.to_owned()))
}

/// All notes, with their process.
fn notes(folder: &Path) -> io::Result<Vec<(PathBuf, u32)>> {
    let mut notes = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name
            .strip_prefix(READING)
            .and_then(|rest| rest.split('-').next()?.parse().ok());
        notes.extend(process.map(|process| (entry.path(), process)));
    }
    Ok(notes)
}

fn left_out(folder: &Path) -> io::Result<Vec<String>> {
    let file = match File::open(folder.join(LEFT_OUT)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take((2 * MAX_LEFT_OUT * NAME_BYTES) as u64)
        .read_to_string(&mut text)?;
    Ok(text.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_dead_process_was_reading_is_left_out() {
        let index = tempfile::tempdir().unwrap();
        let folder = folder(index.path()).unwrap();
        let own = std::process::id();
        // No process has such a number.
        let dead = u32::MAX - 1;
        for (process, thread, text) in [
            (dead, 0, "0123456789abcdef\n"),
            (dead, 1, "                \n"),
            (dead, 2, "no name at all.."),
            (dead - 1, 0, "1111111111111111\n"),
            (own, 0, "2222222222222222\n"),
        ] {
            std::fs::write(folder.join(format!("{READING}{process}-{thread}")), text).unwrap();
        }
        assert_eq!(settle(index.path(), dead).unwrap(), ["0123456789abcdef"]);
        assert_eq!(left_out(&folder).unwrap(), ["0123456789abcdef"]);
        // What others read that live is theirs; what others read that are gone blames nobody.
        let left: Vec<u32> = notes(&folder)
            .unwrap()
            .into_iter()
            .map(|(_, process)| process)
            .collect();
        assert_eq!(left, [own]);
        assert!(settle(index.path(), dead).unwrap().is_empty());
    }

    #[test]
    fn the_same_bytes_in_another_language_have_another_name() {
        assert_eq!(name_of("a/b.rs", b"x"), name_of("c.rs", b"x"));
        assert_ne!(name_of("a/b.rs", b"x"), name_of("a/b.py", b"x"));
        assert_ne!(name_of("a/b.rs", b"x"), name_of("a/b.rs", b"y"));
    }
}
