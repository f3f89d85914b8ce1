//! `forgehand ledger`: what ran while nobody was there, and how it ended. Never shows less than there
//! is without saying so.

use std::collections::HashSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::json;

use super::costs::{Since, parse_since};
use super::milestones::store_of;
use super::screen::paint::one_line;
use super::{Context, missing_database, show};
use crate::clock::Clock;
use crate::ids::RepoName;
use crate::mission::Mission;
use crate::store::{MissionFilter, Store};
use crate::text;
use crate::unattended::ledger::rotated;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  forgehand ledger                     the last 20 unattended runs
  forgehand ledger --failed --since 1d what went wrong since yesterday
  forgehand ledger --last 1 --detail   everything about the last one
  forgehand ledger --export all.jsonl  every record, also those that were moved to files, one a line

Runs of schedules, work graphs and issue queues have a record, and runs of `forgehand run` without \
anybody at a terminal.")]
pub(super) struct Args {
    /// Most records, the newest first.
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    last: u32,
    /// Only those that somebody has to look at.
    #[arg(long)]
    failed: bool,
    /// Only those that ended since then: so many days (7d), or a date (2026-01-31).
    #[arg(long, value_name = "DAYS|DATE", value_parser = parse_since)]
    since: Option<Since>,
    /// Only those of this repository.
    #[arg(long, value_name = "OWNER/NAME")]
    repo: Option<RepoName>,
    /// Everything about each.
    #[arg(long)]
    detail: bool,
    /// Print the records as JSON.
    #[arg(long)]
    json: bool,
    /// Write every record into a file instead, as JSON, one a line; `-` is standard output.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["last", "failed", "since", "repo", "detail", "json"])]
    export: Option<PathBuf>,
}

/// Records read in one statement for an export.
const ALL: u32 = u32::MAX;

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    let (store, state_dir) = place(context).await?;
    let filter = match args.export {
        Some(_) => MissionFilter {
            limit: ALL,
            ..MissionFilter::default()
        },
        None => MissionFilter {
            failed: args.failed,
            repository: args.repo.as_ref().map(ToString::to_string),
            since: args.since.map(|since| since.time(Clock::System.now())),
            limit: args.last,
        },
    };
    let read = async { store.begin().await?.missions(&filter).await };
    let read = read.await;
    store.close().await;
    let missions = read?;
    if let Some(file) = args.export {
        let old = rotated(&state_dir)?;
        return export(&file, old, missions).map(|()| ExitCode::SUCCESS);
    }
    if args.json {
        show::json(&json!({"records": missions}))?;
    } else if missions.is_empty() {
        say!("no unattended runs{}", if args.failed { " that failed" } else { "" });
    } else {
        for mission in &missions {
            line(mission);
            if args.detail {
                detail(mission);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The database of the service here; without one, that of the runs of this user, as `run` writes it.
async fn place(context: &Context) -> anyhow::Result<(Store, PathBuf)> {
    let config = context.config()?;
    let is_named = ["server.state_dir", "database.url"]
        .iter()
        .any(|key| config.origins.contains_key(*key));
    if is_named || missing_database(&config)?.is_none() {
        let app = context.existing_app().await?;
        return Ok((app.store().clone(), app.config().server.state_dir.clone()));
    }
    Ok((store_of(&config).await?, config.server.state_dir))
}

/// The oldest first, each once.
fn export(file: &std::path::Path, old: Vec<Mission>, new: Vec<Mission>) -> anyhow::Result<()> {
    let mut seen = HashSet::new();
    let all = old.into_iter().chain(new.into_iter().rev());
    let lines = all.filter(|mission| seen.insert(mission.id.clone()));
    let mut out: Box<dyn std::io::Write> = match file.as_os_str() == "-" {
        true => Box::new(std::io::stdout().lock()),
        false => {
            let made = std::fs::File::create(file).with_context(|| format!("--export: make {}", file.display()))?;
            Box::new(std::io::BufWriter::new(made))
        }
    };
    for mission in lines {
        writeln!(out, "{}", serde_json::to_string(&mission)?).context("write the records")?;
    }
    out.flush().context("write the records")
}

fn line(mission: &Mission) {
    let took = (mission.ended - mission.began).to_std().unwrap_or_default();
    say!(
        "{}  {} {:<13} {} {} · {} · {} · {}",
        show::time(mission.ended),
        if mission.is_failure() { "✗" } else { "✓" },
        mission.state.as_str().replace('_', " "),
        mission.repository,
        mission.subject,
        mission.cause,
        text::duration_in_words(took),
        money(mission),
    );
    match mission.reason.lines().next().unwrap_or_default() {
        "" => {}
        reason => say!("    {}", one_line(&text::cap_chars(reason, 300))),
    }
}

fn money(mission: &Mission) -> String {
    let tokens = mission.counts.input_tokens + mission.counts.output_tokens;
    match mission.price_unknown {
        true => format!("{tokens} tokens of unknown price"),
        false => format!("${:.2}", mission.cost_usd),
    }
}

fn detail(mission: &Mission) {
    let counts = &mission.counts;
    say!("    began     {}", show::time(mission.began));
    if let Some(job) = &mission.job {
        say!(
            "    job       {job}, round {}, attempt {}",
            mission.round,
            counts.attempts
        );
    }
    say!(
        "    counts    {} turns, {} tool calls, {} tokens in, {} out",
        counts.turns,
        counts.tool_calls,
        counts.input_tokens,
        counts.output_tokens
    );
    for milestone in &mission.milestones {
        say!(
            "    milestone {}: {}, attempts: {}",
            one_line(&milestone.id),
            one_line(&milestone.conclusion),
            milestone.attempts
        );
    }
    for left in &mission.commits {
        let sha = left
            .sha
            .as_ref()
            .map_or_else(String::new, |sha| format!(" at {}", sha.short()));
        say!("    branch    {}{sha}", left.branch);
    }
    if let Some(pull) = mission.pull {
        say!("    pull      #{pull}");
    }
    for more in mission.reason.lines().skip(1) {
        say!("    | {}", one_line(more));
    }
}
