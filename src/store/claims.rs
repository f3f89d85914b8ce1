//! Leases: claiming a job, keeping it, and proving that it is still held. Called by `worker`
//! through `queue`, and by every write on behalf of a job.
//! Never trusts a worker's clock: the database's clock judges, in the same transaction.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::jobs::{JobRow, job_columns};
use super::row::{micros, parse, row};
use super::{Heartbeat, StoreError, Tx};
use crate::event::RunEvent;
use crate::ids::JobId;
use crate::job::{Job, JobState, Lease, LeasedJob};
use crate::secret::random_hex;

/// Two workers of a PostgreSQL may pick jobs of one lane at the same moment; the slower one looks
/// again. Each time somebody else got a job, so this many misses in a row mean a crowd.
const MAX_CLAIM_TRIES: usize = 16;

/// A job whose work is stored and whose effects wait for a worker: nobody else may run its lane.
macro_rules! next_publishing {
    ($lock:literal) => {
        concat!(
            "SELECT id
             FROM jobs
             WHERE state = 'publishing'
               AND lease_token IS NULL
               AND run_at <= $1
             ORDER BY priority DESC, run_at, id
             LIMIT 1",
            $lock
        )
    };
}

/// A job that is ready and whose lane is free.
macro_rules! next_queued {
    ($lock:literal) => {
        concat!(
            "SELECT id
             FROM jobs
             WHERE state = 'queued'
               AND run_at <= $1
               AND NOT EXISTS (
                   SELECT 1
                   FROM jobs AS busy
                   WHERE busy.repo_id = jobs.repo_id
                     AND busy.lane = jobs.lane
                     AND busy.state IN ('leased', 'waiting', 'publishing')
               )
             ORDER BY priority DESC, run_at, id
             LIMIT 1",
            $lock
        )
    };
}

row! {
    /// What a transition needs to know of the job that it holds.
    Held {
        state: String,
        attempt: i64,
        max_attempts: i64,
        cancel_requested_at: Option<DateTime<Utc>>,
        reason: Option<String>,
    }
}

impl Held {
    pub(super) fn state(&self) -> Result<JobState, StoreError> {
        parse("jobs.state", &self.state)
    }
}

impl Tx {
    /// T2. Takes the next ready job (publishing without a lease first, then queued) whose lane is
    /// free: by priority, then by `run_at`, then by age.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn claim_job(&mut self, owner: &str, lease: Duration) -> Result<Option<LeasedJob>, StoreError> {
        let now = self.db_now().await?;
        for _ in 0..MAX_CLAIM_TRIES {
            let Some(id) = self.next_ready(now).await? else {
                return Ok(None);
            };
            let token = random_hex::<16>();
            let Some(row) = self.take(&id, owner, &token, later(now, lease)).await? else {
                continue;
            };
            let job = Job::try_from(row)?;
            let claimed = RunEvent::Claimed {
                worker: owner.to_owned(),
                attempt: job.attempt,
            };
            // The lane may have become free only after this transaction began to look.
            let at = self.db_now().await?;
            self.log_event(&job.id, job.fence, &claimed, at).await?;
            return Ok(Some(LeasedJob {
                lease: Lease {
                    job: job.id.clone(),
                    fence: job.fence,
                    token,
                    owner: owner.to_owned(),
                },
                resumes_publishing: job.state == JobState::Publishing,
                job,
            }));
        }
        Ok(None)
    }

    /// The only statements whose text differs: PostgreSQL passes over rows that another worker is
    /// claiming, SQLite has one writer at a time anyway.
    async fn next_ready(&mut self, now: DateTime<Utc>) -> Result<Option<String>, StoreError> {
        let (publishing, queued) = match self {
            Tx::Sqlite(_) => (next_publishing!(""), next_queued!("")),
            Tx::Postgres(_) => (
                next_publishing!(" FOR UPDATE SKIP LOCKED"),
                next_queued!(" FOR UPDATE SKIP LOCKED"),
            ),
        };
        let resumed: Option<String> = on_db!(self, sqlx::query_scalar(publishing).bind(now), fetch_optional)?;
        if resumed.is_some() {
            return Ok(resumed);
        }
        Ok(on_db!(self, sqlx::query_scalar(queued).bind(now), fetch_optional)?)
    }

    /// Writes the lease. `None` when another worker took the lane since we looked; the savepoint
    /// keeps the transaction usable after that.
    async fn take(
        &mut self,
        id: &str,
        owner: &str,
        token: &str,
        lease_until: DateTime<Utc>,
    ) -> Result<Option<JobRow>, StoreError> {
        on_db!(self, sqlx::query("SAVEPOINT take"), execute)?;
        let taken: Result<Option<JobRow>, sqlx::Error> = on_db!(
            self,
            sqlx::query_as(concat!(
                "UPDATE jobs
                 SET state = CASE state WHEN 'queued' THEN 'leased' ELSE state END,
                     fence = fence + 1,
                     attempt = attempt + 1,
                     lease_token = $2,
                     lease_owner = $3,
                     lease_until = $4
                 WHERE id = $1
                   AND state IN ('queued', 'publishing')
                   AND lease_token IS NULL
                 RETURNING ",
                job_columns!()
            ))
            .bind(id)
            .bind(token)
            .bind(owner)
            .bind(lease_until),
            fetch_optional
        );
        self.end_savepoint(taken).await
    }

    /// Ends the savepoint `take`: a broken unique index becomes `None` and is undone.
    pub(super) async fn end_savepoint<T>(
        &mut self,
        result: Result<Option<T>, sqlx::Error>,
    ) -> Result<Option<T>, StoreError> {
        let result = match result {
            Err(error)
                if error
                    .as_database_error()
                    .is_some_and(|error| error.is_unique_violation()) =>
            {
                on_db!(self, sqlx::query("ROLLBACK TO SAVEPOINT take"), execute)?;
                None
            }
            other => other?,
        };
        on_db!(self, sqlx::query("RELEASE SAVEPOINT take"), execute)?;
        Ok(result)
    }

    /// T3. `LeaseLost` when the lease ended or belongs to another claim.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] and those of the database.
    pub async fn heartbeat(&mut self, lease: &Lease, extend: Duration) -> Result<Heartbeat, StoreError> {
        let now = self.db_now().await?;
        let lease_until = later(now, extend);
        let cancel_requested_at: Option<Option<DateTime<Utc>>> = on_db!(
            self,
            sqlx::query_scalar(
                "UPDATE jobs
                 SET lease_until = $5
                 WHERE id = $1
                   AND fence = $2
                   AND lease_token = $3
                   AND lease_until > $4
                   AND state IN ('leased', 'publishing')
                 RETURNING cancel_requested_at"
            )
            .bind(lease.job.as_str())
            .bind(lease.fence)
            .bind(&lease.token)
            .bind(now)
            .bind(lease_until),
            fetch_optional
        )?;
        match cancel_requested_at {
            Some(cancel_requested_at) => Ok(Heartbeat {
                lease_until,
                cancel_requested: cancel_requested_at.is_some(),
            }),
            None => Err(StoreError::LeaseLost(lease.job.clone())),
        }
    }

    /// The lease is in force right now, or `LeaseLost`. The guard of every other fenced write.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] and those of the database.
    pub async fn check_lease(&mut self, lease: &Lease) -> Result<(), StoreError> {
        self.hold(lease).await.map(drop)
    }

    /// As [`Tx::check_lease`], and nobody can change the job before this transaction ends: the
    /// write locks the row with the same words on both databases.
    pub(super) async fn hold(&mut self, lease: &Lease) -> Result<Held, StoreError> {
        let now = self.db_now().await?;
        let held: Option<Held> = on_db!(
            self,
            sqlx::query_as(
                "UPDATE jobs
                 SET lease_owner = lease_owner
                 WHERE id = $1
                   AND fence = $2
                   AND lease_token = $3
                   AND lease_until > $4
                   AND state IN ('leased', 'publishing')
                 RETURNING state, attempt, max_attempts, cancel_requested_at, reason"
            )
            .bind(lease.job.as_str())
            .bind(lease.fence)
            .bind(&lease.token)
            .bind(now),
            fetch_optional
        )?;
        held.ok_or_else(|| StoreError::LeaseLost(lease.job.clone()))
    }

    /// Something durable was reached under the lease: earlier lost leases do not count any more.
    pub(super) async fn note_progress(&mut self, lease: &Lease) -> Result<(), StoreError> {
        let noted = on_db!(
            self,
            sqlx::query(
                "UPDATE jobs
                 SET lost_leases = 0
                 WHERE id = $1
                   AND fence = $2"
            )
            .bind(lease.job.as_str())
            .bind(lease.fence),
            execute
        )?;
        one_row(noted, &lease.job)
    }
}

/// A write under a lease touches its one job, or the lease is not what the caller thinks.
pub(super) fn one_row(rows: u64, job: &JobId) -> Result<(), StoreError> {
    match rows {
        1 => Ok(()),
        _ => Err(StoreError::LeaseLost(job.clone())),
    }
}

/// No lease is longer; a mistaken one must not put a job out of reach for good.
pub(super) const LONGEST_LEASE: Duration = Duration::from_secs(24 * 60 * 60);

fn later(now: DateTime<Utc>, by: Duration) -> DateTime<Utc> {
    micros(now + TimeDelta::from_std(by.min(LONGEST_LEASE)).unwrap_or_default())
}
