//! Requests that wait for their turn, beside the workers: 👀 at once, and after a moment the status
//! comment with the place in the queue, edited as they move up. Each process keeps up what it wrote
//! itself. Never writes so much that the work that goes on would have to wait for it.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use tokio_util::sync::CancellationToken;

use super::Worker;
use crate::ids::{CommentId, JobId};
use crate::job::{Job, JobError, JobState};
use crate::publish;
use crate::queue::Pulse;
use crate::store::{JobFilter, StoreError};

/// Least pause between two looks for requests that wait.
const MIN_PAUSE: Duration = Duration::from_millis(500);
/// A request that no worker took within this time is acknowledged by itself.
const UNTOUCHED_FOR: TimeDelta = TimeDelta::milliseconds(400);
/// One that waits so long gets its status comment: most are taken sooner, and then it says more.
const IN_LINE_FOR: TimeDelta = TimeDelta::seconds(2);
/// Most waiting requests that are looked at.
const MAX_LOOKED_AT: u32 = 50;
/// Most comments written at one look: the writes of workers go in between.
const MAX_ANNOUNCED: usize = 5;
/// Time between two edits, in writes: with GitHub's limit of one write a second, six a minute are
/// left to show places, whatever the number of requests.
const EDIT_EVERY_WRITES: u32 = 10;
/// Least time between two writes that this is counted from.
const MIN_WRITE_INTERVAL: Duration = Duration::from_millis(100);

/// What this process did for the requests that wait.
#[derive(Default)]
struct Line {
    greeted: HashSet<JobId>,
    /// Those that it tried to write a comment for.
    tried: HashSet<JobId>,
    shown: HashMap<JobId, Shown>,
    edited: Option<Instant>,
}

/// A comment of ours, and the place that it shows.
struct Shown {
    comment: CommentId,
    before: u64,
    at: Instant,
}

impl Worker {
    /// Tells people whose request has to wait for other jobs that it was seen, and where it stands.
    pub async fn acknowledge_waiting(&self, stop: &CancellationToken) {
        let mut line = Line::default();
        let pause = self.queue.config().poll_seconds.max(MIN_PAUSE);
        while !stop.is_cancelled() {
            // What is seen now says nothing to a process that stood still meanwhile.
            let pulse = Pulse::new(self.queue.silence_limit());
            match self.waiting_jobs().await {
                Ok(waiting) => line.look(&self.while_alive(&pulse), &pulse, &waiting, stop).await,
                Err(error) => tracing::warn!(%error, "waiting jobs could not be looked for"),
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Jobs that were queued a while ago and that no worker has touched yet, oldest first.
    async fn waiting_jobs(&self) -> Result<Vec<Job>, StoreError> {
        let filter = JobFilter {
            states: vec![JobState::Queued],
            limit: MAX_LOOKED_AT,
            ..JobFilter::default()
        };
        let mut tx = self.publisher.store.begin().await?;
        let mut queued = tx.jobs(&filter).await?;
        let before = self.ports.clock.now() - UNTOUCHED_FOR;
        queued.retain(|job| job.attempt == 0 && job.round == 0 && job.created_at < before);
        queued.sort_by_key(|job| job.created_at);
        Ok(queued)
    }

    async fn before(&self, id: &JobId) -> Result<u64, JobError> {
        let mut tx = self.publisher.store.begin().await?;
        Ok(tx.queue_position(id).await?)
    }
}

impl Line {
    async fn look(&mut self, worker: &Worker, pulse: &Pulse, waiting: &[Job], stop: &CancellationToken) {
        let waits = |id: &JobId| waiting.iter().any(|job| job.id == *id);
        self.greeted.retain(waits);
        self.tried.retain(waits);
        self.shown.retain(|id, _| waits(id));
        for job in waiting {
            if stop.is_cancelled() || !pulse.is_alive() {
                return;
            }
            if self.greeted.insert(job.id.clone())
                && let Err(error) = publish::acknowledge_waiting(&worker.publisher, job).await
            {
                tracing::info!(job.id = %job.id, ?error, "a waiting request was not acknowledged");
            }
        }
        self.announce(worker, waiting).await;
        self.move_up(worker).await;
    }

    /// Writes the comments of those that wait longer. What does not work out is left to the jobs.
    async fn announce(&mut self, worker: &Worker, waiting: &[Job]) {
        let since: DateTime<Utc> = worker.ports.clock.now() - IN_LINE_FOR;
        let new = waiting
            .iter()
            .filter(|job| job.created_at < since && !self.tried.contains(&job.id));
        for job in new.take(MAX_ANNOUNCED).collect::<Vec<_>>() {
            self.tried.insert(job.id.clone());
            let announced = async {
                let before = worker.before(&job.id).await?;
                let comment = publish::announce_waiting(&worker.publisher, job, before).await?;
                Ok::<_, JobError>((before, comment))
            };
            match announced.await {
                Ok((before, Some(comment))) => {
                    let at = Instant::now();
                    self.shown.insert(job.id.clone(), Shown { comment, before, at });
                }
                Ok((_, None)) => {}
                Err(error) => tracing::info!(job.id = %job.id, ?error, "the place of a waiting request is not shown"),
            }
        }
    }

    /// Edits the one whose place has been wrong for longest.
    async fn move_up(&mut self, worker: &Worker) {
        let pause = worker.publisher.write_interval.max(MIN_WRITE_INTERVAL) * EDIT_EVERY_WRITES;
        if self.edited.is_some_and(|edited| edited.elapsed() < pause) {
            return;
        }
        let mut moved = Vec::new();
        for (id, shown) in &self.shown {
            match worker.before(id).await {
                Ok(before) if before != shown.before => moved.push((shown.at, id.clone(), before)),
                Ok(_) => {}
                Err(error) => tracing::info!(job.id = %id, ?error, "the place of a waiting request is not known"),
            }
        }
        let Some((_, id, before)) = moved.into_iter().min_by_key(|(at, ..)| *at) else {
            return;
        };
        self.edited = Some(Instant::now());
        let Some(shown) = self.shown.get_mut(&id) else { return };
        // An edit that fails is not repeated: the place changes again soon, or the work begins.
        (shown.at, shown.before) = (Instant::now(), before);
        if let Err(error) = publish::move_up(&worker.publisher, &id, shown.comment, before).await {
            tracing::info!(job.id = %id, ?error, "the place of a waiting request was not edited");
        }
    }
}
