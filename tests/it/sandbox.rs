//! What commands, file operations and exports of the real sandboxes can and cannot do. Stories that
//! hold for each backend are told on each, as root twice: as root, and in a thread that became an
//! ordinary user. Without `FORGEHAND_TEST_DOCKER` the containers are left out, and that is said.

pub mod backends;
mod cases;
mod docker;
mod egress;
pub mod engines;
mod escape;
mod export;
mod files;
mod groups;
mod limits;
mod opensandbox;
mod reach;
mod refused;
mod walls;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forgehand::config::SandboxConfig;
use forgehand::sandbox::{self, Exec, ExecOutput, Exit, FileReply, FileRequest, Sandbox, SandboxError, SandboxFolders};
use rustix::thread::{Gid, Uid};
use tokio_util::sync::CancellationToken;

use backends::{config, local_as_each_user, on_each, on_each_and_far_away, on_each_as_each_user};

const NOBODY: u32 = 65534;

/// Tells a story in a thread that prepared itself; on Linux users and filters belong to threads.
fn on_a_thread(prepare: impl FnOnce() + Send + 'static, story: impl AsyncFn() + Send + 'static) {
    let told = std::thread::spawn(move || {
        prepare();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(story());
    });
    if let Err(panic) = told.join() {
        std::panic::resume_unwind(panic);
    }
}

fn become_nobody() {
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    rustix::thread::set_thread_groups(&[]).expect("no groups");
    rustix::thread::set_thread_res_gid(group, group, group).expect("another group");
    rustix::thread::set_thread_res_uid(user, user, user).expect("another user");
}

fn scratch() -> tempfile::TempDir {
    let prefix = scratch_prefix(std::process::id());
    tempfile::Builder::new()
        .prefix(&prefix)
        .tempdir_in(scratch_place())
        .expect("a scratch folder")
}

/// Many small files are made quickly in memory.
fn scratch_place() -> &'static Path {
    [Path::new("/dev/shm"), Path::new("/tmp")]
        .into_iter()
        .find(|place| place.is_dir())
        .expect("a place for files")
}

fn scratch_prefix(process: u32) -> String {
    format!("forgehand-test-{process}-")
}

/// The program, copied when an ordinary user cannot reach the build folder.
fn helper() -> PathBuf {
    static COPY: std::sync::OnceLock<Option<tempfile::TempDir>> = std::sync::OnceLock::new();
    let built = Path::new(env!("CARGO_BIN_EXE_forgehand"));
    let open = |path: &Path| fs::metadata(path).is_ok_and(|found| found.mode() & 0o001 != 0);
    let copy = COPY.get_or_init(|| {
        if built.ancestors().all(open) {
            return None;
        }
        let folder = scratch();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("an open folder");
        fs::copy(built, folder.path().join("forgehand")).expect("a copy of the program");
        Some(folder)
    });
    copy.as_ref()
        .map_or_else(|| built.to_path_buf(), |folder| folder.path().join("forgehand"))
}

/// A run's folders and its sandbox.
struct Run {
    folder: tempfile::TempDir,
    sandbox: Arc<dyn Sandbox>,
}

impl Run {
    async fn open() -> Self {
        Self::open_with(config(), 7).await.expect("the sandbox opens")
    }

    async fn open_with(config: SandboxConfig, slot: u16) -> Result<Self, SandboxError> {
        let folder = scratch();
        let folders = Self::folders(folder.path());
        for made in [&folders.workspace, &folders.base_git] {
            fs::create_dir(made).expect("a folder");
        }
        let sandbox = sandbox::open(&config, folders, slot).await?;
        Ok(Self { folder, sandbox })
    }

    fn folders(folder: &Path) -> SandboxFolders {
        SandboxFolders::within(folder)
    }

    fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    async fn exec(&self, exec: Exec) -> ExecOutput {
        self.sandbox
            .exec(&exec, &CancellationToken::new())
            .await
            .expect("the sandbox works")
    }

    async fn sh(&self, line: &str) -> ExecOutput {
        self.exec(Exec::shell(line)).await
    }

    /// The output of a line that must succeed.
    async fn ok(&self, line: &str) -> String {
        let output = self.sh(line).await;
        assert_eq!(output.exit, Exit::Code(0), "{line}: {}", output.output);
        output.output
    }

    async fn files(&self, request: serde_json::Value) -> FileReply {
        let request: FileRequest = serde_json::from_value(request).expect("a request");
        self.sandbox.files(&request).await.expect("the sandbox works")
    }
}

/// Whether a process of this machine has `marker` among its arguments.
fn alive(marker: &str) -> bool {
    let has_marker = |entry: fs::DirEntry| {
        fs::read(entry.path().join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(marker))
    };
    fs::read_dir("/proc").expect("/proc").flatten().any(has_marker)
}

/// Waits for something that must happen soon.
#[track_caller]
fn soon(what: &str, happened: impl Fn() -> bool) {
    let started = Instant::now();
    while !happened() {
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "{what} did not happen in 10 s"
        );
        std::thread::yield_now();
    }
}
