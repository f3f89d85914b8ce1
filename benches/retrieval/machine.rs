//! What the system says that work took: time of processors and memory, of this thread, of this process,
//! and of other programs with all their children. Linux alone. Never rounds.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long something took by the clock, and by what the processor gave to this thread.
pub struct Cpu {
    pub wall: Duration,
    pub cpu: Duration,
}

pub fn timed(what: impl FnOnce()) -> Cpu {
    let (started, used) = (Instant::now(), thread_time());
    what();
    Cpu {
        wall: started.elapsed(),
        cpu: thread_time().saturating_sub(used),
    }
}

fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

/// How often the memory of another program is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Runs a program to its end; tells the most memory in MB that it and its children had together.
pub fn watched(mut command: Command) -> (std::process::ExitStatus, f64) {
    use std::os::unix::process::CommandExt as _;
    let mut child = command.process_group(0).spawn().expect("a program");
    let group = child.id().to_string();
    let mut most: f64 = 0.0;
    loop {
        most = most.max(memory_of(&group));
        if let Some(status) = child.try_wait().expect("a child") {
            return (status, most);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// MB of resident memory that the processes of a group have.
fn memory_of(group: &str) -> f64 {
    let mut pages = 0.0;
    for process in std::fs::read_dir("/proc").expect("Linux").flatten() {
        let read = |file| std::fs::read_to_string(process.path().join(file)).unwrap_or_default();
        let about = read("stat");
        // The group is the third field behind the name.
        let found = about.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(2));
        if found == Some(group) {
            let resident = read("statm");
            pages += resident
                .split(' ')
                .nth(1)
                .and_then(|pages| pages.parse().ok())
                .unwrap_or(0.0);
        }
    }
    pages * rustix::param::page_size() as f64 / 1e6
}

pub fn size_of_all(folder: &Path) -> u64 {
    let files = ignore::WalkBuilder::new(folder).standard_filters(false).build();
    files
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .filter(|about| about.is_file())
        .map(|about| about.len())
        .sum()
}

/// CPU seconds of this process and of the git processes it waited for.
pub fn cpu_seconds() -> f64 {
    ticks(0)
}

/// The same; without this process when the first two fields are left out.
pub fn ticks(left_out: usize) -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    // utime, stime, cutime, cstime are the 14th to 17th field; the second may hold spaces.
    let after = text.rsplit_once(") ").expect("a name").1;
    let ticks = after
        .split(' ')
        .skip(11 + left_out)
        .take(4 - left_out)
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>();
    ticks / rustix::param::clock_ticks_per_second() as f64
}

/// The most memory this process had, in MB.
pub fn peak_memory() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .expect("a line");
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes / 1000.0
}
