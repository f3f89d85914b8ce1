//! The helper inside a container, which is the wall: `hold` is the container's first process, and
//! `contained` does one task beside it. Started by the engine for `docker`, with three pipes.
//! Never makes namespaces, and never trusts that the container is as hard as was asked: it looks.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{DumpableBehavior, WaitOptions};

use super::cgroup::Events;
use super::identity::Walls;
use super::root::{EGRESS, View};
use super::spec::{Failure, Isolation, LET_GO, Report, Spec, Step, Task, send};
use super::{PROXY_PORT, bridge, confine, examine, files, raw, supervise, watch};

/// Stage of the container's first process.
pub(super) const HOLD: &str = "hold";

/// Stage of a process that does one task.
pub(super) const CONTAINED: &str = "contained";

/// No run takes so long; ends what nobody lets go of and nobody finds.
pub(super) const LONGEST_HOLD: Duration = Duration::from_secs(26 * 3600);

/// How long the first process of a container may take to open the way out, and how often one looks.
const LONGEST_OPENING: Duration = Duration::from_secs(10);
/// Elsewhere the service opens it before the command; one that is not there was lost since.
const LONGEST_ABSENCE: Duration = Duration::from_secs(1);
const OPENING_PAUSE: Duration = Duration::from_millis(2);

/// How often orphans are collected. There are some only after a helper was killed.
const REAP_EVERY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Keeps the container until the service lets go of standard input; the kernel then ends all that
/// is in it. As first process it cannot be killed from inside, and it takes in orphans, so that no
/// other init is needed in the image or at the engine.
pub(super) fn hold() -> ExitCode {
    // Commands have the same user id; this keeps /proc/1 out of their reach.
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    // The inner end of the way out, for all commands of this container: it ends with it.
    if std::path::Path::new(EGRESS).exists()
        && let Err(failure) = bridge::start()
    {
        let _ = writeln!(std::io::stderr(), "{}", failure.into_problem());
        return ExitCode::FAILURE;
    }
    let started = Instant::now();
    let mut stdin = std::io::stdin();
    while started.elapsed() < LONGEST_HOLD {
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        let polled = poll(&mut fds, Some(&REAP_EVERY));
        let said = !fds[0].revents().is_empty();
        if polled.is_ok_and(|ready| ready > 0) && said && !matches!(stdin.read(&mut [0]), Ok(1..)) {
            return ExitCode::SUCCESS;
        }
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
    }
    ExitCode::FAILURE
}

/// Does one task: orders come on standard input, reports go out on standard output, and what the
/// command writes to either of its own goes to standard error, in the order in which it came.
pub(super) fn run() -> ExitCode {
    match contained() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "{}", failure.into_problem());
            ExitCode::FAILURE
        }
    }
}

/// What differs between a container that we made and a sandbox that a server made.
pub(super) struct Surroundings {
    /// What was there before any wall of our own; refuses what is weaker than it must be.
    pub(super) look: fn() -> Result<Walls, Failure>,
    /// Whether our own walls stand behind another one, or alone.
    pub(super) behind: Behind,
    /// What commands get beside what they are given.
    pub(super) environment: Vec<(String, String)>,
}

/// What stands before our own walls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behind {
    /// A container as hard as we asked for, so that a wall of ours that the kernel lacks is no loss.
    Container,
    /// Something of which we know little.
    Unknown,
}

fn contained() -> Result<(), Failure> {
    let prepare = || "prepare the helper".to_owned();
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).step(prepare)?;
    raw::close_all_on_exec().step(prepare)?;
    let _ = rustix::process::setsid();
    let reports = std::io::stdout().as_fd().try_clone_to_owned().step(prepare)?;
    rustix::stdio::dup2_stdout(std::io::stderr().as_fd()).step(prepare)?;
    let surroundings = Surroundings {
        look: look_around,
        behind: Behind::Container,
        environment: Vec::new(),
    };
    serve(std::io::stdin(), std::fs::File::from(reports), surroundings)
}

/// Does the task that comes with the orders, and tells of it.
pub(super) fn serve(
    orders: impl Read + Send + 'static,
    reports: impl Write + Send + 'static,
    surroundings: Surroundings,
) -> Result<(), Failure> {
    let prepare = || "prepare the helper".to_owned();
    let (mut near, far) = UnixStream::pair().step(prepare)?;
    let inward = far.try_clone().step(prepare)?;
    std::thread::spawn(move || relay_orders(orders, inward));
    let reports = std::thread::spawn(move || copy_all(far, reports));
    // The walls stand around this thread and what it starts. The first thread stays outside:
    // Landlock then forbids the command to send it signals, and only to that thread they go.
    let walled = std::thread::spawn(move || {
        if let Err(failure) = task(&mut near, surroundings) {
            send(&mut near, &failure.into_report());
        }
        let _ = near.shutdown(Shutdown::Both);
    });
    let worked = walled.join().is_ok() & reports.join().is_ok();
    if worked {
        Ok(())
    } else {
        Err(Failure::broken("the helper broke"))
    }
}

/// Passes on the spec and then single bytes, until the service lets go.
fn relay_orders(mut from: impl Read, mut to: UnixStream) {
    let relayed = || -> std::io::Result<()> {
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        to.write_all(&length)?;
        std::io::copy(&mut (&mut from).take(u32::from_le_bytes(length).into()), &mut to)?;
        let mut order = [0];
        while from.read(&mut order)? == 1 && order[0] != LET_GO {
            to.write_all(&order)?;
        }
        Ok(())
    };
    let mut relayed = relayed;
    let _ = relayed();
    let _ = to.shutdown(Shutdown::Write);
}

/// By reading and writing. The library's copy would splice, and a kernel that waits for the next bytes
/// in there keeps the pipe locked: the engine could not read the ones that came before, and podman,
/// which reads all pipes in turn, not the command's output either.
fn copy_all(mut from: UnixStream, mut to: impl Write) {
    let mut block = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut block) {
        if to.write_all(&block[..length]).is_err() {
            break;
        }
    }
    let _ = to.flush();
}

fn task(socket: &mut UnixStream, surroundings: Surroundings) -> Result<(), Failure> {
    let mut spec = Spec::receive(socket)?;
    let view = View::isolated(&spec.folders);
    let mut walls = (surroundings.look)()?;
    for folder in view.writable() {
        rustix::fs::access(folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).map_err(|error| {
            Failure::broken(format!(
                "the container's user {} cannot write {} ({error}): its numbers are not those of this machine",
                rustix::process::getuid().as_raw(),
                folder.display()
            ))
        })?;
    }
    walls.extend(confine::restrict(&view, &spec.limits, Isolation::Container)?);
    // The root of the container is read-only and shows nothing of the machine, so that Landlock is
    // a wall behind the wall; older engines forbid its calls.
    if spec.way_out.is_some() {
        wait_for_bridge(match surroundings.behind {
            Behind::Container => LONGEST_OPENING,
            Behind::Unknown => LONGEST_ABSENCE,
        })?;
        walls.layer("way out through the proxy alone");
    }
    let (layers, mut warnings) = walls.into_parts();
    if surroundings.behind == Behind::Container {
        warnings.clear();
    }
    send(socket, &Report::Ready { layers, warnings });
    if let Task::Command(command) = &mut spec.task {
        let given = std::mem::replace(&mut command.environment, surroundings.environment);
        command.environment.extend(given);
        // Only here it shows which shell the image has.
        if let Some(shell) = command.argv.first_mut().filter(|shell| *shell == "/bin/bash")
            && !std::path::Path::new(&*shell).exists()
        {
            *shell = "/bin/sh".to_owned();
        }
    }
    match &spec.task {
        Task::Probe | Task::Wait => {}
        Task::Examine => send(socket, &Report::Examined(examine::inside())),
        Task::Files(request) => {
            let reply = files::answer(&view.workspace, request);
            send(socket, &Report::Files(reply));
        }
        Task::Command(command) => {
            let killed_before = killed_for_memory();
            let mut report = supervise::run(socket, command, &view, &spec, &Events::default());
            let ended_well = matches!(report, Report::Exited(0) | Report::Limit(_));
            if !ended_well && killed_for_memory() > killed_before {
                report = Report::Limit(format!("memory over {} MiB", spec.limits.memory_mib));
            }
            // Without a report the service ends the whole container.
            if watch::descendants().is_empty() {
                send(socket, &report);
            }
        }
    }
    Ok(())
}

/// What this process may do as it was started by the engine, before any wall of our own. A
/// container that is weaker than asked is refused.
fn look_around() -> Result<Walls, Failure> {
    let status = std::fs::read_to_string("/proc/self/status").step(|| "read the state of the container".to_owned())?;
    let interfaces = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    if let Some(problem) = weakness(&status, &interfaces) {
        return Err(Failure::refused(problem));
    }
    let root = rustix::fs::statvfs("/").step(|| "look at the container's root".to_owned())?;
    if !root.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
        return Err(Failure::refused("the container's root is writable"));
    }
    let mut walls = Walls::default();
    for layer in [
        "container without network",
        "read-only root",
        "no capabilities",
        "no new privileges",
        "the engine's seccomp",
    ] {
        walls.layer(layer);
    }
    Ok(walls)
}

/// Whether a process with this status can use no capability.
pub(super) fn has_no_capabilities(status: &str) -> bool {
    ["CapEff:", "CapPrm:"].iter().all(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.is_some_and(|line| line.trim().bytes().all(|digit| digit == b'0') && !line.trim().is_empty())
    })
}

/// What a process status and a table of interfaces show that a hard container has not.
fn weakness(status: &str, interfaces: &str) -> Option<&'static str> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim).unwrap_or_default()
    };
    let is_zero = |name| !field(name).is_empty() && field(name).bytes().all(|digit| digit == b'0');
    let devices = interfaces.lines().skip(2).filter_map(|line| line.split_once(':'));
    if !has_no_capabilities(status) || !is_zero("CapBnd:") {
        Some("the container's processes have capabilities")
    } else if field("NoNewPrivs:") != "1" {
        Some("the container's processes may gain privileges")
    } else if field("Seccomp:") != "2" {
        Some("the container has no seccomp filter")
    } else if devices.into_iter().any(|(name, _)| name.trim() != "lo") {
        Some("the container has a network")
    } else {
        None
    }
}

/// The first process has only just started when the first command comes.
fn wait_for_bridge(longest: Duration) -> Result<(), Failure> {
    let started = Instant::now();
    loop {
        let table = std::fs::read_to_string("/proc/net/tcp").step(|| "look for the way out".to_owned())?;
        if listens(&table) {
            return Ok(());
        }
        if started.elapsed() > longest {
            return Err(Failure::broken("the sandbox's way to the proxy did not open"));
        }
        std::thread::sleep(OPENING_PAUSE);
    }
}

/// Whether the kernel's table of TCP sockets has the listener of the bridge; asking it by a
/// connection would count at the proxy.
fn listens(table: &str) -> bool {
    const LISTEN: &str = "0A";
    let local = format!("0100007F:{PROXY_PORT:04X}");
    table.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next() == Some(&local) && fields.nth(1) == Some(LISTEN)
    })
}

/// How many processes of this container the kernel killed because its memory was full.
fn killed_for_memory() -> u64 {
    [
        "/sys/fs/cgroup/memory.events",
        "/sys/fs/cgroup/memory/memory.oom_control",
    ]
    .iter()
    .filter_map(|path| std::fs::read_to_string(path).ok())
    .filter_map(|text| {
        text.lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
    })
    .next()
    .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HARD: &str = "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\n\
                        NoNewPrivs:\t1\nSeccomp:\t2\n";
    const ALONE: &str = "Inter-| Receive\n face |bytes\n    lo: 0 0\n";

    #[track_caller]
    fn check(status: &str, interfaces: &str, expected: Option<&str>) {
        let found = weakness(status, interfaces);
        assert_eq!(
            found.map(|found| expected.is_some_and(|word| found.contains(word))),
            expected.map(|_| true)
        );
    }

    #[test]
    fn the_open_way_out_is_seen_in_the_table_of_sockets() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue\n";
        let line = |local: &str, state: &str| format!("{head}   0: {local} 00000000:0000 {state} 00000000:00000000\n");
        assert!(listens(&line("0100007F:42E8", "0A")));
        assert!(!listens(&line("0100007F:42E8", "01")), "a connection to it");
        assert!(!listens(&line("0100007F:42E9", "0A")));
        assert!(!listens(head));
    }

    #[test]
    fn a_weak_container_is_seen() {
        check(HARD, ALONE, None);
        check(
            &HARD.replace("CapBnd:\t0000000000000000", "CapBnd:\t00000000a80425fb"),
            ALONE,
            Some("capabilities"),
        );
        check(
            &HARD.replace("NoNewPrivs:\t1", "NoNewPrivs:\t0"),
            ALONE,
            Some("privileges"),
        );
        check(&HARD.replace("Seccomp:\t2", "Seccomp:\t0"), ALONE, Some("seccomp"));
        check(HARD, &format!("{ALONE}  eth0: 0 0\n"), Some("network"));
        check("", ALONE, Some("capabilities"));
    }
}
