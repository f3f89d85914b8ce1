//! Leases: claiming a job, keeping it, and proving that it is still held. Called by `worker`
//! through `queue`, and by every write on behalf of a job.
//! Never trusts a worker's clock: the database's clock judges, in the same transaction.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::jobs::JobRow;
use super::row::{micros, parse, row};
use super::turns::{take_at_once, take_on_sqlite};
use super::{Heartbeat, Store, StoreError, Tx, answered};
use crate::event::RunEvent;
use crate::ids::JobId;
use crate::job::{Job, JobState, Lease, LeasedJob};
use crate::secret::random_hex;

/// Two workers of a PostgreSQL may pick jobs of one lane at the same moment; the slower one looks
/// again. Each time somebody else got a job, so this many misses in a row mean a crowd.
const MAX_CLAIM_TRIES: usize = 16;

/// Who wants how many jobs.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// The name in leases.
    pub owner: &'a str,
    /// How long a lease lasts.
    pub lease: Duration,
    /// Most jobs taken.
    pub most: u32,
    /// How much may be at work at once.
    pub limits: ClaimLimits,
}

/// How many jobs may be in the hands of workers at once, of all processes together; 0 is any
/// number. Commands that control work, and work that is done and only has to be published, go on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClaimLimits {
    /// In all.
    pub total: u32,
    /// Of one installation.
    pub per_installation: u32,
    /// Of one repository.
    pub per_repository: u32,
}

impl ClaimLimits {
    /// Whether there is any.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}

impl Claim<'_> {
    pub(super) fn lease_seconds(&self) -> f64 {
        self.lease.min(LONGEST_LEASE).as_secs_f64()
    }
}

row! {
    /// What a transition needs to know of the job that it holds.
    Held {
        state: String,
        attempt: i64,
        max_attempts: i64,
        cancel_requested_at: Option<DateTime<Utc>>,
        reason: Option<String>,
    }
}

impl Held {
    pub(super) fn state(&self) -> Result<JobState, StoreError> {
        parse("jobs.state", &self.state)
    }
}

impl Tx {
    /// T2. Takes the jobs whose turn it is, publishing ones without a lease first, then queued ones
    /// whose lane is free: by priority, then by turn. Their leases share one token.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn claim_jobs(&mut self, claim: &Claim<'_>) -> Result<Vec<LeasedJob>, StoreError> {
        let mut claimed = Vec::new();
        for _ in 0..MAX_CLAIM_TRIES {
            let now = self.db_now().await?;
            let left = Claim {
                most: claim
                    .most
                    .saturating_sub(u32::try_from(claimed.len()).unwrap_or(u32::MAX)),
                ..*claim
            };
            let chosen = self.choose(&left, now).await?;
            if chosen.is_empty() {
                break;
            }
            let token = random_hex::<16>();
            for id in chosen {
                let Some(row) = self.take(&id, claim, &token, later(now, claim.lease)).await? else {
                    continue;
                };
                let leased = leased(row, claim.owner, &token)?;
                let event = RunEvent::Claimed {
                    worker: claim.owner.to_owned(),
                    attempt: leased.job.attempt,
                };
                // The lane may have become free only after this transaction began to look.
                let at = self.db_now().await?;
                self.log_event(&leased.job.id, leased.job.fence, &event, at).await?;
                claimed.push(leased);
            }
            if claimed.len() >= claim.most as usize {
                break;
            }
        }
        Ok(claimed)
    }

    /// All of a claim on SQLite. `None` elsewhere, and where two of the jobs share a lane, which
    /// [`Tx::claim_jobs`] takes one by one.
    async fn claim_on_sqlite(&mut self, claim: &Claim<'_>) -> Result<Option<Vec<LeasedJob>>, StoreError> {
        let now = self.db_now().await?;
        let Tx::Sqlite(open) = self else { return Ok(None) };
        let token = random_hex::<16>();
        let taken = take_on_sqlite(&mut open.tx, claim, &token, (now, later(now, claim.lease))).await;
        match taken {
            Ok(rows) => {
                let leased = rows.into_iter().map(|row| leased(row, claim.owner, &token));
                leased.collect::<Result<_, _>>().map(Some)
            }
            Err(error) if is_taken(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// One job, without limits.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn claim_job(&mut self, owner: &str, lease: Duration) -> Result<Option<LeasedJob>, StoreError> {
        let claim = Claim {
            owner,
            lease,
            most: 1,
            limits: ClaimLimits::default(),
        };
        Ok(self.claim_jobs(&claim).await?.pop())
    }

    /// Before a statement that may break a unique index. On SQLite it undoes itself alone, and nothing
    /// is needed.
    pub(super) async fn begin_savepoint(&mut self) -> Result<(), StoreError> {
        if let Tx::Postgres(open) = self {
            answered(sqlx::query("SAVEPOINT take").execute(&mut *open.tx)).await?;
        }
        Ok(())
    }

    /// Ends the savepoint `take`: a broken unique index becomes `None` and is undone.
    pub(super) async fn end_savepoint<T>(
        &mut self,
        result: Result<Option<T>, sqlx::Error>,
    ) -> Result<Option<T>, StoreError> {
        let is_undone = matches!(&result, Err(error) if is_taken(error));
        let result = if is_undone { None } else { result? };
        if let Tx::Postgres(open) = self {
            if is_undone {
                answered(sqlx::query("ROLLBACK TO SAVEPOINT take").execute(&mut *open.tx)).await?;
            }
            answered(sqlx::query("RELEASE SAVEPOINT take").execute(&mut *open.tx)).await?;
        }
        Ok(result)
    }

    /// T3. `LeaseLost` when the lease ended or belongs to another claim.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] and those of the database.
    pub async fn heartbeat(&mut self, lease: &Lease, extend: Duration) -> Result<Heartbeat, StoreError> {
        let now = self.db_now().await?;
        let lease_until = later(now, extend);
        let cancel_requested_at: Option<Option<DateTime<Utc>>> = on_db!(
            self,
            sqlx::query_scalar(
                "UPDATE jobs
                 SET lease_until = $5
                 WHERE id = $1
                   AND fence = $2
                   AND lease_token = $3
                   AND lease_until > $4
                   AND state IN ('leased', 'publishing')
                 RETURNING cancel_requested_at"
            )
            .bind(lease.job.as_str())
            .bind(lease.fence)
            .bind(&lease.token)
            .bind(now)
            .bind(lease_until),
            fetch_optional
        )?;
        match cancel_requested_at {
            Some(cancel_requested_at) => Ok(Heartbeat {
                lease_until,
                cancel_requested: cancel_requested_at.is_some(),
            }),
            None => Err(StoreError::LeaseLost(lease.job.clone())),
        }
    }

    /// The lease is in force right now, or `LeaseLost`. The guard of every other fenced write.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] and those of the database.
    pub async fn check_lease(&mut self, lease: &Lease) -> Result<(), StoreError> {
        self.hold(lease).await.map(drop)
    }

    /// As [`Tx::check_lease`], and nobody can change the job before this transaction ends: the
    /// write locks the row with the same words on both databases.
    pub(super) async fn hold(&mut self, lease: &Lease) -> Result<Held, StoreError> {
        let now = self.db_now().await?;
        let held: Option<Held> = on_db!(
            self,
            sqlx::query_as(
                "UPDATE jobs
                 SET lease_owner = lease_owner
                 WHERE id = $1
                   AND fence = $2
                   AND lease_token = $3
                   AND lease_until > $4
                   AND state IN ('leased', 'publishing')
                 RETURNING state, attempt, max_attempts, cancel_requested_at, reason"
            )
            .bind(lease.job.as_str())
            .bind(lease.fence)
            .bind(&lease.token)
            .bind(now),
            fetch_optional
        )?;
        held.ok_or_else(|| StoreError::LeaseLost(lease.job.clone()))
    }

    /// Something durable was reached under the lease: earlier lost leases do not count any more.
    pub(super) async fn note_progress(&mut self, lease: &Lease) -> Result<(), StoreError> {
        let noted = on_db!(
            self,
            sqlx::query(
                "UPDATE jobs
                 SET lost_leases = 0
                 WHERE id = $1
                   AND fence = $2"
            )
            .bind(lease.job.as_str())
            .bind(lease.fence),
            execute
        )?;
        one_row(noted, &lease.job)
    }
}

impl Store {
    /// As [`Tx::claim_jobs`] in a transaction of its own. Without limits it is one statement on PostgreSQL
    /// and two on SQLite: what a claim costs is the ways to the server, or the connection's thread, and back.
    ///
    /// # Errors
    /// Those of the database. After [`StoreError::Unavailable`] it is not known whether jobs were
    /// taken; their leases end by themselves.
    pub async fn claim_jobs(&self, claim: &Claim<'_>) -> Result<Vec<LeasedJob>, StoreError> {
        match self {
            Store::Postgres(store) if !claim.limits.any() => {
                let mut connection = store.connection().await?;
                for _ in 0..MAX_CLAIM_TRIES {
                    let token = random_hex::<16>();
                    match answered(take_at_once(&mut connection, claim, &token)).await {
                        Ok(rows) => return rows.into_iter().map(|row| leased(row, claim.owner, &token)).collect(),
                        // Somebody took a lane of one of them at this moment.
                        Err(error) if is_taken(&error) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Ok(Vec::new())
            }
            _ => {
                let mut tx = self.begin().await?;
                let at_once = match claim.limits.any() {
                    true => None,
                    false => tx.claim_on_sqlite(claim).await?,
                };
                let claimed = match at_once {
                    Some(claimed) => claimed,
                    None => tx.claim_jobs(claim).await?,
                };
                tx.commit().await?;
                Ok(claimed)
            }
        }
    }
}

fn leased(row: JobRow, owner: &str, token: &str) -> Result<LeasedJob, StoreError> {
    let job = Job::try_from(row)?;
    Ok(LeasedJob {
        lease: Lease {
            job: job.id.clone(),
            fence: job.fence,
            token: token.to_owned(),
            owner: owner.to_owned(),
        },
        resumes_publishing: job.state == JobState::Publishing,
        job,
    })
}

fn is_taken(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .is_some_and(|error| error.is_unique_violation())
}

/// A write under a lease touches its one job, or the lease is not what the caller thinks.
pub(super) fn one_row(rows: u64, job: &JobId) -> Result<(), StoreError> {
    match rows {
        1 => Ok(()),
        _ => Err(StoreError::LeaseLost(job.clone())),
    }
}

/// No lease is longer; a mistaken one must not put a job out of reach for good.
pub(super) const LONGEST_LEASE: Duration = Duration::from_secs(24 * 60 * 60);

fn later(now: DateTime<Utc>, by: Duration) -> DateTime<Utc> {
    micros(now + TimeDelta::from_std(by.min(LONGEST_LEASE)).unwrap_or_default())
}
