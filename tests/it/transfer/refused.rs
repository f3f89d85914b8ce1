//! What cannot be moved says why and what to do, before anything is written, and never with a
//! password.

use forgehand::secret::Secret;

use super::filled::filled;
use super::{dump, migrate, nowhere, run, with_schema};
use crate::databases::Database;

#[tokio::test]
async fn wrong_addresses() {
    let source = with_schema(Database::sqlite()).await;
    let folder = tempfile::tempdir().unwrap();
    let (there, missing) = (source.url.expose(), nowhere(&folder));
    for (from, to, words) in [
        ("mysql://mona:hunter2@db/x", there, "sqlite:PATH or postgres://"),
        (there, "mysql://mona:hunter2@db/x", "sqlite:PATH or postgres://"),
        ("sqlite::memory:", there, "a file is needed after sqlite:"),
        (missing.expose(), there, "the source: there is no file"),
        ("postgres://mona:hunter2@db:no/x", there, "the source: "),
        (
            "postgres://mona:hunter2@127.0.0.1:1/x",
            there,
            "the source: the database is not available",
        ),
        (
            there,
            "postgres://mona:hunter2@127.0.0.1:1/x",
            "the target: the database is not available",
        ),
        ("/var/lib/forgehand.sqlite", there, "sqlite:PATH or postgres://"),
    ] {
        let ended = migrate(&Secret::new(from), &Secret::new(to), &[]).await;
        ended.assert_code(1).assert_err(words);
        assert!(!ended.err.contains("hunter2"), "{}", ended.err);
    }
    for alone in [
        ["--from", there].as_slice(),
        &["--to", there],
        &["--dry-run"],
        &["--json"],
    ] {
        let arguments: Vec<&str> = ["migrate"].iter().chain(alone).copied().collect();
        run(&arguments).await.assert_code(64);
    }
}

/// By whatever way somebody writes its address.
#[tokio::test]
async fn the_same_database_twice() {
    let file = with_schema(Database::sqlite()).await;
    let path = file.file().unwrap();
    let link = path.with_file_name("link.sqlite");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let roundabout = path.parent().unwrap().join("../state/forgehand.sqlite");
    for other in [&path, &link, &roundabout] {
        let other = Secret::new(format!("sqlite://{}", other.display()));
        let ended = migrate(&file.url, &other, &[]).await;
        ended.assert_code(1).assert_err("are the same database");
    }
    let server = with_schema(Database::postgres().await).await;
    let mut other = url::Url::parse(server.url.expose()).unwrap();
    other.query_pairs_mut().append_pair("application_name", "other");
    for other in [server.url.clone(), Secret::new(other.as_str())] {
        let ended = migrate(&server.url, &other, &["--dry-run"]).await;
        ended.assert_code(1).assert_err("are the same database");
    }
    server.remove().await;
}

#[tokio::test]
async fn a_schema_of_another_version() {
    for source in [Database::sqlite(), Database::postgres().await] {
        let source = with_schema(source).await;
        let folder = tempfile::tempdir().unwrap();
        let new = nowhere(&folder);
        source
            .execute("UPDATE _sqlx_migrations SET version = 9999 WHERE version = (SELECT MAX(version) FROM _sqlx_migrations)")
            .await;
        let ended = migrate(&source.url, &new, &[]).await;
        ended.assert_code(1).assert_err("install a newer Forgehand");
        source.execute("DELETE FROM _sqlx_migrations WHERE version > 10").await;
        let ended = migrate(&source.url, &new, &[]).await;
        ended
            .assert_code(1)
            .assert_err("bring it up to date first with `forgehand migrate`");
        source.execute("DROP TABLE _sqlx_migrations").await;
        let ended = migrate(&source.url, &new, &[]).await;
        ended
            .assert_code(1)
            .assert_err("the source holds no database of Forgehand");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        source.remove().await;
    }
}

/// Two services are not mixed, and tables of others are left alone.
#[tokio::test]
async fn a_target_that_is_not_empty() {
    let source = filled().await;
    for target in [Database::postgres().await, Database::sqlite()] {
        let target = with_schema(target).await;
        target
            .execute(
                "INSERT INTO notes (scope, key, value, written_by, written_at)
                VALUES ('s', 'theirs', 'v', 'w', '2026-01-01T00:00:00+00:00')",
            )
            .await;
        let before = dump(&target.url).await;
        for arguments in [["--dry-run"].as_slice(), &[]] {
            let ended = migrate(&source.url, &target.url, arguments).await;
            ended
                .assert_code(1)
                .assert_err("its table notes has the row scope=s, key=theirs, which the source does not have");
        }
        assert_eq!(dump(&target.url).await, before);
        target.remove().await;
    }
    let target = Database::postgres().await;
    target.execute("CREATE TABLE theirs (id BIGINT PRIMARY KEY)").await;
    let ended = migrate(&source.url, &target.url, &[]).await;
    ended.assert_code(1).assert_err("tables of another program");
    target.remove().await;
}
