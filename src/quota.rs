//! What an installation may still send to GitHub: the configured budget and the limits that GitHub
//! told of, kept in the database, so that they hold for all processes. The gate of the GitHub port.
//! Called by `app`, which puts it into the port. Never lets a write pass uncounted.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};

use crate::clock::boot_time;
use crate::config::GitHubConfig;
use crate::github::{Admission, Cost, Gate, Left, Pool, RateLimit, turn_patience};
use crate::ids::InstallationId;
use crate::store::{ALL_CALLS, Hold, NewRateLimit, NewWrite, Store, StoreError, WriteLimits, WriteTime};

/// A limit that another process met is heard of after this long; until then reads may still meet it.
const FRESH: Duration = Duration::from_secs(1);

/// Installations remembered; one with more is looked up each time.
const MAX_REMEMBERED: usize = 10_000;

/// The gate of one process.
pub struct Quota {
    store: Store,
    limits: WriteLimits,
    /// Calls of each hour that are left to people and to the end of what is under way.
    reserve: u64,
    seen: Mutex<HashMap<InstallationId, Seen>>,
}

/// What the database said about an installation, and when (boot time).
#[derive(Clone)]
struct Seen {
    at: Duration,
    holds: Vec<Hold>,
    /// The database's clock at that moment.
    now: DateTime<Utc>,
}

impl Quota {
    /// With the budget of the configuration.
    pub fn new(store: Store, config: &GitHubConfig) -> Self {
        Self {
            store,
            limits: WriteLimits {
                interval: config.write_interval_seconds,
                per_minute: config.max_content_per_minute,
                per_hour: config.max_content_per_hour,
                patience: turn_patience(config.call_timeout_seconds),
            },
            reserve: config.reserved_calls.into(),
            seen: Mutex::default(),
        }
    }

    async fn take(&self, installation: InstallationId, pool: Pool, cost: Cost) -> Result<Admission, StoreError> {
        let write = NewWrite {
            installation,
            pool: pool.as_str(),
            is_content: cost == Cost::Content,
        };
        let mut tx = self.store.begin().await?;
        let time = tx.take_write(&write, &self.limits).await?;
        tx.commit().await?;
        Ok(match time {
            WriteTime::After(wait) => Admission::After(wait),
            WriteTime::Held(hold) => held(hold),
        })
    }

    /// Reads are free but for the limits that GitHub told of.
    async fn look(&self, installation: InstallationId, pool: Pool) -> Result<Admission, StoreError> {
        let seen = self.limits_of(installation).await?;
        let now = seen.now + TimeDelta::from_std(boot_time().saturating_sub(seen.at)).unwrap_or_default();
        let mut holds = seen.holds.into_iter();
        let hold = holds.find(|hold| (hold.pool == ALL_CALLS || hold.pool == pool.as_str()) && hold.until > now);
        Ok(hold.map_or(Admission::After(Duration::ZERO), held))
    }

    async fn limits_of(&self, installation: InstallationId) -> Result<Seen, StoreError> {
        let known = self.remembered().get(&installation).cloned();
        let is_fresh = |known: &Seen| boot_time().saturating_sub(known.at) < FRESH;
        // That nothing holds is remembered; what holds may have been lifted.
        if let Some(known) = known.filter(|known| known.holds.is_empty() && is_fresh(known)) {
            return Ok(known);
        }
        let at = boot_time();
        let mut tx = self.store.begin().await?;
        let holds = tx.rate_limits(installation).await?;
        let now = tx.db_now().await?;
        drop(tx);
        let seen = Seen { at, holds, now };
        let mut remembered = self.remembered();
        if remembered.len() < MAX_REMEMBERED || remembered.contains_key(&installation) {
            remembered.insert(installation, seen.clone());
        }
        Ok(seen)
    }

    async fn note(&self, limit: &NewRateLimit<'_>) -> Option<DateTime<Utc>> {
        let noted = async {
            let mut tx = self.store.begin().await?;
            let until = tx.note_rate_limit(limit).await?;
            tx.commit().await?;
            Ok::<_, StoreError>(until)
        };
        let until = noted.await;
        self.remembered().remove(&limit.installation);
        match until {
            Ok(until) => Some(until),
            Err(error) => {
                tracing::warn!(%error, "a limit of GitHub could not be noted for the other processes");
                None
            }
        }
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, HashMap<InstallationId, Seen>> {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn held(hold: Hold) -> Admission {
    Admission::Held {
        until: hold.until,
        why: hold.why,
    }
}

#[async_trait]
impl Gate for Quota {
    async fn admit(&self, installation: InstallationId, pool: Pool, cost: Cost) -> Result<Admission, String> {
        match cost {
            Cost::Write | Cost::Content => self
                .take(installation, pool, cost)
                .await
                .map_err(|error| format!("the budget of writes cannot be asked: {error}")),
            // A read that meets a limit is refused and does no harm.
            Cost::Read => Ok(self.look(installation, pool).await.unwrap_or_else(|error| {
                tracing::debug!(%error, "limits could not be looked up");
                Admission::After(Duration::ZERO)
            })),
        }
    }

    async fn limited(
        &self,
        installation: InstallationId,
        pool: Pool,
        limit: RateLimit,
        wait: Duration,
    ) -> Option<DateTime<Utc>> {
        let (pool, is_told, why) = match limit {
            RateLimit::Spent => (pool.as_str(), true, "the hourly limit of GitHub is reached"),
            RateLimit::Asked => (ALL_CALLS, true, "GitHub asked for a pause"),
            RateLimit::Unnamed => (ALL_CALLS, false, "GitHub limits the rate of this installation"),
        };
        let limit = NewRateLimit {
            installation,
            pool,
            wait,
            is_told,
            why,
        };
        self.note(&limit).await
    }

    async fn seen(&self, installation: InstallationId, left: Left) {
        // The small count of searches is met, not saved.
        if left.calls > self.reserve || left.pool == Pool::Search {
            return;
        }
        let why = format!("only {} calls of GitHub's hourly limit are left", left.calls);
        let limit = NewRateLimit {
            installation,
            pool: left.pool.as_str(),
            wait: left.anew_in,
            is_told: true,
            why: &why,
        };
        self.note(&limit).await;
    }
}
