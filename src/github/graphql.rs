//! GraphQL, for the few things that REST cannot do: the state of review threads, and whether a
//! pull request is a draft. An answer says 200 and may still hold errors; they become the same
//! reasons that REST gives. Called by `threads` and `pulls`. Never takes a part for the whole:
//! data that comes with an error is thrown away.

use chrono::{DateTime, TimeDelta, Utc};
use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::text;

use super::RepoClient;
use super::client::Call;
use super::error::{self, GitHubError};
use super::gate::RateLimit;

/// GitHub asks to wait at least a minute when it does not say for how long.
const LEAST_WAIT: TimeDelta = TimeDelta::seconds(60);

/// One kind of question or change, written once.
pub(super) struct Operation {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
}

/// All of them, for the tests that hold them against GitHub's published schema.
#[cfg(test)]
pub(super) fn all_operations() -> Vec<&'static Operation> {
    super::threads::OPERATIONS
        .iter()
        .chain(super::pulls::OPERATIONS)
        .chain(super::queue::OPERATIONS)
        .copied()
        .collect()
}

impl RepoClient {
    /// Asks something.
    pub(super) async fn query<T: DeserializeOwned>(
        &self,
        operation: &Operation,
        variables: Value,
    ) -> Result<T, GitHubError> {
        self.graphql(&call_of(operation, variables).repeatable()).await
    }

    /// Changes something; waits for its turn as every write does and is sent once.
    pub(super) async fn mutate(&self, operation: &Operation, variables: Value) -> Result<(), GitHubError> {
        self.graphql::<Value>(&call_of(operation, variables)).await.map(drop)
    }

    async fn graphql<T: DeserializeOwned>(&self, call: &Call) -> Result<T, GitHubError> {
        #[derive(Deserialize)]
        struct Body {
            #[serde(default)]
            data: Value,
            #[serde(default)]
            errors: Vec<Problem>,
        }
        let answer = self.send(call).await?;
        let body: Body = answer.json(call)?;
        let api = &self.shared.api;
        if let Some(first) = body.errors.first() {
            let words = api.redact(&words(&body.errors));
            let kind = first.kind.as_deref().unwrap_or_default();
            let error = sort(call.what(), kind, words, &answer.headers, api.clock.now());
            return Err(self.limited(call.pool(), error).await);
        }
        serde_json::from_value(body.data).map_err(|error| GitHubError::Unclear {
            what: call.what(),
            detail: format!("the answer does not parse: {error}"),
        })
    }
}

fn call_of(operation: &Operation, variables: Value) -> Call {
    let body = json!({ "query": operation.text, "operationName": operation.name, "variables": variables });
    Call::graphql(operation.name, body)
}

/// One entry of `errors`.
#[derive(Debug, Deserialize)]
struct Problem {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default)]
    message: String,
}

fn words(problems: &[Problem]) -> String {
    let messages: Vec<&str> = problems
        .iter()
        .take(5)
        .map(|problem| problem.message.as_str())
        .collect();
    let line = messages.join("; ").split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        return "it gave no reason".to_owned();
    }
    text::cap_chars(&text::reveal(&line), error::MAX_DETAIL_CHARS)
}

/// What an error's type means to a caller. One without a type is GitHub's own trouble (a query
/// that took too long), and then nobody knows whether a change was made.
fn sort(what: String, kind: &str, detail: String, headers: &HeaderMap, now: DateTime<Utc>) -> GitHubError {
    match kind {
        "RATE_LIMITED" | "RATE_LIMIT" => {
            let reset = headers.get("x-ratelimit-reset").and_then(|value| value.to_str().ok());
            let reset = reset.and_then(|text| text.trim().parse().ok());
            let reset = reset.and_then(|at| DateTime::from_timestamp(at, 0));
            let spent = headers
                .get("x-ratelimit-remaining")
                .is_some_and(|value| value.as_bytes() == b"0");
            let reset = reset.filter(|_| spent);
            let until = reset.unwrap_or(now + LEAST_WAIT);
            GitHubError::RateLimited {
                until: until.clamp(now + TimeDelta::seconds(1), now + error::LONGEST_WAIT),
                limit: reset.map_or(RateLimit::Unnamed, |_| RateLimit::Spent),
            }
        }
        "NOT_FOUND" => GitHubError::NotFound { what },
        "FORBIDDEN" | "INSUFFICIENT_SCOPES" => GitHubError::Forbidden { what, detail },
        "STALE_DATA" => GitHubError::Conflict { what, detail },
        "" | "INTERNAL" | "SERVICE_UNAVAILABLE" | "LOADING" => GitHubError::Unclear { what, detail },
        _ => GitHubError::Rejected { what, detail },
    }
}

#[cfg(test)]
mod tests;
