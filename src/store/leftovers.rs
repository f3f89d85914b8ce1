//! Rows that nobody works on and that no ordinary step ends: jobs that are neither held nor ready, money
//! set aside for lost workers, effects of jobs that are over, branches of jobs that came to nothing.
//! Called by the worker's sweep and by `forgehand recover`, which shows them first. Never touches a job
//! whose lease is in force, and each statement says again what makes a row a leftover.

use chrono::{DateTime, Utc};

use super::row::{from_json, micros, parse, row};
use super::{StoreError, Tx};
use crate::effect::{EffectBody, EffectState};
use crate::event::RunEvent;
use crate::ids::{BranchName, CommitSha, InstallationId, JobId, RepoId, RepoName};
use crate::job::JobState;
use crate::money::Usd;

/// A job that is stuck, and in which state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckJob {
    /// The job.
    pub id: JobId,
    /// Where it stands.
    pub state: JobState,
}

/// An effect of a job that is over, which is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenEffect {
    /// The job.
    pub job: JobId,
    /// Its position there.
    pub seq: i64,
    /// What it does.
    pub kind: String,
    /// Where it stands: nobody knows whether one that is `unknown` is on GitHub.
    pub state: EffectState,
}

/// A branch that a job pushed which was given up or stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftBranch {
    /// The job.
    pub job: JobId,
    /// Its repository.
    pub repo_id: RepoId,
    /// By name, at the trigger.
    pub repo: RepoName,
    /// Through which installation.
    pub installation: InstallationId,
    /// The branch.
    pub branch: BranchName,
    /// Where the job left it.
    pub sha: CommitSha,
    /// When the job ended.
    pub since: DateTime<Utc>,
}

row! {
    Pushed {
        id: String,
        repo_id: i64,
        repo: String,
        installation_id: i64,
        body: String,
        remote_id: String,
        finished_at: DateTime<Utc>,
    }
}

impl Tx {
    /// Jobs that are not over and that nobody holds, waits for or could claim, at most `limit`.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn stuck(&mut self, limit: u32) -> Result<Vec<StuckJob>, StoreError> {
        let stuck: Vec<(String, String)> = on_db!(
            self,
            sqlx::query_as(
                "SELECT jobs.id, jobs.state
                 FROM jobs
                 WHERE jobs.state NOT IN ('done', 'dead', 'cancelled')
                   AND (
                       (jobs.state = 'leased'
                        AND (jobs.lease_token IS NULL OR jobs.lease_owner IS NULL OR jobs.lease_until IS NULL))
                       OR (jobs.state = 'publishing' AND (jobs.lease_token IS NULL) <> (jobs.lease_until IS NULL))
                       OR (jobs.state IN ('queued', 'waiting')
                           AND (jobs.lease_token IS NOT NULL
                                OR jobs.lease_owner IS NOT NULL
                                OR jobs.lease_until IS NOT NULL))
                       OR (jobs.state = 'waiting' AND NOT EXISTS (
                               SELECT 1
                               FROM questions
                               WHERE questions.job_id = jobs.id
                                 AND questions.round = jobs.round
                                 AND questions.taken_at IS NULL
                                 AND questions.expired_at IS NULL
                           ))
                   )
                 ORDER BY jobs.id
                 LIMIT $1"
            )
            .bind(i64::from(limit)),
            fetch_all
        )?;
        let job = |(id, state): (String, String)| {
            Ok(StuckJob {
                id: parse("jobs.id", &id)?,
                state: parse("jobs.state", &state)?,
            })
        };
        stuck.into_iter().map(job).collect()
    }

    /// Brings a stuck job back: without half a lease, and ready where nobody else would make it so. False:
    /// it is not stuck any more.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn free_stuck(&mut self, id: &JobId) -> Result<bool, StoreError> {
        let now = self.db_now().await?;
        let freed: Option<i64> = on_db!(
            self,
            sqlx::query_scalar(
                "UPDATE jobs
                 SET state = CASE
                         WHEN state = 'leased' THEN 'queued'
                         WHEN state = 'waiting' AND NOT EXISTS (
                             SELECT 1
                             FROM questions
                             WHERE questions.job_id = jobs.id
                               AND questions.round = jobs.round
                               AND questions.taken_at IS NULL
                               AND questions.expired_at IS NULL
                         ) THEN 'queued'
                         ELSE state
                     END,
                     run_at = CASE WHEN state IN ('leased', 'waiting') THEN $2 ELSE run_at END,
                     lease_token = NULL,
                     lease_owner = NULL,
                     lease_until = NULL
                 WHERE id = $1
                   AND (
                       (state = 'leased' AND (lease_token IS NULL OR lease_owner IS NULL OR lease_until IS NULL))
                       OR (state = 'publishing' AND (lease_token IS NULL) <> (lease_until IS NULL))
                       OR (state IN ('queued', 'waiting')
                           AND (lease_token IS NOT NULL OR lease_owner IS NOT NULL OR lease_until IS NOT NULL))
                       OR (state = 'waiting' AND NOT EXISTS (
                               SELECT 1
                               FROM questions
                               WHERE questions.job_id = jobs.id
                                 AND questions.round = jobs.round
                                 AND questions.taken_at IS NULL
                                 AND questions.expired_at IS NULL
                           ))
                   )
                 RETURNING fence"
            )
            .bind(id.as_str())
            .bind(micros(now)),
            fetch_optional
        )?;
        let Some(fence) = freed else {
            return Ok(false);
        };
        let event = RunEvent::Recovered { worker: String::new() };
        self.log_event(id, fence, &event, now).await?;
        self.ring_on_commit();
        Ok(true)
    }

    /// Money that is set aside for calls of workers that are gone, at most `limit` jobs.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn stale_reservations(&mut self, limit: u32) -> Result<Vec<(JobId, Usd)>, StoreError> {
        let stale: Vec<(String, i64)> = on_db!(
            self,
            sqlx::query_as(
                "SELECT job_id, micro_usd
                 FROM reservations
                 WHERE NOT EXISTS (
                     SELECT 1
                     FROM jobs
                     WHERE jobs.id = reservations.job_id
                       AND jobs.fence = reservations.fence
                       AND jobs.state = 'leased'
                 )
                 ORDER BY job_id
                 LIMIT $1"
            )
            .bind(i64::from(limit)),
            fetch_all
        )?;
        let sum = |(job, micros): (String, i64)| Ok((parse("reservations.job_id", &job)?, Usd::from_micros(micros)));
        stale.into_iter().map(sum).collect()
    }

    /// Gives it back; returns how many jobs had some.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn free_stale_reservations(&mut self) -> Result<u64, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query(
                "DELETE FROM reservations
                 WHERE NOT EXISTS (
                     SELECT 1
                     FROM jobs
                     WHERE jobs.id = reservations.job_id
                       AND jobs.fence = reservations.fence
                       AND jobs.state = 'leased'
                 )"
            ),
            execute
        )?)
    }

    /// Waiting jobs whose question nobody answered in time, at most `limit`.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn overdue_questions(&mut self, limit: u32) -> Result<Vec<JobId>, StoreError> {
        let now = self.db_now().await?;
        let overdue: Vec<String> = on_db!(
            self,
            sqlx::query_scalar(
                "SELECT DISTINCT jobs.id
                 FROM jobs
                 JOIN questions ON questions.job_id = jobs.id
                 WHERE jobs.state = 'waiting'
                   AND questions.round = jobs.round
                   AND questions.taken_at IS NULL
                   AND questions.expired_at IS NULL
                   AND questions.answer_by <= $1
                 ORDER BY jobs.id
                 LIMIT $2"
            )
            .bind(micros(now))
            .bind(i64::from(limit)),
            fetch_all
        )?;
        overdue.iter().map(|id| parse("jobs.id", id)).collect()
    }

    /// Effects of jobs that are over, which are not, at most `limit`.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn effects_left_open(&mut self, limit: u32) -> Result<Vec<OpenEffect>, StoreError> {
        let left: Vec<(String, i64, String, String)> = on_db!(
            self,
            sqlx::query_as(
                "SELECT effects.job_id, effects.seq, effects.kind, effects.state
                 FROM effects
                 JOIN jobs ON jobs.id = effects.job_id
                 WHERE effects.state IN ('pending', 'sending', 'unknown')
                   AND jobs.state IN ('done', 'dead', 'cancelled')
                 ORDER BY effects.job_id, effects.seq
                 LIMIT $1"
            )
            .bind(i64::from(limit)),
            fetch_all
        )?;
        let open = |(job, seq, kind, state): (String, i64, String, String)| {
            Ok(OpenEffect {
                job: parse("effects.job_id", &job)?,
                seq,
                kind,
                state: parse("effects.state", &state)?,
            })
        };
        left.into_iter().map(open).collect()
    }

    /// Ends an effect of a job that is over: one that never left is skipped, and of one that was on its way
    /// nobody knows. False: there is nothing to end.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn end_open_effect(&mut self, job: &JobId, seq: i64) -> Result<bool, StoreError> {
        let ended = on_db!(
            self,
            sqlx::query(
                "UPDATE effects
                 SET state = CASE state WHEN 'pending' THEN 'skipped' ELSE 'unknown' END
                 WHERE job_id = $1
                   AND seq = $2
                   AND state IN ('pending', 'sending')
                   AND EXISTS (
                       SELECT 1
                       FROM jobs
                       WHERE jobs.id = effects.job_id
                         AND jobs.state IN ('done', 'dead', 'cancelled')
                   )"
            )
            .bind(job.as_str())
            .bind(seq),
            execute
        )?;
        Ok(ended == 1)
    }

    /// Branches of the jobs' own repositories that were pushed by jobs which were given up or stopped and
    /// opened no pull request, oldest first, at most `limit`. Not those that a job pushed to which is alive
    /// or done.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn branches_left(&mut self, limit: u32) -> Result<Vec<LeftBranch>, StoreError> {
        let pushed: Vec<Pushed> = on_db!(
            self,
            sqlx::query_as(
                "SELECT jobs.id, jobs.repo_id, jobs.repo, jobs.installation_id, effects.body, effects.remote_id,
                        jobs.finished_at
                 FROM effects
                 JOIN jobs ON jobs.id = effects.job_id
                 WHERE effects.kind = 'push'
                   AND effects.state = 'done'
                   AND effects.remote_id LIKE '%@%'
                   AND jobs.state IN ('dead', 'cancelled')
                   AND jobs.finished_at IS NOT NULL
                   AND NOT EXISTS (
                       SELECT 1
                       FROM effects AS opened
                       WHERE opened.job_id = jobs.id
                         AND opened.kind = 'open_pull'
                         AND opened.state IN ('done', 'sending', 'unknown')
                   )
                   AND NOT EXISTS (
                       SELECT 1
                       FROM jobs AS other
                       WHERE other.repo_id = jobs.repo_id
                         AND other.subject = jobs.subject
                         AND other.state NOT IN ('dead', 'cancelled')
                   )
                 ORDER BY jobs.finished_at, jobs.id, effects.seq
                 LIMIT $1"
            )
            .bind(i64::from(limit)),
            fetch_all
        )?;
        let mut left: Vec<LeftBranch> = Vec::new();
        for row in pushed {
            if let Some(branch) = own_branch(&row)? {
                // The last push of several is where the job left it.
                left.retain(|other| (other.repo_id, &other.branch) != (branch.repo_id, &branch.branch));
                left.push(branch);
            }
        }
        Ok(left)
    }
}

/// The branch of a push, where it is one that the job made: not somebody's, and not in a fork.
fn own_branch(row: &Pushed) -> Result<Option<LeftBranch>, StoreError> {
    let body: EffectBody = from_json("effects.body", &row.body)?;
    let EffectBody::Push {
        to: None, expect: None, ..
    } = body
    else {
        return Ok(None);
    };
    let Some((branch, sha)) = row.remote_id.rsplit_once('@') else {
        return Ok(None);
    };
    Ok(Some(LeftBranch {
        job: parse("jobs.id", &row.id)?,
        repo_id: RepoId::from_i64(row.repo_id),
        repo: parse("jobs.repo", &row.repo)?,
        installation: InstallationId::from_i64(row.installation_id),
        branch: parse("effects.remote_id", branch)?,
        sha: parse("effects.remote_id", sha)?,
        since: row.finished_at,
    }))
}
