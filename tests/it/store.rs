//! What every caller may expect of the database, on SQLite and on PostgreSQL: one story for each
//! promise, and each method of a transaction at least once.

use std::time::{Duration, Instant};

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use forgehand::clock::Clock;
use forgehand::effect::{EffectBody, NewEffect};
use forgehand::event::RunEvent;
use forgehand::ids::{CommentId, InstallationId, IssueNumber, JobId, RepoId, Subject, UserId};
use forgehand::job::{Actor, Job, JobKind, JobState, Lease, LeasedJob, NewJob, Outcome, Pins, Request, Trigger};
use forgehand::store::{Store, StoreError, Tx};

mod announced;
mod audit;
mod budgets;
mod cancel;
mod checks;
mod claims;
mod conversation;
mod deliveries;
mod drafts;
mod effects;
mod fairness;
mod group;
mod invariants;
mod jobs;
mod ledger;
mod leftovers;
mod log;
mod looks;
mod memory;
mod milestones;
mod missions;
mod opening;
mod questions;
mod queue_items;
mod recovery;
mod reminders;
mod retention;
mod scans;
mod schedules;
mod settle;
mod silent;
mod steering;
mod transitions;
mod turns;

/// A lease that no test outlives.
const LONG: Duration = Duration::from_secs(600);

/// A lease that is over as soon as somebody looks.
const SHORT: Duration = Duration::from_millis(1);

/// Three lost leases without progress are one too many.
const MAX_LOST: u32 = 3;

fn now() -> DateTime<Utc> {
    Clock::System.now()
}

fn in_seconds(seconds: i64) -> DateTime<Utc> {
    now() + TimeDelta::seconds(seconds)
}

/// A `fix` of an issue, ready since a minute.
fn fix(number: u64) -> NewJob {
    NewJob {
        repo_id: RepoId(7),
        repo: "octo/widgets".parse().unwrap(),
        installation: InstallationId(99),
        kind: JobKind::Fix,
        subject: Subject::Issue(IssueNumber(number)),
        dedupe_key: None,
        priority: 0,
        run_at: in_seconds(-60),
        max_attempts: 5,
        request: Request {
            trigger: Trigger::Comment { id: CommentId(5) },
            actor: Actor {
                id: UserId(3),
                login: "mona".to_owned(),
                is_bot: false,
            },
            instructions: "please \u{0} hurry".to_owned(),
            triggered_at: in_seconds(-90),
        },
        pins: Pins {
            title: Some("Parser drops the last line".to_owned()),
            ..Pins::default()
        },
    }
}

/// A comment as the effect at a position.
fn comment(job: &JobId, seq: i64) -> NewEffect {
    NewEffect {
        seq,
        dedupe_key: format!("{job}/{seq}"),
        body: EffectBody::Comment {
            number: IssueNumber(1),
            body: format!("comment {seq}"),
        },
    }
}

/// Does something in a transaction of its own and commits it when it went well.
async fn with<T>(store: &Store, work: impl AsyncFnOnce(&mut Tx) -> Result<T, StoreError>) -> Result<T, StoreError> {
    let mut tx = store.begin().await?;
    let result = work(&mut tx).await?;
    tx.commit().await?;
    Ok(result)
}

async fn insert(store: &Store, job: &NewJob) -> JobId {
    with(store, async |tx| tx.insert_job(job, now()).await)
        .await
        .unwrap()
        .expect("no other job has its key")
}

async fn claim(store: &Store, owner: &str, lease: Duration) -> Option<LeasedJob> {
    with(store, async |tx| tx.claim_job(owner, lease).await).await.unwrap()
}

/// Inserts a job and claims it.
async fn leased(store: &Store, job: &NewJob, lease: Duration) -> Lease {
    let id = insert(store, job).await;
    let leased = claim(store, "worker-1", lease).await.expect("a job is ready");
    assert_eq!(leased.job.id, id);
    leased.lease
}

/// A job that is publishing, with a comment to send at each position.
async fn publishing(store: &Store, job: &NewJob, seqs: &[i64], lease: Duration) -> Lease {
    let lease = leased(store, job, lease).await;
    let effects: Vec<NewEffect> = seqs.iter().map(|seq| comment(&lease.job, *seq)).collect();
    with(store, async |tx| {
        tx.begin_publishing(&lease, &Outcome::Answered, &effects).await
    })
    .await
    .unwrap();
    lease
}

async fn load(store: &Store, id: &JobId) -> Job {
    with(store, async |tx| tx.job(id).await)
        .await
        .unwrap()
        .expect("the job exists")
}

async fn state(store: &Store, id: &JobId) -> JobState {
    load(store, id).await.state
}

/// The log of a job without what is in it.
async fn log(store: &Store, id: &JobId) -> Vec<String> {
    let events = with(store, async |tx| tx.events(id, 0, 1_000).await).await.unwrap();
    events.iter().map(|event| event.body.kind()).collect()
}

/// Ends a lease as time would, without the wait.
async fn expire(store: &Store, lease: &Lease) {
    let beat = with(store, async |tx| tx.heartbeat(lease, SHORT).await).await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while with(store, async |tx| tx.db_now().await).await.unwrap() <= beat.lease_until {
        assert!(Instant::now() < deadline, "the database's clock stands still");
        tokio::task::yield_now().await;
    }
}

/// The answer of every write that came too late.
#[track_caller]
fn check_lost<T: std::fmt::Debug>(result: Result<T, StoreError>, lease: &Lease) {
    assert_eq!(result.unwrap_err(), StoreError::LeaseLost(lease.job.clone()));
}

fn noted(text: &str) -> RunEvent {
    RunEvent::Noted { text: text.to_owned() }
}
