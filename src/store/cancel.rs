//! T11: stopping jobs from outside. Called for commands, closed issues and lost permissions.
//! Never takes a job from the worker that holds it: that one is asked.

use chrono::{DateTime, Utc};

use super::audit::Whose;
use super::row::{micros, parse, reason, row};
use super::{CancelResult, StoreError, Tx};
use crate::audit::{Act, Action};
use crate::event::RunEvent;
use crate::ids::{JobId, RepoId, Subject};
use crate::job::JobState;

row! {
    /// A job whose row this transaction has locked, without its lease.
    Locked {
        state: String,
        fence: i64,
        cancel_requested_at: Option<DateTime<Utc>>,
    }
}

impl Locked {
    pub(super) fn state(&self) -> Result<JobState, StoreError> {
        parse("jobs.state", &self.state)
    }

    pub(super) fn fence(&self) -> i64 {
        self.fence
    }
}

impl Tx {
    /// T11. Queued jobs end at once; for others the wish is noted and their worker stops them. A
    /// waiting job ends at once too. Those that have work are ended by a worker, which keeps it on a
    /// branch.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn cancel_job(
        &mut self,
        id: &JobId,
        reason: &str,
        now: DateTime<Utc>,
    ) -> Result<CancelResult, StoreError> {
        let Some(locked) = self.lock_job(id).await? else {
            return Ok(CancelResult::TooLate);
        };
        match locked.state()? {
            JobState::Done | JobState::Dead | JobState::Cancelled => Ok(CancelResult::TooLate),
            JobState::Waiting if self.has_work(id).await? => {
                self.request_cancel(id, &locked, reason, now).await?;
                self.wake(id, reason).await?;
                Ok(CancelResult::Requested)
            }
            JobState::Queued if locked.cancel_requested_at.is_some() => Ok(CancelResult::Requested),
            // It was to follow a branch that moved.
            JobState::Queued if self.has_finished_work(id).await? => {
                self.request_cancel(id, &locked, reason, now).await?;
                Ok(CancelResult::Requested)
            }
            JobState::Queued | JobState::Waiting => {
                self.request_cancel(id, &locked, reason, now).await?;
                self.end_cancelled(id, locked.fence, reason, now).await?;
                Ok(CancelResult::Cancelled)
            }
            JobState::Leased | JobState::Publishing => {
                self.request_cancel(id, &locked, reason, now).await?;
                Ok(CancelResult::Requested)
            }
        }
    }

    /// Cancels every non-final `fix` job of a subject; returns their ids, also of those whose
    /// worker has yet to stop.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn cancel_subject(
        &mut self,
        repo: RepoId,
        subject: &Subject,
        reason: &str,
        now: DateTime<Utc>,
    ) -> Result<Vec<JobId>, StoreError> {
        let ids: Vec<String> = on_db!(
            self,
            sqlx::query_scalar(
                "SELECT id
                 FROM jobs
                 WHERE repo_id = $1
                   AND subject = $2
                   AND kind IN ('fix', 'plan', 'ask', 'review', 'rebase', 'draft', 'eval')
                   AND state NOT IN ('done', 'dead', 'cancelled')
                 ORDER BY id"
            )
            .bind(repo.as_i64())
            .bind(subject.to_string()),
            fetch_all
        )?;
        let mut cancelled = Vec::new();
        for id in ids {
            let id: JobId = parse("jobs.id", &id)?;
            match self.cancel_job(&id, reason, now).await? {
                CancelResult::Cancelled | CancelResult::Requested => cancelled.push(id),
                CancelResult::TooLate => {}
            }
        }
        Ok(cancelled)
    }

    /// Notes the wish once; a second one changes nothing.
    async fn request_cancel(
        &mut self,
        id: &JobId,
        locked: &Locked,
        why: &str,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        if locked.cancel_requested_at.is_some() {
            return Ok(());
        }
        on_db!(
            self,
            sqlx::query(
                "UPDATE jobs
                 SET cancel_requested_at = $2,
                     reason = $3
                 WHERE id = $1
                   AND cancel_requested_at IS NULL"
            )
            .bind(id.as_str())
            .bind(micros(now))
            .bind(reason(why)),
            execute
        )?;
        let requested = RunEvent::CancelRequested { reason: reason(why) };
        self.log_event(id, locked.fence, &requested, now).await?;
        let act = Act::new(Action::StopRequested).with("why", reason(why));
        self.audit_job(act, id, Whose::Act).await
    }

    /// Locks a job's row for the rest of the transaction and tells where it stands.
    pub(super) async fn lock_job(&mut self, id: &JobId) -> Result<Option<Locked>, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query_as(
                "UPDATE jobs
                 SET lease_owner = lease_owner
                 WHERE id = $1
                 RETURNING state, fence, cancel_requested_at"
            )
            .bind(id.as_str()),
            fetch_optional
        )?)
    }
}
