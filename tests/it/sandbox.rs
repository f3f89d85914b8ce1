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
