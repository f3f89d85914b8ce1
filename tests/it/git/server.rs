//! Real git over smart HTTP for these stories: axum in front of `git http-backend`, with the
//! token checked and every request counted.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri, header};
use base64::Engine as _;
use tokio::io::AsyncWriteExt as _;

/// The token that every request must carry.
pub const TOKEN: &str = "ghs_0123456789abcdefghijABCDEFGHIJ012345";

/// A running server over a folder of bare repositories.
pub struct Server {
    pub address: String,
    seen: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    pub async fn start(root: &Path) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let state = (root.to_owned(), seen.clone());
        let router = Router::new()
            .fallback(serve)
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(state);
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, seen, task }
    }

    /// Method, address, size and sent credentials of every request so far.
    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Shared = (PathBuf, Arc<Mutex<Vec<String>>>);

async fn serve(
    State((root, seen)): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let sent = |name| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    let authorization = sent(header::AUTHORIZATION);
    seen.lock()
        .unwrap()
        .push(format!("{method} {uri} {} bytes {authorization}", body.len()));
    if let Some(place) = uri.path().strip_prefix("/moved/") {
        return answer(
            StatusCode::FOUND,
            &[("location", &format!("http://localhost:1/{place}"))],
            Vec::new(),
        );
    }
    let expected = base64::engine::general_purpose::STANDARD.encode(format!("x-access-token:{TOKEN}"));
    if authorization != format!("basic {expected}") {
        let leak = format!("denied: {authorization}").into_bytes();
        return answer(
            StatusCode::UNAUTHORIZED,
            &[("www-authenticate", "Basic realm=\"git\"")],
            leak,
        );
    }
    let mut child = tokio::process::Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REMOTE_USER", "app")
        .env("PATH_INFO", uri.path())
        .env("QUERY_STRING", uri.query().unwrap_or_default())
        .env("REQUEST_METHOD", method.as_str())
        .env("CONTENT_TYPE", sent(header::CONTENT_TYPE))
        .env("HTTP_CONTENT_ENCODING", sent(header::CONTENT_ENCODING))
        .env(
            "GIT_PROTOCOL",
            headers.get("git-protocol").map_or("", |value| value.to_str().unwrap()),
        )
        .env("CONTENT_LENGTH", body.len().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feed = async move {
        let _ = stdin.write_all(&body).await;
    };
    let (_, output) = tokio::join!(feed, child.wait_with_output());
    let output = output.unwrap().stdout;
    let end = output.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&output[..end]).into_owned();
    let mut status = StatusCode::OK;
    let mut pairs = Vec::new();
    for (name, value) in head.lines().filter_map(|line| line.split_once(": ")) {
        match name {
            "Status" => status = value[..3].parse().unwrap(),
            name => pairs.push((name, value)),
        }
    }
    answer(status, &pairs, output[end + 4..].to_vec())
}

fn answer(status: StatusCode, headers: &[(&str, &str)], body: Vec<u8>) -> Response<Body> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(Body::from(body)).unwrap()
}
