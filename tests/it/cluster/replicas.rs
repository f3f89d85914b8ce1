//! FI-16: three schedulers in processes of their own, each on a clock of the story, that are killed, frozen
//! and cut off while fires come due: each fire has one job.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use forgehand::app::{App, ServiceRole, Surroundings};
use forgehand::clock::Clock;
use forgehand::config::{ConfigSources, load};
use forgehand::ids::RepoId;
use forgehand::store::{RepoRow, Store};
use rustix::process::{Pid, Signal};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::PATIENCE;
use super::network::{Cut, Link, Target};
use crate::crash::{assert_invariants, number, random};
use crate::databases::Database;
use crate::process::{Place, Program, REPO, Site};
use crate::schedule::{end_all, fire_of, jobs};

/// The configuration of one; without it the test is none.
const FILE: &str = "FORGEHAND_TEST_CONFIG";
/// Where the clocks begin.
const BEGINS: &str = "2026-03-28T22:00:00Z";
const REPLICAS: usize = 3;

/// Each is due at every step of the story.
const SCHEDULES: &str = "[[schedule]]\nname = \"minutely\"\ncron = \"* * * * *\"\nrepository = \"octo/sums\"\ntask = \"Tidy up.\"\n\
    [[schedule]]\nname = \"also\"\ncron = \"*/1 * * * *\"\ntimezone = \"Europe/Berlin\"\nrepository = \"octo/sums\"\ntask = \"Count.\"\n";

/// What may happen to a replica while a fire comes due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    Killed,
    Frozen,
    CutOff,
}

struct Replica {
    program: Program,
    link: Link,
    running: Option<Child>,
    /// Kept open, so that a late line of output finds a reader.
    output: Option<Lines<BufReader<ChildStdout>>>,
    trouble: Option<Trouble>,
}

#[tokio::test(flavor = "multi_thread")]
async fn fi16_each_fire_has_one_job_whoever_is_killed_frozen_or_cut_off() {
    let mut chance = random("replicas in processes");
    let fires = number("FORGEHAND_TEST_FIRES", 50);
    let site = Site::open(Database::postgres().await).await;
    let store = site.database.open().await;
    hold_the_repository(&site, &store).await;
    let mut now: DateTime<Utc> = BEGINS.parse().unwrap();
    let mut replicas = Vec::new();
    for number in 0..REPLICAS {
        replicas.push(Replica::start(&site, number, now).await);
    }
    site.wait("the schedules are followed", PATIENCE, async || {
        let mut tx = store.begin().await.unwrap();
        let (one, two) = (tx.schedule_cursor("minutely").await, tx.schedule_cursor("also").await);
        (one.unwrap().is_some() && two.unwrap().is_some()).then_some(())
    })
    .await;
    let mut troubles: BTreeMap<Trouble, u32> = BTreeMap::new();
    for _ in 0..fires {
        let next = now + TimeDelta::minutes(1);
        let victim = chance.usize(..REPLICAS);
        for number in 0..REPLICAS {
            // In an order that is another each time, and the trouble comes before or after the news.
            let number = (number + victim) % REPLICAS;
            let replica = &mut replicas[number];
            if number == victim && chance.bool() {
                *troubles.entry(replica.trouble(&mut chance).await).or_default() += 1;
            }
            replica.tell(next).await;
            tokio::time::sleep(Duration::from_micros(chance.u64(..60_000))).await;
        }
        if replicas[victim].trouble.is_none() {
            *troubles.entry(replicas[victim].trouble(&mut chance).await).or_default() += 1;
        }
        site.wait("each schedule has its job", PATIENCE, async || {
            let at = fired(&store).await;
            let due = |name: &str| at.contains_key(&(name.to_owned(), next));
            (due("minutely") && due("also")).then_some(())
        })
        .await;
        replicas[victim].relieve(next).await;
        end_all(&store).await;
        now = next;
    }
    let fired = fired(&store).await;
    assert!(fired.values().all(|jobs| *jobs == 1), "{fired:?}");
    let expected = usize::try_from(fires).unwrap() * 2;
    eprintln!("{} fires, each with one job; {troubles:?}", fired.len());
    assert_eq!(fired.len(), expected, "one for each minute and schedule");
    assert_invariants(&replicas[0].program).await;
    for replica in &mut replicas {
        replica.stop().await;
    }
    store.close().await;
    site.close().await;
}

/// How many jobs each fire has.
async fn fired(store: &Store) -> BTreeMap<(String, DateTime<Utc>), u32> {
    let mut fired = BTreeMap::new();
    for job in jobs(store).await {
        *fired.entry(fire_of(&job)).or_default() += 1;
    }
    fired
}

/// As if the App had been installed there.
async fn hold_the_repository(site: &Site, store: &Store) {
    let mut tx = store.begin().await.unwrap();
    let row = RepoRow {
        id: RepoId(7),
        name: REPO.parse().unwrap(),
        installation: site.double.installation(),
        active: true,
    };
    tx.upsert_repo(&row).await.unwrap();
    tx.commit().await.unwrap();
}

impl Replica {
    async fn start(site: &Site, number: usize, now: DateTime<Utc>) -> Self {
        let here = site.here();
        let database: url::Url = here.database.parse().unwrap();
        let folder = database
            .query_pairs()
            .find(|(key, _)| key == "host")
            .unwrap()
            .1
            .into_owned();
        let link = Link::of_relays(&[Target::Unix(format!("{folder}/.s.PGSQL.5432").into())]).await;
        let place = Place {
            database: format!("postgresql://postgres@{}{}", link.relays[0], database.path()),
            more: SCHEDULES.to_owned(),
            ..here
        };
        let mut replica = Self {
            program: site.program_at(&format!("replica-{number}"), "scheduler", &place),
            link,
            running: None,
            output: None,
            trouble: None,
        };
        replica.run(now).await;
        replica
    }

    /// The test program runs itself, with one test that is nothing but a scheduler.
    async fn run(&mut self, now: DateTime<Utc>) {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.program.config.with_extension("log"))
            .unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "cluster::replicas::a_scheduler_of_a_story",
                "--ignored",
                "--nocapture",
            ])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env(FILE, &self.program.config)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(format!("{}\n", now.to_rfc3339()).as_bytes())
            .await
            .unwrap();
        let ready = async {
            while let Ok(Some(line)) = output.next_line().await {
                if line == "ready" {
                    return true;
                }
            }
            false
        };
        assert!(
            tokio::time::timeout(PATIENCE, ready).await.unwrap(),
            "{}",
            self.program.log()
        );
        self.running = Some(child);
        self.output = Some(output);
    }

    /// What time it is. Who is dead does not hear it, who is frozen hears it later.
    async fn tell(&mut self, now: DateTime<Utc>) {
        if let Some(stdin) = self.running.as_mut().and_then(|child| child.stdin.as_mut()) {
            stdin
                .write_all(format!("{}\n", now.to_rfc3339()).as_bytes())
                .await
                .unwrap();
        }
    }

    fn signal(&self, signal: Signal) {
        let id = self.running.as_ref().and_then(Child::id).unwrap();
        rustix::process::kill_process(Pid::from_raw(id.cast_signed()).unwrap(), signal).unwrap();
    }

    async fn trouble(&mut self, chance: &mut fastrand::Rng) -> Trouble {
        let trouble = chance
            .choice([Trouble::Killed, Trouble::Frozen, Trouble::CutOff])
            .unwrap();
        match trouble {
            Trouble::Killed => self.running.take().unwrap().kill().await.unwrap(),
            Trouble::Frozen => self.signal(Signal::STOP),
            Trouble::CutOff => self.link.cut(Cut::Lost).await,
        }
        self.trouble = Some(trouble);
        trouble
    }

    async fn relieve(&mut self, now: DateTime<Utc>) {
        match self.trouble.take() {
            Some(Trouble::Killed) => self.run(now).await,
            Some(Trouble::Frozen) => self.signal(Signal::CONT),
            Some(Trouble::CutOff) => self.link.heal(Cut::Lost).await,
            None => {}
        }
    }

    async fn stop(&mut self) {
        self.signal(Signal::TERM);
        let ended = tokio::time::timeout(PATIENCE, self.running.as_mut().unwrap().wait()).await;
        assert!(ended.unwrap().unwrap().success(), "{}", self.program.log());
    }
}

/// Only what a story starts. Its clock is where the last line of its input says.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a scheduler of a story in a process of its own, and no story"]
async fn a_scheduler_of_a_story() {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let begins: DateTime<Utc> = lines.next_line().await.unwrap().unwrap().parse().unwrap();
    let log = tracing_subscriber::fmt()
        .with_env_filter("forgehand=info")
        .with_writer(std::io::stderr);
    log.init();
    let clock = Clock::manual(begins);
    let sources = ConfigSources {
        file: std::env::var_os(FILE).map(Into::into),
        ..ConfigSources::default()
    };
    let program: std::path::PathBuf = env!("CARGO_BIN_EXE_forgehand").into();
    let surroundings = Surroundings {
        program,
        config_dir: None,
        home: None,
        rustup_home: None,
        state_home: None,
    };
    let app = App::build(load(&sources).unwrap(), surroundings).await.unwrap();
    let app = app.with_clock(clock.clone());
    let stop = app.stop_token();
    let mut terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
    tokio::spawn(async move {
        terminated.recv().await;
        stop.cancel();
    });
    tokio::spawn(async move {
        while let Ok(Some(line)) = lines.next_line().await {
            let to: DateTime<Utc> = line.parse().unwrap();
            clock.advance((to - clock.now()).to_std().unwrap_or_default());
        }
    });
    app.serve(&[ServiceRole::Scheduler], |_| println!("\nready"))
        .await
        .unwrap();
}
