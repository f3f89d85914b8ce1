//! On SQLite everybody writes through one connection: a flood of one kind of write must not keep the
//! others waiting. Each wait is bounded well below a heartbeat, in the process that is flooded and in
//! another one on the same file.
//! Never measures how much gets through: that is `benches/queue`'s.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forgehand::store::{DeliveryRow, Inserted};

use super::*;
use crate::databases::Database;

/// As many connections as a busy receiver has.
const FLOOD: u64 = 64;
/// How long it lasts: many times the longest that the writer goes on without a break.
const LASTS: Duration = Duration::from_secs(6);
/// Longest wait of anybody: a fifth of the time between two heartbeats, and less than half of what a
/// transaction waits at most before it is refused.
const BOUND: Duration = Duration::from_secs(2);

/// Runs a kind of write again and again while `flooded`. The longest wait, and how many there were.
async fn longest(flooded: &AtomicBool, mut write: impl AsyncFnMut(u64)) -> (Duration, u64) {
    let (mut longest, mut count) = (Duration::ZERO, 0);
    while flooded.load(Ordering::SeqCst) {
        let begun = Instant::now();
        write(count).await;
        longest = longest.max(begun.elapsed());
        count += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    (longest, count)
}

async fn deliver(store: &Store, guid: String) {
    let delivery = DeliveryRow {
        semantic_key: guid.clone(),
        guid,
        event: "issues".to_owned(),
        action: "labeled".to_owned(),
        repo_id: Some(RepoId(7)),
        body_sha256: "ab".repeat(32),
        body: "x".repeat(2_000),
        received_at: now(),
        outcome: "ignored".to_owned(),
    };
    let inserted = with(store, async |tx| tx.insert_delivery(&delivery).await).await;
    assert_eq!(inserted.unwrap(), Inserted::New);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_deliveries_keeps_no_other_writer_waiting_on_sqlite() {
    let database = Database::sqlite();
    let (store, other) = (database.open().await, database.open().await);
    let lease = leased(&store, &fix(1), LONG).await;
    let others_lease = leased(&other, &fix(2), LONG).await;
    let flooded = Arc::new(AtomicBool::new(true));
    let flood: Vec<_> = (0..FLOOD)
        .map(|number| {
            let (store, flooded) = (store.clone(), Arc::clone(&flooded));
            tokio::spawn(async move {
                let mut count = 0_u64;
                while flooded.load(Ordering::SeqCst) {
                    deliver(&store, format!("{number}-{count}")).await;
                    count += 1;
                }
                count
            })
        })
        .collect();
    let beat = async |store: &Store, lease: &Lease| {
        with(store, async |tx| tx.heartbeat(lease, LONG).await).await.unwrap();
    };
    let waits = async {
        tokio::join!(
            longest(&flooded, async |_| beat(&store, &lease).await),
            longest(&flooded, async |count| {
                insert(&store, &fix(1_000 + count)).await;
            }),
            longest(&flooded, async |_| {
                claim(&store, "worker-1", LONG).await;
            }),
            longest(&flooded, async |_| beat(&other, &others_lease).await),
            longest(&flooded, async |count| {
                deliver(&other, format!("other-{count}")).await;
            }),
        )
    };
    let end = async {
        tokio::time::sleep(LASTS).await;
        flooded.store(false, Ordering::SeqCst);
    };
    let ((beats, jobs, claims, others_beats, others), ()) = tokio::join!(waits, end);
    let mut delivered = 0;
    for line in flood {
        delivered += line.await.unwrap();
    }
    eprintln!("{delivered} deliveries in {LASTS:?} on {FLOOD} lines");
    let all = [
        ("heartbeats", beats),
        ("new jobs", jobs),
        ("claims", claims),
        ("heartbeats of another process", others_beats),
        ("deliveries of another process", others),
    ];
    for (what, (longest, count)) in all {
        eprintln!("  {count:4} {what}: the longest wait was {longest:.1?}");
        assert!(longest <= BOUND, "{what} waited for {longest:?} during a flood");
        assert!(count >= 4, "only {count} {what} in {LASTS:?}");
    }
    assert!(delivered > FLOOD, "there was no flood");
    other.close().await;
    store.close().await;
    database.remove().await;
}
