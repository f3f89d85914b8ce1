//! `forgehand migrate`: brings the schema up to date, which `serve` also does at its start; with
//! `--from` and `--to`, moves everything from one database into another. Never goes back to an
//! older schema, and never changes the configuration or the database that it moves from.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use serde_json::json;

use super::bar::{Bar, Show};
use super::{Context, show};
use crate::app::Instance;
use crate::config::Config;
use crate::secret::Secret;
use crate::store::{Moved, Store, TransferReport, Writes, transfer};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Moving reads the source and adds to the target what it lacks; the target is an empty database, or one that an \
earlier run did not finish. Stop the service first. Nothing on the target is overwritten: a row that differs is \
an error, and the exit code is 1. The state folder (credentials, mirrors, workspaces) stays where it is. Leave \
passwords out of addresses: PGPASSWORD and ~/.pgpass are read.

  forgehand migrate --from sqlite:/var/lib/forgehand/forgehand.sqlite --to postgres://forgehand@db/forgehand")]
pub(super) struct Args {
    /// Database to move everything from, `sqlite:PATH` or `postgres://…`.
    #[arg(long, value_name = "ADDRESS", requires = "to")]
    from: Option<String>,
    /// Database to move everything to.
    #[arg(long, value_name = "ADDRESS", requires = "from")]
    to: Option<String>,
    /// Only say what would be moved.
    #[arg(long, requires = "from")]
    dry_run: bool,
    /// Print the result as JSON.
    #[arg(long, requires = "from")]
    json: bool,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    if let (Some(from), Some(to)) = (&args.from, &args.to) {
        let (from, to) = (Secret::new(from.as_str()), Secret::new(to.as_str()));
        return Box::pin(move_all(context, &from, &to, &args)).await;
    }
    let app = context.app().await?;
    say!("the {} database is up to date", app.store().backend());
    app.store().close().await;
    Ok(ExitCode::SUCCESS)
}

async fn move_all(context: &Context, from: &Secret, to: &Secret, args: &Args) -> anyhow::Result<ExitCode> {
    let config = context.config()?;
    for folder in state_folders(&config, from, to)? {
        let is_held = Instance::is_held(&folder).with_context(|| format!("look at {}", folder.display()))?;
        if is_held {
            bail!(
                "a service is running on {}. Stop it (SIGTERM, or `systemctl stop forgehand`), so that no work gets \
                 lost between the two databases, then run this again",
                folder.display()
            );
        }
    }
    let writes = match args.dry_run {
        true => Writes::Nothing,
        false => Writes::Missing,
    };
    let tell = if args.json { Show::Nothing } else { Show::Progress };
    let bar = Bar::new(tell, "moving", "rows");
    let count = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
    let mut progress = |Moved { done, all }: Moved| bar.show(count(done), count(all));
    let moved = transfer(from, to, writes, &mut progress).await;
    bar.end();
    let report = moved?;
    if args.json {
        let next = report.is_complete().then(|| next(&report));
        show::json(&json!({"complete": report.is_complete(), "report": report, "next": next}))?;
    } else {
        print(&report);
    }
    Ok(match report.is_complete() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Folders whose service would work on one of the two databases: that of a file, and the
/// configured one where its database is one of them.
fn state_folders(config: &Config, from: &Secret, to: &Secret) -> anyhow::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for (name, url) in [("--from", from), ("--to", to)] {
        let file = Store::file(url).with_context(|| format!("read {name}"))?;
        folders.extend(file.as_deref().and_then(Path::parent).map(Path::to_path_buf));
        if config.database_url().expose() == url.expose() {
            folders.push(config.server.state_dir.clone());
        }
    }
    Ok(folders)
}

fn print(report: &TransferReport) {
    let copied = if report.dry_run { "to copy" } else { "copied" };
    let width = report.tables.iter().map(|table| table.table.len()).max().unwrap_or(0);
    say!(
        "{:width$}  {:>10}  {copied:>10}  {:>10}  {:>7}",
        "table",
        "rows",
        "there",
        "errors"
    );
    for table in report.tables.iter().filter(|table| table.rows > 0) {
        say!(
            "{:width$}  {:>10}  {:>10}  {:>10}  {:>7}",
            table.table,
            table.rows,
            table.copied,
            table.skipped,
            table.errors
        );
    }
    say!(
        "{:width$}  {:>10}  {:>10}  {:>10}  {:>7}",
        "all",
        report.rows,
        report.copied,
        report.skipped,
        report.errors
    );
    for table in &report.tables {
        for problem in &table.problems {
            note!("{} {}: {}", table.table, problem.key, problem.problem);
        }
        let target = table.target_sha256.as_ref();
        if table.errors == 0 && target.is_some_and(|sum| *sum != table.source_sha256) {
            note!("{}: the sums of the two sides differ; run this again", table.table);
        }
    }
    match report.is_complete() {
        true => say!("{}", next(report)),
        false => note!("not everything is on the target; nothing there was overwritten"),
    }
}

/// What the person does next.
fn next(report: &TransferReport) -> String {
    match report.dry_run {
        true => "nothing was written; run it without --dry-run".to_owned(),
        false => format!(
            "every row is on both sides, with equal sums. Next: set database.url to the {} address (server.state_dir \
             stays), run `forgehand doctor`, start the service. Keep the old database until you are content, and \
             let no service run on it",
            report.to
        ),
    }
}
