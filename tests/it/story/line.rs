//! Requests that wait for their turn: one status comment from the beginning, which says where they
//! stand, moves up with them, and comes to its end even where the work never begins.

use forgehand::demo::double::Fault;
use forgehand::effect::{EffectBody, EffectState};
use forgehand::job::{Job, Outcome};
use tokio_util::sync::CancellationToken;

use crate::service::{MONA, REPO, Service, Setup, bug_fix, finish, lasting, mend, nothing_to_do, until, usual};

/// One thing at a time.
fn with_one_worker() -> Setup {
    usual().configuration(|config| config.queue.workers = 1)
}

/// Waits until our only comment there has these words.
async fn shown(service: &Service, number: u64, words: &str) {
    until(&format!("{words:?} is shown"), async || {
        let comments = service.our_comments(number);
        comments.len() == 1 && comments[0].body.contains(words)
    })
    .await;
}

/// The last job.
async fn last(service: &Service) -> Job {
    service.works().await.pop().expect("there is a job")
}

#[tokio::test]
async fn a_request_that_waits_shows_its_place_and_moves_up() {
    with_one_worker()
        .tell(async |service: &mut Service| {
            let gate = service.occupied().await;
            let first = service.labelled_issue();
            service.github.deliveries_settled().await;
            let second = service.labelled_issue();
            shown(service, first, "It is next in line.").await;
            shown(service, second, "1 request goes before it.").await;
            insta::assert_snapshot!("status_in_the_queue", lasting(&service.our_only_words(second)));
            let next = CancellationToken::new();
            service.model.play([mend().after(&next), finish()]);
            service.model.play(bug_fix());
            gate.cancel();
            shown(service, second, "It is next in line.").await;
            shown(service, first, "### ⏳ Working on it").await;
            next.cancel();
            service.done().await;
            for issue in [first, second] {
                assert!(service.our_only_words(issue).starts_with("### ✅ Done"));
            }
            assert_eq!(service.pulls().len(), 2);
        })
        .await;
}

#[tokio::test]
async fn a_request_that_is_taken_back_says_so_in_its_comment() {
    usual()
        .tell(async |service: &mut Service| {
            let gate = CancellationToken::new();
            service.model.play(nothing_to_do().map(|reply| reply.after(&gate)));
            let issue = service.labelled_issue();
            service.model_is_asked(1).await;
            service.comment(issue, "/agent ask What is counted?");
            until("its place is shown", async || {
                let comments = service.our_comments(issue);
                comments.len() == 2 && comments[1].body.starts_with("### 🕓 Queued")
            })
            .await;
            service.comment(issue, "/agent stop");
            service.done().await;
            gate.cancel();
            let said = service.our_comments(issue);
            assert_eq!(said.len(), 2, "{said:#?}");
            assert!(
                said.iter().all(|comment| comment.body.starts_with("### ⏹️")),
                "{said:#?}"
            );
        })
        .await;
}

/// GitHub took the comment and did not say so; whether the job has its turn or not, there is one.
async fn check_lost(is_withdrawn: bool) {
    with_one_worker()
        .tell(async |service: &mut Service| {
            let gate = service.occupied().await;
            let create = "POST /repos/octo/words/issues/*/comments";
            service.github.fault(create, Fault::ApplyThenReset, 1);
            let issue = service.labelled_issue();
            shown(service, issue, "### 🕓 Queued").await;
            if is_withdrawn {
                service.github.unlabel_issue(REPO, issue, "agent", MONA).unwrap();
            } else {
                service.model.play(bug_fix());
            }
            service.github.deliveries_settled().await;
            gate.cancel();
            service.done().await;
            let (words, outcome) = (service.our_only_words(issue), service.outcome().await);
            match is_withdrawn {
                true => assert!(words.starts_with("### ⏹️"), "{words}"),
                false => assert!(matches!(outcome, Outcome::Opened { .. }), "{outcome:?}\n{words}"),
            }
        })
        .await;
}

#[tokio::test]
async fn a_place_whose_answer_is_lost_is_shown_once() {
    check_lost(false).await;
}

#[tokio::test]
async fn a_place_whose_answer_is_lost_is_settled_without_its_job() {
    check_lost(true).await;
}

#[tokio::test]
async fn a_place_that_github_does_not_take_is_left_to_the_job() {
    with_one_worker()
        .tell(async |service: &mut Service| {
            let gate = service.occupied().await;
            let create = "POST /repos/octo/words/issues/*/comments";
            service.github.fault(create, Fault::status(422, "No."), 1);
            let issue = service.labelled_issue();
            let returned = async || {
                let job = last(service).await;
                let mut tx = service.store.begin().await.unwrap();
                let effects = tx.effects(&job.id).await.unwrap();
                let mut status = effects
                    .iter()
                    .filter(|effect| matches!(effect.body, EffectBody::StatusComment { .. }));
                status.any(|effect| effect.state == EffectState::Pending)
            };
            until("the comment is given back", returned).await;
            service.model.play(bug_fix());
            gate.cancel();
            service.done().await;
            assert!(service.our_only_words(issue).starts_with("### ✅ Done"));
        })
        .await;
}

/// Whoever may not ask learns so when the turn comes, once and politely, and not before.
#[tokio::test]
async fn a_stranger_has_no_place() {
    with_one_worker()
        .tell(async |service: &mut Service| {
            service.github.person("eve");
            let gate = service.occupied().await;
            let theirs = service.issue();
            service.comment_by(theirs, "/agent fix", "eve");
            service.github.deliveries_settled().await;
            let ours = service.labelled_issue();
            // It came later, so the stranger's was looked at before.
            shown(service, ours, "### 🕓 Queued").await;
            assert!(service.our_comments(theirs).is_empty());
            service.model.play(bug_fix());
            gate.cancel();
            service.done().await;
            assert!(service.our_only_words(theirs).starts_with("Only people who may write"));
        })
        .await;
}
