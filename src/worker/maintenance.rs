//! What keeps the service tidy: expired leases go back to the queue, questions that nobody
//! answers come to an end, orphaned folders go away, gauges are set; beside that, what is old is moved
//! and removed. Runs in one process or in several at once; every step is
//! safe to repeat. Never touches a job that is alive.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use chrono::TimeDelta;
use tokio_util::sync::CancellationToken;

use crate::ids::JobId;
use crate::job::JobState;
use crate::queue::{Queue, recover_every, recovered_ids};
use crate::retention::{Passed, Retention, Turn};
use crate::store::{JobFilter, Store, StoreError};
use crate::workspace::{jobs_with_folders, remove_all};

use super::watch_clock::WatchClock;

/// Time between two clean-ups; recovery is more often.
const TIDY_EVERY: Duration = Duration::from_secs(60);
/// Time between two looks for what is old, by the clock of the service.
const RETAIN_EVERY: TimeDelta = TimeDelta::hours(1);

/// Recovers and tidies until `stop`. What is old may take long, and recovery waits for nothing.
pub async fn maintain(queue: &Queue, retention: &Retention, stop: &CancellationToken) {
    tokio::join!(
        recover_and_tidy(queue, &retention.store, &retention.state_dir, stop),
        retain(retention, recover_every(queue.config()), stop)
    );
}

/// Moves and removes what is old, once an hour.
async fn retain(retention: &Retention, pause: Duration, stop: &CancellationToken) {
    let mut next = retention.clock.now();
    while !stop.is_cancelled() {
        let now = retention.clock.now();
        if now >= next {
            next = now + RETAIN_EVERY;
            match retention.pass(stop).await {
                Ok(Turn::Done(passed)) if passed == Passed::default() => {}
                Ok(Turn::Done(passed)) => tracing::info!(?passed, "what was old was moved and removed"),
                Ok(Turn::Another) => tracing::debug!("another process looks for what is old"),
                Err(error) => tracing::warn!(%error, "what is old was not all moved and removed"),
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => {}
        }
    }
}

async fn recover_and_tidy(queue: &Queue, store: &Store, state_dir: &Path, stop: &CancellationToken) {
    let pause = recover_every(queue.config());
    let mut tidied: Option<Instant> = None;
    let mut clock_of_leases = WatchClock::new(queue.config().lease_seconds);
    while !stop.is_cancelled() {
        match clock_of_leases.recover(queue).await {
            Ok(recovered) if recovered.is_empty() => {}
            Ok(recovered) => {
                tracing::warn!(jobs = ?recovered_ids(&recovered), "leases had ended; the jobs were recovered");
                metrics::counter!("forgehand_leases_recovered_total").increment(recovered.len() as u64);
            }
            Err(error) => tracing::warn!(%error, "expired leases could not be looked for"),
        }
        match queue.expire_questions().await {
            Ok(expired) if expired.is_empty() => {}
            Ok(expired) => tracing::info!(jobs = ?expired, "nobody answered in time; the jobs are ended"),
            Err(error) => tracing::warn!(%error, "waiting jobs could not be looked for"),
        }
        if tidied.is_none_or(|at| at.elapsed() >= TIDY_EVERY) {
            tidied = Some(Instant::now());
            if let Err(error) = tidy(store, state_dir).await {
                tracing::warn!(%error, "the clean-up was not complete");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => {}
        }
    }
}

async fn tidy(store: &Store, state_dir: &Path) -> Result<(), StoreError> {
    let folders = listed(state_dir).await;
    let mut tx = store.begin().await?;
    for (state, count) in tx.job_counts().await? {
        metrics::gauge!("forgehand_jobs", "state" => state.as_str()).set(count as f64);
    }
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
    for job in folders.into_iter().filter(|job| !keep.contains(job)) {
        let state_dir = state_dir.to_owned();
        let name = job.to_string();
        match tokio::task::spawn_blocking(move || remove_all(&state_dir, &job)).await {
            Ok(Ok(())) => tracing::info!(job.id = name, "the folders of a job that is over were removed"),
            other => tracing::warn!(job.id = name, ?other, "the folders of a job that is over stay"),
        }
    }
    Ok(())
}

/// Listed before the living jobs are: folders of jobs that come meanwhile are not looked at.
async fn listed(state_dir: &Path) -> BTreeSet<JobId> {
    let state_dir = state_dir.to_owned();
    match tokio::task::spawn_blocking(move || jobs_with_folders(&state_dir)).await {
        Ok(Ok(folders)) => folders,
        other => {
            tracing::warn!(?other, "the folders of jobs could not be listed");
            BTreeSet::new()
        }
    }
}
