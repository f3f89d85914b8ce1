//! One HTTP call to GitHub: build, send, read a bounded answer, sort it. The client is built once
//! and follows no redirect by itself, because a redirect would carry the token to another host.
//! Called by the other files of this port. Never repeats a call that could have written something.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use reqwest::header::{ACCEPT, DATE, HeaderMap, IF_NONE_MATCH, LOCATION, USER_AGENT};
use reqwest::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;
use url::Url;

use crate::clock::Clock;
use crate::config::GitHubConfig;
use crate::ids::InstallationId;
use crate::secret::{Redactor, Secret};

use super::error::{self, GitHubError};
use super::gate::{Cost, Pool};
use super::skew::Skew;

/// No answer of the API is near this size; more is not ours to hold in memory.
const MAX_ANSWER_BYTES: usize = 10 * 1024 * 1024;

/// A connection that does not open within this time will not open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Servers close idle connections after a minute or so; a request sent into a closing connection
/// has an unclear outcome, so ours are given up well before.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// A renamed repository answers with one redirect; more than a few are a loop.
const MAX_REDIRECTS: usize = 3;

/// Calls that cannot have written anything are tried this often.
const READ_TRIES: u32 = 3;

/// Longest wait of a write for its turn in this process, and again for its place in the budget of all;
/// whoever would wait longer is told to come back, and holds nothing up meanwhile.
const TURN_PATIENCE: Duration = Duration::from_millis(2_500);

/// Wait before the second try of a read; doubled before the third.
const READ_BACKOFF: Duration = Duration::from_millis(250);

/// The longest that a write waits for each of its two turns: in its process, and in the budget of all.
pub fn turn_patience(call_timeout: Duration) -> Duration {
    TURN_PATIENCE.min(call_timeout / 2)
}

/// The one place that builds an HTTP client for GitHub's side of the world.
pub(crate) fn http_client(timeout: Duration) -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT_TIMEOUT.min(timeout))
        .timeout(timeout)
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        // What was sent into a network that is down must not arrive when it is up again: long after the
        // call was given up, another process may have made it.
        .tcp_user_timeout(timeout)
        .build()
}

/// Which permissions a call needs. What stands beside the usual ones is optional for an App, and
/// asking for one that was not granted is refused as a whole, so each has tokens of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Need {
    /// Contents, issues, pull requests.
    Usual,
    /// Check runs and suites.
    Checks,
    /// Commit statuses, always read only.
    Statuses,
    /// Security advisories of the repository.
    Advisories,
}

impl Need {
    pub(super) const ALL: [Need; 4] = [Need::Usual, Need::Checks, Need::Statuses, Need::Advisories];
}

/// Which of a host's two programs answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Rest,
    GraphQl,
}

/// One call: method, path segments (encoded when sent), query, body.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) need: Need,
    side: Side,
    path: Vec<String>,
    pub(super) query: Vec<(&'static str, String)>,
    body: Option<Value>,
    /// Whether a second call does no harm.
    repeatable: bool,
    /// What the answer was known by before: it is not sent again while it has not changed.
    pub(super) unless: Option<String>,
}

impl Call {
    fn new(method: Method, path: &[&str], body: Option<Value>) -> Self {
        Self {
            repeatable: method == Method::GET,
            method,
            need: Need::Usual,
            side: Side::Rest,
            path: path.iter().map(|&segment| segment.to_owned()).collect(),
            query: Vec::new(),
            body,
            unless: None,
        }
    }

    pub(super) fn get(path: &[&str]) -> Self {
        Self::new(Method::GET, path, None)
    }

    pub(super) fn post(path: &[&str], body: Value) -> Self {
        Self::new(Method::POST, path, Some(body))
    }

    pub(super) fn patch(path: &[&str], body: Value) -> Self {
        Self::new(Method::PATCH, path, Some(body))
    }

    pub(super) fn put(path: &[&str], body: Value) -> Self {
        Self::new(Method::PUT, path, Some(body))
    }

    pub(super) fn delete(path: &[&str]) -> Self {
        Self::new(Method::DELETE, path, None)
    }

    /// An operation of the GraphQL API; its name stands in errors.
    pub(super) fn graphql(operation: &str, body: Value) -> Self {
        Self {
            side: Side::GraphQl,
            ..Self::new(Method::POST, &[operation], Some(body))
        }
    }

    /// For a POST that makes nothing lasting, such as a token or a query of GraphQL.
    pub(super) fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }

    /// With another permission than the usual ones.
    pub(super) fn needs(mut self, need: Need) -> Self {
        self.need = need;
        self
    }

    /// Whether it only reads: reads may be repeated and wait for no turn.
    pub(super) fn reads(&self) -> bool {
        self.repeatable
    }

    /// What it costs.
    pub(super) fn cost(&self) -> Cost {
        match self.side {
            _ if self.reads() => Cost::Read,
            Side::Rest if self.method == Method::POST => Cost::Content,
            Side::Rest | Side::GraphQl => Cost::Write,
        }
    }

    /// Which of GitHub's counts it falls under.
    pub(super) fn pool(&self) -> Pool {
        match self.side {
            Side::GraphQl => Pool::GraphQl,
            Side::Rest if self.path.first().is_some_and(|part| part == "search") => Pool::Search,
            Side::Rest => Pool::Core,
        }
    }

    /// Method and path, for errors.
    pub(super) fn what(&self) -> String {
        match self.side {
            Side::Rest => format!("{} /{}", self.method, self.path.join("/")),
            Side::GraphQl => format!("GraphQL {}", self.path.join("/")),
        }
    }
}

/// A successful answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) headers: HeaderMap,
    /// It is as it was under [`Call::unless`], and not sent again.
    pub(super) is_unchanged: bool,
    body: Vec<u8>,
}

impl Answer {
    /// GitHub answers with JSON or with nothing; the page of a proxy says 200 as well.
    fn is_of_github(&self) -> bool {
        let first = self.body.iter().find(|byte| !byte.is_ascii_whitespace());
        first.is_none_or(|byte| b"{[".contains(byte))
    }

    /// The body; one that does not parse says nothing about what happened.
    pub(super) fn json<T: DeserializeOwned>(&self, call: &Call) -> Result<T, GitHubError> {
        serde_json::from_slice(&self.body).map_err(|error| GitHubError::Unclear {
            what: call.what(),
            detail: format!("the answer does not parse: {error}"),
        })
    }
}

/// The way to one API host.
pub(super) struct Api {
    http: reqwest::Client,
    base: Url,
    graphql: Url,
    call_timeout: Duration,
    pub(super) clock: Clock,
    pub(super) skew: Skew,
    redactor: Redactor,
}

impl Api {
    pub(super) fn new(config: &GitHubConfig, clock: Clock, redactor: Redactor) -> anyhow::Result<Self> {
        let base = Url::parse(config.api_url.trim_end_matches('/'))
            .with_context(|| format!("github.api_url {:?} is not an address", config.api_url))?;
        ensure!(
            matches!(base.scheme(), "http" | "https") && base.host().is_some() && base.query().is_none(),
            "github.api_url {:?} is not an http(s) address without a query",
            config.api_url
        );
        Ok(Self {
            http: http_client(config.call_timeout_seconds).context("prepare TLS for GitHub")?,
            graphql: graphql_url(&base),
            base,
            call_timeout: config.call_timeout_seconds,
            skew: Skew::default(),
            clock,
            redactor,
        })
    }

    /// Performs the call within the configured time, all tries included.
    pub(super) async fn send(&self, call: &Call, token: Option<&Secret>) -> Result<Answer, GitHubError> {
        let url = self.url(call)?;
        self.send_to(call, url, token).await
    }

    /// The same for an address that GitHub gave us, such as the next page. It must be on our host.
    pub(super) async fn send_to(&self, call: &Call, url: Url, token: Option<&Secret>) -> Result<Answer, GitHubError> {
        let deadline = Instant::now() + self.call_timeout;
        let mut tries = 1;
        loop {
            let outcome = self.follow(call, url.clone(), token, deadline).await;
            let unclear = matches!(
                outcome,
                Err(GitHubError::Unreachable { .. } | GitHubError::Unclear { .. })
            );
            let wait = READ_BACKOFF * tries;
            if !unclear || !call.repeatable || tries == READ_TRIES || Instant::now() + wait >= deadline {
                return outcome;
            }
            tracing::debug!(
                call = call.what(),
                tries,
                "GitHub did not answer clearly to a read, trying again"
            );
            tokio::time::sleep(wait).await;
            tries += 1;
        }
    }

    /// Follows redirects of reads on the same host.
    async fn follow(
        &self,
        call: &Call,
        mut url: Url,
        token: Option<&Secret>,
        deadline: Instant,
    ) -> Result<Answer, GitHubError> {
        for _ in 0..=MAX_REDIRECTS {
            let (status, answer) = self.once(call, url.clone(), token, deadline).await?;
            if status.is_success() && !answer.is_of_github() {
                return Err(GitHubError::Unclear {
                    what: call.what(),
                    detail: "the answer is no JSON: something between us and GitHub gave it".to_owned(),
                });
            }
            if status.is_success() || answer.is_unchanged {
                return Ok(answer);
            }
            if !status.is_redirection() {
                let words = self.redactor.redact(&error::words(&answer.body));
                return Err(error::classify(
                    call.what(),
                    status,
                    &answer.headers,
                    words,
                    self.clock.now(),
                ));
            }
            url = self.redirect(call, &url, &answer.headers)?;
        }
        Err(rejected(call, "it redirects in a circle"))
    }

    fn redirect(&self, call: &Call, from: &Url, headers: &HeaderMap) -> Result<Url, GitHubError> {
        let target = headers
            .get(LOCATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|text| from.join(text).ok())
            .ok_or_else(|| rejected(call, "it redirects to nowhere"))?;
        if call.method != Method::GET {
            // Nothing was done, and a look-up tells where it would be.
            return Err(GitHubError::Moved { what: call.what() });
        }
        self.check_host(call, target)
    }

    /// A token goes to the configured host and nowhere else.
    pub(super) fn check_host(&self, call: &Call, url: Url) -> Result<Url, GitHubError> {
        if url.origin() == self.base.origin() {
            Ok(url)
        } else {
            Err(rejected(call, "it points to another host"))
        }
    }

    async fn once(
        &self,
        call: &Call,
        url: Url,
        token: Option<&Secret>,
        deadline: Instant,
    ) -> Result<(StatusCode, Answer), GitHubError> {
        let mut request = self
            .http
            .request(call.method.clone(), url)
            .timeout(deadline.saturating_duration_since(Instant::now()))
            .header(ACCEPT, "application/vnd.github+json")
            .header("x-github-api-version", "2022-11-28")
            .header(USER_AGENT, concat!("forgehand/", env!("CARGO_PKG_VERSION")));
        if let Some(token) = token {
            request = request.bearer_auth(token.expose());
        }
        if let Some(etag) = &call.unless {
            request = request.header(IF_NONE_MATCH, etag);
        }
        if let Some(body) = &call.body {
            request = request.json(body);
        }
        let sent = self.clock.now();
        let mut response = request.send().await.map_err(|error| not_answered(call, error))?;
        let date = response.headers().get(DATE).and_then(|value| value.to_str().ok());
        self.skew.note(date, sent, self.clock.now());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| not_answered(call, error))? {
            if body.len() + chunk.len() > MAX_ANSWER_BYTES {
                return Err(GitHubError::Unclear {
                    what: call.what(),
                    detail: format!("the answer is larger than {MAX_ANSWER_BYTES} bytes"),
                });
            }
            body.extend_from_slice(&chunk);
        }
        fp!(if !call.reads(), "github.answered");
        let headers = std::mem::take(response.headers_mut());
        let status = response.status();
        let is_unchanged = call.unless.is_some() && status == StatusCode::NOT_MODIFIED;
        let answer = Answer {
            headers,
            is_unchanged,
            body,
        };
        Ok((status, answer))
    }

    /// GitHub's words in an answer that says 200 and means an error.
    pub(super) fn redact(&self, words: &str) -> String {
        self.redactor.redact(words)
    }

    fn url(&self, call: &Call) -> Result<Url, GitHubError> {
        if call.side == Side::GraphQl {
            return Ok(self.graphql.clone());
        }
        let mut path = self.base.path().trim_end_matches('/').to_owned();
        for segment in &call.path {
            // An address drops such segments, and the call would hit its parent.
            if matches!(segment.as_str(), "" | "." | "..") {
                return Err(rejected(call, "a part of the path is empty or only dots"));
            }
            path.push('/');
            path.push_str(&encode_segment(segment));
        }
        let mut url = self.base.clone();
        url.set_path(&path);
        if !call.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&call.query);
        }
        Ok(url)
    }
}

/// The GraphQL address of the host whose REST address is `base`: GitHub Enterprise has it beside
/// the REST path (`/api/v3` and `/api/graphql`), github.com below the host.
fn graphql_url(base: &Url) -> Url {
    let path = base.path().trim_end_matches('/');
    let path = path.strip_suffix("/v3").unwrap_or(path);
    let mut url = base.clone();
    url.set_path(&format!("{path}/graphql"));
    url
}

/// Percent-encodes everything but the characters that mean only themselves in every address.
fn encode_segment(segment: &str) -> String {
    use std::fmt::Write as _;
    let mut encoded = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(byte as char);
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

fn rejected(call: &Call, detail: &str) -> GitHubError {
    GitHubError::Rejected {
        what: call.what(),
        detail: detail.to_owned(),
    }
}

/// The address is left out: its query is noise, and an error must not carry more than it says.
fn not_answered(call: &Call, error: reqwest::Error) -> GitHubError {
    let before_sending = error.is_connect() || error.is_builder();
    let timed_out = error.is_timeout();
    let detail = format!("{:#}", anyhow::Error::new(error.without_url()));
    if before_sending {
        GitHubError::Unreachable { detail }
    } else {
        GitHubError::Unclear {
            what: call.what(),
            detail: if timed_out {
                format!("no answer in time: {detail}")
            } else {
                detail
            },
        }
    }
}

/// Writes of one installation go one after another with a pause between them, as GitHub asks of
/// integrators; its secondary limits count them per installation. What other processes write is the
/// gate's to know.
pub(super) struct WriteTurns {
    interval: Duration,
    patience: Duration,
    turns: Mutex<HashMap<InstallationId, Turn>>,
}

/// Held while a write runs; inside is when the last one began or ended.
pub(super) type Turn = Arc<tokio::sync::Mutex<Option<Instant>>>;

/// The turn of a write that is about to be sent. The pause after it begins when it is given up, also
/// when the caller gives up in the middle.
pub(super) struct Turned(tokio::sync::OwnedMutexGuard<Option<Instant>>);

impl Drop for Turned {
    fn drop(&mut self) {
        *self.0 = Some(Instant::now());
    }
}

impl WriteTurns {
    pub(super) fn new(interval: Duration, call_timeout: Duration) -> Self {
        Self {
            interval,
            patience: turn_patience(call_timeout),
            turns: Mutex::default(),
        }
    }

    /// The turn, if it comes soon; otherwise after which time to ask again. Whoever is sent away does
    /// not hold up those who come later.
    pub(super) async fn take(&self, installation: InstallationId) -> Result<Turned, Duration> {
        let turn: Turn = {
            let mut turns = self.turns.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            Arc::clone(turns.entry(installation).or_default())
        };
        let deadline = Instant::now() + self.patience;
        let Ok(last) = tokio::time::timeout_at(deadline, turn.lock_owned()).await else {
            // Not all at once, or most would be sent away again.
            return Err(self.patience.mul_f64(0.5 + fastrand::f64()));
        };
        let next = last.map_or_else(Instant::now, |last| last + self.interval);
        if next > deadline {
            return Err(next.saturating_duration_since(Instant::now()));
        }
        tokio::time::sleep_until(next).await;
        Ok(Turned(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphql_stands_where_the_host_has_it() {
        for (rest, graphql) in [
            ("https://api.github.com", "https://api.github.com/graphql"),
            ("https://api.github.com/", "https://api.github.com/graphql"),
            ("https://api.octo.ghe.com", "https://api.octo.ghe.com/graphql"),
            (
                "https://git.corp.example/api/v3",
                "https://git.corp.example/api/graphql",
            ),
            (
                "https://git.corp.example/api/v3/",
                "https://git.corp.example/api/graphql",
            ),
            ("http://127.0.0.1:8080/base", "http://127.0.0.1:8080/base/graphql"),
        ] {
            assert_eq!(graphql_url(&Url::parse(rest).unwrap()).as_str(), graphql, "{rest}");
        }
    }
}
