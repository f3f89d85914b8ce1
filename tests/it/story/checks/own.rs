//! The check run of our own on the heads of our pull requests: it always comes to its end.

use forgehand::demo::double::{CheckRun, Fault};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{continuations, fail, opened_on};
use crate::model_server::Reply;
use crate::service::{MONA, REPO, Service, finish, lasting, note, nothing_to_do, until, usual};

/// Our check runs on a commit, oldest first.
fn runs(service: &Service, sha: &str) -> Vec<CheckRun> {
    let mut runs = service.github.check_runs(REPO, sha).unwrap();
    runs.retain(|run| run.ours);
    runs
}

/// Conclusions of our check runs on a commit, oldest first.
fn ended(service: &Service, sha: &str) -> Vec<String> {
    let runs = runs(service, sha).into_iter();
    runs.map(|run| run.conclusion.unwrap_or(run.status)).collect()
}

/// Title and summary of the last of our check runs on a commit.
fn said(service: &Service, sha: &str) -> String {
    let run = runs(service, sha).pop().expect("a check of ours");
    let words = format!("{}\n\n{}", run.title.unwrap(), run.summary.unwrap());
    lasting(&words)
}

/// The model's turn that breaks the test again.
fn break_it() -> Reply {
    Reply::change("write_file", json!({"path": "count.sh", "content": "echo 7\n"}))
}

#[tokio::test]
async fn a_new_pull_request_is_verified_and_follow_ups_move_the_check_on() {
    usual()
        .tell(async |service: &mut Service| {
            let (pull, first) = opened_on(service, None).await;
            let run = runs(service, &first).pop().expect("a check of ours");
            assert_eq!(
                (run.name.as_str(), run.conclusion.as_deref()),
                ("Forgehand", Some("success"))
            );
            insta::assert_snapshot!("verified_check", said(service, &first));
            let job = service.fix().await;
            assert_eq!(run.external_id, job.id.as_str());
            let gate = CancellationToken::new();
            service.model.play([note("a.txt"), finish().after(&gate)]);
            service.comment(pull, "/agent fix Write a.txt.");
            service.model_is_asked(4).await;
            assert_eq!(ended(service, &first), ["success", "in_progress"]);
            insta::assert_snapshot!("check_at_work", said(service, &first));
            gate.cancel();
            service.done().await;
            let second = service.only_pull().head_sha;
            assert_eq!(ended(service, &first), ["success", "neutral"]);
            assert_eq!(ended(service, &second), ["success"]);
        })
        .await;
}

#[tokio::test]
async fn a_change_that_breaks_the_tests_fails_the_check_and_starts_nothing() {
    usual()
        .tell(async |service: &mut Service| {
            let (pull, head) = opened_on(service, None).await;
            service.model.play([break_it(), finish(), finish()]);
            service.comment(pull, "/agent fix Say seven.");
            service.done().await;
            assert_eq!(
                ended(service, &head),
                ["success", "failure"],
                "{}",
                service.everything_said()
            );
            assert_eq!(continuations(service).await, [], "our own check is no reason to repair");
            insta::assert_snapshot!("failed_check", said(service, &head));
        })
        .await;
}

#[tokio::test]
async fn nothing_to_do_is_neutral() {
    usual()
        .tell(async |service: &mut Service| {
            let (pull, head) = opened_on(service, None).await;
            service.model.play(nothing_to_do());
            service.comment(pull, "/agent fix Look again.");
            service.done().await;
            assert_eq!(ended(service, &head), ["success", "neutral"]);
        })
        .await;
}

#[tokio::test]
async fn stopped_work_is_neutral() {
    usual()
        .tell(async |service: &mut Service| {
            let (pull, head) = opened_on(service, None).await;
            service.model.play([note("a.txt"), Reply::silence()]);
            service.comment(pull, "/agent fix Write a.txt.");
            service.model_is_asked(4).await;
            service.comment(pull, "/agent stop");
            service.done().await;
            assert_eq!(ended(service, &head), ["success", "neutral"]);
            insta::assert_snapshot!("stopped_check", said(service, &head));
        })
        .await;
}

/// The person loses the right before anything is pushed: maintenance settles what is under way.
#[tokio::test]
async fn a_job_that_ends_without_its_worker_has_its_check_settled() {
    usual()
        .tell(async |service: &mut Service| {
            service.github.grant(REPO, "ada", "write").unwrap();
            let (pull, head) = opened_on(service, None).await;
            let gate = CancellationToken::new();
            service.model.play([note("a.txt"), finish().after(&gate)]);
            service.comment_by(pull, "/agent fix Write a.txt.", "ada");
            service.model_is_asked(4).await;
            service.github.revoke(REPO, "ada").unwrap();
            gate.cancel();
            service.done().await;
            assert_eq!(service.only_pull().head_sha, head);
            assert_eq!(ended(service, &head), ["success", "neutral"]);
        })
        .await;
}

/// The service is gone in the middle of the work, and another goes on: one check, settled.
#[tokio::test]
async fn a_restart_in_the_middle_leaves_one_check() {
    usual()
        .tell(async |service: &mut Service| {
            let (pull, head) = opened_on(service, None).await;
            service.model.play([note("a.txt"), Reply::silence()]);
            service.comment(pull, "/agent fix Write a.txt.");
            service.model_is_asked(4).await;
            service.stop().await;
            service.model.play([finish()]);
            service.start().await;
            service.done().await;
            assert_eq!(ended(service, &head), ["success", "neutral"]);
            assert_eq!(ended(service, &service.only_pull().head_sha), ["success"]);
        })
        .await;
}

#[tokio::test]
async fn a_check_whose_answer_is_lost_is_not_made_twice() {
    usual()
        .tell(async |service: &mut Service| {
            service
                .github
                .fault("POST /repos/octo/words/check-runs", Fault::ApplyThenReset, 1);
            let (_, head) = opened_on(service, None).await;
            assert_eq!(ended(service, &head), ["success"]);
        })
        .await;
}

#[tokio::test]
async fn a_closed_pull_request_settles_the_check_of_a_continuation() {
    usual()
        .tell(async |service: &mut Service| {
            let (pull, head) = opened_on(service, Some("success")).await;
            service.model.play([note("fix.txt"), Reply::silence()]);
            fail(service, &head);
            service.model_is_asked(4).await;
            service.github.close_issue(REPO, pull, MONA).unwrap();
            service.done().await;
            assert_eq!(ended(service, &head), ["success", "neutral"]);
            until("the last words are said", async || {
                service.our_only_words(pull).starts_with("### ⏹️")
            })
            .await;
        })
        .await;
}
