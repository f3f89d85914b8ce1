//! A git process dies with the thread that started it, and so with the service, however that ends:
//! the next service then finds nobody at work in its mirrors. Called by `run`.
//! Never does more between fork and exec than these two system calls.
#![allow(unsafe_code)]

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use tokio::process::Command;

/// Arranges for the process that `command` starts to be killed when we are gone.
pub(super) fn die_with_us(command: &mut Command) {
    let us = getpid();
    // SAFETY: the closure runs in the child of a process with threads, where only calls that are
    // safe in signal handlers are allowed. It makes two plain system calls and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // We may have died before the signal was asked for.
            if getppid() == Some(us) {
                Ok(())
            } else {
                Err(std::io::ErrorKind::NotConnected.into())
            }
        });
    }
}
