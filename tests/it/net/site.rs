//! A web site on loopback that answers by path and counts who came. Never scripted by order: a
//! page is a page, however often it is asked for.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use futures_util::stream;
use tokio_util::sync::{CancellationToken, DropGuard};

/// One answer.
pub struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Content,
}

enum Content {
    Whole(Vec<u8>),
    /// These bytes again and again, without an end.
    Endless(Vec<u8>),
    /// The head comes and then nothing.
    Silent,
}

impl Answer {
    pub fn text(body: &str) -> Self {
        Self::of("text/plain; charset=utf-8", body)
    }

    pub fn html(body: &str) -> Self {
        Self::of("text/html; charset=utf-8", body)
    }

    pub fn json(body: &serde_json::Value) -> Self {
        Self::of("application/json", body.to_string())
    }

    pub fn of(content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type", content_type.to_owned())],
            body: Content::Whole(body.into()),
        }
    }

    pub fn status(status: u16) -> Self {
        Self {
            status,
            ..Self::text("")
        }
    }

    pub fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    pub fn redirect(to: &str) -> Self {
        Self::status(302).header("location", to)
    }

    pub fn endless(body: &str) -> Self {
        Self {
            body: Content::Endless(body.repeat(1_000).into_bytes()),
            ..Self::text("")
        }
    }

    pub fn silent() -> Self {
        Self {
            body: Content::Silent,
            ..Self::text("")
        }
    }

    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    fn respond(self) -> Response {
        let body = match self.body {
            Content::Whole(bytes) => Body::from(bytes),
            Content::Endless(bytes) => {
                let piece = Bytes::from(bytes);
                Body::from_stream(stream::repeat_with(move || Ok::<_, std::io::Error>(piece.clone())))
            }
            Content::Silent => Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>()),
        };
        let mut response = Response::builder().status(self.status);
        for (name, value) in self.headers {
            response = response.header(name, value);
        }
        response.body(body).expect("a valid answer")
    }
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: String,
    /// Path and query.
    pub path: String,
    pub host: String,
    pub authorization: Option<String>,
}

type Pages = Arc<dyn Fn(&str) -> Answer + Send + Sync>;

#[derive(Clone)]
struct Shared {
    pages: Pages,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// The site. It stops when it is dropped.
pub struct Site {
    authority: String,
    port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    _stop: DropGuard,
}

impl Site {
    /// A site on 127.0.0.1 that answers by path.
    pub async fn start(pages: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1", 0, pages).await
    }

    pub async fn start_at(ip: &str, port: u16, pages: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let shared = Shared {
            pages: Arc::new(pages),
            seen: seen.clone(),
        };
        let app = Router::new().fallback(answer).with_state(shared);
        let listener = tokio::net::TcpListener::bind((ip, port)).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        tokio::spawn(async move { axum::serve(listener, app).with_graceful_shutdown(stopped).await });
        Self {
            authority: address.to_string(),
            port: address.port(),
            seen,
            _stop: stop.drop_guard(),
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// IP address and port.
    pub fn authority(&self) -> String {
        self.authority.clone()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.authority)
    }

    pub fn requests(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub fn hits(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

async fn answer(State(shared): State<Shared>, request: Request) -> Response {
    let header = |name: &str| {
        let value = request.headers().get(name)?;
        value.to_str().ok().map(str::to_owned)
    };
    shared.seen.lock().unwrap().push(Seen {
        method: request.method().to_string(),
        path: request.uri().to_string(),
        host: header("host").unwrap_or_default(),
        authorization: header("authorization"),
    });
    (shared.pages)(request.uri().path()).respond()
}
