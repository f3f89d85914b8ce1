//! What the sandboxes cost, as ratios: opening one and running its first command, a command in an
//! open one, and a file operation, against a plain process, `bwrap`, and where
//! `FORGEHAND_TEST_DOCKER` names an engine with the images of the tests, against `docker run` and
//! `docker exec` through its command line. Fails when containers miss their goals.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forgehand::config::{SandboxBackend, SandboxConfig};
use forgehand::sandbox::{self, Exec, FileRequest, Sandbox, SandboxFolders};
use tokio_util::sync::CancellationToken;

/// Of each kind; the median counts.
const ROUNDS: usize = 15;

const IMAGE: &str = "forgehand-test:debian";

/// Most that opening a container and a command in it may cost, by those of the engine's own client.
const MOST_RATIO: f64 = 1.2;

#[tokio::main]
async fn main() -> ExitCode {
    let config = SandboxConfig {
        helper: Some(PathBuf::from(env!("CARGO_BIN_EXE_forgehand"))),
        ..SandboxConfig::default()
    };
    let plain = by_hand(&["true"]);
    let local = backend("local", &config).await;
    if Command::new("bwrap")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok()
    {
        let bare = by_hand(&[
            "bwrap",
            "--unshare-all",
            "--ro-bind",
            "/",
            "/",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
            "true",
        ]);
        ratio("local: open and a command, by bare bubblewrap", local.open, bare);
    }
    ratio("local: a command, by a plain process", local.command, plain);
    #[expect(clippy::disallowed_methods, reason = "as the tests are told")]
    let Some(socket) = std::env::var("FORGEHAND_TEST_DOCKER").ok() else {
        println!("SKIPPED containers: FORGEHAND_TEST_DOCKER names no socket");
        return ExitCode::SUCCESS;
    };
    let config = SandboxConfig {
        backend: SandboxBackend::Docker,
        image: Some(IMAGE.to_owned()),
        image_by_tag: true,
        docker_socket: Some(socket.clone().into()),
        ..config
    };
    let docker = backend("docker", &config).await;
    let host = format!("unix://{socket}");
    let run = by_hand(&[
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
    ]);
    let engine = |arguments: &[&str]| {
        let run = Command::new("docker")
            .args(["-H", &host])
            .args(arguments)
            .output()
            .expect("docker");
        String::from_utf8_lossy(&run.stdout).trim().to_owned()
    };
    let id = engine(&["run", "-d", "--rm", "--network=none", IMAGE, "sleep", "600"]);
    let exec = by_hand(&["docker", "-H", &host, "exec", &id, "true"]);
    engine(&["rm", "-f", &id]);
    println!("docker run {run:?}, docker exec {exec:?}");
    let good = [
        ratio("docker: open and a command, by docker run", docker.open, run),
        ratio("docker: a command, by docker exec", docker.command, exec),
    ];
    match good.into_iter().all(|ratio| ratio <= MOST_RATIO) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

struct Times {
    open: Duration,
    command: Duration,
}

async fn backend(name: &str, config: &SandboxConfig) -> Times {
    let cancel = CancellationToken::new();
    let (mut opens, mut commands, mut files) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let folder = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .expect("a folder");
        let started = Instant::now();
        let sandbox = open(config, folder.path()).await;
        sandbox.exec(&Exec::shell("true"), &cancel).await.expect("a command");
        opens.push(started.elapsed());
        let started = Instant::now();
        sandbox.exec(&Exec::shell("true"), &cancel).await.expect("a command");
        commands.push(started.elapsed());
        let started = Instant::now();
        let list = FileRequest::List {
            path: String::new(),
            depth: 1,
            max_entries: 10,
        };
        sandbox.files(&list).await.expect("a list");
        files.push(started.elapsed());
        sandbox.close().await;
    }
    let times = Times {
        open: median(opens),
        command: median(commands),
    };
    let files = median(files);
    println!(
        "{name}: open and a command {:?}, a command {:?}, a file operation {files:?}",
        times.open, times.command
    );
    times
}

async fn open(config: &SandboxConfig, folder: &Path) -> Arc<dyn Sandbox> {
    let folders = SandboxFolders {
        workspace: folder.join("workspace"),
        home: folder.join("home"),
        base_git: folder.join("base.git"),
        out: folder.join("out"),
    };
    for made in [&folders.workspace, &folders.base_git] {
        std::fs::create_dir(made).expect("a folder");
    }
    sandbox::open(config, folders, 9).await.expect("the sandbox opens")
}

fn by_hand(argv: &[&str]) -> Duration {
    let once = || {
        let started = Instant::now();
        let status = Command::new(argv[0])
            .args(&argv[1..])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "{argv:?} does not work here"
        );
        started.elapsed()
    };
    median((0..ROUNDS).map(|_| once()).collect())
}

fn ratio(what: &str, ours: Duration, theirs: Duration) -> f64 {
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    println!("{what}: {ratio:.2}");
    ratio
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
