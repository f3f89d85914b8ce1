//! Who we are: the App's signed statement about itself (a JWT, good for minutes) and installation
//! tokens narrowed to one repository and the least permissions (good for an hour).
//! Called by the door of this port. Never lets a token or the key into a log, an error or a file.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use chrono::{DateTime, TimeDelta, Utc};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::ids::{AppId, InstallationId, RepoId};
use crate::right::Right;
use crate::secret::Secret;

use super::client::{Answer, Call, Need, Turned};
use super::error::GitHubError;
use super::gate::{Admission, Cost, Left, Pool};
use super::{Access, GitHub, RepoClient, Shared};

/// GitHub's clock may be behind ours by this much.
const JWT_BACKDATED: TimeDelta = TimeDelta::seconds(60);

/// GitHub accepts ten minutes from its own clock; one is left for the difference of the clocks.
const JWT_LIFE: TimeDelta = TimeDelta::minutes(9);

/// A token is renewed this long before its end, so that what starts with it can finish with it.
const RENEW_BEFORE_END: TimeDelta = TimeDelta::minutes(10);

/// GitHub's words for a missing permission. It says the same now and then while a fresh token or
/// a fresh ref has not reached all of its machines, and such a call did nothing.
const NOT_ACCESSIBLE: &str = "Resource not accessible by integration";

/// A call that meets those words is sent this often.
const FORBIDDEN_TRIES: u32 = 3;

/// Wait before its second try; doubled before the third.
const FORBIDDEN_BACKOFF: Duration = Duration::from_millis(250);

/// Jobs that wait for the same time come back within a tenth of it, and within these.
const LEAST_SPREAD: TimeDelta = TimeDelta::milliseconds(500);
const LONGEST_SPREAD: TimeDelta = TimeDelta::minutes(6);

/// More cached tokens than this means that ended ones have piled up.
const MAX_CACHED_TOKENS: usize = 1_000;

/// The App's id and private key.
pub(super) struct AppKey {
    app: AppId,
    key: EncodingKey,
}

#[derive(Serialize)]
struct Claims {
    iat: i64,
    exp: i64,
    iss: String,
}

impl AppKey {
    /// Reads a PEM (PKCS#1 as GitHub hands out, or PKCS#8) and tries the key once.
    pub(super) fn from_pem(app: AppId, pem: &Secret) -> anyhow::Result<Self> {
        let key = EncodingKey::from_rsa_pem(pem.expose().trim().as_bytes())
            .context("this is not an RSA private key in PEM form, as the App's settings page hands out")?;
        let key = Self { app, key };
        key.statement(DateTime::UNIX_EPOCH)
            .context("this private key cannot sign: it is damaged or too short")?;
        Ok(key)
    }

    /// Whose key it is.
    pub(super) fn app(&self) -> AppId {
        self.app
    }

    fn statement(&self, now: DateTime<Utc>) -> Result<Secret, jsonwebtoken::errors::Error> {
        let claims = Claims {
            iat: (now - JWT_BACKDATED).timestamp(),
            exp: (now + JWT_LIFE).timestamp(),
            iss: self.app.to_string(),
        };
        jsonwebtoken::encode(&Header::new(Algorithm::RS256), &claims, &self.key).map(Secret::new)
    }
}

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TokenScope {
    pub(super) installation: InstallationId,
    pub(super) repo: RepoId,
    pub(super) access: Access,
    pub(super) need: Need,
}

impl TokenScope {
    /// The narrowest request that serves: one repository, no permission that is not used.
    fn request(self) -> Call {
        let level = match self.access {
            Access::Read => "read",
            Access::Write => "write",
        };
        let permissions = match self.need {
            Need::Usual => {
                json!({"metadata": "read", "contents": level, "issues": level, "pull_requests": level})
            }
            Need::Checks => json!({"metadata": "read", "checks": level}),
            Need::Statuses => json!({"metadata": "read", "statuses": "read"}),
            Need::Advisories => json!({"metadata": "read", "repository_advisories": level}),
        };
        let installation = self.installation.to_string();
        Call::post(
            &["app", "installations", &installation, "access_tokens"],
            json!({"repository_ids": [self.repo], "permissions": permissions}),
        )
        .repeatable()
    }
}

#[derive(Clone)]
struct Token {
    value: Secret,
    ends_at: DateTime<Utc>,
}

/// Held while a token is minted, so that callers who need the same one wait for it.
type Slot = Arc<tokio::sync::Mutex<Option<Token>>>;

/// Minted tokens by what they are for.
#[derive(Default)]
pub(super) struct TokenCache {
    slots: Mutex<HashMap<TokenScope, Slot>>,
}

impl TokenCache {
    fn slot(&self, scope: TokenScope, now: DateTime<Utc>) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if slots.len() >= MAX_CACHED_TOKENS {
            slots.retain(|_, slot| {
                let free = slot.try_lock();
                free.map_or(true, |token| token.as_ref().is_some_and(|token| token.ends_at > now))
            });
        }
        Arc::clone(slots.entry(scope).or_default())
    }

    /// Forgets a token that was refused, unless a newer one took its place already.
    pub(super) async fn forget(&self, scope: TokenScope, refused: &Secret) {
        let slot = self.slot(scope, DateTime::UNIX_EPOCH);
        let mut token = slot.lock().await;
        if token.as_ref().is_some_and(|token| token.value == *refused) {
            *token = None;
        }
    }

    /// Takes the token out.
    pub(super) async fn take(&self, scope: TokenScope) -> Option<Secret> {
        let slot = self.slot(scope, DateTime::UNIX_EPOCH);
        let token = slot.lock().await.take();
        token.map(|token| token.value)
    }
}

impl Shared {
    /// A call in the App's own name.
    async fn as_app(&self, call: &Call) -> Result<Answer, GitHubError> {
        let statement = self.key.statement(self.api.clock.now());
        let statement = statement.map_err(|error| GitHubError::Unauthorized {
            what: call.what(),
            detail: format!("our private key does not sign: {error}"),
        })?;
        self.api.send(call, Some(&statement)).await
    }

    /// The token for this scope, cached, or minted while the right holds.
    async fn token(&self, scope: TokenScope, right: &Right) -> Result<Secret, GitHubError> {
        #[derive(Deserialize)]
        struct Minted {
            token: Secret,
            expires_at: DateTime<Utc>,
        }
        let now = self.api.clock.now();
        let slot = self.tokens.slot(scope, now);
        let mut cached = slot.lock().await;
        if let Some(token) = &*cached
            && token.ends_at - now > RENEW_BEFORE_END
        {
            return Ok(token.value.clone());
        }
        *cached = None;
        let call = scope.request();
        check(right, &call)?;
        let minted = match self.as_app(&call).await {
            // An App is asked for an optional permission only here, and may lack it.
            Err(GitHubError::Rejected { what, detail }) if scope.need != Need::Usual => {
                return Err(GitHubError::Forbidden { what, detail });
            }
            answer => answer?,
        };
        let minted: Minted = minted.json(&call)?;
        self.redactor.add_passing(&minted.token);
        *cached = Some(Token {
            value: minted.token.clone(),
            ends_at: minted.expires_at,
        });
        Ok(minted.token)
    }
}

/// Nothing is sent for a caller whose right is over.
fn check(right: &Right, call: &Call) -> Result<(), GitHubError> {
    if right.holds() {
        Ok(())
    } else {
        Err(GitHubError::Withheld { what: call.what() })
    }
}

impl GitHub {
    /// A call in the App's own name, while the right holds.
    pub(super) async fn as_app(&self, call: &Call) -> Result<Answer, GitHubError> {
        check(&self.right, call)?;
        self.shared.as_app(call).await
    }
}

impl RepoClient {
    /// The token for a scope, minted or cached.
    pub(super) async fn token(&self, scope: TokenScope) -> Result<Secret, GitHubError> {
        self.shared.token(scope, &self.right).await
    }

    /// A call with this client's token. A refused token is replaced once: it may have been
    /// revoked or have ended early, and a refused call did nothing.
    pub(super) async fn send(&self, call: &Call) -> Result<Answer, GitHubError> {
        self.send_page(call, None).await
    }

    /// The same, to the address of a further page when there is one.
    pub(super) async fn send_page(&self, call: &Call, page: Option<&url::Url>) -> Result<Answer, GitHubError> {
        let mut tries = 1;
        loop {
            // Boxed: many calls stand in the future of a run, and each would hold all of this.
            let outcome = Box::pin(self.send_authorized(call, page)).await;
            let Err(GitHubError::Forbidden { detail, .. }) = &outcome else {
                return outcome;
            };
            if tries == FORBIDDEN_TRIES || !detail.contains(NOT_ACCESSIBLE) {
                return outcome;
            }
            tracing::debug!(call = call.what(), tries, "GitHub says that we may not, trying again");
            tokio::time::sleep(FORBIDDEN_BACKOFF * tries).await;
            tries += 1;
        }
    }

    async fn send_authorized(&self, call: &Call, page: Option<&url::Url>) -> Result<Answer, GitHubError> {
        let scope = TokenScope {
            need: call.need,
            ..self.scope
        };
        let token = self.token(scope).await?;
        match self.send_with(call, page, &token).await {
            Err(GitHubError::Unauthorized { .. }) => {
                self.shared.tokens.forget(scope, &token).await;
                let token = self.token(scope).await?;
                self.send_with(call, page, &token).await
            }
            other => other,
        }
    }

    async fn send_with(&self, call: &Call, page: Option<&url::Url>, token: &Secret) -> Result<Answer, GitHubError> {
        let api = &self.shared.api;
        let answer = if call.reads() {
            self.admit(call.pool(), call.cost()).await?;
            check(&self.right, call)?;
            match page {
                Some(page) => api.send_to(call, page.clone(), Some(token)).await,
                None => api.send(call, Some(token)).await,
            }
        } else {
            let _turn = self.turn(call.pool(), call.cost()).await?;
            // Asked last: waiting takes a while.
            check(&self.right, call)?;
            api.send(call, Some(token)).await
        };
        match answer {
            Ok(answer) => {
                self.tell_what_is_left(call, &answer).await;
                Ok(answer)
            }
            Err(error) => Err(self.limited(call.pool(), error).await),
        }
    }

    /// The turn of a write: in this process, then among all.
    pub(super) async fn turn(&self, pool: Pool, cost: Cost) -> Result<Turned, GitHubError> {
        let turn = self.shared.turns.take(self.scope.installation).await;
        let turn = turn.map_err(|wait| self.held(wait, "other writes of this installation come first"))?;
        let wait = self.admit(pool, cost).await?;
        tokio::time::sleep(wait).await;
        Ok(turn)
    }

    /// After which time a call may be sent, by whoever keeps count for all processes.
    async fn admit(&self, pool: Pool, cost: Cost) -> Result<Duration, GitHubError> {
        let Some(gate) = &self.gate else {
            return Ok(Duration::ZERO);
        };
        match gate.admit(self.scope.installation, pool, cost).await {
            Ok(Admission::After(wait)) => Ok(wait),
            Ok(Admission::Held { until, why }) => Err(GitHubError::Held {
                until: self.spread(until),
                why,
            }),
            Err(detail) => Err(GitHubError::Unreachable { detail }),
        }
    }

    fn held(&self, wait: Duration, why: &str) -> GitHubError {
        GitHubError::Held {
            until: self.shared.api.clock.now() + TimeDelta::from_std(wait).unwrap_or(TimeDelta::MAX),
            why: why.to_owned(),
        }
    }

    /// Up to a tenth later: those who wait for the same time would all look before they write, and
    /// most would be sent away again.
    fn spread(&self, until: DateTime<Utc>) -> DateTime<Utc> {
        let wait = (until - self.shared.api.clock.now()).clamp(LEAST_SPREAD * 10, LONGEST_SPREAD * 10);
        until + TimeDelta::milliseconds(fastrand::i64(0..=wait.num_milliseconds() / 10))
    }

    /// A limit is told to all processes, which may know of a longer one.
    pub(super) async fn limited(&self, pool: Pool, error: GitHubError) -> GitHubError {
        let (GitHubError::RateLimited { until, limit }, Some(gate)) = (&error, &self.gate) else {
            return error;
        };
        let wait = (*until - self.shared.api.clock.now()).to_std().unwrap_or_default();
        let noted = gate.limited(self.scope.installation, pool, *limit, wait).await;
        match noted {
            Some(until) => GitHubError::RateLimited {
                until: self.spread(until),
                limit: *limit,
            },
            None => error,
        }
    }

    /// The hourly limit is not run into: the gate closes before.
    async fn tell_what_is_left(&self, call: &Call, answer: &Answer) {
        let Some(gate) = &self.gate else { return };
        if let Some(left) = Left::read(call.pool(), &answer.headers, self.shared.api.clock.now()) {
            gate.seen(self.scope.installation, left).await;
        }
    }
}
