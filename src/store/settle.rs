//! Jobs that ended without their worker (cancelled while they waited, recovered for the last
//! time) whose status comment still says that they go on, or whose label is still on. Called by maintenance. Never touches a
//! job that is not final.

use chrono::{DateTime, Utc};

use super::row::{micros, parse, to_json, without_nul};
use super::{StoreError, Tx};
use crate::effect::{EffectBody, EffectState};
use crate::ids::{EffectId, JobId};

impl Tx {
    /// Final jobs that were created after `since` and of which something is left on GitHub, oldest
    /// first: a status comment, also one that may be there, without last words after it, a check run of
    /// ours that is still under way, a pull request of ours that has none, or the label that started them.
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
                           jobs.request LIKE '{\"trigger\":{\"by\":\"label\"%'
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
        Ok(())
    }
}
