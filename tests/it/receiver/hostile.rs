//! Strangers cannot fill the memory, hold the door or crash what is behind it.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::payloads::label;
use super::{SECRET, Service, is_stored, jobs, send, signature, state};
use crate::databases::each;

const MIB: usize = 1024 * 1024;

/// The request line and headers of a webhook call.
fn head(service: &Service, signed: &str, more: &str) -> String {
    format!(
        "POST /webhook HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nX-GitHub-Delivery: g1\r\n\
         X-GitHub-Event: issues\r\nX-Hub-Signature-256: {signed}\r\n{more}\r\n\r\n",
        service.address
    )
}

/// The status line of the answer, read until the deadline.
async fn status(stream: &mut TcpStream, within: Duration) -> String {
    let mut answer = Vec::new();
    let reading = async {
        let mut buffer = [0; 512];
        while !answer.contains(&b'\n') {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => break,
                Ok(length) => answer.extend_from_slice(&buffer[..length]),
            }
        }
    };
    tokio::time::timeout(within, reading)
        .await
        .expect("an answer or the end of the connection");
    String::from_utf8_lossy(&answer)
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Resident memory of this process in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[tokio::test]
async fn w08_a_body_over_25_mib_is_refused_without_being_held() {
    each(async |store| {
        let service = Service::on(&store).await;
        let mut stream = TcpStream::connect(service.address).await.unwrap();
        let unsigned = format!("sha256={}", "0".repeat(64));
        let declared = head(&service, &unsigned, &format!("Content-Length: {}", 25 * MIB + 1));
        stream.write_all(declared.as_bytes()).await.unwrap();
        let line = status(&mut stream, Duration::from_secs(5)).await;
        assert!(line.contains("413"), "refused by its declared length: {line}");

        let before = resident();
        let mut stream = TcpStream::connect(service.address).await.unwrap();
        stream
            .write_all(head(&service, &unsigned, "Transfer-Encoding: chunked").as_bytes())
            .await
            .unwrap();
        let chunk = [
            format!("{:x}\r\n", 64 * 1024).into_bytes(),
            vec![b' '; 64 * 1024],
            b"\r\n".to_vec(),
        ]
        .concat();
        let mut most = 0;
        for _ in 0..=25 * 16 {
            if stream.write_all(&chunk).await.is_err() {
                break;
            }
            most = most.max(resident());
        }
        let line = status(&mut stream, Duration::from_secs(5)).await;
        assert!(line.contains("413"), "refused by its real length: {line}");
        let grown = most.saturating_sub(before);
        assert!(grown < 8 * MIB, "memory grew by {grown} bytes");
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_large_signed_body_is_read() {
    each(async |store| {
        let service = Service::on(&store).await;
        let mut body = label("labeled", 12, 0);
        body["added_later"] = json!("x".repeat(20 * MIB));
        let answer = service.deliver("g1", "issues", &body).await;
        assert_eq!((answer.status, answer.outcome()), (202, "applied"), "{answer:?}");
        assert_eq!(jobs(&store).await.len(), 1);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn w08_a_body_that_trickles_is_given_up() {
    each(async |store| {
        let service = Service::on(&store).await;
        let started = Instant::now();
        let mut stream = TcpStream::connect(service.address).await.unwrap();
        let unsigned = format!("sha256={}", "0".repeat(64));
        stream
            .write_all(head(&service, &unsigned, "Transfer-Encoding: chunked").as_bytes())
            .await
            .unwrap();
        let (mut reading, mut writing) = stream.split();
        let mut first = [0; 12];
        let answered = async { reading.read_exact(&mut first).await.map(|_| ()) };
        let trickle = async {
            let mut beat = tokio::time::interval(Duration::from_secs(1));
            loop {
                beat.tick().await;
                if writing.write_all(b"1\r\n \r\n").await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::select! {
            result = answered => result.unwrap(),
            () = trickle => {}
            () = tokio::time::sleep(Duration::from_secs(13)) => panic!("no answer after {:?}", started.elapsed()),
        }
        assert_eq!(&first, b"HTTP/1.1 408");
        drop(stream);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn w08_a_thousand_idle_connections_do_not_hold_the_door() {
    each(async |store| {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let raised = rustix::process::Rlimit {
            current: limit.maximum,
            ..limit
        };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
        let service = Service::on(&store).await;
        let mut idle = Vec::new();
        for _ in 0..1_000 {
            idle.push(TcpStream::connect(service.address).await.unwrap());
        }
        let started = Instant::now();
        assert_eq!(send(service.client.get(service.url("/healthz"))).await.status, 200);
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
        let answer = service.deliver("g1", "issues", &label("labeled", 12, 0)).await;
        assert_eq!(answer.status, 202);
        drop(idle);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn w11_hostile_json_is_refused_or_ignored() {
    each(async |store| {
        let service = Service::on(&store).await;
        let plain = label("labeled", 12, 0).to_string();
        let within = |text: &str| plain.replacen('{', &format!("{{{text},"), 1);
        let bodies = [
            ("deep arrays", "[".repeat(100_000) + &"]".repeat(100_000), 400),
            (
                "deep objects",
                within(&format!("\"x\":{}1{}", "{\"a\":".repeat(50_000), "}".repeat(50_000))),
                400,
            ),
            ("a number out of range", within("\"x\":1e400"), 400),
            ("a lone surrogate", within("\"x\":\"\\ud800\""), 400),
            ("a raw NUL", within("\"x\":\"\0\""), 400),
            ("bytes that are no text", "\u{0}".to_owned(), 400),
            ("nothing", String::new(), 400),
            ("no object", "[]".to_owned(), 400),
            (
                "an action twice",
                within("\"action\":\"labeled\",\"action\":\"deleted\""),
                202,
            ),
            ("NUL in a login", plain.replace("mona", "mo\\u0000na"), 202),
            (
                "NUL in a title",
                plain.replace("Parser", "\\u0000Parser").replace("03:04:00", "03:04:01"),
                202,
            ),
            (
                "no sender",
                plain.replace("\"sender\"", "\"sent\"").replace("03:04:00", "03:04:02"),
                202,
            ),
            ("no installation", plain.replace("{\"id\":3}", "null"), 202),
            ("an odd installation", plain.replace("{\"id\":3}", "\"3\""), 400),
        ];
        for (index, (what, body, status)) in bodies.into_iter().enumerate() {
            let answer = send(service.call(&format!("g{index}"), "issues", body)).await;
            assert_eq!(answer.status, status, "{what}: {answer:?}");
        }
        let not_text = service.call("g99", "issues", vec![b'{', 0xff, 0xfe, b'}']);
        assert_eq!(send(not_text).await.status, 400);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn headers_have_a_grammar() {
    each(async |store| {
        let service = Service::on(&store).await;
        let body = label("labeled", 12, 0).to_string();
        for (guid, event) in [
            ("", "issues"),
            ("g 1", "issues"),
            ("g1", ""),
            ("g1", "ISSUES"),
            ("g1", "../x"),
        ] {
            let answer = send(service.call(guid, event, body.clone())).await;
            assert_eq!(answer.status, 400, "{guid:?} {event:?}");
        }
        let long = "g".repeat(5_000);
        assert_eq!(send(service.call(&long, "issues", body.clone())).await.status, 400);
        assert_eq!(
            send(service.call("g1", "an_event_of_next_year", body.clone()))
                .await
                .status,
            202
        );
        assert_eq!(
            send(service.call("g2", "ping", r#"{"zen":"Keep it logically awesome."}"#))
                .await
                .status,
            202
        );
        assert!(is_stored(&store, "g1").await && jobs(&store).await.is_empty());
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn without_a_secret_nothing_is_accepted() {
    each(async |store| {
        let mut state = state(store.clone());
        state.webhook_secrets.clear();
        let service = Service::start(state).await;
        let body = label("labeled", 12, 0).to_string();
        let empty_key = service.unsigned("g1", "issues", body.clone().into_bytes());
        let answer = send(empty_key.header("X-Hub-Signature-256", signature("", body.as_bytes()))).await;
        assert_eq!(answer.status, 503, "{answer:?}");
        let answer = send(service.call("g1", "issues", body)).await;
        assert_eq!(answer.status, 503, "{SECRET} is not configured: {answer:?}");
        assert!(jobs(&store).await.is_empty());
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn every_answer_carries_strict_headers_and_a_stopping_service_is_not_ready() {
    each(async |store| {
        let state = state(store.clone());
        let draining = state.draining.clone();
        let service = Service::start(state).await;
        let ready = service.client.get(service.url("/readyz")).send().await.unwrap();
        assert_eq!(ready.status(), 200);
        assert_eq!(ready.headers()["x-content-type-options"], "nosniff");
        assert!(
            ready.headers()["content-security-policy"]
                .to_str()
                .unwrap()
                .starts_with("default-src 'none'")
        );
        draining.cancel();
        assert_eq!(send(service.client.get(service.url("/readyz"))).await.status, 503);
        assert_eq!(send(service.client.get(service.url("/metrics"))).await.status, 404);
        service.stop().await;
    })
    .await;
}
