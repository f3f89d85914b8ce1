//! A checkout with a dev container: in a container backend its image is a wish, as `image` of the
//! checkout's own file is, and nothing else that stands there is done.

use std::io::BufReader;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use serde_json::{Value, json};

use super::checkout::{Checkout, call, edit, finish};
use super::ended;
use super::interrupted::{interrupt, read_until};
use crate::sandbox::backends::{self, Place};
use crate::sandbox::engines::ask;

/// The wish, and what would open the machine.
const DEV_CONTAINER: &str = r#"// How people work here.
{
    "image": "forgehand-test:busybox", // small
    "runArgs": ["--privileged", "--network=host", "-v", "/var/run/docker.sock:/var/run/docker.sock"],
    "mounts": ["source=/,target=/host,type=bind"],
    "privileged": true,
    "postCreateCommand": "touch /workspace/created",
}
"#;

fn checkout(dev_container: &str) -> Checkout {
    let checkout = Checkout::new();
    checkout.write(".devcontainer/devcontainer.json", dev_container);
    checkout.commit("Work in a container");
    checkout
}

/// A run in the engine of the story at hand.
fn run(checkout: &Checkout, turns: &Value, images: &str) -> Command {
    let mut command = checkout.user.forgehand();
    command.args([
        "run",
        "--set",
        &checkout.script(turns),
        "--task",
        "Add, do not subtract",
    ]);
    if let Some(socket) = backends::socket() {
        command.args(["--set", "sandbox.backend=docker", "--set", "sandbox.image_by_tag=true"]);
        command.args(["--set", &format!("sandbox.docker_socket={socket}")]);
        command.args(["--set", "sandbox.image=forgehand-test:debian", "--set", images]);
    }
    command
}

/// Leaves word of the image in the change.
fn which() -> Value {
    let line = "if command -v perl; then echo large; else echo small; fi | tail -n 1 > image.txt; ls created";
    call("run_command", json!({ "command": line }))
}

#[test]
fn s12_x08_the_image_of_a_dev_container_is_used_and_nothing_else_of_it() {
    backends::on_each(async || {
        if backends::place() == Place::Local {
            return;
        }
        let checkout = checkout(DEV_CONTAINER);
        let turns = json!([
            edit(),
            call("run_command", json!({"command": "sleep 300"})),
            finish("done", "never said"),
        ]);
        let mut command = run(&checkout, &turns, "sandbox.images=forgehand-test:busybox");
        let mut child = command.process_group(0).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let said = read_until(&mut errors, "edit_file");
        let found = containers_of(&checkout);
        interrupt(&child);
        ended(child.wait_with_output().unwrap());
        let keys = "mounts, postCreateCommand, privileged, runArgs";
        assert!(
            said.contains(&format!("its image alone is used; without effect: {keys}")),
            "{said}"
        );
        assert!(!found.is_empty(), "the run has no container");
        let image = ask("GET", "/images/forgehand-test:busybox/json", "");
        for container in &found {
            assert_eq!(container["Image"], image["Id"], "{container}");
            let host = &container["HostConfig"];
            assert_eq!(host["Privileged"], false);
            assert_eq!(host["NetworkMode"], "none");
            let mounts = container["Mounts"].as_array().unwrap();
            for mount in mounts {
                let (source, target) = (
                    mount["Source"].as_str().unwrap(),
                    mount["Destination"].as_str().unwrap(),
                );
                assert!(
                    source != "/" && !source.ends_with("docker.sock") && target != "/host",
                    "{mount}"
                );
            }
        }
    });
}

/// What the engine says of the containers that show something of this user's.
fn containers_of(checkout: &Checkout) -> Vec<Value> {
    let own = checkout.user.tmp.path().canonicalize().unwrap().display().to_string();
    let all = ask("GET", "/containers/json", "");
    let is_ours = |container: &&Value| {
        let mounts = container["Mounts"].as_array();
        mounts.is_some_and(|mounts| {
            let source = |mount: &Value| mount["Source"].as_str().is_some_and(|source| source.starts_with(&own));
            mounts.iter().any(source)
        })
    };
    let ours = all.as_array().unwrap().iter().filter(is_ours);
    ours.map(|container| {
        let id = container["Id"].as_str().unwrap();
        ask("GET", &format!("/containers/{id}/json"), "")
    })
    .collect()
}

#[test]
fn x08_the_image_of_a_dev_container_counts_where_the_operator_lists_it() {
    backends::on_each(async || {
        let turns = json!([which(), edit(), finish("done", "It adds.")]);
        let refused = "devcontainer.json`: without effect in this version: image";
        let own = "image = \"forgehand-test:debian\"\ntest = [\"sh test.sh\"]\n";
        for (listed, own_file, image, says_so) in [
            ("forgehand-test:busybox", None, "small", false),
            ("forgehand-test:other", None, "large", true),
            // The checkout's own file goes before.
            (
                "forgehand-test:busybox,forgehand-test:debian",
                Some(own),
                "large",
                false,
            ),
        ] {
            let checkout = checkout("{\"image\": \"forgehand-test:busybox\", /* why not */}\n");
            if let Some(text) = own_file {
                checkout.write(".github/forgehand.toml", text);
                checkout.commit("Another image");
            }
            let images = format!("sandbox.images={listed}");
            let ended = ended(run(&checkout, &turns, &images).output().unwrap());
            ended.assert_code(0);
            let branch = checkout.other_branches().pop().expect("a branch");
            assert_eq!(
                checkout.git(&["show", &format!("{branch}:add.sh")]),
                "echo $(($1 + $2))"
            );
            if backends::place() == Place::Local {
                // There are no images; nobody has to hear of it in every run.
                assert!(!ended.err.contains("devcontainer"), "{}", ended.err);
                continue;
            }
            assert_eq!(ended.err.contains(refused), says_so, "{listed}: {}", ended.err);
            assert_eq!(
                checkout.git(&["show", &format!("{branch}:image.txt")]),
                image,
                "{listed}"
            );
        }
    });
}

#[test]
fn a_dev_container_that_cannot_be_read_is_said_and_not_used() {
    backends::on_each(async || {
        if backends::place() == Place::Local {
            return;
        }
        let too_long = format!("{{\"image\": \"forgehand-test:busybox\"}}{}", " ".repeat(64 * 1024));
        for (text, words) in [
            ("{\"image\": forgehand}", "devcontainer.json` line 1: "),
            (too_long.as_str(), "is larger than 65536 bytes"),
        ] {
            let checkout = checkout(text);
            let turns = json!([edit(), finish("done", "It adds.")]);
            let ended = ended(
                run(&checkout, &turns, "sandbox.images=forgehand-test:busybox")
                    .output()
                    .unwrap(),
            );
            ended
                .assert_code(0)
                .assert_err(words)
                .assert_err("Nothing of that file is used");
        }
    });
}
