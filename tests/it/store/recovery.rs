//! After a worker is gone its jobs go on, and a job that takes its workers with it does not.

use super::*;
use crate::databases::each;
use forgehand::effect::EffectState;
use forgehand::store::Recovery;

async fn recover(store: &Store) -> Vec<Recovery> {
    with(store, async |tx| tx.recover_expired(MAX_LOST, 10).await)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_lease_that_ended_gives_the_job_back() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        assert_eq!(recover(&store).await, []);
        expire(&store, &lease).await;
        assert_eq!(recover(&store).await, [Recovery::Requeued(lease.job.clone())]);
        assert_eq!(recover(&store).await, []);
        let job = load(&store, &lease.job).await;
        assert_eq!((job.state, job.attempt, job.lost_leases), (JobState::Queued, 1, 1));
        assert_eq!((job.lease_owner, job.lease_until), (None, None));
        let events = with(&store, async |tx| tx.events(&lease.job, 2, 10).await)
            .await
            .unwrap();
        let worker = "worker-1".to_owned();
        assert_eq!(events[0].body, RunEvent::Recovered { worker });
        assert_eq!(claim(&store, "worker-2", LONG).await.unwrap().lease.fence, 2);
    })
    .await;
}

#[tokio::test]
async fn fi8_a_lease_that_lasts_longer_than_any_can_is_shortened() {
    each(async |store| {
        let long = leased(&store, &fix(1), LONG).await;
        let short = leased(&store, &fix(2), LONG / 10).await;
        let clamp = async |lease| with(&store, async |tx| tx.clamp_leases(lease).await).await.unwrap();
        assert_eq!(clamp(LONG).await.1, 0, "it is as long as it may be");
        let (now, shortened) = clamp(LONG / 10).await;
        assert_eq!(shortened, 1, "the clock went back");
        let until = load(&store, &long.job).await.lease_until.unwrap();
        assert_eq!((until - now).to_std().unwrap(), LONG / 10);
        // Whoever holds it goes on.
        for lease in [&long, &short] {
            let beat = with(&store, async |tx| tx.heartbeat(lease, LONG).await).await.unwrap();
            assert!(!beat.cancel_requested);
        }
    })
    .await;
}

#[tokio::test]
async fn at_most_so_many_are_recovered_at_once() {
    each(async |store| {
        for number in 0..3 {
            let lease = leased(&store, &fix(number), LONG).await;
            expire(&store, &lease).await;
        }
        let some = with(&store, async |tx| tx.recover_expired(MAX_LOST, 2).await).await;
        assert_eq!(some.unwrap().len(), 2);
        assert_eq!(recover(&store).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn the_third_lost_lease_without_progress_is_the_last() {
    each(async |store| {
        insert(&store, &fix(1)).await;
        for lost in 1..=3 {
            let claimed = claim(&store, "worker-1", LONG).await.unwrap();
            assert_eq!(claimed.job.lost_leases, lost - 1);
            expire(&store, &claimed.lease).await;
            let id = claimed.job.id.clone();
            let expected = if lost < 3 {
                Recovery::Requeued(id)
            } else {
                Recovery::Dead(id)
            };
            assert_eq!(recover(&store).await, [expected]);
            if lost == 3 {
                let dead = load(&store, &claimed.job.id).await;
                assert_eq!((dead.state, dead.lost_leases), (JobState::Dead, 3));
                assert!(dead.reason.unwrap().contains("lost 3 times"));
                assert_eq!(log(&store, &claimed.job.id).await.last().unwrap(), "died");
            }
        }
        assert_eq!(claim(&store, "worker-1", LONG).await, None);
    })
    .await;
}

#[tokio::test]
async fn progress_forgets_the_lost_leases() {
    each(async |store| {
        let first = leased(&store, &fix(1), LONG).await;
        expire(&store, &first).await;
        recover(&store).await;
        let second = claim(&store, "worker-1", LONG).await.unwrap().lease;
        assert_eq!(load(&store, &second.job).await.lost_leases, 1);
        with(&store, async |tx| {
            tx.save_checkpoint(&second, "conversation", 1, b"one turn").await
        })
        .await
        .unwrap();
        assert_eq!(load(&store, &second.job).await.lost_leases, 0);
    })
    .await;
}

#[tokio::test]
async fn the_loss_of_the_last_attempt_is_the_end() {
    each(async |store| {
        let mut job = fix(1);
        job.max_attempts = 1;
        let lease = leased(&store, &job, LONG).await;
        expire(&store, &lease).await;
        assert_eq!(recover(&store).await, [Recovery::Dead(lease.job.clone())]);
        let dead = load(&store, &lease.job).await;
        assert!(dead.reason.unwrap().contains("attempt 1 of 1"));
    })
    .await;
}

#[tokio::test]
async fn a_lost_publisher_goes_on_with_its_effects() {
    each(async |store| {
        let mut job = fix(1);
        job.max_attempts = 1;
        let lease = publishing(&store, &job, &[1, 2, 3], LONG).await;
        with(&store, async |tx| {
            tx.move_effect(&lease, 1, EffectState::Done, Some("101"), None).await?;
            tx.move_effect(&lease, 2, EffectState::Sending, None, None).await
        })
        .await
        .unwrap();
        expire(&store, &lease).await;
        assert_eq!(recover(&store).await, [Recovery::Requeued(lease.job.clone())]);
        assert_eq!(state(&store, &lease.job).await, JobState::Publishing);
        let effects = with(&store, async |tx| tx.effects(&lease.job).await).await.unwrap();
        let states: Vec<_> = effects.iter().map(|effect| effect.state).collect();
        assert_eq!(states, [EffectState::Done, EffectState::Unknown, EffectState::Pending]);
        assert!(effects[1].sent_at.is_some());

        let resumed = claim(&store, "worker-2", LONG).await.unwrap();
        assert!(resumed.resumes_publishing);
        assert_eq!((resumed.job.lost_leases, resumed.job.attempt), (1, 1));
        with(&store, async |tx| {
            tx.move_effect(&resumed.lease, 2, EffectState::Done, Some("102"), None)
                .await
        })
        .await
        .unwrap();
        assert_eq!(load(&store, &lease.job).await.lost_leases, 0);
    })
    .await;
}

#[tokio::test]
async fn all_jobs_of_an_owner_that_is_gone_are_given_back() {
    each(async |store| {
        let first = leased(&store, &fix(1), LONG).await;
        let second = publishing(&store, &fix(2), &[1], LONG).await;
        insert(&store, &fix(3)).await;
        let other = claim(&store, "worker-2", LONG).await.unwrap();
        let recovered = with(&store, async |tx| tx.recover_owner("worker-1", MAX_LOST).await).await;
        assert_eq!(
            recovered.unwrap(),
            [
                Recovery::Requeued(first.job.clone()),
                Recovery::Requeued(second.job.clone())
            ]
        );
        check_lost(with(&store, async |tx| tx.check_lease(&first).await).await, &first);
        with(&store, async |tx| tx.check_lease(&other.lease).await)
            .await
            .unwrap();
        let again = with(&store, async |tx| tx.recover_owner("worker-1", MAX_LOST).await).await;
        assert_eq!(again.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn a_job_whose_worker_was_lost_before_it_could_stop_is_cancelled() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        with(&store, async |tx| tx.cancel_job(&lease.job, "closed", now()).await)
            .await
            .unwrap();
        expire(&store, &lease).await;
        assert_eq!(recover(&store).await, [Recovery::Cancelled(lease.job.clone())]);
        let job = load(&store, &lease.job).await;
        assert_eq!(
            (job.state, job.reason.as_deref()),
            (JobState::Cancelled, Some("closed"))
        );
    })
    .await;
}

#[tokio::test]
async fn a_person_starts_a_final_job_again_in_a_new_round() {
    each(async |store| {
        let lease = publishing(&store, &fix(1), &[1, 2, 3], LONG).await;
        let requeue = async || {
            with(&store, async |tx| tx.requeue_job(&lease.job, now()).await)
                .await
                .unwrap()
        };
        with(&store, async |tx| {
            tx.save_checkpoint(&lease, "solution", 1, b"old").await?;
            tx.move_effect(&lease, 1, EffectState::Done, Some("101"), None).await?;
            tx.move_effect(&lease, 2, EffectState::Sending, None, None).await
        })
        .await
        .unwrap();
        assert!(!requeue().await, "it is not final");
        with(&store, async |tx| tx.bury_job(&lease, "refused").await)
            .await
            .unwrap();
        let kept = with(&store, async |tx| tx.effects(&lease.job).await).await.unwrap();
        let states: Vec<_> = kept.iter().map(|effect| effect.state).collect();
        assert_eq!(states, [EffectState::Done, EffectState::Unknown, EffectState::Skipped]);

        assert!(requeue().await);
        let job = load(&store, &lease.job).await;
        assert_eq!((job.state, job.round, job.attempt), (JobState::Queued, 1, 0));
        assert_eq!((job.reason, job.outcome, job.finished_at), (None, None, None));
        let kept = with(&store, async |tx| tx.effects(&lease.job).await).await.unwrap();
        let states: Vec<_> = kept.iter().map(|effect| (effect.seq, effect.state)).collect();
        assert_eq!(states, [(1, EffectState::Done), (2, EffectState::Skipped)]);
        let old = with(&store, async |tx| tx.checkpoint(&lease.job, "solution").await).await;
        assert_eq!(old.unwrap(), None);

        let claimed = claim(&store, "worker-1", LONG).await.unwrap();
        assert_eq!((claimed.lease.fence, claimed.job.attempt), (2, 1));
        with(&store, async |tx| {
            let effects = [comment(&lease.job, 3), comment(&lease.job, 1_001)];
            tx.insert_effects(&claimed.lease, &effects).await
        })
        .await
        .unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_job_does_not_come_back_beside_another_with_its_key() {
    each(async |store| {
        let mut keyed = fix(1);
        keyed.dedupe_key = Some("label:1".to_owned());
        let lease = leased(&store, &keyed, LONG).await;
        with(&store, async |tx| tx.bury_job(&lease, "broken").await)
            .await
            .unwrap();
        let other = insert(&store, &keyed).await;
        let requeue = async || {
            with(&store, async |tx| tx.requeue_job(&lease.job, now()).await)
                .await
                .unwrap()
        };
        assert!(!requeue().await);
        assert_eq!(state(&store, &lease.job).await, JobState::Dead);
        with(&store, async |tx| tx.cancel_job(&other, "no", now()).await)
            .await
            .unwrap();
        assert!(requeue().await);
    })
    .await;
}
