//! The budget that all processes of an installation share: writes keep their distance, content keeps
//! to its count, the last calls of an hour are saved, and who has to wait holds nobody up.

use std::time::Duration;

use chrono::TimeDelta;
use forgehand::clock::Clock;
use forgehand::effect::EffectState;
use forgehand::github::{Access, GitHubError};
use forgehand::ids::IssueNumber;
use forgehand::job::{JobError, Outcome};
use forgehand::publish::dispatch;
use forgehand::queue::{Pulse, Queue};

use super::kind::said;
use super::{LONG, Stage, World};
use crate::databases::each_database;
use crate::service::REPO;

#[tokio::test]
async fn two_processes_together_keep_the_distance_of_one() {
    const INTERVAL: Duration = Duration::from_millis(150);
    each_database(async |database| {
        let stage = Stage::set_on(Clock::System).await;
        let world = World::new(database, stage, |config| config.write_interval_seconds = INTERVAL).await;
        let issue = IssueNumber(world.issue());
        let repo = world.github.repo_id(REPO).unwrap();
        let processes = [world.client(), world.client()].map(|github| {
            let client = github.repo(world.github.installation(), repo, REPO.parse().unwrap(), Access::Write);
            async move {
                for text in ["a", "b", "c"] {
                    client.create_comment(issue, text).await.unwrap();
                }
            }
        });
        futures_util::future::join_all(processes).await;
        let ledger = world.github.ledger();
        let writes: Vec<_> = ledger.iter().filter(|call| call.path.ends_with("/comments")).collect();
        assert_eq!(writes.len(), 6);
        let took = (writes[5].at - writes[0].at).to_std().unwrap();
        assert!(took >= INTERVAL * 4, "six writes within {took:?}");
        world.store.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_job_that_finds_the_budget_used_up_is_put_off_and_says_why() {
    each_database(async |database| {
        let world = World::new(database, Stage::set().await, |config| config.max_content_per_minute = 2).await;
        let publisher = world.publisher().await;
        let issue = world.issue();
        let rows = vec![12, 13, 14].into_iter().map(|seq| (seq, said(IssueNumber(issue))));
        let rows: Vec<_> = rows.collect();
        let leased = world.publishing("story", issue, &Outcome::Answered, |_| rows).await;
        let result = dispatch(&publisher, &leased, &Pulse::new(LONG)).await;
        let Err(JobError::Snooze(until, why)) = result else {
            panic!("{result:?}");
        };
        let wait = (until - Clock::System.now()).num_seconds();
        assert!((50..=67).contains(&wait), "{wait} s");
        assert!(why.contains("the budget of 2 writes in a minute"), "{why}");
        let states: Vec<_> = world
            .effects(&leased.job.id)
            .await
            .iter()
            .map(|row| (row.state, row.tries))
            .collect();
        assert_eq!(
            states,
            [
                (EffectState::Done, 1),
                (EffectState::Done, 1),
                (EffectState::Pending, 0)
            ]
        );
        let queue = Queue::new(world.store.clone(), world.config.queue.clone(), "story".to_owned());
        queue.snooze(&leased.lease, until, &why).await.unwrap();
        let job = world.load(&leased.job.id).await;
        assert_eq!((job.attempt, job.lease_until, job.reason), (0, None, Some(why)));
        world.advance(until - Clock::System.now() + TimeDelta::seconds(1)).await;
        let leased = queue.claim(1).await.unwrap().pop().unwrap();
        dispatch(&publisher, &leased, &Pulse::new(LONG)).await.unwrap();
        assert_eq!(world.github.comments(REPO, issue).unwrap().len(), 3);
        world.store.close().await;
    })
    .await;
}

#[tokio::test]
async fn the_last_calls_of_an_hour_are_saved_by_every_process() {
    each_database(async |database| {
        let world = World::new(database, Stage::set().await, |_| {}).await;
        let repo = world.github.repo_id(REPO).unwrap();
        let client = || {
            let github = world.client();
            github.repo(world.github.installation(), repo, REPO.parse().unwrap(), Access::Write)
        };
        let (one, other) = (client(), client());
        one.repository().await.unwrap();
        world.github.spend_rate(4_950);
        one.repository().await.unwrap();
        let before = world.github.requests().len();
        for client in [&one, &other] {
            let held = client.repository().await.unwrap_err();
            let GitHubError::Held { until, why } = &held else {
                panic!("{held}");
            };
            assert!(*until > Clock::System.now() + TimeDelta::minutes(50), "{until}");
            assert!(why.contains("calls of GitHub's hourly limit are left"), "{why}");
        }
        assert_eq!(
            world.github.requests()[before..]
                .iter()
                .filter(|call| call.token.is_some())
                .count(),
            0
        );
        world.advance(TimeDelta::minutes(61)).await;
        other.repository().await.unwrap();
        world.store.close().await;
    })
    .await;
}

/// The turn of a write that hangs is not waited for.
#[tokio::test]
async fn a_write_that_hangs_holds_nobody_up() {
    each_database(async |database| {
        let world = World::new(database, Stage::set().await, |config| {
            config.call_timeout_seconds = Duration::from_secs(2);
        })
        .await;
        let (slow, quick) = (world.issue(), world.issue());
        let pattern = format!("POST /repos/{REPO}/issues/{slow}/comments");
        world.github.fault(&pattern, forgehand::demo::double::Fault::Hang, 1);
        let repo = world.github.repo_id(REPO).unwrap();
        let client = world.client();
        let client = client.repo(world.github.installation(), repo, REPO.parse().unwrap(), Access::Write);
        client.repository().await.unwrap();
        let hanging = client.create_comment(IssueNumber(slow), "slow");
        let waiting = async {
            let struck = async || world.github.unused_faults().is_empty();
            crate::service::until("the write hangs", struck).await;
            client.create_comment(IssueNumber(quick), "quick").await
        };
        let (hung, waited) = tokio::join!(hanging, waiting);
        assert!(matches!(hung, Err(GitHubError::Unclear { .. })), "{hung:?}");
        // It got its turn in time, or was sent away; it did not wait for longer than that.
        assert!(matches!(waited, Ok(_) | Err(GitHubError::Held { .. })), "{waited:?}");
        world.store.close().await;
    })
    .await;
}

#[tokio::test]
async fn the_log_of_webhook_calls_is_not_sent_again_while_it_is_the_same() {
    let stage = Stage::set().await;
    let database = crate::databases::Database::sqlite();
    let world = World::new(&database, stage, |_| {}).await;
    let github = world.client();
    let long_ago = Clock::System.now() - TimeDelta::days(2);
    let first = github.deliveries(long_ago, 10).await.unwrap();
    let second = github.deliveries(long_ago, 10).await.unwrap();
    assert_eq!(first, second);
    let statuses: Vec<u16> = world.github.requests().iter().map(|call| call.status).collect();
    assert_eq!(statuses, [200, 304]);
    world.store.close().await;
}
