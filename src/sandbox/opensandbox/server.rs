//! The lifecycle API of an OpenSandbox server: make a sandbox, look at it, give it more time, pause
//! and end it, and read back what network policy is in force. Called by `opensandbox`.
//! Never sends the key to another host, and never reads an answer without bound.

use std::time::Duration;

use chrono::TimeDelta;
use futures_util::StreamExt as _;
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::config::SandboxConfig;
use crate::sandbox::SandboxError;
use crate::secret::Secret;
use crate::text;

/// A server on the same network answers at once; a cluster may take a while to admit a workload.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Making a sandbox may fetch its image first.
const CREATE_TIMEOUT: Duration = Duration::from_secs(300);

/// Answers of the API are small documents.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

const KEY_HEADER: &str = "OPEN-SANDBOX-API-KEY";

/// Port of the daemon in each sandbox.
const EXECD_PORT: u16 = 44_772;

/// What an operator should know who sees a healthy server and no sandbox.
const PULL_REMEDY: &str = "A healthy server does not mean that the node can pull the image: the server only answers \
                           requests, the node fetches. Try the image there (`docker pull`, `crictl pull`), and look at \
                           sandbox.image and at the node's credentials";

/// A server, reachable or not.
#[derive(Debug, Clone)]
pub(super) struct Server {
    http: reqwest::Client,
    base: Url,
    key: Option<Secret>,
}

/// What a sandbox is made from.
#[derive(Debug)]
pub(super) struct Wish<'w> {
    pub(super) image: &'w str,
    pub(super) life: Duration,
    pub(super) memory_mib: u64,
    pub(super) processors: f64,
    /// Says whose it is.
    pub(super) owner: &'w str,
    /// Whether nothing but loopback is to be reachable.
    pub(super) closed: bool,
}

/// How a sandbox stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// On its way to running.
    Coming,
    Running,
    Paused,
    /// It will not run any more; why.
    Over(String),
}

/// The policy that is in force, as the sandbox's network says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct PolicyInForce {
    #[serde(default)]
    pub(super) mode: String,
    #[serde(default, rename = "enforcementMode")]
    pub(super) enforcement: String,
    #[serde(default)]
    pub(super) policy: Option<Policy>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Policy {
    #[serde(default, rename = "defaultAction")]
    pub(super) default_action: String,
    #[serde(default)]
    pub(super) egress: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Rule {
    #[serde(default)]
    pub(super) action: String,
    #[serde(default)]
    pub(super) target: String,
}

/// Why a call did not do what was asked.
#[derive(Debug)]
pub(super) struct CallError {
    pub(super) status: Option<StatusCode>,
    pub(super) words: String,
}

impl CallError {
    pub(super) fn new(words: impl Into<String>) -> Self {
        Self {
            status: None,
            words: words.into(),
        }
    }

    /// For a sandbox that worked before.
    pub(super) fn broken(self, what: &str) -> SandboxError {
        SandboxError::Broken(format!("{what}: {}", self.words))
    }

    /// For one that is to be opened.
    fn unavailable(self, what: &str, remedy: &str) -> SandboxError {
        let remedy = match self.status {
            Some(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                "Set sandbox.opensandbox_api_key_file to a file with the server's API key"
            }
            _ => remedy,
        };
        SandboxError::Unavailable {
            problem: format!("{what}: {}", self.words),
            remedy: remedy.to_owned(),
        }
    }
}

impl From<reqwest::Error> for CallError {
    fn from(error: reqwest::Error) -> Self {
        let mut words = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(deeper) = cause {
            let said = deeper.to_string();
            if !words.contains(&said) {
                words = format!("{words}: {said}");
            }
            cause = deeper.source();
        }
        Self::new(text::cap_chars(&words, 500))
    }
}

impl Server {
    /// The configured one.
    pub(super) fn new(config: &SandboxConfig) -> Result<Self, SandboxError> {
        let unset = |problem: String| SandboxError::Unavailable {
            problem,
            remedy: "Set sandbox.opensandbox_url to the server's address, such as https://sandboxes.example".to_owned(),
        };
        let Some(address) = &config.opensandbox_url else {
            return Err(unset("no server is configured for the OpenSandbox sandbox".to_owned()));
        };
        let mut base: Url = address
            .parse()
            .map_err(|error| unset(format!("sandbox.opensandbox_url: {error}")))?;
        let path = base.path().trim_end_matches('/').trim_end_matches("/v1").to_owned();
        base.set_path(&format!("{path}/"));
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .connect_timeout(CONNECT_TIMEOUT)
            .build()
            .map_err(|error| SandboxError::Broken(CallError::from(error).words))?;
        let key = config.opensandbox_api_key.clone();
        Ok(Self { http, base, key })
    }

    /// Its address, for people.
    pub(super) fn name(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// A request with the key; `path` is below the server's address.
    pub(super) fn request(&self, method: Method, path: &str) -> Result<RequestBuilder, CallError> {
        let url = self
            .base
            .join(path)
            .map_err(|error| CallError::new(error.to_string()))?;
        let request = self.http.request(method, url);
        Ok(match &self.key {
            Some(key) => request.header(KEY_HEADER, key.expose()),
            None => request,
        })
    }

    /// Where the daemon of a sandbox is reached.
    pub(super) fn execd(&self, id: &str) -> String {
        format!("v1/sandboxes/{id}/proxy/{EXECD_PORT}")
    }

    /// Whether the server answers.
    pub(super) async fn health(&self) -> Result<(), SandboxError> {
        let asked = async {
            let request = self.request(Method::GET, "health")?.timeout(CONNECT_TIMEOUT);
            accepted(request.send().await?).await
        };
        let asked: Result<Response, CallError> = asked.await;
        asked.map(drop).map_err(|error| {
            error.unavailable(
                &format!("the OpenSandbox server at {} cannot be used", self.name()),
                "Start it, or let sandbox.opensandbox_url name another",
            )
        })
    }

    /// Makes a sandbox and returns its id; it may not run yet.
    pub(super) async fn create(&self, wish: &Wish<'_>) -> Result<String, SandboxError> {
        let mut body = json!({
            "image": {"uri": wish.image},
            "entrypoint": ["tail", "-f", "/dev/null"],
            "timeout": wish.life.as_secs(),
            "resourceLimits": {
                "cpu": format!("{}m", (wish.processors * 1000.0).round()),
                "memory": format!("{}Mi", wish.memory_mib),
            },
            "metadata": {"forgehand.owner": wish.owner},
        });
        if wish.closed {
            body["networkPolicy"] = json!({"defaultAction": "deny", "egress": []});
        }
        let asked = async {
            let request = self.request(Method::POST, "v1/sandboxes")?.timeout(CREATE_TIMEOUT);
            document(request.json(&body).send().await?).await
        };
        let made: Result<Value, CallError> = asked.await;
        let made = made.map_err(|error| {
            let what = format!("the server at {} makes no sandbox of {}", self.name(), wish.image);
            let remedy = match &error.words {
                words if words.contains("PULL") => PULL_REMEDY,
                words if words.to_lowercase().contains("egress") || words.to_lowercase().contains("network") => {
                    "Give the server an egress image and bridge networks ([egress] in its configuration), so that it can \
                     enforce the policy; or, if sandboxes there have no network anyway, set sandbox.opensandbox_mode = \
                     \"unverified\""
                }
                _ => PULL_REMEDY,
            };
            error.unavailable(&what, remedy)
        })?;
        match made["id"].as_str().filter(|id| is_plain(id)) {
            Some(id) => Ok(id.to_owned()),
            None => Err(SandboxError::Broken(
                "the server named no sandbox that it made".to_owned(),
            )),
        }
    }

    /// How a sandbox stands; nothing when the server does not know it.
    pub(super) async fn state(&self, id: &str) -> Result<Option<State>, CallError> {
        match self.call(Method::GET, &format!("v1/sandboxes/{id}"), None).await {
            Ok(found) => Ok(Some(state_of(&found["status"]))),
            Err(error) if error.status == Some(StatusCode::NOT_FOUND) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Ends it; one that is gone is as good.
    pub(super) async fn delete(&self, id: &str) -> Result<(), CallError> {
        match self.call(Method::DELETE, &format!("v1/sandboxes/{id}"), None).await {
            Err(error) if error.status != Some(StatusCode::NOT_FOUND) => Err(error),
            _ => Ok(()),
        }
    }

    /// Stops it where it stands; its files stay.
    pub(super) async fn pause(&self, id: &str) -> Result<(), CallError> {
        let path = format!("v1/sandboxes/{id}/pause");
        self.call(Method::POST, &path, None).await.map(drop)
    }

    /// Lets it go on.
    pub(super) async fn resume(&self, id: &str) -> Result<(), CallError> {
        let path = format!("v1/sandboxes/{id}/resume");
        self.call(Method::POST, &path, None).await.map(drop)
    }

    /// Lets it live for so long from now.
    pub(super) async fn renew(&self, id: &str, life: Duration) -> Result<(), CallError> {
        let until = Clock::System.now() + TimeDelta::from_std(life).unwrap_or(TimeDelta::zero());
        let body = json!({"expiresAt": until.to_rfc3339_opts(chrono::SecondsFormat::Secs, true)});
        let path = format!("v1/sandboxes/{id}/renew-expiration");
        self.call(Method::POST, &path, Some(&body)).await.map(drop)
    }

    /// What its network lets through.
    pub(super) async fn policy(&self, id: &str) -> Result<PolicyInForce, CallError> {
        let path = format!("v1/sandboxes/{id}/networkpolicy");
        let found = self.call(Method::GET, &path, None).await?;
        serde_json::from_value(found).map_err(|error| CallError::new(format!("the policy makes no sense: {error}")))
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, CallError> {
        let request = self.request(method, path)?.timeout(ANSWER_TIMEOUT);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        document(request.send().await?).await
    }
}

/// Ids stand in paths.
pub(super) fn is_plain(id: &str) -> bool {
    !id.is_empty() && id.len() <= 100 && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

fn state_of(status: &Value) -> State {
    let word = |key: &str| status[key].as_str().unwrap_or_default();
    match word("state") {
        "Pending" | "Resuming" | "" => State::Coming,
        "Running" => State::Running,
        "Paused" | "Pausing" => State::Paused,
        over => State::Over(text::cap_chars(
            format!("{over} {} {}", word("reason"), word("message")).trim(),
            500,
        )),
    }
}

/// An answer that says yes.
pub(super) async fn accepted(response: Response) -> Result<Response, CallError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = bounded(response).await.unwrap_or_default();
    let found: Value = serde_json::from_slice(&body).unwrap_or_default();
    // Some errors stand in a field of their own.
    let found = if found["detail"].is_object() {
        &found["detail"]
    } else {
        &found
    };
    let said = match (found["code"].as_str(), found["message"].as_str()) {
        (None, None) => String::from_utf8_lossy(&body).into_owned(),
        (code, message) => [code.unwrap_or_default(), message.unwrap_or_default()].join(": "),
    };
    Err(CallError {
        status: Some(status),
        words: format!("{status}: {}", text::cap_chars(said.trim(), 400)),
    })
}

async fn document(response: Response) -> Result<Value, CallError> {
    let body = bounded(accepted(response).await?).await?;
    if body.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&body).map_err(|error| CallError::new(format!("the answer is no JSON: {error}")))
}

async fn bounded(response: Response) -> Result<Vec<u8>, CallError> {
    let mut stream = response.bytes_stream();
    let mut body = Vec::new();
    while let Some(piece) = stream.next().await {
        body.extend_from_slice(&piece?);
        if body.len() > MAX_ANSWER_BYTES {
            return Err(CallError::new("the answer is longer than 1 MiB"));
        }
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read() {
        let of = |state: &str| state_of(&json!({"state": state, "reason": "why", "message": "so"}));
        assert_eq!(of("Pending"), State::Coming);
        assert_eq!(of("Running"), State::Running);
        assert_eq!(of("Paused"), State::Paused);
        assert_eq!(of("Failed"), State::Over("Failed why so".to_owned()));
        assert_eq!(state_of(&Value::Null), State::Coming);
    }

    #[test]
    fn ids_are_no_paths() {
        assert!(is_plain("7d0c2b7e-0000-4000-8000-000000000000"));
        for id in ["", "a/b", "..", "a?b", &"a".repeat(200)] {
            assert!(!is_plain(id), "{id}");
        }
    }
}
