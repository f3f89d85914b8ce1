//! What GitHub, and strangers who pretend to be GitHub, may expect of the webhook receiver: real
//! HTTP against the router, on both databases.

use std::net::SocketAddr;

use chrono::DateTime;
use forgehand::clock::Clock;
use forgehand::ids::{AppId, RepoId};
use forgehand::intake::Rules;
use forgehand::job::Job;
use forgehand::phrase::Language;
use forgehand::secret::Secret;
use forgehand::store::{JobFilter, Store};
use forgehand::web::{self, WebState};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

mod commands;
mod examples;
mod hostile;
mod order;
mod payloads;
mod setup;
mod shuffled;
mod signature;

/// The secret of GitHub's published test vector.
const SECRET: &str = "It's a Secret to Everybody";

/// The secret before the rotation.
const PREVIOUS_SECRET: &str = "the secret of last month";

/// A running receiver.
struct Service {
    address: SocketAddr,
    client: reqwest::Client,
    shutdown: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

/// An answer of the receiver.
#[derive(Debug)]
struct Answer {
    status: u16,
    body: Value,
}

impl Answer {
    fn outcome(&self) -> &str {
        self.body["outcome"].as_str().unwrap_or_default()
    }
}

fn rules() -> Rules {
    Rules {
        own_label: None,
        label: "agent".to_owned(),
        command: "/agent".to_owned(),
        language: Language::English,
        app_id: Some(AppId(77)),
        bot_slug: Some("forgehand".to_owned()),
        allowed_apps: Vec::new(),
        max_attempts: 5,
    }
}

fn state(store: Store) -> WebState {
    WebState {
        store,
        rules: rules(),
        webhook_secrets: vec![Secret::new(SECRET), Secret::new(PREVIOUS_SECRET)],
        clock: Clock::manual(DateTime::from_timestamp(1_767_400_000, 0).unwrap()),
        metrics: None,
        draining: CancellationToken::new(),
        skew: None,
        setup: None,
    }
}

impl Service {
    async fn start(state: WebState) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(web::serve(listener, web::router(state), shutdown.clone()));
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self {
            address,
            client,
            shutdown,
            task,
        }
    }

    async fn on(store: &Store) -> Self {
        Self::start(state(store.clone())).await
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// A webhook call as GitHub makes it, to be spoiled before it is sent.
    fn call(&self, guid: &str, event: &str, body: impl Into<Vec<u8>>) -> reqwest::RequestBuilder {
        let body = body.into();
        self.unsigned(guid, event, body.clone())
            .header("X-Hub-Signature-256", signature(SECRET, &body))
    }

    fn unsigned(&self, guid: &str, event: &str, body: Vec<u8>) -> reqwest::RequestBuilder {
        self.client
            .post(self.url("/webhook"))
            .header("Content-Type", "application/json")
            .header("X-GitHub-Delivery", guid)
            .header("X-GitHub-Event", event)
            .body(body)
    }

    async fn deliver(&self, guid: &str, event: &str, body: &Value) -> Answer {
        send(self.call(guid, event, body.to_string())).await
    }

    async fn stop(self) {
        drop(self.client);
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }
}

async fn send(call: reqwest::RequestBuilder) -> Answer {
    let answer = call.send().await.unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    assert!(text.len() < 2_000, "answers are short, this has {} bytes", text.len());
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Answer { status, body }
}

fn signature(secret: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(body);
    format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
}

/// All jobs, newest first.
async fn jobs(store: &Store) -> Vec<Job> {
    let filter = JobFilter {
        limit: 1_000,
        ..JobFilter::default()
    };
    store.begin().await.unwrap().jobs(&filter).await.unwrap()
}

/// Whether a delivery is stored.
async fn is_stored(store: &Store, guid: &str) -> bool {
    store.begin().await.unwrap().delivery(guid).await.unwrap().is_some()
}

/// The repository of the payloads.
const REPO: RepoId = RepoId(2);
