//! One container: what it is made from, its start and its end. Called by `docker`.
//! Never shows it a folder of this machine but those of the run, our own program, and where an image
//! has no git, the system programs that the local sandbox shows, too. Never the engine's socket.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use bollard::Docker;
use bollard::exec::{CreateExecOptions, StartExecResults};
use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount,
    MountBindOptions, MountBindOptionsPropagationEnum, MountTmpfsOptions, MountType, ResourcesUlimits,
};
use bollard::query_parameters::{AttachContainerOptionsBuilder, CreateContainerOptions, RemoveContainerOptionsBuilder};
use rustix::process::{Resource, getrlimit};
use tokio::io::AsyncWrite;

use super::door::Door;
use super::engine::{Engine, Kind, Users, words};
use super::image::Image;
use super::label::{Label, Sharing, labelled};
use super::leftover::OWNER_LABEL;
use crate::sandbox::contained::{CONTAINED, HOLD};
use crate::sandbox::helper_program::HelperProgram;
use crate::sandbox::root::{BASE_GIT, EGRESS, HOME, OUT, TMP};
use crate::sandbox::spec::{HostFolders, Limits};
use crate::sandbox::{SandboxError, WORKSPACE};

/// Room for the first process and for helpers beside the command that is counted.
const PIDS_HEADROOM: u64 = 64;

/// The helper sees a full memory first and says so; this is the engine's hard end above it.
const MEMORY_HEADROOM_MIB: u64 = 64;

/// As in the local sandbox.
const SHM_BYTES: i64 = 256 << 20;
const OPEN_FILES: i64 = 8192;

/// Podman raises this limit where nobody names it, which not every machine lets it. It counts all
/// processes of a user, so that it must not be small; the container has a count of its own.
const PODMAN_PROCESSES: u64 = 32_768;

/// What an image declares as a volume is a small piece of memory that ends with the container.
const VOLUME_BYTES: i64 = 16 << 20;

/// System folders of this machine in which its git and shell stand.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// What all containers of a run have in common.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) engine: Engine,
    pub(super) image: Image,
    pub(super) program: HelperProgram,
    pub(super) folders: HostFolders,
    /// Folder with files that stand in for those of /etc.
    pub(super) etc: PathBuf,
    /// The way out, if there is one.
    pub(super) door: Option<Door>,
    /// Where containers and files have labels, those of the run.
    pub(super) label: Option<Label>,
    /// User and group inside.
    pub(super) user: (u32, u32),
    pub(super) limits: Limits,
    pub(super) processors: f64,
    pub(super) runtime: Option<String>,
    pub(super) owner: String,
}

/// Whether a container has the way out of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// For commands: what the run's proxy lets through.
    Proxy,
    /// For scripts of ours: nothing.
    Nothing,
}

/// What one container sees besides.
#[derive(Debug, Clone)]
pub(super) struct Extras {
    pub(super) reach: Reach,
    /// The folder for exports.
    pub(super) out: Option<PathBuf>,
    /// This machine's git, shell and small tools in place of the image's.
    pub(super) machine_tools: bool,
}

impl Extras {
    /// A container for commands.
    pub(super) fn commands() -> Self {
        Self {
            reach: Reach::Proxy,
            out: None,
            machine_tools: false,
        }
    }
}

/// Both directions of a process in a container.
pub(super) type Streams = bollard::container::AttachContainerResults;

/// A container that runs until it is removed, or until this value or our whole process is gone: its
/// first process ends with the connection that is held here.
pub(super) struct Container {
    docker: Docker,
    id: String,
    command: Vec<String>,
    pub(super) warnings: Vec<String>,
    /// Whether it is about to be ended, and not to be used any more.
    spoiled: AtomicBool,
    _held: Mutex<Pin<Box<dyn AsyncWrite + Send>>>,
}

impl std::fmt::Debug for Container {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Container({})", self.id)
    }
}

impl Container {
    /// Makes and starts one.
    pub(super) async fn start(plan: &Plan, extras: &Extras) -> Result<Self, SandboxError> {
        let docker = plan.engine.docker.clone();
        let created = docker
            .create_container(None::<CreateContainerOptions>, body(plan, extras))
            .await;
        let created = created.map_err(|error| not_made(&words(&error)))?;
        let started = async {
            let options = AttachContainerOptionsBuilder::default()
                .stdin(true)
                .stream(true)
                .build();
            let held = docker.attach_container(&created.id, Some(options)).await?;
            docker.start_container(&created.id, None).await?;
            Ok::<_, bollard::errors::Error>(held.input)
        };
        match started.await {
            Ok(held) => Ok(Self {
                id: created.id,
                command: plan.program.command(CONTAINED),
                warnings: created.warnings,
                spoiled: AtomicBool::new(false),
                _held: Mutex::new(held),
                docker,
            }),
            Err(error) => {
                remove(&docker, &created.id).await;
                Err(not_made(&words(&error)))
            }
        }
    }

    /// Starts a helper beside the first process.
    pub(super) async fn helper(&self) -> Result<Streams, SandboxError> {
        let options = CreateExecOptions {
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            cmd: Some(self.command.clone()),
            ..CreateExecOptions::default()
        };
        let failed = |error| SandboxError::Broken(format!("start a command in the container: {}", words(&error)));
        let made = self.docker.create_exec(&self.id, options).await.map_err(failed)?;
        match self.docker.start_exec(&made.id, None).await.map_err(failed)? {
            StartExecResults::Attached { output, input } => Ok(Streams { output, input }),
            StartExecResults::Detached => Err(SandboxError::Broken("the engine kept a command's streams".to_owned())),
        }
    }

    /// Takes it out of use.
    pub(super) fn spoil(&self) {
        self.spoiled.store(true, Ordering::Release);
    }

    pub(super) fn is_spoiled(&self) -> bool {
        self.spoiled.load(Ordering::Acquire)
    }

    /// Ends everything in it; afterwards nothing of it is alive.
    pub(super) async fn remove(&self) {
        remove(&self.docker, &self.id).await;
    }
}

/// A container that is gone already is as good.
pub(super) async fn remove(docker: &Docker, id: &str) {
    let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
    if let Err(error) = docker.remove_container(id, Some(options)).await {
        tracing::debug!(container = id, error = %words(&error), "a container was not removed, or is being removed");
    }
}

fn not_made(problem: &str) -> SandboxError {
    let lower = problem.to_lowercase();
    if lower.contains("bind source path does not exist") || lower.contains("statfs") {
        return SandboxError::Unavailable {
            problem: format!("the engine does not see the folders of the run: {problem}"),
            remedy: "The engine must run on this machine, outside of any container that the service runs in".to_owned(),
        };
    }
    SandboxError::Broken(format!("make a container: {problem}"))
}

/// The whole of a container's configuration.
fn body(plan: &Plan, extras: &Extras) -> ContainerCreateBody {
    let (user, group) = plan.user;
    ContainerCreateBody {
        hostname: Some("sandbox".to_owned()),
        user: Some(format!("{user}:{group}")),
        image: Some(plan.image.id.clone()),
        entrypoint: Some(plan.program.command(HOLD)),
        cmd: Some(Vec::new()),
        working_dir: Some("/".to_owned()),
        // Libraries that an image loads into every program would run in the helper.
        env: Some(vec![
            format!("HOME={HOME}"),
            "LD_PRELOAD=".to_owned(),
            "LD_AUDIT=".to_owned(),
        ]),
        // The connection of the service is the only one; the first process sees its end.
        open_stdin: Some(true),
        stdin_once: Some(true),
        attach_stdin: Some(true),
        network_disabled: Some(true),
        // Podman asks gently before it removes one by force, and waits.
        stop_timeout: Some(0),
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..HealthConfig::default()
        }),
        labels: Some(HashMap::from([(OWNER_LABEL.to_owned(), plan.owner.clone())])),
        host_config: Some(host_config(plan, extras)),
        ..ContainerCreateBody::default()
    }
}

fn host_config(plan: &Plan, extras: &Extras) -> HostConfig {
    let memory = mib(plan.limits.memory_mib.saturating_add(MEMORY_HEADROOM_MIB));
    let processors = plan
        .engine
        .processors
        .map_or(plan.processors, |there| plan.processors.min(there.into()));
    let limit = |name: &str, most: i64| ResourcesUlimits {
        name: Some(name.to_owned()),
        soft: Some(most),
        hard: Some(most),
    };
    let mut ulimits = vec![limit("nofile", OPEN_FILES), limit("core", 0)];
    if plan.engine.kind == Kind::Podman {
        let own = getrlimit(Resource::Nproc).maximum.unwrap_or(PODMAN_PROCESSES);
        ulimits.push(limit(
            "nproc",
            i64::try_from(own.min(PODMAN_PROCESSES)).unwrap_or(i64::MAX),
        ));
    }
    let (mounts, binds) = mounts(plan, extras);
    let mut security = vec!["no-new-privileges".to_owned()];
    security.extend(plan.label.as_ref().map(Label::option));
    HostConfig {
        network_mode: Some("none".to_owned()),
        readonly_rootfs: Some(true),
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(security),
        privileged: Some(false),
        ipc_mode: Some("private".to_owned()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        userns_mode: (plan.engine.users == Users::OwnKept).then(|| "keep-id".to_owned()),
        memory: Some(memory),
        memory_swap: Some(memory),
        pids_limit: Some(i64::try_from(plan.limits.max_processes.saturating_add(PIDS_HEADROOM)).unwrap_or(i64::MAX)),
        // At a billionth of a processor a second.
        nano_cpus: Some((processors * 1e9) as i64),
        ulimits: Some(ulimits),
        shm_size: Some(SHM_BYTES),
        // Our own first process collects orphans and cannot be killed from inside.
        init: Some(false),
        auto_remove: Some(true),
        runtime: plan.runtime.clone(),
        mounts: Some(mounts),
        binds: Some(binds),
        // Output goes to the service, and nowhere else.
        log_config: Some(HostConfigLogConfig {
            typ: Some("none".to_owned()),
            config: None,
        }),
        ..HostConfig::default()
    }
}

fn mib(count: u64) -> i64 {
    i64::try_from(count.saturating_mul(1 << 20)).unwrap_or(i64::MAX)
}

/// What a container sees of this machine, and apart from it what is labelled for it on the way.
fn mounts(plan: &Plan, extras: &Extras) -> (Vec<Mount>, Vec<String>) {
    let (own, mut mounts) = (own_folders(plan, extras), foreign_files(plan, extras));
    let mut binds = Vec::new();
    for (source, target, read_only, sharing) in own {
        let label = plan.label.as_ref();
        match label.and_then(|_| labelled(&source.display().to_string(), &target, read_only, sharing)) {
            Some(labelled) => binds.push(labelled),
            None => mounts.push(bind(&source, &target, read_only)),
        }
    }
    let is_taken = |volume: &str| {
        let is_bound = |bind: &String| bind.split(':').nth(1) == Some(volume);
        mounts.iter().any(|mount| mount.target.as_deref() == Some(volume)) || binds.iter().any(is_bound)
    };
    let volumes: Vec<_> = plan.image.volumes.iter().filter(|volume| !is_taken(volume)).collect();
    mounts.extend(volumes.into_iter().map(|volume| memory(volume)));
    (mounts, binds)
}

/// What the service made for the run: source, target, whether it is read-only, and for whom it is.
fn own_folders(plan: &Plan, extras: &Extras) -> Vec<(PathBuf, String, bool, Sharing)> {
    let folders = &plan.folders;
    let mut writable = vec![(&folders.workspace, WORKSPACE), (&folders.home, HOME)];
    // Not memory of the container, as a tmpfs would be: all commands of a run share their temporary
    // files, the ones in the background too, and they count as disk.
    writable.extend([(&folders.tmp, TMP), (&folders.tmp, "/var/tmp")]);
    writable.extend(extras.out.as_ref().map(|out| (out, OUT)));
    let mut own: Vec<_> = writable
        .into_iter()
        .map(|(source, target)| (source.clone(), target.to_owned(), false, Sharing::Run))
        .collect();
    // Its packs may be hard links to those of other runs.
    own.push((folders.base_git.clone(), BASE_GIT.to_owned(), true, Sharing::All));
    for name in super::etc::NAMES {
        own.push((plan.etc.join(name), format!("/etc/{name}"), true, Sharing::Run));
    }
    let door = plan.door.iter().filter(|_| extras.reach == Reach::Proxy);
    for (file, inside) in door.flat_map(|door| &door.files) {
        own.push((file.clone(), inside.clone(), true, Sharing::Run));
    }
    own
}

/// What others made, which is shown as it is.
fn foreign_files(plan: &Plan, extras: &Extras) -> Vec<Mount> {
    let program = plan.program.files.iter();
    let mut mounts: Vec<_> = program.map(|(file, inside)| bind(file, inside, true)).collect();
    let door = plan.door.iter().filter(|_| extras.reach == Reach::Proxy);
    mounts.extend(door.map(|door| bind(&door.socket, EGRESS, true)));
    if extras.machine_tools {
        let there = SYSTEM
            .iter()
            .filter_map(|path| Some((Path::new(path).canonicalize().ok()?, path)));
        mounts.extend(there.map(|(source, target)| bind(&source, target, true)));
    }
    mounts
}

fn bind(source: &Path, target: &str, read_only: bool) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(source.display().to_string()),
        target: Some(target.to_owned()),
        read_only: Some(read_only),
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            ..MountBindOptions::default()
        }),
        ..Mount::default()
    }
}

fn memory(target: &str) -> Mount {
    Mount {
        typ: Some(MountType::TMPFS),
        target: Some(target.to_owned()),
        tmpfs_options: Some(MountTmpfsOptions {
            size_bytes: Some(VOLUME_BYTES),
            mode: Some(0o1777),
            ..MountTmpfsOptions::default()
        }),
        ..Mount::default()
    }
}
