//! Reminders of questions that still wait: which are due, and who sends each. Called by `publish`.
//! Never gives the same reminder to two processes, and never ends a question.

use chrono::{DateTime, Utc};

use super::row::{micros, parse, row};
use super::{StoreError, Tx};
use crate::ids::JobId;

/// People are reminded when this part of the time for an answer is over.
const AFTER_QUARTERS: i32 = 3;

row! {
    Waiting {
        id: String,
        seq: i64,
        asked_at: DateTime<Utc>,
        answer_by: DateTime<Utc>,
    }
}

impl Tx {
    /// Questions of waiting jobs of which people were not reminded yet although three quarters of
    /// the time for an answer are over, as job and position.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn due_reminders(&mut self, limit: u32) -> Result<Vec<(JobId, u32)>, StoreError> {
        let now = self.db_now().await?;
        let waiting: Vec<Waiting> = on_db!(
            self,
            sqlx::query_as(
                "SELECT jobs.id, questions.seq, questions.asked_at, questions.answer_by
                 FROM jobs
                 JOIN questions ON questions.job_id = jobs.id
                 WHERE jobs.state = 'waiting'
                   AND questions.round = jobs.round
                   AND questions.taken_at IS NULL
                   AND questions.expired_at IS NULL
                   AND questions.reminded_at IS NULL
                   AND questions.answer_by > $1
                 ORDER BY questions.answer_by
                 LIMIT $2"
            )
            .bind(micros(now))
            .bind(i64::from(limit)),
            fetch_all
        )?;
        let is_due = |waiting: &Waiting| {
            let whole = waiting.answer_by - waiting.asked_at;
            now >= waiting.asked_at + whole / 4 * AFTER_QUARTERS
        };
        let due = waiting.into_iter().filter(is_due);
        due.map(|waiting| {
            let seq = u32::try_from(waiting.seq).map_err(|error| StoreError::Corrupt(error.to_string()))?;
            Ok((parse("jobs.id", &waiting.id)?, seq))
        })
        .collect()
    }

    /// Takes a reminder for oneself. False: another process has it, or the job waits no more.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn take_reminder(&mut self, job: &JobId, question: u32) -> Result<bool, StoreError> {
        let now = self.db_now().await?;
        let taken = on_db!(
            self,
            sqlx::query(
                "UPDATE questions
                 SET reminded_at = $3
                 WHERE job_id = $1
                   AND seq = $2
                   AND reminded_at IS NULL
                   AND EXISTS (
                       SELECT 1
                       FROM jobs
                       WHERE jobs.id = questions.job_id
                         AND jobs.state = 'waiting'
                   )"
            )
            .bind(job.as_str())
            .bind(i64::from(question))
            .bind(micros(now)),
            execute
        )?;
        Ok(taken == 1)
    }

    /// Gives back a reminder that certainly did not reach GitHub.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn return_reminder(&mut self, job: &JobId, question: u32) -> Result<(), StoreError> {
        on_db!(
            self,
            sqlx::query("UPDATE questions SET reminded_at = NULL WHERE job_id = $1 AND seq = $2")
                .bind(job.as_str())
                .bind(i64::from(question)),
            execute
        )?;
        Ok(())
    }
}
