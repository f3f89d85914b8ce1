//! Transactions on SQLite share commits: each is still all or nothing, and none is told that it is
//! committed before it is. (On PostgreSQL the same stories hold without groups.)

use super::*;
use crate::databases::{Database, each};

#[tokio::test(flavor = "multi_thread")]
async fn one_that_gives_up_takes_nobody_with_it() {
    each(async |store| {
        let writers: Vec<_> = (0..200_u64)
            .map(|number| {
                let store = store.clone();
                tokio::spawn(async move {
                    let mut tx = store.begin().await.unwrap();
                    let id = tx.insert_job(&fix(number), now()).await.unwrap().unwrap();
                    match number % 3 {
                        0 => drop(tx),
                        1 => {
                            // A statement that fails leaves the transaction of its own in doubt only.
                            let twice = NewJob {
                                dedupe_key: Some("one".to_owned()),
                                ..fix(number)
                            };
                            tx.insert_job(&twice, now()).await.unwrap();
                            tx.commit().await.unwrap();
                        }
                        _ => tx.commit().await.unwrap(),
                    }
                    (number, id)
                })
            })
            .collect();
        for writer in writers {
            let (number, id) = writer.await.unwrap();
            let there = with(&store, async |tx| tx.job(&id).await).await.unwrap().is_some();
            assert_eq!(there, number % 3 != 0, "number {number}");
        }
        let all = with(&store, async |tx| tx.job_counts().await).await.unwrap();
        assert_eq!(all, [(JobState::Queued, 133 + 1)]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_goes_away_in_the_middle_does_not_stop_the_line() {
    each(async |store| {
        let held = store.begin().await.unwrap();
        // These wait behind it on SQLite, and are gone before their turn or in the middle of it.
        for number in 0..50 {
            let store = store.clone();
            let waiting = tokio::spawn(async move {
                let mut tx = store.begin().await.unwrap();
                tx.insert_job(&fix(number), now()).await.unwrap();
                std::future::pending::<()>().await;
            });
            tokio::task::yield_now().await;
            waiting.abort();
        }
        drop(held);
        let id = insert(&store, &fix(1_000)).await;
        let jobs = with(&store, async |tx| tx.job_counts().await).await.unwrap();
        assert_eq!(jobs, [(JobState::Queued, 1)], "only {id} was committed");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_told_as_committed_is_there_for_another_process() {
    let database = Database::sqlite();
    let (store, other) = (database.open().await, database.open().await);
    let (sent, mut committed) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..100 {
        let (store, sent) = (store.clone(), sent.clone());
        tokio::spawn(async move {
            let id = insert(&store, &fix(number)).await;
            sent.send(id).unwrap();
        });
    }
    drop(sent);
    while let Some(id) = committed.recv().await {
        let seen = with(&other, async |tx| tx.job(&id).await).await.unwrap();
        assert!(seen.is_some(), "{id} was told as committed");
    }
    other.close().await;
    store.close().await;
    let closed = store.begin().await.err();
    assert!(matches!(closed, Some(StoreError::Unavailable(_))), "{closed:?}");
    database.remove().await;
}
