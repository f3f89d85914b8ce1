//! The usual end of a job, in a transaction of its own: on PostgreSQL as one statement, because
//! what an end costs there is the ways to the server and back. Called by `queue`.
//! Never ends what [`Tx::finish_job`] would not end: whatever is not usual goes there.

use super::row::{reason, to_json};
use super::{Store, StoreError, Tx, answered};
use crate::event::RunEvent;
use crate::job::{Lease, Outcome};

/// The guards are those of `Tx::finish_job` and `Tx::end_job`. A done job has no effect that could
/// be skipped. The doorbell rings where somebody may wait: in the lane that is free now.
const FINISH_AT_ONCE: &str = "WITH clock AS MATERIALIZED (
         SELECT CLOCK_TIMESTAMP() AS now
     ),
     ended AS (
         UPDATE jobs
         SET state = 'done',
             outcome = $4,
             reason = $5,
             finished_at = (SELECT now FROM clock),
             lease_token = NULL,
             lease_owner = NULL,
             lease_until = NULL
         WHERE id = $1
           AND fence = $2
           AND lease_token = $3
           AND lease_until > (SELECT now FROM clock)
           AND state IN ('leased', 'publishing')
           AND NOT EXISTS (
               SELECT 1
               FROM effects
               WHERE effects.job_id = jobs.id
                 AND effects.state NOT IN ('done', 'skipped', 'failed')
           )
         RETURNING id, repo_id, subject
     ),
     logged AS (
         INSERT INTO job_events (job_id, seq, at, fence, kind, data)
         SELECT ended.id,
                (SELECT COALESCE(MAX(seq), 0) + 1 FROM job_events WHERE job_events.job_id = ended.id),
                (SELECT now FROM clock),
                $2,
                $6,
                $7
         FROM ended
     ),
     awaited AS (
         SELECT 1
         FROM ended
         WHERE $8 = 1
            OR EXISTS (
                SELECT 1
                FROM jobs
                WHERE jobs.repo_id = ended.repo_id
                  AND jobs.subject = ended.subject
                  AND jobs.state = 'queued'
            )
     )
     SELECT (SELECT COUNT(*) FROM ended), (SELECT COUNT(*) FROM awaited)";

impl Store {
    /// Ends a job as [`super::Tx::finish_job`] does, in a transaction of its own. `makes_room` says
    /// that jobs of other lanes may wait for this one's end, so that everybody is to look.
    ///
    /// # Errors
    /// Those of [`super::Tx::finish_job`].
    pub async fn finish_job(&self, lease: &Lease, outcome: &Outcome, makes_room: bool) -> Result<(), StoreError> {
        let usual = match outcome {
            // A refusal stands in the audit as well.
            Outcome::Stopped { .. } | Outcome::Refused { .. } => None,
            Outcome::Opened { .. } | Outcome::Pushed { .. } | Outcome::Answered | Outcome::Reviewed { .. } => {
                Some(None)
            }
            Outcome::NothingToDo { reason } | Outcome::GaveUp { reason, .. } => Some(Some(reason.as_str())),
        };
        if let (Store::Postgres(store), Some(why)) = (self, usual) {
            let event = RunEvent::Finished {
                outcome: outcome.clone(),
            };
            let mut connection = store.connection().await?;
            let finish = sqlx::query_as(FINISH_AT_ONCE)
                .bind(lease.job.as_str())
                .bind(lease.fence)
                .bind(&lease.token)
                .bind(to_json("jobs.outcome", outcome)?)
                .bind(why.map(reason))
                .bind(event.kind())
                .bind(to_json("job_events.data", &event)?)
                .bind(i64::from(makes_room));
            let (ended, awaited): (i64, i64) = answered(finish.fetch_one(&mut *connection)).await?;
            if ended == 1 {
                drop(connection);
                match awaited {
                    0 => self.ring(),
                    _ => store.bell().ring_everywhere(),
                }
                return Ok(());
            }
        }
        if let (Store::Sqlite(_), Some(why)) = (self, usual) {
            let mut tx = self.begin().await?;
            if tx.finish_usual(lease, outcome, why).await? {
                return tx.commit().await;
            }
        }
        // Stopped and refused jobs, and the errors in their words.
        let mut tx = self.begin().await?;
        tx.finish_job(lease, outcome).await?;
        tx.commit().await
    }
}

impl Tx {
    /// The same on SQLite, where statements that write give nothing to others: two, instead of the six
    /// of the long way. Whether the job ended.
    async fn finish_usual(&mut self, lease: &Lease, outcome: &Outcome, why: Option<&str>) -> Result<bool, StoreError> {
        let at = self.db_now().await?;
        let ended = on_db!(
            self,
            sqlx::query(
                "UPDATE jobs
                 SET state = 'done',
                     outcome = $4,
                     reason = $5,
                     finished_at = $6,
                     lease_token = NULL,
                     lease_owner = NULL,
                     lease_until = NULL
                 WHERE id = $1
                   AND fence = $2
                   AND lease_token = $3
                   AND lease_until > $6
                   AND state IN ('leased', 'publishing')
                   AND NOT EXISTS (
                       SELECT 1
                       FROM effects
                       WHERE effects.job_id = jobs.id
                         AND effects.state NOT IN ('done', 'skipped', 'failed')
                   )"
            )
            .bind(lease.job.as_str())
            .bind(lease.fence)
            .bind(&lease.token)
            .bind(to_json("jobs.outcome", outcome)?)
            .bind(why.map(reason))
            .bind(at),
            execute
        )?;
        if ended == 0 {
            return Ok(false);
        }
        let event = RunEvent::Finished {
            outcome: outcome.clone(),
        };
        self.log_event(&lease.job, lease.fence, &event, at).await?;
        self.ring_on_commit();
        Ok(true)
    }
}
