//! Table `jobs`: inserting, loading and counting. Called by `queue`, by commands and pages that
//! show jobs. Never changes a job once it is there; that is `claims`, `transitions`, `cancel` and
//! `recovery`.

use chrono::{DateTime, Utc};

use super::row::{count, from_json, micros, parse, row, to_json, without_nul};
use super::{JobFilter, StoreError, Tx};
use crate::event::RunEvent;
use crate::ids::{InstallationId, JobId, RepoId};
use crate::job::{Job, JobState, NewJob};

/// The columns of [`JobRow`]. Named, not `*`: a prepared `SELECT *` fails on PostgreSQL when a
/// newer program adds a column meanwhile.
macro_rules! job_columns {
    () => {
        "id, repo_id, repo, installation_id, kind, subject, state, priority, run_at, attempt, \
         max_attempts, lost_leases, round, fence, lease_owner, lease_until, request, pins, \
         cancel_requested_at, reason, outcome, created_at, finished_at"
    };
}
pub(super) use job_columns;

row! {
    /// A job as it stands in the table.
    JobRow {
        id: String,
        repo_id: i64,
        repo: String,
        installation_id: i64,
        kind: String,
        subject: String,
        state: String,
        priority: i64,
        run_at: DateTime<Utc>,
        attempt: i64,
        max_attempts: i64,
        lost_leases: i64,
        round: i64,
        fence: i64,
        lease_owner: Option<String>,
        lease_until: Option<DateTime<Utc>>,
        request: String,
        pins: String,
        cancel_requested_at: Option<DateTime<Utc>>,
        reason: Option<String>,
        outcome: Option<String>,
        created_at: DateTime<Utc>,
        finished_at: Option<DateTime<Utc>>,
    }
}

/// The turn of a job that comes: behind the last one of its repository, but not before the head of
/// the queue. `turns` has the reasons. Each look is for the first in an order that one index has: for a
/// smallest or largest value a database may choose another one, and read it all. The parameters are those of [`Tx::insert_job`].
macro_rules! next_turn {
    () => {
        "(WITH RECURSIVE in_line(repo, place) AS (
              SELECT (
                         SELECT repo_id
                         FROM jobs
                         WHERE state = 'queued'
                           AND installation_id = $4
                         ORDER BY repo_id
                         LIMIT 1
                     ),
                     1
              UNION ALL
              SELECT (
                         SELECT repo_id
                         FROM jobs
                         WHERE state = 'queued'
                           AND installation_id = $4
                           AND repo_id > in_line.repo
                         ORDER BY repo_id
                         LIMIT 1
                     ),
                     in_line.place + 1
              FROM in_line
              WHERE in_line.repo IS NOT NULL
                AND in_line.place < 20
          ),
          queue(head, last, step) AS (
              SELECT COALESCE(
                         (
                             SELECT turn
                             FROM jobs
                             WHERE state = 'queued'
                               AND priority = $9
                               AND run_at <= $14
                             ORDER BY turn
                             LIMIT 1
                         ),
                         0
                     ),
                     (
                         SELECT turn
                         FROM jobs
                         WHERE state = 'queued'
                           AND installation_id = $4
                           AND repo_id = $2
                         ORDER BY turn DESC
                         LIMIT 1
                     ),
                     (SELECT 1000 * COUNT(repo) FROM in_line)
          )
          SELECT CASE WHEN last + step > head THEN last + step ELSE head END
          FROM queue)"
    };
}

/// A job that is not there yet.
macro_rules! insert {
    ($run_at:literal) => {
        concat!(
            "INSERT INTO jobs
                 (id, repo_id, repo, installation_id, kind, subject, lane, dedupe_key, state, priority, run_at,
                  attempt, max_attempts, lost_leases, round, fence, request, pins, created_at, unattended, turn)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'queued', $9, ",
            $run_at,
            ", 0, $11, 0, 0, 0, $12, $13, $14, $15, ",
            next_turn!(),
            ")
             ON CONFLICT DO NOTHING"
        )
    };
}

/// A job and the first entry of its log. Whoever wants it at once means at once, also where their clock is
/// ahead of the database's, by which jobs are claimed.
const INSERT_ON_POSTGRES: &str = concat!(
    "WITH inserted AS (",
    insert!("CASE WHEN $10 <= $14 THEN LEAST($10, CLOCK_TIMESTAMP()) ELSE $10 END"),
    "    RETURNING id
     )
     INSERT INTO job_events (job_id, seq, at, fence, kind, data)
     SELECT id, 1, $14, 0, $16, $17
     FROM inserted"
);

/// The same on SQLite, as two statements on one way to the connection's thread.
const INSERT_ON_SQLITE: &str = concat!(
    insert!("$10"),
    ";
     INSERT INTO job_events (job_id, seq, at, fence, kind, data)
     SELECT id, 1, $14, 0, $16, $17
     FROM jobs
     WHERE id = $1"
);

impl Tx {
    /// T1. `None` when a non-final job has the same dedupe key. Also writes the `queued` event.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn insert_job(&mut self, job: &NewJob, now: DateTime<Utc>) -> Result<Option<JobId>, StoreError> {
        let id = JobId::new(now);
        let run_at = match self {
            // The database's clock is this machine's.
            Tx::Sqlite(_) if job.run_at <= now => job.run_at.min(self.db_now().await?),
            _ => job.run_at,
        };
        let event = RunEvent::Queued;
        let insert = match self {
            Tx::Sqlite(_) => INSERT_ON_SQLITE,
            Tx::Postgres(_) => INSERT_ON_POSTGRES,
        };
        let inserted = on_db!(
            self,
            sqlx::query(insert)
                .bind(id.as_str())
                .bind(job.repo_id.as_i64())
                .bind(job.repo.as_str())
                .bind(job.installation.as_i64())
                .bind(job.kind.as_str())
                .bind(without_nul(&job.subject.to_string()))
                .bind(without_nul(&job.lane()))
                .bind(job.dedupe_key.as_deref().map(without_nul))
                .bind(i64::from(job.priority))
                .bind(micros(run_at))
                .bind(i64::from(job.max_attempts))
                .bind(to_json("jobs.request", &job.request)?)
                .bind(to_json("jobs.pins", &job.pins)?)
                .bind(micros(now))
                .bind(job.request.trigger.is_unattended())
                .bind(event.kind())
                .bind(to_json("job_events.data", &event)?),
            execute
        )?;
        if inserted == 0 {
            return Ok(None);
        }
        self.ring_on_commit();
        Ok(Some(id))
    }

    /// One job.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when a column does not parse.
    pub async fn job(&mut self, id: &JobId) -> Result<Option<Job>, StoreError> {
        let row: Option<JobRow> = on_db!(
            self,
            sqlx::query_as(concat!("SELECT ", job_columns!(), " FROM jobs WHERE id = $1")).bind(id.as_str()),
            fetch_optional
        )?;
        row.map(Job::try_from).transpose()
    }

    /// Jobs that pass a filter, newest first.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when a column does not parse.
    pub async fn jobs(&mut self, filter: &JobFilter) -> Result<Vec<Job>, StoreError> {
        // What may be absent keeps databases from using an index, and every delivery asks for a subject's jobs.
        // Ordered by the key alone, PostgreSQL might go through all jobs in that order instead.
        let select = match (&filter.repo_id, &filter.subject) {
            (Some(_), Some(_)) => concat!(
                "SELECT ",
                job_columns!(),
                " FROM jobs
                 WHERE repo_id = $2
                   AND subject = $3
                   AND ($1 = '' OR $1 LIKE '%,' || state || ',%')
                 ORDER BY created_at DESC, id DESC
                 LIMIT $4"
            ),
            _ => concat!(
                "SELECT ",
                job_columns!(),
                " FROM jobs
                 WHERE ($1 = '' OR $1 LIKE '%,' || state || ',%')
                   AND ($2 IS NULL OR repo_id = $2)
                   AND ($3 IS NULL OR subject = $3)
                 ORDER BY id DESC
                 LIMIT $4"
            ),
        };
        let rows: Vec<JobRow> = on_db!(
            self,
            sqlx::query_as(select)
                .bind(state_list(&filter.states))
                .bind(filter.repo_id.map(RepoId::as_i64))
                .bind(filter.subject.as_ref().map(ToString::to_string))
                .bind(i64::from(filter.limit)),
            fetch_all
        )?;
        rows.into_iter().map(Job::try_from).collect()
    }

    /// Count by state, for metrics. States without jobs are left out.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when a state does not parse.
    pub async fn job_counts(&mut self) -> Result<Vec<(JobState, u64)>, StoreError> {
        let counts: Vec<(String, i64)> = on_db!(
            self,
            sqlx::query_as(
                "SELECT state, COUNT(*)
                 FROM jobs
                 GROUP BY state
                 ORDER BY state"
            ),
            fetch_all
        )?;
        counts
            .into_iter()
            .map(|(state, jobs)| Ok((parse("jobs.state", &state)?, u64::try_from(jobs).unwrap_or(0))))
            .collect()
    }

    /// How many ready jobs go before this queued one.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn queue_position(&mut self, id: &JobId) -> Result<u64, StoreError> {
        let now = self.db_now().await?;
        let before: i64 = on_db!(
            self,
            sqlx::query_scalar(
                "SELECT COUNT(*)
                 FROM jobs AS mine
                 JOIN jobs AS other ON other.id <> mine.id
                 WHERE mine.id = $1
                   AND mine.state = 'queued'
                   AND other.run_at <= $2
                   AND (
                       (other.state = 'publishing' AND other.lease_token IS NULL)
                       OR (
                           other.state = 'queued'
                           AND (
                               other.priority > mine.priority
                               OR (
                                   other.priority = mine.priority
                                   AND (other.turn, other.id) < (mine.turn, mine.id)
                               )
                           )
                       )
                   )"
            )
            .bind(id.as_str())
            .bind(now),
            fetch_one
        )?;
        Ok(u64::try_from(before).unwrap_or(0))
    }
}

/// States as `,queued,leased,`: neither arrays nor lists of changing length are portable.
fn state_list(states: &[JobState]) -> String {
    let mut list = String::new();
    for state in states {
        list.push(',');
        list.push_str(state.as_str());
    }
    if !list.is_empty() {
        list.push(',');
    }
    list
}

impl TryFrom<JobRow> for Job {
    type Error = StoreError;

    fn try_from(row: JobRow) -> Result<Self, StoreError> {
        Ok(Self {
            id: parse("jobs.id", &row.id)?,
            repo_id: RepoId::from_i64(row.repo_id),
            repo: parse("jobs.repo", &row.repo)?,
            installation: InstallationId::from_i64(row.installation_id),
            kind: parse("jobs.kind", &row.kind)?,
            subject: parse("jobs.subject", &row.subject)?,
            state: parse("jobs.state", &row.state)?,
            priority: i32::try_from(row.priority)
                .map_err(|_| StoreError::Corrupt(format!("jobs.priority: {} is too large", row.priority)))?,
            run_at: row.run_at,
            attempt: count("jobs.attempt", row.attempt)?,
            max_attempts: count("jobs.max_attempts", row.max_attempts)?,
            lost_leases: count("jobs.lost_leases", row.lost_leases)?,
            round: count("jobs.round", row.round)?,
            fence: row.fence,
            lease_owner: row.lease_owner,
            lease_until: row.lease_until,
            request: from_json("jobs.request", &row.request)?,
            pins: from_json("jobs.pins", &row.pins)?,
            cancel_requested_at: row.cancel_requested_at,
            reason: row.reason,
            outcome: row
                .outcome
                .map(|outcome| from_json("jobs.outcome", &outcome))
                .transpose()?,
            created_at: row.created_at,
            finished_at: row.finished_at,
        })
    }
}
