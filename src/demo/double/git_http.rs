//! Real git over smart HTTP: checks the token, then lets git's own `http-backend` work on the
//! bare repository as a CGI program. Called by `server` for addresses that name a `.git`.
//! Never holds a pack in memory, and never shows the program our environment.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, Response, header};
use base64::Engine as _;
use futures_util::StreamExt as _;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio_util::io::ReaderStream;

use super::access::{Caller, Level, fingerprint};
use super::fault::strike;
use super::ledger::Recorded;
use super::server::{Exit, Struck, raw};
use super::state::State;
use super::{GitHubDouble, WeakDouble};

/// A push to a loopback server that takes longer hangs.
const PUSH_TIMEOUT: Duration = Duration::from_secs(300);

/// The program's headers are a handful of short lines.
const MAX_HEADER_BYTES: u64 = 16 * 1024;

/// What a push is answered with: a few lines for each ref.
const MAX_REPORT_BYTES: u64 = 4 * 1024 * 1024;

/// A request about a repository's git.
pub(super) struct Target {
    full_name: String,
    /// Below the repository, for example `info/refs`.
    tail: String,
}

/// Reads `/owner/name.git/…`.
pub(super) fn target(path: &str) -> Option<Target> {
    let (owner, rest) = path.strip_prefix('/')?.split_once('/')?;
    let (name, tail) = rest.split_once(".git/")?;
    let plain = !name.contains('/') && !owner.is_empty() && !name.is_empty();
    plain.then(|| Target {
        full_name: format!("{owner}/{name}"),
        tail: tail.to_owned(),
    })
}

/// The two things that git asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    Fetch,
    Push,
}

impl Service {
    fn of(target: &Target, parts: &Parts) -> Option<Self> {
        let asked = match (&parts.method, target.tail.as_str()) {
            (&Method::GET, "info/refs") => parts.uri.query()?.strip_prefix("service=")?,
            (&Method::POST, tail) => tail,
            _ => return None,
        };
        match asked {
            "git-upload-pack" => Some(Service::Fetch),
            "git-receive-pack" => Some(Service::Push),
            _ => None,
        }
    }
}

/// An allowed request.
struct Admitted {
    repo: u64,
    path: PathBuf,
    service: Service,
}

pub(super) async fn serve(
    double: &WeakDouble,
    exit: &Exit,
    target: Target,
    parts: Parts,
    body: Body,
) -> Response<Body> {
    let Some(double) = double.upgrade() else {
        return raw(503, &[], "the server is stopping\n".to_owned());
    };
    let path = format!("/{}.git/{}", target.full_name, target.tail);
    let fault = strike(&mut double.lock().faults, parts.method.as_str(), &path);
    let fault = match exit.before(fault).await {
        Struck::Instead(response) => {
            record(&double, &path, &parts, 0);
            return response;
        }
        Struck::Apply(fault) => fault,
    };
    let authorization = parts
        .headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let admitted = double.lock().admit(&target, &parts, authorization);
    let response = match admitted {
        Err(response) => *response,
        Ok(admitted) => match run(&double, &target, &admitted, &parts, body).await {
            Ok(response) => response,
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), path, "git did not serve a request");
                raw(500, &[], "git failed\n".to_owned())
            }
        },
    };
    record(&double, &path, &parts, response.status().as_u16());
    drop(double); // a hanging answer must not keep the double alive
    exit.after(fault, response).await
}

fn record(double: &GitHubDouble, path: &str, parts: &Parts, status: u16) {
    let token = basic_password(&parts.headers).map(|token| fingerprint(&token));
    let mut state = double.lock();
    let at = state.now();
    state.record(Recorded {
        at,
        method: parts.method.as_str().to_owned(),
        path: path.to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        body: serde_json::Value::Null,
        status,
        answer: serde_json::Value::Null,
        token,
    });
}

fn basic_password(headers: &HeaderMap) -> Option<String> {
    let (scheme, encoded) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = base64::engine::general_purpose::STANDARD.decode(encoded.trim()).ok()?;
    let (_, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
    Some(password.to_owned())
}

impl State {
    fn admit(
        &self,
        target: &Target,
        parts: &Parts,
        authorization: Option<&str>,
    ) -> Result<Admitted, Box<Response<Body>>> {
        let refuse = |status: u16, words: String| Box::new(raw(status, &[], words));
        let challenge = || {
            let headers = [("www-authenticate".to_owned(), "Basic realm=\"GitHub\"".to_owned())];
            Box::new(raw(401, &headers, "Invalid username or token.\n".to_owned()))
        };
        let service = Service::of(target, parts).ok_or_else(|| refuse(404, "Not Found\n".to_owned()))?;
        let caller = match authorization {
            None => Caller::Anonymous,
            Some(_) => {
                let token = basic_password(&parts.headers).ok_or_else(challenge)?;
                Caller::Installation(self.live_token(&token).ok_or_else(challenge)?.clone())
            }
        };
        let moved = || self.moved.get(&target.full_name.to_lowercase()).copied();
        let repo = self.find_repo(&target.full_name).or_else(moved);
        let repo = repo.and_then(|id| self.repos.get(&id));
        let level = if service == Service::Push {
            Level::Write
        } else {
            Level::Read
        };
        let verdict = repo.map(|repo| self.authorize(&caller, repo.id, &["contents"], level).map(|()| repo));
        match verdict {
            Some(Ok(repo)) if repo.archived && service == Service::Push => Err(refuse(
                403,
                "This repository was archived so it is read-only.\n".to_owned(),
            )),
            Some(Ok(repo)) => Ok(Admitted {
                repo: repo.id,
                path: repo.path.clone(),
                service,
            }),
            // Who is nobody yet is asked who he is, whether or not the repository exists.
            _ if matches!(caller, Caller::Anonymous) => Err(challenge()),
            Some(Err(refused)) if refused.status() == 403 => {
                let words = format!(
                    "Permission to {}.git denied to {}.\n",
                    target.full_name,
                    self.bot().login
                );
                Err(refuse(403, words))
            }
            _ => Err(refuse(404, "Repository not found.\n".to_owned())),
        }
    }
}

async fn run(
    double: &GitHubDouble,
    target: &Target,
    admitted: &Admitted,
    parts: &Parts,
    body: Body,
) -> anyhow::Result<Response<Body>> {
    let mut child = start(double, target, admitted, parts)?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        bail!("git-http-backend has no pipes");
    };
    double.inner.runtime.spawn(pump(body, stdin));
    let mut output = BufReader::new(stdout);
    if admitted.service == Service::Fetch || parts.method == Method::GET {
        let response = headers(&mut output).await?;
        // The stream owns the child: who goes away in the middle kills it.
        let stream = ReaderStream::new(output).map(move |chunk| {
            let _ = &child;
            chunk
        });
        return Ok(response.map(|()| Body::from_stream(stream)));
    }
    // A push that has begun is finished even when nobody waits for the report any more.
    let (double, repo) = (double.clone(), admitted.repo);
    let pushing = double.inner.runtime.clone().spawn(async move {
        let finished = tokio::time::timeout(PUSH_TIMEOUT, report(&mut output, &mut child)).await;
        let who = double.lock().app.bot;
        double.refresh_refs(repo, who).await?;
        finished.context("git-http-backend did not end")?
    });
    pushing.await.context("the push broke off")?
}

fn start(double: &GitHubDouble, target: &Target, admitted: &Admitted, parts: &Parts) -> anyhow::Result<Child> {
    let header = |name: header::HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let mut command = double.inner.git.command("git-http-backend");
    command
        .env("GIT_PROJECT_ROOT", &admitted.path)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", format!("/{}", target.tail))
        .env("QUERY_STRING", parts.uri.query().unwrap_or_default())
        .env("REQUEST_METHOD", parts.method.as_str())
        .env("REMOTE_USER", "x-access-token")
        .env("REMOTE_ADDR", "127.0.0.1")
        .env("CONTENT_TYPE", header(header::CONTENT_TYPE).unwrap_or_default())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    // The program inflates by itself, and reads to the end where there is no length.
    for (variable, value) in [
        ("CONTENT_LENGTH", header(header::CONTENT_LENGTH)),
        ("HTTP_CONTENT_ENCODING", header(header::CONTENT_ENCODING)),
        ("GIT_PROTOCOL", header(header::HeaderName::from_static("git-protocol"))),
    ] {
        if let Some(value) = value {
            command.env(variable, value);
        }
    }
    command.spawn().context("start git-http-backend")
}

/// Copies the request's body to the program, a piece at a time.
async fn pump(body: Body, mut stdin: ChildStdin) {
    let mut pieces = body.into_data_stream();
    while let Some(Ok(piece)) = pieces.next().await {
        if stdin.write_all(&piece).await.is_err() {
            return; // the program has read enough
        }
    }
}

/// The program's headers, with its `Status` as the status.
async fn headers(output: &mut BufReader<ChildStdout>) -> anyhow::Result<Response<()>> {
    let mut limited = output.take(MAX_HEADER_BYTES);
    let (mut status, mut headers) = (200, Vec::new());
    loop {
        let mut line = String::new();
        let bytes = limited
            .read_line(&mut line)
            .await
            .context("read git-http-backend's headers")?;
        if bytes == 0 {
            bail!("git-http-backend ended before its headers did");
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        if name.eq_ignore_ascii_case("status") {
            status = value
                .trim()
                .split(' ')
                .next()
                .and_then(|code| code.parse().ok())
                .unwrap_or(500);
        } else {
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
    }
    Ok(raw(status, &headers, String::new()).map(drop))
}

/// The whole answer to a push, after the program has ended.
async fn report(output: &mut BufReader<ChildStdout>, child: &mut Child) -> anyhow::Result<Response<Body>> {
    let response = headers(output).await?;
    let mut report = Vec::new();
    output
        .take(MAX_REPORT_BYTES)
        .read_to_end(&mut report)
        .await
        .context("read the report of a push")?;
    child.wait().await.context("wait for git-http-backend")?;
    Ok(response.map(|()| Body::from(report)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_repositories_are_told_from_the_api() {
        for (path, expected) in [
            ("/octo/widgets.git/info/refs", Some(("octo/widgets", "info/refs"))),
            (
                "/octo/widgets.git/git-upload-pack",
                Some(("octo/widgets", "git-upload-pack")),
            ),
            ("/api/v3/repos/octo/widgets.git/issues", None),
            ("/octo/widgets", None),
            ("//.git/x", None),
        ] {
            let found = target(path);
            let found = found
                .as_ref()
                .map(|target| (target.full_name.as_str(), target.tail.as_str()));
            assert_eq!(found, expected, "{path}");
        }
    }
}
