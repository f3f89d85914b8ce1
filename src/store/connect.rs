//! Opening, migrating and closing: what each database needs to be set to so that the promises of
//! durability and bounded waiting hold. Called by `Store`.
//! Never lets the address into an error or a log: it may hold a password.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, PgPool, Postgres, SqlSafeStr as _};

use super::doorbell::Bell;
use super::finish::Ends;
use super::group::{Lent, Writer};
use super::{OpenTx, Store, StoreError, answered, compat};
use crate::closed;
use crate::secret::Secret;

/// Longest wait for a free connection, and on SQLite for another process's transaction.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait of a migration for the same migration in another process.
const MIGRATE_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest wait for transactions in progress when the store is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait for a connection to come back from a transaction that was dropped. One that does not is
/// given up: the pool itself would wait for it for as long as the network says nothing, a quarter of an hour.
const RETURN_TIMEOUT: Duration = Duration::from_secs(2);

/// Milliseconds that PostgreSQL gives a statement, a wait for a lock and an idle transaction.
/// Our statements take a few; whatever takes seconds holds up everybody else.
/// And how soon the server forgets a client whose machine or network is gone.
const POSTGRES_LIMITS: [(&str, &str); 14] = [
    ("statement_timeout", "5000"),
    ("lock_timeout", "2000"),
    ("idle_in_transaction_session_timeout", "10000"),
    // The guards rely on seeing what was committed before each statement.
    ("default_transaction_isolation", "read committed"),
    // What GitHub was told that we took must outlive the server, whatever its own default is.
    ("synchronous_commit", "on"),
    ("tcp_keepalives_idle", "30"),
    ("tcp_keepalives_interval", "10"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "30000"),
    // Plan by the indexes, always, and once: to plan a claim takes the server three times as long as to carry
    // it out. Plans of prepared statements that were made while the tables were new and empty would read whole
    // tables otherwise, until statistics are taken. Reports that read much lose little by it. Sorting stays: it
    // is what the few rows of a narrow index need, and without it the server reads a wide one that is in order.
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    // What is switched off counts as very dear, for which the server would compile the statement.
    ("jit", "off"),
];

/// The limits while migrating: an index over a large table takes minutes.
const POSTGRES_MIGRATE_LIMITS: [(&str, &str); 2] = [("statement_timeout", "600000"), ("lock_timeout", "60000")];

/// A SQLite file.
#[derive(Clone)]
pub struct SqliteStore {
    writer: Writer,
    options: Arc<SqliteConnectOptions>,
    bell: Bell,
    ends: Ends,
}

/// A PostgreSQL server.
#[derive(Clone)]
pub struct PostgresStore {
    pool: PgPool,
    options: Arc<PgConnectOptions>,
    bell: Bell,
    ends: Ends,
}

pub(super) async fn open(url: &Secret, max_connections: u32) -> Result<Store, StoreError> {
    let text = url.expose();
    if let Some(path) = text.strip_prefix("sqlite:") {
        let path = sqlite_path(path)?;
        SqliteStore::open(&path).await.map(Store::Sqlite)
    } else if text.starts_with("postgres://") || text.starts_with("postgresql://") {
        PostgresStore::open(text, max_connections).await.map(Store::Postgres)
    } else {
        Err(StoreError::Address(
            "it begins with sqlite:, postgres:// or postgresql://".to_owned(),
        ))
    }
}

pub(super) fn file(url: &Secret) -> Result<Option<PathBuf>, StoreError> {
    url.expose().strip_prefix("sqlite:").map(sqlite_path).transpose()
}

/// The path of `sqlite:PATH` or `sqlite://PATH`.
fn sqlite_path(after_scheme: &str) -> Result<PathBuf, StoreError> {
    let path = after_scheme.strip_prefix("//").unwrap_or(after_scheme);
    if path.is_empty() || path.starts_with(':') {
        return Err(StoreError::Address(
            "a file is needed after sqlite:, for example sqlite:/var/lib/forgehand/forgehand.sqlite".to_owned(),
        ));
    }
    if path.contains(['?', '\0']) {
        return Err(StoreError::Address(
            "after sqlite: comes only a path, without options after a '?'".to_owned(),
        ));
    }
    Ok(PathBuf::from(path))
}

impl SqliteStore {
    async fn open(path: &Path) -> Result<Self, StoreError> {
        create_private(path).map_err(|error| StoreError::Unavailable(format!("create {}: {error}", path.display())))?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .busy_timeout(BUSY_TIMEOUT)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true);
        use_wal(&options).await?;
        let options = Arc::new(options);
        Ok(Self {
            writer: Writer::open(&options, BUSY_TIMEOUT).await?,
            options,
            bell: Bell::default(),
            ends: Ends::default(),
        })
    }

    /// SQLite has no lock for migrations: one transaction around all of them is the lock.
    pub(super) async fn migrate(&self) -> Result<(), StoreError> {
        let mut connection = self
            .options
            .as_ref()
            .clone()
            .busy_timeout(MIGRATE_TIMEOUT)
            .connect()
            .await?;
        let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
        let mut migrator = migrator();
        let oldest = compat::sqlite(&mut tx).await;
        migrator.set_ignore_missing(compat::may_run(&migrator, oldest));
        migrator.run_direct(None, &mut *tx, false).await?;
        tx.commit().await?;
        connection.close().await?;
        Ok(())
    }

    pub(super) async fn begin(&self) -> Result<OpenTx<Lent>, StoreError> {
        Ok(OpenTx::new(self.writer.begin(BUSY_TIMEOUT).await?, &self.bell))
    }

    pub(super) fn bell(&self) -> &Bell {
        &self.bell
    }

    /// The ends of jobs that stand in line.
    pub(super) fn ends(&self) -> &Ends {
        &self.ends
    }

    pub(super) async fn close(&self) {
        // What does not end in time is cut off with the process; nothing committed is lost.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.writer.close()).await;
    }
}

impl PostgresStore {
    async fn open(url: &str, max_connections: u32) -> Result<Self, StoreError> {
        let options: PgConnectOptions = url
            .parse()
            .map_err(|_| StoreError::Address("postgres://USER:PASSWORD@HOST/DATABASE is expected".to_owned()))?;
        let options = options.application_name("forgehand").options(POSTGRES_LIMITS);
        // The pool would try again until its time is up, and then not say what was wrong.
        connect(&options).await?.close().await?;
        let pool = PgPoolOptions::new()
            .max_connections(max_connections.max(1))
            .acquire_timeout(BUSY_TIMEOUT)
            .after_release(|connection, _| Box::pin(comes_back(connection)))
            .connect_lazy_with(options.clone());
        Ok(Self {
            bell: Bell::heard_by_others(pool.clone()),
            pool,
            options: Arc::new(options),
            ends: Ends::default(),
        })
    }

    pub(super) async fn migrate(&self) -> Result<(), StoreError> {
        let mut connection = connect(&self.options.as_ref().clone().options(POSTGRES_MIGRATE_LIMITS)).await?;
        let mut migrator = migrator();
        let oldest = compat::postgres(&mut connection).await;
        migrator.set_ignore_missing(compat::may_run(&migrator, oldest));
        // When it fails, the advisory lock goes with the connection.
        migrator.run_direct(None, &mut connection, false).await?;
        connection.close().await?;
        Ok(())
    }

    pub(super) async fn begin(&self) -> Result<OpenTx<sqlx::Transaction<'static, Postgres>>, StoreError> {
        let tx = answered(self.pool.begin()).await?;
        Ok(OpenTx::new(tx, &self.bell))
    }

    /// A connection outside a transaction, for one statement that needs no other.
    pub(super) async fn connection(&self) -> Result<sqlx::pool::PoolConnection<Postgres>, StoreError> {
        Ok(self.pool.acquire().await?)
    }

    pub(super) fn bell(&self) -> &Bell {
        &self.bell
    }

    /// The ends of jobs that stand in line.
    pub(super) fn ends(&self) -> &Ends {
        &self.ends
    }

    /// Makes sure that NOTIFY rings this store's bell.
    pub(super) fn listen(&self) {
        self.bell.listen(&self.options);
    }

    pub(super) async fn close(&self) {
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.bell.close()).await;
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.pool.close()).await;
    }
}

/// One connection outside the pool, within bounded time.
async fn connect(options: &PgConnectOptions) -> Result<PgConnection, StoreError> {
    match tokio::time::timeout(BUSY_TIMEOUT, options.connect()).await {
        Ok(connection) => Ok(connection?),
        Err(_) => Err(StoreError::Unavailable(format!(
            "the server did not answer within {} s",
            BUSY_TIMEOUT.as_secs()
        ))),
    }
}

/// Whether a connection may go back into the pool. After a commit nothing is open and nothing is asked;
/// after a transaction that was dropped the rollback is still to be sent.
async fn comes_back(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    if !connection.should_flush() {
        return Ok(true);
    }
    let back = tokio::time::timeout(RETURN_TIMEOUT, connection.ping()).await;
    Ok(matches!(back, Ok(Ok(()))))
}

/// Creates the file for its owner only; SQLite gives its companions (`-wal`, `-shm`) the same mode.
fn create_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        closed::make_folder(folder)?;
    }
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .map(drop)
}

/// Switches the file to write-ahead logging, which stays. The switch needs the file for itself
/// and does not wait for it, so that two processes that open a new file disturb each other.
async fn use_wal(options: &SqliteConnectOptions) -> Result<(), StoreError> {
    let options = options.clone().journal_mode(SqliteJournalMode::Wal);
    let started = Instant::now();
    loop {
        match options.connect().await {
            Ok(connection) => return Ok(connection.close().await?),
            Err(error) => match StoreError::from(error) {
                StoreError::Unavailable(_) if started.elapsed() < BUSY_TIMEOUT => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                error => return Err(error),
            },
        }
    }
}

/// The version of the schema that this program brings databases to.
pub(super) fn schema_version() -> i64 {
    migrator().iter().map(|migration| migration.version).max().unwrap_or(0)
}

/// All migrations, for both databases. They only go forward.
fn migrator() -> Migrator {
    let migrations = [
        (1, "jobs", include_str!("../../migrations/0001_jobs.sql")),
        (
            2,
            "conversation",
            include_str!("../../migrations/0002_conversation.sql"),
        ),
        (3, "memory", include_str!("../../migrations/0003_memory.sql")),
        (4, "ledger", include_str!("../../migrations/0004_ledger.sql")),
        (5, "drafts", include_str!("../../migrations/0005_drafts.sql")),
        (6, "steering", include_str!("../../migrations/0006_steering.sql")),
        (7, "reminders", include_str!("../../migrations/0007_reminders.sql")),
        (8, "labels", include_str!("../../migrations/0008_labels.sql")),
        (9, "milestones", include_str!("../../migrations/0009_milestones.sql")),
        (10, "schedules", include_str!("../../migrations/0010_schedules.sql")),
        (11, "queue_items", include_str!("../../migrations/0011_queue_items.sql")),
        (12, "missions", include_str!("../../migrations/0012_missions.sql")),
        (13, "queue", include_str!("../../migrations/0013_queue.sql")),
        (14, "audit", include_str!("../../migrations/0014_audit.sql")),
        (15, "budgets", include_str!("../../migrations/0015_budgets.sql")),
        (17, "compat", include_str!("../../migrations/0017_compat.sql")),
        (16, "recovery", include_str!("../../migrations/0016_recovery.sql")),
    ];
    Migrator::with_migrations(
        migrations
            .into_iter()
            .map(|(version, name, sql)| {
                Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
            })
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_path(after_scheme: &str, expected: Option<&str>) {
        assert_eq!(
            sqlite_path(after_scheme).ok(),
            expected.map(PathBuf::from),
            "{after_scheme:?}"
        );
    }

    #[test]
    fn sqlite_addresses_name_a_file() {
        check_path("/var/lib/a.sqlite", Some("/var/lib/a.sqlite"));
        check_path("///var/lib/a.sqlite", Some("/var/lib/a.sqlite"));
        check_path("a.sqlite", Some("a.sqlite"));
        check_path("//a.sqlite", Some("a.sqlite"));
        check_path("", None);
        check_path(":memory:", None);
        check_path("a.sqlite?mode=ro", None);
    }
}
