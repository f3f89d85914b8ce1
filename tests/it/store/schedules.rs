//! Schedules of the command line, how far their fires were looked at, and what became of each.

use super::*;
use crate::databases::each;
use forgehand::schedule::{CatchUp, Written};
use forgehand::store::ScheduleCursor;

fn nightly() -> Written {
    Written {
        name: Some("nightly".to_owned()),
        cron: Some("30 2 * * *".to_owned()),
        timezone: "Europe/Berlin".to_owned(),
        jitter_seconds: 5,
        repository: Some("octo/widgets".to_owned()),
        task: Some("Tidy \u{0} up — 整理".to_owned()),
        skill: None,
        graph: None,
        eval: None,
        min_mrr: 0,
        enabled: true,
        catch_up: CatchUp::None,
    }
}

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn cursor(timetable: &str, until: &str) -> ScheduleCursor {
    ScheduleCursor {
        timetable: timetable.to_owned(),
        until: at(until),
    }
}

#[tokio::test]
async fn a_schedule_is_added_once_and_goes_with_its_cursor() {
    each(async |store| {
        let add = async || with(&store, async |tx| tx.add_schedule("nightly", &nightly(), now()).await).await;
        assert!(add().await.unwrap());
        assert!(!add().await.unwrap(), "its name is taken");
        let added = with(&store, async |tx| tx.added_schedules().await).await.unwrap();
        assert_eq!(added.len(), 1);
        assert_eq!(added[0].written, nightly());
        let here = cursor("30 2 * * * Europe/Berlin", "2026-03-01T00:00:00Z");
        with(&store, async |tx| tx.begin_schedule("nightly", &here).await)
            .await
            .unwrap();
        let remove = async || {
            with(&store, async |tx| tx.remove_schedule("nightly").await)
                .await
                .unwrap()
        };
        assert!(remove().await);
        assert!(!remove().await);
        let seen = with(&store, async |tx| tx.schedule_cursor("nightly").await)
            .await
            .unwrap();
        assert_eq!(seen, None, "the next of this name begins anew");
    })
    .await;
}

#[tokio::test]
async fn a_cursor_is_moved_by_one_from_where_it_was_seen() {
    each(async |store| {
        let first = cursor("a", "2026-03-01T00:00:00.123456Z");
        let begin = async || {
            with(&store, async |tx| tx.begin_schedule("nightly", &first).await)
                .await
                .unwrap()
        };
        assert!(begin().await);
        assert!(!begin().await, "somebody began before");
        let seen = with(&store, async |tx| tx.schedule_cursor("nightly").await)
            .await
            .unwrap();
        assert_eq!(seen.as_ref(), Some(&first), "to the microsecond");
        let next = cursor("a", "2026-03-02T00:00:00Z");
        let move_on = async |from: &ScheduleCursor| {
            with(&store, async |tx| tx.move_schedule("nightly", from, &next).await)
                .await
                .unwrap()
        };
        assert!(
            !move_on(&cursor("b", "2026-03-01T00:00:00.123456Z")).await,
            "another timetable"
        );
        assert!(move_on(&first).await);
        assert!(!move_on(&first).await, "somebody else moved it");
    })
    .await;
}

#[tokio::test]
async fn a_fire_is_noted_once_and_told_with_its_job() {
    each(async |store| {
        let (one, two) = (at("2026-03-01T01:30:00Z"), at("2026-03-02T01:30:00Z"));
        let note = async |fire| with(&store, async |tx| tx.note_fire("nightly", fire, "missed", now()).await).await;
        assert!(note(one).await.unwrap());
        assert!(note(two).await.unwrap());
        assert!(!note(two).await.unwrap(), "it was before");
        let new = NewJob {
            dedupe_key: Some("schedule:nightly".to_owned()),
            ..fix(1)
        };
        let job = insert(&store, &new).await;
        with(&store, async |tx| {
            tx.settle_fire("nightly", two, "started", Some(&job)).await
        })
        .await
        .unwrap();
        let open = async || {
            with(&store, async |tx| tx.open_job("schedule:nightly").await)
                .await
                .unwrap()
        };
        assert_eq!(open().await.as_ref(), Some(&job));
        let fires = async |name: Option<&str>, limit| {
            with(&store, async |tx| tx.schedule_fires(name, limit).await)
                .await
                .unwrap()
        };
        let all = fires(None, 10).await;
        let told: Vec<_> = all
            .iter()
            .map(|fire| (fire.fire_at, fire.outcome.as_str(), fire.job_state))
            .collect();
        assert_eq!(told, [(two, "started", Some(JobState::Queued)), (one, "missed", None)]);
        assert_eq!(fires(Some("nightly"), 1).await, all[..1]);
        assert_eq!(fires(Some("weekly"), 10).await, []);
        with(&store, async |tx| tx.cancel_job(&job, "not needed", now()).await)
            .await
            .unwrap();
        assert_eq!(open().await, None);
        assert_eq!(fires(None, 1).await[0].job_state, Some(JobState::Cancelled));
        let forget = async |after| {
            with(&store, async |tx| tx.forget_fires_after("nightly", after).await)
                .await
                .unwrap()
        };
        assert_eq!(forget(one).await, 0, "what began something is not forgotten");
        assert_eq!(forget(at("2026-02-28T00:00:00Z")).await, 1);
        assert_eq!(fires(None, 10).await.len(), 1);
    })
    .await;
}
