//! Several processes on one PostgreSQL share the work: each job is done once, by one of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use forgehand::event::RunEvent;

use super::{WORKER, ask, assert_each_done_once};
use crate::databases::Database;
use crate::process::{Site, finished, jobs_of};

const ISSUES: usize = 20;
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_share_twenty_issues() {
    let site = Site::open(Database::postgres().await).await;
    let mut receiver = site.program("receiver", "receiver");
    let mut workers = [site.program("one", WORKER), site.program("two", WORKER)];
    receiver.start().await;
    for worker in &mut workers {
        worker.start().await;
    }
    let store = site.database.open().await;
    let began = Instant::now();
    let issues: Vec<u64> = (0..ISSUES)
        .map(|case| ask(&site, case, "It prints a difference."))
        .collect();
    for &issue in &issues {
        site.wait("every job ends", PATIENCE, async || finished(&store, issue).await)
            .await;
    }
    let took = began.elapsed();
    let mut by_worker: BTreeMap<String, u32> = BTreeMap::new();
    for &issue in &issues {
        let job = jobs_of(&store, issue).await.pop().unwrap();
        let mut tx = store.begin().await.unwrap();
        let claims: Vec<String> = tx
            .events(&job.id, 0, 10_000)
            .await
            .unwrap()
            .into_iter()
            .filter_map(|event| match event.body {
                RunEvent::Claimed { worker, .. } => Some(worker),
                _ => None,
            })
            .collect();
        let [worker] = claims.as_slice() else {
            panic!("issue {issue} was claimed by {claims:?}")
        };
        *by_worker.entry(worker.clone()).or_default() += 1;
    }
    eprintln!("{ISSUES} jobs in {took:.1?}, by worker: {:?}", by_worker.values());
    assert_eq!(by_worker.len(), 2, "one of the workers did nothing");
    assert_each_done_once(&site, &store, &receiver, &issues).await;
    for worker in &mut workers {
        worker.stop().await;
    }
    receiver.stop().await;
    store.close().await;
    site.close().await;
}
