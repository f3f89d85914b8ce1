//! Jobs that ended without their worker (cancelled while they waited, recovered for the last
//! time) whose status comment still says that they go on, or whose label is still on. Called by maintenance. Never touches a
//! job that is not final.

use chrono::{DateTime, TimeDelta, Utc};

use super::row::{micros, parse, to_json, without_nul};
use super::{StoreError, Tx};
use crate::effect::{EffectBody, EffectState, NewEffect};
use crate::ids::{EffectId, JobId};

impl Tx {
    /// Final jobs that were created after `since` and of which something is left on GitHub, oldest
    /// first: a status comment, also one that may be there, without last words after it, a check run of
    /// ours that is still under way, a pull request of ours that has none, or the label that started them;
    /// and those that were given up and of which nobody was told. A round has a thousand positions.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn unsettled_jobs(&mut self, since: DateTime<Utc>, limit: u32) -> Result<Vec<JobId>, StoreError> {
        let ids: Vec<String> = on_db!(
            self,
            sqlx::query_scalar(
                "SELECT jobs.id
                 FROM jobs
                 WHERE jobs.state IN ('done', 'dead', 'cancelled')
                   AND jobs.created_at > $1
                   AND (
                       EXISTS (
                           SELECT 1
                           FROM effects AS status
                           WHERE status.job_id = jobs.id
                             AND status.kind = 'status_comment'
                             AND status.state IN ('done', 'unknown')
                             AND NOT EXISTS (
                                 SELECT 1
                                 FROM effects AS last
                                 WHERE last.job_id = jobs.id
                                   AND last.kind = 'final_status'
                                   AND last.state IN ('done', 'failed')
                                   AND last.seq > status.seq
                             )
                       )
                       OR EXISTS (
                           SELECT 1
                           FROM effects AS begun
                           WHERE begun.job_id = jobs.id
                             AND (
                                 (begun.kind = 'begin_check' AND begun.state IN ('done', 'sending', 'unknown'))
                                 OR (begun.kind = 'open_pull' AND begun.state = 'done')
                             )
                             AND NOT EXISTS (
                                 SELECT 1
                                 FROM effects AS last
                                 WHERE last.job_id = jobs.id
                                   AND last.kind = 'settle_check'
                                   AND last.state IN ('done', 'failed')
                                   AND last.seq > begun.seq
                             )
                       )
                       OR (
                           jobs.state = 'dead'
                           AND NOT EXISTS (
                               SELECT 1
                               FROM effects AS last
                               WHERE last.job_id = jobs.id
                                 AND last.kind = 'final_status'
                                 AND last.state IN ('done', 'failed')
                                 AND last.seq > jobs.round * 1000
                           )
                       )
                       OR (
                           (
                               jobs.request LIKE '{\"trigger\":{\"by\":\"label\"%'
                               OR jobs.request LIKE '{\"trigger\":{\"by\":\"queue\",\"label\"%'
                           )
                           AND NOT EXISTS (
                               SELECT 1
                               FROM effects AS last
                               WHERE last.job_id = jobs.id
                                 AND last.kind IN ('final_status', 'remove_label')
                                 AND last.state IN ('done', 'failed')
                           )
                       )
                   )
                 ORDER BY jobs.id
                 LIMIT $2"
            )
            .bind(micros(since))
            .bind(i64::from(limit)),
            fetch_all
        )?;
        ids.iter().map(|id| parse("jobs.id", id)).collect()
    }

    /// Notes that the last words of a final job are on GitHub (`done`) or cannot be (`failed`).
    /// They stand at position `seq`, where a skipped row may stand already.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn note_settled(
        &mut self,
        job: &JobId,
        seq: i64,
        state: EffectState,
        remote_id: &str,
    ) -> Result<(), StoreError> {
        let last = EffectBody::FinalStatus {
            details: String::new(),
            drafts: String::new(),
        };
        self.note_last(job, seq, &last, state, remote_id).await
    }

    /// The same for the check run that a final job began.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn note_check_settled(
        &mut self,
        job: &JobId,
        seq: i64,
        state: EffectState,
        remote_id: &str,
    ) -> Result<(), StoreError> {
        self.note_last(job, seq, &EffectBody::SettleCheck, state, remote_id)
            .await
    }

    /// Takes the status comment of a job that was given up before it had one for oneself. From now on it
    /// may be on GitHub: its row is `unknown`. One that somebody took and that did not appear within
    /// `wait` may be taken over. False: somebody else has it, or the job is not dead.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn take_notice(&mut self, job: &JobId, status: &NewEffect, wait: TimeDelta) -> Result<bool, StoreError> {
        let now = self.db_now().await?;
        let taken = on_db!(
            self,
            sqlx::query(
                "INSERT INTO effects (id, job_id, seq, kind, dedupe_key, body, state, fence, sent_at, tries)
                 SELECT $2, jobs.id, $3, $4, $5, $6, 'unknown', 0, $7, 1
                 FROM jobs
                 WHERE jobs.id = $1
                   AND jobs.state = 'dead'
                 ON CONFLICT (job_id, seq) DO UPDATE
                 SET state = 'unknown',
                     body = excluded.body,
                     sent_at = excluded.sent_at,
                     tries = effects.tries + 1
                 WHERE effects.state = 'skipped'
                    OR (effects.state = 'unknown' AND effects.sent_at <= $8)"
            )
            .bind(job.as_str())
            .bind(EffectId::new(now).as_str())
            .bind(status.seq)
            .bind(status.body.kind())
            .bind(&status.dedupe_key)
            .bind(to_json("effects.body", &status.body)?)
            .bind(now)
            .bind(now - wait),
            execute
        )?;
        Ok(taken == 1)
    }

    /// Gives back what certainly did not reach GitHub.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn return_notice(&mut self, job: &JobId, seq: i64) -> Result<(), StoreError> {
        on_db!(
            self,
            sqlx::query(
                "UPDATE effects
                 SET state = 'skipped',
                     sent_at = NULL
                 WHERE job_id = $1
                   AND seq = $2
                   AND kind = 'status_comment'
                   AND state = 'unknown'"
            )
            .bind(job.as_str())
            .bind(seq),
            execute
        )?;
        Ok(())
    }

    async fn note_last(
        &mut self,
        job: &JobId,
        seq: i64,
        body: &EffectBody,
        state: EffectState,
        remote_id: &str,
    ) -> Result<(), StoreError> {
        let now = self.db_now().await?;
        on_db!(
            self,
            sqlx::query(
                "INSERT INTO effects (id, job_id, seq, kind, dedupe_key, body, state, fence, sent_at, tries, remote_id)
                 SELECT $2, jobs.id, $3, $9, $4, $5, $6, jobs.fence, $7, 1, $8
                 FROM jobs
                 WHERE jobs.id = $1
                   AND jobs.state IN ('done', 'dead', 'cancelled')
                 ON CONFLICT (job_id, seq) DO UPDATE
                 SET state = excluded.state,
                     sent_at = excluded.sent_at,
                     remote_id = excluded.remote_id,
                     problem = NULL"
            )
            .bind(job.as_str())
            .bind(EffectId::new(now).as_str())
            .bind(seq)
            .bind(format!("{job}/{seq}"))
            .bind(to_json("effects.body", body)?)
            .bind(state.as_str())
            .bind(now)
            .bind(without_nul(remote_id))
            .bind(body.kind()),
            execute
        )?;
        self.audit_effect(job, seq).await
    }
}
