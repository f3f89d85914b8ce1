//! The few system calls that Rust cannot offer as safe. Called by the helper only, while it has one
//! thread. Never does anything but these calls.
#![allow(unsafe_code)]

use std::os::fd::{BorrowedFd, RawFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use rustix::ioctl::{NoArg, Opcode, ioctl};
use rustix::process::Pid;
use rustix::thread::UnshareFlags;

/// Moves this process into new namespaces.
pub(super) fn unshare(namespaces: UnshareFlags) -> Result<(), Errno> {
    debug_assert!(!namespaces.contains(UnshareFlags::FILES));
    // SAFETY: only an unshared table of descriptors (`FILES`) could break Rust's assumptions, and
    // no caller asks for that.
    unsafe { rustix::thread::unshare_unsafe(namespaces) }
}

/// Goes on in two processes: nothing is returned in the new one. Starting this program again instead
/// would cost more than everything else, since all of its addresses would have to be put right again.
pub(super) fn fork() -> Result<Option<Pid>, Errno> {
    debug_assert!(std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1));
    // SAFETY: the helper has one thread, so that no lock is held by a thread that is not there.
    match unsafe { libc::fork() } {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::AGAIN)),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// Closes every descriptor but the standard ones and `kept`, so that nothing a careless library left
/// open in the service reaches a sandbox.
pub(super) fn close_others(kept: RawFd) -> std::io::Result<()> {
    for number in numbers()? {
        if number != kept {
            // SAFETY: the helper has just started and owns no descriptor but `kept`; the one of the
            // listing is closed already, which gives EBADF.
            unsafe { libc::close(number) };
        }
    }
    Ok(())
}

/// Every descriptor behind the standard ones.
fn numbers() -> std::io::Result<Vec<RawFd>> {
    let names = std::fs::read_dir("/proc/self/fd")?.map(|entry| Ok(entry?.file_name()));
    let names: Vec<_> = names.collect::<std::io::Result<_>>()?;
    let numbers = names.iter().filter_map(|name| name.to_str()?.parse().ok());
    Ok(numbers.filter(|number| *number > 2).collect())
}

/// Marks every descriptor but the standard ones to be closed when another program starts.
pub(super) fn close_all_on_exec() -> std::io::Result<()> {
    for number in numbers()? {
        // SAFETY: the descriptor is only borrowed for one call that neither closes nor reads it; a
        // number that was closed meanwhile gives EBADF.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        match rustix::io::fcntl_setfd(fd, FdFlags::CLOEXEC) {
            Ok(()) | Err(Errno::BADF) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Gives up the controlling terminal, if there is one, so that nothing started from here can read
/// from it or type into it. For a process that leads a group and so cannot start a session.
pub(super) fn leave_terminal() -> Result<(), Errno> {
    let terminal = match rustix::fs::open("/dev/tty", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        Ok(terminal) => terminal,
        // There is no terminal, no such file, or the terminal was hung up.
        Err(Errno::NXIO | Errno::NOENT | Errno::IO) => return Ok(()),
        Err(error) => return Err(error),
    };
    // SAFETY: the request takes no argument and touches no memory of this process.
    unsafe { ioctl(terminal, NoArg::<{ libc::TIOCNOTTY as Opcode }>::new()) }
}
