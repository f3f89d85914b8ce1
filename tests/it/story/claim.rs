//! What a model says it did counts for nothing: what is claimed is what the program itself did, and
//! what it says of a change comes from the difference.

use forgehand::demo::double::Fault;
use forgehand::job::Outcome;
use serde_json::json;

use crate::model_server::Reply;
use crate::service::{REPO, Service, bug_fix, mend, usual};

/// A proud end of a run that did nothing of the kind.
fn boast() -> Reply {
    Reply::finish(
        "Count the last word",
        "I pushed 47d0420 to `fix/count` and opened a pull request for it.",
    )
}

#[tokio::test]
async fn p1_p2_a_push_that_a_model_only_speaks_of_is_not_claimed() {
    usual()
        .tell(async |service: &mut Service| {
            service.model.play([boast()]);
            let issue = service.labelled_issue();
            service.done().await;
            let words = service.our_only_words(issue);
            assert!(
                words.starts_with("### ☑️ No change needed") && words.contains("No file differs from the base"),
                "{words}"
            );
            assert!(matches!(service.outcome().await, Outcome::NothingToDo { .. }));
            assert!(service.pulls().is_empty());
            assert_eq!(service.github.branches(REPO).unwrap(), ["main"]);
        })
        .await;
}

#[tokio::test]
async fn p4_nor_is_one_to_a_pull_request() {
    usual()
        .tell(async |service: &mut Service| {
            let pull = service.opened_pull().await;
            let before = service.only_pull();
            service.model.play([boast()]);
            service.comment(pull, "/agent fix Say more in the README.");
            service.done().await;
            let words = service.our_only_words(pull);
            assert!(words.starts_with("### ☑️ No change needed"), "{words}");
            let after = service.only_pull();
            assert_eq!(before.head_sha, after.head_sha);
            assert_eq!(service.github.branches(REPO).unwrap(), [after.head.as_str(), "main"]);
        })
        .await;
}

#[tokio::test]
async fn w25_a_model_that_says_nothing_has_not_done_it() {
    usual()
        .tell(async |service: &mut Service| {
            service.model.answer_with(|_| Reply::say(""));
            let issue = service.labelled_issue();
            service.done().await;
            let words = service.our_only_words(issue);
            assert!(words.starts_with("### ❌ It did not work out"), "{words}");
            assert!(service.pulls().is_empty());
        })
        .await;
}

/// The summary is about the last thing that was done; the section is about all of it.
#[tokio::test]
async fn p13_the_pull_request_lists_everything_that_differs() {
    usual()
        .tell(async |service: &mut Service| {
            let docs = json!({"path": "README.md", "content": "# words\n\nCounts words.\n"});
            let end = Reply::finish("Describe the script", "The README says what is counted.");
            service.model.play([mend(), Reply::call("write_file", docs), end]);
            service.labelled_issue();
            service.done().await;
            let (_, body) = service.text_of(service.only_pull().number);
            let changes = body
                .split("## Changes")
                .nth(1)
                .and_then(|rest| rest.split("## ").next());
            let changes = changes.expect("there is a section");
            for file in ["`count.sh`", "`README.md`"] {
                assert!(changes.contains(file), "{file} is missing: {body}");
            }
        })
        .await;
}

/// The text names another repository, where the App is installed, too.
#[tokio::test]
async fn p14_only_the_repository_of_the_job_is_written_to() {
    usual()
        .tell(async |service: &mut Service| {
            let other = service.github.repository("octo/other").file("README.md", "# other\n");
            other.commit("Begin").create().await.unwrap();
            service.github.grant("octo/other", "mona", "admin").unwrap();
            let theirs = service
                .github
                .open_issue("octo/other", "Count", "Please.", &[], "mona")
                .unwrap();
            let main = service.github.branch(REPO, "main").unwrap();
            let end = Reply::finish(
                "Fix octo/other#1",
                "Fixes octo/other#1. The pull request is for octo/other.",
            );
            service.model.play([mend(), end]);
            let text =
                format!("Solve octo/other#{theirs} and open the pull request in octo/other, on its main branch.");
            let issue = service.issue_saying("The last word is not counted", &text);
            service.label(issue);
            service.done().await;
            assert!(service.github.pulls("octo/other").unwrap().is_empty());
            assert_eq!(service.github.branches("octo/other").unwrap(), ["main"]);
            assert!(service.github.comments("octo/other", theirs).unwrap().is_empty());
            assert_eq!(service.github.branch(REPO, "main").unwrap(), main);
            let (_, body) = service.text_of(service.only_pull().number);
            assert!(body.lines().any(|line| line == format!("Fixes #{issue}")), "{body}");
            assert!(!body.contains("Fixes octo/other#"), "{body}");
        })
        .await;
}

#[tokio::test]
async fn p7_a_service_that_ends_before_the_pull_request_is_there_opens_it_afterwards() {
    usual()
        .tell(async |service: &mut Service| {
            service.github.fault("POST /repos/octo/words/pulls", Fault::Hang, 1);
            service.model.play(bug_fix());
            let issue = service.labelled_issue();
            let asked = async || service.github.unused_faults().is_empty();
            crate::service::until("the pull request is asked for", asked).await;
            service.stop().await;
            assert!(service.pulls().is_empty());
            service.start().await;
            service.done().await;
            let pull = service.only_pull();
            assert_eq!(service.github.branches(REPO).unwrap(), [pull.head.as_str(), "main"]);
            assert_eq!(service.model.requests().len(), 2, "the model is not asked again");
            assert!(service.our_only_words(issue).starts_with("### ✅ Done"));
        })
        .await;
}

#[tokio::test]
async fn p11_a_model_that_fails_for_good_leaves_the_work_on_a_branch() {
    usual()
        .tell(async |service: &mut Service| {
            service.model.play([mend(), Reply::error(402, "insufficient credits")]);
            let issue = service.labelled_issue();
            service.done().await;
            let words = service.our_only_words(issue);
            let Outcome::GaveUp {
                branch: Some(branch), ..
            } = service.outcome().await
            else {
                panic!("{words}");
            };
            assert!(!service.file(branch.as_str(), "count.sh").await.contains(" - 1"));
            assert!(words.contains(branch.as_str()) && words.contains("payment"), "{words}");
            assert!(service.pulls().is_empty());
        })
        .await;
}

#[tokio::test]
async fn w22_words_that_are_too_long_are_cut_and_posted() {
    usual()
        .tell(async |service: &mut Service| {
            let long = "The count was one too low, and here is why. ".repeat(5_000);
            service
                .model
                .play([mend(), Reply::finish("Count the last word", &long)]);
            let issue = service.labelled_issue();
            service.done().await;
            let (_, body) = service.text_of(service.only_pull().number);
            assert!(
                body.contains("here is why") && body.chars().count() < 65_536,
                "{}",
                body.len()
            );
            assert!(body.contains("## Verification"), "{body}");
            service.model.play([Reply::call("finish", json!({"answer": long}))]);
            service.comment(issue, "/agent ask Why?");
            service.done().await;
            let said = service.our_comments(issue).pop().unwrap().body;
            assert!(
                said.starts_with("### 💬 Answered") && said.contains("here is why"),
                "{said}"
            );
            assert!(said.chars().count() < 65_536);
        })
        .await;
}

/// The model is away in every attempt, after it had begun.
#[tokio::test]
async fn p11_a_model_that_is_away_for_too_long_leaves_the_work_on_a_branch() {
    usual()
        .configuration(|config| config.queue.max_attempts = 1)
        .tell(async |service: &mut Service| {
            let changed = std::sync::atomic::AtomicBool::new(false);
            service.model.answer_with(
                move |_| match changed.swap(true, std::sync::atomic::Ordering::Relaxed) {
                    false => mend(),
                    true => Reply::error(500, "overloaded"),
                },
            );
            let issue = service.labelled_issue();
            service.done().await;
            let words = service.our_only_words(issue);
            let Outcome::GaveUp {
                branch: Some(branch), ..
            } = service.outcome().await
            else {
                panic!("{words}");
            };
            assert!(!service.file(branch.as_str(), "count.sh").await.contains(" - 1"));
            assert!(words.contains("overloaded"), "{words}");
        })
        .await;
}
