//! One server and one model on it: one streamed call with its deadlines, and the retries around it.
//! The only file that builds a client for models. Called by `client` and `probe`. Never retries what
//! a second try cannot mend, and never shows the key.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::{Response, header};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::cut::{self, Told};
use super::pricing::{self, Price};
use super::profile::{self, Traits};
use super::quirks::{Quirk, Quirks};
use super::reading::Reading;
use super::screen::Screen;
use super::wire::{self, Dialect};
use super::{address, failure, overflow};
use crate::config::ModelConfig;
use crate::event::Usage;
use crate::model::{ChatReply, ChatRequest, Failed, ModelError, Profile};
use crate::phrase::model::ModelNote;
use crate::secret::{Redactor, Secret};

/// Tries of one call. With the pauses between them they bridge a restart of a gateway; a longer
/// outage is for the queue to wait out.
pub(super) const MAX_TRIES: u32 = 4;

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

/// A list of models is short work for a server.
const LIST_TIMEOUT: Duration = Duration::from_secs(20);

/// Gateways list hundreds of models with descriptions.
const MAX_LIST_BYTES: usize = 8 * 1024 * 1024;

/// As many deviations are learnt within one call; a server that goes on refusing is refused.
const MAX_LESSONS: u32 = 8;

/// A window of which a server says nothing is smaller than that is too small to believe.
const LEAST_WINDOW: u64 = 2_048;

/// With less room for a reply there is no use in asking for a shorter one.
const LEAST_OUTPUT: u32 = 1_024;

/// Where a model is.
pub(super) struct Place<'a> {
    /// Configuration key of the address, for errors.
    pub(super) key: &'static str,
    /// The address.
    pub(super) base_url: &'a str,
    /// The model's name there.
    pub(super) name: &'a str,
    /// The key that is sent there.
    pub(super) api_key: Option<&'a Secret>,
    /// Its price.
    pub(super) price: Price,
}

/// A server and the model on it.
pub(super) struct Endpoint {
    http: reqwest::Client,
    url: Url,
    api_key: Option<Secret>,
    name: String,
    timeout: Duration,
    idle_timeout: Duration,
    price: Price,
    traits: Traits,
    quirks: Quirks,
    /// The window that the server was found to have.
    window: AtomicU64,
    redactor: Redactor,
    told: Told,
}

/// One call while it lasts. It is kept outside of the work on it, so that what was spent is known
/// however the work ends.
struct Call<'a> {
    request: &'a ChatRequest,
    max_output: u32,
    /// What tries that gave no reply may have cost.
    lost: Usage,
    /// What the running try has brought so far.
    reading: Reading,
    screen: Screen<'a>,
    notes: Vec<ModelNote>,
    lessons: u32,
}

/// A try that gave no reply.
struct Miss {
    error: ModelError,
    /// Whether the server refused the request, instead of failing at it.
    by_status: bool,
    /// How long the server asks to wait.
    wait: Option<Duration>,
}

impl From<ModelError> for Miss {
    fn from(error: ModelError) -> Self {
        Self {
            error,
            by_status: false,
            wait: None,
        }
    }
}

impl Endpoint {
    /// Prepares the calls; nothing is sent yet.
    pub(super) fn new(config: &ModelConfig, place: &Place<'_>, redactor: &Redactor) -> anyhow::Result<Self> {
        if let Some(key) = place.api_key {
            redactor.add(key);
        }
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            // A redirected POST loses its body or hands the key to somebody else.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("forgehand/", env!("CARGO_PKG_VERSION")))
            .build()?;
        let traits = profile::of(config, place.name);
        Ok(Self {
            http,
            url: address::completions(place.key, place.base_url)?,
            api_key: place.api_key.cloned().filter(|key| !key.is_empty()),
            name: place.name.to_owned(),
            timeout: config.timeout_seconds.min(MAX_TIMEOUT),
            idle_timeout: config.idle_timeout_seconds.min(MAX_TIMEOUT),
            price: place.price,
            quirks: Quirks::with(&traits.quirks),
            traits,
            window: AtomicU64::new(u64::MAX),
            redactor: redactor.clone(),
            told: Told::default(),
        })
    }

    /// The model's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Where it is, for people.
    pub(super) fn address(&self) -> &str {
        self.url.as_str()
    }

    /// The models that the server lists. `None`: it has no list.
    pub(super) async fn list_models(&self) -> Result<Option<Vec<String>>, ModelError> {
        let mut get = self.http.get(address::models(&self.url));
        if let Some(key) = &self.api_key {
            get = get.bearer_auth(key.expose());
        }
        let response = timeout(LIST_TIMEOUT, get.send()).await;
        let response = response
            .map_err(|_| ModelError::Unavailable(format!("no answer within {} s", LIST_TIMEOUT.as_secs())))?
            .map_err(|error| self.redacted(unavailable(&error)))?;
        let status = response.status();
        let body = timeout(LIST_TIMEOUT, self.body(response, MAX_LIST_BYTES))
            .await
            .unwrap_or_default();
        if matches!(status.as_u16(), 404 | 405 | 501) {
            return Ok(None);
        }
        if !status.is_success() {
            return Err(self.redacted(failure::of_status(status.as_u16(), &body, None)));
        }
        let list: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        let names = list["data"].as_array().map(|models| {
            let ids = models.iter().filter_map(|model| model["id"].as_str());
            ids.map(str::to_owned).collect()
        });
        Ok(names)
    }

    /// Whether money can be counted.
    pub(super) fn price_known(&self) -> bool {
        self.price.is_known()
    }

    /// What a call with so many tokens may cost.
    pub(super) fn estimate(&self, input_tokens: u64, output_tokens: u32) -> Option<f64> {
        let usage = Usage {
            input_tokens,
            output_tokens: u64::from(output_tokens),
            reported: false,
        };
        self.price.cost(&usage, 0)
    }

    /// What the model can do, as far as the server was found to let it.
    pub(super) fn profile(&self) -> Profile {
        let mut profile = self.traits.profile.clone();
        profile.context_window = profile.context_window.min(self.window.load(Ordering::Relaxed));
        let room = u32::try_from(profile.context_window / 4).unwrap_or(u32::MAX);
        profile.output_ceiling = profile.output_ceiling.min(self.quirks.output_limit()).min(room);
        profile.max_output_tokens = profile.max_output_tokens.min(profile.output_ceiling);
        profile
    }

    /// Whether tools are described in the text.
    pub(super) fn tools_are_text(&self) -> bool {
        self.quirks.has(Quirk::TextTools)
    }

    /// Asks for a reply, with so many tries, within the deadline of one call.
    pub(super) async fn ask(
        &self,
        request: &ChatRequest,
        tries: u32,
        cancel: &CancellationToken,
    ) -> Result<ChatReply, Failed> {
        let mut call = Call {
            request,
            max_output: request.max_output_tokens.min(self.quirks.output_limit()),
            lost: Usage::default(),
            reading: Reading::default(),
            screen: Screen::new(&request.live, &self.redactor, !request.tools.is_empty()),
            notes: Vec::new(),
            lessons: 0,
        };
        let deadline = Instant::now() + self.timeout;
        let result = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ModelError::Cancelled),
            reply = timeout_at(deadline, self.try_often(&mut call, tries, deadline)) => reply.unwrap_or_else(|_| {
                Err(ModelError::Unavailable(format!(
                    "no complete reply within {} s (model.timeout_seconds)",
                    self.timeout.as_secs()
                )))
            }),
        };
        match result {
            Ok(()) => Ok(self.reply(call)),
            Err(error) => {
                let spent = add(call.lost, call.reading.spent(request));
                call.screen.restart();
                Err(Failed {
                    error: self.redacted(error),
                    usage: spent,
                    cost_usd: self.price.cost(&spent, 0),
                })
            }
        }
    }

    /// Tries until there is a reply, an error that will stay, or no try or time left.
    async fn try_often(&self, call: &mut Call<'_>, max_tries: u32, deadline: Instant) -> Result<(), ModelError> {
        let mut tries = 0;
        loop {
            let Err(miss) = self.try_once(call).await else {
                return Ok(());
            };
            call.lost = add(call.lost, call.reading.spent(call.request));
            call.reading = Reading::default();
            call.screen.restart();
            if miss.by_status && self.learn(&miss.error, call) {
                continue;
            }
            tries += 1;
            let pause = pause(miss.wait, tries);
            let left = deadline.saturating_duration_since(Instant::now());
            if !failure::may_pass(&miss.error) || tries >= max_tries || pause >= left {
                return Err(miss.error);
            }
            tracing::debug!(error = %self.redacted(miss.error), ?pause, "the model call is tried again");
            tokio::time::sleep(pause).await;
        }
    }

    /// Takes a lesson from a refusal. `true`: the same request, put differently, may be accepted.
    fn learn(&self, error: &ModelError, call: &mut Call<'_>) -> bool {
        if call.lessons >= MAX_LESSONS {
            return false;
        }
        let learnt = match error {
            ModelError::Rejected(refusal) | ModelError::Unavailable(refusal) => {
                let quirk = self.quirks.learn(refusal, call.max_output);
                if quirk == Some(Quirk::TextTools) {
                    call.notes.push(ModelNote::ToolsInText {
                        model: self.name.clone(),
                    });
                }
                call.max_output = call.max_output.min(self.quirks.output_limit());
                quirk.is_some()
            }
            ModelError::ContextOverflow(words) => {
                if let Some(window) = overflow::window(words).filter(|window| *window >= LEAST_WINDOW) {
                    self.window.fetch_min(window, Ordering::Relaxed);
                }
                // The conversation itself may fit where the room for the reply does not.
                let shorter = overflow::names_the_reply(words) && call.max_output > LEAST_OUTPUT;
                if shorter {
                    call.max_output = (call.max_output / 4).max(LEAST_OUTPUT);
                }
                shorter
            }
            _ => false,
        };
        call.lessons += 1;
        learnt
    }

    async fn try_once(&self, call: &mut Call<'_>) -> Result<(), Miss> {
        let dialect = Dialect {
            model: &self.name,
            traits: &self.traits,
            quirks: &self.quirks,
        };
        let mut post = self
            .http
            .post(self.url.clone())
            .header(header::ACCEPT, "text/event-stream, application/json")
            .json(&wire::request_body(call.request, call.max_output, &dialect));
        if let Some(key) = &self.api_key {
            post = post.bearer_auth(key.expose());
        }
        let response = post.send().await.map_err(|error| unavailable(&error))?;
        let status = response.status();
        if !status.is_success() {
            let wait = failure::retry_after(response.headers());
            let body = self.body(response, MAX_ERROR_BYTES).await;
            return Err(Miss {
                error: failure::of_status(status.as_u16(), &body, wait),
                by_status: true,
                wait,
            });
        }
        match self.read(response, call).await {
            // The reason for ending has come, so everything before it is complete.
            Err(error) if !(call.reading.is_finished() && failure::may_pass(&error)) => Err(Miss {
                by_status: !call.reading.has_begun(),
                ..error.into()
            }),
            _ => Ok(()),
        }
    }

    /// Reads a reply to its end, piece by piece.
    async fn read(&self, mut response: Response, call: &mut Call<'_>) -> Result<(), ModelError> {
        let mut bytes = 0;
        while !call.reading.is_done() {
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
                return call.reading.end();
            };
            bytes += chunk.len();
            if bytes > MAX_REPLY_BYTES {
                return Err(ModelError::Rejected(format!(
                    "the reply is longer than {MAX_REPLY_BYTES} bytes"
                )));
            }
            let taken = call.reading.take(&chunk);
            call.screen.update(call.reading.reasoning(), call.reading.content());
            taken?;
        }
        Ok(())
    }

    async fn body(&self, mut response: Response, max_bytes: usize) -> String {
        let mut body = Vec::new();
        while body.len() < max_bytes
            && let Ok(Ok(Some(chunk))) = timeout(self.idle_timeout, response.chunk()).await
        {
            body.extend_from_slice(&chunk[..chunk.len().min(max_bytes - body.len())]);
        }
        String::from_utf8_lossy(&body).into_owned()
    }

    /// The reply, with money for it and for what lost tries may have cost.
    fn reply(&self, mut call: Call<'_>) -> ChatReply {
        call.screen.update(call.reading.reasoning(), call.reading.content());
        call.screen.end();
        let cached = call.reading.cached_input();
        let mut reply = call.reading.into_reply(call.request, &self.name);
        reply.notes = call.notes;
        if let Some(cut) = cut::of(&reply.usage, cached, pricing::count_request(call.request)) {
            if let Some(window) = cut.window {
                self.window.fetch_min(window, Ordering::Relaxed);
            }
            if self.told.first_time(call.request) {
                let read = reply.usage.input_tokens;
                tracing::warn!(
                    model = self.name,
                    read,
                    "the server seems to cut long conversations silently"
                );
                reply.notes.push(ModelNote::CutSilently {
                    model: self.name.clone(),
                    read,
                });
            }
        }
        reply.cost_usd = self.price.cost(&reply.usage, cached);
        if call.lost != Usage::default() {
            reply.cost_usd = sum(reply.cost_usd, self.price.cost(&call.lost, 0));
            reply.usage = add(call.lost, reply.usage);
        }
        reply
    }

    fn redacted(&self, error: ModelError) -> ModelError {
        error.with_words(|words| self.redactor.redact(&words))
    }
}

/// Tokens of both; told by the server only if all of them are.
pub(super) fn add(one: Usage, other: Usage) -> Usage {
    let told = |usage: Usage| usage.reported || usage == Usage::default();
    Usage {
        input_tokens: one.input_tokens.saturating_add(other.input_tokens),
        output_tokens: one.output_tokens.saturating_add(other.output_tokens),
        reported: told(one) && told(other) && (one.reported || other.reported),
    }
}

/// Money of both, where both are known.
pub(super) fn sum(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    Some(one? + other?)
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
