//! A prepared tree as another user's: the same files, mounted so that they belong to the user of one
//! sandbox. Needed where the service is root and each run has a user of its own; called by the holder.
//! Never changes the files themselves.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use rustix::thread::UnshareFlags;

use super::super::spec::{Failure, Step};
use super::super::{helper, raw};

/// Fourth stage of the helper: lend a user namespace.
pub(in super::super) const LEND: &str = "lend-users";

/// Mounts `tree`, which belongs to us, at `target` as if it belonged to `uid`, read-only.
pub(super) fn mount_as(tree: &Path, target: &Path, uid: u32) -> Result<(), Failure> {
    let failed = || format!("mount {} for user {uid}", tree.display());
    let users = users(uid)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let mount = open_tree(CWD, tree, flags).step(failed)?;
    map_owners(mount.as_fd(), users.as_fd()).step(failed)?;
    move_mount(mount.as_fd(), "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).step(failed)
}

/// A user namespace in which our id stands for `uid`.
fn users(uid: u32) -> Result<File, Failure> {
    let failed = || "make a map of users".to_owned();
    let mut lender = Command::new("/proc/self/exe")
        .args([helper::COMMAND, LEND])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .step(failed)?;
    let mapped = (|| {
        let mut ready = [0];
        lender
            .stdout
            .as_mut()
            .map_or(Ok(()), |out| out.read_exact(&mut ready))?;
        let folder = Path::new("/proc").join(lender.id().to_string());
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        std::fs::write(folder.join("uid_map"), format!("{user} {uid} 1"))?;
        std::fs::write(folder.join("gid_map"), format!("{group} {uid} 1"))?;
        File::open(folder.join("ns/user"))
    })();
    // It ends when its input does.
    drop(lender.stdin.take());
    let _ = lender.wait();
    mapped.step(failed)
}

/// The lender: makes a user namespace and waits until its parent has taken hold of it.
pub(in super::super) fn lend() -> Result<(), Failure> {
    let failed = || "lend a user namespace".to_owned();
    raw::unshare(UnshareFlags::NEWUSER).step(failed)?;
    let mut out = std::io::stdout();
    out.write_all(b"\n").step(failed)?;
    out.flush().step(failed)?;
    std::io::stdin().read_to_end(&mut Vec::new()).map(drop).step(failed)
}

/// `mount_setattr(2)`, which takes a descriptor inside a struct.
fn map_owners(mount: BorrowedFd<'_>, users: BorrowedFd<'_>) -> std::io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_IDMAP | libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        attr_clr: 0,
        propagation: 0,
        userns_fd: u64::from(users.as_raw_fd().cast_unsigned()),
    };
    // SAFETY: the path is a C string, the struct is initialised and its size is given; the kernel
    // only reads both, and the descriptors outlive the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
