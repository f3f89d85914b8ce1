//! Every way in which GitHub's answer can be wrong, on every kind of effect, with the real worker: the
//! effect is there once or it is known why not, the job is over, and no limit costs an attempt. How
//! many cases are drawn is `FORGEHAND_TEST_FAULTS`; which ones, `FORGEHAND_TEST_SEED` repeats.

use std::time::Duration;

use chrono::TimeDelta;
use forgehand::app::{App, ServiceRole, Surroundings};
use forgehand::clock::Clock;
use forgehand::demo::double::Fault;
use forgehand::event::RunEvent;
use forgehand::job::{Job, JobState};

use super::kind::{Ground, Kind, Reviewed};
use super::{LONG, Stage, World, number};
use crate::databases::Database;
use crate::service::{MONA, REPO, program, until};

/// Longer than any answer takes on a busy machine, and waited for in earnest where none comes.
const CALL_TIMEOUT: Duration = Duration::from_secs(1);

/// How an answer is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    BadRequest,
    TokenRefused,
    Forbidden,
    Vanished,
    TimedOutThere,
    Conflict,
    Gone,
    Invalid,
    Exists,
    TooMany,
    RetryAfter,
    Spent,
    Secondary,
    Broken,
    BadGateway,
    Unavailable,
    GatewayTimeout,
    AppliedThenSilent,
    AppliedThenReset,
    ResetBefore,
    SlowBody,
    CutBody,
    OtherJson,
    Html,
    EmptyBody,
    StaleList,
    Moved,
    LateCall,
    ListFails,
}

/// What has to come of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Must {
    /// It is there.
    Land,
    /// It is there, and no attempt was counted while it was waited for.
    LandAfterAPause,
    /// It is there or was given up, and the row says which.
    End,
}

impl Wrong {
    const ALL: [Wrong; 29] = [
        Wrong::BadRequest,
        Wrong::TokenRefused,
        Wrong::Forbidden,
        Wrong::Vanished,
        Wrong::TimedOutThere,
        Wrong::Conflict,
        Wrong::Gone,
        Wrong::Invalid,
        Wrong::Exists,
        Wrong::TooMany,
        Wrong::RetryAfter,
        Wrong::Spent,
        Wrong::Secondary,
        Wrong::Broken,
        Wrong::BadGateway,
        Wrong::Unavailable,
        Wrong::GatewayTimeout,
        Wrong::AppliedThenSilent,
        Wrong::AppliedThenReset,
        Wrong::ResetBefore,
        Wrong::SlowBody,
        Wrong::CutBody,
        Wrong::OtherJson,
        Wrong::Html,
        Wrong::EmptyBody,
        Wrong::StaleList,
        Wrong::Moved,
        Wrong::LateCall,
        Wrong::ListFails,
    ];

    /// Sets the double up for it.
    fn arm(self, world: &World<'_>, kind: Kind) {
        let once = |fault| world.github.fault(kind.write(), fault, 1);
        let with = |status, headers: &[(&str, &str)], message: &str| {
            let headers = headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            once(Fault::Status(
                status,
                headers.collect(),
                serde_json::json!({ "message": message }).to_string(),
            ));
        };
        let reset = (world.clock.now() + TimeDelta::minutes(30)).timestamp().to_string();
        match self {
            Wrong::BadRequest => with(400, &[], "Problems parsing JSON"),
            Wrong::TokenRefused => with(401, &[], "Bad credentials"),
            Wrong::Forbidden => with(403, &[], "You may not"),
            Wrong::Vanished => with(404, &[], "Not Found"),
            Wrong::TimedOutThere => with(408, &[], "Request Timeout"),
            Wrong::Conflict => with(409, &[], "Conflict"),
            Wrong::Gone => with(410, &[], "Gone"),
            Wrong::Invalid => with(422, &[], "Validation Failed"),
            Wrong::Exists => {
                world.github.fault(
                    kind.write(),
                    Fault::ApplyThenStatus(422, Vec::new(), r#"{"message": "it already exists"}"#.to_owned()),
                    1,
                );
            }
            Wrong::TooMany => with(429, &[("retry-after", "7")], "slow down"),
            Wrong::RetryAfter => with(403, &[("retry-after", "33")], "slow down"),
            Wrong::Spent => with(
                403,
                &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &reset)],
                "API rate limit exceeded",
            ),
            Wrong::Secondary => with(403, &[], "You have exceeded a secondary rate limit"),
            Wrong::Broken => with(500, &[], "oops"),
            Wrong::BadGateway => once(Fault::Status(502, Vec::new(), "<html>bad gateway".to_owned())),
            Wrong::Unavailable => with(503, &[], "busy"),
            Wrong::GatewayTimeout => with(504, &[], "too slow"),
            Wrong::AppliedThenSilent => once(Fault::ApplyThenHang),
            Wrong::AppliedThenReset => once(Fault::ApplyThenReset),
            Wrong::ResetBefore => once(Fault::ResetBeforeApply),
            Wrong::SlowBody => once(Fault::ApplyThenTrickle(Duration::from_millis(60))),
            Wrong::CutBody => once(Fault::ApplyThenCut),
            Wrong::OtherJson => once(Fault::ApplyThenStatus(200, Vec::new(), r#"["nothing"]"#.to_owned())),
            Wrong::Html => once(Fault::Status(
                200,
                Vec::new(),
                "<html>Sign in to the network".to_owned(),
            )),
            Wrong::EmptyBody => once(Fault::ApplyThenStatus(200, Vec::new(), String::new())),
            Wrong::StaleList => {
                once(Fault::ApplyThenReset);
                if let Some(list) = kind.list() {
                    world.github.fault(list, Fault::StaleList(Duration::from_secs(5)), 2);
                }
            }
            Wrong::Moved => with(307, &[("location", "/api/v3/repositories/1")], "Moved Permanently"),
            Wrong::LateCall => once(Fault::ApplyLate(world.config.github.call_timeout_seconds)),
            Wrong::ListFails => {
                let list = kind.list().unwrap_or(kind.write());
                world.github.fault(list, Fault::status(502, "away"), 3);
            }
        }
    }

    fn must(self, kind: Kind) -> Must {
        match self {
            Wrong::BadRequest | Wrong::Forbidden | Wrong::Vanished | Wrong::Gone | Wrong::Invalid => Must::End,
            Wrong::TooMany | Wrong::RetryAfter | Wrong::Spent | Wrong::Secondary => Must::LandAfterAPause,
            // Whom GitHub refuses is left out.
            Wrong::Exists | Wrong::Moved | Wrong::Conflict
                if matches!(kind, Kind::RequestReviewer | Kind::RequestReview) =>
            {
                Must::End
            }
            Wrong::TokenRefused
            | Wrong::TimedOutThere
            | Wrong::Conflict
            | Wrong::Exists
            | Wrong::Broken
            | Wrong::BadGateway
            | Wrong::Unavailable
            | Wrong::GatewayTimeout
            | Wrong::AppliedThenSilent
            | Wrong::AppliedThenReset
            | Wrong::ResetBefore
            | Wrong::SlowBody
            | Wrong::CutBody
            | Wrong::OtherJson
            | Wrong::Html
            | Wrong::EmptyBody
            | Wrong::StaleList
            | Wrong::Moved
            | Wrong::LateCall
            | Wrong::ListFails => Must::Land,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_on_every_kind_of_effect_on_sqlite() {
    strike_all(Database::sqlite(), 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_on_every_kind_of_effect_on_postgres() {
    strike_all(Database::postgres().await, 1).await;
}

/// One half of the cases.
async fn strike_all(database: Database, half: usize) {
    let seed = number("FORGEHAND_TEST_SEED", fastrand::u64(..));
    eprintln!("answer faults: FORGEHAND_TEST_SEED={seed}");
    let cases = draw(seed);
    let stage = Stage::set().await;
    let mut world = World::new(&database, stage, |config| config.call_timeout_seconds = CALL_TIMEOUT).await;
    // Nobody settles what is over while the cases are counted.
    world.config.queue.lease_seconds = LONG;
    let reviewed = Reviewed::new(&world).await;
    let app = App::build(world.config.clone(), surroundings()).await.unwrap();
    let app = app.with_clock(world.clock.clone());
    let stop = app.stop_token();
    let served = tokio::spawn(async move { app.serve(&[ServiceRole::Worker], |_| {}).await });
    let mut struck = 0;
    for (nth, (kind, wrong)) in cases.into_iter().enumerate().filter(|(nth, _)| nth % 2 == half) {
        strike(&world, &reviewed, (nth, kind, wrong)).await;
        struck += 1;
    }
    stop.cancel();
    served.await.unwrap().unwrap();
    world.github.assert_no_unknown_routes();
    world.store.close().await;
    eprintln!("{struck} cases on {}", database.kind());
    drop(world);
    database.remove().await;
}

/// As many cases as wanted: all pairs in an order by chance, again and again.
fn draw(seed: u64) -> Vec<(Kind, Wrong)> {
    let wanted = usize::try_from(number("FORGEHAND_TEST_FAULTS", 200)).unwrap();
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut cases = Vec::new();
    while cases.len() < wanted {
        let pairs = Kind::ALL.iter().flat_map(|kind| Wrong::ALL.map(|wrong| (*kind, wrong)));
        let mut pairs: Vec<_> = pairs.collect();
        chance.shuffle(&mut pairs);
        cases.extend(pairs);
    }
    cases.truncate(wanted);
    cases
}

async fn strike(world: &World<'_>, reviewed: &Reviewed, (nth, kind, wrong): (usize, Kind, Wrong)) {
    let case = format!("case {nth}: {wrong:?} on {kind:?}");
    let ground = Ground::lay(world, reviewed, kind, nth).await;
    let since = world.github.ledger().len();
    wrong.arm(world, kind);
    if kind == Kind::RemoveLabel && matches!(wrong, Wrong::Vanished | Wrong::Gone) {
        world.github.unlabel_issue(REPO, ground.issue, "agent", MONA).unwrap();
    }
    let leased = world
        .publishing("story", ground.issue, &ground.outcome, |_| ground.rows())
        .await;
    let id = &leased.job.id.clone();
    if let Some(statements) = ground.statements(id) {
        world.database.execute(&statements).await;
    }
    let mut tx = world.store.begin().await.unwrap();
    let now = tx.db_now().await.unwrap();
    tx.snooze_job(&leased.lease, now, "the story begins").await.unwrap();
    tx.commit().await.unwrap();
    let job = settled(world, leased.job, &case).await;

    // Whatever is on its way arrives, and whoever looks for twins has the time to.
    world.advance(TimeDelta::minutes(5)).await;
    world.github.land_late().await;
    let unused = world.github.unused_faults();
    assert!(
        !unused.iter().any(|pattern| pattern == kind.write()),
        "{case} never struck"
    );
    world.github.clear_faults();
    let effects = world.effects(id).await;
    let last = effects.last().unwrap();
    let told = || format!("{case}: {job:#?}\n{last:#?}");
    assert_eq!(job.state, JobState::Done, "{}", told());
    assert!(last.state.is_final(), "{}", told());
    let there = ground.count(world, id);
    match wrong.must(kind) {
        Must::Land | Must::LandAfterAPause => assert_eq!(there, 1, "{}", told()),
        Must::End => assert!(
            there == 1 || (there == 0 && last.problem.is_some()),
            "{there} of it; {}",
            told()
        ),
    }
    assert_eq!(job.attempt, 1, "{}", told());
    if wrong.must(kind) == Must::LandAfterAPause {
        assert_eq!(last.tries, 1, "{}", told());
    }
    let repaired = effects.iter().filter(|effect| effect.repaired.is_some()).count();
    for (path, most) in [
        ("/comments", 1),
        ("/pulls", 1),
        ("/reviews", 1),
        ("/replies", 1),
        ("/check-runs", 1),
    ] {
        let made = world.made(since, "POST", |called| called.ends_with(path));
        assert!(made <= most + repaired, "{made} calls of {path}; {}", told());
    }
    world.assert_invariants().await;
}

/// Lets the job come to its end, however often it has to wait.
async fn settled(world: &World<'_>, job: Job, case: &str) -> Job {
    let mut job = job;
    until(&format!("{case} comes to its end"), async || {
        job = world.load(&job.id).await;
        if job.state.is_final() {
            return true;
        }
        let waits = job.lease_until.is_none() && job.run_at > Clock::System.now();
        if waits {
            assert!(
                job.reason.as_deref().is_some_and(|why| !why.is_empty()),
                "{case}: {job:#?}"
            );
            world.advance(job.run_at - Clock::System.now()).await;
        }
        false
    })
    .await;
    assert_reasons(world, &job, case).await;
    job
}

/// Every pause has a reason, and no attempt failed.
async fn assert_reasons(world: &World<'_>, job: &Job, case: &str) {
    let mut tx = world.store.begin().await.unwrap();
    for event in tx.events(&job.id, 0, 1_000).await.unwrap() {
        match event.body {
            RunEvent::Snoozed { reason, .. } => assert!(!reason.is_empty(), "{case}"),
            RunEvent::AttemptFailed { reason, .. } => panic!("{case}: an attempt failed: {reason}"),
            _ => {}
        }
    }
}

fn surroundings() -> Surroundings {
    Surroundings {
        program: program(),
        config_dir: None,
        home: None,
        rustup_home: None,
        state_home: None,
    }
}
