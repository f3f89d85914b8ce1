//! Records of the ledger and the messages about them.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use forgehand::clock::Clock;
use forgehand::config::{AlertConfig, AlertOn};
use forgehand::mission::{Cause, Counts, Mission, MissionState};
use forgehand::net::signature;
use forgehand::secret::Secret;
use forgehand::store::{MissionFilter, Store};
use forgehand::unattended::{Alerts, ledger};

use crate::databases::each;
use crate::hook_server::HookServer;

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn mission(id: &str, state: MissionState) -> Mission {
    Mission {
        id: id.to_owned(),
        began: at("2026-01-01T00:00:00Z"),
        ended: at("2026-01-01T00:01:00Z"),
        repository: "octo/words".to_owned(),
        subject: "task/nightly".to_owned(),
        cause: Cause::CommandLine,
        state,
        reason: "why".to_owned(),
        job: None,
        round: 0,
        milestones: Vec::new(),
        counts: Counts::default(),
        cost_usd: 0.25,
        price_unknown: false,
        commits: Vec::new(),
        pull: None,
    }
}

fn alerts(url: &str, on: AlertOn) -> Alerts {
    Alerts::new(&AlertConfig {
        url: Some(Secret::new(url)),
        secret: Some(Secret::new("the secret of the receiver")),
        on,
        timeout_seconds: Duration::from_secs(5),
    })
}

async fn note(store: &Store, mission: &Mission, alerts: &Alerts, clock: &Clock) -> bool {
    let mut tx = store.begin().await.unwrap();
    let is_new = ledger::note(&mut tx, mission, alerts, clock).await.unwrap();
    tx.commit().await.unwrap();
    is_new
}

async fn counts(store: &Store) -> Vec<(String, i64)> {
    store.begin().await.unwrap().alert_counts().await.unwrap()
}

#[tokio::test]
async fn a_failure_is_told_once_signed_and_in_words() {
    each(async |store| {
        let server = HookServer::start([]).await;
        let alerts = alerts(server.url(), AlertOn::Failure);
        let clock = Clock::manual(at("2026-01-01T00:02:00Z"));
        assert!(note(&store, &mission("01", MissionState::Done), &alerts, &clock).await);
        assert!(note(&store, &mission("02", MissionState::Stuck), &alerts, &clock).await);
        assert!(
            !note(&store, &mission("02", MissionState::Stuck), &alerts, &clock).await,
            "again"
        );
        assert_eq!(alerts.send_due(&store, &clock).await.unwrap(), 1);
        assert_eq!(alerts.send_due(&store, &clock).await.unwrap(), 0);
        let messages = server.messages();
        assert_eq!(messages.len(), 1);
        let message = &messages[0];
        let body = message.json();
        assert_eq!(
            body["text"],
            "❌ octo/words task/nightly (command line): stuck · $0.25\nwhy"
        );
        assert_eq!(body["content"], body["text"]);
        assert_eq!((&body["failed"], &body["exit_code"]), (&true.into(), &2.into()));
        assert_eq!(body["record"]["subject"], "task/nightly");
        let timestamp = message.header("x-forgehand-timestamp").parse().unwrap();
        assert_eq!(timestamp, clock.now().timestamp());
        let id = message.header("x-forgehand-delivery");
        assert_eq!(id, "02");
        let secret = Secret::new("the secret of the receiver");
        assert_eq!(
            message.header("x-forgehand-signature"),
            signature(&secret, id, timestamp, &message.body)
        );
        let other = Secret::new("another");
        assert_ne!(
            message.header("x-forgehand-signature"),
            signature(&other, id, timestamp, &message.body)
        );
        assert_eq!(counts(&store).await, [("sent".to_owned(), 1)]);
    })
    .await;
}

#[tokio::test]
async fn a_receiver_that_is_away_gets_it_later_and_one_that_refuses_never() {
    each(async |store| {
        let server = HookServer::start([503, 429, 200, 404]).await;
        let alerts = alerts(server.url(), AlertOn::Always);
        let clock = Clock::manual(at("2026-01-01T00:02:00Z"));
        note(&store, &mission("01", MissionState::Done), &alerts, &clock).await;
        // Not before its time, which doubles.
        for (wait, taken) in [(0, 0), (9, 0), (1, 0), (19, 0), (1, 1)] {
            clock.advance(Duration::from_secs(wait));
            assert_eq!(
                alerts.send_due(&store, &clock).await.unwrap(),
                taken,
                "after {wait} s more"
            );
        }
        assert_eq!(server.messages().len(), 3);
        assert!(
            server
                .messages()
                .iter()
                .all(|message| message.header("x-forgehand-delivery") == "01")
        );
        note(&store, &mission("02", MissionState::Done), &alerts, &clock).await;
        assert_eq!(alerts.send_due(&store, &clock).await.unwrap(), 0);
        clock.advance(Duration::from_secs(100_000));
        assert_eq!(alerts.send_due(&store, &clock).await.unwrap(), 0);
        assert_eq!(server.messages().len(), 4, "what is refused is not sent again");
        assert_eq!(counts(&store).await, [("failed".to_owned(), 1), ("sent".to_owned(), 1)]);
        clock.advance(Duration::from_secs(31 * 24 * 3_600));
        alerts.send_due(&store, &clock).await.unwrap();
        assert_eq!(counts(&store).await, [], "and is forgotten some day");
    })
    .await;
}

#[tokio::test]
async fn nobody_there_is_given_up_some_day_and_its_address_is_not_told() {
    each(async |store| {
        // A port that was free a moment ago.
        let url = HookServer::start([]).await.url().to_owned();
        tokio::task::yield_now().await;
        let alerts = alerts(&url.replace("/hooks/", "/gone/"), AlertOn::Always);
        let clock = Clock::manual(at("2026-01-01T00:02:00Z"));
        note(&store, &mission("01", MissionState::Done), &alerts, &clock).await;
        for _ in 0..11 {
            assert_eq!(counts(&store).await, [("pending".to_owned(), 1)]);
            assert_eq!(alerts.send_due(&store, &clock).await.unwrap(), 0);
            clock.advance(Duration::from_secs(3_600));
        }
        assert_eq!(counts(&store).await, [("failed".to_owned(), 1)]);
    })
    .await;
}

#[tokio::test]
async fn two_processes_send_a_message_once() {
    each(async |store| {
        let server = HookServer::start([]).await;
        let alerts = alerts(server.url(), AlertOn::Always);
        let clock = Clock::manual(at("2026-01-01T00:02:00Z"));
        for id in 0..30 {
            note(
                &store,
                &mission(&format!("{id:02}"), MissionState::Done),
                &alerts,
                &clock,
            )
            .await;
        }
        let passes = (0..3).map(|_| async {
            let mut sent = 0;
            for _ in 0..4 {
                sent += alerts.send_due(&store, &clock).await.unwrap();
            }
            sent
        });
        let sent = futures_util::future::join_all(passes).await;
        assert_eq!(sent.iter().sum::<usize>(), 30);
        let mut ids: Vec<String> = server
            .messages()
            .iter()
            .map(|message| message.header("x-forgehand-delivery").to_owned())
            .collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 30);
    })
    .await;
}

#[tokio::test]
async fn old_records_move_to_files_and_are_found_there() {
    each(async |store| {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::manual(at("2026-03-01T00:00:00Z"));
        let silent = Alerts::new(&AlertConfig::default());
        let mut all = Vec::new();
        for (id, ended) in [
            ("01", "2026-01-05T00:00:00Z"),
            ("02", "2026-02-05T00:00:00Z"),
            ("03", "2026-02-27T00:00:00Z"),
        ] {
            let mission = Mission {
                ended: at(ended),
                ..mission(id, MissionState::Done)
            };
            note(&store, &mission, &silent, &clock).await;
            all.push(mission);
        }
        let rotate = async || {
            ledger::rotate(&store, folder.path(), TimeDelta::days(10), &clock)
                .await
                .unwrap()
        };
        assert_eq!(rotate().await, 2);
        assert_eq!(rotate().await, 0);
        assert_eq!(ledger::rotated(folder.path()).unwrap(), all[..2]);
        let month = std::fs::read_to_string(folder.path().join("ledger/2026-02.jsonl")).unwrap();
        assert_eq!(month.lines().count(), 1);
        let filter = MissionFilter {
            limit: 10,
            ..MissionFilter::default()
        };
        let left = store.begin().await.unwrap().missions(&filter).await.unwrap();
        assert_eq!(left, all[2..]);
        // A crash before the rows went left it in both places.
        note(&store, &all[0], &silent, &clock).await;
        assert_eq!(rotate().await, 1);
        assert_eq!(ledger::rotated(folder.path()).unwrap(), all[..2]);
        assert!(ledger::rotated(&folder.path().join("none")).unwrap().is_empty());
    })
    .await;
}
