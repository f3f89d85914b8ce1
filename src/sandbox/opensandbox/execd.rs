//! The daemon in a sandbox: files up and down, and commands whose events are streamed. Reached
//! through the server. Called by `opensandbox`. Never reads a frame or a file without bound.

use std::path::Path;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _, stream};
use reqwest::{Body, Method};
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio_util::io::ReaderStream;

use super::frames::Frames;
use super::server::{CallError, Server, accepted};
use crate::secret::random_hex;
use crate::text;

/// Longest answer to a small request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest transfer of a file.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(600);

/// Longest command of ours that lays things down.
const CHORE_TIMEOUT: Duration = Duration::from_secs(300);

/// Kept of what a command of ours says.
const MAX_SAID_CHARS: usize = 1000;

/// One sandbox's daemon.
#[derive(Debug, Clone)]
pub(super) struct Execd {
    server: Server,
    root: String,
}

/// Where a file that goes up comes from.
#[derive(Debug)]
pub(super) enum Source<'s> {
    Bytes(Vec<u8>),
    File(&'s Path),
}

/// Who runs a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum User {
    /// Whoever the daemon is; for chores of ours.
    Daemon,
    /// An ordinary user with this number.
    Ordinary(u32),
}

/// What a daemon tells of a command.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Event {
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) text: String,
    #[serde(default)]
    pub(super) error: Option<EventError>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct EventError {
    #[serde(default)]
    pub(super) ename: String,
    #[serde(default)]
    pub(super) evalue: String,
}

impl Execd {
    pub(super) fn new(server: Server, id: &str) -> Self {
        Self {
            root: server.execd(id),
            server,
        }
    }

    /// Whether it listens.
    pub(super) async fn ping(&self) -> Result<(), CallError> {
        let request = self.request(Method::GET, "ping")?.timeout(ANSWER_TIMEOUT);
        accepted(request.send().await?).await.map(drop)
    }

    /// Writes a file; `mode` is meant as it is usually written, such as 755.
    pub(super) async fn upload(&self, path: &str, mode: u32, source: Source<'_>) -> Result<(), CallError> {
        let boundary = format!("forgehand-{}", random_hex::<16>());
        let about = json!({"path": path, "mode": mode});
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"metadata\"; filename=\"metadata\"\r\nContent-Type: \
             application/json\r\n\r\n{about}\r\n--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; \
             filename=\"file\"\r\nContent-Type: application/octet-stream\r\n\r\n"
        );
        let tail = format!("\r\n--{boundary}--\r\n");
        let piece = |text: String| stream::once(async move { Ok::<_, std::io::Error>(text.into_bytes().into()) });
        let body = match source {
            Source::Bytes(bytes) => {
                let all = [head.into_bytes(), bytes, tail.into_bytes()].concat();
                Body::from(all)
            }
            Source::File(file) => {
                let opened = tokio::fs::File::open(file).await;
                let opened = opened.map_err(|error| CallError::new(format!("open {}: {error}", file.display())))?;
                let content = ReaderStream::with_capacity(opened, 256 * 1024);
                Body::wrap_stream(piece(head).chain(content).chain(piece(tail)))
            }
        };
        let request = self.request(Method::POST, "files/upload")?.timeout(TRANSFER_TIMEOUT);
        let content_type = format!("multipart/form-data; boundary={boundary}");
        let response = request.header("content-type", content_type).body(body).send().await?;
        accepted(response).await.map(drop)
    }

    /// Reads a file of at most `most` bytes into a fresh one here.
    pub(super) async fn download(&self, path: &str, to: &Path, most: u64) -> Result<(), CallError> {
        let request = self.request(Method::GET, "files/download")?.timeout(TRANSFER_TIMEOUT);
        let response = accepted(request.query(&[("path", path)]).send().await?).await?;
        let local = |error: std::io::Error| CallError::new(format!("write {}: {error}", to.display()));
        let mut file = tokio::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(to)
            .await
            .map_err(local)?;
        let mut came = 0;
        let mut pieces = response.bytes_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece?;
            came += piece.len() as u64;
            if came > most {
                let most = text::bytes_in_words(most);
                return Err(CallError::new(format!("{path} has more than {most}")));
            }
            file.write_all(&piece).await.map_err(local)?;
        }
        file.flush().await.map_err(local)
    }

    /// Starts a shell line; its events end with the command. `timeout` is the daemon's own.
    pub(super) async fn command(
        &self,
        line: &str,
        user: User,
        timeout: Duration,
    ) -> Result<impl Stream<Item = Result<Event, CallError>> + Send + use<>, CallError> {
        let mut body = json!({
            "command": line,
            "cwd": "/",
            "timeout": u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        });
        if let User::Ordinary(number) = user {
            body["uid"] = number.into();
            body["gid"] = number.into();
        }
        let request = self.request(Method::POST, "command")?;
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, request.json(&body).send());
        let response = answer
            .await
            .map_err(|_| CallError::new("the daemon does not start the command"))??;
        let pieces = accepted(response).await?.bytes_stream();
        Ok(stream::unfold(
            (Box::pin(pieces), Frames::default()),
            async |(mut pieces, mut frames)| loop {
                match frames.next() {
                    Ok(Some(event)) => return Some((Ok(event), (pieces, frames))),
                    Ok(None) => {}
                    Err(problem) => return Some((Err(CallError::new(problem)), (pieces, Frames::ended()))),
                }
                if frames.has_ended() {
                    return None;
                }
                match pieces.next().await {
                    Some(Ok(piece)) => frames.push(&piece),
                    Some(Err(error)) => return Some((Err(error.into()), (pieces, Frames::ended()))),
                    None => frames.end(),
                }
            },
        ))
    }

    /// Runs a chore of ours to its end, which must be a good one.
    pub(super) async fn chore(&self, line: &str) -> Result<(), CallError> {
        let done = async {
            let events = self.command(line, User::Daemon, CHORE_TIMEOUT).await?;
            let mut events = std::pin::pin!(events);
            let mut said = String::new();
            while let Some(event) = events.next().await {
                let event = event?;
                match (event.kind.as_str(), event.error) {
                    ("execution_complete", _) => return Ok(()),
                    ("error", error) => {
                        let code = error.map(|error| format!("{} {}", error.ename, error.evalue));
                        let words = format!("{said}({})", code.unwrap_or_default().trim());
                        return Err(CallError::new(text::cap_middle(&words, MAX_SAID_CHARS)));
                    }
                    ("stdout" | "stderr", _) if said.len() < MAX_SAID_CHARS => {
                        said.push_str(&text::cap_chars(&event.text, MAX_SAID_CHARS));
                        said.push(' ');
                    }
                    _ => {}
                }
            }
            Err(CallError::new(format!("{said}(the daemon told no end)")))
        };
        let done: Result<Result<(), CallError>, _> = tokio::time::timeout(CHORE_TIMEOUT, done).await;
        done.map_err(|_| CallError::new("it does not end"))?
    }

    /// Ends a command by force, as far as the daemon can.
    pub(super) async fn interrupt(&self, command: &str) -> Result<(), CallError> {
        let request = self.request(Method::DELETE, "command")?.timeout(ANSWER_TIMEOUT);
        accepted(request.query(&[("id", command)]).send().await?)
            .await
            .map(drop)
    }

    fn request(&self, method: Method, path: &str) -> Result<reqwest::RequestBuilder, CallError> {
        self.server.request(method, &format!("{}/{path}", self.root))
    }
}
