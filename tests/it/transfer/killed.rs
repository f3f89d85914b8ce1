//! `kill -9` in the middle of a move, again and again: the next one goes on, and in the end
//! everything is there once.

use std::time::{Duration, Instant};

use forgehand::secret::Secret;
use sqlx::{Connection as _, SqliteConnection};

use super::{begin, dump, migrate, nowhere, sums, with_schema};
use crate::databases::Database;

/// Rows of the table that is moved.
const ROWS: i64 = 8_000;
/// Kills of each direction, unless the environment says otherwise.
const KILLS: u64 = 5;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| {
        text.parse().unwrap_or_else(|_| panic!("{name} is a number"))
    })
}

/// A database that takes a while.
async fn large() -> Database {
    let database = with_schema(Database::sqlite()).await;
    let mut connection = SqliteConnection::connect(database.url.expose()).await.unwrap();
    sqlx::query(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)
        INSERT INTO notes (scope, key, value, written_by, written_at)
        SELECT 'repository/' || (i % 97), 'key ' || i, HEX(RANDOMBLOB(300)), 'job', '2026-01-01T00:00:00.000001+00:00'
        FROM n",
    )
    .bind(ROWS)
    .execute(&mut connection)
    .await
    .unwrap();
    connection.close().await.unwrap();
    database
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_moves_go_on_where_they_were() {
    let seed = number("FORGEHAND_TEST_SEED", fastrand::u64(..));
    eprintln!("killed moves: FORGEHAND_TEST_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let source = large().await;
    let before = dump(&source.url).await;
    let server = Database::postgres().await;
    let folder = tempfile::tempdir().unwrap();
    let back = nowhere(&folder);
    let there = kill_again_and_again(&source.url, &server.url, &mut random).await;
    let home = kill_again_and_again(&server.url, &back, &mut random).await;
    assert_eq!(sums(&there, "source_sha256"), sums(&home, "target_sha256"));
    assert_eq!(dump(&source.url).await, before);
    server.remove().await;
}

/// Kills it at moments of a whole move, and then lets it end; returns the last report.
async fn kill_again_and_again(from: &Secret, to: &Secret, random: &mut fastrand::Rng) -> serde_json::Value {
    let home = tempfile::tempdir().unwrap();
    // How long a move takes that nobody disturbs, to a database that is thrown away.
    let other = Database::sqlite();
    let began = Instant::now();
    migrate(from, &other.url, &[]).await.report();
    let undisturbed = began.elapsed();
    let mut met = 0;
    for _ in 0..number("FORGEHAND_TEST_TRANSFER_KILLS", KILLS) {
        let mut child = begin(home.path(), from, to);
        let moment = undisturbed.mul_f64(random.f64());
        if tokio::time::timeout(moment, child.wait()).await.is_err() {
            met += 1;
            child.start_kill().unwrap();
            child.wait().await.unwrap();
        }
        gone(to).await;
    }
    let report = migrate(from, to, &[]).await.report();
    let count = |name: &str| report[name].as_i64().unwrap();
    eprintln!(
        "a move takes {undisturbed:.1?}; {met} were killed; the last one found {} rows and copied {}",
        count("skipped"),
        count("copied")
    );
    assert!(met > 0, "no kill met a move");
    assert!(count("rows") >= ROWS && count("errors") == 0, "{report}");
    assert_eq!(count("copied") + count("skipped"), count("rows"));
    let again = migrate(from, to, &[]).await.report();
    assert_eq!(again["skipped"], report["rows"]);
    report
}

/// Waits until PostgreSQL has noticed that the killed client is gone.
async fn gone(url: &Secret) {
    if url.expose().starts_with("sqlite:") {
        return;
    }
    let query = "SELECT COUNT(*) FROM pg_stat_activity
        WHERE datname = CURRENT_DATABASE() AND application_name LIKE 'forgehand%'";
    let began = Instant::now();
    loop {
        let mut connection = sqlx::PgConnection::connect(url.expose()).await.unwrap();
        let left: i64 = sqlx::query_scalar(query).fetch_one(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        if left == 0 {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{left} connections stay");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
