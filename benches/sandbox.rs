//! What the sandboxes cost, as ratios: opening one with its first command, a command in an open one,
//! and 10,000 small file operations, against a plain process, against bare `bwrap`, and where
//! `FORGEHAND_TEST_DOCKER` names an engine with the images of the tests, against `docker run` and
//! `docker exec` through its command line. Fails when a goal is missed.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forgehand::config::{SandboxBackend, SandboxConfig};
use forgehand::sandbox::{self, Exec, Program, Sandbox, SandboxFolders};
use tokio_util::sync::CancellationToken;

/// Of each kind; the median counts.
const ROUNDS: usize = 21;

/// Between two commands: far less than a model needs for a reply.
const THOUGHT: Duration = Duration::from_millis(100);

const IMAGE: &str = "forgehand-test:debian";

/// Most that opening a container and a command in it may cost, by those of the engine's own client.
const MOST_BY_DOCKER: f64 = 1.2;

/// Most that opening a local sandbox and its first command may cost, by `bwrap` with that command.
const MOST_BY_BUBBLEWRAP: f64 = 1.5;

/// Most that a command in an open local sandbox may cost, by the same command without one.
const MOST_BY_PLAIN: f64 = 2.0;

/// Makes, writes, looks at and removes 2,500 files.
const FILES: &str = "for (1..2500) { open F, '>', \"f$_\"; print F 'x' x 100; close F; -s \"f$_\"; unlink \"f$_\" }";

/// Namespaces and a root that holds what a command needs, as the local sandbox has them.
const BUBBLEWRAP: &[&str] = &[
    "bwrap",
    "--unshare-all",
    "--die-with-parent",
    "--new-session",
    "--ro-bind",
    "/usr",
    "/usr",
    "--symlink",
    "usr/bin",
    "/bin",
    "--symlink",
    "usr/lib",
    "/lib",
    "--symlink",
    "usr/lib64",
    "/lib64",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    "/tmp",
];

#[tokio::main]
async fn main() -> ExitCode {
    let config = SandboxConfig {
        helper: Some(PathBuf::from(env!("CARGO_BIN_EXE_forgehand"))),
        ..SandboxConfig::default()
    };
    let plain = by_hand(&["/bin/true"]);
    let folder = scratch();
    let plain_files = Command::new("perl")
        .args(["-e", FILES])
        .current_dir(folder.path())
        .timed();
    println!("a plain process {plain:?}, 10,000 file operations in one {plain_files:?}");
    let local = backend("local", &config).await;
    let mut good = vec![
        ratio(
            "local: a command, by a plain process",
            local.command,
            plain,
            Some(MOST_BY_PLAIN),
        ),
        ratio(
            "local: a command at once after another, by a plain process",
            local.at_once,
            plain,
            None,
        ),
        ratio(
            "local: 10,000 file operations, by a plain process",
            local.files,
            plain_files,
            None,
        ),
    ];
    if is_there("bwrap") {
        let bare = by_hand(&[BUBBLEWRAP, &["/bin/true"]].concat());
        let here = folder.path().display().to_string();
        let inside = ["--bind", &here, "/w", "--chdir", "/w", "/usr/bin/perl", "-e", FILES];
        let files = by_hand(&[BUBBLEWRAP, &inside].concat());
        println!("bare bubblewrap {bare:?}, 10,000 file operations in it {files:?}");
        good.push(ratio(
            "local: open and a command, by bare bubblewrap",
            local.open,
            bare,
            Some(MOST_BY_BUBBLEWRAP),
        ));
        good.push(ratio(
            "local: 10,000 file operations, by bare bubblewrap",
            local.files,
            files,
            None,
        ));
    } else {
        println!("SKIPPED bubblewrap: it is not installed");
    }
    #[expect(clippy::disallowed_methods, reason = "as the tests are told")]
    match std::env::var("FORGEHAND_TEST_DOCKER") {
        Ok(socket) => good.extend(containers(&socket, config).await),
        Err(_) => println!("SKIPPED containers: FORGEHAND_TEST_DOCKER names no socket"),
    }
    match good.into_iter().all(|good| good) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// The same of containers, by the engine's own client.
async fn containers(socket: &str, config: SandboxConfig) -> Vec<bool> {
    let config = SandboxConfig {
        backend: SandboxBackend::Docker,
        image: Some(IMAGE.to_owned()),
        image_by_tag: true,
        docker_socket: Some(socket.into()),
        ..config
    };
    let docker = backend("docker", &config).await;
    let host = format!("unix://{socket}");
    let client = |arguments: &[&str]| {
        let run = Command::new("docker")
            .args(["-H", &host])
            .args(arguments)
            .output()
            .expect("docker");
        String::from_utf8_lossy(&run.stdout).trim().to_owned()
    };
    let hardened = [
        "docker",
        "-H",
        &host,
        "run",
        "--rm",
        "--network=none",
        "--read-only",
        "--cap-drop=ALL",
        "--security-opt=no-new-privileges",
        "--user=10001:10001",
        "--memory=64m",
        "--pids-limit=64",
        IMAGE,
        "true",
    ];
    let run = by_hand(&hardened);
    let id = client(&["run", "-d", "--rm", "--network=none", IMAGE, "sleep", "600"]);
    let exec = by_hand(&["docker", "-H", &host, "exec", &id, "true"]);
    client(&["rm", "-f", &id]);
    println!("docker run {run:?}, docker exec {exec:?}");
    vec![
        ratio(
            "docker: open and a command, by docker run",
            docker.open,
            run,
            Some(MOST_BY_DOCKER),
        ),
        ratio(
            "docker: a command, by docker exec",
            docker.command,
            exec,
            Some(MOST_BY_DOCKER),
        ),
    ]
}

struct Times {
    open: Duration,
    command: Duration,
    at_once: Duration,
    files: Duration,
}

async fn backend(name: &str, config: &SandboxConfig) -> Times {
    let cancel = CancellationToken::new();
    let (mut opens, mut commands, mut at_once, mut files) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let folder = scratch();
        let started = Instant::now();
        let sandbox = open(config, folder.path()).await;
        run(&*sandbox, &["/bin/true"], &cancel).await;
        opens.push(started.elapsed());
        tokio::time::sleep(THOUGHT).await;
        commands.push(run(&*sandbox, &["/bin/true"], &cancel).await);
        at_once.push(run(&*sandbox, &["/bin/true"], &cancel).await);
        tokio::time::sleep(THOUGHT).await;
        files.push(run(&*sandbox, &["perl", "-e", FILES], &cancel).await);
        sandbox.close().await;
    }
    let times = Times {
        open: median(opens),
        command: median(commands),
        at_once: median(at_once),
        files: median(files),
    };
    println!(
        "{name}: open and a command {:?}, a command {:?}, at once after another {:?}, 10,000 file operations {:?}",
        times.open, times.command, times.at_once, times.files
    );
    times
}

async fn run(sandbox: &dyn Sandbox, argv: &[&str], cancel: &CancellationToken) -> Duration {
    let exec = Exec {
        program: Program::Argv(argv.iter().map(|argument| (*argument).to_owned()).collect()),
        ..Exec::shell("")
    };
    let started = Instant::now();
    let output = sandbox.exec(&exec, cancel).await.expect("the sandbox works");
    let took = started.elapsed();
    assert_eq!(output.code(), Some(0), "{argv:?}: {}", output.output);
    took
}

async fn open(config: &SandboxConfig, folder: &Path) -> Arc<dyn Sandbox> {
    let folders = SandboxFolders::within(folder);
    for made in [&folders.workspace, &folders.base_git] {
        std::fs::create_dir(made).expect("a folder");
    }
    sandbox::open(config, folders, 9).await.expect("the sandbox opens")
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a folder")
}

fn is_there(program: &str) -> bool {
    let version = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

trait Timed {
    /// The median of several runs.
    fn timed(&mut self) -> Duration;
}

impl Timed for Command {
    fn timed(&mut self) -> Duration {
        let mut once = || {
            let started = Instant::now();
            // As a sandbox does: the output is taken, and the end is waited for.
            let output = self.stdin(Stdio::null()).output();
            assert!(
                output.is_ok_and(|output| output.status.success()),
                "{self:?} does not work here"
            );
            started.elapsed()
        };
        median((0..ROUNDS).map(|_| once()).collect())
    }
}

fn by_hand(argv: &[&str]) -> Duration {
    Command::new(argv[0]).args(&argv[1..]).timed()
}

/// Prints a ratio; whether it is below the goal, where there is one.
fn ratio(what: &str, ours: Duration, theirs: Duration, most: Option<f64>) -> bool {
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    let missed = most.is_some_and(|most| ratio > most);
    let goal = most.map_or_else(String::new, |most| format!(" (goal: at most {most})"));
    println!("{what}: {ratio:.2}{goal}{}", if missed { " MISSED" } else { "" });
    !missed
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
