//! Whose turn it is: repositories and installations share, limits hold however many workers claim,
//! and what is done in one statement is what is done in several.

use std::collections::BTreeMap;

use super::*;
use crate::databases::{each, each_database};
use forgehand::effect::EffectState;
use forgehand::store::{Claim, ClaimLimits};

/// A `fix` of an issue of another repository and installation.
fn of(installation: u64, repo: u64, number: u64) -> NewJob {
    let mut job = fix(number);
    job.installation = InstallationId(installation);
    job.repo_id = RepoId(repo);
    job
}

fn any(most: u32) -> Claim<'static> {
    Claim {
        owner: "worker-1",
        lease: LONG,
        most,
        limits: ClaimLimits::default(),
    }
}

fn limited(limits: ClaimLimits) -> Claim<'static> {
    Claim { limits, ..any(10) }
}

/// Takes and ends jobs one by one; gives the repositories in the order of their turns.
async fn served(store: &Store, most: usize) -> Vec<u64> {
    let mut repos = Vec::new();
    while repos.len() < most {
        let Some(job) = store.claim_jobs(&any(1)).await.unwrap().pop() else {
            break;
        };
        store.finish_job(&job.lease, &Outcome::Answered, false).await.unwrap();
        repos.push(job.job.repo_id.0);
    }
    repos
}

#[tokio::test]
async fn a_repository_that_asks_for_a_hundred_things_does_not_keep_others_waiting() {
    each(async |store| {
        for number in 0..100 {
            insert(&store, &of(1, 10, number)).await;
        }
        assert_eq!(served(&store, 20).await, [10; 20]);
        for number in 0..5 {
            insert(&store, &of(2, 20, number)).await;
        }
        let next = served(&store, 12).await;
        let others = next.iter().filter(|repo| **repo == 20).count();
        assert!(others == 5, "turn by turn, not behind eighty: {next:?}");
        let rest = served(&store, 1_000).await;
        assert_eq!((rest.len(), rest.iter().all(|repo| *repo == 10)), (105 - 32, true));
    })
    .await;
}

#[tokio::test]
async fn an_installation_with_ten_repositories_has_not_ten_times_the_turns() {
    each(async |store| {
        for number in 0..20 {
            for repo in 10..20 {
                insert(&store, &of(1, repo, number)).await;
            }
            insert(&store, &of(2, 30, number)).await;
        }
        let turns = served(&store, 60).await;
        let lone = turns.iter().filter(|repo| **repo == 30).count();
        assert!(
            lone >= 15,
            "{lone} of 20 turns of the small one among the first 60: {turns:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_claim_of_several_takes_each_lane_once() {
    each(async |store| {
        let mut expected = Vec::new();
        for number in 0..4 {
            expected.push(insert(&store, &fix(number)).await);
        }
        let behind = insert(&store, &fix(0)).await;
        let claimed = store.claim_jobs(&any(3)).await.unwrap();
        let ids: Vec<JobId> = claimed.iter().map(|leased| leased.job.id.clone()).collect();
        assert_eq!(ids, expected[..3]);
        for leased in &claimed {
            assert_eq!((leased.lease.fence, leased.job.attempt), (1, 1));
            assert_eq!((leased.job.state, leased.lease.token.len()), (JobState::Leased, 32));
            assert_eq!(load(&store, &leased.job.id).await, leased.job);
            assert_eq!(log(&store, &leased.job.id).await, ["queued", "claimed"]);
            let mut tx = store.begin().await.unwrap();
            let events = tx.events(&leased.job.id, 1, 10).await.unwrap();
            assert!(
                matches!(&events[0].body, RunEvent::Claimed { worker, attempt: 1 } if worker == "worker-1"),
                "{events:?}"
            );
            tx.check_lease(&leased.lease).await.unwrap();
        }
        let rest = store.claim_jobs(&any(10)).await.unwrap();
        assert_eq!(
            (rest.len(), &rest[0].job.id),
            (1, &expected[3]),
            "the lane of {behind} is busy"
        );
        store
            .finish_job(&claimed[0].lease, &Outcome::Answered, false)
            .await
            .unwrap();
        let next = with(&store, async |tx| tx.claim_jobs(&any(10)).await).await.unwrap();
        assert_eq!((next.len(), &next[0].job.id), (1, &behind));
    })
    .await;
}

#[tokio::test]
async fn limits_hold_and_commands_go_on() {
    each(async |store| {
        for repo in [10, 11] {
            for number in 0..3 {
                insert(&store, &of(1, repo, number)).await;
            }
        }
        insert(&store, &of(2, 20, 0)).await;
        let mut stop = of(1, 10, 0);
        stop.kind = JobKind::Stop;
        insert(&store, &stop).await;
        let limits = ClaimLimits {
            total: 4,
            per_installation: 3,
            per_repository: 2,
        };
        let mut taken = Vec::new();
        loop {
            let claimed = store.claim_jobs(&limited(limits)).await.unwrap();
            if claimed.is_empty() {
                break;
            }
            taken.extend(claimed);
        }
        let mut by_repo: BTreeMap<u64, u32> = BTreeMap::new();
        for leased in &taken {
            *by_repo.entry(leased.job.repo_id.0).or_default() += 1;
        }
        let stops = taken.iter().filter(|leased| leased.job.kind == JobKind::Stop).count();
        assert_eq!((taken.len(), stops), (5, 1), "{by_repo:?}");
        let work = |repo: u64| {
            taken
                .iter()
                .filter(move |leased| leased.job.repo_id == RepoId(repo) && leased.job.kind.is_work())
        };
        assert_eq!(work(10).count() + work(11).count(), 3, "of the installation");
        assert!(work(10).count() <= 2 && work(11).count() <= 2, "{by_repo:?}");
        assert_eq!(work(20).count(), 1);

        let first = work(11).next().unwrap();
        store.finish_job(&first.lease, &Outcome::Answered, true).await.unwrap();
        let next = store.claim_jobs(&limited(limits)).await.unwrap();
        assert_eq!(next.len(), 1, "there is room for one");
        assert_eq!(store.claim_jobs(&limited(limits)).await.unwrap(), []);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_holds_among_many_workers_of_several_processes() {
    each_database(async |database| {
        let stores = [database.open().await, database.open().await];
        for number in 0..40 {
            insert(&stores[0], &of(1, 10 + number % 4, number)).await;
        }
        let limits = ClaimLimits {
            total: 3,
            ..ClaimLimits::default()
        };
        let at_work = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let done = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let workers = (0..8).map(|worker| {
            let (store, at_work, done) = (stores[worker % 2].clone(), at_work.clone(), done.clone());
            tokio::spawn(async move {
                use std::sync::atomic::Ordering::SeqCst;
                let deadline = Instant::now() + Duration::from_secs(60);
                while done.load(SeqCst) < 40 {
                    assert!(Instant::now() < deadline, "the queue stands still");
                    for leased in store.claim_jobs(&limited(limits)).await.unwrap() {
                        let now = at_work.fetch_add(1, SeqCst) + 1;
                        assert!(now <= 3, "{now} at work");
                        tokio::task::yield_now().await;
                        // Before the end is known to others, it is not counted any more.
                        at_work.fetch_sub(1, SeqCst);
                        store.finish_job(&leased.lease, &Outcome::Answered, true).await.unwrap();
                        done.fetch_add(1, SeqCst);
                    }
                }
            })
        });
        for worker in workers.collect::<Vec<_>>() {
            worker.await.unwrap();
        }
        for store in stores {
            store.close().await;
        }
    })
    .await;
}

#[tokio::test]
async fn the_end_in_one_statement_has_the_guards_of_the_long_way() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        let gave_up = Outcome::GaveUp {
            reason: "no idea".to_owned(),
            branch: None,
        };
        let mut wrong = lease.clone();
        wrong.token = "0".repeat(32);
        check_lost(store.finish_job(&wrong, &gave_up, false).await, &wrong);
        with(&store, async |tx| {
            tx.begin_publishing(&lease, &gave_up, &[comment(&lease.job, 1)]).await
        })
        .await
        .unwrap();
        let early = store.finish_job(&lease, &gave_up, false).await;
        assert!(
            matches!(early, Err(StoreError::Corrupt(_))),
            "an effect is open: {early:?}"
        );
        with(&store, async |tx| {
            tx.move_effect(&lease, 1, EffectState::Sending, None, None).await?;
            tx.move_effect(&lease, 1, EffectState::Done, Some("5"), None).await
        })
        .await
        .unwrap();
        store.finish_job(&lease, &gave_up, false).await.unwrap();
        let job = load(&store, &lease.job).await;
        assert_eq!(
            (job.state, job.outcome.clone()),
            (JobState::Done, Some(gave_up.clone()))
        );
        assert_eq!(
            (job.reason.as_deref(), job.lease_owner.as_deref()),
            (Some("no idea"), None)
        );
        assert!(job.finished_at.is_some());
        assert_eq!(log(&store, &lease.job).await.last().unwrap(), "finished");
        check_lost(store.finish_job(&lease, &gave_up, false).await, &lease);

        let stopped = leased(&store, &fix(2), LONG).await;
        let outcome = Outcome::Stopped {
            reason: "mona asked".to_owned(),
            branch: None,
        };
        store.finish_job(&stopped, &outcome, false).await.unwrap();
        assert_eq!(load(&store, &stopped.job).await.state, JobState::Cancelled);
        let late = leased(&store, &fix(3), LONG).await;
        expire(&store, &late).await;
        check_lost(store.finish_job(&late, &Outcome::Answered, false).await, &late);
    })
    .await;
}

#[tokio::test]
async fn one_leads_at_a_time() {
    each(async |store| {
        let lead = async |holder: &str, term| {
            with(&store, async |tx| tx.lead("loops", holder, term).await)
                .await
                .unwrap()
        };
        assert_eq!(lead("one", LONG).await, Some(1));
        assert_eq!(lead("two", LONG).await, None);
        assert_eq!(lead("one", LONG).await, Some(1), "it keeps the name");
        with(&store, async |tx| tx.resign("loops", "two").await).await.unwrap();
        assert_eq!(lead("two", LONG).await, None, "nobody resigns for another");
        with(&store, async |tx| tx.resign("loops", "one").await).await.unwrap();
        assert_eq!(lead("two", LONG).await, Some(2));
        assert_eq!(lead("one", LONG).await, None);
        // A term that is over is free for anybody, and its holder only comes back if nobody took it.
        assert_eq!(lead("two", Duration::ZERO).await, Some(2));
        assert_eq!(lead("one", LONG).await, Some(3));
        let other = with(&store, async |tx| tx.lead("other loops", "two", LONG).await).await;
        assert_eq!(other.unwrap(), Some(1));
    })
    .await;
}

/// Ends of many jobs at the same time share statements: each is judged by itself.
#[tokio::test]
async fn ends_that_come_together_are_judged_one_by_one() {
    each(async |store| {
        for number in 0..40 {
            insert(&store, &of(1, 10, number)).await;
        }
        let claimed = store.claim_jobs(&any(40)).await.unwrap();
        assert_eq!(claimed.len(), 40);
        let leases: Vec<Lease> = claimed.into_iter().map(|job| job.lease).collect();
        let stranger = Lease {
            token: "f".repeat(32),
            ..leases[0].clone()
        };
        expire(&store, &leases[1]).await;
        with(&store, async |tx| {
            tx.insert_effects(&leases[2], &[comment(&leases[2].job, 8)]).await
        })
        .await
        .unwrap();
        let gave_up = Outcome::GaveUp {
            reason: "it said \"no\"\0, twice".to_owned(),
            branch: None,
        };
        let refused = Outcome::Refused {
            reason: "a stranger".to_owned(),
        };
        let outcome_of = |place: usize| match place {
            3 => &gave_up,
            4 => &refused,
            _ => &Outcome::Answered,
        };
        let twice = [leases[5].clone()];
        let ends = leases.iter().chain(&twice).chain([&stranger]).enumerate();
        let ends: Vec<_> = ends
            .map(|(place, lease)| {
                let (store, lease, outcome) = (store.clone(), lease.clone(), outcome_of(place).clone());
                tokio::spawn(async move { store.finish_job(&lease, &outcome, false).await })
            })
            .collect();
        let mut results = Vec::new();
        for end in ends {
            results.push(end.await.unwrap());
        }
        check_lost(results.remove(41), &stranger);
        // Of two ends of one lease exactly one is the end.
        let second = results.remove(40);
        assert!(second.is_ok() != results[5].is_ok(), "{second:?} {:?}", results[5]);
        for (place, result) in results.into_iter().enumerate() {
            match place {
                1 => check_lost(result, &leases[1]),
                2 => assert!(matches!(result, Err(StoreError::Corrupt(_))), "{result:?}"),
                5 => {}
                _ => result.unwrap(),
            }
        }
        for (place, lease) in leases.iter().enumerate() {
            let job = load(&store, &lease.job).await;
            let log = with(&store, async |tx| tx.events(&lease.job, 0, 100).await)
                .await
                .unwrap();
            let finished: Vec<&RunEvent> = log.iter().map(|event| &event.body).collect();
            let ended = RunEvent::Finished {
                outcome: outcome_of(place).clone(),
            };
            match place {
                1 | 2 => assert_eq!(job.state, JobState::Leased),
                _ => {
                    assert_eq!(job.state, JobState::Done);
                    assert!(job.lease_owner.is_none() && job.finished_at.is_some());
                    assert_eq!(job.outcome.as_ref(), Some(outcome_of(place)));
                    let reason = match place {
                        3 => Some("it said \"no\"\u{2400}, twice"),
                        4 => Some("a stranger"),
                        _ => None,
                    };
                    assert_eq!(job.reason.as_deref(), reason);
                    let ends = finished.iter().filter(|event| ***event == ended);
                    assert_eq!(ends.count(), 1, "{finished:?}");
                }
            }
        }
    })
    .await;
}
