//! How a remote sandbox opens: the server, a sandbox made or taken up again, its network policy, our
//! program and the run's files in it, the first look inside. Called by the door.
//! Never gives a sandbox away whose network is more open than was asked for.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::execd::{Execd, Source};
use super::server::{PolicyInForce, Server, State, Wish, is_plain};
use super::stream::{Remote, TASKS};
use super::way::Way;
use super::{OpenSandbox, seed};
use crate::config::{OpenSandboxMode, SandboxConfig, check_image_name};
use crate::sandbox::background::Background;
use crate::sandbox::helper_program::HelperProgram;
use crate::sandbox::remote::{SETTLE, USER};
use crate::sandbox::root::HOME;
use crate::sandbox::spec::{HostFolders, Limits};
use crate::sandbox::{Sandbox, SandboxDescription, SandboxError, SandboxFolders, WayOut, folders};

/// Longest time until a sandbox runs and its daemon listens; a node may have to be started.
const LONGEST_START: Duration = Duration::from_secs(180);

/// How often one looks.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Names the sandbox of a run folder, so that a later attempt finds it.
const MARKER: &str = "opensandbox-id";

/// Where the archive with the run's files lies until it is unpacked.
const SEED: &str = "/run/forgehand/seed.tar";

/// A sandbox with more or less in it.
struct Found {
    id: String,
    is_fresh: bool,
}

pub(in crate::sandbox) async fn open(
    config: &SandboxConfig,
    folders: SandboxFolders,
    way_out: Option<&WayOut>,
) -> Result<OpenSandbox, SandboxError> {
    let image = image(config)?;
    let server = Server::new(config)?;
    server.health().await?;
    let marker = folders.home.with_file_name(MARKER);
    let home = folders.home.clone();
    let helper = config.helper.clone().unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
    let prepared = tokio::task::spawn_blocking(move || {
        let (host, out) = folders::prepare(&folders, &[], None)?;
        Ok::<_, String>((host, out, HelperProgram::find(&helper)?))
    });
    let (host, out, program) = joined(prepared.await)?;
    let found = match earlier(&server, &marker, &home).await? {
        Some(id) => Found { id, is_fresh: false },
        None => made(&server, config, image).await?,
    };
    let wanted = Wanted {
        folders: &host,
        program: &program,
        marker: &marker,
        way_out,
    };
    let layers = match furnish(config, &server, &found, &wanted).await {
        Ok(layers) => layers,
        Err(error) => {
            give_up(&server, &found, &marker).await;
            return Err(error);
        }
    };
    let execd = Execd::new(server.clone(), &found.id);
    let remote = Arc::new(Remote::new(execd, program.command_line()));
    let (closing, running) = (CancellationToken::new(), TaskTracker::new());
    let mut sandbox = OpenSandbox {
        way: way_out.map(|way| Way::new(remote.clone(), way, closing.clone(), running.clone())),
        remote,
        server,
        id: found.id.clone(),
        out,
        marker,
        limits: Limits {
            memory_mib: config.memory_mib,
            max_processes: config.max_processes,
            disk_mib: config.disk_mib,
        },
        keep: config.opensandbox_keep,
        timeout: config.command_timeout_seconds,
        output_bytes: usize::try_from(config.output_kib.saturating_mul(1024)).unwrap_or(usize::MAX),
        description: SandboxDescription {
            backend: "opensandbox".to_owned(),
            layers,
            warnings: warnings(config),
        },
        closing,
        running,
        background: Background::default(),
    };
    sandbox.description.layers.push(format!("image {image}"));
    let shared = "one network and one set of processes for all commands of the run";
    sandbox.description.layers.push(shared.to_owned());
    sandbox.renew_for(config.opensandbox_life_seconds);
    if let Err(error) = sandbox.probe().await {
        sandbox.close().await;
        return Err(error);
    }
    Ok(sandbox)
}

/// Ends the sandbox that a run folder names, where it names one: its run is over, and nobody will come
/// back for it. Returns its id.
pub(in crate::sandbox) async fn let_go(config: &SandboxConfig, run: &Path) -> Result<Option<String>, SandboxError> {
    let marker = run.join(MARKER);
    let Ok(id) = tokio::fs::read_to_string(&marker).await else {
        return Ok(None);
    };
    let id = id.trim().to_owned();
    if !is_plain(&id) {
        return Ok(None);
    }
    let ended = Server::new(config)?.delete(&id).await;
    ended.map_err(|error| error.broken("end the sandbox of a run that is over"))?;
    Ok(Some(id))
}

async fn made(server: &Server, config: &SandboxConfig, image: &str) -> Result<Found, SandboxError> {
    let wish = Wish {
        image,
        life: config.opensandbox_life_seconds,
        memory_mib: config.memory_mib,
        processors: config.cpus,
        owner: "forgehand",
        closed: config.opensandbox_mode != OpenSandboxMode::Unverified,
    };
    let id = server.create(&wish).await?;
    Ok(Found { id, is_fresh: true })
}

fn image(config: &SandboxConfig) -> Result<&str, SandboxError> {
    let change = |problem| SandboxError::Unavailable {
        problem,
        remedy: "Set sandbox.image to an image by digest, such as docker.io/library/rust@sha256:…".to_owned(),
    };
    let Some(name) = &config.image else {
        return Err(change("no image is configured for the OpenSandbox sandbox".to_owned()));
    };
    check_image_name(name, config.image_by_tag).map_err(change)?;
    Ok(name)
}

fn joined<T>(done: Result<Result<T, String>, tokio::task::JoinError>) -> Result<T, SandboxError> {
    done.map_err(|error| error.to_string())
        .and_then(|done| done)
        .map_err(SandboxError::Broken)
}

/// The sandbox that an earlier attempt left, running again. One that is gone took the run's files with
/// it: the run folder is then no longer whole, so that the next attempt begins from what was stored.
async fn earlier(server: &Server, marker: &Path, home: &Path) -> Result<Option<String>, SandboxError> {
    let Ok(id) = tokio::fs::read_to_string(marker).await else {
        return Ok(None);
    };
    let id = id.trim().to_owned();
    let looked = async {
        let state = server.state(&id).await?;
        if state == Some(State::Paused) {
            server.resume(&id).await?;
        }
        Ok::<_, super::server::CallError>(state)
    };
    match looked
        .await
        .map_err(|error| error.broken("look for the sandbox of the run"))?
    {
        Some(State::Running | State::Paused | State::Coming) => Ok(Some(id)),
        Some(State::Over(_)) | None => {
            let _ = tokio::fs::remove_file(marker).await;
            let _ = tokio::fs::remove_dir_all(home).await;
            Err(SandboxError::Broken(
                "the sandbox that held the files of this run is gone; the next attempt begins from the last stored state"
                    .to_owned(),
            ))
        }
    }
}

/// What a sandbox is furnished with.
struct Wanted<'w> {
    folders: &'w HostFolders,
    program: &'w HelperProgram,
    marker: &'w Path,
    way_out: Option<&'w WayOut>,
}

/// Makes it fit for work and returns its layers.
async fn furnish(
    config: &SandboxConfig,
    server: &Server,
    found: &Found,
    wanted: &Wanted<'_>,
) -> Result<Vec<String>, SandboxError> {
    // Whoever dies from here on leaves a name behind; before, the server ends what nobody renews.
    if found.is_fresh {
        let written = tokio::fs::write(wanted.marker, &found.id).await;
        written.map_err(|error| SandboxError::Broken(format!("write {}: {error}", wanted.marker.display())))?;
    }
    let execd = Execd::new(server.clone(), &found.id);
    started(server, &execd, &found.id).await?;
    let mut layers = vec![format!("OpenSandbox at {}", server.name())];
    if config.opensandbox_mode != OpenSandboxMode::Unverified {
        let policy = server.policy(&found.id).await;
        let policy = policy.map_err(|error| SandboxError::Unavailable {
            problem: format!("the network policy in force cannot be read back: {}", error.words),
            remedy: "Look at the egress part of the server's configuration".to_owned(),
        })?;
        layers.push(in_force(&policy, config.opensandbox_mode)?);
    }
    if found.is_fresh {
        let laid = lay_down(&execd, wanted.folders, wanted.program).await;
        laid.map_err(|error| error.broken("lay the run's files down in the sandbox"))?;
    }
    // What makes programs use the proxy may be another since the sandbox was made.
    for (inside, content) in wanted.way_out.iter().flat_map(|way| &way.files) {
        let content = Source::Bytes(content.clone().into_bytes());
        let laid = execd.upload(&inside.display().to_string(), 644, content).await;
        laid.map_err(|error| error.broken("lay the settings of the way out down in the sandbox"))?;
    }
    Ok(layers)
}

/// Waits until the sandbox runs and its daemon listens.
async fn started(server: &Server, execd: &Execd, id: &str) -> Result<(), SandboxError> {
    let begun = Instant::now();
    let mut last = "it did not say anything".to_owned();
    while begun.elapsed() < LONGEST_START {
        match server.state(id).await {
            Ok(Some(State::Running)) => match execd.ping().await {
                Ok(()) => return Ok(()),
                Err(error) => last = error.words,
            },
            Ok(Some(State::Coming | State::Paused)) => last = "it does not run yet".to_owned(),
            Ok(Some(State::Over(why))) => {
                return Err(SandboxError::Unavailable {
                    problem: format!("the sandbox ended before it ran: {why}"),
                    remedy: "Look at its node: image, memory and the server's execd image".to_owned(),
                });
            }
            Ok(None) => {
                return Err(SandboxError::Broken(
                    "the server lost the sandbox that it made".to_owned(),
                ));
            }
            Err(error) => last = error.words,
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Err(SandboxError::Unavailable {
        problem: format!("the sandbox did not start in {} s: {last}", LONGEST_START.as_secs()),
        remedy: "A healthy server does not mean that the node can pull the image, or that it has room: look there"
            .to_owned(),
    })
}

/// The layer of the network, if it is no weaker than what was asked for.
fn in_force(found: &PolicyInForce, asked: OpenSandboxMode) -> Result<String, SandboxError> {
    let weaker = |what: String| {
        Err(SandboxError::Unavailable {
            problem: format!("the sandbox's network is more open than was asked for: {what}"),
            remedy: "Set mode = \"dns+nft\" in the [egress] part of the server's configuration; or accept less with \
                     sandbox.opensandbox_mode"
                .to_owned(),
        })
    };
    let enforcement = found.enforcement.as_str();
    let strong_enough = match asked {
        OpenSandboxMode::DnsNft => enforcement == "dns+nft",
        OpenSandboxMode::Dns => matches!(enforcement, "dns" | "dns+nft"),
        OpenSandboxMode::Unverified => true,
    };
    if !strong_enough {
        return weaker(format!("it enforces by {enforcement:?}"));
    }
    let Some(policy) = &found.policy else {
        return weaker("it names no policy".to_owned());
    };
    if found.mode != "deny_all" || policy.default_action != "deny" {
        return weaker(format!("mode {:?}, by default {:?}", found.mode, policy.default_action));
    }
    if let Some(rule) = policy.egress.iter().find(|rule| rule.action != "deny") {
        return weaker(format!("it lets {:?} through", rule.target));
    }
    Ok(format!("no network, by the server's policy ({enforcement})"))
}

async fn lay_down(
    execd: &Execd,
    folders: &HostFolders,
    program: &HelperProgram,
) -> Result<(), super::server::CallError> {
    for (file, inside) in &program.files {
        execd.upload(inside, 755, Source::File(file)).await?;
    }
    let folders = folders.clone();
    let packed = tokio::task::spawn_blocking(move || -> std::io::Result<_> {
        let archive = tempfile::NamedTempFile::new_in(folders.home.parent().unwrap_or(Path::new("/")))?;
        seed::pack(&folders, archive.reopen()?)?;
        Ok(archive)
    });
    let failed =
        |error: &dyn std::fmt::Display| super::server::CallError::new(format!("pack the run's files: {error}"));
    let archive = packed
        .await
        .map_err(|error| failed(&error))?
        .map_err(|error| failed(&error))?;
    execd.upload(SEED, 600, Source::File(archive.path())).await?;
    let settle = program.command_line().join(" ");
    // The commands' user has a name, as it has on the other backends.
    let user = format!(
        "grep -q ^agent: /etc/passwd || {{ echo agent:x:{USER}:{USER}:agent:{HOME}:/bin/sh >> /etc/passwd; \
         echo agent:x:{USER}: >> /etc/group; }}"
    );
    let unpack = format!("{settle} {SETTLE} < {SEED} && rm {SEED} && mkdir -p -m 755 {TASKS} && chmod 1777 /tmp");
    execd.chore(&format!("{unpack} && {user}")).await
}

async fn give_up(server: &Server, found: &Found, marker: &Path) {
    // One with a run's work in it is left to whoever looks for it, until its time is over.
    if found.is_fresh {
        let _ = server.delete(&found.id).await;
        let _ = tokio::fs::remove_file(marker).await;
    }
}

fn warnings(config: &SandboxConfig) -> Vec<String> {
    match config.opensandbox_mode {
        OpenSandboxMode::DnsNft | OpenSandboxMode::Dns => Vec::new(),
        OpenSandboxMode::Unverified => vec![
            "THE NETWORK IS THE SERVER'S: what commands reach is neither asked for nor verified \
             (sandbox.opensandbox_mode)"
                .to_owned(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::super::server::{Policy, Rule};
    use super::*;

    fn found(mode: &str, enforcement: &str, action: &str, rules: &[(&str, &str)]) -> PolicyInForce {
        let rule = |(action, target): &(&str, &str)| Rule {
            action: (*action).to_owned(),
            target: (*target).to_owned(),
        };
        PolicyInForce {
            mode: mode.to_owned(),
            enforcement: enforcement.to_owned(),
            policy: Some(Policy {
                default_action: action.to_owned(),
                egress: rules.iter().map(rule).collect(),
            }),
        }
    }

    #[test]
    fn a_network_that_is_more_open_than_asked_is_refused() {
        use OpenSandboxMode::{Dns, DnsNft};
        let closed = |enforcement| found("deny_all", enforcement, "deny", &[]);
        assert!(in_force(&closed("dns+nft"), DnsNft).is_ok());
        assert!(in_force(&closed("dns+nft"), Dns).is_ok());
        assert!(in_force(&closed("dns"), Dns).is_ok());
        assert!(in_force(&found("deny_all", "dns+nft", "deny", &[("deny", "x")]), DnsNft).is_ok());
        for (weak, asked) in [
            (closed("dns"), DnsNft),
            (closed(""), Dns),
            (found("allow_all", "dns+nft", "deny", &[]), DnsNft),
            (found("deny_all", "dns+nft", "allow", &[]), DnsNft),
            (
                found("deny_all", "dns+nft", "deny", &[("allow", "evil.example")]),
                DnsNft,
            ),
            (
                PolicyInForce {
                    policy: None,
                    ..closed("dns+nft")
                },
                DnsNft,
            ),
        ] {
            let refused = in_force(&weak, asked).expect_err("it is weaker");
            assert!(refused.to_string().contains("more open"), "{refused}");
        }
    }
}
