//! Branches that other people use, too: nothing of theirs is ever overwritten.

use forgehand::event::{RunEvent, Side};
use forgehand::job::Outcome;
use forgehand::secret::Secret;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::model_server::Reply;
use crate::service::{MONA, REPO, Service, bug_fix, finish, note, usual};

/// The model's turn that settles a conflict in a.txt, whatever stands there.
fn settle() -> Reply {
    let command = "printf 'mine\\nx\\n' > a.txt; sh test.sh; git diff";
    Reply::call("run_command", json!({"command": command}))
}

/// Mona pushes to the branch of the pull request.
async fn push(service: &Service, branch: &str, file: (&str, &str)) -> String {
    service.github.push(REPO, branch, &[file], "Mine", MONA).await.unwrap()
}

#[tokio::test]
async fn p5_g16_w19_a_change_is_carried_over_what_somebody_pushed_meanwhile() {
    usual()
        .tell(async |service: &mut Service| {
            let pull = service.opened_pull().await;
            let branch = service.only_pull().head;
            let gate = CancellationToken::new();
            service.model.play([note("a.txt"), finish().after(&gate)]);
            service.comment(pull, "/agent fix Write a.txt.");
            service.model_is_asked(4).await;
            push(service, &branch, ("mona.txt", "mine\n")).await;
            gate.cancel();
            service.done().await;
            let outcome = service.outcome().await;
            let Outcome::Pushed { branch: pushed, .. } = &outcome else {
                panic!("{outcome:?}\n{}", service.everything_said());
            };
            assert_eq!(pushed.as_str(), branch);
            assert_eq!(service.file(&branch, "a.txt").await, "x\n");
            assert_eq!(service.file(&branch, "mona.txt").await, "mine\n");
            let commits = service.github.commits(REPO, &branch).await.unwrap();
            assert_eq!(commits[1], "Mine", "{commits:?}");
            let words = service.our_only_words(pull);
            assert!(
                words.starts_with("### ✅ Done") && words.contains("carried over to"),
                "{words}"
            );
            let events = service.events(&service.fix().await).await;
            let heads = events
                .iter()
                .filter(|event| matches!(event, RunEvent::Checked { check } if check.side == Side::Head));
            assert_eq!(heads.count(), 2, "the checks ran again");
        })
        .await;
}

#[tokio::test]
async fn a_conflict_with_a_push_is_settled_by_the_agent() {
    usual()
        .tell(async |service: &mut Service| {
            let pull = service.opened_pull().await;
            let branch = service.only_pull().head;
            let gate = CancellationToken::new();
            service.model.play([note("a.txt"), finish().after(&gate)]);
            service.model.play([settle(), finish()]);
            service.comment(pull, "/agent fix Write a.txt.");
            service.model_is_asked(4).await;
            push(service, &branch, ("a.txt", "mine\n")).await;
            gate.cancel();
            service.done().await;
            let words = service.our_only_words(pull);
            assert!(words.starts_with("### ✅ Done"), "{words}");
            assert!(words.contains("settled by the agent in `a.txt`"), "{words}");
            assert_eq!(service.file(&branch, "a.txt").await, "mine\nx\n");
            let commits = service.github.commits(REPO, &branch).await.unwrap();
            assert_eq!(commits[1], "Mine", "{commits:?}");
            let shown = service.model.requests()[4].last().to_owned();
            assert!(
                shown.contains("<<<<<<< pushed-meanwhile") && shown.contains("Octo Person: Mine"),
                "{shown}"
            );
        })
        .await;
}

#[tokio::test]
async fn a_conflict_that_is_not_settled_leaves_the_change_on_a_branch_of_its_own() {
    usual()
        .tell(async |service: &mut Service| {
            let pull = service.opened_pull().await;
            let branch = service.only_pull().head;
            let gate = CancellationToken::new();
            service.model.play([note("a.txt"), finish().after(&gate)]);
            service.model.play([finish(), finish(), finish()]);
            service.comment(pull, "/agent fix Write a.txt.");
            service.model_is_asked(4).await;
            let theirs = push(service, &branch, ("a.txt", "mine\n")).await;
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
            for word in [
                "conflict with this change in `a.txt`",
                "nothing was overwritten",
                beside.as_str(),
            ] {
                assert!(words.contains(word), "{words}");
            }
        })
        .await;
}

#[tokio::test]
async fn a_branch_that_moves_twice_is_followed_and_one_that_moves_on_and_on_is_not() {
    usual()
        .tell(async |service: &mut Service| {
            let pull = service.opened_pull().await;
            let branch = service.only_pull().head;
            // The first is the work itself; each further turn settles the conflict of one push.
            let gates: Vec<CancellationToken> = (0..4).map(|_| CancellationToken::new()).collect();
            for (at, gate) in gates.iter().enumerate() {
                let turn = if at == 0 { note("a.txt") } else { settle() };
                service.model.play([turn, finish().after(gate)]);
            }
            service.comment(pull, "/agent fix Write a.txt.");
            let mut theirs = String::new();
            for (at, gate) in gates.iter().enumerate() {
                service.model_is_asked(4 + 2 * at).await;
                if at == 2 {
                    let words = service.our_comments(pull).pop().unwrap().body;
                    assert!(words.starts_with("### ⏳"), "it followed twice: {words}");
                }
                theirs = push(service, &branch, ("a.txt", &format!("mine {at}\n"))).await;
                gate.cancel();
            }
            service.done().await;
            assert_eq!(service.github.branch(REPO, &branch).unwrap(), Some(theirs));
            let Outcome::GaveUp {
                branch: Some(beside), ..
            } = service.outcome().await
            else {
                panic!("{:?}", service.outcome().await);
            };
            assert_eq!(service.file(beside.as_str(), "a.txt").await, "mine\nx\n");
            let words = service.our_only_words(pull);
            assert!(words.contains("nothing was overwritten"), "{words}");
        })
        .await;
}

#[tokio::test]
async fn p10_a_pull_request_that_is_merged_while_the_work_goes_on_gets_no_more_commits() {
    usual()
        .tell(async |service: &mut Service| {
            let pull = service.opened_pull().await;
            let branch = service.only_pull().head;
            let before = service.github.branch(REPO, &branch).unwrap();
            let gate = CancellationToken::new();
            service.model.play([note("a.txt"), finish().after(&gate)]);
            service.comment(pull, "/agent fix Write a.txt.");
            service.model_is_asked(4).await;
            // The delivery that would stop the work does not come.
            let nowhere = Secret::new("a secret that the service does not have");
            let hooks = service.github.webhook_secret();
            let address = service.address();
            service.github.hooks(&address, &nowhere);
            service.github.merge_pull(REPO, pull, MONA).await.unwrap();
            service.github.deliveries_settled().await;
            service.github.hooks(&address, &hooks);
            gate.cancel();
            service.done().await;
            assert_eq!(service.github.branch(REPO, &branch).unwrap(), before);
            let Outcome::GaveUp {
                branch: Some(beside), ..
            } = service.outcome().await
            else {
                panic!("{:?}", service.outcome().await);
            };
            assert_eq!(service.file(beside.as_str(), "a.txt").await, "x\n");
            let words = service.our_only_words(pull);
            assert!(words.contains("was merged meanwhile"), "{words}");
        })
        .await;
}

#[tokio::test]
async fn g26_a_branch_name_that_is_taken_is_left_alone() {
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
