//! Status comments of jobs that nobody has claimed yet: written by whoever shows people that their
//! request waits, without a lease. Called by `publish`. Never gives the comment of one job to two
//! processes, and never touches what a worker left.

use chrono::{DateTime, Utc};

use super::row::{to_json, without_nul};
use super::{StoreError, Tx};
use crate::effect::{EffectState, NewEffect};
use crate::ids::{EffectId, JobId};
use crate::job::{JobState, Lease};

impl Tx {
    /// Takes the status comment of a job that was never claimed for oneself. From now on it may be
    /// on GitHub: its row is `unknown`. False: somebody else has it, or the job does not wait.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn announce_job(&mut self, job: &JobId, status: &NewEffect) -> Result<bool, StoreError> {
        let Some(locked) = self.lock_job(job).await? else {
            return Ok(false);
        };
        if locked.state()? != JobState::Queued || locked.fence() != 0 {
            return Ok(false);
        }
        let now: DateTime<Utc> = self.db_now().await?;
        let taken = on_db!(
            self,
            sqlx::query(
                "INSERT INTO effects (id, job_id, seq, kind, dedupe_key, body, state, fence, sent_at, tries)
                 VALUES ($1, $2, $3, $4, $5, $6, 'unknown', 0, $7, 1)
                 ON CONFLICT DO NOTHING"
            )
            .bind(EffectId::new(now).as_str())
            .bind(job.as_str())
            .bind(status.seq)
            .bind(status.body.kind())
            .bind(&status.dedupe_key)
            .bind(to_json("effects.body", &status.body)?)
            .bind(now),
            execute
        )?;
        Ok(taken == 1)
    }

    /// Notes which comment it became, unless a worker found out by itself.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn note_announced(&mut self, job: &JobId, seq: i64, comment: &str) -> Result<(), StoreError> {
        let noted = on_db!(
            self,
            sqlx::query(
                "UPDATE effects
                 SET state = 'done',
                     remote_id = $3,
                     problem = NULL
                 WHERE job_id = $1
                   AND seq = $2
                   AND kind = 'status_comment'
                   AND state = 'unknown'"
            )
            .bind(job.as_str())
            .bind(seq)
            .bind(without_nul(comment)),
            execute
        )?;
        match noted {
            0 => Ok(()),
            _ => self.audit_effect(job, seq).await,
        }
    }

    /// The comment with which a command answered that became this job afterwards: words that were passed on
    /// to other work, which ended without them.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn answer_of_command(&mut self, job: &JobId) -> Result<Option<String>, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query_scalar(
                "SELECT effects.remote_id
                 FROM jobs
                 JOIN effects ON effects.job_id = SUBSTR(jobs.dedupe_key, LENGTH('fix:of:') + 1)
                 WHERE jobs.id = $1
                   AND jobs.dedupe_key LIKE 'fix:of:%'
                   AND effects.kind = 'comment'
                   AND effects.state = 'done'
                   AND effects.remote_id IS NOT NULL
                 ORDER BY effects.seq
                 LIMIT 1"
            )
            .bind(job.as_str()),
            fetch_optional
        )?)
    }

    /// Makes a comment that is there already the status comment of a job, if it has none yet.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] and those of the database.
    pub async fn adopt_comment(&mut self, lease: &Lease, status: &NewEffect, comment: &str) -> Result<(), StoreError> {
        self.hold(lease).await?;
        let now: DateTime<Utc> = self.db_now().await?;
        let adopted = on_db!(
            self,
            sqlx::query(
                "INSERT INTO effects (id, job_id, seq, kind, dedupe_key, body, state, fence, sent_at, tries, remote_id)
                 VALUES ($1, $2, $3, $4, $5, $6, 'done', $7, $8, 1, $9)
                 ON CONFLICT DO NOTHING"
            )
            .bind(EffectId::new(now).as_str())
            .bind(lease.job.as_str())
            .bind(status.seq)
            .bind(status.body.kind())
            .bind(&status.dedupe_key)
            .bind(to_json("effects.body", &status.body)?)
            .bind(lease.fence)
            .bind(now)
            .bind(without_nul(comment)),
            execute
        )?;
        match adopted {
            0 => Ok(()),
            _ => self.audit_effect(&lease.job, status.seq).await,
        }
    }

    /// Gives back what certainly did not reach GitHub: the job writes it when its turn comes, if it
    /// is not over.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn return_announcement(&mut self, job: &JobId, seq: i64) -> Result<(), StoreError> {
        let Some(locked) = self.lock_job(job).await? else {
            return Ok(());
        };
        let state = match locked.state()?.is_final() {
            true => EffectState::Skipped,
            false => EffectState::Pending,
        };
        on_db!(
            self,
            sqlx::query(
                "UPDATE effects
                 SET state = $3,
                     sent_at = NULL,
                     tries = 0
                 WHERE job_id = $1
                   AND seq = $2
                   AND kind = 'status_comment'
                   AND state = 'unknown'
                   AND fence = 0"
            )
            .bind(job.as_str())
            .bind(seq)
            .bind(state.as_str()),
            execute
        )?;
        Ok(())
    }
}
