//! Control groups: what they hold, that none is left, and that an ordinary user uses those that were
//! delegated to him. On a machine where nobody may make any, limits are watched, and that is said.

use std::process::Stdio;

use super::*;

/// Where hierarchies of control groups are mounted.
const MOUNTS: &str = "/sys/fs/cgroup";

/// Every group of a process, anywhere.
fn groups_of(process: u32) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![PathBuf::from(MOUNTS)];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let is_its = name.starts_with("forgehand-") && name.split('-').nth(2) == Some(&process.to_string());
                if is_its {
                    found.push(entry.path());
                }
                left.push(entry.path());
            }
        }
    }
    found
}

/// Whether the kernel holds limits of memory and processes here.
fn holds(run: &Run) -> bool {
    let layers = run.sandbox.description().layers;
    let held = layers.iter().find(|layer| layer.starts_with("cgroup"));
    let held = held.is_some_and(|layer| layer.contains("memory") && layer.contains("pids"));
    if !held {
        assert!(layers.iter().any(|layer| layer.contains("watched")), "{layers:?}");
        eprintln!("SKIPPED control groups: nobody may make any here ({layers:?})");
    }
    held
}

#[tokio::test]
async fn s09_memory_that_fills_in_an_instant_is_stopped_by_the_kernel() {
    let mut config = config();
    config.memory_mib = 64;
    let run = Run::open_with(config, 7).await.expect("the sandbox opens");
    if !holds(&run) {
        return;
    }
    let hog = "exec perl -e '$x = \"x\" x 400_000_000; print \"it had them all\\n\"'";
    let output = run.sh(hog).await;
    assert_eq!(
        output.exit,
        Exit::Limit("memory over 64 MiB".to_owned()),
        "{}",
        output.output
    );
    assert!(!output.output.contains("it had them all"));
    // The child alone is killed by the kernel; the command is over all the same.
    let output = run
        .sh(&format!("sh -c '{}'; echo went on", hog.replace('\'', "'\\''")))
        .await;
    assert_eq!(
        output.exit,
        Exit::Limit("memory over 64 MiB".to_owned()),
        "{}",
        output.output
    );
    assert_eq!(run.ok("echo the next has all of it").await, "the next has all of it\n");
}

#[tokio::test]
async fn s08_more_processes_than_may_be_are_refused_by_the_kernel() {
    let mut config = config();
    config.max_processes = 40;
    let run = Run::open_with(config, 7).await.expect("the sandbox opens");
    if !holds(&run) {
        return;
    }
    let forks =
        "exec perl -e 'for (1..100) { my $pid = fork; defined $pid or die \"fork: $!\\n\"; $pid or sleep(9), exit }'";
    let output = run.sh(forks).await;
    let limit = Exit::Limit("more than 40 processes and threads".to_owned());
    assert_eq!(output.exit, limit, "{}", output.output);
    assert!(
        output.output.contains("Resource temporarily unavailable"),
        "{}",
        output.output
    );
    assert!(output.took < Duration::from_secs(5), "{:?}", output.took);
}

#[test]
fn every_command_has_a_group_and_none_is_left() {
    local_as_each_user(async || {
        let run = Run::open().await;
        if !holds(&run) {
            return;
        }
        let forever = CancellationToken::new();
        let marker = format!("73001.{}", std::process::id());
        let exec = Exec::shell(format!("sleep {marker}"));
        let own = std::process::id();
        let members = || {
            let groups = groups_of(own).into_iter();
            let lines = groups.filter_map(|group| fs::read_to_string(group.join("cgroup.procs")).ok());
            lines.map(|text| text.lines().count()).max().unwrap_or(0)
        };
        tokio::select! {
            _ = run.sandbox.exec(&exec, &forever) => panic!("it does not end by itself"),
            () = async { while members() < 2 { tokio::task::yield_now().await } } => {}
        }
        soon("the end of a forgotten command", || !alive(&marker));
        run.sandbox.close().await;
        soon("the end of its groups", || groups_of(own).is_empty());
    });
}

/// Passes by itself; the next test starts it as a process of its own and kills that.
#[tokio::test]
async fn a_command_in_groups_ends_at_its_timeout() {
    let run = Run::open().await;
    let exec = Exec {
        timeout: Some(Duration::from_secs(3)),
        ..Exec::shell(format!("sleep 73002.{}", std::process::id()))
    };
    assert_eq!(run.exec(exec).await.exit, Exit::Limit("timeout after 3 s".to_owned()));
}

#[tokio::test]
async fn groups_of_a_killed_service_are_removed_at_the_next_start() {
    if !holds(&Run::open().await) {
        return;
    }
    let mut service = std::process::Command::new("/proc/self/exe")
        .args(["--exact", "sandbox::groups::a_command_in_groups_ends_at_its_timeout"])
        .stdout(Stdio::null())
        .spawn()
        .expect("this test program again");
    let process = service.id();
    let marker = format!("73002.{process}");
    soon("the start of the command", || alive(&marker));
    service.kill().and_then(|()| service.wait()).expect("kill -9");
    soon("the end of the command", || !alive(&marker));
    assert!(!groups_of(process).is_empty(), "what was killed could not tidy up");
    let living = groups_of(std::process::id());
    drop(Run::open().await);
    assert_eq!(groups_of(process), Vec::<PathBuf>::new());
    assert!(living.iter().all(|group| group.exists()), "those of the living stay");
    for entry in fs::read_dir(scratch_place())
        .expect("the place of scratch folders")
        .flatten()
    {
        if entry
            .file_name()
            .to_string_lossy()
            .starts_with(&scratch_prefix(process))
        {
            fs::remove_dir_all(entry.path()).expect("what the killed service left");
        }
    }
}

/// A unified hierarchy delegated to an ordinary user, as systemd does it.
#[test]
fn an_ordinary_user_uses_what_was_delegated_to_him() {
    let unified = [Path::new(MOUNTS), &Path::new(MOUNTS).join("unified")]
        .map(Path::to_path_buf)
        .into_iter()
        .find(|at| at.join("cgroup.controllers").exists());
    let (true, Some(unified)) = (rustix::process::geteuid().is_root(), unified) else {
        eprintln!("SKIPPED delegation: only root can delegate, in a unified hierarchy");
        return;
    };
    let delegated = unified.join(format!("forgehand-test-{}", std::process::id()));
    fs::create_dir(&delegated).expect("a group");
    for path in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
        std::os::unix::fs::chown(delegated.join(path), Some(NOBODY), Some(NOBODY)).expect("a delegated group");
    }
    let folder = scratch();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("an open folder");
    let script = "echo 0 > \"$1/cgroup.procs\" && exec setpriv --reuid=65534 --regid=65534 --clear-groups -- \"$2\" doctor --sandbox --json";
    let output = std::process::Command::new("sh")
        .args(["-c", script, "sh"])
        .args([delegated.as_path(), &helper()])
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
        .env("HOME", folder.path())
        .env("TMPDIR", folder.path())
        .output()
        .expect("the program");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    soon("the end of the group", || {
        fs::remove_dir(&delegated).is_ok() || !delegated.exists()
    });
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{text}"));
    let layers = report["layers"].as_array().expect("layers");
    let end = layers
        .iter()
        .find(|layer| layer["name"] == "end of everything")
        .expect("a row");
    assert!(end["detail"].as_str().expect("words").contains("cgroup.kill"), "{text}");
    assert_eq!(report["ok"].as_bool(), Some(output.status.success()), "{text}");
}
