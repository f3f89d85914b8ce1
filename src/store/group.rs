//! Group commit on SQLite: one connection writes, and transactions that stand in line share one
//! commit, since what a commit costs is the disk's sync and not what is in it. Each is a savepoint
//! of its own, which alone is undone when it fails, and which ends as the next begins: each way to
//! the connection's thread and back costs more than what most statements do. Called by `connect` and `Tx`.
//! Never tells anybody that it is committed before the disk has it.
//!
//! Measured before: one transaction a commit made 280 pairs of claim and finish in a second on a
//! disk that syncs in 4 ms; in groups it is the processor that sets the limit.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::StoreError;

/// Transactions that wait in line; more wait for a place in it.
const LINE: usize = 1_024;

/// Most transactions of one commit.
const MAX_MEMBERS: usize = 256;

/// After this time a group takes nobody more: its members wait for the commit.
const MAX_GROUP: Duration = Duration::from_millis(10);

/// How long SQLite itself waits for another process before we look again: the longer it waits, the
/// longer it sleeps between two looks, up to 100 ms, and a busy service frees the file for less.
const LOOK: Duration = Duration::from_millis(10);

/// After groups without a break for this time, others get a moment: they cannot stand in our line.
const MAX_UNBROKEN: Duration = Duration::from_millis(200);

/// That moment: time for several looks of another process.
const BREAK: Duration = Duration::from_millis(6);

/// The writer of one file. Clones share it.
#[derive(Clone)]
pub(super) struct Writer {
    line: mpsc::Sender<Request>,
    closing: CancellationToken,
    task: TaskTracker,
}

/// Whoever wants the connection.
type Request = oneshot::Sender<Result<Lent, StoreError>>;

/// Where the outcome of a commit goes.
type Ack = oneshot::Sender<Result<(), StoreError>>;

/// The connection within a savepoint of one transaction. Dropped without [`Lent::commit`], what
/// was done is undone.
pub struct Lent {
    connection: OwnedMutexGuard<SqliteConnection>,
    verdict: oneshot::Sender<Ack>,
}

impl Deref for Lent {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.connection
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }
}

impl Lent {
    /// Waits until the group is durable.
    pub(super) async fn commit(self) -> Result<(), StoreError> {
        let Self { connection, verdict } = self;
        let (ack, committed) = oneshot::channel();
        drop(connection);
        verdict.send(ack).map_err(|_| ended())?;
        committed.await.map_err(|_| ended())?
    }
}

impl Writer {
    /// Opens the connection and begins to serve. A transaction waits for `patience` at most for one of
    /// another process.
    pub(super) async fn open(options: &SqliteConnectOptions, patience: Duration) -> Result<Self, StoreError> {
        let options = options.clone().busy_timeout(LOOK);
        let connection = options.connect().await?;
        let (line, requests) = mpsc::channel(LINE);
        let writer = Self {
            line,
            closing: CancellationToken::new(),
            task: TaskTracker::new(),
        };
        let serving = Serving {
            options,
            patience,
            connection: Some(Arc::new(Mutex::new(connection))),
            requests,
        };
        writer.task.spawn(serving.run(writer.closing.clone()));
        writer.task.close();
        Ok(writer)
    }

    /// The connection, when those before have ended, at most after `patience`.
    pub(super) async fn begin(&self, patience: Duration) -> Result<Lent, StoreError> {
        let waiting = async {
            let (request, lent) = oneshot::channel();
            self.line.send(request).await.map_err(|_| ended())?;
            lent.await.map_err(|_| ended())?
        };
        match tokio::time::timeout(patience, waiting).await {
            Ok(lent) => lent,
            Err(_) => Err(StoreError::Unavailable(
                "another transaction took too long; try again".to_owned(),
            )),
        }
    }

    /// Ends after the transactions that were begun, and closes the file.
    pub(super) async fn close(&self) {
        self.closing.cancel();
        self.task.wait().await;
    }
}

/// The task's side.
struct Serving {
    options: SqliteConnectOptions,
    patience: Duration,
    /// `None` after it failed in a way that leaves its state unknown.
    connection: Option<Arc<Mutex<SqliteConnection>>>,
    requests: mpsc::Receiver<Request>,
}

impl Serving {
    async fn run(mut self, closing: CancellationToken) {
        let mut unbroken = Instant::now();
        loop {
            if self.requests.is_empty() {
                unbroken = Instant::now();
            } else if unbroken.elapsed() > MAX_UNBROKEN {
                tokio::time::sleep(BREAK).await;
                unbroken = Instant::now();
            }
            let request = tokio::select! {
                biased;
                () = closing.cancelled() => break,
                request = self.requests.recv() => request,
            };
            let Some(request) = request else { break };
            self.group(request).await;
        }
        self.requests.close();
        if let Some(Ok(connection)) = self.connection.take().map(Arc::try_unwrap) {
            // Everything was committed; what fails here is tidying.
            let _ = connection.into_inner().close().await;
        }
    }

    /// One commit: the first in line and those who wait behind it.
    async fn group(&mut self, first: Request) {
        // Opens with the first member's savepoint.
        let mut savepoint = Savepoint::Clean;
        let shared = match self.begun().await {
            Ok(shared) => shared,
            Err(error) => {
                // Whoever gave up in the meantime needs no answer.
                let _ = first.send(Err(error));
                return;
            }
        };
        let (begun, mut waiting) = (Instant::now(), Vec::new());
        let mut next = Some(first);
        let mut broken = None;
        while let Some(request) = next.take() {
            match member(&shared, &mut savepoint, request).await {
                Ok(ack) => waiting.extend(ack),
                Err(error) => {
                    broken = Some(error);
                    break;
                }
            }
            if waiting.len() < MAX_MEMBERS && begun.elapsed() < MAX_GROUP {
                next = self.requests.try_recv().ok();
            }
        }
        // It releases the last savepoint, too.
        let committed = match broken {
            Some(error) => Err(error),
            None => run(&mut *shared.lock().await, "COMMIT").await,
        };
        if committed.is_err() {
            // The driver may have rolled back already; a connection in doubt is not used again.
            let _ = run(&mut *shared.lock().await, "ROLLBACK").await;
            self.connection = None;
        }
        for ack in waiting {
            let _ = ack.send(committed.clone());
        }
    }

    /// The connection within a new transaction.
    async fn begun(&mut self) -> Result<Arc<Mutex<SqliteConnection>>, StoreError> {
        let shared = match &self.connection {
            Some(shared) => Arc::clone(shared),
            None => {
                let fresh = Arc::new(Mutex::new(self.options.connect().await?));
                self.connection = Some(Arc::clone(&fresh));
                fresh
            }
        };
        // A deferred transaction that reads and then writes fails when another process wrote in
        // between, without waiting.
        let started = Instant::now();
        loop {
            let begin = sqlx::query("BEGIN IMMEDIATE; SAVEPOINT member");
            let begun = begin.execute(&mut *shared.lock().await).await;
            match begun {
                Ok(_) => return Ok(shared),
                Err(error) if is_busy(&error) && started.elapsed() < self.patience => {}
                Err(error) => {
                    // Whether it stands in a transaction is not known.
                    self.connection = None;
                    return Err(error.into());
                }
            }
        }
    }
}

/// The savepoint of a group that is open for the next member.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Savepoint {
    /// Nothing was done since it was set.
    Clean,
    /// A member that ended well is in it.
    Used,
}

/// Lends the connection to one transaction and takes it back. Gives where to tell of the commit,
/// or nothing when it was undone; an error when the group cannot go on: SQLite ends the whole
/// transaction by itself when the disk is full or broken, and then there is no savepoint any more.
async fn member(
    shared: &Arc<Mutex<SqliteConnection>>,
    savepoint: &mut Savepoint,
    request: Request,
) -> Result<Option<Ack>, StoreError> {
    if request.is_closed() {
        return Ok(None);
    }
    let mut connection = Arc::clone(shared).lock_owned().await;
    if *savepoint == Savepoint::Used
        && let Err(error) = run(&mut connection, "RELEASE member; SAVEPOINT member").await
    {
        let _ = request.send(Err(error.clone()));
        return Err(error);
    }
    let (verdict, told) = oneshot::channel();
    // Whoever gave up meanwhile drops it at once, which undoes nothing.
    let _ = request.send(Ok(Lent { connection, verdict }));
    let ack = told.await.ok();
    *savepoint = Savepoint::Used;
    if ack.is_none() {
        run(&mut *shared.lock().await, "ROLLBACK TO member").await?;
        *savepoint = Savepoint::Clean;
    }
    Ok(ack)
}

/// `SQLITE_BUSY` in all its kinds: another process writes.
fn is_busy(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.and_then(|code| code.parse::<u32>().ok())
        .is_some_and(|code| code & 0xff == 5)
}

async fn run(connection: &mut SqliteConnection, statement: &'static str) -> Result<(), StoreError> {
    sqlx::query(statement).execute(connection).await?;
    Ok(())
}

fn ended() -> StoreError {
    StoreError::Unavailable("the program is shutting down".to_owned())
}
