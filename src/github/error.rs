//! Why GitHub did not do something, named by what the caller can do about it, and the one
//! function that reads an answer's status, headers and words into such a reason.
//! Called by `client`. Never retries, never waits.

use chrono::{DateTime, TimeDelta, Utc};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde::Deserialize;

use crate::text;

use super::gate::RateLimit;

/// Why GitHub did not do it, named by what the caller can do.
#[derive(Debug, Clone, thiserror::Error)]
pub enum GitHubError {
    /// The object does not exist, or we may not know that it does (404, 410).
    #[error("GitHub does not find {what}")]
    NotFound {
        /// Method and path.
        what: String,
    },
    /// Our credentials are refused (401), also after a fresh token.
    #[error("GitHub refuses our credentials for {what}: {detail}")]
    Unauthorized {
        /// Method and path.
        what: String,
        /// GitHub's words.
        detail: String,
    },
    /// We lack a permission (403 without a rate limit).
    #[error("GitHub forbids {what}: {detail}")]
    Forbidden {
        /// Method and path.
        what: String,
        /// GitHub's words.
        detail: String,
    },
    /// Wait until then; costs no attempt.
    #[error("GitHub limits our rate until {until}")]
    RateLimited {
        /// When to try again.
        until: DateTime<Utc>,
        /// How GitHub told of it.
        limit: RateLimit,
    },
    /// Nothing was sent: the limits that we keep to leave no room before then. Costs no attempt.
    #[error("{why}; nothing is sent until {}", until.format("%Y-%m-%d %H:%M:%S UTC"))]
    Held {
        /// When to try again.
        until: DateTime<Utc>,
        /// Which limit.
        why: String,
    },
    /// It already exists or conflicts (409, 422 "already exists"): look it up.
    #[error("GitHub reports a conflict for {what}: {detail}")]
    Conflict {
        /// Method and path.
        what: String,
        /// GitHub's words.
        detail: String,
    },
    /// Nothing was done, because the repository has another name now: look it up.
    #[error("GitHub did not do {what}: it has moved; look up its new name")]
    Moved {
        /// Method and path.
        what: String,
    },
    /// It will never be accepted like this (other 4xx).
    #[error("GitHub rejects {what}: {detail}")]
    Rejected {
        /// Method and path.
        what: String,
        /// GitHub's words.
        detail: String,
    },
    /// Nothing was sent: the caller's right to it was over when its turn came.
    #[error("{what} was not sent, because the right to it may be over")]
    Withheld {
        /// Method and path.
        what: String,
    },
    /// Nothing was sent: the connection failed first. Safe to try again.
    #[error("GitHub cannot be reached: {detail}")]
    Unreachable {
        /// The reason.
        detail: String,
    },
    /// It was sent and the outcome is unknown (timeout, reset, 5xx, an answer that does not parse).
    #[error("GitHub did not answer clearly to {what}: {detail}")]
    Unclear {
        /// Method and path.
        what: String,
        /// The reason.
        detail: String,
    },
}

#[cfg(feature = "failpoints")]
impl From<crate::fault::Injected> for GitHubError {
    fn from(injected: crate::fault::Injected) -> Self {
        GitHubError::Unclear {
            what: "a call".to_owned(),
            detail: injected.to_string(),
        }
    }
}

impl GitHubError {
    /// Whether the App is not installed on the repository any more, or is suspended: no token is
    /// minted, and no further call will change that.
    pub fn is_of_installation(&self) -> bool {
        match self {
            GitHubError::NotFound { what } => what.ends_with("/access_tokens"),
            // A token with a permission that was not granted says nothing about the others.
            GitHubError::Forbidden { what, detail } => {
                what.ends_with("/access_tokens") && !detail.to_lowercase().contains("permissions requested")
            }
            // A permission that the App lacks is refused with the same status.
            GitHubError::Rejected { what, detail } => {
                what.ends_with("/access_tokens") && detail.to_lowercase().contains("repository")
            }
            _ => false,
        }
    }

    /// Whether a review was refused because one of its comments stands on a line, range or file
    /// that is not in the diff. GitHub does not say which.
    pub fn is_bad_anchor(&self) -> bool {
        let GitHubError::Rejected { detail, .. } = self else {
            return false;
        };
        let lower = detail.to_lowercase();
        [
            "could not be resolved",
            "part of the diff",
            "same hunk",
            "path is invalid",
        ]
        .iter()
        .any(|words| lower.contains(words))
    }
}

/// Without any hint, GitHub asks to wait at least a minute.
pub(super) const LEAST_SECONDARY_WAIT: TimeDelta = TimeDelta::seconds(60);

/// No limit of GitHub lasts longer; an answer that says so would park a job for ever.
pub(super) const LONGEST_WAIT: TimeDelta = TimeDelta::hours(24);

/// GitHub's words are for people and go into events and comments.
pub(super) const MAX_DETAIL_CHARS: usize = 300;

/// GitHub's own words in an error's body, in one line, without the rest of it.
pub(super) fn words(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Body {
        #[serde(default)]
        message: String,
        #[serde(default)]
        errors: serde_json::Value,
    }
    let Ok(body) = serde_json::from_slice::<Body>(body) else {
        return "it gave no reason".to_owned();
    };
    let mut words = body.message;
    for error in body.errors.as_array().into_iter().flatten().take(5) {
        let text = error.as_str().or_else(|| error["message"].as_str());
        if let Some(text) = text.or_else(|| error["code"].as_str()) {
            words.push_str("; ");
            words.push_str(text);
        }
    }
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    text::cap_chars(&text::reveal(&line), MAX_DETAIL_CHARS)
}

/// Sorts an answer that is no success.
pub(super) fn classify(
    what: String,
    status: StatusCode,
    headers: &HeaderMap,
    detail: String,
    now: DateTime<Utc>,
) -> GitHubError {
    let exists = || {
        let lower = detail.to_lowercase();
        lower.contains("already exists") || lower.contains("already_exists")
    };
    match status.as_u16() {
        401 => GitHubError::Unauthorized { what, detail },
        403 | 429 => match limited_until(status, headers, &detail, now) {
            Some((until, limit)) => GitHubError::RateLimited { until, limit },
            None => GitHubError::Forbidden { what, detail },
        },
        404 | 410 => GitHubError::NotFound { what },
        409 => GitHubError::Conflict { what, detail },
        422 if exists() => GitHubError::Conflict { what, detail },
        // What came too slowly may have come whole.
        408 => GitHubError::Unclear {
            what,
            detail: format!("status {status}: {detail}"),
        },
        400..=499 => GitHubError::Rejected { what, detail },
        _ => GitHubError::Unclear {
            what,
            detail: format!("status {status}: {detail}"),
        },
    }
}

/// Until when a 403 or 429 asks us to wait; `None` when it is about a permission.
fn limited_until(
    status: StatusCode,
    headers: &HeaderMap,
    detail: &str,
    now: DateTime<Utc>,
) -> Option<(DateTime<Utc>, RateLimit)> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<i64>().ok();
    let latest = now + LONGEST_WAIT;
    if let Some(seconds) = number("retry-after") {
        let wait = TimeDelta::try_seconds(seconds.max(1)).unwrap_or(LONGEST_WAIT);
        return Some(((now + wait.min(LONGEST_WAIT)).max(now), RateLimit::Asked));
    }
    if number("x-ratelimit-remaining") == Some(0) {
        let reset = number("x-ratelimit-reset").and_then(|at| DateTime::from_timestamp(at, 0));
        let reset = reset.unwrap_or(now + LEAST_SECONDARY_WAIT);
        return Some((reset.clamp(now + TimeDelta::seconds(1), latest), RateLimit::Spent));
    }
    let lower = detail.to_lowercase();
    let secondary = status == StatusCode::TOO_MANY_REQUESTS || lower.contains("rate limit") || lower.contains("abuse");
    secondary.then_some((now + LEAST_SECONDARY_WAIT, RateLimit::Unnamed))
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderName;

    use super::*;

    const NOW: i64 = 1_800_000_000;

    #[track_caller]
    fn check(status: u16, headers: &[(&'static str, &str)], body: &str, expected: &str) {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        let status = StatusCode::from_u16(status).unwrap();
        let now = DateTime::from_timestamp(NOW, 0).unwrap();
        let error = classify("GET /x".to_owned(), status, &headers, words(body.as_bytes()), now);
        let seen = match &error {
            GitHubError::RateLimited { until, .. } => format!("limited {}", until.timestamp() - NOW),
            other => other.to_string(),
        };
        assert_eq!(seen, expected, "{status} {headers:?} {body}");
    }

    #[test]
    fn rate_limits_are_told_from_missing_permissions() {
        check(403, &[("retry-after", "30")], "{}", "limited 30");
        check(429, &[("retry-after", "7")], "{}", "limited 7");
        check(403, &[("retry-after", "99999999999999")], "{}", "limited 86400");
        check(403, &[("retry-after", "-5")], "{}", "limited 1");
        let reset = (NOW + 1200).to_string();
        check(
            403,
            &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &reset)],
            "{}",
            "limited 1200",
        );
        check(
            403,
            &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "5")],
            "{}",
            "limited 1",
        );
        check(403, &[("x-ratelimit-remaining", "0")], "{}", "limited 60");
        check(
            403,
            &[],
            r#"{"message":"You have exceeded a secondary rate limit"}"#,
            "limited 60",
        );
        check(429, &[], "<html>", "limited 60");
        check(
            403,
            &[("x-ratelimit-remaining", "4000")],
            r#"{"message":"Resource not accessible by integration"}"#,
            "GitHub forbids GET /x: Resource not accessible by integration",
        );
    }

    #[test]
    fn the_other_answers_are_sorted_by_what_the_caller_can_do() {
        check(
            401,
            &[],
            r#"{"message":"Bad credentials"}"#,
            "GitHub refuses our credentials for GET /x: Bad credentials",
        );
        check(404, &[], r#"{"message":"Not Found"}"#, "GitHub does not find GET /x");
        check(410, &[], "", "GitHub does not find GET /x");
        check(
            409,
            &[],
            r#"{"message":"Git Repository is empty."}"#,
            "GitHub reports a conflict for GET /x: Git Repository is empty.",
        );
        check(
            422,
            &[],
            r#"{"message":"Validation Failed","errors":[{"resource":"PullRequest","code":"custom","message":"A pull request already exists for o:b."}]}"#,
            "GitHub reports a conflict for GET /x: Validation Failed; A pull request already exists for o:b.",
        );
        check(
            422,
            &[],
            r#"{"message":"Validation Failed","errors":[{"code":"already_exists"}]}"#,
            "GitHub reports a conflict for GET /x: Validation Failed; already_exists",
        );
        check(
            422,
            &[],
            r#"{"message":"Validation Failed","errors":["No commits"]}"#,
            "GitHub rejects GET /x: Validation Failed; No commits",
        );
        check(
            400,
            &[],
            r#"{"message":null}"#,
            "GitHub rejects GET /x: it gave no reason",
        );
        check(
            502,
            &[],
            "<html>",
            "GitHub did not answer clearly to GET /x: status 502 Bad Gateway: it gave no reason",
        );
    }

    #[test]
    fn words_are_cut_and_hide_nothing() {
        let long = format!(r#"{{"message":"{}"}}"#, "x".repeat(5_000));
        assert_eq!(words(long.as_bytes()).chars().count(), MAX_DETAIL_CHARS);
        assert_eq!(words("{\"message\":\"a\\u202eb\\nc\"}".as_bytes()), "a⟦U+202E⟧b c");
    }
}
