//! The published model of the protocol on the real code: the dispatcher, the queue and the store under
//! schedules of crashes, frozen workers, lost answers, late calls, stale lists and cancellations, with
//! time moved by hand. Within the promised delays everything is there exactly once; beyond them a
//! duplicate can arise, and the checks here do see it. A failing schedule is shortened and shown.
//! `FORGEHAND_TEST_SCHEDULES` is how many are played, `FORGEHAND_TEST_SEED` repeats them.

use std::pin::Pin;
use std::time::Duration;

use chrono::TimeDelta;
use forgehand::clock::{Clock, boot_time};
use forgehand::demo::double::{Fault, HeldAnswer};
use forgehand::ids::JobId;
use forgehand::job::{Job, JobError, JobState, LeasedJob};
use forgehand::publish::{Publisher, dispatch, final_outcome};
use forgehand::queue::{Pulse, Queue};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use super::kind::{Ground, Kind, Reviewed};
use super::{Stage, World, number};
use crate::databases::Database;

/// L and M of the protocol.
const LEASE: Duration = Duration::from_secs(60);
const MARGIN: Duration = Duration::from_secs(15);

/// So many lost leases without progress make a job a poison.
const POISON: usize = 3;

/// Rounds in which a job has to come to its end once nothing goes wrong any more.
const MAX_ROUNDS: usize = 40;

/// What the network does to the next write.
#[derive(Debug, Clone, Copy)]
enum Network {
    /// Nothing.
    Fine,
    /// The answer is lost.
    Unheard,
    /// It never arrives.
    Lost,
    /// GitHub fails.
    Fails,
    /// The caller gives up, and it arrives so many seconds later.
    Late(u16),
    /// Lists do not show what is younger than so many seconds.
    Stale(u16),
}

/// One step of a schedule.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Whoever may have the job works on it.
    Work(Network),
    /// The same, and the process dies after so many calls.
    Die(Network, u8),
    /// The same, and the process freezes after so many calls.
    Freeze(Network, u8),
    /// A frozen process goes on.
    Thaw,
    /// So many seconds pass.
    Pass(u16),
    /// What asked for the job comes once more.
    Redeliver,
    /// Somebody stops the job.
    Cancel,
}

/// What a job has to write, and what happens.
#[derive(Debug, Clone)]
struct Schedule {
    kind: Kind,
    steps: Vec<Step>,
}

/// C and V.
#[derive(Debug, Clone, Copy)]
struct Promised {
    call_timeout: Duration,
    list_lag: Duration,
}

/// As configured by default.
const USUAL: Promised = Promised {
    call_timeout: Duration::from_secs(30),
    list_lag: Duration::from_secs(15),
};

/// What came of it.
#[derive(Debug)]
struct Came {
    state: JobState,
    /// How many of it people see.
    there: usize,
    /// How often it was ever made.
    made: usize,
    repaired: Option<String>,
    /// How many processes died or froze.
    lost: usize,
    /// Whether somebody stopped the job.
    stopped: bool,
}

#[test]
fn nothing_is_lost_or_twice_whatever_happens_on_sqlite() {
    play_all(async || Database::sqlite(), 70);
}

#[test]
fn nothing_is_lost_or_twice_whatever_happens_on_sqlite_again() {
    play_all(async || Database::sqlite(), 70);
}

#[test]
fn nothing_is_lost_or_twice_whatever_happens_on_sqlite_once_more() {
    play_all(async || Database::sqlite(), 70);
}

#[test]
fn nothing_is_lost_or_twice_whatever_happens_on_postgres() {
    play_all(Database::postgres, 40);
}

/// The model's shortest way to a duplicate: the caller gives up while the call is under way, somebody
/// looks, finds nothing and calls again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_still_under_way_is_waited_for() {
    for kind in [Kind::Comment, Kind::CreateIssue, Kind::SubmitReview, Kind::ReplyThread] {
        let late = Step::Work(Network::Late(59));
        let came = play_once(kind, &[late, Step::Pass(5), Step::Work(Network::Fine)], USUAL).await;
        assert_eq!(
            (came.state, came.there, came.made),
            (JobState::Done, 1, 1),
            "{kind:?}: {came:?}"
        );
        assert_eq!(came.repaired, None, "{kind:?}");
    }
}

/// Where the network breaks its promise, the wait is too short: a duplicate arises, is seen when lists
/// are looked at again, and goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_arrived_later_than_promised_is_taken_back() {
    let hasty = Promised {
        call_timeout: Duration::from_secs(1),
        list_lag: Duration::from_secs(10),
    };
    for kind in [
        Kind::StatusComment,
        Kind::Comment,
        Kind::TellCreated,
        Kind::CreateIssue,
        Kind::SubmitReview,
        Kind::ReplyThread,
    ] {
        // W is 13 s and the second look comes at 23 s.
        let came = play_once(kind, &[Step::Work(Network::Late(18))], hasty).await;
        assert_eq!(
            (came.state, came.there, came.made),
            (JobState::Done, 1, 2),
            "{kind:?}: {came:?}"
        );
        assert!(came.repaired.is_some(), "{kind:?}");
    }
}

/// The checks of this file can fail: with no wait and no second look to speak of, a late call makes a
/// second comment that stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_waits_the_duplicate_stays_and_is_seen() {
    let careless = Promised {
        call_timeout: Duration::from_secs(1),
        list_lag: Duration::ZERO,
    };
    let steps = [Step::Work(Network::Late(58))];
    let came = play_once(Kind::Comment, &steps, careless).await;
    assert_eq!((came.there, came.made), (2, 2), "{came:?}");
    assert!(judge(&came).is_err(), "{came:?}");
    let came = play_once(Kind::Comment, &steps, USUAL).await;
    assert!(judge(&came).is_ok(), "{came:?}");
}

/// Exactly once, or not at all where it was stopped. Within the promised delays nothing has to be
/// taken back.
fn judge(came: &Came) -> Result<(), TestCaseError> {
    let right = match came.state {
        JobState::Done if !came.stopped => came.there == 1,
        JobState::Done | JobState::Cancelled => came.stopped && came.there <= 1,
        // A job that takes down every process that touches it is given up.
        JobState::Dead => came.lost >= POISON && came.there <= 1,
        JobState::Queued | JobState::Leased | JobState::Waiting | JobState::Publishing => false,
    };
    prop_assert!(right && came.made == came.there && came.repaired.is_none(), "{came:?}");
    Ok(())
}

fn network() -> impl Strategy<Value = Network> {
    prop_oneof![
        2 => Just(Network::Fine),
        2 => Just(Network::Unheard),
        1 => Just(Network::Lost),
        1 => Just(Network::Fails),
        4 => (0..60u16).prop_map(Network::Late),
        1 => (0..15u16).prop_map(Network::Stale),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => network().prop_map(Step::Work),
        3 => (network(), 1..9u8).prop_map(|(network, calls)| Step::Die(network, calls)),
        2 => (network(), 1..9u8).prop_map(|(network, calls)| Step::Freeze(network, calls)),
        2 => Just(Step::Thaw),
        4 => (1..90u16).prop_map(Step::Pass),
        1 => Just(Step::Redeliver),
        1 => Just(Step::Cancel),
    ]
}

fn schedule() -> impl Strategy<Value = Schedule> {
    let kind = prop_oneof![
        4 => Just(Kind::Comment),
        2 => Just(Kind::CreateIssue),
        2 => Just(Kind::OpenPull),
        1 => Just(Kind::StatusComment),
        1 => Just(Kind::SubmitReview),
        1 => Just(Kind::ReplyThread),
    ];
    (kind, prop::collection::vec(step(), 2..9)).prop_map(|(kind, steps)| Schedule { kind, steps })
}

fn play_all(database: impl AsyncFn() -> Database, otherwise: u32) {
    let seed = number("FORGEHAND_TEST_SEED", fastrand::u64(..));
    let cases = u32::try_from(number("FORGEHAND_TEST_SCHEDULES", otherwise.into())).unwrap();
    eprintln!("{cases} schedules: FORGEHAND_TEST_SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 100,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let stage = runtime.block_on(Stage::set());
    let played = runner.run(&schedule(), |schedule| {
        let came = runtime.block_on(async {
            let database = database().await;
            let came = play(&database, stage.clone(), &schedule, USUAL).await;
            database.remove().await;
            came
        });
        judge(&came)
    });
    if let Err(error) = played {
        panic!("FORGEHAND_TEST_SEED={seed}: {error}");
    }
}

async fn play_once(kind: Kind, steps: &[Step], promised: Promised) -> Came {
    let schedule = Schedule {
        kind,
        steps: steps.to_vec(),
    };
    play(&Database::sqlite(), Stage::set().await, &schedule, promised).await
}

type Work = Pin<Box<dyn Future<Output = ()>>>;

/// A process in the middle of its work.
struct Process {
    work: Work,
    pulse: Pulse,
    /// How long ago it last heard from the database.
    silent: Duration,
}

/// A job and whoever works on it.
struct Play<'a> {
    world: &'a World<'a>,
    publisher: Publisher,
    queue: Queue,
    job: JobId,
    kind: Kind,
    frozen: Vec<(Process, HeldAnswer)>,
    /// How many processes died or froze.
    lost: usize,
}

async fn play(database: &Database, stage: Stage, schedule: &Schedule, promised: Promised) -> Came {
    let world = World::new(database, stage, |config| {
        config.call_timeout_seconds = promised.call_timeout;
        config.list_lag_seconds = promised.list_lag;
    })
    .await;
    world.github.clear_faults();
    let nth = world.github.requests().len();
    let reviewed = match schedule.kind {
        Kind::SubmitReview | Kind::ReplyThread => Reviewed::of(&world, nth).await,
        _ => Reviewed::none(&world),
    };
    let ground = Ground::lay(&world, &reviewed, schedule.kind, nth).await;
    let leased = world
        .publishing("begins", ground.issue, &ground.outcome, |_| ground.rows())
        .await;
    let job = leased.job.id.clone();
    if let Some(statements) = ground.statements(&job) {
        database.execute(&statements).await;
    }
    let mut config = world.config.queue.clone();
    (config.lease_seconds, config.margin_seconds) = (LEASE, MARGIN);
    let queue = Queue::new(world.store.clone(), config, "worker".to_owned());
    queue
        .snooze(&leased.lease, Clock::System.now() - TimeDelta::seconds(1), "it begins")
        .await
        .unwrap();
    let since = world.github.ledger().len();
    let mut play = Play {
        publisher: world.publisher().await,
        queue,
        job: job.clone(),
        kind: schedule.kind,
        frozen: Vec::new(),
        lost: 0,
        world: &world,
    };
    for step in &schedule.steps {
        play.step(*step).await;
    }
    let ended = play.until_its_end().await;
    world.assert_invariants().await;
    let path = schedule.kind.write().rsplit('/').next().unwrap_or_default();
    let effects = world.effects(&job).await;
    let came = Came {
        state: ended.state,
        there: ground.count(&world, &job),
        made: world.made(since, "POST", |called| called.ends_with(path)),
        repaired: effects.into_iter().find_map(|effect| effect.repaired),
        lost: play.lost,
        stopped: schedule.steps.iter().any(|step| matches!(step, Step::Cancel)),
    };
    world.store.close().await;
    came
}

impl Play<'_> {
    async fn step(&mut self, step: Step) {
        match step {
            Step::Work(network) => {
                self.arm(network);
                if let Some(process) = self.claim().await {
                    process.work.await;
                }
            }
            Step::Die(network, calls) => {
                self.arm(network);
                if let Some(mut process) = self.claim().await {
                    self.run_for(&mut process, calls).await;
                    self.lost += 1;
                }
            }
            Step::Freeze(network, calls) => {
                self.arm(network);
                if let Some(mut process) = self.claim().await
                    && let Some(held) = self.run_for(&mut process, calls).await
                {
                    self.frozen.push((process, held));
                    self.lost += 1;
                }
            }
            Step::Thaw => {
                if !self.frozen.is_empty() {
                    let (process, held) = self.frozen.remove(0);
                    drop(held);
                    process.work.await;
                }
            }
            Step::Pass(seconds) => self.pass(TimeDelta::seconds(seconds.into())).await,
            Step::Redeliver => self.redeliver().await,
            Step::Cancel => {
                let mut tx = self.world.store.begin().await.unwrap();
                tx.cancel_job(&self.job, "mona said stop", Clock::System.now())
                    .await
                    .unwrap();
                tx.commit().await.unwrap();
            }
        }
        self.world.github.clear_faults();
    }

    fn arm(&self, network: Network) {
        let github = &self.world.github;
        let fault = match network {
            Network::Fine => return,
            Network::Unheard => Fault::ApplyThenReset,
            Network::Lost => Fault::ResetBeforeApply,
            Network::Fails => Fault::status(502, "bad gateway"),
            Network::Late(seconds) => Fault::ApplyLate(Duration::from_secs(seconds.into())),
            Network::Stale(seconds) => {
                let list = self.kind.list().expect("what is created is listed");
                github.fault(list, Fault::StaleList(Duration::from_secs(seconds.into())), 3);
                return;
            }
        };
        github.fault(self.kind.write(), fault, 1);
    }

    /// Somebody takes the job, if it can be taken, and begins to work on it.
    async fn claim(&self) -> Option<Process> {
        self.queue.recover().await.unwrap();
        let leased = self.queue.claim(1).await.unwrap().pop()?;
        assert_eq!(leased.job.id, self.job);
        let pulse = Pulse::new(self.queue.silence_limit());
        // A process has its own connection and its own turns.
        let publisher = Publisher {
            github: self.world.client(),
            ..self.publisher.clone()
        };
        let work = work(publisher, self.queue.clone(), leased, pulse.clone());
        Some(Process {
            work: Box::pin(work),
            pulse,
            silent: Duration::ZERO,
        })
    }

    /// Lets a process make so many calls, and stops it where it waits for the last answer; nothing if
    /// it came to its end by then.
    async fn run_for(&self, process: &mut Process, calls: u8) -> Option<HeldAnswer> {
        let held = self.world.github.hold_answer(calls.into());
        tokio::select! {
            () = process.work.as_mut() => None,
            () = held.reached() => Some(held),
        }
    }

    async fn pass(&mut self, by: TimeDelta) {
        self.world.advance(by).await;
        self.world.github.land_late().await;
        for (process, _) in &mut self.frozen {
            process.silent += by.to_std().unwrap_or_default();
            process.pulse.beat(boot_time().saturating_sub(process.silent));
        }
    }

    async fn redeliver(&self) {
        let job = self.world.load(&self.job).await;
        if !job.state.is_final() {
            let issue = job.subject.number().unwrap().0;
            let mut tx = self.world.store.begin().await.unwrap();
            let again = tx
                .insert_job(&self.world.job(issue), Clock::System.now())
                .await
                .unwrap();
            assert_eq!(again, None, "a second job for one request");
        }
    }

    /// Nothing goes wrong any more: frozen processes go on, and the job comes to its end.
    async fn until_its_end(&mut self) -> Job {
        while !self.frozen.is_empty() {
            self.step(Step::Thaw).await;
        }
        for _ in 0..MAX_ROUNDS {
            let job = self.world.load(&self.job).await;
            if job.state.is_final() {
                break;
            }
            let until = job.lease_until.unwrap_or(job.run_at);
            self.pass(until - Clock::System.now() + TimeDelta::milliseconds(5))
                .await;
            self.step(Step::Work(Network::Fine)).await;
        }
        self.pass(TimeDelta::minutes(5)).await;
        self.world.load(&self.job).await
    }
}

/// What a worker does with a job whose work is done.
async fn work(publisher: Publisher, queue: Queue, leased: LeasedJob, pulse: Pulse) {
    let lease = &leased.lease;
    let settled = match dispatch(&publisher, &leased, &pulse).await {
        Ok(()) => match final_outcome(&publisher, &leased.job).await {
            Ok(outcome) => queue.finish(lease, &outcome).await,
            Err(error) => panic!("{error:?}"),
        },
        Err(JobError::Snooze(until, why)) => queue.snooze(lease, until, &why).await,
        Err(JobError::Retry(why) | JobError::Unsent(why)) => {
            queue.retry(lease, leased.job.attempt, &why).await.map(drop)
        }
        Err(JobError::Fail(why)) => queue.bury(lease, &why).await,
        Err(JobError::NoRight(why)) => queue.withdraw(lease, &why).await,
        Err(JobError::HeadMoved(why)) => queue.reopen(lease, &why).await,
        Err(JobError::LeaseLost) => Ok(()),
        Err(JobError::End(outcome)) => panic!("{outcome:?}"),
    };
    // The lease was lost: the row belongs to somebody else.
    drop(settled);
}
