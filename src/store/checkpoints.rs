//! Table `checkpoints`: the latest value of each kind that a run needs to be resumed, also on
//! another machine. Called by `recorder` and `run`. Never looks into the bytes.

use super::row::row;
use super::{StoreError, Tx};
use crate::ids::JobId;
use crate::job::Lease;

/// Most bytes of one checkpoint. A conversation has a few megabytes; more is a mistake that the
/// database should not have to carry.
const MAX_CHECKPOINT_BYTES: usize = 64 * 1024 * 1024;

row! {
    Stored {
        seq: i64,
        body: Vec<u8>,
    }
}

/// Checkpoint of finished work that is not published yet.
pub const CARRY: &str = "carry";

impl Tx {
    /// Stores the latest value of one kind (`conversation`, `solution`, …) of a job. This is
    /// progress: earlier lost leases are forgotten.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`]; [`StoreError::Corrupt`] for more than 64 MiB.
    pub async fn save_checkpoint(
        &mut self,
        lease: &Lease,
        kind: &str,
        seq: i64,
        body: &[u8],
    ) -> Result<(), StoreError> {
        if body.len() > MAX_CHECKPOINT_BYTES {
            return Err(StoreError::Corrupt(format!(
                "checkpoint {kind} of job {} has {} bytes, {MAX_CHECKPOINT_BYTES} are allowed",
                lease.job,
                body.len()
            )));
        }
        self.hold(lease).await?;
        on_db!(
            self,
            sqlx::query(
                "INSERT INTO checkpoints (job_id, kind, seq, fence, body)
                 VALUES ($1, $2, $3, $4, $5)
                 ON CONFLICT (job_id, kind) DO UPDATE
                 SET seq = excluded.seq,
                     fence = excluded.fence,
                     body = excluded.body"
            )
            .bind(lease.job.as_str())
            .bind(kind)
            .bind(seq)
            .bind(lease.fence)
            .bind(body),
            execute
        )?;
        self.note_progress(lease).await
    }

    /// The latest value of one kind, with its position.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn checkpoint(&mut self, job: &JobId, kind: &str) -> Result<Option<(i64, Vec<u8>)>, StoreError> {
        let stored: Option<Stored> = on_db!(
            self,
            sqlx::query_as(
                "SELECT seq, body
                 FROM checkpoints
                 WHERE job_id = $1
                   AND kind = $2"
            )
            .bind(job.as_str())
            .bind(kind),
            fetch_optional
        )?;
        Ok(stored.map(|stored| (stored.seq, stored.body)))
    }

    /// Forgets what a run left, so that the next one begins at the beginning.
    pub(super) async fn delete_checkpoints(&mut self, job: &JobId) -> Result<(), StoreError> {
        on_db!(
            self,
            sqlx::query(
                "DELETE FROM checkpoints
                 WHERE job_id = $1"
            )
            .bind(job.as_str()),
            execute
        )?;
        Ok(())
    }
}
