//! Work that is stopped: what was done is kept, and everybody is told.

use forgehand::job::Outcome;

use crate::model_server::Reply;
use crate::service::{MONA, REPO, Service, lasting, mend, usual};

/// Lets the agent mend the bug and then think for ever.
async fn in_the_middle(service: &Service) -> u64 {
    service.model.play([mend(), Reply::silence()]);
    let issue = service.labelled_issue();
    service.model_is_asked(2).await;
    issue
}

/// The last job was stopped for this reason, and its work stands on a branch.
async fn check_stopped(service: &Service, issue: u64, why: &str) {
    service.done().await;
    let outcome = service.outcome().await;
    let Outcome::Stopped {
        branch: Some(branch), ..
    } = &outcome
    else {
        panic!("{outcome:?}\n{}", service.everything_said());
    };
    assert!(!service.file(branch.as_str(), "count.sh").await.contains(" - 1"));
    let words = service.our_only_words(issue);
    assert!(words.starts_with("### ⏹️ Stopped"), "{words}");
    assert!(words.contains(why) && words.contains(branch.as_str()), "{words}");
    assert!(service.pulls().is_empty());
    assert_eq!(service.labels(issue), Vec::<String>::new());
}

#[tokio::test]
async fn a_stop_keeps_the_work_on_a_branch_and_says_so() {
    usual()
        .tell(async |service: &mut Service| {
            let issue = in_the_middle(service).await;
            let asked = service.comment(issue, "/agent stop");
            check_stopped(service, issue, "mona asked to stop").await;
            insta::assert_snapshot!("stopped", lasting(&service.our_only_words(issue)));
            let comments = service.github.comments(REPO, issue).unwrap();
            let stop = comments.into_iter().find(|comment| comment.id == asked).unwrap();
            assert!(stop.reactions.iter().any(|reaction| reaction.content == "eyes"));
        })
        .await;
}

#[tokio::test]
async fn closing_the_issue_stops_the_work() {
    usual()
        .tell(async |service: &mut Service| {
            let issue = in_the_middle(service).await;
            service.github.close_issue(REPO, issue, MONA).unwrap();
            check_stopped(service, issue, "the issue was closed").await;
        })
        .await;
}

#[tokio::test]
async fn taking_the_label_off_stops_the_work() {
    usual()
        .tell(async |service: &mut Service| {
            let issue = in_the_middle(service).await;
            service.github.unlabel_issue(REPO, issue, "agent", MONA).unwrap();
            check_stopped(service, issue, "the label was removed").await;
        })
        .await;
}

#[tokio::test]
async fn an_issue_unlabelled_while_it_waits_is_never_worked_on() {
    usual()
        .configuration(|config| config.queue.workers = 1)
        .tell(async |service: &mut Service| {
            let gate = service.occupied().await;
            let issue = service.labelled_issue();
            service.github.deliveries_settled().await;
            service.github.unlabel_issue(REPO, issue, "agent", MONA).unwrap();
            service.github.deliveries_settled().await;
            gate.cancel();
            service.done().await;
            let outcome = service.outcome().await;
            assert!(matches!(&outcome, Outcome::Stopped { branch: None, .. }), "{outcome:?}");
            let began = service.our_comments(issue);
            assert!(
                began.iter().all(|comment| comment.body.starts_with("### ⏹️")),
                "{began:#?}"
            );
        })
        .await;
}

#[tokio::test]
async fn a_stop_where_nothing_runs_says_so() {
    usual()
        .tell(async |service: &mut Service| {
            let issue = service.issue();
            service.comment(issue, "/agent stop");
            service.done().await;
            assert!(service.our_only_words(issue).contains("Nothing is running"));
        })
        .await;
}
