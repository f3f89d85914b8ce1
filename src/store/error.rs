//! What the drivers say, sorted by what a caller can do about it. Called through `?` in all of
//! `store`. Never repeats the database's address, which may hold a password.

use sqlx::migrate::MigrateError;
use sqlx::postgres::PgDatabaseError;
use sqlx::sqlite::SqliteError;

use super::StoreError;

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        use sqlx::Error;
        match &error {
            Error::PoolTimedOut => {
                StoreError::Unavailable("all connections were in use for too long; try again".to_owned())
            }
            Error::PoolClosed => StoreError::Unavailable("the program is shutting down".to_owned()),
            Error::Configuration(_) => StoreError::Address("it holds a value that the driver refuses".to_owned()),
            Error::Io(_) | Error::Tls(_) | Error::Protocol(_) | Error::WorkerCrashed | Error::BeginFailed => {
                StoreError::Unavailable(error.to_string())
            }
            Error::Database(_) if is_of_disk(&error) => StoreError::Unavailable(format!(
                "the disk below the file of database.url did not do what it was asked; the kernel's log (dmesg) tells \
                 more. Free it or mend it: the service goes on by itself when it works ({error})"
            )),
            Error::Database(_) if may_pass(&error) => StoreError::Unavailable(error.to_string()),
            Error::Database(_) if is_damaged(&error) => StoreError::Corrupt(format!(
                "the file is damaged; keep a copy of it, and put a backup in its place ({error})"
            )),
            _ => StoreError::Corrupt(error.to_string()),
        }
    }
}

#[cfg(feature = "failpoints")]
impl From<crate::fault::Injected> for StoreError {
    fn from(injected: crate::fault::Injected) -> Self {
        StoreError::Unavailable(injected.to_string())
    }
}

impl From<MigrateError> for StoreError {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::VersionMissing(version) => StoreError::TooNew(format!(
                "it has migration {version}, which this program does not know; install a newer Forgehand"
            )),
            MigrateError::Execute(error) => error.into(),
            MigrateError::ExecuteMigration(error, version) => match StoreError::from(error) {
                StoreError::Unavailable(problem) => {
                    StoreError::Unavailable(format!("migration {version} did not finish: {problem}"))
                }
                other => StoreError::Corrupt(format!("migration {version} failed: {other}")),
            },
            other => StoreError::Corrupt(other.to_string()),
        }
    }
}

/// Whether the database refused for a reason that lies outside the statement.
fn may_pass(error: &sqlx::Error) -> bool {
    let Some(error) = error.as_database_error() else {
        return false;
    };
    if let Some(error) = error.try_downcast_ref::<PgDatabaseError>() {
        return postgres_may_pass(error.code());
    }
    if error.try_downcast_ref::<SqliteError>().is_some() {
        return error
            .code()
            .and_then(|code| code.parse().ok())
            .is_some_and(sqlite_may_pass);
    }
    false
}

/// CORRUPT and NOTADB of SQLite. A server says such things of itself in its own log.
fn is_damaged(error: &sqlx::Error) -> bool {
    is_of_sqlite(error, &[11, 26])
}

/// IOERR and FULL of SQLite, likewise.
fn is_of_disk(error: &sqlx::Error) -> bool {
    is_of_sqlite(error, &[10, 13])
}

/// The lower byte is the primary code.
fn is_of_sqlite(error: &sqlx::Error, primary: &[i32]) -> bool {
    let Some(error) = error.as_database_error() else {
        return false;
    };
    let code: Option<i32> = error.code().and_then(|code| code.parse().ok());
    error.try_downcast_ref::<SqliteError>().is_some() && code.is_some_and(|code| primary.contains(&(code & 0xff)))
}

/// Classes and codes of PostgreSQL: connection, sign-in, missing database, deadlock and
/// serialisation, resources, objects in use, operator intervention, system errors.
fn postgres_may_pass(code: &str) -> bool {
    let class = code.get(..2).unwrap_or_default();
    matches!(class, "08" | "28" | "3D" | "40" | "53" | "55" | "57" | "58") || code == "25P03" || code == "25P04"
}

/// The lower byte is the primary code: BUSY, LOCKED, NOMEM, READONLY, INTERRUPT, IOERR, FULL,
/// CANTOPEN, PROTOCOL (a lock race in WAL mode).
fn sqlite_may_pass(code: i32) -> bool {
    matches!(code & 0xff, 5 | 6 | 7 | 8 | 9 | 10 | 13 | 14 | 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_postgres(code: &str, expected: bool) {
        assert_eq!(postgres_may_pass(code), expected, "{code}");
    }

    #[test]
    fn a_busy_server_is_not_a_broken_one() {
        check_postgres("57P01", true); // shut down by the administrator
        check_postgres("57014", true); // statement timeout
        check_postgres("55P03", true); // lock timeout
        check_postgres("40P01", true); // deadlock
        check_postgres("53300", true); // too many connections
        check_postgres("23505", false); // a unique index
        check_postgres("42P01", false); // no such table
        check_postgres("", false);
    }

    #[track_caller]
    fn check_sqlite(code: i32, expected: bool) {
        assert_eq!(sqlite_may_pass(code), expected, "{code}");
    }

    #[test]
    fn a_locked_file_is_not_a_broken_one() {
        check_sqlite(5, true);
        check_sqlite(517, true); // BUSY_SNAPSHOT
        check_sqlite(13, true); // disk full
        check_sqlite(1, false);
        check_sqlite(11, false); // not a database any more
        check_sqlite(2067, false); // a unique index
    }
}
