//! The database: one enum over SQLite and PostgreSQL, one transaction type, and all SQL of the
//! program in `store/<table>.rs`, each statement written once. Called by `queue`, `recorder` and
//! the flows. Never contains a decision that is not a guard of its own statement.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::ids::{CommitSha, InstallationId, JobId, RepoId, RepoName, Subject};
use crate::job::JobState;
use crate::question::Question;
use crate::secret::Secret;

/// Runs one query on whichever database the transaction holds. The query is written once and
/// expanded twice, so that each driver checks the types of what is bound and what comes back. Boxed:
/// every step of a run ends here, and the futures around it are deep enough.
/// `execute` gives the number of rows affected.
macro_rules! on_db {
    ($tx:expr, $query:expr, execute) => {
        match $tx {
            $crate::store::Tx::Sqlite(open) => Box::pin($query.execute(&mut *open.tx))
                .await
                .map(|done| done.rows_affected()),
            $crate::store::Tx::Postgres(open) => $crate::store::answered(Box::pin($query.execute(&mut *open.tx)))
                .await
                .map(|done| done.rows_affected()),
        }
    };
    ($tx:expr, $query:expr, $fetch:ident) => {
        match $tx {
            $crate::store::Tx::Sqlite(open) => Box::pin($query.$fetch(&mut *open.tx)).await,
            $crate::store::Tx::Postgres(open) => $crate::store::answered(Box::pin($query.$fetch(&mut *open.tx))).await,
        }
    };
}

/// What comes before an `UPDATE … FROM moment WHERE … AND given IS NOT NULL` of a row that everybody takes in
/// turn, on PostgreSQL. A client that falls silent with such a row holds everybody up: its transaction ends
/// sooner than others stop waiting for the lock.
macro_rules! moment {
    () => {
        "WITH moment AS MATERIALIZED (
             SELECT SET_CONFIG('idle_in_transaction_session_timeout', '1500', TRUE) AS given
         ) "
    };
}

mod announced;
mod archive;
mod audit;
mod backup;
mod budgets;
mod cancel;
mod caps;
mod check;
mod checkpoints;
mod checks;
mod claims;
mod compat;
mod connect;
mod conversation;
mod costs;
mod deliveries;
mod doorbell;
mod drafts;
mod effects;
mod error;
mod events;
mod finish;
mod group;
mod invariants;
mod jobs;
mod leaders;
mod ledger;
mod leftovers;
mod looks;
mod memory;
mod milestones;
mod missions;
mod questions;
mod queue_items;
mod recovery;
mod reminders;
mod repositories;
mod retention;
mod retry;
mod row;
mod schedules;
mod settle;
mod steering;
mod transfer;
mod transitions;
mod turns;

pub use archive::JobTable;
pub use audit::AuditFilter;
pub use backup::{BackedUp, back_up};
pub use budgets::{ALL_CALLS, Hold, NewRateLimit, NewWrite, WriteLimits, WriteTime};
pub use caps::{NewCap, SubjectCap};
pub use checkpoints::CARRY;
pub use claims::{Claim, ClaimLimits};
pub use connect::{PostgresStore, SqliteStore};
pub use costs::{CostFilter, CostRow, CostsBy};
pub use deliveries::label_key;
pub use ledger::{Account, Spent};
pub use leftovers::{LeftBranch, OpenEffect, StuckJob};
pub use looks::{Look, LookAt};
pub use missions::{Alert, MissionFilter};
pub use queue_items::{AutotaskSwitch, ItemState, QueueCursor, QueueItem, QueueKey};
pub use retention::{Gone, Kept, Old, OldJob, TABLES};
pub use retry::Republished;
pub use schedules::{AddedSchedule, ScheduleCursor, ScheduleFire};
pub use steering::Steered;
pub use transfer::{Moved, RowProblem, TableReport, TransferError, TransferReport, Writes, transfer};

/// Why the database did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached or is too busy; trying again may help.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// The database's address is not one we can use.
    #[error("the address of the database is wrong: {0}")]
    Address(String),
    /// The schema is newer than this program.
    #[error("the database was written by a newer version of Forgehand: {0}")]
    TooNew(String),
    /// A stored value does not parse, or a statement is wrong.
    #[error("the database holds something unexpected: {0}")]
    Corrupt(String),
    /// The caller's lease is not in force any more: nothing was written.
    #[error("the lease of job {0} is lost")]
    LeaseLost(JobId),
}

/// The server itself ends a statement after less. Whoever is silent for longer is not there any more: a
/// machine that was switched off, or a network that drops what it is given, breaks no connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(8);

/// Waits for an answer of the database, but not for ever.
async fn answered<T>(call: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    match tokio::time::timeout(ANSWER_TIMEOUT, call).await {
        Ok(answer) => answer,
        Err(_) => Err(sqlx::Error::Io(std::io::Error::new(
            std::io::ErrorKind::TimedOut,
            format!("no answer within {} s", ANSWER_TIMEOUT.as_secs()),
        ))),
    }
}

/// The database. Clones share their connections and their doorbell.
#[derive(Clone)]
pub enum Store {
    /// A file on this machine.
    Sqlite(SqliteStore),
    /// A server.
    Postgres(PostgresStore),
}

/// A transaction. Dropped without `commit`, it changes nothing.
pub enum Tx {
    /// On SQLite, one of a group that commits together.
    Sqlite(OpenTx<group::Lent>),
    /// On PostgreSQL.
    Postgres(OpenTx<sqlx::Transaction<'static, sqlx::Postgres>>),
}

/// An open transaction, and what is to happen when it is committed.
pub struct OpenTx<T> {
    tx: T,
    bell: doorbell::Bell,
    rings: bool,
    acts: audit::Acts,
}

/// What became of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inserted {
    /// It is new.
    New,
    /// Its GUID or its meaning was seen before.
    Duplicate,
}

/// A delivery as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRow {
    /// GitHub's GUID.
    pub guid: String,
    /// What it means, so that the same event under a new GUID is noticed.
    pub semantic_key: String,
    /// Event name.
    pub event: String,
    /// Action, empty when the event has none.
    pub action: String,
    /// Repository, if it names one.
    pub repo_id: Option<RepoId>,
    /// SHA-256 of the body, hex.
    pub body_sha256: String,
    /// The body, JSON text.
    pub body: String,
    /// When it came.
    pub received_at: DateTime<Utc>,
    /// What was made of it, in a few words.
    pub outcome: String,
}

/// A repository we were installed on, as last heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepoRow {
    /// Numeric id.
    pub id: RepoId,
    /// Name.
    pub name: RepoName,
    /// Installation that may speak for it.
    pub installation: InstallationId,
    /// Whether the installation was suspended or removed.
    pub active: bool,
}

/// Which jobs to list.
#[derive(Debug, Clone, Default)]
pub struct JobFilter {
    /// Only these states; empty is all.
    pub states: Vec<JobState>,
    /// Only this repository.
    pub repo_id: Option<RepoId>,
    /// Only this subject.
    pub subject: Option<Subject>,
    /// Most rows, newest first.
    pub limit: u32,
}

/// What a heartbeat brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// The lease's new end.
    pub lease_until: DateTime<Utc>,
    /// Whether somebody asked to stop the job.
    pub cancel_requested: bool,
}

/// What a recovery scan did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovery {
    /// Back to the queue (or to publishing, with its effects).
    Requeued(JobId),
    /// Given up: its lease was lost too often.
    Dead(JobId),
    /// Somebody had asked to stop it before its worker was lost.
    Cancelled(JobId),
}

/// What a request to cancel did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelResult {
    /// The job was not running and is cancelled now.
    Cancelled,
    /// A worker holds it and will stop it.
    Requested,
    /// It was final already, or there is no such job.
    TooLate,
}

/// A question with which a job is to wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewQuestion {
    /// Position among the questions of its job, from 1.
    pub seq: u32,
    /// What is asked; redacted and cut already.
    pub question: Question,
    /// The commit that the work done so far stands on, where a bundle of it is stored.
    pub base: Option<CommitSha>,
    /// How long an answer is waited for.
    pub answer_by: DateTime<Utc>,
}

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerResult {
    /// The job goes on with it; also when it had been taken before.
    Taken,
    /// No question of the job is open.
    NothingAsked,
    /// The question has more answers than anybody can follow.
    TooMany,
}

/// A broken invariant.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Violation {
    /// Its name, `I1` to `I16`.
    pub invariant: &'static str,
    /// What is wrong, with ids.
    pub detail: String,
}

impl Store {
    /// Opens a pool: `sqlite:PATH` (created with its folder, mode 0600) or `postgres://…` /
    /// `postgresql://…`. SQLite has one connection, because each transaction is a writer.
    ///
    /// # Errors
    /// [`StoreError::Address`] when the address is not understood, [`StoreError::Unavailable`]
    /// when nobody answers there. Neither repeats the address.
    pub async fn open(url: &Secret, max_connections: u32) -> Result<Self, StoreError> {
        connect::open(url, max_connections).await
    }

    /// The file that a `sqlite:` address names; nothing for a server.
    ///
    /// # Errors
    /// [`StoreError::Address`] when no file is named.
    pub fn file(url: &Secret) -> Result<Option<PathBuf>, StoreError> {
        connect::file(url)
    }

    /// Brings the schema up to date. Several processes may do so at the same time.
    ///
    /// # Errors
    /// [`StoreError::TooNew`] when the database has migrations that this program does not know, and
    /// which are more than additions.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        match self {
            Store::Sqlite(store) => store.migrate().await,
            Store::Postgres(store) => store.migrate().await,
        }
    }

    /// Begins a transaction; on SQLite it is the only one until it ends.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when no connection is free for some seconds.
    pub async fn begin(&self) -> Result<Tx, StoreError> {
        // Boxed, as the end is: they stand in nearly every future of a run.
        match self {
            Store::Sqlite(store) => Box::pin(store.begin()).await.map(Tx::Sqlite),
            Store::Postgres(store) => Box::pin(store.begin()).await.map(Tx::Postgres),
        }
    }

    /// `sqlite` or `postgres`.
    pub fn backend(&self) -> &'static str {
        match self {
            Store::Sqlite(_) => "sqlite",
            Store::Postgres(_) => "postgres",
        }
    }

    /// Closes all connections, also those of clones.
    pub async fn close(&self) {
        match self {
            Store::Sqlite(store) => store.close().await,
            Store::Postgres(store) => store.close().await,
        }
    }

    /// Returns when jobs may have become ready (PostgreSQL NOTIFY, in-process on SQLite), or
    /// after `at_most`. A hint only: what another process did on SQLite does not ring here.
    pub async fn doorbell(&self, at_most: Duration) {
        match self {
            Store::Sqlite(store) => store.bell().wait(at_most).await,
            Store::Postgres(store) => {
                store.listen();
                store.bell().wait(at_most).await;
            }
        }
    }

    /// Rings in this process, so that whoever waits at the doorbell looks again.
    pub fn ring(&self) {
        match self {
            Store::Sqlite(store) => store.bell().ring(),
            Store::Postgres(store) => store.bell().ring(),
        }
    }
}

impl fmt::Debug for Store {
    /// Only the kind: connection options hold passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.backend())
    }
}

impl Tx {
    /// Takes one of our advisory locks until this transaction ends; others wait for it, for no longer than a
    /// client that falls silent with it is waited for: see `moment!`. SQLite has one writer at a time anyway.
    async fn take_turn(&mut self, lock: i64) -> Result<(), StoreError> {
        if let Tx::Postgres(open) = self {
            let lock = sqlx::query(
                "SELECT SET_CONFIG('idle_in_transaction_session_timeout', '1500', TRUE),
                        PG_ADVISORY_XACT_LOCK($1)",
            )
            .bind(lock);
            answered(lock.execute(&mut *open.tx)).await?;
        }
        Ok(())
    }

    /// Makes everything durable with its rows of the audit, and rings the doorbell when jobs may have become ready.
    ///
    /// # Errors
    /// After [`StoreError::Unavailable`] it is not known whether the transaction was committed.
    pub async fn commit(mut self) -> Result<(), StoreError> {
        Box::pin(self.write_acts()).await?;
        match self {
            Tx::Sqlite(open) => Box::pin(open.commit()).await,
            Tx::Postgres(open) => Box::pin(open.commit()).await,
        }
    }

    /// The database's clock, UTC, in microseconds: the server's on PostgreSQL; on SQLite that of the
    /// machine, which its own functions read as well. The judge of leases.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn db_now(&mut self) -> Result<DateTime<Utc>, StoreError> {
        let now: DateTime<Utc> = match self {
            Tx::Sqlite(_) => crate::clock::Clock::System.now(),
            Tx::Postgres(open) => {
                let clock = sqlx::query_scalar("SELECT CLOCK_TIMESTAMP()");
                answered(Box::pin(clock.fetch_one(&mut *open.tx))).await?
            }
        };
        Ok(now)
    }

    /// Rings the doorbell after the commit: in this process, and in others on PostgreSQL.
    fn ring_on_commit(&mut self) {
        match self {
            Tx::Sqlite(open) => open.rings = true,
            Tx::Postgres(open) => open.rings = true,
        }
    }
}

impl<T> OpenTx<T> {
    fn new(tx: T, bell: &doorbell::Bell) -> Self {
        Self {
            tx,
            bell: bell.clone(),
            rings: false,
            acts: audit::Acts::default(),
        }
    }
}

impl OpenTx<group::Lent> {
    async fn commit(self) -> Result<(), StoreError> {
        self.tx.commit().await?;
        if self.rings {
            self.bell.ring();
        }
        Ok(())
    }
}

impl OpenTx<sqlx::Transaction<'static, sqlx::Postgres>> {
    async fn commit(self) -> Result<(), StoreError> {
        answered(self.tx.commit()).await?;
        if self.rings {
            self.bell.ring_everywhere();
        }
        Ok(())
    }
}
