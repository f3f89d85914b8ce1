//! What nobody works on and no ordinary step ends is found, and ended without touching what lives.

use super::*;
use crate::databases::{Database, each};
use forgehand::effect::EffectState;
use forgehand::money::Usd;
use forgehand::question::Question;
use forgehand::store::NewQuestion;

async fn on_both(story: impl AsyncFn(&Database, &Store)) {
    for database in [Database::sqlite(), Database::postgres().await] {
        eprintln!("on {}", database.kind());
        let store = database.open().await;
        story(&database, &store).await;
        assert_eq!(with(&store, async |tx| tx.violations().await).await.unwrap(), []);
        store.close().await;
        database.remove().await;
    }
}

async fn stuck(store: &Store) -> Vec<(JobId, JobState)> {
    let stuck = with(store, async |tx| tx.stuck(10).await).await.unwrap();
    let mut stuck: Vec<_> = stuck.into_iter().map(|job| (job.id, job.state)).collect();
    stuck.sort_by_key(|(_, state)| state.as_str());
    stuck
}

async fn free(store: &Store, id: &JobId) -> bool {
    with(store, async |tx| tx.free_stuck(id).await).await.unwrap()
}

#[tokio::test]
async fn a_job_that_nobody_holds_and_nobody_could_claim_is_freed() {
    on_both(async |database, store| {
        let held = leased(store, &fix(1), LONG).await;
        let lost = leased(store, &fix(2), LONG).await;
        let half = publishing(store, &fix(3), &[], LONG).await;
        let waiting = leased(store, &fix(5), LONG).await;
        let asked = insert(store, &fix(4)).await;
        let question = NewQuestion {
            seq: 1,
            question: Question::Ask {
                questions: vec!["Which?".to_owned()],
            },
            base: None,
            answer_by: in_seconds(3600),
        };
        let row = NewEffect {
            seq: 101,
            dedupe_key: format!("{}/101", waiting.job),
            body: EffectBody::Ask,
        };
        with(store, async |tx| tx.pause_job(&waiting, &question, &[row]).await)
            .await
            .unwrap();
        assert_eq!(stuck(store).await, []);
        assert!(!free(store, &held.job).await, "somebody holds it");
        database
            .execute(&format!(
                "UPDATE jobs SET lease_until = NULL WHERE id IN ('{}', '{}');
                 UPDATE jobs SET lease_owner = 'gone' WHERE id = '{asked}';
                 UPDATE questions SET expired_at = answer_by WHERE job_id = '{}'",
                lost.job, half.job, waiting.job
            ))
            .await;
        let expected = [
            // In the order of their states' names.
            (lost.job.clone(), JobState::Leased),
            (half.job.clone(), JobState::Publishing),
            (asked.clone(), JobState::Queued),
            (waiting.job.clone(), JobState::Waiting),
        ];
        assert_eq!(stuck(store).await, expected);
        for (id, _) in &expected {
            assert!(free(store, id).await && !free(store, id).await);
        }
        assert_eq!(stuck(store).await, []);
        let mut states = Vec::new();
        for (id, _) in &expected {
            states.push(state(store, id).await);
        }
        let (queued, publishing) = (JobState::Queued, JobState::Publishing);
        assert_eq!(states, [queued, publishing, queued, queued]);
        assert_eq!(state(store, &held.job).await, JobState::Leased);
        assert!(log(store, &lost.job).await.contains(&"recovered".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn money_for_the_calls_of_lost_workers_is_given_back() {
    each(async |store| {
        let (held, lost) = (leased(&store, &fix(1), LONG).await, leased(&store, &fix(2), LONG).await);
        for lease in [&held, &lost] {
            with(&store, async |tx| {
                tx.begin_spending(lease).await?;
                tx.reserve(lease, Usd::from_cents(5), now()).await
            })
            .await
            .unwrap();
        }
        let stale = async || with(&store, async |tx| tx.stale_reservations(10).await).await.unwrap();
        assert_eq!(stale().await, []);
        expire(&store, &lost).await;
        with(&store, async |tx| tx.recover_expired(MAX_LOST, 10).await)
            .await
            .unwrap();
        assert_eq!(stale().await, [(lost.job.clone(), Usd::from_cents(5))]);
        let freed = with(&store, async |tx| tx.free_stale_reservations().await).await;
        assert_eq!(freed.unwrap(), 1);
        assert_eq!(stale().await, []);
    })
    .await;
}

#[tokio::test]
async fn a_question_past_its_time_is_shown_before_it_is_ended() {
    each(async |store| {
        let overdue = async || with(&store, async |tx| tx.overdue_questions(10).await).await.unwrap();
        for (number, seconds) in [(1, 3600), (2, -1)] {
            let lease = leased(&store, &fix(number), LONG).await;
            let question = NewQuestion {
                seq: 1,
                question: Question::Ask {
                    questions: vec!["Which?".to_owned()],
                },
                base: None,
                answer_by: in_seconds(seconds),
            };
            let row = NewEffect {
                seq: 101,
                dedupe_key: format!("{}/101", lease.job),
                body: EffectBody::Ask,
            };
            with(&store, async |tx| tx.pause_job(&lease, &question, &[row]).await)
                .await
                .unwrap();
            let expected = if seconds < 0 {
                vec![lease.job.clone()]
            } else {
                Vec::new()
            };
            assert_eq!(overdue().await, expected);
        }
        let ended = with(&store, async |tx| tx.expire_questions(10).await).await.unwrap();
        assert_eq!((ended.len(), overdue().await.len()), (1, 0));
    })
    .await;
}

#[tokio::test]
async fn effects_of_jobs_that_are_over_are_ended_too() {
    on_both(async |database, store| {
        let over = publishing(store, &fix(1), &[1, 2, 3], LONG).await;
        let alive = publishing(store, &fix(2), &[1], LONG).await;
        let left = async || with(store, async |tx| tx.effects_left_open(10).await).await.unwrap();
        assert_eq!(left().await, []);
        with(store, async |tx| tx.bury_job(&over, "broken").await)
            .await
            .unwrap();
        assert_eq!(left().await, []);
        let states =
            "UPDATE effects SET state = CASE seq WHEN 1 THEN 'pending' WHEN 2 THEN 'sending' ELSE 'unknown' END
            WHERE job_id = '$JOB'";
        database.execute(&states.replace("$JOB", over.job.as_str())).await;
        let open = left().await;
        let seen: Vec<_> = open.iter().map(|effect| (effect.seq, effect.state)).collect();
        let expected = [
            (1, EffectState::Pending),
            (2, EffectState::Sending),
            (3, EffectState::Unknown),
        ];
        assert_eq!(seen, expected);
        assert!(
            open.iter()
                .all(|effect| effect.job == over.job && effect.kind == "comment")
        );
        let end = async |job: &JobId, seq: i64| {
            with(store, async |tx| tx.end_open_effect(job, seq).await)
                .await
                .unwrap()
        };
        assert!(end(&over.job, 1).await && end(&over.job, 2).await);
        assert!(!end(&over.job, 3).await, "nobody knows what became of it");
        assert!(!end(&alive.job, 1).await, "its job is alive");
        let seen: Vec<_> = left().await.iter().map(|effect| (effect.seq, effect.state)).collect();
        assert_eq!(seen, [(2, EffectState::Unknown), (3, EffectState::Unknown)]);
    })
    .await;
}

/// A push of a new branch that landed.
async fn pushed(store: &Store, lease: &Lease, branch: &str) {
    let sha = "1".repeat(40);
    let push = serde_json::json!({
        "kind": "push", "branch": branch, "expect": null, "parent": sha, "sha": sha, "message": "Fix",
    });
    let body: EffectBody = serde_json::from_value(push).unwrap();
    let effect = NewEffect {
        seq: 10,
        dedupe_key: format!("{}/10", lease.job),
        body,
    };
    with(store, async |tx| tx.insert_effects(lease, &[effect]).await)
        .await
        .unwrap();
    for state in [EffectState::Sending, EffectState::Done] {
        let remote = format!("{branch}@{sha}");
        let remote = (state == EffectState::Done).then_some(remote.as_str());
        with(store, async |tx| tx.move_effect(lease, 10, state, remote, None).await)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn branches_of_jobs_that_came_to_nothing_are_known() {
    each(async |store| {
        let left = async || with(&store, async |tx| tx.branches_left(10).await).await.unwrap();
        let lease = leased(&store, &fix(1), LONG).await;
        pushed(&store, &lease, "agent/1-parser").await;
        assert_eq!(left().await, [], "its job is alive");
        with(&store, async |tx| tx.bury_job(&lease, "broken").await)
            .await
            .unwrap();
        let found = left().await;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].branch.as_str(), "agent/1-parser");
        assert_eq!(
            (found[0].repo_id, found[0].installation),
            (RepoId(7), InstallationId(99))
        );
        assert_eq!(found[0].sha.as_str(), "1".repeat(40));
        // Somebody works on the issue again, and may go on there.
        let again = insert(&store, &fix(1)).await;
        assert_eq!(left().await, []);
        with(&store, async |tx| tx.cancel_job(&again, "closed", now()).await)
            .await
            .unwrap();
        assert_eq!(left().await.len(), 1);
    })
    .await;
}
