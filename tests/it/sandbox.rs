//! What a command in the real sandbox can and cannot do.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forgehand::config::{ConfigSources, SandboxConfig};
use forgehand::sandbox::{self, Exec, ExecOutput, Exit, Sandbox, SandboxFolders};
use tokio_util::sync::CancellationToken;

struct Run {
    folder: tempfile::TempDir,
    sandbox: Arc<dyn Sandbox>,
}

fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    made.expect("a scratch folder")
}

fn config() -> SandboxConfig {
    let mut config = forgehand::config::load(&ConfigSources::default())
        .expect("defaults are valid")
        .sandbox;
    config.helper = Some(PathBuf::from(env!("CARGO_BIN_EXE_forgehand")));
    config
}

async fn open() -> Run {
    let folder = scratch();
    let folders = SandboxFolders {
        workspace: folder.path().join("workspace"),
        home: folder.path().join("home"),
        base_git: folder.path().join("base.git"),
        out: folder.path().join("out"),
    };
    std::fs::create_dir(&folders.base_git).unwrap();
    let sandbox = sandbox::open(&config(), folders, 7).await.unwrap();
    Run { folder, sandbox }
}

impl Run {
    async fn sh(&self, line: &str) -> ExecOutput {
        self.sandbox
            .exec(&Exec::shell(line), &CancellationToken::new())
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn a_command_says_hello() {
    let run = open().await;
    println!("{}", run.sandbox.description());
    let output = run.sh("id; pwd; ls -la / /dev /run/forgehand /etc; cat /proc/mounts; env; ls -l /proc/self/fd; grep -i -e cap -e nonew -e seccomp /proc/self/status; cat /proc/net/dev; cat /proc/sys/kernel/pid_max; ps ax; git --version; exit 3").await;
    println!("{}", output.output);
    assert_eq!(output.exit, Exit::Code(3));
}

async fn file(run: &Run, request: serde_json::Value) -> String {
    let request: forgehand::sandbox::FileRequest = serde_json::from_value(request).unwrap();
    let started = std::time::Instant::now();
    let reply = run.sandbox.files(&request).await.unwrap();
    format!("{:?} {}", started.elapsed(), serde_json::to_string(&reply).unwrap())
}

#[tokio::test]
async fn scratchpad() {
    let run = open().await;
    let git = run.folder.path().join("base.git");
    let ws = run.folder.path().join("workspace");
    let sh = |line: &str| {
        let o = std::process::Command::new("sh")
            .arg("-ec")
            .arg(line)
            .current_dir(&ws)
            .output()
            .unwrap();
        assert!(o.status.success(), "{o:?}");
        String::from_utf8(o.stdout).unwrap()
    };
    let base = sh(&format!(
        "git init -q --bare {0}; mkdir src; echo a > src/a.txt; echo b > b.txt; echo keep > keep; export GIT_DIR={0} GIT_WORK_TREE=.; git add -A; t=$(git write-tree); c=$(git -c user.name=x -c user.email=x@y commit-tree -m base $t); git update-ref HEAD $c; echo $c",
        git.display()
    ));
    let base: forgehand::ids::CommitSha = base.trim().parse().unwrap();
    println!("{:?}", run.sandbox.export(&base, &CancellationToken::new()).await);
    println!(
        "{}",
        run.sh("ls -la; id; echo new > new.txt; mkdir -p d/e; echo $$ > d/e/f; ln -s /etc/passwd abs; ln -s d dl")
            .await
            .output
    );
    for r in [
        serde_json::json!({"op":"list","path":"","depth":3,"max_entries":100}),
        serde_json::json!({"op":"read","path":"d/e/f","max_bytes":100}),
        serde_json::json!({"op":"read","path":"abs","max_bytes":100}),
        serde_json::json!({"op":"read","path":"dl/e/f","max_bytes":100}),
        serde_json::json!({"op":"write","path":"x/y/z","content":"aGVsbG8K", "expect_sha256":null}),
        serde_json::json!({"op":"write","path":"dl/e/f","content":"aGVsbG8K", "expect_sha256":null}),
        serde_json::json!({"op":"write","path":"dl","content":"aGVsbG8K", "expect_sha256":null}),
        serde_json::json!({"op":"glob","pattern":"**/*","max_entries":100}),
        serde_json::json!({"op":"grep","pattern":"hel+o","path":"","glob":null,"ignore_case":false,"context":1,"max_matches":10}),
    ] {
        println!("{}", file(&run, r).await);
    }
    for _ in 0..5 {
        let o = run.sh("true").await;
        println!("{:?}", o.took);
    }
    run.sh("rm b.txt; mv keep kept; mkdir target node_modules; touch target/x")
        .await;
    println!("{:?}", run.sandbox.export(&base, &CancellationToken::new()).await);
    println!(
        "{}",
        sh(&format!(
            "git --git-dir={0} fetch -q ../out/change.bundle refs/heads/export:refs/x; git --git-dir={0} diff-tree -r --name-status {1} refs/x",
            git.display(),
            base
        ))
    );
}
