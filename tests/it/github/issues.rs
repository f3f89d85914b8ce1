//! Finding issues, opening them, and the place for findings that must not be public.

use std::time::Duration;

use forgehand::demo::double::Fault;
use forgehand::github::{Access, GitHubError, NewIssue, Severity};
use forgehand::ids::IssueNumber;

use super::{REPO, Stage, count, noon};

fn new(title: &str) -> NewIssue {
    NewIssue {
        title: title.to_owned(),
        body: "Observed: it does.".to_owned(),
        labels: vec!["bug".to_owned()],
    }
}

#[tokio::test]
async fn words_find_issues_and_pull_requests_of_this_repository_only() {
    let stage = Stage::set().await;
    let issue = stage.issue();
    let pull = stage.pull("topic", &[("parser", "line")]).await;
    stage
        .double
        .retitle_issue(REPO, pull.0, "Parser keeps the line", "ada")
        .unwrap();
    stage.double.close_issue(REPO, issue.0, "ada").unwrap();
    stage.double.repository("octo/other").private().create().await.unwrap();
    stage
        .double
        .open_issue("octo/other", "Parser line", "", &[], "ada")
        .unwrap();
    let client = stage.client(Access::Read);
    let found = client.search_issues("parser line", 10).await.unwrap();
    let seen: Vec<_> = found
        .iter()
        .map(|issue| (issue.number, issue.state.as_str(), issue.is_pull))
        .collect();
    assert_eq!(seen, [(issue, "closed", false), (pull, "open", true)]);
    assert!(found[0].html_url.ends_with("/issues/1") && found[0].body == "It does.");
    let steered = "\"parser\" repo:octo/other is:open OR -line";
    assert_eq!(client.search_issues(steered, 10).await.unwrap(), []);
    let asked = count(&stage.double, "GET", "/search/issues");
    assert_eq!(client.search_issues(" :\"- ", 10).await.unwrap(), []);
    assert_eq!(count(&stage.double, "GET", "/search/issues"), asked, "nothing to ask");
}

#[tokio::test]
async fn an_issue_of_ours_is_found_again() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Write);
    client.create_issue(&new("Before")).await.unwrap();
    stage.clock.advance(Duration::from_secs(3_600));
    let since = stage.clock.now();
    stage.issue();
    stage
        .double
        .push(REPO, "agent/1", &[("a", "b")], "Fix", "ada")
        .await
        .unwrap();
    let post = "POST /repos/octo/widgets/issues";
    stage.double.fault(post, Fault::ApplyThenReset, 1);
    let unclear = client.create_issue(&new("Found on the way")).await;
    assert!(matches!(unclear, Err(GitHubError::Unclear { .. })), "{unclear:?}");
    // An old issue of ours that changes now was not opened now.
    stage.double.comment(REPO, 1, "still?", "ada").unwrap();
    let ours = client.issues_of_ours(since, 10).await.unwrap();
    let titles: Vec<&str> = ours.iter().map(|issue| issue.title.as_str()).collect();
    assert_eq!(titles, ["Found on the way"]);
    assert_eq!(ours[0].labels[0].name, "bug");
    assert_eq!(client.issues_of_ours(noon(), 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn an_epic_has_sub_issues() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Write);
    let epic = client.create_issue(&new("Epic")).await.unwrap();
    let part = client.create_issue(&new("Part")).await.unwrap();
    client.add_sub_issue(epic.number, part.id).await.unwrap();
    assert_eq!(stage.double.sub_issues(REPO, epic.number.0).unwrap(), [part.number.0]);
    let twice = client.add_sub_issue(epic.number, part.id).await;
    assert!(matches!(twice, Err(GitHubError::Rejected { .. })), "{twice:?}");
    let nobody = client.add_sub_issue(IssueNumber(999), part.id).await;
    assert!(matches!(nobody, Err(GitHubError::NotFound { .. })), "{nobody:?}");
}

#[tokio::test]
async fn labels_are_those_of_the_repository() {
    let stage = Stage::set().await;
    for label in ["bug", "good first issue"] {
        stage.double.add_repo_label(REPO, label).unwrap();
    }
    let labels = stage.client(Access::Read).repo_labels(10).await.unwrap();
    let names: Vec<&str> = labels.iter().map(|label| label.name.as_str()).collect();
    assert_eq!(names, ["bug", "good first issue"]);
}

#[tokio::test]
async fn a_security_finding_goes_to_the_maintainers_only() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Write);
    let advisory = client
        .create_advisory("A path escapes", "`../` is not refused.", Severity::High)
        .await
        .unwrap();
    assert!(advisory.ghsa_id.starts_with("GHSA-") && advisory.html_url.contains("/security/advisories/"));
    let seen = stage.double.advisories(REPO).unwrap();
    assert_eq!((seen[0].severity.as_str(), seen.len()), ("high", 1));
    assert!(stage.double.issues(REPO).unwrap().is_empty());
}

#[tokio::test]
async fn a_refused_advisory_says_why() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Write);
    let finding = async || client.create_advisory("A hole", "There.", Severity::Low).await;
    let post = "POST /repos/octo/widgets/security-advisories";
    stage.double.fault(post, Fault::status(404, "Not Found"), 1);
    let missing = finding().await;
    assert!(matches!(missing, Err(GitHubError::NotFound { .. })), "{missing:?}");
    stage
        .double
        .fault(post, Fault::status(403, "Advisories are disabled"), 1);
    let disabled = finding().await;
    assert!(matches!(&disabled, Err(GitHubError::Forbidden { detail, .. }) if detail.contains("disabled")));
    stage.double.set_permission("repository_advisories", "none");
    client.revoke_token().await.unwrap();
    let not_granted = finding().await;
    assert!(matches!(&not_granted, Err(GitHubError::Forbidden { detail, .. }) if detail.contains("not granted")));
    assert!(stage.double.advisories(REPO).unwrap().is_empty());
}
