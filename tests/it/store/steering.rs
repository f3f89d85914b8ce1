//! Instructions to a job at work: taken by its run, or turned into jobs of their own; and jobs that
//! are begun again, or only published again.

use super::*;
use crate::databases::each;
use forgehand::effect::EffectState;
use forgehand::question::Reply;
use forgehand::store::{JobFilter, Republished, Steered};

fn words(text: &str) -> Reply {
    Reply {
        by: "mona".to_owned(),
        words: text.to_owned(),
        at: now().trunc_subsecs(0),
    }
}

/// The command that carries an instruction.
async fn command(store: &Store, number: u64) -> JobId {
    let mut steer = fix(number);
    steer.kind = JobKind::Steer;
    steer.request.instructions = "Keep the name.".to_owned();
    insert(store, &steer).await
}

#[tokio::test]
async fn an_instruction_goes_to_the_job_at_work_once_and_is_taken_by_its_run() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        let source = command(&store, 1).await;
        let steer = async |subject: u64| {
            let subject = Subject::Issue(IssueNumber(subject));
            with(&store, async |tx| {
                tx.steer_job(RepoId(7), &subject, &source, &words("Keep the name."))
                    .await
            })
            .await
            .unwrap()
        };
        assert_eq!(steer(2).await, Steered::NobodyWorks);
        assert_eq!(steer(1).await, Steered::Given(lease.job.clone()));
        assert_eq!(steer(1).await, Steered::Given(lease.job.clone()), "it is the same");
        let taken = with(&store, async |tx| tx.take_instructions(&lease).await)
            .await
            .unwrap();
        assert_eq!(taken.len(), 1);
        let count = with(&store, async |tx| tx.count_instructions(&lease.job).await).await;
        assert_eq!(count.unwrap(), 1);
        assert_eq!(
            (taken[0].by.as_str(), taken[0].words.as_str()),
            ("mona", "Keep the name.")
        );
        let again = with(&store, async |tx| tx.take_instructions(&lease).await)
            .await
            .unwrap();
        assert_eq!(again, taken, "a run that is resumed hears them again");
        let stale = Lease {
            fence: lease.fence - 1,
            ..lease.clone()
        };
        check_lost(
            with(&store, async |tx| tx.take_instructions(&stale).await).await,
            &lease,
        );
        with(&store, async |tx| {
            tx.begin_publishing(&lease, &Outcome::Answered, &[]).await
        })
        .await
        .unwrap();
        assert_eq!(jobs(&store).await, 2, "what was taken becomes no job");
    })
    .await;
}

async fn jobs(store: &Store) -> usize {
    let filter = JobFilter {
        limit: 100,
        ..JobFilter::default()
    };
    with(store, async |tx| tx.jobs(&filter).await).await.unwrap().len()
}

#[tokio::test]
async fn an_instruction_that_no_turn_took_becomes_a_job_when_the_result_is_stored() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        let source = command(&store, 1).await;
        let subject = Subject::Issue(IssueNumber(1));
        let steer = async || {
            with(&store, async |tx| {
                tx.steer_job(RepoId(7), &subject, &source, &words("Keep the name."))
                    .await
            })
            .await
            .unwrap()
        };
        steer().await;
        with(&store, async |tx| {
            tx.begin_publishing(&lease, &Outcome::Answered, &[]).await
        })
        .await
        .unwrap();
        let filter = JobFilter {
            states: vec![JobState::Queued],
            limit: 100,
            ..JobFilter::default()
        };
        let queued = with(&store, async |tx| tx.jobs(&filter).await).await.unwrap();
        let own = queued
            .iter()
            .find(|job| job.kind == JobKind::Fix)
            .expect("a job of its own");
        assert_eq!(own.request.instructions, "Keep the name.");
        let count = with(&store, async |tx| tx.count_instructions(&lease.job).await).await;
        assert_eq!(count.unwrap(), 0, "it is this job's no more");
        assert_eq!(jobs(&store).await, 3);
    })
    .await;
}

#[tokio::test]
async fn what_a_command_said_becomes_the_status_of_the_job_that_it_became() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        let source = command(&store, 1).await;
        let said = claim(&store, "worker-1", LONG)
            .await
            .expect("the command is ready")
            .lease;
        assert_eq!(said.job, source);
        let subject = Subject::Issue(IssueNumber(1));
        with(&store, async |tx| {
            tx.steer_job(RepoId(7), &subject, &source, &words("Keep the name."))
                .await
        })
        .await
        .unwrap();
        let became = async || with(&store, async |tx| tx.became_job(&source).await).await.unwrap();
        assert!(!became().await, "the work may still hear it");
        with(&store, async |tx| {
            tx.begin_publishing(&said, &Outcome::Answered, &[comment(&source, 12)])
                .await
        })
        .await
        .unwrap();
        with(&store, async |tx| {
            tx.begin_publishing(&lease, &Outcome::Answered, &[]).await?;
            tx.finish_job(&lease, &Outcome::Answered).await
        })
        .await
        .unwrap();
        assert!(became().await);
        let own = claim(&store, "worker-2", LONG).await.expect("a job of its own").lease;
        let answer = async || {
            with(&store, async |tx| tx.answer_of_command(&own.job).await)
                .await
                .unwrap()
        };
        assert_eq!(answer().await, None, "it was not sent");
        with(&store, async |tx| {
            tx.move_effect(&said, 12, EffectState::Sending, None, None).await?;
            tx.move_effect(&said, 12, EffectState::Done, Some("77"), None).await
        })
        .await
        .unwrap();
        assert_eq!(answer().await.as_deref(), Some("77"));
        let of_another = with(&store, async |tx| tx.answer_of_command(&lease.job).await).await;
        assert_eq!(of_another.unwrap(), None);
        let status = NewEffect {
            body: EffectBody::StatusComment {
                number: IssueNumber(1),
                body: "At work.".to_owned(),
            },
            ..comment(&own.job, 2)
        };
        for other in ["77", "78"] {
            with(&store, async |tx| tx.adopt_comment(&own, &status, other).await)
                .await
                .unwrap();
        }
        let effects = with(&store, async |tx| tx.effects(&own.job).await).await.unwrap();
        assert_eq!(effects.len(), 1);
        assert_eq!(
            (effects[0].state, effects[0].remote_id.as_deref()),
            (EffectState::Done, Some("77")),
            "the first stays"
        );
        let stale = Lease {
            fence: own.fence - 1,
            ..own.clone()
        };
        check_lost(
            with(&store, async |tx| tx.adopt_comment(&stale, &status, "79").await).await,
            &own,
        );
    })
    .await;
}

#[tokio::test]
async fn a_job_is_begun_again_for_the_person_and_the_text_of_now() {
    each(async |store| {
        let lease = publishing(&store, &fix(1), &[], LONG).await;
        let gave_up = Outcome::GaveUp {
            reason: "it was too hard".to_owned(),
            branch: None,
        };
        let mut again = fix(1);
        again.request.actor.login = "ada".to_owned();
        again.request.instructions = "retry".to_owned();
        again.request.trigger = Trigger::Comment { id: CommentId(9) };
        again.pins.title = Some("Another title".to_owned());
        let begin = async || {
            with(&store, async |tx| {
                tx.requeue_job_as(&lease.job, now(), &again.request, &again.pins).await
            })
            .await
            .unwrap()
        };
        assert!(!begin().await, "it is not over");
        with(&store, async |tx| tx.finish_job(&lease, &gave_up).await)
            .await
            .unwrap();
        assert!(begin().await);
        let job = load(&store, &lease.job).await;
        assert_eq!((job.state, job.round), (JobState::Queued, 1));
        assert_eq!(job.request.actor.login, "ada");
        assert_eq!(job.request.trigger, Trigger::Comment { id: CommentId(5) });
        assert!(job.request.instructions.starts_with("please"));
        assert_eq!(job.pins.title.as_deref(), Some("Another title"));
    })
    .await;
}

#[tokio::test]
async fn what_did_not_land_is_published_again() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        let sha = "a".repeat(40);
        let push = NewEffect {
            seq: 10,
            dedupe_key: format!("{}/10", lease.job),
            body: EffectBody::Push {
                branch: "agent/1-x".parse().unwrap(),
                expect: None,
                parent: sha.parse().unwrap(),
                sha: sha.parse().unwrap(),
                message: "x".to_owned(),
                merged: Vec::new(),
                to: None,
            },
        };
        let pushed = Outcome::Pushed {
            branch: "agent/1-x".parse().unwrap(),
            sha: sha.parse().unwrap(),
        };
        with(&store, async |tx| tx.begin_publishing(&lease, &pushed, &[push]).await)
            .await
            .unwrap();
        let again = async || {
            with(&store, async |tx| tx.republish_job(&lease.job, now()).await)
                .await
                .unwrap()
        };
        assert_eq!(again().await, Republished::Busy, "it is being published");
        with(&store, async |tx| {
            tx.move_effect(&lease, 10, EffectState::Failed, None, Some("no")).await
        })
        .await
        .unwrap();
        let gave_up = Outcome::GaveUp {
            reason: "the push failed".to_owned(),
            branch: None,
        };
        with(&store, async |tx| tx.finish_job(&lease, &gave_up).await)
            .await
            .unwrap();
        assert_eq!(again().await, Republished::Begun);
        let claimed = claim(&store, "worker-2", LONG).await.expect("it is to be published");
        assert!(claimed.resumes_publishing);
        assert_eq!(claimed.job.outcome, Some(pushed));
        let effects = with(&store, async |tx| tx.effects(&lease.job).await).await.unwrap();
        assert_eq!((effects[0].state, effects[0].tries), (EffectState::Pending, 0));
        let other = leased(&store, &fix(2), LONG).await;
        with(&store, async |tx| tx.finish_job(&other, &Outcome::Answered).await)
            .await
            .unwrap();
        let nothing = with(&store, async |tx| tx.republish_job(&other.job, now()).await).await;
        assert_eq!(nothing.unwrap(), Republished::NothingStored);
    })
    .await;
}
