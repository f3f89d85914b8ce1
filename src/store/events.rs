//! Table `job_events`: the append-only log of each job. Called by `recorder`, by readers of the
//! log, and by every transition, which logs itself. Never changes or removes an entry.

use chrono::{DateTime, Utc};

use super::row::{from_json, micros, row, to_json};
use super::{StoreError, Tx};
use crate::event::{Event, RunEvent};
use crate::ids::JobId;
use crate::job::Lease;

row! {
    Stored {
        seq: i64,
        at: DateTime<Utc>,
        data: String,
    }
}

impl Tx {
    /// Appends under a lease (fence and token are checked) and returns the position. What is to be
    /// paid for goes into the ledger with it: neither is ever there without the other.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] and those of the database.
    pub async fn append_event(
        &mut self,
        lease: &Lease,
        event: &RunEvent,
        at: DateTime<Utc>,
    ) -> Result<i64, StoreError> {
        self.hold(lease).await?;
        let seq = self.log_event(&lease.job, lease.fence, event, at).await?;
        if let Some(charge) = event.charge() {
            self.charge(&lease.job, seq, &charge, at).await?;
        }
        self.audit_event(&lease.job, lease.fence, event).await?;
        Ok(seq)
    }

    /// Events after a position, in order, at most `limit`.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when an entry does not parse.
    pub async fn events(&mut self, job: &JobId, after: i64, limit: u32) -> Result<Vec<Event>, StoreError> {
        let stored: Vec<Stored> = on_db!(
            self,
            sqlx::query_as(
                "SELECT seq, at, data
                 FROM job_events
                 WHERE job_id = $1
                   AND seq > $2
                 ORDER BY seq
                 LIMIT $3"
            )
            .bind(job.as_str())
            .bind(after)
            .bind(i64::from(limit)),
            fetch_all
        )?;
        stored
            .into_iter()
            .map(|stored| {
                Ok(Event {
                    job: job.clone(),
                    seq: stored.seq,
                    at: stored.at,
                    body: from_json("job_events.data", &stored.data)?,
                })
            })
            .collect()
    }

    /// Appends in the name of a transition. The caller's transaction has written the job's row
    /// and so holds its lock: nobody else takes the same position.
    pub(super) async fn log_event(
        &mut self,
        job: &JobId,
        fence: i64,
        event: &RunEvent,
        at: DateTime<Utc>,
    ) -> Result<i64, StoreError> {
        let seq: i64 = on_db!(
            self,
            sqlx::query_scalar(
                "INSERT INTO job_events (job_id, seq, at, fence, kind, data)
                 VALUES (
                     $1,
                     (SELECT COALESCE(MAX(seq), 0) + 1 FROM job_events WHERE job_id = $1),
                     $2, $3, $4, $5
                 )
                 RETURNING seq"
            )
            .bind(job.as_str())
            .bind(micros(at))
            .bind(fence)
            .bind(event.kind())
            .bind(to_json("job_events.data", event)?),
            fetch_one
        )?;
        Ok(seq)
    }
}
