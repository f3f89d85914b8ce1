//! Jobs that ended without their worker, and whether the last words were said.

use super::*;
use crate::databases::each;
use forgehand::effect::{EffectBody, EffectState, NewEffect};
use forgehand::ids::IssueNumber;

fn status(job: &JobId) -> NewEffect {
    NewEffect {
        seq: 2,
        dedupe_key: format!("{job}/2"),
        body: EffectBody::StatusComment {
            number: IssueNumber(1),
            body: "Working".to_owned(),
        },
    }
}

#[tokio::test]
async fn a_job_that_was_cancelled_while_it_waited_is_settled_once() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        let (job, since) = (lease.job.clone(), in_seconds(-600));
        let unsettled = async || {
            with(&store, async |tx| tx.unsettled_jobs(since, 10).await)
                .await
                .unwrap()
        };
        with(&store, async |tx| tx.insert_effects(&lease, &[status(&job)]).await)
            .await
            .unwrap();
        with(&store, async |tx| {
            tx.move_effect(&lease, 2, EffectState::Sending, None, None).await
        })
        .await
        .unwrap();
        with(&store, async |tx| {
            tx.move_effect(&lease, 2, EffectState::Done, Some("77"), None).await
        })
        .await
        .unwrap();
        with(&store, async |tx| tx.snooze_job(&lease, in_seconds(300), "later").await)
            .await
            .unwrap();
        assert_eq!(unsettled().await, [], "it is not over");
        with(&store, async |tx| {
            tx.cancel_job(&job, "not needed", in_seconds(0)).await
        })
        .await
        .unwrap();
        assert_eq!(unsettled().await, std::slice::from_ref(&job));
        with(&store, async |tx| {
            tx.note_settled(&job, 20, EffectState::Done, "77").await
        })
        .await
        .unwrap();
        assert_eq!(unsettled().await, []);
        with(&store, async |tx| {
            tx.note_settled(&job, 20, EffectState::Done, "77").await
        })
        .await
        .unwrap();
        let effects = with(&store, async |tx| tx.effects(&job).await).await.unwrap();
        let last = effects.last().unwrap();
        assert_eq!((effects.len(), last.seq, last.state), (2, 20, EffectState::Done));
        assert_eq!(last.remote_id.as_deref(), Some("77"));
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_job_without_a_status_comment_has_nothing_to_settle() {
    each(async |store| {
        let id = insert(&store, &fix(1)).await;
        with(&store, async |tx| tx.cancel_job(&id, "closed", in_seconds(0)).await)
            .await
            .unwrap();
        let unsettled = with(&store, async |tx| tx.unsettled_jobs(in_seconds(-600), 10).await)
            .await
            .unwrap();
        assert_eq!(unsettled, []);
    })
    .await;
}

/// I8: the notice of a death is given to one process, and again only when it did not arrive.
#[tokio::test]
async fn i8_the_notice_of_a_dead_job_is_taken_by_one() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        let job = lease.job.clone();
        let take = async |wait: i64| {
            let wait = TimeDelta::seconds(wait);
            with(&store, async |tx| tx.take_notice(&job, &status(&job), wait).await)
                .await
                .unwrap()
        };
        assert!(!take(0).await, "it is not dead");
        with(&store, async |tx| tx.insert_effects(&lease, &[status(&job)]).await)
            .await
            .unwrap();
        with(&store, async |tx| tx.bury_job(&lease, "broken").await)
            .await
            .unwrap();
        let unsettled = async || {
            with(&store, async |tx| tx.unsettled_jobs(in_seconds(-600), 10).await)
                .await
                .unwrap()
        };
        assert_eq!(unsettled().await, std::slice::from_ref(&job), "nobody was told");
        assert!(take(60).await, "the worker's own was skipped");
        assert!(!take(60).await, "it may still arrive");
        assert!(take(-1).await, "it did not arrive");
        with(&store, async |tx| tx.return_notice(&job, 2).await).await.unwrap();
        assert!(take(60).await, "it was not sent");
        with(&store, async |tx| tx.note_announced(&job, 2, "77").await)
            .await
            .unwrap();
        assert!(!take(-1).await, "it is there");
        with(&store, async |tx| tx.return_notice(&job, 2).await).await.unwrap();
        let effects = with(&store, async |tx| tx.effects(&job).await).await.unwrap();
        assert_eq!((effects.len(), effects[0].state), (1, EffectState::Done));
        with(&store, async |tx| {
            tx.note_settled(&job, 980, EffectState::Done, "77").await
        })
        .await
        .unwrap();
        assert_eq!(unsettled().await, []);
    })
    .await;
}

#[tokio::test]
async fn t15_a_label_is_settled_although_the_job_never_began() {
    each(async |store| {
        let mut job = fix(1);
        job.request.trigger = Trigger::Label {
            label: "agent".to_owned(),
        };
        let id = insert(&store, &job).await;
        let unsettled = async || {
            with(&store, async |tx| tx.unsettled_jobs(in_seconds(-600), 10).await)
                .await
                .unwrap()
        };
        assert_eq!(unsettled().await, [], "it is not over");
        with(&store, async |tx| tx.cancel_job(&id, "not needed", in_seconds(0)).await)
            .await
            .unwrap();
        assert_eq!(unsettled().await, std::slice::from_ref(&id));
        with(&store, async |tx| {
            tx.note_settled(&id, 20, EffectState::Failed, "no comment").await
        })
        .await
        .unwrap();
        assert_eq!(unsettled().await, []);
    })
    .await;
}

#[tokio::test]
async fn a_key_is_taken_once_any_job_has_it() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        let key = format!("{}/2", lease.job);
        let taken = async || {
            with(&store, async |tx| tx.effect_key_is_taken(&key).await)
                .await
                .unwrap()
        };
        assert!(!taken().await);
        with(&store, async |tx| {
            tx.insert_effects(&lease, &[status(&lease.job)]).await
        })
        .await
        .unwrap();
        assert!(taken().await);
    })
    .await;
}
