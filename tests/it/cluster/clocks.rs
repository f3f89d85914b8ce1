//! FI-8: clocks that are wrong, jump or run fast, under real work. The clock of a service may show any time
//! of the night; the clock that judges leases is the database's, and when that one jumps, what it says of
//! leases is not acted upon for a while. Never waits for a time to pass on a clock that is moved.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use forgehand::app::{App, ServiceRole, Surroundings};
use forgehand::clock::Clock;
use forgehand::config::{ConfigSources, load};
use forgehand::event::RunEvent;
use forgehand::job::{Job, JobState};
use forgehand::store::Store;

use super::PATIENCE;
use crate::crash::{WHOLE, ask, assert_each_done_once};
use crate::databases::Database;
use crate::process::{LEASE, Place, Program, Site, finished, jobs_of};

/// How a clock goes wrong in the middle of a job.
#[derive(Debug, Clone, Copy)]
enum Move {
    /// By so many seconds.
    By(i64),
    /// To a time, from which it goes on.
    To(&'static str),
    /// It runs ten times as fast for two seconds.
    Fast,
}

/// What RELIABILITY.md names.
const MOVES: [(&str, Move); 8] = [
    ("thirty seconds ahead", Move::By(30)),
    ("thirty seconds back", Move::By(-30)),
    ("an hour ahead", Move::By(3_600)),
    ("an hour back", Move::By(-3_600)),
    ("ten times as fast", Move::Fast),
    ("summer begins in Berlin", Move::To("2026-03-29T00:59:59Z")),
    ("29 February begins", Move::To("2028-02-28T23:59:59Z")),
    ("it knows no time", Move::To("1970-01-01T00:00:00Z")),
];

/// When the clock of a service shows nothing special.
const NOON: &str = "2026-03-10T12:00:00Z";

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn set(clock: &Clock, time: DateTime<Utc>) {
    if let Clock::Manual(shown) = clock {
        *shown.lock().unwrap() = time;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fi8_the_clock_of_a_service_judges_no_lease_on_sqlite() {
    with_a_wrong_clock(Database::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fi8_the_clock_of_a_service_judges_no_lease_on_postgres() {
    with_a_wrong_clock(Database::postgres().await).await;
}

async fn with_a_wrong_clock(database: Database) {
    let clock = Clock::manual(at(NOON));
    let site = Site::open_at(database, clock.clone()).await;
    let judge = site.program("judge", WHOLE);
    let sources = ConfigSources {
        file: Some(judge.config.clone()),
        ..ConfigSources::default()
    };
    let mut config = load(&sources).unwrap();
    config.sandbox.helper = Some(env!("CARGO_BIN_EXE_forgehand").into());
    let surroundings = Surroundings {
        program: env!("CARGO_BIN_EXE_forgehand").into(),
        config_dir: None,
        home: None,
        rustup_home: None,
        state_home: None,
    };
    let app = App::build(config, surroundings)
        .await
        .unwrap()
        .with_clock(clock.clone());
    let stop = app.stop_token();
    let (tell, told) = tokio::sync::oneshot::channel();
    let served = tokio::spawn(async move {
        let roles = [ServiceRole::Receiver, ServiceRole::Worker, ServiceRole::Scheduler];
        app.serve(&roles, |address| tell.send(address).expect("the story listens"))
            .await
    });
    told.await.unwrap();
    let store = site.database.open().await;
    let mut issues = Vec::new();
    for (what, moved) in MOVES {
        set(&clock, at(NOON));
        let issue = ask(&site, issues.len(), "It prints a difference.");
        issues.push(issue);
        in_hand(&site, &store, issue).await;
        let begun = Instant::now();
        let from = clock.now();
        match moved {
            Move::By(seconds) => set(&clock, from + TimeDelta::seconds(seconds)),
            Move::To(time) => set(&clock, at(time)),
            Move::Fast => {}
        }
        let job = site
            .wait(what, PATIENCE, async || {
                if matches!(moved, Move::Fast) {
                    set(&clock, from + TimeDelta::from_std(begun.elapsed() * 10).unwrap());
                }
                finished(&store, issue).await
            })
            .await;
        assert_undisturbed(&store, &job, what).await;
        // What is asked for now is not put off either.
        let issue = ask(&site, issues.len(), "It prints a difference.");
        issues.push(issue);
        let job = site.wait(what, PATIENCE, async || finished(&store, issue).await).await;
        assert_undisturbed(&store, &job, what).await;
    }
    eprintln!("{} clocks of a service moved on {}", MOVES.len(), site.database.kind());
    assert_each_done_once(&site, &store, &judge, &issues).await;
    stop.cancel();
    served.await.unwrap().unwrap();
    store.close().await;
    site.close().await;
}

/// Waits until a worker has the job.
async fn in_hand(site: &Site, store: &Store, issue: u64) {
    site.wait("a worker has the job", PATIENCE, async || {
        let job = jobs_of(store, issue).await.pop()?;
        (job.state != JobState::Queued).then_some(())
    })
    .await;
}

async fn assert_undisturbed(store: &Store, job: &Job, what: &str) {
    assert_eq!(job.state, JobState::Done, "{what}: {:?}", job.outcome);
    assert_eq!((job.attempt, job.lost_leases, job.fence), (1, 0, 1), "{what}");
    assert!(recoveries(store, job).await.is_empty(), "{what}");
}

async fn recoveries(store: &Store, job: &Job) -> Vec<DateTime<Utc>> {
    let mut tx = store.begin().await.unwrap();
    let events = tx.events(&job.id, 0, 10_000).await.unwrap();
    let recovered = events
        .iter()
        .filter(|event| matches!(event.body, RunEvent::Recovered { .. }));
    recovered.map(|event| event.at).collect()
}

/// Gives PostgreSQL a clock that the story moves: what the program asks for stands before the server's own
/// function in the path of names.
async fn with_a_clock_of_its_own(database: &Database) {
    database.open().await.close().await;
    let url: url::Url = database.url.expose().parse().unwrap();
    let name = url.path().trim_start_matches('/').to_owned();
    database
        .execute(&format!(
            "CREATE SCHEMA moved;
             CREATE TABLE moved.clock (shown TIMESTAMPTZ NOT NULL, since TIMESTAMPTZ NOT NULL, rate FLOAT8 NOT NULL);
             INSERT INTO moved.clock SELECT pg_catalog.clock_timestamp(), pg_catalog.clock_timestamp(), 1;
             CREATE FUNCTION moved.clock_timestamp() RETURNS TIMESTAMPTZ LANGUAGE sql VOLATILE AS
                 'SELECT shown + rate * (pg_catalog.clock_timestamp() - since) FROM moved.clock';
             ALTER DATABASE {name} SET search_path = public, moved, pg_catalog;
             ALTER DATABASE {name} SET timezone = 'Europe/Berlin';"
        ))
        .await;
}

/// The clock that judges leases.
enum Judge<'a> {
    /// A row of PostgreSQL.
    Row(&'a Database),
    /// SQLite has none but the machine's. The service is shown another one, by faketime, and what it reads
    /// says how far it is off. GitHub goes by the same, or no statement of ours would be valid there.
    Machine { file: PathBuf, github: Clock },
}

impl Judge<'_> {
    async fn set(&self, shown: &str, rate: u32) {
        let Judge::Row(database) = self else {
            panic!("only a row is set in words")
        };
        let moved =
            format!("UPDATE moved.clock SET shown = {shown}, since = pg_catalog.clock_timestamp(), rate = {rate}");
        database.execute(&moved).await;
    }

    /// Shows that much more than the time, in one step for whoever reads it.
    fn show(file: &Path, github: &Clock, ahead: TimeDelta) {
        let draft = file.with_extension("draft");
        let seconds = ahead.as_seconds_f64();
        std::fs::write(&draft, format!("{seconds:+.3}\n")).unwrap();
        std::fs::rename(draft, file).unwrap();
        set(github, Utc::now() + ahead);
    }

    /// It goes wrong.
    async fn go_wrong(&self, moved: Move) {
        match (self, moved) {
            (Judge::Row(_), Move::By(seconds)) => {
                let shown = format!("moved.clock_timestamp() + INTERVAL '{seconds} s'");
                self.set(&shown, 1).await;
            }
            (Judge::Row(_), Move::To(time)) => self.set(&format!("TIMESTAMPTZ '{time}'"), 1).await,
            (Judge::Row(_), Move::Fast) => self.set("moved.clock_timestamp()", 10).await,
            (Judge::Machine { file, github }, Move::By(seconds)) => {
                Self::show(file, github, TimeDelta::seconds(seconds));
            }
            (Judge::Machine { file, github }, Move::To(time)) => Self::show(file, github, at(time) - Utc::now()),
            (Judge::Machine { .. }, Move::Fast) => {}
        }
    }

    /// Goes on being wrong, so long after it began to be.
    async fn go_on(&self, moved: Move, since: Duration) {
        match (self, moved) {
            (Judge::Row(_), Move::Fast) if since > FAST => self.set("moved.clock_timestamp()", 1).await,
            (Judge::Machine { file, github }, Move::Fast) => {
                let ahead = TimeDelta::from_std(since.min(FAST) * 9).unwrap();
                Self::show(file, github, ahead);
            }
            _ => {}
        }
    }

    /// It shows the time again.
    async fn go_right(&self) {
        match self {
            Judge::Row(_) => self.set("pg_catalog.clock_timestamp()", 1).await,
            Judge::Machine { file, github } => Self::show(file, github, TimeDelta::zero()),
        }
    }
}

/// How long a clock runs fast.
const FAST: Duration = Duration::from_secs(2);

/// faketime's library, which Debian has in a folder of the machine's kind. `None` where it is not
/// installed, which is a failure where everything has to be there.
fn faketime() -> Option<PathBuf> {
    let kinds = std::fs::read_dir("/usr/lib").unwrap().flatten();
    let found = kinds
        .map(|kind| kind.path().join("faketime/libfaketimeMT.so.1"))
        .find(|library| library.exists());
    if found.is_none() {
        eprintln!("NOT TRIED: the machine's clock is moved by faketime, which is not installed");
        assert!(std::env::var_os("FORGEHAND_TEST_ALL").is_none(), "faketime is missing");
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn fi8_leases_outlive_a_jump_of_the_clock_that_judges_them_on_postgres() {
    let database = Database::postgres().await;
    with_a_clock_of_its_own(&database).await;
    let site = Site::open(database).await;
    let service = site.program("service", WHOLE);
    leases_outlive_jumps(&site, service, Judge::Row(&site.database)).await;
    site.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fi8_leases_outlive_a_jump_of_the_clock_that_judges_them_on_sqlite() {
    let Some(library) = faketime() else { return };
    let github = Clock::manual(Utc::now());
    let site = Site::open_at(Database::sqlite(), github.clone()).await;
    let file = site.folder().join("ahead");
    // By a clock that shows another year everything is old, and would be moved away.
    let keep = Place {
        more: "[retention]\nruns_days = 0\ndeliveries_days = 36500\n".to_owned(),
        ..site.here()
    };
    let mut service = site.program_at("service", WHOLE, &keep);
    for (name, value) in [
        ("LD_PRELOAD", library.display().to_string()),
        ("FAKETIME_TIMESTAMP_FILE", file.display().to_string()),
        ("FAKETIME_NO_CACHE", "1".to_owned()),
        ("NO_FAKE_STAT", "1".to_owned()),
        // What a clock shows is moved, not how long a moment lasts.
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ] {
        service.env.push((name.to_owned(), value));
    }
    let judge = Judge::Machine { file, github };
    judge.go_right().await;
    leases_outlive_jumps(&site, service, judge).await;
    site.close().await;
}

async fn leases_outlive_jumps(site: &Site, mut service: Program, judge: Judge<'_>) {
    service.start().await;
    let store = site.database.open().await;
    let mut issues = Vec::new();
    let (mut lost, mut soonest) = (0, Duration::MAX);
    for (what, moved) in MOVES {
        let issue = ask(site, issues.len(), "It prints a difference.");
        issues.push(issue);
        in_hand(site, &store, issue).await;
        let jumped = Instant::now();
        judge.go_wrong(moved).await;
        let job = site
            .wait(what, PATIENCE, async || {
                judge.go_on(moved, jumped.elapsed()).await;
                finished(&store, issue).await
            })
            .await;
        assert_eq!(job.state, JobState::Done, "{what}: {:?}", job.outcome);
        if !recoveries(&store, &job).await.is_empty() {
            lost += 1;
            soonest = soonest.min(jumped.elapsed());
            assert!(
                jumped.elapsed() >= LEASE,
                "{what}: the lease was taken back before its worker could know"
            );
        }
        // Under the clock as it is now, everything goes on.
        let issue = ask(site, issues.len(), "It prints a difference.");
        issues.push(issue);
        let job = site.wait(what, PATIENCE, async || finished(&store, issue).await).await;
        assert_eq!((job.state, job.fence), (JobState::Done, 1), "{what}");
        judge.go_right().await;
    }
    eprintln!(
        "{} times the clock of {} moved; {lost} leases seemed to be over, and the soonest of these jobs was done {soonest:.1?} \
         after the jump",
        MOVES.len(),
        site.database.kind()
    );
    assert!(lost > 0, "no jump met a lease");
    assert_each_done_once(site, &store, &service, &issues).await;
    service.stop().await;
    store.close().await;
}
