//! The two system calls that Rust cannot offer as safe. Called by the helper only.
//! Never does anything but these calls.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;

use rustix::io::{Errno, FdFlags};
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
