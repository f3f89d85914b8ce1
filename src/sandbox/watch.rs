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

/// The same while a command may make room that an earlier one left none of, and how long it may.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
const MAKE_ROOM: Duration = Duration::from_secs(10);

/// What a command that makes room may write meanwhile, such as a folder or a log.
const ALMOST_NOTHING: u64 = 1024 * 1024;

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

/// Walks the writable folders in a thread of its own and says once when they are too large. Where an
/// earlier command left them too large, this one may make room.
pub(super) fn disk(view: &View, disk_mib: u64) -> std::io::Result<Receiver<String>> {
    let (sender, receiver) = channel();
    let roots: Vec<PathBuf> = view.writable().cloned().collect();
    std::thread::Builder::new().name("disk".to_owned()).spawn(move || {
        let limit = Disk::of(disk_mib);
        let begun = Instant::now();
        let mut found: Option<Sum> = None;
        loop {
            let started = Instant::now();
            let sum = limit.sum(&roots);
            let over = sum.over.clone().or_else(|| limit.passed(&sum));
            let makes_room = found.as_ref().is_none_or(|found| {
                limit.passed(found).is_some()
                    && begun.elapsed() < MAKE_ROOM
                    && sum.bytes <= found.bytes.saturating_add(ALMOST_NOTHING)
                    && sum.files <= found.files
            });
            let mut pause = WALK_PAUSE;
            if let Some(over) = over {
                if sum.over.is_some() || !makes_room {
                    let _ = sender.send(over);
                    return;
                }
                pause = LOOK_AGAIN;
            }
            found.get_or_insert(sum);
            std::thread::sleep(pause.max(started.elapsed() * 10));
        }
    })?;
    Ok(receiver)
}

/// What the writable folders hold.
#[derive(Debug, Default)]
struct Sum {
    bytes: u64,
    files: u64,
    /// Why nobody counts on: it is far too much already.
    over: Option<String>,
}

/// How much they may hold.
struct Disk {
    mib: u64,
    bytes: u64,
    files: u64,
}

impl Disk {
    fn of(mib: u64) -> Self {
        Self {
            mib,
            bytes: mib.saturating_mul(1024 * 1024),
            files: mib.saturating_mul(FILES_PER_MIB).max(LEAST_FILES),
        }
    }

    fn passed(&self, sum: &Sum) -> Option<String> {
        if sum.bytes > self.bytes {
            Some(format!("disk over {} MiB", self.mib))
        } else if sum.files > self.files {
            Some(format!("more than {} files", self.files))
        } else {
            None
        }
    }

    /// Counts, up to twice as much as may be there.
    fn sum(&self, roots: &[PathBuf]) -> Sum {
        let mut sum = Sum::default();
        let mut folders = roots.to_vec();
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                // A folder whose path is longer than the kernel takes could hide any amount.
                Err(error) if error.raw_os_error() == Some(libc::ENAMETOOLONG) => {
                    sum.over = Some("folders nested too deeply".to_owned());
                    return sum;
                }
                Err(_) => continue,
            };
            for entry in entries.flatten() {
                let Ok(found) = entry.metadata() else { continue };
                sum.files += 1;
                let blocks = std::os::unix::fs::MetadataExt::blocks(&found);
                sum.bytes = sum.bytes.saturating_add(blocks.saturating_mul(512));
                if sum.bytes / 2 > self.bytes || sum.files / 2 > self.files {
                    sum.over = self.passed(&sum);
                    return sum;
                }
                if found.is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        sum
    }
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
