//! `forgehand show`: a run to be read from the first turn to the last, from the events of a job, the
//! record of a local run, or the file that `run --events` wrote. Never shows more of an output than was stored, and says where a
//! part was left out.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};

use super::progress::in_thousands;
use super::screen::canvas::{Canvas, Kind};
use super::screen::paint_of_output;
use super::{Context, Usage, show, surroundings};
use crate::app::record;
use crate::event::{Event, Totals};
use crate::ids::{JobId, RunId};
use crate::retention::missing;
use page::{Depth, Page};

mod list;
mod page;
mod recorded;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A job's id, as `jobs list` shows it; a local run's, as `run` prints it; the file of its record,
    /// or the one that `run --events` or `--log` wrote. Without it, local runs are listed: those that
    /// ended, those that go on, and those whose process is gone.
    #[arg(value_name = "JOB|RUN|FILE")]
    what: Option<String>,
    /// Show outputs whole, as far as they were stored, and what the model thought.
    #[arg(long)]
    full: bool,
    /// Print the events as JSON.
    #[arg(long)]
    json: bool,
}

/// Most events of one job or file.
const MAX_EVENTS: u32 = 20_000;
/// Largest file.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    let Some(what) = args.what else {
        list::print(context, args.json)?;
        return Ok(ExitCode::SUCCESS);
    };
    let depth = if args.full { Depth::Whole } else { Depth::Capped };
    let canvas = Canvas::new(std::io::stdout(), Kind::Lines, paint_of_output(), || None);
    let mut page = Page::new(canvas, depth);
    let named = PathBuf::from(&what);
    let file = if named.is_file() {
        Some(named)
    } else {
        record_of(context, &what)?
    };
    let events = match (file, what.parse::<JobId>()) {
        (Some(file), _) if is_record(&file)? => {
            if args.json {
                bail!("{} is JSON, a line for each entry", file.display());
            }
            let totals = recorded::write(&mut page, &record::read(&file)?);
            page.end(&in_words(&totals));
            return Ok(ExitCode::SUCCESS);
        }
        (Some(file), _) => of_file(&file)?,
        (None, Ok(job)) => of_job(context, &job).await?,
        (None, Err(_)) => {
            return Err(Usage(format!("{what} is neither the id of a job or run nor a file")).into());
        }
    };
    if args.json {
        show::json(&events)?;
        return Ok(ExitCode::SUCCESS);
    }
    events.iter().for_each(|event| page.event(event));
    page.end(&in_words(&Totals::of(events.iter().map(|event| &event.body))));
    Ok(ExitCode::SUCCESS)
}

/// The record of a local run, if there is one of this name.
fn record_of(context: &Context, what: &str) -> anyhow::Result<Option<PathBuf>> {
    let Ok(run) = what.parse::<RunId>() else {
        return Ok(None);
    };
    let folder = record::folder(&context.config()?, &surroundings()?);
    Ok(folder
        .map(|folder| record::file(&folder, &run))
        .filter(|file| file.is_file()))
}

fn is_record(file: &Path) -> anyhow::Result<bool> {
    let open = std::fs::File::open(file).with_context(|| format!("open {}", file.display()))?;
    let mut head = Vec::new();
    open.take(4096)
        .read_to_end(&mut head)
        .with_context(|| format!("read {}", file.display()))?;
    let is_line = |name: &str| String::from_utf8_lossy(&head).starts_with(&format!("{{\"line\":\"{name}\""));
    Ok(["head", "entry", "end"].into_iter().any(is_line))
}

async fn of_job(context: &Context, job: &JobId) -> anyhow::Result<Vec<Event>> {
    let app = context.existing_app().await?;
    let read = async {
        let mut tx = app.store().begin().await?;
        if tx.job(job).await?.is_none() {
            bail!(missing(&mut tx, job).await?);
        }
        anyhow::Ok(tx.events(job, 0, MAX_EVENTS).await?)
    };
    let events = read.await;
    app.store().close().await;
    events
}

/// A line of the file that `run` writes.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Logged {
    Event(Box<Event>),
    /// The beginning or the end.
    Frame {
        #[serde(rename = "events")]
        _events: String,
    },
}

fn of_file(file: &Path) -> anyhow::Result<Vec<Event>> {
    let open = std::fs::File::open(file).with_context(|| format!("open {}", file.display()))?;
    let mut events = Vec::new();
    let mut torn = None;
    for (at, line) in BufReader::new(open.take(MAX_FILE_BYTES)).lines().enumerate() {
        let line = line.with_context(|| format!("read {}", file.display()))?;
        if events.len() as u32 >= MAX_EVENTS {
            bail!("{} holds more than {MAX_EVENTS} events", file.display());
        }
        match serde_json::from_str(&line) {
            Ok(Logged::Event(event)) if torn.is_none() => events.push(*event),
            Ok(Logged::Frame { .. }) => torn = None,
            // The last line of a run that was killed; the next run begins one of its own.
            Err(_) if at > 0 && torn.is_none() => torn = Some(at + 1),
            Ok(_) | Err(_) => bail!("{} line {}: no event of a run", file.display(), torn.unwrap_or(at + 1)),
        }
    }
    Ok(events)
}

/// What it all took, in a line.
fn in_words(totals: &Totals) -> String {
    let money = if totals.price_unknown {
        "price unknown".to_owned()
    } else {
        format!("${:.4}", totals.cost_usd)
    };
    format!(
        "{} turns · {} tokens in · {} out · {money}",
        totals.turns,
        in_thousands(totals.input_tokens),
        in_thousands(totals.output_tokens)
    )
}
