//! Tools as a model calls them, in the real sandbox. What a call answers and what it leaves in the
//! workspace; how the loop around it behaves is told in `agent`. Never a model in between.

mod background;
mod code;
mod file;
mod patch;
mod search;
mod snapshot;
mod tests;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forgehand::config::SandboxConfig;
use forgehand::git::Git;
use forgehand::model::ToolCall;
use forgehand::retrieval::code_search::{CodeSearch, Indexes};
use forgehand::retrieval::index::Limits;
use forgehand::sandbox::{self, Sandbox, SandboxFolders};
use forgehand::tool::{ToolContext, ToolError, ToolOutput, Toolbox};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A workspace with its sandbox and the tools.
struct Desk {
    folder: tempfile::TempDir,
    sandbox: Arc<dyn Sandbox>,
    tools: Toolbox,
    code: Option<CodeSearch>,
    cancel: CancellationToken,
}

impl Desk {
    /// Nothing in it.
    async fn empty() -> Self {
        Self::prepared(|_| {}).await
    }

    /// A checkout of a commit that a shell script made in the workspace.
    async fn checkout(script: &str) -> Self {
        Self::prepared(|folder| {
            let lines = format!(
                "git init -q --bare base.git; cd workspace; {script}\ngit init -q .; git add --force --all; \
                 git commit -q -m base; git push -q ../base.git HEAD:refs/heads/base; rm -rf .git"
            );
            shell(folder, &lines);
        })
        .await
    }

    async fn prepared(fill: impl FnOnce(&Path)) -> Self {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory } else { Path::new("/tmp") };
        let folder = tempfile::tempdir_in(place).expect("a scratch folder");
        let folders = SandboxFolders::within(folder.path());
        for made in [&folders.workspace, &folders.base_git] {
            std::fs::create_dir(made).expect("a folder");
        }
        fill(folder.path());
        let config = SandboxConfig {
            helper: Some(PathBuf::from(env!("CARGO_BIN_EXE_forgehand"))),
            ..SandboxConfig::default()
        };
        let sandbox = sandbox::open(&config, folders, 12).await.expect("the sandbox opens");
        Self {
            folder,
            sandbox,
            tools: Toolbox::standard(),
            code: None,
            cancel: CancellationToken::new(),
        }
    }

    /// The same with an index of the checkout, on its way.
    fn indexed(mut self) -> Self {
        let marker = std::fs::File::create(self.folder.path().join("opened")).expect("a file");
        let opened = marker.metadata().expect("a file");
        let since_ns = opened.ctime() * 1_000_000_000 + opened.ctime_nsec();
        let base = self.folder.path().join("base.git");
        let head = shell(&base, "git rev-parse base").trim().parse().expect("a commit");
        let program = Path::new(env!("CARGO_BIN_EXE_forgehand"));
        let indexes = Indexes::new(
            &self.folder.path().join("state"),
            program,
            &Git::find().expect("git"),
            Limits::default(),
        );
        self.code = Some(indexes.begin(&base, &head, since_ns));
        self
    }

    async fn output(&self, tool: &str, arguments: Value) -> Result<ToolOutput, ToolError> {
        let context = ToolContext {
            code: self.code.as_ref(),
            sandbox: &self.sandbox,
            cancel: &self.cancel,
        };
        let call = ToolCall {
            id: "call".to_owned(),
            name: tool.to_owned(),
            arguments: arguments.to_string(),
        };
        self.tools.call(&context, &call).await
    }

    /// The text of a call that works.
    async fn call(&self, tool: &str, arguments: Value) -> String {
        match self.output(tool, arguments).await {
            Ok(ToolOutput::Text(text)) => text,
            other => panic!("{tool}: {other:?}"),
        }
    }

    /// The words of a call that is refused.
    async fn refused(&self, tool: &str, arguments: Value) -> String {
        match self.output(tool, arguments).await {
            Err(error @ (ToolError::BadCall(_) | ToolError::ForModel(_))) => error.to_string(),
            other => panic!("{tool}: {other:?}"),
        }
    }

    async fn sh(&self, line: &str) -> String {
        self.call("run_command", serde_json::json!({ "command": line })).await
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join("workspace").join(path)
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        std::fs::write(&path, content).expect("a file");
        if rustix::process::geteuid().is_root() {
            // What the host made belongs to the sandbox's user, as a checkout does.
            let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(self.path("")).expect("the workspace"));
            let mut path = path.as_path();
            while path.starts_with(self.path("")) && path != self.path("") {
                std::os::unix::fs::chown(path, Some(owner), Some(owner)).expect("an owner");
                path = path.parent().expect("a folder");
            }
        }
    }

    fn read(&self, path: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.path(path)).expect("a file")).into_owned()
    }

    /// Every file with its content and whether it may be run, to see that nothing changed.
    fn snapshot(&self) -> Vec<(PathBuf, u32, Vec<u8>)> {
        use std::os::unix::fs::PermissionsExt as _;
        let (mut files, mut folders) = (Vec::new(), vec![self.path("")]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
                let kind = entry.file_type().expect("a kind");
                if kind.is_dir() {
                    folders.push(entry.path());
                } else if kind.is_file() {
                    let mode = entry.metadata().expect("a file").permissions().mode();
                    files.push((entry.path(), mode, std::fs::read(entry.path()).expect("a file")));
                }
            }
        }
        files.sort();
        files
    }
}

/// Runs a script of the test itself, on this machine.
fn shell(folder: &Path, script: &str) -> String {
    let output = std::process::Command::new("sh")
        .args(["-ec", script])
        .current_dir(folder)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_NAME"), "test")))
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_EMAIL"), "test@example.invalid")))
        .output()
        .expect("sh");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn check_words(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
}
