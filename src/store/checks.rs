//! What our jobs left on pull requests: which job a commit is of, whether a pull request is ours,
//! and notes for people in the log of the job that is at work there. Called by `intake` and
//! `worker`. Never changes a job.

use chrono::{DateTime, Utc};

use super::jobs::{JobRow, job_columns};
use super::row::parse;
use super::{StoreError, Tx};
use crate::event::RunEvent;
use crate::ids::{CommitSha, IssueNumber, JobId, RepoId, Subject};
use crate::job::{Job, JobState};

/// Most jobs that left one commit: one, and a few that were started again.
const MAX_JOBS: i64 = 20;

impl Tx {
    /// Jobs whose result is this commit, or will be once it is published, newest first.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when a column does not parse.
    pub async fn jobs_that_left(&mut self, repo: RepoId, sha: &CommitSha) -> Result<Vec<Job>, StoreError> {
        let rows: Vec<JobRow> = on_db!(
            self,
            sqlx::query_as(concat!(
                "SELECT ",
                job_columns!(),
                " FROM jobs
                 WHERE repo_id = $1
                   AND state IN ('done', 'publishing')
                   AND outcome LIKE $2
                 ORDER BY id DESC
                 LIMIT $3"
            ))
            .bind(repo.as_i64())
            .bind(format!("%\"sha\":\"{sha}\"%"))
            .bind(MAX_JOBS),
            fetch_all
        )?;
        rows.into_iter().map(Job::try_from).collect()
    }

    /// Whether a job of ours opened this pull request.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn has_opened(&mut self, repo: RepoId, pull: IssueNumber) -> Result<bool, StoreError> {
        let opened: i64 = on_db!(
            self,
            sqlx::query_scalar(
                "SELECT COUNT(*)
                 FROM jobs
                 WHERE repo_id = $1
                   AND state = 'done'
                   AND outcome LIKE $2"
            )
            .bind(repo.as_i64())
            .bind(format!("{{\"outcome\":\"opened\",\"pull\":{pull},%")),
            fetch_one
        )?;
        Ok(opened > 0)
    }

    /// Adds a note to the log of the job that changes code on a subject, if one is at work there.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn note_on_work(
        &mut self,
        repo: RepoId,
        subject: &Subject,
        text: &str,
        now: DateTime<Utc>,
    ) -> Result<Option<JobId>, StoreError> {
        let at_work: Option<String> = on_db!(
            self,
            sqlx::query_scalar(
                "SELECT id
                 FROM jobs
                 WHERE repo_id = $1
                   AND lane = $2
                   AND state = 'leased'
                   AND kind IN ('fix', 'plan', 'rebase')"
            )
            .bind(repo.as_i64())
            .bind(subject.to_string()),
            fetch_optional
        )?;
        let Some(at_work) = at_work else { return Ok(None) };
        let id: JobId = parse("jobs.id", &at_work)?;
        let Some(locked) = self.lock_job(&id).await? else {
            return Ok(None);
        };
        if locked.state()? != JobState::Leased {
            return Ok(None);
        }
        let event = RunEvent::Noted { text: text.to_owned() };
        self.log_event(&id, locked.fence(), &event, now).await?;
        Ok(Some(id))
    }
}
