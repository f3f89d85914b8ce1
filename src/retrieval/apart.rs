//! Indexing in a process of its own. A grammar that crashes or eats all memory ends that process and
//! not the service, and what hostile code could make of a mistake in one reaches neither the network
//! nor the service's secrets. Started by [`update`]; `main` hands its arguments to [`helper_main`].
//! Never indexes a file again that such a process died of.

use std::io::{self, BufRead as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdout, Command};
use tokio_util::sync::CancellationToken;

use super::index::{Bounds, Index, IndexError, Limits, Progress};
use crate::closed;
use crate::git::Git;
use crate::ids::CommitSha;
use crate::text;

mod blame;
mod walls;

/// Name of the command that `main` dispatches here.
pub const HELPER_COMMAND: &str = "index-helper";

/// Longest line between the two processes.
const MAX_LINE_BYTES: usize = 64 * 1024;
/// Most bytes kept of what a dying process says.
const MAX_STDERR_BYTES: u64 = 16 * 1024;
/// How long a process that is told to end may take, and how much later than allowed it may be.
const LAST_WAIT: Duration = Duration::from_secs(10);
/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// How many files a repository may have that a process dies of, in one go.
const MAX_DEATHS: u32 = 5;

/// What is to be indexed, and where.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// Folder of the index.
    pub index: PathBuf,
    /// Bare repository with the commit.
    pub repo: PathBuf,
    /// Other folders that the repository reads from.
    pub lenders: Vec<PathBuf>,
    /// The commit.
    pub commit: CommitSha,
    /// Bounds of the index.
    pub limits: Limits,
    /// How long it may take.
    pub max_time: Duration,
}

/// What the process says, a line each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    /// So many blobs were read of so many.
    Progress(usize, usize),
    /// The view is in the folder; so many blobs were parsed for it.
    Done(u64),
    /// The time was over.
    Late,
    /// It does not work.
    Failed(String),
}

/// Why there is no index of a commit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It cannot be made.
    #[error("{0}")]
    Failed(String),
    /// It took too long; what was done is kept.
    #[error("it was not ready within {}", text::duration_in_words(*.0))]
    Late(Duration),
    /// Nobody wants it any more.
    #[error("it is not wanted any more")]
    Cancelled,
}

/// Brings an index to a commit, in processes of their own; gives the number of blobs parsed.
/// `program` is this program. A process that dies is blamed on the files that it was reading, which
/// are left out from then on.
///
/// # Errors
/// [`Problem`], when the commit is not in the index afterwards.
pub async fn update(
    program: &Path,
    order: &Order,
    cancel: &CancellationToken,
    progress: impl Fn(Progress) + Send,
) -> Result<u64, Problem> {
    let failed = |problem: &dyn std::fmt::Display| Problem::Failed(problem.to_string());
    closed::make_folder(&order.index).map_err(|error| failed(&format!("{}: {error}", order.index.display())))?;
    // What processes left that were killed.
    blame::settle(&order.index, 0).map_err(|error| failed(&error))?;
    let mut deaths = 0;
    loop {
        let ended = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(Problem::Cancelled),
            () = tokio::time::sleep(order.max_time + LAST_WAIT) => return Err(Problem::Late(order.max_time)),
            ended = once(program, order, &progress) => ended.map_err(|error| failed(&error))?,
        };
        // What a process that ended in order wrote down says nothing any more.
        if let Ended::Said(_) = &ended {
            blame::settle(&order.index, 0).map_err(|error| failed(&error))?;
        }
        match ended {
            Ended::Said(Said::Done(parsed)) => return Ok(parsed),
            Ended::Said(Said::Late) => return Err(Problem::Late(order.max_time)),
            Ended::Said(Said::Failed(problem)) => return Err(Problem::Failed(problem)),
            Ended::Said(Said::Progress(..)) => return Err(failed(&"the index helper ended without a result")),
            Ended::Died(how, process) => {
                let blamed = blame::settle(&order.index, process).map_err(|error| failed(&error))?;
                tracing::warn!(index = %order.index.display(), how, ?blamed, "a process that indexes died");
                deaths += 1;
                if blamed.is_empty() || deaths >= MAX_DEATHS {
                    return Err(Problem::Failed(format!("the index helper died: {how}")));
                }
            }
        }
    }
}

/// How a process ended.
enum Ended {
    Said(Said),
    /// How, and the process.
    Died(String, u32),
}

async fn once(program: &Path, order: &Order, progress: &(impl Fn(Progress) + Send)) -> io::Result<Ended> {
    let mut child = helper(program, HELPER_COMMAND).spawn()?;
    // Held until the end: when this process dies, the helper sees its input end.
    let process = child.id().unwrap_or_default();
    let mut stdin = child.stdin.take().ok_or_else(no_pipe)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut line = serde_json::to_vec(order)?;
    line.push(b'\n');
    // A process that died at once has said why.
    let _ = stdin.write_all(&line).await;
    let mut last_words = String::new();
    let (said, _) = tokio::join!(listen(stdout.ok_or_else(no_pipe)?, progress), async {
        if let Some(stderr) = stderr {
            let _ = stderr.take(MAX_STDERR_BYTES).read_to_string(&mut last_words).await;
        }
    });
    let status = tokio::time::timeout(LAST_WAIT, child.wait()).await;
    match (said?, status) {
        (Some(said), _) => Ok(Ended::Said(said)),
        (None, Ok(status)) => Ok(Ended::Died(in_words(status?, &last_words), process)),
        (None, Err(_)) => Ok(Ended::Died("it closed its output and did not end".to_owned(), process)),
    }
}

/// This program as a helper that knows nothing of the service but what it is told through its pipes.
pub fn helper(program: &Path, command: &str) -> Command {
    let mut helper = Command::new(program);
    helper
        .arg(command)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A Ctrl-C at this terminal is not its death: it would look like that of a grammar.
        .process_group(0)
        .kill_on_drop(true);
    helper
}

fn no_pipe() -> io::Error {
    io::Error::other("a pipe to the index helper is missing")
}

fn in_words(status: ExitStatus, last_words: &str) -> String {
    let last_line = last_words.trim().lines().last().unwrap_or_default();
    let last_line = text::reveal(&text::cap_chars(last_line, 300));
    match last_line.is_empty() {
        true => status.to_string(),
        false => format!("{status}: {last_line}"),
    }
}

/// The last thing that a process says, if it said how it ended.
async fn listen(stdout: ChildStdout, progress: &(impl Fn(Progress) + Send)) -> io::Result<Option<Said>> {
    let mut lines = BufReader::new(stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut lines)
            .take(MAX_LINE_BYTES as u64)
            .read_until(b'\n', &mut line)
            .await?;
        if read == 0 {
            return Ok(None);
        }
        match serde_json::from_slice(&line) {
            Ok(Said::Progress(done, all)) => progress(Progress { done, all }),
            Ok(said) => return Ok(Some(said)),
            Err(error) => {
                return Err(io::Error::other(format!(
                    "the index helper said something else: {error}"
                )));
            }
        }
    }
}

/// What the process that calls it may still do from then on: read these folders and the programs of the
/// machine, write one folder, and reach nobody.
///
/// # Errors
/// When a limit or a filter cannot be set.
pub fn close_walls(readable: &[&Path], writable: &Path) -> io::Result<()> {
    walls::close(readable, writable)
}

/// Entry of the helper process that `main` dispatches to when the program is started as
/// `forgehand index-helper`. Never returns to normal start-up.
pub fn helper_main() -> ExitCode {
    let mut line = String::new();
    let read = io::stdin().lock().take(MAX_LINE_BYTES as u64).read_line(&mut line);
    let order = read.and_then(|_| serde_json::from_str::<Order>(&line).map_err(io::Error::from));
    let Ok(order) = order else {
        eprintln!("the index helper is started by the service, not by hand");
        return ExitCode::FAILURE;
    };
    let said = obey(&order).unwrap_or_else(|error| match error {
        IndexError::Late => Said::Late,
        error => Said::Failed(error.to_string()),
    });
    say(&said);
    ExitCode::SUCCESS
}

fn obey(order: &Order) -> Result<Said, IndexError> {
    let folder = |error: io::Error| IndexError::Folder(error.to_string());
    let mut readable = vec![order.repo.as_path()];
    readable.extend(order.lenders.iter().map(PathBuf::as_path));
    walls::close(&readable, &order.index).map_err(folder)?;
    let git = Git::find()?;
    let scratch = blame::begin(&order.index).map_err(folder)?;
    // There is no other place to write.
    let _ = tempfile::env::override_temp_dir(&scratch);
    blame::watch(blame::MAX_READING);
    let index = Index::open(&order.index, order.limits.clone(), blame::reader())?;
    let cancel = CancellationToken::new();
    end_with_the_service(cancel.clone());
    let last_told = Mutex::new(Instant::now());
    let bounds = Bounds {
        cancel: &cancel,
        until: Instant::now() + order.max_time,
        progress: &|progress: Progress| {
            // Whoever is being served says it already.
            let Ok(mut last_told) = last_told.try_lock() else {
                return;
            };
            if last_told.elapsed() >= TELL_EVERY {
                *last_told = Instant::now();
                say(&Said::Progress(progress.done, progress.all));
            }
        },
    };
    index.update(&git, &order.repo, &order.commit, &bounds)?;
    Ok(Said::Done(index.stats().parsed))
}

/// Stops the work of a helper when nobody listens any more.
pub fn end_with_the_service(cancel: CancellationToken) {
    std::thread::spawn(move || {
        let mut rest = [0; 64];
        while matches!(io::stdin().lock().read(&mut rest), Ok(1..)) {}
        cancel.cancel();
    });
}

fn say(said: &Said) {
    if let Ok(mut line) = serde_json::to_vec(said) {
        line.push(b'\n');
        // Nobody may be listening any more; then there is nothing to say.
        let _ = io::stdout().lock().write_all(&line);
    }
}
