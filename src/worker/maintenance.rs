//! What keeps the service tidy: expired leases go back to the queue, orphaned folders and old
//! deliveries go away, gauges are set. Runs in one process or in several at once; every step is
//! safe to repeat. Never touches a job that is alive.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use chrono::TimeDelta;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::ids::JobId;
use crate::job::JobState;
use crate::queue::{Queue, recovered_ids};
use crate::store::{JobFilter, Store, StoreError};
use crate::workspace::sweep;

/// Time between two clean-ups; recovery is more often.
const TIDY_EVERY: Duration = Duration::from_secs(60);
/// How long deliveries are kept. GitHub itself forgets them after three days.
const KEEP_DELIVERIES: TimeDelta = TimeDelta::days(14);
/// Rows removed in one statement.
const DELETE_BATCH: u32 = 500;

/// Recovers and tidies until `stop`.
pub async fn maintain(queue: &Queue, store: &Store, state_dir: &Path, clock: &Clock, stop: &CancellationToken) {
    let pause = queue.config().lease_seconds / 6;
    let mut tidied: Option<Instant> = None;
    while !stop.is_cancelled() {
        match queue.recover().await {
            Ok(recovered) if recovered.is_empty() => {}
            Ok(recovered) => {
                tracing::warn!(jobs = ?recovered_ids(&recovered), "leases had ended; the jobs were recovered");
                metrics::counter!("forgehand_leases_recovered_total").increment(recovered.len() as u64);
            }
            Err(error) => tracing::warn!(%error, "expired leases could not be looked for"),
        }
        if tidied.is_none_or(|at| at.elapsed() >= TIDY_EVERY) {
            tidied = Some(Instant::now());
            if let Err(error) = tidy(store, state_dir, clock).await {
                tracing::warn!(%error, "the clean-up was not complete");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => {}
        }
    }
}

async fn tidy(store: &Store, state_dir: &Path, clock: &Clock) -> Result<(), StoreError> {
    let mut tx = store.begin().await?;
    for (state, count) in tx.job_counts().await? {
        metrics::gauge!("forgehand_jobs", "state" => state.as_str()).set(count as f64);
    }
    while tx
        .delete_deliveries(clock.now() - KEEP_DELIVERIES, DELETE_BATCH)
        .await?
        == u64::from(DELETE_BATCH)
    {}
    let alive = JobState::ALL
        .iter()
        .copied()
        .filter(|state| !state.is_final())
        .collect();
    let jobs = tx
        .jobs(&JobFilter {
            states: alive,
            limit: u32::MAX,
            ..JobFilter::default()
        })
        .await?;
    tx.commit().await?;
    let keep: HashSet<JobId> = jobs.into_iter().map(|job| job.id).collect();
    let state_dir = state_dir.to_owned();
    let swept = tokio::task::spawn_blocking(move || sweep(&state_dir, |id| keep.contains(id))).await;
    match swept {
        Ok(Ok(swept)) if swept.removed == 0 && swept.failed.is_empty() => {}
        Ok(Ok(swept)) => tracing::info!(removed = swept.removed, failed = ?swept.failed, "orphaned run folders"),
        other => tracing::warn!(?other, "run folders could not be swept"),
    }
    Ok(())
}
