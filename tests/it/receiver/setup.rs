//! The set-up page, from the form to the stored credentials, with GitHub's side played by a
//! small server.

use std::path::Path;

use axum::extract::Path as UrlPath;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use forgehand::config::{GitHubConfig, ServerConfig};
use forgehand::web::{Setup, stored_app};
use regex::Regex;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{Service, send, state};
use crate::databases::each;

/// GitHub's conversion of a manifest's code; gives its API address.
async fn github() -> String {
    async fn convert(UrlPath(code): UrlPath<String>) -> (StatusCode, Json<Value>) {
        if code != "good-code" {
            return (StatusCode::NOT_FOUND, Json(json!({"message": "Not Found"})));
        }
        let app = json!({"id": 4711, "slug": "forgehand-octo", "html_url": "https://github.com/apps/forgehand-octo",
            "pem": "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\n",
            "webhook_secret": "0123456789abcdef0123456789abcdef", "client_id": "Iv1.x", "owner": {"login": "octo"}});
        (StatusCode::CREATED, Json(app))
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/app-manifests/{code}/conversions", post(convert));
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

fn setup(state_dir: &Path, api_url: &str, change: impl FnOnce(&mut ServerConfig, &mut GitHubConfig)) -> Setup {
    let mut server = ServerConfig {
        state_dir: state_dir.to_owned(),
        ..ServerConfig::default()
    };
    let mut github = GitHubConfig {
        api_url: api_url.to_owned(),
        ..GitHubConfig::default()
    };
    change(&mut server, &mut github);
    Setup::new(&server, &github, forgehand::clock::Clock::System)
}

async fn get(service: &Service, path: &str) -> (u16, String) {
    let answer = service.client.get(service.url(path)).send().await.unwrap();
    assert_eq!(answer.headers()["x-frame-options"], "DENY");
    let policy = answer.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(
        policy.starts_with("default-src 'none'") && !policy.contains("unsafe"),
        "{policy}"
    );
    (answer.status().as_u16(), answer.text().await.unwrap())
}

fn state_of(page: &str) -> String {
    Regex::new(r"\?state=([0-9a-f]{32})")
        .unwrap()
        .captures(page)
        .expect("a state in the form")[1]
        .to_owned()
}

#[tokio::test]
async fn a_manifest_becomes_credentials_once() {
    let api_url = github().await;
    each(async |store| {
        let folder = tempfile::tempdir().unwrap();
        let mut state = state(store.clone());
        state.setup = Some(setup(folder.path(), &api_url, |_, _| {}));
        let service = Service::start(state).await;

        let (status, page) = get(&service, "/setup").await;
        assert_eq!(status, 200);
        assert!(
            page.contains("action=\"https://github.com/settings/apps/new?state="),
            "{page}"
        );
        assert!(page.contains("&quot;contents&quot;:&quot;write&quot;"), "{page}");
        let (_, org_page) = get(&service, "/setup?org=octo-org").await;
        assert!(
            org_page.contains("https://github.com/organizations/octo-org/settings/apps/new?state="),
            "{org_page}"
        );
        assert_eq!(get(&service, "/setup?org=a%22%3E%3Cscript%3E").await.0, 400);

        let (used, other) = (state_of(&page), state_of(&org_page));
        assert_ne!(used, other);
        assert_eq!(
            get(&service, "/setup/callback?code=good-code&state=guessed").await.0,
            403
        );
        assert_eq!(get(&service, "/setup/callback?code=good-code").await.0, 403);
        let (status, problem) = get(&service, &format!("/setup/callback?code=bad-code&state={other}")).await;
        assert_eq!(status, 502, "{problem}");
        assert!(stored_app(folder.path()).unwrap().is_none());

        let (status, done) = get(&service, &format!("/setup/callback?code=good-code&state={used}")).await;
        assert_eq!(status, 200, "{done}");
        assert!(
            done.contains("https://github.com/apps/forgehand-octo/installations/new"),
            "{done}"
        );
        assert!(
            !done.contains("PRIVATE KEY") && !done.contains("0123456789abcdef"),
            "{done}"
        );
        let app = stored_app(folder.path()).unwrap().unwrap();
        assert_eq!(app.app_id, Some(4711));
        assert_eq!(app.webhook_secret.unwrap().expose(), "0123456789abcdef0123456789abcdef");

        assert_eq!(get(&service, "/setup").await.0, 409, "an App exists now");
        let again = format!("/setup/callback?code=good-code&state={used}");
        assert_eq!(get(&service, &again).await.0, 403, "a state is good once");
        service.stop().await;
    })
    .await;
}

/// R08: better no App than one whose key lies where it can be committed.
#[tokio::test]
async fn r08_no_app_is_made_whose_key_would_lie_in_a_repository() {
    each(async |store| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(".git")).unwrap();
        std::fs::write(folder.path().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        let inside = folder.path().join("below/state");
        std::fs::create_dir_all(&inside).unwrap();
        let mut state = state(store.clone());
        state.setup = Some(setup(&inside, "http://127.0.0.1:9", |_, _| {}));
        let service = Service::start(state).await;
        let (status, page) = get(&service, "/setup").await;
        assert_eq!(status, 409);
        assert!(page.contains("server.state_dir") && !page.contains("?state="), "{page}");
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn strangers_need_the_token() {
    each(async |store| {
        let folder = tempfile::tempdir().unwrap();
        let setup = setup(folder.path(), "http://127.0.0.1:9", |server, _| {
            server.public_url = Some("https://forge.example/".to_owned());
        });
        let url = setup.url();
        let token = url
            .expose()
            .strip_prefix("https://forge.example/setup?token=")
            .unwrap()
            .to_owned();
        let mut state = state(store.clone());
        state.setup = Some(setup);
        let service = Service::start(state).await;
        assert_eq!(get(&service, "/setup").await.0, 403);
        assert_eq!(get(&service, "/setup?token=0").await.0, 403);
        let (status, page) = get(&service, &format!("/setup?token={token}")).await;
        assert_eq!(status, 200);
        assert!(page.contains("https://forge.example/webhook"), "{page}");
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_configured_app_is_never_replaced() {
    each(async |store| {
        let folder = tempfile::tempdir().unwrap();
        let mut state = state(store.clone());
        state.setup = Some(setup(folder.path(), "http://127.0.0.1:9", |_, github| {
            github.app_id = Some(5)
        }));
        let service = Service::start(state).await;
        assert_eq!(get(&service, "/setup").await.0, 409);
        let no_page = Service::on(&store).await;
        assert_eq!(send(no_page.client.get(no_page.url("/setup"))).await.status, 404);
        no_page.stop().await;
        service.stop().await;
    })
    .await;
}
