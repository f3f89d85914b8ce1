//! The client of any OpenAI-compatible server: one streamed call with its deadlines, and the
//! retries around it. The only file that builds a client for models. Called through the `Model`
//! trait. Never retries what a second try cannot mend, and never shows the key.

use std::sync::Once;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::{Response, header};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::failure;
use super::pricing::{self, Price};
use super::profile;
use super::quirks::Quirks;
use super::reading::Reading;
use super::wire;
use crate::config::ModelConfig;
use crate::event::Usage;
use crate::model::{ChatReply, ChatRequest, Model, ModelError, Profile};
use crate::secret::{Redactor, Secret};

/// Tries of one call. With the pauses between them they bridge a restart of a gateway; a longer
/// outage is for the queue to wait out.
const MAX_TRIES: u32 = 4;

/// First pause between tries; it triples, since half a second more does not mend an overload.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Most bytes of a reply, thinking included: far above every model's output limit.
const MAX_REPLY_BYTES: usize = 8 * 1024 * 1024;

/// Most bytes read of an error's body.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// No call is waited for longer, whatever the configuration says.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Longest time to reach the server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// A server and the model on it.
pub(super) struct Client {
    http: reqwest::Client,
    endpoint: Url,
    key: Option<Secret>,
    name: String,
    timeout: Duration,
    idle_timeout: Duration,
    price: Price,
    profile: Profile,
    quirks: Quirks,
    redactor: Redactor,
    /// Whether people were told that the server cuts conversations.
    cut_noticed: Once,
}

/// A try that gave no reply, with what it may have cost all the same.
struct Miss {
    error: ModelError,
    spent: Usage,
    /// How long the server asks to wait.
    wait: Option<Duration>,
}

impl From<ModelError> for Miss {
    fn from(error: ModelError) -> Self {
        Self {
            error,
            spent: Usage::default(),
            wait: None,
        }
    }
}

impl Client {
    /// Prepares the client; nothing is sent yet.
    pub(super) fn new(config: &ModelConfig, redactor: &Redactor) -> anyhow::Result<Self> {
        let base = config.base_url.as_deref().unwrap_or_default();
        if let Some(key) = &config.api_key {
            redactor.add(key);
        }
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            // A redirected POST loses its body or hands the key to somebody else.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("forgehand/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self {
            http,
            endpoint: endpoint(base)?,
            key: config.api_key.clone().filter(|key| !key.is_empty()),
            name: config.name.clone(),
            timeout: config.timeout_seconds.min(MAX_TIMEOUT),
            idle_timeout: config.idle_timeout_seconds.min(MAX_TIMEOUT),
            price: Price::of(config)?,
            profile: profile::of(config),
            quirks: Quirks::default(),
            redactor: redactor.clone(),
            cut_noticed: Once::new(),
        })
    }

    /// Tries until there is a reply, an error that will stay, or no try or time left.
    async fn try_often(&self, request: &ChatRequest, deadline: Instant) -> Result<ChatReply, ModelError> {
        let mut spent = Usage::default();
        let mut tries = 0;
        loop {
            let miss = match self.try_once(request).await {
                Ok(reply) => return Ok(self.charge(reply, request, spent)),
                Err(miss) => miss,
            };
            spent = add(spent, miss.spent);
            if let ModelError::Rejected(refusal) = &miss.error
                && self.quirks.learn(refusal)
            {
                continue;
            }
            tries += 1;
            let pause = pause(miss.wait, tries);
            let left = deadline.saturating_duration_since(Instant::now());
            if !failure::may_pass(&miss.error) || tries >= MAX_TRIES || pause >= left {
                return Err(self.redacted(miss.error));
            }
            tracing::debug!(error = %self.redacted(miss.error), ?pause, "the model call is tried again");
            tokio::time::sleep(pause).await;
        }
    }

    async fn try_once(&self, request: &ChatRequest) -> Result<ChatReply, Miss> {
        let mut call = self
            .http
            .post(self.endpoint.clone())
            .header(header::ACCEPT, "text/event-stream, application/json")
            .json(&wire::request_body(request, &self.name, &self.quirks));
        if let Some(key) = &self.key {
            call = call.bearer_auth(key.expose());
        }
        let response = call.send().await.map_err(|error| unavailable(&error))?;
        let status = response.status();
        if !status.is_success() {
            let wait = failure::retry_after(response.headers());
            let body = self.error_body(response).await;
            return Err(Miss {
                wait,
                ..failure::of_status(status.as_u16(), &body, wait).into()
            });
        }
        let mut reading = Reading::default();
        match self.read(response, &mut reading).await {
            Ok(()) => Ok(reading.into_reply(request)),
            // The reason for ending has come, so everything before it is complete.
            Err(error) if reading.is_finished() && failure::may_pass(&error) => Ok(reading.into_reply(request)),
            Err(error) => Err(Miss {
                spent: reading.spent(request),
                error,
                wait: None,
            }),
        }
    }

    /// Reads a reply to its end, piece by piece.
    async fn read(&self, mut response: Response, reading: &mut Reading) -> Result<(), ModelError> {
        let mut bytes = 0;
        while !reading.is_done() {
            let chunk = match timeout(self.idle_timeout, response.chunk()).await {
                Err(_) => {
                    return Err(ModelError::Unavailable(format!(
                        "the stream was silent for {} s (model.idle_timeout_seconds)",
                        self.idle_timeout.as_secs()
                    )));
                }
                Ok(chunk) => chunk.map_err(|error| unavailable(&error))?,
            };
            let Some(chunk) = chunk else {
                return reading.end();
            };
            bytes += chunk.len();
            if bytes > MAX_REPLY_BYTES {
                return Err(ModelError::Rejected(format!(
                    "the reply is longer than {MAX_REPLY_BYTES} bytes"
                )));
            }
            reading.take(&chunk)?;
        }
        Ok(())
    }

    async fn error_body(&self, mut response: Response) -> String {
        let mut body = Vec::new();
        while body.len() < MAX_ERROR_BYTES
            && let Ok(Ok(Some(chunk))) = timeout(self.idle_timeout, response.chunk()).await
        {
            body.extend_from_slice(&chunk[..chunk.len().min(MAX_ERROR_BYTES - body.len())]);
        }
        String::from_utf8_lossy(&body).into_owned()
    }

    /// Puts money to a reply, with what lost tries may have cost.
    fn charge(&self, mut reply: ChatReply, request: &ChatRequest, spent: Usage) -> ChatReply {
        if reads_too_little(&reply.usage, pricing::count_request(request)) {
            self.cut_noticed.call_once(|| {
                tracing::warn!(
                    model = self.name,
                    read = reply.usage.input_tokens,
                    "the server says that it read far fewer tokens than were sent: it seems to cut long conversations \
                     silently. Give the model a larger context window (Ollama: num_ctx)"
                );
            });
        }
        if spent != Usage::default() {
            reply.usage = Usage {
                reported: false,
                ..add(reply.usage, spent)
            };
        }
        reply.cost_usd = self.price.cost(&reply.usage);
        reply
    }

    fn redacted(&self, error: ModelError) -> ModelError {
        let clean = |text: String| self.redactor.redact(&text);
        match error {
            ModelError::RateLimited { retry_after, detail } => ModelError::RateLimited {
                retry_after,
                detail: clean(detail),
            },
            ModelError::Unavailable(text) => ModelError::Unavailable(clean(text)),
            ModelError::Unauthorized(text) => ModelError::Unauthorized(clean(text)),
            ModelError::PaymentRequired(text) => ModelError::PaymentRequired(clean(text)),
            ModelError::ContextOverflow(text) => ModelError::ContextOverflow(clean(text)),
            ModelError::Rejected(text) => ModelError::Rejected(clean(text)),
            other @ (ModelError::Cancelled | ModelError::NoScript(_)) => other,
        }
    }
}

#[async_trait]
impl Model for Client {
    fn name(&self) -> &str {
        &self.name
    }

    async fn complete(&self, request: &ChatRequest, cancel: &CancellationToken) -> Result<ChatReply, ModelError> {
        let deadline = Instant::now() + self.timeout;
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ModelError::Cancelled),
            reply = timeout_at(deadline, self.try_often(request, deadline)) => reply.unwrap_or_else(|_| {
                Err(ModelError::Unavailable(format!(
                    "no complete reply within {} s (model.timeout_seconds)",
                    self.timeout.as_secs()
                )))
            }),
        }
    }

    fn price_known(&self) -> bool {
        self.price.is_known()
    }

    fn profile(&self) -> Profile {
        self.profile.clone()
    }
}

/// Below this count, small differences weigh too much to say anything.
const TELLING_TOKENS: u64 = 4_000;

/// Whether a server read so much less than was sent that it must have left a part out. Our count
/// is cautious, but never four times too high.
fn reads_too_little(usage: &Usage, sent: u64) -> bool {
    usage.reported && sent > TELLING_TOKENS && usage.input_tokens.saturating_mul(4) < sent
}

fn add(one: Usage, other: Usage) -> Usage {
    Usage {
        input_tokens: one.input_tokens.saturating_add(other.input_tokens),
        output_tokens: one.output_tokens.saturating_add(other.output_tokens),
        reported: one.reported,
    }
}

/// How long to wait before the next try: what the server asks for, else longer each time; with
/// jitter, so that workers that failed together do not come back together.
fn pause(asked: Option<Duration>, tries: u32) -> Duration {
    match asked {
        Some(wait) => wait.saturating_add(wait.mul_f64(fastrand::f64() * 0.1).min(Duration::from_secs(5))),
        None => (FIRST_PAUSE * 3u32.pow(tries.saturating_sub(1))).mul_f64(0.75 + fastrand::f64() * 0.5),
    }
}

fn unavailable(error: &reqwest::Error) -> ModelError {
    let mut words = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    ModelError::Unavailable(words)
}

/// The address of chat completions for a base address with or without `/v1`, a slash at its end,
/// or the full path.
fn endpoint(base: &str) -> anyhow::Result<Url> {
    let mut url = Url::parse(base.trim()).map_err(|error| anyhow::anyhow!("model.base_url: {base:?}: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        anyhow::bail!("model.base_url: {base:?} is not an http or https address");
    }
    if !url.username().is_empty() || url.password().is_some() {
        anyhow::bail!("model.base_url: leave user and password out and set model.api_key");
    }
    let path = url.path().trim_end_matches('/');
    let path = path
        .strip_suffix("/chat/completions")
        .unwrap_or(path)
        .trim_end_matches('/');
    let has_version = path.split('/').any(|segment| {
        segment
            .strip_prefix('v')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    let version = if has_version { "" } else { "/v1" };
    let path = format!("{path}{version}/chat/completions");
    url.set_path(&path);
    url.set_fragment(None);
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(base: &str, expected: &str) {
        assert_eq!(endpoint(base).unwrap().as_str(), expected, "{base}");
    }

    #[test]
    fn l29_base_addresses_of_every_style_work() {
        let local = "http://host:8000/v1/chat/completions";
        check("http://host:8000", local);
        check("http://host:8000/", local);
        check("http://host:8000/v1", local);
        check("http://host:8000/v1/", local);
        check("http://host:8000/v1/chat/completions", local);
        check(
            "https://openrouter.ai/api",
            "https://openrouter.ai/api/v1/chat/completions",
        );
        check(
            "https://x.test/v1beta/openai/",
            "https://x.test/v1beta/openai/chat/completions",
        );
        check(
            "https://x.test/v1?api-version=2",
            "https://x.test/v1/chat/completions?api-version=2",
        );
    }

    #[test]
    fn c2_l37_a_server_that_cuts_silently_is_noticed() {
        for (read, sent, reported, expected) in [
            (4_096, 20_000, true, true),
            (6_000, 20_000, true, false),
            (100, 3_000, true, false),
            (0, 20_000, false, false),
        ] {
            let usage = Usage {
                input_tokens: read,
                output_tokens: 1,
                reported,
            };
            assert_eq!(reads_too_little(&usage, sent), expected, "{read} of {sent}");
        }
    }

    #[test]
    fn addresses_that_cannot_be_meant_are_refused() {
        for base in ["", "host:8000", "ftp://host", "https://user:pw@host"] {
            assert!(
                endpoint(base).unwrap_err().to_string().contains("model.base_url"),
                "{base}"
            );
        }
    }
}
