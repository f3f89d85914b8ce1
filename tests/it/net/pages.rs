//! What is read of an answer: text, up to a limit, within a time, and without what was not asked
//! for.

use std::time::{Duration, Instant};

use forgehand::config::WebConfig;
use forgehand::net::{Address, Get, Net, NetError, Page, Reach};
use forgehand::secret::Secret;

use super::site::{Answer, Site};
use super::{config, get};

async fn fetch(site: &Site, path: &str) -> Result<Page, NetError> {
    let net = Net::new(&config(&["127.0.0.1"], &[site.authority()])).unwrap();
    get(&net, &site.url(path), Reach::Listed).await
}

/// What the program `gzip` makes of so many letters.
fn gzipped(letters: usize) -> Vec<u8> {
    let line = format!("head -c {letters} /dev/zero | tr '\\0' a | gzip -9");
    let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
    assert!(output.status.success());
    output.stdout
}

#[tokio::test]
async fn n12_a_page_is_read_up_to_a_limit_that_counts_after_decompression() {
    let bomb = gzipped(300_000_000);
    assert!(bomb.len() < 400_000);
    let site = Site::start(move |path| match path {
        "/bomb" => Answer::of("text/plain", bomb.clone()).header("content-encoding", "gzip"),
        "/small" => Answer::of("text/plain", gzipped(1_000)).header("content-encoding", "gzip"),
        _ => Answer::endless("for ever and ever "),
    })
    .await;
    let started = Instant::now();
    for path in ["/bomb", "/endless"] {
        let page = fetch(&site, path).await.unwrap();
        assert!(
            page.is_cut && page.text.len() == 1024 * 1024,
            "{path}: {}",
            page.text.len()
        );
    }
    let page = fetch(&site, "/small").await.unwrap();
    assert!(!page.is_cut && page.text == "a".repeat(1_000));
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn a_silent_server_is_waited_for_only_so_long() {
    let site = Site::start(|_| Answer::silent()).await;
    let config = WebConfig {
        timeout_seconds: Duration::from_millis(300),
        ..config(&["127.0.0.1"], &[site.authority()])
    };
    let net = Net::new(&config).unwrap();
    let started = Instant::now();
    let result = get(&net, &site.url("/"), Reach::Listed).await;
    assert!(matches!(result, Err(NetError::Failed(_))), "{result:?}");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn only_text_is_read_in_the_charset_that_is_named() {
    let site = Site::start(|path| match path {
        "/latin" => Answer::of("text/html; charset=iso-8859-1", &b"caf\xe9"[..]),
        "/utf8" => Answer::of("text/plain", "caf\u{e9}"),
        "/unnamed" => Answer::of("application/octet-stream", "# Read me"),
        "/png" => Answer::of("image/png", &b"\x89PNG"[..]),
        "/pdf" => Answer::of("application/octet-stream", "%PDF-1.7"),
        "/liar" => Answer::of("text/html", &b"\x7fELF\0\0"[..]),
        "/zip" => Answer::of("application/zip", "PK"),
        _ => Answer::text("not here").with_status(404),
    })
    .await;
    for (path, text) in [
        ("/latin", "caf\u{e9}"),
        ("/utf8", "caf\u{e9}"),
        ("/unnamed", "# Read me"),
    ] {
        assert_eq!(fetch(&site, path).await.unwrap().text, text, "{path}");
    }
    for path in ["/png", "/pdf", "/liar", "/zip"] {
        let result = fetch(&site, path).await;
        assert!(
            matches!(&result, Err(NetError::Failed(why)) if why.contains("text")),
            "{path}: {result:?}"
        );
    }
    let missing = fetch(&site, "/missing").await.unwrap();
    assert_eq!((missing.status, missing.text.as_str()), (404, "not here"));
    assert!(site.requests().iter().all(|seen| seen.method == "GET"));
}

#[tokio::test]
async fn a_token_goes_to_the_host_it_is_for_and_no_further() {
    let site = Site::start(|path| match path {
        "/moved" => Answer::redirect("/here"),
        _ => Answer::text("here"),
    })
    .await;
    let net = Net::new(&config(&["127.0.0.1"], &[site.authority()])).unwrap();
    let token = Secret::new("github_pat_0123456789abcdefghij");
    let with_token = async |path: &str| {
        let address = Address::parse(&site.url(path)).unwrap();
        net.get(Get {
            address: &address,
            reach: Reach::Listed,
            accept: "application/json",
            bearer: Some(&token),
        })
        .await
    };
    assert_eq!(with_token("/here").await.unwrap().text, "here");
    assert!(with_token("/moved").await.is_err());
    let requests = site.requests();
    assert_eq!(requests.len(), 2, "the redirect is not followed");
    assert_eq!(
        requests[0].authorization.as_deref(),
        Some("Bearer github_pat_0123456789abcdefghij")
    );
    fetch(&site, "/here").await.unwrap();
    assert_eq!(site.requests()[2].authorization, None);
}
