//! `POST /webhook`: checks the signature over the raw bytes, has the delivery made durable and
//! answers 2xx only then. Everything that is not a signed JSON delivery is refused before it is
//! parsed. Never calls GitHub, never answers 5xx for what a sender can choose.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;

use super::WebState;
use super::body::{BodyError, MAX_BODY_BYTES, Unverified};
use crate::intake::{Accepted, BadDelivery, Delivery, Verdict, accept};

/// Bodies that are read at once; with what one may keep in memory this bounds what strangers
/// can make us hold.
static READING: Semaphore = Semaphore::const_new(256);

/// Large verified bodies that are parsed at once: parsed JSON takes several times its size.
static PARSING_LARGE: Semaphore = Semaphore::const_new(2);

/// Longest wait for one of those places.
const PLACE_TIMEOUT: Duration = Duration::from_secs(3);

/// GitHub gives up after ten seconds; a database that needs longer than this is told to GitHub
/// as a failure, and the redelivery is harmless.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(6);

/// Events that are counted by name. Others share one counter, so that nobody invents thousands.
const COUNTED_EVENTS: [&str; 9] = [
    "installation",
    "installation_repositories",
    "issue_comment",
    "issues",
    "ping",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "repository",
];

/// Why a call is not accepted.
#[derive(Debug)]
enum Refusal {
    Unsigned,
    NotJsonContent,
    Encoded,
    TooLarge,
    TooSlow,
    Broken,
    Malformed(String),
    Busy,
    NoSecret,
    NoDatabase,
}

/// The route.
pub(super) async fn receive(State(state): State<Arc<WebState>>, request: Request) -> Response {
    let started = Instant::now();
    let (parts, body) = request.into_parts();
    let event = counted_event(&parts.headers);
    let result = take(&state, &parts.headers, body).await;
    let outcome = match &result {
        Ok(accepted) => accepted.verdict.as_str(),
        Err(refusal) => refusal.word(),
    };
    // Before the signature is checked, the event's name is a stranger's choice.
    let event = if result.is_ok() { event } else { "unknown" };
    metrics::counter!("forgehand_deliveries_total", "event" => event, "outcome" => outcome).increment(1);
    metrics::histogram!("forgehand_delivery_answer_seconds").record(started.elapsed().as_secs_f64());
    match result {
        Ok(accepted) => (StatusCode::ACCEPTED, Json(answer(&accepted))).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

fn answer(accepted: &Accepted) -> serde_json::Value {
    serde_json::json!({ "outcome": accepted.verdict.as_str(), "detail": accepted.outcome })
}

async fn take(state: &WebState, headers: &HeaderMap, body: Body) -> Result<Accepted, Refusal> {
    let signature = check_headers(headers)?;
    if state.webhook_secrets.is_empty() {
        return Err(Refusal::NoSecret);
    }
    let delivery = {
        let _place = place(&READING).await?;
        let unverified = Unverified::read(body, &state.webhook_secrets).await?;
        let _large = if unverified.is_large() {
            Some(place(&PARSING_LARGE).await?)
        } else {
            None
        };
        let bytes = unverified.verified(&signature).await?.ok_or(Refusal::Unsigned)?;
        read_delivery(state, headers, bytes).await?
    };
    match tokio::time::timeout(ACCEPT_TIMEOUT, accept(&state.store, &delivery, &state.rules)).await {
        Ok(Ok(accepted)) => {
            log(&delivery, &accepted);
            Ok(accepted)
        }
        Ok(Err(error)) => {
            tracing::error!(guid = %delivery.guid, %error, "a delivery could not be stored; GitHub was told so");
            Err(Refusal::NoDatabase)
        }
        Err(_) => {
            tracing::error!(guid = %delivery.guid, "a delivery was not stored within {ACCEPT_TIMEOUT:?}; GitHub was told so");
            Err(Refusal::NoDatabase)
        }
    }
}

/// Bodies up to this size are parsed where they were read: it takes less than handing them over.
const SMALL_BODY_BYTES: usize = 64 * 1024;

/// Parsing is work for the processor, up to a second for the largest body.
async fn read_delivery(state: &WebState, headers: &HeaderMap, bytes: Vec<u8>) -> Result<Delivery, Refusal> {
    let header = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned()
    };
    let (guid, event) = (header("x-github-delivery"), header("x-github-event"));
    let received_at = state.clock.now();
    if bytes.len() <= SMALL_BODY_BYTES {
        return Delivery::parse(&guid, &event, bytes, received_at)
            .map_err(|bad: BadDelivery| Refusal::Malformed(bad.to_string()));
    }
    let parsed = tokio::task::spawn_blocking(move || Delivery::parse(&guid, &event, bytes, received_at)).await;
    match parsed {
        Ok(delivery) => delivery.map_err(|bad: BadDelivery| Refusal::Malformed(bad.to_string())),
        Err(_) => Err(Refusal::Busy), // only while the process ends
    }
}

fn log(delivery: &Delivery, accepted: &Accepted) {
    let Delivery {
        guid, event, action, ..
    } = delivery;
    match accepted.verdict {
        Verdict::Applied | Verdict::Refused => {
            tracing::info!(
                guid,
                event,
                action,
                verdict = accepted.verdict.as_str(),
                outcome = accepted.outcome,
                "delivery"
            );
        }
        Verdict::Ignored | Verdict::Duplicate => {
            tracing::debug!(
                guid,
                event,
                action,
                verdict = accepted.verdict.as_str(),
                outcome = accepted.outcome,
                "delivery"
            );
        }
    }
}

async fn place(places: &'static Semaphore) -> Result<tokio::sync::SemaphorePermit<'static>, Refusal> {
    match tokio::time::timeout(PLACE_TIMEOUT, places.acquire()).await {
        Ok(Ok(permit)) => Ok(permit),
        _ => Err(Refusal::Busy),
    }
}

/// Everything that can be refused without reading the body; gives the signature.
fn check_headers(headers: &HeaderMap) -> Result<[u8; 32], Refusal> {
    if headers
        .get(header::CONTENT_ENCODING)
        .is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return Err(Refusal::Encoded);
    }
    let media_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/json") {
        return Err(Refusal::NotJsonContent);
    }
    let signature = signature(headers).ok_or(Refusal::Unsigned)?;
    let declared = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|length| length > MAX_BODY_BYTES) {
        return Err(Refusal::TooLarge);
    }
    Ok(signature)
}

/// The one SHA-256 signature. Two are one too many: which of them would count?
fn signature(headers: &HeaderMap) -> Option<[u8; 32]> {
    let mut all = headers.get_all("x-hub-signature-256").iter();
    let (only, None) = (all.next()?, all.next()) else {
        return None;
    };
    let digits = only.as_bytes().strip_prefix(b"sha256=")?;
    let mut signature = [0; 32];
    hex::decode_to_slice(digits, &mut signature).ok()?;
    Some(signature)
}

fn counted_event(headers: &HeaderMap) -> &'static str {
    let event = headers
        .get("x-github-event")
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    COUNTED_EVENTS
        .into_iter()
        .find(|known| *known == event)
        .unwrap_or("other")
}

impl From<BodyError> for Refusal {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge => Refusal::TooLarge,
            BodyError::TooSlow => Refusal::TooSlow,
            BodyError::Broken => Refusal::Broken,
            BodyError::NoSpace(error) => {
                tracing::error!(%error, "a large delivery could not be kept in a temporary file");
                Refusal::Busy
            }
        }
    }
}

impl Refusal {
    /// The word in metrics.
    fn word(&self) -> &'static str {
        match self {
            Refusal::Unsigned => "unsigned",
            Refusal::NotJsonContent | Refusal::Encoded => "unsupported",
            Refusal::TooLarge => "too_large",
            Refusal::TooSlow | Refusal::Broken => "incomplete",
            Refusal::Malformed(_) => "malformed",
            Refusal::Busy => "busy",
            Refusal::NoSecret => "no_secret",
            Refusal::NoDatabase => "no_database",
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, problem) = match self {
            Refusal::Unsigned => (
                StatusCode::UNAUTHORIZED,
                "the header X-Hub-Signature-256 does not sign this body",
            ),
            Refusal::NotJsonContent => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "set the webhook's content type to application/json",
            ),
            Refusal::Encoded => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "encoded bodies are not read"),
            Refusal::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the body has more than 25 MiB"),
            Refusal::TooSlow => (StatusCode::REQUEST_TIMEOUT, "the body took longer than 10 seconds"),
            Refusal::Broken => (StatusCode::BAD_REQUEST, "the body is incomplete"),
            Refusal::Malformed(problem) => return error(StatusCode::BAD_REQUEST, &problem),
            Refusal::Busy => (StatusCode::SERVICE_UNAVAILABLE, "too much at once; deliver it again"),
            Refusal::NoSecret => (
                StatusCode::SERVICE_UNAVAILABLE,
                "no webhook secret is configured; set github.webhook_secret or use the set-up page",
            ),
            Refusal::NoDatabase => (
                StatusCode::SERVICE_UNAVAILABLE,
                "the database did not take it; deliver it again",
            ),
        };
        error(status, problem)
    }
}

fn error(status: StatusCode, problem: &str) -> Response {
    (status, Json(serde_json::json!({ "error": problem }))).into_response()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[track_caller]
    fn check(signatures: &[&[u8]], ok: bool) {
        let mut headers = HeaderMap::new();
        for signature in signatures {
            headers.append("x-hub-signature-256", HeaderValue::from_bytes(signature).unwrap());
        }
        assert_eq!(signature(&headers).is_some(), ok);
    }

    #[test]
    fn w05_one_signature_of_64_hex_digits() {
        let good = format!("sha256={}", "a".repeat(64));
        check(&[good.as_bytes()], true);
        check(&[], false);
        check(&[b"sha256="], false);
        check(&[format!("sha256={}", "a".repeat(63)).as_bytes()], false);
        check(&[format!("sha256={}", "a".repeat(65)).as_bytes()], false);
        check(&[format!("sha256={}", "g".repeat(64)).as_bytes()], false);
        check(&[format!("sha1={}", "a".repeat(64)).as_bytes()], false);
        check(&[b"sha256=\xe4\xf6\xfc"], false);
        check(&["a".repeat(64).as_bytes()], false);
        check(&[good.as_bytes(), good.as_bytes()], false);
        check(&[b"sha256=00", good.as_bytes()], false);
    }
}
