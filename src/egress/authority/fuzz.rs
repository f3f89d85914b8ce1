//! Hosts without end, read by us and by three others: the url crate, the http crate, and a naive
//! reader of plain names. Never a host that two of them read differently passes.

use std::net::IpAddr;

use axum::http::uri;
use fastrand::Rng;
use url::Url;

use super::Authority;
use crate::clock::fuzz;
use crate::permission::HostRule;

const PIECES: &[&str] = &[
    "github.com",
    "GitHub.Com",
    "evil",
    "xn--bcher-kva",
    "bücher",
    "ａ",
    "a",
    "127.0.0.1",
    "0x7f",
    "017700000001",
    "1",
    "255",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[fe80::1%25eth0]",
    "[",
    "]",
    "::",
    ":",
    ":443",
    ":80",
    ":22",
    ":0",
    ":65536",
    ":+1",
    ":0443",
    ".",
    "..",
    "@",
    "%00",
    "%2e",
    "\0",
    "\r\n",
    "\t",
    " ",
    "/",
    "\\",
    "?",
    "#",
    "*",
    "-",
    "--",
    "_",
    "~",
    "$",
    ",",
    ";",
    "\u{200b}",
    "\u{ad}",
    "\u{2024}",
    "\u{3002}",
    "\u{202e}",
    "com",
    "example",
    "localhost",
    "ß",
    "İ",
    "user",
    "x",
];

fn text(chance: &mut Rng) -> String {
    let mut text = String::new();
    for _ in 0..chance.usize(1..7) {
        if chance.u8(..) < 20 {
            text.extend(char::from_u32(chance.u32(0..0x11_0000)));
        } else {
            text.push_str(PIECES[chance.usize(..PIECES.len())]);
        }
    }
    if chance.bool() {
        text.push_str(":443");
    }
    text
}

/// A name that nobody could read in two ways.
fn plain_name(chance: &mut Rng) -> String {
    let label = |chance: &mut Rng| {
        let length = chance.usize(1..12);
        (0..length).map(|_| chance.lowercase()).collect::<String>()
    };
    let labels: Vec<String> = (0..chance.usize(2..5)).map(|_| label(chance)).collect();
    labels.join(".")
}

#[track_caller]
fn check(text: &str) {
    let Ok(read) = Authority::parse(text) else { return };
    let (host, port) = (read.host(), read.port());
    // A header or a resolver gets it as it is.
    let is_usual = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._[]:".contains(c);
    assert!(
        host.chars().all(is_usual) && host.len() <= 253,
        "{text:?} became {host:?}"
    );
    assert!(
        !text.contains(['@', '%', '/', '\\', '?', '#', '\0', '\r', '\n', ' ']),
        "{text:?} passed"
    );
    let url = Url::parse(&format!("https://{text}/")).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    assert_eq!(
        (url.host_str(), url.port_or_known_default()),
        (Some(host), Some(port)),
        "{text:?} by url"
    );
    assert_eq!(
        (url.username(), url.password(), url.path()),
        ("", None, "/"),
        "{text:?} by url"
    );
    let written = format!("{host}:{port}");
    let other: uri::Authority = written.parse().unwrap_or_else(|error| panic!("{written:?}: {error}"));
    assert_eq!((other.host(), other.port_u16()), (host, Some(port)), "{text:?} by http");
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    assert_eq!(
        bare.parse::<IpAddr>().is_ok(),
        read.is_literal(),
        "{text:?}: {host:?} by the standard library"
    );
    assert_eq!(Authority::parse(&written).as_ref(), Ok(&read), "{text:?} read again");
    check_rules(host);
}

/// A rule matches on whole labels and nothing else, as counted by hand.
#[track_caller]
fn check_rules(host: &str) {
    let labels: Vec<&str> = host.split('.').collect();
    for rule in ["github.com", "*.github.com", "*.example.com"] {
        let wanted: Vec<&str> = rule.trim_start_matches("*.").split('.').collect();
        let expected = match rule.strip_prefix("*.") {
            Some(_) => labels.len() > wanted.len() && labels.ends_with(&wanted),
            None => labels == wanted,
        };
        assert_eq!(
            HostRule::parse(rule).unwrap().covers(host),
            expected,
            "{rule} and {host}"
        );
    }
}

#[test]
fn n03_nobody_reads_a_host_differently() {
    fuzz("authorities", |chance| {
        for _ in 0..200 {
            check(&text(chance));
        }
        let name = plain_name(chance);
        let read = Authority::parse(&format!("{name}:443"));
        assert_eq!(
            read.map(|read| read.host().to_owned()),
            Ok(name),
            "a plain name passes as it is"
        );
    });
}
