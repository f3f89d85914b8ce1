//! A job that a person starts again from GitHub: the whole of it with the text as it stands now, or
//! only the publishing of work that is stored. Called by `worker`. Never starts a job that is not
//! over, nor two of one lane.

use chrono::{DateTime, Utc};

use super::audit::Whose;
use super::row::{micros, to_json};
use super::{StoreError, Tx};
use crate::audit::{Act, Action};
use crate::effect::EffectBody;
use crate::event::RunEvent;
use crate::ids::JobId;
use crate::job::{Outcome, Pins, Request};

/// What came of asking to publish again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Republished {
    /// It is being published.
    Begun,
    /// Nothing of the job waits to be published.
    NothingStored,
    /// It is not over, or another job is at work there.
    Busy,
}

/// Positions of one round.
const ROUND: i64 = 1_000;

impl Tx {
    /// As [`Tx::requeue_job`], for the person and the text of another request: whoever asks again
    /// has read what stands there now.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn requeue_job_as(
        &mut self,
        id: &JobId,
        now: DateTime<Utc>,
        request: &Request,
        pins: &Pins,
    ) -> Result<bool, StoreError> {
        let Some(before) = self.job(id).await? else {
            return Ok(false);
        };
        if !self.requeue_job(id, now).await? {
            return Ok(false);
        }
        let request = Request {
            trigger: before.request.trigger,
            instructions: before.request.instructions,
            ..request.clone()
        };
        on_db!(
            self,
            sqlx::query("UPDATE jobs SET request = $2, pins = $3 WHERE id = $1")
                .bind(id.as_str())
                .bind(to_json("jobs.request", &request)?)
                .bind(to_json("jobs.pins", pins)?),
            execute
        )?;
        Ok(true)
    }

    /// Final → publishing, without a lease: the effects of the last round that did not land are
    /// tried again, and the status comment gets its last words anew.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn republish_job(&mut self, id: &JobId, now: DateTime<Utc>) -> Result<Republished, StoreError> {
        let Some(job) = self.job(id).await? else {
            return Ok(Republished::NothingStored);
        };
        let first = i64::from(job.round) * ROUND;
        let effects = self.effects(id).await?;
        let of_round = effects.iter().filter(|effect| effect.seq >= first);
        let push = of_round.clone().find_map(|effect| match &effect.body {
            EffectBody::Push { branch, sha, .. } => Some((branch.clone(), sha.clone())),
            _ => None,
        });
        let is_open = of_round.clone().any(|effect| {
            let shows_work = matches!(effect.body, EffectBody::Push { .. } | EffectBody::OpenPull { .. });
            shows_work && effect.remote_id.is_none()
        });
        let (Some((branch, sha)), true) = (push, is_open) else {
            return Ok(Republished::NothingStored);
        };
        self.begin_savepoint().await?;
        let outcome = to_json("jobs.outcome", &Outcome::Pushed { branch, sha })?;
        let begun: Result<Option<i64>, sqlx::Error> = on_db!(
            self,
            sqlx::query_scalar(
                "UPDATE jobs
                 SET state = 'publishing',
                     run_at = $2,
                     attempt = 0,
                     lost_leases = 0,
                     outcome = $3,
                     reason = NULL,
                     cancel_requested_at = NULL,
                     finished_at = NULL
                 WHERE id = $1
                   AND state IN ('done', 'dead', 'cancelled')
                 RETURNING fence"
            )
            .bind(id.as_str())
            .bind(micros(now))
            .bind(outcome),
            fetch_optional
        );
        let Some(fence) = self.end_savepoint(begun).await? else {
            return Ok(Republished::Busy);
        };
        on_db!(
            self,
            sqlx::query(
                "UPDATE effects
                 SET state = 'pending',
                     tries = 0,
                     problem = NULL
                 WHERE job_id = $1
                   AND seq >= $2
                   AND (state IN ('failed', 'skipped') OR kind IN ('final_status', 'settle_check'))
                   AND kind IN ('push', 'open_pull', 'mark_ready', 'request_reviewer', 'comment', 'submit_review',
                                'reply_thread', 'resolve_thread', 'request_review', 'final_status', 'remove_label',
                                'settle_check')"
            )
            .bind(id.as_str())
            .bind(first),
            execute
        )?;
        self.log_event(id, fence, &RunEvent::Queued, now).await?;
        self.audit_job(Act::new(Action::Republished), id, Whose::Act).await?;
        self.ring_on_commit();
        Ok(Republished::Begun)
    }
}
