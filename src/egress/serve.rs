//! The proxy's end of the socket: connections in, one answer for each request. Called by the door.
//! Never reads more of a request than its head before it has decided.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::authority::Authority;
use super::log::Log;
use super::meter::Meter;
use super::policy::Policy;
use super::refusal::Refusal;
use super::registry::Registries;
use super::{forward, tunnel};
use crate::net::{NetError, Vetting};

/// Longest time for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(20);

/// Largest head of a request.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Pause after the machine could not give another connection.
const BREATH: Duration = Duration::from_millis(100);

/// Body of an answer.
pub(super) type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// One of the connections that a run may have at a time.
pub(super) type Place = Arc<OwnedSemaphorePermit>;

/// Everything the connections of one run share.
pub(super) struct Shared {
    pub(super) policy: Policy,
    pub(super) vetting: Vetting,
    pub(super) registries: Registries,
    /// Clients of registries, by address.
    pub(super) clients: tokio::sync::Mutex<HashMap<String, reqwest::Client>>,
    pub(super) meter: Meter,
    pub(super) log: Log,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
}

/// A request that ends here, with the host it was for.
pub(super) struct Refused {
    pub(super) host: String,
    pub(super) refusal: Refusal,
}

impl Shared {
    /// Where a permitted host is: one look-up, whose every answer was vetted.
    pub(super) async fn addresses(&self, authority: &Authority) -> Result<Vec<std::net::SocketAddr>, Refusal> {
        let found = self.vetting.addresses(authority.address()).await;
        found.map_err(|error| match error {
            NetError::Refused(why) => Refusal::Private {
                host: authority.host().to_owned(),
                port: authority.port(),
                why,
            },
            NetError::Failed(why) => Refusal::Unreachable(why),
        })
    }
}

/// Takes connections until the run stops.
pub(super) async fn serve(listener: UnixListener, shared: Arc<Shared>) {
    loop {
        let accepted = tokio::select! {
            () = shared.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(BREATH).await;
            continue;
        };
        let Some(place) = shared.meter.place() else {
            let refusal = Refusal::Spent("as many connections are open as this run may have".to_owned());
            shared.log.blocked("another connection", &refusal);
            continue;
        };
        let talk = converse(stream, shared.clone(), Arc::new(place));
        shared.tasks.spawn(bounded(shared.clone(), talk));
    }
}

/// Ends with the run, or when its time is over.
pub(super) async fn bounded(shared: Arc<Shared>, work: impl Future<Output = ()>) {
    tokio::select! {
        () = shared.stop.cancelled() => {}
        _ = tokio::time::timeout(shared.meter.connection_time(), work) => {}
    }
}

async fn converse(stream: UnixStream, shared: Arc<Shared>, place: Place) {
    let service = service_fn(move |request| {
        let (shared, place) = (shared.clone(), place.clone());
        async move { Ok::<_, Infallible>(answer(&shared, request, place).await) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(100);
    // A client that breaks off or sends nonsense got its answer, if any, from the reader of heads.
    let _ = http
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
}

async fn answer(shared: &Arc<Shared>, request: Request<Incoming>, place: Place) -> Response<Body> {
    let answered = match *request.method() {
        Method::CONNECT => tunnel::open(shared, request, place).await,
        _ => forward::pass(shared, request).await,
    };
    answered.unwrap_or_else(|Refused { host, refusal }| {
        shared.log.blocked(&host, &refusal);
        no(&refusal)
    })
}

/// The answer that says why.
fn no(refusal: &Refusal) -> Response<Body> {
    let mut text = match refusal.is_policy() {
        true => format!("blocked by the sandbox's proxy: {}\n", refusal.words()),
        false => format!("{}\n", refusal.words()),
    };
    if let Some(line) = refusal.remedy() {
        text.push_str(&format!("An administrator can allow it with {line}\n"));
    }
    let mut response = Response::new(whole(text));
    *response.status_mut() = refusal.status();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// A body that is there already.
pub(super) fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never: Infallible| match never {})
        .boxed_unsync()
}
