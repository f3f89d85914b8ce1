//! The log of a job, and the checkpoints beside it.

use super::*;
use crate::databases::each;

#[tokio::test]
async fn events_come_back_in_order_and_in_portions() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        for (text, expected) in [("one", 3), ("two \u{0} é", 4)] {
            let seq = with(&store, async |tx| tx.append_event(&lease, &noted(text), now()).await).await;
            assert_eq!(seq.unwrap(), expected);
        }
        let read = async |after, limit| with(&store, async |tx| tx.events(&lease.job, after, limit).await).await;
        let all = read(0, 10).await.unwrap();
        assert_eq!(all.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(all[3].body, noted("two \u{0} é"));
        assert_eq!(all[3].at, all[3].at.trunc_subsecs(6));
        assert_eq!(read(2, 1).await.unwrap(), all[2..3]);
        assert_eq!(read(4, 10).await.unwrap(), []);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_have_no_gap_when_many_write_at_once() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        let writers: Vec<_> = (0..20)
            .map(|_| {
                let (store, lease) = (store.clone(), lease.clone());
                tokio::spawn(async move {
                    with(&store, async |tx| tx.append_event(&lease, &noted("x"), now()).await)
                        .await
                        .unwrap()
                })
            })
            .collect();
        let mut positions = Vec::new();
        for writer in writers {
            positions.push(writer.await.unwrap());
        }
        positions.sort_unstable();
        assert_eq!(positions, (3..23).collect::<Vec<i64>>());
    })
    .await;
}

#[tokio::test]
async fn the_latest_checkpoint_of_each_kind_is_kept() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        let every_byte: Vec<u8> = (0..=255).collect();
        for (kind, seq, body) in [
            ("conversation", 1, b"old".as_slice()),
            ("conversation", 2, &every_byte),
            ("solution", 7, b""),
        ] {
            with(&store, async |tx| tx.save_checkpoint(&lease, kind, seq, body).await)
                .await
                .unwrap();
        }
        let read = async |kind| {
            with(&store, async |tx| tx.checkpoint(&lease.job, kind).await)
                .await
                .unwrap()
        };
        assert_eq!(read("conversation").await, Some((2, every_byte)));
        assert_eq!(read("solution").await, Some((7, Vec::new())));
        assert_eq!(read("workspace").await, None);
    })
    .await;
}

#[tokio::test]
async fn a_checkpoint_has_a_limit() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        let huge = vec![0; 64 * 1024 * 1024 + 1];
        let refused = with(&store, async |tx| {
            tx.save_checkpoint(&lease, "solution", 1, &huge).await
        })
        .await;
        assert!(refused.unwrap_err().to_string().contains("67108865 bytes"));
    })
    .await;
}
