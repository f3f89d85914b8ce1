//! What leaves the database when it is old: which jobs may go, and their removal with everything that
//! belongs to them. Called by `retention`, which has each job in a file first.
//! Never removes a job that is not over, that changed since it was read, or that another row needs.

use chrono::{DateTime, NaiveDate, Utc};
use serde::Serialize;

use super::archive::JobTable;
use super::row::{micros, parse, row};
use super::{StoreError, Tx};
use crate::audit::Act;
use crate::ids::JobId;

/// What bounds a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kept", content = "by")]
pub enum Kept {
    /// Its rows go into the file of their job and are removed with it.
    WithJob,
    /// Its rows are removed when they are older than this key of the configuration says.
    Days(&'static str),
    /// Its rows stay; this bounds them.
    Bounded(&'static str),
}

/// Every table with what bounds it. A migration that adds one adds it here, too: a test compares.
pub const TABLES: &[(&str, Kept)] = &[
    ("alerts", Kept::Bounded("30 days after they were sent or given up")),
    ("answers", Kept::WithJob),
    ("audit", Kept::Days("retention.audit_days")),
    ("audit_chain", Kept::Bounded("one row")),
    ("autotask_switches", Kept::Days("retention.runs_days")),
    ("cap_warnings", Kept::WithJob),
    (
        "causes",
        Kept::Bounded("20 trees of 200 hypotheses for each repository"),
    ),
    ("checkpoints", Kept::WithJob),
    ("content_writes", Kept::Bounded("the last hour of each installation")),
    ("conversation", Kept::WithJob),
    ("deliveries", Kept::Days("retention.deliveries_days")),
    (
        "draft_numbers",
        Kept::Bounded("one short row for each issue that drafts were offered on"),
    ),
    ("drafts", Kept::WithJob),
    ("effects", Kept::WithJob),
    (
        "graphs",
        Kept::Bounded("what people planned; `milestones remove` removes it"),
    ),
    ("instructions", Kept::WithJob),
    ("job_events", Kept::WithJob),
    ("jobs", Kept::Days("retention.runs_days")),
    ("leaders", Kept::Bounded("one row for each kind of loops")),
    ("ledger", Kept::WithJob),
    ("ledger_days", Kept::Days("retention.costs_days")),
    ("looks", Kept::Bounded("one row for each repository")),
    ("milestones", Kept::Bounded("200 for each graph")),
    ("missions", Kept::Days("ledger.keep_days")),
    ("notes", Kept::Bounded("200 for each repository")),
    ("questions", Kept::WithJob),
    ("queue_cursors", Kept::Bounded("one row for each queue of a repository")),
    ("queue_items", Kept::Days("retention.runs_days")),
    ("rate_limits", Kept::Bounded("a few rows for each installation")),
    (
        "repositories",
        Kept::Bounded("one row for each repository that the App was installed on"),
    ),
    ("repository_labels", Kept::Bounded("one row for each repository")),
    ("reservations", Kept::WithJob),
    ("schedule_cursors", Kept::Bounded("one row for each name of a schedule")),
    ("schedule_fires", Kept::Days("retention.runs_days")),
    (
        "schedules",
        Kept::Bounded("what people added; `schedule remove` removes it"),
    ),
    ("schema_compat", Kept::Bounded("one row")),
    (
        "subject_caps",
        Kept::Bounded("one row for each issue that somebody set a budget for"),
    ),
    ("upkeep", Kept::Bounded("one row for each kind of upkeep")),
    ("write_budgets", Kept::Bounded("one row for each installation")),
];

/// Which jobs are old.
#[derive(Debug, Clone, Copy)]
pub struct Old {
    /// Those that ended before this time,
    pub before: DateTime<Utc>,
    /// and, where nobody waited for them, have their record, or ended before this time, when records
    /// leave, too.
    pub records_before: DateTime<Utc>,
}

/// A job that may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldJob {
    /// Its id.
    pub id: JobId,
    /// When it ended.
    pub finished_at: DateTime<Utc>,
    /// Its fence: with it, whoever began it again since is noticed.
    pub fence: i64,
    /// Its round, likewise.
    pub round: i64,
}

/// What became of the removal of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// It is removed.
    Removed,
    /// Somebody began it again, or needs it.
    Stays,
    /// It was not there any more.
    Before,
}

row! {
    Stored {
        id: String,
        finished_at: DateTime<Utc>,
        fence: i64,
        round: i64,
    }
}

/// What holds for every job that may go. What another row needs stays: the record of an unattended run
/// that is not written yet, a milestone whose end was not noted, a draft that is being created or whose
/// own job stays, and the last branch of a task, which its next run goes on with.
macro_rules! may_go {
    () => {
        "state IN ('done', 'dead', 'cancelled')
         AND finished_at < $1
         AND (
             NOT unattended
             OR finished_at < $2
             OR EXISTS (SELECT 1 FROM missions WHERE missions.job_id = jobs.id AND missions.round = jobs.round)
         )
         AND NOT EXISTS (SELECT 1 FROM milestones WHERE milestones.holder = 'job/' || jobs.id)
         AND NOT EXISTS (
             SELECT 1
             FROM drafts
             JOIN jobs AS creator ON creator.id = drafts.confirmed_job
             WHERE drafts.job_id = jobs.id
               AND creator.state NOT IN ('done', 'dead', 'cancelled')
         )
         AND NOT EXISTS (
             SELECT 1
             FROM drafts
             WHERE drafts.confirmed_job = jobs.id
               AND drafts.job_id <> jobs.id
         )
         AND (
             subject NOT LIKE 'task/%'
             OR state <> 'done'
             OR (outcome NOT LIKE '{\"outcome\":\"opened\"%' AND outcome NOT LIKE '{\"outcome\":\"pushed\"%')
             OR EXISTS (
                 SELECT 1
                 FROM jobs AS later
                 WHERE later.repo_id = jobs.repo_id
                   AND later.subject = jobs.subject
                   AND later.state = 'done'
                   AND later.id > jobs.id
                   AND (later.outcome LIKE '{\"outcome\":\"opened\"%' OR later.outcome LIKE '{\"outcome\":\"pushed\"%')
             )
         )"
    };
}

impl Tx {
    /// Jobs that may go, the oldest first, after one.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn old_jobs(&mut self, old: Old, after: Option<&JobId>, limit: u32) -> Result<Vec<OldJob>, StoreError> {
        // No job ends before it was made, and ids begin with that time: younger ones are not looked at.
        let youngest = JobId::new(old.before);
        let stored: Vec<Stored> = on_db!(
            self,
            sqlx::query_as(concat!(
                "SELECT id, finished_at, fence, round FROM jobs WHERE ",
                may_go!(),
                " AND id > $3 AND id < $4 ORDER BY id LIMIT $5"
            ))
            .bind(micros(old.before))
            .bind(micros(old.records_before))
            .bind(after.map_or("", JobId::as_str))
            .bind(youngest.as_str())
            .bind(i64::from(limit)),
            fetch_all
        )?;
        stored
            .into_iter()
            .map(|stored| {
                Ok(OldJob {
                    id: parse("jobs.id", &stored.id)?,
                    finished_at: stored.finished_at,
                    fence: stored.fence,
                    round: stored.round,
                })
            })
            .collect()
    }

    /// How many jobs may go.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn count_old_jobs(&mut self, old: Old) -> Result<i64, StoreError> {
        let youngest = JobId::new(old.before);
        Ok(on_db!(
            self,
            sqlx::query_scalar(concat!("SELECT COUNT(*) FROM jobs WHERE ", may_go!(), " AND id < $3"))
                .bind(micros(old.before))
                .bind(micros(old.records_before))
                .bind(youngest.as_str()),
            fetch_one
        )?)
    }

    /// Removes a job that stands in a file with everything that belongs to it; what its calls cost and the
    /// last number of its drafts stay as sums.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn remove_job(&mut self, job: &OldJob, old: Old, act: Act) -> Result<Gone, StoreError> {
        let Some(locked) = self.lock_job(&job.id).await? else {
            return Ok(Gone::Before);
        };
        let is_same: Option<i64> = on_db!(
            self,
            sqlx::query_scalar(concat!(
                "SELECT CAST(1 AS BIGINT) FROM jobs WHERE ",
                may_go!(),
                " AND id = $3 AND finished_at = $4 AND round = $5"
            ))
            .bind(micros(old.before))
            .bind(micros(old.records_before))
            .bind(job.id.as_str())
            .bind(micros(job.finished_at))
            .bind(job.round),
            fetch_optional
        )?;
        if is_same.is_none() || locked.fence() != job.fence {
            return Ok(Gone::Stays);
        }
        self.audit_job(act, &job.id, super::audit::Whose::Act).await?;
        self.sum_up_costs(&job.id).await?;
        self.keep_draft_numbers(&job.id).await?;
        on_db!(
            self,
            sqlx::query("UPDATE queue_items SET job_id = NULL WHERE job_id = $1").bind(job.id.as_str()),
            execute
        )?;
        for table in JobTable::ALL.iter().rev() {
            self.remove_rows(*table, &job.id).await?;
        }
        Ok(Gone::Removed)
    }

    async fn remove_rows(&mut self, table: JobTable, job: &JobId) -> Result<(), StoreError> {
        let statement = match table {
            JobTable::Jobs => "DELETE FROM jobs WHERE id = $1",
            JobTable::JobEvents => "DELETE FROM job_events WHERE job_id = $1",
            JobTable::Effects => "DELETE FROM effects WHERE job_id = $1",
            JobTable::Checkpoints => "DELETE FROM checkpoints WHERE job_id = $1",
            JobTable::Conversation => "DELETE FROM conversation WHERE job_id = $1",
            JobTable::Questions => "DELETE FROM questions WHERE job_id = $1",
            JobTable::Answers => "DELETE FROM answers WHERE job_id = $1",
            JobTable::Instructions => "DELETE FROM instructions WHERE job_id = $1",
            JobTable::Ledger => "DELETE FROM ledger WHERE job_id = $1",
            JobTable::Reservations => "DELETE FROM reservations WHERE job_id = $1",
            JobTable::CapWarnings => "DELETE FROM cap_warnings WHERE job_id = $1",
            JobTable::Drafts => "DELETE FROM drafts WHERE job_id = $1",
            JobTable::ScheduleFires => "DELETE FROM schedule_fires WHERE job_id = $1",
        };
        on_db!(self, sqlx::query(statement).bind(job.as_str()), execute)?;
        Ok(())
    }

    /// What a job's calls cost goes on counting for the caps of its issue, and in sums by day.
    async fn sum_up_costs(&mut self, job: &JobId) -> Result<(), StoreError> {
        on_db!(
            self,
            sqlx::query(
                "INSERT INTO ledger_days (
                     day, repo_id, installation_id, subject, model, repo, calls, input_tokens, output_tokens,
                     micro_usd, unpriced_calls, unpriced_tokens
                 )
                 SELECT day, repo_id, installation_id, subject, model, MAX(repo), COUNT(*),
                        CAST(SUM(input_tokens) AS BIGINT), CAST(SUM(output_tokens) AS BIGINT),
                        CAST(COALESCE(SUM(micro_usd), 0) AS BIGINT),
                        CAST(SUM(CASE WHEN micro_usd IS NULL THEN 1 ELSE 0 END) AS BIGINT),
                        CAST(SUM(CASE WHEN micro_usd IS NULL THEN input_tokens + output_tokens ELSE 0 END) AS BIGINT)
                 FROM ledger
                 WHERE job_id = $1
                 GROUP BY day, repo_id, installation_id, subject, model
                 ON CONFLICT (day, repo_id, installation_id, subject, model) DO UPDATE
                 SET calls = ledger_days.calls + excluded.calls,
                     input_tokens = ledger_days.input_tokens + excluded.input_tokens,
                     output_tokens = ledger_days.output_tokens + excluded.output_tokens,
                     micro_usd = ledger_days.micro_usd + excluded.micro_usd,
                     unpriced_calls = ledger_days.unpriced_calls + excluded.unpriced_calls,
                     unpriced_tokens = ledger_days.unpriced_tokens + excluded.unpriced_tokens"
            )
            .bind(job.as_str()),
            execute
        )?;
        Ok(())
    }

    async fn keep_draft_numbers(&mut self, job: &JobId) -> Result<(), StoreError> {
        on_db!(
            self,
            sqlx::query(
                "INSERT INTO draft_numbers (repo_id, subject, last_number)
                 SELECT repo_id, subject, MAX(number)
                 FROM drafts
                 WHERE job_id = $1
                 GROUP BY repo_id, subject
                 ON CONFLICT (repo_id, subject) DO UPDATE
                 SET last_number = CASE
                     WHEN excluded.last_number > draft_numbers.last_number THEN excluded.last_number
                     ELSE draft_numbers.last_number
                 END"
            )
            .bind(job.as_str()),
            execute
        )?;
        Ok(())
    }

    /// Removes fires of schedules before a time that began nothing; those that began a job go with it.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn forget_fires_before(&mut self, before: DateTime<Utc>, limit: u32) -> Result<u64, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query(
                "DELETE FROM schedule_fires
                 WHERE (name, fire_at) IN (
                     SELECT name, fire_at
                     FROM schedule_fires
                     WHERE fire_at < $1
                       AND job_id IS NULL
                     ORDER BY fire_at
                     LIMIT $2
                 )"
            )
            .bind(micros(before))
            .bind(i64::from(limit)),
            execute
        )?)
    }

    /// Removes what is known of issues that left a queue and were last seen there before a time, also of
    /// queues that nobody looks into any more.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn forget_left_items(&mut self, before: DateTime<Utc>, limit: u32) -> Result<u64, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query(
                "DELETE FROM queue_items
                 WHERE (source, repo_id, number) IN (
                     SELECT source, repo_id, number
                     FROM queue_items
                     WHERE seen_at < $1
                       AND absent > 0
                       AND state <> 'working'
                     LIMIT $2
                 )"
            )
            .bind(micros(before))
            .bind(i64::from(limit)),
            execute
        )?)
    }

    /// Removes switches of issue queues before a time that a later one of the repository took the place of.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn forget_switches(&mut self, before: DateTime<Utc>, limit: u32) -> Result<u64, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query(
                "DELETE FROM autotask_switches
                 WHERE id IN (
                     SELECT switches.id
                     FROM autotask_switches AS switches
                     WHERE switches.at < $1
                       AND EXISTS (
                           SELECT 1
                           FROM autotask_switches AS later
                           WHERE later.repo = switches.repo
                             AND (later.at, later.id) > (switches.at, switches.id)
                       )
                     LIMIT $2
                 )"
            )
            .bind(micros(before))
            .bind(i64::from(limit)),
            execute
        )?)
    }

    /// Removes sums of what calls cost on days before one.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn forget_costs(&mut self, before: NaiveDate, limit: u32) -> Result<u64, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query(
                "DELETE FROM ledger_days
                 WHERE (day, repo_id, installation_id, subject, model) IN (
                     SELECT day, repo_id, installation_id, subject, model
                     FROM ledger_days
                     WHERE day < $1
                     LIMIT $2
                 )"
            )
            .bind(before.format("%Y-%m-%d").to_string())
            .bind(i64::from(limit)),
            execute
        )?)
    }

    /// Takes the turn to do some upkeep, or keeps it, until `seconds` from now by the database's clock.
    /// False: somebody else has it.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn take_upkeep(&mut self, name: &str, holder: &str, seconds: u32) -> Result<bool, StoreError> {
        let now = self.db_now().await?;
        let taken = on_db!(
            self,
            sqlx::query(
                "INSERT INTO upkeep (name, holder, held_until)
                 VALUES ($1, $2, $3)
                 ON CONFLICT (name) DO UPDATE
                 SET holder = excluded.holder,
                     held_until = excluded.held_until
                 WHERE upkeep.holder = excluded.holder
                    OR upkeep.held_until <= $4"
            )
            .bind(name)
            .bind(holder)
            .bind(micros(now + chrono::TimeDelta::seconds(i64::from(seconds))))
            .bind(micros(now)),
            execute
        )?;
        Ok(taken == 1)
    }

    /// Gives a turn back.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn leave_upkeep(&mut self, name: &str, holder: &str) -> Result<(), StoreError> {
        on_db!(
            self,
            sqlx::query("DELETE FROM upkeep WHERE name = $1 AND holder = $2")
                .bind(name)
                .bind(holder),
            execute
        )?;
        Ok(())
    }

    /// How many rows a table has. The name is one of [`TABLES`].
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] for another name, and those of the database.
    pub async fn count_rows(&mut self, table: &str) -> Result<i64, StoreError> {
        let known = TABLES.iter().find(|(name, _)| *name == table);
        let (name, _) = known.ok_or_else(|| StoreError::Corrupt(format!("there is no table {table}")))?;
        let query = sqlx::AssertSqlSafe(format!("SELECT COUNT(*) FROM {name}"));
        Ok(on_db!(self, sqlx::query_scalar(query), fetch_one)?)
    }
}
