//! Pull requests beyond opening them: their state, files, drafts, titles, forks.

use forgehand::demo::double::Fault;
use forgehand::github::{Access, ChangeKind, GitHubError};

use super::{REPO, Stage, count};

#[tokio::test]
async fn what_is_not_known_of_a_pull_request_is_nothing() {
    let stage = Stage::set().await;
    let number = stage.pull("topic", &[("a", "b\n")]).await;
    let client = stage.client(Access::Read);
    let pull = client.pull(number).await.unwrap();
    assert_eq!((pull.mergeable, pull.mergeable_state.as_str()), (None, "unknown"));
    assert_eq!((pull.commits, pull.changed_files), (Some(1), Some(1)));
    assert!(!pull.maintainer_can_modify && pull.merged_at.is_none());
    stage.double.set_mergeable(REPO, number.0, Some(false)).unwrap();
    let pull = client.pull(number).await.unwrap();
    assert_eq!((pull.mergeable, pull.mergeable_state.as_str()), (Some(false), "dirty"));
    stage
        .double
        .push(REPO, "topic", &[("a", "c\n")], "More", "ada")
        .await
        .unwrap();
    assert_eq!(client.pull(number).await.unwrap().mergeable, None);
}

#[tokio::test]
async fn a_pull_request_leaves_draft() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Write);
    let number = stage.pull("topic", &[("a", "b\n")]).await;
    stage.double.set_draft(REPO, number.0, true, "ada").unwrap();
    let pull = client.pull(number).await.unwrap();
    assert!(pull.draft);
    client.mark_ready(&pull.node_id).await.unwrap();
    assert!(!stage.double.pulls(REPO).unwrap()[0].draft);
    let unknown = client
        .mark_ready(&forgehand::github::NodeId("PR_nothing".to_owned()))
        .await;
    assert!(matches!(unknown, Err(GitHubError::NotFound { .. })), "{unknown:?}");
}

#[tokio::test]
async fn files_are_listed_with_their_hunks() {
    let stage = Stage::set().await;
    let number = stage
        .pull("topic", &[("src/lib.rs", "// something\n"), ("new", "x\ny\n")])
        .await;
    let deleted = stage.double.push_deletion(REPO, "topic", &["README.md"], "Drop", "ada");
    deleted.await.unwrap();
    let client = stage.client(Access::Read);
    let files = client.pull_files(number, 10).await.unwrap();
    assert!(files.whole);
    let seen: Vec<_> = files
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.kind, file.additions, file.deletions))
        .collect();
    assert_eq!(
        seen,
        [
            ("README.md", ChangeKind::Removed, 0, 1),
            ("new", ChangeKind::Added, 2, 0),
            ("src/lib.rs", ChangeKind::Modified, 1, 1)
        ]
    );
    let patch = files.files[2].patch.as_deref().unwrap();
    assert_eq!(patch, "@@ -1 +1 @@\n-// nothing yet\n+// something");
    let some = client.pull_files(number, 2).await.unwrap();
    assert_eq!((some.files.len(), some.whole), (2, false));
}

/// W5: GitHub cannot make the diff of a very large pull request.
#[tokio::test]
async fn w5_a_pull_request_that_is_too_large_has_no_list_of_files() {
    let stage = Stage::set().await;
    let number = stage.pull("topic", &[("a", "b\n")]).await;
    let words = "Server Error: Sorry, this diff is taking too long to generate.";
    stage
        .double
        .fault("GET /repos/octo/widgets/pulls/*/files", Fault::status(422, words), 1);
    let files = stage.client(Access::Read).pull_files(number, 10).await.unwrap();
    assert_eq!((files.files.len(), files.whole), (0, false));
}

#[tokio::test]
async fn titles_of_merged_pull_requests_show_the_convention() {
    let stage = Stage::set().await;
    for (n, title) in ["feat: one", "fix: two", "docs: three", "chore: never merged"]
        .iter()
        .enumerate()
    {
        let file = format!("file{n}");
        let number = stage.pull(&format!("topic{n}"), &[(file.as_str(), "x\n")]).await;
        stage.double.retitle_issue(REPO, number.0, title, "ada").unwrap();
        stage.clock.advance(std::time::Duration::from_secs(60));
        match n {
            3 => stage.double.close_issue(REPO, number.0, "ada").unwrap(),
            _ => stage.double.merge_pull(REPO, number.0, "ada").await.unwrap(),
        }
    }
    let client = stage.client(Access::Read);
    let main = "main".parse().unwrap();
    let titles = client.merged_titles(&main, 2).await.unwrap();
    assert_eq!(titles, ["docs: three", "fix: two"]);
    assert_eq!(
        client.merged_titles(&"other".parse().unwrap(), 2).await.unwrap(),
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn a_pull_request_from_a_fork_is_fetched_from_the_base() {
    let stage = Stage::set().await;
    let double = &stage.double;
    double.fork(REPO, "ada/widgets").await.unwrap();
    let sha = double
        .push("ada/widgets", "topic", &[("a", "b\n")], "Mine", "ada")
        .await
        .unwrap();
    let number = stage.pull_from("ada/widgets", "topic").await;
    let client = stage.client(Access::Read);
    assert!(!client.pull(number).await.unwrap().maintainer_can_modify);
    double.allow_maintainer_edits(REPO, number.0, true).unwrap();
    let pull = client.pull(number).await.unwrap();
    assert!(pull.maintainer_can_modify);
    assert_ne!(pull.head.repo.unwrap().id, pull.base.repo.unwrap().id);
    assert_eq!(
        double
            .file(REPO, &format!("refs/pull/{number}/head"), "a")
            .await
            .unwrap(),
        b"b\n"
    );
    assert_eq!(pull.head.sha.as_str(), sha);
}

/// W10: GitHub says so now and then about a call that works a moment later.
#[tokio::test]
async fn w10_a_passing_refusal_is_tried_again_and_a_lasting_one_is_not_for_ever() {
    let stage = Stage::set().await;
    let number = stage.issue();
    let client = stage.client(Access::Write);
    let refusal = || Fault::status(403, "Resource not accessible by integration");
    let comments = "POST /repos/octo/widgets/issues/*/comments";
    stage.double.fault(comments, refusal(), 2);
    client.create_comment(number, "hello").await.unwrap();
    assert_eq!(stage.double.comments(REPO, number.0).unwrap().len(), 1);
    let before = count(&stage.double, "POST", "/comments");
    stage.double.fault(comments, refusal(), 3);
    let lasting = client.create_comment(number, "hello").await;
    assert!(matches!(lasting, Err(GitHubError::Forbidden { .. })), "{lasting:?}");
    assert_eq!(count(&stage.double, "POST", "/comments") - before, 3);
}
