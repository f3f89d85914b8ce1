//! The socket's side of the double: takes a request in, lets faults strike, records it, sends the
//! answer. Called for every connection. Never routes by itself.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request, State as Shared};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::StreamExt as _;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::secret::random_hex;

use super::access::fingerprint;
use super::answer::{Answer, Refused};
use super::fault::{Fault, hold, strike};
use super::ledger::Recorded;
use super::queue::etag;
use super::routes::Call;
use super::state::{RateWindow, State};
use super::wire::{Shears, Wire};
use super::{GitHubDouble, WeakDouble, git_http};

/// Far more than any request of the API.
const MAX_REQUEST_BYTES: usize = 10 * 1024 * 1024;

/// Serves until `stop`.
pub(super) async fn serve(listener: Wire, double: WeakDouble, stop: CancellationToken) {
    let app = Router::new().fallback(handle).with_state((double, stop.clone()));
    let service = app.into_make_service_with_connect_info::<Shears>();
    let serving = axum::serve(listener, service).into_future();
    tokio::select! {
        () = stop.cancelled() => {}
        outcome = serving => if let Err(error) = outcome {
            tracing::warn!(%error, "the GitHub double stopped serving");
        },
    }
}

/// What an order about faults means before the request is looked at.
pub(super) enum Struck {
    /// Nothing of it happens; this is answered.
    Instead(Response<Body>),
    /// It happens, and `after` decides about the answer.
    Apply(Option<Fault>),
}

/// How this connection is answered when a fault strikes.
pub(super) struct Exit {
    pub(super) shears: Shears,
    pub(super) stop: CancellationToken,
}

impl Exit {
    fn torn(&self) -> Response<Body> {
        self.shears.cut();
        Response::new(Body::empty())
    }

    async fn hang(&self) -> Response<Body> {
        self.stop.cancelled().await;
        self.torn()
    }

    pub(super) async fn before(&self, fault: Option<Fault>) -> Struck {
        match fault {
            Some(Fault::Status(status, headers, body)) => Struck::Instead(raw(status, &headers, body)),
            Some(Fault::ResetBeforeApply | Fault::ApplyLate(_)) => Struck::Instead(self.torn()),
            Some(Fault::Hang) => Struck::Instead(self.hang().await),
            other => Struck::Apply(other),
        }
    }

    pub(super) async fn after(&self, fault: Option<Fault>, answer: Response<Body>) -> Response<Body> {
        match fault {
            Some(Fault::ApplyThenReset) => self.torn(),
            Some(Fault::ApplyThenHang) => self.hang().await,
            Some(Fault::ApplyThenStatus(status, headers, body)) => raw(status, &headers, body),
            Some(Fault::ApplyThenCut) => in_pieces(answer, Duration::ZERO, Ending::Broken).await,
            Some(Fault::ApplyThenTrickle(over)) => in_pieces(answer, over, Ending::Whole).await,
            _ => answer,
        }
    }
}

async fn handle(
    Shared((double, stop)): Shared<(WeakDouble, CancellationToken)>,
    ConnectInfo(shears): ConnectInfo<Shears>,
    request: Request,
) -> Response<Body> {
    let exit = Exit { shears, stop };
    let (parts, body) = request.into_parts();
    if let Some(target) = git_http::target(parts.uri.path()) {
        return git_http::serve(&double, &exit, target, parts, body).await;
    }
    let Ok(body) = axum::body::to_bytes(body, MAX_REQUEST_BYTES).await else {
        return send(Answer::from(Refused::new(413, "the request is too large or broke off")));
    };
    let mut response = rest(&double, &exit, &parts, &body).await;
    // The HTTP server would put the machine's clock there.
    if let Some(double) = double.upgrade() {
        let date = double.lock().now().format("%a, %d %b %Y %H:%M:%S GMT").to_string();
        if let Ok(date) = HeaderValue::from_str(&date) {
            response.headers_mut().entry(header::DATE).or_insert(date);
        }
    }
    response
}

async fn rest(double: &WeakDouble, exit: &Exit, parts: &Parts, body: &Bytes) -> Response<Body> {
    let (fault, held, applied) = {
        let Some(double) = double.upgrade() else {
            return exit.torn();
        };
        let mut call = match read(&double, parts, body) {
            Ok(call) => call,
            Err(refused) => return send(refused.into()),
        };
        land(&double).await;
        let fault = strike(&mut double.lock().faults, &call.method, &call.path);
        let held = hold(&mut double.lock().holds);
        if let Some(Fault::StaleList(lag)) = &fault {
            call.hidden_since = Some(double.lock().now() - TimeDelta::from_std(*lag).unwrap_or(TimeDelta::MAX));
        }
        match fault {
            Some(Fault::Status(..) | Fault::ResetBeforeApply | Fault::Hang) => {
                double.lock().record_call(&call, parts, None);
                (fault, held, None)
            }
            Some(Fault::ApplyLate(by)) => {
                let mut state = double.lock();
                let due = state.now() + TimeDelta::from_std(by).unwrap_or(TimeDelta::MAX);
                let parts = parts.clone();
                state.late.push(Late { due, call, parts });
                (fault, held, None)
            }
            fault => {
                let answer = apply(&double, call, parts).await;
                (fault, held, Some(answer))
            }
        }
    };
    if let Some(held) = held {
        held.wait(&exit.stop).await;
    }
    match (exit.before(fault).await, applied) {
        (Struck::Instead(response), _) => response,
        (Struck::Apply(fault), Some(answer)) => exit.after(fault, send(answer)).await,
        (Struck::Apply(_), None) => exit.torn(),
    }
}

/// A request that is still on its way.
pub(super) struct Late {
    due: DateTime<Utc>,
    call: Call,
    parts: Parts,
}

/// Lets arrive what is due.
pub(super) async fn land(double: &GitHubDouble) {
    loop {
        let late = {
            let mut state = double.lock();
            let now = state.now();
            let due = state.late.iter().position(|late| late.due <= now);
            due.map(|at| state.late.remove(at))
        };
        let Some(late) = late else { return };
        apply(double, late.call, &late.parts).await;
    }
}

async fn apply(double: &GitHubDouble, mut call: Call, parts: &Parts) -> Answer {
    match double.compare_for(&call).await {
        Ok(comparison) => call.comparison = comparison,
        Err(error) => {
            tracing::warn!(
                error = format!("{error:#}"),
                "the GitHub double cannot compare branches"
            );
            return Refused::new(500, "Server Error").into();
        }
    }
    let answer = double.change(|state| {
        let now = state.now();
        let left = state.rate.count(now);
        let answer = match left {
            Some(_) => state.answer(&call),
            None => Refused::new(403, "API rate limit exceeded for the installation").into(),
        };
        let answer = state.unless_known(&call, answer);
        state.record_call(&call, parts, Some(&answer));
        let reset = state.rate.reset.timestamp();
        answer
            .header("x-ratelimit-limit", &RateWindow::LIMIT.to_string())
            .header("x-ratelimit-remaining", &left.unwrap_or(0).to_string())
            .header("x-ratelimit-used", &state.rate.used.to_string())
            .header("x-ratelimit-reset", &reset.to_string())
            .header("x-ratelimit-resource", "core")
    });
    if let Err(error) = double.publish_pull_ref(&call, &answer).await {
        tracing::warn!(
            error = format!("{error:#}"),
            "the GitHub double cannot make the ref of a pull request"
        );
    }
    answer
}

fn read(double: &GitHubDouble, parts: &Parts, body: &Bytes) -> Result<Call, Refused> {
    let full = parts.uri.path();
    // GitHub Enterprise has GraphQL beside the REST path.
    let path = full.strip_prefix("/api/v3").unwrap_or(full);
    let path = if path == "/api/graphql" { "/graphql" } else { path };
    let query = parts.uri.query().unwrap_or_default();
    let json = if body.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(body).map_err(|_| Refused::new(400, "Problems parsing JSON"))?
    };
    let authorization = parts.headers.get(header::AUTHORIZATION);
    let known = parts.headers.get(header::IF_NONE_MATCH);
    Ok(Call {
        method: parts.method.as_str().to_owned(),
        path: path.trim_end_matches('/').to_owned(),
        query: url::form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
        body: json,
        authorization: authorization.and_then(|value| value.to_str().ok()).map(str::to_owned),
        if_none_match: known.and_then(|value| value.to_str().ok()).map(str::to_owned),
        address: format!("{}{full}", double.inner.origin),
        hidden_since: None,
        comparison: None,
    })
}

impl State {
    /// What the caller knows already is not sent again, and is not counted.
    fn unless_known(&mut self, call: &Call, answer: Answer) -> Answer {
        if call.method != "GET" || answer.status != 200 {
            return answer;
        }
        let tag = etag(&answer);
        if call.if_none_match.as_ref() != Some(&tag) {
            return answer.header("etag", &tag);
        }
        self.rate.used = self.rate.used.saturating_sub(1);
        Answer::new(304, Value::Null).header("etag", &tag)
    }

    fn record_call(&mut self, call: &Call, parts: &Parts, answer: Option<&Answer>) {
        let token = call.authorization.as_deref().and_then(|text| text.split_once(' '));
        let token = token
            .map(|(_, token)| token.trim())
            .filter(|token| token.matches('.').count() != 2);
        let mut shown = answer.map(|answer| answer.body.clone()).unwrap_or_default();
        for secret in ["token", "pem", "webhook_secret", "client_secret"] {
            if shown[secret].is_string() {
                shown[secret] = "***".into();
            }
        }
        self.record(Recorded {
            at: self.now(),
            method: call.method.clone(),
            path: call.path.clone(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            body: call.body.clone(),
            status: answer.map_or(0, |answer| answer.status),
            answer: shown,
            token: token.map(fingerprint),
        });
    }
}

fn send(answer: Answer) -> Response<Body> {
    let body = match &answer.body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let mut headers = answer.headers;
    headers.push(("x-github-request-id".to_owned(), random_hex::<8>().to_uppercase()));
    headers.push(("x-github-media-type".to_owned(), "github.v3; format=json".to_owned()));
    if !body.is_empty() {
        headers.push(("content-type".to_owned(), "application/json; charset=utf-8".to_owned()));
    }
    raw(answer.status, &headers, body)
}

/// How an answer in pieces ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Whole,
    /// In the middle.
    Broken,
}

/// Pieces of an answer that is slow or breaks off.
const PIECES: usize = 5;

/// The same answer in pieces.
async fn in_pieces(answer: Response<Body>, over: Duration, ending: Ending) -> Response<Body> {
    let (mut parts, body) = answer.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    let bytes = axum::body::to_bytes(body, MAX_REQUEST_BYTES).await.unwrap_or_default();
    let size = bytes.len().div_ceil(PIECES).max(1);
    let mut pieces: Vec<std::io::Result<Bytes>> = bytes
        .chunks(size)
        .map(|piece| Ok(Bytes::copy_from_slice(piece)))
        .collect();
    if ending == Ending::Broken {
        pieces.truncate(PIECES / 2);
        pieces.push(Err(std::io::ErrorKind::ConnectionReset.into()));
    }
    let pause = over / u32::try_from(PIECES).unwrap_or(1);
    let stream = futures_util::stream::iter(pieces).then(move |piece| async move {
        tokio::time::sleep(pause).await;
        piece
    });
    Response::from_parts(parts, Body::from_stream(stream))
}

/// A response as ordered; what is no header is left out.
pub(super) fn raw(status: u16, headers: &[(String, String)], body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let map: HeaderMap = headers
        .iter()
        .filter_map(|(name, value)| Some((name.parse::<HeaderName>().ok()?, HeaderValue::from_str(value).ok()?)))
        .collect();
    *response.headers_mut() = map;
    response
}
