//! A database that somebody works on is not moved: what was written meanwhile would be lost.

use forgehand::app::Instance;
use forgehand::secret::Secret;
use sqlx::{Connection as _, PgConnection, SqliteConnection};

use super::{dump, migrate, nowhere, with_schema};
use crate::databases::Database;

/// A job that a worker has, for as long as nobody ends it.
const HELD: &str = "INSERT INTO jobs (id, repo_id, repo, installation_id, kind, subject, lane, state, priority, \
    run_at, attempt, max_attempts, lost_leases, round, fence, lease_token, lease_owner, lease_until, request, pins, \
    created_at)
    VALUES ('01', 7, 'octo/sums', 1, 'fix', 'issue/1', 'issue/1', 'leased', 0, '2026-01-01T00:00:00+00:00', 1, 5, 0, 0, \
    1, 't', 'o', '9999-01-01T00:00:00+00:00', '{}', '{}', '2026-01-01T00:00:00+00:00')";

async fn refused(from: &Secret, to: &Secret, words: &str) {
    for dry_run in [["--dry-run"].as_slice(), &[]] {
        let ended = migrate(from, to, dry_run).await;
        ended.assert_code(1).assert_err(words);
        assert_eq!(ended.out, "");
    }
}

#[tokio::test]
async fn a_lease_in_force_on_either_side() {
    for held in [Database::sqlite(), Database::postgres().await] {
        let held = with_schema(held).await;
        let (folder, other) = (tempfile::tempdir().unwrap(), with_schema(Database::sqlite()).await);
        let new = nowhere(&folder);
        held.execute(HELD).await;
        refused(
            &held.url,
            &new,
            "the source is in use: 1 jobs are in the hands of a worker until 9999-01-01",
        )
        .await;
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        refused(&other.url, &held.url, "the target is in use: 1 jobs").await;
        // A lease that ended holds nothing: its worker was killed.
        held.execute("UPDATE jobs SET lease_until = '2026-01-01T00:00:00+00:00'")
            .await;
        let report = migrate(&held.url, &new, &[]).await.report();
        assert_eq!(report["copied"], 1);
        held.remove().await;
    }
}

/// A service that has nothing to do at the moment has no leases either.
#[tokio::test]
async fn a_process_that_has_the_state_folder() {
    let source = with_schema(Database::sqlite()).await;
    let target = with_schema(Database::sqlite()).await;
    for database in [&source, &target] {
        let file = database.file().unwrap();
        let service = Instance::claim(file.parent().unwrap()).unwrap();
        refused(&source.url, &target.url, "a service is running on").await;
        drop(service);
    }
    migrate(&source.url, &target.url, &[]).await.report();
}

#[tokio::test]
async fn the_connections_of_a_service() {
    let server = with_schema(Database::postgres().await).await;
    let other = with_schema(Database::sqlite()).await;
    let service = server.open().await;
    let idle = service.begin().await.unwrap();
    refused(&server.url, &other.url, "the source is in use: Forgehand has").await;
    refused(&other.url, &server.url, "the target is in use: Forgehand has").await;
    drop(idle);
    service.close().await;
    migrate(&server.url, &other.url, &[]).await.report();
    server.remove().await;
}

/// Somebody who is in the middle of writing, whoever it is; and nobody can begin while it is read.
#[tokio::test]
async fn a_transaction_that_writes() {
    let folder = tempfile::tempdir().unwrap();
    let new = nowhere(&folder);
    let write = "INSERT INTO repository_labels (repo_id, label) VALUES (1, 'agent')";
    let file = with_schema(Database::sqlite()).await;
    let mut writer = SqliteConnection::connect(file.url.expose()).await.unwrap();
    let mut tx = writer.begin().await.unwrap();
    sqlx::query(write).execute(&mut *tx).await.unwrap();
    refused(&file.url, &new, "somebody writes to it right now").await;
    drop(tx);
    writer.close().await.unwrap();
    let server = with_schema(Database::postgres().await).await;
    let mut writer = PgConnection::connect(server.url.expose()).await.unwrap();
    let mut tx = writer.begin().await.unwrap();
    sqlx::query(write).execute(&mut *tx).await.unwrap();
    refused(&server.url, &new, "somebody writes to it right now").await;
    drop(tx);
    writer.close().await.unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let before = dump(&server.url).await;
    migrate(&server.url, &new, &[]).await.report();
    assert_eq!(dump(&server.url).await, before);
    server.remove().await;
}
