//! Jobs are found again as they were asked for.

use super::*;
use crate::databases::each;
use forgehand::store::JobFilter;

#[tokio::test]
async fn a_job_comes_back_as_it_was_asked_for() {
    each(async |store| {
        let mut asked = fix(12);
        asked.priority = -3;
        asked.run_at = now() + TimeDelta::nanoseconds(1_234_567);
        let at = now();
        let id = with(&store, async |tx| tx.insert_job(&asked, at).await)
            .await
            .unwrap()
            .unwrap();
        let job = load(&store, &id).await;
        assert_eq!(
            (job.repo_id, &job.repo, job.installation),
            (RepoId(7), &asked.repo, InstallationId(99))
        );
        assert_eq!(
            (job.kind, &job.subject, job.state),
            (JobKind::Fix, &asked.subject, JobState::Queued)
        );
        assert_eq!(
            (&job.request, &job.pins, job.priority),
            (&asked.request, &asked.pins, -3)
        );
        assert_eq!((job.run_at, job.created_at), (asked.run_at.trunc_subsecs(6), at));
        assert_eq!((job.attempt, job.max_attempts, job.lost_leases), (0, 5, 0));
        assert_eq!(
            (job.fence, job.round, &job.lease_owner, job.lease_until),
            (0, 0, &None, None)
        );
        assert_eq!((job.reason, job.outcome, job.finished_at), (None, None, None));
        assert_eq!(log(&store, &id).await, ["queued"]);
    })
    .await;
}

#[tokio::test]
async fn a_key_belongs_to_one_job_that_is_not_final() {
    each(async |store| {
        let mut keyed = fix(1);
        keyed.dedupe_key = Some("label:1".to_owned());
        let first = insert(&store, &keyed).await;
        let again = async || {
            with(&store, async |tx| tx.insert_job(&keyed, now()).await)
                .await
                .unwrap()
        };
        assert_eq!(again().await, None);
        let claimed = claim(&store, "worker-1", LONG).await.unwrap();
        assert_eq!(again().await, None);
        with(&store, async |tx| {
            tx.finish_job(&claimed.lease, &Outcome::Answered).await
        })
        .await
        .unwrap();
        let second = again().await.expect("the first one is final");
        assert_ne!(first, second);
    })
    .await;
}

#[tokio::test]
async fn jobs_are_listed_newest_first_and_filtered() {
    each(async |store| {
        let mut ids = Vec::new();
        for (number, seconds) in [(1, 1), (2, 2), (1, 3)] {
            let at = in_seconds(seconds);
            let id = with(&store, async |tx| tx.insert_job(&fix(number), at).await).await;
            ids.push(id.unwrap().unwrap());
        }
        with(&store, async |tx| tx.cancel_job(&ids[1], "no", now()).await)
            .await
            .unwrap();
        let list = async |filter: JobFilter| {
            let jobs = with(&store, async |tx| tx.jobs(&filter).await).await.unwrap();
            jobs.into_iter().map(|job| job.id).collect::<Vec<_>>()
        };
        let all = JobFilter {
            limit: 10,
            ..JobFilter::default()
        };
        let (first, second, third) = (ids[0].clone(), ids[1].clone(), ids[2].clone());
        assert_eq!(list(all.clone()).await, [third.clone(), second.clone(), first.clone()]);
        assert_eq!(
            list(JobFilter {
                limit: 1,
                ..all.clone()
            })
            .await,
            std::slice::from_ref(&third)
        );
        let subject = Some(Subject::Issue(IssueNumber(1)));
        assert_eq!(
            list(JobFilter { subject, ..all.clone() }).await,
            [third.clone(), first.clone()]
        );
        let states = vec![JobState::Cancelled, JobState::Dead];
        assert_eq!(list(JobFilter { states, ..all.clone() }).await, [second]);
        let repo_id = Some(RepoId(8));
        assert_eq!(list(JobFilter { repo_id, ..all.clone() }).await, []);
        let counts = with(&store, async |tx| tx.job_counts().await).await.unwrap();
        assert_eq!(counts, [(JobState::Cancelled, 1), (JobState::Queued, 2)]);
    })
    .await;
}

#[tokio::test]
async fn the_place_in_the_queue_counts_those_that_are_ready_and_go_first() {
    each(async |store| {
        let mut job = fix(1);
        job.run_at = in_seconds(-30);
        let mine = insert(&store, &job).await;
        let place = async |id: &JobId| with(&store, async |tx| tx.queue_position(id).await).await.unwrap();
        assert_eq!(place(&mine).await, 0);
        job.subject = Subject::Issue(IssueNumber(2));
        job.run_at = in_seconds(-31);
        let next = insert(&store, &job).await;
        job.subject = Subject::Issue(IssueNumber(3));
        job.run_at = in_seconds(-1);
        job.priority = 1;
        insert(&store, &job).await;
        job.subject = Subject::Issue(IssueNumber(4));
        job.run_at = in_seconds(600);
        insert(&store, &job).await;
        assert_eq!(place(&mine).await, 1, "only what is urgent");
        assert_eq!(place(&next).await, 2);
        let urgent = claim(&store, "worker-1", LONG).await.unwrap();
        assert_eq!((urgent.job.priority, place(&urgent.job.id).await), (1, 0));
        assert_eq!((place(&mine).await, place(&next).await), (0, 1));
    })
    .await;
}
