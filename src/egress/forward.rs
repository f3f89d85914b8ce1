//! Plain http through the proxy: one request to a vetted address, without what belongs to the hop
//! before. Called by the proxy. Never follows a redirect: the client does, and each hop is judged.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use http_body_util::{BodyDataStream, BodyExt as _, StreamBody};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::header::{self, HeaderMap, HeaderName};
use hyper::{Method, Request, Response};

use super::authority::Authority;
use super::refusal::Refusal;
use super::registry;
use super::serve::{Body, Refused, Shared};

/// Longest time to reach a server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest silence of a server.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// What may be asked for in plain http.
const METHODS: [Method; 7] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::OPTIONS,
];

/// Headers that speak of one connection and not of the request (RFC 9110, 7.6.1).
const HOP: [HeaderName; 9] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Passes one request on.
pub(super) async fn pass(shared: &Arc<Shared>, request: Request<Incoming>) -> Result<Response<Body>, Refused> {
    let asked = request
        .uri()
        .authority()
        .map_or("", |authority| authority.as_str())
        .to_owned();
    let refused = |refusal| Refused {
        host: asked.clone(),
        refusal,
    };
    let authority = judge(shared, &request, &asked).map_err(refused)?;
    if let Some(wanted) = shared.registries.wanted(&authority, request.uri().path()) {
        let permitted = shared.policy.permit_narrowed(authority.host());
        let wanted = permitted
            .and_then(|()| wanted.map_err(Refusal::Path))
            .map_err(refused)?;
        return registry::pass(shared, &request, &wanted).await.map_err(refused);
    }
    shared.policy.permit(authority.host()).map_err(refused)?;
    let addresses = shared.addresses(&authority).await.map_err(refused)?;
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let url = format!("http://{}:{}{path}", authority.host(), authority.port());
    let client = client(&authority, &addresses).map_err(|error| refused(unreachable(&authority, &error)))?;
    let mut outgoing = client.request(request.method().clone(), url);
    outgoing = outgoing.headers(end_to_end(request.headers()));
    if !request.body().is_end_stream() {
        outgoing = outgoing.body(upload(shared, request.into_body()));
    }
    let response = outgoing
        .send()
        .await
        .map_err(|error| refused(unreachable(&authority, &error)))?;
    shared
        .log
        .reached(&format!("{}:{}", authority.host(), authority.port()));
    Ok(download(shared, response))
}

/// What can be said before anything is looked up.
pub(super) fn judge(shared: &Shared, request: &Request<Incoming>, asked: &str) -> Result<Authority, Refusal> {
    if request.uri().scheme_str() != Some("http") {
        return Err(Refusal::Malformed(
            "this is a proxy; it takes CONNECT, or a whole address that begins with http://".to_owned(),
        ));
    }
    let authority = Authority::with_usual_port(asked, 80).map_err(Refusal::Malformed)?;
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let named = hosts.next().and_then(|host| host.to_str().ok());
    let named = named.map(|host| Authority::with_usual_port(host, 80));
    if named != Some(Ok(authority.clone())) || hosts.next().is_some() {
        return Err(Refusal::OtherName(format!(
            "the header `Host` does not name {}, or not once",
            authority.host()
        )));
    }
    if !METHODS.contains(request.method()) {
        return Err(Refusal::Method(format!("{} is not passed on", request.method())));
    }
    shared.meter.request()?;
    let head = request
        .headers()
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len());
    let target = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    shared.meter.sent(head.sum::<usize>() + target)?;
    Ok(authority)
}

/// A client that knows one host, and that at its vetted addresses.
pub(super) fn client(authority: &Authority, addresses: &[SocketAddr]) -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .no_gzip()
        .http1_only()
        .resolve_to_addrs(authority.host(), addresses)
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(IDLE_TIMEOUT)
        .build()
}

/// The headers that belong to the request itself.
pub(super) fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let named = headers.get_all(header::CONNECTION).iter();
    let named: Vec<String> = named
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    let mut kept = headers.clone();
    for name in HOP {
        kept.remove(name);
    }
    for name in named {
        kept.remove(name.as_str());
    }
    kept.remove(header::HOST);
    kept
}

/// The client's body, counted as it goes.
fn upload(shared: &Arc<Shared>, body: Incoming) -> reqwest::Body {
    let shared = shared.clone();
    let counted = BodyDataStream::new(body)
        .map_err(std::io::Error::other)
        .and_then(move |piece| {
            let shared = shared.clone();
            async move {
                shared
                    .meter
                    .sent(piece.len())
                    .map_err(|refusal| spent(&shared, &refusal))?;
                shared.meter.pace(piece.len()).await;
                Ok(piece)
            }
        });
    reqwest::Body::wrap_stream(counted)
}

/// The server's answer, counted as it comes.
pub(super) fn download(shared: &Arc<Shared>, response: reqwest::Response) -> Response<Body> {
    let (status, headers) = (response.status(), end_to_end(response.headers()));
    let pieces = counted(shared, response).map(|piece| piece.map(Frame::data));
    let mut answer = Response::new(StreamBody::new(pieces).boxed_unsync());
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    answer
}

/// The pieces of an answer, counted as they come.
pub(super) fn counted(
    shared: &Arc<Shared>,
    response: reqwest::Response,
) -> impl Stream<Item = std::io::Result<Bytes>> + Send + use<> {
    let shared = shared.clone();
    response
        .bytes_stream()
        .map_err(std::io::Error::other)
        .and_then(move |piece| {
            let shared = shared.clone();
            async move {
                shared
                    .meter
                    .received(piece.len())
                    .map_err(|refusal| spent(&shared, &refusal))?;
                shared.meter.pace(piece.len()).await;
                Ok(piece)
            }
        })
}

/// A cap that was reached on the way is a row, too.
fn spent(shared: &Shared, refusal: &Refusal) -> std::io::Error {
    shared.log.blocked("this run", refusal);
    std::io::Error::other(refusal.words())
}

/// The innermost cause says it best.
pub(super) fn unreachable(authority: &Authority, error: &reqwest::Error) -> Refusal {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    Refusal::Unreachable(format!("{} cannot be reached: {cause}", authority.host()))
}
