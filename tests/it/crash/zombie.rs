//! A worker that freezes for longer than its lease while another one takes over: when it wakes,
//! it writes nothing any more, neither into the database nor to GitHub.

use std::time::Duration;

use forgehand::event::{Event, RunEvent};
use forgehand::job::{Job, JobState};
use forgehand::store::Store;
use rustix::process::Signal;

use super::{WORKER, ask, assert_each_done_once, created, number, random};
use crate::databases::Database;
use crate::process::{LEASE, Program, Site, finished, jobs_of};

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_worker_wakes_and_writes_nothing() {
    let mut random = random("zombies");
    let site = Site::open(Database::postgres().await).await;
    let mut receiver = site.program("receiver", "receiver");
    let mut workers = [site.program("one", WORKER), site.program("two", WORKER)];
    receiver.start().await;
    for worker in &mut workers {
        worker.start().await;
    }
    let store = site.database.open().await;
    let rounds = number("FORGEHAND_TEST_ZOMBIES", 6);
    let mut issues = vec![ask(&site, 0, "It prints a difference.")];
    site.wait("the first job ends", PATIENCE, async || {
        finished(&store, issues[0]).await
    })
    .await;
    let (mut taken_over, mut checked) = (0, 0);
    for round in 1..=rounds {
        let issue = ask(&site, issues.len(), "It prints a difference.");
        issues.push(issue);
        let frozen = site
            .wait("a worker has the job", PATIENCE, async || {
                holder(&store, issue, &workers).await
            })
            .await;
        tokio::time::sleep(Duration::from_millis(random.u64(0..1_200))).await;
        workers[frozen].signal(Signal::STOP);
        let token = writer(&site, issue);
        tokio::time::sleep(LEASE.mul_f64(1.5)).await;
        let fence = jobs_of(&store, issue).await.pop().unwrap().fence;
        let before = site.double.requests().len();
        workers[frozen].signal(Signal::CONT);
        let job = site
            .wait("the job ends", PATIENCE, async || finished(&store, issue).await)
            .await;
        taken_over += u32::from(fence > 1);
        // Awake and well again it may claim the job once more, and then may write.
        if claims(&store, &job, &workers[frozen].owner()).await == 1 {
            let late = late_writes(&site, before, token.as_deref());
            assert_eq!(late, [""; 0], "round {round}: the zombie still wrote");
            checked += u32::from(token.is_some() && fence > 1);
        }
        assert_eq!(job.state, JobState::Done);
    }
    let (comments, pulls) = created(&site);
    eprintln!(
        "{taken_over} of {rounds} frozen jobs were taken over, 0 late writes in {checked}; {comments} comments and \
         {pulls} pull requests for {} issues",
        issues.len()
    );
    assert!(taken_over > 0, "no worker froze in the middle of a job");
    assert_each_done_once(&site, &store, &receiver, &issues).await;
    for worker in &mut workers {
        worker.stop().await;
        // What it had of a job that another worker ended goes with the next clean-up.
        worker.start().await;
        site.wait("its folders are removed", PATIENCE, async || {
            worker.leftovers().is_empty().then_some(())
        })
        .await;
        worker.stop().await;
    }
    receiver.stop().await;
    store.close().await;
    site.close().await;
}

/// Which worker has the job, or had it last.
async fn holder(store: &Store, issue: u64, workers: &[Program]) -> Option<usize> {
    let owner = jobs_of(store, issue).await.pop()?.lease_owner?;
    workers.iter().position(|worker| worker.owner() == owner)
}

/// The token with which the only worker so far wrote about an issue.
fn writer(site: &Site, issue: u64) -> Option<String> {
    let about = format!("/issues/{issue}/");
    let mut ledger = site.double.ledger().into_iter();
    ledger
        .find(|request| request.path.contains(&about) && request.status == 201)?
        .token
}

/// How often a worker claimed a job.
async fn claims(store: &Store, job: &Job, owner: &str) -> usize {
    let mut tx = store.begin().await.unwrap();
    let events = tx.events(&job.id, 0, 10_000).await.unwrap();
    let by_owner = |event: &&Event| matches!(&event.body, RunEvent::Claimed { worker, .. } if worker == owner);
    events.iter().filter(by_owner).count()
}

/// What was written with a token since then.
fn late_writes(site: &Site, before: usize, token: Option<&str>) -> Vec<String> {
    site.double.requests()[before..]
        .iter()
        .filter(|request| request.is_write() && token.is_some() && request.token.as_deref() == token)
        .map(|request| format!("{} {}", request.method, request.path))
        .collect()
}
