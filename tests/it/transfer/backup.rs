//! A backup is whole although the service works meanwhile, is for its owner alone, and overwrites
//! nothing.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use forgehand::secret::Secret;
use sqlx::{Connection as _, SqliteConnection};

use super::{dump, run, with_schema};
use crate::databases::Database;
use crate::process::{Site, finished};

const PATIENCE: Duration = Duration::from_secs(120);

/// The names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

async fn back_up(database: &Database, file: &Path) -> super::Ended {
    let set = format!("database.url={}", database.url.expose());
    run(&["backup", file.to_str().unwrap(), "--json", "--set", &set]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_service_at_work_is_whole() {
    let site = Site::open(Database::sqlite()).await;
    let mut service = site.program("service", "receiver,worker,scheduler");
    service.start().await;
    let store = site.database.open().await;
    let issues: Vec<u64> = (0..3)
        .map(|number| site.ask(&format!("Sums are wrong, case {number}"), "A difference."))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let mut made = 0;
    let done = async || {
        for issue in &issues {
            finished(&store, *issue).await?;
        }
        Some(())
    };
    // As many as fit into the time in which the service writes.
    while done().await.is_none() || made < 3 {
        assert!(made < 500, "the jobs do not end\n{}", site.logs());
        let file = folder.path().join(format!("{made}.sqlite"));
        let report = service.json(&["backup", file.to_str().unwrap(), "--json"]).await;
        made += 1;
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(report["bytes"], file.metadata().unwrap().len());
        let url = format!("sqlite:{}", file.display());
        let mut copy = SqliteConnection::connect(&url).await.unwrap();
        let check: String = sqlx::query_scalar("PRAGMA integrity_check")
            .fetch_one(&mut copy)
            .await
            .unwrap();
        assert_eq!(check, "ok");
        copy.close().await.unwrap();
        // No job without its events, no effect without its job: one moment.
        let set = format!("database.url={url}");
        let doctor = run(&["doctor", "--invariants", "--set", &set]).await;
        doctor.assert_code(0);
    }
    eprintln!("{made} backups while three jobs were worked on");
    site.wait("the jobs end", PATIENCE, done).await;
    service.stop().await;
    store.close().await;
    let partial: Vec<String> = names(folder.path())
        .into_iter()
        .filter(|name| name.contains("partial"))
        .collect();
    assert_eq!(partial, Vec::<String>::new());
    site.close().await;
}

#[tokio::test]
async fn nothing_is_overwritten() {
    let database = with_schema(Database::sqlite()).await;
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("copy"), folder.path().join("link"));
    std::fs::write(&file, "precious").unwrap();
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), &link).unwrap();
    for taken in [&file, &link, &folder.path().to_path_buf()] {
        back_up(&database, taken)
            .await
            .assert_code(1)
            .assert_err("exists already");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    let missing = folder.path().join("no/folder/copy");
    back_up(&database, &missing)
        .await
        .assert_code(1)
        .assert_err("No such file");
    assert_eq!(names(folder.path()), ["copy", "link"]);
}

/// The copy before an upgrade is of the database as it was.
#[tokio::test]
async fn an_older_schema_is_copied_as_it_is() {
    let database = with_schema(Database::sqlite()).await;
    database
        .execute("DELETE FROM _sqlx_migrations WHERE version > 10")
        .await;
    let before = dump(&database.url).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("copy");
    let made = back_up(&database, &file).await;
    assert_eq!(made.assert_code(0).json()["schema"], 10);
    assert_eq!(dump(&database.url).await, before);
    assert_eq!(dump(&Secret::new(format!("sqlite:{}", file.display()))).await, before);
}

#[tokio::test]
async fn what_cannot_be_copied_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("copy");
    let to = |url: &str| {
        let set = format!("database.url={url}");
        let file = file.to_str().unwrap().to_owned();
        async move { run(&["backup", &file, "--set", &set]).await }
    };
    let ended = to("postgres://mona:hunter2@db:5433/agent").await;
    let command = format!(
        "umask 077; pg_dump --format=custom --file='{}' 'postgres://mona@db:5433/agent'",
        file.display()
    );
    ended.assert_code(1).assert_err(&command);
    assert!(!ended.err.contains("hunter2"), "{}", ended.err);
    let nowhere = format!("sqlite:{}", folder.path().join("none.sqlite").display());
    to(&nowhere).await.assert_code(1).assert_err("there is no database at");
    let other = folder.path().join("other.sqlite");
    let mut connection = SqliteConnection::connect(&format!("sqlite:{}?mode=rwc", other.display()))
        .await
        .unwrap();
    sqlx::raw_sql("CREATE TABLE theirs (id INTEGER)")
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    to(&format!("sqlite:{}", other.display()))
        .await
        .assert_code(1)
        .assert_err("_sqlx_migrations");
    std::fs::write(&other, vec![b'x'; 8192]).unwrap();
    to(&format!("sqlite:{}", other.display()))
        .await
        .assert_code(1)
        .assert_err("not a database");
    assert_eq!(names(folder.path()), ["other.sqlite"], "no half a copy stays");
}
