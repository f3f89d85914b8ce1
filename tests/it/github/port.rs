//! What the port reads and writes.

use std::time::{Duration, Instant};

use forgehand::effect::ReactionTarget;
use forgehand::github::{Access, GitHub, GitHubError, NewPull, Permission};
use forgehand::ids::{BranchName, CommentId, IssueNumber};
use serde_json::json;

use super::{REPO, Stage, count, name, noon};

#[tokio::test]
async fn the_app_knows_itself_and_its_installation() {
    let stage = Stage::set().await;
    let app = stage.github.app().await.unwrap();
    assert_eq!(format!("{}[bot]", app.slug), stage.double.bot_login());
    let installation = stage.github.installation_of(&name(REPO)).await.unwrap();
    assert_eq!(installation, stage.double.installation());
    let missing = stage.github.installation_of(&name("octo/nothing")).await;
    assert!(matches!(missing, Err(GitHubError::NotFound { .. })), "{missing:?}");
}

#[tokio::test]
async fn a_conversation_is_read_and_written() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Write);
    let number = stage.issue();
    stage.double.comment(REPO, number.0, "me too", "ada").unwrap();
    let written = client.create_comment(number, "on it").await.unwrap();
    client.update_comment(written.id, "done").await.unwrap();
    let comments = client.comments(number, None, 100).await.unwrap();
    let bodies: Vec<&str> = comments.iter().map(|comment| comment.body.as_str()).collect();
    assert_eq!(bodies, ["me too", "done"]);
    let ours = stage.github.app().await.unwrap().id;
    assert_eq!(comments[0].performed_via_github_app, None);
    assert_eq!(comments[1].performed_via_github_app.as_ref().unwrap().id, ours);
    assert_eq!(comments[1].user.as_ref().unwrap().kind, "Bot");
    let edits = &stage.double.comments(REPO, number.0).unwrap()[1].edits;
    assert_eq!(edits[0].from, "on it");
    client.delete_comment(written.id).await.unwrap();
    let again = client.delete_comment(written.id).await;
    assert!(matches!(again, Err(GitHubError::NotFound { .. })), "{again:?}");
}

/// Waiting for a call's turn takes a while, and the right to it may end meanwhile.
#[tokio::test]
async fn a_call_whose_right_is_over_is_not_sent() {
    let stage = Stage::set().await;
    let alive = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let asked = alive.clone();
    let client = stage
        .client(Access::Write)
        .only_while(move || asked.load(std::sync::atomic::Ordering::SeqCst));
    let number = stage.issue();
    client.create_comment(number, "on it").await.unwrap();
    alive.store(false, std::sync::atomic::Ordering::SeqCst);
    let late = client.create_comment(number, "late").await;
    assert!(matches!(late, Err(GitHubError::Withheld { .. })), "{late:?}");
    let asked = stage.double.requests().len();
    let read = client.comments(number, None, 10).await;
    assert!(matches!(read, Err(GitHubError::Withheld { .. })), "{read:?}");
    let fresh = stage.client(Access::Read).only_while(|| false);
    let token = fresh.git_token().await;
    assert!(matches!(token, Err(GitHubError::Withheld { .. })), "{token:?}");
    assert_eq!(stage.double.requests().len(), asked, "nothing was asked either");
    let comments = stage.client(Access::Read).comments(number, None, 10).await.unwrap();
    assert_eq!(comments.len(), 1);
}

#[tokio::test]
async fn nulls_of_deleted_accounts_and_empty_bodies_are_read() {
    let stage = Stage::set().await;
    stage.double.grant(REPO, "gone", "write").unwrap();
    let number = stage.double.open_issue(REPO, "No words", "", &[], "gone").unwrap();
    stage.double.comment(REPO, number, "bye", "gone").unwrap();
    stage.double.delete_account("gone").unwrap();
    let client = stage.client(Access::Read);
    let issue = client.issue(IssueNumber(number)).await.unwrap();
    assert_eq!((issue.body.as_str(), issue.user), ("", None));
    let comments = client.comments(IssueNumber(number), None, 10).await.unwrap();
    assert_eq!(comments[0].user, None);
    let permission = client.permission("gone").await;
    assert!(
        matches!(permission, Err(GitHubError::NotFound { .. })),
        "{permission:?}"
    );
}

#[tokio::test]
async fn lists_are_read_to_the_end_and_no_further_than_wanted() {
    let stage = Stage::set().await;
    let number = stage.issue();
    for n in 0..250 {
        stage
            .double
            .comment(REPO, number.0, &format!("comment {n}"), "ada")
            .unwrap();
    }
    let client = stage.client(Access::Read);
    let all = client.comments(number, None, 1_000).await.unwrap();
    assert_eq!((all.len(), all[249].body.as_str()), (250, "comment 249"));
    assert_eq!(count(&stage.double, "GET", "/comments"), 3);
    let some = client.comments(number, None, 120).await.unwrap();
    assert_eq!((some.len(), count(&stage.double, "GET", "/comments")), (120, 5));
    stage.clock.advance(Duration::from_secs(60));
    let late = stage.double.comment(REPO, number.0, "late", "ada").unwrap();
    let since = client
        .comments(number, Some(noon() + chrono::TimeDelta::seconds(60)), 10)
        .await
        .unwrap();
    assert_eq!(since.iter().map(|comment| comment.id.0).collect::<Vec<_>>(), [late]);
}

#[tokio::test]
async fn reactions_and_labels_are_sets() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Write);
    let number = stage.issue();
    let comment = stage.double.comment(REPO, number.0, "/agent fix", "ada").unwrap();
    for _ in 0..2 {
        client.react(ReactionTarget::Issue { number }, "eyes").await.unwrap();
        let id = CommentId(comment);
        client.react(ReactionTarget::Comment { id }, "eyes").await.unwrap();
    }
    assert_eq!(stage.double.issue(REPO, number.0).unwrap().reactions.len(), 1);
    assert_eq!(stage.double.comments(REPO, number.0).unwrap()[0].reactions.len(), 1);
    let odd = "agent: now / 100% #1?";
    stage.double.label_issue(REPO, number.0, odd, "ada").unwrap();
    stage.double.label_issue(REPO, number.0, "bug", "ada").unwrap();
    client.remove_label(number, odd).await.unwrap();
    client.remove_label(number, odd).await.unwrap();
    assert_eq!(client.issue(number).await.unwrap().labels[0].name, "bug");
    let gone = client.remove_label(IssueNumber(999), "bug").await;
    assert!(matches!(gone, Err(GitHubError::NotFound { .. })), "{gone:?}");
    let parent = client.remove_label(number, "..").await;
    assert!(matches!(parent, Err(GitHubError::Rejected { .. })), "{parent:?}");
}

#[tokio::test]
async fn permissions_are_those_of_the_role() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Read);
    let ids = ["read", "triage", "write", "maintain", "admin"].map(|role| {
        let id = stage.double.grant(REPO, &format!("{role}-person"), role).unwrap();
        (role, id)
    });
    for (role, id) in ids {
        let found = client.permission(&format!("{role}-person")).await.unwrap();
        assert_eq!((found.role.as_str(), found.account.id), (role, id));
        let level = format!("{:?}", found.permission).to_lowercase();
        assert_eq!(level, role);
    }
    stage.double.person("passer-by");
    let none = client.permission("passer-by").await.unwrap();
    assert_eq!(none.permission, Permission::None);
    for login in ["nobody-at-all", &stage.double.bot_login(), "x/../../y"] {
        let found = client.permission(login).await;
        assert!(matches!(found, Err(GitHubError::NotFound { .. })), "{login}: {found:?}");
    }
}

#[tokio::test]
async fn one_pull_request_for_a_head_and_base() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Write);
    let branch: BranchName = "agent/1-fix".parse().unwrap();
    let new = NewPull {
        head: branch.clone(),
        base: "main".parse().unwrap(),
        title: "Keep the last line".to_owned(),
        body: "Fixes #1".to_owned(),
        draft: true,
    };
    let no_branch = client.create_pull(&new).await;
    assert!(matches!(no_branch, Err(GitHubError::Rejected { .. })), "{no_branch:?}");
    assert_eq!(client.branch_sha(&branch).await.unwrap(), None);
    let files = [("src/lib.rs", "// fixed\n")];
    let sha = stage
        .double
        .push(REPO, branch.as_str(), &files, "Fix", "ada")
        .await
        .unwrap();
    assert_eq!(client.branch_sha(&branch).await.unwrap().unwrap().as_str(), sha);
    let pull = client.create_pull(&new).await.unwrap();
    assert!(pull.draft && !pull.merged && pull.body == "Fixes #1");
    assert_eq!(
        (pull.head.sha.as_str(), pull.base.branch.as_str()),
        (sha.as_str(), "main")
    );
    let twice = client.create_pull(&new).await;
    assert!(matches!(twice, Err(GitHubError::Conflict { .. })), "{twice:?}");
    stage.double.close_issue(REPO, pull.number.0, "ada").unwrap();
    let found = client.pulls_by_head(&branch).await.unwrap();
    assert_eq!((found.len(), found[0].state.as_str()), (1, "closed"));
    assert!(client.issue(pull.number).await.unwrap().pull_request.is_some());
    let empty = NewPull {
        head: "main".parse().unwrap(),
        ..new
    };
    let empty = client.create_pull(&empty).await;
    assert!(
        empty
            .unwrap_err()
            .to_string()
            .contains("No commits between main and main")
    );
}

#[tokio::test]
async fn a_fork_with_the_same_branch_name_is_not_ours() {
    let stage = Stage::set().await;
    let double = &stage.double;
    double.fork(REPO, "ada/widgets").await.unwrap();
    double
        .push("ada/widgets", "agent/1-fix", &[("a", "b")], "Mine", "ada")
        .await
        .unwrap();
    let files = [("a", "c")];
    double.push(REPO, "agent/1-fix", &files, "Ours", "ada").await.unwrap();
    let by_fork = forgehand::demo::double::NewPullByPerson {
        head_repo: "ada/widgets",
        head: "agent/1-fix",
        base: "main",
        title: "Take mine",
        body: "",
        by: "ada",
    };
    double.open_pull(REPO, by_fork).await.unwrap();
    let branch = "agent/1-fix".parse().unwrap();
    assert_eq!(stage.client(Access::Read).pulls_by_head(&branch).await.unwrap(), []);
}

#[tokio::test]
async fn review_comments_come_with_lines_that_may_be_gone() {
    let stage = Stage::set().await;
    let double = &stage.double;
    double.push(REPO, "topic", &[("a", "b")], "Topic", "ada").await.unwrap();
    let pull = forgehand::demo::double::NewPullByPerson {
        head_repo: REPO,
        head: "topic",
        base: "main",
        title: "Topic",
        body: "",
        by: "ada",
    };
    let number = double.open_pull(REPO, pull).await.unwrap();
    let inline = forgehand::demo::double::InlineComment {
        path: "a".to_owned(),
        line: 1,
        body: "why?".to_owned(),
    };
    double
        .submit_review(REPO, number, ("COMMENTED", "some thoughts"), &[inline], "ada")
        .unwrap();
    let id = double.review_comments(REPO, number).unwrap()[0].id;
    double.outdate_review_comment(REPO, id).unwrap();
    let client = stage.client(Access::Write);
    let comments = client.review_comments(IssueNumber(number), None, 10).await.unwrap();
    assert_eq!((comments[0].line, comments[0].original_line), (None, Some(1)));
    let target = ReactionTarget::ReviewComment { id: comments[0].id };
    client.react(target, "eyes").await.unwrap();
}

#[tokio::test]
async fn an_empty_repository_has_no_branch() {
    let stage = Stage::set().await;
    stage.double.repository("octo/empty").create().await.unwrap();
    let client = stage.client_of("octo/empty", Access::Read);
    assert_eq!(client.branch_sha(&"main".parse().unwrap()).await.unwrap(), None);
    assert_eq!(client.repository().await.unwrap().default_branch, "main");
}

#[tokio::test]
async fn a_renamed_repository_is_followed_by_reads_and_not_by_writes() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Write);
    let number = stage.issue();
    stage.double.rename_repository(REPO, "gadgets").unwrap();
    assert_eq!(client.repository().await.unwrap().full_name, name("octo/gadgets"));
    assert_eq!(client.issue(number).await.unwrap().number, number);
    let write = client.create_comment(number, "hello").await;
    assert!(write.unwrap_err().to_string().contains("it has moved"));
}

#[tokio::test]
async fn writes_of_one_installation_keep_their_distance() {
    let pause = Duration::from_millis(150);
    let stage = Stage::set_with(|config| config.write_interval_seconds = pause).await;
    let client = stage.client(Access::Write);
    let number = stage.issue();
    let begun = Instant::now();
    let (a, b, c) = tokio::join!(
        client.create_comment(number, "a"),
        client.create_comment(number, "b"),
        client.react(ReactionTarget::Issue { number }, "eyes"),
    );
    for answer in [a.map(drop), b.map(drop), c.map(drop)] {
        answer.unwrap();
    }
    assert!(begun.elapsed() >= pause * 2, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn the_manifest_flow_hands_out_credentials_once() {
    let stage = Stage::set().await;
    let code = stage.double.manifest_code();
    let credentials = GitHub::convert_manifest(&stage.config, &code).await.unwrap();
    assert_eq!(credentials.pem, stage.double.private_key());
    assert_eq!(credentials.webhook_secret, stage.double.webhook_secret());
    let again = GitHub::convert_manifest(&stage.config, &code).await;
    assert!(matches!(again, Err(GitHubError::NotFound { .. })));
    let recorded = stage.double.requests();
    assert!(
        recorded
            .iter()
            .all(|request| request.answer["pem"] == json!(null) || request.answer["pem"] == "***")
    );
}

#[tokio::test]
async fn addresses_for_git_are_clean() {
    let stage = Stage::set_with(|config| config.web_url = "https://git.corp.example/".to_owned()).await;
    let id = stage.double.repo_id(REPO).unwrap();
    let client = stage
        .github
        .repo(stage.double.installation(), id, name("octo/widgets"), Access::Read);
    assert_eq!(client.git_url(), "https://git.corp.example/octo/widgets.git");
}
