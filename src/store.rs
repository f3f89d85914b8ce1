//! The database: one enum over SQLite and PostgreSQL, one transaction type, and all SQL of the
//! program in `store/<table>.rs`, each statement written once. Called by `queue`, `recorder` and
//! the flows. Never contains a decision that is not a guard of its own statement.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::{PgPool, SqlitePool};

use crate::effect::{Effect, EffectState, NewEffect};
use crate::event::{Event, RunEvent};
use crate::ids::{InstallationId, JobId, RepoId, RepoName, Subject};
use crate::job::{Job, JobState, Lease, LeasedJob, NewJob, Outcome};
use crate::secret::Secret;

/// Why the database did not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached or is too busy; trying again may help.
    #[error("the database is not available: {0}")]
    Unavailable(String),
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

/// The database.
#[derive(Debug, Clone)]
pub enum Store {
    /// A file on this machine.
    Sqlite(SqlitePool),
    /// A server.
    Postgres(PgPool),
}

/// A transaction. Dropped without `commit`, it changes nothing.
pub enum Tx {
    /// On SQLite, begun with `BEGIN IMMEDIATE`.
    Sqlite(sqlx::Transaction<'static, sqlx::Sqlite>),
    /// On PostgreSQL.
    Postgres(sqlx::Transaction<'static, sqlx::Postgres>),
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

/// A broken invariant.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Violation {
    /// Its name, `I1` to `I16`.
    pub invariant: &'static str,
    /// What is wrong, with ids.
    pub detail: String,
}

#[allow(unused_variables, clippy::todo, missing_docs)]
impl Store {
    /// Opens a pool: `sqlite:PATH` (created, mode 0600) or `postgres://…` / `postgresql://…`.
    pub async fn open(url: &Secret, max_connections: u32) -> Result<Self, StoreError> {
        todo!()
    }
    /// Brings the schema up to date.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        todo!()
    }
    pub async fn begin(&self) -> Result<Tx, StoreError> {
        todo!()
    }
    /// `sqlite` or `postgres`.
    pub fn backend(&self) -> &'static str {
        todo!()
    }
    pub async fn close(&self) {
        todo!()
    }
    /// Rings when jobs may have become ready (PostgreSQL NOTIFY, in-process on SQLite). A hint only.
    pub async fn doorbell(&self, at_most: Duration) {
        todo!()
    }
    pub fn ring(&self) {
        todo!()
    }
}

#[allow(unused_variables, clippy::todo, missing_docs)]
impl Tx {
    pub async fn commit(self) -> Result<(), StoreError> {
        todo!()
    }
    /// The database's clock, UTC, microseconds. The judge of leases.
    pub async fn db_now(&mut self) -> Result<DateTime<Utc>, StoreError> {
        todo!()
    }

    // deliveries
    pub async fn insert_delivery(&mut self, delivery: &DeliveryRow) -> Result<Inserted, StoreError> {
        todo!()
    }
    pub async fn delivery(&mut self, guid: &str) -> Result<Option<DeliveryRow>, StoreError> {
        todo!()
    }
    /// Deliveries received before `before` are removed, at most `limit`; returns how many.
    pub async fn delete_deliveries(&mut self, before: DateTime<Utc>, limit: u32) -> Result<u64, StoreError> {
        todo!()
    }

    // repositories
    pub async fn repo(&mut self, id: RepoId) -> Result<Option<RepoRow>, StoreError> {
        todo!()
    }
    pub async fn upsert_repo(&mut self, repo: &RepoRow) -> Result<(), StoreError> {
        todo!()
    }
    /// All repositories of an installation become inactive (uninstalled, suspended) or active.
    pub async fn set_installation_active(
        &mut self,
        installation: InstallationId,
        active: bool,
    ) -> Result<(), StoreError> {
        todo!()
    }

    // jobs
    /// T1. `None` when a non-final job has the same dedupe key. Also writes the `queued` event.
    pub async fn insert_job(&mut self, job: &NewJob, now: DateTime<Utc>) -> Result<Option<JobId>, StoreError> {
        todo!()
    }
    pub async fn job(&mut self, id: &JobId) -> Result<Option<Job>, StoreError> {
        todo!()
    }
    pub async fn jobs(&mut self, filter: &JobFilter) -> Result<Vec<Job>, StoreError> {
        todo!()
    }
    /// Count by state, for metrics.
    pub async fn job_counts(&mut self) -> Result<Vec<(JobState, u64)>, StoreError> {
        todo!()
    }
    /// How many ready jobs go before this queued one.
    pub async fn queue_position(&mut self, id: &JobId) -> Result<u64, StoreError> {
        todo!()
    }
    /// T2. Takes the next ready job (queued, or publishing without a lease) whose lane is free.
    pub async fn claim_job(&mut self, owner: &str, lease: Duration) -> Result<Option<LeasedJob>, StoreError> {
        todo!()
    }
    /// T3. `LeaseLost` when the lease ended or belongs to another claim.
    pub async fn heartbeat(&mut self, lease: &Lease, extend: Duration) -> Result<Heartbeat, StoreError> {
        todo!()
    }
    /// The lease is in force right now, or `LeaseLost`. The guard of every other fenced write.
    pub async fn check_lease(&mut self, lease: &Lease) -> Result<(), StoreError> {
        todo!()
    }
    /// T4 and T13: back to the queue without counting the attempt. A publishing job stays publishing.
    pub async fn snooze_job(&mut self, lease: &Lease, until: DateTime<Utc>, reason: &str) -> Result<(), StoreError> {
        todo!()
    }
    /// T9: another attempt after a pause, or dead when there are none left (returned).
    pub async fn retry_job(
        &mut self,
        lease: &Lease,
        run_at: DateTime<Utc>,
        reason: &str,
    ) -> Result<JobState, StoreError> {
        todo!()
    }
    /// T7: leased → publishing with all effects, and the outcome to come. The lease stays.
    pub async fn begin_publishing(
        &mut self,
        lease: &Lease,
        outcome: &Outcome,
        effects: &[NewEffect],
    ) -> Result<(), StoreError> {
        todo!()
    }
    /// T8: → done (or cancelled, when `outcome` is `Stopped`). All effects must be final.
    pub async fn finish_job(&mut self, lease: &Lease, outcome: &Outcome) -> Result<(), StoreError> {
        todo!()
    }
    /// T10: → dead with a reason; effects not sent are skipped.
    pub async fn bury_job(&mut self, lease: &Lease, reason: &str) -> Result<(), StoreError> {
        todo!()
    }
    /// T11.
    pub async fn cancel_job(
        &mut self,
        id: &JobId,
        reason: &str,
        now: DateTime<Utc>,
    ) -> Result<CancelResult, StoreError> {
        todo!()
    }
    /// Cancels every non-final `fix` job of a subject; returns their ids.
    pub async fn cancel_subject(
        &mut self,
        repo: RepoId,
        subject: &Subject,
        reason: &str,
        now: DateTime<Utc>,
    ) -> Result<Vec<JobId>, StoreError> {
        todo!()
    }
    /// T12 for leases that ended; `max_lost` lost leases without progress make a job dead.
    pub async fn recover_expired(&mut self, max_lost: u32, limit: u32) -> Result<Vec<Recovery>, StoreError> {
        todo!()
    }
    /// T12 for all leases of an owner that is known to be gone, whenever they end.
    pub async fn recover_owner(&mut self, owner: &str, max_lost: u32) -> Result<Vec<Recovery>, StoreError> {
        todo!()
    }
    /// A final job is queued again by a person, with a fresh count of attempts. False: not final,
    /// or another job of its lane key is active.
    pub async fn requeue_job(&mut self, id: &JobId, now: DateTime<Utc>) -> Result<bool, StoreError> {
        todo!()
    }

    // events
    /// Appends under a lease (fence and token are checked) and returns the position.
    pub async fn append_event(
        &mut self,
        lease: &Lease,
        event: &RunEvent,
        at: DateTime<Utc>,
    ) -> Result<i64, StoreError> {
        todo!()
    }
    /// Events after a position, in order, at most `limit`.
    pub async fn events(&mut self, job: &JobId, after: i64, limit: u32) -> Result<Vec<Event>, StoreError> {
        todo!()
    }

    // effects
    /// Inserts early effects (reaction, status comment) of a leased job; those that exist stay.
    pub async fn insert_effects(&mut self, lease: &Lease, effects: &[NewEffect]) -> Result<(), StoreError> {
        todo!()
    }
    pub async fn effects(&mut self, job: &JobId) -> Result<Vec<Effect>, StoreError> {
        todo!()
    }
    /// Moves an effect under a lease. `sending` sets `sent_at` to the database's clock and counts a try.
    pub async fn move_effect(
        &mut self,
        lease: &Lease,
        seq: i64,
        state: EffectState,
        remote_id: Option<&str>,
        problem: Option<&str>,
    ) -> Result<(), StoreError> {
        todo!()
    }

    // checkpoints
    /// Stores the latest value of one kind (`conversation`, `solution`, …) of a job.
    pub async fn save_checkpoint(
        &mut self,
        lease: &Lease,
        kind: &str,
        seq: i64,
        body: &[u8],
    ) -> Result<(), StoreError> {
        todo!()
    }
    pub async fn checkpoint(&mut self, job: &JobId, kind: &str) -> Result<Option<(i64, Vec<u8>)>, StoreError> {
        todo!()
    }

    // invariants
    /// Every broken invariant of the job tables.
    pub async fn violations(&mut self) -> Result<Vec<Violation>, StoreError> {
        todo!()
    }
}
