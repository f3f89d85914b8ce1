//! FI-7 on SQLite: a file that another process locks, that finds no room, and whose log was torn
//! while the service was dead.

use std::path::PathBuf;
use std::time::Duration;

use forgehand::job::JobState;
use sqlx::{Connection as _, SqliteConnection};

use super::tmpfs::{Full, Tmpfs};
use super::{Bench, PATIENCE};
use crate::crash::{WHOLE, assert_invariants, number, random};
use crate::databases::Database;
use crate::process::{LABEL, PERSON, QUICKLY, REPO, Site, jobs_of};

/// Twice as long as anybody waits for a lock, and three leases.
const LOCKED: Duration = Duration::from_secs(10);

fn rounds() -> u64 {
    number("FORGEHAND_TEST_DATABASE_ROUNDS", 1)
}

async fn open(database: Database) -> Bench {
    let site = Site::open(database).await;
    let mut service = site.program("service", WHOLE);
    service.start().await;
    let store = site.database.open().await;
    Bench {
        site,
        service,
        store,
        issues: Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_locks_the_file() {
    let mut random = random("locked files");
    let mut bench = open(Database::sqlite()).await;
    for _ in 0..2 * rounds() {
        let issues = [bench.ask(QUICKLY), bench.ask(QUICKLY)];
        tokio::time::sleep(Duration::from_millis(random.u64(0..1_500))).await;
        let mut other = SqliteConnection::connect(bench.site.database.url.expose())
            .await
            .unwrap();
        sqlx::raw_sql("PRAGMA busy_timeout = 20000; BEGIN IMMEDIATE")
            .execute(&mut other)
            .await
            .unwrap();
        tokio::time::sleep(LOCKED).await;
        sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
        other.close().await.unwrap();
        bench.site.redeliver_failed().await;
        for issue in issues {
            bench.ends(issue).await;
        }
    }
    bench.settle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_finds_no_room() {
    let mut random = random("files without room");
    let folder = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let Some(small) = Tmpfs::mount(folder.path()) else {
        return;
    };
    let mut bench = open(Database::sqlite_in(folder.path().join("forgehand.sqlite"))).await;
    for _ in 0..2 * rounds() {
        let mut issues = vec![bench.ask(QUICKLY)];
        tokio::time::sleep(Duration::from_millis(random.u64(0..1_500))).await;
        small.fill(Full::Bytes);
        issues.push(bench.ask(QUICKLY));
        tokio::time::sleep(Duration::from_secs(2)).await;
        small.free();
        bench.site.redeliver_failed().await;
        for issue in issues {
            bench.ends(issue).await;
        }
    }
    bench.settle().await;
    drop(small);
}

/// What stood in the torn part was acknowledged and is lost, as no file system promises otherwise;
/// with it goes the memory of what was done on GitHub in that second. The rest is whole, the
/// service says that it looked, and what is delivered again is done.
#[tokio::test(flavor = "multi_thread")]
async fn a_torn_log_loses_its_end_and_nothing_else() {
    let mut random = random("torn logs");
    let mut bench = open(Database::sqlite()).await;
    let log = beside(&bench, "-wal");
    let mut cut = Vec::new();
    for _ in 0..8 * rounds() {
        let issue = bench.ask(QUICKLY);
        tokio::time::sleep(Duration::from_millis(random.u64(100..2_000))).await;
        bench.store.close().await;
        bench.service.kill().await;
        let length = std::fs::metadata(&log).unwrap().len();
        let kept = random.u64(0..=length);
        std::fs::OpenOptions::new()
            .write(true)
            .open(&log)
            .unwrap()
            .set_len(kept)
            .unwrap();
        cut.push(length - kept);
        bench.service.start().await;
        bench.store = bench.site.database.open().await;
        let guids: Vec<String> = bench.site.double.deliveries().into_iter().map(|it| it.guid).collect();
        for guid in std::collections::BTreeSet::from_iter(guids) {
            bench.site.double.redeliver(&guid).unwrap();
        }
        bench.site.redeliver_failed().await;
        let what = format!("issue {issue} is over");
        let settled = async || {
            // Where nobody knows of it any more, GitHub shows whether there is something to be done.
            let is_forgotten = jobs_of(&bench.store, issue).await.is_empty();
            let is_over = match is_forgotten {
                true => is_done_there(&bench, issue),
                false => bench.over(issue).await.is_some(),
            };
            is_over.then_some(())
        };
        bench.site.wait(&what, PATIENCE, settled).await;
    }
    eprintln!("bytes cut off the log: {cut:?}");
    let said = std::fs::read_to_string(&bench.service.log).unwrap();
    assert!(said.matches("its database is whole").count() >= cut.iter().filter(|cut| **cut > 0).count() / 2);
    for &issue in &bench.issues {
        let jobs = jobs_of(&bench.store, issue).await;
        let job = match jobs.as_slice() {
            [job] => job,
            // All of it was forgotten, and GitHub shows that nothing is to be done any more.
            [] if is_done_there(&bench, issue) => continue,
            _ => panic!("issue {issue} has {} jobs", jobs.len()),
        };
        // Whoever forgot that it was finished finds its label gone.
        let why = job.reason.clone().unwrap_or_default();
        let forgot = job.state == JobState::Cancelled && why.contains("label");
        assert!(job.state == JobState::Done || forgot, "{job:#?}\n{}", bench.site.logs());
        assert!(!bench.site.double.comments(REPO, issue).unwrap().is_empty());
    }
    assert!(bench.site.double.pulls(REPO).unwrap().len() >= bench.issues.len());
    assert_invariants(&bench.service).await;
    bench.service.stop().await;
    bench.store.close().await;
    bench.site.close().await;
}

/// Whether GitHub shows that the work on an issue is done, whatever the database knows.
fn is_done_there(bench: &Bench, issue: u64) -> bool {
    let double = &bench.site.double;
    let comments = double.comments(REPO, issue).unwrap();
    comments.iter().any(|comment| comment.body.contains("✅ Done"))
        && !double
            .issue(REPO, issue)
            .unwrap()
            .labels
            .iter()
            .any(|label| label == LABEL)
}

/// Damage is found at the start after an unclean end, named, and left as it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_found_before_work_begins() {
    let mut bench = open(Database::sqlite()).await;
    for _ in 0..3 {
        let issue = bench.ask(QUICKLY);
        bench.ends(issue).await;
    }
    let file = bench.site.database.file().unwrap();
    // Everything into the file itself, and then something behind it.
    sqlx::raw_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        .execute(
            &mut SqliteConnection::connect(bench.site.database.url.expose())
                .await
                .unwrap(),
        )
        .await
        .unwrap();
    bench
        .site
        .double
        .open_issue(REPO, "Not for us", "", &[], PERSON)
        .unwrap();
    bench
        .site
        .wait("the log is written to again", PATIENCE, async || {
            let length = std::fs::metadata(beside(&bench, "-wal")).map_or(0, |log| log.len());
            (length > 0).then_some(())
        })
        .await;
    bench.store.close().await;
    bench.service.kill().await;
    let mut bytes = std::fs::read(&file).unwrap();
    let whole = bytes.clone();
    let third = bytes.len() / 3;
    for byte in &mut bytes[third..third * 2] {
        *byte = !*byte;
    }
    std::fs::write(&file, &bytes).unwrap();
    assert!(!bench.service.try_start().await, "it works on a damaged file");
    let said = std::fs::read_to_string(&bench.service.log).unwrap();
    assert!(said.contains("damaged") && said.contains("backup"), "{said}");
    assert_eq!(length(&file), bytes.len(), "the file was changed");
    std::fs::write(&file, whole).unwrap();
    bench.service.start().await;
    bench.store = bench.site.database.open().await;
    bench.site.redeliver_failed().await;
    bench.settle().await;
}

fn length(file: &std::path::Path) -> usize {
    std::fs::read(file).unwrap().len()
}

fn beside(bench: &Bench, ending: &str) -> PathBuf {
    let mut path = bench.site.database.file().unwrap().into_os_string();
    path.push(ending);
    path.into()
}
