//! The ledger of unattended runs and its alerts, statement by statement.

use super::*;
use crate::databases::each;
use forgehand::mission::{Cause, Mission, MissionState};
use forgehand::store::MissionFilter;

fn nightly(number: u64) -> NewJob {
    let mut job = fix(number);
    job.request.trigger = Trigger::Schedule {
        name: "nightly".to_owned(),
        fire_at: in_seconds(-60),
    };
    job
}

#[tokio::test]
async fn each_round_of_an_unattended_job_is_accounted_for_once() {
    each(async |store| {
        let unaccounted = async || {
            with(&store, async |tx| tx.unaccounted_jobs(in_seconds(-600), 10).await)
                .await
                .unwrap()
        };
        with(&store, async |tx| tx.insert_job(&fix(1), now()).await)
            .await
            .unwrap();
        let planned = with(&store, async |tx| tx.insert_job(&nightly(2), now()).await)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(unaccounted().await, [], "nothing is over");
        for _ in 0..2 {
            let leased = with(&store, async |tx| tx.claim_job("w", LONG).await)
                .await
                .unwrap()
                .unwrap();
            with(&store, async |tx| tx.bury_job(&leased.lease, "the model is away").await)
                .await
                .unwrap();
        }
        assert_eq!(
            unaccounted().await,
            std::slice::from_ref(&planned),
            "somebody waits for the other"
        );
        let late = with(&store, async |tx| tx.unaccounted_jobs(in_seconds(600), 10).await).await;
        assert_eq!(late.unwrap(), [], "the records of what ended before may have left");
        let job = with(&store, async |tx| tx.job(&planned).await).await.unwrap().unwrap();
        let mission = Mission::of(&job, "01".to_owned()).unwrap();
        assert_eq!(
            (mission.state, mission.reason.as_str()),
            (MissionState::Failed, "the model is away")
        );
        assert!(matches!(&mission.cause, Cause::Schedule { name, .. } if name == "nightly"));
        let insert = async |mission: &Mission| with(&store, async |tx| tx.insert_mission(mission).await).await.unwrap();
        assert!(insert(&mission).await);
        let again = Mission {
            id: "02".to_owned(),
            ..mission.clone()
        };
        assert!(!insert(&again).await, "the round has its record");
        assert_eq!(unaccounted().await, []);
        assert!(
            insert(&Mission {
                round: 1,
                ..again.clone()
            })
            .await,
            "another round has another"
        );
    })
    .await;
}

#[tokio::test]
async fn records_are_found_by_what_is_asked() {
    each(async |store| {
        let planned = with(&store, async |tx| tx.insert_job(&nightly(2), now()).await)
            .await
            .unwrap()
            .unwrap();
        let leased = with(&store, async |tx| tx.claim_job("w", LONG).await)
            .await
            .unwrap()
            .unwrap();
        with(&store, async |tx| tx.bury_job(&leased.lease, "the model is away").await)
            .await
            .unwrap();
        let job = with(&store, async |tx| tx.job(&planned).await).await.unwrap().unwrap();
        let mission = Mission::of(&job, "01".to_owned()).unwrap();
        let again = Mission {
            id: "02".to_owned(),
            round: 1,
            ..mission.clone()
        };
        let insert = async |mission: &Mission| with(&store, async |tx| tx.insert_mission(mission).await).await.unwrap();
        assert!(insert(&mission).await && insert(&again).await);
        let read = async |filter: MissionFilter| with(&store, async |tx| tx.missions(&filter).await).await.unwrap();
        let some = MissionFilter {
            limit: 10,
            ..MissionFilter::default()
        };
        let ids = |missions: Vec<Mission>| missions.into_iter().map(|mission| mission.id).collect::<Vec<_>>();
        assert_eq!(ids(read(some.clone()).await), ["02", "01"], "the newest first");
        assert_eq!(
            read(MissionFilter {
                limit: 1,
                ..some.clone()
            })
            .await[0]
                .round,
            1
        );
        let elsewhere = Some("octo/other".to_owned());
        assert_eq!(
            ids(read(MissionFilter {
                repository: elsewhere,
                ..some.clone()
            })
            .await),
            [""; 0]
        );
        let later = Some(in_seconds(3_600));
        assert_eq!(
            ids(read(MissionFilter {
                since: later,
                ..some.clone()
            })
            .await),
            [""; 0]
        );
        let well = Mission {
            id: "03".to_owned(),
            state: MissionState::Done,
            job: None,
            ..mission.clone()
        };
        assert!(
            insert(&well).await
                && insert(&Mission {
                    id: "04".to_owned(),
                    ..well
                })
                .await,
            "of no job"
        );
        assert_eq!(
            ids(read(MissionFilter {
                failed: true,
                ..some.clone()
            })
            .await),
            ["02", "01"]
        );
    })
    .await;
}

#[tokio::test]
async fn old_records_leave_the_oldest_first() {
    each(async |store| {
        let mission = |id: &str| {
            let ended = in_seconds(-60);
            serde_json::from_value::<Mission>(serde_json::json!({
                "id": id, "began": ended, "ended": ended, "repository": "octo/words", "subject": "task/nightly",
                "cause": {"by": "command_line"}, "state": "done", "cost_usd": 0.0,
                "counts": {"turns": 0, "tool_calls": 0, "input_tokens": 0, "output_tokens": 0, "attempts": 1},
            }))
            .unwrap()
        };
        for id in ["03", "01", "04", "02"] {
            let mission = mission(id);
            with(&store, async |tx| tx.insert_mission(&mission).await)
                .await
                .unwrap();
        }
        let take = async |before| {
            with(&store, async |tx| tx.take_missions_before(before, 3).await)
                .await
                .unwrap()
        };
        let ids = |missions: Vec<Mission>| missions.into_iter().map(|mission| mission.id).collect::<Vec<_>>();
        assert_eq!(ids(take(in_seconds(-3_600)).await), [""; 0], "they are younger");
        assert_eq!(ids(take(in_seconds(60)).await), ["01", "02", "03"]);
        assert_eq!(ids(take(in_seconds(60)).await), ["04"]);
    })
    .await;
}

#[tokio::test]
async fn an_alert_is_taken_by_one_at_a_time() {
    each(async |store| {
        let take = async |now, until| with(&store, async |tx| tx.take_alert(now, until).await).await.unwrap();
        for _ in 0..2 {
            with(&store, async |tx| tx.insert_alert("01", "{}", in_seconds(0)).await)
                .await
                .unwrap();
        }
        assert_eq!(take(in_seconds(-5), in_seconds(60)).await, None, "it is not due");
        let first = take(in_seconds(5), in_seconds(60)).await.unwrap();
        assert_eq!((first.id.as_str(), first.body.as_str(), first.tries), ("01", "{}", 1));
        assert_eq!(take(in_seconds(5), in_seconds(60)).await, None, "somebody has it");
        let second = take(in_seconds(61), in_seconds(120)).await.unwrap();
        assert_eq!(second.tries, 2, "who had it is gone");
        with(&store, async |tx| {
            tx.alert_failed("01", "away", Some(in_seconds(200))).await
        })
        .await
        .unwrap();
        assert_eq!(take(in_seconds(150), in_seconds(300)).await, None);
        assert!(take(in_seconds(201), in_seconds(300)).await.is_some());
        with(&store, async |tx| tx.alert_sent("01").await).await.unwrap();
        with(&store, async |tx| tx.alert_failed("01", "late", None).await)
            .await
            .unwrap();
        let counts = with(&store, async |tx| tx.alert_counts().await).await.unwrap();
        assert_eq!(counts, [("sent".to_owned(), 1)], "what was taken stays so");
        assert_eq!(take(in_seconds(9_999), in_seconds(10_000)).await, None);
        let delete = async |before| with(&store, async |tx| tx.delete_alerts(before).await).await.unwrap();
        assert_eq!((delete(in_seconds(0)).await, delete(in_seconds(999)).await), (0, 1));
    })
    .await;
}
