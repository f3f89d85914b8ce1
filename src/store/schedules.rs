//! Tables `schedules`, `schedule_cursors` and `schedule_fires`: schedules of the command line, until
//! when the fires of each schedule were looked at, and what became of each. Called by `unattended`
//! and by the command that shows them. Never decides when something fires.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::row::{from_json, micros, parse, reason, row, to_json};
use super::{StoreError, Tx};
use crate::audit::{Act, Action};
use crate::ids::JobId;
use crate::job::{JobState, Outcome};
use crate::schedule::Written;

/// A schedule that was added at the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedSchedule {
    /// As it was written.
    pub written: Written,
    /// When.
    pub added_at: DateTime<Utc>,
}

/// Until when the fires of a schedule were looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleCursor {
    /// The timetable that was followed, in words; with another one, looking begins anew.
    pub timetable: String,
    /// The time, itself looked at.
    pub until: DateTime<Utc>,
}

/// One fire of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScheduleFire {
    /// The schedule.
    pub schedule: String,
    /// The time, before any jitter.
    pub fire_at: DateTime<Utc>,
    /// What became of it, in a few words.
    pub outcome: String,
    /// When that was decided.
    pub at: DateTime<Utc>,
    /// The job that it began.
    pub job: Option<JobId>,
    /// Where the job stands.
    pub job_state: Option<JobState>,
    /// How the job ended.
    pub job_outcome: Option<Outcome>,
}

row! {
    StoredSchedule {
        written: String,
        added_at: DateTime<Utc>,
    }
}

row! {
    StoredCursor {
        timetable: String,
        until: DateTime<Utc>,
    }
}

row! {
    StoredFire {
        name: String,
        fire_at: DateTime<Utc>,
        outcome: String,
        at: DateTime<Utc>,
        job_id: Option<String>,
        job_state: Option<String>,
        job_outcome: Option<String>,
    }
}

impl Tx {
    /// The schedules that were added at the command line, by name.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when one does not parse.
    pub async fn added_schedules(&mut self) -> Result<Vec<AddedSchedule>, StoreError> {
        let rows: Vec<StoredSchedule> = on_db!(
            self,
            sqlx::query_as(
                "SELECT written, added_at
                 FROM schedules
                 ORDER BY name"
            ),
            fetch_all
        )?;
        rows.into_iter()
            .map(|row| {
                Ok(AddedSchedule {
                    written: from_json("schedules.written", &row.written)?,
                    added_at: row.added_at,
                })
            })
            .collect()
    }

    /// Adds a schedule. False: one with its name was added before.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn add_schedule(
        &mut self,
        name: &str,
        written: &Written,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let added = on_db!(
            self,
            sqlx::query(
                "INSERT INTO schedules (name, written, added_at)
                 VALUES ($1, $2, $3)
                 ON CONFLICT (name) DO NOTHING"
            )
            .bind(name)
            .bind(to_json("schedules.written", written)?)
            .bind(micros(now)),
            execute
        )?;
        if added > 0 {
            self.audit(Act::new(Action::ScheduleAdded).with("schedule", name));
        }
        Ok(added > 0)
    }

    /// Removes a schedule that was added, and its cursor; what became of its fires stays. False: there
    /// is none.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn remove_schedule(&mut self, name: &str) -> Result<bool, StoreError> {
        let removed = on_db!(
            self,
            sqlx::query(
                "DELETE FROM schedules
                 WHERE name = $1"
            )
            .bind(name),
            execute
        )?;
        if removed > 0 {
            on_db!(
                self,
                sqlx::query(
                    "DELETE FROM schedule_cursors
                     WHERE name = $1"
                )
                .bind(name),
                execute
            )?;
            self.audit(Act::new(Action::ScheduleRemoved).with("schedule", name));
        }
        Ok(removed > 0)
    }

    /// Until when the fires of a schedule were looked at.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn schedule_cursor(&mut self, name: &str) -> Result<Option<ScheduleCursor>, StoreError> {
        let row: Option<StoredCursor> = on_db!(
            self,
            sqlx::query_as(
                "SELECT timetable, until
                 FROM schedule_cursors
                 WHERE name = $1"
            )
            .bind(name),
            fetch_optional
        )?;
        Ok(row.map(|row| ScheduleCursor {
            timetable: row.timetable,
            until: row.until,
        }))
    }

    /// Begins to look at the fires of a schedule. False: somebody did before.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn begin_schedule(&mut self, name: &str, cursor: &ScheduleCursor) -> Result<bool, StoreError> {
        let begun = on_db!(
            self,
            sqlx::query(
                "INSERT INTO schedule_cursors (name, timetable, until)
                 VALUES ($1, $2, $3)
                 ON CONFLICT (name) DO NOTHING"
            )
            .bind(name)
            .bind(&cursor.timetable)
            .bind(micros(cursor.until)),
            execute
        )?;
        Ok(begun > 0)
    }

    /// Moves a cursor from where the caller saw it; whoever does so has the fires between for itself
    /// until the transaction ends. False: somebody else moved it.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn move_schedule(
        &mut self,
        name: &str,
        from: &ScheduleCursor,
        to: &ScheduleCursor,
    ) -> Result<bool, StoreError> {
        let moved = on_db!(
            self,
            sqlx::query(
                "UPDATE schedule_cursors
                 SET timetable = $4,
                     until = $5
                 WHERE name = $1
                   AND timetable = $2
                   AND until = $3"
            )
            .bind(name)
            .bind(&from.timetable)
            .bind(micros(from.until))
            .bind(&to.timetable)
            .bind(micros(to.until)),
            execute
        )?;
        Ok(moved > 0)
    }

    /// Notes a fire. False: it is noted already, and must not begin anything again.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn note_fire(
        &mut self,
        name: &str,
        fire_at: DateTime<Utc>,
        outcome: &str,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let noted = on_db!(
            self,
            sqlx::query(
                "INSERT INTO schedule_fires (name, fire_at, outcome, at)
                 VALUES ($1, $2, $3, $4)
                 ON CONFLICT (name, fire_at) DO NOTHING"
            )
            .bind(name)
            .bind(micros(fire_at))
            .bind(reason(outcome))
            .bind(micros(now)),
            execute
        )?;
        Ok(noted > 0)
    }

    /// Says what became of a fire that was noted in this transaction.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn settle_fire(
        &mut self,
        name: &str,
        fire_at: DateTime<Utc>,
        outcome: &str,
        job: Option<&JobId>,
    ) -> Result<(), StoreError> {
        on_db!(
            self,
            sqlx::query(
                "UPDATE schedule_fires
                 SET outcome = $3,
                     job_id = $4
                 WHERE name = $1
                   AND fire_at = $2"
            )
            .bind(name)
            .bind(micros(fire_at))
            .bind(reason(outcome))
            .bind(job.map(JobId::as_str)),
            execute
        )?;
        Ok(())
    }

    /// Forgets fires after a time that began nothing: what a clock said that was wrong.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn forget_fires_after(&mut self, name: &str, after: DateTime<Utc>) -> Result<u64, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query(
                "DELETE FROM schedule_fires
                 WHERE name = $1
                   AND fire_at > $2
                   AND job_id IS NULL"
            )
            .bind(name)
            .bind(micros(after)),
            execute
        )?)
    }

    /// What became of the fires of one schedule, or of all, the latest first.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when a column does not parse.
    pub async fn schedule_fires(&mut self, name: Option<&str>, limit: u32) -> Result<Vec<ScheduleFire>, StoreError> {
        let rows: Vec<StoredFire> = on_db!(
            self,
            sqlx::query_as(
                "SELECT fires.name, fires.fire_at, fires.outcome, fires.at, fires.job_id,
                        jobs.state AS job_state, jobs.outcome AS job_outcome
                 FROM schedule_fires AS fires
                 LEFT JOIN jobs ON jobs.id = fires.job_id
                 WHERE $1 IS NULL OR fires.name = $1
                 ORDER BY fires.fire_at DESC, fires.name
                 LIMIT $2"
            )
            .bind(name)
            .bind(i64::from(limit)),
            fetch_all
        )?;
        rows.into_iter().map(ScheduleFire::try_from).collect()
    }

    /// The job with this key that is not over.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when its id does not parse.
    pub async fn open_job(&mut self, dedupe_key: &str) -> Result<Option<JobId>, StoreError> {
        let id: Option<String> = on_db!(
            self,
            sqlx::query_scalar(
                "SELECT id
                 FROM jobs
                 WHERE dedupe_key = $1
                   AND state NOT IN ('done', 'dead', 'cancelled')"
            )
            .bind(dedupe_key),
            fetch_optional
        )?;
        id.map(|id| parse("jobs.id", &id)).transpose()
    }
}

impl TryFrom<StoredFire> for ScheduleFire {
    type Error = StoreError;

    fn try_from(row: StoredFire) -> Result<Self, StoreError> {
        let job = row.job_id.map(|id| parse("schedule_fires.job_id", &id)).transpose()?;
        let state = row.job_state.map(|state| parse("jobs.state", &state)).transpose()?;
        let outcome = row.job_outcome.map(|outcome| from_json("jobs.outcome", &outcome));
        Ok(Self {
            schedule: row.name,
            fire_at: row.fire_at,
            outcome: row.outcome,
            at: row.at,
            job,
            job_state: state,
            job_outcome: outcome.transpose()?,
        })
    }
}
