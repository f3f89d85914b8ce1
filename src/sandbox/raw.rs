//! The three system calls that Rust cannot offer as safe. Called by the helper only.
//! Never does anything but these calls.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use rustix::ioctl::{NoArg, Opcode, ioctl};
use rustix::thread::UnshareFlags;

/// Moves this process into new namespaces.
pub(super) fn unshare(namespaces: UnshareFlags) -> Result<(), Errno> {
    debug_assert!(!namespaces.contains(UnshareFlags::FILES));
    // SAFETY: only an unshared table of descriptors (`FILES`) could break Rust's assumptions, and
    // no caller asks for that.
    unsafe { rustix::thread::unshare_unsafe(namespaces) }
}

/// Marks every descriptor but the standard ones to be closed when another program starts, so that
/// nothing a careless library left open reaches a sandbox.
pub(super) fn close_all_on_exec() -> std::io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let Some(number) = entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        if number > 2 {
            // SAFETY: the descriptor is only borrowed for one call that neither closes nor reads it;
            // a number that was closed meanwhile gives EBADF.
            let fd = unsafe { BorrowedFd::borrow_raw(number) };
            match rustix::io::fcntl_setfd(fd, FdFlags::CLOEXEC) {
                Ok(()) | Err(Errno::BADF) => {}
                Err(error) => return Err(error.into()),
            }
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
