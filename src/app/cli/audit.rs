//! `forgehand audit`: list, check and export the rows that say who did what. Never changes one.

use std::io::{BufRead as _, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;

use super::costs::{Since, parse_since};
use super::screen::paint::one_line;
use super::{Context, show};
use crate::audit::{Action, Checked, Checker, Entry, Point};
use crate::clock::Clock;
use crate::ids::{JobId, RepoName};
use crate::store::{AuditFilter, Store};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  forgehand audit list --action written --since 1d   what was written to GitHub since yesterday
  forgehand audit list --job 01J…                    everything about one job
  forgehand audit verify                             whether a row was changed or removed
  forgehand audit export audit.jsonl                 all of it as JSON, one row a line
  forgehand audit verify --anchor 812:9f3c…          whether the row that an export ended with is still there

Each row holds the hash of the row before it. Whoever can write to the database can make the whole chain \
anew, so keep the anchor that `export` and `verify` print somewhere else: against it, nothing before it can \
be changed or cut off unnoticed.")]
pub(super) struct Args {
    #[command(subcommand)]
    action: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// List rows, newest first.
    List {
        /// Only rows about this job.
        #[arg(long, value_name = "JOB")]
        job: Option<JobId>,
        /// Only rows about this repository.
        #[arg(long, value_name = "OWNER/NAME")]
        repo: Option<RepoName>,
        /// Only acts of this kind, such as `written` or `authorized`.
        #[arg(long, value_name = "ACT", value_parser = parse_action)]
        action: Option<Action>,
        /// Only acts of this actor: `github:LOGIN`, `operator` or `service`.
        #[arg(long, value_name = "ACTOR")]
        actor: Option<String>,
        /// Only rows since then: so many days (7d), or a date (2026-01-31).
        #[arg(long, value_name = "DAYS|DATE", value_parser = parse_since)]
        since: Option<Since>,
        /// Most rows shown.
        #[arg(long, value_name = "NUMBER", default_value_t = 20)]
        limit: u32,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check that no row was changed, removed, added or moved; ends with 1 where one was.
    Verify {
        /// A place that has to be in the chain, as `export` printed it; may be repeated.
        #[arg(long = "anchor", value_name = "SEQ:HASH")]
        anchors: Vec<Point>,
        /// Check an exported or archived file instead of the database.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write rows into a file as JSON, one a line, and print the anchor of the last one.
    Export {
        /// The file; `-` is standard output.
        file: PathBuf,
        /// Only rows since then: so many days (7d), or a date (2026-01-31).
        #[arg(long, value_name = "DAYS|DATE", value_parser = parse_since)]
        since: Option<Since>,
        /// How rows are written.
        #[arg(long, value_enum, default_value_t = Format::Jsonl)]
        format: Format,
    },
}

/// How rows are written.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Format {
    /// JSON, one row a line.
    Jsonl,
}

/// Rows read in one statement.
const PAGE: u32 = 1_000;
/// Longest line of a file that is read; ours are far shorter.
const MAX_LINE_BYTES: u64 = 1 << 20;

fn parse_action(text: &str) -> Result<Action, String> {
    text.parse().map_err(|_| {
        let words: Vec<&str> = Action::ALL.iter().map(|action| action.as_str()).collect();
        format!("one of {}", words.join(", "))
    })
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    if let What::Verify {
        anchors,
        file: Some(file),
        json,
    } = &args.action
    {
        return tell(&check_file(file, anchors)?, *json);
    }
    let app = context.existing_app().await?;
    let done = act(app.store(), args.action).await;
    app.store().close().await;
    done
}

async fn act(store: &Store, action: What) -> anyhow::Result<ExitCode> {
    match action {
        What::List {
            job,
            repo,
            action,
            actor,
            since,
            limit,
            json,
        } => {
            let filter = AuditFilter {
                job,
                repository: repo,
                action,
                actor,
                since: since.map(|since| since.time(Clock::System.now())),
                limit,
            };
            let rows = store.begin().await?.audit_rows(&filter).await?;
            if json {
                show::json(&serde_json::json!({"rows": rows}))?;
            } else if rows.is_empty() {
                say!("no rows");
            }
            rows.iter().filter(|_| !json).for_each(line);
            Ok(ExitCode::SUCCESS)
        }
        What::Verify { anchors, json, .. } => {
            let checked = store.begin().await?.check_audit(&anchors).await?;
            tell(&checked, json)
        }
        What::Export { file, since, format } => {
            let Format::Jsonl = format;
            let since = since.map(|since| since.time(Clock::System.now()));
            export(store, &file, since).await
        }
    }
}

fn line(entry: &Entry) {
    let place = [&entry.repository, &entry.subject, &entry.job];
    let place: Vec<&str> = place.into_iter().flatten().map(String::as_str).collect();
    say!(
        "{:6}  {}  {:18}  {}  {}  {}",
        entry.seq,
        show::time(entry.at),
        one_line(&entry.action),
        one_line(&entry.actor),
        one_line(&place.join(" ")),
        one_line(&entry.detail)
    );
}

fn tell(checked: &Checked, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        show::json(checked)?;
    } else {
        for fault in &checked.faults {
            say!("{fault}");
        }
        if checked.faults.is_empty() {
            say!("the audit is whole: {} rows, anchor {}", checked.rows, checked.head);
        }
    }
    Ok(match checked.faults.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

async fn export(store: &Store, file: &Path, since: Option<chrono::DateTime<chrono::Utc>>) -> anyhow::Result<ExitCode> {
    let to_output = file.as_os_str() == "-";
    let mut out: Box<dyn std::io::Write> = match to_output {
        true => Box::new(std::io::stdout().lock()),
        false => {
            let made = std::fs::File::create(file).with_context(|| format!("make {}", file.display()))?;
            Box::new(std::io::BufWriter::new(made))
        }
    };
    let (mut last, mut rows) = (Point::origin(), 0_u64);
    loop {
        let page = store.begin().await?.audit_after(last.seq, PAGE).await?;
        let Some(end) = page.last() else { break };
        last = end.point();
        for entry in page.iter().filter(|entry| since.is_none_or(|since| entry.at >= since)) {
            rows += 1;
            writeln!(out, "{}", serde_json::to_string(entry)?).context("write the rows")?;
        }
    }
    out.flush().context("write the rows")?;
    note!("{rows} rows; keep this anchor somewhere else: {last}");
    Ok(ExitCode::SUCCESS)
}

/// A file has no end of its own to compare with, and begins wherever it begins.
fn check_file(file: &Path, anchors: &[Point]) -> anyhow::Result<Checked> {
    let failed = || format!("read {}", file.display());
    let opened = std::fs::File::open(file).with_context(failed)?;
    let mut reader: Box<dyn std::io::BufRead> = match file.extension().is_some_and(|end| end == "gz") {
        true => Box::new(std::io::BufReader::new(flate2::read::MultiGzDecoder::new(opened))),
        false => Box::new(std::io::BufReader::new(opened)),
    };
    let mut checker: Option<Checker> = None;
    loop {
        let mut text = String::new();
        let read = reader.by_ref().take(MAX_LINE_BYTES).read_line(&mut text);
        if read.with_context(failed)? == 0 {
            break;
        }
        let entry: Entry =
            serde_json::from_str(&text).with_context(|| format!("{} holds a line that is no row", file.display()))?;
        let begun = checker.get_or_insert_with(|| {
            let start = Point {
                seq: entry.seq - 1,
                hash: entry.prev.clone(),
            };
            Checker::new(start, anchors).of_a_part()
        });
        begun.add(&entry);
    }
    let checker = checker.with_context(|| format!("{} holds no rows", file.display()))?;
    Ok(checker.end(None))
}
