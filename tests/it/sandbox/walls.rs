//! What a command sees and may do.

use std::io::Write as _;
use std::net::TcpListener;

use forgehand::sandbox::{Program, WORKSPACE};

use super::backends::Place;
use super::*;

#[test]
fn commands_end_as_they_end() {
    on_each_as_each_user(async || {
        let run = Run::open().await;
        for (line, exit, output) in [
            ("echo hello; echo oops >&2; exit 3", Exit::Code(3), "hello\noops\n"),
            ("kill -9 $$", Exit::Signal(9), ""),
            ("no-such-program", Exit::Code(127), ""),
            ("pwd; whoami; hostname", Exit::Code(0), "/workspace\nagent\nsandbox\n"),
            (
                "test -t 0 || test -t 1 || echo no terminal",
                Exit::Code(0),
                "no terminal\n",
            ),
            ("printf '\\033[31mred\\033[0m\\n'", Exit::Code(0), "red\n"),
        ] {
            let got = run.sh(line).await;
            assert_eq!(got.exit, exit, "{line}: {}", got.output);
            assert!(got.output.contains(output), "{line}: {}", got.output);
        }
    });
}

#[test]
fn programs_get_arguments_input_folder_and_environment_as_they_are() {
    on_each_and_far_away(async || {
        let run = Run::open().await;
        run.ok("mkdir -p 'a b'").await;
        let mut exec = Exec::shell("");
        exec.program = Program::Argv(
            ["sh", "-c", "cat; echo \"$1|$X|$PWD\"", "sh", "$(touch x); y"]
                .map(str::to_owned)
                .to_vec(),
        );
        exec.stdin = b"input\0\xff\n".to_vec();
        exec.folder = "a b".to_owned();
        exec.environment.insert("X".to_owned(), "a=b\n`c`".to_owned());
        let output = run.exec(exec).await;
        assert_eq!(output.exit, Exit::Code(0), "{}", output.output);
        assert_eq!(output.output, "input\u{fffd}\n$(touch x); y|a=b\n`c`|/workspace/a b\n");
        assert!(!run.workspace().join("x").exists());
    });
}

#[test]
fn s02_a_command_cannot_start_outside_the_workspace() {
    on_each_and_far_away(async || {
        let run = Run::open().await;
        run.ok("ln -s /usr link; touch file").await;
        for (folder, problem) in [
            ("..", "outside"),
            ("/", "outside"),
            ("/etc", "outside"),
            ("a/../../b", "does not exist"),
            ("link", "outside"),
            ("file", "not a folder"),
            ("none", "does not exist"),
            ("nul\0", "NUL"),
        ] {
            let output = run
                .exec(Exec {
                    folder: folder.to_owned(),
                    ..Exec::shell("pwd")
                })
                .await;
            assert_eq!(output.exit, Exit::Code(126), "{folder:?}: {}", output.output);
            assert!(output.output.contains(problem), "{folder:?}: {}", output.output);
        }
        let output = run
            .exec(Exec {
                folder: WORKSPACE.to_owned(),
                ..Exec::shell("pwd")
            })
            .await;
        assert_eq!(output.output, "/workspace\n");
    });
}

/// S01, S16: the service's environment and descriptors stay with the service.
#[test]
fn f08_s01_nothing_of_the_service_reaches_a_command() {
    const PLANTED: &str = "CARGO_MANIFEST_DIR";
    let own = fs::read("/proc/self/environ").expect("our environment");
    assert!(
        String::from_utf8_lossy(&own).contains(PLANTED),
        "the test runner sets {PLANTED}"
    );
    on_each_as_each_user(async || {
        let run = Run::open().await;
        let seen = run
            .sh("env; cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'; ls /proc/self/fd")
            .await
            .output;
        assert!(seen.contains("GIT_TERMINAL_PROMPT=0"), "{seen}");
        assert!(seen.contains("ASAN_OPTIONS=detect_leaks=0"), "{seen}");
        assert!(!seen.contains(PLANTED), "{seen}");
        assert!(
            seen.ends_with("0\n1\n2\n3\n"),
            "descriptor 3 is the listing's own: {seen}"
        );
        assert_eq!(
            run.sh("cat /proc/1/mem /proc/1/maps; ls /proc/1/fd /proc/1/root/")
                .await
                .code(),
            Some(2)
        );
    });
}

#[test]
fn only_itself_is_on_the_network() {
    on_each_as_each_user(async || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its number").port();
        let run = Run::open().await;
        for target in [
            format!("tcp/127.0.0.1/{port}"),
            "tcp/192.0.2.1/80".to_owned(),
            "tcp/169.254.169.254/80".to_owned(),
            "udp/192.0.2.1/53".to_owned(),
            "tcp/::ffff:192.0.2.1/80".to_owned(),
            "tcp/example.com/80".to_owned(),
        ] {
            let output = run.sh(&format!("exec 3<>/dev/{target} && echo x >&3")).await;
            assert_ne!(output.exit, Exit::Code(0), "{target}: {}", output.output);
        }
        listener.set_nonblocking(true).expect("a listener that does not wait");
        assert!(listener.accept().is_err(), "nobody may reach this machine's ports");
        assert!(
            run.ok("cat /proc/net/fib_trie").await.contains("127.0.0.1"),
            "its own loopback is up"
        );
        assert_eq!(
            run.ok("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '").await,
            "lo\n"
        );
    });
}

#[test]
fn s12_the_machines_files_are_not_there() {
    on_each_as_each_user(async || {
        let run = Run::open().await;
        let secret = scratch();
        let database = run.folder.path().join("forgehand.sqlite");
        for file in [secret.path().join("token"), database.clone()] {
            fs::File::create(&file)
                .and_then(|mut file| file.write_all(b"CANARY"))
                .expect("a file");
        }
        for path in [
            "/etc/shadow",
            "/root",
            "/home/*/.ssh",
            "/boot",
            "/dev/kvm",
            "/dev/mem",
            "/var/run/docker.sock",
            "/run/dbus",
            "/old",
            "/etc/ssl/private",
            &format!("{}/token", secret.path().display()),
            &format!("{}", database.display()),
            "/proc/1/root/etc/shadow",
            "/proc/1/cwd/etc/shadow",
            "../forgehand.sqlite",
        ] {
            let output = run.sh(&format!("ls -d {path}")).await;
            assert_ne!(output.exit, Exit::Code(0), "{path}: {}", output.output);
        }
        // An engine shows a read-only /sys, and a terminal that cannot be opened.
        for path in ["/sys/kernel/uevent_helper", "/sys/fs/cgroup/x", "/dev/tty"] {
            let output = run.sh(&format!("echo x > {path}")).await;
            assert_ne!(output.exit, Exit::Code(0), "{path}: {}", output.output);
        }
        let seen = run
            .sh("cat /etc/passwd /etc/hosts /etc/hostname /proc/sys/kernel/hostname")
            .await
            .output;
        let own_name = fs::read_to_string("/proc/sys/kernel/hostname").expect("our name");
        assert!(
            !seen.contains(own_name.trim()) || own_name.trim() == "sandbox",
            "{seen}"
        );
        assert_eq!(
            seen.matches("/bin/sh").count() + seen.matches("nologin").count(),
            seen.matches(":x:").count()
        );
    });
}

#[test]
fn only_its_own_folders_are_writable() {
    on_each_as_each_user(async || {
        let run = Run::open().await;
        for path in [
            "/workspace/x",
            "/home/agent/x",
            "/tmp/x",
            "/var/tmp/y",
            "/dev/shm/x",
            "/dev/null",
        ] {
            run.ok(&format!("echo x > {path}")).await;
        }
        for path in [
            "/x",
            "/usr/bin/x",
            "/usr/bin/env",
            "/etc/passwd",
            "/etc/ssl/certs/x",
            "/bin/x",
            "/home/x",
            "/run/x",
            "/run/forgehand/x",
            "/run/forgehand/base.git/x",
            "/dev/x",
            "/proc/sys/kernel/core_pattern",
            "/proc/sys/kernel/pid_max",
            "/proc/sysrq-trigger",
            "/proc/1/oom_score_adj",
        ] {
            let output = run.sh(&format!("echo x > {path}")).await;
            assert_ne!(output.exit, Exit::Code(0), "{path}: {}", output.output);
        }
        assert!(
            run.workspace().join("x").is_file(),
            "what is written is in the run's folder"
        );
        assert_eq!(run.ok("cat /tmp/x ~/x").await, "x\nx\n", "the next command finds it");
        if backends::place() == Place::Local {
            assert_eq!(
                run.sh("cat /dev/shm/x").await.code(),
                Some(1),
                "shared memory ends with the command"
            );
        }
    });
}

/// S05, S06, S07, S17 by number, since no program offers all of them.
#[test]
fn s05_s06_s07_s17_dangerous_system_calls_are_refused() {
    on_each_as_each_user(async || {
        let run = Run::open().await;
        let mut script = String::from(
            "sub t { my $n = shift; my $r = syscall(shift, @_); my $e = $! + 0; print \"$n=\", $r == -1 ? $e == 1 ? 'EPERM' : $e == 38 ? 'ENOSYS' : $e : 'DONE', \"\\n\" }\n",
        );
        let zeros = "0, 0, 0, 0, 0";
        let calls: &[(&str, i64, &str)] = &[
            ("ptrace", libc::SYS_ptrace, zeros),
            ("process_vm_readv", libc::SYS_process_vm_readv, zeros),
            ("io_uring_setup", libc::SYS_io_uring_setup, zeros),
            ("bpf", libc::SYS_bpf, zeros),
            ("keyctl", libc::SYS_keyctl, zeros),
            ("userfaultfd", libc::SYS_userfaultfd, zeros),
            ("perf_event_open", libc::SYS_perf_event_open, zeros),
            ("kexec_load", libc::SYS_kexec_load, zeros),
            ("mount", libc::SYS_mount, zeros),
            ("pivot_root", libc::SYS_pivot_root, zeros),
            ("setns", libc::SYS_setns, zeros),
            ("open_by_handle_at", libc::SYS_open_by_handle_at, zeros),
            ("unshare user", libc::SYS_unshare, "0x10000000"),
            ("clone user", libc::SYS_clone, "0x10000011, 0, 0, 0, 0"),
            ("clone pid", libc::SYS_clone, "0x20000011, 0, 0, 0, 0"),
            ("clone3", libc::SYS_clone3, zeros),
            ("personality", libc::SYS_personality, "0x0400000"),
            ("tiocsti", libc::SYS_ioctl, "0, 0x5412, 0"),
            ("alg socket", libc::SYS_socket, "38, 5, 0"),
            ("packet socket", libc::SYS_socket, "17, 3, 0"),
            ("vsock", libc::SYS_socket, "40, 1, 0"),
            ("audit netlink", libc::SYS_socket, "16, 3, 9"),
            #[cfg(target_arch = "x86_64")]
            ("x32 getpid", 0x4000_0000 + libc::SYS_getpid, zeros),
        ];
        for (name, number, arguments) in calls {
            script.push_str(&format!("t('{name}', {number}, {arguments});\n"));
        }
        script.push_str(&format!("t('route netlink', {}, 16, 3, 0);\n", libc::SYS_socket));
        let output = run
            .exec(Exec {
                stdin: script.into_bytes(),
                ..Exec::shell("perl -")
            })
            .await;
        for (name, ..) in calls {
            let refused = if ["clone3", "x32 getpid"].contains(name) {
                "ENOSYS"
            } else {
                "EPERM"
            };
            assert!(
                output.output.contains(&format!("{name}={refused}\n")),
                "{name}: {}",
                output.output
            );
        }
        assert!(output.output.contains("route netlink=DONE"), "{}", output.output);
        let own = run.ok("id -u").await;
        if backends::place() == Place::Local {
            assert_eq!(own, "1000\n");
        }
        assert_ne!(own, "0\n");
        let raised = run.sh("chmod u+s /workspace; cp /usr/bin/id x; chmod 4755 x; ./x -u");
        assert_eq!(raised.await.output, own);
    });
}

/// S19: neither files nor processes nor ports of another run.
#[test]
fn s19_two_runs_do_not_see_each_other() {
    on_each_as_each_user(async || {
        let (one, other) = (
            Run::open().await,
            Run::open_with(config(), 8).await.expect("another sandbox"),
        );
        one.ok("echo mine > /tmp/secret; echo mine > ~/secret; echo mine > secret")
            .await;
        let looking = "sleep 0.2; ls -a /tmp ~ /workspace | grep secret; ps ax | grep [m]arker-of-one";
        let marked = Exec::shell("exec -a marker-of-one sleep 1");
        let (_, seen) = tokio::join!(one.exec(marked), other.sh(looking));
        assert_eq!((seen.code(), seen.output.as_str()), (Some(1), ""));
        if rustix::process::geteuid().is_root() {
            let owner = |run: &Run| fs::metadata(run.workspace()).expect("the workspace").uid();
            assert_eq!((owner(&one), owner(&other)), (2_000_007, 2_000_008));
        }
    });
}

#[tokio::test]
async fn compilers_outside_usr_are_shown_read_only() {
    let cargo = Path::new(env!("CARGO")).canonicalize().expect("cargo");
    let toolchain = cargo.ancestors().nth(2).expect("its folder").to_path_buf();
    let mut config = config();
    if !toolchain.starts_with("/usr") {
        config.toolchains = vec![toolchain.display().to_string()];
    }
    let run = Run::open_with(config, 7).await.expect("the sandbox opens");
    assert!(run.ok("rustc --version").await.starts_with("rustc 1."));
    run.ok("echo 'fn main() { println!(\"built\") }' > main.rs && rustc main.rs && ./main")
        .await;
    assert_ne!(
        run.sh(&format!("touch {}/x", toolchain.display())).await.exit,
        Exit::Code(0)
    );
}

#[tokio::test]
async fn folders_that_show_the_machine_are_no_compilers() {
    for path in ["/", "/etc", "/root", "/no-such-folder", "/etc/passwd"] {
        let mut config = config();
        config.toolchains = vec![path.to_owned()];
        let refused = Run::open_with(config, 7).await.map(drop).expect_err(path);
        assert!(
            refused.to_string().contains(&format!("sandbox.toolchains: {path}")),
            "{refused}"
        );
    }
}

#[test]
fn the_probe_names_every_wall() {
    local_as_each_user(async || {
        let folder = scratch();
        let description = sandbox::probe(&config(), folder.path()).await.expect("a sandbox");
        let text = description.to_string();
        for wall in [
            "namespaces",
            "user namespace",
            "no capabilities",
            "resource limits",
            "landlock abi",
            "seccomp",
        ] {
            assert!(text.contains(wall), "{wall} in {text}");
        }
    });
}
