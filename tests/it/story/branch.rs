//! Branches that other people use, too: nothing of theirs is ever overwritten.

use forgehand::job::Outcome;
use tokio_util::sync::CancellationToken;

use crate::service::{MONA, REPO, Service, bug_fix, finish, note, usual};

#[tokio::test]
async fn p5_g16_what_somebody_pushed_meanwhile_is_not_overwritten() {
    usual()
        .tell(async |service: &mut Service| {
            let pull = service.opened_pull().await;
            let branch = service.only_pull().head;
            let gate = CancellationToken::new();
            service.model.play([note("a.txt"), finish().after(&gate)]);
            service.comment(pull, "/agent fix Write a.txt.");
            service.model_is_asked(4).await;
            let files = [("mona.txt", "mine\n")];
            let theirs = service.github.push(REPO, &branch, &files, "Mine", MONA).await.unwrap();
            gate.cancel();
            service.done().await;
            assert_eq!(service.github.branch(REPO, &branch).unwrap(), Some(theirs));
            let Outcome::GaveUp {
                branch: Some(beside), ..
            } = service.outcome().await
            else {
                panic!("{:?}", service.outcome().await);
            };
            assert_eq!(service.file(beside.as_str(), "a.txt").await, "x\n");
            let words = service.our_only_words(pull);
            assert!(
                words.contains("nothing was overwritten") && words.contains(beside.as_str()),
                "{words}"
            );
        })
        .await;
}

#[tokio::test]
async fn a_branch_name_that_is_taken_is_left_alone() {
    usual()
        .tell(async |service: &mut Service| {
            let taken = "agent/1-the-last-word-is-not-counted";
            let files = [("mona.txt", "mine\n")];
            let theirs = service.github.push(REPO, taken, &files, "Mine", MONA).await.unwrap();
            service.model.play(bug_fix());
            service.labelled_issue();
            service.done().await;
            let pull = service.only_pull();
            assert!(pull.head.starts_with(taken) && pull.head != taken, "{}", pull.head);
            assert_eq!(service.github.branch(REPO, taken).unwrap(), Some(theirs));
        })
        .await;
}

#[tokio::test]
async fn a_second_request_for_the_same_issue_gets_a_branch_of_its_own() {
    usual()
        .tell(async |service: &mut Service| {
            let first = service.opened_pull().await;
            service.model.play(bug_fix());
            service.label(1);
            service.done().await;
            let pulls = service.pulls();
            assert_eq!(pulls.len(), 2, "{pulls:#?}");
            assert_ne!(pulls[0].head, pulls[1].head);
            assert_eq!(pulls[0].number, first);
            assert_eq!(service.our_comments(1).len(), 2, "one status comment for each job");
        })
        .await;
}

#[tokio::test]
async fn g1_another_default_branch_is_the_base() {
    usual()
        .repository(|seed| {
            seed.default_branch("master")
                .file("count.sh", "echo $(( $(wc -w) - 1 ))\n")
                .file("test.sh", "test $(echo a b | sh count.sh) = 2\n")
                .commit("Count words")
        })
        .tell(async |service: &mut Service| {
            service.model.play(bug_fix());
            service.labelled_issue();
            service.done().await;
            assert_eq!(service.only_pull().base, "master");
        })
        .await;
}
