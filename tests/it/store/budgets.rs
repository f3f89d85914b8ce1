//! What an installation may still send: exact in every window, the same for all processes, and never
//! held for longer by a clock that jumped.

use super::*;
use crate::databases::{each, each_database};
use forgehand::store::{ALL_CALLS, NewRateLimit, NewWrite, WriteLimits, WriteTime};

const ROOMY: WriteLimits = WriteLimits {
    interval: Duration::ZERO,
    per_minute: 1_000,
    per_hour: 1_000,
    patience: Duration::from_secs(5),
};

fn content(installation: u64) -> NewWrite<'static> {
    NewWrite {
        installation: InstallationId(installation),
        pool: "core",
        is_content: true,
    }
}

async fn take(store: &Store, write: NewWrite<'_>, limits: WriteLimits) -> WriteTime {
    with(store, async |tx| tx.take_write(&write, &limits).await)
        .await
        .unwrap()
}

fn after(time: &WriteTime) -> Duration {
    match time {
        WriteTime::After(wait) => *wait,
        WriteTime::Held(hold) => panic!("{hold:?}"),
    }
}

/// How many seconds from now it is held, and why.
fn held(time: WriteTime) -> (i64, String) {
    match time {
        WriteTime::After(wait) => panic!("it may be sent after {wait:?}"),
        WriteTime::Held(hold) => ((hold.until - now()).num_seconds(), hold.why),
    }
}

#[tokio::test]
async fn writes_take_times_one_after_another_and_nobody_waits_long() {
    each(async |store| {
        let limits = WriteLimits {
            interval: Duration::from_secs(2),
            ..ROOMY
        };
        assert_eq!(after(&take(&store, content(1), limits).await), Duration::ZERO);
        for (at_least, at_most) in [(1_000, 2_000), (3_000, 4_000)] {
            let wait = after(&take(&store, content(1), limits).await).as_millis();
            assert!((at_least..=at_most).contains(&wait), "{wait} ms");
        }
        let (seconds, why) = held(take(&store, content(1), limits).await);
        assert!((4..=6).contains(&seconds), "{seconds} s");
        assert_eq!(why, "other writes of this installation come first");
        assert_eq!(
            after(&take(&store, content(2), limits).await),
            Duration::ZERO,
            "another installation"
        );
    })
    .await;
}

#[tokio::test]
async fn many_processes_together_get_what_one_would() {
    each_database(async |database| {
        let limits = WriteLimits {
            per_minute: 10,
            ..ROOMY
        };
        let takers = (0..4).map(async |_| {
            let store = database.open().await;
            let mut sent = 0;
            for _ in 0..5 {
                sent += u32::from(matches!(take(&store, content(1), limits).await, WriteTime::After(_)));
            }
            store.close().await;
            sent
        });
        let sent = futures_util::future::join_all(takers).await;
        assert_eq!(sent.iter().sum::<u32>(), 10, "{sent:?}");
    })
    .await;
}

#[tokio::test]
async fn content_is_counted_in_every_minute_and_every_hour() {
    each(async |store| {
        let limits = WriteLimits {
            per_minute: 3,
            per_hour: 3,
            ..ROOMY
        };
        for _ in 0..3 {
            after(&take(&store, content(1), limits).await);
        }
        let edit = NewWrite {
            is_content: false,
            ..content(1)
        };
        assert_eq!(
            after(&take(&store, edit, limits).await),
            Duration::ZERO,
            "an edit is not counted"
        );
        let minute = WriteLimits {
            per_hour: 1_000,
            ..limits
        };
        let (seconds, why) = held(take(&store, content(1), minute).await);
        assert!((55..=60).contains(&seconds), "{seconds} s");
        assert_eq!(
            why,
            "the budget of 3 writes in a minute for this installation is used up"
        );
        let (seconds, why) = held(take(&store, content(1), limits).await);
        assert!((3_590..=3_600).contains(&seconds), "{seconds} s");
        assert_eq!(
            why,
            "the budget of 3 writes in an hour for this installation is used up"
        );
    })
    .await;
}

#[tokio::test]
async fn an_hour_later_the_rows_are_gone_and_a_clock_that_jumped_holds_nothing() {
    each_database(async |database| {
        let store = database.open().await;
        let limits = WriteLimits {
            per_minute: 1,
            per_hour: 2,
            interval: Duration::from_secs(1),
            ..ROOMY
        };
        take(&store, content(1), limits).await;
        for (to, what) in [
            (now() - TimeDelta::minutes(61), "later"),
            (now() + TimeDelta::hours(3), "jumped"),
        ] {
            let to = to.to_rfc3339();
            database
                .execute(&format!(
                    "UPDATE content_writes SET at = '{to}'; UPDATE write_budgets SET next_at = '{to}'"
                ))
                .await;
            let wait = after(&take(&store, content(1), limits).await);
            assert!(wait <= limits.patience + limits.interval, "{what}: {wait:?}");
        }
        store.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_limit_holds_for_its_calls_until_it_ends() {
    each(async |store| {
        let limit = NewRateLimit {
            installation: InstallationId(1),
            pool: "graphql",
            wait: Duration::from_secs(600),
            is_told: true,
            why: "the hourly limit of GitHub is reached",
        };
        let until = with(&store, async |tx| tx.note_rate_limit(&limit).await).await.unwrap();
        let wait = (until - now()).num_seconds();
        assert!((595..=600).contains(&wait), "{wait}");
        after(&take(&store, content(1), ROOMY).await);
        let mutation = NewWrite {
            pool: "graphql",
            is_content: false,
            ..content(1)
        };
        let (seconds, why) = held(take(&store, mutation, ROOMY).await);
        assert!((590..=600).contains(&seconds), "{seconds}");
        assert_eq!(why, limit.why);
        let all = NewRateLimit {
            pool: ALL_CALLS,
            wait: Duration::from_secs(60),
            ..limit
        };
        with(&store, async |tx| tx.note_rate_limit(&all).await).await.unwrap();
        let (seconds, _) = held(take(&store, content(1), ROOMY).await);
        assert!((50..=60).contains(&seconds), "{seconds}");
        let shorter = NewRateLimit {
            wait: Duration::from_secs(1),
            ..all
        };
        let kept = with(&store, async |tx| tx.note_rate_limit(&shorter).await)
            .await
            .unwrap();
        assert!(
            (kept - now()).num_seconds() > 50,
            "a shorter one does not end a longer one"
        );
        let in_force = with(&store, async |tx| tx.rate_limits(InstallationId(1)).await)
            .await
            .unwrap();
        let pools: Vec<&str> = in_force.iter().map(|hold| hold.pool.as_str()).collect();
        assert_eq!(pools, ["all", "graphql"]);
        after(&take(&store, content(2), ROOMY).await);
    })
    .await;
}

#[tokio::test]
async fn a_limit_without_a_time_doubles_when_it_comes_back_and_not_for_every_worker() {
    each_database(async |database| {
        let store = database.open().await;
        let limit = NewRateLimit {
            installation: InstallationId(1),
            pool: ALL_CALLS,
            wait: Duration::from_secs(60),
            is_told: false,
            why: "GitHub limits the rate of this installation",
        };
        for expected in [60, 120, 240, 480, 960, 960] {
            for worker in ["the first", "the second"] {
                let until = with(&store, async |tx| tx.note_rate_limit(&limit).await).await.unwrap();
                let wait = (until - now()).num_seconds();
                assert!(
                    (expected - 5..=expected).contains(&wait),
                    "{worker}: {wait}, not {expected}"
                );
            }
            end_limit(database, TimeDelta::seconds(1)).await;
        }
        end_limit(database, TimeDelta::minutes(11)).await;
        let until = with(&store, async |tx| tx.note_rate_limit(&limit).await).await.unwrap();
        assert!((until - now()).num_seconds() <= 60, "another one begins anew");
        store.close().await;
    })
    .await;
}

/// As if the limit had ended so long ago.
async fn end_limit(database: &crate::databases::Database, ago: TimeDelta) {
    let to = (now() - ago).to_rfc3339();
    database
        .execute(&format!("UPDATE rate_limits SET until = '{to}'"))
        .await;
}
