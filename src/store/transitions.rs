//! What a worker does with the job that it holds: put it off, try again, publish, finish, give
//! up. Called by `worker` and `publish`. Each transition checks its lease, writes one row and
//! logs itself, in one transaction. Never starts an effect.

use chrono::{DateTime, Utc};

use super::audit::Whose;
use super::claims::{Held, one_row};
use super::row::{micros, reason, to_json};
use super::{StoreError, Tx};
use crate::audit::{Act, Action};
use crate::effect::NewEffect;
use crate::event::RunEvent;
use crate::ids::JobId;
use crate::job::{JobState, Lease, Outcome};

/// How a job ends.
pub(super) struct Ending<'a> {
    pub(super) state: JobState,
    pub(super) outcome: Option<&'a Outcome>,
    pub(super) reason: Option<&'a str>,
    pub(super) event: RunEvent,
    pub(super) at: DateTime<Utc>,
}

/// How a lease is given back while the job goes on.
struct Release<'a> {
    run_at: DateTime<Utc>,
    /// Whether the attempt was one.
    attempt_counts: bool,
    reason: &'a str,
    event: RunEvent,
}

impl Tx {
    /// T4 and T13: back to the queue without counting the attempt. A publishing job stays
    /// publishing; a job that somebody asked to stop is cancelled.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] and those of the database.
    pub async fn snooze_job(&mut self, lease: &Lease, until: DateTime<Utc>, reason: &str) -> Result<(), StoreError> {
        let held = self.hold(lease).await?;
        let snoozed = RunEvent::Snoozed {
            until,
            reason: super::row::reason(reason),
        };
        let release = Release {
            run_at: until,
            attempt_counts: false,
            reason,
            event: snoozed,
        };
        self.release(lease, &held, release).await.map(drop)
    }

    /// T9: another attempt after a pause, or dead when there are none left, or cancelled when
    /// somebody asked to stop it; the new state is returned. A publishing job stays publishing.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] and those of the database.
    pub async fn retry_job(
        &mut self,
        lease: &Lease,
        run_at: DateTime<Utc>,
        reason: &str,
    ) -> Result<JobState, StoreError> {
        let held = self.hold(lease).await?;
        if held.attempt >= held.max_attempts && !stops(&held)? {
            self.bury_job(lease, reason).await?;
            return Ok(JobState::Dead);
        }
        let failed = RunEvent::AttemptFailed {
            reason: super::row::reason(reason),
            retry_at: run_at,
        };
        let release = Release {
            run_at,
            attempt_counts: true,
            reason,
            event: failed,
        };
        self.release(lease, &held, release).await
    }

    /// T7: leased → publishing with all effects, and the outcome to come. The lease stays. This
    /// is progress, and publishing has its own count of attempts: finished work is not given up
    /// because it took several, also where the work was allowed one attempt only. Effects that exist stay.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`]; [`StoreError::Corrupt`] when the job is publishing already or
    /// an effect's key or position belongs to another effect.
    pub async fn begin_publishing(
        &mut self,
        lease: &Lease,
        outcome: &Outcome,
        effects: &[NewEffect],
    ) -> Result<(), StoreError> {
        let held = self.hold(lease).await?;
        if held.state()? != JobState::Leased {
            return Err(StoreError::Corrupt(format!(
                "job {} is publishing already and cannot begin again",
                lease.job
            )));
        }
        let begun = on_db!(
            self,
            sqlx::query(
                "UPDATE jobs
                 SET state = 'publishing',
                     outcome = $3,
                     attempt = 1,
                     max_attempts = CASE WHEN max_attempts < 5 THEN 5 ELSE max_attempts END,
                     lost_leases = 0
                 WHERE id = $1
                   AND fence = $2
                   AND state = 'leased'"
            )
            .bind(lease.job.as_str())
            .bind(lease.fence)
            .bind(to_json("jobs.outcome", outcome)?),
            execute
        )?;
        one_row(begun, &lease.job)?;
        self.pass_on_instructions(&lease.job).await?;
        self.add_effects(lease, effects).await
    }

    /// T14: publishing → queued, for finished work that has to be done over before it can be
    /// published, because the branch that it is for moved. What was not sent is removed; what is on
    /// GitHub stays. A job that somebody asked to stop stays publishing, where that is seen to.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`]; [`StoreError::Corrupt`] when the job is not publishing.
    pub async fn reopen_job(&mut self, lease: &Lease, why: &str) -> Result<(), StoreError> {
        let held = self.hold(lease).await?;
        if held.state()? != JobState::Publishing {
            return Err(StoreError::Corrupt(format!(
                "job {} is not publishing and cannot be opened again",
                lease.job
            )));
        }
        let now = self.db_now().await?;
        let noted = RunEvent::Noted { text: reason(why) };
        let release = Release {
            run_at: now,
            attempt_counts: true,
            reason: why,
            event: noted,
        };
        if held.cancel_requested_at.is_none() {
            let opened = on_db!(
                self,
                sqlx::query(
                    "UPDATE jobs
                     SET state = 'leased',
                         outcome = NULL
                     WHERE id = $1
                       AND fence = $2
                       AND state = 'publishing'"
                )
                .bind(lease.job.as_str())
                .bind(lease.fence),
                execute
            )?;
            one_row(opened, &lease.job)?;
            self.remove_unsent_effects(&lease.job).await?;
        }
        let held = self.hold(lease).await?;
        self.release(lease, &held, release).await.map(drop)
    }

    /// T8: → done (or cancelled, when `outcome` is `Stopped`; effects not sent are skipped then).
    /// All effects must be final.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`]; [`StoreError::Corrupt`] when effects are not final.
    pub async fn finish_job(&mut self, lease: &Lease, outcome: &Outcome) -> Result<(), StoreError> {
        self.hold(lease).await?;
        let at = self.db_now().await?;
        let (state, reason) = match outcome {
            Outcome::Stopped { reason, .. } => (JobState::Cancelled, Some(reason.as_str())),
            Outcome::Opened { .. }
            | Outcome::Pushed { .. }
            | Outcome::Answered
            | Outcome::Reviewed { .. }
            | Outcome::Measured { .. } => (JobState::Done, None),
            Outcome::NothingToDo { reason } | Outcome::Refused { reason } | Outcome::GaveUp { reason, .. } => {
                (JobState::Done, Some(reason.as_str()))
            }
        };
        if let Outcome::Refused { reason } = outcome {
            let act = Act::new(Action::Refused).with("why", reason.as_str());
            self.audit_job(act, &lease.job, Whose::Asker).await?;
        }
        if state == JobState::Cancelled {
            self.skip_effects(&lease.job, reason.unwrap_or_default()).await?;
        }
        let open = self.open_effects(&lease.job).await?;
        if !open.is_empty() {
            return Err(StoreError::Corrupt(format!(
                "job {} cannot finish while its effects {open:?} are not final",
                lease.job
            )));
        }
        let event = RunEvent::Finished {
            outcome: outcome.clone(),
        };
        let ending = Ending {
            state,
            outcome: Some(outcome),
            reason,
            event,
            at,
        };
        self.end_job(&lease.job, lease.fence, ending).await
    }

    /// T10: → dead with a reason; effects not sent are skipped, calls under way become unknown.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] and those of the database.
    pub async fn bury_job(&mut self, lease: &Lease, reason: &str) -> Result<(), StoreError> {
        self.hold(lease).await?;
        let at = self.db_now().await?;
        self.end_job(&lease.job, lease.fence, died(reason, at)).await
    }

    /// Gives the lease back. A call under way has no known outcome for whoever comes next.
    async fn release(&mut self, lease: &Lease, held: &Held, release: Release<'_>) -> Result<JobState, StoreError> {
        let at = self.db_now().await?;
        if stops(held)? {
            let why = held.reason.as_deref().unwrap_or("somebody asked to stop it");
            self.log_event(&lease.job, lease.fence, &release.event, at).await?;
            self.end_cancelled(&lease.job, lease.fence, why, at).await?;
            return Ok(JobState::Cancelled);
        }
        let state = match held.state()? {
            JobState::Publishing => JobState::Publishing,
            _ => JobState::Queued,
        };
        let released = on_db!(
            self,
            sqlx::query(
                "UPDATE jobs
                 SET state = $3,
                     run_at = $4,
                     attempt = attempt - $5,
                     reason = $6,
                     lease_token = NULL,
                     lease_owner = NULL,
                     lease_until = NULL
                 WHERE id = $1
                   AND fence = $2"
            )
            .bind(lease.job.as_str())
            .bind(lease.fence)
            .bind(state.as_str())
            .bind(micros(release.run_at))
            .bind(i64::from(!release.attempt_counts))
            .bind(reason(release.reason)),
            execute
        )?;
        one_row(released, &lease.job)?;
        self.unsettle_effects(&lease.job).await?;
        self.log_event(&lease.job, lease.fence, &release.event, at).await?;
        self.ring_on_commit();
        Ok(state)
    }

    /// → cancelled, with the outcome that says so.
    pub(super) async fn end_cancelled(
        &mut self,
        job: &JobId,
        fence: i64,
        why: &str,
        at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let outcome = Outcome::Stopped {
            reason: reason(why),
            branch: None,
        };
        let ending = Ending {
            state: JobState::Cancelled,
            outcome: Some(&outcome),
            reason: Some(why),
            event: RunEvent::Finished {
                outcome: outcome.clone(),
            },
            at,
        };
        self.end_job(job, fence, ending).await
    }

    /// → a final state. The caller holds the row. Its lane is free after the commit, so the
    /// doorbell rings.
    pub(super) async fn end_job(&mut self, job: &JobId, fence: i64, ending: Ending<'_>) -> Result<(), StoreError> {
        let outcome = ending
            .outcome
            .map(|outcome| to_json("jobs.outcome", outcome))
            .transpose()?;
        let ended = on_db!(
            self,
            sqlx::query(
                "UPDATE jobs
                 SET state = $3,
                     outcome = $4,
                     reason = $5,
                     finished_at = $6,
                     lease_token = NULL,
                     lease_owner = NULL,
                     lease_until = NULL
                 WHERE id = $1
                   AND fence = $2
                   AND state NOT IN ('done', 'dead', 'cancelled')
                   AND (
                       $3 <> 'done'
                       OR NOT EXISTS (
                           SELECT 1
                           FROM effects
                           WHERE effects.job_id = jobs.id
                             AND effects.state NOT IN ('done', 'skipped', 'failed')
                       )
                   )"
            )
            .bind(job.as_str())
            .bind(fence)
            .bind(ending.state.as_str())
            .bind(outcome)
            .bind(ending.reason.map(reason))
            .bind(micros(ending.at)),
            execute
        )?;
        one_row(ended, job)?;
        if ending.state == JobState::Dead {
            self.pass_on_instructions(job).await?;
        }
        let why = ending.reason.unwrap_or_default();
        self.skip_effects(job, why).await?;
        self.unsettle_effects(job).await?;
        self.log_event(job, fence, &ending.event, ending.at).await?;
        self.ring_on_commit();
        Ok(())
    }
}

/// The end of a job that is given up.
pub(super) fn died(why: &str, at: DateTime<Utc>) -> Ending<'_> {
    Ending {
        state: JobState::Dead,
        outcome: None,
        reason: Some(why),
        event: RunEvent::Died { reason: reason(why) },
        at,
    }
}

/// Whether the job goes no further than this lease. Finished work is published or stopped by a
/// worker, which knows what is on GitHub already.
fn stops(held: &Held) -> Result<bool, StoreError> {
    Ok(held.cancel_requested_at.is_some() && held.state()? == JobState::Leased)
}
