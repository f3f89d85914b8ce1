//! Registries through the proxy: packages are read and nothing else is done, whatever a command
//! asks for.

use super::*;

/// A registry of cargo whose files lie on another server, as it says itself.
async fn cargo_registry() -> (Site, Site) {
    let files = Site::start(|_| Answer::of("application/octet-stream", b"\x1f\x8bcrate".to_vec())).await;
    let dl = format!("http://files.example:{}/crates", files.port());
    let index = Site::start(move |path| match path {
        "/config.json" => Answer::json(&serde_json::json!({"dl": dl})),
        "/se/rd/serde" => Answer::text("{\"name\":\"serde\"}\n"),
        "/moved/crate" => Answer::redirect("http://169.254.169.254/"),
        _ => Answer::status(404),
    })
    .await;
    (index, files)
}

async fn open(index: &Site, files: &Site) -> Outgoing {
    let names = Names::of(&[("index.example", &["127.0.0.1"]), ("files.example", &["127.0.0.1"])]);
    let private = [
        format!("index.example:{}", index.port()),
        format!("files.example:{}", files.port()),
    ];
    let config = EgressConfig {
        registries: vec![format!("cargo http://{}/", private[0])],
        ..egress(&[], &private)
    };
    Outgoing::open(&config, &names).await
}

#[test]
fn n10_packages_are_read_and_files_lie_where_the_registry_says() {
    on_each_as_each_user_and_far_away(async || {
        let (index, files) = cargo_registry().await;
        let run = open(&index, &files).await;
        let (index_at, files_at) = (
            format!("index.example:{}", index.port()),
            format!("files.example:{}", files.port()),
        );
        let file = "/crates/serde/1.0.0/download";
        let shown = run.get(&files_at, file).await;
        assert!(
            shown.starts_with("HTTP/1.1 403"),
            "not before the registry said so: {shown}"
        );
        let shown = run.get(&index_at, "/config.json").await;
        assert!(
            shown.starts_with("HTTP/1.1 200") && shown.contains(&files_at),
            "{shown}"
        );
        assert!(run.get(&index_at, "/se/rd/serde").await.contains("\"serde\""));
        let shown = run.get(&files_at, file).await;
        assert!(shown.starts_with("HTTP/1.1 200") && shown.contains("crate"), "{shown}");
        let settings = run
            .sh("cat /.cargo/config.toml; touch /.cargo/x; echo \"[$CARGO_NET_OFFLINE]\"")
            .await;
        // Elsewhere nothing can be mounted: the file is another user's.
        let refused = match backends::place() {
            Place::Local | Place::Docker | Place::Podman => "Read-only",
            Place::OpenSandbox => "Permission denied",
        };
        assert!(
            settings.contains(&format!("sparse+http://{index_at}/"))
                && settings.contains(refused)
                && settings.contains("[]"),
            "{settings}"
        );
    });
}

#[test]
fn n10_a_registry_is_never_written_to_searched_or_tunnelled_to() {
    on_each_and_far_away(async || {
        let (index, files) = cargo_registry().await;
        let run = open(&index, &files).await;
        let at = format!("index.example:{}", index.port());
        for method in ["POST", "PUT", "DELETE", "PATCH"] {
            let shown = run.send(request(method, &at, "/se/rd/serde").as_bytes()).await;
            assert!(
                shown.starts_with("HTTP/1.1 405") && shown.contains("only read from"),
                "{shown}"
            );
        }
        for path in [
            "/api/v1/crates/new",
            "/se/rd/serde?secret=1",
            "/api/v1/me/tokens",
            "/x/../config.json",
            "/owner/repo.git/git-receive-pack",
            "/",
        ] {
            let shown = run.get(&at, path).await;
            assert!(shown.starts_with("HTTP/1.1 403"), "{path}: {shown}");
        }
        let shown = run.tunnel(&at, &client_hello(Some("index.example"), false)).await;
        assert!(
            shown.starts_with("HTTP/1.1 403") && shown.contains("is a registry: it is asked as http://index.example/"),
            "{shown}"
        );
        assert_eq!(index.hits(), 0);
    });
}

#[test]
fn n10_only_what_is_needed_goes_to_a_registry() {
    on_each_and_far_away(async || {
        let (index, files) = cargo_registry().await;
        let run = open(&index, &files).await;
        let at = format!("index.example:{}", index.port());
        let told = format!(
            "GET http://{at}/se/rd/serde HTTP/1.1\r\nHost: {at}\r\nAuthorization: Bearer stolen\r\nX-Out: secret\r\n\
         Cookie: a=b\r\nConnection: close\r\nContent-Length: 6\r\n\r\nsecret"
        );
        let shown = run.send(told.as_bytes()).await;
        assert!(shown.starts_with("HTTP/1.1 200"), "{shown}");
        let seen = &index.requests()[0];
        assert_eq!((seen.authorization.as_deref(), seen.method.as_str()), (None, "GET"));
        let wrong = Egress::new(&EgressConfig {
            registries: vec!["maven https://a.example/".to_owned()],
            ..EgressConfig::default()
        });
        assert!(wrong.is_err_and(|problems| problems[0].starts_with("egress.registries: ")));
    });
}
