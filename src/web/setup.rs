//! The set-up page: registers the GitHub App from a manifest and keeps its credentials in files
//! that only the service can read. Open to whoever holds the token that the start of the service
//! prints, and to browsers on this machine while no proxy stands in front.
//! Never replaces credentials that exist, and never stores any in the database.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::extract::{ConnectInfo, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use url::Url;

use super::WebState;
use super::listener::Peer;
use crate::clock::Clock;
use crate::config::{GitHubConfig, ServerConfig, repository_around};
use crate::github::GitHub;
use crate::secret::{Secret, random_hex};

mod credentials;
mod manifest;
mod pages;

pub use credentials::stored_app;

/// How long somebody may take on GitHub's pages. GitHub's own code lives an hour.
const STATE_LIFE: TimeDelta = TimeDelta::hours(1);

/// Set-up pages that may be open at once; the oldest is forgotten.
const MAX_STATES: usize = 16;

/// What the set-up page needs.
pub struct Setup {
    github: GitHubConfig,
    state_dir: PathBuf,
    public_url: Option<String>,
    local_url: String,
    token: Secret,
    clock: Clock,
    states: Mutex<Vec<(String, DateTime<Utc>)>>,
    storing: tokio::sync::Mutex<()>,
}

#[derive(Deserialize)]
pub(super) struct PageQuery {
    #[serde(default)]
    token: String,
    #[serde(default)]
    org: String,
}

#[derive(Deserialize)]
pub(super) struct CallbackQuery {
    #[serde(default)]
    code: String,
    #[serde(default)]
    state: String,
}

impl Setup {
    /// A set-up page for this configuration, with a fresh token.
    pub fn new(server: &ServerConfig, github: &GitHubConfig, clock: Clock) -> Self {
        Self {
            github: github.clone(),
            state_dir: server.state_dir.clone(),
            public_url: server
                .public_url
                .as_ref()
                .map(|url| url.trim_end_matches('/').to_owned()),
            local_url: format!("http://{}", server.listen),
            token: Secret::new(random_hex::<16>()),
            clock,
            states: Mutex::new(Vec::new()),
            storing: tokio::sync::Mutex::new(()),
        }
    }

    /// The address with its token, to be shown to the person who starts the service.
    pub fn url(&self) -> Secret {
        Secret::new(format!("{}/setup?token={}", self.base_url(), self.token.expose()))
    }

    fn base_url(&self) -> &str {
        self.public_url.as_deref().unwrap_or(&self.local_url)
    }

    /// Whether there is an App already.
    fn is_done(&self) -> bool {
        self.github.app_id.is_some() || credentials::exist(&self.state_dir)
    }

    /// Why credentials must not be stored where they would be.
    fn misplaced(&self) -> Option<String> {
        let state_dir = self.state_dir.canonicalize().ok()?;
        let root = repository_around(&state_dir)?;
        Some(format!(
            "The App's private key would lie inside the git repository {}. Set server.state_dir to a folder outside of \
             it, start the service again, and open this page anew.",
            root.display()
        ))
    }

    /// With the token, from anywhere. Without it, from a browser on this machine that names this
    /// machine, as long as no public address is configured: a proxy's requests come from this
    /// machine too, and not every proxy says that it is one.
    fn admits(&self, token: &str, peer: Peer, headers: &HeaderMap) -> bool {
        let expected = self.token.expose().as_bytes();
        if aws_lc_rs::constant_time::verify_slices_are_equal(token.as_bytes(), expected).is_ok() {
            return true;
        }
        let is_forwarded = headers.keys().any(|name| {
            let name = name.as_str();
            name.starts_with("x-forwarded") || matches!(name, "forwarded" | "via" | "x-real-ip" | "cf-connecting-ip")
        });
        self.public_url.is_none()
            && peer.0.ip().to_canonical().is_loopback()
            && !is_forwarded
            && names_this_machine(headers)
    }

    fn new_state(&self) -> String {
        let now = self.clock.now();
        let state = random_hex::<16>();
        let mut states = self.states.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        states.retain(|(_, until)| *until > now);
        if states.len() >= MAX_STATES {
            states.remove(0);
        }
        states.push((state.clone(), now + STATE_LIFE));
        state
    }

    /// Whether the state was given out and not used; afterwards it is used.
    fn use_state(&self, state: &str) -> bool {
        let now = self.clock.now();
        let mut states = self.states.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        states.retain(|(_, until)| *until > now);
        let known = states.iter().position(|(known, _)| known == state);
        known.map(|at| states.remove(at)).is_some()
    }
}

/// Against names of strangers that resolve to this machine.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let host = headers
        .get(header::HOST)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let Ok(url) = Url::parse(&format!("http://{host}/")) else {
        return false;
    };
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

/// `GET /setup`
pub(super) async fn page(
    State(state): State<Arc<WebState>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Query(query): Query<PageQuery>,
    headers: HeaderMap,
) -> Response {
    let Some(setup) = &state.setup else {
        return pages::refusal(StatusCode::NOT_FOUND, "There is no set-up page.");
    };
    if !setup.admits(&query.token, peer, &headers) {
        return pages::refusal(
            StatusCode::FORBIDDEN,
            "Open the address with the token that the service printed when it started.",
        );
    }
    if setup.is_done() {
        return pages::refusal(
            StatusCode::CONFLICT,
            "An App is configured already. To register another one, take its id out of the configuration and move the folder `credentials` away.",
        );
    }
    if let Some(problem) = setup.misplaced() {
        return pages::refusal(StatusCode::CONFLICT, &problem);
    }
    let org = (!query.org.is_empty()).then_some(query.org.as_str());
    if org.is_some_and(|org| !is_account_name(org)) {
        return pages::refusal(
            StatusCode::BAD_REQUEST,
            "The organisation's name has only letters, digits and hyphens.",
        );
    }
    let manifest = manifest::json(setup.base_url(), setup.public_url.as_deref());
    pages::form(&pages::Form {
        web_url: &setup.github.web_url,
        org,
        state: &setup.new_state(),
        token: &query.token,
        manifest: &manifest,
        has_public_url: setup.public_url.is_some(),
    })
}

fn is_account_name(name: &str) -> bool {
    (1..=100).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

/// `GET /setup/callback`: GitHub sends the browser back with a code that is exchanged once for
/// the credentials. The state proves that our page sent it there.
pub(super) async fn callback(State(state): State<Arc<WebState>>, Query(query): Query<CallbackQuery>) -> Response {
    let Some(setup) = &state.setup else {
        return pages::refusal(StatusCode::NOT_FOUND, "There is no set-up page.");
    };
    if !setup.use_state(&query.state) {
        return pages::refusal(
            StatusCode::FORBIDDEN,
            "This answer does not belong to an open set-up page. Open the page again and start over.",
        );
    }
    let code_ok = (1..=200).contains(&query.code.len())
        && query
            .code
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    if !code_ok {
        return pages::refusal(
            StatusCode::BAD_REQUEST,
            "GitHub's code is missing or malformed. Start over.",
        );
    }
    let _only_one = setup.storing.lock().await;
    if setup.is_done() {
        return pages::refusal(
            StatusCode::CONFLICT,
            "An App is configured already; this one was not stored.",
        );
    }
    let app = match GitHub::convert_manifest(&setup.github, &query.code).await {
        Ok(app) => app,
        Err(error) => {
            tracing::error!(%error, "GitHub did not hand out the App's credentials");
            return pages::refusal(
                StatusCode::BAD_GATEWAY,
                &format!(
                    "GitHub did not hand out the App's credentials: {error}. Open the set-up page again and start over."
                ),
            );
        }
    };
    let folder = setup.state_dir.clone();
    let page = pages::done(&setup.github.web_url, &app.slug, &app.html_url);
    let slug = app.slug.clone();
    match tokio::task::spawn_blocking(move || credentials::store(&folder, &app)).await {
        Ok(Ok(())) => {
            tracing::info!(slug, "the App is registered; restart the service to use it");
            page
        }
        Ok(Err(error)) => {
            tracing::error!(
                error = format!("{error:#}"),
                slug,
                "the App is registered, but its credentials could not be stored"
            );
            pages::refusal(
                StatusCode::INTERNAL_SERVER_ERROR,
                &format!(
                    "The App {slug} is registered, but its credentials could not be stored: {error:#}. Delete the App on GitHub, repair this, and start over."
                ),
            )
        }
        Err(_) => pages::refusal(StatusCode::SERVICE_UNAVAILABLE, "The service is stopping."),
    }
}

#[cfg(test)]
mod tests;
