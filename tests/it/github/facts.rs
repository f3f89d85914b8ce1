//! The double against GitHub's published description of its API: every operation that the port
//! uses is driven once, and each request and answer must fit the facts.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use forgehand::demo::double::{InlineComment, Recorded};
use forgehand::effect::ReactionTarget;
use forgehand::github::{
    Access, Conclusion, GitHub, NewIssue, NewPull, NewReview, NewReviewComment, OpenIssues, Progress, Pull, RepoClient,
    Severity, Side,
};
use forgehand::ids::{CommentId, CommitSha, IssueNumber};
use serde_json::{Value, json};

use super::checks::report;
use super::{REPO, Stage, name, new_check};

const FACTS: &str = include_str!("openapi-facts.json");

/// Calls everything that the port can call.
async fn drive(stage: &Stage) {
    let double = &stage.double;
    GitHub::convert_manifest(&stage.config, &double.manifest_code())
        .await
        .unwrap();
    stage.github.app().await.unwrap();
    stage.github.installation_of(&name(REPO)).await.unwrap();
    let client = stage.client(Access::Write);
    client.repository().await.unwrap();
    client.permission("ada").await.unwrap();
    let number = IssueNumber(double.open_issue(REPO, "Empty", "", &["agent"], "ada").unwrap());
    client.issue(number).await.unwrap();
    let comment = client.create_comment(number, "hello").await.unwrap();
    double.comment(REPO, number.0, "by a person", "ada").unwrap();
    client.update_comment(comment.id, "hello again").await.unwrap();
    client.comments(number, None, 10).await.unwrap();
    client.react(ReactionTarget::Issue { number }, "eyes").await.unwrap();
    client
        .react(ReactionTarget::Comment { id: comment.id }, "+1")
        .await
        .unwrap();
    client
        .react(ReactionTarget::Comment { id: comment.id }, "+1")
        .await
        .unwrap();
    client.remove_label(number, "agent").await.unwrap();
    client.delete_comment(comment.id).await.unwrap();
    double
        .push(REPO, "agent/1-fix", &[("a", "b")], "Fix", "ada")
        .await
        .unwrap();
    let branch = "agent/1-fix".parse().unwrap();
    client.branch_sha(&branch).await.unwrap();
    let new = NewPull {
        head: branch.clone(),
        base: "main".parse().unwrap(),
        title: "Fix".to_owned(),
        body: "Fixes #1".to_owned(),
        draft: true,
    };
    let pull = client.create_pull(&new).await.unwrap();
    client.pull(pull.number).await.unwrap();
    client.pulls_by_head(&branch).await.unwrap();
    client.issue(pull.number).await.unwrap();
    let inline = InlineComment {
        path: "a".to_owned(),
        line: 1,
        body: "why?".to_owned(),
    };
    let verdict = ("COMMENTED", "thoughts");
    double
        .submit_review(REPO, pull.number.0, verdict, &[inline], "ada")
        .unwrap();
    let id = CommentId(double.review_comments(REPO, pull.number.0).unwrap()[0].id);
    client.review_comments(pull.number, None, 10).await.unwrap();
    client
        .react(ReactionTarget::ReviewComment { id }, "eyes")
        .await
        .unwrap();
    drive_issues(stage, &client, number).await;
    drive_pull(stage, &client, &pull).await;
    drive_checks(stage, &client, &pull.head.sha).await;
    client.revoke_token().await.unwrap();
    double.hooks("http://127.0.0.1:9/webhook", &double.webhook_secret());
    double.comment(REPO, number.0, "nobody hears this", "ada").unwrap();
    double.deliveries_settled().await;
    let logged = stage.github.deliveries(chrono::DateTime::UNIX_EPOCH, 10).await.unwrap();
    stage.github.delivery_payload(logged[0].id).await.unwrap();
}

async fn drive_issues(stage: &Stage, client: &RepoClient, parent: IssueNumber) {
    stage.double.add_repo_label(REPO, "bug").unwrap();
    client.repo_labels(10).await.unwrap();
    let new = NewIssue {
        title: "Found on the way".to_owned(),
        body: "Observed.".to_owned(),
        labels: vec!["bug".to_owned()],
    };
    let issue = client.create_issue(&new).await.unwrap();
    client.add_sub_issue(parent, issue.id).await.unwrap();
    client.search_issues("found way", 10).await.unwrap();
    stage
        .double
        .retitle_issue(REPO, issue.number.0, "Found", "ada")
        .unwrap();
    stage.double.edit_issue(REPO, issue.number.0, "Seen.", "ada").unwrap();
    stage.double.label_issue(REPO, issue.number.0, "ready", "ada").unwrap();
    stage.double.set_milestone(REPO, issue.number.0, "v1", "ada").unwrap();
    client.issue_events(issue.number).await.unwrap();
    drive_since(client, parent).await;
    client.body_edits(issue.number).await.unwrap();
    let open = OpenIssues {
        label: Some("ready"),
        has_milestone: true,
    };
    client.open_issues(open, 1, None).await.unwrap();
    client.select_issues("is:issue is:open label:ready").await.unwrap();
    client.count_open_issues().await.unwrap();
    client.open_pulls_of("ada", 10).await.unwrap();
    client.issues_of_ours(chrono::DateTime::UNIX_EPOCH, 10).await.unwrap();
    client
        .create_advisory("A hole", "Where and how.", Severity::High)
        .await
        .unwrap();
}

/// What changed, as the lists of a whole repository tell it.
async fn drive_since(client: &RepoClient, issue: IssueNumber) {
    let since = chrono::DateTime::UNIX_EPOCH;
    let changed = client.changed_issues(since, 1, None).await.unwrap().unwrap();
    assert!(changed.issues.iter().any(|found| found.number == issue));
    let same = client.changed_issues(since, 1, changed.etag.as_deref()).await.unwrap();
    assert_eq!(same, None, "nothing changed since");
    let events = client.repo_events(1).await.unwrap().items;
    let last = &events[0];
    assert_eq!(last.event.event, "milestoned");
    assert!(
        events
            .iter()
            .any(|found| found.event.label.is_some() && found.issue.is_some())
    );
    let said = client.comments_since(since, 1).await.unwrap().items;
    assert_eq!(said[0].number, issue);
    assert!(client.has_comment(said[0].comment.id).await.unwrap());
    let on_lines = client.review_comments_since(since, 1).await.unwrap().items;
    assert!(client.has_review_comment(on_lines[0].comment.id).await.unwrap());
}

async fn drive_pull(stage: &Stage, client: &RepoClient, pull: &Pull) {
    let number = pull.number;
    stage.double.grant(REPO, "eve", "write").unwrap();
    client.request_reviewers(number, &["eve".to_owned()]).await.unwrap();
    let comment = NewReviewComment {
        path: "a".to_owned(),
        line: 1,
        side: Side::Right,
        start_line: None,
        body: "this".to_owned(),
    };
    let review = NewReview {
        commit_id: pull.head.sha.clone(),
        body: "thoughts".to_owned(),
        comments: vec![comment],
    };
    client.create_review(number, &review).await.unwrap();
    client.reviews(number, 10).await.unwrap();
    let threads = client.review_threads(number, 10).await.unwrap();
    let root = threads[0].root().unwrap().id;
    client.reply_to_review_comment(number, root, "done").await.unwrap();
    client.resolve_thread(&threads[0].id).await.unwrap();
    client.pull_files(number, 10).await.unwrap();
    client.mark_ready(&pull.node_id).await.unwrap();
    client.merged_titles(&"main".parse().unwrap(), 10).await.unwrap();
}

async fn drive_checks(stage: &Stage, client: &RepoClient, sha: &CommitSha) {
    let double = &stage.double;
    double
        .set_check(REPO, sha.as_str(), "test", "completed", Some("failure"))
        .unwrap();
    double
        .set_status(REPO, sha.as_str(), "ci/old", "success", "ada")
        .unwrap();
    let mut new = new_check(sha, Progress::InProgress);
    new.report.annotations = super::checks::remarks(60);
    let run = client.create_check_run(&new).await.unwrap();
    let done = report(Progress::Completed(Conclusion::Success));
    client.update_check_run(run.id, &done).await.unwrap();
    client.annotations(run.id, 10).await.unwrap();
    client.rerequest_check_run(run.id).await.unwrap();
    client.rollup(sha).await.unwrap();
}

/// The operation of a recorded request: the description's path has `{names}` for parts.
fn operation<'a>(facts: &'a Value, request: &Recorded) -> Option<(&'a String, &'a Value)> {
    let operations = facts["operations"].as_object().unwrap();
    let fitting = operations.iter().filter(|(_, operation)| {
        let mut parts = request.path.split('/');
        let pattern = operation["path"].as_str().unwrap();
        let fits = pattern.split('/').all(|wanted| match wanted {
            "{ref}" if pattern.ends_with("{ref}") => parts.by_ref().count() > 0,
            _ if wanted.starts_with('{') => parts.next().is_some(),
            _ => parts.next() == Some(wanted),
        });
        operation["method"] == request.method.as_str() && fits && parts.next().is_none()
    });
    // A word of the path goes before a name that stands for any word.
    fitting.min_by_key(|(_, operation)| operation["path"].as_str().unwrap().matches('{').count())
}

/// What is wrong with a value, against a schema whose references lead into the facts.
fn problems(facts: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut schema = schema.clone();
    schema["$defs"] = facts["$defs"].clone();
    let validator = jsonschema::validator_for(&schema).unwrap();
    validator
        .iter_errors(value)
        .map(|error| format!("{} at {}", error, error.instance_path()))
        .collect()
}

/// Every operation's schema of a request, compiled once: all stories of a run ask for them.
static REQUESTS: LazyLock<(Value, BTreeMap<String, jsonschema::Validator>)> = LazyLock::new(|| {
    let facts: Value = serde_json::from_str(FACTS).unwrap();
    let operations = facts["operations"].as_object().unwrap();
    let compiled = operations.iter().filter_map(|(id, operation)| {
        let mut schema = operation.get("request")?.clone();
        schema["$defs"] = facts["$defs"].clone();
        Some((id.clone(), jsonschema::validator_for(&schema).unwrap()))
    });
    let compiled = compiled.collect();
    (facts, compiled)
});

/// What is wrong with requests, against the published description. Git and GraphQL are described
/// elsewhere.
pub fn unfit(requests: &[Recorded]) -> Vec<String> {
    let (facts, compiled) = &*REQUESTS;
    let mut wrong = Vec::new();
    for request in requests {
        let what = format!("{} {}", request.method, request.path);
        // Where GitHub sends callers of an old name to is an address of its own.
        let is_elsewhere = request.path.starts_with("/repositories/");
        if is_elsewhere || request.path == "/graphql" || request.path.contains(".git/") {
            continue;
        }
        let Some((id, _)) = operation(facts, request) else {
            wrong.push(format!("{what} is in no operation"));
            continue;
        };
        if let Some(schema) = compiled.get(id).filter(|_| !request.body.is_null()) {
            let errors = schema.iter_errors(&request.body);
            wrong.extend(errors.map(|error| format!("{what} sends {error} at {}", error.instance_path())));
        }
    }
    wrong
}

#[tokio::test]
async fn requests_and_answers_fit_the_published_description() {
    let facts: Value = serde_json::from_str(FACTS).unwrap();
    let stage = Stage::set().await;
    drive(&stage).await;
    let mut seen = std::collections::BTreeSet::new();
    let mut wrong = Vec::new();
    for request in stage.double.requests() {
        if request.path == "/graphql" {
            continue; // described elsewhere: see the port's own tests of its operations
        }
        let what = format!("{} {}", request.method, request.path);
        let (id, operation) = operation(&facts, &request).unwrap_or_else(|| panic!("{what} is in no operation"));
        seen.insert(id.clone());
        if let Some(schema) = operation.get("request").filter(|_| !request.body.is_null()) {
            wrong.extend(
                problems(&facts, schema, &request.body)
                    .into_iter()
                    .map(|p| format!("{what} sends {p}")),
            );
        }
        match operation["answers"].get(request.status.to_string()) {
            // Any GET is answered so when its tag is sent back; the description says it of some alone.
            None if request.status == 304 && request.method == "GET" => {
                assert!(request.answer.is_null(), "{what}: {}", request.answer);
            }
            None => wrong.push(format!(
                "{what} answers {}, which is no success of {id}",
                request.status
            )),
            Some(Value::Null) => assert_eq!(request.answer, json!(null), "{what} has no body"),
            Some(schema) => {
                let found = problems(&facts, schema, &request.answer);
                wrong.extend(found.into_iter().map(|p| format!("{what} answers {p}")));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    let all: std::collections::BTreeSet<String> = facts["operations"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(seen, all, "every operation is driven");
}

#[test]
fn the_checker_notices_what_is_missing_or_of_another_type() {
    let facts: Value = serde_json::from_str(FACTS).unwrap();
    let schema = &facts["operations"]["git/get-ref"]["answers"]["200"];
    let whole = json!({"ref": "r", "node_id": "n", "url": "u", "object": {"type": "commit", "sha": "s", "url": "u"}});
    assert_eq!(problems(&facts, schema, &whole), Vec::<String>::new());
    let mut lacking = whole.clone();
    lacking.as_object_mut().unwrap().remove("node_id");
    assert_eq!(problems(&facts, schema, &lacking).len(), 1);
    let mut mistyped = whole;
    mistyped["object"]["sha"] = json!(7);
    assert_eq!(problems(&facts, schema, &mistyped).len(), 1);
}
