//! Status comments of jobs that wait for their first claim.

use super::*;
use crate::databases::each;
use forgehand::effect::EffectState;

fn status(job: &JobId) -> NewEffect {
    NewEffect {
        seq: 2,
        dedupe_key: format!("{job}/2"),
        body: EffectBody::StatusComment {
            number: IssueNumber(1),
            body: "Starting".to_owned(),
        },
    }
}

async fn announce(store: &Store, job: &JobId) -> bool {
    let row = status(job);
    with(store, async |tx| tx.announce_job(job, &row).await).await.unwrap()
}

async fn row(store: &Store, job: &JobId) -> (EffectState, u32, Option<String>) {
    let effects = with(store, async |tx| tx.effects(job).await).await.unwrap();
    assert_eq!(effects.len(), 1, "{effects:#?}");
    (effects[0].state, effects[0].tries, effects[0].remote_id.clone())
}

async fn violations(store: &Store) -> usize {
    with(store, async |tx| tx.violations().await).await.unwrap().len()
}

#[tokio::test]
async fn the_comment_of_a_job_that_waits_is_given_to_one() {
    each(async |store| {
        let job = insert(&store, &fix(1)).await;
        let tries = [announce(&store, &job), announce(&store, &job), announce(&store, &job)];
        let [first, second, third] = tries;
        let taken = tokio::join!(first, second, third);
        assert_eq!([taken.0, taken.1, taken.2].iter().filter(|taken| **taken).count(), 1);
        assert_eq!(row(&store, &job).await, (EffectState::Unknown, 1, None));
        with(&store, async |tx| tx.note_announced(&job, 2, "77").await)
            .await
            .unwrap();
        let done = (EffectState::Done, 1, Some("77".to_owned()));
        assert_eq!(row(&store, &job).await, done);
        // Nothing that comes late changes it, and the worker finds it as its own.
        with(&store, async |tx| tx.return_announcement(&job, 2).await)
            .await
            .unwrap();
        let lease = claim(&store, "worker-1", LONG).await.unwrap().lease;
        with(&store, async |tx| tx.insert_effects(&lease, &[status(&job)]).await)
            .await
            .unwrap();
        assert_eq!(row(&store, &job).await, done);
        assert_eq!(violations(&store).await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_comment_that_was_not_written_is_left_to_the_job() {
    each(async |store| {
        let job = insert(&store, &fix(1)).await;
        assert!(announce(&store, &job).await);
        with(&store, async |tx| tx.return_announcement(&job, 2).await)
            .await
            .unwrap();
        assert_eq!(row(&store, &job).await, (EffectState::Pending, 0, None));
        with(&store, async |tx| tx.cancel_job(&job, "not needed", now()).await)
            .await
            .unwrap();
        assert_eq!(row(&store, &job).await.0, EffectState::Skipped);
        // The same where the job ended before it was given back.
        let other = insert(&store, &fix(2)).await;
        assert!(announce(&store, &other).await);
        with(&store, async |tx| tx.cancel_job(&other, "not needed", now()).await)
            .await
            .unwrap();
        let unsettled = with(&store, async |tx| tx.unsettled_jobs(in_seconds(-600), 10).await);
        assert_eq!(
            unsettled.await.unwrap(),
            std::slice::from_ref(&other),
            "it may be there"
        );
        with(&store, async |tx| tx.return_announcement(&other, 2).await)
            .await
            .unwrap();
        assert_eq!(row(&store, &other).await.0, EffectState::Skipped);
        assert_eq!(violations(&store).await, 0);
    })
    .await;
}

#[tokio::test]
async fn what_a_worker_has_is_not_announced() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        assert!(!announce(&store, &lease.job).await);
        with(&store, async |tx| tx.snooze_job(&lease, in_seconds(300), "later").await)
            .await
            .unwrap();
        assert!(!announce(&store, &lease.job).await, "its worker has written it");
        let gone = insert(&store, &fix(2)).await;
        with(&store, async |tx| tx.cancel_job(&gone, "not needed", now()).await)
            .await
            .unwrap();
        assert!(!announce(&store, &gone).await);
    })
    .await;
}
