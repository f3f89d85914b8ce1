//! The table of the escape corpus: number, name, why the local sandbox stops it, and how it is run
//! bare to show that it would get out. Never a row without a reason.

/// How an attempt has to end in a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// Stopped by these errors and no others.
    Blocked(&'static [&'static str]),
    /// Killed for passing a limit.
    Limit(&'static str),
    /// It may do what it wants, but nothing of it lives when the command is over.
    NothingLeft,
    /// Killed at its deadline, and nothing of it lives.
    TimedOut,
    /// It may write what it wants, but little is kept.
    Cut,
    /// It may reach processes of its own container, and none outside.
    Inside,
}

/// How an attempt is run outside of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bare {
    /// As it is.
    Plainly,
    /// Where nobody else sees its mounts.
    MountSpace,
    /// As the second process of a namespace.
    ProcessSpace,
    /// With a descriptor that was left open.
    WithDescriptor,
    /// With a shell as its parent, which may be stopped.
    BelowShell,
    /// With a proxy that lets everything through.
    OpenProxy,
    /// Not at all, and why.
    Never(&'static str),
}

/// One attempt.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    pub number: u8,
    pub name: &'static str,
    pub ends: Ends,
    pub bare: Bare,
}

impl Attempt {
    /// Whether it is about the way out, which its own story has.
    pub fn needs_proxy(&self) -> bool {
        self.bare == Bare::OpenProxy
    }
}

const fn row(number: u8, name: &'static str, ends: Ends, bare: Bare) -> Attempt {
    Attempt {
        number,
        name,
        ends,
        bare,
    }
}

use Bare::{BelowShell, MountSpace, Never, OpenProxy, Plainly, ProcessSpace, WithDescriptor};
use Ends::{Blocked, Cut, Inside, Limit, NothingLeft, TimedOut};

/// It is not there.
const ABSENT: Ends = Blocked(&["ENOENT"]);
/// The filter of system calls refuses it.
const FILTERED: Ends = Blocked(&["EPERM"]);
/// There is no way to any network.
const UNREACHABLE: Ends = Blocked(&["ENETUNREACH"]);
/// The file is the kernel's and read-only, another user's, or not in this kernel.
const PROTECTED: Ends = Blocked(&["ENOENT", "EACCES", "EROFS"]);
/// The first process keeps its own to itself.
const CLOSED: Ends = Blocked(&["EACCES"]);

pub const CORPUS: &[Attempt] = &[
    row(1, "password hashes", ABSENT, Plainly),
    row(2, "keys of ssh", ABSENT, Plainly),
    row(3, "environments of processes", CLOSED, Plainly),
    row(4, "the root of process 1", CLOSED, ProcessSpace),
    row(5, "sysrq-trigger", PROTECTED, Plainly),
    row(6, "the kernel's memory", PROTECTED, Plainly),
    row(7, "writing to cgroups", ABSENT, Plainly),
    row(8, "programs that the kernel starts", PROTECTED, Plainly),
    row(9, "devices", Blocked(&["ENOENT", "EPERM"]), Plainly),
    row(10, "the machine's /tmp", ABSENT, Plainly),
    row(11, "another run's workspace", ABSENT, Plainly),
    row(12, "the database", ABSENT, Plainly),
    row(
        13,
        "overwriting the service's program",
        Blocked(&["ENOENT", "EACCES"]),
        Plainly,
    ),
    row(
        14,
        "descriptors over an inherited socket",
        Blocked(&["EBADF", "ENOTSOCK"]),
        WithDescriptor,
    ),
    row(15, "unshare", FILTERED, Plainly),
    row(
        16,
        "clone and clone3 with namespaces",
        Blocked(&["ENOSYS", "EPERM"]),
        Plainly,
    ),
    row(17, "setns", Blocked(&["EPERM", "EACCES"]), Plainly),
    row(18, "mount", FILTERED, MountSpace),
    row(19, "pivot_root", FILTERED, MountSpace),
    row(20, "open_tree and move_mount", FILTERED, MountSpace),
    row(21, "chroot", FILTERED, Plainly),
    row(22, "open_by_handle_at", FILTERED, Plainly),
    row(23, "ptrace of a sibling", FILTERED, Plainly),
    row(24, "process_vm_writev", FILTERED, Plainly),
    row(25, "pidfd_getfd", FILTERED, Plainly),
    row(26, "bpf", FILTERED, Plainly),
    row(27, "perf_event_open", FILTERED, Plainly),
    row(28, "keyctl", FILTERED, Plainly),
    row(29, "userfaultfd", Blocked(&["EPERM", "ENOENT"]), Plainly),
    row(30, "io_uring", FILTERED, Plainly),
    row(
        31,
        "modify_ldt, x32, int 0x80",
        Blocked(&["EPERM", "ENOSYS", "SIGSYS"]),
        Plainly,
    ),
    row(32, "AF_ALG", FILTERED, Never("many kernels are built without AF_ALG")),
    row(
        33,
        "AF_VSOCK",
        FILTERED,
        Never("many kernels are built without AF_VSOCK"),
    ),
    row(34, "AF_PACKET", FILTERED, Plainly),
    row(35, "TCP and UDP, v4 and v6", UNREACHABLE, Plainly),
    row(36, "ICMP", Blocked(&["EACCES", "EPERM"]), Plainly),
    row(
        37,
        "DNS over UDP and TCP",
        Blocked(&["no resolver", "ENETUNREACH"]),
        Plainly,
    ),
    row(38, "DNS over HTTPS", UNREACHABLE, Plainly),
    row(39, "metadata services of three clouds", UNREACHABLE, Plainly),
    row(
        40,
        "the service's port on loopback",
        Blocked(&["ECONNREFUSED"]),
        Plainly,
    ),
    row(41, "an abstract socket", Blocked(&["ECONNREFUSED"]), Plainly),
    row(42, "docker.sock", ABSENT, Plainly),
    row(43, "sockets of D-Bus and systemd", ABSENT, Plainly),
    row(
        44,
        "the proxy with a NUL in the host",
        Blocked(&["400", "403"]),
        OpenProxy,
    ),
    row(
        45,
        "the proxy with another name in TLS",
        Blocked(&["closed"]),
        OpenProxy,
    ),
    row(
        46,
        "the proxy to ports that are not the web's",
        Blocked(&["403"]),
        OpenProxy,
    ),
    row(47, "around the proxy with NO_PROXY", UNREACHABLE, Plainly),
    row(
        48,
        "link-local addresses",
        UNREACHABLE,
        Never("a machine need not have a link-local address"),
    ),
    row(49, "a fork bomb", Limit("more than 100 processes and threads"), Plainly),
    row(50, "a daemon in a session of its own", NothingLeft, Plainly),
    row(51, "kill -1", Blocked(&["ESRCH"]), ProcessSpace),
    row(52, "SIGSTOP to the parent", Blocked(&["ignored"]), BelowShell),
    row(
        53,
        "the end of process 1",
        Blocked(&["ignored"]),
        Never("the first process of every namespace ignores it, and the machine's is the machine's"),
    ),
    row(54, "a timer after the timeout", TimedOut, Plainly),
    row(55, "TIOCSTI", Blocked(&["EPERM", "ENOENT"]), Plainly),
    row(56, "memory", Limit("memory over 64 MiB"), Plainly),
    row(57, "disk", Limit("disk over 24 MiB"), Plainly),
    row(58, "inodes", Limit("more than 20000 files"), Plainly),
    row(59, "descriptors", Blocked(&["EMFILE"]), Plainly),
    row(60, "output without end", Cut, Plainly),
];

/// Where a container stops an attempt for another reason: an image has files and devices of its own,
/// and one namespace of processes for all commands of a run.
pub fn in_container(attempt: &Attempt) -> Ends {
    match attempt.number {
        1 | 2 => PROTECTED,
        7 => Blocked(&["ENOENT", "EACCES", "EROFS", "ENOTDIR"]),
        9 => Blocked(&["ENOENT", "EPERM", "EACCES"]),
        36 => Blocked(&["EACCES", "EPERM", "ENETUNREACH"]),
        51 => Inside,
        52 | 53 => Blocked(&["ignored", "EPERM"]),
        55 => Blocked(&["EPERM", "ENOENT", "ENXIO", "EACCES"]),
        _ => attempt.ends,
    }
}
