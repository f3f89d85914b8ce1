//! What people do arrives at the receiver as GitHub would send it, and can be sent again.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use forgehand::demo::double::{DeliveryState, InlineComment, NewPullByPerson};
use forgehand::github::{Access, NewPull};
use forgehand::secret::Secret;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;

use super::{REPO, Stage};

type Inbox = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

/// A receiver that keeps everything.
struct Receiver {
    inbox: Inbox,
    url: String,
    task: tokio::task::JoinHandle<()>,
}

impl Receiver {
    async fn open() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/webhook", listener.local_addr().unwrap());
        let inbox = Inbox::default();
        let app = Router::new().fallback(keep).with_state(inbox.clone());
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { inbox, url, task }
    }

    fn events(&self) -> Vec<String> {
        let inbox = self.inbox.lock().unwrap();
        let mut events: Vec<String> = inbox.iter().map(|(headers, body)| named(headers, body)).collect();
        events.sort();
        events
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep(State(inbox): State<Inbox>, headers: HeaderMap, body: Bytes) -> StatusCode {
    inbox.lock().unwrap().push((headers, body));
    StatusCode::ACCEPTED
}

fn named(headers: &HeaderMap, body: &Bytes) -> String {
    let body: Value = serde_json::from_slice(body).unwrap();
    let event = headers["x-github-event"].to_str().unwrap();
    let sender = body["sender"]["login"].as_str().unwrap();
    format!("{event}.{} by {sender}", body["action"].as_str().unwrap_or("-"))
}

#[tokio::test]
async fn a_label_arrives_signed_and_complete() {
    let stage = Stage::set().await;
    let receiver = Receiver::open().await;
    let secret = Secret::new("It's a Secret to Everybody");
    stage.double.hooks(&receiver.url, &secret);
    let number = stage.issue();
    stage.double.label_issue(REPO, number.0, "Agent", "ada").unwrap();
    stage.double.deliveries_settled().await;
    assert_eq!(receiver.events(), ["issues.labeled by ada", "issues.opened by ada"]);
    let inbox = receiver.inbox.lock().unwrap();
    for (headers, body) in inbox.iter() {
        let mut mac = Hmac::<sha2::Sha256>::new_from_slice(secret.expose().as_bytes()).unwrap();
        mac.update(body);
        let signature = headers["x-hub-signature-256"].to_str().unwrap();
        mac.verify_slice(&hex::decode(signature.strip_prefix("sha256=").unwrap()).unwrap())
            .unwrap();
        assert_eq!(headers["x-github-delivery"].len(), 36);
        assert_eq!(headers["content-type"], "application/json");
    }
    let labeled = inbox
        .iter()
        .map(|(_, body)| serde_json::from_slice::<Value>(body).unwrap());
    let labeled = labeled.into_iter().find(|body| body["action"] == "labeled").unwrap();
    assert_eq!(labeled["label"]["name"], "Agent");
    assert_eq!(labeled["issue"]["number"], number.0);
    assert_eq!(labeled["repository"]["full_name"], REPO);
    assert_eq!(labeled["installation"]["id"], stage.double.installation().0);
}

#[tokio::test]
async fn our_own_writes_come_back_as_the_bots() {
    let stage = Stage::set().await;
    let number = stage.issue();
    stage.double.label_issue(REPO, number.0, "agent", "ada").unwrap();
    stage
        .double
        .push(REPO, "agent/1-fix", &[("a", "b")], "Fix", "ada")
        .await
        .unwrap();
    let receiver = Receiver::open().await;
    stage.double.hooks(&receiver.url, &stage.double.webhook_secret());
    let client = stage.client(Access::Write);
    let comment = client.create_comment(number, "on it").await.unwrap();
    client.update_comment(comment.id, "done").await.unwrap();
    client.remove_label(number, "agent").await.unwrap();
    let new = NewPull {
        head: "agent/1-fix".parse().unwrap(),
        base: "main".parse().unwrap(),
        title: "Fix".to_owned(),
        body: String::new(),
        draft: true,
    };
    client.create_pull(&new).await.unwrap();
    stage.double.deliveries_settled().await;
    let bot = stage.double.bot_login();
    let expected = [
        "issue_comment.created",
        "issue_comment.edited",
        "issues.unlabeled",
        "pull_request.opened",
    ];
    assert_eq!(receiver.events(), expected.map(|event| format!("{event} by {bot}")));
    let inbox = receiver.inbox.lock().unwrap();
    let created: Value = serde_json::from_slice(&inbox[0].1).unwrap();
    let app = created["comment"]["performed_via_github_app"]["id"].as_u64();
    assert_eq!(
        (app, created["sender"]["type"].as_str()),
        (stage.config.app_id, Some("Bot"))
    );
}

#[tokio::test]
async fn one_review_is_many_deliveries() {
    let stage = Stage::set().await;
    let double = &stage.double;
    double.push(REPO, "topic", &[("a", "b")], "Topic", "ada").await.unwrap();
    let pull = NewPullByPerson {
        head_repo: REPO,
        head: "topic",
        base: "main",
        title: "Topic",
        body: "",
        by: "ada",
    };
    let number = double.open_pull(REPO, pull).await.unwrap();
    let receiver = Receiver::open().await;
    double.hooks(&receiver.url, &double.webhook_secret());
    let inline = |line| InlineComment {
        path: "a".to_owned(),
        line,
        body: format!("line {line}"),
    };
    let verdict = ("CHANGES_REQUESTED", "/agent fix");
    double
        .submit_review(REPO, number, verdict, &[inline(1), inline(2)], "ada")
        .unwrap();
    let thread = double.review_comments(REPO, number).unwrap()[0].id;
    double.reply(REPO, number, thread, "still", "ada").unwrap();
    double.push(REPO, "topic", &[("a", "c")], "More", "ada").await.unwrap();
    double.deliveries_settled().await;
    let expected = [
        "pull_request.synchronize by ada",
        "pull_request_review.submitted by ada",
        "pull_request_review_comment.created by ada",
        "pull_request_review_comment.created by ada",
        "pull_request_review_comment.created by ada",
        "push.- by ada",
    ];
    assert_eq!(receiver.events(), expected);
}

#[tokio::test]
async fn a_refused_delivery_is_kept_and_can_be_sent_again() {
    let stage = Stage::set().await;
    let receiver = Receiver::open().await;
    let double = &stage.double;
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    double.hooks(&format!("http://{address}/webhook"), &double.webhook_secret());
    stage.issue();
    double.deliveries_settled().await;
    let lost = double.deliveries().pop().unwrap();
    assert!(matches!(lost.state, DeliveryState::Failed(_)), "{:?}", lost.state);
    assert_eq!(receiver.events().len(), 0);
    double.hooks(&receiver.url, &double.webhook_secret());
    double.redeliver(&lost.guid).unwrap();
    double.deliver_twice_at_once(&lost.guid).unwrap();
    let fresh = double.redeliver_with_new_guid(&lost.guid).unwrap();
    double.deliveries_settled().await;
    let inbox = receiver.inbox.lock().unwrap();
    let guids: Vec<&str> = inbox
        .iter()
        .map(|(headers, _)| headers["x-github-delivery"].to_str().unwrap())
        .collect();
    assert_eq!(guids.iter().filter(|guid| **guid == lost.guid).count(), 3);
    assert_eq!(guids.iter().filter(|guid| **guid == fresh).count(), 1);
    assert!(inbox.iter().all(|(_, body)| body == lost.body.as_bytes()));
    assert_eq!(double.deliveries().last().unwrap().state, DeliveryState::Answered(202));
}
