//! FI-17: a rolling upgrade. An older program works on beside a newer schema as long as that has only been
//! extended, and is refused once it is not; a migration that is killed at any statement is begun anew.

use std::time::{Duration, Instant};

use super::PATIENCE;
use crate::crash::{WHOLE, WORKER, ask, assert_each_done_once, random};
use crate::databases::{Database, dump};
use crate::process::{Site, finished};

/// What a newer program adds: a column, a table, and the note that it did.
const EXPAND: &str = "ALTER TABLE jobs ADD COLUMN of_the_future TEXT;
    ALTER TABLE effects ADD COLUMN of_the_future BIGINT;
    CREATE TABLE things_of_the_future (id TEXT PRIMARY KEY, job_id TEXT NOT NULL);
    INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
        SELECT 9998, 'expand', success, checksum, 0 FROM _sqlx_migrations WHERE version = 1;";

/// What it does once no process needs the old form: here, of something that this program does not know.
const CONTRACT: &str = "DROP TABLE things_of_the_future;
    UPDATE schema_compat SET min_version = 9998;
    INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
        SELECT 9999, 'contract', success, checksum, 0 FROM _sqlx_migrations WHERE version = 1;";

/// Killed migrations on each database.
const KILLS: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn fi17_an_older_program_works_on_a_schema_that_was_extended() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let several = database.kind() == "postgres";
        let site = Site::open(database).await;
        let mut first = site.program("first", WHOLE);
        first.start().await;
        let store = site.database.open().await;
        let mut issues = Vec::new();
        let mut round = async |site: &Site| {
            let issue = ask(site, issues.len(), "It prints a difference.");
            issues.push(issue);
            site.wait("the job ends", PATIENCE, async || finished(&store, issue).await)
                .await;
        };
        round(&site).await;
        // One that runs notices nothing, one that starts may start.
        site.database.execute(EXPAND).await;
        round(&site).await;
        let mut second = site.program("second", WORKER);
        if several {
            second.start().await;
            round(&site).await;
            second.stop().await;
        }
        first.stop().await;
        first.start().await;
        site.redeliver_failed().await;
        round(&site).await;
        // The old form is gone: one that starts is refused, says why and changes nothing.
        site.database.execute(CONTRACT).await;
        round(&site).await;
        first.stop().await;
        let before = dump(&site.database.url).await;
        let refused = first.run(&["serve"]).await;
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(
            said.contains("newer version of Forgehand") && said.contains("install"),
            "{said}"
        );
        assert_eq!(dump(&site.database.url).await, before);
        assert_each_done_once(&site, &store, &first, &issues).await;
        store.close().await;
        site.close().await;
    }
}

/// On PostgreSQL the story holds a name that some statement of the migrations wants to make, so that the
/// program stands there when it is killed. On SQLite all statements are one transaction, and the moment is
/// random.
#[tokio::test(flavor = "multi_thread")]
async fn fi17_a_migration_that_is_killed_is_begun_anew() {
    let mut chance = random("killed migrations");
    let names = names();
    assert!(names.len() > 20, "{names:?}");
    let wanted = names_of_a_fresh_schema().await;
    for kill in 0..KILLS {
        // Spread over all migrations.
        let part = names.len() / KILLS;
        let (kind, name) = &names[kill * part + chance.usize(..part)];
        let site = Site::open(Database::postgres().await).await;
        let mut service = site.program("service", WHOLE);
        let held = hold(&site.database, name).await;
        let mut stuck = service.begin();
        site.wait("the migration stands still", PATIENCE, async || {
            waits(&site.database).await.then_some(())
        })
        .await;
        stuck.kill().await.unwrap();
        drop(held);
        gone(&site).await;
        service.start().await;
        assert_eq!(schema(&site.database).await, wanted, "killed at {kind} {name}");
        service.stop().await;
        eprintln!("killed at {kind} {name}");
        site.close().await;
    }
    let mut undisturbed = None;
    for _ in 0..KILLS {
        let site = Site::open(Database::sqlite()).await;
        let mut service = site.program("service", WHOLE);
        if undisturbed.is_none() {
            let begun = Instant::now();
            service.start().await;
            undisturbed = Some(begun.elapsed());
            service.stop().await;
            site.close().await;
            continue;
        }
        let mut begun = service.begin();
        tokio::time::sleep(undisturbed.unwrap().mul_f64(chance.f64())).await;
        begun.kill().await.unwrap();
        service.start().await;
        let store = site.database.open().await;
        let issue = ask(&site, 0, "It prints a difference.");
        site.wait("the job ends", PATIENCE, async || finished(&store, issue).await)
            .await;
        assert_each_done_once(&site, &store, &service, &[issue]).await;
        service.stop().await;
        store.close().await;
        site.close().await;
    }
}

/// What the migrations make, in their order: `TABLE` or `INDEX`, and its name.
fn names() -> Vec<(String, String)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    let mut names = Vec::new();
    for file in files {
        for line in std::fs::read_to_string(file).unwrap().lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let made = match words.as_slice() {
                ["CREATE", "UNIQUE", kind, name, ..] | ["CREATE", kind, name, ..] => {
                    (kind.to_string(), name.to_string())
                }
                _ => continue,
            };
            names.push(made);
        }
    }
    names
}

/// Holds a name, until it is dropped, as somebody who makes the same thing at the same time.
async fn hold(database: &Database, name: &str) -> sqlx::PgConnection {
    use sqlx::Connection as _;
    let mut connection = sqlx::PgConnection::connect(database.url.expose()).await.unwrap();
    let statements = sqlx::AssertSqlSafe(format!("BEGIN; CREATE TABLE {name} (a BIGINT)"));
    sqlx::raw_sql(statements).execute(&mut connection).await.unwrap();
    connection
}

/// Whether somebody waits for a lock.
async fn waits(database: &Database) -> bool {
    count(
        database,
        "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
    )
    .await
        > 0
}

/// The server has noticed that both are gone.
async fn gone(site: &Site) {
    let others = "SELECT COUNT(*) FROM pg_stat_activity
                  WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
    site.wait(
        "the killed program's session ends",
        Duration::from_secs(20),
        async || (count(&site.database, others).await == 0).then_some(()),
    )
    .await;
}

async fn count(database: &Database, query: &'static str) -> i64 {
    use sqlx::Connection as _;
    let mut connection = sqlx::PgConnection::connect(database.url.expose()).await.unwrap();
    let found = sqlx::query_scalar(query).fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    found
}

/// Every column and every index, in words.
async fn schema(database: &Database) -> Vec<String> {
    use sqlx::Connection as _;
    let mut connection = sqlx::PgConnection::connect(database.url.expose()).await.unwrap();
    let found = sqlx::query_scalar(
        "SELECT table_name || '.' || column_name || ' ' || data_type FROM information_schema.columns WHERE table_schema = 'public'
         UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
         UNION ALL SELECT version::TEXT || ' ' || success::TEXT FROM _sqlx_migrations
         ORDER BY 1",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    connection.close().await.unwrap();
    found
}

async fn names_of_a_fresh_schema() -> Vec<String> {
    let database = Database::postgres().await;
    database.open().await.close().await;
    let found = schema(&database).await;
    database.remove().await;
    found
}
