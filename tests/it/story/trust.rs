//! What must not count as authority: associations, unclear answers, edits by others, bots that talk
//! to each other, approvals that are used up, markers that anybody can paste. And what a stop may
//! not lose.

use forgehand::demo::double::Fault;
use forgehand::job::{JobState, Outcome};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::model_server::Reply;
use crate::service::{MONA, REPO, Service, bug_fix, finish, mend, nothing_to_do, until, usual};

const PERMISSION: &str = "GET /repos/octo/words/collaborators/mona/permission";

/// The payload of the last webhook of this kind, to be sent again with changes.
fn last_payload(service: &Service, event: &str) -> Value {
    let deliveries = service.github.deliveries();
    let last = deliveries.iter().rev().find(|delivery| delivery.event == event);
    serde_json::from_str(&last.expect("it was sent").body).unwrap()
}

#[tokio::test]
async fn p02_membership_in_a_payload_is_no_right() {
    usual()
        .tell(async |service: &mut Service| {
            service.github.grant(REPO, "eve", "read").unwrap();
            let issue = service.issue();
            service.comment_by(issue, "nice", "eve");
            let mut payload = last_payload(service, "issue_comment");
            payload["comment"]["id"] = json!(4_000_000_001_u64);
            payload["comment"]["body"] = json!("/agent fix");
            for association in ["OWNER", "MEMBER", "COLLABORATOR"] {
                payload["comment"]["author_association"] = json!(association);
                payload["comment"]["id"] = json!(payload["comment"]["id"].as_u64().unwrap() + 1);
                service.github.deliver_payload("issue_comment", &payload);
            }
            service.done().await;
            let words = service.our_only_words(issue);
            assert!(words.starts_with("Only people who may write"), "{words}");
            assert!(service.model.requests().is_empty());
        })
        .await;
}

/// The person's permission is answered like this, for so many times; whether work was done.
async fn check_permission(answer: Fault, times: u32, is_done: bool) {
    usual()
        .tell(async |service: &mut Service| {
            service.github.fault(PERMISSION, answer.clone(), times);
            if is_done {
                service.model.play(bug_fix());
            }
            let issue = service.labelled_issue();
            service.done().await;
            service.github.clear_faults();
            assert_eq!(
                service.pulls().len(),
                usize::from(is_done),
                "{}",
                service.everything_said()
            );
            if !is_done {
                assert_eq!(service.github.branches(REPO).unwrap(), ["main"]);
                assert!(service.model.requests().is_empty());
                assert!(service.fix().await.state.is_final());
                assert!(service.labels(issue).is_empty());
            }
        })
        .await;
}

#[tokio::test]
async fn p03_an_unclear_answer_is_no_permission() {
    check_permission(Fault::status(404, "Not Found"), 1, false).await;
    let json = vec![("content-type".to_owned(), "application/json".to_owned())];
    let odd = r#"{"permission": "owner of all", "user": {"id": "1"}}"#;
    check_permission(Fault::Status(200, json, odd.to_owned()), 100, false).await;
}

#[tokio::test]
async fn p03_only_what_may_pass_is_asked_again() {
    check_permission(Fault::status(500, "oops"), 1, true).await;
    check_permission(Fault::status(500, "oops"), 1_000, false).await;
}

#[tokio::test]
async fn p07_w7_listed_apps_are_obeyed_until_they_go_round_in_circles() {
    usual()
        .configuration(|config| config.github.allowed_apps = vec![77, 88])
        .tell(async |service: &mut Service| {
            let bots = ["helper[bot]", "tester[bot]"];
            service.github.bot(bots[0], 77);
            service.github.bot(bots[1], 88);
            service.github.bot("stranger[bot]", 99);
            service.github.bot("Assistant", 98);
            let issue = service.issue();
            service.comment_by(issue, "/agent help", "stranger[bot]");
            service.comment_by(issue, "/agent help", "Assistant");
            service.done().await;
            assert!(
                service.our_comments(issue).is_empty(),
                "an App that is not listed is not heard"
            );
            for turn in 0..50 {
                service.comment_by(issue, "/agent status", bots[turn % 2]);
            }
            service.done().await;
            assert_eq!(service.our_comments(issue).len(), 5, "{}", service.everything_said());
            // People are still heard there, and the Apps elsewhere.
            service.comment(issue, "/agent status");
            service.model.play(bug_fix());
            let other = service.issue_saying("The last word is not counted", "One too low.");
            service.comment_by(other, "/agent fix", bots[0]);
            service.done().await;
            assert_eq!(service.our_comments(issue).len(), 6);
            service.only_pull();
        })
        .await;
}

#[tokio::test]
async fn p09_a_command_edited_into_an_old_comment_starts_nothing() {
    usual()
        .tell(async |service: &mut Service| {
            service.github.grant(REPO, "dev", "write").unwrap();
            service.github.grant(REPO, "tri", "triage").unwrap();
            let issue = service.issue();
            let comment = service.comment_by(issue, "I will look at it.", "dev");
            for by in ["tri", "dev"] {
                service.github.edit_comment(REPO, comment, "/agent fix", by).unwrap();
            }
            service.done().await;
            assert!(service.jobs().await.is_empty());
            assert_eq!(service.github.ledger(), []);
        })
        .await;
}

/// Waits until the status comment shows these words.
async fn shown(service: &Service, issue: u64, words: &str) {
    until(&format!("{words:?} is shown"), async || {
        service
            .our_comments(issue)
            .iter()
            .any(|comment| comment.body.contains(words))
    })
    .await;
}

#[tokio::test]
async fn p12_an_approval_counts_once_and_for_nothing_else() {
    usual()
        .tell(async |service: &mut Service| {
            let ask = |what: &str| Reply::call("confirm", json!({"action": what, "consequence": "Other sums change."}));
            service
                .model
                .play([mend(), ask("Count tabs, too"), ask("Count lines, too")]);
            let issue = service.labelled_issue();
            shown(service, issue, "Count tabs, too").await;
            service.comment(issue, "/agent approve");
            // The consent to one is none to the next.
            shown(service, issue, "Count lines, too").await;
            let guid = service
                .github
                .deliveries()
                .iter()
                .rev()
                .find(|one| one.event == "issue_comment" && one.body.contains("/agent approve"))
                .unwrap()
                .guid
                .clone();
            service.github.redeliver_with_new_guid(&guid).unwrap();
            service.github.deliveries_settled().await;
            assert_eq!(service.fix().await.state, JobState::Waiting);
            service.model.play([finish()]);
            service.comment(issue, "/agent approve");
            service.done().await;
            service.only_pull();
            service.comment(issue, "/agent approve");
            service.done().await;
            let last = service.our_comments(issue).pop().unwrap().body;
            assert!(last.starts_with("Nothing here waits for an answer"), "{last}");
        })
        .await;
}

#[tokio::test]
async fn p12_an_approval_after_its_time_approves_nothing() {
    usual()
        .configuration(|config| config.queue.answer_days = 1.5 / 86_400.0)
        .tell(async |service: &mut Service| {
            let ask = json!({"action": "Count tabs, too", "consequence": "Other sums change."});
            service.model.play([mend(), Reply::call("confirm", ask)]);
            let issue = service.labelled_issue();
            service.done().await;
            assert!(matches!(service.outcome().await, Outcome::GaveUp { .. }));
            let asked = service.model.requests().len();
            service.comment(issue, "/agent approve");
            service.done().await;
            let last = service.our_comments(issue).pop().unwrap().body;
            assert!(last.starts_with("Nothing here waits for an answer"), "{last}");
            assert_eq!(service.model.requests().len(), asked);
        })
        .await;
}

#[tokio::test]
async fn p15_without_the_installation_the_work_ends_and_nobody_is_pestered() {
    usual()
        .tell(async |service: &mut Service| {
            let gate = CancellationToken::new();
            service.model.play([mend(), finish().after(&gate)]);
            let issue = service.labelled_issue();
            service.model_is_asked(2).await;
            service.github.uninstall(REPO).unwrap();
            service.github.revoke_tokens();
            service.github.deliveries_settled().await;
            let before = service.github.requests().len();
            gate.cancel();
            until("the job is over", async || service.fix().await.state.is_final()).await;
            let since = service.github.requests().len() - before;
            assert_eq!(service.fix().await.state, JobState::Cancelled);
            assert!(since <= 3, "{since} requests");
            assert!(service.pulls().is_empty());
            assert_eq!(service.github.branches(REPO).unwrap(), ["main"]);
            // Installed again, it says how it ended.
            service.github.install(REPO).unwrap();
            service.done().await;
            let words = service.our_only_words(issue);
            assert!(words.starts_with("### \u{23f9}"), "{words}");
        })
        .await;
}

#[tokio::test]
async fn o07_a_marker_that_somebody_pastes_is_not_taken_for_ours() {
    usual()
        .tell(async |service: &mut Service| {
            service.github.person("eve");
            let gate = CancellationToken::new();
            service.model.play([mend(), finish().after(&gate)]);
            let issue = service.labelled_issue();
            service.model_is_asked(2).await;
            let body = service.our_only_words(issue);
            let marker = body.lines().find(|line| line.starts_with("<!-- forgehand:v1:"));
            let marker = marker.expect("our comment has a marker");
            let copies: Vec<u64> = ["eve", MONA]
                .map(|by| service.comment_by(issue, &format!("Mine.\n\n{marker}"), by))
                .to_vec();
            gate.cancel();
            service.done().await;
            let comments = service.github.comments(REPO, issue).unwrap();
            for copy in copies {
                let copy = comments
                    .iter()
                    .find(|comment| comment.id == copy)
                    .expect("it is still there");
                assert!(copy.body.starts_with("Mine.") && copy.edits.is_empty(), "{copy:?}");
            }
            let ours = service.our_comments(issue);
            assert!(ours.len() == 1 && ours[0].body.starts_with("### \u{2705}"), "{ours:?}");
        })
        .await;
}

#[tokio::test]
async fn o07_a_marker_pasted_in_place_of_a_lost_comment_does_not_stand_for_it() {
    usual()
        .tell(async |service: &mut Service| {
            service.github.person("eve");
            // The answer is lost after eve saw the comment, which is deleted then.
            let create = "POST /repos/octo/words/issues/*/comments";
            service.github.fault(create, Fault::ApplyThenHang, 1);
            let issue = service.labelled_issue();
            until("the comment is there", async || !service.our_comments(issue).is_empty()).await;
            let first = service.our_comments(issue).remove(0);
            service.comment_by(issue, &first.body, "eve");
            service.github.delete_comment(REPO, first.id, MONA).unwrap();
            service.model.play(bug_fix());
            service.done().await;
            let words = service.our_only_words(issue);
            assert!(words.starts_with("### \u{2705}"), "{words}");
        })
        .await;
}

#[tokio::test]
async fn t15_a_label_put_on_again_while_its_work_still_stops_is_worked_on() {
    usual()
        .tell(async |service: &mut Service| {
            service.model.play([mend(), Reply::silence()]);
            let issue = service.labelled_issue();
            service.model_is_asked(2).await;
            service.next_second().await;
            service.github.unlabel_issue(REPO, issue, "agent", MONA).unwrap();
            service.next_second().await;
            service.label(issue);
            service.github.deliveries_settled().await;
            service.model.play(bug_fix());
            service.done().await;
            check_worked_on_again(service, issue).await;
        })
        .await;
}

/// Whoever stops knows of the removal alone.
#[tokio::test]
async fn t15_a_label_put_on_again_stays_though_nobody_was_told_of_it_yet() {
    usual()
        .tell(async |service: &mut Service| {
            service.model.play([mend(), Reply::silence()]);
            let issue = service.labelled_issue();
            service.model_is_asked(2).await;
            let secret = service.github.webhook_secret();
            service.github.hooks("http://127.0.0.1:9/webhook", &secret);
            service.next_second().await;
            service.github.unlabel_issue(REPO, issue, "agent", MONA).unwrap();
            service.next_second().await;
            service.label(issue);
            service.github.deliveries_settled().await;
            service.github.hooks(&service.address(), &secret);
            let deliveries = service.github.deliveries();
            let [removed, put_on] = ["unlabeled", "labeled"].map(|action| {
                let last = deliveries.iter().rfind(|one| one.action.as_deref() == Some(action));
                last.expect("it was sent").guid.clone()
            });
            service.github.redeliver(&removed).unwrap();
            service.done().await;
            assert_eq!(service.labels(issue), ["agent"], "{}", service.everything_said());
            service.model.play(bug_fix());
            service.github.redeliver(&put_on).unwrap();
            service.done().await;
            check_worked_on_again(service, issue).await;
        })
        .await;
}

async fn check_worked_on_again(service: &Service, issue: u64) {
    let jobs = service.fixes().await;
    assert_eq!(jobs.len(), 2, "{jobs:#?}");
    assert!(matches!(jobs[0].outcome, Some(Outcome::Stopped { .. })), "{jobs:#?}");
    assert!(
        matches!(jobs[1].outcome, Some(Outcome::Opened { .. })),
        "{}",
        service.everything_said()
    );
    service.only_pull();
    assert!(service.labels(issue).is_empty());
}

#[tokio::test]
async fn a_stop_answers_for_what_never_began() {
    usual()
        .configuration(|config| {
            config.queue.workers = 2;
            // Nobody looks at those that wait before they are stopped.
            config.queue.poll_seconds = std::time::Duration::from_secs(60);
        })
        .tell(async |service: &mut Service| {
            let gate = CancellationToken::new();
            service.model.play(nothing_to_do().map(|reply| reply.after(&gate)));
            let issue = service.labelled_issue();
            service.model_is_asked(1).await;
            service.comment(issue, "/agent ask What is counted?");
            service.comment(issue, "/agent ask And why?");
            service.github.deliveries_settled().await;
            service.comment(issue, "/agent stop");
            shown(service, issue, "Took back 2 requests that were waiting here.").await;
            service.done().await;
            gate.cancel();
            let first = service.our_comments(issue).remove(0).body;
            assert!(first.starts_with("### \u{23f9}"), "{first}");
        })
        .await;
}
