//! Nothing grows for ever, and nothing is lost on the way: jobs that are long over become files that say
//! what the rows said, whatever crashes in between, and the rest of the service does not notice.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use forgehand::audit::{Act, Action};
use forgehand::clock::Clock;
use forgehand::config::RetentionConfig;
use forgehand::ids::JobId;
use forgehand::job::{Actor, JobKind, JobState, NewJob, Outcome, Pins, Request, Trigger};
use forgehand::retention::{Passed, Retention, Turn, archive_path, read_archive};
use forgehand::store::{JobFilter, JobTable, Store};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::databases::{Database, each_database, execute};
use crate::service::{Service, bug_fix, nothing_to_do, until, usual};

/// A service's retention on a database, with a folder of its own.
struct Place {
    retention: Retention,
    folder: tempfile::TempDir,
}

impl Place {
    async fn new(database: &Database) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        let retention = Retention {
            store: database.open().await,
            state_dir: folder.path().to_owned(),
            config: RetentionConfig::default(),
            keep_records_days: 365,
            clock: Clock::System,
        };
        Self { retention, folder }
    }

    async fn pass(&self) -> Result<Passed, String> {
        match self.retention.pass(&CancellationToken::new()).await {
            Ok(Turn::Done(passed)) => Ok(passed),
            Ok(Turn::Another) => panic!("nobody else is there"),
            Err(error) => Err(error.to_string()),
        }
    }
}

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// When the stories of this process began.
static BEGUN: LazyLock<DateTime<Utc>> = LazyLock::new(|| Clock::System.now());

/// Days since the jobs of [`insert_old`] ended.
const OLD: i64 = 100;

/// The id of such a job, as it was made then.
fn old_id(number: u32) -> String {
    let made = JobId::new(*BEGUN - chrono::TimeDelta::days(OLD)).to_string();
    format!("{}0{number:015}", &made[..10])
}

/// Jobs that ended long ago, with two events and an effect each.
async fn insert_old(database: &Database, jobs: u32) {
    database.open().await.close().await;
    let ended = (*BEGUN - chrono::TimeDelta::days(OLD)).to_rfc3339();
    let id = format!(
        "'{}' || SUBSTR('000000000000000', 1, 15 - LENGTH(CAST(i AS TEXT))) || CAST(i AS TEXT)",
        &old_id(0)[..11]
    );
    let numbers = format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {jobs})");
    let request = serde_json::to_string(&request()).unwrap();
    database
        .execute(&format!(
            "{numbers} INSERT INTO jobs (id, repo_id, repo, installation_id, kind, subject, lane, state, priority, run_at,
                 attempt, max_attempts, lost_leases, round, fence, request, pins, outcome, created_at, finished_at)
             SELECT {id}, 7, 'octo/widgets', 99, 'fix', 'issue/' || CAST(i AS TEXT), 'issue/' || CAST(i AS TEXT),
                 'done', 0, '{ended}', 1, 5, 0, 0, 1, '{request}', '{{}}', '{{\"outcome\":\"answered\"}}', '{ended}',
                 '{ended}' FROM n;
             {numbers} INSERT INTO job_events (job_id, seq, at, fence, kind, data)
             SELECT {id}, 1, '{ended}', 0, 'queued', '{{\"kind\":\"queued\"}}' FROM n;
             {numbers} INSERT INTO job_events (job_id, seq, at, fence, kind, data)
             SELECT {id}, 2, '{ended}', 1, 'noted', '{{\"kind\":\"noted\",\"text\":\"a note\"}}' FROM n;
             {numbers} INSERT INTO effects (id, job_id, seq, kind, dedupe_key, body, state, fence, tries, remote_id)
             SELECT {id}, {id}, 1, 'comment', {id}, '{{}}', 'done', 1, 1, '5' FROM n"
        ))
        .await;
}

fn request() -> Request {
    Request {
        trigger: Trigger::CommandLine,
        actor: Actor::operator(),
        instructions: String::new(),
        triggered_at: Clock::System.now(),
    }
}

fn new_job(number: u64) -> NewJob {
    NewJob {
        repo_id: forgehand::ids::RepoId(7),
        repo: "octo/widgets".parse().unwrap(),
        installation: forgehand::ids::InstallationId(99),
        kind: JobKind::Fix,
        subject: forgehand::ids::Subject::Issue(forgehand::ids::IssueNumber(number)),
        dedupe_key: None,
        priority: 0,
        run_at: Clock::System.now(),
        max_attempts: 5,
        request: request(),
        pins: Pins::default(),
    }
}

async fn count(store: &Store, table: &str) -> i64 {
    store.begin().await.unwrap().count_rows(table).await.unwrap()
}

/// Every row of a job as it stands in the database, by table.
async fn rows_of(store: &Store, job: &JobId) -> Vec<(String, Value)> {
    let mut rows = Vec::new();
    let mut tx = store.begin().await.unwrap();
    for table in JobTable::ALL {
        let found = tx.rows_of_job(*table, job, (0, 100_000)).await.unwrap();
        rows.extend(found.into_iter().map(|row| (table.to_string(), row)));
    }
    rows
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    files.sort();
    files
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A real run becomes a file that says what its rows said; nobody misses it, and whoever asks is told.
#[tokio::test]
async fn a_run_of_last_quarter_is_a_file_that_holds_all_of_it() {
    let ended = (Clock::System.now() - chrono::TimeDelta::days(91)).to_rfc3339();
    let begins: &'static str = Box::leak(ended.clone().into_boxed_str());
    usual()
        .at(begins)
        .tell_before_start(async |service: &mut Service| {
            service.start_on_clock("").await;
            service.model.play(bug_fix());
            service.labelled_issue();
            service.done().await;
            let job = service.fix().await;
            let (before, costs) = (rows_of(&service.store, &job.id).await, costs(service).await);
            for table in ["jobs", "job_events", "conversation", "effects", "ledger", "checkpoints"] {
                assert!(
                    before.iter().any(|(name, _)| name == table),
                    "the run has rows in {table}"
                );
            }

            // The clock of the service alone makes nothing old.
            service.advance(DAY * 200).await;
            assert_eq!(rows_of(&service.store, &job.id).await, before);
            let dry = service.command(&["retention", "--dry-run", "--json"]).await;
            let dry: Value = serde_json::from_slice(&dry.stdout).unwrap();
            assert_eq!(dry["jobs_due"], 0);
            assert!(
                dry["tables"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|table| table["table"] == "jobs" && table["rows"] == 1)
            );
            let url = service.config.database.url.clone().unwrap();
            execute(&url, &format!("UPDATE jobs SET finished_at = '{ended}'")).await;
            let before = rows_of(&service.store, &job.id).await;
            service.advance(DAY).await;
            until("the run is moved", async || {
                service
                    .store
                    .begin()
                    .await
                    .unwrap()
                    .job(&job.id)
                    .await
                    .unwrap()
                    .is_none()
            })
            .await;

            let file = archive_path(&service.state_dir(), &job.id);
            assert_eq!(read_archive(&file).unwrap(), before, "the file says what the rows said");
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(rows_of(&service.store, &job.id).await, []);
            assert_eq!(self::costs(service).await, costs, "what it cost goes on counting");

            for words in [
                ["jobs", "retry", job.id.as_str()],
                ["jobs", "show", job.id.as_str()],
                ["jobs", "cancel", job.id.as_str()],
            ] {
                let refused = service.command(&words).await;
                let told = text(&refused.stderr);
                assert_eq!(refused.status.code(), Some(1), "{told}");
                let name = file.strip_prefix(service.state_dir()).unwrap().display().to_string();
                assert!(
                    told.contains(&name) && told.contains("was moved into the file"),
                    "{told}"
                );
            }
            let whole = service.command(&["audit", "verify"]).await;
            assert!(whole.status.success(), "{}", text(&whole.stdout));

            // The service goes on as if nothing had been.
            service.model.play(nothing_to_do());
            service.labelled_issue();
            service.done().await;
            assert_eq!(service.fixes().await.len(), 1);
        })
        .await;
}

async fn costs(service: &Service) -> Value {
    let ran = service.command(&["costs", "--json"]).await;
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let costs: Value = serde_json::from_slice(&ran.stdout).unwrap();
    costs["total"].clone()
}

/// Old jobs leave in small steps: whoever works meanwhile keeps the lease and hardly waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_old_jobs_leave_while_a_job_is_at_work() {
    const JOBS: u32 = 1_000;
    const LEASE: Duration = Duration::from_secs(10);
    each_database(async |database| {
        insert_old(database, JOBS).await;
        let place = Place::new(database).await;
        let other = database.open().await;
        let mut tx = other.begin().await.unwrap();
        tx.insert_job(&new_job(99_999), Clock::System.now()).await.unwrap();
        let leased = tx.claim_job("w", LEASE).await.unwrap().unwrap();
        tx.commit().await.unwrap();

        let done = CancellationToken::new();
        let beats = async {
            let (mut longest, mut beats) = (Duration::ZERO, 0_u32);
            while !done.is_cancelled() {
                let begun = Instant::now();
                let mut tx = other.begin().await.unwrap();
                tx.heartbeat(&leased.lease, LEASE).await.unwrap();
                tx.commit().await.unwrap();
                longest = longest.max(begun.elapsed());
                beats += 1;
                tokio::task::yield_now().await;
            }
            (longest, beats)
        };
        let begun = Instant::now();
        let passing = async {
            let passed = place.pass().await;
            done.cancel();
            passed.unwrap()
        };
        let (passed, (longest, beats)) = tokio::join!(passing, beats);
        eprintln!(
            "{} jobs in {:?}; {beats} heartbeats, the longest {longest:?}",
            passed.jobs,
            begun.elapsed()
        );
        assert_eq!(passed.jobs, u64::from(JOBS));
        assert!(longest < LEASE / 2, "a heartbeat waited {longest:?}");
        assert!(beats > 100);
        assert_eq!(count(&other, "jobs").await, 1, "the job at work");
        assert_eq!(count(&other, "effects").await, 0);
        assert_eq!(files_in(place.folder.path()).len(), JOBS as usize);
        let mut tx = other.begin().await.unwrap();
        tx.finish_job(&leased.lease, &Outcome::Answered).await.unwrap();
        tx.commit().await.unwrap();
        other.close().await;
        place.retention.store.close().await;
    })
    .await;
}

/// The file is there, the rows are not gone: another pass writes it again and goes on.
#[tokio::test]
async fn a_crash_between_file_and_removal_loses_nothing() {
    each_database(async |database| {
        insert_old(database, 5).await;
        let place = Place::new(database).await;
        let store = &place.retention.store;
        let id: JobId = old_id(3).parse().unwrap();
        let before = rows_of(store, &id).await;
        // A row that must not lose its job, so that the transaction of the removal breaks.
        let hold = "CREATE TABLE holds (job_id TEXT REFERENCES jobs (id)); INSERT INTO holds VALUES";
        database.execute(&format!("{hold} ('{}')", old_id(5))).await;
        place.pass().await.unwrap_err();
        assert_eq!(count(store, "jobs").await, 5, "nothing left");
        assert_eq!(files_in(place.folder.path()).len(), 5, "the files are there");
        assert_eq!(rows_of(store, &id).await, before);
        // As if a writer had died in the middle of a file, too.
        let path = archive_path(place.folder.path(), &id);
        std::fs::write(&path, b"half").unwrap();
        std::fs::write(path.with_file_name(".x.jsonl.gz.0011.part"), b"half").unwrap();
        database.execute("DROP TABLE holds").await;
        assert_eq!(place.pass().await.unwrap().jobs, 5);
        assert_eq!(read_archive(&path).unwrap(), before);
        assert_eq!(count(store, "jobs").await, 0);
        assert_eq!(
            place.pass().await.unwrap(),
            Passed::default(),
            "there is nothing left to do"
        );
        store.close().await;
    })
    .await;
}

/// The real program, killed again and again in the middle of it: each job is whole in the database, or
/// whole in its file.
#[tokio::test]
async fn a_killed_pass_leaves_each_job_whole_in_one_place_or_the_other() {
    const JOBS: u32 = 150;
    const KILLS: u64 = 8;
    each_database(async |database| {
        insert_old(database, JOBS).await;
        let place = Place::new(database).await;
        let store = &place.retention.store;
        let mut before = BTreeMap::new();
        for id in all_jobs(store).await {
            let rows = rows_of(store, &id).await;
            before.insert(id, rows);
        }
        let seed = fastrand::u64(..);
        eprintln!("seed {seed}");
        let mut chance = fastrand::Rng::with_seed(seed);
        for _ in 0..KILLS {
            // Whose turn it was is gone; its turn would end by itself.
            database.execute("DELETE FROM upkeep").await;
            let mut child = program(database, place.folder.path(), &["retention"]).spawn().unwrap();
            // Some time in the middle of its work; when exactly makes the difference between the rounds.
            let at_most = Duration::from_millis(chance.u64(100..900));
            drop(tokio::time::timeout(at_most, child.wait()).await);
            drop(child.kill().await);
            for (id, rows) in &before {
                // A server may be at the last words of a process that is gone.
                until("each job is whole in one place or the other", async || {
                    let here = rows_of(store, id).await;
                    let there = || read_archive(&archive_path(place.folder.path(), id)).ok();
                    here == *rows || (here.is_empty() && there().as_ref() == Some(rows))
                })
                .await;
            }
        }
        database.execute("DELETE FROM upkeep").await;
        let ended = program(database, place.folder.path(), &["retention", "--json"])
            .output()
            .await
            .unwrap();
        assert!(ended.status.success(), "{}", text(&ended.stderr));
        assert_eq!(count(store, "jobs").await, 0);
        for (id, rows) in &before {
            assert_eq!(&read_archive(&archive_path(place.folder.path(), id)).unwrap(), rows);
        }
        store.close().await;
    })
    .await;
}

/// One moves, the others say so; each job is moved once.
#[tokio::test]
async fn several_processes_at_once_move_each_job_once() {
    const JOBS: u32 = 300;
    each_database(async |database| {
        insert_old(database, JOBS).await;
        let place = Place::new(database).await;
        let mut running = Vec::new();
        for _ in 0..4 {
            running.push(
                program(database, place.folder.path(), &["retention", "--json"])
                    .spawn()
                    .unwrap(),
            );
        }
        let mut moved = 0;
        for child in running {
            let ended = child.wait_with_output().await.unwrap();
            assert!(ended.status.success(), "{}", text(&ended.stderr));
            let said: Value = serde_json::from_slice(&ended.stdout).unwrap();
            moved += said["done"]["jobs"].as_u64().unwrap_or(0);
        }
        assert_eq!(moved, u64::from(JOBS));
        let filter = forgehand::store::AuditFilter {
            action: Some(Action::RunArchived),
            limit: JOBS * 2,
            ..forgehand::store::AuditFilter::default()
        };
        let store = &place.retention.store;
        let rows = store.begin().await.unwrap().audit_rows(&filter).await.unwrap();
        assert_eq!(rows.len(), JOBS as usize);
        assert_eq!(
            files_in(place.folder.path())
                .iter()
                .filter(|file| file.ends_with("forgehand.sqlite"))
                .count(),
            0
        );
        store.close().await;
    })
    .await;
}

/// The audit's own rows leave from its beginning, and what is left is still a whole chain.
#[tokio::test]
async fn old_rows_of_the_audit_go_into_files_and_the_chain_goes_on() {
    each_database(async |database| {
        let place = Place::new(database).await;
        let store = &place.retention.store;
        let add = async |acts: u32| {
            let mut tx = store.begin().await.unwrap();
            (0..acts).for_each(|at| tx.audit(Act::new(Action::Removed).with("at", at)));
            tx.commit().await.unwrap();
        };
        add(10).await;
        make_older(database, store, 366).await;
        let anchor = {
            let mut tx = store.begin().await.unwrap();
            tx.audit_ends().await.unwrap().1
        };
        let passed = place.pass().await.unwrap();
        assert_eq!(passed.audit_rows, 9, "the last row stays");
        add(1).await;
        let check = async |anchors: &[_]| store.begin().await.unwrap().check_audit(anchors).await.unwrap().faults;
        assert_eq!(check(std::slice::from_ref(&anchor)).await, []);
        let files = files_in(&place.folder.path().join("archive/audit"));
        assert_eq!(files.len(), 1);
        let file = files[0].to_str().unwrap();
        let verified = program(database, place.folder.path(), &["audit", "verify", "--file", file])
            .output()
            .await
            .unwrap();
        assert!(
            text(&verified.stdout).starts_with("the audit is whole: 9 rows"),
            "{}",
            text(&verified.stdout)
        );
        // What said so goes in its turn.
        make_older(database, store, 366).await;
        assert_eq!(place.pass().await.unwrap().audit_rows, 2);
        assert_eq!(check(&[]).await, []);
        let faults = check(std::slice::from_ref(&anchor)).await;
        assert_eq!(faults.len(), 1, "the anchor's row is in a file: {faults:?}");
        store.close().await;
    })
    .await;
}

/// The audit as if all of it had been written so many days earlier.
async fn make_older(database: &Database, store: &Store, days: i64) {
    let mut tx = store.begin().await.unwrap();
    let (start, _) = tx.audit_ends().await.unwrap();
    let rows = tx.audit_after(start.seq, 1_000).await.unwrap();
    drop(tx);
    let mut last = start;
    for mut row in rows {
        row.at -= chrono::TimeDelta::days(days);
        row.prev = last.hash;
        row.hash = row.digest();
        last = row.point();
        let (at, prev, hash) = (row.at.to_rfc3339(), &row.prev, &row.hash);
        let older = format!(
            "UPDATE audit SET at = '{at}', prev = '{prev}', hash = '{hash}' WHERE seq = {}",
            row.seq
        );
        database.execute(&older).await;
    }
    let end = format!("UPDATE audit_chain SET hash = '{}' WHERE seq = {}", last.hash, last.seq);
    database.execute(&end).await;
}

async fn all_jobs(store: &Store) -> Vec<JobId> {
    let filter = JobFilter {
        states: vec![JobState::Done],
        limit: 100_000,
        ..JobFilter::default()
    };
    let jobs = store.begin().await.unwrap().jobs(&filter).await.unwrap();
    jobs.into_iter().map(|job| job.id).collect()
}

/// The real program beside the story.
fn program(database: &Database, state_dir: &Path, words: &[&str]) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_forgehand"));
    command
        .args(words)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("FORGEHAND_SERVER__STATE_DIR", state_dir)
        .env("FORGEHAND_DATABASE__URL", database.url.expose())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// A mirror that nobody needed for a month goes; one whose repository has work stays.
#[tokio::test]
async fn mirrors_go_that_nobody_needs() {
    each_database(async |database| {
        let place = Place::new(database).await;
        let store = &place.retention.store;
        let mut tx = store.begin().await.unwrap();
        tx.insert_job(&new_job(1), Clock::System.now()).await.unwrap();
        tx.commit().await.unwrap();
        let mirror = |repo: u32, days: u32| {
            let folder = place.folder.path().join(format!("mirrors/{repo}.git"));
            std::fs::create_dir_all(folder.join("objects")).unwrap();
            let config = std::fs::File::create(folder.join("config")).unwrap();
            let at = std::time::SystemTime::now() - DAY * days;
            config.set_modified(at).unwrap();
            folder
        };
        let (busy, unused, fresh) = (mirror(7, 40), mirror(8, 40), mirror(9, 20));
        let locked = mirror(10, 40);
        let lock = std::fs::File::create(place.folder.path().join("mirrors/10.git.lock")).unwrap();
        lock.lock().unwrap();
        assert_eq!(place.pass().await.unwrap().mirrors, 1);
        assert!(busy.exists() && fresh.exists() && locked.exists() && !unused.exists());
        store.close().await;
    })
    .await;
}

#[test]
fn times_that_are_too_short_are_refused() {
    for (key, days, is_right) in [
        ("runs_days", "7", false),
        ("runs_days", "8", true),
        ("runs_days", "0", true),
        ("deliveries_days", "3", false),
        ("audit_days", "40000", false),
    ] {
        let key = format!("retention.{key}");
        let sources = forgehand::config::ConfigSources {
            flags: vec![(key.clone(), days.to_owned())],
            ..Default::default()
        };
        let problem = forgehand::config::load(&sources)
            .err()
            .map(|problems| problems.to_string());
        assert_eq!(problem.is_none(), is_right, "{key} = {days}: {problem:?}");
        assert!(is_right || problem.unwrap().contains(&key));
    }
}
