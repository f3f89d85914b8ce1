//! The service ends in the middle of work, in whatever way, and the work goes on afterwards.

use forgehand::event::RunEvent;
use forgehand::job::Outcome;

use crate::model_server::Reply;
use crate::service::{REPO, Service, bug_fix, finish, mend, usual};

#[tokio::test]
async fn work_goes_on_after_a_restart_without_repeating_a_turn() {
    usual()
        .tell(async |service: &mut Service| {
            service.model.play([mend(), Reply::silence()]);
            let issue = service.labelled_issue();
            service.model_is_asked(2).await;
            service.stop().await;
            assert!(service.pulls().is_empty());
            service.model.play([finish()]);
            service.start().await;
            service.done().await;
            service.only_pull();
            service.our_only_words(issue);
            let asked = service.model.requests();
            assert_eq!(asked.len(), 3);
            assert_eq!(
                asked[1].messages(),
                asked[2].messages(),
                "the conversation goes on where it was"
            );
            let job = service.fix().await;
            assert_eq!(job.attempt, 1, "a stop costs no attempt");
            let resumed = |event: &&RunEvent| matches!(event, RunEvent::RunResumed { .. });
            assert_eq!(service.events(&job).await.iter().filter(resumed).count(), 1);
        })
        .await;
}

#[tokio::test]
async fn a_service_that_starts_finds_what_it_was_sent_before() {
    usual()
        .configuration(|config| config.queue.workers = 1)
        .tell(async |service: &mut Service| {
            let gate = service.occupied().await;
            let issue = service.labelled_issue();
            service.github.deliveries_settled().await;
            service.stop().await;
            service.model.play(crate::service::nothing_to_do());
            service.model.play(bug_fix());
            gate.cancel();
            service.start().await;
            service.done().await;
            service.only_pull();
            service.our_only_words(issue);
        })
        .await;
}

#[tokio::test]
async fn a_job_that_a_person_starts_again_has_a_round_of_its_own() {
    usual()
        .tell(async |service: &mut Service| {
            service.model.play([Reply::error(402, "insufficient credits")]);
            let issue = service.labelled_issue();
            service.done().await;
            let job = service.fix().await;
            service.model.play(bug_fix());
            let mut tx = service.store.begin().await.unwrap();
            assert!(tx.requeue_job(&job.id, chrono::Utc::now()).await.unwrap());
            tx.commit().await.unwrap();
            service.done().await;
            let outcome = service.outcome().await;
            assert!(matches!(outcome, Outcome::Opened { .. }), "{outcome:?}");
            let said = service.our_comments(issue);
            assert_eq!(said.len(), 2, "one status comment for each round: {said:#?}");
            assert!(said[0].body.starts_with("### ❌") && said[1].body.starts_with("### ✅"));
            assert_eq!(service.github.branches(REPO).unwrap().len(), 2);
        })
        .await;
}
