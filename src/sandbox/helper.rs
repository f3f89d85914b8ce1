//! The helper process: `sandbox-helper enter` makes the namespaces and goes on as their first process,
//! which builds the walls and does the task, while it watches from outside; `sandbox-helper inside`
//! is the first process alone. Started by `process` with an empty environment; everything it needs
//! comes over the socket on standard input.
//! Never outlives the service: the end of the socket ends everything.

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions};
use rustix::thread::UnshareFlags;

use super::spec::{Failure, Isolation, Report, Spec, Step, Task, receive, send};
use super::{bridge, carrier, confine, contained, examine, files, identity, overlay, raw, remote, root, supervise};

/// Name of the command that `main` dispatches here.
pub(super) const COMMAND: &str = "sandbox-helper";

/// First stage: leave the service's namespaces.
pub(super) const ENTER: &str = "enter";

/// Second stage: first process inside.
pub(super) const INSIDE: &str = "inside";

/// Namespaces that every sandbox has; an ordinary user needs a user namespace before. That of control
/// groups comes once the process has joined its own.
const NAMESPACES: UnshareFlags = UnshareFlags::NEWNS
    .union(UnshareFlags::NEWPID)
    .union(UnshareFlags::NEWNET)
    .union(UnshareFlags::NEWIPC)
    .union(UnshareFlags::NEWUTS);

/// Does the stage; the exit code only says whether the helper itself worked.
pub(super) fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    let words: Vec<Option<&str>> = arguments.iter().map(|argument| argument.to_str()).collect();
    match words.first().copied().flatten() {
        Some(contained::HOLD) => return contained::hold(),
        Some(contained::CONTAINED) => return contained::run(),
        Some(remote::SETTLE) => return remote::settle(),
        Some(remote::REMOTE) => return remote::run(),
        Some(remote::SWEEP) => return remote::sweep(remote::USER),
        Some(remote::SWEEP_WAY) => return remote::sweep(carrier::CARRIER),
        Some(carrier::CARRY) => return carrier::run(words.get(1).copied().flatten()),
        _ => {}
    }
    let mut socket = match std::io::stdin().as_fd().try_clone_to_owned() {
        Ok(socket) => UnixStream::from(socket),
        Err(_) => return ExitCode::FAILURE,
    };
    let done = match words[..] {
        [Some(ENTER)] => enter(&mut socket, None),
        [Some(ENTER), Some(holder), _] => enter(&mut socket, Some((holder, Path::new(&arguments[2])))),
        [Some(INSIDE)] => inside(&mut socket),
        [Some(overlay::HOLD)] => overlay::hold(&mut socket),
        [Some(overlay::LEND)] => overlay::lend(),
        _ => Err(Failure::broken(
            "the sandbox helper is started by the service, not by hand",
        )),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            send(&mut socket, &failure.into_report());
            ExitCode::FAILURE
        }
    }
}

/// `holder`: who holds the mount of the workspace, and the lock of those who came to it.
fn enter(socket: &mut UnixStream, holder: Option<(&str, &Path)>) -> Result<(), Failure> {
    raw::close_others(socket.as_raw_fd()).step(|| "close descriptors".to_owned())?;
    raw::leave_terminal().step(|| "leave the terminal".to_owned())?;
    // The lock is held until everything inside is gone: by this process, which waits for it.
    let _lock = holder.map(|(holder, lock)| overlay::join(holder, lock)).transpose()?;
    if rustix::process::geteuid().is_root() {
        raw::unshare(NAMESPACES).step(|| "create namespaces as root".to_owned())?;
    } else {
        let map = identity::IdMap::of_this_process();
        raw::unshare(NAMESPACES | UnshareFlags::NEWUSER).step(|| "create a user namespace".to_owned())?;
        map.write()?;
    }
    match raw::fork().step(|| "start the first process of the sandbox".to_owned())? {
        Some(first) => {
            // The output ends with those who write it; what goes wrong here is told over the socket.
            rustix::stdio::dup2_stdout(&*socket).step(|| "let go of the output".to_owned())?;
            rustix::stdio::dup2_stderr(&*socket).step(|| "let go of the output".to_owned())?;
            watch(first)?;
            // To take the namespaces apart, which comes as this process ends, takes the kernel longer than most
            // commands: nobody need wait for it.
            send(socket, &Report::Gone);
            Ok(())
        }
        None => inside(socket),
    }
}

/// Waits for the first process. When the service lets go of the socket, kills it; the kernel then
/// kills everything else in its namespace before the wait returns.
fn watch(first: Pid) -> Result<(), Failure> {
    let handle = rustix::process::pidfd_open(first, PidfdFlags::empty()).step(|| "watch the sandbox".to_owned())?;
    let stdin = std::io::stdin();
    loop {
        let mut fds = [
            PollFd::new(&stdin, PollFlags::RDHUP),
            PollFd::new(&handle, PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error).step(|| "watch the sandbox".to_owned()),
        }
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        if fds[0].revents().intersects(gone) {
            let _ = rustix::process::kill_process(first, Signal::KILL);
        }
        if !fds[0].revents().is_empty() || !fds[1].revents().is_empty() {
            let waited = rustix::process::waitpid(Some(first), WaitOptions::empty());
            return waited.map(drop).step(|| "wait for the sandbox".to_owned());
        }
    }
}

/// Without mounts of its own the sandbox's user must pass through the machine's folders.
fn reachable(view: &root::View) -> Result<(), Failure> {
    let user = rustix::process::geteuid().as_raw();
    std::fs::read_dir(&view.workspace).map(drop).map_err(|error| {
        let workspace = view.workspace.display();
        Failure::broken(format!(
            "user {user} cannot reach {workspace} ({error}); let others pass through the folders above it (chmod o+x)"
        ))
    })
}

fn inside(socket: &mut UnixStream) -> Result<(), Failure> {
    let die_with_parent = || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .step(|| "tie the sandbox to its parent".to_owned())
    };
    die_with_parent()?;
    raw::close_all_on_exec().step(|| "mark descriptors".to_owned())?;
    // A new user namespace makes /proc/self root's.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).step(|| "open /proc/self".to_owned())?;
    // The first process of a namespace can start a session; without one, this process leads a
    // group and cannot.
    if rustix::process::setsid().is_err() {
        raw::leave_terminal().step(|| "leave the terminal".to_owned())?;
    }
    let spec = Spec::receive(socket)?;
    let events = spec.group.join()?;
    let view = match spec.isolation {
        Isolation::Namespaces => {
            raw::unshare(UnshareFlags::NEWCGROUP).step(|| "create a namespace of control groups".to_owned())?;
            root::build(&spec)?;
            root::View::isolated(&spec.folders)
        }
        Isolation::None => root::View::plain(&spec.folders),
        Isolation::Container => return Err(Failure::broken("a container has a stage of its own")),
    };
    let mut walls = identity::drop_privileges(spec.uid, spec.isolation)?;
    // A change of user clears the signal.
    die_with_parent()?;
    walls.extend(confine::restrict(&view, &spec.limits, spec.isolation)?);
    if spec.way_out.is_some() {
        bridge::start()?;
        walls.layer("way out through the proxy alone");
    }
    let (layers, warnings) = walls.into_parts();
    if spec.isolation == Isolation::None {
        reachable(&view)?;
    }
    send(socket, &Report::Ready { layers, warnings });
    let task = match spec.task {
        Task::Wait => &receive(socket)?,
        ref task => task,
    };
    match task {
        Task::Probe | Task::Wait => {}
        Task::Examine => send(socket, &Report::Examined(examine::inside())),
        Task::Files(request) => {
            let reply = files::answer(&view.workspace, request);
            send(socket, &Report::Files(reply));
        }
        Task::Command(command) => {
            let report = supervise::run(socket, command, &view, &spec, &events);
            send(socket, &report);
        }
    }
    Ok(())
}
