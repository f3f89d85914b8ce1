//! Each event counts once, whatever order GitHub delivers in and however often.

use std::time::Duration;

use forgehand::clock::Clock;
use forgehand::ids::InstallationId;
use forgehand::job::{JobKind, JobState};
use serde_json::{Value, json};

use super::payloads::{body, comment, installation, issue, label, ourselves, review, review_comment};
use super::{REPO, Service, is_stored, jobs, send, state};
use crate::databases::{each, each_database};

#[tokio::test]
async fn w07_w16_a_redelivery_changes_nothing_even_days_later() {
    each(async |store| {
        let mut state = state(store.clone());
        let clock = Clock::manual(state.clock.now());
        state.clock = clock.clone();
        let service = Service::start(state).await;
        let body = label("labeled", 12, 0);
        assert_eq!(service.deliver("g1", "issues", &body).await.outcome(), "applied");
        clock.advance(Duration::from_secs(8 * 24 * 3600));
        let again = service.deliver("g1", "issues", &body).await;
        assert_eq!((again.status, again.outcome()), (202, "duplicate"));
        // W07b: the GUID is not signed, so a replay may bear another.
        let replayed = service.deliver("g2", "issues", &body).await;
        assert_eq!((replayed.status, replayed.outcome()), (202, "duplicate"));
        assert_eq!(jobs(&store).await.len(), 1);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn w07c_the_events_name_must_fit_its_body() {
    each(async |store| {
        let service = Service::on(&store).await;
        let answer = service
            .deliver("g1", "issues", &comment("created", 500, 12, "/agent fix"))
            .await;
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(!is_stored(&store, "g1").await && jobs(&store).await.is_empty());
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_second_label_waits_for_the_first_to_end_and_a_second_comment_is_queued() {
    each(async |store| {
        let service = Service::on(&store).await;
        service.deliver("g1", "issues", &label("labeled", 12, 0)).await;
        let second = service.deliver("g2", "issues", &label("labeled", 12, 30)).await;
        assert_eq!(second.outcome(), "ignored", "{second:?}");
        // T4: never dropped.
        for (guid, id) in [("g3", 500), ("g4", 501)] {
            let asked = service
                .deliver(guid, "issue_comment", &comment("created", id, 12, "/agent fix"))
                .await;
            assert_eq!(asked.outcome(), "applied", "{asked:?}");
        }
        let chatter = service
            .deliver("g5", "issue_comment", &comment("created", 502, 12, "nice"))
            .await;
        assert_eq!(chatter.outcome(), "ignored");
        assert_eq!(jobs(&store).await.len(), 3);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn t14_one_review_is_one_job() {
    each(async |store| {
        let service = Service::on(&store).await;
        for id in 1..=4 {
            let line = review_comment(id, 13, json!(600), "/agent fix this line");
            service
                .deliver(&format!("g{id}"), "pull_request_review_comment", &line)
                .await;
        }
        service
            .deliver("g9", "pull_request_review", &review(600, 13, "/agent fix"))
            .await;
        assert_eq!(jobs(&store).await.len(), 1);
        // A later review is a request of its own; a comment without a review joins what waits.
        service
            .deliver("g10", "pull_request_review", &review(601, 13, "/agent fix"))
            .await;
        let lonely = review_comment(9, 13, Value::Null, "/agent fix");
        let joined = service.deliver("g11", "pull_request_review_comment", &lonely).await;
        assert!(
            joined.body["detail"].as_str().unwrap().starts_with("joins job"),
            "{joined:?}"
        );
        assert_eq!(jobs(&store).await.len(), 2);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn w12_only_the_installation_that_holds_a_repository_speaks_for_it() {
    each(async |store| {
        let service = Service::on(&store).await;
        service.deliver("g1", "issues", &label("labeled", 1, 0)).await;
        let mut foreign = label("labeled", 2, 0);
        foreign["installation"]["id"] = json!(666);
        let refused = service.deliver("g2", "issues", &foreign).await;
        assert_eq!((refused.status, refused.outcome()), (202, "refused"), "{refused:?}");
        let mut closed = body("closed", json!({"issue": issue(1, 5)}));
        closed["installation"]["id"] = json!(666);
        assert_eq!(service.deliver("g3", "issues", &closed).await.outcome(), "refused");
        assert_eq!(jobs(&store).await.len(), 1);
        assert_eq!(jobs(&store).await[0].state, JobState::Queued);
        // Installed again, the App has another number.
        service.deliver("g4", "installation", &installation("deleted", 3)).await;
        service
            .deliver("g5", "installation", &installation("created", 666))
            .await;
        let held = store.begin().await.unwrap().repo(REPO).await.unwrap().unwrap();
        assert_eq!((held.installation, held.active), (InstallationId(666), true));
        foreign["issue"]["updated_at"] = json!("2026-01-02T03:05:00Z");
        assert_eq!(service.deliver("g6", "issues", &foreign).await.outcome(), "applied");
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn w13_without_the_database_github_is_told_to_deliver_again() {
    each_database(async |database| {
        let store = database.open().await;
        let service = Service::on(&store).await;
        store.close().await;
        let body = label("labeled", 12, 0);
        let down = service.deliver("g1", "issues", &body).await;
        assert_eq!(down.status, 503, "{down:?}");
        assert_eq!(send(service.client.get(service.url("/readyz"))).await.status, 503);
        assert_eq!(send(service.client.get(service.url("/healthz"))).await.status, 200);
        service.stop().await;
        let store = database.open().await;
        let service = Service::on(&store).await;
        assert_eq!(send(service.client.get(service.url("/readyz"))).await.status, 200);
        assert_eq!(service.deliver("g1", "issues", &body).await.outcome(), "applied");
        assert_eq!(service.deliver("g1", "issues", &body).await.outcome(), "duplicate");
        assert_eq!(jobs(&store).await.len(), 1);
        service.stop().await;
        store.close().await;
    })
    .await;
}

#[tokio::test]
async fn w15_nothing_starts_from_a_trigger_that_is_gone() {
    each(async |store| {
        let service = Service::on(&store).await;
        service
            .deliver("g1", "issue_comment", &comment("deleted", 500, 12, "/agent fix"))
            .await;
        let late = service
            .deliver("g2", "issue_comment", &comment("created", 500, 12, "/agent fix"))
            .await;
        assert_eq!(late.outcome(), "ignored", "{late:?}");
        service.deliver("g3", "issues", &label("unlabeled", 12, 9)).await;
        let late = service.deliver("g4", "issues", &label("labeled", 12, 8)).await;
        assert_eq!(late.outcome(), "ignored", "{late:?}");
        let next = service.deliver("g5", "issues", &label("labeled", 12, 10)).await;
        assert_eq!(next.outcome(), "applied", "put on again later: {next:?}");
        service.deliver("g6", "installation", &installation("deleted", 3)).await;
        let late = service.deliver("g7", "issues", &label("labeled", 14, 8)).await;
        assert_eq!(late.outcome(), "refused", "{late:?}");
        let jobs = jobs(&store).await;
        assert_eq!(
            jobs.iter().map(|job| job.state).collect::<Vec<_>>(),
            [JobState::Cancelled]
        );
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn work_stops_when_its_reason_is_gone() {
    each(async |store| {
        let service = Service::on(&store).await;
        let states = async || {
            let mut states: Vec<_> = jobs(&store)
                .await
                .into_iter()
                .map(|job| (job.subject.to_string(), job.state))
                .collect();
            states.sort_by(|a, b| a.0.cmp(&b.0));
            states.into_iter().map(|(_, state)| state).collect::<Vec<_>>()
        };
        service.deliver("g1", "issues", &label("labeled", 1, 0)).await;
        service.deliver("g2", "issues", &label("labeled", 2, 0)).await;
        service
            .deliver("g3", "issue_comment", &comment("created", 500, 3, "/agent fix"))
            .await;
        service
            .deliver("g4", "issue_comment", &comment("created", 501, 4, "/agent fix"))
            .await;
        assert_eq!(states().await, [JobState::Queued; 4]);
        // Our own removal of the label is no wish of anybody.
        let mut own = label("unlabeled", 1, 3);
        own["sender"] = ourselves();
        service.deliver("g5", "issues", &own).await;
        // Taking a label off does not stop what a comment asked for.
        service.deliver("g6", "issues", &label("unlabeled", 4, 3)).await;
        assert_eq!(states().await, [JobState::Queued; 4]);
        service.deliver("g7", "issues", &label("unlabeled", 1, 4)).await;
        service
            .deliver("g8", "issues", &body("closed", json!({"issue": issue(2, 5)})))
            .await;
        service
            .deliver("g9", "issue_comment", &comment("deleted", 500, 3, ""))
            .await;
        use JobState::{Cancelled, Queued};
        assert_eq!(states().await, [Cancelled, Cancelled, Cancelled, Queued]);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn suspended_and_renamed_repositories_are_known() {
    each(async |store| {
        let service = Service::on(&store).await;
        let repo = async || store.begin().await.unwrap().repo(REPO).await.unwrap().unwrap();
        service.deliver("g1", "installation", &installation("created", 3)).await;
        let mut renamed = body(
            "renamed",
            json!({"changes": {"repository": {"name": {"from": "widgets"}}}}),
        );
        renamed["repository"]["full_name"] = json!("octo/gears");
        service.deliver("g2", "repository", &renamed).await;
        assert_eq!(repo().await.name.as_str(), "octo/gears");
        service.deliver("g3", "issues", &label("labeled", 1, 0)).await;
        service.deliver("g4", "installation", &installation("suspend", 3)).await;
        assert!(!repo().await.active);
        assert_eq!(jobs(&store).await[0].state, JobState::Cancelled);
        service
            .deliver("g5", "installation", &installation("unsuspend", 3))
            .await;
        assert!(repo().await.active);
        let answer = service.deliver("g6", "issues", &label("labeled", 1, 9)).await;
        assert_eq!(answer.outcome(), "applied", "{answer:?}");
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn many_at_once_are_all_kept() {
    each(async |store| {
        let service = Service::on(&store).await;
        let all = (0..200_u64).map(|number| {
            let body = label("labeled", number / 2, u32::try_from(number % 2).unwrap());
            let service = &service;
            async move { service.deliver(&format!("g{number}"), "issues", &body).await.status }
        });
        let statuses = futures_util::future::join_all(all).await;
        assert_eq!(statuses, [202; 200]);
        let jobs = jobs(&store).await;
        assert_eq!(jobs.len(), 100, "two labels on each issue, one job");
        assert!(jobs.iter().all(|job| job.kind == JobKind::Fix));
        service.stop().await;
    })
    .await;
}
