//! A job is held by one worker at a time, and a worker that lost it can write nothing more.

use super::*;
use crate::databases::{each, each_database};
use forgehand::effect::EffectState;
use std::collections::BTreeSet;

#[tokio::test]
async fn a_claim_is_a_lease_with_a_new_fence() {
    each(async |store| {
        assert_eq!(claim(&store, "worker-1", LONG).await, None);
        let id = insert(&store, &fix(1)).await;
        let before = with(&store, async |tx| tx.db_now().await).await.unwrap();
        let claimed = claim(&store, "worker-1", LONG).await.unwrap();
        assert_eq!((&claimed.lease.job, claimed.lease.fence), (&id, 1));
        assert_eq!(
            (claimed.lease.owner.as_str(), claimed.lease.token.len()),
            ("worker-1", 32)
        );
        assert!(!claimed.resumes_publishing);
        assert_eq!((claimed.job.state, claimed.job.attempt), (JobState::Leased, 1));
        assert!(claimed.job.lease_until.unwrap() >= before + LONG);
        assert_eq!(load(&store, &id).await, claimed.job);
        assert_eq!(claim(&store, "worker-2", LONG).await, None);
        assert_eq!(log(&store, &id).await, ["queued", "claimed"]);
    })
    .await;
}

#[tokio::test]
async fn a_claim_that_is_not_committed_did_not_happen() {
    each(async |store| {
        let id = insert(&store, &fix(1)).await;
        let mut tx = store.begin().await.unwrap();
        let lost = tx.claim_job("worker-1", LONG).await.unwrap().unwrap();
        drop(tx);
        assert_eq!(
            (state(&store, &id).await, log(&store, &id).await.len()),
            (JobState::Queued, 1)
        );
        check_lost(
            with(&store, async |tx| tx.check_lease(&lost.lease).await).await,
            &lost.lease,
        );
        // A server hears a moment later that the transaction is gone; until then its row is passed over.
        let again = async {
            loop {
                if let Some(claimed) = claim(&store, "worker-2", LONG).await {
                    break claimed;
                }
            }
        };
        let claimed = tokio::time::timeout(LONG, again).await.expect("the job can be claimed");
        assert_eq!((claimed.lease.fence, claimed.job.attempt), (1, 1));
        assert_ne!(claimed.lease.token, lost.lease.token);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_workers_claim_three_hundred_jobs_once_each() {
    each_database(async |database| {
        let store = database.open().await;
        with(&store, async |tx| {
            for number in 0..300 {
                tx.insert_job(&fix(number), now()).await?;
            }
            Ok(())
        })
        .await
        .unwrap();
        let other = database.open().await; // as another process would
        let workers: Vec<_> = (0..8)
            .map(|worker| {
                let store = if worker % 2 == 0 { store.clone() } else { other.clone() };
                tokio::spawn(async move {
                    let mut claimed = Vec::new();
                    while let Some(job) = claim(&store, &format!("worker-{worker}"), LONG).await {
                        claimed.push(job.job.id);
                    }
                    claimed
                })
            })
            .collect();
        let mut claimed = Vec::new();
        for worker in workers {
            claimed.extend(worker.await.unwrap());
        }
        assert_eq!(claimed.len(), 300);
        assert_eq!(claimed.iter().collect::<BTreeSet<_>>().len(), 300);
        store.close().await;
        other.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_lane_runs_one_job_and_control_has_its_own() {
    each(async |store| {
        let first = insert(&store, &fix(1)).await;
        let second = insert(&store, &fix(1)).await;
        let mut stop = fix(1);
        stop.kind = JobKind::Stop;
        let stop = insert(&store, &stop).await;
        let mut elsewhere = fix(1);
        elsewhere.repo_id = RepoId(8);
        let elsewhere = insert(&store, &elsewhere).await;

        let mut leases = Vec::new();
        while let Some(claimed) = claim(&store, "worker-1", LONG).await {
            leases.push(claimed.lease);
        }
        let held: Vec<_> = leases.iter().map(|lease| lease.job.clone()).collect();
        assert_eq!(
            held,
            [first, elsewhere, stop],
            "the other repository is not to wait for a second turn"
        );
        with(&store, async |tx| tx.finish_job(&leases[0], &Outcome::Answered).await)
            .await
            .unwrap();
        assert_eq!(claim(&store, "worker-1", LONG).await.unwrap().job.id, second);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_before_one_lane_goes_through_one_by_one() {
    each(async |store| {
        for _ in 0..24 {
            insert(&store, &fix(1)).await;
        }
        let inside = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let done = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let workers: Vec<_> = (0..8)
            .map(|worker| {
                let (store, inside, done) = (store.clone(), inside.clone(), done.clone());
                tokio::spawn(async move {
                    use std::sync::atomic::Ordering::SeqCst;
                    let deadline = Instant::now() + Duration::from_secs(60);
                    while done.load(SeqCst) < 24 {
                        assert!(Instant::now() < deadline, "the lane is stuck");
                        let Some(claimed) = claim(&store, &format!("worker-{worker}"), LONG).await else {
                            continue;
                        };
                        assert_eq!(inside.fetch_add(1, SeqCst), 0, "two jobs of a lane are active");
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1, SeqCst);
                        with(&store, async |tx| {
                            tx.finish_job(&claimed.lease, &Outcome::Answered).await
                        })
                        .await
                        .unwrap();
                        done.fetch_add(1, SeqCst);
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn publishing_goes_first_then_priority_then_turn() {
    each(async |store| {
        let lease = publishing(&store, &fix(9), &[1], LONG).await;
        with(&store, async |tx| tx.snooze_job(&lease, in_seconds(-1), "limit").await)
            .await
            .unwrap();
        let mut expected = Vec::new();
        for (number, priority, seconds) in [(1, 0, -10), (2, 0, -20), (3, 5, -5), (4, 9, 600)] {
            let mut job = fix(number);
            job.priority = priority;
            job.run_at = in_seconds(seconds);
            expected.push(insert(&store, &job).await);
        }
        let resumed = claim(&store, "worker-1", LONG).await.unwrap();
        assert!(resumed.resumes_publishing);
        assert_eq!((&resumed.job.id, resumed.job.state), (&lease.job, JobState::Publishing));
        assert_eq!(resumed.job.outcome, Some(Outcome::Answered));
        for next in [2, 0, 1] {
            let claimed = claim(&store, "worker-1", LONG).await.unwrap();
            assert_eq!(
                (claimed.job.id, claimed.resumes_publishing),
                (expected[next].clone(), false)
            );
        }
        assert_eq!(claim(&store, "worker-1", LONG).await, None);
    })
    .await;
}

#[tokio::test]
async fn a_heartbeat_moves_the_end_of_the_lease_and_brings_the_wish_to_stop() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        let beat = async |extend| with(&store, async |tx| tx.heartbeat(&lease, extend).await).await;
        let first = beat(LONG).await.unwrap();
        let second = beat(2 * LONG).await.unwrap();
        assert!(second.lease_until >= first.lease_until + LONG && !second.cancel_requested);
        assert_eq!(load(&store, &lease.job).await.lease_until, Some(second.lease_until));
        with(&store, async |tx| tx.cancel_job(&lease.job, "closed", now()).await)
            .await
            .unwrap();
        assert!(beat(LONG).await.unwrap().cancel_requested);
        expire(&store, &lease).await;
        check_lost(beat(LONG).await, &lease);
    })
    .await;
}

/// Every write under a lease, one by one, must be refused.
async fn check_shut_out(store: &Store, lease: &Lease) {
    let effects = [comment(&lease.job, 8)];
    let answered = Outcome::Answered;
    check_lost(with(store, async |tx| tx.check_lease(lease).await).await, lease);
    check_lost(with(store, async |tx| tx.heartbeat(lease, LONG).await).await, lease);
    check_lost(
        with(store, async |tx| tx.append_event(lease, &noted("late"), now()).await).await,
        lease,
    );
    check_lost(
        with(store, async |tx| tx.save_checkpoint(lease, "solution", 1, b"x").await).await,
        lease,
    );
    check_lost(
        with(store, async |tx| tx.insert_effects(lease, &effects).await).await,
        lease,
    );
    check_lost(
        with(store, async |tx| tx.begin_publishing(lease, &answered, &effects).await).await,
        lease,
    );
    check_lost(
        with(store, async |tx| {
            tx.move_effect(lease, 1, EffectState::Sending, None, None).await
        })
        .await,
        lease,
    );
    check_lost(
        with(store, async |tx| tx.snooze_job(lease, now(), "late").await).await,
        lease,
    );
    check_lost(
        with(store, async |tx| tx.retry_job(lease, now(), "late").await).await,
        lease,
    );
    check_lost(
        with(store, async |tx| tx.finish_job(lease, &answered).await).await,
        lease,
    );
    check_lost(with(store, async |tx| tx.bury_job(lease, "late").await).await, lease);
}

#[tokio::test]
async fn a_worker_whose_lease_ended_is_shut_out_of_everything() {
    each(async |store| {
        let old = leased(&store, &fix(1), LONG).await;
        with(&store, async |tx| {
            tx.insert_effects(&old, &[comment(&old.job, 1)]).await
        })
        .await
        .unwrap();
        expire(&store, &old).await;
        check_shut_out(&store, &old).await; // ended, and nobody noticed yet

        with(&store, async |tx| tx.recover_expired(MAX_LOST, 10).await)
            .await
            .unwrap();
        check_shut_out(&store, &old).await; // recovered

        let new = claim(&store, "worker-2", LONG).await.unwrap();
        assert_eq!((new.lease.fence, new.job.attempt), (old.fence + 1, 2));
        let before = load(&store, &old.job).await;
        check_shut_out(&store, &old).await; // claimed by another worker
        assert_eq!(load(&store, &old.job).await, before);
        assert_eq!(
            log(&store, &old.job).await,
            ["queued", "claimed", "recovered", "claimed"]
        );
        with(&store, async |tx| tx.check_lease(&new.lease).await).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn the_token_must_match_even_where_a_number_repeats() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        let forged = Lease {
            token: "0".repeat(32),
            ..lease.clone()
        };
        check_shut_out(&store, &forged).await;
        with(&store, async |tx| tx.check_lease(&lease).await).await.unwrap();
    })
    .await;
}
