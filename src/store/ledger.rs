//! Tables `ledger` and `reservations`: what calls of models cost, and what is set aside for those
//! that are under way. Called with every paid event, and by `ledger` before each call.
//! Never holds an amount that was not a price times tokens.

use chrono::{DateTime, Utc};

use super::row::{micros, row, without_nul};
use super::{StoreError, Tx};
use crate::event::Charge;
use crate::ids::{InstallationId, JobId, RepoId, Subject};
use crate::job::Lease;
use crate::money::Usd;

/// The lock under which PostgreSQL lets one process at a time set money aside: "ledger".
const SPENDING_LOCK: i64 = 0x006c_6564_6765_7200;

/// On whose account a job spends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The job.
    pub job: JobId,
    /// Its repository.
    pub repo_id: RepoId,
    /// Its issue or pull request.
    pub subject: Subject,
    /// The installation that it was asked through.
    pub installation: InstallationId,
}

/// What was spent and, but by the job itself, is set aside for calls that are under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// By the job.
    pub job: Usd,
    /// By all jobs of the issue or pull request, without what is set aside.
    pub subject: Usd,
    /// What other jobs of the issue or pull request have set aside.
    pub subject_set_aside: Usd,
    /// In the repository on the day.
    pub repository: Usd,
    /// Through the installation on the day.
    pub installation: Usd,
    /// By everybody on the day.
    pub everybody: Usd,
}

row! {
    Sums {
        job: i64,
        subject: i64,
        subject_set_aside: i64,
        repository: i64,
        installation: i64,
        everybody: i64,
    }
}

impl Tx {
    /// Enters what an event of a job has to be paid for; what was set aside for the call is free.
    /// The caller holds the job.
    pub(super) async fn charge(
        &mut self,
        job: &JobId,
        seq: i64,
        charge: &Charge<'_>,
        at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        self.free(job).await?;
        on_db!(
            self,
            sqlx::query(
                "INSERT INTO ledger (
                     job_id, seq, at, day, repo_id, repo, installation_id, subject, model, input_tokens, output_tokens,
                     micro_usd
                 )
                 SELECT id, $2, $3, $4, repo_id, repo, installation_id, subject, $5, $6, $7, $8
                 FROM jobs
                 WHERE id = $1"
            )
            .bind(job.as_str())
            .bind(seq)
            .bind(micros(at))
            .bind(day(at))
            .bind(without_nul(charge.model).as_ref())
            .bind(tokens(charge.usage.input_tokens))
            .bind(tokens(charge.usage.output_tokens))
            .bind(charge.cost_usd.map(|cost| Usd::from_dollars(cost).micros())),
            execute
        )?;
        Ok(())
    }

    /// Under a lease: until this transaction ends, nobody else sets money aside. What was set aside
    /// for the last call of this job is free, and so is what calls had whose lease is over: another
    /// worker has their job by now, or nobody.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] and those of the database.
    pub async fn begin_spending(&mut self, lease: &Lease) -> Result<(), StoreError> {
        self.hold(lease).await?;
        self.take_turn(SPENDING_LOCK).await?;
        self.free(&lease.job).await?;
        on_db!(
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
        )?;
        Ok(())
    }

    /// What was spent on the accounts of a job, by it and by others.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn spent(&mut self, account: &Account, at: DateTime<Utc>) -> Result<Spent, StoreError> {
        let sums: Sums = on_db!(
            self,
            sqlx::query_as(
                "SELECT
                     CAST(
                         (SELECT COALESCE(SUM(micro_usd), 0) FROM ledger WHERE job_id = $1)
                     AS BIGINT) AS job,
                     CAST(
                         (SELECT COALESCE(SUM(micro_usd), 0) FROM ledger WHERE repo_id = $2 AND subject = $3)
                         + (SELECT COALESCE(SUM(micro_usd), 0) FROM ledger_days WHERE repo_id = $2 AND subject = $3)
                     AS BIGINT) AS subject,
                     CAST(
                         (SELECT COALESCE(SUM(micro_usd), 0) FROM reservations
                          WHERE job_id <> $1 AND repo_id = $2 AND subject = $3)
                     AS BIGINT) AS subject_set_aside,
                     CAST(
                         (SELECT COALESCE(SUM(micro_usd), 0) FROM ledger WHERE day = $5 AND repo_id = $2)
                         + (SELECT COALESCE(SUM(micro_usd), 0) FROM reservations
                            WHERE job_id <> $1 AND day = $5 AND repo_id = $2)
                     AS BIGINT) AS repository,
                     CAST(
                         (SELECT COALESCE(SUM(micro_usd), 0) FROM ledger WHERE day = $5 AND installation_id = $4)
                         + (SELECT COALESCE(SUM(micro_usd), 0) FROM reservations
                            WHERE job_id <> $1 AND day = $5 AND installation_id = $4)
                     AS BIGINT) AS installation,
                     CAST(
                         (SELECT COALESCE(SUM(micro_usd), 0) FROM ledger WHERE day = $5)
                         + (SELECT COALESCE(SUM(micro_usd), 0) FROM reservations WHERE job_id <> $1 AND day = $5)
                     AS BIGINT) AS everybody"
            )
            .bind(account.job.as_str())
            .bind(account.repo_id.as_i64())
            .bind(account.subject.to_string())
            .bind(account.installation.as_i64())
            .bind(day(at)),
            fetch_one
        )?;
        Ok(Spent {
            job: Usd::from_micros(sums.job),
            subject: Usd::from_micros(sums.subject),
            subject_set_aside: Usd::from_micros(sums.subject_set_aside),
            repository: Usd::from_micros(sums.repository),
            installation: Usd::from_micros(sums.installation),
            everybody: Usd::from_micros(sums.everybody),
        })
    }

    /// Sets money aside for the next call of a job, until the call is charged, given up, or the
    /// lease is over. A job makes one call at a time.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] and those of the database.
    pub async fn reserve(&mut self, lease: &Lease, sum: Usd, at: DateTime<Utc>) -> Result<(), StoreError> {
        self.hold(lease).await?;
        on_db!(
            self,
            sqlx::query(
                "INSERT INTO reservations (job_id, fence, day, repo_id, installation_id, subject, micro_usd)
                 SELECT id, fence, $2, repo_id, installation_id, subject, $3
                 FROM jobs
                 WHERE id = $1
                 ON CONFLICT (job_id) DO UPDATE
                 SET fence = excluded.fence,
                     day = excluded.day,
                     micro_usd = excluded.micro_usd"
            )
            .bind(lease.job.as_str())
            .bind(day(at))
            .bind(sum.micros()),
            execute
        )?;
        Ok(())
    }

    /// What was set aside for a call is free: nothing came of it that has to be paid for.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] and those of the database.
    pub async fn release_reservation(&mut self, lease: &Lease) -> Result<(), StoreError> {
        self.hold(lease).await?;
        self.free(&lease.job).await
    }

    async fn free(&mut self, job: &JobId) -> Result<(), StoreError> {
        on_db!(
            self,
            sqlx::query(
                "DELETE FROM reservations
                 WHERE job_id = $1"
            )
            .bind(job.as_str()),
            execute
        )?;
        Ok(())
    }
}

/// The day of a time, UTC, as it is compared and shown.
fn day(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d").to_string()
}

fn tokens(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
