//! What each class of answer makes of an effect: its state, its tries, and when it is tried again.

use chrono::{DateTime, TimeDelta, Utc};
use forgehand::clock::Clock;
use forgehand::demo::double::Fault;
use forgehand::effect::{Effect, EffectState};
use forgehand::ids::IssueNumber;
use forgehand::job::{JobError, LeasedJob, Outcome};
use forgehand::publish::{Publisher, dispatch};
use forgehand::queue::Pulse;
use forgehand::store::Store;

use super::kind::said;
use super::{LONG, Stage, World};
use crate::databases::each_database;

const COMMENT: &str = "POST /repos/*/*/issues/*/comments";

/// A job that has one comment to write.
async fn one_comment(world: &World<'_>) -> LeasedJob {
    let issue = world.issue();
    world
        .publishing("story", issue, &Outcome::Answered, |_| {
            vec![(12, said(IssueNumber(issue)))]
        })
        .await
}

async fn go(publisher: &Publisher, leased: &LeasedJob) -> Result<(), JobError> {
    dispatch(publisher, leased, &Pulse::new(LONG)).await
}

/// When it is tried again, and why not now.
fn put_off(result: Result<(), JobError>) -> (DateTime<Utc>, String) {
    match result {
        Err(JobError::Snooze(until, why)) => (until, why),
        other => panic!("{other:?}"),
    }
}

async fn row(world: &World<'_>, leased: &LeasedJob) -> Effect {
    world.effects(&leased.job.id).await.remove(0)
}

async fn db_now(store: &Store) -> DateTime<Utc> {
    store.begin().await.unwrap().db_now().await.unwrap()
}

fn status(status: u16, headers: &[(&str, &str)], message: &str) -> Fault {
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Fault::Status(
        status,
        headers.collect(),
        serde_json::json!({ "message": message }).to_string(),
    )
}

#[tokio::test]
async fn what_was_refused_or_never_sent_is_tried_again_after_1_2_4_seconds() {
    each_database(async |database| {
        let world = World::new(database, Stage::set().await, |_| {}).await;
        let publisher = world.publisher().await;
        let leased = one_comment(&world).await;
        let moved = status(307, &[("location", "/api/v3/repositories/1")], "Moved");
        for (fault, seconds) in [
            (status(409, &[], "Conflict"), 1),
            (moved, 2),
            (status(409, &[], "Conflict"), 4),
        ] {
            world.github.fault(COMMENT, fault, 1);
            let (until, _) = put_off(go(&publisher, &leased).await);
            let wait = (until - db_now(&world.store).await).num_milliseconds();
            assert!((seconds * 1_000 - 900..=seconds * 1_000).contains(&wait), "{wait} ms");
            assert_eq!(row(&world, &leased).await.state, EffectState::Pending);
        }
        go(&publisher, &leased).await.unwrap();
        assert_eq!(row(&world, &leased).await.state, EffectState::Done);
        world.store.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_host_that_cannot_be_reached_leaves_the_row_as_it_is() {
    each_database(async |database| {
        let world = World::new(database, Stage::set().await, |_| {}).await;
        let mut publisher = world.publisher().await;
        let leased = one_comment(&world).await;
        let mut config = world.config.github.clone();
        config.api_url = "http://127.0.0.1:1/api/v3".to_owned();
        publisher.github = forgehand::github::GitHub::new(&config, Clock::System, publisher.redactor.clone()).unwrap();
        let result = go(&publisher, &leased).await;
        assert!(matches!(result, Err(JobError::Unsent(_))), "{result:?}");
        let row = row(&world, &leased).await;
        assert_eq!((row.state, row.tries, row.unclear), (EffectState::Pending, 0, 0));
        world.store.close().await;
    })
    .await;
}

#[tokio::test]
async fn what_may_have_arrived_is_not_made_again_before_it_can_no_longer_arrive() {
    each_database(async |database| {
        let world = World::new(database, Stage::set().await, |_| {}).await;
        let publisher = world.publisher().await;
        let html = Fault::Status(200, Vec::new(), "<html>Sign in".to_owned());
        for fault in [
            status(500, &[], "oops"),
            status(502, &[], "bad gateway"),
            status(408, &[], "too slow"),
            html,
            Fault::ResetBeforeApply,
            Fault::ApplyThenReset,
            Fault::ApplyThenCut,
        ] {
            let leased = one_comment(&world).await;
            let about = format!("{fault:?}");
            world.github.fault(COMMENT, fault, 1);
            let sent_after = db_now(&world.store).await;
            let (until, _) = put_off(go(&publisher, &leased).await);
            let wait = TimeDelta::from_std(publisher.unclear_wait()).unwrap();
            assert!(until >= sent_after + wait, "{about}");
            let unknown = row(&world, &leased).await;
            assert_eq!((unknown.state, unknown.unclear), (EffectState::Unknown, 1), "{about}");
            let (again, why) = put_off(go(&publisher, &leased).await);
            assert!(
                again >= sent_after + wait && why.contains("may still arrive"),
                "{about}: {why}"
            );
            assert_eq!(
                row(&world, &leased).await.tries,
                1,
                "{about}: nothing was tried meanwhile"
            );
            let mut tx = world.store.begin().await.unwrap();
            tx.bury_job(&leased.lease, "the story is over").await.unwrap();
            tx.commit().await.unwrap();
        }
        world.store.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_refused_token_is_replaced_once() {
    each_database(async |database| {
        let world = World::new(database, Stage::set().await, |_| {}).await;
        let publisher = world.publisher().await;
        for (times, state) in [(1, EffectState::Done), (2, EffectState::Failed)] {
            let leased = one_comment(&world).await;
            world.github.fault(COMMENT, status(401, &[], "Bad credentials"), times);
            go(&publisher, &leased).await.unwrap();
            assert_eq!(row(&world, &leased).await.state, state, "refused {times} times");
            assert_eq!(world.github.unused_faults(), Vec::<String>::new());
            let mut tx = world.store.begin().await.unwrap();
            tx.finish_job(&leased.lease, &Outcome::Answered).await.unwrap();
            tx.commit().await.unwrap();
        }
        world.store.close().await;
    })
    .await;
}

#[tokio::test]
async fn what_can_never_work_is_given_up_at_once_with_github_s_words() {
    each_database(async |database| {
        let world = World::new(database, Stage::set().await, |_| {}).await;
        let publisher = world.publisher().await;
        for (code, message) in [
            (400, "Problems parsing JSON"),
            (403, "You may not"),
            (422, "Validation Failed"),
        ] {
            let leased = one_comment(&world).await;
            world.github.fault(COMMENT, status(code, &[], message), 1);
            go(&publisher, &leased).await.unwrap();
            let row = row(&world, &leased).await;
            assert_eq!((row.state, row.tries), (EffectState::Failed, 1), "{code}");
            assert!(row.problem.as_deref().unwrap_or_default().contains(message), "{row:?}");
            let mut tx = world.store.begin().await.unwrap();
            tx.finish_job(&leased.lease, &Outcome::Answered).await.unwrap();
            tx.commit().await.unwrap();
        }
        world.store.close().await;
    })
    .await;
}

#[tokio::test]
async fn limits_cost_no_try_and_hold_for_every_process_of_the_installation() {
    each_database(async |database| {
        let world = World::new(database, Stage::set().await, |_| {}).await;
        let (one, other) = (world.publisher().await, world.publisher().await);
        let reset = (world.clock.now() + TimeDelta::seconds(1_800)).timestamp().to_string();
        let spent = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", reset.as_str())];
        let leased = one_comment(&world).await;
        for (fault, seconds) in [
            (status(403, &[("retry-after", "33")], "slow down"), 33),
            (status(429, &[("retry-after", "7")], "slow down"), 7),
            (status(403, &spent, "API rate limit exceeded"), 1_755),
            (status(403, &[], "You have exceeded a secondary rate limit"), 60),
            (status(429, &[], "You have exceeded a secondary rate limit"), 120),
        ] {
            world.github.fault(COMMENT, fault, 1);
            let (until, _) = put_off(go(&one, &leased).await);
            let wait = (until - db_now(&world.store).await).num_seconds();
            let tenth = seconds / 10 + 1;
            assert!(
                (seconds - 10..=seconds + tenth).contains(&wait),
                "{wait} s, not {seconds}"
            );
            let waits = row(&world, &leased).await;
            assert_eq!((waits.state, waits.tries), (EffectState::Pending, 0), "{seconds}");
            let before = world.github.requests().len();
            let (held, why) = put_off(go(&other, &leased).await);
            assert!((held - until).abs() < TimeDelta::seconds(tenth + 1), "{held} {until}");
            assert!(why.contains("nothing is sent until"), "{why}");
            assert_eq!(
                world.github.requests()[before..]
                    .iter()
                    .filter(|call| call.token.is_some())
                    .count(),
                0
            );
            world
                .advance(until - db_now(&world.store).await + TimeDelta::seconds(2))
                .await;
        }
        go(&other, &leased).await.unwrap();
        assert_eq!(row(&world, &leased).await.tries, 1);
        world.store.close().await;
    })
    .await;
}
