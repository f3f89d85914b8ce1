//! A workspace in layers: a prepared tree below, which nothing writes, and a folder of the run above,
//! which takes what is changed. One process holds the mount for all commands of a run, and each of
//! them copies its namespace: the kernel does not let two mounts share an upper folder. `local` starts
//! the holder, `helper` is it and joins it.
//! Never mounts where other processes of the machine would see it, and never mounts an upper folder
//! while an earlier mount of it lives: a lock is held as long as anybody is inside.

use std::ffi::CString;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::Pid;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use super::spec::{Failure, Report, Step, send};
use super::{Below, Exec, SandboxError, SandboxFolders, helper, identity, raw};
use crate::config::{SandboxBackend, SandboxConfig};

mod owner;

pub(super) use owner::{LEND, lend};

/// Third stage of the helper: hold the mount until the service lets go.
pub(super) const HOLD: &str = "hold-layers";

/// What differs from the layers below.
const UPPER: &str = "upper";
const HOME_UPPER: &str = "home-upper";

/// Longest time until the mount stands. A killed service's commands may take a moment to die, and hold
/// the lock until then.
const MOUNT_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a holder may take to go.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Largest order and report.
const MAX_BYTES: u64 = 64 * 1024;

/// Canonical folders of a run whose workspace, and perhaps home, lie in layers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Layers {
    mounts: Vec<Layered>,
    /// Held while anybody is inside.
    lock: PathBuf,
    /// Who owns the files below in this run, when the service runs as root.
    uid: Option<u32>,
}

/// One folder in layers.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Layered {
    /// What nothing writes, uppermost first.
    lowers: Vec<PathBuf>,
    /// What is changed.
    upper: PathBuf,
    /// Scratch space of the kernel, beside `upper`.
    work: PathBuf,
    /// Where the whole is seen.
    whole: PathBuf,
}

impl Layers {
    /// The folders beside a workspace; `None` when it does not lie in layers. Makes what is missing.
    pub(super) fn of(folders: &SandboxFolders, uid: Option<u32>) -> Result<Option<Self>, String> {
        let Some(below) = &folders.below else { return Ok(None) };
        let mut mounts = vec![layered(&below.workspace, &folders.workspace, UPPER, "work")?];
        if let Some(home) = &below.home {
            mounts.push(layered(
                std::slice::from_ref(home),
                &folders.home,
                HOME_UPPER,
                "home-work",
            )?);
        }
        Ok(Some(Self {
            lock: mounts[0].upper.with_file_name("upper.lock"),
            mounts,
            uid,
        }))
    }
}

fn layered(lowers: &[PathBuf], whole: &Path, upper: &str, work: &str) -> Result<Layered, String> {
    let (upper, work) = (whole.with_file_name(upper), whole.with_file_name(work));
    let failed = |path: &Path, error: std::io::Error| format!("prepare {}: {error}", path.display());
    for folder in [&upper, &work] {
        std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    }
    let canonical = |path: &PathBuf| path.canonicalize().map_err(|error| failed(path, error));
    Ok(Layered {
        lowers: lowers.iter().map(canonical).collect::<Result<_, _>>()?,
        upper: canonical(&upper)?,
        work: canonical(&work)?,
        whole: canonical(&whole.to_owned())?,
    })
}

/// The folders that take the changes of a run in layers.
pub(super) fn uppers_of(folders: &SandboxFolders) -> Vec<PathBuf> {
    let Some(below) = &folders.below else { return Vec::new() };
    let home = below.home.as_ref().map(|_| folders.home.with_file_name(HOME_UPPER));
    [folders.workspace.with_file_name(UPPER)]
        .into_iter()
        .chain(home)
        .collect()
}

/// How a command's helper comes into the holder's namespaces.
#[derive(Debug, Clone)]
pub(super) struct Join {
    holder: u32,
    lock: PathBuf,
}

impl Join {
    /// As arguments of the helper.
    pub(super) fn arguments(&self) -> [std::ffi::OsString; 2] {
        [self.holder.to_string().into(), self.lock.clone().into()]
    }
}

/// The process that holds the mount of a run.
#[derive(Debug)]
pub(super) struct Holder {
    /// Never waited for before the end, so that its number stays its own.
    child: Child,
    socket: tokio::net::UnixStream,
}

impl Holder {
    /// Mounts the layers; they stay until the holder ends and every command with it.
    pub(super) async fn start(program: &Path, layers: &Layers) -> Result<(Self, Join), SandboxError> {
        let broken = |problem: String| SandboxError::Broken(format!("lay the workspace in layers: {problem}"));
        let mut holder = Self::spawn(program).map_err(|error| broken(error.to_string()))?;
        let report = tokio::time::timeout(MOUNT_TIMEOUT, holder.order(layers));
        match report.await {
            Ok(Ok(Report::Ready { .. })) => {}
            Ok(Ok(Report::Unavailable(problem))) => {
                let remedy = "Layers need Linux 5.11, or 5.19 for a service that runs as root, and a file system that \
                              takes them"
                    .to_owned();
                return Err(SandboxError::Unavailable { problem, remedy });
            }
            Ok(Ok(Report::Broken(problem))) => return Err(broken(problem)),
            Ok(Ok(_)) => return Err(broken("an unexpected report".to_owned())),
            Ok(Err(error)) => return Err(broken(error.to_string())),
            Err(_) => return Err(broken("an earlier run of the same folder does not end".to_owned())),
        }
        let number = holder
            .child
            .id()
            .ok_or_else(|| broken("the holder is gone".to_owned()))?;
        let join = Join {
            holder: number,
            lock: layers.lock.clone(),
        };
        Ok((holder, join))
    }

    fn spawn(program: &Path) -> std::io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let child = Command::new(program)
            .args([helper::COMMAND, HOLD])
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A Ctrl-C at this terminal is not its end: commands would lose their workspace.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        Ok(Self {
            child,
            socket: tokio::net::UnixStream::from_std(ours)?,
        })
    }

    async fn order(&mut self, layers: &Layers) -> std::io::Result<Report> {
        let mut order = serde_json::to_vec(layers)?;
        order.push(b'\n');
        self.socket.write_all(&order).await?;
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            let mut block = [0; 4096];
            match self.socket.read(&mut block).await? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                read => line.extend_from_slice(&block[..read]),
            }
            if line.len() as u64 > MAX_BYTES {
                return Err(std::io::ErrorKind::InvalidData.into());
            }
        }
        Ok(serde_json::from_slice(&line)?)
    }

    /// Lets the mount go. Commands must have ended before.
    pub(super) async fn end(self) {
        let Self { mut child, socket } = self;
        drop(socket);
        if tokio::time::timeout(END_TIMEOUT, child.wait()).await.is_err() {
            // It holds nothing but the mount, which goes with it.
            let _ = child.kill().await;
        }
    }
}

/// Whether workspaces in `scratch` can lie in layers, tried with a command in a real sandbox.
pub(super) async fn probe(config: &SandboxConfig, scratch: &Path, slot: u16) -> Result<(), SandboxError> {
    if config.backend != SandboxBackend::Local {
        return Err(SandboxError::Unavailable {
            problem: "containers have folders of their own".to_owned(),
            remedy: "Workspaces are copied instead".to_owned(),
        });
    }
    const TRY: &str = "test \"$(cat kept)\" = 1 && echo 2 > kept && chmod +x kept && rm gone/file && rmdir gone \
                       && mkdir gone && echo 3 > made && mv deep/file deep/moved && rm \"$HOME/kept\" \
                       && test \"$(cat kept deep/moved; ls)\" = \"$(printf '%s\\n' 2 4 deep gone kept made)\"";
    let lower = scratch.join("tree");
    let folders = SandboxFolders {
        below: Some(Below {
            workspace: vec![scratch.join("more"), lower.clone()],
            home: Some(lower.clone()),
        }),
        ..SandboxFolders::within(scratch)
    };
    let failed = |error| SandboxError::Broken(format!("make folders in {}: {error}", scratch.display()));
    for folder in [
        &folders.workspace,
        &folders.base_git,
        &lower.join("gone"),
        &scratch.join("more/deep"),
    ] {
        tokio::fs::create_dir_all(folder).await.map_err(failed)?;
    }
    for (path, content) in [("tree/kept", "1\n"), ("tree/gone/file", ""), ("more/deep/file", "4\n")] {
        tokio::fs::write(scratch.join(path), content).await.map_err(failed)?;
    }
    let sandbox = super::open(config, folders, slot).await?;
    let never = tokio_util::sync::CancellationToken::new();
    let tried = sandbox.exec(&Exec::shell(TRY), &never).await;
    sandbox.close().await;
    let tried = tried?;
    let below = tokio::fs::read_to_string(lower.join("kept")).await.map_err(failed)?;
    if tried.code() == Some(0) && below == "1\n" {
        return Ok(());
    }
    Err(SandboxError::Unavailable {
        problem: format!("files in layers do not behave: {}", tried.output.trim()),
        remedy: "Workspaces are copied instead".to_owned(),
    })
}

/// The holder itself.
pub(super) fn hold(socket: &mut UnixStream) -> Result<(), Failure> {
    raw::close_all_on_exec().step(|| "mark descriptors".to_owned())?;
    raw::leave_terminal().step(|| "leave the terminal".to_owned())?;
    let layers = receive(socket)?;
    let locked = || format!("lock {}", layers.lock.display());
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&layers.lock)
        .step(locked)?;
    flock(&lock, FlockOperation::LockExclusive).step(locked)?;
    if layers.uid.is_some() {
        raw::unshare(UnshareFlags::NEWNS).step(|| "create a mount namespace".to_owned())?;
    } else {
        let map = identity::IdMap::of_this_process();
        raw::unshare(UnshareFlags::NEWNS | UnshareFlags::NEWUSER).step(|| "create a user namespace".to_owned())?;
        map.write()?;
    }
    // What the machine unmounts goes here, too; what is mounted here stays here.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .step(|| "detach mounts from the machine's".to_owned())?;
    for layered in &layers.mounts {
        lay(layered, layers.uid)?;
    }
    // From here on commands may be inside, and none may mount it again.
    flock(&lock, FlockOperation::NonBlockingLockShared).step(locked)?;
    send(
        socket,
        &Report::Ready {
            layers: Vec::new(),
            warnings: Vec::new(),
        },
    );
    wait(socket)
}

fn receive(socket: &mut UnixStream) -> Result<Layers, Failure> {
    let mut order = Vec::new();
    let mut byte = [0];
    loop {
        socket.read_exact(&mut byte).step(|| "read the order".to_owned())?;
        match byte[0] {
            b'\n' => break,
            _ if order.len() as u64 > MAX_BYTES => return Err(Failure::broken("the order is too long")),
            byte => order.push(byte),
        }
    }
    serde_json::from_slice(&order).map_err(|error| Failure::broken(format!("parse the order: {error}")))
}

fn lay(layered: &Layered, uid: Option<u32>) -> Result<(), Failure> {
    let open = |path: &Path| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(CWD, path, flags, Mode::empty()).step(|| format!("open {}", path.display()))
    };
    let (upper, work) = (open(&layered.upper)?, open(&layered.work)?);
    let lower = |path: &PathBuf| match uid {
        None => open(path),
        Some(uid) => {
            owner::mount_as(path, &layered.whole, uid)?;
            open(&layered.whole)
        }
    };
    let lowers: Vec<OwnedFd> = layered.lowers.iter().map(lower).collect::<Result<_, _>>()?;
    // By number: paths may hold what separates options, and a sandbox sees these words in /proc.
    let number = |fd: &OwnedFd| format!("/proc/self/fd/{}", fd.as_raw_fd());
    let lower = lowers.iter().map(number).collect::<Vec<_>>().join(":");
    // Renames of folders are noted in attributes that only root of the machine may write.
    let more = if uid.is_some() { "redirect_dir=on" } else { "userxattr" };
    let (upper, work) = (number(&upper), number(&work));
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work},index=off,{more}");
    let options = CString::new(options).map_err(|error| Failure::broken(error.to_string()))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("layers", &layered.whole, "overlay", flags, Some(options.as_c_str()))
        .step(|| format!("mount layers at {}", layered.whole.display()))
}

/// Until the service is gone or lets go.
fn wait(socket: &mut UnixStream) -> Result<(), Failure> {
    let mut byte = [0];
    loop {
        match socket.read(&mut byte) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).step(|| "wait for the service".to_owned()),
        }
    }
}

/// Moves this process, a command's helper that has no namespaces of its own yet, to the holder's.
/// What comes back must be kept until the command and everything it started is gone.
pub(super) fn join(holder: &str, lock: &Path) -> Result<OwnedFd, Failure> {
    let gone = || "come to the layers of the workspace".to_owned();
    let lock = File::open(lock).step(gone)?;
    flock(&lock, FlockOperation::NonBlockingLockShared).step(gone)?;
    let holder: Option<Pid> = holder.parse().ok().and_then(Pid::from_raw);
    let holder = holder.ok_or_else(|| Failure::broken("the holder of the layers has no number"))?;
    let open = |kind: &str| File::open(format!("/proc/{}/ns/{kind}", holder.as_raw_nonzero())).step(gone);
    let mounts = open("mnt")?;
    if !rustix::process::geteuid().is_root() {
        let user = open("user")?;
        move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User)).step(gone)?;
    }
    move_into_link_name_space(mounts.as_fd(), Some(LinkNameSpaceType::Mount)).step(gone)?;
    Ok(lock.into())
}
