//! A worker that freezes for longer than its lease while another one takes over: when it wakes,
//! it writes nothing any more, neither into the database nor to GitHub.

use std::collections::HashSet;
use std::time::Duration;

use forgehand::job::JobState;
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
    let mut taken_over = 0;
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
        tokio::time::sleep(LEASE.mul_f64(1.5)).await;
        let fence = jobs_of(&store, issue).await.pop().unwrap().fence;
        let zombie = tokens(&site, &store, issue).await;
        let before = site.double.requests().len();
        workers[frozen].signal(Signal::CONT);
        let job = site
            .wait("the job ends", PATIENCE, async || finished(&store, issue).await)
            .await;
        taken_over += u32::from(fence > 1);
        let writes: Vec<String> = site.double.requests()[before..]
            .iter()
            .filter(|request| request.is_write() && request.path.ends_with("/comments"))
            .filter(|request| request.token.as_ref().is_some_and(|token| zombie.contains(token)))
            .map(|request| format!("{} {}", request.method, request.path))
            .collect();
        assert_eq!(writes, [""; 0], "round {round}: the zombie still wrote");
        assert_eq!(job.state, JobState::Done);
    }
    eprintln!(
        "{taken_over} of {rounds} frozen jobs were taken over; {:?} comments and pull requests",
        created(&site)
    );
    assert!(taken_over > 0, "no worker froze in the middle of a job");
    assert_each_done_once(&site, &store, &receiver, &issues).await;
    for worker in &mut workers {
        worker.stop().await;
        assert_eq!(worker.leftovers(), Vec::<std::path::PathBuf>::new());
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

/// Tokens with which something was written about an issue by whoever lost the job.
async fn tokens(site: &Site, store: &Store, issue: u64) -> HashSet<String> {
    let job = jobs_of(store, issue).await.pop().unwrap();
    if job.fence == 1 {
        return HashSet::new();
    }
    let about = format!("/issues/{issue}/");
    site.double
        .requests()
        .into_iter()
        .filter(|request| request.path.contains(&about))
        .take(1)
        .filter_map(|request| request.token)
        .collect()
}
