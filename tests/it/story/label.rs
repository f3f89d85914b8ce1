//! The main path: a label becomes a draft pull request, a comment becomes one more commit.

use crate::model_server::Reply;
use crate::service::{MONA, REPO, Service, bug_fix, finish, usual};
use serde_json::json;

/// W28: the keyword stands on a line of its own in the body.
#[tokio::test]
async fn w28_a_label_becomes_a_draft_pull_request() {
    usual()
        .tell(async |service: &mut Service| {
            service.model.play(bug_fix());
            let issue = service.labelled_issue();
            service.done().await;
            let pull = service.only_pull();
            assert!(pull.draft && pull.base == "main", "{pull:?}");
            assert_eq!(pull.head, "agent/1-the-last-word-is-not-counted");
            assert!(!service.file(&pull.head, "count.sh").await.contains(" - 1"));
            let (title, body) = service.text_of(pull.number);
            assert_eq!(title, "Count the last word");
            assert!(body.lines().any(|line| line == format!("Fixes #{issue}")), "{body}");
            let row = body.lines().find(|line| line.starts_with("| `sh test.sh` |"));
            let row = row.expect("a row of the verification table");
            assert!(row.contains("❌ exit 1") && row.contains("✅ exit 0"), "{row}");
            assert!(body.contains("`sh test.sh` failed before this change and passes with it."));
            assert_eq!(service.labels(issue), Vec::<String>::new());
            let eyes = service.github.issue(REPO, issue).unwrap().reactions;
            assert_eq!(eyes.iter().filter(|reaction| reaction.content == "eyes").count(), 1);
            let words = service.our_only_words(issue);
            assert!(words.contains(&format!("### ✅ Done: #{}", pull.number)), "{words}");
        })
        .await;
}

#[tokio::test]
async fn a_comment_on_the_pull_request_becomes_a_second_commit() {
    usual()
        .tell(async |service: &mut Service| {
            let pull = service.opened_pull().await;
            let note = json!({"path": "README.md", "content": "# words\n\nCounts words.\n"});
            service.model.play([Reply::call("write_file", note), finish()]);
            service.comment(pull, "/agent fix Say in the README what this does.");
            service.done().await;
            let branch = service.only_pull().head;
            let commits = service.github.commits(REPO, &branch).await.unwrap();
            assert_eq!(commits.len(), 3, "{commits:?}");
            assert!(service.file(&branch, "README.md").await.contains("Counts words."));
            let asked = service.model.requests();
            assert!(
                asked[2].last().contains("Say in the README what this does."),
                "{}",
                asked[2].last()
            );
            assert!(service.our_only_words(pull).contains("### ✅ Done"));
            let of_mona = service.github.comments(REPO, pull).unwrap().remove(0);
            assert_eq!(service.github.login(of_mona.author), MONA);
            assert!(of_mona.reactions.iter().any(|reaction| reaction.content == "eyes"));
        })
        .await;
}
