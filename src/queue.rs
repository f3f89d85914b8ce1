//! The queue as workers use it: claim, heartbeat, settle, recover, each one transaction. The
//! guards are in `store`; here are the constants and the pauses. Called by `worker` and `app`.
//! Never looks into what a job does.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::clock::boot_time;
use crate::config::QueueConfig;
use crate::ids::JobId;
use crate::job::{JobState, Lease, LeasedJob, Outcome};
use crate::store::{Claim, ClaimLimits, Heartbeat, Recovery, Store, StoreError};

mod leader;

/// A job whose lease was lost this often without progress is given up: it takes its workers down.
const POISON_LEASES: u32 = 3;

/// Longest pause between two attempts.
const MAX_RETRY: Duration = Duration::from_secs(15 * 60);

/// Most expired leases handled in one scan.
const RECOVER_BATCH: u32 = 100;

/// Time between two looks for leases that ended.
pub fn recover_every(config: &QueueConfig) -> Duration {
    config.lease_seconds / 6
}

/// The queue of one process.
#[derive(Clone)]
pub struct Queue {
    store: Store,
    config: QueueConfig,
    owner: String,
}

impl Queue {
    /// `owner` names this process in leases; the same name must never be used by two live ones.
    pub fn new(store: Store, config: QueueConfig, owner: String) -> Self {
        Self { store, config, owner }
    }

    /// The constants in force.
    pub fn config(&self) -> &QueueConfig {
        &self.config
    }

    /// Takes the jobs whose turn it is, at most so many. An answer that comes too late to be of use is not
    /// waited for: those leases end by themselves.
    ///
    /// # Errors
    /// Of the database.
    pub async fn claim(&self, most: u32) -> Result<Vec<LeasedJob>, StoreError> {
        let claim = tokio::time::timeout(self.silence_limit(), self.claim_now(most));
        claim
            .await
            .unwrap_or_else(|_| Err(StoreError::Unavailable("no answer in time".to_owned())))
    }

    async fn claim_now(&self, most: u32) -> Result<Vec<LeasedJob>, StoreError> {
        let claim = Claim {
            owner: &self.owner,
            lease: self.config.lease_seconds,
            most,
            limits: self.limits(),
        };
        fp!("claim.begun");
        let claimed = self.store.claim_jobs(&claim).await?;
        fp!(if !claimed.is_empty(), "claim.committed");
        Ok(claimed)
    }

    fn limits(&self) -> ClaimLimits {
        ClaimLimits {
            total: self.config.max_jobs,
            per_installation: self.config.max_jobs_per_installation,
            per_repository: self.config.max_jobs_per_repository,
        }
    }

    /// Waits for a hint that there may be work, at most the poll interval.
    pub async fn wait(&self) {
        self.store.doorbell(self.config.poll_seconds).await;
    }

    /// Extends a lease and learns whether the job was cancelled.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] when it is too late.
    pub async fn heartbeat(&self, lease: &Lease) -> Result<Heartbeat, StoreError> {
        let mut tx = self.store.begin().await?;
        let heartbeat = tx.heartbeat(lease, self.config.lease_seconds).await?;
        fp!("heartbeat.written");
        tx.commit().await?;
        fp!("heartbeat.committed");
        Ok(heartbeat)
    }

    /// Gives the job back without counting the attempt.
    ///
    /// # Errors
    /// As [`Queue::heartbeat`].
    pub async fn snooze(&self, lease: &Lease, until: DateTime<Utc>, reason: &str) -> Result<(), StoreError> {
        let mut tx = self.store.begin().await?;
        tx.snooze_job(lease, until, reason).await?;
        fp!("snooze.written");
        tx.commit().await?;
        fp!("snooze.committed");
        Ok(())
    }

    /// Gives the job back for another attempt after a pause that doubles with each; tells whether
    /// there is one.
    ///
    /// # Errors
    /// As [`Queue::heartbeat`].
    pub async fn retry(&self, lease: &Lease, attempt: u32, reason: &str) -> Result<JobState, StoreError> {
        let mut tx = self.store.begin().await?;
        let now = tx.db_now().await?;
        let pause = jittered(pause(self.config.retry_seconds, attempt));
        let run_at = now + TimeDelta::from_std(pause).unwrap_or(TimeDelta::MAX);
        let state = tx.retry_job(lease, run_at, reason).await?;
        fp!("retry.written");
        tx.commit().await?;
        fp!("retry.committed");
        Ok(state)
    }

    /// Gives a publishing job back, to do its work over on a branch that moved.
    ///
    /// # Errors
    /// As [`Queue::heartbeat`].
    pub async fn reopen(&self, lease: &Lease, why: &str) -> Result<(), StoreError> {
        let mut tx = self.store.begin().await?;
        tx.reopen_job(lease, why).await?;
        tx.commit().await
    }

    /// Ends the job.
    ///
    /// # Errors
    /// As [`Queue::heartbeat`].
    pub async fn finish(&self, lease: &Lease, outcome: &Outcome) -> Result<(), StoreError> {
        fp!("finish.begun");
        self.store.finish_job(lease, outcome, self.limits().any()).await?;
        fp!("finish.committed");
        Ok(())
    }

    /// Cancels the job because the right to it is gone: effects that were not sent are skipped.
    ///
    /// # Errors
    /// As [`Queue::heartbeat`].
    pub async fn withdraw(&self, lease: &Lease, reason: &str) -> Result<(), StoreError> {
        let outcome = Outcome::Stopped {
            reason: reason.to_owned(),
            branch: None,
        };
        match self.finish(lease, &outcome).await {
            // A call of unknown outcome cannot be skipped; the job ends all the same.
            Err(StoreError::Corrupt(_)) => self.bury(lease, reason).await,
            other => other,
        }
    }

    /// Gives the job up.
    ///
    /// # Errors
    /// As [`Queue::heartbeat`].
    pub async fn bury(&self, lease: &Lease, reason: &str) -> Result<(), StoreError> {
        let mut tx = self.store.begin().await?;
        tx.bury_job(lease, reason).await?;
        tx.commit().await
    }

    /// Gives back the jobs whose lease ended.
    ///
    /// # Errors
    /// Of the database.
    pub async fn recover(&self) -> Result<Vec<Recovery>, StoreError> {
        let mut tx = self.store.begin().await?;
        let recovered = tx.recover_expired(POISON_LEASES, RECOVER_BATCH).await?;
        fp!(if !recovered.is_empty(), "recover.written");
        tx.commit().await?;
        fp!(if !recovered.is_empty(), "recover.committed");
        self.ring_for(&recovered);
        Ok(recovered)
    }

    /// Shortens leases that last longer than any lease of this configuration can: the database's clock went
    /// back. Gives what that clock says, and how many there were.
    ///
    /// # Errors
    /// Of the database.
    pub async fn clamp_leases(&self) -> Result<(DateTime<Utc>, u64), StoreError> {
        let mut tx = self.store.begin().await?;
        let clamped = tx.clamp_leases(self.config.lease_seconds).await?;
        tx.commit().await?;
        Ok(clamped)
    }

    /// Gives back what an earlier process of the same owner held. Only right when that process is
    /// known to be gone.
    ///
    /// # Errors
    /// Of the database.
    pub async fn recover_own(&self) -> Result<Vec<Recovery>, StoreError> {
        let mut tx = self.store.begin().await?;
        let recovered = tx.recover_owner(&self.owner, POISON_LEASES).await?;
        fp!(if !recovered.is_empty(), "recover_own.written");
        tx.commit().await?;
        fp!(if !recovered.is_empty(), "recover_own.committed");
        self.ring_for(&recovered);
        Ok(recovered)
    }

    /// Queues the jobs that waited too long for an answer; a worker ends them.
    ///
    /// # Errors
    /// Of the database.
    pub async fn expire_questions(&self) -> Result<Vec<JobId>, StoreError> {
        let mut tx = self.store.begin().await?;
        let expired = tx.expire_questions(RECOVER_BATCH).await?;
        tx.commit().await?;
        Ok(expired)
    }

    fn ring_for(&self, recovered: &[Recovery]) {
        if !recovered.is_empty() {
            self.store.ring();
        }
    }

    /// The time by which a worker must have heard from the database, counted from the start of
    /// its last successful heartbeat.
    pub fn silence_limit(&self) -> Duration {
        self.config.lease_seconds.saturating_sub(self.config.margin_seconds)
    }
}

/// Whether this worker may still write to the outside on behalf of its job. Its own boot-time
/// clock judges, more cautiously than the database judges the lease.
#[derive(Clone)]
pub struct Pulse {
    last: Arc<Mutex<Duration>>,
    limit: Duration,
}

impl Pulse {
    /// A pulse that beats now.
    pub fn new(limit: Duration) -> Self {
        Self::since(boot_time(), limit)
    }

    /// A pulse that beat at `begun` (boot time), when its lease was asked for.
    pub fn since(begun: Duration, limit: Duration) -> Self {
        Self {
            last: Arc::new(Mutex::new(begun)),
            limit,
        }
    }

    /// A heartbeat that was begun at `begun` (boot time) succeeded.
    pub fn beat(&self, begun: Duration) {
        *self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = begun;
    }

    /// Whether the last heartbeat is recent enough.
    pub fn is_alive(&self) -> bool {
        let last = *self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        boot_time().saturating_sub(last) < self.limit
    }
}

/// Ids of recovered jobs, for logs.
pub fn recovered_ids(recovered: &[Recovery]) -> Vec<&JobId> {
    recovered
        .iter()
        .map(|recovery| match recovery {
            Recovery::Requeued(id) | Recovery::Dead(id) | Recovery::Cancelled(id) => id,
        })
        .collect()
}

/// `first · 2^(attempt-1)`, at most [`MAX_RETRY`].
fn pause(first: Duration, attempt: u32) -> Duration {
    let doublings = attempt.saturating_sub(1).min(16);
    first.saturating_mul(1 << doublings).min(MAX_RETRY)
}

/// Between half and one and a half of a pause, so that failures do not come back in step.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_quarter_of_an_hour() {
        let first = Duration::from_secs(10);
        for (attempt, seconds) in [(0, 10), (1, 10), (2, 20), (4, 80), (7, 640), (8, 900), (400, 900)] {
            assert_eq!(pause(first, attempt).as_secs(), seconds, "attempt {attempt}");
        }
    }

    #[test]
    fn jitter_stays_within_half() {
        let pauses: Vec<f64> = (0..1000)
            .map(|_| jittered(Duration::from_secs(10)).as_secs_f64())
            .collect();
        assert!(pauses.iter().all(|pause| (5.0..15.0).contains(pause)));
    }
}
