//! Tables `write_budgets`, `content_writes` and `rate_limits`: what an installation may still send
//! to GitHub, for all processes together, by the database's clock. Called by `quota`.
//! Never waits, and never lets a wrong clock hold anything for longer than the limits themselves do.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::row::{count, reason, row};
use super::{StoreError, Tx};
use crate::ids::InstallationId;

/// Windows in which content is counted.
const MINUTE: TimeDelta = TimeDelta::minutes(1);
const HOUR: TimeDelta = TimeDelta::hours(1);
/// A limit that comes back so soon after the last one is the same one.
const SAME_LIMIT: TimeDelta = TimeDelta::minutes(10);
/// A limit without a time doubles so often: from one minute to sixteen.
const MAX_STREAK: u32 = 5;

/// What writes have to keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteLimits {
    /// Least time between two writes.
    pub interval: Duration,
    /// Most that create content, in any minute.
    pub per_minute: u32,
    /// Most that create content, in any hour.
    pub per_hour: u32,
    /// A write that would have to wait longer is not given a time.
    pub patience: Duration,
}

/// A write that asks for its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewWrite<'a> {
    /// Whose.
    pub installation: InstallationId,
    /// Which of GitHub's counts it falls under.
    pub pool: &'a str,
    /// Whether it creates something that people are told of.
    pub is_content: bool,
}

/// When a write may be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteTime {
    /// After this long; the time is taken.
    After(Duration),
    /// Not soon. Nothing was taken.
    Held(Hold),
}

/// Until when nothing is sent, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Which of GitHub's counts it is about; `all` for every call.
    pub pool: String,
    /// Until when.
    pub until: DateTime<Utc>,
    /// Why, for people.
    pub why: String,
}

/// A limit that GitHub told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewRateLimit<'a> {
    /// Whose.
    pub installation: InstallationId,
    /// Which count; `all` for every call.
    pub pool: &'a str,
    /// For how long; where GitHub did not say, the least.
    pub wait: Duration,
    /// Whether GitHub said so. A limit without a time doubles when it comes back.
    pub is_told: bool,
    /// Why, for people.
    pub why: &'a str,
}

/// The pool that every call is in.
pub const ALL_CALLS: &str = "all";

row! {
    StoredLimit {
        pool: String,
        until: DateTime<Utc>,
        streak: i64,
        why: String,
    }
}

impl Tx {
    /// Takes the next free time of an installation for a write, if it comes soon. The three limits
    /// hold exactly, in every window and over all processes: each write that creates content is a row
    /// for an hour, which at a few hundred an hour is less than what a bucket would give away at the
    /// edges of its windows.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn take_write(&mut self, write: &NewWrite<'_>, limits: &WriteLimits) -> Result<WriteTime, StoreError> {
        let seq = self.lock_budget(write.installation).await?;
        let now = self.db_now().await?;
        let span = |time: Duration| TimeDelta::from_std(time).unwrap_or(HOUR);
        let (interval, patience) = (span(limits.interval), span(limits.patience));
        // No honest time is further away; one that is was made before the clock jumped.
        let latest = now + patience + interval;
        self.forget_writes(write.installation, now - HOUR, latest).await?;
        let next = self.next_write(write.installation).await?;
        let mut at = if next > latest { now } else { next.max(now) };
        let mut why = String::new();
        if write.is_content {
            for (window, most, words) in [
                (MINUTE, limits.per_minute, "a minute"),
                (HOUR, limits.per_hour, "an hour"),
            ] {
                let full_until = self.nth_last_content(write.installation, most).await?;
                let free_at = full_until.map_or(now, |at| at + window);
                if free_at > at {
                    at = free_at;
                    why = format!("the budget of {most} writes in {words} for this installation is used up");
                }
            }
        }
        for hold in self.rate_limits(write.installation).await? {
            if hold.until > at && (hold.pool == ALL_CALLS || hold.pool == write.pool) {
                (at, why) = (hold.until, hold.why);
            }
        }
        if at > now + patience {
            if why.is_empty() {
                "other writes of this installation come first".clone_into(&mut why);
            }
            let pool = write.pool.to_owned();
            return Ok(WriteTime::Held(Hold { pool, until: at, why }));
        }
        self.note_write(write, seq, at, at + interval).await?;
        Ok(WriteTime::After((at - now).to_std().unwrap_or_default()))
    }

    /// Notes a limit and returns until when it holds. One that is in force already and ends later
    /// stays as it is: several workers hear of the same limit at once.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn note_rate_limit(&mut self, limit: &NewRateLimit<'_>) -> Result<DateTime<Utc>, StoreError> {
        self.lock_budget(limit.installation).await?;
        let now = self.db_now().await?;
        let known = self.stored_limits(limit.installation).await?;
        let known = known.iter().find(|known| known.pool == limit.pool);
        let told = TimeDelta::from_std(limit.wait).unwrap_or(HOUR);
        let (until, streak) = match known {
            Some(known) if !limit.is_told && known.until > now => return Ok(known.until),
            Some(known) if !limit.is_told && known.until + SAME_LIMIT > now => {
                let streak = (count("rate_limits.streak", known.streak)? + 1).min(MAX_STREAK);
                (now + told * (1 << streak.saturating_sub(1)), streak)
            }
            Some(known) if known.until > now + told => return Ok(known.until),
            Some(_) | None => (now + told, u32::from(!limit.is_told)),
        };
        on_db!(
            self,
            sqlx::query(
                "INSERT INTO rate_limits (installation_id, pool, until, streak, why)
                 VALUES ($1, $2, $3, $4, $5)
                 ON CONFLICT (installation_id, pool) DO UPDATE
                 SET until = excluded.until,
                     streak = excluded.streak,
                     why = excluded.why"
            )
            .bind(limit.installation.as_i64())
            .bind(limit.pool)
            .bind(until)
            .bind(i64::from(streak))
            .bind(reason(limit.why)),
            execute
        )?;
        Ok(until)
    }

    /// Limits of an installation that are in force.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn rate_limits(&mut self, installation: InstallationId) -> Result<Vec<Hold>, StoreError> {
        let now = self.db_now().await?;
        let stored = self.stored_limits(installation).await?;
        let in_force = stored.into_iter().filter(|limit| limit.until > now);
        Ok(in_force
            .map(|limit| Hold {
                pool: limit.pool,
                until: limit.until,
                why: limit.why,
            })
            .collect())
    }

    async fn stored_limits(&mut self, installation: InstallationId) -> Result<Vec<StoredLimit>, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query_as(
                "SELECT pool, until, streak, why
                 FROM rate_limits
                 WHERE installation_id = $1
                 ORDER BY pool"
            )
            .bind(installation.as_i64()),
            fetch_all
        )?)
    }

    /// Takes the installation's row for this transaction; others wait. Gives a number that is new.
    async fn lock_budget(&mut self, installation: InstallationId) -> Result<i64, StoreError> {
        if let Some(taken) = self.lock_known_budget(installation).await? {
            return Ok(taken);
        }
        on_db!(
            self,
            sqlx::query(
                "INSERT INTO write_budgets (installation_id, taken, next_at)
                 VALUES ($1, 0, $2)
                 ON CONFLICT DO NOTHING"
            )
            .bind(installation.as_i64())
            .bind(DateTime::UNIX_EPOCH),
            execute
        )?;
        let made = self.lock_known_budget(installation).await?;
        made.ok_or_else(|| StoreError::Corrupt("an installation has no budget of writes".to_owned()))
    }

    async fn lock_known_budget(&mut self, installation: InstallationId) -> Result<Option<i64>, StoreError> {
        let lock = match self {
            Tx::Sqlite(_) => {
                "UPDATE write_budgets
                 SET taken = taken + 1
                 WHERE installation_id = $1
                 RETURNING taken"
            }
            Tx::Postgres(_) => concat!(
                moment!(),
                "UPDATE write_budgets
                 SET taken = taken + 1
                 FROM moment
                 WHERE installation_id = $1
                   AND given IS NOT NULL
                 RETURNING taken"
            ),
        };
        Ok(on_db!(
            self,
            sqlx::query_scalar(lock).bind(installation.as_i64()),
            fetch_optional
        )?)
    }

    async fn next_write(&mut self, installation: InstallationId) -> Result<DateTime<Utc>, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query_scalar(
                "SELECT next_at
                 FROM write_budgets
                 WHERE installation_id = $1"
            )
            .bind(installation.as_i64()),
            fetch_one
        )?)
    }

    async fn note_write(
        &mut self,
        write: &NewWrite<'_>,
        seq: i64,
        at: DateTime<Utc>,
        next_at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        on_db!(
            self,
            sqlx::query(
                "UPDATE write_budgets
                 SET next_at = $2
                 WHERE installation_id = $1"
            )
            .bind(write.installation.as_i64())
            .bind(next_at),
            execute
        )?;
        if write.is_content {
            on_db!(
                self,
                sqlx::query(
                    "INSERT INTO content_writes (installation_id, seq, at)
                     VALUES ($1, $2, $3)"
                )
                .bind(write.installation.as_i64())
                .bind(seq)
                .bind(at),
                execute
            )?;
        }
        Ok(())
    }

    /// When the one was sent with which a window of `most` is full.
    async fn nth_last_content(
        &mut self,
        installation: InstallationId,
        most: u32,
    ) -> Result<Option<DateTime<Utc>>, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query_scalar(
                "SELECT at
                 FROM content_writes
                 WHERE installation_id = $1
                 ORDER BY at DESC
                 LIMIT 1
                 OFFSET $2"
            )
            .bind(installation.as_i64())
            .bind(i64::from(most.saturating_sub(1))),
            fetch_optional
        )?)
    }

    async fn forget_writes(
        &mut self,
        installation: InstallationId,
        before: DateTime<Utc>,
        after: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        on_db!(
            self,
            sqlx::query(
                "DELETE FROM content_writes
                 WHERE installation_id = $1
                   AND (at <= $2 OR at > $3)"
            )
            .bind(installation.as_i64())
            .bind(before)
            .bind(after),
            execute
        )?;
        Ok(())
    }
}
