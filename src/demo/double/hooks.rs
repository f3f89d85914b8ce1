//! Webhooks: every event is signed and sent to the one receiver from a background task, once,
//! like GitHub: no retry, ten seconds, kept in a log from which it can be sent again.
//! Called whenever the world changed. Never waits for the receiver while something is locked.

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use tokio::sync::watch;

use crate::secret::{Secret, random_bytes};

use super::GitHubDouble;
use super::answer::{Answer, Refused};
use super::routes::Call;
use super::state::State;

/// What the App subscribes to.
pub(super) const EVENTS: [&str; 9] = [
    "issues",
    "issue_comment",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "push",
    "check_run",
    "check_suite",
    "status",
];

/// The log keeps this many; GitHub keeps three days.
const MAX_DELIVERIES: usize = 5_000;

/// The id of the App's hook, which a receiver sees in a header.
const HOOK_ID: u64 = 400_000_001;

/// Where webhooks go.
#[derive(Clone)]
pub(super) struct Hook {
    url: String,
    secret: Secret,
}

/// How a delivery went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryState {
    /// On its way.
    Sending,
    /// Answered with this status.
    Answered(u16),
    /// Not answered: refused, broken or too slow.
    Failed(String),
}

/// One delivery.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// GitHub's id of the attempt.
    pub id: u64,
    /// The GUID of the header; a redelivery keeps it.
    pub guid: String,
    /// Event name.
    pub event: String,
    /// The payload's action, where the event has one.
    pub action: Option<String>,
    /// The payload, byte for byte.
    pub body: String,
    /// Whether it was asked for again.
    pub redelivery: bool,
    /// How it went.
    pub state: DeliveryState,
    /// When it was sent.
    pub at: DateTime<Utc>,
}

/// A delivery to be sent once the lock is released.
pub(super) struct Outgoing {
    delivery: Delivery,
    hook: Hook,
}

impl State {
    /// Queues an event about a repository. `about` holds the event's own objects.
    pub(super) fn emit(&mut self, repo: u64, event: &str, action: Option<&str>, sender: u64, about: Value) {
        if !self.installation.repositories.contains(&repo) {
            return;
        }
        let mut payload = about;
        if let Some(action) = action {
            payload["action"] = action.into();
        }
        payload["repository"] = self.shape_repository(repo);
        payload["sender"] = self.shape_account(sender);
        payload["installation"] = serde_json::json!({
            "id": self.installation.id,
            "node_id": super::shape::node_id("Installation", self.installation.id),
        });
        self.queue(event, action, &payload);
    }

    /// Queues any event with its whole payload.
    pub(super) fn queue(&mut self, event: &str, action: Option<&str>, payload: &Value) {
        let delivery = Delivery {
            id: self.fresh_id(),
            guid: guid(),
            event: event.to_owned(),
            action: action.map(str::to_owned),
            body: payload.to_string(),
            redelivery: false,
            state: DeliveryState::Sending,
            at: self.now(),
        };
        self.send_delivery(delivery);
    }

    fn send_delivery(&mut self, delivery: Delivery) {
        let Some(hook) = self.hook.clone() else {
            return;
        };
        if self.deliveries.len() >= MAX_DELIVERIES {
            self.deliveries.pop_front();
        }
        self.deliveries.push_back(delivery.clone());
        self.outgoing.push(Outgoing { delivery, hook });
    }

    fn last_delivery(&self, guid: &str) -> anyhow::Result<Delivery> {
        let all = self.deliveries.iter().rev().chain(self.expired.iter().rev());
        let found = all.into_iter().find(|delivery| delivery.guid == guid);
        found.cloned().with_context(|| format!("there was no delivery {guid}"))
    }

    /// The same delivery again, as a fresh attempt.
    pub(super) fn attempt_again(&mut self, guid: &str) -> anyhow::Result<()> {
        let mut delivery = self.last_delivery(guid)?;
        delivery.id = self.fresh_id();
        delivery.redelivery = true;
        delivery.state = DeliveryState::Sending;
        delivery.at = self.now();
        self.send_delivery(delivery);
        Ok(())
    }
}

/// The log of webhook calls, as the App reads it.
impl State {
    /// Newest first, in pages that a cursor leads through.
    pub(super) fn list_deliveries(&self, call: &Call) -> Result<Answer, Refused> {
        let per_page: usize = call.query("per_page").and_then(|text| text.parse().ok()).unwrap_or(30);
        let per_page = per_page.clamp(1, 100);
        let before: u64 = call
            .query("cursor")
            .and_then(|text| text.parse().ok())
            .unwrap_or(u64::MAX);
        // A call that is on its way has no place in the log yet.
        let logged = |delivery: &&Delivery| delivery.id < before && delivery.state != DeliveryState::Sending;
        let older = || self.deliveries.iter().rev().filter(logged);
        let shown: Vec<&Delivery> = older().take(per_page).collect();
        let page: Vec<Value> = shown.iter().map(|delivery| delivery.summary()).collect();
        let answer = Answer::new(200, page.into());
        Ok(match shown.last() {
            Some(last) if older().count() > per_page => {
                let next = format!(
                    "<{}?per_page={per_page}&cursor={}>; rel=\"next\"",
                    call.address, last.id
                );
                answer.header("link", &next)
            }
            _ => answer,
        })
    }

    pub(super) fn show_delivery(&self, id: &str) -> Result<Answer, Refused> {
        let found = self.deliveries.iter().find(|delivery| delivery.id.to_string() == id);
        let delivery = found.ok_or_else(Refused::not_found)?;
        let mut detail = delivery.summary();
        detail["url"] = self.hook.as_ref().map_or("", |hook| &hook.url).into();
        detail["request"] = serde_json::json!({
            "headers": { "X-GitHub-Event": delivery.event, "X-GitHub-Delivery": delivery.guid },
            "payload": serde_json::from_str::<Value>(&delivery.body).unwrap_or_default(),
        });
        detail["response"] = serde_json::json!({ "headers": {}, "payload": "" });
        Answer::ok(detail)
    }
}

impl Delivery {
    fn summary(&self) -> Value {
        let (status, code) = match &self.state {
            DeliveryState::Answered(code) if (200..300).contains(code) => ("OK".to_owned(), *code),
            DeliveryState::Answered(code) => (format!("Invalid HTTP Response: {code}"), *code),
            DeliveryState::Failed(why) => (why.clone(), 0),
            DeliveryState::Sending => ("pending".to_owned(), 0),
        };
        serde_json::json!({
            "id": self.id,
            "guid": self.guid,
            "delivered_at": super::shape::time(self.at),
            "redelivery": self.redelivery,
            "duration": 0.01,
            "status": status,
            "status_code": code,
            "event": self.event,
            "action": self.action,
            "installation_id": null,
            "repository_id": null,
            "throttled_at": null,
        })
    }
}

/// A random version 4 GUID.
fn guid() -> String {
    let mut bytes = random_bytes::<16>();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = hex::encode(bytes);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// The value of `X-Hub-Signature-256`.
fn signature(secret: &Secret, body: &str) -> String {
    match Hmac::<sha2::Sha256>::new_from_slice(secret.expose().as_bytes()) {
        Ok(mut mac) => {
            mac.update(body.as_bytes());
            format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
        }
        Err(_) => String::new(), // HMAC takes keys of any length
    }
}

impl GitHubDouble {
    /// Sends webhooks to this address from now on, signed with this secret.
    pub fn hooks(&self, url: &str, secret: &Secret) {
        self.lock().hook = Some(Hook {
            url: url.to_owned(),
            secret: secret.clone(),
        });
    }

    /// The log of deliveries, oldest first.
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.lock().deliveries.iter().cloned().collect()
    }

    /// Empties the log, as GitHub does after three days. What was in it can still be sent again, as
    /// whoever kept a copy would.
    pub fn expire_deliveries(&self) {
        let mut state = self.lock();
        let old: Vec<Delivery> = state.deliveries.drain(..).collect();
        state.expired.extend(old);
    }

    /// Waits until no delivery is on its way.
    pub async fn deliveries_settled(&self) {
        let mut in_flight = self.inner.in_flight.subscribe();
        let _ = in_flight.wait_for(|count| *count == 0).await;
    }

    /// Sends a delivery again with its GUID, as the button on GitHub's page does.
    pub fn redeliver(&self, guid: &str) -> anyhow::Result<()> {
        self.change(|state| state.attempt_again(guid))
    }

    /// Sends the same payload under a new GUID, as a replaying attacker or a second hook would.
    pub fn redeliver_with_new_guid(&self, old_guid: &str) -> anyhow::Result<String> {
        self.change(|state| {
            let mut delivery = state.last_delivery(old_guid)?;
            delivery.id = state.fresh_id();
            delivery.guid = guid();
            delivery.state = DeliveryState::Sending;
            let guid = delivery.guid.clone();
            state.send_delivery(delivery);
            Ok(guid)
        })
    }

    /// Sends a delivery twice at the same time with its GUID.
    pub fn deliver_twice_at_once(&self, guid: &str) -> anyhow::Result<()> {
        self.change(|state| {
            state.attempt_again(guid)?;
            state.attempt_again(guid)
        })
    }

    /// Sends any payload as an event, for shapes that the double does not make itself.
    pub fn deliver_payload(&self, event: &str, payload: &Value) {
        self.change(|state| state.queue(event, payload["action"].as_str(), payload));
    }

    pub(super) fn deliver(&self, outgoing: Outgoing) {
        let on_its_way = OnItsWay::new(&self.inner.in_flight);
        let weak = self.downgrade();
        let http = self.inner.http.clone();
        self.inner.runtime.spawn(async move {
            let id = outgoing.delivery.id;
            let outcome = post(&http, outgoing).await;
            if let Some(double) = weak.upgrade() {
                let mut state = double.lock();
                if let Some(delivery) = state.deliveries.iter_mut().find(|delivery| delivery.id == id) {
                    delivery.state = outcome;
                }
            }
            drop(on_its_way);
        });
    }
}

/// Counts a delivery until it is dropped.
struct OnItsWay(watch::Sender<usize>);

impl OnItsWay {
    fn new(count: &watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count.clone())
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

async fn post(http: &reqwest::Client, outgoing: Outgoing) -> DeliveryState {
    let Outgoing { delivery, hook } = outgoing;
    let request = http
        .post(&hook.url)
        .header("user-agent", "GitHub-Hookshot/double")
        .header("accept", "*/*")
        .header("content-type", "application/json")
        .header("x-github-event", &delivery.event)
        .header("x-github-delivery", &delivery.guid)
        .header("x-github-hook-id", HOOK_ID)
        .header("x-github-hook-installation-target-type", "integration")
        .header("x-hub-signature-256", signature(&hook.secret, &delivery.body))
        .body(delivery.body);
    match request.send().await {
        Ok(response) => DeliveryState::Answered(response.status().as_u16()),
        Err(error) => DeliveryState::Failed(format!("{:#}", anyhow::Error::new(error))),
    }
}
