//! `forgehand recover`: shows jobs whose lease ended and gives them back to the queue, which the
//! service also does by itself. Never takes a lease that is in force.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::{Context, show};
use crate::job::JobState;
use crate::queue::Queue;
use crate::store::{JobFilter, Recovery, StoreError};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only show what would be given back.
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Longer than PostgreSQL lets a transaction stand idle here.
const PATIENCE: Duration = Duration::from_secs(15);
/// Time between two tries.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    let app = context.existing_app().await?;
    let mut tx = app.store().begin().await?;
    let now = tx.db_now().await?;
    let filter = JobFilter {
        states: vec![JobState::Leased, JobState::Publishing],
        limit: 1_000,
        ..JobFilter::default()
    };
    let held = tx.jobs(&filter).await?;
    drop(tx);
    let expired = held
        .iter()
        .filter(|job| job.lease_until.is_some_and(|until| until < now));
    if args.dry_run {
        let ids: Vec<String> = expired.map(|job| job.id.to_string()).collect();
        return if args.json {
            show::json(&ids).map(|()| ExitCode::SUCCESS)
        } else {
            print_dry(&ids, held.len())
        };
    }
    let queue = Queue::new(app.store().clone(), app.config().queue.clone(), "recover".to_owned());
    let recovered = patiently(&queue).await?;
    let rows: Vec<(String, &str)> = recovered
        .iter()
        .map(|recovery| match recovery {
            Recovery::Requeued(id) => (id.to_string(), "given back"),
            Recovery::Cancelled(id) => (id.to_string(), "cancelled: somebody had asked to stop it"),
            Recovery::Dead(id) => (id.to_string(), "dead: its lease was lost too often"),
        })
        .collect();
    if args.json {
        show::json(&rows)?;
    } else if rows.is_empty() {
        say!(
            "nothing to recover; {} jobs are held by living workers or wait for their lease to end",
            held.len()
        );
    } else {
        rows.iter().for_each(|(id, what)| say!("{id}  {what}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn print_dry(ids: &[String], held: usize) -> anyhow::Result<ExitCode> {
    say!("{} of {held} held jobs have an ended lease", ids.len());
    ids.iter().for_each(|id| say!("{id}"));
    Ok(ExitCode::SUCCESS)
}

/// Recovers, and tries again for a while when a row is locked: a worker that froze in the middle
/// of a transaction holds it until the server ends that transaction.
async fn patiently(queue: &Queue) -> Result<Vec<Recovery>, StoreError> {
    let begun = Instant::now();
    loop {
        match queue.recover().await {
            Err(StoreError::Unavailable(_)) if begun.elapsed() < PATIENCE => tokio::time::sleep(PAUSE).await,
            other => return other,
        }
    }
}
