//! T12: leases whose worker is gone, and jobs that a person starts again. Called by maintenance,
//! by a worker that starts, and by commands. Never runs finished work again: a publishing job
//! keeps its effects and goes on with them.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::audit::Whose;
use super::claims::{LONGEST_LEASE, one_row};
use super::row::{micros, parse, row};
use super::transitions::died;
use super::{Recovery, StoreError, Tx};
use crate::audit::{Act, Action};
use crate::event::RunEvent;
use crate::ids::JobId;
use crate::job::JobState;

/// Most leases of one owner given back in one transaction; a worker holds a handful.
const MAX_OWNED: i64 = 1_000;

/// A clock that is put right in small steps makes no lease too long.
const LEASE_SLACK: TimeDelta = TimeDelta::seconds(5);

/// Leases that ended.
macro_rules! expired_leases {
    ($lock:literal) => {
        concat!(
            "SELECT id, fence, lease_owner
             FROM jobs
             WHERE state IN ('leased', 'publishing')
               AND lease_until <= $1
             ORDER BY id
             LIMIT $2",
            $lock
        )
    };
}

row! {
    /// A job whose lease was taken back.
    Lost {
        state: String,
        attempt: i64,
        max_attempts: i64,
        lost_leases: i64,
        fence: i64,
        cancel_requested_at: Option<DateTime<Utc>>,
        reason: Option<String>,
    }
}

impl Tx {
    /// T12 for leases that ended. `max_lost` lost leases without progress make a job dead, and so
    /// does the loss of a run that was the last attempt. A leased job that somebody asked to stop
    /// is cancelled.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn recover_expired(&mut self, max_lost: u32, limit: u32) -> Result<Vec<Recovery>, StoreError> {
        let now = self.db_now().await?;
        // A worker that is cut off in the middle of a statement keeps its row locked until the server gives
        // it up; all others are taken back meanwhile.
        let expired = match self {
            Tx::Sqlite(_) => expired_leases!(""),
            Tx::Postgres(_) => expired_leases!(" FOR UPDATE SKIP LOCKED"),
        };
        let expired: Vec<(String, i64, Option<String>)> = on_db!(
            self,
            sqlx::query_as(expired).bind(now).bind(i64::from(limit)),
            fetch_all
        )?;
        self.recover(expired, now, now, max_lost).await
    }

    /// Leases that last longer than `lease` and a little were written before the clock went back: they end as
    /// if they began now. Gives the time, and how many there were.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn clamp_leases(&mut self, lease: Duration) -> Result<(DateTime<Utc>, u64), StoreError> {
        let now = self.db_now().await?;
        let lease = TimeDelta::from_std(lease.min(LONGEST_LEASE)).unwrap_or_default();
        let clamped = on_db!(
            self,
            sqlx::query(
                "UPDATE jobs
                 SET lease_until = $1
                 WHERE state IN ('leased', 'publishing')
                   AND lease_until > $2"
            )
            .bind(micros(now + lease))
            .bind(micros(now + lease + LEASE_SLACK)),
            execute
        )?;
        Ok((now, clamped))
    }

    /// T12 for all leases of an owner that is known to be gone, whenever they end.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn recover_owner(&mut self, owner: &str, max_lost: u32) -> Result<Vec<Recovery>, StoreError> {
        let now = self.db_now().await?;
        let owned: Vec<(String, i64, Option<String>)> = on_db!(
            self,
            sqlx::query_as(
                "SELECT id, fence, lease_owner
                 FROM jobs
                 WHERE state IN ('leased', 'publishing')
                   AND lease_owner = $1
                 ORDER BY id
                 LIMIT $2"
            )
            .bind(owner)
            .bind(MAX_OWNED),
            fetch_all
        )?;
        self.recover(owned, now, now + 2 * LONGEST_LEASE, max_lost).await
    }

    /// A final job is queued again by a person, in a new round with a fresh count of attempts and
    /// without checkpoints. Effects that never left are removed, so that the new round can insert
    /// them again; those on GitHub stay, and so do their keys and positions (see [`Job::round`]).
    /// A call with an unknown outcome is not tried again. False: not final, or another job has
    /// its dedupe key.
    ///
    /// # Errors
    /// Those of the database.
    ///
    /// [`Job::round`]: crate::job::Job::round
    pub async fn requeue_job(&mut self, id: &JobId, now: DateTime<Utc>) -> Result<bool, StoreError> {
        self.begin_savepoint().await?;
        let fence: Result<Option<i64>, sqlx::Error> = on_db!(
            self,
            sqlx::query_scalar(
                "UPDATE jobs
                 SET state = 'queued',
                     run_at = $2,
                     attempt = 0,
                     lost_leases = 0,
                     round = round + 1,
                     outcome = NULL,
                     reason = NULL,
                     cancel_requested_at = NULL,
                     finished_at = NULL
                 WHERE id = $1
                   AND state IN ('done', 'dead', 'cancelled')
                 RETURNING fence"
            )
            .bind(id.as_str())
            .bind(micros(now)),
            fetch_optional
        );
        let Some(fence) = self.end_savepoint(fence).await? else {
            return Ok(false);
        };
        self.retire_effects(id).await?;
        self.delete_checkpoints(id).await?;
        self.delete_conversation(id).await?;
        self.log_event(id, fence, &RunEvent::Queued, now).await?;
        self.audit_job(Act::new(Action::Retried), id, Whose::Act).await?;
        self.ring_on_commit();
        Ok(true)
    }

    /// Takes back each lease, unless it was renewed, given back or claimed since it was listed.
    async fn recover(
        &mut self,
        leases: Vec<(String, i64, Option<String>)>,
        now: DateTime<Utc>,
        ended_by: DateTime<Utc>,
        max_lost: u32,
    ) -> Result<Vec<Recovery>, StoreError> {
        let mut recovered = Vec::new();
        for (id, fence, owner) in leases {
            let id: JobId = parse("jobs.id", &id)?;
            if let Some(lost) = self.take_back(&id, fence, ended_by).await? {
                let worker = owner.unwrap_or_default();
                recovered.push(self.settle_lost(id, &worker, &lost, max_lost, now).await?);
            }
        }
        Ok(recovered)
    }

    async fn take_back(&mut self, id: &JobId, fence: i64, ended_by: DateTime<Utc>) -> Result<Option<Lost>, StoreError> {
        let lost = on_db!(
            self,
            sqlx::query_as(
                "UPDATE jobs
                 SET lease_token = NULL,
                     lease_owner = NULL,
                     lease_until = NULL,
                     lost_leases = lost_leases + 1
                 WHERE id = $1
                   AND fence = $2
                   AND state IN ('leased', 'publishing')
                   AND lease_until <= $3
                 RETURNING state, attempt, max_attempts, lost_leases, fence, cancel_requested_at, reason"
            )
            .bind(id.as_str())
            .bind(fence)
            .bind(ended_by),
            fetch_optional
        )?;
        Ok(lost)
    }

    /// Decides nothing: the counts of the row say whether it goes on.
    async fn settle_lost(
        &mut self,
        id: JobId,
        worker: &str,
        lost: &Lost,
        max_lost: u32,
        now: DateTime<Utc>,
    ) -> Result<Recovery, StoreError> {
        let event = RunEvent::Recovered {
            worker: worker.to_owned(),
        };
        self.log_event(&id, lost.fence, &event, now).await?;
        let publishing = parse::<JobState>("jobs.state", &lost.state)? == JobState::Publishing;
        if lost.cancel_requested_at.is_some() && !publishing {
            let why = lost.reason.as_deref().unwrap_or("somebody asked to stop it");
            self.end_cancelled(&id, lost.fence, why, now).await?;
            return Ok(Recovery::Cancelled(id));
        }
        if lost.lost_leases >= i64::from(max_lost) {
            let why = format!(
                "its worker was lost {} times in a row without any progress",
                lost.lost_leases
            );
            self.end_job(&id, lost.fence, died(&why, now)).await?;
            return Ok(Recovery::Dead(id));
        }
        if lost.attempt >= lost.max_attempts && !publishing {
            let why = format!(
                "its worker was lost in attempt {} of {}",
                lost.attempt, lost.max_attempts
            );
            self.end_job(&id, lost.fence, died(&why, now)).await?;
            return Ok(Recovery::Dead(id));
        }
        self.requeue_lost(&id, lost, now).await?;
        Ok(Recovery::Requeued(id))
    }

    /// A lost publisher gives its attempt back: effects are finite, and each one that lands is
    /// progress, so that lost leases alone bound how often this happens.
    async fn requeue_lost(&mut self, id: &JobId, lost: &Lost, now: DateTime<Utc>) -> Result<(), StoreError> {
        let requeued = on_db!(
            self,
            sqlx::query(
                "UPDATE jobs
                 SET attempt = CASE state WHEN 'publishing' THEN attempt - 1 ELSE attempt END,
                     state = CASE state WHEN 'publishing' THEN state ELSE 'queued' END,
                     run_at = $3
                 WHERE id = $1
                   AND fence = $2
                   AND state IN ('leased', 'publishing')"
            )
            .bind(id.as_str())
            .bind(lost.fence)
            .bind(micros(now)),
            execute
        )?;
        one_row(requeued, id)?;
        self.unsettle_effects(id).await?;
        self.ring_on_commit();
        Ok(())
    }
}
