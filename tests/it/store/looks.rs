//! How far GitHub was looked at, and who has the turn to look.

use super::*;
use crate::databases::each;
use forgehand::store::{DeliveryRow, Look, LookAt, RepoRow};

async fn take(store: &Store, at: LookAt, due_by: i64, next_at: i64) -> Option<Look> {
    let (due_by, next_at, begins) = (in_seconds(due_by), in_seconds(next_at), in_seconds(-3600));
    with(store, async |tx| tx.take_look(at, due_by, next_at, begins).await)
        .await
        .unwrap()
}

async fn hold(store: &Store, id: u64, active: bool) -> RepoRow {
    let row = RepoRow {
        id: RepoId(id),
        name: format!("octo/r{id}").parse().unwrap(),
        installation: InstallationId(99),
        active,
    };
    with(store, async |tx| tx.upsert_repo(&row).await).await.unwrap();
    row
}

async fn due(store: &Store, by: i64) -> Vec<u64> {
    let by = in_seconds(by);
    let due = with(store, async |tx| tx.repos_to_look_at(by, 10).await).await.unwrap();
    due.into_iter().map(|repo| repo.id.0).collect()
}

/// J16: a turn ends with time, not with a word of whoever took it.
#[tokio::test]
async fn a_look_is_taken_by_one_and_an_overtaken_one_writes_nothing() {
    each(async |store| {
        let (log, repo) = (LookAt::Log, LookAt::Repository(RepoId(7)));
        assert_eq!(with(&store, async |tx| tx.look(log).await).await.unwrap(), None);
        let first = take(&store, log, 0, 60).await.expect("nobody has it");
        assert_eq!((first.turn, first.failures), (1, 0));
        assert_eq!(take(&store, log, 30, 60).await, None, "it is not time");
        assert_eq!(take(&store, repo, 0, 60).await.expect("another thing").turn, 1);
        let second = take(&store, log, 61, 120).await.expect("its time is over");
        assert_eq!((second.turn, second.seen_to), (2, first.seen_to));
        let note = async |look: &Look| with(&store, async |tx| tx.note_look(log, look).await).await.unwrap();
        assert!(!note(&first).await, "the later look has the turn");
        let seen = Look {
            seen_to: in_seconds(-5).trunc_subsecs(6),
            mark: Some("W/\"1\"".to_owned()),
            looked_at: Some(now().trunc_subsecs(6)),
            failures: 2,
            problem: Some("GitHub is\u{0} away".to_owned()),
            next_at: second.next_at,
            ..second
        };
        assert!(note(&seen).await);
        let stored = with(&store, async |tx| tx.look(log).await).await.unwrap().unwrap();
        assert_eq!(stored.problem.as_deref(), Some("GitHub is␀ away"));
        assert_eq!(
            Look {
                problem: seen.problem.clone(),
                ..stored
            },
            seen
        );
    })
    .await;
}

#[tokio::test]
async fn repositories_have_their_turn_one_after_another() {
    each(async |store| {
        for id in 1..=3 {
            hold(&store, id, true).await;
        }
        hold(&store, 4, false).await;
        assert_eq!(due(&store, 0).await, [1, 2, 3]);
        take(&store, LookAt::Repository(RepoId(1)), 0, 60).await.unwrap();
        take(&store, LookAt::Repository(RepoId(2)), 0, 30).await.unwrap();
        assert_eq!(due(&store, 0).await, [3]);
        assert_eq!(
            due(&store, 100).await,
            [3, 2, 1],
            "first what nobody looked at, then the oldest"
        );
    })
    .await;
}

#[tokio::test]
async fn what_was_heard_last_and_what_must_be_kept_are_known() {
    each(async |store| {
        let repo = hold(&store, 7, true).await;
        assert_eq!(
            with(&store, async |tx| tx.last_heard(repo.id).await).await.unwrap(),
            None
        );
        assert_eq!(
            with(&store, async |tx| tx.seen_everywhere_to().await).await.unwrap(),
            None
        );
        let last = in_seconds(-10).trunc_subsecs(6);
        for (guid, received_at) in [("g1", last - TimeDelta::hours(1)), ("g2", last)] {
            let row = DeliveryRow {
                guid: guid.to_owned(),
                semantic_key: guid.to_owned(),
                event: "issues".to_owned(),
                action: "labeled".to_owned(),
                repo_id: Some(repo.id),
                body_sha256: String::new(),
                body: "{}".to_owned(),
                received_at,
                outcome: String::new(),
            };
            with(&store, async |tx| tx.insert_delivery(&row).await).await.unwrap();
        }
        let heard = with(&store, async |tx| tx.last_heard(repo.id).await).await.unwrap();
        assert_eq!(heard, Some(last));
        let look = take(&store, LookAt::Repository(repo.id), 0, 60).await.unwrap();
        take(&store, LookAt::Repository(RepoId(8)), 0, 60).await.unwrap();
        take(&store, LookAt::Log, 0, 60).await.unwrap();
        let seen = with(&store, async |tx| tx.seen_everywhere_to().await).await.unwrap();
        assert_eq!(seen, Some(look.seen_to), "only repositories that are held count");
    })
    .await;
}
