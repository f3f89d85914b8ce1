//! The guarded way out in a whole service: a repository's commands meet the proxy, and people and
//! the model are told.

use forgehand::config::SetupFailure;

use crate::service::{Service, finish, mend, usual, with_bug};

/// Asks the proxy for a host that nobody listed, and fails as a package manager would.
const SETUP: &str = r#"setup = ["exec 3<>/dev/tcp/127.0.0.1/17128 && printf 'CONNECT registry.example:443 HTTP/1.1\\r\\nHost: registry.example:443\\r\\n\\r\\n' >&3 && timeout 20 cat <&3; exit 1"]"#;

#[tokio::test]
async fn a_blocked_host_is_told_to_people_and_to_the_model() {
    usual()
        .configuration(|config| {
            config.egress.hosts = vec!["docs.example".to_owned()];
            config.workspace.setup_failure = Some(SetupFailure::GoOn);
        })
        .repository(|seed| {
            with_bug(seed)
                .file(".github/forgehand.toml", format!("{SETUP}\n"))
                .commit("Count words")
        })
        .tell(async |service: &mut Service| {
            service.model.play([mend(), finish()]);
            let issue = service.labelled_issue();
            service.done().await;
            let prompt = service.model.requests().remove(0).body.to_string();
            assert!(
                prompt.contains("registry.example:443 was blocked") && prompt.contains("egress.hosts = ["),
                "{prompt}"
            );
            let words = service.our_only_words(issue);
            let line = "> Commands were kept from `registry.example:443`. To allow: \
                        `egress.hosts = [..., \"registry.example\"] in forgehand.toml`";
            assert!(words.contains(line), "{words}");
        })
        .await;
}
