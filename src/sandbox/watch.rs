//! What a sandbox uses: memory and processes as its control group says or else from /proc, disk by
//! walking its folders. Called by `supervise`. Never counts a page twice before it kills for memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::cgroup::Events;
use super::root::View;
use super::spec::Limits;

/// Least time between two walks; a walk may take a tenth of the time at most.
const WALK_PAUSE: Duration = Duration::from_secs(2);

/// Files and folders of one run for each MiB of its disk: such as are smaller than 8 KiB on average
/// are meant to exhaust the inodes of the file system.
const FILES_PER_MIB: u64 = 128;

/// However little disk there is, a few small projects fit.
const LEAST_FILES: u64 = 20_000;

/// Which processes belong to the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// All that /proc shows, but ourselves.
    Namespace,
    /// Our descendants.
    Descendants,
}

struct Usage {
    parent: i32,
    threads: u64,
    kib: u64,
}

/// The limit that is passed, in words. What the kernel holds is not counted again.
pub(super) fn processes(scope: Scope, limits: &Limits, events: &Events) -> Option<String> {
    let passed = events.passed(limits);
    if passed.is_some() || events.hold_everything() {
        return passed;
    }
    let mut all = snapshot();
    if scope == Scope::Descendants {
        let own = descendants_in(&all);
        all.retain(|pid, _| own.contains(pid));
    }
    let threads: u64 = all.values().map(|usage| usage.threads).sum();
    if threads >= limits.max_processes {
        return Some(format!("more than {} processes and threads", limits.max_processes));
    }
    let most = limits.memory_mib.saturating_mul(1024);
    let resident: u64 = all.values().map(|usage| usage.kib).sum();
    // Memory that forks share is counted for each of them; before killing, count exactly.
    if resident > most
        && all
            .iter()
            .map(|(pid, usage)| proportional_kib(*pid).unwrap_or(usage.kib))
            .sum::<u64>()
            > most
    {
        return Some(format!("memory over {} MiB", limits.memory_mib));
    }
    None
}

/// Ids of every process below this one.
pub(super) fn descendants() -> Vec<i32> {
    descendants_in(&snapshot()).into_iter().collect()
}

fn descendants_in(all: &BTreeMap<i32, Usage>) -> BTreeSet<i32> {
    let own = rustix::process::getpid().as_raw_pid();
    let mut found = BTreeSet::new();
    loop {
        let more: Vec<i32> = all
            .iter()
            .filter(|(pid, usage)| !found.contains(*pid) && (usage.parent == own || found.contains(&usage.parent)))
            .map(|(pid, _)| *pid)
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

fn snapshot() -> BTreeMap<i32, Usage> {
    let own = rustix::process::getpid().as_raw_pid();
    let Ok(entries) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| *pid != own)
        .filter_map(|pid| {
            Some((
                pid,
                parse_status(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?),
            ))
        })
        .collect()
}

fn parse_status(status: &str) -> Usage {
    let mut usage = Usage {
        parent: 0,
        threads: 0,
        kib: 0,
    };
    for line in status.lines() {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let number = || {
            value
                .split_whitespace()
                .next()
                .and_then(|number| number.parse::<u64>().ok())
                .unwrap_or(0)
        };
        match name {
            "PPid" => usage.parent = i32::try_from(number()).unwrap_or(0),
            "Threads" => usage.threads = number(),
            "RssAnon" | "RssShmem" => usage.kib += number(),
            _ => {}
        }
    }
    usage
}

/// Private and shared memory with shared pages divided among those who share them.
fn proportional_kib(pid: i32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let kib = |name: &str| {
        let value = rollup.lines().find_map(|line| line.strip_prefix(name))?;
        value.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some(kib("Pss_Anon:")? + kib("Pss_Shmem:")?)
}

/// Walks the writable folders in a thread of its own and says once when they are too large.
pub(super) fn disk(view: &View, disk_mib: u64) -> std::io::Result<Receiver<String>> {
    let (sender, receiver) = channel();
    let roots: Vec<PathBuf> = view.writable().cloned().collect();
    std::thread::Builder::new().name("disk".to_owned()).spawn(move || {
        loop {
            let started = Instant::now();
            if let Some(limit) = measure(&roots, disk_mib) {
                let _ = sender.send(limit);
                return;
            }
            std::thread::sleep(WALK_PAUSE.max(started.elapsed() * 10));
        }
    })?;
    Ok(receiver)
}

fn measure(roots: &[PathBuf], disk_mib: u64) -> Option<String> {
    let most = disk_mib.saturating_mul(1024 * 1024);
    let most_files = disk_mib.saturating_mul(FILES_PER_MIB).max(LEAST_FILES);
    let (mut bytes, mut files) = (0_u64, 0_u64);
    let mut folders = roots.to_vec();
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            // A folder whose path is longer than the kernel takes could hide any amount.
            Err(error) if error.raw_os_error() == Some(libc::ENAMETOOLONG) => {
                return Some("folders nested too deeply".to_owned());
            }
            Err(_) => continue,
        };
        for entry in entries.flatten() {
            let Ok(found) = entry.metadata() else { continue };
            files += 1;
            bytes = bytes.saturating_add(std::os::unix::fs::MetadataExt::blocks(&found).saturating_mul(512));
            if bytes > most {
                return Some(format!("disk over {disk_mib} MiB"));
            }
            if files > most_files {
                return Some(format!("more than {most_files} files"));
            }
            if found.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_gives_parent_threads_and_memory() {
        let usage = parse_status(
            "Name:\tsh\nPPid:\t7\nRssAnon:\t     100 kB\nRssFile:\t900 kB\nRssShmem:\t5 kB\nThreads:\t3\n",
        );
        assert_eq!((usage.parent, usage.threads, usage.kib), (7, 3, 105));
    }
}
