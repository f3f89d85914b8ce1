//! Tokens: narrow, short, renewed in time, never shown.

use std::time::Duration;

use chrono::TimeDelta;
use forgehand::clock::Clock;
use forgehand::demo::double::Fault;
use forgehand::github::{Access, GitHub, GitHubError};
use forgehand::secret::Secret;
use serde_json::json;

use super::{REPO, Stage, count, noon};

fn minted(stage: &Stage) -> usize {
    count(&stage.double, "POST", "/access_tokens")
}

#[tokio::test]
async fn a_token_is_for_one_repository_and_the_least_permissions() {
    let stage = Stage::set().await;
    stage
        .double
        .repository("octo/other")
        .private()
        .file("a", "b")
        .commit("Begin")
        .create()
        .await
        .unwrap();
    let client = stage.client(Access::Read);
    client.repository().await.unwrap();
    let request = stage
        .double
        .requests()
        .into_iter()
        .find(|request| request.path.ends_with("/access_tokens"));
    let expected = json!({
        "repository_ids": [stage.double.repo_id(REPO).unwrap()],
        "permissions": {"metadata": "read", "contents": "read", "issues": "read", "pull_requests": "read"},
    });
    assert_eq!(request.unwrap().body, expected);
    // The same token, for another repository's name.
    let id = stage.double.repo_id(REPO).unwrap();
    let sly = stage.github.repo(
        stage.double.installation(),
        id,
        "octo/other".parse().unwrap(),
        Access::Read,
    );
    let other = sly.repository().await;
    assert!(matches!(other, Err(GitHubError::NotFound { .. })), "{other:?}");
    let number = stage.issue();
    let write = client.create_comment(number, "hello").await;
    assert!(matches!(write, Err(GitHubError::Forbidden { .. })), "{write:?}");
    assert_eq!(minted(&stage), 1);
}

#[tokio::test]
async fn tokens_are_shared_and_renewed_ten_minutes_before_they_end() {
    let stage = Stage::set().await;
    let (a, b) = (stage.client(Access::Read), stage.client(Access::Read));
    let both = tokio::join!(a.repository(), b.repository());
    both.0.unwrap();
    both.1.unwrap();
    assert_eq!(minted(&stage), 1, "two callers at once need one token");
    stage.client(Access::Write).repository().await.unwrap();
    assert_eq!(minted(&stage), 2, "other permissions are another token");
    stage.clock.advance(Duration::from_secs(49 * 60));
    a.repository().await.unwrap();
    assert_eq!(minted(&stage), 2);
    stage.clock.advance(Duration::from_secs(2 * 60));
    a.repository().await.unwrap();
    assert_eq!(minted(&stage), 3);
}

#[tokio::test]
async fn r10_a_refused_token_is_replaced_once_and_never_in_a_loop() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Write);
    let number = stage.issue();
    client.create_comment(number, "first").await.unwrap();
    stage.double.revoke_tokens();
    client.create_comment(number, "second").await.unwrap();
    assert_eq!(
        (minted(&stage), stage.double.comments(REPO, number.0).unwrap().len()),
        (2, 2)
    );
    let path = format!("POST /repos/{REPO}/issues/*/comments");
    stage.double.fault(&path, Fault::status(401, "Bad credentials"), 2);
    let refused = client.create_comment(number, "third").await;
    assert!(matches!(refused, Err(GitHubError::Unauthorized { .. })), "{refused:?}");
    assert_eq!(minted(&stage), 3);
}

#[tokio::test]
async fn a_suspended_installation_costs_few_calls() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Read);
    client.repository().await.unwrap();
    let before = stage.double.requests().len();
    stage.double.suspend_installation();
    let refused = client.repository().await;
    assert!(matches!(refused, Err(GitHubError::Forbidden { .. })), "{refused:?}");
    assert!(stage.double.requests().len() - before <= 3);
}

#[tokio::test]
async fn an_uninstalled_repository_gets_no_token() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Read);
    stage.double.uninstall(REPO).unwrap();
    let refused = client.repository().await;
    assert!(matches!(refused, Err(GitHubError::Rejected { .. })), "{refused:?}");
}

#[tokio::test]
async fn no_secret_is_shown() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Write);
    let token = client.git_token().await.unwrap();
    assert!(token.expose().starts_with("ghs_") && token.len() == 40);
    assert!(stage.redactor.finds_live(token.expose()));
    assert!(stage.redactor.finds_live(stage.double.private_key().expose()));
    // A server that repeats what it was sent must not bring it into an error.
    let echo = format!("you sent {}", token.expose());
    stage.double.fault("GET /repos/**", Fault::status(400, &echo), 1);
    let error = client.repository().await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains(token.expose()), "{error}");
    let recorded = format!("{:?}", stage.double.requests());
    assert!(!recorded.contains(token.expose()));
}

#[tokio::test]
async fn a_token_can_be_ended_and_replaced() {
    let stage = Stage::set().await;
    let client = stage.client(Access::Write);
    let first = client.git_token().await.unwrap();
    let second = client.git_token_after(&first).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(
        client.git_token_after(&first).await.unwrap(),
        second,
        "somebody replaced it already"
    );
    client.revoke_token().await.unwrap();
    client.revoke_token().await.unwrap();
    assert_eq!(count(&stage.double, "DELETE", "/installation/token"), 1);
    assert_ne!(client.git_token().await.unwrap(), second);
}

#[tokio::test]
async fn a_clock_that_is_wrong_is_told_from_a_missing_app() {
    let stage = Stage::set().await;
    for (skew, works) in [
        (TimeDelta::seconds(55), true),
        (TimeDelta::seconds(-500), true),
        (TimeDelta::minutes(5), false),
    ] {
        let clock = Clock::manual(noon() + skew);
        let github = GitHub::new(&stage.config, clock, stage.redactor.clone()).unwrap();
        let app = github.app().await;
        assert_eq!(app.is_ok(), works, "{skew}: {app:?}");
    }
    let mut config = stage.config.clone();
    config.app_id = Some(7);
    let github = GitHub::new(&config, stage.clock.clone(), stage.redactor.clone()).unwrap();
    assert!(matches!(github.app().await, Err(GitHubError::NotFound { .. })));
}

#[tokio::test]
async fn a_wrong_key_is_refused_at_the_start_with_its_name() {
    let stage = Stage::set().await;
    let pem = stage.double.private_key();
    let cut = Secret::new(&pem.expose()[..pem.len() / 2]);
    for (key, app) in [
        (Some(Secret::new("no key at all")), Some(1)),
        (Some(cut), Some(1)),
        (None, Some(1)),
    ] {
        let mut config = stage.config.clone();
        (config.private_key, config.app_id) = (key, app);
        let error = GitHub::new(&config, stage.clock.clone(), stage.redactor.clone())
            .err()
            .unwrap();
        assert!(format!("{error:#}").contains("github.private_key"), "{error:#}");
    }
    let mut config = stage.config.clone();
    config.app_id = None;
    let error = GitHub::new(&config, stage.clock.clone(), stage.redactor.clone())
        .err()
        .unwrap();
    assert!(format!("{error:#}").contains("github.app_id"), "{error:#}");
}

#[tokio::test]
async fn an_old_style_key_works_too() {
    let stage = Stage::set().await;
    let mut config = stage.config.clone();
    config.private_key = Some(Secret::new(to_pkcs1(stage.double.private_key().expose())));
    let github = GitHub::new(&config, stage.clock.clone(), stage.redactor.clone()).unwrap();
    github.app().await.unwrap();
}

/// GitHub hands keys out as PKCS#1: the octet string inside PKCS#8, whose header for RSA-2048 is
/// 26 bytes long.
fn to_pkcs1(pkcs8: &str) -> String {
    use base64::Engine as _;
    let engine = base64::engine::general_purpose::STANDARD;
    let body: String = pkcs8.lines().filter(|line| !line.starts_with('-')).collect();
    let der = engine.decode(body).unwrap();
    format!(
        "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----\n",
        engine.encode(&der[26..])
    )
}
