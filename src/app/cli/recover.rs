//! `forgehand recover`: shows what is left of workers, services and jobs that are gone, and settles it, as
//! the service also does by itself. Never takes a lease that is in force, and never deletes a branch
//! without `--branches`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use chrono::TimeDelta;

use super::{Context, show};
use crate::app::App;
use crate::git::Git;
use crate::github::GitHub;
use crate::job::JobState;
use crate::publish;
use crate::queue::Queue;
use crate::store::{JobFilter, StoreError};
use crate::worker::{Leftover, Mode, Sweep, What, branches};

#[derive(Debug, clap::Args)]
#[command(after_help = "Everything but branches is also settled by the service, at its start and every minute.")]
pub(super) struct Args {
    /// Only show what would be settled.
    #[arg(long)]
    dry_run: bool,
    /// Delete branches of given-up and stopped jobs from which nobody opened a pull request. Finished work
    /// of such jobs may be there.
    #[arg(long)]
    branches: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Longer than PostgreSQL lets a transaction stand idle here.
const PATIENCE: Duration = Duration::from_secs(15);
/// Time between two tries.
const PAUSE: Duration = Duration::from_millis(500);
/// How far back ended jobs are looked at, as in the service.
const SINCE: TimeDelta = TimeDelta::days(7);
/// Most ended jobs that are shown.
const MAX_ENDED: u32 = 1_000;

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    let app = context.existing_app().await?;
    let mode = if args.dry_run { Mode::Show } else { Mode::Settle };
    let queue = Queue::new(app.store().clone(), app.config().queue.clone(), "recover".to_owned());
    let sweep = app.sweep(&queue);
    let mut left = patiently(&sweep, mode).await?;
    left.extend(sweep.machine(mode).await?);
    left.extend(on_github(&app, mode, args.branches).await?);
    if args.json {
        show::json(&left)?;
    } else if left.is_empty() {
        let held = held(&app).await?;
        say!("nothing to recover; {held} jobs are held by living workers or wait for their lease to end");
    } else {
        print(&left);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(left: &[Leftover]) {
    for one in left {
        let done = one.done.as_deref().unwrap_or("shown only");
        say!("{:9}  {}  {}: {done}", one.what.as_str(), one.id, one.detail);
    }
}

async fn held(app: &App) -> Result<usize, StoreError> {
    let filter = JobFilter {
        states: vec![JobState::Leased, JobState::Publishing],
        limit: 1_000,
        ..JobFilter::default()
    };
    Ok(app.store().begin().await?.jobs(&filter).await?.len())
}

/// Looks into the database, and tries again for a while when a row is locked: a worker that froze in the
/// middle of a transaction holds it until the server ends that transaction.
async fn patiently(sweep: &Sweep, mode: Mode) -> Result<Vec<Leftover>, StoreError> {
    let begun = Instant::now();
    let mut left = Vec::new();
    loop {
        match sweep.rows(mode, &mut left).await {
            Err(StoreError::Unavailable(_)) if begun.elapsed() < PATIENCE => {
                if mode == Mode::Show {
                    left.clear();
                }
                tokio::time::sleep(PAUSE).await;
            }
            other => return other.map(|()| left),
        }
    }
}

/// What GitHub still shows of jobs that are over. Without an App nothing is asked there.
async fn on_github(app: &App, mode: Mode, deletes_branches: bool) -> anyhow::Result<Vec<Leftover>> {
    let Ok(github) = app.github() else {
        return Ok(Vec::new());
    };
    let mut left = endings(app).await?;
    if mode == Mode::Settle && !left.is_empty() {
        let said = say_last_words(app, &github).await;
        let still = endings(app).await?;
        for one in &mut left {
            let is_left = still.iter().any(|other| other.id == one.id);
            one.done = Some(match &said {
                _ if !is_left => "said".to_owned(),
                Ok(()) => "not yet; the log says why".to_owned(),
                Err(error) => format!("not yet: {error:#}"),
            });
        }
    }
    let git = match mode {
        Mode::Settle if deletes_branches => Some(Git::find()?),
        Mode::Settle | Mode::Show => None,
    };
    left.extend(branches(app.store(), &github, git.as_ref()).await?);
    Ok(left)
}

async fn say_last_words(app: &App, github: &GitHub) -> anyhow::Result<()> {
    let publisher = app.publisher(github, &Git::find()?)(github.app().await?);
    for _ in 0..MAX_ENDED {
        let settled = publish::settle_ended(&publisher).await;
        if settled.map_err(|error| anyhow::anyhow!("{error:?}"))? == 0 {
            break;
        }
    }
    Ok(())
}

async fn endings(app: &App) -> Result<Vec<Leftover>, StoreError> {
    let mut tx = app.store().begin().await?;
    let since = tx.db_now().await? - SINCE;
    let unsettled = tx.unsettled_jobs(since, MAX_ENDED).await?;
    let words = "it is over, and its status comment, check or label may say otherwise";
    Ok(unsettled
        .into_iter()
        .map(|id| Leftover::new(What::Ending, id, words))
        .collect())
}
