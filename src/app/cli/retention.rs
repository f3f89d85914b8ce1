//! `forgehand retention`: shows what is kept and for how long, and moves and removes what is old, which the
//! service also does by itself. Never removes a job that is not in a file first.

use std::process::ExitCode;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Context, show};
use crate::app::{App, stop_on_signal};
use crate::retention::{Passed, Turn};
use crate::store::{Kept, StoreError, TABLES};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  forgehand retention --dry-run             every table with its rows and what bounds it; nothing is done
  forgehand retention                       move and remove what is old, now
  forgehand retention --set retention.runs_days=30

A job that is moved becomes STATE_DIR/archive/YEAR/MONTH/JOB.jsonl.gz: every row of it, one a line. It cannot \
be begun again after that. Sums of what it cost stay, and its rows of the audit.")]
pub(super) struct Args {
    /// Only show what is kept and what would go.
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    let app = context.existing_app().await?;
    let done = match args.dry_run {
        true => show_kept(&app, args.json).await,
        false => pass(&app, args.json).await,
    };
    app.store().close().await;
    done
}

async fn pass(app: &App, json: bool) -> anyhow::Result<ExitCode> {
    let stop = CancellationToken::new();
    stop_on_signal(stop.clone())?;
    match app.retention().pass(&stop).await? {
        Turn::Another => {
            if json {
                show::json(&json!({"done": null, "why": "another process is at it"}))?;
            } else {
                say!("another process is at it; nothing was done here");
            }
        }
        Turn::Done(passed) if json => show::json(&json!({"done": passed}))?,
        Turn::Done(passed) => tell(&passed),
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(passed: &Passed) {
    let all = [
        ("jobs moved into files", passed.jobs),
        ("jobs that stay: they were begun again", passed.jobs_left),
        ("webhook calls removed", passed.deliveries),
        ("fires of schedules removed", passed.schedule_fires),
        ("issues that left a queue removed", passed.queue_items),
        ("switches of issue queues removed", passed.autotask_switches),
        ("sums of costs removed", passed.ledger_days),
        ("alerts removed", passed.alerts),
        ("rows of the audit moved into files", passed.audit_rows),
        ("old files removed", passed.files),
        ("mirrors removed", passed.mirrors),
    ];
    let mut said = false;
    for (what, count) in all.into_iter().filter(|(_, count)| *count > 0) {
        said = true;
        say!("{count:8}  {what}");
    }
    if !said {
        say!("nothing is old");
    }
}

/// Every table with its rows; one that is too large to be counted in time has none to show.
async fn show_kept(app: &App, json: bool) -> anyhow::Result<ExitCode> {
    let due = app.retention().due().await?;
    let values = app.config().effective();
    let mut rows = Vec::new();
    for (table, kept) in TABLES {
        let mut tx = app.store().begin().await?;
        let count = match tx.count_rows(table).await {
            Ok(count) => Some(count),
            Err(StoreError::Unavailable(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let bound = match kept {
            Kept::WithJob => "with its job".to_owned(),
            Kept::Bounded(by) => (*by).to_owned(),
            Kept::Days(key) => {
                let days = values.iter().find(|(name, ..)| name == key);
                format!("{} days ({key})", days.map_or("?", |(_, days, _)| days))
            }
        };
        rows.push((*table, count, bound));
    }
    if json {
        let tables: Vec<_> = rows
            .iter()
            .map(|(table, count, bound)| json!({"table": table, "rows": count, "kept": bound}))
            .collect();
        show::json(&json!({"tables": tables, "jobs_due": due.jobs}))?;
        return Ok(ExitCode::SUCCESS);
    }
    for (table, count, bound) in rows {
        let count = count.map_or_else(|| "many".to_owned(), |count| count.to_string());
        say!("{table:18}  {count:>10}  {bound}");
    }
    say!("\n{} jobs would be moved into files now", due.jobs);
    Ok(ExitCode::SUCCESS)
}
