//! Jobs that wait for a person: asked, answered, merged, forgotten, stopped.

use super::*;
use crate::databases::each;
use forgehand::effect::EffectState;
use forgehand::question::{Question, Reply};
use forgehand::store::{AnswerResult, CancelResult, NewQuestion};

fn question(words: &str) -> Question {
    Question::Ask {
        questions: vec![words.to_owned()],
    }
}

fn reply(words: &str) -> Reply {
    Reply {
        by: "mona".to_owned(),
        words: words.to_owned(),
        at: in_seconds(0),
    }
}

/// The row that shows the question.
fn shown(job: &JobId, seq: i64) -> NewEffect {
    NewEffect {
        seq: 100 + seq,
        dedupe_key: format!("{job}/{}", 100 + seq),
        body: EffectBody::Ask,
    }
}

/// What a job waits with: whether it has work, and for how many seconds.
fn asking(seq: u32, has_work: bool, seconds: i64) -> NewQuestion {
    let base = "1".repeat(40);
    NewQuestion {
        seq,
        question: question("Which \u{0} parser?"),
        base: has_work.then(|| base.parse().unwrap()),
        answer_by: in_seconds(seconds),
    }
}

async fn pause(store: &Store, lease: &Lease, asking: &NewQuestion) -> bool {
    let row = shown(&lease.job, i64::from(asking.seq));
    with(store, async |tx| tx.pause_job(lease, asking, &[row]).await)
        .await
        .unwrap()
}

/// A job that waits for an hour.
async fn waiting(store: &Store, job: &NewJob, has_work: bool) -> Lease {
    let lease = leased(store, job, LONG).await;
    assert!(pause(store, &lease, &asking(1, has_work, 3_600)).await);
    lease
}

async fn say(store: &Store, id: &JobId, source: &str, words: &str) -> AnswerResult {
    with(store, async |tx| tx.answer_job(id, source, &reply(words)).await)
        .await
        .unwrap()
}

async fn asked_on(store: &Store, number: u64) -> Option<JobId> {
    let subject = Subject::Issue(IssueNumber(number));
    with(store, async |tx| tx.asking_job(RepoId(7), &subject).await)
        .await
        .unwrap()
}

#[tokio::test]
async fn t5_a_job_waits_without_a_lease_and_keeps_its_lane() {
    each(async |store| {
        let lease = waiting(&store, &fix(1), false).await;
        let job = load(&store, &lease.job).await;
        assert_eq!(
            (job.state, job.lease_owner, job.lease_until),
            (JobState::Waiting, None, None)
        );
        assert_eq!((job.attempt, job.max_attempts), (1, 6), "asking uses up no attempt");
        insert(&store, &fix(1)).await;
        assert_eq!(claim(&store, "worker-2", LONG).await, None);
        let asked = with(&store, async |tx| tx.last_question(&lease.job).await)
            .await
            .unwrap();
        let asked = asked.expect("a question");
        assert_eq!(
            (asked.seq, asked.round, asked.is_taken, asked.is_expired),
            (1, 0, false, false)
        );
        assert!(matches!(&asked.question, Question::Ask { questions } if questions[0].contains("parser")));
        assert_eq!(log(&store, &lease.job).await[2..], ["asked"]);
        check_lost(
            with(&store, async |tx| tx.pause_job(&lease, &asking(2, false, 1), &[]).await).await,
            &lease,
        );
        let violations = with(&store, async |tx| tx.violations().await).await.unwrap();
        assert_eq!(violations, []);
    })
    .await;
}

#[tokio::test]
async fn t6_an_answer_queues_the_job_and_is_given_to_it() {
    each(async |store| {
        let lease = waiting(&store, &fix(1), false).await;
        let next = insert(&store, &fix(1)).await;
        assert_eq!(asked_on(&store, 1).await.as_ref(), Some(&lease.job));
        assert_eq!(asked_on(&store, 2).await, None);
        assert_eq!(
            say(&store, &lease.job, "a", "the new \u{0} one").await,
            AnswerResult::Taken
        );
        assert_eq!(state(&store, &lease.job).await, JobState::Queued);
        let effects = with(&store, async |tx| tx.effects(&lease.job).await).await.unwrap();
        assert_eq!(effects[0].state, EffectState::Skipped, "nobody has to see it any more");
        // The same source again, and another one before the run has been given the answer.
        assert_eq!(say(&store, &lease.job, "a", "the new one").await, AnswerResult::Taken);
        assert_eq!(say(&store, &lease.job, "b", "quickly").await, AnswerResult::Taken);
        let again = claim(&store, "worker-2", LONG).await.expect("the job is ready");
        assert_eq!(
            (&again.job.id, again.job.attempt),
            (&lease.job, 2),
            "before what came later"
        );
        assert_eq!(say(&store, &lease.job, "c", "please").await, AnswerResult::Taken);
        let given = with(&store, async |tx| tx.take_replies(&again.lease, 1).await)
            .await
            .unwrap();
        let words: Vec<&str> = given.iter().map(|reply| reply.words.as_str()).collect();
        assert_eq!(words, ["the new ␀ one", "quickly", "please"]);
        assert_eq!(
            say(&store, &lease.job, "d", "too late").await,
            AnswerResult::NothingAsked
        );
        assert_eq!(asked_on(&store, 1).await, None);
        let known = with(&store, async |tx| tx.replies(&lease.job, 1).await).await.unwrap();
        assert_eq!(known.len(), 3);
        let by = with(&store, async |tx| tx.answered_by("b").await).await.unwrap();
        assert_eq!(by, Some(lease.job.clone()));
        check_lost(with(&store, async |tx| tx.take_replies(&lease, 1).await).await, &lease);
        assert_ne!(next, lease.job);
    })
    .await;
}

#[tokio::test]
async fn nobody_is_heard_for_ever() {
    each(async |store| {
        let lease = waiting(&store, &fix(1), false).await;
        for at in 0..20 {
            let taken = say(&store, &lease.job, &at.to_string(), "well").await;
            assert_eq!(taken, AnswerResult::Taken, "{at}");
        }
        assert_eq!(say(&store, &lease.job, "20", "well").await, AnswerResult::TooMany);
    })
    .await;
}

#[tokio::test]
async fn t6_a_question_that_nobody_answers_comes_to_an_end() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        assert!(pause(&store, &lease, &asking(1, true, -1)).await);
        let patient = waiting(&store, &fix(2), true).await;
        let expire = async || with(&store, async |tx| tx.expire_questions(10).await).await.unwrap();
        assert_eq!(expire().await, std::slice::from_ref(&lease.job));
        assert_eq!(expire().await, []);
        assert_eq!(state(&store, &lease.job).await, JobState::Queued);
        assert_eq!(state(&store, &patient.job).await, JobState::Waiting);
        let asked = with(&store, async |tx| tx.last_question(&lease.job).await)
            .await
            .unwrap();
        assert!(asked.unwrap().is_expired);
        assert_eq!(say(&store, &lease.job, "a", "sorry").await, AnswerResult::NothingAsked);
        assert_eq!(log(&store, &lease.job).await.last().unwrap(), "unanswered");
    })
    .await;
}

#[tokio::test]
async fn a_stop_ends_a_waiting_job_or_lets_a_worker_keep_its_work() {
    each(async |store| {
        let cancel = async |id: &JobId| {
            with(&store, async |tx| {
                tx.cancel_job(id, "the issue was closed", now()).await
            })
            .await
            .unwrap()
        };
        let empty = waiting(&store, &fix(1), false).await;
        assert_eq!(cancel(&empty.job).await, CancelResult::Cancelled);
        assert_eq!(state(&store, &empty.job).await, JobState::Cancelled);
        let full = waiting(&store, &fix(2), true).await;
        assert_eq!(cancel(&full.job).await, CancelResult::Requested);
        assert_eq!(cancel(&full.job).await, CancelResult::Requested);
        assert_eq!(say(&store, &full.job, "a", "go on").await, AnswerResult::NothingAsked);
        assert_eq!(asked_on(&store, 2).await, None);
        let woken = claim(&store, "worker-2", LONG).await.expect("somebody has to end it");
        assert_eq!(woken.job.id, full.job);
        assert!(woken.job.cancel_requested_at.is_some());
        assert_eq!(woken.job.reason.as_deref(), Some("the issue was closed"));
    })
    .await;
}

#[tokio::test]
async fn a_job_that_should_stop_does_not_begin_to_wait() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        with(&store, async |tx| tx.cancel_job(&lease.job, "closed", now()).await)
            .await
            .unwrap();
        assert!(!pause(&store, &lease, &asking(1, true, 60)).await);
        assert_eq!(state(&store, &lease.job).await, JobState::Leased);
        let publishing = publishing(&store, &fix(2), &[1], LONG).await;
        let refused = with(&store, async |tx| {
            tx.pause_job(&publishing, &asking(1, true, 60), &[]).await
        })
        .await;
        assert!(matches!(refused, Err(StoreError::Corrupt(_))), "{refused:?}");
    })
    .await;
}

#[tokio::test]
async fn what_is_asked_is_shown_once() {
    each(async |store| {
        let lease = waiting(&store, &fix(1), false).await;
        let unasked = async || with(&store, async |tx| tx.unasked_jobs(10).await).await.unwrap();
        assert_eq!(unasked().await, std::slice::from_ref(&lease.job));
        for said in ["77", "78"] {
            with(&store, async |tx| {
                tx.note_asked(&lease.job, EffectState::Done, said).await
            })
            .await
            .unwrap();
        }
        assert_eq!(unasked().await, []);
        let effects = with(&store, async |tx| tx.effects(&lease.job).await).await.unwrap();
        assert_eq!(
            (effects[0].state, effects[0].remote_id.as_deref(), effects[0].tries),
            (EffectState::Done, Some("77"), 1)
        );
    })
    .await;
}

#[tokio::test]
async fn a_new_round_is_not_answered_by_an_old_one() {
    each(async |store| {
        let lease = waiting(&store, &fix(1), false).await;
        with(&store, async |tx| tx.cancel_job(&lease.job, "closed", now()).await)
            .await
            .unwrap();
        assert!(
            with(&store, async |tx| tx.requeue_job(&lease.job, now()).await)
                .await
                .unwrap()
        );
        assert_eq!(asked_on(&store, 1).await, None);
        let again = claim(&store, "worker-2", LONG).await.expect("the job is ready").lease;
        assert!(pause(&store, &again, &asking(2, false, 60)).await);
        let asked = with(&store, async |tx| tx.last_question(&lease.job).await)
            .await
            .unwrap();
        assert_eq!(asked.map(|asked| (asked.seq, asked.round)), Some((2, 1)));
    })
    .await;
}
