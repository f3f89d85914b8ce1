//! The outbox: each effect once, and never again after it is final.

use super::*;
use crate::databases::each;
use forgehand::effect::EffectState;

#[tokio::test]
async fn an_effect_goes_its_way_to_done() {
    each(async |store| {
        let lease = publishing(&store, &fix(1), &[2, 1], LONG).await;
        let load = async || with(&store, async |tx| tx.effects(&lease.job).await).await.unwrap();
        let effects = load().await;
        assert_eq!(effects.iter().map(|effect| effect.seq).collect::<Vec<_>>(), [1, 2]);
        let first = &effects[0];
        assert_eq!(
            (first.state, first.tries, first.sent_at),
            (EffectState::Pending, 0, None)
        );
        assert_eq!((&first.job, &first.body), (&lease.job, &comment(&lease.job, 1).body));
        assert_eq!(first.dedupe_key, format!("{}/1", lease.job));

        let go = async |state, remote_id, problem| {
            with(&store, async |tx| {
                tx.move_effect(&lease, 1, state, remote_id, problem).await
            })
            .await
        };
        let before = with(&store, async |tx| tx.db_now().await).await.unwrap();
        go(EffectState::Sending, None, None).await.unwrap();
        go(EffectState::Unknown, None, Some("timeout")).await.unwrap();
        let unknown = load().await[0].clone();
        assert_eq!((unknown.state, unknown.tries), (EffectState::Unknown, 1));
        assert!(unknown.sent_at.unwrap() >= before);
        assert_eq!(unknown.problem.as_deref(), Some("timeout"));

        go(EffectState::Sending, None, None).await.unwrap();
        go(EffectState::Done, Some("4711"), None).await.unwrap();
        let done = load().await[0].clone();
        assert_eq!(
            (done.state, done.tries, done.fence),
            (EffectState::Done, 2, lease.fence)
        );
        assert_eq!((done.remote_id.as_deref(), done.problem), (Some("4711"), None));
        assert!(done.sent_at.unwrap() >= unknown.sent_at.unwrap());
    })
    .await;
}

#[tokio::test]
async fn what_is_final_or_leaves_no_trace_is_refused() {
    each(async |store| {
        let lease = publishing(&store, &fix(1), &[1], LONG).await;
        let go = async |seq, state, remote_id| {
            with(&store, async |tx| {
                tx.move_effect(&lease, seq, state, remote_id, None).await
            })
            .await
        };
        let refused = async |seq, state, remote_id| {
            let result = go(seq, state, remote_id).await;
            assert!(
                matches!(result, Err(StoreError::Corrupt(_))),
                "{seq} {state} {result:?}"
            );
        };
        refused(1, EffectState::Done, None).await;
        refused(2, EffectState::Sending, None).await;
        go(1, EffectState::Failed, None).await.unwrap();
        refused(1, EffectState::Sending, None).await;
        refused(1, EffectState::Done, Some("1")).await;
    })
    .await;
}

#[tokio::test]
async fn an_effect_that_exists_stays_and_a_stolen_key_is_an_error() {
    each(async |store| {
        let first = leased(&store, &fix(1), LONG).await;
        let second = leased(&store, &fix(2), LONG).await;
        let insert = async |lease: &Lease, effect: &forgehand::effect::NewEffect| {
            with(&store, async |tx| {
                tx.insert_effects(lease, std::slice::from_ref(effect)).await
            })
            .await
        };
        let effect = comment(&first.job, 1);
        insert(&first, &effect).await.unwrap();
        with(&store, async |tx| {
            tx.move_effect(&first, 1, EffectState::Done, Some("1"), None).await
        })
        .await
        .unwrap();
        insert(&first, &effect).await.unwrap();
        let kept = with(&store, async |tx| tx.effects(&first.job).await).await.unwrap();
        assert_eq!((kept.len(), kept[0].state), (1, EffectState::Done));

        let stolen = insert(&second, &effect).await;
        assert!(matches!(stolen, Err(StoreError::Corrupt(_))), "{stolen:?}");
        let mut moved = comment(&first.job, 1);
        moved.dedupe_key = "another key".to_owned();
        let moved = insert(&first, &moved).await;
        assert!(matches!(moved, Err(StoreError::Corrupt(_))), "{moved:?}");
    })
    .await;
}

#[tokio::test]
async fn calls_are_stamped_when_they_are_sent_and_those_that_were_held_cost_no_try() {
    each(async |store| {
        let lease = publishing(&store, &fix(1), &[1], LONG).await;
        let load = async || {
            with(&store, async |tx| tx.effects(&lease.job).await)
                .await
                .unwrap()
                .remove(0)
        };
        let go = async |state| with(&store, async |tx| tx.move_effect(&lease, 1, state, None, None).await).await;
        let early = with(&store, async |tx| tx.stamp_effect(&lease, 1).await).await;
        assert!(matches!(early, Err(StoreError::Corrupt(_))), "{early:?}");
        go(EffectState::Sending).await.unwrap();
        let begun = load().await.sent_at.unwrap();
        until_later(&store, begun).await;
        with(&store, async |tx| tx.stamp_effect(&lease, 1).await).await.unwrap();
        let sent = load().await;
        assert!(sent.sent_at.unwrap() > begun);
        assert_eq!((sent.state, sent.tries, sent.unclear), (EffectState::Sending, 1, 0));

        with(&store, async |tx| tx.put_back_effect(&lease, 1, "no room").await)
            .await
            .unwrap();
        let back = load().await;
        assert_eq!((back.state, back.tries, back.unclear), (EffectState::Pending, 0, 0));
        assert_eq!(back.problem.as_deref(), Some("no room"));
        let twice = with(&store, async |tx| tx.put_back_effect(&lease, 1, "no room").await).await;
        assert!(matches!(twice, Err(StoreError::Corrupt(_))), "{twice:?}");

        go(EffectState::Sending).await.unwrap();
        go(EffectState::Unknown).await.unwrap();
        assert_eq!((load().await.tries, load().await.unclear), (1, 1));
        let stranger = Lease {
            fence: lease.fence + 1,
            ..lease.clone()
        };
        let refused = with(&store, async |tx| tx.stamp_effect(&stranger, 1).await).await;
        assert!(matches!(refused, Err(StoreError::LeaseLost(_))), "{refused:?}");
    })
    .await;
}

#[tokio::test]
async fn a_repair_is_noted_with_the_effect_and_in_the_log() {
    each(async |store| {
        let lease = publishing(&store, &fix(1), &[1], LONG).await;
        let words = "a comment arrived twice";
        with(&store, async |tx| tx.note_repaired(&lease, 1, words).await)
            .await
            .unwrap();
        let effect = with(&store, async |tx| tx.effects(&lease.job).await)
            .await
            .unwrap()
            .remove(0);
        assert_eq!(effect.repaired.as_deref(), Some(words));
        let log = with(&store, async |tx| tx.events(&lease.job, 0, 100).await)
            .await
            .unwrap();
        let noted = RunEvent::Noted { text: words.to_owned() };
        assert_eq!(log.iter().filter(|event| event.body == noted).count(), 1);
        let none = with(&store, async |tx| tx.note_repaired(&lease, 7, words).await).await;
        assert!(matches!(none, Err(StoreError::Corrupt(_))), "{none:?}");
    })
    .await;
}

/// Waits until the database's clock, which on SQLite moves by milliseconds, has moved on.
async fn until_later(store: &Store, than: chrono::DateTime<chrono::Utc>) {
    while with(store, async |tx| tx.db_now().await).await.unwrap() <= than {
        tokio::task::yield_now().await;
    }
}
