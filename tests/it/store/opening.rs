//! Opening a database: private, bounded, by several at once, and never with its password in an
//! error.

use super::*;
use crate::databases::{Database, each, each_database};
use forgehand::secret::Secret;
use forgehand::store::RepoRow;
use std::sync::Arc;
use tokio::sync::Barrier;

async fn refused(url: &str) -> StoreError {
    match Store::open(&Secret::new(url), 2).await {
        Ok(_) => panic!("{url} was opened"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn an_address_that_does_not_work_is_explained_without_its_password() {
    for (url, is_address) in [
        ("mysql://mona:hunter2hunter2@db/forgehand", true),
        ("postgres://mona:hunter2hunter2@db:notaport/forgehand", true),
        (
            "postgres://mona:hunter2hunter2@db/forgehand?sslmode=hunter2hunter2",
            true,
        ),
        ("sqlite::memory:", true),
        ("postgres://mona:hunter2hunter2@127.0.0.1:1/forgehand", false),
        ("sqlite:/proc/forgehand/forgehand.sqlite", false),
    ] {
        let error = refused(url).await;
        let told = format!("{error} {error:?}");
        assert!(!told.contains("hunter2"), "{told}");
        match error {
            StoreError::Address(_) => assert!(is_address, "{url}: {told}"),
            StoreError::Unavailable(_) => assert!(!is_address, "{url}: {told}"),
            _ => panic!("{url}: {told}"),
        }
    }
}

#[tokio::test]
async fn a_store_never_prints_its_address() {
    each(async |store| {
        assert_eq!(format!("{store:?}"), format!("Store({})", store.backend()));
        assert!(["sqlite", "postgres"].contains(&store.backend()));
    })
    .await;
}

#[tokio::test]
async fn the_file_is_only_for_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let database = Database::sqlite();
    let store = database.open().await;
    insert(&store, &fix(1)).await;
    let file = database.file().unwrap();
    let folder = file.parent().unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(folder), 0o700);
    let files: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(
        files.iter().any(|file| file.ends_with("forgehand.sqlite-wal")),
        "{files:?}"
    );
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_that_start_together_all_find_the_schema() {
    each_database(async |database| {
        let ready = Arc::new(Barrier::new(8));
        let openers: Vec<_> = (0..8)
            .map(|_| {
                let (url, ready) = (database.url.clone(), ready.clone());
                tokio::spawn(async move {
                    ready.wait().await;
                    let store = Store::open(&url, 2).await.unwrap();
                    ready.wait().await;
                    store.migrate().await.unwrap();
                    store.migrate().await.unwrap();
                    insert(&store, &fix(1)).await;
                    store.close().await;
                })
            })
            .collect();
        for opener in openers {
            opener.await.unwrap();
        }
        let store = database.open().await;
        let counts = with(&store, async |tx| tx.job_counts().await).await.unwrap();
        assert_eq!(counts, [(JobState::Queued, 8)]);
        store.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_database_of_a_newer_program_is_left_alone() {
    each_database(async |database| {
        let store = database.open().await;
        database
            .execute(
                "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                 SELECT 9999, 'from the future', success, checksum, 0 FROM _sqlx_migrations WHERE version = 1",
            )
            .await;
        // What a newer program has only added is no hindrance.
        store.migrate().await.unwrap();
        for oldest in [
            "UPDATE schema_compat SET min_version = 9998",
            "DELETE FROM schema_compat",
        ] {
            database.execute(oldest).await;
            let error = store.migrate().await.unwrap_err();
            assert!(matches!(error, StoreError::TooNew(_)), "{error}");
            assert!(error.to_string().contains("9999"), "{error}");
        }
        database
            .execute("DELETE FROM _sqlx_migrations WHERE version = 9999")
            .await;
        store.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_store_without_a_schema_says_so() {
    each_database(async |database| {
        let store = Store::open(&database.url, 2).await.unwrap();
        let missing = with(&store, async |tx| tx.job_counts().await).await;
        assert!(matches!(missing, Err(StoreError::Corrupt(_))), "{missing:?}");
        store.close().await;
    })
    .await;
}

#[tokio::test]
async fn nobody_waits_for_ever_behind_a_transaction() {
    each(async |store| {
        let id = insert(&store, &fix(1)).await;
        let mut slow = store.begin().await.unwrap();
        slow.cancel_job(&id, "slow", now()).await.unwrap();
        let started = Instant::now();
        let behind = with(&store, async |tx| tx.cancel_job(&id, "behind", now()).await).await;
        assert!(matches!(behind, Err(StoreError::Unavailable(_))), "{behind:?}");
        assert!(started.elapsed() < Duration::from_secs(20));
        slow.commit().await.unwrap();
        assert_eq!(state(&store, &id).await, JobState::Cancelled);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_is_given_up_midway_leaves_nothing_behind() {
    each_database(async |database| {
        let store = database.open().await;
        let id = insert(&store, &fix(1)).await;
        for round in 0..200_u64 {
            let work = with(&store, async |tx| {
                tx.upsert_repo(&RepoRow {
                    id: RepoId(round),
                    name: "octo/widgets".parse().unwrap(),
                    installation: InstallationId(99),
                    active: true,
                })
                .await?;
                tx.cancel_job(&id, "given up", now()).await?;
                std::future::pending::<Result<(), StoreError>>().await
            });
            let patience = Duration::from_micros(round * 20);
            assert!(tokio::time::timeout(patience, work).await.is_err());
        }
        assert_eq!(state(&store, &id).await, JobState::Queued);
        let repo = with(&store, async |tx| tx.repo(RepoId(199)).await).await.unwrap();
        assert_eq!(repo, None);
        insert(&store, &fix(2)).await;
        store.close().await;
    })
    .await;
}

#[tokio::test]
async fn the_database_clock_goes_forward() {
    each(async |store| {
        let first = with(&store, async |tx| tx.db_now().await).await.unwrap();
        let second = with(&store, async |tx| tx.db_now().await).await.unwrap();
        assert!(second >= first);
        assert!((now() - second).abs() < TimeDelta::seconds(5), "one machine, one time");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_job_rings_the_doorbell() {
    each_database(async |database| {
        let store = database.open().await;
        // On PostgreSQL another process is heard as well.
        let other = match store.backend() {
            "sqlite" => store.clone(),
            _ => database.open().await,
        };
        for number in 0..3 {
            let waiting = {
                let store = store.clone();
                tokio::spawn(async move { store.doorbell(Duration::from_secs(60)).await })
            };
            let deadline = Instant::now() + Duration::from_secs(20);
            // The first bell may ring before anybody listens: it is a hint.
            while !waiting.is_finished() {
                assert!(Instant::now() < deadline, "nobody heard the bell");
                insert(&other, &fix(number)).await;
                tokio::task::yield_now().await;
            }
        }
        store.ring();
        let started = Instant::now();
        store.doorbell(Duration::from_secs(60)).await;
        store.doorbell(Duration::from_millis(20)).await;
        assert!(started.elapsed() < Duration::from_secs(20));
        store.close().await;
        other.close().await;
    })
    .await;
}
