//! Table `instructions`: what people said to a job while it worked. An instruction that no turn of
//! the run took becomes a job of its own when the run's result is stored, in the same transaction,
//! so that none is lost. Called by `worker`. Never lets words in before somebody checked that the
//! person may give them: that is the caller's proof to bring.

use chrono::{DateTime, Utc};

use super::row::{micros, parse, row, without_nul};
use super::{StoreError, Tx};
use crate::ids::{JobId, RepoId, Subject};
use crate::job::{JobState, Lease};
use crate::question::Reply;

/// Most instructions to one job: people who go on talking need another job.
const MAX_INSTRUCTIONS: i64 = 50;

/// What became of an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Steered {
    /// The job has it.
    Given(JobId),
    /// No job is at work there that could take it.
    NobodyWorks,
}

row! {
    Stored {
        by_login: String,
        words: String,
        at: DateTime<Utc>,
    }
}

impl Tx {
    /// Gives an instruction to the job that changes code on a subject, if one is at work and its
    /// result is not stored yet. The same source twice is one instruction.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn steer_job(
        &mut self,
        repo: RepoId,
        subject: &Subject,
        source: &JobId,
        words: &Reply,
    ) -> Result<Steered, StoreError> {
        let known: Option<String> = on_db!(
            self,
            sqlx::query_scalar("SELECT job_id FROM instructions WHERE source = $1").bind(source.as_str()),
            fetch_optional
        )?;
        if let Some(known) = known {
            return Ok(Steered::Given(parse("instructions.job_id", &known)?));
        }
        let at_work: Option<String> = on_db!(
            self,
            sqlx::query_scalar(
                "SELECT id
                 FROM jobs
                 WHERE repo_id = $1
                   AND lane = $2
                   AND state = 'leased'
                   AND kind IN ('fix', 'plan')"
            )
            .bind(repo.as_i64())
            .bind(subject.to_string()),
            fetch_optional
        )?;
        let Some(at_work) = at_work else {
            return Ok(Steered::NobodyWorks);
        };
        let id: JobId = parse("jobs.id", &at_work)?;
        let Some(locked) = self.lock_job(&id).await? else {
            return Ok(Steered::NobodyWorks);
        };
        if locked.state()? != JobState::Leased || locked.cancel_requested_at.is_some() {
            return Ok(Steered::NobodyWorks);
        }
        let added = on_db!(
            self,
            sqlx::query(
                "INSERT INTO instructions (job_id, seq, source, by_login, words, at)
                 SELECT $1, COUNT(*) + 1, $2, $3, $4, $5
                 FROM instructions
                 WHERE job_id = $1
                 HAVING COUNT(*) < $6"
            )
            .bind(id.as_str())
            .bind(source.as_str())
            .bind(without_nul(&words.by))
            .bind(without_nul(&words.words))
            .bind(micros(words.at))
            .bind(MAX_INSTRUCTIONS),
            execute
        )?;
        Ok(match added {
            0 => Steered::NobodyWorks,
            _ => Steered::Given(id),
        })
    }

    /// How many instructions a job was given.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn count_instructions(&mut self, job: &JobId) -> Result<u32, StoreError> {
        let count: i64 = on_db!(
            self,
            sqlx::query_scalar("SELECT COUNT(*) FROM instructions WHERE job_id = $1").bind(job.as_str()),
            fetch_one
        )?;
        super::row::count("instructions", count)
    }

    /// The instructions to a job, oldest first, which count as taken from now on.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] and those of the database.
    pub async fn take_instructions(&mut self, lease: &Lease) -> Result<Vec<Reply>, StoreError> {
        if self.count_instructions(&lease.job).await? == 0 {
            return Ok(Vec::new());
        }
        // From here on nobody adds another one: what is marked is what is given out.
        self.hold(lease).await?;
        let stored: Vec<Stored> = on_db!(
            self,
            sqlx::query_as("SELECT by_login, words, at FROM instructions WHERE job_id = $1 ORDER BY seq")
                .bind(lease.job.as_str()),
            fetch_all
        )?;
        let now = self.db_now().await?;
        on_db!(
            self,
            sqlx::query(
                "UPDATE instructions
                 SET taken_at = $2
                 WHERE job_id = $1
                   AND taken_at IS NULL"
            )
            .bind(lease.job.as_str())
            .bind(now),
            execute
        )?;
        let replies = stored.into_iter().map(|stored| Reply {
            by: stored.by_login,
            words: stored.words,
            at: stored.at,
        });
        Ok(replies.collect())
    }

    /// Whether a command became a job of its own, which answers for it.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn became_job(&mut self, command: &JobId) -> Result<bool, StoreError> {
        let found: Option<String> = on_db!(
            self,
            sqlx::query_scalar(
                "SELECT made.id
                 FROM jobs AS command
                 JOIN jobs AS made ON made.repo_id = command.repo_id AND made.subject = command.subject
                 WHERE command.id = $1
                   AND made.dedupe_key = $2
                 LIMIT 1"
            )
            .bind(command.as_str())
            .bind(format!("fix:of:{command}")),
            fetch_optional
        )?;
        Ok(found.is_some())
    }

    /// Instructions that no turn took become jobs of their own and are this job's no more. The
    /// caller holds the row.
    pub(super) async fn pass_on_instructions(&mut self, job: &JobId) -> Result<(), StoreError> {
        let sources: Vec<String> = on_db!(
            self,
            sqlx::query_scalar("SELECT source FROM instructions WHERE job_id = $1 AND taken_at IS NULL ORDER BY seq")
                .bind(job.as_str()),
            fetch_all
        )?;
        if sources.is_empty() {
            return Ok(());
        }
        let now = self.db_now().await?;
        for source in sources {
            let source: JobId = parse("instructions.source", &source)?;
            if let Some(asked) = self.job(&source).await? {
                self.insert_job(&asked.as_fix(now), now).await?;
            }
        }
        on_db!(
            self,
            sqlx::query("DELETE FROM instructions WHERE job_id = $1 AND taken_at IS NULL").bind(job.as_str()),
            execute
        )?;
        Ok(())
    }
}
