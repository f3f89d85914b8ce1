//! The logs of conversations: appended under a lease, read in portions, forgotten with a new round.

use super::*;
use crate::databases::each;

async fn append(store: &Store, lease: &Lease, agent: &str, first: i64, bodies: &[&str]) -> Result<(), StoreError> {
    let bodies: Vec<String> = bodies.iter().map(|body| (*body).to_owned()).collect();
    with(store, async |tx| {
        tx.append_conversation(lease, agent, first, &bodies).await
    })
    .await
}

async fn read(store: &Store, job: &JobId, agent: &str, from: i64, limit: u32) -> Vec<(i64, String)> {
    with(store, async |tx| tx.conversation(job, agent, from, limit).await)
        .await
        .unwrap()
}

fn entries(all: &[(i64, &str)]) -> Vec<(i64, String)> {
    all.iter().map(|(seq, body)| (*seq, (*body).to_owned())).collect()
}

#[tokio::test]
async fn entries_come_back_in_order_in_portions_and_by_agent() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        append(&store, &lease, "main", 0, &["a", "b"]).await.unwrap();
        append(&store, &lease, "review-1", 0, &["x"]).await.unwrap();
        append(&store, &lease, "main", 2, &["c \u{1F980}"]).await.unwrap();
        append(&store, &lease, "main", 3, &[]).await.unwrap();
        assert_eq!(
            read(&store, &lease.job, "main", 0, 10).await,
            entries(&[(0, "a"), (1, "b"), (2, "c \u{1F980}")])
        );
        assert_eq!(read(&store, &lease.job, "main", 1, 1).await, entries(&[(1, "b")]));
        assert_eq!(read(&store, &lease.job, "main", 3, 10).await, []);
        assert_eq!(read(&store, &lease.job, "review-1", 0, 10).await, entries(&[(0, "x")]));
        let agents = with(&store, async |tx| tx.conversation_agents(&lease.job).await).await;
        assert_eq!(agents.unwrap(), ["main", "review-1"]);
    })
    .await;
}

#[tokio::test]
async fn a_position_is_written_once() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        append(&store, &lease, "main", 0, &["a", "b"]).await.unwrap();
        let again = append(&store, &lease, "main", 1, &["other", "c"]).await;
        assert!(matches!(again, Err(StoreError::Corrupt(_))), "{again:?}");
        assert_eq!(
            read(&store, &lease.job, "main", 0, 10).await,
            entries(&[(0, "a"), (1, "b")]),
            "nothing of it was written"
        );
    })
    .await;
}

#[tokio::test]
async fn a_lost_lease_appends_nothing() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        expire(&store, &lease).await;
        check_lost(append(&store, &lease, "main", 0, &["late"]).await, &lease);
        assert_eq!(read(&store, &lease.job, "main", 0, 10).await, []);
    })
    .await;
}

#[tokio::test]
async fn a_new_round_begins_without_the_old_conversation() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        append(&store, &lease, "main", 0, &["a"]).await.unwrap();
        with(&store, async |tx| tx.finish_job(&lease, &Outcome::Answered).await)
            .await
            .unwrap();
        assert_eq!(read(&store, &lease.job, "main", 0, 10).await, entries(&[(0, "a")]));
        assert!(
            with(&store, async |tx| tx.requeue_job(&lease.job, now()).await)
                .await
                .unwrap()
        );
        assert_eq!(read(&store, &lease.job, "main", 0, 10).await, []);
    })
    .await;
}

#[tokio::test]
async fn an_entry_has_a_limit() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        let huge = "x".repeat(64 * 1024 * 1024 + 1);
        let refused = append(&store, &lease, "main", 0, &[&huge]).await;
        assert!(refused.unwrap_err().to_string().contains("67108865 bytes"));
    })
    .await;
}
