//! Issues as a queue: lists that cost nothing while they do not change, who did what, what a search
//! selects.

use std::time::Duration;

use forgehand::github::{Access, GitHubError, OpenIssues};
use forgehand::ids::{IssueNumber, UserId};

use super::{REPO, Stage};

const READY: OpenIssues<'_> = OpenIssues {
    label: Some("Ready"),
    has_milestone: false,
};

#[tokio::test]
async fn an_unchanged_page_is_not_sent_again_and_not_counted() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Read);
    let number = stage.double.open_issue(REPO, "A", "", &["ready"], "ada").unwrap();
    stage.double.open_issue(REPO, "B", "", &[], "ada").unwrap();
    let first = client.open_issues(READY, 1, None).await.unwrap().expect("it is new");
    assert_eq!(
        first.issues.iter().map(|issue| issue.number.0).collect::<Vec<_>>(),
        [number]
    );
    assert!(!first.is_full);
    let etag = first.etag.expect("a mark");
    for _ in 0..3 {
        assert_eq!(client.open_issues(READY, 1, Some(&etag)).await.unwrap(), None);
    }
    assert_eq!(stage.double.unchanged_answers(), 3);
    stage.clock.advance(Duration::from_secs(1));
    stage.double.comment(REPO, number, "me too", "ada").unwrap();
    let second = client
        .open_issues(READY, 1, Some(&etag))
        .await
        .unwrap()
        .expect("it changed");
    assert!(second.etag.is_some_and(|now| now != etag));
    assert_eq!(stage.double.unchanged_answers(), 3);
}

#[tokio::test]
async fn milestones_and_pages_are_listed_oldest_first() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Read);
    for n in 1..=101_u64 {
        let number = stage
            .double
            .open_issue(REPO, &format!("Issue {n}"), "", &[], "ada")
            .unwrap();
        stage.double.set_milestone(REPO, number, "v1", "ada").unwrap();
    }
    stage.double.clear_milestone(REPO, 7, "ada").unwrap();
    let which = OpenIssues {
        label: None,
        has_milestone: true,
    };
    let first = client.open_issues(which, 1, None).await.unwrap().unwrap();
    assert!(first.is_full && first.issues.len() == 100);
    assert_eq!(first.issues[0].number, IssueNumber(1));
    assert!(
        first
            .issues
            .iter()
            .all(|issue| issue.milestone.as_ref().is_some_and(|it| it.title == "v1"))
    );
    let second = client.open_issues(which, 2, None).await.unwrap().unwrap();
    assert!(!second.is_full && second.issues.is_empty(), "one of 101 has left");
    stage.double.set_milestone(REPO, 7, "v2", "ada").unwrap();
    let second = client.open_issues(which, 2, None).await.unwrap().unwrap();
    assert_eq!(
        second.issues.iter().map(|issue| issue.number.0).collect::<Vec<_>>(),
        [101]
    );
}

#[tokio::test]
async fn w4_events_say_who_did_what_and_a_deleted_account_is_nobody() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Read);
    let dev = stage.double.grant(REPO, "dev", "write").unwrap();
    let number = stage.issue();
    stage.double.label_issue(REPO, number.0, "ready", "dev").unwrap();
    stage
        .double
        .retitle_issue(REPO, number.0, "Parser keeps it", "ada")
        .unwrap();
    stage.double.unlabel_issue(REPO, number.0, "ready", "ada").unwrap();
    stage.double.set_milestone(REPO, number.0, "v1", "dev").unwrap();
    let events = client.issue_events(number).await.unwrap();
    let seen: Vec<&str> = events.iter().map(|event| event.event.as_str()).collect();
    assert_eq!(seen, ["labeled", "renamed", "unlabeled", "milestoned"]);
    assert_eq!(events[0].actor.as_ref().map(|actor| actor.id), Some(dev));
    assert_eq!(events[0].label.as_ref().map(|label| label.name.as_str()), Some("ready"));
    assert_eq!(
        events[3].milestone.as_ref().map(|milestone| milestone.title.as_str()),
        Some("v1")
    );
    stage.double.delete_account("dev").unwrap();
    let events = client.issue_events(number).await.unwrap();
    assert_eq!(events[0].actor, None);
    assert!(events[1].actor.is_some());
}

#[tokio::test]
async fn changes_of_a_body_are_told_with_who_made_them() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Read);
    let number = stage.issue();
    let untouched = client.body_edits(number).await.unwrap();
    assert_eq!((untouched.last_at, untouched.edits.len()), (None, 0));
    stage.clock.advance(Duration::from_secs(60));
    let eve: UserId = stage.double.grant(REPO, "eve", "write").unwrap();
    stage
        .double
        .edit_issue(REPO, number.0, "Do something else.", "eve")
        .unwrap();
    let edits = client.body_edits(number).await.unwrap();
    assert_eq!(edits.last_at, Some(stage.clock.now()));
    assert_eq!(edits.edits[0].by, Some(eve));
    assert_eq!(edits.edits.len(), 2, "GitHub counts the first text, too");
    let missing = client.body_edits(IssueNumber(99)).await;
    assert!(matches!(missing, Err(GitHubError::NotFound { .. })), "{missing:?}");
}

#[tokio::test]
async fn a_search_selects_with_githubs_words_in_this_repository_only() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Read);
    for (title, labels) in [("A", &["ready"][..]), ("B", &["ready", "blocked"]), ("C", &[])] {
        stage.double.open_issue(REPO, title, "", labels, "ada").unwrap();
    }
    stage.pull("topic", &[("a", "b")]).await;
    let selected = client
        .select_issues("is:issue is:open label:ready -label:blocked")
        .await
        .unwrap();
    let numbers: Vec<u64> = selected.issues.iter().map(|(number, _)| number.0).collect();
    assert_eq!((numbers, selected.is_complete), (vec![1], true));
    assert_eq!(client.count_open_issues().await.unwrap(), 3);
    let wrong = client.select_issues("lable:ready").await;
    assert!(matches!(wrong, Err(GitHubError::Rejected { .. })), "{wrong:?}");
}

#[tokio::test]
async fn only_our_open_pull_requests_are_counted() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Write);
    stage.pull("topic", &[("a", "b")]).await;
    let us = stage.double.bot_login();
    assert_eq!(client.open_pulls_of(&us, 10).await.unwrap(), 0);
    assert_eq!(client.open_pulls_of("ada", 10).await.unwrap(), 1);
}
