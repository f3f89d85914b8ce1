//! Reviews, their threads, and what becomes of them when somebody pushes.

use forgehand::demo::double::{Fault, InlineComment};
use forgehand::github::{Access, GitHubError, NewReview, NewReviewComment, ReviewThread, Side};
use forgehand::ids::{CommentId, IssueNumber};
use serde_json::json;

use super::{REPO, Stage, count};

const OLD: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n";

/// A pull request that changes the fifth of ten lines, and a file that is new.
async fn reviewed(stage: &Stage) -> IssueNumber {
    stage
        .double
        .push(REPO, "main", &[("ten", OLD)], "Count", "ada")
        .await
        .unwrap();
    let changed = OLD.replace("five", "FIVE");
    stage.pull("topic", &[("ten", &changed), ("new", "a\nb\nc\n")]).await
}

fn remark(path: &str, line: u64) -> NewReviewComment {
    NewReviewComment {
        path: path.to_owned(),
        line,
        side: Side::Right,
        start_line: None,
        body: format!("about {path}:{line}"),
    }
}

fn review(stage: &Stage, comments: Vec<NewReviewComment>) -> NewReview {
    NewReview {
        commit_id: stage.sha("topic"),
        body: "Three things.".to_owned(),
        comments,
    }
}

fn by_person(path: &str, line: u64) -> InlineComment {
    InlineComment {
        path: path.to_owned(),
        line,
        body: format!("{path}:{line}?"),
    }
}

async fn threads(stage: &Stage, number: IssueNumber) -> Vec<ReviewThread> {
    stage.client(Access::Read).review_threads(number, 100).await.unwrap()
}

#[tokio::test]
async fn a_review_is_one_with_its_comments() {
    let stage = Stage::set().await;
    let number = reviewed(&stage).await;
    let client = stage.client(Access::Write);
    let mut range = remark("ten", 6);
    range.start_line = Some(4);
    let deleted = NewReviewComment {
        side: Side::Left,
        ..remark("ten", 5)
    };
    let comments = vec![range, deleted, remark("new", 2)];
    let posted = client.create_review(number, &review(&stage, comments)).await.unwrap();
    let listed = client.reviews(number, 10).await.unwrap();
    assert_eq!(listed, std::slice::from_ref(&posted));
    assert_eq!(
        (posted.state.as_str(), posted.user.unwrap().kind.as_str()),
        ("COMMENTED", "Bot")
    );
    let threads = threads(&stage, number).await;
    let seen: Vec<_> = threads
        .iter()
        .map(|thread| (thread.path.as_str(), thread.start_line, thread.line, thread.side))
        .collect();
    assert_eq!(
        seen,
        [
            ("ten", Some(4), Some(6), Side::Right),
            ("ten", None, Some(5), Side::Left),
            ("new", None, Some(2), Side::Right)
        ]
    );
    let root = threads[2].root().unwrap();
    assert_eq!((root.review, root.reply_to), (Some(posted.id), None));
    assert_eq!(root.author.as_ref().unwrap().login, stage.double.bot_login());
    assert_eq!(root.diff_hunk, "@@ -0,0 +1,3 @@\n+a\n+b");
}

/// W17: one bad place makes GitHub refuse all of it, and nothing is there.
#[tokio::test]
async fn w17_a_line_that_is_not_in_the_diff_refuses_the_review() {
    let stage = Stage::set().await;
    let number = reviewed(&stage).await;
    let client = stage.client(Access::Write);
    let mut range = remark("ten", 8);
    range.start_line = Some(1);
    for bad in [remark("ten", 1), remark("ten", 99), remark("absent", 1), range] {
        let words = format!("{}:{}", bad.path, bad.line);
        let refused = client
            .create_review(number, &review(&stage, vec![remark("new", 1), bad]))
            .await;
        let error = refused.unwrap_err();
        assert!(error.is_bad_anchor(), "{words}: {error}");
    }
    assert_eq!(client.reviews(number, 10).await.unwrap(), []);
    let stale = NewReview {
        commit_id: stage.sha("main"),
        ..review(&stage, vec![])
    };
    let error = client.create_review(number, &stale).await.unwrap_err();
    assert!(
        matches!(error, GitHubError::Rejected { .. }) && !error.is_bad_anchor(),
        "{error}"
    );
}

/// W29: only the first comment of a thread is replied to.
#[tokio::test]
async fn w29_a_reply_goes_to_the_root_of_its_thread() {
    let stage = Stage::set().await;
    let number = reviewed(&stage).await;
    let double = &stage.double;
    double
        .submit_review(REPO, number.0, ("COMMENTED", ""), &[by_person("new", 1)], "ada")
        .unwrap();
    let root = double.threads(REPO, number.0).unwrap()[0].root.id;
    let reply = double.reply(REPO, number.0, root, "/agent fix", "ada").unwrap();
    let client = stage.client(Access::Write);
    let wrong = client.reply_to_review_comment(number, CommentId(reply), "done").await;
    assert!(matches!(wrong, Err(GitHubError::Rejected { .. })), "{wrong:?}");
    let answer = client
        .reply_to_review_comment(number, CommentId(root), "Fixed in abc.")
        .await
        .unwrap();
    assert_eq!(answer.in_reply_to_id, Some(CommentId(root)));
    let seen = threads(&stage, number).await;
    let bodies: Vec<&str> = seen[0].comments.iter().map(|comment| comment.body.as_str()).collect();
    assert_eq!(bodies, ["new:1?", "/agent fix", "Fixed in abc."]);
    assert_eq!(seen[0].comments[1].reply_to, Some(CommentId(root)));
    client.resolve_thread(&seen[0].id).await.unwrap();
    client.resolve_thread(&seen[0].id).await.unwrap();
    assert!(threads(&stage, number).await[0].is_resolved);
    let known = &double.threads(REPO, number.0).unwrap()[0];
    assert_eq!(known.resolved_by.as_deref(), Some(double.bot_login().as_str()));
}

#[tokio::test]
async fn a_push_moves_lines_and_outdates_what_it_changes() {
    let stage = Stage::set().await;
    let number = reviewed(&stage).await;
    let double = &stage.double;
    let comments = [by_person("ten", 5), by_person("ten", 6), by_person("new", 2)];
    double
        .submit_review(REPO, number.0, ("CHANGES_REQUESTED", "please"), &comments, "ada")
        .unwrap();
    let lines = async || -> Vec<(Option<u64>, bool)> {
        let threads = threads(&stage, number).await;
        threads.iter().map(|thread| (thread.line, thread.is_outdated)).collect()
    };
    let above = format!("zero\n{}", OLD.replace("five", "FIVE"));
    double
        .push(REPO, "topic", &[("ten", &above)], "Zero", "ada")
        .await
        .unwrap();
    assert_eq!(lines().await, [(Some(6), false), (Some(7), false), (Some(2), false)]);
    let rewritten = above.replace("FIVE", "5");
    double
        .push(REPO, "topic", &[("ten", &rewritten)], "Digits", "ada")
        .await
        .unwrap();
    assert_eq!(lines().await, [(None, true), (Some(7), false), (Some(2), false)]);
    double
        .push_deletion(REPO, "topic", &["new"], "Drop", "ada")
        .await
        .unwrap();
    assert_eq!(lines().await, [(None, true), (Some(7), false), (None, true)]);
    let seen = threads(&stage, number).await;
    assert_eq!((seen[0].original_line, seen[2].path.as_str()), (Some(5), "new"));
    let rest = stage
        .client(Access::Read)
        .review_comments(number, None, 10)
        .await
        .unwrap();
    assert_eq!((rest[0].line, rest[0].original_line), (None, Some(5)));
}

/// W4: the author of a thread is gone.
#[tokio::test]
async fn w4_threads_of_deleted_accounts_are_read() {
    let stage = Stage::set().await;
    let number = reviewed(&stage).await;
    stage.double.grant(REPO, "gone", "write").unwrap();
    stage
        .double
        .submit_review(REPO, number.0, ("COMMENTED", ""), &[by_person("new", 1)], "gone")
        .unwrap();
    stage.double.delete_account("gone").unwrap();
    assert_eq!(threads(&stage, number).await[0].comments[0].author, None);
    let reviews = stage.client(Access::Read).reviews(number, 10).await.unwrap();
    assert_eq!((reviews[0].user.clone(), reviews[0].body.as_str()), (None, ""));
}

#[tokio::test]
async fn threads_and_comments_are_read_to_the_end_and_no_further_than_wanted() {
    let stage = Stage::set().await;
    let number = reviewed(&stage).await;
    let comments: Vec<InlineComment> = (0..120).map(|_| by_person("new", 1)).collect();
    stage
        .double
        .submit_review(REPO, number.0, ("COMMENTED", ""), &comments, "ada")
        .unwrap();
    let root = stage.double.threads(REPO, number.0).unwrap()[0].root.id;
    for n in 0..150 {
        stage
            .double
            .reply(REPO, number.0, root, &format!("reply {n}"), "ada")
            .unwrap();
    }
    let all = threads(&stage, number).await;
    assert_eq!((all.len(), all[0].comments.len()), (100, 151));
    assert_eq!(all[0].comments[150].body, "reply 149");
    let client = stage.client(Access::Read);
    assert_eq!(client.review_threads(number, 1_000).await.unwrap().len(), 120);
    assert_eq!(client.review_threads(number, 1).await.unwrap().len(), 1);
    assert!(
        stage.double.ledger().iter().all(|write| write.path != "/graphql"),
        "questions write nothing"
    );
}

#[tokio::test]
async fn errors_of_graphql_are_told_apart() {
    let stage = Stage::set().await;
    let number = reviewed(&stage).await;
    let client = stage.client(Access::Write);
    let missing = client.review_threads(IssueNumber(999), 10).await;
    assert!(matches!(missing, Err(GitHubError::NotFound { .. })), "{missing:?}");
    let answer = |kind: serde_json::Value| {
        let body = json!({ "data": { "repository": null }, "errors": [{ "type": kind, "message": "so it is" }] });
        Fault::Status(200, Vec::new(), body.to_string())
    };
    let read = async |kind: serde_json::Value| {
        stage.double.fault("POST /graphql", answer(kind), 1);
        client.review_threads(number, 10).await.unwrap_err()
    };
    let limited = read("RATE_LIMITED".into()).await;
    assert!(matches!(limited, GitHubError::RateLimited { .. }), "{limited}");
    let forbidden = read("FORBIDDEN".into()).await;
    assert!(matches!(forbidden, GitHubError::Forbidden { .. }), "{forbidden}");
    let broken = read(serde_json::Value::Null).await;
    assert!(matches!(broken, GitHubError::Unclear { .. }), "{broken}");
    assert!(
        broken.to_string().contains("GraphQL ReviewThreads: so it is"),
        "{broken}"
    );
    // A question is asked again, a change is not.
    stage
        .double
        .fault("POST /graphql", Fault::status(502, "bad gateway"), 2);
    client.review_threads(number, 10).await.unwrap();
    stage.double.set_draft(REPO, number.0, true, "ada").unwrap();
    let pull = client.pull(number).await.unwrap();
    let before = count(&stage.double, "POST", "/graphql");
    stage.double.fault("POST /graphql", Fault::ApplyThenReset, 1);
    let unclear = client.mark_ready(&pull.node_id).await;
    assert!(matches!(unclear, Err(GitHubError::Unclear { .. })), "{unclear:?}");
    assert_eq!(count(&stage.double, "POST", "/graphql") - before, 1);
    assert!(!client.pull(number).await.unwrap().draft);
}

#[tokio::test]
async fn a_change_by_graphql_is_a_write_like_any_other() {
    let stage = Stage::set().await;
    let number = reviewed(&stage).await;
    let client = stage.client(Access::Write);
    let pull = client.pull(number).await.unwrap();
    let late = client.clone().only_while(|| false);
    let withheld = late.mark_ready(&pull.node_id).await;
    assert!(matches!(withheld, Err(GitHubError::Withheld { .. })), "{withheld:?}");
    let read = late.review_threads(number, 10).await;
    assert!(matches!(read, Err(GitHubError::Withheld { .. })), "{read:?}");
    let reader = stage.client(Access::Read);
    let forbidden = reader.mark_ready(&pull.node_id).await;
    assert!(matches!(forbidden, Err(GitHubError::Forbidden { .. })), "{forbidden:?}");
    client.mark_ready(&pull.node_id).await.unwrap();
    let writes = stage.double.ledger();
    let changes = writes.iter().filter(|write| write.path == "/graphql");
    assert_eq!(changes.count(), 2, "the refused one and the one that was done");
}

#[tokio::test]
async fn somebody_who_may_not_review_keeps_nobody_else_from_it() {
    let stage = Stage::set().await;
    let number = reviewed(&stage).await;
    for login in ["eve", "mona"] {
        stage.double.grant(REPO, login, "write").unwrap();
    }
    let client = stage.client(Access::Write);
    let logins = ["ada", "eve", "nobody", "mona"].map(str::to_owned);
    let refused = client.request_reviewers(number, &logins).await.unwrap();
    assert_eq!(refused, ["ada", "nobody"]);
    assert_eq!(
        stage.double.requested_reviewers(REPO, number.0).unwrap(),
        ["eve", "mona"]
    );
    assert_eq!(
        client.request_reviewers(number, &logins[1..2]).await.unwrap(),
        Vec::<String>::new()
    );
    assert_eq!(
        client.request_reviewers(number, &[]).await.unwrap(),
        Vec::<String>::new()
    );
    stage
        .double
        .submit_review(REPO, number.0, ("APPROVED", ""), &[], "eve")
        .unwrap();
    let asked = client.pull(number).await.unwrap().requested_reviewers;
    assert_eq!(
        asked.iter().map(|person| person.login.as_str()).collect::<Vec<_>>(),
        ["mona"]
    );
}
