//! What is particular to containers: how hard they are, what commands in the background share, what
//! happens when a command kills what it can, images without git, and that nothing is left.

use forgehand::sandbox::{Part, SnapshotRequest, Started};
use serde_json::Value;

use super::backends::{Place, docker_as_each_user, in_docker_as_each_user, place};
use super::engines::ask;
use super::export::Checkout;
use super::*;

/// Containers that show this run's folder.
fn containers_of(folder: &Path) -> Vec<Value> {
    let own = folder.display().to_string();
    let all = ask("GET", "/containers/json?all=1", "");
    let shows = |mount: &Value| mount["Source"].as_str().is_some_and(|source| source.starts_with(&own));
    let ours = |container: &&Value| {
        container["Mounts"]
            .as_array()
            .is_some_and(|mounts| mounts.iter().any(shows))
    };
    all.as_array().expect("a list").iter().filter(ours).cloned().collect()
}

fn of_image(image: &str) -> SandboxConfig {
    SandboxConfig {
        image: Some(format!("forgehand-test:{image}")),
        ..config()
    }
}

#[test]
fn the_container_is_as_hard_as_it_can_be() {
    in_docker_as_each_user(async || {
        let run = Run::open().await;
        let description = run.sandbox.description().to_string();
        for layer in [
            "image sha256:",
            "container without network",
            "read-only root",
            "no capabilities",
            "no new privileges",
            "the engine's seccomp",
            "user id ",
            "seccomp",
            "limits of memory, processes and processors",
        ] {
            assert!(description.contains(layer), "{layer} in {description}");
        }
        let containers = containers_of(run.folder.path());
        let [container] = containers.as_slice() else {
            panic!("{containers:?}")
        };
        let id = container["Id"].as_str().expect("an id");
        let found = ask("GET", &format!("/containers/{id}/json"), "");
        let host = &found["HostConfig"];
        for (key, expected) in [
            ("NetworkMode", Value::from("none")),
            ("ReadonlyRootfs", Value::from(true)),
            ("Privileged", Value::from(false)),
            ("AutoRemove", Value::from(true)),
            ("PidsLimit", Value::from(512 + 64)),
            ("Memory", Value::from((4096_u64 + 64) << 20)),
            ("MemorySwap", Value::from((4096_u64 + 64) << 20)),
            ("NanoCpus", Value::from(2_000_000_000_u64)),
            ("CapDrop", Value::from(vec!["ALL"])),
            ("SecurityOpt", Value::from(vec!["no-new-privileges"])),
        ] {
            assert_eq!(host[key], expected, "{key}");
        }
        assert!(host["Devices"].as_array().is_none_or(Vec::is_empty));
        assert_ne!(found["Config"]["User"], "0:0");
        let own = run.folder.path().canonicalize().expect("the run's folder");
        for mount in host["Mounts"].as_array().expect("mounts") {
            let (source, target) = (mount["Source"].as_str().expect("a source"), mount["Target"].as_str());
            let ours = Path::new(source).starts_with(&own);
            let helper = target.is_some_and(|target| target.starts_with("/run/forgehand/helper/"));
            assert!(ours || helper && mount["ReadOnly"] == true, "{mount}");
        }
    });
}

#[test]
fn commands_in_the_background_stand_alone_and_end() {
    on_each_as_each_user(async || {
        let run = Run::open().await;
        let cancel = CancellationToken::new();
        let marker = format!("71011.{}", std::process::id());
        let line = format!("echo begun; echo x > /tmp/shared; trap '' TERM; setsid sleep {marker} & sleep {marker}");
        let Started::Running(id) = run.sandbox.start(&Exec::shell(line), &cancel).await.expect("a start") else {
            panic!("too many")
        };
        limits::soon_async(|| alive(&marker)).await;
        assert_eq!(run.sandbox.running().len(), 1);
        assert!(!run.ok("ps ax").await.contains(&marker), "others do not see it");
        assert_eq!(run.ok("cat /tmp/shared").await, "x\n", "but its files");
        let waiting = Instant::now();
        loop {
            let moment = Duration::from_millis(1);
            let seen = run.sandbox.output(id, Part::All, moment, &cancel).await.expect("it");
            assert_eq!(seen.exit, None, "{}", seen.output);
            // Podman 4.3 may hold it back until the end.
            if seen.output == "begun\n" || place() == Place::Podman {
                break;
            }
            assert!(waiting.elapsed() < Duration::from_secs(10), "{}", seen.output);
        }
        let started = Instant::now();
        run.sandbox.stop(id).await.expect("its end");
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        assert!(!alive(&marker));
        let quick = run
            .sandbox
            .start(&Exec::shell("exit 7"), &cancel)
            .await
            .expect("a start");
        let Started::Running(id) = quick else {
            panic!("too many")
        };
        let ended = run
            .sandbox
            .output(id, Part::All, Duration::from_secs(20), &cancel)
            .await
            .expect("it");
        assert_eq!(ended.exit, Some(Exit::Code(7)));
        for _ in 0..4 {
            let more = run
                .sandbox
                .start(&Exec::shell(format!("sleep {marker}")), &cancel)
                .await;
            assert!(matches!(more, Ok(Started::Running(_))), "{more:?}");
        }
        let fifth = run.sandbox.start(&Exec::shell("true"), &cancel).await;
        assert!(matches!(fifth, Ok(Started::TooMany(_))), "{fifth:?}");
        run.sandbox.close().await;
        assert!(!alive(&marker));
        assert!(run.sandbox.start(&Exec::shell("true"), &cancel).await.is_err());
    });
}

/// A command that kills everything it may reaches neither its own supervisor nor the next command.
#[test]
fn a_command_that_kills_what_it_can_stays_alone() {
    on_each_as_each_user(async || {
        let run = Run::open().await;
        let marker = format!("71012.{}", std::process::id());
        let line =
            format!("echo kept > file; setsid sleep {marker} & (trap '' TERM; sleep {marker}) & kill -9 -1; exit 3");
        let output = run.sh(&line).await;
        assert!(matches!(output.exit, Exit::Code(3) | Exit::Signal(9)), "{output:?}");
        limits::soon_async(|| !alive(&marker)).await;
        let output = run.sh("kill -9 1; kill -STOP 1; kill -9 $PPID; echo still here").await;
        assert!(matches!(output.exit, Exit::Code(0) | Exit::Signal(9)), "{output:?}");
        assert_eq!(run.ok("cat file").await, "kept\n");
    });
}

#[test]
fn states_are_kept_and_brought_back() {
    on_each_as_each_user(async || {
        told_of_states(Checkout::open().await).await;
    });
}

#[test]
fn an_image_without_git_and_c_library_will_do() {
    docker_as_each_user(async || {
        let checkout = Checkout::open_with(of_image("busybox")).await;
        let run = &checkout.run;
        assert_eq!(
            run.ok("echo $0; ls /usr/bin 2>&1 | head -n 1 || :")
                .await
                .lines()
                .next(),
            Some("/bin/sh")
        );
        assert_eq!(run.sh("git --version").await.code(), Some(127));
        let reply = run
            .files(serde_json::json!({"op": "read", "path": "src/one.txt", "max_bytes": 99}))
            .await;
        assert!(matches!(reply, FileReply::Content { bytes: 4, .. }), "{reply:?}");
        told_of_states(checkout).await;
        let checkout = Checkout::open_with(of_image("busybox")).await;
        checkout.run.ok("echo more > new.txt").await;
        assert_eq!(checkout.exported().await, "100644 A\tnew.txt\n");
    });
}

async fn told_of_states(checkout: Checkout) {
    let cancel = CancellationToken::new();
    let ask = async |request| checkout.run.sandbox.snapshot(&request, &cancel).await.expect("a look");
    checkout.run.ok("echo first > src/one.txt; echo new > new.txt").await;
    let name = "a name\nin two lines".to_owned();
    let kept = ask(SnapshotRequest::Keep { name }).await;
    assert_eq!((kept.code(), kept.output.trim()), (Some(0), "forgehand: kept 1"));
    checkout.run.ok("rm new.txt; echo second > src/one.txt").await;
    let since = ask(SnapshotRequest::Diff {
        since: Some(1),
        path: String::new(),
    })
    .await;
    assert!(
        since.output.contains("-first") && since.output.contains("+second"),
        "{}",
        since.output
    );
    let back = ask(SnapshotRequest::Restore { number: 1 }).await;
    assert_eq!(back.code(), Some(0), "{}", back.output);
    assert_eq!(checkout.run.ok("cat src/one.txt new.txt").await, "first\nnew\n");
    let unknown = ask(SnapshotRequest::Restore { number: 77 }).await;
    assert_eq!(unknown.code(), Some(3), "{}", unknown.output);
    assert_eq!(ask(SnapshotRequest::Restore { number: 0 }).await.code(), Some(0));
    assert_eq!(checkout.run.ok("cat src/one.txt").await, "one\n");
}

#[test]
fn an_image_is_found_by_its_own_id_and_a_moved_tag_is_not_followed() {
    docker_as_each_user(async || {
        let run = Run::open().await;
        let description = run.sandbox.description().to_string();
        let id = description
            .split("image ")
            .nth(1)
            .and_then(|rest| rest.split(',').next())
            .expect("an id");
        let mut config = config();
        config.image_by_tag = false;
        config.image = Some(id.to_owned());
        let run = Run::open_with(config, 8).await.expect("the image by its id");
        run.ok("git --version").await;
    });
}

#[test]
fn nothing_is_left_when_a_sandbox_is_closed_or_forgotten() {
    docker_as_each_user(async || {
        let run = Run::open().await;
        assert_eq!(containers_of(run.folder.path()).len(), 1);
        run.sandbox.close().await;
        assert_eq!(containers_of(run.folder.path()), [] as [Value; 0]);
        let run = Run::open().await;
        let folder = run.folder.path().to_owned();
        assert_eq!(containers_of(&folder).len(), 1);
        drop(run);
        soon("the end of a forgotten container", || containers_of(&folder).is_empty());
    });
}

/// A service that died in the middle of making a container could not end it.
#[test]
fn containers_of_dead_services_are_removed() {
    docker_as_each_user(async || {
        let own = own_containers_label().await;
        let dead = own.replace(&format!("/{}/", std::process::id()), "/4194303/");
        let body = serde_json::json!({
            "Image": "forgehand-test:busybox",
            "Cmd": ["sleep", "1000"],
            "Labels": {"forgehand.owner": dead},
            "HostConfig": {"NetworkMode": "none"},
        });
        let made = ask("POST", "/containers/create", &body.to_string());
        let id = made["Id"].as_str().expect("an id").to_owned();
        ask("POST", &format!("/containers/{id}/start"), "");
        let there = || {
            let all = ask("GET", "/containers/json?all=1", "");
            all.as_array()
                .expect("a list")
                .iter()
                .any(|container| container["Id"] == id.as_str())
        };
        assert!(there());
        let _run = Run::open().await;
        soon("the removal of a leftover", || !there());
    });
}

async fn own_containers_label() -> String {
    let run = Run::open().await;
    let containers = containers_of(run.folder.path());
    let label = containers[0]["Labels"]["forgehand.owner"].as_str();
    label.expect("a label").to_owned()
}
