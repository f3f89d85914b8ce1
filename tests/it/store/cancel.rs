//! Stopping a job from outside, in each state it may be in.

use super::*;
use crate::databases::{each, each_database};
use forgehand::effect::EffectState;
use forgehand::store::CancelResult;

async fn cancel(store: &Store, id: &JobId) -> CancelResult {
    with(store, async |tx| tx.cancel_job(id, "the issue was closed", now()).await)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_queued_job_is_cancelled_at_once() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        with(&store, async |tx| {
            tx.insert_effects(&lease, &[comment(&lease.job, 1)]).await
        })
        .await
        .unwrap();
        with(&store, async |tx| tx.retry_job(&lease, in_seconds(60), "later").await)
            .await
            .unwrap();
        assert_eq!(cancel(&store, &lease.job).await, CancelResult::Cancelled);
        let job = load(&store, &lease.job).await;
        assert_eq!(
            (job.state, job.reason.as_deref()),
            (JobState::Cancelled, Some("the issue was closed"))
        );
        assert!(matches!(job.outcome, Some(Outcome::Stopped { .. })));
        assert!(job.finished_at.is_some() && job.cancel_requested_at.is_some());
        let effects = with(&store, async |tx| tx.effects(&lease.job).await).await.unwrap();
        assert_eq!(effects[0].state, EffectState::Skipped);
        let log = log(&store, &lease.job).await;
        assert_eq!(log[3..], ["cancel_requested", "finished"]);
        assert_eq!(cancel(&store, &lease.job).await, CancelResult::TooLate);
    })
    .await;
}

#[tokio::test]
async fn a_waiting_job_is_cancelled_and_its_lane_is_free() {
    each_database(async |database| {
        let store = database.open().await;
        let id = insert(&store, &fix(1)).await;
        let next = insert(&store, &fix(1)).await;
        database
            .execute(&format!("UPDATE jobs SET state = 'waiting' WHERE id = '{id}'"))
            .await;
        assert_eq!(claim(&store, "worker-1", LONG).await, None);
        assert_eq!(cancel(&store, &id).await, CancelResult::Cancelled);
        assert_eq!(state(&store, &id).await, JobState::Cancelled);
        assert_eq!(claim(&store, "worker-1", LONG).await.unwrap().job.id, next);
        store.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_worker_is_asked_to_stop_once() {
    each(async |store| {
        let leased = leased(&store, &fix(1), LONG).await;
        let publishing = publishing(&store, &fix(2), &[1], LONG).await;
        for lease in [&leased, &publishing] {
            let before = state(&store, &lease.job).await;
            assert_eq!(cancel(&store, &lease.job).await, CancelResult::Requested);
            assert_eq!(cancel(&store, &lease.job).await, CancelResult::Requested);
            let job = load(&store, &lease.job).await;
            assert_eq!(
                (job.state, job.outcome.is_some()),
                (before, before == JobState::Publishing)
            );
            assert!(job.cancel_requested_at.is_some() && job.finished_at.is_none());
            let asked = log(&store, &lease.job).await;
            assert_eq!(asked.iter().filter(|kind| *kind == "cancel_requested").count(), 1);
            with(&store, async |tx| tx.check_lease(lease).await).await.unwrap();
        }
        with(&store, async |tx| {
            tx.move_effect(&publishing, 1, EffectState::Done, Some("1"), None)
                .await?;
            tx.finish_job(&publishing, &Outcome::Answered).await
        })
        .await
        .unwrap();
        assert_eq!(cancel(&store, &publishing.job).await, CancelResult::TooLate);
    })
    .await;
}

#[tokio::test]
async fn a_job_that_should_stop_does_not_go_back_to_the_queue() {
    each(async |store| {
        let snoozed = leased(&store, &fix(1), LONG).await;
        cancel(&store, &snoozed.job).await;
        with(&store, async |tx| {
            tx.snooze_job(&snoozed, in_seconds(60), "shutting down").await
        })
        .await
        .unwrap();
        let retried = leased(&store, &fix(2), LONG).await;
        cancel(&store, &retried.job).await;
        let became = with(&store, async |tx| tx.retry_job(&retried, now(), "later").await).await;
        assert_eq!(became.unwrap(), JobState::Cancelled);
        for lease in [&snoozed, &retried] {
            let job = load(&store, &lease.job).await;
            assert_eq!(
                (job.state, job.reason.as_deref()),
                (JobState::Cancelled, Some("the issue was closed"))
            );
        }
    })
    .await;
}

#[tokio::test]
async fn a_job_that_does_not_exist_is_too_late() {
    each(async |store| {
        assert_eq!(cancel(&store, &JobId::new(now())).await, CancelResult::TooLate);
    })
    .await;
}

#[tokio::test]
async fn a_subject_stops_with_all_its_fixes_and_nothing_else() {
    each(async |store| {
        let running = leased(&store, &fix(1), LONG).await.job;
        let queued = insert(&store, &fix(1)).await;
        let other = insert(&store, &fix(2)).await;
        let mut reply = fix(1);
        reply.kind = JobKind::Reply;
        let reply = insert(&store, &reply).await;
        let stop = async || {
            let subject = Subject::Issue(IssueNumber(1));
            with(&store, async |tx| {
                tx.cancel_subject(RepoId(7), &subject, "closed", now()).await
            })
            .await
            .unwrap()
        };
        assert_eq!(stop().await, [running.clone(), queued.clone()]);
        assert_eq!(state(&store, &running).await, JobState::Leased);
        assert_eq!(state(&store, &queued).await, JobState::Cancelled);
        assert_eq!(state(&store, &other).await, JobState::Queued);
        assert_eq!(state(&store, &reply).await, JobState::Queued);
        assert_eq!(stop().await, [running]);
    })
    .await;
}
