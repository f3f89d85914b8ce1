//! Where code of repositories and commands of models run, behind one trait. Called by
//! `workspace`, `tool` and `run`. Never holds a token, and never touches on the host a path that a
//! model chose: file operations happen inside the sandbox's own view too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::config::{SandboxBackend, SandboxConfig};

mod background;
mod confine;
mod export;
mod files;
mod folders;
mod helper;
mod identity;
mod local;
mod loopback;
mod output;
mod process;
mod raw;
mod remedy;
mod root;
mod snapshot;
mod spec;
mod supervise;
mod watch;

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

/// A file operation inside the sandbox. Paths are relative to the workspace; what leaves it is
/// refused there, by the kernel.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum FileRequest {
    /// Entries of a folder, sorted.
    List {
        /// Folder, empty for the root.
        path: String,
        /// Levels below it, from 1.
        depth: u32,
        /// Most entries.
        max_entries: u32,
    },
    /// A file's bytes.
    Read {
        /// File.
        path: String,
        /// Most bytes; a longer file is cut and said to be.
        max_bytes: u64,
    },
    /// Writes a file through a temporary file and a rename; folders are made.
    Write {
        /// File.
        path: String,
        /// Content, base64.
        content: String,
        /// SHA-256 the file must have before, hex; `None`: anything or nothing.
        expect_sha256: Option<String>,
    },
    /// Changes several files: all of it, or nothing.
    Change {
        /// What is done, each to another file.
        steps: Vec<FileStep>,
    },
    /// Paths that match a glob, newest first, `.git` left out, ignore files obeyed.
    Glob {
        /// Pattern such as `src/**/*.rs`.
        pattern: String,
        /// Most paths.
        max_entries: u32,
    },
    /// Lines that match a regular expression, hidden files included, `.git` left out.
    Grep {
        /// Regular expression of Rust's `regex`, in linear time.
        pattern: String,
        /// Folder or file, empty for all.
        path: String,
        /// Glob that file names must match.
        glob: Option<String>,
        /// Ignore case.
        ignore_case: bool,
        /// Lines around each match.
        context: u32,
        /// Most matching lines.
        max_matches: u32,
    },
    /// Code by its shape, in syntax trees; files that take too long are left out.
    AstGrep {
        /// Code with `$NAME` for any one piece and `$$$` for any number.
        pattern: String,
        /// Language by name or alias; `None`: every one in which the pattern is code.
        language: Option<String>,
        /// Folder or file, empty for all.
        path: String,
        /// Glob that file names must match.
        glob: Option<String>,
        /// Most matches.
        max_matches: u32,
    },
    /// Files ranked by how many of the words they hold, in small or capital letters.
    Words {
        /// Words, or parts of words.
        words: Vec<String>,
        /// Folder or file, empty for all.
        path: String,
        /// Most files.
        max_files: u32,
    },
}

/// One step of a [`FileRequest::Change`]. Contents are base64, hashes are hex.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum FileStep {
    /// Makes a file that must not be there; folders are made.
    Create {
        /// File.
        path: String,
        /// Its content.
        content: String,
    },
    /// Gives a file another content; its mode stays.
    Replace {
        /// File.
        path: String,
        /// Its new content.
        content: String,
        /// SHA-256 it must have before.
        expect_sha256: String,
    },
    /// Removes a file.
    Remove {
        /// File.
        path: String,
        /// SHA-256 it must have before.
        expect_sha256: String,
    },
    /// Gives a file another name that must be free; its mode stays.
    Move {
        /// File.
        from: String,
        /// Its new name.
        to: String,
        /// SHA-256 it must have before.
        expect_sha256: String,
        /// Its new content, if that changes too.
        content: Option<String>,
    },
}

/// A folder entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Path relative to the workspace, with bytes that are not UTF-8 escaped as `\xNN`.
    pub path: String,
    /// Kind.
    pub kind: EntryKind,
    /// Size in bytes of files, 0 otherwise.
    pub bytes: u64,
}

/// Kind of a folder entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, not followed.
    Link,
    /// A pipe, socket or device.
    Other,
}

/// A line found by grep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrepLine {
    /// File.
    pub path: String,
    /// Line number from 1.
    pub line: u64,
    /// Text, cut to 500 bytes.
    pub text: String,
    /// Whether it matched; otherwise it is context.
    pub matched: bool,
}

/// A file found by words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankedFile {
    /// File.
    pub path: String,
    /// Which of the words it holds.
    pub words: Vec<String>,
    /// How often it holds any of them.
    pub matches: u64,
    /// The lines with the most of them.
    pub lines: Vec<GrepLine>,
}

/// Answer to a file operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum FileReply {
    /// To `List` and `Glob`.
    Entries {
        /// Found.
        entries: Vec<Entry>,
        /// Whether more were left out.
        truncated: bool,
    },
    /// To `Read`.
    Content {
        /// Bytes, base64.
        content: String,
        /// SHA-256 of the whole file, hex.
        sha256: String,
        /// Size of the whole file.
        bytes: u64,
    },
    /// To `Write`.
    Written {
        /// SHA-256 of the new content, hex.
        sha256: String,
        /// Whether the file did not exist before.
        created: bool,
    },
    /// To `Change`: everything is done.
    Changed,
    /// To `Grep`.
    Lines {
        /// Found.
        lines: Vec<GrepLine>,
        /// Files looked at.
        files: u64,
        /// Whether more were left out.
        truncated: bool,
    },
    /// To `AstGrep`.
    Syntax {
        /// First line of each match.
        lines: Vec<GrepLine>,
        /// Files looked at.
        files: u64,
        /// Files that were left out, with the reason; not more than ten.
        skipped: Vec<String>,
        /// Whether more were left out.
        truncated: bool,
    },
    /// To `Words`.
    Ranked {
        /// The best first.
        files: Vec<RankedFile>,
        /// Files with any of the words.
        matching: u64,
        /// Files looked at.
        looked: u64,
        /// Whether the search ended before it saw all of them.
        truncated: bool,
    },
    /// The operation was refused or failed, in words for the model.
    Failed {
        /// Why, and what to do.
        problem: String,
    },
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
    let sandbox: Arc<dyn Sandbox> = match config.backend {
        SandboxBackend::Local => Arc::new(local::open(config, folders, slot).await?),
    };
    Ok(sandbox)
}

/// Tries every layer on this machine without any run, for `doctor`. Makes its folders in
/// `scratch`, which the caller removes.
pub async fn probe(config: &SandboxConfig, scratch: &Path) -> Result<SandboxDescription, SandboxError> {
    /// The last slot, which no run is given.
    const PROBE_SLOT: u16 = u16::MAX;
    let folders = SandboxFolders {
        workspace: scratch.join("workspace"),
        home: scratch.join("home"),
        base_git: scratch.join("base.git"),
        out: scratch.join("out"),
    };
    for folder in [&folders.workspace, &folders.base_git] {
        tokio::fs::create_dir_all(folder)
            .await
            .map_err(|error| SandboxError::Broken(format!("make the folder {}: {error}", folder.display())))?;
    }
    let sandbox = open(config, folders, PROBE_SLOT).await?;
    sandbox.exec(&Exec::shell("true"), &CancellationToken::new()).await?;
    Ok(sandbox.description())
}

/// Compilers of the user `home` belongs to that lie outside /usr: rustup's default toolchain, or
/// the only one. For [`SandboxConfig`]'s `toolchains` where the configuration names none.
pub fn detect_toolchains(home: &Path, rustup_home: Option<&Path>) -> Vec<PathBuf> {
    folders::detect_toolchains(home, rustup_home)
}

/// Entry of the helper process that `main` dispatches to before anything else when the program is
/// started as `forgehand sandbox-helper STAGE`. Single-threaded; never returns to normal start-up.
pub fn helper_main(stage: Option<&str>) -> std::process::ExitCode {
    helper::run(stage)
}
