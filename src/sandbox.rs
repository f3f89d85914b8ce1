//! Where code of repositories and commands of models run, behind one trait. Called by
//! `workspace`, `tool` and `run`. Never holds a token, and never touches on the host a path that a
//! model chose: file operations happen inside the sandbox's own view too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::config::{SandboxBackend, SandboxConfig};

mod background;
mod bridge;
mod carrier;
mod cgroup;
mod confine;
mod contained;
mod docker;
mod examine;
mod export;
mod files;
mod folders;
mod helper;
mod helper_program;
mod identity;
mod inherited;
mod judge;
mod layer;
mod left;
mod link;
mod local;
mod loopback;
mod opensandbox;
mod output;
mod overlay;
mod process;
mod raw;
mod remedy;
mod remote;
mod request;
mod root;
mod snapshot;
mod spare;
mod spec;
mod supervise;
mod watch;
mod way_out;

pub use layer::{Layer, LayerState};
pub use way_out::{PROXY_PORT, WayOut};

pub use request::{EditedFile, Entry, EntryKind, FileReply, FileRequest, FileStep, GrepLine, RankedFile};

/// The command line word under which `main` calls [`helper_main`].
pub const HELPER_COMMAND: &str = helper::COMMAND;

/// The working directory inside every sandbox.
pub const WORKSPACE: &str = "/workspace";

/// What is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A shell line, run with `sh -c` (bash where it exists).
    Shell(String),
    /// A program with arguments.
    Argv(Vec<String>),
}

/// One command.
#[derive(Debug, Clone)]
pub struct Exec {
    /// What is run.
    pub program: Program,
    /// Folder below the workspace, empty for its root. Never leaves it.
    pub folder: String,
    /// Extra environment variables.
    pub environment: BTreeMap<String, String>,
    /// Standard input.
    pub stdin: Vec<u8>,
    /// Deadline; `None` takes the configured one.
    pub timeout: Option<Duration>,
}

impl Exec {
    /// A shell line at the workspace's root.
    pub fn shell(line: impl Into<String>) -> Self {
        Self {
            program: Program::Shell(line.into()),
            folder: String::new(),
            environment: BTreeMap::new(),
            stdin: Vec::new(),
            timeout: None,
        }
    }
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By a signal that was not ours.
    Signal(i32),
    /// Killed because of a limit, in words ("timeout after 600 s", "memory over 4096 MiB").
    Limit(String),
    /// Killed because the run was stopped.
    Cancelled,
}

/// What a command left.
#[derive(Debug, Clone)]
pub struct ExecOutput {
    /// How it ended.
    pub exit: Exit,
    /// Standard output and standard error as they came, head and tail, escape sequences removed.
    pub output: String,
    /// Bytes of output in all, kept or not.
    pub output_bytes: u64,
    /// How long it took.
    pub took: Duration,
}

impl ExecOutput {
    /// Its exit code, if it ended by itself.
    pub fn code(&self) -> Option<i32> {
        match self.exit {
            Exit::Code(code) => Some(code),
            _ => None,
        }
    }
}

/// What starting a command in the background came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Started {
    /// It runs under this number.
    Running(u32),
    /// As many run as may: their numbers and lines.
    TooMany(Vec<(u32, String)>),
}

/// Which part of the output of a command in the background is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// What came since it was last asked for.
    New,
    /// Everything that is kept.
    All,
}

/// How a command in the background stands.
#[derive(Debug, Clone)]
pub struct BackgroundOutput {
    /// Its shell line.
    pub line: String,
    /// How it ended; `None`: it runs.
    pub exit: Option<Exit>,
    /// Output as plain text, head and tail.
    pub output: String,
    /// Bytes of output in all, kept or not.
    pub output_bytes: u64,
    /// How long it has run.
    pub took: Duration,
}

/// Why a sandbox could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// This machine cannot give the isolation that was asked for; `remedy` says what to change.
    #[error("the sandbox is not available: {problem}. {remedy}")]
    Unavailable {
        /// What is missing.
        problem: String,
        /// What to do.
        remedy: String,
    },
    /// The sandbox broke; a new one may work.
    #[error("the sandbox failed: {0}")]
    Broken(String),
    /// The run was stopped.
    #[error("the sandbox was stopped")]
    Cancelled,
}

/// What is done with the state of a workspace. Untracked files belong to it, ignored ones do not,
/// and the workspace's own `.git` is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotRequest {
    /// Prints what changed: a summary by file, an empty line, the changes.
    Diff {
        /// Since this kept state; `None`: since the base commit.
        since: Option<u32>,
        /// Only this file or folder; empty for all.
        path: String,
    },
    /// Keeps it under the next number, printed as `forgehand: kept N`.
    Keep {
        /// What it is called, one line.
        name: String,
    },
    /// Brings back a kept state, or the base commit as 0. What was there is kept before and its
    /// number printed.
    Restore {
        /// Which.
        number: u32,
    },
}

/// What isolation a sandbox has, shown in `doctor` and stored in the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SandboxDescription {
    /// Backend, for example `local`.
    pub backend: String,
    /// Layers in force, for example `namespaces`, `landlock abi 7`, `seccomp`.
    pub layers: Vec<String>,
    /// What is weaker than it should be.
    pub warnings: Vec<String>,
}

impl std::fmt::Display for SandboxDescription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.backend, self.layers.join(", "))?;
        if !self.warnings.is_empty() {
            write!(f, "; weaker than it should be: {}", self.warnings.join("; "))?;
        }
        Ok(())
    }
}

/// The folders of one run on this machine. All below one run folder that only we and the sandbox
/// use.
#[derive(Debug, Clone)]
pub struct SandboxFolders {
    /// The checkout; becomes [`WORKSPACE`], writable.
    pub workspace: PathBuf,
    /// Home of the sandbox's user, writable, kept for the whole run. A folder `tmp` beside it
    /// becomes /tmp.
    pub home: PathBuf,
    /// Bare repository with the base commit, read-only inside as `/run/forgehand/base.git`. It must
    /// hold its objects itself: what it borrows from elsewhere cannot be seen inside.
    pub base_git: PathBuf,
    /// Where exports appear: `/run/forgehand/out`, there and writable only during an export.
    pub out: PathBuf,
    /// What checkout and home lie on. `None`: everything is in them. See [`can_layer`].
    pub below: Option<Below>,
}

impl SandboxFolders {
    /// Folders of their usual names in one of the machine's, lying on nothing.
    pub fn within(root: &Path) -> Self {
        Self {
            workspace: root.join("workspace"),
            home: root.join("home"),
            base_git: root.join("base.git"),
            out: root.join("out"),
            below: None,
        }
    }
}

/// Folders of this machine that a run shares with others: it sees them in its own folders and cannot
/// change them. What differs is in `upper` and `home-upper` beside the checkout, and the folders of
/// checkout and home themselves are empty places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Below {
    /// Below the checkout, uppermost first; not empty.
    pub workspace: Vec<PathBuf>,
    /// Below the home folder.
    pub home: Option<PathBuf>,
}

/// A sandbox of one run.
#[async_trait]
pub trait Sandbox: Send + Sync {
    /// What isolation it has.
    fn description(&self) -> SandboxDescription;

    /// Runs one command to its end. Nothing it started is alive afterwards.
    async fn exec(&self, exec: &Exec, cancel: &CancellationToken) -> Result<ExecOutput, SandboxError>;

    /// Starts a command that goes on while others run, behind walls of its own: neither its network
    /// nor its processes are seen by other commands. It ends when `cancel` says so, when the sandbox
    /// is closed, or when it has run for hours.
    async fn start(&self, exec: &Exec, cancel: &CancellationToken) -> Result<Started, SandboxError>;

    /// The commands in the background that run: number and line.
    fn running(&self) -> Vec<(u32, String)>;

    /// What such a command wrote, once it ended or `wait` is over. `None`: there is no such command.
    async fn output(&self, id: u32, part: Part, wait: Duration, cancel: &CancellationToken)
    -> Option<BackgroundOutput>;

    /// Ends such a command and everything it started. `None`: there is no such command.
    async fn stop(&self, id: u32) -> Option<BackgroundOutput>;

    /// Does one file operation.
    async fn files(&self, request: &FileRequest) -> Result<FileReply, SandboxError>;

    /// Looks at the workspace's state, keeps it or brings one back. Exit code 3: no such state was
    /// kept; 4: there is no base commit.
    async fn snapshot(&self, request: &SnapshotRequest, cancel: &CancellationToken)
    -> Result<ExecOutput, SandboxError>;

    /// Writes the workspace's state as a git bundle and returns its path on this machine: one
    /// commit on top of `base`, made inside the sandbox with a git folder of its own, so that
    /// whatever happened to the workspace's `.git` does not matter. `None`: nothing changed.
    /// The bundle is untrusted.
    async fn export(
        &self,
        base: &crate::ids::CommitSha,
        cancel: &CancellationToken,
    ) -> Result<Option<PathBuf>, SandboxError>;

    /// Its layers, each tried, for `doctor`.
    async fn layers(&self) -> Result<Vec<Layer>, SandboxError> {
        Ok(layer::described(&self.description()))
    }

    /// Copies what set-up commands left, new files of the workspace and the home folder, and returns the
    /// copy's path on this machine: folders `workspace` and `home`, whose content is untrusted. An error
    /// when files of the repository were changed. `None`: this kind of sandbox cannot.
    async fn left_by_setup(
        &self,
        base: &crate::ids::CommitSha,
        cancel: &CancellationToken,
    ) -> Result<Option<PathBuf>, SandboxError> {
        let _ = (base, cancel);
        Ok(None)
    }

    /// Kills what may still run. The folders stay; `workspace` removes them.
    async fn close(&self);
}

/// Opens the configured sandbox over the folders of a run. `slot` (0 to 65,535) picks the user id
/// when the service runs as root, so that runs cannot touch each other's files.
pub async fn open(
    config: &SandboxConfig,
    folders: SandboxFolders,
    slot: u16,
) -> Result<Arc<dyn Sandbox>, SandboxError> {
    open_with(config, folders, slot, None).await
}

/// The same with a way out for its commands, where there is one.
///
/// # Errors
/// [`SandboxError`].
pub async fn open_with(
    config: &SandboxConfig,
    folders: SandboxFolders,
    slot: u16,
    way_out: Option<&WayOut>,
) -> Result<Arc<dyn Sandbox>, SandboxError> {
    let sandbox: Arc<dyn Sandbox> = match config.backend {
        SandboxBackend::Local => Arc::new(local::open(config, folders, slot, way_out.cloned()).await?),
        SandboxBackend::Docker => Arc::new(docker::open(config, folders, slot, way_out).await?),
        SandboxBackend::OpenSandbox => Arc::new(opensandbox::open(config, folders, way_out).await?),
    };
    Ok(sandbox)
}

/// Containers of services that are gone, by id. Processes and folders of the local sandbox end with their
/// service, and a server of sandboxes ends by itself what nobody renews.
///
/// # Errors
/// When the engine does not answer.
pub async fn orphans(config: &SandboxConfig) -> Result<Vec<String>, SandboxError> {
    match config.backend {
        SandboxBackend::Docker => docker::orphans(config).await,
        SandboxBackend::Local | SandboxBackend::OpenSandbox => Ok(Vec::new()),
    }
}

/// Ends one of [`orphans`].
///
/// # Errors
/// When the engine does not answer.
pub async fn end_orphan(config: &SandboxConfig, id: &str) -> Result<(), SandboxError> {
    match config.backend {
        SandboxBackend::Docker => docker::end_orphan(config, id).await,
        SandboxBackend::Local | SandboxBackend::OpenSandbox => Ok(()),
    }
}

/// Ends what a run that is over may still have on another machine, before its folder is removed.
///
/// # Errors
/// When the server does not answer.
pub async fn let_go(config: &SandboxConfig, run: &Path) -> Result<(), SandboxError> {
    match config.backend {
        SandboxBackend::OpenSandbox => opensandbox::let_go(config, run).await.map(drop),
        SandboxBackend::Local | SandboxBackend::Docker => Ok(()),
    }
}

/// Ends what killed services left in this machine's control groups; a service does so now and then. Only
/// for a service: a group of its own is where it looks. Blocks.
pub fn sweep_groups(config: &SandboxConfig) {
    if config.backend == SandboxBackend::Local {
        drop(cgroup::Bases::find());
    }
}

/// The last slot, which no run is given.
const PROBE_SLOT: u16 = u16::MAX;

/// Tries whether checkouts below a folder like `scratch`, which the caller removes, can lie on a
/// prepared tree.
///
/// # Errors
/// Why not.
pub async fn can_layer(config: &SandboxConfig, scratch: &Path) -> Result<(), SandboxError> {
    overlay::probe(config, scratch, PROBE_SLOT).await
}

/// Tries every layer on this machine without any run, for `doctor`. Makes its folders in
/// `scratch`, which the caller removes.
pub async fn probe(config: &SandboxConfig, scratch: &Path) -> Result<SandboxDescription, SandboxError> {
    probe_with(config, scratch, None).await
}

/// The same with a way out.
///
/// # Errors
/// [`SandboxError`].
pub async fn probe_with(
    config: &SandboxConfig,
    scratch: &Path,
    way_out: Option<&WayOut>,
) -> Result<SandboxDescription, SandboxError> {
    let sandbox = trial(config, scratch, way_out).await?;
    let tried = sandbox.exec(&Exec::shell("true"), &CancellationToken::new()).await;
    // One on another machine would stay there until its time is over.
    sandbox.close().await;
    match tried?.exit {
        Exit::Code(0) => Ok(sandbox.description()),
        other => Err(SandboxError::Broken(format!(
            "a command that does nothing ended with {other:?}"
        ))),
    }
}

/// Tries each layer from inside, for `doctor --sandbox`.
///
/// # Errors
/// [`SandboxError`]: also when this machine gives no sandbox at all.
pub async fn examine(
    config: &SandboxConfig,
    scratch: &Path,
    way_out: Option<&WayOut>,
) -> Result<(SandboxDescription, Vec<Layer>), SandboxError> {
    let sandbox = trial(config, scratch, way_out).await?;
    let layers = sandbox.layers().await;
    sandbox.close().await;
    Ok((sandbox.description(), layers?))
}

/// A sandbox of no run.
async fn trial(
    config: &SandboxConfig,
    scratch: &Path,
    way_out: Option<&WayOut>,
) -> Result<Arc<dyn Sandbox>, SandboxError> {
    let folders = SandboxFolders::within(scratch);
    for folder in [&folders.workspace, &folders.base_git] {
        tokio::fs::create_dir_all(folder)
            .await
            .map_err(|error| SandboxError::Broken(format!("make the folder {}: {error}", folder.display())))?;
    }
    open_with(config, folders, PROBE_SLOT, way_out).await
}

/// Compilers of the user `home` belongs to that lie outside /usr: rustup's default toolchain, or
/// the only one. For [`SandboxConfig`]'s `toolchains` where the configuration names none.
pub fn detect_toolchains(home: &Path, rustup_home: Option<&Path>) -> Vec<PathBuf> {
    folders::detect_toolchains(home, rustup_home)
}

/// Entry of the helper process that `main` dispatches to before anything else when the program is
/// started as `forgehand sandbox-helper STAGE`. Single-threaded; never returns to normal start-up.
pub fn helper_main(arguments: impl Iterator<Item = std::ffi::OsString>) -> std::process::ExitCode {
    helper::run(arguments)
}
