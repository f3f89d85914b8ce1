//! Limits of a whole process tree by the kernel's control groups: one group for each helper, made
//! by the service before the helper starts, joined by the helper before anything of the sandbox
//! runs, removed at the end. Called by `local` (outside) and by the helper (inside).
//! Never a limit that is only half there: what no group holds is said, and watched instead.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use super::spec::{Failure, Limits, Step};

mod find;
mod leftover;

/// Our own first process, its threads that watch the disk and serve the way out, and one to spare.
const OWN_PROCESSES: u64 = 4;

/// What our own first process needs beside the command, in MiB.
const OWN_MIB: u64 = 16;

/// Length of the period within which processor time is shared out, in microseconds: the kernel's usual.
const PERIOD_US: u64 = 100_000;

/// How long the kernel may take to end what was killed.
const END: Duration = Duration::from_secs(5);

/// Which interface of the kernel holds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

/// What a group limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Resource {
    Memory,
    Processes,
    Processors,
}

impl Resource {
    pub(super) const ALL: [Self; 3] = [Self::Memory, Self::Processes, Self::Processors];

    /// The kernel's name of its controller.
    const fn controller(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Processes => "pids",
            Self::Processors => "cpu",
        }
    }
}

/// A folder in which groups may be made, and what they limit.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Base {
    version: Version,
    folder: PathBuf,
    limits: Vec<Resource>,
}

/// Everywhere groups of sandboxes are made on this machine; nowhere, where the service may not.
#[derive(Debug, Clone, Default)]
pub(super) struct Bases {
    bases: Vec<Base>,
    /// Why there is no more.
    why: Option<String>,
}

impl Bases {
    /// Looks for them, and removes what services that were killed left there.
    pub(super) fn find() -> Self {
        let found = find::bases();
        for base in &found.bases {
            leftover::remove(&base.folder);
        }
        found
    }

    /// The version that holds a limit, if any does.
    pub(super) fn holds(&self, resource: Resource) -> Option<Version> {
        let base = self.bases.iter().find(|base| base.limits.contains(&resource));
        base.map(|base| base.version)
    }

    /// Whether a group can be killed as one.
    pub(super) fn kills(&self) -> bool {
        self.bases.iter().any(|base| base.version == Version::Two)
    }

    /// Why groups do not hold every limit.
    pub(super) fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// In a few words, as a layer.
    pub(super) fn layer(&self) -> String {
        let held = |version| {
            let names = Resource::ALL
                .iter()
                .filter(|resource| self.holds(**resource) == Some(version));
            names.map(|resource| resource.controller()).collect::<Vec<_>>()
        };
        let words: Vec<String> = [("v2", held(Version::Two)), ("v1", held(Version::One))]
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(version, names)| format!("cgroup {version} ({})", names.join(", ")))
            .collect();
        if words.is_empty() {
            "memory and processes watched".to_owned()
        } else {
            words.join(", ")
        }
    }

    /// Makes a group in each.
    ///
    /// # Errors
    /// When the kernel refuses; nothing is left behind then.
    pub(super) fn make(&self, limits: &Limits, cpus: f64) -> io::Result<Group> {
        let name = leftover::name(&leftover::Owner::this_process()?, next_number());
        let mut group = Group::default();
        for base in &self.bases {
            let folder = base.folder.join(&name);
            fs::create_dir(&folder)?;
            group.folders.push(folder.clone());
            group.membership.procs.push(folder.join("cgroup.procs"));
            for resource in &base.limits {
                limit(&folder, base.version, *resource, limits, cpus)?;
                let events = folder.join(events_file(base.version, *resource));
                match resource {
                    Resource::Memory => group.membership.memory_events = Some(events),
                    Resource::Processes => group.membership.process_events = Some(events),
                    Resource::Processors => {}
                }
            }
        }
        Ok(group)
    }
}

fn next_number() -> u64 {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

fn limit(folder: &Path, version: Version, resource: Resource, limits: &Limits, cpus: f64) -> io::Result<()> {
    let write = |file: &str, value: String| set(folder, file, &value);
    let memory = limits.memory_mib.saturating_add(OWN_MIB).saturating_mul(1024 * 1024);
    let processes = limits.max_processes.saturating_add(OWN_PROCESSES);
    let quota = (cpus * PERIOD_US as f64).max(1_000.0) as u64;
    match (resource, version) {
        (Resource::Memory, Version::Two) => {
            write("memory.max", memory.to_string())?;
            without_swap(write("memory.swap.max", "0".to_owned()))
        }
        (Resource::Memory, Version::One) => {
            write("memory.limit_in_bytes", memory.to_string())?;
            // Memory and swap together: no more than the memory alone.
            without_swap(write("memory.memsw.limit_in_bytes", memory.to_string()))
        }
        (Resource::Processes, _) => write("pids.max", processes.to_string()),
        (Resource::Processors, Version::Two) => write("cpu.max", format!("{quota} {PERIOD_US}")),
        (Resource::Processors, Version::One) => {
            write("cpu.cfs_period_us", PERIOD_US.to_string())?;
            write("cpu.cfs_quota_us", quota.to_string())
        }
    }
}

fn set(folder: &Path, file: &str, value: &str) -> io::Result<()> {
    let path = folder.join(file);
    fs::write(&path, value).map_err(|error| io::Error::new(error.kind(), format!("write {}: {error}", path.display())))
}

/// A kernel that does not count swap has no such file.
fn without_swap(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

const fn events_file(version: Version, resource: Resource) -> &'static str {
    match (resource, version) {
        (Resource::Memory, Version::One) => "memory.oom_control",
        (Resource::Memory, Version::Two) => "memory.events",
        (Resource::Processes | Resource::Processors, _) => "pids.events",
    }
}

/// The groups of one helper, from the service's side. Whoever drops it ends what is in them.
#[derive(Debug, Default)]
pub(super) struct Group {
    folders: Vec<PathBuf>,
    membership: Membership,
}

impl Group {
    /// What the helper is told.
    pub(super) fn membership(&self) -> Membership {
        self.membership.clone()
    }

    /// The limit that was passed, for when the helper could not say so itself.
    pub(super) fn passed(&self, limits: &Limits) -> Option<String> {
        self.membership.open().ok()?.passed(limits)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let folders = std::mem::take(&mut self.folders);
        let left: Vec<PathBuf> = folders
            .into_iter()
            .filter(|folder| fs::remove_dir(folder).is_err())
            .collect();
        if !left.is_empty() {
            // Somebody forgot a command that runs: it is ended, without holding up whoever forgot it. A
            // thread that cannot start leaves the rest to the next service.
            let _ = std::thread::Builder::new()
                .name("cgroup".to_owned())
                .spawn(move || end(&left));
        }
    }
}

/// Kills everything in the groups and removes them.
fn end(folders: &[PathBuf]) {
    let started = Instant::now();
    let mut left: Vec<&PathBuf> = folders.iter().collect();
    while !left.is_empty() && started.elapsed() < END {
        left.retain(|folder| {
            kill(folder);
            matches!(fs::remove_dir(folder), Err(error) if error.kind() != io::ErrorKind::NotFound)
        });
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// In one stroke where the kernel can, else one by one; who forks meanwhile is met in the next round.
fn kill(folder: &Path) {
    if fs::write(folder.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    let members = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    for pid in members.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)) {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

/// What a helper needs to know to join its groups and to see a limit passed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Membership {
    procs: Vec<PathBuf>,
    memory_events: Option<PathBuf>,
    process_events: Option<PathBuf>,
}

impl Membership {
    /// Moves this process into its groups. While the machine's root is still there.
    pub(super) fn join(&self) -> Result<Events, Failure> {
        for procs in &self.procs {
            fs::write(procs, "0").step(|| format!("join the group {}", procs.display()))?;
        }
        self.open().step(|| "watch the limits of the group".to_owned())
    }

    fn open(&self) -> io::Result<Events> {
        let open = |path: &Option<PathBuf>| path.as_ref().map(File::open).transpose();
        Ok(Events {
            memory: open(&self.memory_events)?,
            processes: open(&self.process_events)?,
        })
    }
}

/// The kernel's counts of limits that were hit. Stays readable when the machine's root is gone.
#[derive(Debug, Default)]
pub(super) struct Events {
    memory: Option<File>,
    processes: Option<File>,
}

impl Events {
    /// The limit that was passed, in words.
    pub(super) fn passed(&self, limits: &Limits) -> Option<String> {
        if counted(self.memory.as_ref(), "oom_kill") > 0 {
            Some(format!("memory over {} MiB", limits.memory_mib))
        } else if counted(self.processes.as_ref(), "max") > 0 {
            Some(format!("more than {} processes and threads", limits.max_processes))
        } else {
            None
        }
    }

    /// Whether the kernel holds the limits that would be watched otherwise.
    pub(super) fn hold_everything(&self) -> bool {
        self.memory.is_some() && self.processes.is_some()
    }
}

fn counted(file: Option<&File>, name: &str) -> u64 {
    let mut text = [0; 512];
    let length = file.and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
    let text = String::from_utf8_lossy(&text[..length]);
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
