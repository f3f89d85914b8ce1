//! Schedules from outside: the pass that makes jobs of their fires, on both databases, with clocks that
//! are moved by hand; several processes at once; and the whole way from a schedule to a pull request.

use chrono::{DateTime, TimeDelta, Utc};
use forgehand::clock::Clock;
use forgehand::config::GitHubConfig;
use forgehand::demo::double::GitHubDouble;
use forgehand::github::GitHub;
use forgehand::job::{Job, Trigger};
use forgehand::schedule::{CatchUp, Schedule, Source, Written};
use forgehand::secret::Redactor;
use forgehand::store::{JobFilter, RepoRow, Store};
use forgehand::unattended::cron::{Cron, Fired};

mod clocks;
mod command;
mod pass;
mod replicas;

/// Where schedules of these stories work.
const REPO: &str = "octo/words";

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

/// A schedule that tidies up.
fn written(name: &str, cron: &str) -> Written {
    Written {
        name: Some(name.to_owned()),
        cron: Some(cron.to_owned()),
        timezone: "Europe/Berlin".to_owned(),
        jitter_seconds: 0,
        repository: Some(REPO.to_owned()),
        task: Some("Tidy up.\nLeave no crumbs.".to_owned()),
        skill: None,
        graph: None,
        eval: None,
        min_mrr: 0,
        enabled: true,
        catch_up: CatchUp::Once,
    }
}

fn read(written: &Written) -> Schedule {
    Schedule::parse(written, Source::File).unwrap()
}

/// A GitHub without the repository of the stories: whoever knows it has it from the database.
async fn github() -> (GitHubDouble, GitHub) {
    let double = GitHubDouble::start(Clock::System).await.unwrap();
    let mut config = GitHubConfig::default();
    double.configure(&mut config);
    let github = GitHub::new(&config, Clock::System, Redactor::default()).unwrap();
    (double, github)
}

/// A process that follows schedules, with a clock that stands at a time.
async fn cron(store: &Store, github: &GitHub, configured: &[Written], now: &str) -> Cron {
    let mut tx = store.begin().await.unwrap();
    let row = RepoRow {
        id: forgehand::ids::RepoId(7),
        name: REPO.parse().unwrap(),
        installation: forgehand::ids::InstallationId(99),
        active: true,
    };
    tx.upsert_repo(&row).await.unwrap();
    tx.commit().await.unwrap();
    Cron {
        store: store.clone(),
        github: github.clone(),
        clock: Clock::manual(at(now)),
        configured: configured.iter().map(read).collect(),
        max_attempts: 3,
        graphs: forgehand::unattended::Graphs {
            store: store.clone(),
            clock: Clock::manual(at(now)),
            config: forgehand::config::WorkgraphConfig::default(),
            max_attempts: 3,
            alerts: forgehand::unattended::Alerts::new(&forgehand::config::AlertConfig::default()),
        },
        pause: std::time::Duration::from_secs(1),
    }
}

/// Puts the clock to a time, before or after the one that it shows.
fn set(cron: &mut Cron, now: &str) {
    cron.clock = Clock::manual(at(now));
    cron.graphs.clock = cron.clock.clone();
}

/// One pass; what it decided, as `NAME TIME OUTCOME` and whether there is a job.
async fn pass(cron: &Cron) -> Vec<String> {
    told(&cron.fire().await.unwrap())
}

fn told(fired: &[Fired]) -> Vec<String> {
    let line = |fire: &Fired| {
        let job = if fire.job.is_some() { " +" } else { "" };
        let time = fire.fire_at.format("%m-%d %H:%M");
        format!("{} {time} {}{job}", fire.schedule, fire.outcome)
    };
    fired.iter().map(line).collect()
}

/// All jobs, the oldest first.
pub async fn jobs(store: &Store) -> Vec<Job> {
    let mut tx = store.begin().await.unwrap();
    let filter = JobFilter {
        limit: 10_000,
        ..JobFilter::default()
    };
    let mut jobs = tx.jobs(&filter).await.unwrap();
    jobs.reverse();
    jobs
}

/// The fire that a job is of.
pub fn fire_of(job: &Job) -> (String, DateTime<Utc>) {
    match &job.request.trigger {
        Trigger::Schedule { name, fire_at } => (name.clone(), *fire_at),
        other => panic!("{other:?} is no fire"),
    }
}

/// Ends all jobs, as if somebody had worked on them.
pub async fn end_all(store: &Store) {
    for job in jobs(store).await.iter().filter(|job| !job.state.is_final()) {
        let mut tx = store.begin().await.unwrap();
        tx.cancel_job(&job.id, "done", Clock::System.now()).await.unwrap();
        tx.commit().await.unwrap();
    }
}

/// A time so many minutes later.
fn later(time: DateTime<Utc>, minutes: i64) -> DateTime<Utc> {
    time + TimeDelta::minutes(minutes)
}
