//! What our jobs left on pull requests.

use super::*;
use crate::databases::each;
use forgehand::effect::EffectState;
use forgehand::ids::{BranchName, CommitSha};

fn sha(letter: &str) -> CommitSha {
    letter.repeat(40).parse().unwrap()
}

/// A job that ended like this.
async fn ended(store: &Store, job: &NewJob, outcome: &Outcome) -> JobId {
    let lease = leased(store, job, LONG).await;
    with(store, async |tx| tx.finish_job(&lease, outcome).await)
        .await
        .unwrap();
    lease.job
}

#[tokio::test]
async fn a_commit_leads_to_its_job_and_a_pull_request_to_whether_it_is_ours() {
    each(async |store| {
        let branch: BranchName = "agent/1-x".parse().unwrap();
        let opened = Outcome::Opened {
            pull: IssueNumber(12),
            branch: branch.clone(),
            sha: sha("a"),
        };
        let first = ended(&store, &fix(1), &opened).await;
        let pushed = Outcome::Pushed { branch, sha: sha("b") };
        let second = ended(&store, &fix(2), &pushed).await;
        let left = async |letter: &str| {
            let (repo, sha) = (RepoId(7), sha(letter));
            let jobs = with(&store, async |tx| tx.jobs_that_left(repo, &sha).await)
                .await
                .unwrap();
            jobs.into_iter().map(|job| job.id).collect::<Vec<_>>()
        };
        assert_eq!(left("a").await, [first]);
        assert_eq!(left("b").await, [second]);
        assert_eq!(left("c").await, []);
        let ours = async |repo: u64, pull: u64| {
            let (repo, pull) = (RepoId(repo), IssueNumber(pull));
            with(&store, async |tx| tx.has_opened(repo, pull).await).await.unwrap()
        };
        assert!(ours(7, 12).await);
        assert!(!ours(7, 1).await && !ours(7, 2).await && !ours(8, 12).await);
    })
    .await;
}

#[tokio::test]
async fn a_note_reaches_the_job_that_is_at_work() {
    each(async |store| {
        let note = async |number: u64| {
            let subject = Subject::Issue(IssueNumber(number));
            let noted = with(&store, async |tx| {
                tx.note_on_work(RepoId(7), &subject, "somebody pushed", now()).await
            });
            noted.await.unwrap()
        };
        let waiting = insert(&store, &fix(1)).await;
        assert_eq!(note(1).await, None, "nobody works there");
        let lease = claim(&store, "worker-1", LONG).await.unwrap().lease;
        assert_eq!(note(1).await, Some(waiting));
        assert_eq!(note(2).await, None);
        assert_eq!(log(&store, &lease.job).await.last().unwrap(), "noted");
        // The worker's own events follow.
        with(&store, async |tx| tx.append_event(&lease, &noted("mine"), now()).await)
            .await
            .unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_check_that_was_begun_is_settled_once_the_job_is_over() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        let job = lease.job.clone();
        let begun = NewEffect {
            seq: 3,
            dedupe_key: format!("{job}/3"),
            body: EffectBody::BeginCheck { sha: sha("a") },
        };
        with(&store, async |tx| tx.insert_effects(&lease, &[begun]).await)
            .await
            .unwrap();
        for (state, id) in [(EffectState::Sending, None), (EffectState::Done, Some("77"))] {
            with(&store, async |tx| tx.move_effect(&lease, 3, state, id, None).await)
                .await
                .unwrap();
        }
        let unsettled = async || {
            with(&store, async |tx| tx.unsettled_jobs(in_seconds(-600), 10).await)
                .await
                .unwrap()
        };
        assert_eq!(unsettled().await, [], "it is not over");
        with(&store, async |tx| tx.bury_job(&lease, "broken").await)
            .await
            .unwrap();
        assert_eq!(unsettled().await, std::slice::from_ref(&job));
        with(&store, async |tx| {
            tx.note_check_settled(&job, 22, EffectState::Done, "77").await
        })
        .await
        .unwrap();
        assert_eq!(unsettled().await, std::slice::from_ref(&job), "nobody was told why");
        with(&store, async |tx| {
            tx.note_settled(&job, 980, EffectState::Done, "5").await
        })
        .await
        .unwrap();
        assert_eq!(unsettled().await, []);
    })
    .await;
}
