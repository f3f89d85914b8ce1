//! Engines that are missing, old, silent or refuse: no sandbox, a reason and a remedy. S18 for
//! containers. The engine here is a socket with scripted answers, but for the stories of images.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};

use forgehand::config::{OldRunc, SandboxBackend};

use super::backends::{docker_as_each_user, socket};
use super::*;

const IMAGE: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn containers(socket: impl Into<PathBuf>) -> SandboxConfig {
    SandboxConfig {
        backend: SandboxBackend::Docker,
        docker_socket: Some(socket.into()),
        image: Some(IMAGE.to_owned()),
        // Even who accepts commands on the bare machine does not get them by a broken engine.
        unsafe_local: true,
        ..config()
    }
}

async fn refused(config: SandboxConfig) -> (String, String) {
    match Run::open_with(config, 7).await.map(drop) {
        Err(SandboxError::Unavailable { problem, remedy }) => (problem, remedy),
        other => panic!("{other:?}"),
    }
}

/// An engine that answers each path with a document, and with 404 what it does not know.
fn engine(answers: &'static [(&'static str, &'static str)]) -> (tempfile::TempDir, PathBuf) {
    let folder = scratch();
    let socket = folder.path().join("engine.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = answer(&stream, answers);
        }
    });
    (folder, socket)
}

fn answer(mut stream: &UnixStream, answers: &[(&str, &str)]) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let known = answers
        .iter()
        .find(|(path, _)| request.contains(&format!("{path} HTTP")));
    let (status, body) = match known {
        Some((_, body)) => ("200 OK", *body),
        None => ("404 Not Found", r#"{"message":"no such thing"}"#),
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n");
    stream.write_all(format!("{head}connection: close\r\n\r\n{body}").as_bytes())
}

#[tokio::test]
async fn a_missing_engine_is_no_sandbox() {
    let (problem, remedy) = refused(containers("/nonexistent/docker.sock")).await;
    assert!(problem.contains("/nonexistent/docker.sock"), "{problem}");
    assert!(remedy.contains("systemctl start docker"), "{remedy}");
    let folder = scratch();
    let socket = folder.path().join("dead.sock");
    drop(UnixListener::bind(&socket).expect("a socket that nobody listens on"));
    let (problem, remedy) = refused(containers(&socket)).await;
    assert!(problem.contains("refused"), "{problem}");
    assert!(remedy.contains("Start the engine"), "{remedy}");
}

#[tokio::test]
async fn an_old_engine_a_strange_one_and_one_without_seccomp_are_refused() {
    const INFO: &str = r#"{"SecurityOptions":["name=apparmor"]}"#;
    let old = [
        ("/version", r#"{"Version":"19.03.1","ApiVersion":"1.40"}"#),
        ("/info", INFO),
    ];
    let weak = [
        ("/version", r#"{"Version":"27.1.0","ApiVersion":"1.46"}"#),
        ("/info", INFO),
    ];
    let strange = [("/version", "[]")];
    for (answers, words) in [
        (
            &*Box::leak(Box::new(old)) as &'static [_],
            "Docker 19.03.1 speaks version \"1.40\"",
        ),
        (&*Box::leak(Box::new(weak)), "no seccomp profile"),
        (&*Box::leak(Box::new(strange)), "cannot be used"),
    ] {
        let (_folder, socket) = engine(answers);
        let (problem, remedy) = refused(containers(socket)).await;
        assert!(problem.contains(words), "{problem}");
        assert!(!remedy.is_empty());
    }
}

/// X10, and what the engine does not have.
#[tokio::test]
async fn an_image_must_be_there_and_be_named_by_digest() {
    const INFO: &str = r#"{"SecurityOptions":["name=seccomp,profile=default"],"Runtimes":{"runc":{"path":"runc"}}}"#;
    const ANSWERS: &[(&str, &str)] = &[
        ("/version", r#"{"Version":"27.1.0","ApiVersion":"1.46"}"#),
        ("/info", INFO),
    ];
    let (_folder, socket) = engine(ANSWERS);
    let (problem, remedy) = refused(containers(&socket)).await;
    assert!(
        problem.contains(&format!("does not have the image {IMAGE}")),
        "{problem}"
    );
    assert!(remedy.contains(&format!("docker pull {IMAGE}")), "{remedy}");
    let mut config = containers(&socket);
    config.image = Some("debian:12".to_owned());
    let (problem, _) = refused(config).await;
    assert!(problem.contains("by digest"), "{problem}");
    let mut config = containers(&socket);
    config.docker_runtime = Some("runsc".to_owned());
    let (problem, remedy) = refused(config).await;
    assert!(problem.contains("no runtime \"runsc\" (it has runc)"), "{problem}");
    assert!(remedy.contains("sandbox.docker_runtime"), "{remedy}");
}

/// Asks the real engine, which must do it.
pub fn ask(method: &str, path: &str, body: &str) -> serde_json::Value {
    try_to_ask(method, path, body).unwrap_or_else(|answer| panic!("{method} {path}: {answer}"))
}

/// Asks the real engine for what it may not have any more. Its whole answer where it does not do it.
pub fn try_to_ask(method: &str, path: &str, body: &str) -> Result<serde_json::Value, String> {
    let socket = socket().expect("an engine");
    let mut stream = UnixStream::connect(socket).expect("the engine's socket");
    let length = body.len();
    let head = format!("{method} /v1.41{path} HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: {length}");
    stream
        .write_all(format!("{head}\r\n\r\n{body}").as_bytes())
        .expect("a request");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").expect("head and body");
    if !head.contains(" 20") {
        return Err(answer.into_owned());
    }
    Ok(serde_json::from_str(body).unwrap_or_default())
}

/// S12: what an old runc means is the operator's to say.
#[tokio::test]
async fn s12_an_old_runc_is_refused_where_the_operator_says_so() {
    const INFO: &str = r#"{"SecurityOptions":["name=seccomp,profile=default"],"DefaultRuntime":"runc"}"#;
    const OLD: &[(&str, &str)] = &[
        (
            "/version",
            r#"{"Version":"27.1.0","ApiVersion":"1.46","Components":[{"Name":"runc","Version":"1.2.7"}]}"#,
        ),
        ("/info", INFO),
    ];
    const MENDED: &[(&str, &str)] = &[
        (
            "/version",
            r#"{"Version":"27.1.0","ApiVersion":"1.46","Components":[{"Name":"runc","Version":"1.2.8"}]}"#,
        ),
        ("/info", INFO),
    ];
    const SILENT: &[(&str, &str)] = &[
        ("/version", r#"{"Version":"27.1.0","ApiVersion":"1.46"}"#),
        ("/info", INFO),
    ];
    for (answers, policy, words) in [
        (OLD, OldRunc::Refuse, "runc 1.2.7 may lack the fixes"),
        (SILENT, OldRunc::Refuse, "runc of unknown version may lack the fixes"),
        // The next thing that is missing.
        (OLD, OldRunc::Warn, "does not have the image"),
        (MENDED, OldRunc::Refuse, "does not have the image"),
    ] {
        let (_folder, socket) = engine(answers);
        let mut config = containers(socket);
        config.docker_old_runc = policy;
        let (problem, remedy) = refused(config).await;
        assert!(problem.contains(words), "{policy:?}: {problem}");
        if problem.contains("runc") {
            assert!(remedy.contains("sandbox.docker_old_runc"), "{remedy}");
        }
    }
}

/// S12 with the engines that are there.
#[test]
fn s12_the_runc_of_the_engine_is_judged() {
    docker_as_each_user(async || {
        let run = Run::open().await;
        let warns = run
            .sandbox
            .description()
            .warnings
            .iter()
            .any(|warning| warning.contains("runc"));
        run.ok("true").await;
        let mut config = config();
        config.docker_old_runc = OldRunc::Refuse;
        match Run::open_with(config, 8).await.map(drop) {
            Err(SandboxError::Unavailable { problem, .. }) => assert!(warns && problem.contains("runc"), "{problem}"),
            opened => assert!(opened.is_ok() && !warns, "{opened:?}"),
        }
    });
}
