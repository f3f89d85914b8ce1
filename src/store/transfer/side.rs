//! One of the two databases of a transfer, on a connection of its own: the source is held still
//! while it is read, the target gets rows. Called by `transfer`.
//! Never updates or deletes, and never lets an address into an error.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use chrono::{DateTime, SubsecRound as _, Utc};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use sqlx::postgres::{PgConnectOptions, PgRow};
use sqlx::sqlite::{SqliteConnectOptions, SqliteRow, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, Row as _, SqliteConnection};

use super::TransferError;
use super::table::{Kind, Row, Table, Value, quoted};
use crate::secret::{Secret, random_hex};
use crate::store::{Store, StoreError};

/// Longest wait for somebody else's transaction before the database counts as in use.
const BUSY_TIMEOUT: Duration = Duration::from_secs(3);
/// How long connections of a service that has ended may still be listed.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Longest wait for a server to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Milliseconds. A sum over a large table is sorted first, which takes minutes.
const POSTGRES_LIMITS: [(&str, &str); 3] = [
    ("statement_timeout", "3600000"),
    ("lock_timeout", "3000"),
    ("idle_in_transaction_session_timeout", "0"),
];

/// Name under which the service's own connections are listed by PostgreSQL.
const SERVICE: &str = "forgehand";

/// Text of a key in the order of its bytes, whatever the database's language is.
const COLLATE_C: &str = " COLLATE \"C\"";

/// What PostgreSQL and SQLite say when a row names another that is not there.
const POSTGRES_FOREIGN_KEY: &str = "23503";
const SQLITE_FOREIGN_KEY: &str = "787";

/// Binds values of any kind to a query.
macro_rules! bind_all {
    ($query:expr, $values:expr) => {{
        let mut query = $query.persistent(false);
        for value in $values {
            query = match value {
                Value::Text(text) => query.bind(text.as_deref()),
                Value::Int(number) => query.bind(*number),
                Value::Bool(yes) => query.bind(*yes),
                Value::Time(at) => query.bind(*at),
                Value::Bytes(bytes) => query.bind(bytes.as_deref()),
            };
        }
        query
    }};
}

/// Reads a row of either database.
macro_rules! reader {
    ($name:ident, $row:ty) => {
        fn $name(table: &Table, row: &$row) -> sqlx::Result<Row> {
            let mut values = Vec::with_capacity(table.columns.len());
            for (at, column) in table.columns.iter().enumerate() {
                values.push(match column.kind {
                    Kind::Text => Value::text(row.try_get(at)?),
                    Kind::Int => Value::Int(row.try_get(at)?),
                    Kind::Bool => Value::Bool(row.try_get(at)?),
                    Kind::Time => {
                        let at: Option<DateTime<Utc>> = row.try_get(at)?;
                        Value::Time(at.map(|at| at.trunc_subsecs(6)))
                    }
                    Kind::Bytes => Value::Bytes(row.try_get(at)?),
                });
            }
            Ok(values)
        }
    };
}

reader!(read_sqlite, SqliteRow);
reader!(read_postgres, PgRow);

/// A database.
pub(super) enum Side {
    Sqlite {
        connection: Box<SqliteConnection>,
        file: PathBuf,
        side: &'static str,
    },
    Postgres {
        connection: Box<PgConnection>,
        side: &'static str,
    },
}

/// The rows of a table, one after the other.
pub(super) struct Rows<'a> {
    stream: BoxStream<'a, sqlx::Result<Row>>,
    side: &'static str,
    table: &'a str,
}

impl Rows<'_> {
    pub(super) async fn next(&mut self) -> Result<Option<Row>, TransferError> {
        match self.stream.next().await {
            None => Ok(None),
            Some(Ok(row)) => Ok(Some(row)),
            Some(Err(error)) => Err(at(
                self.side,
                match StoreError::from(error) {
                    StoreError::Corrupt(what) => StoreError::Corrupt(format!("{}: {what}", self.table)),
                    other => other,
                },
            )),
        }
    }
}

/// An error with the side that it is of.
pub(super) fn at(side: &'static str, error: StoreError) -> TransferError {
    TransferError::Store { side, error }
}

impl Side {
    /// Opens what is there; makes nothing.
    pub(super) async fn open(url: &Secret, side: &'static str) -> Result<Self, TransferError> {
        let of = |error: StoreError| at(side, error);
        if let Some(file) = Store::file(url).map_err(of)? {
            if !file.is_file() {
                return Err(TransferError::Refused(format!(
                    "the {side}: there is no file {}",
                    file.display()
                )));
            }
            let options = SqliteConnectOptions::new()
                .filename(&file)
                .create_if_missing(false)
                .busy_timeout(BUSY_TIMEOUT)
                .synchronous(SqliteSynchronous::Full)
                .foreign_keys(true)
                .row_buffer_size(2);
            let connection = options.connect().await.map_err(|error| of(error.into()))?;
            let connection = Box::new(connection);
            return Ok(Side::Sqlite { connection, file, side });
        }
        let is_server = ["postgres://", "postgresql://"]
            .iter()
            .any(|scheme| url.expose().starts_with(scheme));
        let options: Option<PgConnectOptions> = url.expose().parse().ok().filter(|_| is_server);
        let Some(options) = options else {
            let what = "sqlite:PATH or postgres://USER@HOST/DATABASE is expected".to_owned();
            return Err(of(StoreError::Address(what)));
        };
        let options = options.application_name("forgehand-migrate").options(POSTGRES_LIMITS);
        match tokio::time::timeout(CONNECT_TIMEOUT, options.connect()).await {
            Ok(connection) => Ok(Side::Postgres {
                connection: Box::new(connection.map_err(|error| of(error.into()))?),
                side,
            }),
            Err(_) => Err(of(StoreError::Unavailable("the server does not answer".to_owned()))),
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Side::Sqlite { .. } => "sqlite",
            Side::Postgres { .. } => "postgres",
        }
    }

    pub(super) fn side(&self) -> &'static str {
        match self {
            Side::Sqlite { side, .. } | Side::Postgres { side, .. } => side,
        }
    }

    fn error(&self, error: sqlx::Error) -> TransferError {
        at(self.side(), error.into())
    }

    /// Version of the last migration; nothing where there never was one.
    pub(super) async fn schema(&mut self) -> Result<Option<i64>, TransferError> {
        let is_there = match self {
            Side::Sqlite { connection, .. } => {
                sqlx::query_scalar("SELECT COUNT(*) FROM sqlite_schema WHERE name = '_sqlx_migrations'")
                    .fetch_one(&mut **connection)
                    .await
            }
            Side::Postgres { connection, .. } => {
                sqlx::query_scalar("SELECT COUNT(TO_REGCLASS('_sqlx_migrations'))")
                    .fetch_one(&mut **connection)
                    .await
            }
        };
        let is_there: i64 = is_there.map_err(|error| self.error(error))?;
        if is_there == 0 {
            return Ok(None);
        }
        let query = "SELECT MAX(version) FROM _sqlx_migrations WHERE success";
        let version = match self {
            Side::Sqlite { connection, .. } => sqlx::query_scalar(query).fetch_one(&mut **connection).await,
            Side::Postgres { connection, .. } => sqlx::query_scalar(query).fetch_one(&mut **connection).await,
        };
        version.map_err(|error| self.error(error))
    }

    /// From now on nobody writes, and everything that is read is of one moment.
    pub(super) async fn hold_still(&mut self, tables: &[Table]) -> Result<(), TransferError> {
        let held = match self {
            Side::Sqlite { connection, .. } => sqlx::raw_sql("BEGIN IMMEDIATE")
                .execute(&mut **connection)
                .await
                .map(drop),
            Side::Postgres { connection, .. } => {
                let names: Vec<String> = tables.iter().map(|table| quoted(&table.name)).collect();
                // The lock comes first: the moment is that of the first SELECT.
                let statements = format!(
                    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; LOCK TABLE {} IN SHARE MODE",
                    names.join(", ")
                );
                sqlx::raw_sql(AssertSqlSafe(statements))
                    .execute(&mut **connection)
                    .await
                    .map(drop)
            }
        };
        held.map_err(|error| match StoreError::from(error) {
            StoreError::Unavailable(_) => TransferError::Refused(format!(
                "the {} is in use: somebody writes to it right now. Stop the service (SIGTERM) and whatever else works \
                 on it, then run this again",
                self.side()
            )),
            error => at(self.side(), error),
        })
    }

    /// A service that lives has connections, also while it has nothing to do. Those of one that
    /// just ended are still there for a moment.
    pub(super) async fn refuse_if_connected(&mut self) -> Result<(), TransferError> {
        let side = self.side();
        let Side::Postgres { connection, .. } = self else {
            return Ok(());
        };
        let begun = Instant::now();
        loop {
            let connections: i64 = sqlx::query_scalar(
                "SELECT COUNT(*)
                FROM pg_stat_activity
                WHERE datname = CURRENT_DATABASE() AND application_name = $1",
            )
            .bind(SERVICE)
            .fetch_one(&mut **connection)
            .await
            .map_err(|error| at(side, error.into()))?;
            if connections == 0 {
                return Ok(());
            }
            if begun.elapsed() > LAST_WORDS {
                return Err(TransferError::Refused(format!(
                    "the {side} is in use: Forgehand has {connections} connections to it. Stop every process of the \
                     service (SIGTERM), on all machines, then run this again"
                )));
            }
            tokio::time::sleep(LAST_WORDS / 10).await;
        }
    }

    /// Jobs in the hands of a worker: the service lives, or was killed a moment ago.
    pub(super) async fn refuse_if_held(&mut self) -> Result<(), TransferError> {
        let side = self.side();
        let leases = "SELECT COUNT(*), MAX(lease_until)
            FROM jobs
            WHERE state IN ('leased', 'publishing') AND lease_until > $1";
        let found: sqlx::Result<(i64, Option<DateTime<Utc>>)> = match self {
            Side::Sqlite { connection, .. } => {
                let now: DateTime<Utc> = sqlx::query_scalar("SELECT STRFTIME('%Y-%m-%d %H:%M:%f', 'now')")
                    .fetch_one(&mut **connection)
                    .await
                    .map_err(|error| at(side, error.into()))?;
                sqlx::query_as(leases).bind(now).fetch_one(&mut **connection).await
            }
            Side::Postgres { connection, .. } => {
                let now: DateTime<Utc> = sqlx::query_scalar("SELECT CLOCK_TIMESTAMP()")
                    .fetch_one(&mut **connection)
                    .await
                    .map_err(|error| at(side, error.into()))?;
                sqlx::query_as(leases).bind(now).fetch_one(&mut **connection).await
            }
        };
        match found.map_err(|error| at(side, error.into()))? {
            (jobs @ 1.., Some(until)) => Err(TransferError::Refused(format!(
                "the {side} is in use: {jobs} jobs are in the hands of a worker until {}. Stop the service (SIGTERM), \
                 which hands them back, or wait until then if it was killed; then run this again",
                until.format("%Y-%m-%d %H:%M:%S UTC")
            ))),
            _ => Ok(()),
        }
    }

    /// Whether it is this file, by whatever name.
    pub(super) fn is_file(&self, other: &Path) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let Side::Sqlite { file, .. } = self else { return false };
        let identity = |path: &Path| path.metadata().map(|about| (about.dev(), about.ino()));
        matches!((identity(file), identity(other)), (Ok(one), Ok(other)) if one == other)
    }

    /// Whether the other side is the same database of the same server, by whatever address: what one
    /// has locked, the other cannot lock.
    pub(super) async fn is_same_database(&mut self, other: &mut Side) -> Result<bool, TransferError> {
        let key = format!("forgehand transfer {}", random_hex::<8>());
        let is_free = match (&mut *self, &mut *other) {
            (Side::Postgres { connection: one, .. }, Side::Postgres { connection: two, .. }) => {
                sqlx::query("SELECT PG_ADVISORY_LOCK(HASHTEXTEXTENDED($1, 0))")
                    .bind(&key)
                    .execute(&mut **one)
                    .await
                    .map_err(|error| at("source", error.into()))?;
                sqlx::query_scalar("SELECT PG_TRY_ADVISORY_LOCK(HASHTEXTEXTENDED($1, 0))")
                    .bind(&key)
                    .fetch_one(&mut **two)
                    .await
            }
            _ => Ok(true),
        };
        let is_free: bool = is_free.map_err(|error| at("target", error.into()))?;
        Ok(!is_free)
    }

    pub(super) async fn count(&mut self, table: &Table) -> Result<u64, TransferError> {
        let query = AssertSqlSafe(table.count());
        let count = match self {
            Side::Sqlite { connection, .. } => sqlx::query_scalar(query).fetch_one(&mut **connection).await,
            Side::Postgres { connection, .. } => sqlx::query_scalar(query).fetch_one(&mut **connection).await,
        };
        let count: i64 = count.map_err(|error| self.error(error))?;
        Ok(count.unsigned_abs())
    }

    /// Every row in the order of the keys.
    pub(super) fn rows<'a>(&'a mut self, table: &'a Table) -> Rows<'a> {
        let side = self.side();
        let stream = match self {
            Side::Sqlite { connection, .. } => sqlx::query(AssertSqlSafe(table.select("")))
                .persistent(false)
                .fetch(&mut **connection)
                .map(|row| read_sqlite(table, &row?))
                .boxed(),
            Side::Postgres { connection, .. } => sqlx::query(AssertSqlSafe(table.select(COLLATE_C)))
                .persistent(false)
                .fetch(&mut **connection)
                .map(|row| read_postgres(table, &row?))
                .boxed(),
        };
        Rows {
            stream,
            side,
            table: &table.name,
        }
    }

    /// The rows that have the keys of the given ones.
    pub(super) async fn find(&mut self, table: &Table, rows: &[Row]) -> Result<Vec<Row>, TransferError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let query = sqlx::AssertSqlSafe(table.select_by_keys(rows.len()));
        let keys = rows.iter().flat_map(|row| table.key_of(row));
        let found: sqlx::Result<Vec<Row>> = match self {
            Side::Sqlite { connection, .. } => {
                let found = bind_all!(sqlx::query(query), keys).fetch_all(&mut **connection).await;
                found.and_then(|found| found.iter().map(|row| read_sqlite(table, row)).collect())
            }
            Side::Postgres { connection, .. } => {
                let found = bind_all!(sqlx::query(query), keys).fetch_all(&mut **connection).await;
                found.and_then(|found| found.iter().map(|row| read_postgres(table, row)).collect())
            }
        };
        found.map_err(|error| self.error(error))
    }

    /// Adds those rows that are not there; returns how many were added. Refused where a row names
    /// another one that is not there.
    pub(super) async fn insert(&mut self, table: &Table, rows: &[Row]) -> Result<u64, TransferError> {
        let query = AssertSqlSafe(table.insert(rows.len()));
        let values = rows.iter().flatten();
        let added = match self {
            Side::Sqlite { connection, .. } => {
                let added = bind_all!(sqlx::query(query), values).execute(&mut **connection).await;
                added.map(|added| added.rows_affected())
            }
            Side::Postgres { connection, .. } => {
                let added = bind_all!(sqlx::query(query), values).execute(&mut **connection).await;
                added.map(|added| added.rows_affected())
            }
        };
        added.map_err(|error| {
            let code = error.as_database_error().and_then(|error| error.code());
            match code.as_deref() {
                Some(POSTGRES_FOREIGN_KEY | SQLITE_FOREIGN_KEY) => {
                    TransferError::Refused("the row that it belongs to is not on the target".to_owned())
                }
                _ => self.error(error),
            }
        })
    }

    /// Ends the connection; the source's transaction ends with it.
    pub(super) async fn close(self) {
        let closed = match self {
            Side::Sqlite { connection, .. } => connection.close().await,
            Side::Postgres { connection, .. } => connection.close().await,
        };
        if let Err(error) = closed {
            tracing::debug!(%error, "a connection of the transfer did not end well");
        }
    }
}
