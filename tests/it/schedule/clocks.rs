//! FI-8: clocks that jump, run fast, change for summer or know no time at all.

use super::*;
use crate::databases::each;

/// All fires that have jobs, each once.
async fn fires(store: &Store) -> Vec<DateTime<Utc>> {
    let mut fires: Vec<_> = jobs(store).await.iter().map(|job| fire_of(job).1).collect();
    let all = fires.len();
    fires.sort();
    fires.dedup();
    assert_eq!(fires.len(), all, "one fire, one job");
    fires
}

/// A pass at each of these times; between them, all work is done.
async fn passes(cron: &mut Cron, times: &[&str]) {
    for time in times {
        set(cron, time);
        pass(cron).await;
        end_all(&cron.store).await;
    }
}

#[tokio::test]
async fn fi8_a_clock_that_goes_back_fires_nothing_twice_and_loses_nothing() {
    each(async |store| {
        let (_double, github) = github().await;
        let mut cron = cron(
            &store,
            &github,
            &[written("often", "*/10 * * * *")],
            "2026-03-10T12:01:00Z",
        )
        .await;
        let times = |minutes: &[&str]| {
            minutes
                .iter()
                .map(|minute| at(&format!("2026-03-10T12:{minute}:00Z")))
                .collect::<Vec<_>>()
        };
        // Thirty seconds back over a fire, as when a clock is put right.
        passes(
            &mut cron,
            &["2026-03-10T12:01:00Z", "2026-03-10T12:10:02Z", "2026-03-10T12:09:32Z"],
        )
        .await;
        passes(&mut cron, &["2026-03-10T12:10:00Z", "2026-03-10T12:10:20Z"]).await;
        assert_eq!(fires(&store).await, times(&["10"]));
        // An hour on by mistake, and back.
        passes(
            &mut cron,
            &["2026-03-10T13:10:02Z", "2026-03-10T12:10:30Z", "2026-03-10T12:20:00Z"],
        )
        .await;
        passes(&mut cron, &["2026-03-10T12:30:00Z"]).await;
        let mut expected = times(&["10", "20", "30"]);
        expected.push(at("2026-03-10T13:10:00Z"));
        assert_eq!(fires(&store).await, expected, "those of the hour that was not are done");
        // An hour back, and through it again.
        passes(
            &mut cron,
            &["2026-03-10T12:40:00Z", "2026-03-10T11:40:00Z", "2026-03-10T12:20:30Z"],
        )
        .await;
        let done = fires(&store).await;
        passes(&mut cron, &["2026-03-10T12:30:20Z", "2026-03-10T12:40:20Z"]).await;
        assert_eq!(fires(&store).await, done, "these were done before");
        passes(
            &mut cron,
            &["2026-03-10T12:50:00Z", "2026-03-10T13:00:00Z", "2026-03-10T13:10:00Z"],
        )
        .await;
        assert_eq!(
            fires(&store).await.len(),
            done.len() + 2,
            "13:10 was done by the clock that was wrong"
        );
    })
    .await;
}

#[tokio::test]
async fn fi8_a_clock_that_knows_no_time_makes_no_work() {
    each(async |store| {
        let (_double, github) = github().await;
        let all = [written("often", "*/10 * * * *"), written("yearly", "0 0 1 1 *")];
        let mut cron = cron(&store, &github, &all, "2026-03-10T12:01:00Z").await;
        passes(&mut cron, &["2026-03-10T12:01:00Z", "2026-03-10T12:10:00Z"]).await;
        let before = fires(&store).await;
        assert_eq!(before.len(), 1);
        // A machine that begins at the epoch and gets its time from the network.
        passes(&mut cron, &["1970-01-01T00:00:00Z", "2026-03-10T12:11:00Z"]).await;
        assert_eq!(fires(&store).await, before);
        passes(&mut cron, &["2026-03-10T12:20:00Z"]).await;
        assert_eq!(jobs(&store).await.len(), 2);
        // Far ahead, and back.
        passes(
            &mut cron,
            &["2099-01-01T00:00:05Z", "2026-03-10T12:21:00Z", "2026-03-10T12:30:00Z"],
        )
        .await;
        assert!(
            fires(&store).await.contains(&at("2026-03-10T12:30:00Z")),
            "it is followed again"
        );
    })
    .await;
}

#[tokio::test]
async fn fi8_a_day_in_fast_motion_over_changes_of_the_clock() {
    each(async |store| {
        let (_double, github) = github().await;
        let all = [
            written("fixed", "30 2 * * *"),
            written("hourly", "0 * * * *"),
            written("leap", "0 12 29 2 *"),
        ];
        let mut cron = cron(&store, &github, &all, "2028-02-28T12:00:00Z").await;
        for (day, hours) in [
            ("2028-02-28T22:59:00Z", 24),
            ("2028-03-25T22:59:00Z", 23),
            ("2028-10-28T21:59:00Z", 25),
        ] {
            // The days between are not looked at: their fires are made up for, once.
            set(&mut cron, day);
            pass(&cron).await;
            end_all(&store).await;
            let before = jobs(&store).await.len();
            // Ten times as fast: every ten minutes one look of many.
            let mut now = at(day);
            for _ in 0..hours * 6 {
                now = later(now, 10);
                cron.clock = Clock::manual(now);
                pass(&cron).await;
                end_all(&store).await;
            }
            let fired: Vec<_> = jobs(&store).await.iter().map(fire_of).skip(before).collect();
            let count = |name: &str| fired.iter().filter(|fire| fire.0 == name).count();
            assert_eq!((count("fixed"), count("hourly")), (1, hours), "{day}");
            assert_eq!(count("leap"), usize::from(day.starts_with("2028-02")), "{day}");
        }
    })
    .await;
}
