//! Whether this program may work on a schema that a newer one has extended, as in a rolling upgrade
//! where old and new processes run side by side. The schema itself says which program is the oldest
//! that may: migrations that only add leave that number as it is, one that takes something away or
//! changes what a column means raises it. Called by `connect` before it migrates.
//! Never guesses: a schema that says nothing is only for programs that know all of it.

use sqlx::migrate::Migrator;
use sqlx::{PgConnection, SqliteConnection};

/// The newest migration that the oldest fitting program knows.
const OLDEST: &str = "SELECT min_version
                      FROM schema_compat
                      WHERE id = 1";

/// What the schema says; nothing where the table does not exist yet.
pub(super) async fn sqlite(connection: &mut SqliteConnection) -> Option<i64> {
    sqlx::query_scalar(OLDEST).fetch_optional(connection).await.ok()?
}

/// The same on PostgreSQL.
pub(super) async fn postgres(connection: &mut PgConnection) -> Option<i64> {
    sqlx::query_scalar(OLDEST).fetch_optional(connection).await.ok()?
}

/// Whether a program with these migrations may pass over ones that it does not know.
pub(super) fn may_run(migrator: &Migrator, oldest: Option<i64>) -> bool {
    let newest_known = migrator.iter().map(|migration| migration.version).max();
    matches!((newest_known, oldest), (Some(known), Some(oldest)) if known >= oldest)
}
