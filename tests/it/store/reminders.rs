//! Reminders of questions that still wait: due late, taken once, given back when they were not sent.

use super::*;
use crate::databases::each;
use forgehand::question::Question;
use forgehand::store::NewQuestion;

async fn waiting(store: &Store, number: u64, milliseconds: i64) -> JobId {
    let lease = leased(store, &fix(number), LONG).await;
    let asking = NewQuestion {
        seq: 1,
        question: Question::Ask {
            questions: vec!["Which parser?".to_owned()],
        },
        base: None,
        answer_by: now() + TimeDelta::milliseconds(milliseconds),
    };
    assert!(
        with(store, async |tx| tx.pause_job(&lease, &asking, &[]).await)
            .await
            .unwrap()
    );
    lease.job
}

async fn due(store: &Store) -> Vec<(JobId, u32)> {
    with(store, async |tx| tx.due_reminders(10).await).await.unwrap()
}

#[tokio::test]
async fn a_reminder_is_due_late_and_taken_by_one() {
    each(async |store| {
        waiting(&store, 1, 3_600_000).await;
        assert_eq!(due(&store).await, [], "there is time");
        let asked = with(&store, async |tx| tx.db_now().await).await.unwrap();
        let job = waiting(&store, 2, 4_000).await;
        let deadline = Instant::now() + Duration::from_secs(20);
        while due(&store).await.is_empty() {
            assert!(Instant::now() < deadline, "it never is due");
            tokio::task::yield_now().await;
        }
        let waited = with(&store, async |tx| tx.db_now().await).await.unwrap() - asked;
        assert!(
            waited >= TimeDelta::milliseconds(2_900),
            "three quarters of the time: {waited}"
        );
        assert_eq!(due(&store).await, [(job.clone(), 1)]);
        let take = async || with(&store, async |tx| tx.take_reminder(&job, 1).await).await.unwrap();
        assert!(take().await);
        assert!(!take().await, "another process has it");
        assert_eq!(due(&store).await, []);
        with(&store, async |tx| tx.return_reminder(&job, 1).await)
            .await
            .unwrap();
        assert!(take().await, "it was not sent");
        with(&store, async |tx| tx.return_reminder(&job, 1).await)
            .await
            .unwrap();
        with(&store, async |tx| tx.cancel_job(&job, "not needed", now()).await)
            .await
            .unwrap();
        assert!(!take().await, "it waits no more");
    })
    .await;
}
