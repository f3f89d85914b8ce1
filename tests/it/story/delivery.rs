//! Deliveries that come twice, requests while work goes on, and things that trigger nothing.

use forgehand::demo::double::{DeliveryState, Fault};
use forgehand::job::Outcome;
use tokio_util::sync::CancellationToken;

use crate::service::{MONA, REPO, Service, bug_fix, finish, note, until, usual};

/// The GUID of the delivery that started the first job.
fn guid_of(service: &Service, action: &str) -> String {
    let deliveries = service.github.deliveries();
    let found = deliveries
        .iter()
        .find(|delivery| delivery.action.as_deref() == Some(action));
    found.expect("the delivery was sent").guid.clone()
}

#[tokio::test]
async fn w07_t14_a_delivery_that_comes_again_starts_nothing() {
    usual()
        .tell(async |service: &mut Service| {
            service.model.play(bug_fix());
            let issue = service.labelled_issue();
            let guid = guid_of(service, "labeled");
            service.github.deliver_twice_at_once(&guid).unwrap();
            service.github.redeliver_with_new_guid(&guid).unwrap();
            service.done().await;
            service.github.redeliver(&guid).unwrap();
            service.github.redeliver_with_new_guid(&guid).unwrap();
            service.done().await;
            assert_eq!(service.jobs().await.len(), 1);
            service.only_pull();
            service.our_only_words(issue);
        })
        .await;
}

#[tokio::test]
async fn t4_a_request_while_work_goes_on_is_acknowledged_and_done_afterwards() {
    usual()
        .tell(async |service: &mut Service| {
            let pull = service.opened_pull().await;
            let gate = CancellationToken::new();
            service
                .model
                .play([note("a.txt").after(&gate), finish(), note("b.txt"), finish()]);
            service.comment(pull, "/agent fix Write a.txt.");
            service.model_is_asked(3).await;
            // With words it would reach the work that goes on.
            let second = service.comment(pull, "/agent fix");
            service.comment(pull, "Thank you all!");
            until("the second request is acknowledged", async || {
                let comments = service.github.comments(REPO, pull).unwrap();
                let asked = comments.into_iter().find(|comment| comment.id == second).unwrap();
                asked.reactions.iter().any(|reaction| reaction.content == "eyes")
            })
            .await;
            assert_eq!(service.model.requests().len(), 3, "one job of a pull request at a time");
            gate.cancel();
            service.done().await;
            let branch = service.only_pull().head;
            assert_eq!(service.github.commits(REPO, &branch).await.unwrap().len(), 4);
            assert_eq!(service.fixes().await.len(), 3);
        })
        .await;
}

#[tokio::test]
async fn p07_t1_bots_and_our_own_words_trigger_nothing() {
    usual()
        .tell(async |service: &mut Service| {
            let issue = service.issue();
            service.github.bot("helper[bot]", 77);
            service.comment_by(issue, "/agent fix", "helper[bot]");
            service.comment_by(issue, "/agent fix", &service.github.bot_login());
            service.comment(issue, "I would not say `/agent fix` yet.\n\n> /agent fix\n");
            service.done().await;
            assert!(service.jobs().await.is_empty());
            assert_eq!(service.github.ledger(), []);
        })
        .await;
}

#[tokio::test]
async fn p10_a_closed_or_merged_pull_request_is_left_alone() {
    usual()
        .tell(async |service: &mut Service| {
            let pull = service.opened_pull().await;
            let head = service.only_pull().head_sha;
            service.github.close_issue(REPO, pull, MONA).unwrap();
            service.comment(pull, "/agent fix");
            service.done().await;
            assert!(service.our_only_words(pull).contains("is closed"));
            service.github.reopen_issue(REPO, pull, MONA).unwrap();
            service.github.merge_pull(REPO, pull, MONA).await.unwrap();
            service.comment(pull, "/agent fix");
            service.done().await;
            let last = service.our_comments(pull).pop().unwrap().body;
            assert!(last.contains("is closed") || last.contains("merged"), "{last}");
            assert_eq!(service.only_pull().head_sha, head);
        })
        .await;
}

#[tokio::test]
async fn a_label_on_a_closed_issue_starts_nothing() {
    usual()
        .tell(async |service: &mut Service| {
            let issue = service.issue();
            service.github.close_issue(REPO, issue, MONA).unwrap();
            service.label(issue);
            service.done().await;
            assert!(service.our_only_words(issue).contains("Reopen it"));
            assert!(service.pulls().is_empty());
        })
        .await;
}

#[tokio::test]
async fn j1_two_issues_are_worked_on_at_the_same_time_and_each_gets_its_own() {
    usual()
        .repository(|seed| {
            seed.file("count.sh", "wc -w\n")
                .file("test.sh", "test $(echo a b | sh count.sh) = 2\n")
                .commit("Count words")
        })
        .tell(async |service: &mut Service| {
            let (first, second) = (CancellationToken::new(), CancellationToken::new());
            let script = [
                note("a.txt").after(&first),
                note("b.txt").after(&second),
                finish(),
                finish(),
            ];
            service.model.play(script);
            service.labelled_issue();
            service.model_is_asked(1).await;
            service.labelled_issue();
            service.model_is_asked(2).await;
            first.cancel();
            second.cancel();
            service.done().await;
            let opened = service.fixes().await;
            let all = opened
                .iter()
                .all(|job| matches!(job.outcome, Some(Outcome::Opened { .. })));
            assert!(all, "{opened:#?}");
            let pulls = service.pulls();
            assert_eq!(pulls.len(), 2);
            for pull in pulls {
                let (own, other) = if pull.head.starts_with("agent/1-") {
                    ("+++ b/a.txt", "b.txt")
                } else {
                    ("+++ b/b.txt", "a.txt")
                };
                let diff = service.github.diff(REPO, "main", &pull.head).await.unwrap();
                assert!(diff.contains(own) && !diff.contains(other), "{diff}");
            }
        })
        .await;
}

/// A bot reviews and commands while a person's request is worked on: nothing of it is queued, and
/// nothing stops.
#[tokio::test]
async fn t5_the_review_of_a_bot_neither_starts_nor_stops_anything() {
    usual()
        .tell(async |service: &mut Service| {
            service.github.bot("helper[bot]", 77);
            let pull = service.opened_pull().await;
            let gate = CancellationToken::new();
            service.model.play([note("a.txt"), finish().after(&gate)]);
            service.comment(pull, "/agent fix Write a.txt.");
            service.model_is_asked(4).await;
            let review = ("CHANGES_REQUESTED", "/agent fix Rename everything.");
            let by = "helper[bot]";
            service.github.submit_review(REPO, pull, review, &[], by).unwrap();
            service.comment_by(pull, "/agent stop", by);
            service.github.deliveries_settled().await;
            gate.cancel();
            service.done().await;
            assert!(matches!(service.outcome().await, Outcome::Pushed { .. }));
            assert_eq!(service.jobs().await.len(), 2);
            assert!(service.our_only_words(pull).starts_with("### ✅"));
        })
        .await;
}

/// GitHub's API and the model say nothing at all: the webhook is answered, the work is not done.
#[tokio::test]
async fn t8_a_delivery_is_answered_before_the_work_begins() {
    usual()
        .tell(async |service: &mut Service| {
            service.github.fault("GET /repos/octo/words", Fault::Hang, 1);
            let gate = CancellationToken::new();
            let [first, second] = bug_fix();
            service.model.play([first.after(&gate), second]);
            let issue = service.labelled_issue();
            service.github.deliveries_settled().await;
            let states: Vec<DeliveryState> = service.github.deliveries().into_iter().map(|one| one.state).collect();
            assert!(
                states.iter().all(|state| *state == DeliveryState::Answered(202)),
                "{states:?}"
            );
            assert!(!service.fix().await.state.is_final());
            gate.cancel();
            service.done().await;
            service.only_pull();
            service.our_only_words(issue);
        })
        .await;
}

/// Issue 1 is not issue 11: neither its branch nor its pull request is taken for ours.
#[tokio::test]
async fn t11_the_branch_of_another_issue_is_not_taken_for_ours() {
    usual()
        .tell(async |service: &mut Service| {
            let near = [
                "agent/11-the-last-word-is-not-counted",
                "agent/1-the-last-word-is-not-counted-again",
            ];
            let mut theirs = Vec::new();
            for branch in near {
                let files = [("mona.txt", "mine\n")];
                theirs.push(service.github.push(REPO, branch, &files, "Mine", MONA).await.unwrap());
            }
            service.model.play(bug_fix());
            service.labelled_issue();
            service.done().await;
            assert_eq!(service.only_pull().head, "agent/1-the-last-word-is-not-counted");
            for (branch, before) in near.into_iter().zip(theirs) {
                assert_eq!(service.github.branch(REPO, branch).unwrap(), Some(before));
            }
        })
        .await;
}
