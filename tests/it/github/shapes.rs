//! What the double sends has everything that GitHub's published examples of the same event have.

use std::path::PathBuf;

use forgehand::demo::double::Delivery;
use forgehand::github::{Access, Conclusion, Progress};
use serde_json::Value;

use super::checks::report;
use super::{REPO, Stage, new_check};

/// Parts that the examples show and that are no part of a plain App's delivery.
const ELSEWHERE: [&str; 3] = ["organization", "enterprise", "deployment"];

fn examples() -> Vec<Value> {
    let folder = std::env::var_os("FORGEHAND_TEST_WEBHOOK_EXAMPLES").map(PathBuf::from);
    let folder = folder.expect("FORGEHAND_TEST_WEBHOOK_EXAMPLES names the npm package @octokit/webhooks-examples");
    let text = std::fs::read_to_string(folder.join("api.github.com/index.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Names that an example has and a payload lacks, two objects deep.
fn lacking(example: &Value, payload: &Value, depth: usize, at: &str) -> Vec<String> {
    let (Some(example), Some(payload)) = (example.as_object(), payload.as_object()) else {
        return Vec::new();
    };
    let mut missing = Vec::new();
    for (name, value) in example.iter().filter(|(name, _)| !ELSEWHERE.contains(&name.as_str())) {
        match payload.get(name) {
            None => missing.push(format!("{at}.{name}")),
            Some(found) if depth > 0 => missing.extend(lacking(value, found, depth - 1, &format!("{at}.{name}"))),
            Some(_) => {}
        }
    }
    missing
}

async fn everything(stage: &Stage) -> Vec<Delivery> {
    let double = &stage.double;
    double.hooks("http://127.0.0.1:9/webhook", &double.webhook_secret());
    let number = stage.pull("topic", &[("a", "b\n")]).await;
    let sha = stage.sha("topic");
    double.set_check(REPO, sha.as_str(), "test", "queued", None).unwrap();
    double
        .set_check(REPO, sha.as_str(), "test", "completed", Some("success"))
        .unwrap();
    double
        .set_status(REPO, sha.as_str(), "ci/old", "success", "ada")
        .unwrap();
    let client = stage.client(Access::Write);
    let run = client
        .create_check_run(&new_check(&sha, Progress::InProgress))
        .await
        .unwrap();
    let done = report(Progress::Completed(Conclusion::Success));
    client.update_check_run(run.id, &done).await.unwrap();
    client.rerequest_check_run(run.id).await.unwrap();
    double.grant(REPO, "eve", "write").unwrap();
    client.request_reviewers(number, &["eve".to_owned()]).await.unwrap();
    double.set_draft(REPO, number.0, true, "ada").unwrap();
    double.set_draft(REPO, number.0, false, "ada").unwrap();
    double
        .push(REPO, "topic", &[("a", "c\n")], "More", "ada")
        .await
        .unwrap();
    double.deliveries_settled().await;
    double.deliveries()
}

#[tokio::test]
async fn deliveries_have_what_the_published_examples_have() {
    let stage = Stage::set().await;
    let mut seen = Vec::new();
    let mut wrong = Vec::new();
    let examples = examples();
    for delivery in everything(&stage).await {
        let payload: Value = serde_json::from_str(&delivery.body).unwrap();
        let what = format!("{}.{}", delivery.event, delivery.action.as_deref().unwrap_or("-"));
        let event = examples.iter().find(|event| event["name"] == delivery.event.as_str());
        let all = event.unwrap()["examples"].as_array().unwrap();
        let same = all
            .iter()
            .find(|example| example["action"].as_str() == delivery.action.as_deref());
        // A push and a status have no action; an action without an example is held against another.
        let example = same.unwrap_or(&all[0]);
        wrong.extend(
            lacking(example, &payload, 1, &what)
                .into_iter()
                .filter(|missing| same.is_some() || !missing.contains(".changes")),
        );
        seen.push(what);
    }
    wrong.sort();
    wrong.dedup();
    assert_eq!(wrong, Vec::<String>::new());
    for event in [
        "check_run.created",
        "check_run.completed",
        "check_run.rerequested",
        "check_suite.completed",
        "status.-",
        "push.-",
        "pull_request.review_requested",
        "pull_request.converted_to_draft",
        "pull_request.ready_for_review",
        "pull_request.synchronize",
    ] {
        assert!(seen.iter().any(|what| what == event), "{event} was not sent: {seen:?}");
    }
}
