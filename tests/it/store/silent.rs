//! A process whose cable is pulled in the middle of a transaction holds nobody up for longer than others
//! wait for a lock, whatever everybody takes in turn it had then. On PostgreSQL: SQLite's writers are of
//! one machine.

use super::*;
use crate::databases::Database;
use forgehand::store::{Claim, ClaimLimits, NewRateLimit, NewWrite, WriteLimits};

/// The server ends the silent one's transaction after 1.5 s; others wait for 2 s.
const HELD_UP: Duration = Duration::from_secs(10);

const LIMITS: WriteLimits = WriteLimits {
    interval: Duration::ZERO,
    per_minute: 1_000,
    per_hour: 1_000,
    patience: Duration::from_secs(5),
};

fn write() -> NewWrite<'static> {
    NewWrite {
        installation: InstallationId(99),
        pool: "core",
        is_content: false,
    }
}

fn claim_of<'a>(owner: &'a str) -> Claim<'a> {
    Claim {
        owner,
        lease: LONG,
        most: 1,
        limits: ClaimLimits {
            total: 100,
            ..ClaimLimits::default()
        },
    }
}

/// What one process does in a transaction that it never ends, and another in the same place.
async fn check(database: &Database, what: &str, work: impl AsyncFn(&mut Tx) -> Result<(), StoreError>) {
    let (gone, other) = (database.open().await, database.open().await);
    let mut silent = gone.begin().await.unwrap();
    work(&mut silent).await.unwrap();
    let began = Instant::now();
    with(&other, async |tx| work(tx).await)
        .await
        .unwrap_or_else(|error| panic!("{what}: {error} after {:?}", began.elapsed()));
    let took = began.elapsed();
    assert!(took < HELD_UP, "{what}: held up for {took:?}");
    silent
        .commit()
        .await
        .expect_err("the server ended the transaction of the silent one");
    gone.close().await;
    other.close().await;
}

#[tokio::test]
async fn a_process_that_falls_silent_does_not_hold_the_others_up() {
    let database = Database::postgres().await;
    let store = database.open().await;
    let lease = leased(&store, &fix(1), LONG).await;
    for number in 2..4 {
        insert(&store, &fix(number)).await;
    }
    check(&database, "a write for an installation that is new", async |tx| {
        tx.take_write(&write(), &LIMITS).await.map(drop)
    })
    .await;
    check(&database, "a write", async |tx| {
        tx.take_write(&write(), &LIMITS).await.map(drop)
    })
    .await;
    let limit = NewRateLimit {
        installation: InstallationId(99),
        pool: "core",
        wait: Duration::from_secs(60),
        is_told: true,
        why: "GitHub said so",
    };
    check(&database, "a limit of GitHub's", async |tx| {
        tx.note_rate_limit(&limit).await.map(drop)
    })
    .await;
    check(&database, "a job", async |tx| {
        tx.claim_jobs(&claim_of("worker-2")).await.map(drop)
    })
    .await;
    check(&database, "money", async |tx| tx.begin_spending(&lease).await).await;
    store.close().await;
    database.remove().await;
}
