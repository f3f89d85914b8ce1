//! FI-16: several processes follow the same schedules and die between any two statements; each fire has
//! one job.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::*;
use crate::databases::{Database, each_database};

/// The seed of the usual run; `FORGEHAND_TEST_SEED` names another.
const SEED: u64 = 4_711;
const ROUNDS: u64 = 50;
const REPLICAS: usize = 3;
/// More often is nobody asked in a pass.
const MOST_POLLS: usize = 24;

/// Work that dies at the so-many-th time that it is asked to go on: between two statements, or in the
/// middle of one. What it had open is dropped, as by the end of a process.
struct Dies<F> {
    work: Pin<Box<F>>,
    polls_left: usize,
}

impl<F: Future> Future for Dies<F> {
    /// Nothing: it died.
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(left) = self.polls_left.checked_sub(1) else {
            return Poll::Ready(None);
        };
        self.polls_left = left;
        self.work.as_mut().poll(context).map(Some)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn fi16_each_fire_has_one_job_whoever_dies() {
    let seed = std::env::var("FORGEHAND_TEST_SEED").ok();
    let seed = seed.map_or(SEED, |seed| seed.parse().expect("FORGEHAND_TEST_SEED is a number"));
    each_database(async |database| {
        eprintln!("replicas with FORGEHAND_TEST_SEED={seed} on {}", database.kind());
        rounds(database, seed).await;
    })
    .await;
}

async fn rounds(database: &Database, seed: u64) {
    let mut chance = fastrand::Rng::with_seed(seed);
    let (_double, github) = github().await;
    let schedules = [
        written("minutely", "* * * * *"),
        written("sevenths", "*/7 * * * *"),
        written("daily", "30 2 * * *"),
    ];
    let store = database.open().await;
    let mut now = at("2026-03-28T12:00:00Z");
    let start = now;
    let mut survivor = cron(&store, &github, &schedules, &now.to_rfc3339()).await;
    survivor.fire().await.unwrap();
    let (mut died, mut ended) = (0, 0);
    for _ in 0..ROUNDS {
        now = later(now, chance.i64(1..45));
        let mut replicas = tokio::task::JoinSet::new();
        for _ in 0..REPLICAS {
            let store = database.open().await;
            let mut replica = cron(&store, &github, &schedules, &now.to_rfc3339()).await;
            // Their clocks do not agree.
            replica.clock = Clock::manual(now + TimeDelta::milliseconds(chance.i64(0..2_000)));
            let polls_left = if chance.u8(..4) == 0 {
                usize::MAX
            } else {
                chance.usize(1..MOST_POLLS)
            };
            replicas.spawn(async move {
                let work = Box::pin(async { replica.fire().await.unwrap() });
                let ended = Dies { work, polls_left }.await.is_some();
                store.close().await;
                ended
            });
        }
        while let Some(replica) = replicas.join_next().await {
            match replica.unwrap() {
                true => ended += 1,
                false => died += 1,
            }
        }
        survivor.clock = Clock::manual(now + TimeDelta::seconds(2));
        survivor.fire().await.unwrap();
        check(&store, &survivor, (start, now)).await;
        end_all(&store).await;
    }
    eprintln!("{died} passes died, {ended} did not, {} jobs", jobs(&store).await.len());
    assert!(
        died >= 30 && ended >= 30,
        "{died} died, {ended} did not: that proves nothing"
    );
    store.close().await;
}

/// Each fire up to now is noted, none has two jobs, and the last of each schedule has one.
async fn check(store: &Store, cron: &Cron, (start, now): (DateTime<Utc>, DateTime<Utc>)) {
    let mut by_fire: BTreeMap<(String, DateTime<Utc>), u32> = BTreeMap::new();
    for job in jobs(store).await {
        *by_fire.entry(fire_of(&job)).or_default() += 1;
    }
    assert!(by_fire.values().all(|jobs| *jobs == 1), "{by_fire:?}");
    for schedule in &cron.configured {
        let fires = schedule.timetable.fires_between(start, now, usize::MAX);
        let Some(last) = fires.last() else { continue };
        assert!(
            by_fire.contains_key(&(schedule.name.clone(), *last)),
            "{} {last}",
            schedule.name
        );
        let mut tx = store.begin().await.unwrap();
        let mut noted: Vec<_> = tx.schedule_fires(Some(&schedule.name), 10_000).await.unwrap();
        noted.reverse();
        let noted: Vec<_> = noted.into_iter().map(|fire| fire.fire_at).collect();
        assert_eq!(noted, fires, "{}", schedule.name);
    }
}
