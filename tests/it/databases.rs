//! Runs a story on both databases: a fresh SQLite file, and a fresh database in the PostgreSQL
//! cluster that `FORGEHAND_TEST_POSTGRES` names. After each story the invariants must hold.
//! Never skips one of them: without a cluster the story fails and says how to get one.

use std::path::PathBuf;

use forgehand::secret::{Secret, random_hex};
use forgehand::store::Store;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};
use url::Url;

/// Connections of a store in a test: enough for the eight workers of some stories.
const CONNECTIONS: u32 = 10;

/// A fresh database.
pub struct Database {
    /// Its address.
    pub url: Secret,
    place: Place,
}

enum Place {
    Sqlite {
        path: PathBuf,
        /// Goes with the database.
        _folder: Option<tempfile::TempDir>,
    },
    Postgres {
        cluster: Url,
        name: String,
    },
}

/// Runs a story on a migrated store of each kind.
pub async fn each(story: impl AsyncFn(Store)) {
    each_database(async |database| {
        let store = database.open().await;
        story(store.clone()).await;
        store.close().await;
    })
    .await;
}

/// Runs a story on an empty database of each kind, for stories that need more than one store or
/// the address. What the story leaves must keep the invariants.
pub async fn each_database(story: impl AsyncFn(&Database)) {
    for database in [Database::sqlite(), Database::postgres().await] {
        eprintln!("on {}", database.kind());
        story(&database).await;
        let store = database.open().await;
        let mut tx = store.begin().await.unwrap();
        assert_eq!(tx.violations().await.unwrap(), [], "on {}", database.kind());
        drop(tx);
        store.close().await;
        database.remove().await;
    }
}

impl Database {
    /// A file in a new folder, in memory where that is possible.
    pub fn sqlite() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        let path = folder.path().join("state/forgehand.sqlite");
        Self {
            url: Secret::new(format!("sqlite:{}", path.display())),
            place: Place::Sqlite {
                path,
                _folder: Some(folder),
            },
        }
    }

    /// A file in a folder that the story itself removes.
    pub fn sqlite_in(path: PathBuf) -> Self {
        Self {
            url: Secret::new(format!("sqlite:{}", path.display())),
            place: Place::Sqlite { path, _folder: None },
        }
    }

    /// A new database in the cluster of the test run.
    pub async fn postgres() -> Self {
        let cluster = std::env::var("FORGEHAND_TEST_POSTGRES").expect(
            "FORGEHAND_TEST_POSTGRES must be the postgresql:// address of a cluster for tests; start the tests with \
             tests/run",
        );
        Self::postgres_in(&Secret::new(cluster)).await
    }

    /// A new database in another cluster.
    pub async fn postgres_in(cluster: &Secret) -> Self {
        let cluster: Url = cluster.expose().parse().expect("the cluster's address is a URL");
        let name = format!("forgehand_test_{}", random_hex::<8>());
        in_cluster(&cluster, format!("CREATE DATABASE {name}")).await;
        let mut url = cluster.clone();
        url.set_path(&name);
        Self {
            url: Secret::new(url.as_str()),
            place: Place::Postgres { cluster, name },
        }
    }

    /// `sqlite` or `postgres`.
    pub fn kind(&self) -> &'static str {
        match self.place {
            Place::Sqlite { .. } => "sqlite",
            Place::Postgres { .. } => "postgres",
        }
    }

    /// The file, on SQLite.
    pub fn file(&self) -> Option<PathBuf> {
        match &self.place {
            Place::Sqlite { path, .. } => Some(path.clone()),
            Place::Postgres { .. } => None,
        }
    }

    /// A store of its own, migrated: another process as far as the database can tell.
    pub async fn open(&self) -> Store {
        let store = Store::open(&self.url, CONNECTIONS).await.unwrap();
        store.migrate().await.unwrap();
        store
    }

    /// Runs statements behind the store's back, to make what should not exist.
    pub async fn execute(&self, statements: &str) {
        execute(&self.url, statements).await;
    }

    /// Removes a database of PostgreSQL; a file goes with its folder.
    pub async fn remove(self) {
        if let Place::Postgres { cluster, name } = self.place {
            in_cluster(&cluster, format!("DROP DATABASE {name} WITH (FORCE)")).await;
        }
    }
}

/// Runs statements behind everybody's back.
pub async fn execute(url: &Secret, statements: &str) {
    let (url, statements) = (url.expose(), AssertSqlSafe(statements.to_owned()));
    if url.starts_with("sqlite:") {
        let mut connection = SqliteConnection::connect(url).await.unwrap();
        sqlx::raw_sql(statements).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    } else {
        let mut connection = PgConnection::connect(url).await.unwrap();
        sqlx::raw_sql(statements).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }
}

/// Every column of every row of every table as text, bytes as hex.
pub async fn dump(url: &Secret) -> String {
    let url = url.expose();
    let mut rows: Vec<String> = Vec::new();
    if url.starts_with("sqlite:") {
        let mut connection = SqliteConnection::connect(url).await.unwrap();
        let tables = "SELECT name FROM sqlite_master WHERE type = 'table'";
        let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut connection).await.unwrap();
        for table in tables {
            let columns = "SELECT group_concat('quote(\"' || name || '\")', ' || ') FROM pragma_table_info($1)";
            let columns: String = sqlx::query_scalar(columns)
                .bind(&table)
                .fetch_one(&mut connection)
                .await
                .unwrap();
            let query = AssertSqlSafe(format!("SELECT {columns} FROM \"{table}\""));
            let found: Vec<String> = sqlx::query_scalar(query).fetch_all(&mut connection).await.unwrap();
            rows.extend(found);
        }
        connection.close().await.unwrap();
    } else {
        let mut connection = PgConnection::connect(url).await.unwrap();
        let tables = "SELECT tablename::TEXT FROM pg_tables WHERE schemaname = 'public'";
        let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut connection).await.unwrap();
        for table in tables {
            let query = AssertSqlSafe(format!("SELECT whole::TEXT FROM \"{table}\" AS whole"));
            let found: Vec<String> = sqlx::query_scalar(query).fetch_all(&mut connection).await.unwrap();
            rows.extend(found);
        }
        connection.close().await.unwrap();
    }
    rows.join("\n")
}

/// How many rows each table has.
pub async fn row_counts(database: &Database) -> std::collections::BTreeMap<String, i64> {
    let url = database.url.expose();
    let mut counts = std::collections::BTreeMap::new();
    if url.starts_with("sqlite:") {
        let mut connection = SqliteConnection::connect(url).await.unwrap();
        let tables = "SELECT name FROM sqlite_master WHERE type = 'table'";
        let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut connection).await.unwrap();
        for table in tables {
            let query = AssertSqlSafe(format!("SELECT COUNT(*) FROM \"{table}\""));
            let rows = sqlx::query_scalar(query).fetch_one(&mut connection).await.unwrap();
            counts.insert(table, rows);
        }
        connection.close().await.unwrap();
    } else {
        let mut connection = PgConnection::connect(url).await.unwrap();
        let tables = "SELECT tablename::TEXT FROM pg_tables WHERE schemaname = 'public'";
        let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut connection).await.unwrap();
        for table in tables {
            let query = AssertSqlSafe(format!("SELECT COUNT(*) FROM \"{table}\""));
            let rows = sqlx::query_scalar(query).fetch_one(&mut connection).await.unwrap();
            counts.insert(table, rows);
        }
        connection.close().await.unwrap();
    }
    counts
}

async fn in_cluster(cluster: &Url, statement: String) {
    let mut connection = PgConnection::connect(cluster.as_str())
        .await
        .expect("the cluster of FORGEHAND_TEST_POSTGRES answers; start the tests with tests/run");
    sqlx::raw_sql(AssertSqlSafe(statement))
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}
