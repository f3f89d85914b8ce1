//! A suite of a repository, measured in a process of its own behind the walls of indexing: a grammar that
//! crashes, or a case that eats all memory, ends that process and not the service. Started by [`measure`];
//! `main` hands its arguments to [`helper_main`]. Never reaches the network, and never writes outside of its
//! folder.

use std::io::{self, BufRead as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

use super::{Ask, Case, Plan, Report};
use crate::closed;
use crate::git::Git;
use crate::retrieval::apart::{close_walls, end_with_the_service, helper};
use crate::retrieval::index::Limits;
use crate::text;

/// Name of the command that `main` dispatches here.
pub const HELPER_COMMAND: &str = "eval-helper";

/// Longest order, in bytes.
const MAX_ORDER_BYTES: u64 = 64 * 1024;
/// Longest result, in bytes: its table is cut.
const MAX_RESULT_BYTES: u64 = 256 * 1024;
/// Most bytes kept of what a dying process says.
const MAX_STDERR_BYTES: u64 = 16 * 1024;
/// Longest that is said of something that went wrong, in characters.
const MAX_PROBLEM_CHARS: usize = 500;
/// Longest table: what an event of a job holds, in bytes.
const MAX_TABLE_BYTES: usize = 12 * 1024;
/// Cases that were left out, of which the table says why.
const MAX_SKIPPED_SHOWN: usize = 30;
/// The file with the cases, in the folder.
const CASES: &str = "cases.jsonl";
/// The indexes, in the folder.
const INDEXES: &str = "indexes";

/// What is to be measured, and where.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// A folder of one's own, for the cases and the indexes.
    pub folder: PathBuf,
    /// Bare repository with the commits of all cases.
    pub repo: PathBuf,
    /// Other folders that the repository reads from.
    pub lenders: Vec<PathBuf>,
    /// Bounds of the index.
    pub limits: Limits,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Cases that were asked.
    pub asked: usize,
    /// How many were not.
    pub skipped: usize,
    /// Why the first of these was not.
    pub first_skipped: Option<String>,
    /// Share of cases with all right files among the first 1, 5 and 10, and the mean reciprocal rank, all in
    /// per cent; with the weights as shipped.
    pub files: ([f64; 3], f64),
    /// The same of functions, where a case names lines.
    pub functions: Option<([f64; 3], f64)>,
    /// All figures, for people.
    pub table: String,
}

/// Measures in a process of its own. `program` is this program.
///
/// # Errors
/// Why there are no figures, in words.
pub async fn measure(program: &Path, order: &Order, cases: &[Case]) -> Result<Measured, String> {
    let failed = |error: io::Error| format!("the suite could not be measured: {error}");
    let mut text = Vec::new();
    for case in cases {
        serde_json::to_writer(&mut text, case).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
    }
    closed::make_folder(&order.folder).map_err(failed)?;
    tokio::fs::write(order.folder.join(CASES), text).await.map_err(failed)?;
    let mut child = helper(program, HELPER_COMMAND).spawn().map_err(failed)?;
    let mut line = serde_json::to_vec(order).map_err(|error| failed(error.into()))?;
    line.push(b'\n');
    // Held until the end: when this process dies, the helper sees its input end.
    let mut stdin = child.stdin.take();
    if let Some(stdin) = &mut stdin {
        // A process that died at once has said why.
        let _ = stdin.write_all(&line).await;
    }
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (mut result, mut last_words) = (Vec::new(), String::new());
    tokio::join!(
        async {
            if let Some(stdout) = stdout {
                let _ = stdout.take(MAX_RESULT_BYTES).read_to_end(&mut result).await;
            }
        },
        async {
            if let Some(stderr) = stderr {
                let _ = stderr.take(MAX_STDERR_BYTES).read_to_string(&mut last_words).await;
            }
        }
    );
    let status = child.wait().await.map_err(failed)?;
    match serde_json::from_slice::<Result<Measured, String>>(&result) {
        Ok(Ok(measured)) if status.success() => Ok(Measured::clean(measured)),
        Ok(Err(problem)) if status.success() => Err(short(&problem)),
        _ => {
            let last_line = last_words.trim().lines().last().unwrap_or_default();
            let last_line = text::reveal(&text::cap_chars(last_line, 300));
            Err(format!("the process that measures died ({status}): {last_line}"))
        }
    }
}

/// Entry of the helper process that `main` dispatches to when the program is started as
/// `forgehand eval-helper`. Never returns to normal start-up.
pub fn helper_main() -> ExitCode {
    let mut line = String::new();
    let read = io::stdin().lock().take(MAX_ORDER_BYTES).read_line(&mut line);
    let order = read.and_then(|_| serde_json::from_str::<Order>(&line).map_err(io::Error::from));
    let Ok(order) = order else {
        eprintln!("the eval helper is started by the service, not by hand");
        return ExitCode::FAILURE;
    };
    let said: Result<Measured, String> = obey(&order).map_err(|error| format!("{error:#}"));
    match serde_json::to_vec(&said).map(|line| io::stdout().lock().write_all(&line)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn obey(order: &Order) -> anyhow::Result<Measured> {
    let mut readable = vec![order.repo.as_path()];
    readable.extend(order.lenders.iter().map(PathBuf::as_path));
    close_walls(&readable, &order.folder)?;
    // There is no other place to write.
    let _ = tempfile::env::override_temp_dir(&order.folder);
    let cancel = CancellationToken::new();
    end_with_the_service(cancel.clone());
    let text = std::fs::read_to_string(order.folder.join(CASES))?;
    let plan = Plan {
        cases: Case::parse_all(&text)?,
        find: &|_| Ok(order.repo.clone()),
        ask: Ask::Full,
        indexes: &order.folder.join(INDEXES),
        limits: order.limits.clone(),
    };
    let report = super::run(&plan, &Git::find()?, &cancel, &|_, _| {})?;
    Ok(Measured::of(report))
}

/// What the process said of something that went wrong, as it can be shown.
fn short(problem: &str) -> String {
    text::reveal(&text::cap_chars(problem, MAX_PROBLEM_CHARS))
}

impl Measured {
    /// As it can be shown: the process read what is not ours.
    fn clean(mut self) -> Self {
        self.first_skipped = self.first_skipped.as_deref().map(short);
        self
    }

    fn of(mut report: Report) -> Self {
        let skipped = std::mem::take(&mut report.skipped);
        report.skipped = skipped.iter().take(MAX_SKIPPED_SHOWN).cloned().collect();
        let figures = |row: &super::Row| (row.measure.acc, row.measure.mrr);
        Self {
            asked: report.cases.len(),
            files: report.files.first().map(figures).unwrap_or_default(),
            functions: report
                .functions
                .first()
                .filter(|row| row.measure.cases > 0)
                .map(figures),
            table: text::cap(&report.lines().join("\n"), MAX_TABLE_BYTES),
            skipped: skipped.len(),
            first_skipped: skipped.into_iter().next().map(|(_, why)| why),
        }
    }
}
