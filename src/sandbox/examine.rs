//! What a sandbox looks like from inside, tried by the helper's own process once every wall stands.
//! Called by the helper for `doctor --sandbox`. Never trusts what was built: each wall is touched.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

use super::PROXY_PORT;

/// An address for documentation, which nobody has.
const NOBODY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// Nothing is far away here.
const PATIENCE: Duration = Duration::from_secs(2);

/// Namespaces, as the kernel spells them.
pub(super) const SPACES: [&str; 7] = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];

/// How an attempt ended: the number of the error that stopped it, or nothing when it went through.
pub(super) type Stopped = Option<i32>;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Examined {
    /// Namespace → the kernel's name of it.
    pub(super) spaces: BTreeMap<String, String>,
    pub(super) uid: u32,
    /// Lines of /proc/self/status.
    pub(super) status: BTreeMap<String, String>,
    /// What lies in the root folder.
    pub(super) root: Vec<String>,
    pub(super) write_root: Stopped,
    pub(super) write_usr: Stopped,
    pub(super) read_shadow: Stopped,
    /// Writing a file that belongs to this process on a mount that is writable: Landlock alone
    /// stands in the way.
    pub(super) write_own_name: Stopped,
    /// A family of sockets that only the filter of system calls refuses.
    pub(super) odd_socket: Stopped,
    /// Network devices.
    pub(super) devices: Vec<String>,
    pub(super) connect_outside: Stopped,
    pub(super) connect_proxy: Stopped,
    /// Largest file in bytes, where there is a limit.
    pub(super) largest_file: Option<u64>,
    pub(super) core_files: Option<u64>,
}

pub(super) fn inside() -> Examined {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let connect = |address: (Ipv4Addr, u16)| stopped(TcpStream::connect_timeout(&SocketAddr::from(address), PATIENCE));
    Examined {
        spaces: spaces(),
        uid: rustix::process::geteuid().as_raw(),
        status: status
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect(),
        root: names(Path::new("/")),
        write_root: stopped(fs::write("/forgehand-examine", "")),
        write_usr: stopped(fs::write("/usr/forgehand-examine", "")),
        read_shadow: stopped(fs::File::open("/etc/shadow")),
        write_own_name: stopped(own_name()),
        odd_socket: stopped(socket2::Socket::new(
            socket2::Domain::from(libc::AF_VSOCK),
            socket2::Type::STREAM,
            None,
        )),
        devices: devices(),
        connect_outside: connect((NOBODY, 80)),
        connect_proxy: connect((Ipv4Addr::LOCALHOST, PROXY_PORT)),
        largest_file: getrlimit(Resource::Fsize).current,
        core_files: getrlimit(Resource::Core).current,
    }
}

/// Those of this process.
pub(super) fn spaces() -> BTreeMap<String, String> {
    let link = |name: &str| fs::read_link(format!("/proc/self/ns/{name}")).ok();
    SPACES
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), link(name)?.display().to_string())))
        .collect()
}

/// An error without a number counts as one that nothing else has.
fn stopped<T>(tried: io::Result<T>) -> Stopped {
    tried.err().map(|error| error.raw_os_error().unwrap_or(-1))
}

fn own_name() -> io::Result<()> {
    let path = "/proc/self/comm";
    if fs::metadata(path)?.uid() != rustix::process::geteuid().as_raw() {
        // Then the kernel's ordinary rules refuse it, which says nothing.
        return Ok(());
    }
    OpenOptions::new().write(true).open(path).map(drop)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn devices() -> Vec<String> {
    let table = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let lines = table.lines().skip(2).filter_map(|line| line.split_once(':'));
    lines.map(|(name, _)| name.trim().to_owned()).collect()
}
