//! Tables: who is let in, and that a state is good once.

use axum::http::{HeaderName, HeaderValue};

use super::*;

fn setup(public_url: Option<&str>) -> Setup {
    let server = ServerConfig {
        public_url: public_url.map(str::to_owned),
        ..ServerConfig::default()
    };
    Setup::new(&server, &GitHubConfig::default(), Clock::manual(DateTime::UNIX_EPOCH))
}

#[track_caller]
fn check(public_url: Option<&str>, peer: &str, headers: &[(&str, &str)], expected: bool) {
    let setup = setup(public_url);
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| {
            (
                name.parse::<HeaderName>().unwrap(),
                HeaderValue::from_str(value).unwrap(),
            )
        })
        .collect();
    let peer = Peer(peer.parse().unwrap());
    assert_eq!(setup.admits("", peer, &headers), expected, "{peer:?} {headers:?}");
    assert!(!setup.admits("0123456789abcdef0123456789abcdef", peer, &headers) || expected);
    assert!(
        setup.admits(setup.token.expose(), peer, &headers),
        "the token opens it from anywhere"
    );
}

#[test]
fn without_the_token_only_a_local_browser_is_let_in() {
    let local = [("host", "127.0.0.1:8080")];
    check(None, "127.0.0.1:5000", &local, true);
    check(None, "[::1]:5000", &[("host", "localhost:8080")], true);
    check(None, "[::ffff:127.0.0.1]:5000", &[("host", "[::1]:8080")], true);
    check(None, "192.0.2.7:5000", &local, false);
    check(None, "127.0.0.1:5000", &[], false);
    check(None, "127.0.0.1:5000", &[("host", "rebound.example:8080")], false);
    check(
        None,
        "127.0.0.1:5000",
        &[("host", "127.0.0.1"), ("x-forwarded-for", "192.0.2.7")],
        false,
    );
    check(
        None,
        "127.0.0.1:5000",
        &[("host", "127.0.0.1"), ("via", "1.1 proxy")],
        false,
    );
    check(Some("https://forge.example/"), "127.0.0.1:5000", &local, false);
}

#[test]
fn a_state_is_good_once_and_for_an_hour() {
    let setup = setup(None);
    let state = setup.new_state();
    assert!(!setup.use_state("") && !setup.use_state("other"));
    assert!(setup.use_state(&state));
    assert!(!setup.use_state(&state));
    let late = setup.new_state();
    setup.clock.advance(std::time::Duration::from_secs(3600));
    assert!(!setup.use_state(&late));
}

#[test]
fn stored_credentials_are_private_and_read_back() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let state_dir = folder.path().join("state \"quoted\"");
    let app = crate::github::AppCredentials {
        id: crate::ids::AppId(7),
        slug: "forgehand".to_owned(),
        pem: Secret::new("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\n"),
        webhook_secret: Secret::new("0123456789abcdef0123"),
        html_url: String::new(),
    };
    assert!(stored_app(&state_dir).unwrap().is_none());
    credentials::store(&state_dir, &app).unwrap();
    let stored = stored_app(&state_dir).unwrap().unwrap();
    assert_eq!(stored.app_id, Some(7));
    assert_eq!(stored.webhook_secret, Some(app.webhook_secret.clone()));
    assert!(stored.private_key.unwrap().expose().contains("abc"));
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state_dir.join("credentials")), 0o700);
    for file in ["private-key.pem", "webhook-secret", "app.toml"] {
        assert_eq!(mode(&state_dir.join("credentials").join(file)), 0o600, "{file}");
    }
    let again = credentials::store(&state_dir, &app).unwrap_err();
    assert!(again.to_string().contains("exists already"), "{again}");
    assert_eq!(
        std::fs::read_dir(&state_dir).unwrap().count(),
        1,
        "nothing is left over"
    );
}
