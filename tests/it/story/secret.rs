//! The secrets of the service stay with the service, whatever an agent looks at: not in the
//! sandbox, not with the model, not in the database, the log, the state folder or on GitHub.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use forgehand::secret::{Secret, random_hex};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::databases::dump;
use crate::model_server::Reply;
use crate::service::{REPO, Service, finish, mend, usual};

mod forms;

/// Looks wherever a curious agent looks, and puts what it finds into a file of the change.
const CURIOUS: &str = "exec >found.txt 2>&1
env
cat /proc/*/environ /proc/*/cmdline /proc/*/mounts | tr '\\0' '\\n'
ls -la / /run /tmp /root /home /proc/1/fd
git config -l --show-origin
cat .git/config ../*.git/config
find / -xdev \\( -name '*.pem' -o -name 'credentials' -o -name '*.sqlite*' -o -name '*.key' \\)
find / -name config -path '*.git*' -exec cat {} +
cat /etc/passwd ~/.netrc ~/.git-credentials ~/.config/*
true";

/// What nobody but the service may have: one in every place where it keeps one.
struct Planted {
    model_key: Secret,
    fallback_key: Secret,
    webhook_secret: Secret,
    previous_secret: Secret,
    search_token: Secret,
    password: Option<Secret>,
}

fn plant(service: &mut Service) -> Planted {
    let planted = Planted {
        model_key: Secret::new(format!("model-key-{}", random_hex::<16>())),
        fallback_key: Secret::new(format!("fallback-key-{}", random_hex::<16>())),
        webhook_secret: Secret::new(random_hex::<20>()),
        previous_secret: Secret::new(random_hex::<20>()),
        search_token: Secret::new(format!("search-token-{}", random_hex::<16>())),
        password: (service.store.backend() == "postgres").then(|| Secret::new(random_hex::<16>())),
    };
    let config = &mut service.config;
    config.model.api_key = Some(planted.model_key.clone());
    config.model.fallback_base_url = Some("http://127.0.0.1:9/v1".to_owned());
    config.model.fallback_api_key = Some(planted.fallback_key.clone());
    config.github.webhook_secret = Some(planted.webhook_secret.clone());
    config.github.webhook_secret_previous = Some(planted.previous_secret.clone());
    config.web.github_token = Some(planted.search_token.clone());
    if let (Some(password), Some(url)) = (&planted.password, &config.database.url) {
        let mut url: url::Url = url.expose().parse().unwrap();
        url.query_pairs_mut().append_pair("password", password.expose());
        config.database.url = Some(Secret::new(url.as_str()));
    }
    planted
}

/// Every form in which a secret may turn up.
fn forms(planted: &Planted, service: &Service) -> Vec<(&'static str, Vec<u8>)> {
    let key = service.github.private_key();
    let key_line = key.expose().lines().nth(5).expect("the key has lines").to_owned();
    let mut plain = vec![
        ("the model key", planted.model_key.expose().to_owned()),
        ("the fallback's key", planted.fallback_key.expose().to_owned()),
        ("the webhook secret", planted.webhook_secret.expose().to_owned()),
        ("the webhook secret before", planted.previous_secret.expose().to_owned()),
        ("the token for searching", planted.search_token.expose().to_owned()),
        ("the App's key", key_line),
    ];
    if let Some(password) = &planted.password {
        plain.push(("the database password", password.expose().to_owned()));
    }
    let mut forms: Vec<(&'static str, Vec<u8>)> = Vec::new();
    for (name, secret) in plain {
        forms.extend(forms::all(&secret).into_iter().map(|(_, form)| (name, form)));
    }
    // Whole tokens are longer than their prefixes, which texts about tokens may name.
    for prefix in ["ghs_", "eyJhbGciOi"] {
        forms.push(("a token", hex::encode(prefix).into_bytes()));
        forms.push(("a token", prefix.as_bytes().to_owned()));
    }
    forms
}

#[track_caller]
fn check(place: &str, content: &[u8], forms: &[(&str, Vec<u8>)]) {
    for (name, form) in forms {
        let found = memchr::memmem::find(content, form);
        if let Some(at) = found {
            let near = &content[at.saturating_sub(60)..content.len().min(at + 20)];
            panic!("{name} is in {place}, after {:?}", String::from_utf8_lossy(near));
        }
    }
}

/// Every file below a folder but the credentials.
fn check_files(folder: &Path, forms: &[(&str, Vec<u8>)]) -> usize {
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() && entry.file_name() != "credentials" {
            seen += check_files(&path, forms);
        } else if kind.is_file() {
            seen += 1;
            check(&path.display().to_string(), &std::fs::read(&path).unwrap(), forms);
        }
    }
    seen
}

#[tokio::test]
async fn r01_r07_s01_no_secret_leaves_the_service() {
    usual()
        .tell_before_start(async |service: &mut Service| {
            let planted = plant(service);
            let forms = forms(&planted, service);
            let log = service.start_process().await;
            let gate = CancellationToken::new();
            // In a file: of such a line itself, the rules of permission make nothing, and they are
            // not what holds.
            let look = Reply::calls(&[
                ("write_file", json!({"path": "look.sh", "content": CURIOUS})),
                ("run_command", json!({"command": "sh look.sh; rm look.sh"})),
            ]);
            let show = Reply::call("run_command", json!({"command": "cat found.txt"}));
            service.model.play([mend(), look, show, finish().after(&gate)]);
            let issue = service.labelled_issue();
            service.model_is_asked(4).await;
            let files = check_files(&service.state_dir(), &forms);
            assert!(
                files > 20,
                "the state folder has only {files} files in the middle of a run"
            );
            gate.cancel();
            service.done().await;

            let requests = service.model.requests();
            let bearer = format!("Bearer {}", planted.model_key.expose());
            assert_eq!(requests[0].authorization.as_deref(), Some(bearer.as_str()));
            let seen = requests[3].last();
            assert!(
                seen.contains("PATH=") && seen.contains("/workspace"),
                "the agent looked: {seen}"
            );
            for request in &requests {
                check("a request to the model", request.body.to_string().as_bytes(), &forms);
            }
            let pull = service.only_pull();
            let published = service.file(&pull.head, "found.txt").await;
            assert!(published.contains("PATH="));
            check("the pushed branch", published.as_bytes(), &forms);
            let (title, body) = service.text_of(pull.number);
            check("the pull request", format!("{title}{body}").as_bytes(), &forms);
            check("our comments", service.everything_said().as_bytes(), &forms);
            assert!(service.our_only_words(issue).contains("### ✅"));
            let url = service
                .config
                .database
                .url
                .clone()
                .expect("the database has an address");
            let rows = dump(&url).await.to_lowercase();
            assert!(
                rows.contains("found.txt") && rows.contains(&hex::encode("count.sh")),
                "the dump is whole"
            );
            check("the database", rows.as_bytes(), &forms);
            service.stop().await;
            check_files(&service.state_dir(), &forms);
            let log = std::fs::read(log).unwrap();
            assert!(
                String::from_utf8_lossy(&log).contains("job finished"),
                "the log is whole"
            );
            check("the log", &log, &forms);
            assert_eq!(service.github.branches(REPO).unwrap().len(), 2);
        })
        .await;
}

/// R09: what the service keeps is no other user's business, whatever the mask is.
#[tokio::test]
async fn r09_the_folders_of_a_service_are_closed() {
    usual()
        .tell(async |service: &mut Service| {
            service.opened_pull().await;
            let mut seen = Vec::new();
            for entry in std::fs::read_dir(service.state_dir()).unwrap().flatten() {
                let mode = entry.metadata().unwrap().permissions().mode();
                assert_eq!(mode & 0o077, 0, "{}: {mode:o}", entry.path().display());
                seen.push(entry.file_name().to_string_lossy().into_owned());
            }
            for name in ["index", "instance", "mirrors", "publish", "runs"] {
                assert!(seen.iter().any(|found| found == name), "{name} in {seen:?}");
            }
        })
        .await;
}
