//! GitHub fails between us and it, before and after it did what we asked: everything lands once.

use std::time::Duration;

use forgehand::demo::double::Fault;
use forgehand::event::RunEvent;
use forgehand::job::Outcome;

use crate::service::{REPO, Service, bug_fix, finish, note, usual};

const COMMENT: &str = "POST /repos/octo/words/issues/*/comments";
const EDIT: &str = "PATCH /repos/octo/words/issues/comments/*";
const PULL: &str = "POST /repos/octo/words/pulls";
const PUSH: &str = "POST /octo/words.git/git-receive-pack";
const UNLABEL: &str = "DELETE /repos/octo/words/issues/*/labels/*";
const REACTION: &str = "POST /repos/octo/words/issues/*/reactions";

/// The usual story, while GitHub fails like this.
async fn check(pattern: &'static str, fault: Fault, times: u32) {
    usual()
        .tell(async |service: &mut Service| {
            service.github.fault(pattern, fault.clone(), times);
            service.model.play(bug_fix());
            let issue = service.labelled_issue();
            service.done().await;
            let outcome = service.outcome().await;
            assert!(
                matches!(outcome, Outcome::Opened { .. }),
                "{outcome:?}\n{}",
                service.everything_said()
            );
            let pull = service.only_pull();
            assert_eq!(service.github.branches(REPO).unwrap(), [pull.head.as_str(), "main"]);
            service.our_only_words(issue);
            assert_eq!(service.labels(issue), Vec::<String>::new());
            let reactions = service.github.issue(REPO, issue).unwrap().reactions;
            assert_eq!(reactions.len(), 1, "{reactions:?}");
        })
        .await;
}

#[tokio::test]
async fn a_status_comment_whose_answer_is_lost_is_not_written_twice() {
    check(COMMENT, Fault::ApplyThenReset, 1).await;
}

#[tokio::test]
async fn a_status_comment_that_never_gets_an_answer_is_not_written_twice() {
    check(COMMENT, Fault::ApplyThenHang, 1).await;
}

#[tokio::test]
async fn a_status_comment_that_failed_is_written_later() {
    check(COMMENT, Fault::status(502, "bad gateway"), 2).await;
}

#[tokio::test]
async fn a_status_comment_that_lists_do_not_show_yet_is_not_written_twice() {
    usual()
        .tell(async |service: &mut Service| {
            let list = "GET /repos/octo/words/issues/*/comments";
            service.github.fault(COMMENT, Fault::ApplyThenReset, 1);
            service
                .github
                .fault(list, Fault::StaleList(Duration::from_millis(700)), 1);
            service.model.play(bug_fix());
            let issue = service.labelled_issue();
            service.done().await;
            service.our_only_words(issue);
        })
        .await;
}

#[tokio::test]
async fn a_pull_request_whose_answer_is_lost_is_not_opened_twice() {
    check(PULL, Fault::ApplyThenReset, 1).await;
}

#[tokio::test]
async fn a_pull_request_that_failed_is_opened_later() {
    check(PULL, Fault::status(500, "oops"), 1).await;
}

#[tokio::test]
async fn a_push_whose_answer_is_lost_is_found() {
    check(PUSH, Fault::ApplyThenReset, 1).await;
}

#[tokio::test]
async fn a_push_that_broke_is_made_again() {
    check(PUSH, Fault::ResetBeforeApply, 1).await;
}

#[tokio::test]
async fn a_push_that_the_server_failed_is_made_again() {
    check(PUSH, Fault::status(503, "busy"), 1).await;
}

#[tokio::test]
async fn a_label_whose_removal_gets_no_answer_is_gone() {
    check(UNLABEL, Fault::ApplyThenReset, 1).await;
}

#[tokio::test]
async fn last_words_that_failed_are_written_later() {
    check(EDIT, Fault::status(500, "oops"), 3).await;
}

#[tokio::test]
async fn a_reaction_whose_answer_is_lost_stays_one() {
    check(REACTION, Fault::ApplyThenReset, 1).await;
}

#[tokio::test]
async fn reading_that_fails_costs_an_attempt_and_no_more() {
    check("GET /repos/octo/words/issues/1", Fault::status(500, "oops"), 1).await;
}

#[tokio::test]
async fn a_fetch_that_breaks_is_made_again() {
    check("POST /octo/words.git/git-upload-pack", Fault::ResetBeforeApply, 1).await;
}

#[tokio::test]
async fn permission_that_cannot_be_asked_is_asked_again() {
    let pattern = "GET /repos/octo/words/collaborators/mona/permission";
    check(pattern, Fault::status(500, "oops"), 1).await;
}

#[tokio::test]
async fn a_rate_limit_is_waited_for_without_an_attempt() {
    usual()
        .tell(async |service: &mut Service| {
            let headers = vec![("retry-after".to_owned(), "1".to_owned())];
            let body = r#"{"message": "You have exceeded a secondary rate limit"}"#.to_owned();
            service.github.fault(PULL, Fault::Status(403, headers, body), 1);
            service.model.play(bug_fix());
            service.labelled_issue();
            service.done().await;
            service.only_pull();
            let job = service.fix().await;
            assert_eq!(job.attempt, 1);
            let events = service.events(&job).await;
            let snoozed = events.iter().filter(|event| matches!(event, RunEvent::Snoozed { .. }));
            assert_eq!(snoozed.count(), 1, "{events:#?}");
        })
        .await;
}

/// A token ends after an hour, also in the middle of a job that takes longer.
#[tokio::test]
async fn g17_tokens_that_end_early_are_minted_again() {
    usual()
        .tell(async |service: &mut Service| {
            let gate = tokio_util::sync::CancellationToken::new();
            let pull = service.opened_pull().await;
            service.model.play([note("a.txt"), finish().after(&gate)]);
            service.comment(pull, "/agent fix Write a.txt.");
            service.model_is_asked(4).await;
            service.github.revoke_tokens();
            gate.cancel();
            service.done().await;
            let outcome = service.outcome().await;
            assert!(matches!(outcome, Outcome::Pushed { .. }), "{outcome:?}");
        })
        .await;
}

#[tokio::test]
async fn a_github_that_is_away_at_the_start_is_waited_for() {
    usual()
        .tell_before_start(async |service: &mut Service| {
            service.github.fault("GET /app", Fault::status(503, "away"), 3);
            service.start().await;
            service.model.play(bug_fix());
            service.labelled_issue();
            service.done().await;
            service.only_pull();
        })
        .await;
}

/// What cannot be done for good is said, and what was done before it is kept.
async fn check_given_up(pattern: &'static str, fault: Fault, times: u32, words: &'static str) {
    usual()
        .tell(async |service: &mut Service| {
            service.github.fault(pattern, fault.clone(), times);
            service.model.play(bug_fix());
            let issue = service.labelled_issue();
            service.done().await;
            assert!(service.pulls().is_empty());
            let told = service.our_only_words(issue);
            assert!(told.starts_with("### ❌") && told.contains(words), "{told}");
            assert_eq!(service.labels(issue), Vec::<String>::new());
        })
        .await;
}

#[tokio::test]
async fn a_pull_request_that_github_rejects_leaves_its_branch_and_says_so() {
    let words = "the branch is pushed, but the pull request could not be opened";
    check_given_up(PULL, Fault::status(422, "Validation Failed"), 1, words).await;
}

#[tokio::test]
async fn a_push_that_is_forbidden_twice_is_given_up() {
    check_given_up(PUSH, Fault::status(403, "Forbidden"), 2, "could not be pushed").await;
}

#[tokio::test]
async fn a_fetch_that_never_works_ends_after_the_last_attempt() {
    usual()
        .tell(async |service: &mut Service| {
            let fetch = "GET /octo/words.git/info/refs";
            service.github.fault(fetch, Fault::status(503, "busy"), 3);
            let issue = service.labelled_issue();
            service.done().await;
            let told = service.our_only_words(issue);
            assert!(told.starts_with("### ❌") && told.contains("3 attempts"), "{told}");
            assert_eq!(service.labels(issue), Vec::<String>::new());
            assert!(service.model.requests().is_empty());
        })
        .await;
}

#[tokio::test]
async fn a_read_that_gets_no_answer_is_made_again() {
    check("GET /repos/octo/words", Fault::Hang, 1).await;
}
