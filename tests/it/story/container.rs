//! A service whose sandboxes are containers: the image of a repository's dev container is what its
//! commands run in, where the operator lists it.

use forgehand::config::{Config, SandboxBackend};
use forgehand::demo::double::RepositorySeed;
use forgehand::event::RunEvent;
use serde_json::json;

use crate::model_server::Reply;
use crate::sandbox::backends::{self, Place};
use crate::service::{Service, bug_fix, finish, usual};

/// With the engine of the story at hand.
fn in_containers(config: &mut Config) {
    let sandbox = &mut config.sandbox;
    sandbox.backend = SandboxBackend::Docker;
    sandbox.docker_socket = backends::socket().map(Into::into);
    sandbox.image = Some("forgehand-test:debian".to_owned());
    sandbox.images = vec!["forgehand-test:busybox".to_owned()];
    sandbox.image_by_tag = true;
}

#[test]
fn s12_x08_a_job_runs_in_the_image_of_the_dev_container() {
    backends::on_each(async || {
        if backends::place() == Place::Local {
            return;
        }
        usual()
            .configuration(in_containers)
            .repository(|seed| {
                seed.file(
                    ".devcontainer.json",
                    "{\n  // small\n  \"image\": \"forgehand-test:busybox\",\n  \"privileged\": true,\n}\n",
                )
                .file("count.sh", "echo $(( $(wc -w) - 1 ))\n")
                .file("test.sh", "test $(echo a b | sh count.sh) = 2\n")
                .commit("Count words")
            })
            .tell(async |service: &mut Service| {
                let line = "if command -v perl; then echo large; else echo small; fi | tail -n 1 > image.txt";
                let which = Reply::call("run_command", json!({ "command": line }));
                let [mend, _] = bug_fix();
                service.model.play([which, mend, finish()]);
                service.labelled_issue();
                service.done().await;
                let pull = service.only_pull();
                assert_eq!(service.file(&pull.head, "image.txt").await, "small\n");
                let said = service.events(&service.fix().await).await;
                let alone = "`.devcontainer.json`: its image alone is used; without effect: privileged.";
                let is_said = |event: &RunEvent| matches!(event, RunEvent::Noted { text } if text == alone);
                assert!(said.iter().any(is_said), "{said:?}");
            })
            .await;
    });
}

type Seed = fn(RepositorySeed) -> RepositorySeed;

/// A repository with a small dev container and a large one.
fn two(seed: RepositorySeed) -> RepositorySeed {
    let image = |name: &str| format!("{{\"image\": \"forgehand-test:{name}\"}}\n");
    seed.file(".devcontainer/large/devcontainer.json", image("debian"))
        .file(".devcontainer/small/devcontainer.json", image("busybox"))
        .file("count.sh", "echo $(( $(wc -w) - 1 ))\n")
        .file("test.sh", "test $(echo a b | sh count.sh) = 2\n")
}

fn none_chosen(seed: RepositorySeed) -> RepositorySeed {
    two(seed).commit("Count words")
}

fn small_chosen(seed: RepositorySeed) -> RepositorySeed {
    two(seed)
        .file(".github/forgehand.toml", "devcontainer = \"small\"\n")
        .commit("Count words")
}

#[test]
fn one_of_several_dev_containers_is_chosen_and_never_guessed() {
    backends::on_each(async || {
        if backends::place() == Place::Local {
            return;
        }
        let repositories: [(Seed, &str, bool); 2] = [(small_chosen, "small\n", false), (none_chosen, "large\n", true)];
        for (repository, expected, asks) in repositories {
            usual()
                .configuration(in_containers)
                .repository(repository)
                .tell(async |service: &mut Service| {
                    let line = "if command -v perl; then echo large; else echo small; fi | tail -n 1 > image.txt";
                    let which = Reply::call("run_command", json!({ "command": line }));
                    let [mend, _] = bug_fix();
                    service.model.play([which, mend, finish()]);
                    service.labelled_issue();
                    service.done().await;
                    let pull = service.only_pull();
                    assert_eq!(service.file(&pull.head, "image.txt").await, expected);
                    let said = service.events(&service.fix().await).await;
                    let told = "There are several dev containers (`large`, `small`) and none is chosen, so that the image \
                                of none is used. `devcontainer = \"large\"` in `.github/forgehand.toml` chooses one.";
                    let is_told = |event: &RunEvent| matches!(event, RunEvent::Noted { text } if text == told);
                    assert_eq!(said.iter().any(is_told), asks, "{said:?}");
                })
                .await;
        }
    });
}
