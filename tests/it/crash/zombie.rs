//! FI-6: a worker that freezes for longer than its lease while another one takes over: when it wakes,
//! it writes nothing any more into the database, and says nothing at all to GitHub.
//! Never asks the worker what it did: it counts on the wire.

use std::time::{Duration, Instant};

use forgehand::demo::double::Recorded;
use forgehand::job::{Job, JobState};
use forgehand::store::Store;
use rustix::process::Signal;

use super::wire::Wire;
use super::{ask, assert_each_done_once, created, number, random};
use crate::databases::Database;
use crate::process::{LEASE, Program, Site, finished, jobs_of};

const PATIENCE: Duration = Duration::from_secs(120);
/// Two of them never freeze at the same time as the others, so that the work goes on.
const WORKERS: [&str; 5] = ["one", "two", "three", "four", "five"];
/// Jobs that begin at once, and workers of theirs that freeze at most.
const AT_ONCE: usize = 4;
const FREEZE: usize = 3;

/// A frozen worker, and the jobs that it had.
struct Frozen {
    worker: usize,
    jobs: Vec<Job>,
    /// Whether it had written about one of them.
    had_written: bool,
}

#[tokio::test(flavor = "multi_thread")]
async fn fi6_frozen_workers_wake_and_write_nothing() {
    let mut random = random("zombies");
    let wanted = usize::try_from(number("FORGEHAND_TEST_ZOMBIES", 20)).unwrap();
    let site = Site::open(Database::postgres().await).await;
    // What is looked at now and then without any job is not done by those that freeze.
    let mut receiver = site.program("receiver", "receiver,scheduler");
    let (mut workers, mut wires) = (Vec::new(), Vec::new());
    for name in WORKERS {
        let wire = Wire::lay(&site).await;
        workers.push(site.program_at(name, "worker", &wire.place(&site)));
        wires.push(wire);
    }
    receiver.start().await;
    for worker in &mut workers {
        worker.start().await;
    }
    let store = site.database.open().await;
    let mut issues = vec![ask(&site, 0, "It prints a difference.")];
    all_end(&site, &store, &issues).await;
    let (mut zombies, mut taken_over, mut had_written) = (0, 0, 0);
    while zombies < wanted {
        let asked: Vec<u64> = (0..AT_ONCE)
            .map(|number| ask(&site, issues.len() + number, "It prints a difference."))
            .collect();
        issues.extend(&asked);
        let frozen = freeze(&site, &store, &workers, &asked, &mut random).await;
        let begun = Instant::now();
        let lost: Vec<usize> = frozen
            .iter()
            .map(|frozen| leases_lost(&workers[frozen.worker]))
            .collect();
        // The others do it all. A job that was done meanwhile needs no other worker to be noticed.
        all_end(&site, &store, &asked).await;
        tokio::time::sleep(LEASE.mul_f64(1.5).saturating_sub(begun.elapsed())).await;
        let before: Vec<usize> = frozen.iter().map(|frozen| wires[frozen.worker].count()).collect();
        for frozen in &frozen {
            workers[frozen.worker].signal(Signal::CONT);
        }
        for (frozen, lost) in frozen.iter().zip(lost) {
            let mut over = 0;
            for job in &frozen.jobs {
                let now = jobs_of(&store, job.subject.number().unwrap().0).await.pop().unwrap();
                assert_eq!(now.state, JobState::Done, "{:?}", now.outcome);
                over += usize::from(now.fence > job.fence);
            }
            site.wait("a worker notices that its lease is lost", PATIENCE, async || {
                (leases_lost(&workers[frozen.worker]) >= lost + over).then_some(())
            })
            .await;
            taken_over += over;
            zombies += frozen.jobs.len();
            had_written += usize::from(frozen.had_written);
        }
        // Nothing is to be done any more: whatever a worker says now that stood still, a zombie says.
        for (frozen, before) in frozen.iter().zip(before) {
            let late = wires[frozen.worker].said_after(before);
            assert_eq!(late, [""; 0], "a zombie still spoke\n{}", site.logs());
        }
    }
    let (comments, pulls) = created(&site);
    eprintln!(
        "{zombies} zombies, {taken_over} of them with a job that another worker took over, {had_written} workers had written \
         before; not a byte to GitHub afterwards; {comments} comments and {pulls} pull requests for {} issues",
        issues.len()
    );
    assert!(taken_over * 2 >= wanted, "too few workers froze in the middle of a job");
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

async fn all_end(site: &Site, store: &Store, issues: &[u64]) {
    for &issue in issues {
        site.wait("the job ends", PATIENCE, async || finished(store, issue).await)
            .await;
    }
}

/// Freezes some of the workers that have these jobs, each at a moment of its own.
async fn freeze(
    site: &Site,
    store: &Store,
    workers: &[Program],
    issues: &[u64],
    random: &mut fastrand::Rng,
) -> Vec<Frozen> {
    let mut holders = Vec::new();
    for &issue in issues {
        let holder = site
            .wait("a worker has the job", PATIENCE, async || {
                match finished(store, issue).await {
                    Some(_) => Some(None),
                    None => holder(store, issue, workers).await.map(Some),
                }
            })
            .await;
        holders.extend(holder.filter(|holder| !holders.contains(holder)));
    }
    random.shuffle(&mut holders);
    holders.truncate(FREEZE);
    let mut frozen = Vec::new();
    for worker in holders {
        tokio::time::sleep(Duration::from_millis(random.u64(0..500))).await;
        workers[worker].signal(Signal::STOP);
        let owner = workers[worker].owner();
        let mut jobs = Vec::new();
        for &issue in issues {
            let job = jobs_of(store, issue).await.pop().unwrap();
            // One that froze before the answer to its claim came may never hear of the job.
            if job.lease_owner.as_ref() == Some(&owner) && knows(&workers[worker], &job) {
                jobs.push(job);
            }
        }
        let had_written = jobs
            .iter()
            .any(|job| was_written_about(site, job.subject.number().unwrap().0));
        frozen.push(Frozen {
            worker,
            jobs,
            had_written,
        });
    }
    frozen
}

/// Whether a worker said that it has claimed the job, as often as it was claimed by now.
fn knows(worker: &Program, job: &Job) -> bool {
    let claim = format!("fence={}", job.fence);
    let log = worker.log();
    log.lines()
        .any(|line| line.contains("job claimed") && line.contains(job.id.as_str()) && line.contains(&claim))
}

/// How often a worker said that a lease is lost.
fn leases_lost(worker: &Program) -> usize {
    worker.log().matches("the lease was lost").count()
}

/// Which worker has the job, or had it last.
async fn holder(store: &Store, issue: u64, workers: &[Program]) -> Option<usize> {
    let owner = jobs_of(store, issue).await.pop()?.lease_owner?;
    workers.iter().position(|worker| worker.owner() == owner)
}

/// Whether anything was made for an issue so far.
fn was_written_about(site: &Site, issue: u64) -> bool {
    let about = format!("/issues/{issue}/");
    let made = |request: &Recorded| request.path.contains(&about) && request.status == 201;
    site.double.ledger().iter().any(made)
}
