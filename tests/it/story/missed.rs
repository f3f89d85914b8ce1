//! Requests while the service is away, of which no webhook and no log tells afterwards.

use forgehand::demo::double::DeliveryState;

use crate::service::{MONA, REPO, Service, nothing_to_do, until, usual};

#[tokio::test]
async fn what_was_asked_while_the_service_was_away_is_done_once_when_it_is_back() {
    usual()
        .tell(async |service: &mut Service| {
            service.model.play(nothing_to_do());
            service.labelled_issue();
            service.done().await;
            service.stop().await;
            let labelled = service.labelled_issue();
            let asked = service.issue_saying("Is it right?", "I am not sure.");
            service.comment(asked, "/agent fix");
            let taken_back = service.labelled_issue();
            service.next_second().await;
            service.github.unlabel_issue(REPO, taken_back, "agent", MONA).unwrap();
            service.github.deliveries_settled().await;
            let was_lost = |state: &DeliveryState| !matches!(state, DeliveryState::Answered(200..=299));
            let sent = service.github.deliveries().into_iter();
            let lost: Vec<String> = sent
                .filter(|sent| was_lost(&sent.state))
                .map(|sent| sent.guid)
                .collect();
            assert!(lost.len() >= 7, "{lost:?}");
            service.github.expire_deliveries();
            service.model.play(nothing_to_do().into_iter().chain(nothing_to_do()));
            service.start().await;
            until("what was asked for is found", async || service.works().await.len() == 3).await;
            service.done().await;
            service.our_only_words(labelled);
            service.our_only_words(asked);
            assert_eq!(service.our_comments(taken_back).len(), 0);
            // The webhooks come after all, and once more under other names.
            for guid in &lost {
                service.github.redeliver(guid).unwrap();
                service.github.redeliver_with_new_guid(guid).unwrap();
            }
            service.done().await;
            assert_eq!(service.jobs().await.len(), 3);
            service.our_only_words(labelled);
            service.our_only_words(asked);
        })
        .await;
}
