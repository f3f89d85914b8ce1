//! Reading from a registry in place of a sandbox: the proxy itself speaks TLS to the server, so that
//! it sees method and path. Called by the proxy. Never sends a header, a query or a body that a
//! command made up, beyond what caches and package managers need.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response};
use url::Url;

use super::grammar::Role;
use super::rewrite::Rewriter;
use super::{Base, Wanted};
use crate::egress::forward;
use crate::egress::refusal::Refusal;
use crate::egress::serve::{Body, Shared, whole};

/// Headers of a request that are passed on, if they are short.
const PASSED: [HeaderName; 5] = [
    header::ACCEPT,
    header::RANGE,
    header::IF_RANGE,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
];

/// Longest value of such a header.
const MAX_VALUE_BYTES: usize = 300;

/// Largest description of a registry.
const MAX_CONFIG_BYTES: usize = 64 * 1024;

/// Reads for a sandbox what it wants from a registry.
pub(in crate::egress) async fn pass(
    shared: &Arc<Shared>,
    request: &Request<Incoming>,
    wanted: &Wanted,
) -> Result<Response<Body>, Refusal> {
    let (base, path) = (&wanted.base, request.uri().path());
    let host = base.authority().host();
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(Refusal::Method(format!(
            "{host} is a registry, which is only read from: {} is not passed on",
            request.method()
        )));
    }
    let scheme = if base.is_https() { "https" } else { "http" };
    let url = Url::parse(&format!("{scheme}://{host}:{}{path}", base.authority().port()));
    let url = match url {
        Ok(url) if url.path() == path && request.uri().query().is_none() => url,
        _ => {
            return Err(Refusal::Path(format!(
                "{host} is a registry, and this is no address of packages there"
            )));
        }
    };
    let client = client(shared, base).await?;
    let mut outgoing = client
        .request(request.method().clone(), url)
        .header(header::USER_AGENT, concat!("forgehand/", env!("CARGO_PKG_VERSION")));
    for name in PASSED {
        let value = request.headers().get(&name);
        if let Some(value) = value.filter(|value| value.len() <= MAX_VALUE_BYTES) {
            outgoing = outgoing.header(name, value);
        }
    }
    let response = outgoing.send().await;
    let response = response.map_err(|error| forward::unreachable(base.authority(), &error))?;
    shared.log.reached(&format!("{host}:{}", base.authority().port()));
    let is_text = response.status().is_success() && *request.method() == Method::GET;
    match (wanted.role, is_text) {
        (Role::CargoConfig, true) => cargo_config(shared, wanted, response).await,
        (Role::Index, true) => Ok(rewritten(shared, wanted, response)),
        _ => Ok(located(shared, wanted, forward::download(shared, response))),
    }
}

/// One client for each registry of the run, at the addresses that were vetted when it was made.
async fn client(shared: &Arc<Shared>, base: &Base) -> Result<reqwest::Client, Refusal> {
    let key = base.outer();
    if let Some(client) = shared.clients.lock().await.get(&key) {
        return Ok(client.clone());
    }
    let addresses = shared.addresses(base.authority()).await?;
    let client = forward::client(base.authority(), &addresses)
        .map_err(|error| forward::unreachable(base.authority(), &error))?;
    Ok(shared.clients.lock().await.entry(key).or_insert(client).clone())
}

/// Where a redirect within the registry leads, as a sandbox asks for it.
fn located(shared: &Arc<Shared>, wanted: &Wanted, mut answer: Response<Body>) -> Response<Body> {
    let to = answer.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
    if let Some(to) = to {
        let mut rewriter = Rewriter::new(shared.registries.translations(wanted));
        let mut inner = rewriter.push(to.as_bytes());
        inner.extend(rewriter.finish());
        if let Ok(inner) = HeaderValue::from_bytes(&inner) {
            answer.headers_mut().insert(header::LOCATION, inner);
        }
    }
    answer
}

/// An index whose addresses lead back to the proxy.
fn rewritten(shared: &Arc<Shared>, wanted: &Wanted, response: reqwest::Response) -> Response<Body> {
    let rewriter = Rewriter::new(shared.registries.translations(wanted));
    let (status, mut headers) = (response.status(), forward::end_to_end(response.headers()));
    headers.remove(header::CONTENT_LENGTH);
    let pieces = Box::pin(forward::counted(shared, response));
    let pieces = stream::unfold(Some((pieces, rewriter)), |state| async {
        let (mut pieces, mut rewriter) = state?;
        match pieces.next().await {
            Some(Ok(piece)) => Some((Ok(Bytes::from(rewriter.push(&piece))), Some((pieces, rewriter)))),
            Some(Err(error)) => Some((Err(error), None)),
            None => Some((Ok(Bytes::from(rewriter.finish())), None)),
        }
    });
    let mut answer = Response::new(StreamBody::new(pieces.map(|piece| piece.map(Frame::data))).boxed_unsync());
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    answer
}

/// Cargo's description of a registry names the server of its files: the registry's own word, which
/// counts for this run.
async fn cargo_config(
    shared: &Arc<Shared>,
    wanted: &Wanted,
    mut response: reqwest::Response,
) -> Result<Response<Body>, Refusal> {
    let mut bytes = Vec::new();
    let broken = |why: &str| Refusal::Unreachable(format!("{}: {why}", wanted.base.authority().host()));
    while let Some(piece) = response.chunk().await.map_err(|error| broken(&error.to_string()))? {
        shared.meter.received(piece.len())?;
        bytes.extend_from_slice(&piece);
        if bytes.len() > MAX_CONFIG_BYTES {
            return Err(broken("its description is too long"));
        }
    }
    let config: serde_json::Value = serde_json::from_slice(&bytes).map_err(|_| broken("its description is no JSON"))?;
    let files = config.get("dl").and_then(serde_json::Value::as_str).unwrap_or_default();
    if let Ok(base) = Base::parse(files_below(files)) {
        shared.registries.learn(wanted, base);
    }
    let mut rewriter = Rewriter::new(shared.registries.translations(wanted));
    let mut text = rewriter.push(&bytes);
    text.extend(rewriter.finish());
    let mut answer = Response::new(whole(text));
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    Ok(answer)
}

/// The part of a download address that is the same for all files.
fn files_below(address: &str) -> &str {
    match address.find('{') {
        Some(at) => &address[..address[..at].rfind('/').map_or(0, |slash| slash + 1)],
        None => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_files_have_in_common() {
        for (address, expected) in [
            ("https://static.example/crates", "https://static.example/crates"),
            (
                "https://static.example/{crate}/{crate}-{version}.crate",
                "https://static.example/",
            ),
            ("https://static.example/a/x-{crate}/y", "https://static.example/a/"),
            ("{crate}", ""),
        ] {
            assert_eq!(files_below(address), expected);
        }
    }
}
