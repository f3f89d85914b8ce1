//! FI-2: every failpoint × crash, error and a hang of two leases, on both databases: each job is
//! done, once, and within a limit that follows from the settings. A point that is not reached fails its
//! case. Never counts the work itself as time that was lost: it is measured before, undisturbed.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use forgehand::config::{Config, ConfigSources, load};
use forgehand::event::RunEvent;
use forgehand::job::{Job, JobState};

use super::Bench;
use super::limit::goes_on_within;
use super::marks::marks;
use crate::crash::{WHOLE, number, random};
use crate::databases::Database;
use crate::process::{LEASE, QUICKLY, SLOWLY, Site, jobs_of};

/// From the end of a lease to the next claim: the scan is as often as a sixth of a lease, the queue
/// is looked at every 50 ms, and the machine is busy with other sites.
const SLACK: Duration = Duration::from_secs(8);
/// How much longer work may take than it did before, while other sites are killed and started.
const BUSIER: u32 = 2;
/// Until an armed point is reached.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Crash,
    Error,
    Hang,
}

impl Action {
    pub fn text(self) -> String {
        match self {
            Action::Crash => "crash".to_owned(),
            Action::Error => "error".to_owned(),
            Action::Hang => format!("hang({})", Self::HANG.as_secs()),
        }
    }

    const HANG: Duration = Duration::from_secs(2 * LEASE.as_secs());
}

/// Points that one job meets.
const IN_ONE_JOB: usize = 3;

/// How a point is reached.
enum Way {
    /// By any job; how often, at least.
    Job(u32),
    /// By a job that takes its time.
    Slow,
    /// By a job after this was done to it.
    After(&'static str),
    /// By a service that starts after one that died in the middle of a job.
    Start,
    /// By a job that ends without a worker: another story.
    Ending,
}

fn way(point: &str) -> Way {
    match point {
        "heartbeat.written" | "heartbeat.committed" => Way::Slow,
        "retry.written" | "retry.committed" => Way::After("turn.asking=error"),
        "snooze.written" | "snooze.committed" => Way::After("effect.looked_up=error"),
        "recover.written" | "recover.committed" => Way::After("claim.committed=error"),
        "recover_own.written" | "recover_own.committed" => Way::Start,
        _ if point.starts_with("settle.") => Way::Ending,
        _ if point.starts_with("effect.") || point == "github.answered" => Way::Job(4),
        _ if point.starts_with("event.") => Way::Job(6),
        _ if point.starts_with("checkpoint.") => Way::Job(3),
        _ if ["conversation.", "turn.", "tool."]
            .iter()
            .any(|of| point.starts_with(of)) =>
        {
            Way::Job(2)
        }
        _ => Way::Job(1),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn crashes_on_sqlite() {
    sweep("sqlite", Action::Crash, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crashes_on_postgres() {
    sweep("postgres", Action::Crash, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_on_sqlite() {
    sweep("sqlite", Action::Error, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_on_postgres() {
    sweep("postgres", Action::Error, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hangs_on_sqlite() {
    sweep("sqlite", Action::Hang, 6).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hangs_on_postgres() {
    sweep("postgres", Action::Hang, 6).await;
}

/// One case: what is armed, and how it is reached.
struct Case {
    point: String,
    armed: String,
    way: Way,
}

/// Where on a job's way a point lies, so that one job can meet several.
fn rank(point: &str) -> usize {
    const WAY: [&str; 23] = [
        "ingest",
        "receiver",
        "claim",
        "recover",
        "attempt",
        "authorize",
        "acknowledge",
        "gather",
        "open",
        "event",
        "retry",
        "turn",
        "tool",
        "conversation",
        "checkpoint",
        "solve",
        "import",
        "verify",
        "change",
        "plan",
        "publish",
        "effect",
        "github",
    ];
    let place = point.split('.').next().unwrap();
    WAY.iter().position(|known| *known == place).unwrap_or(WAY.len())
}

/// What each job meets: points that lie far from each other, or one that needs a job of its own.
fn chains(action: Action, random: &mut fastrand::Rng) -> VecDeque<Vec<Case>> {
    let rounds = number("FORGEHAND_TEST_FAILPOINT_ROUNDS", 1);
    let only = std::env::var("FORGEHAND_TEST_FAILPOINT").unwrap_or_default();
    let (mut alone, mut shared) = (Vec::new(), Vec::new());
    for point in (0..rounds)
        .flat_map(|_| marks().into_keys())
        .filter(|point| point.contains(&only))
    {
        let way = way(&point);
        let armed = match way {
            Way::Job(most) => format!("{}*{point}={}", random.u32(1..=most), action.text()),
            Way::Slow | Way::Start => format!("{point}={}", action.text()),
            Way::After(first) => format!("{first};{point}={}", action.text()),
            Way::Ending => continue,
        };
        let case = Case { point, armed, way };
        match case.way {
            Way::Slow | Way::Start => alone.push(vec![case]),
            Way::Job(_) | Way::After(_) | Way::Ending => shared.push(case),
        }
    }
    random.shuffle(&mut shared);
    shared.sort_by_key(|case| rank(&case.point));
    let jobs = shared.len().div_ceil(IN_ONE_JOB).max(1);
    let mut chains: Vec<Vec<Case>> = (0..jobs).map(|_| Vec::new()).collect();
    for (at, case) in shared.into_iter().enumerate() {
        chains[at % jobs].push(case);
    }
    chains.extend(alone);
    random.shuffle(&mut chains);
    chains.into()
}

/// Several sites share the points; a hang costs time, but no work.
async fn sweep(kind: &str, action: Action, sites: usize) {
    let mut random = random(&format!("{action:?} at every point on {kind}"));
    let chains = chains(action, &mut random);
    let (jobs, count) = (chains.len(), chains.iter().map(Vec::len).sum::<usize>());
    let (chains, took, settled) = (Mutex::new(chains), Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let began = Instant::now();
    let work = (0..sites).map(|_| async {
        let database = match kind {
            "sqlite" => Database::sqlite(),
            _ => Database::postgres().await,
        };
        let mut table = Table::open(database).await;
        let undisturbed = table.undisturbed().await;
        loop {
            let Some(chain) = chains.lock().unwrap().pop_front() else {
                break;
            };
            let (back, ended) = table.meet(&chain, action).await;
            took.lock().unwrap().extend(back);
            settled.lock().unwrap().push(ended);
        }
        let own = (undisturbed, table.config());
        table.bench.settle().await;
        own
    });
    let mut sites = futures_util::future::join_all(work).await;
    sites.sort_by_key(|(undisturbed, _)| *undisturbed);
    let (undisturbed, config) = &sites[sites.len() / 2];
    let mut took = took.into_inner().unwrap();
    took.sort();
    let (slowest, point) = took.last().unwrap();
    let hang = if action == Action::Hang {
        Action::HANG
    } else {
        Duration::ZERO
    };
    let bound = hang + LEASE + LEASE / 6 + SLACK;
    let late = took.iter().filter(|(back, _)| *back > bound).count();
    eprintln!(
        "{action:?} at {count} points on {kind} in {jobs} jobs and {:.1?}: all done once; longest until a job was \
         claimed again {slowest:.1?} ({point}), {late} later than {bound:.1?}",
        began.elapsed()
    );
    let faults = u32::try_from(IN_ONE_JOB).unwrap();
    let limit = hang + goes_on_within(config, faults) + *undisturbed * BUSIER + SLACK;
    let (longest, point) = settled.into_inner().unwrap().into_iter().max().unwrap();
    eprintln!(
        "{action:?} on {kind}: from the last fault of a job to its end at most {longest:.1?} ({point}); the limit is \
         {limit:.1?}, {undisturbed:.1?} of it for work"
    );
    assert!(
        longest <= limit,
        "after {point} a job needed {longest:?}, not {limit:?}"
    );
    // A machine that stands still for seconds lets other leases end, too.
    assert!(late * 10 <= count, "{late} of {count} were claimed again too late");
}

/// A site whose running service can be armed.
pub struct Table {
    pub bench: Bench,
    armed: PathBuf,
}

impl Table {
    pub async fn open(database: Database) -> Self {
        let site = Site::open(database).await;
        let armed = site.folder().join("armed");
        let mut service = site.program("service", WHOLE);
        service
            .env
            .push(("FORGEHAND_FAILPOINTS".to_owned(), format!("@{}", armed.display())));
        service.start().await;
        let store = site.database.open().await;
        Self {
            bench: Bench {
                site,
                service,
                store,
                issues: Vec::new(),
            },
            armed,
        }
    }

    /// How long a job takes that meets nothing.
    async fn undisturbed(&mut self) -> Duration {
        let issue = self.bench.ask(SLOWLY);
        let job = self.bench.ends(issue).await;
        (job.finished_at.unwrap() - job.created_at).to_std().unwrap()
    }

    /// The settings of its service.
    fn config(&self) -> Config {
        let sources = ConfigSources {
            file: Some(self.bench.service.config.clone()),
            ..ConfigSources::default()
        };
        load(&sources).unwrap()
    }

    /// Whole at once: the service may read it at any moment.
    pub fn arm(&self, text: &str) {
        let draft = self.armed.with_extension("draft");
        std::fs::write(&draft, text).unwrap();
        std::fs::rename(draft, &self.armed).unwrap();
    }

    /// How often a point acted so far, by the log.
    pub fn fired(&self, point: &str) -> usize {
        let log = std::fs::read_to_string(&self.bench.service.log).unwrap_or_default();
        log.matches(&format!("failpoint {point} fires")).count()
    }

    /// Waits until a point has acted once more. Where the service died of it, it is started again
    /// with the next points armed.
    pub async fn acts(&mut self, point: &str, before: usize, action: Action, next: &str) -> DateTime<Utc> {
        self.bench
            .site
            .wait(&format!("{point} is reached"), PATIENCE, async || {
                (self.fired(point) > before).then_some(())
            })
            .await;
        let at = Utc::now();
        if action == Action::Crash {
            assert_eq!(self.bench.service.ended().await, None, "it was killed");
            self.arm(next);
            self.bench.service.start().await;
        }
        at
    }

    /// One job meets all of these points. Returns how long it took each time until it was claimed
    /// again, and after which point; and from the last one to its end.
    async fn meet(&mut self, chain: &[Case], action: Action) -> (Vec<(Duration, String)>, (Duration, String)) {
        let before: Vec<usize> = chain.iter().map(|case| self.fired(&case.point)).collect();
        let rest = |from: usize| {
            let armed = chain[from..].iter().map(|case| case.armed.as_str());
            armed.collect::<Vec<_>>().join(";")
        };
        let mut acted = Vec::new();
        let issue = match chain {
            [
                Case {
                    point,
                    armed,
                    way: Way::Start,
                },
            ] => {
                let (issue, at) = self.start_after_a_death(point, armed, action).await;
                acted.push(at);
                issue
            }
            _ => {
                let is_slow = matches!(chain, [Case { way: Way::Slow, .. }]);
                self.arm(&rest(0));
                let issue = self.bench.ask(if is_slow { SLOWLY } else { QUICKLY });
                for (at, case) in chain.iter().enumerate() {
                    acted.push(self.acts(&case.point, before[at], action, &rest(at + 1)).await);
                    self.bench.site.redeliver_failed().await;
                }
                issue
            }
        };
        self.bench.site.redeliver_failed().await;
        let job = self.bench.ends(issue).await;
        self.arm("");
        assert_eq!(
            job.state,
            JobState::Done,
            "{}: {job:#?}\n{}",
            rest(0),
            self.bench.site.logs()
        );
        let mut back = Vec::new();
        for (at, case) in chain.iter().enumerate() {
            let until = acted.get(at + 1).copied().unwrap_or(DateTime::<Utc>::MAX_UTC);
            let span = acted[at]..until;
            back.push((self.claimed_again(&job, span).await, case.point.clone()));
        }
        // A fault behind the end of a job leaves nothing to wait for.
        let ended = job.finished_at.unwrap() - *acted.last().unwrap();
        (back, (ended.to_std().unwrap_or_default(), rest(0)))
    }

    /// The service dies in the middle of a job, and meets a point when it starts again.
    async fn start_after_a_death(&mut self, point: &str, armed: &str, action: Action) -> (u64, DateTime<Utc>) {
        let before = self.fired(point);
        self.arm("turn.replied=crash");
        let issue = self.bench.ask(QUICKLY);
        self.bench
            .site
            .wait("the service dies", PATIENCE, async || {
                (self.fired("turn.replied") > 0
                    && jobs_of(&self.bench.store, issue)
                        .await
                        .first()
                        .is_some_and(|job| job.fence > 0))
                .then_some(())
            })
            .await;
        assert_eq!(self.bench.service.ended().await, None, "it was killed");
        self.arm(armed);
        let works = self.bench.service.try_start().await;
        assert_eq!(works, action == Action::Hang, "{point}: whether it starts");
        if !works {
            self.arm("");
            self.bench.service.start().await;
        }
        assert_eq!(self.fired(point), before + 1, "{point} was not reached");
        (issue, Utc::now())
    }

    /// How long a lost lease took to end, to be found and to be claimed. Nothing where it was not lost.
    async fn claimed_again(&self, job: &Job, span: Range<DateTime<Utc>>) -> Duration {
        let mut tx = self.bench.store.begin().await.unwrap();
        let events = tx.events(&job.id, 0, 10_000).await.unwrap();
        let again = events
            .iter()
            .find(|event| matches!(event.body, RunEvent::Claimed { .. }) && span.contains(&event.at));
        let back = again.map_or(TimeDelta::zero(), |claimed| claimed.at - span.start);
        back.to_std().unwrap()
    }
}
