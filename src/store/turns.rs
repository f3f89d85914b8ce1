//! Whose turn it is: the order of the queue and the limits of what is at work at once, as the
//! statements that choose jobs and give them away. Called by `claims`.
//! Never decides by a worker's clock, and never by anything that is not in the table.
//!
//! The order is start-time fair queueing: a job that comes gets a `turn` behind the last one of its
//! repository, but not before the head of the queue (`insert_job` computes it), so that a
//! repository that asks for a hundred things shares with others from the first one on. The step
//! from turn to turn grows with the number of repositories of the installation that stand in line,
//! which shares between installations. (Goyal, Vin and Cheng, "Start-time Fair Queueing", 1996.)

use chrono::{DateTime, Utc};
use sqlx::{FromRow as _, Row as _};

use super::claims::Claim;
use super::jobs::{JobRow, job_columns};
use super::row::{micros, to_json};
use super::{StoreError, Tx};
use crate::event::RunEvent;

/// With limits, only so many jobs from the head of the queue are looked at: those of repositories
/// that are at their limit stay there and are passed over each time.
const WINDOW: i64 = 1_000;

/// Serialises claims under limits on PostgreSQL: two that count at once would both find room.
const CLAIM_LOCK: i64 = 0x666f_7267_6500_0002;

/// Ready, first of its lane, and nobody is at work in the lane.
macro_rules! ready {
    ($now:literal) => {
        concat!(
            "state = 'queued'
             AND run_at <= ",
            $now,
            "
             AND NOT EXISTS (
                 SELECT 1
                 FROM jobs AS busy
                 WHERE busy.repo_id = jobs.repo_id
                   AND busy.lane = jobs.lane
                   AND busy.state IN ('leased', 'waiting', 'publishing')
             )
             AND NOT EXISTS (
                 SELECT 1
                 FROM jobs AS earlier
                 WHERE earlier.repo_id = jobs.repo_id
                   AND earlier.subject = jobs.subject
                   AND earlier.lane = jobs.lane
                   AND earlier.state = 'queued'
                   AND earlier.run_at <= ",
            $now,
            "
                   AND (
                       earlier.priority > jobs.priority
                       OR (
                           earlier.priority = jobs.priority
                           AND (earlier.turn, earlier.id) < (jobs.turn, jobs.id)
                       )
                   )
             )"
        )
    };
}

/// A job whose work is stored and whose effects wait for a worker: it goes first, and its lane is
/// its own already.
macro_rules! resumed {
    ($now:literal) => {
        concat!(
            "SELECT id
             FROM jobs
             WHERE state = 'publishing'
               AND lease_token IS NULL
               AND run_at <= ",
            $now,
            "
             ORDER BY priority DESC, run_at, id
             LIMIT $2"
        )
    };
}

/// Within the window, room in the repository and in its installation. Commands that control work
/// (their lane is not the subject's) need no room.
macro_rules! within_limits {
    () => {
        "jobs.id IN (
             SELECT near.id
             FROM jobs AS near
             WHERE near.state = 'queued'
               AND near.run_at <= $1
             ORDER BY near.priority DESC, near.turn, near.id
             LIMIT $3
         )
         AND (
             jobs.lane <> jobs.subject
             OR (
                 $4 = 1
                 AND (
                     $5 = 0
                     OR $5 > (
                         SELECT COUNT(*)
                         FROM jobs AS active
                         WHERE active.installation_id = jobs.installation_id
                           AND active.state IN ('leased', 'publishing')
                           AND active.lease_token IS NOT NULL
                           AND active.lane = active.subject
                     )
                 )
                 AND (
                     $6 = 0
                     OR $6 > (
                         SELECT COUNT(*)
                         FROM jobs AS active
                         WHERE active.installation_id = jobs.installation_id
                           AND active.repo_id = jobs.repo_id
                           AND active.state IN ('leased', 'publishing')
                           AND active.lease_token IS NOT NULL
                           AND active.lane = active.subject
                     )
                 )
             )
         )"
    };
}

/// What a claim writes.
macro_rules! lease {
    ($until:literal) => {
        concat!(
            "state = CASE state WHEN 'queued' THEN 'leased' ELSE state END,
             fence = fence + 1,
             attempt = attempt + 1,
             lease_token = $3,
             lease_owner = $4,
             lease_until = ",
            $until
        )
    };
}

/// All of a claim in one statement, so that it costs one way to the server and back.
const TAKE_AT_ONCE: &str = concat!(
    "WITH clock AS MATERIALIZED (
         SELECT CLOCK_TIMESTAMP() AS now
     ),
     resumed AS (",
    resumed!("(SELECT now FROM clock)"),
    "    FOR UPDATE SKIP LOCKED
     ),
     ready AS (
         SELECT id
         FROM jobs
         WHERE ",
    ready!("(SELECT now FROM clock)"),
    "    ORDER BY priority DESC, turn, id
         LIMIT $2
         FOR UPDATE SKIP LOCKED
     ),
     chosen AS (
         SELECT id FROM resumed
         UNION ALL
         SELECT id FROM ready
         LIMIT $2
     ),
     taken AS (
         UPDATE jobs
         SET ",
    lease!("(SELECT now FROM clock) + MAKE_INTERVAL(secs => $1)"),
    "    FROM chosen
         WHERE jobs.id = chosen.id
         RETURNING jobs.*
     ),
     logged AS (
         INSERT INTO job_events (job_id, seq, at, fence, kind, data)
         SELECT taken.id,
                (SELECT COALESCE(MAX(seq), 0) + 1 FROM job_events WHERE job_events.job_id = taken.id),
                (SELECT now FROM clock),
                taken.fence,
                'claimed',
                $5 || CAST(taken.attempt AS TEXT) || '}'
         FROM taken
     )
     SELECT ",
    job_columns!(),
    " FROM taken
     ORDER BY priority DESC, turn, id"
);

/// The same on SQLite, which logs in a statement of its own. The order of its rows is undefined.
const TAKE_ON_SQLITE: &str = concat!(
    "UPDATE jobs
     SET ",
    lease!("$5"),
    " WHERE id IN (
         SELECT id FROM (",
    resumed!("$1"),
    "    )
         UNION ALL
         SELECT id
         FROM (
             SELECT id
             FROM jobs
             WHERE ",
    ready!("$1"),
    "        ORDER BY priority DESC, turn, id
             LIMIT $2
         )
         LIMIT $2
     )
     RETURNING turn, ",
    job_columns!()
);

/// PostgreSQL without limits: everything in one statement. Its rows are the jobs with their leases.
pub(super) async fn take_at_once(
    connection: &mut sqlx::PgConnection,
    claim: &Claim<'_>,
    token: &str,
) -> Result<Vec<JobRow>, sqlx::Error> {
    sqlx::query_as(TAKE_AT_ONCE)
        .bind(claim.lease_seconds())
        .bind(i64::from(claim.most))
        .bind(token)
        .bind(claim.owner)
        .bind(claimed_json(claim.owner)?)
        .fetch_all(connection)
        .await
}

/// SQLite without limits: two statements, however many jobs there are.
pub(super) async fn take_on_sqlite(
    connection: &mut sqlx::SqliteConnection,
    claim: &Claim<'_>,
    token: &str,
    (now, until): (DateTime<Utc>, DateTime<Utc>),
) -> Result<Vec<JobRow>, sqlx::Error> {
    let taken = sqlx::query(TAKE_ON_SQLITE)
        .bind(now)
        .bind(i64::from(claim.most))
        .bind(token)
        .bind(claim.owner)
        .bind(micros(until))
        .fetch_all(&mut *connection)
        .await?;
    let mut rows = Vec::new();
    for row in &taken {
        rows.push((row.try_get::<i64, _>("turn")?, JobRow::from_row(row)?));
    }
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    rows.sort_by(|(turn, a), (other, b)| (b.priority, turn, &a.id).cmp(&(a.priority, other, &b.id)));
    let rows: Vec<JobRow> = rows.into_iter().map(|(_, row)| row).collect();
    let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    let ids = to_json("jobs.id", &ids).map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
    sqlx::query(
        "INSERT INTO job_events (job_id, seq, at, fence, kind, data)
         SELECT jobs.id,
                (SELECT COALESCE(MAX(seq), 0) + 1 FROM job_events WHERE job_events.job_id = jobs.id),
                $2,
                jobs.fence,
                'claimed',
                $3 || CAST(jobs.attempt AS TEXT) || '}'
         FROM JSON_EACH($1) AS taken
         JOIN jobs ON jobs.id = taken.value",
    )
    .bind(ids)
    .bind(micros(now))
    .bind(claimed_json(claim.owner)?)
    .execute(connection)
    .await?;
    Ok(rows)
}

/// The log's entry up to the number of the attempt, which only the row knows.
fn claimed_json(owner: &str) -> Result<String, sqlx::Error> {
    let event = RunEvent::Claimed {
        worker: owner.to_owned(),
        attempt: 0,
    };
    let json = to_json("job_events.data", &event).map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
    json.strip_suffix("0}")
        .map(str::to_owned)
        .ok_or_else(|| sqlx::Error::Encode("the number of the attempt is the last field of a claim's entry".into()))
}

impl Tx {
    /// Jobs that could be taken now, in their order, at most `claim.most`. With limits at most one,
    /// since each that is taken changes what has room; and nobody else counts until this ends.
    pub(super) async fn choose(&mut self, claim: &Claim<'_>, now: DateTime<Utc>) -> Result<Vec<String>, StoreError> {
        if !claim.limits.any() {
            return self.choose_any(now, i64::from(claim.most)).await;
        }
        self.take_turn(CLAIM_LOCK).await?;
        let resumed = match self {
            Tx::Sqlite(_) => resumed!("$1"),
            Tx::Postgres(_) => concat!(resumed!("$1"), " FOR UPDATE SKIP LOCKED"),
        };
        let chosen: Vec<String> = on_db!(self, sqlx::query_scalar(resumed).bind(now).bind(1_i64), fetch_all)?;
        match chosen.is_empty() {
            true => self.ready_within_limits(claim, now).await,
            false => Ok(chosen),
        }
    }

    /// Without limits, in one statement: what it costs is the way to the server, or on SQLite to the
    /// connection's thread, and back.
    async fn choose_any(&mut self, now: DateTime<Utc>, most: i64) -> Result<Vec<String>, StoreError> {
        let both = match self {
            Tx::Sqlite(_) => concat!(
                "SELECT id FROM (",
                resumed!("$1"),
                ") UNION ALL SELECT id FROM (SELECT id FROM jobs WHERE ",
                ready!("$1"),
                " ORDER BY priority DESC, turn, id LIMIT $2) LIMIT $2"
            ),
            Tx::Postgres(_) => concat!(
                "SELECT id FROM (",
                resumed!("$1"),
                " FOR UPDATE SKIP LOCKED) AS resumed UNION ALL SELECT id FROM (SELECT id FROM jobs WHERE ",
                ready!("$1"),
                " ORDER BY priority DESC, turn, id LIMIT $2 FOR UPDATE SKIP LOCKED) AS ready LIMIT $2"
            ),
        };
        Ok(on_db!(self, sqlx::query_scalar(both).bind(now).bind(most), fetch_all)?)
    }

    async fn ready_within_limits(&mut self, claim: &Claim<'_>, now: DateTime<Utc>) -> Result<Vec<String>, StoreError> {
        let limits = claim.limits;
        let has_room = limits.total == 0 || self.active_jobs().await? < i64::from(limits.total);
        let ready = match self {
            Tx::Sqlite(_) => concat!(
                "SELECT id FROM jobs WHERE ",
                ready!("$1"),
                " AND ",
                within_limits!(),
                " ORDER BY priority DESC, turn, id LIMIT $2"
            ),
            Tx::Postgres(_) => concat!(
                "SELECT id FROM jobs WHERE ",
                ready!("$1"),
                " AND ",
                within_limits!(),
                " ORDER BY priority DESC, turn, id LIMIT $2 FOR UPDATE SKIP LOCKED"
            ),
        };
        Ok(on_db!(
            self,
            sqlx::query_scalar(ready)
                .bind(now)
                .bind(1_i64)
                .bind(WINDOW)
                .bind(i64::from(has_room))
                .bind(i64::from(limits.per_installation))
                .bind(i64::from(limits.per_repository)),
            fetch_all
        )?)
    }

    /// Jobs that a worker has in hand, without the commands that control them.
    async fn active_jobs(&mut self) -> Result<i64, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query_scalar(
                "SELECT COUNT(*)
                 FROM jobs
                 WHERE state IN ('leased', 'publishing')
                   AND lease_token IS NOT NULL
                   AND lane = subject"
            ),
            fetch_one
        )?)
    }

    /// Writes the lease of a chosen job. `None` when another worker took the job or its lane since;
    /// the savepoint keeps the transaction usable after that.
    pub(super) async fn take(
        &mut self,
        id: &str,
        claim: &Claim<'_>,
        token: &str,
        until: DateTime<Utc>,
    ) -> Result<Option<JobRow>, StoreError> {
        self.begin_savepoint().await?;
        let taken: Result<Option<JobRow>, sqlx::Error> = on_db!(
            self,
            sqlx::query_as(concat!(
                "UPDATE jobs
                 SET ",
                lease!("$2"),
                " WHERE id = $1
                   AND state IN ('queued', 'publishing')
                   AND lease_token IS NULL
                 RETURNING ",
                job_columns!()
            ))
            .bind(id)
            .bind(micros(until))
            .bind(token)
            .bind(claim.owner),
            fetch_optional
        );
        self.end_savepoint(taken).await
    }
}
