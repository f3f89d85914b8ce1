//! A receiver of alerts: keeps what came, and answers as it is told. Never checks anything itself.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde_json::Value;

/// A message as it came.
#[derive(Debug, Clone)]
pub struct Message {
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body as text.
    pub body: String,
}

impl Message {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// One header.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}

#[derive(Default)]
struct Kept {
    messages: Vec<Message>,
    answers: VecDeque<u16>,
}

/// A server on this machine that lives as long as its value.
pub struct HookServer {
    url: String,
    kept: Arc<Mutex<Kept>>,
    served: tokio::task::JoinHandle<()>,
}

impl HookServer {
    /// A server that answers with these statuses, and 200 after them.
    pub async fn start(answers: impl IntoIterator<Item = u16>) -> Self {
        let kept = Arc::new(Mutex::new(Kept {
            answers: answers.into_iter().collect(),
            ..Kept::default()
        }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hooks/T0KEN-of-the-chat", listener.local_addr().unwrap());
        let router = axum::Router::new()
            .route("/hooks/T0KEN-of-the-chat", axum::routing::post(take))
            .with_state(Arc::clone(&kept));
        let served = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, kept, served }
    }

    /// Its address, with a secret in it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What came so far.
    pub fn messages(&self) -> Vec<Message> {
        self.kept.lock().unwrap().messages.clone()
    }
}

impl Drop for HookServer {
    fn drop(&mut self) {
        self.served.abort();
    }
}

async fn take(State(kept): State<Arc<Mutex<Kept>>>, headers: HeaderMap, body: String) -> (StatusCode, &'static str) {
    let mut kept = kept.lock().unwrap();
    kept.messages.push(Message { headers, body });
    let status = kept.answers.pop_front().unwrap_or(200);
    (StatusCode::from_u16(status).unwrap(), "as it was told")
}
