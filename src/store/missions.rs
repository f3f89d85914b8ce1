//! Tables `missions` and `alerts`: the account of unattended runs, and what is told of them. Called by
//! `unattended`. Never changes a record; old ones leave as a whole.

use chrono::{DateTime, Utc};

use super::row::{count, from_json, micros, reason, row, to_json, without_nul};
use super::{StoreError, Tx};
use crate::ids::JobId;
use crate::mission::Mission;

/// Which records to read.
#[derive(Debug, Clone, Default)]
pub struct MissionFilter {
    /// Only those that somebody has to look at.
    pub failed: bool,
    /// Only those of this repository.
    pub repository: Option<String>,
    /// Only those that ended since.
    pub since: Option<DateTime<Utc>>,
    /// Most records, the newest first.
    pub limit: u32,
}

/// A message about a record that is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// The record's id.
    pub id: String,
    /// JSON text.
    pub body: String,
    /// Tries so far, this one included.
    pub tries: u32,
}

row! {
    Body {
        body: String,
    }
}

row! {
    StoredAlert {
        id: String,
        body: String,
        tries: i64,
    }
}

impl Tx {
    /// Jobs that are over since a time, were unattended, and have no record yet, the oldest first. Records
    /// of earlier ones may have left already.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn unaccounted_jobs(&mut self, since: DateTime<Utc>, limit: u32) -> Result<Vec<JobId>, StoreError> {
        let ids: Vec<String> = on_db!(
            self,
            sqlx::query_scalar(
                "SELECT jobs.id
                 FROM jobs
                 WHERE jobs.unattended
                   AND jobs.finished_at >= $2
                   AND jobs.state IN ('done', 'dead', 'cancelled')
                   AND NOT EXISTS (
                       SELECT 1
                       FROM missions
                       WHERE missions.job_id = jobs.id
                         AND missions.round = jobs.round
                   )
                 ORDER BY jobs.id
                 LIMIT $1"
            )
            .bind(i64::from(limit))
            .bind(micros(since)),
            fetch_all
        )?;
        ids.iter().map(|id| super::row::parse("jobs.id", id)).collect()
    }

    /// Adds a record. False: there is one of this round of the job.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn insert_mission(&mut self, mission: &Mission) -> Result<bool, StoreError> {
        let inserted = on_db!(
            self,
            sqlx::query(
                "INSERT INTO missions (id, ended_at, repository, job_id, round, state, failed, body)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
                 ON CONFLICT DO NOTHING"
            )
            .bind(mission.id.as_str())
            .bind(micros(mission.ended))
            .bind(without_nul(&mission.repository))
            .bind(mission.job.as_ref().map(JobId::as_str))
            .bind(i64::from(mission.round))
            .bind(mission.state.as_str())
            .bind(mission.is_failure())
            .bind(to_json("missions.body", mission)?),
            execute
        )?;
        Ok(inserted == 1)
    }

    /// Records that pass a filter, the newest first.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when a record does not parse.
    pub async fn missions(&mut self, filter: &MissionFilter) -> Result<Vec<Mission>, StoreError> {
        let rows: Vec<Body> = on_db!(
            self,
            sqlx::query_as(
                "SELECT body
                 FROM missions
                 WHERE (failed OR NOT $1)
                   AND ($2 IS NULL OR repository = $2)
                   AND ($3 IS NULL OR ended_at >= $3)
                 ORDER BY id DESC
                 LIMIT $4"
            )
            .bind(filter.failed)
            .bind(filter.repository.as_deref())
            .bind(filter.since.map(micros))
            .bind(i64::from(filter.limit)),
            fetch_all
        )?;
        rows.iter().map(|row| from_json("missions.body", &row.body)).collect()
    }

    /// Takes the oldest records out that ended before a time; whoever calls it keeps them elsewhere before
    /// it commits.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn take_missions_before(
        &mut self,
        before: DateTime<Utc>,
        limit: u32,
    ) -> Result<Vec<Mission>, StoreError> {
        let rows: Vec<Body> = on_db!(
            self,
            sqlx::query_as(
                "DELETE FROM missions
                 WHERE id IN (
                     SELECT id
                     FROM missions
                     WHERE ended_at < $1
                     ORDER BY id
                     LIMIT $2
                 )
                 RETURNING body"
            )
            .bind(micros(before))
            .bind(i64::from(limit)),
            fetch_all
        )?;
        let mut missions: Vec<Mission> = rows
            .iter()
            .map(|row| from_json("missions.body", &row.body))
            .collect::<Result<_, _>>()?;
        missions.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(missions)
    }

    /// Has a message sent, once for each record.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn insert_alert(&mut self, id: &str, body: &str, at: DateTime<Utc>) -> Result<(), StoreError> {
        on_db!(
            self,
            sqlx::query(
                "INSERT INTO alerts (id, state, tries, next_at, body)
                 VALUES ($1, 'pending', 0, $2, $3)
                 ON CONFLICT DO NOTHING"
            )
            .bind(id)
            .bind(micros(at))
            .bind(without_nul(body)),
            execute
        )?;
        Ok(())
    }

    /// Takes the next message that is due: nobody else gets it before `until`, when it is tried again if
    /// nobody says what became of it.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn take_alert(&mut self, now: DateTime<Utc>, until: DateTime<Utc>) -> Result<Option<Alert>, StoreError> {
        let taken: Option<StoredAlert> = on_db!(
            self,
            sqlx::query_as(
                "UPDATE alerts
                 SET tries = tries + 1,
                     next_at = $2
                 WHERE state = 'pending'
                   AND next_at <= $1
                   AND id = (
                       SELECT id
                       FROM alerts
                       WHERE state = 'pending'
                         AND next_at <= $1
                       ORDER BY next_at, id
                       LIMIT 1
                   )
                 RETURNING id, body, tries"
            )
            .bind(micros(now))
            .bind(micros(until)),
            fetch_optional
        )?;
        taken
            .map(|taken| {
                Ok(Alert {
                    tries: count("alerts.tries", taken.tries)?,
                    id: taken.id,
                    body: taken.body,
                })
            })
            .transpose()
    }

    /// A message was taken by its receiver.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn alert_sent(&mut self, id: &str) -> Result<(), StoreError> {
        on_db!(
            self,
            sqlx::query("UPDATE alerts SET state = 'sent', problem = NULL WHERE id = $1 AND state = 'pending'")
                .bind(id),
            execute
        )?;
        Ok(())
    }

    /// A message was not taken; it is tried again at `next_at`, or never.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn alert_failed(
        &mut self,
        id: &str,
        problem: &str,
        next_at: Option<DateTime<Utc>>,
    ) -> Result<(), StoreError> {
        let state = if next_at.is_some() { "pending" } else { "failed" };
        on_db!(
            self,
            sqlx::query(
                "UPDATE alerts
                 SET state = $2,
                     problem = $3,
                     next_at = COALESCE($4, next_at)
                 WHERE id = $1
                   AND state = 'pending'"
            )
            .bind(id)
            .bind(state)
            .bind(reason(problem))
            .bind(next_at.map(micros)),
            execute
        )?;
        Ok(())
    }

    /// How many messages stand how, for `doctor`.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn alert_counts(&mut self) -> Result<Vec<(String, i64)>, StoreError> {
        on_db!(
            self,
            sqlx::query_as("SELECT state, COUNT(*) FROM alerts GROUP BY state ORDER BY state"),
            fetch_all
        )
        .map_err(Into::into)
    }

    /// Removes messages that nobody waits for any more.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn delete_alerts(&mut self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let deleted = on_db!(
            self,
            sqlx::query("DELETE FROM alerts WHERE state <> 'pending' AND next_at < $1").bind(micros(before)),
            execute
        )?;
        Ok(deleted)
    }
}
