//! What runs keep for later ones: notes and trees of causes, each scope by itself.

use super::*;
use crate::databases::each;
use forgehand::note::{Cause, CauseStatus, Evidence, Note};

fn note(key: &str, value: &str, seconds: i64) -> Note {
    Note {
        key: key.to_owned(),
        value: value.to_owned(),
        by: "job 1".to_owned(),
        at: in_seconds(seconds),
    }
}

async fn write(store: &Store, scope: &str, note: &Note, most: u32) -> bool {
    with(store, async |tx| tx.write_note(scope, note, most).await)
        .await
        .unwrap()
}

async fn keys(store: &Store, scope: &str) -> Vec<String> {
    let notes = with(store, async |tx| tx.notes(scope, 10).await).await.unwrap();
    notes.into_iter().map(|note| note.key).collect()
}

#[tokio::test]
async fn notes_are_kept_by_scope_and_the_latest_come_first() {
    each(async |store| {
        assert!(write(&store, "repository/1", &note("a", "one \u{0}", 1), 2).await);
        assert!(write(&store, "repository/1", &note("b", "two", 2), 2).await);
        assert!(
            !write(&store, "repository/1", &note("c", "three", 3), 2).await,
            "it is full"
        );
        assert!(
            write(&store, "repository/1", &note("a", "four", 4), 2).await,
            "a key can be written over"
        );
        assert!(write(&store, "repository/11", &note("a", "other", 5), 2).await);
        assert_eq!(keys(&store, "repository/1").await, ["a", "b"]);
        let notes = with(&store, async |tx| tx.notes("repository/1", 1).await)
            .await
            .unwrap();
        assert_eq!(
            (notes.len(), notes[0].value.as_str(), notes[0].by.as_str()),
            (1, "four", "job 1")
        );
        let forget = async |scope: &str| with(&store, async |tx| tx.forget_note(scope, "a").await).await.unwrap();
        assert!(forget("repository/1").await);
        assert!(!forget("repository/1").await);
        assert_eq!(keys(&store, "repository/1").await, ["b"]);
        assert_eq!(keys(&store, "repository/11").await, ["a"]);
        assert_eq!(keys(&store, "global").await, Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn hypotheses_are_kept_by_tree() {
    each(async |store| {
        let mut cause = Cause {
            node: 1,
            parent: None,
            hypothesis: "the parser \u{0} drops it".to_owned(),
            status: CauseStatus::Open,
            evidence: Vec::new(),
            at: in_seconds(1),
        };
        let write = async |tree: &str, cause: &Cause| {
            with(&store, async |tx| tx.write_cause("repository/1", tree, cause).await)
                .await
                .unwrap();
        };
        write("issue/1", &cause).await;
        write("issue/2", &cause).await;
        cause.status = CauseStatus::Refuted;
        cause.at = in_seconds(9);
        cause.evidence.push(Evidence {
            weight: -3,
            words: "it prints all".to_owned(),
            by: "job 1".to_owned(),
        });
        write("issue/1", &cause).await;
        let child = Cause {
            node: 2,
            parent: Some(1),
            ..cause.clone()
        };
        write("issue/1", &child).await;
        let tree = async |scope: &str| {
            with(&store, async |tx| tx.causes(scope, "issue/1").await)
                .await
                .unwrap()
        };
        let found = tree("repository/1").await;
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].status, found[0].score(), found[1].parent),
            (CauseStatus::Refuted, -3, Some(1))
        );
        assert_eq!(found[0].hypothesis, "the parser ␀ drops it");
        assert_eq!(tree("repository/2").await, []);
        let trees = with(&store, async |tx| tx.cause_trees("repository/1").await)
            .await
            .unwrap();
        assert_eq!(trees, [("issue/1".to_owned(), 2), ("issue/2".to_owned(), 1)]);
        let gone = with(&store, async |tx| tx.forget_causes("repository/1", "issue/1").await)
            .await
            .unwrap();
        assert_eq!(gone, 2);
        assert_eq!(tree("repository/1").await, []);
    })
    .await;
}
