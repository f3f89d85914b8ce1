//! Every request that came in, in order, with its answer: what tests count to prove that nothing
//! was written twice. Never keeps a token, only its fingerprint.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::GitHubDouble;
use super::state::State;

/// The oldest requests are dropped beyond this many, so that a demo can run for weeks.
const MAX_REQUESTS: usize = 20_000;

/// One request and its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// When it came in.
    pub at: DateTime<Utc>,
    /// Method.
    pub method: String,
    /// Path without the API's prefix and without the query.
    pub path: String,
    /// Query as sent.
    pub query: String,
    /// Request body; `Null` without one.
    pub body: Value,
    /// Status that the world gave (a fault may have kept it from the caller); 0 when a fault
    /// kept the request from being applied at all.
    pub status: u16,
    /// Answer body; `Null` without one.
    pub answer: Value,
    /// Fingerprint of the token; `None` for anonymous callers and the App's own statement.
    pub token: Option<String>,
}

impl Recorded {
    /// Whether it changed, or would have changed, something that people see. Minting and ending
    /// tokens does not.
    pub fn is_write(&self) -> bool {
        let query = self.body["query"].as_str().unwrap_or_default();
        let asks = self.path == "/graphql" && !query.trim_start().starts_with("mutation");
        self.method != "GET"
            && !asks
            && !self.path.ends_with("/access_tokens")
            && !self.path.ends_with("/git-upload-pack")
            && self.path != "/installation/token"
    }
}

impl State {
    pub(super) fn record(&mut self, request: Recorded) {
        if self.requests.len() >= MAX_REQUESTS {
            self.requests.pop_front();
        }
        self.requests.push_back(request);
    }
}

impl GitHubDouble {
    /// All requests in order, reads too.
    pub fn requests(&self) -> Vec<Recorded> {
        self.lock().requests.iter().cloned().collect()
    }

    /// All writes in order.
    pub fn ledger(&self) -> Vec<Recorded> {
        let state = self.lock();
        state
            .requests
            .iter()
            .filter(|request| request.is_write())
            .cloned()
            .collect()
    }

    /// Routes that were asked for and that the double does not have.
    pub fn unknown_routes(&self) -> Vec<String> {
        self.lock().unknown_routes.clone()
    }

    /// Fails by name when a route was asked for that the double does not have.
    ///
    /// # Panics
    /// When there was one.
    #[track_caller]
    pub fn assert_no_unknown_routes(&self) {
        let unknown = self.unknown_routes();
        assert!(unknown.is_empty(), "the GitHub double lacks these routes: {unknown:#?}");
    }
}
