//! Queues that are polled: turns, what became of issues, switches, and what caps are measured by.

use super::*;
use crate::databases::each;
use forgehand::money::Usd;
use forgehand::store::{AutotaskSwitch, ItemState, QueueCursor, QueueItem, QueueKey};

const KEY: QueueKey<'_> = QueueKey {
    source: "is:issue is:open label:\"ready\"",
    repo: RepoId(7),
};

async fn take(store: &Store, at: i64, every: i64) -> Option<QueueCursor> {
    let (now, next) = (in_seconds(at), in_seconds(at + every));
    with(store, async |tx| tx.take_queue_turn(KEY, (now, now), next).await)
        .await
        .unwrap()
}

fn item(number: u64, state: ItemState, job: Option<&JobId>) -> QueueItem {
    QueueItem {
        number: IssueNumber(number),
        version: format!("version {number}"),
        changed_at: now(),
        state,
        reason: "be\u{0}cause".to_owned(),
        job: job.cloned(),
        asked_by: Some("mona".to_owned()),
        absent: 0,
        seen_at: now(),
    }
}

/// J16: a turn ends with time, not with a word of whoever took it.
#[tokio::test]
async fn j16_a_turn_is_taken_by_one_and_ends_by_itself() {
    each(async |store| {
        assert_eq!(with(&store, async |tx| tx.queue_cursor(KEY).await).await.unwrap(), None);
        let first = take(&store, 0, 60).await.expect("nobody has it");
        assert_eq!((first.turn, first.selected, first.failures), (1, None, 0));
        assert_eq!(take(&store, 30, 60).await, None, "it is not time");
        // Whoever had it is gone: nothing was said, and the next one has it.
        let second = take(&store, 61, 60).await.expect("its time is over");
        assert_eq!(second.turn, 2);
        // Somebody asks for it at the command line.
        let (now, due_by) = (in_seconds(62), in_seconds(200));
        let asked = with(&store, async |tx| tx.take_queue_turn(KEY, (now, due_by), due_by).await);
        assert_eq!(asked.await.unwrap().expect("it is asked for").turn, 3);
        let other = QueueKey { repo: RepoId(8), ..KEY };
        let other = with(&store, async |tx| tx.take_queue_turn(other, (now, now), due_by).await);
        assert_eq!(other.await.unwrap().expect("another queue").turn, 1);
    })
    .await;
}

#[tokio::test]
async fn an_overtaken_look_writes_nothing() {
    each(async |store| {
        let old = take(&store, 0, 60).await.unwrap();
        let new = take(&store, 61, 60).await.unwrap();
        let holds = async |turn| {
            with(&store, async |tx| tx.holds_queue_turn(KEY, turn).await)
                .await
                .unwrap()
        };
        assert!(!holds(old.turn).await);
        assert!(holds(new.turn).await);
        let note = async |cursor: &QueueCursor| {
            with(&store, async |tx| tx.note_queue_read(KEY, cursor).await)
                .await
                .unwrap()
        };
        assert!(
            !note(&QueueCursor {
                problem: Some("late".to_owned()),
                ..old
            })
            .await
        );
        let read = QueueCursor {
            mark: vec!["W/\"1\"".to_owned()],
            selected: Some(0),
            open_items: Some(4),
            read_at: Some(now()),
            failures: 2,
            problem: Some("a \u{0} b".to_owned()),
            ..new
        };
        assert!(note(&read).await);
        let stored = with(&store, async |tx| tx.queue_cursor(KEY).await)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(stored.problem.as_deref(), Some("a ␀ b"));
        assert_eq!(
            QueueCursor {
                problem: None,
                ..stored
            },
            QueueCursor { problem: None, ..read }
        );
    })
    .await;
}

#[tokio::test]
async fn j4_what_became_of_issues_is_kept_and_forgotten_in_time() {
    each(async |store| {
        let job = insert(&store, &fix(2)).await;
        let put = async |item: &QueueItem| {
            with(&store, async |tx| tx.put_queue_item(KEY, item).await)
                .await
                .unwrap()
        };
        let items = async || with(&store, async |tx| tx.queue_items(KEY).await).await.unwrap();
        put(&item(9, ItemState::Waiting, None)).await;
        put(&item(2, ItemState::Working, Some(&job))).await;
        let held = item(9, ItemState::Held, None);
        put(&held).await;
        let found = items().await;
        assert_eq!(found.iter().map(|item| item.number.0).collect::<Vec<_>>(), [2, 9]);
        assert_eq!(
            (found[1].state, found[1].reason.as_str()),
            (ItemState::Held, "be␀cause")
        );
        assert_eq!(found[0].job.as_ref(), Some(&job));
        let forget = async |at| {
            with(&store, async |tx| tx.forget_queue_items(KEY, at).await)
                .await
                .unwrap()
        };
        assert_eq!(forget(in_seconds(60)).await, 0, "they are in the queue");
        put(&QueueItem { absent: 1, ..held }).await;
        put(&QueueItem {
            absent: 1,
            ..item(2, ItemState::Working, Some(&job))
        })
        .await;
        assert_eq!(forget(in_seconds(-60)).await, 0, "it was seen a moment ago");
        assert_eq!(forget(in_seconds(60)).await, 1);
        assert_eq!(items().await.len(), 1, "one is at work");
    })
    .await;
}

#[tokio::test]
async fn only_what_queues_asked_for_counts_against_their_caps() {
    each(async |store| {
        let queued = |number| {
            let mut new = fix(number);
            new.request.trigger = Trigger::Queue {
                label: Some("ready".to_owned()),
                source: KEY.source.to_owned(),
            };
            new
        };
        let open = async || {
            with(&store, async |tx| tx.queue_jobs_open(RepoId(7)).await)
                .await
                .unwrap()
        };
        insert(&store, &fix(1)).await;
        assert_eq!(open().await, 0, "a person asked for it");
        let job = insert(&store, &queued(2)).await;
        insert(&store, &queued(3)).await;
        assert_eq!(open().await, 2);
        with(&store, async |tx| tx.cancel_job(&job, "not needed", now()).await)
            .await
            .unwrap();
        assert_eq!(open().await, 1);
        let spent = async |at| {
            with(&store, async |tx| tx.queue_spent(RepoId(7), at).await)
                .await
                .unwrap()
        };
        assert_eq!(spent(now()).await, Usd::ZERO);
        // Only one of the jobs that are left is of a queue; both spend.
        for _ in 0..2 {
            let leased = claim(&store, "worker-1", LONG).await.expect("a job is ready");
            let event = super::ledger::replied("test-model", Some(0.25));
            with(&store, async |tx| tx.append_event(&leased.lease, &event, now()).await)
                .await
                .unwrap();
        }
        assert_eq!(spent(now()).await, Usd::from_dollars(0.25));
        assert_eq!(spent(in_seconds(-2 * 86_400)).await, Usd::ZERO, "another day");
    })
    .await;
}

#[tokio::test]
async fn every_switch_is_kept_with_who_and_when() {
    each(async |store| {
        let switch = |is_on, at| AutotaskSwitch {
            repo: "Octo/Words".parse().unwrap(),
            is_on,
            by: "the operator".to_owned(),
            at,
        };
        for (is_on, at) in [(true, -20), (false, -10)] {
            let switch = switch(is_on, in_seconds(at));
            with(&store, async |tx| tx.switch_autotask(&switch).await)
                .await
                .unwrap();
        }
        let all = with(&store, async |tx| tx.autotask_switches().await).await.unwrap();
        assert_eq!(all.iter().map(|switch| switch.is_on).collect::<Vec<_>>(), [true, false]);
        assert_eq!(all[1].repo.as_str(), "octo/words");
        assert_eq!(all[1].by, "the operator");
    })
    .await;
}
