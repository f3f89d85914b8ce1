//! How a sandbox in containers opens: the engine, the image, the user, the folders, the first
//! container. Called by the door. Never gives a sandbox away whose first look inside failed.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{Mutex, OnceCell};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::container::Plan;
use super::door::Door;
use super::engine::{self, Engine, Users};
use super::label::Label;
use super::{DockerSandbox, etc, image, leftover};
use crate::config::SandboxConfig;
use crate::sandbox::background::Background;
use crate::sandbox::helper_program::HelperProgram;
use crate::sandbox::spec::Limits;
use crate::sandbox::{Sandbox, SandboxDescription, SandboxError, SandboxFolders, WayOut, folders};

/// First user inside where the engine gives containers numbers of their own, and how many there are:
/// engines map 65,536.
const FIRST_INNER_USER: u32 = 10_001;
const INNER_USERS: u32 = 50_000;

/// Who a container's user is, inside and on this machine.
struct Identity {
    inner: (u32, u32),
    /// Who owns the folders, where that is not us.
    owner: Option<u32>,
}

pub(in crate::sandbox) async fn open(
    config: &SandboxConfig,
    folders: SandboxFolders,
    slot: u16,
    way_out: Option<&WayOut>,
) -> Result<DockerSandbox, SandboxError> {
    let engine = engine::connect(config).await?;
    let image = image::find(&engine, config).await?;
    leftover::sweep_for_a_moment(&engine).await;
    let identity = identity(&engine, config, slot)?;
    let way_out = way_out.cloned();
    let helper = config.helper.clone().unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
    let prepared = tokio::task::spawn_blocking(move || {
        let etc = folders.home.with_file_name("etc");
        let (host, out) = folders::prepare(&folders, &[], identity.owner)?;
        etc::write(&etc, identity.inner).map_err(|error| format!("prepare {}: {error}", etc.display()))?;
        let etc = etc.canonicalize().map_err(|error| error.to_string())?;
        let door = way_out
            .map(|way| Door::prepare(&way, &etc.with_file_name("way-out")))
            .transpose()
            .map_err(|error| format!("prepare the way out: {error}"))?;
        let program = HelperProgram::find(&helper)?;
        Ok::<_, String>((host, out, etc, door, program, identity))
    });
    let (folders, out, etc, door, program, identity) = prepared
        .await
        .map_err(|error| SandboxError::Broken(error.to_string()))
        .and_then(|prepared| prepared.map_err(SandboxError::Broken))?;
    let plan = Plan {
        image,
        program,
        folders,
        etc,
        door,
        label: Label::of_run(engine.has_labels),
        user: identity.inner,
        limits: Limits {
            memory_mib: config.memory_mib,
            max_processes: config.max_processes,
            disk_mib: config.disk_mib,
        },
        processors: config.cpus,
        runtime: config.docker_runtime.clone(),
        owner: leftover::own_label(),
        engine,
    };
    let mut sandbox = DockerSandbox {
        plan: Arc::new(plan),
        out,
        timeout: config.command_timeout_seconds,
        output_bytes: usize::try_from(config.output_kib.saturating_mul(1024)).unwrap_or(usize::MAX),
        description: SandboxDescription {
            backend: "docker".to_owned(),
            layers: Vec::new(),
            warnings: Vec::new(),
        },
        front: Mutex::new(None),
        tools: OnceCell::new(),
        closing: CancellationToken::new(),
        running: TaskTracker::new(),
        background: Background::default(),
    };
    if let Err(error) = sandbox.probe().await {
        sandbox.close().await;
        return Err(error);
    }
    Ok(sandbox)
}

fn identity(engine: &Engine, config: &SandboxConfig, slot: u16) -> Result<Identity, SandboxError> {
    let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let slot = u32::from(slot);
    match (engine.users, own.0) {
        (Users::Same, 0) => {
            let user = config.uid_base.saturating_add(slot);
            Ok(Identity {
                inner: (user, user),
                owner: Some(user),
            })
        }
        (Users::Same | Users::OwnKept, _) => Ok(Identity {
            inner: own,
            owner: None,
        }),
        (Users::OwnAsRoot, _) => Ok(Identity {
            inner: (0, 0),
            owner: None,
        }),
        (Users::From(first), 0) => {
            let user = FIRST_INNER_USER + slot % INNER_USERS;
            Ok(Identity {
                inner: (user, user),
                owner: Some(first.saturating_add(user)),
            })
        }
        (Users::From(_), _) => Err(SandboxError::Unavailable {
            problem: format!(
                "{} gives containers users of their own, who cannot write our folders",
                engine.name
            ),
            remedy: "Run the service as root or a rootless engine as the service's user, or remove userns-remap"
                .to_owned(),
        }),
    }
}
