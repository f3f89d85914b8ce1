//! What the service and its helper process say to each other: one length-prefixed `Spec` in, lines
//! of `Report` out, over the socket that is the helper's standard input. Used by both ends.
//! Never carries a secret: the spec holds folders, limits and what to run.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::cgroup::Membership;
use super::examine::Examined;
use super::overlay::Join;
use super::{FileReply, FileRequest, WayOut};

/// Largest spec: a file of `MAX_TRANSFER` bytes in base64, twice encoded as JSON at worst.
const MAX_SPEC_BYTES: u32 = 64 * 1024 * 1024;

/// Byte with which the service asks for a gentle end: SIGTERM to the command's process group.
pub(super) const TERMINATE: u8 = b'T';

/// Byte with which it lets go of a helper in a container, where the end of a stream may come late.
pub(super) const LET_GO: u8 = b'K';

/// Everything one helper process is told.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Spec {
    pub(super) isolation: Isolation,
    /// User id to become, when the service runs as root.
    pub(super) uid: Option<u32>,
    pub(super) folders: HostFolders,
    pub(super) limits: Limits,
    /// Groups that hold the limits, where there are any.
    #[serde(default)]
    pub(super) group: Membership,
    /// Where commands get out, if anywhere.
    pub(super) way_out: Option<WayOut>,
    pub(super) task: Task,
    /// Where the workspace is mounted already. The helper is told before it reads this.
    #[serde(skip)]
    pub(super) join: Option<Join>,
}

/// How much of the machine the command sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Isolation {
    /// Namespaces of its own and a root folder that holds only what it needs.
    Namespaces,
    /// A container that somebody else made.
    Container,
    /// The machine as it is; only with `unsafe_local`.
    None,
}

/// Canonical folders on this machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct HostFolders {
    pub(super) workspace: PathBuf,
    pub(super) home: PathBuf,
    pub(super) tmp: PathBuf,
    pub(super) base_git: PathBuf,
    /// Only while exporting, so that a command of the agent cannot prepare anything there.
    pub(super) out: Option<PathBuf>,
    pub(super) toolchains: Vec<PathBuf>,
}

/// Limits of one command.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Limits {
    pub(super) memory_mib: u64,
    pub(super) max_processes: u64,
    pub(super) disk_mib: u64,
}

/// What the helper does once the walls stand.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Task {
    /// Nothing; the layers are reported.
    Probe,
    /// Try from inside which walls hold.
    Examine,
    /// Wait for another task, which comes as a second message.
    Wait,
    /// Run a command.
    Command(CommandTask),
    /// One file operation.
    Files(FileRequest),
}

/// A command with its surroundings.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CommandTask {
    pub(super) argv: Vec<String>,
    /// Below the workspace.
    pub(super) folder: String,
    pub(super) environment: Vec<(String, String)>,
    /// Standard input, base64.
    pub(super) stdin: String,
}

/// What the helper says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// The walls stand.
    Ready { layers: Vec<String>, warnings: Vec<String> },
    /// The kernel refuses a wall.
    Unavailable(String),
    /// Something else went wrong.
    Broken(String),
    /// The command ended by itself.
    Exited(i32),
    /// The command ended by a signal.
    Signaled(i32),
    /// The command was killed because of a limit.
    Limit(String),
    /// Answer to a file operation.
    Files(FileReply),
    /// Which walls hold.
    Examined(Examined),
    /// Nothing of the sandbox is left; the last word of the process that watched it from outside.
    Gone,
}

/// A step of the helper that failed.
#[derive(Debug)]
pub(super) struct Failure {
    problem: String,
    /// Whether the kernel refuses isolation, as opposed to something being broken.
    refused: bool,
}

impl Failure {
    pub(super) fn broken(problem: impl Into<String>) -> Self {
        Self {
            problem: problem.into(),
            refused: false,
        }
    }

    pub(super) fn refused(problem: impl Into<String>) -> Self {
        Self {
            problem: problem.into(),
            refused: true,
        }
    }

    pub(super) fn into_problem(self) -> String {
        self.problem
    }

    pub(super) fn into_report(self) -> Report {
        if self.refused {
            Report::Unavailable(self.problem)
        } else {
            Report::Broken(self.problem)
        }
    }
}

/// Names the step that failed.
pub(super) trait Step<T> {
    fn step(self, what: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: Into<std::io::Error>> Step<T> for Result<T, E> {
    fn step(self, what: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| {
            let error = error.into();
            let errno = rustix::io::Errno::from_io_error(&error);
            Failure {
                problem: format!("{}: {error}", what()),
                refused: errno.is_some_and(means_refused),
            }
        })
    }
}

/// Errors by which kernels, containers and security modules refuse namespaces and mounts.
fn means_refused(errno: rustix::io::Errno) -> bool {
    use rustix::io::Errno;
    [
        Errno::PERM,
        Errno::ACCESS,
        Errno::NOSPC,
        Errno::NOSYS,
        Errno::INVAL,
        Errno::USERS,
    ]
    .contains(&errno)
}

impl Spec {
    /// As it goes over the socket.
    pub(super) fn encode(&self) -> Result<Vec<u8>, String> {
        encode(self)
    }

    pub(super) fn receive(socket: &mut UnixStream) -> Result<Self, Failure> {
        receive(socket)
    }
}

impl Task {
    /// As it goes over the socket to a helper that waits for it.
    pub(super) fn encode(&self) -> Result<Vec<u8>, String> {
        encode(self)
    }
}

fn encode(message: &impl Serialize) -> Result<Vec<u8>, String> {
    let body = serde_json::to_vec(message).map_err(|error| error.to_string())?;
    let length = u32::try_from(body.len())
        .ok()
        .filter(|length| *length <= MAX_SPEC_BYTES);
    let length = length.ok_or_else(|| format!("{} bytes are too much for one command", body.len()))?;
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend(body);
    Ok(bytes)
}

/// Reads one message.
pub(super) fn receive<T: DeserializeOwned>(socket: &mut UnixStream) -> Result<T, Failure> {
    let mut length = [0; 4];
    socket.read_exact(&mut length).step(|| "read the spec".to_owned())?;
    let length = u32::from_le_bytes(length);
    if length > MAX_SPEC_BYTES {
        return Err(Failure::broken("the spec is too long"));
    }
    let mut body = vec![0; length as usize];
    socket.read_exact(&mut body).step(|| "read the spec".to_owned())?;
    serde_json::from_slice(&body).map_err(|error| Failure::broken(format!("parse the spec: {error}")))
}

/// Sends a report. A service that is gone needs none.
pub(super) fn send(socket: &mut UnixStream, report: &Report) {
    if let Ok(mut line) = serde_json::to_vec(report) {
        line.push(b'\n');
        let _ = socket.write_all(&line);
    }
}
