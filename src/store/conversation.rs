//! Table `conversation`: what each agent of a job said and was told, entry by entry, as JSON text.
//! Called by `recorder`, and by whoever reads a run again. Never changes an entry: a job that
//! begins a new round forgets them all.

use super::row::row;
use super::{StoreError, Tx};
use crate::ids::JobId;
use crate::job::Lease;

/// Most bytes of one entry. A reply with all its calls has some megabytes at the very most; more
/// is a mistake that the database should not have to carry.
const MAX_ENTRY_BYTES: usize = 64 * 1024 * 1024;

row! {
    Stored {
        seq: i64,
        body: String,
    }
}

impl Tx {
    /// Appends entries to the log of one agent, the first at position `first` (positions count
    /// from 0). This is progress: earlier lost leases are forgotten.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`]; [`StoreError::Corrupt`] for more than 64 MiB, and when a position
    /// is taken, which means that the caller does not know the whole log.
    pub async fn append_conversation(
        &mut self,
        lease: &Lease,
        agent: &str,
        first: i64,
        bodies: &[String],
    ) -> Result<(), StoreError> {
        if let Some(long) = bodies.iter().find(|body| body.len() > MAX_ENTRY_BYTES) {
            return Err(StoreError::Corrupt(format!(
                "an entry of the conversation of job {} has {} bytes, {MAX_ENTRY_BYTES} are allowed",
                lease.job,
                long.len()
            )));
        }
        self.hold(lease).await?;
        for (seq, body) in (first..).zip(bodies) {
            on_db!(
                self,
                sqlx::query(
                    "INSERT INTO conversation (job_id, agent, seq, fence, body)
                     VALUES ($1, $2, $3, $4, $5)"
                )
                .bind(lease.job.as_str())
                .bind(agent)
                .bind(seq)
                .bind(lease.fence)
                .bind(body),
                execute
            )?;
        }
        self.note_progress(lease).await
    }

    /// Entries of one agent's log from position `from` on, in order, at most `limit`.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn conversation(
        &mut self,
        job: &JobId,
        agent: &str,
        from: i64,
        limit: u32,
    ) -> Result<Vec<(i64, String)>, StoreError> {
        let stored: Vec<Stored> = on_db!(
            self,
            sqlx::query_as(
                "SELECT seq, body
                 FROM conversation
                 WHERE job_id = $1
                   AND agent = $2
                   AND seq >= $3
                 ORDER BY seq
                 LIMIT $4"
            )
            .bind(job.as_str())
            .bind(agent)
            .bind(from)
            .bind(i64::from(limit)),
            fetch_all
        )?;
        Ok(stored.into_iter().map(|stored| (stored.seq, stored.body)).collect())
    }

    /// Names of the agents that have a log in a job, in alphabetical order.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn conversation_agents(&mut self, job: &JobId) -> Result<Vec<String>, StoreError> {
        let agents: Vec<String> = on_db!(
            self,
            sqlx::query_scalar(
                "SELECT DISTINCT agent
                 FROM conversation
                 WHERE job_id = $1
                 ORDER BY agent"
            )
            .bind(job.as_str()),
            fetch_all
        )?;
        Ok(agents)
    }

    /// Forgets every log of a job, so that its next round begins at the beginning.
    pub(super) async fn delete_conversation(&mut self, job: &JobId) -> Result<(), StoreError> {
        on_db!(
            self,
            sqlx::query(
                "DELETE FROM conversation
                 WHERE job_id = $1"
            )
            .bind(job.as_str()),
            execute
        )?;
        Ok(())
    }
}
