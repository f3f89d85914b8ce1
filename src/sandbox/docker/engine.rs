//! The Docker or podman engine behind a Unix socket: found, asked what it is, and refused with a
//! remedy where it cannot give the isolation that is asked for. Called by `docker`.
//! Never talks to an engine over a network, and never falls back to the machine itself.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use bollard::errors::Error;
use bollard::models::{SystemInfo, SystemInfoCgroupVersionEnum, SystemVersion, SystemVersionComponents};
use bollard::{API_DEFAULT_VERSION, Docker};

use super::label;
use crate::config::{OldRunc, SandboxConfig};
use crate::sandbox::SandboxError;

/// Longest answer of the engine to one request, in seconds; a container takes well under one.
const ANSWER_SECONDS: u64 = 60;

/// A daemon that hangs is found out early.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// Docker 20.10 and podman 4 speak it; it brings cgroup namespaces.
const LEAST_API: (u32, u32) = (1, 41);

/// First releases of runc without the three escapes of November 2025 by masked paths.
const MENDED_RUNC: [(u32, u32, u32); 2] = [(1, 2, 8), (1, 3, 3)];

/// Runtimes that do their work without runc.
const NOT_RUNC: [&str; 5] = ["crun", "gvisor", "kata", "runsc", "youki"];

/// Whose numbers the users of a container are on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Users {
    /// The same numbers.
    Same,
    /// Numbers from this one on (`userns-remap`).
    From(u32),
    /// Root inside is the engine's user outside (rootless Docker).
    OwnAsRoot,
    /// The engine's user keeps its number (rootless podman).
    OwnKept,
}

/// Which program answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Docker,
    Podman,
}

/// An engine that will do.
#[derive(Debug, Clone)]
pub(super) struct Engine {
    pub(super) docker: Docker,
    pub(super) kind: Kind,
    /// For people: `Docker 20.10.24`.
    pub(super) name: String,
    pub(super) users: Users,
    /// Whether containers and files have labels (SELinux).
    pub(super) has_labels: bool,
    pub(super) processors: Option<u32>,
    pub(super) warnings: Vec<String>,
}

/// Finds the engine and looks at it.
pub(super) async fn connect(config: &SandboxConfig) -> Result<Engine, SandboxError> {
    let socket = socket(config)?;
    let looked = async {
        let address = socket.to_string_lossy();
        let docker = Docker::connect_with_unix(&address, ANSWER_SECONDS, API_DEFAULT_VERSION)?;
        let docker = docker.negotiate_version().await?;
        let (version, info) = (docker.version().await?, docker.info().await?);
        Ok::<_, Error>((docker, version, info))
    };
    let (docker, version, info) = match tokio::time::timeout(FIRST_ANSWER, looked).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => return Err(not_reached(&socket, &words(&error))),
        Err(_) => {
            return Err(not_reached(
                &socket,
                &format!("no answer in {} s", FIRST_ANSWER.as_secs()),
            ));
        }
    };
    let owner = std::fs::metadata(&socket).map_or(0, |found| found.uid());
    judge(docker, &version, &info, config, owner)
}

/// The configured socket, or the first of the usual ones that is there.
fn socket(config: &SandboxConfig) -> Result<PathBuf, SandboxError> {
    if let Some(socket) = &config.docker_socket {
        return match socket.exists() {
            true => Ok(socket.clone()),
            false => Err(not_reached(socket, "there is no such socket")),
        };
    }
    let user = rustix::process::geteuid().as_raw();
    let usual = [
        PathBuf::from("/var/run/docker.sock"),
        format!("/run/user/{user}/docker.sock").into(),
        format!("/run/user/{user}/podman/podman.sock").into(),
        "/run/podman/podman.sock".into(),
    ];
    let found = usual.iter().find(|socket| socket.exists());
    found.cloned().ok_or_else(|| {
        let looked: Vec<_> = usual.iter().map(|socket| socket.display().to_string()).collect();
        SandboxError::Unavailable {
            problem: format!("there is no Docker or podman socket ({})", looked.join(", ")),
            remedy: "Start the engine (`systemctl start docker`, or `systemctl --user start podman.socket`), or let \
                     sandbox.docker_socket name its socket"
                .to_owned(),
        }
    })
}

fn not_reached(socket: &Path, problem: &str) -> SandboxError {
    let remedy = if problem.contains("ermission denied") {
        "Put the service's user into the group that owns the socket (`usermod -aG docker USER`; that group is as \
         mighty as root), or run a rootless engine as that user"
    } else {
        "Start the engine (`systemctl start docker`), or let sandbox.docker_socket name another socket"
    };
    SandboxError::Unavailable {
        problem: format!("the container engine at {} cannot be used: {problem}", socket.display()),
        remedy: remedy.to_owned(),
    }
}

/// Each run opens sandboxes; the log says it once.
static SAID: Once = Once::new();

fn judge(
    docker: Docker,
    version: &SystemVersion,
    info: &SystemInfo,
    config: &SandboxConfig,
    socket_owner: u32,
) -> Result<Engine, SandboxError> {
    let components = version.components.iter().flatten();
    let has_podman = |part: &SystemVersionComponents| part.name.to_lowercase().contains("podman");
    let (kind, called) = match components.clone().any(has_podman) {
        true => (Kind::Podman, "podman"),
        false => (Kind::Docker, "Docker"),
    };
    let name = format!(
        "{called} {}",
        version.version.as_deref().unwrap_or("of unknown version")
    );
    is_new_enough(&name, version)?;
    let options = info.security_options.clone().unwrap_or_default();
    let has = |word: &str| {
        options
            .iter()
            .any(|option| option.split([',', '=']).any(|part| part == word))
    };
    if !has("seccomp") || has("unconfined") {
        return Err(unavailable(
            format!("{name} has no seccomp profile in force"),
            "Remove `seccomp-profile: unconfined` from the engine's configuration, or use a kernel with seccomp",
        ));
    }
    has_runtime(&name, info, config)?;
    // Podman 4 does not say it; its socket belongs to whoever runs it.
    let is_rootless = has("rootless") || kind == Kind::Podman && socket_owner != 0;
    let users = users(info, kind, is_rootless, has("userns"));
    if matches!(users, Users::OwnAsRoot | Users::OwnKept) && rustix::process::geteuid().as_raw() != socket_owner {
        return Err(unavailable(
            format!("{name} is rootless and belongs to user {socket_owner}, who cannot reach our folders"),
            "Run the service as that user, or name the socket of another engine",
        ));
    }
    let mut warnings = missing_limits(info);
    if let Some(version) = old_runc(components, kind, info, config) {
        let problem = format!("runc {version} may lack the fixes of 1.2.8 and 1.3.3 for escapes from containers");
        match config.docker_old_runc {
            OldRunc::Refuse => {
                return Err(unavailable(
                    format!("{name}: {problem}"),
                    "Update runc, or let sandbox.docker_runtime name another runtime; if your distribution brought the \
                     fixes in under this number, set sandbox.docker_old_runc = \"warn\"",
                ));
            }
            OldRunc::Warn => {
                let warning = format!("{problem}; update it, or make sure that your distribution brought them in");
                SAID.call_once(|| tracing::warn!("{name}: {warning}"));
                warnings.push(warning);
            }
        }
    }
    if is_rootless && info.cgroup_version == Some(SystemInfoCgroupVersionEnum::_1) {
        warnings.push("on cgroup v1 a rootless engine limits neither memory nor processes; a watch does".to_owned());
    }
    Ok(Engine {
        docker,
        kind,
        name,
        users,
        has_labels: label::is_in_force(info),
        processors: info.ncpu.and_then(|count| u32::try_from(count).ok()),
        warnings,
    })
}

fn unavailable(problem: String, remedy: &str) -> SandboxError {
    let remedy = remedy.to_owned();
    SandboxError::Unavailable { problem, remedy }
}

fn is_new_enough(name: &str, version: &SystemVersion) -> Result<(), SandboxError> {
    let api = version.api_version.as_deref().unwrap_or_default();
    if pair(api) < Some(LEAST_API) {
        return Err(unavailable(
            format!("{name} speaks version {api:?} of the Docker API; 1.41 is needed"),
            "Install Docker 20.10 or podman 4, or anything newer",
        ));
    }
    if version.os.as_deref().is_some_and(|os| os != "linux") {
        return Err(unavailable(
            format!("{name} does not run on Linux"),
            "Switch the engine to Linux containers",
        ));
    }
    Ok(())
}

fn has_runtime(name: &str, info: &SystemInfo, config: &SandboxConfig) -> Result<(), SandboxError> {
    let Some(runtime) = &config.docker_runtime else {
        return Ok(());
    };
    let mut known: Vec<_> = info.runtimes.iter().flatten().map(|(name, _)| name.as_str()).collect();
    known.sort_unstable();
    if known.contains(&runtime.as_str()) {
        return Ok(());
    }
    Err(unavailable(
        format!("{name} has no runtime {runtime:?} (it has {})", known.join(", ")),
        "Register it in the engine's configuration, or change sandbox.docker_runtime",
    ))
}

/// The version of a runc without the fixes for known escapes, if containers are run by one. Docker runs
/// them by runc unless it says otherwise; podman names what it runs them by.
fn old_runc<'v>(
    mut components: impl Iterator<Item = &'v SystemVersionComponents>,
    kind: Kind,
    info: &SystemInfo,
    config: &SandboxConfig,
) -> Option<String> {
    let runtime = config.docker_runtime.as_deref().or(info.default_runtime.as_deref());
    // Others, such as Nvidia's, start runc in the end.
    if runtime.is_some_and(|runtime| NOT_RUNC.iter().any(|other| runtime.contains(other))) {
        return None;
    }
    match (components.find(|part| part.name.contains("runc")), kind) {
        (Some(runc), _) if is_mended(&runc.version) => None,
        (Some(runc), _) => {
            let line = runc.version.lines().next().unwrap_or_default();
            Some(line.trim_start_matches("runc version ").to_owned())
        }
        (None, Kind::Docker) => Some("of unknown version".to_owned()),
        (None, Kind::Podman) => None,
    }
}

/// What is weaker than it should be, but no reason to refuse.
fn missing_limits(info: &SystemInfo) -> Vec<String> {
    let mut warnings = Vec::new();
    for (limits, what) in [(info.memory_limit, "memory"), (info.pids_limit, "processes")] {
        if limits == Some(false) {
            warnings.push(format!(
                "the engine cannot limit {what} here; a watch in the container does"
            ));
        }
    }
    warnings
}

fn users(info: &SystemInfo, kind: Kind, is_rootless: bool, is_remapped: bool) -> Users {
    match (is_rootless, kind) {
        (true, Kind::Podman) => return Users::OwnKept,
        (true, Kind::Docker) => return Users::OwnAsRoot,
        _ => {}
    }
    // The engine keeps the data of remapped users in a folder named after their first number.
    let folder = info.docker_root_dir.as_deref().and_then(|path| path.rsplit('/').next());
    match folder.and_then(|name| name.split('.').next()?.parse().ok()) {
        Some(first) if is_remapped => Users::From(first),
        _ => Users::Same,
    }
}

/// The engine's own words, which may stand several errors deep.
pub(super) fn words(error: &Error) -> String {
    if let Error::DockerResponseServerError { message, .. } = error {
        return crate::text::cap_chars(message.trim(), 500);
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(deeper) = cause {
        let said = deeper.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = deeper.source();
    }
    crate::text::cap_chars(&text, 500)
}

fn pair(version: &str) -> Option<(u32, u32)> {
    let (major, minor) = version.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn is_mended(runc: &str) -> bool {
    let mut numbers = runc
        .split(|mark: char| !mark.is_ascii_digit())
        .filter(|number| !number.is_empty())
        .map(|number| number.parse::<u32>().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    let found = (next(), next(), next());
    let [older, newer] = MENDED_RUNC;
    if (found.0, found.1) == (older.0, older.1) {
        found >= older
    } else {
        found >= newer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_runtimes_are_known() {
        for (version, mended) in [
            ("1.1.5+ds1", false),
            ("runc version 1.2.8\ncommit: 1", true),
            ("1.2.7", false),
            ("1.2.8", true),
            ("1.3.0-rc.1", false),
            ("1.3.3", true),
            ("1.4.0", true),
            ("2.0.0", true),
            ("", false),
        ] {
            assert_eq!(is_mended(version), mended, "{version}");
        }
    }

    #[test]
    fn s12_what_runs_containers_is_known() {
        let part = |name: &str, version: &str| SystemVersionComponents {
            name: name.to_owned(),
            version: version.to_owned(),
            ..SystemVersionComponents::default()
        };
        let old = [part("Engine", "27"), part("runc", "1.1.5+ds1")];
        let mended = [part("runc", "1.3.4")];
        let podman = [part("OCI Runtime (runc)", "runc version 1.2.7\ncommit: 1")];
        let crun = [part("OCI Runtime (crun)", "crun version 1.8.1")];
        let check = |parts: &[SystemVersionComponents], kind, set: Option<&str>, own: Option<&str>, expected| {
            let config = SandboxConfig {
                docker_runtime: set.map(str::to_owned),
                ..SandboxConfig::default()
            };
            let info = SystemInfo {
                default_runtime: own.map(str::to_owned),
                ..SystemInfo::default()
            };
            let found = old_runc(parts.iter(), kind, &info, &config);
            assert_eq!(found.as_deref(), expected, "{parts:?} {set:?} {own:?}");
        };
        check(&old, Kind::Docker, None, None, Some("1.1.5+ds1"));
        check(&old, Kind::Docker, None, Some("runc"), Some("1.1.5+ds1"));
        check(&old, Kind::Docker, Some("nvidia"), Some("crun"), Some("1.1.5+ds1"));
        check(&old, Kind::Docker, Some("runsc"), Some("runc"), None);
        check(&old, Kind::Docker, None, Some("crun"), None);
        check(&mended, Kind::Docker, None, None, None);
        check(&[], Kind::Docker, None, None, Some("of unknown version"));
        check(&podman, Kind::Podman, None, None, Some("1.2.7"));
        check(&crun, Kind::Podman, None, None, None);
    }

    #[test]
    fn an_old_engine_and_a_weak_one_are_refused_with_a_remedy() {
        let docker = || {
            let socket = tempfile::NamedTempFile::new().expect("a file");
            Docker::connect_with_unix(&socket.path().to_string_lossy(), 1, API_DEFAULT_VERSION).expect("a client")
        };
        let version = |api: &str| SystemVersion {
            version: Some("1".to_owned()),
            api_version: Some(api.to_owned()),
            ..SystemVersion::default()
        };
        let info = |options: &[&str]| SystemInfo {
            security_options: Some(options.iter().map(|option| (*option).to_owned()).collect()),
            docker_root_dir: Some("/var/lib/docker/100000.100000".to_owned()),
            ..SystemInfo::default()
        };
        let mut config = SandboxConfig::default();
        let own = rustix::process::geteuid().as_raw();
        let judged = |api: &str, options: &[&str], config: &SandboxConfig, owner| {
            judge(docker(), &version(api), &info(options), config, owner)
                .map(|engine| engine.users)
                .map_err(|e| e.to_string())
        };
        let seccomp = "name=seccomp,profile=default";
        assert_eq!(judged("1.41", &[seccomp], &config, own), Ok(Users::Same));
        assert_eq!(
            judged("1.53", &[seccomp, "name=userns"], &config, own),
            Ok(Users::From(100_000))
        );
        assert_eq!(
            judged("1.41", &[seccomp, "name=rootless"], &config, own),
            Ok(Users::OwnAsRoot)
        );
        let podman = SystemVersion {
            components: Some(vec![SystemVersionComponents {
                name: "Podman Engine".to_owned(),
                ..SystemVersionComponents::default()
            }]),
            ..version("1.41")
        };
        for (owner, expected) in [
            (0, Users::Same),
            (own, if own == 0 { Users::Same } else { Users::OwnKept }),
        ] {
            let mut found = info(&[seccomp]);
            found.docker_root_dir = None;
            assert_eq!(
                judge(docker(), &podman, &found, &config, owner)
                    .map(|engine| engine.users)
                    .ok(),
                Some(expected)
            );
        }
        for (api, options, owner, problem) in [
            ("1.40", &[seccomp][..], own, "1.41 is needed"),
            ("", &[seccomp], own, "1.41 is needed"),
            ("1.41", &[], own, "no seccomp"),
            ("1.41", &["name=seccomp,profile=unconfined"], own, "no seccomp"),
            ("1.41", &[seccomp, "name=rootless"], own + 1, "rootless"),
        ] {
            let refused = judged(api, options, &config, owner).expect_err(problem);
            assert!(refused.contains(problem), "{refused}");
        }
        config.docker_runtime = Some("runsc".to_owned());
        assert!(judged("1.41", &[seccomp], &config, own).is_err_and(|refused| refused.contains("runsc")));
    }
}
