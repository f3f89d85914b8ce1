//! How a queue is read: at no cost while it is as it was, patiently while GitHub fails, and never as the
//! news that an issue left when that is not known.

use std::time::Duration;

use forgehand::demo::double::Fault;
use forgehand::ids::{IssueNumber, RepoName};
use forgehand::store::ItemState;
use forgehand::unattended::autotask::When;

use super::{ISSUES, MINUTE, REPO, Stage, name, taken};
use crate::databases::each;

/// An unchanged list costs one request that GitHub does not count, and nothing else.
#[tokio::test]
async fn t_polling_as_it_was_is_one_free_request_and_no_work() {
    each(async |store| {
        let stage = Stage::set(&store, |_| {}).await;
        stage.issue("First", &["ready"]);
        stage.look().await;
        let asked = stage.double.requests().len();
        let autotask = stage.autotask();
        for times in 1..=3 {
            stage.clock.advance(MINUTE);
            let looked = autotask.look(&name(), When::Due).await.unwrap().expect("it is due");
            assert!(looked.unchanged && looked.taken.is_empty(), "{looked:?}");
            assert_eq!(stage.double.unchanged_answers(), times);
        }
        let requests = stage.double.requests();
        let of_lists = requests[asked..].iter().filter(|request| request.status == 304).count();
        let others = requests[asked..].iter().filter(|request| request.status != 304);
        let others: Vec<&str> = others.map(|request| request.path.as_str()).collect();
        assert_eq!(of_lists, 3);
        assert!(others.iter().all(|path| path.ends_with("/access_tokens")), "{others:?}");
        assert_eq!(stage.jobs().await.len(), 1);
        // Not due again: nobody is asked.
        let asked = stage.double.requests().len();
        assert_eq!(autotask.look(&name(), When::Due).await.unwrap(), None);
        assert_eq!(stage.double.requests().len(), asked);
    })
    .await;
}

#[tokio::test]
async fn an_issue_that_left_the_queue_stops_its_work() {
    each(async |store| {
        let stage = Stage::set(&store, |_| {}).await;
        let [unlabelled, closed, deleted, stays] = ["A", "B", "C", "D"].map(|title| stage.issue(title, &["ready"]));
        stage.look().await;
        stage.double.unlabel_issue(REPO, unlabelled.0, "ready", "ada").unwrap();
        stage.double.close_issue(REPO, closed.0, "ada").unwrap();
        stage.double.delete_issue(REPO, deleted.0).unwrap();
        let looked = stage.later().await;
        assert_eq!(looked.stopped, [unlabelled, closed, deleted], "{looked:?}");
        let open: Vec<String> = stage
            .jobs()
            .await
            .iter()
            .filter(|job| !job.state.is_final())
            .map(|job| job.subject.to_string())
            .collect();
        assert_eq!(open, [format!("issue/{stays}")]);
        let reason = stage.jobs().await[0].reason.clone();
        assert_eq!(reason.as_deref(), Some("the issue left its queue"));
    })
    .await;
}

/// An error, a list that is not read to its end, and "as it was" are not the news that an issue left.
#[tokio::test]
async fn t_polling_what_is_not_known_stops_nothing() {
    each(async |store| {
        let stage = Stage::set(&store, |config| {
            config.github.call_timeout_seconds = Duration::from_secs(1);
            config.autotask.max_open_pulls = 0;
        })
        .await;
        for n in 0..101 {
            stage.issue(&format!("Issue {n}"), &["ready"]);
        }
        stage.look().await;
        let open = async || stage.jobs().await.iter().filter(|job| !job.state.is_final()).count();
        let before = open().await;
        assert_eq!(before, 10, "as many as may be at work");
        // A server that fails, in the middle of a list that changed.
        for n in 0..2 {
            stage.double.label_issue(REPO, 50 + n, "other", "ada").unwrap();
            stage
                .double
                .fault(&format!("GET {ISSUES}"), Fault::status(502, "bad gateway"), 3);
            let looked = stage.later().await;
            assert!(looked.problem.is_some(), "{looked:?}");
            assert_eq!((looked.stopped.len(), open().await), (0, before));
            stage.clock.advance(15 * MINUTE);
        }
        stage.double.fault(&format!("GET {ISSUES}"), Fault::ResetBeforeApply, 3);
        assert!(stage.later().await.problem.is_some());
        assert_eq!(open().await, before);
        stage.clock.advance(15 * MINUTE);
        let looked = stage.later().await;
        assert_eq!(
            (looked.problem, looked.selected, open().await),
            (None, Some(101), before)
        );
        let looked = stage.later().await;
        assert!(looked.unchanged);
        assert_eq!(open().await, before);
        // The repository itself cannot be found for a while.
        stage.double.unlabel_issue(REPO, 1, "ready", "ada").unwrap();
        stage
            .double
            .fault("GET /repos/octo/widgets/issues/1", Fault::status(404, "Not Found"), 1);
        stage
            .double
            .fault("GET /repos/octo/widgets", Fault::status(404, "Not Found"), 1);
        let looked = stage.later().await;
        assert!(looked.problem.is_some() && open().await == before, "{looked:?}");
        stage.clock.advance(15 * MINUTE);
        assert_eq!(stage.look().await.stopped, [IssueNumber(1)]);
        assert_eq!(stage.double.unused_faults(), Vec::<String>::new());
    })
    .await;
}

/// A change on a later page is seen although the first page is as it was.
#[tokio::test]
async fn every_page_of_a_long_queue_is_watched() {
    each(async |store| {
        let stage = Stage::set(&store, |config| config.autotask.max_active = 1).await;
        for n in 0..150 {
            stage.issue(&format!("Issue {n}"), &["ready"]);
        }
        assert_eq!(stage.look().await.selected, Some(150));
        assert!(stage.later().await.unchanged);
        stage.double.close_issue(REPO, 140, "ada").unwrap();
        assert_eq!(stage.later().await.selected, Some(149));
        assert_eq!(stage.item(IssueNumber(140)).await.state, ItemState::Left);
    })
    .await;
}

#[tokio::test]
async fn t_polling_a_rate_limit_is_waited_for_and_failures_are_asked_less_and_less() {
    each(async |store| {
        let stage = Stage::set(&store, |_| {}).await;
        stage.issue("First", &["ready"]);
        let headers = vec![("retry-after".to_owned(), "600".to_owned())];
        let body = "{\"message\":\"You have exceeded a secondary rate limit\"}".to_owned();
        stage
            .double
            .fault(&format!("GET {ISSUES}"), Fault::Status(403, headers, body), 1);
        let begun = stage.clock.now();
        let limited = stage.look().await;
        let problem = limited.problem.expect("a problem");
        assert!(problem.contains("limits our rate"), "{problem}");
        assert_eq!(limited.next_at, Some(begun + Duration::from_secs(600)));
        // Who asks for a look waits, too.
        let asked = stage.double.requests().len();
        assert!(stage.later().await.problem.is_some());
        assert_eq!(stage.double.requests().len(), asked);
        stage.clock.advance(10 * MINUTE);
        assert_eq!(taken(&stage.look().await), [1]);
        let mut pauses = Vec::new();
        for _ in 0..6 {
            stage
                .double
                .fault(&format!("GET {ISSUES}"), Fault::status(500, "oops"), 3);
            stage.clock.advance(15 * MINUTE);
            let failed = stage.look().await;
            pauses.push((failed.next_at.unwrap() - stage.clock.now()).num_seconds());
        }
        assert!(
            pauses[..3].is_sorted() && pauses[0] >= 96 && pauses[5] <= 900 && pauses[5] >= 700,
            "{pauses:?}"
        );
        stage.clock.advance(15 * MINUTE);
        let well = stage.look().await;
        assert_eq!(well.problem, None);
        assert_eq!(well.next_at, Some(stage.clock.now() + MINUTE));
    })
    .await;
}

/// The index of a search lags: an issue that it does not show any more is read before its work stops.
#[tokio::test]
async fn what_a_search_does_not_find_is_looked_at_before_it_counts_as_gone() {
    each(async |store| {
        let stage = Stage::set(&store, |config| {
            config.autotask.label = None;
            config.autotask.query = Some("-label:blocked".to_owned());
        })
        .await;
        let issue = stage.issue("First", &[]);
        let other = stage.issue("Second", &[]);
        assert_eq!(taken(&stage.look().await), [issue.0, other.0]);
        // The author asked.
        assert_eq!(stage.jobs().await[0].request.actor.login, "ada");
        stage.double.label_issue(REPO, issue.0, "blocked", "ada").unwrap();
        stage.double.close_issue(REPO, other.0, "ada").unwrap();
        assert_eq!(stage.later().await.stopped, [other], "that one is closed for certain");
        assert_eq!(stage.later().await.stopped, []);
        assert_eq!(stage.later().await.stopped, [issue], "not found three times in a row");
    })
    .await;
}

/// Whatever kills a look, the next one goes on from what is stored.
#[tokio::test]
async fn j16_a_look_that_died_holds_nothing_up() {
    each(async |store| {
        let stage = Stage::set(&store, |_| {}).await;
        stage.issue("First", &["ready"]);
        stage.look().await;
        stage.issue("Second", &["ready"]);
        stage.clock.advance(MINUTE);
        // It dies after the list was stored, before any issue was judged.
        stage.double.fault("GET /repos/octo/widgets/issues/2", Fault::Hang, 1);
        let autotask = stage.autotask();
        let hung = tokio::time::timeout(Duration::from_millis(500), autotask.look(&name(), When::Due)).await;
        assert!(hung.is_err(), "it is dead");
        assert_eq!(stage.item(IssueNumber(2)).await.state, ItemState::Waiting);
        // A look begins anew when the time of the dead one is over, though the list is as it was.
        assert_eq!(stage.autotask().look(&name(), When::Due).await.unwrap(), None);
        stage.clock.advance(MINUTE);
        let looked = stage
            .autotask()
            .look(&name(), When::Due)
            .await
            .unwrap()
            .expect("it is due");
        assert_eq!((taken(&looked), looked.unchanged), (vec![2], true));
    })
    .await;
}

#[tokio::test]
async fn a_repository_without_the_app_is_asked_for_less_and_less() {
    each(async |store| {
        let stage = Stage::set(&store, |_| {}).await;
        let autotask = stage.autotask();
        let gone: RepoName = "octo/nowhere".parse().unwrap();
        let looked = autotask.look(&gone, When::Now).await.unwrap().unwrap();
        assert!(
            looked
                .problem
                .is_some_and(|problem| problem.contains("App is not installed"))
        );
        let asked = stage.double.requests().len();
        for _ in 0..3 {
            assert_eq!(autotask.look(&gone, When::Due).await.unwrap(), None);
        }
        assert_eq!(stage.double.requests().len(), asked);
    })
    .await;
}
