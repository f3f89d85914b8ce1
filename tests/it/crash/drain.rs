//! SIGTERM hands the work in hand back without loss and within seconds; a second one does not
//! wait. A kill between the commit of a delivery and its answer loses nothing either.

use std::time::{Duration, Instant};

use forgehand::event::RunEvent;
use forgehand::job::JobState;
use forgehand::store::Store;
use rustix::process::Signal;

use super::{WHOLE, ask, assert_each_done_once, assert_no_turn_twice, number, random};
use crate::databases::Database;
use crate::process::{Orphans, Program, SLOWLY, Site, finished, jobs_of, running_below};

const PATIENCE: Duration = Duration::from_secs(120);
/// A drained service is gone within this time.
const DRAINED: Duration = Duration::from_secs(5);

/// Kills around the answer to a delivery, on each database.
const KILLS: usize = 8;

async fn on_both(story: impl AsyncFn(Database)) {
    for database in [Database::sqlite(), Database::postgres().await] {
        eprintln!("on {}", database.kind());
        story(database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_job_goes_on_where_it_was() {
    on_both(async |database| {
        let site = Site::open(database).await;
        let mut orphans = Orphans::watch(site.folder());
        let mut service = site.program("service", WHOLE);
        service.start().await;
        let store = site.database.open().await;
        let issue = ask(&site, 0, SLOWLY);
        a_command_runs(&site, &store, &service, issue).await;
        let began = Instant::now();
        service.stop().await;
        let took = began.elapsed();
        assert!(took <= DRAINED, "the service took {took:?} to end");
        orphans.are_gone(&[], Duration::from_secs(2)).await;
        let job = jobs_of(&store, issue).await.pop().unwrap();
        assert_eq!(
            (job.state, job.attempt, job.lost_leases),
            (JobState::Queued, 0, 0),
            "the attempt is not counted"
        );
        service.start().await;
        site.redeliver_failed().await;
        let job = site
            .wait("the job goes on", PATIENCE, async || finished(&store, issue).await)
            .await;
        assert_no_turn_twice(&store, &job).await;
        assert!(
            events(&store, issue)
                .await
                .iter()
                .any(|event| matches!(event, RunEvent::RunResumed { .. }))
        );
        eprintln!("drained in {took:.0?}");
        assert_each_done_once(&site, &store, &service, &[issue]).await;
        service.stop().await;
        store.close().await;
        site.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_does_not_wait() {
    on_both(async |database| {
        let site = Site::open(database).await;
        let mut orphans = Orphans::watch(site.folder());
        let mut service = site.program("service", WHOLE);
        service.start().await;
        let store = site.database.open().await;
        let issue = ask(&site, 0, SLOWLY);
        a_command_runs(&site, &store, &service, issue).await;
        service.signal(Signal::TERM);
        service.signal(Signal::TERM);
        let began = Instant::now();
        let code = service.ended().await;
        assert!(matches!(code, Some(0 | 130)), "{code:?}");
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        orphans.are_gone(&[], Duration::from_secs(2)).await;
        service.start().await;
        site.redeliver_failed().await;
        site.wait("the job goes on", PATIENCE, async || finished(&store, issue).await)
            .await;
        assert_each_done_once(&site, &store, &service, &[issue]).await;
        service.stop().await;
        store.close().await;
        site.close().await;
    })
    .await;
}

/// FI-5: at random moments, every third in the middle of publishing, every third with a second signal.
#[tokio::test(flavor = "multi_thread")]
async fn fi5_signals_at_any_moment_lose_nothing() {
    on_both(async |database| {
        let mut random = random("signals");
        let rounds = number("FORGEHAND_TEST_SIGNALS", 20) / 2;
        let site = Site::open(database).await;
        let mut orphans = Orphans::watch(site.folder());
        let mut service = site.program("service", WHOLE);
        service.start().await;
        let store = site.database.open().await;
        let (mut issues, mut publishing, mut slowest) = (Vec::new(), 0, Duration::ZERO);
        for round in 0..rounds {
            let issue = ask(&site, issues.len(), "It prints a difference.");
            issues.push(issue);
            if round % 3 == 0 {
                publishing += u32::from(is_publishing(&site, &store, issue).await);
            } else {
                tokio::time::sleep(Duration::from_millis(random.u64(0..2_000))).await;
            }
            let began = Instant::now();
            service.signal(Signal::TERM);
            if round % 3 == 1 {
                tokio::time::sleep(Duration::from_millis(random.u64(0..30))).await;
                // It may be over before.
                let _ = rustix::process::kill_process(service.pid(), Signal::TERM);
            }
            let code = service.ended().await;
            assert!(matches!(code, Some(0 | 130)), "{code:?}\n{}", site.logs());
            slowest = slowest.max(began.elapsed());
            assert!(
                began.elapsed() <= DRAINED,
                "the service took {:?} to end",
                began.elapsed()
            );
            orphans.are_gone(&[], Duration::from_secs(2)).await;
            service.start().await;
            site.redeliver_failed().await;
        }
        for &issue in &issues {
            let job = site
                .wait("the job ends", PATIENCE, async || finished(&store, issue).await)
                .await;
            assert!(job.lost_leases <= 1, "a drained job was handed back: {job:?}");
        }
        eprintln!("{rounds} signals, {publishing} while a job was published; the slowest end took {slowest:.1?}");
        assert!(publishing > 0, "no signal met publishing");
        assert_each_done_once(&site, &store, &service, &issues).await;
        service.stop().await;
        store.close().await;
        site.close().await;
    })
    .await;
}

/// Waits until the effects of a job are being performed.
async fn is_publishing(site: &Site, store: &Store, issue: u64) -> bool {
    site.wait("the job is published", PATIENCE, async || {
        let job = jobs_of(store, issue).await.pop()?;
        (job.state == JobState::Publishing || job.state.is_final()).then_some(job.state == JobState::Publishing)
    })
    .await
}

/// The moment is random within the milliseconds that a delivery takes, so that the kill comes
/// before the commit, between commit and answer, and after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_before_the_answer_makes_no_second_job() {
    on_both(async |database| {
        let mut random = random("kills before the answer");
        let site = Site::open(database).await;
        let mut service = site.program("service", WHOLE);
        let store = site.database.open().await;
        let mut issues = Vec::new();
        let (mut unstored, mut unanswered) = (0, 0);
        for round in 0..KILLS {
            service.start().await;
            let issue = ask(&site, round, "It prints a difference.");
            issues.push(issue);
            tokio::time::sleep(Duration::from_micros(random.u64(0..60_000))).await;
            service.kill().await;
            site.double.deliveries_settled().await;
            let answered = site.failed_deliveries().is_empty();
            let stored = !jobs_of(&store, issue).await.is_empty();
            assert!(stored || !answered, "a delivery was answered before it was stored");
            unstored += u32::from(!stored);
            unanswered += u32::from(stored && !answered);
            service.start().await;
            site.redeliver_failed().await;
            site.wait("the job ends", PATIENCE, async || finished(&store, issue).await)
                .await;
            service.stop().await;
        }
        service.start().await;
        eprintln!("of {KILLS} kills {unstored} came before the commit, {unanswered} between commit and answer");
        assert_each_done_once(&site, &store, &service, &issues).await;
        service.stop().await;
        store.close().await;
        site.close().await;
    })
    .await;
}

/// Waits until the agent is in the middle of a command.
async fn a_command_runs(site: &Site, store: &Store, service: &Program, issue: u64) {
    site.wait("the agent runs a command", PATIENCE, async || {
        let events = events(store, issue).await;
        let turns = events
            .iter()
            .filter(|event| matches!(event, RunEvent::ModelReplied { .. }))
            .count();
        let sleeps = running_below(service.pid()).iter().any(|name| name == "sleep");
        (turns == 2 && sleeps).then_some(())
    })
    .await;
}

async fn events(store: &Store, issue: u64) -> Vec<RunEvent> {
    let Some(job) = jobs_of(store, issue).await.pop() else {
        return Vec::new();
    };
    let mut tx = store.begin().await.unwrap();
    let events = tx.events(&job.id, 0, 10_000).await.unwrap();
    events.into_iter().map(|event| event.body).collect()
}
