//! The client of OpenAI-compatible servers: the configured model, and another one that answers
//! while the first does not. Called through the `Model` trait. Never asks the other for what the
//! first refused for good, and never forgets the way back.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::endpoint::{Endpoint, MAX_TRIES, Place, add, sum};
use super::pricing::Price;
use crate::config::ModelConfig;
use crate::model::{ChatReply, ChatRequest, Failed, Model, ModelError, Profile};
use crate::phrase::model::ModelNote;
use crate::secret::Redactor;

/// A first that asks for a longer pause gets it, up to this.
const MAX_DETOUR: Duration = Duration::from_secs(60 * 60);

/// Tries of a call that looks whether the first is back.
const TRIES_BACK: u32 = 1;

/// The configured model and its fallback.
pub(super) struct Client {
    first: Endpoint,
    fallback: Option<Fallback>,
}

struct Fallback {
    endpoint: Endpoint,
    /// Whether it is another server, with a key of its own.
    elsewhere: bool,
    /// How long it answers before the first is tried again.
    detour: Duration,
    /// While the fallback answers: from when on the first is tried again.
    back_at: Mutex<Option<Instant>>,
}

impl Client {
    /// Prepares the clients; nothing is sent yet.
    pub(super) fn new(config: &ModelConfig, redactor: &Redactor) -> anyhow::Result<Self> {
        let base_url = config.base_url.as_deref().unwrap_or_default();
        let first = Place {
            key: "model.base_url",
            base_url,
            name: &config.name,
            api_key: config.api_key.as_ref(),
            price: Price::of(config)?,
        };
        let elsewhere = config.fallback_base_url.is_some();
        let fallback = if elsewhere || config.fallback_name.is_some() {
            let name = config.fallback_name.as_deref().unwrap_or(&config.name);
            let place = Place {
                key: "model.fallback_base_url",
                base_url: config.fallback_base_url.as_deref().unwrap_or(base_url),
                name,
                // The first server's key is nobody else's business.
                api_key: if elsewhere {
                    &config.fallback_api_key
                } else {
                    &config.api_key
                }
                .as_ref(),
                price: match name == config.name && !elsewhere {
                    true => first.price,
                    false => Price::in_table(&config.prices, name),
                },
            };
            Some(Fallback {
                endpoint: Endpoint::new(config, &place, redactor)?,
                elsewhere,
                detour: config.fallback_seconds,
                back_at: Mutex::new(None),
            })
        } else {
            None
        };
        Ok(Self {
            first: Endpoint::new(config, &first, redactor)?,
            fallback,
        })
    }

    /// The configured server and its fallback.
    pub(super) fn into_endpoints(self) -> Vec<Endpoint> {
        let fallback = self.fallback.map(|fallback| fallback.endpoint);
        std::iter::once(self.first).chain(fallback).collect()
    }

    /// Asks the first, and the fallback when the first cannot.
    async fn ask_first(
        &self,
        fallback: &Fallback,
        request: &ChatRequest,
        cancel: &CancellationToken,
    ) -> Result<ChatReply, Failed> {
        let tries = if fallback.back_at().is_some() {
            TRIES_BACK
        } else {
            MAX_TRIES
        };
        let failed = match self.first.ask(request, tries, cancel).await {
            Ok(reply) => {
                fallback.set_back_at(None);
                return Ok(reply);
            }
            Err(failed) => failed,
        };
        let Some(detour) = fallback.detour(&failed.error) else {
            return Err(failed);
        };
        tracing::warn!(error = %failed.error, fallback = fallback.endpoint.name(), "the model fails; its fallback is asked");
        match fallback.endpoint.ask(request, MAX_TRIES, cancel).await {
            Ok(mut reply) => {
                fallback.set_back_at(Some(Instant::now() + detour));
                reply.notes.push(ModelNote::FellBack {
                    from: self.first.name().to_owned(),
                    why: failed.error.to_string(),
                    to: reply.model.clone(),
                });
                Ok(paid(reply, &failed))
            }
            Err(second) => Err(both(failed, second, fallback.endpoint.name())),
        }
    }

    /// Asks the fallback during a detour, and the first all the same when the fallback cannot.
    async fn ask_fallback(
        &self,
        fallback: &Fallback,
        request: &ChatRequest,
        cancel: &CancellationToken,
    ) -> Result<ChatReply, Failed> {
        let failed = match fallback.endpoint.ask(request, MAX_TRIES, cancel).await {
            Ok(reply) => return Ok(reply),
            Err(failed) if matches!(failed.error, ModelError::ContextOverflow(_) | ModelError::Cancelled) => {
                return Err(failed);
            }
            Err(failed) => failed,
        };
        match self.first.ask(request, TRIES_BACK, cancel).await {
            Ok(reply) => {
                fallback.set_back_at(None);
                Ok(paid(reply, &failed))
            }
            Err(first) => Err(both(first, failed, fallback.endpoint.name())),
        }
    }

    /// Who answers next.
    fn current(&self) -> &Endpoint {
        match &self.fallback {
            Some(fallback) if fallback.is_on_detour() => &fallback.endpoint,
            _ => &self.first,
        }
    }
}

impl Fallback {
    fn back_at(&self) -> Option<Instant> {
        *self.back_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_back_at(&self, at: Option<Instant>) {
        *self.back_at.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    fn is_on_detour(&self) -> bool {
        self.back_at().is_some_and(|at| Instant::now() < at)
    }

    /// For how long the fallback takes over after this error. `None`: it could not do better.
    fn detour(&self, error: &ModelError) -> Option<Duration> {
        match error {
            ModelError::RateLimited { retry_after, .. } => {
                Some(retry_after.unwrap_or_default().min(MAX_DETOUR).max(self.detour))
            }
            ModelError::Unavailable(_) => Some(self.detour),
            // The same server would refuse the same key again.
            ModelError::Unauthorized(_) | ModelError::PaymentRequired(_) => self.elsewhere.then_some(self.detour),
            ModelError::ContextOverflow(_)
            | ModelError::Rejected(_)
            | ModelError::Cancelled
            | ModelError::NoScript(_) => None,
        }
    }
}

/// A reply with what a failed call before it may have cost.
fn paid(mut reply: ChatReply, failed: &Failed) -> ChatReply {
    if failed.usage != Default::default() {
        reply.cost_usd = sum(reply.cost_usd, failed.cost_usd);
        reply.usage = add(failed.usage, reply.usage);
    }
    reply
}

/// Both failed: the first's error says what to do, unless the conversation has to become shorter
/// or the run was stopped.
fn both(first: Failed, second: Failed, fallback: &str) -> Failed {
    let error = match second.error {
        error @ (ModelError::ContextOverflow(_) | ModelError::Cancelled) => error,
        error => first
            .error
            .with_words(|words| format!("{words}. The fallback {fallback} failed, too: {error}")),
    };
    Failed {
        error,
        usage: add(first.usage, second.usage),
        cost_usd: sum(first.cost_usd, second.cost_usd),
    }
}

#[async_trait]
impl Model for Client {
    fn name(&self) -> &str {
        self.first.name()
    }

    async fn complete(&self, request: &ChatRequest, cancel: &CancellationToken) -> Result<ChatReply, ModelError> {
        self.attempt(request, cancel).await.map_err(|failed| failed.error)
    }

    async fn attempt(&self, request: &ChatRequest, cancel: &CancellationToken) -> Result<ChatReply, Failed> {
        match &self.fallback {
            None => self.first.ask(request, MAX_TRIES, cancel).await,
            Some(fallback) if fallback.is_on_detour() => self.ask_fallback(fallback, request, cancel).await,
            Some(fallback) => self.ask_first(fallback, request, cancel).await,
        }
    }

    fn price_known(&self) -> bool {
        let fallback = self.fallback.as_ref();
        self.first.price_known() && fallback.is_none_or(|fallback| fallback.endpoint.price_known())
    }

    fn estimate(&self, input_tokens: u64, output_tokens: u32) -> Option<f64> {
        let fallback = self.fallback.iter().map(|fallback| &fallback.endpoint);
        let all = std::iter::once(&self.first).chain(fallback);
        let estimates = all.filter_map(|endpoint| endpoint.estimate(input_tokens, output_tokens));
        estimates.reduce(f64::max)
    }

    fn profile(&self) -> Profile {
        self.current().profile()
    }
}
