//! GitHub's published webhook examples, all of them: each is accepted, and a few are known to
//! start or stop something.

use std::path::PathBuf;

use forgehand::ids::Subject;
use forgehand::job::Trigger;
use serde_json::{Value, json};

use super::{Service, is_stored, jobs, state};
use crate::databases::each;

/// The folder of the npm package `@octokit/webhooks-examples`.
fn folder() -> PathBuf {
    std::env::var_os("FORGEHAND_TEST_WEBHOOK_EXAMPLES")
        .map(PathBuf::from)
        .expect(
            "FORGEHAND_TEST_WEBHOOK_EXAMPLES must name the folder of the npm package @octokit/webhooks-examples; start \
         the tests with tests/run, or run `npm install @octokit/webhooks-examples` and point to it",
        )
}

/// Every example of github.com and of the versions of GitHub Enterprise as (event, body).
fn examples() -> Vec<(String, Value)> {
    let folder = folder();
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut places: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    places.sort();
    let mut all = Vec::new();
    let mut sources = 0;
    for place in places {
        let Ok(text) = std::fs::read_to_string(place.join("index.json")) else {
            continue; // a file beside the folders of examples
        };
        sources += 1;
        let events: Vec<Value> = serde_json::from_str(&text).unwrap();
        for event in events {
            let name = event["name"].as_str().unwrap().to_owned();
            let examples = event["examples"].as_array().unwrap();
            all.extend(examples.iter().map(|example| (name.clone(), example.clone())));
        }
    }
    assert!(
        sources > 3 && all.len() > 600,
        "{} examples in {sources} folders",
        all.len()
    );
    all
}

#[tokio::test]
async fn every_published_example_is_accepted() {
    each(async |store| {
        let service = Service::on(&store).await;
        for (index, (event, body)) in examples().iter().enumerate() {
            let guid = format!("g{index}");
            let answer = service.deliver(&guid, event, body).await;
            assert_eq!(answer.status, 202, "{event} {}: {answer:?}", body["action"]);
            assert!(
                is_stored(&store, &guid).await || answer.outcome() == "duplicate",
                "{event} {index}: {answer:?}"
            );
        }
        assert_eq!(jobs(&store).await, [], "nobody called for us in them");
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_published_label_and_comment_start_work() {
    let examples = examples();
    let example = |event: &str, action: &str| {
        let found = examples
            .iter()
            .find(|(name, body)| name == event && body["action"] == action);
        let mut body = found
            .unwrap_or_else(|| panic!("no {event}.{action} among the examples"))
            .1
            .clone();
        body["installation"] = json!({"id": 3});
        body
    };
    each(async |store| {
        let mut state = state(store.clone());
        let labelled = example("issues", "labeled");
        state.rules.label = labelled["label"]["name"].as_str().unwrap().to_uppercase();
        let service = Service::start(state).await;
        let answer = service.deliver("g1", "issues", &labelled).await;
        assert_eq!(answer.outcome(), "applied", "{answer:?}");
        let mut commented = example("issue_comment", "created");
        commented["comment"]["body"] = json!("/agent fix\nwith care");
        let answer = service.deliver("g2", "issue_comment", &commented).await;
        assert_eq!(answer.outcome(), "applied", "{answer:?}");
        let mut reviewed = example("pull_request_review", "submitted");
        reviewed["review"]["body"] = json!("/agent fix");
        let answer = service.deliver("g3", "pull_request_review", &reviewed).await;
        assert_eq!(answer.outcome(), "applied", "{answer:?}");
        let jobs = jobs(&store).await;
        assert_eq!(jobs.len(), 3);
        let by_review = jobs
            .iter()
            .find(|job| matches!(job.request.trigger, Trigger::Review { .. }))
            .unwrap();
        assert!(
            matches!(by_review.subject, Subject::Pull(_)) && by_review.pins.head_sha.is_some(),
            "{by_review:?}"
        );
        service.stop().await;
    })
    .await;
}
