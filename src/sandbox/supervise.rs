//! The first process of a sandbox while a command runs: starts it, takes in orphans, watches its
//! limits, and ends when the command's own process ends, whatever the command left in the
//! background. Called by the helper. Never waits for output to close.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use base64::Engine as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions, WaitStatus};

use super::WayOut;
use super::cgroup::Events;
use super::files;
use super::root::View;
use super::spec::{CommandTask, Failure, Isolation, Limits, Report, Spec, Step, TERMINATE};
use super::watch::{self, Scope};

/// Exit codes that shells use for a program that cannot be started or found.
const NOT_STARTED: i32 = 126;
const NOT_FOUND: i32 = 127;

/// How often limits are looked at: short, because memory fills at gigabytes a second.
const TICK: Duration = Duration::from_millis(100);

/// How long leftovers are hunted where no namespace kills them.
const HUNT: Duration = Duration::from_secs(2);

pub(super) fn run(socket: &mut UnixStream, task: &CommandTask, view: &View, spec: &Spec, events: &Events) -> Report {
    match supervised(socket, task, view, spec, events) {
        Ok(report) => report,
        Err(failure) => failure.into_report(),
    }
}

fn supervised(
    socket: &mut UnixStream,
    task: &CommandTask,
    view: &View,
    spec: &Spec,
    events: &Events,
) -> Result<Report, Failure> {
    // The command has the same user id; this keeps our memory and descriptors out of its reach.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).step(|| "close /proc/1".to_owned())?;
    let scope = match spec.isolation {
        Isolation::Namespaces => Scope::Namespace,
        Isolation::None | Isolation::Container => {
            let own = Some(rustix::process::getpid());
            rustix::process::set_child_subreaper(own).step(|| "take in orphans".to_owned())?;
            Scope::Descendants
        }
    };
    let disk = watch::disk(view, spec.limits.disk_mib).step(|| "watch the disk".to_owned())?;
    let main = match start(task, view, spec.way_out.as_ref()) {
        Ok(main) => main,
        Err((code, problem)) => {
            let _ = writeln!(std::io::stderr(), "{problem}");
            return Ok(Report::Exited(code));
        }
    };
    let watched = Watched {
        scope,
        limits: &spec.limits,
        events,
        disk: &disk,
    };
    let report = attend(socket, main, &watched);
    if scope == Scope::Descendants {
        kill_descendants();
    }
    report
}

fn start(task: &CommandTask, view: &View, way_out: Option<&WayOut>) -> Result<Pid, (i32, String)> {
    let not_started = |problem: String| (NOT_STARTED, problem);
    let folder = files::resolve_folder(&view.workspace, &task.folder).map_err(not_started)?;
    let stdin = stdin(&task.stdin).map_err(|error| not_started(format!("cannot pass the input: {error}")))?;
    let [program, arguments @ ..] = task.argv.as_slice() else {
        return Err(not_started("no program was named".to_owned()));
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(environment(view))
        .envs(network(way_out))
        .envs(task.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(folder)
        .stdin(stdin);
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    match command.spawn() {
        Ok(child) => Ok(Pid::from_child(&child)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err((NOT_FOUND, format!("{program}: not found"))),
        Err(error) => Err(not_started(format!("{program}: {error}"))),
    }
}

/// Input lies in memory, so that nobody has to feed a pipe.
fn stdin(base64: &str) -> std::io::Result<Stdio> {
    if base64.is_empty() {
        return Ok(Stdio::null());
    }
    let bytes = base64::prelude::BASE64_STANDARD
        .decode(base64)
        .map_err(std::io::Error::other)?;
    let mut file = std::fs::File::from(rustix::fs::memfd_create("stdin", MemfdFlags::CLOEXEC)?);
    file.write_all(&bytes)?;
    std::io::Seek::rewind(&mut file)?;
    Ok(Stdio::from(file))
}

/// The whole environment of a command. Nothing of the service's is in it.
fn environment(view: &View) -> Vec<(&'static str, String)> {
    let mut path: Vec<String> = view
        .toolchains
        .iter()
        .map(|toolchain| toolchain.join("bin").display().to_string())
        .collect();
    path.extend(
        [
            "/usr/local/sbin",
            "/usr/local/bin",
            "/usr/sbin",
            "/usr/bin",
            "/sbin",
            "/bin",
        ]
        .map(str::to_owned),
    );
    let mut environment = vec![
        ("PATH", path.join(":")),
        ("HOME", view.home.display().to_string()),
        ("TMPDIR", view.tmp.display().to_string()),
    ];
    environment.extend(
        [
            ("USER", "agent"),
            ("LOGNAME", "agent"),
            ("SHELL", "/bin/sh"),
            ("LANG", "C.UTF-8"),
            ("TERM", "dumb"),
            ("CI", "true"),
            ("PAGER", "cat"),
            ("GIT_PAGER", "cat"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_AUTHOR_NAME", "agent"),
            ("GIT_AUTHOR_EMAIL", "agent@sandbox.invalid"),
            ("GIT_COMMITTER_NAME", "agent"),
            ("GIT_COMMITTER_EMAIL", "agent@sandbox.invalid"),
            // Looking for leaks takes ptrace, which is refused here, and ends the program with an error.
            ("ASAN_OPTIONS", "detect_leaks=0"),
            ("LSAN_OPTIONS", "detect_leaks=0"),
        ]
        .map(|(name, value)| (name, value.to_owned())),
    );
    environment
}

/// What tells programs of the way out, or that there is none.
fn network(way_out: Option<&WayOut>) -> Vec<(String, String)> {
    match way_out {
        Some(way_out) => way_out.environment.clone(),
        None => vec![("CARGO_NET_OFFLINE".to_owned(), "true".to_owned())],
    }
}

/// Everything that says when a limit is passed.
struct Watched<'w> {
    scope: Scope,
    limits: &'w Limits,
    events: &'w Events,
    disk: &'w Receiver<String>,
}

impl Watched<'_> {
    fn passed(&self) -> Option<String> {
        watch::processes(self.scope, self.limits, self.events).or_else(|| self.disk.try_recv().ok())
    }
}

/// Until the main process ends, a limit is passed, or the service lets go.
fn attend(socket: &mut UnixStream, main: Pid, watched: &Watched<'_>) -> Result<Report, Failure> {
    let failed = || "watch the command".to_owned();
    let handle = rustix::process::pidfd_open(main, PidfdFlags::empty()).step(failed)?;
    let mut looked = Instant::now();
    loop {
        let mut fds = [
            PollFd::new(&*socket, PollFlags::IN),
            PollFd::new(&handle, PollFlags::IN),
        ];
        let tick = Timespec {
            tv_sec: 0,
            tv_nsec: TICK.subsec_nanos().into(),
        };
        match poll(&mut fds, Some(&tick)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).step(failed),
        }
        let message = !fds[0].revents().is_empty();
        if message && !obey(socket, main) {
            return Ok(Report::Signaled(Signal::KILL.as_raw()));
        }
        if let Some(status) = reap(main) {
            // The kernel ends a process for want of memory long before the next look.
            let limit = watched.events.passed(watched.limits);
            return Ok(limit.map_or_else(|| ended(status), Report::Limit));
        }
        if looked.elapsed() >= TICK {
            looked = Instant::now();
            if let Some(limit) = watched.passed() {
                return Ok(Report::Limit(limit));
            }
        }
    }
}

/// Reads one byte from the service; false when it is gone.
fn obey(socket: &mut UnixStream, main: Pid) -> bool {
    let mut byte = [0];
    match socket.read(&mut byte) {
        Ok(1) => {
            if byte[0] == TERMINATE {
                let _ = rustix::process::kill_process_group(main, Signal::TERM);
            }
            true
        }
        Err(error) => error.kind() == std::io::ErrorKind::Interrupted,
        Ok(_) => false,
    }
}

/// Collects every process that ended, orphans too, and tells whether the main one did.
fn reap(main: Pid) -> Option<WaitStatus> {
    let mut ended = None;
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if pid == main {
            ended = Some(status);
        }
    }
    ended
}

fn ended(status: WaitStatus) -> Report {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Report::Exited(code),
        (None, Some(signal)) => Report::Signaled(signal),
        (None, None) => Report::Broken(format!("the command ended in an unknown way ({status:?})")),
    }
}

/// Without a namespace nobody kills what the command left; orphans come to us, so that none can
/// hide, and whoever forks meanwhile is found in the next round.
fn kill_descendants() {
    let started = Instant::now();
    while started.elapsed() < HUNT {
        let left = watch::descendants();
        if left.is_empty() {
            return;
        }
        for pid in left.into_iter().filter_map(Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
    }
}
