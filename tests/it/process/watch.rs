//! What runs below a process, and what it left when it died. The test's process takes in orphans,
//! so that whatever outlives a killed service becomes its child and is seen.
//! Never counts a process that is dead and only waits to be collected.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Pid;

/// One process.
struct Process {
    parent: i32,
    state: char,
    name: String,
}

fn all() -> HashMap<i32, Process> {
    let mut found = HashMap::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // A process may end while it is looked at.
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        let (head, tail) = stat.rsplit_once(')').unwrap();
        let mut fields = tail.split_whitespace();
        let process = Process {
            state: fields.next().unwrap().chars().next().unwrap(),
            parent: fields.next().unwrap().parse().unwrap(),
            name: head.split_once('(').unwrap().1.to_owned(),
        };
        found.insert(pid, process);
    }
    found
}

/// Living processes below one, by name.
pub fn running_below(root: Pid) -> Vec<String> {
    below(root).into_iter().map(|(_, name)| name).collect()
}

/// Living processes below one, with their names.
pub fn below(root: Pid) -> Vec<(Pid, String)> {
    let all = all();
    let mut below = HashSet::from([root.as_raw_pid()]);
    loop {
        let before = below.len();
        below.extend(
            all.iter()
                .filter(|(_, process)| below.contains(&process.parent))
                .map(|(pid, _)| *pid)
                .collect::<Vec<_>>(),
        );
        if below.len() == before {
            break;
        }
    }
    below.remove(&root.as_raw_pid());
    below
        .iter()
        .filter(|pid| all[pid].state != 'Z')
        .filter_map(|pid| Some((Pid::from_raw(*pid)?, all[pid].name.clone())))
        .collect()
}

/// Watches for what killed services leave running.
pub struct Orphans {
    folder: std::path::PathBuf,
    /// The longest time that something lived on.
    pub longest: Duration,
}

impl Orphans {
    /// `folder` is above the state folders: what works in it is ours.
    pub fn watch(folder: &Path) -> Self {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
        Self {
            folder: folder.to_owned(),
            longest: Duration::ZERO,
        }
    }

    /// Waits until nothing is left of the processes that were killed, `living` aside.
    pub async fn are_gone(&mut self, living: &[Pid], at_most: Duration) {
        let started = Instant::now();
        loop {
            let left = self.left(living);
            if left.is_empty() {
                break;
            }
            assert!(started.elapsed() < at_most, "these outlived their service: {left:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.longest = self.longest.max(started.elapsed());
    }

    fn left(&self, living: &[Pid]) -> Vec<String> {
        let own = rustix::process::getpid().as_raw_pid();
        all()
            .into_iter()
            .filter(|(pid, process)| {
                process.parent == own && process.state != 'Z' && !living.iter().any(|known| known.as_raw_pid() == *pid)
            })
            .filter(|(pid, process)| process.name == "forgehand" || self.works_here(*pid))
            .map(|(pid, process)| format!("{pid} {}", process.name))
            .collect()
    }

    fn works_here(&self, pid: i32) -> bool {
        let folder = self.folder.as_os_str().as_encoded_bytes();
        ["cmdline", "environ"].iter().any(|part| {
            let bytes = std::fs::read(format!("/proc/{pid}/{part}")).unwrap_or_default();
            bytes.windows(folder.len()).any(|window| window == folder)
        })
    }
}
