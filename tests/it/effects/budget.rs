//! The budget that all processes of an installation share: writes keep their distance, content keeps
//! to its count, the last calls of an hour are saved, and who has to wait holds nobody up.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use forgehand::clock::Clock;
use forgehand::demo::double::Fault;
use forgehand::effect::{EffectBody, EffectState};
use forgehand::git::{Git, Line, Merge, Remote, Signature};
use forgehand::github::{Access, GitHubError, RepoClient};
use forgehand::ids::{BranchName, CommitSha, IssueNumber};
use forgehand::job::{JobError, LeasedJob, Outcome};
use forgehand::publish::{BUNDLE, dispatch};
use forgehand::queue::{Pulse, Queue};

use super::kind::said;
use super::{LONG, Stage, World};
use crate::databases::each_database;
use crate::service::{MONA, REPO};

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

/// Other writes come first, then git meets a limit. Neither costs a try, and both hold for everybody.
#[tokio::test]
async fn a_push_takes_its_place_among_the_writes() {
    each_database(async |database| {
        let world = World::new(database, Stage::set().await, |config| {
            config.write_interval_seconds = Duration::from_secs(60);
        })
        .await;
        let branch: BranchName = "agent/1-title".parse().unwrap();
        let leased = stored_merge(&world, &branch).await;
        let issue = IssueNumber(world.issue());
        // Each time another process.
        let publish = async || dispatch(&world.publisher().await, &leased, &Pulse::new(LONG)).await;
        let put_off = async |words: &str| {
            let result = publish().await;
            let Err(JobError::Snooze(until, why)) = result else {
                panic!("{result:?}");
            };
            assert!(why.contains(words), "{why}");
            let row = world.effects(&leased.job.id).await.remove(0);
            assert_eq!((row.state, row.tries), (EffectState::Pending, 0), "{why}");
            assert_eq!(world.github.branch(REPO, branch.as_str()).unwrap(), None);
            until
        };
        let second = TimeDelta::seconds(1);
        let pass = async |until: DateTime<Utc>| world.advance(until - Clock::System.now() + second).await;

        client(&world).create_comment(issue, "first").await.unwrap();
        pass(put_off("other writes of this installation come first").await).await;

        let push = format!("POST /{REPO}.git/git-receive-pack");
        world.github.fault(&push, Fault::status(429, "slow down"), 1);
        let until = put_off("GitHub limits our rate").await;
        let read = client(&world).repository().await;
        assert!(matches!(read, Err(GitHubError::Held { .. })), "{read:?}");
        pass(until).await;

        publish().await.unwrap();
        assert!(world.github.branch(REPO, branch.as_str()).unwrap().is_some());
        let write = client(&world).create_comment(issue, "second").await;
        assert!(matches!(write, Err(GitHubError::Held { .. })), "{write:?}");
        world.store.close().await;
    })
    .await;
}

/// The repository as a new process has it.
fn client(world: &World<'_>) -> RepoClient {
    let repo = world.github.repo_id(REPO).unwrap();
    let github = world.client();
    github.repo(world.github.installation(), repo, REPO.parse().unwrap(), Access::Write)
}

/// A job that has a merge of two branches to push, which is stored.
async fn stored_merge(world: &World<'_>, branch: &BranchName) -> LeasedJob {
    let files = [("a.txt", "a\n")];
    world.github.push(REPO, "feature", &files, "Mine", MONA).await.unwrap();
    let sha = |branch: &str| -> CommitSha { world.github.branch(REPO, branch).unwrap().unwrap().parse().unwrap() };
    let (main, feature) = (sha("main"), sha("feature"));
    let client = client(world);
    let remote = Remote {
        url: client.git_url(),
        token: Some(client.git_token().await.unwrap()),
    };
    let [mirror, into, file] = ["people.git", "merge.git", "merge.bundle"].map(|name| world.folder.path().join(name));
    let git = Git::find().unwrap();
    git.refresh_mirror(&mirror, &remote, &[], LONG).await.unwrap();
    let merge = Merge {
        mirror: &mirror,
        remote: &remote,
        lender: None,
        into: &into,
        ours: Line {
            label: "ours",
            commit: &main,
        },
        theirs: Line {
            label: "theirs",
            commit: &feature,
        },
        base: None,
    };
    let tree = git.merge(&merge).await.unwrap().tree;
    let (parents, by) = ([&main, &feature], Signature::of_program(Clock::System.now()));
    let sha = git.commit_tree(&into, &tree, &parents, "Merge\n", &by).await.unwrap();
    git.write_bundle(&into, &sha, &parents, &file, 1 << 20).await.unwrap();
    let push = EffectBody::Push {
        branch: branch.clone(),
        to: None,
        expect: None,
        parent: main.clone(),
        merged: vec![feature.clone()],
        sha: sha.clone(),
        message: "Merge\n".to_owned(),
    };
    let outcome = Outcome::Pushed {
        branch: branch.clone(),
        sha,
    };
    let leased = world
        .publishing("story", world.issue(), &outcome, |_| vec![(10, push)])
        .await;
    let mut tx = world.store.begin().await.unwrap();
    let bundle = std::fs::read(&file).unwrap();
    tx.save_checkpoint(&leased.lease, BUNDLE, 0, &bundle).await.unwrap();
    tx.commit().await.unwrap();
    leased
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
