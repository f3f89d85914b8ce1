//! Jobs that take their workers down: given up after three, told of once, and no hindrance to others.

use std::time::Duration;

use forgehand::demo::double::Fault;
use forgehand::job::{Job, JobState};
use forgehand::store::Store;

use super::{WHOLE, ask, assert_invariants, created};
use crate::databases::Database;
use crate::process::{LABEL, Program, REPO, SLOWLY, Site, finished, jobs_of};

const PATIENCE: Duration = Duration::from_secs(120);

/// Kills the service each time a job is in hand and `moment` has come, until the job is given up.
async fn kill_until_dead(
    site: &Site,
    store: &Store,
    service: &mut Program,
    issue: u64,
    moment: impl Fn() -> bool,
) -> (Job, u32) {
    let (mut fence, mut kills) = (0, 0);
    loop {
        let job = site
            .wait("the job is in hand again, or over", PATIENCE, async || {
                let job = jobs_of(store, issue).await.pop()?;
                let is_in_hand = job.state == JobState::Leased && job.fence > fence && moment();
                (is_in_hand || job.state.is_final()).then_some(job)
            })
            .await;
        if job.state.is_final() {
            return (job, kills);
        }
        fence = job.fence;
        service.kill().await;
        kills += 1;
        service.start().await;
    }
}

/// The only comment on an issue, which is ours and has come to its end.
async fn only_words(site: &Site, issue: u64) -> String {
    site.wait("people are told", PATIENCE, async || {
        let comments = site.double.comments(REPO, issue).unwrap();
        let is_over = |body: &str| body.starts_with("### ❌");
        comments.iter().any(|comment| is_over(&comment.body)).then_some(())
    })
    .await;
    let mut comments = site.double.comments(REPO, issue).unwrap();
    assert_eq!(comments.len(), 1, "{comments:#?}");
    comments.remove(0).body
}

#[tokio::test(flavor = "multi_thread")]
async fn i8_a_job_that_kills_its_worker_is_given_up_after_three_and_told_of_once() {
    for database in [Database::sqlite(), Database::postgres().await] {
        eprintln!("on {}", database.kind());
        let site = Site::open(database).await;
        let mut service = site.program("service", WHOLE);
        service.start().await;
        let store = site.database.open().await;
        // Whatever it is that kills the worker comes first: nothing is reached, and nothing said.
        let repository = format!("GET /repos/{REPO}");
        site.double.fault(&repository, Fault::Hang, 100_000);
        let poison = ask(&site, 0, "It prints a difference.");
        let (job, kills) = kill_until_dead(&site, &store, &mut service, poison, || true).await;
        assert_eq!((job.state, kills), (JobState::Dead, 3), "{job:#?}");
        let reason = job.reason.unwrap();
        assert!(reason.contains("worker was lost 3 times"), "{reason}");
        site.double.clear_faults();
        let words = only_words(&site, poison).await;
        assert!(words.contains(&reason), "{words}");
        // Others go on, and nobody is told again.
        let other = ask(&site, 1, "It prints a difference.");
        let done = site
            .wait("the other job ends", PATIENCE, async || finished(&store, other).await)
            .await;
        assert_eq!(done.state, JobState::Done, "{done:#?}\n{}", site.logs());
        service.stop().await;
        service.start().await;
        site.wait("the label is taken off", PATIENCE, async || {
            let labels = site.double.issue(REPO, poison).unwrap().labels;
            (!labels.iter().any(|label| label == LABEL)).then_some(())
        })
        .await;
        assert_eq!(only_words(&site, poison).await, words);
        assert_eq!(created(&site).0, 2, "comments ever made");
        assert_invariants(&service).await;
        service.stop().await;
        store.close().await;
        site.close().await;
    }
}

/// The status comment that it had gets its last words.
#[tokio::test(flavor = "multi_thread")]
async fn i8_a_job_that_was_seen_at_work_before_it_died_is_told_of_in_its_status_comment() {
    let site = Site::open(Database::sqlite()).await;
    let mut service = site.program("service", WHOLE);
    service.start().await;
    let store = site.database.open().await;
    let issue = ask(&site, 0, SLOWLY);
    let is_shown = || site.double.comments(REPO, issue).unwrap().len() == 1;
    let (job, kills) = kill_until_dead(&site, &store, &mut service, issue, is_shown).await;
    assert_eq!(job.state, JobState::Dead, "after {kills} kills: {job:#?}");
    let words = only_words(&site, issue).await;
    assert!(words.contains("worker was lost"), "{words}");
    assert_eq!(created(&site).0, 1, "comments ever made");
    assert_invariants(&service).await;
    service.stop().await;
    store.close().await;
    site.close().await;
}
