//! What a worker may do with the job it holds, and what the table says afterwards.

use super::*;
use crate::databases::each;
use forgehand::effect::EffectState;

#[tokio::test]
async fn a_snoozed_attempt_does_not_count() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        let until = in_seconds(300);
        with(&store, async |tx| tx.snooze_job(&lease, until, "rate \0 limit").await)
            .await
            .unwrap();
        let job = load(&store, &lease.job).await;
        assert_eq!((job.state, job.attempt, job.run_at), (JobState::Queued, 0, until));
        assert_eq!((job.lease_owner, job.lease_until), (None, None));
        assert_eq!(job.reason.as_deref(), Some("rate ␀ limit"));
        assert_eq!(claim(&store, "worker-1", LONG).await, None, "its time has not come");
        assert_eq!(log(&store, &lease.job).await, ["queued", "claimed", "snoozed"]);
    })
    .await;
}

#[tokio::test]
async fn attempts_are_counted_until_the_job_is_dead() {
    each(async |store| {
        let mut job = fix(1);
        job.max_attempts = 2;
        let first = leased(&store, &job, LONG).await;
        let retry = async |lease: &Lease| {
            with(&store, async |tx| {
                tx.retry_job(lease, in_seconds(-1), "the model is down").await
            })
            .await
            .unwrap()
        };
        assert_eq!(retry(&first).await, JobState::Queued);
        assert_eq!(load(&store, &first.job).await.attempt, 1);
        let second = claim(&store, "worker-1", LONG).await.unwrap();
        assert_eq!(retry(&second.lease).await, JobState::Dead);
        let dead = load(&store, &first.job).await;
        assert_eq!((dead.state, dead.attempt), (JobState::Dead, 2));
        assert_eq!(dead.reason.as_deref(), Some("the model is down"));
        assert!(dead.finished_at.is_some() && dead.lease_until.is_none());
        let expected = ["queued", "claimed", "attempt_failed", "claimed", "died"];
        assert_eq!(log(&store, &first.job).await, expected);
    })
    .await;
}

#[tokio::test]
async fn publishing_writes_all_effects_at_once() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        let effects = [comment(&lease.job, 1), comment(&lease.job, 2)];
        with(&store, async |tx| tx.insert_effects(&lease, &effects[..1]).await)
            .await
            .unwrap();

        let mut tx = store.begin().await.unwrap();
        tx.begin_publishing(&lease, &Outcome::Answered, &effects).await.unwrap();
        drop(tx); // a crash before the commit
        assert_eq!(state(&store, &lease.job).await, JobState::Leased);

        with(&store, async |tx| {
            tx.begin_publishing(&lease, &Outcome::Answered, &effects).await
        })
        .await
        .unwrap();
        let job = load(&store, &lease.job).await;
        assert_eq!(
            (job.state, job.outcome),
            (JobState::Publishing, Some(Outcome::Answered))
        );
        let kept = with(&store, async |tx| tx.effects(&lease.job).await).await.unwrap();
        assert_eq!(kept.iter().map(|effect| effect.seq).collect::<Vec<_>>(), [1, 2]);
        let again = with(&store, async |tx| {
            tx.begin_publishing(&lease, &Outcome::Answered, &[]).await
        })
        .await;
        assert!(matches!(again, Err(StoreError::Corrupt(_))), "{again:?}");
    })
    .await;
}

#[tokio::test]
async fn finished_work_is_retried_as_effects_with_attempts_of_its_own() {
    each(async |store| {
        let mut job = fix(1);
        job.max_attempts = 1;
        let lease = publishing(&store, &job, &[1], LONG).await;
        with(&store, async |tx| {
            tx.snooze_job(&lease, in_seconds(-1), "rate limit").await
        })
        .await
        .unwrap();
        // The work was allowed one attempt; its effects are allowed five.
        for attempt in 1..=5 {
            let resumed = claim(&store, "worker-2", LONG).await.unwrap();
            assert!(resumed.resumes_publishing);
            assert_eq!(
                (resumed.lease.fence, resumed.job.attempt),
                (1 + i64::from(attempt), attempt)
            );
            let state = with(&store, async |tx| {
                tx.retry_job(&resumed.lease, in_seconds(-1), "refused").await
            })
            .await;
            let expected = if attempt < 5 {
                JobState::Publishing
            } else {
                JobState::Dead
            };
            assert_eq!(state.unwrap(), expected, "attempt {attempt}");
        }
        let effects = with(&store, async |tx| tx.effects(&lease.job).await).await.unwrap();
        assert_eq!(effects[0].state, EffectState::Skipped);

        let lease = leased(&store, &fix(2), LONG).await;
        with(&store, async |tx| {
            tx.retry_job(&lease, in_seconds(-1), "the model is down").await
        })
        .await
        .unwrap();
        let claimed = claim(&store, "worker-1", LONG).await.unwrap();
        let lease = claimed.lease;
        let effects = [comment(&lease.job, 1)];
        with(&store, async |tx| {
            tx.begin_publishing(&lease, &Outcome::Answered, &effects).await
        })
        .await
        .unwrap();
        assert_eq!((claimed.job.attempt, load(&store, &lease.job).await.attempt), (2, 1));
        let state = with(&store, async |tx| {
            tx.retry_job(&lease, in_seconds(-1), "try later").await
        })
        .await;
        assert_eq!(state.unwrap(), JobState::Publishing);
        assert!(claim(&store, "worker-2", LONG).await.unwrap().resumes_publishing);
    })
    .await;
}

#[tokio::test]
async fn a_job_is_done_when_all_its_effects_are_final() {
    each(async |store| {
        let lease = publishing(&store, &fix(1), &[1, 2], LONG).await;
        let finish = async || with(&store, async |tx| tx.finish_job(&lease, &Outcome::Answered).await).await;
        let move_effect = async |seq, state, remote_id| {
            with(&store, async |tx| {
                tx.move_effect(&lease, seq, state, remote_id, None).await
            })
            .await
            .unwrap();
        };
        move_effect(1, EffectState::Done, Some("101")).await;
        let early = finish().await.unwrap_err();
        assert!(early.to_string().contains("[2]"), "{early}");
        assert_eq!(state(&store, &lease.job).await, JobState::Publishing);
        move_effect(2, EffectState::Skipped, None).await;
        finish().await.unwrap();
        let job = load(&store, &lease.job).await;
        assert_eq!(
            (job.state, job.outcome, job.reason),
            (JobState::Done, Some(Outcome::Answered), None)
        );
        assert!(job.finished_at.is_some() && job.lease_owner.is_none());
        assert_eq!(log(&store, &lease.job).await.last().unwrap(), "finished");
        check_lost(finish().await, &lease);
    })
    .await;
}

#[tokio::test]
async fn a_stopped_job_is_cancelled_and_sends_nothing_more() {
    each(async |store| {
        let lease = publishing(&store, &fix(1), &[1, 2], LONG).await;
        with(&store, async |tx| {
            tx.move_effect(&lease, 1, EffectState::Done, Some("101"), None).await
        })
        .await
        .unwrap();
        let stopped = Outcome::Stopped {
            reason: "mona asked".to_owned(),
            branch: None,
        };
        with(&store, async |tx| tx.finish_job(&lease, &stopped).await)
            .await
            .unwrap();
        let job = load(&store, &lease.job).await;
        assert_eq!((job.state, job.outcome), (JobState::Cancelled, Some(stopped)));
        assert_eq!(job.reason.as_deref(), Some("mona asked"));
        let effects = with(&store, async |tx| tx.effects(&lease.job).await).await.unwrap();
        let states: Vec<_> = effects.iter().map(|effect| effect.state).collect();
        assert_eq!(states, [EffectState::Done, EffectState::Skipped]);
    })
    .await;
}

#[tokio::test]
async fn a_buried_job_keeps_its_reason_and_frees_its_lane() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        let next = insert(&store, &fix(1)).await;
        with(&store, async |tx| tx.bury_job(&lease, &"x".repeat(10_000)).await)
            .await
            .unwrap();
        let dead = load(&store, &lease.job).await;
        assert_eq!((dead.state, dead.outcome), (JobState::Dead, None));
        assert!((1..5_000).contains(&dead.reason.unwrap().len()));
        assert_eq!(log(&store, &lease.job).await, ["queued", "claimed", "died"]);
        assert_eq!(claim(&store, "worker-1", LONG).await.unwrap().job.id, next);
    })
    .await;
}

#[tokio::test]
async fn finished_work_is_opened_again_without_what_was_not_sent() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        let early = with(&store, async |tx| tx.reopen_job(&lease, "moved").await).await;
        assert!(matches!(early, Err(StoreError::Corrupt(_))), "{early:?}");
        let effects = [comment(&lease.job, 1), comment(&lease.job, 2)];
        with(&store, async |tx| {
            tx.begin_publishing(&lease, &Outcome::Answered, &effects).await
        })
        .await
        .unwrap();
        with(&store, async |tx| {
            tx.move_effect(&lease, 1, EffectState::Sending, None, None).await?;
            tx.move_effect(&lease, 1, EffectState::Done, Some("7"), None).await
        })
        .await
        .unwrap();
        with(&store, async |tx| tx.reopen_job(&lease, "moved").await)
            .await
            .unwrap();
        let job = load(&store, &lease.job).await;
        assert_eq!((job.state, job.outcome, job.attempt), (JobState::Queued, None, 1));
        assert_eq!(job.lease_owner, None);
        let left = with(&store, async |tx| tx.effects(&lease.job).await).await.unwrap();
        assert_eq!(left.iter().map(|effect| effect.seq).collect::<Vec<_>>(), [1]);

        // Another worker does it over, and publishes anew.
        let again = claim(&store, "worker-2", LONG).await.unwrap();
        assert!(!again.resumes_publishing);
        let lost = with(&store, async |tx| tx.reopen_job(&lease, "late").await).await;
        assert!(matches!(lost, Err(StoreError::LeaseLost(_))), "{lost:?}");
        with(&store, async |tx| {
            tx.begin_publishing(&again.lease, &Outcome::Answered, &effects).await
        })
        .await
        .unwrap();
        assert_eq!(state(&store, &lease.job).await, JobState::Publishing);
    })
    .await;
}
