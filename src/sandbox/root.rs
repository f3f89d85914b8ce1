//! The root folder of a sandbox: a small read-only tmpfs into which the few things that a command
//! needs are mounted. Called by the helper, as first process of its namespaces.
//! Never shows the machine's own root, homes or sockets.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive, mount_change,
    mount_remount, unmount,
};

use super::spec::{Failure, HostFolders, Limits, Spec, Step};
use super::{WORKSPACE, WayOut};

/// User and group id inside, where a user namespace gives a number of our choice.
pub(super) const INNER_ID: u32 = 1000;

pub(super) const HOME: &str = "/home/agent";
pub(super) const TMP: &str = "/tmp";
pub(super) const BASE_GIT: &str = "/run/forgehand/base.git";
pub(super) const OUT: &str = "/run/forgehand/out";

/// Socket of the proxy, where there is a way out.
pub(super) const EGRESS: &str = "/run/forgehand/egress.sock";

/// Where the machine's root hangs while the new one is furnished.
const OLD: &str = "/old";

/// A folder that every machine has, used as the place where the new root is first mounted.
const SCAFFOLD: &str = "/usr";

/// Shared memory that programs expect; it counts as memory, so it is small.
const SHM_OPTIONS: &std::ffi::CStr = c"mode=1777,size=256m,nr_inodes=16384";

/// Only mount points and a few text files lie in it.
const ROOT_OPTIONS: &std::ffi::CStr = c"mode=755,size=16m,nr_inodes=8192";

/// Public files of /etc: certificates, the linker's cache, names of ports. No keys, no accounts.
const ETC: &[&str] = &[
    "ssl/certs",
    "ssl/openssl.cnf",
    "pki/tls/certs",
    "pki/tls/cert.pem",
    "pki/ca-trust/extracted",
    "ca-certificates",
    "ca-certificates.conf",
    "alternatives",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "mime.types",
    "protocols",
    "services",
];

const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom"];

/// The folders as the command sees them.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) workspace: PathBuf,
    pub(super) home: PathBuf,
    pub(super) tmp: PathBuf,
    pub(super) base_git: PathBuf,
    pub(super) out: Option<PathBuf>,
    pub(super) toolchains: Vec<PathBuf>,
}

impl View {
    pub(super) fn isolated(folders: &HostFolders) -> Self {
        Self {
            workspace: WORKSPACE.into(),
            home: HOME.into(),
            tmp: TMP.into(),
            base_git: BASE_GIT.into(),
            out: folders.out.as_ref().map(|_| OUT.into()),
            toolchains: folders.toolchains.clone(),
        }
    }

    pub(super) fn plain(folders: &HostFolders) -> Self {
        Self {
            workspace: folders.workspace.clone(),
            home: folders.home.clone(),
            tmp: folders.tmp.clone(),
            base_git: folders.base_git.clone(),
            out: folders.out.clone(),
            toolchains: folders.toolchains.clone(),
        }
    }

    /// What the command may write.
    pub(super) fn writable(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.workspace, &self.home, &self.tmp].into_iter().chain(&self.out)
    }
}

/// Builds the root and moves into it.
pub(super) fn build(spec: &Spec) -> Result<(), Failure> {
    let folders = &spec.folders;
    rustix::system::sethostname(b"sandbox").step(|| "set the host name".to_owned())?;
    pivot()?;
    // A fresh /proc is refused to a user namespace once no other one can be seen, so it comes
    // before the old root goes.
    folder("/proc")?;
    mount(
        "proc",
        "/proc",
        "proc",
        MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC,
        None,
    )
    .step(|| "mount /proc".to_owned())?;
    system_folders()?;
    etc(spec.uid)?;
    devices()?;
    folder(TMP)?;
    folder("/var")?;
    link("/tmp", "/var/tmp")?;
    link("/run", "/var/run")?;
    for (source, target) in [
        (&folders.workspace, WORKSPACE),
        (&folders.home, HOME),
        (&folders.tmp, TMP),
        (&folders.base_git, BASE_GIT),
    ] {
        bind(source, target)?;
    }
    if let Some(out) = &folders.out {
        bind(out, OUT)?;
    }
    for toolchain in &folders.toolchains {
        bind(toolchain, toolchain)?;
    }
    if let Some(way_out) = &spec.way_out {
        lead_out(way_out)?;
    }
    limit_process_ids(&spec.limits);
    for part in ["sys", "sysrq-trigger", "irq", "bus", "fs"] {
        let path = Path::new("/proc").join(part);
        if path.exists() {
            mount_bind_recursive(&path, &path).step(|| format!("cover {}", path.display()))?;
        }
    }
    unmount(OLD, UnmountFlags::DETACH).step(|| "let go of the machine's root".to_owned())?;
    fs::remove_dir(OLD).step(|| "let go of the machine's root".to_owned())?;
    restrict_mounts()?;
    super::loopback::bring_up()
}

fn pivot() -> Result<(), Failure> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .step(|| "detach mounts from the machine's".to_owned())?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("sandbox", SCAFFOLD, "tmpfs", flags, Some(ROOT_OPTIONS)).step(|| "mount the new root".to_owned())?;
    let old = format!("{SCAFFOLD}{OLD}");
    folder(&old)?;
    rustix::process::pivot_root(SCAFFOLD, &old).step(|| "change to the new root".to_owned())?;
    rustix::process::chdir("/").step(|| "change to the new root".to_owned())
}

/// /usr, and /bin, /lib… as they are here: links into /usr, or folders.
fn system_folders() -> Result<(), Failure> {
    bind(Path::new("/usr"), "/usr")?;
    for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
        show(&Path::new("/").join(name))?;
    }
    Ok(())
}

fn etc(uid: Option<u32>) -> Result<(), Failure> {
    for name in ETC {
        show(&Path::new("/etc").join(name))?;
    }
    let other_id = match uid {
        Some(uid) => format!("agent:x:{uid}:{uid}:agent:{HOME}:/bin/sh\n"),
        None => String::new(),
    };
    let passwd = format!(
        "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nagent:x:{INNER_ID}:{INNER_ID}:agent:{HOME}:/bin/sh\n\
         {other_id}nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    );
    for (name, content) in [
        ("passwd", passwd.as_str()),
        ("group", &format!("root:x:0:\nagent:x:{INNER_ID}:\nnogroup:x:65534:\n")),
        ("hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"),
        ("hostname", "sandbox\n"),
        ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
        ("resolv.conf", ""),
    ] {
        let path = Path::new("/etc").join(name);
        folder("/etc")?;
        fs::write(&path, content).step(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

fn devices() -> Result<(), Failure> {
    for name in DEVICES {
        let path = Path::new("/dev").join(name);
        bind(&path, &path)?;
    }
    for (target, path) in [
        ("/proc/self/fd", "/dev/fd"),
        ("/proc/self/fd/0", "/dev/stdin"),
        ("/proc/self/fd/1", "/dev/stdout"),
        ("/proc/self/fd/2", "/dev/stderr"),
    ] {
        link(target, path)?;
    }
    folder("/dev/shm")?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("shm", "/dev/shm", "tmpfs", flags, Some(SHM_OPTIONS)).step(|| "mount /dev/shm".to_owned())
}

/// Shows a path of the machine under the same name, if it exists: a link as a link, anything else
/// as a mount.
fn show(path: &Path) -> Result<(), Failure> {
    let source = old(path);
    match fs::symlink_metadata(&source) {
        Ok(found) if found.is_symlink() => {
            let target = fs::read_link(&source).step(|| format!("read the link {}", path.display()))?;
            if let Some(parent) = path.parent() {
                folder(parent)?;
            }
            link(target, path)
        }
        Ok(_) => bind(path, path),
        Err(_) => Ok(()),
    }
}

/// Mounts `source` of the machine at `target`, for now with its own flags.
fn bind(source: &Path, target: impl AsRef<Path>) -> Result<(), Failure> {
    let target = target.as_ref();
    let from = old(source);
    let failed = || format!("mount {} at {}", source.display(), target.display());
    if fs::metadata(&from).step(failed)?.is_dir() {
        folder(target)?;
        // Recursive, since a user namespace may not uncover what a mount inside hides.
        mount_bind_recursive(&from, target).step(failed)
    } else {
        if let Some(parent) = target.parent() {
            folder(parent)?;
        }
        fs::write(target, "").step(failed)?;
        mount_bind(&from, target).step(failed)
    }
}

fn old(path: &Path) -> PathBuf {
    Path::new(OLD).join(path.strip_prefix("/").unwrap_or(path))
}

fn folder(path: impl AsRef<Path>) -> Result<(), Failure> {
    let path = path.as_ref();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(path)
        .step(|| format!("make the folder {}", path.display()))
}

fn link(target: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<(), Failure> {
    let path = path.as_ref();
    symlink(target, path).step(|| format!("make the link {}", path.display()))
}

/// The proxy's socket, and files that make programs use it.
fn lead_out(way_out: &WayOut) -> Result<(), Failure> {
    bind(&way_out.socket, EGRESS)?;
    for (path, content) in &way_out.files {
        if let Some(parent) = path.parent() {
            folder(parent)?;
        }
        fs::write(path, content).step(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Since Linux 6.14 each namespace has its own count; before, the watch and the limit of the user
/// stop fork bombs, so a refusal is no failure.
fn limit_process_ids(limits: &Limits) {
    /// The kernel reserves the first 300 numbers.
    const LEAST: u64 = 400;
    let most = limits.max_processes.saturating_add(64).max(LEAST);
    let _ = fs::write("/proc/sys/kernel/pid_max", most.to_string());
}

/// One pass over all mounts: everything is nosuid and nodev, and read-only but for the run's own
/// folders. Flags that are set stay, since a user namespace may not clear them.
fn restrict_mounts() -> Result<(), Failure> {
    let table = fs::read_to_string("/proc/self/mountinfo").step(|| "read the mounts".to_owned())?;
    let mut mounts: Vec<(PathBuf, MountFlags)> = table.lines().filter_map(parse_mount).collect();
    // The root last: nothing can be made in it afterwards.
    mounts.sort_by_key(|(path, _)| std::cmp::Reverse(path.components().count()));
    for (path, flags) in mounts {
        let Some(wanted) = wanted_flags(&path) else { continue };
        mount_remount(&path, MountFlags::BIND | flags | wanted, "")
            .step(|| format!("restrict the mount at {}", path.display()))?;
    }
    Ok(())
}

/// `None` for what is right as it was mounted: /proc itself, shared memory, and device files,
/// which nodev would make useless.
fn wanted_flags(path: &Path) -> Option<MountFlags> {
    let nothing_special = MountFlags::NOSUID | MountFlags::NODEV;
    if path == Path::new("/proc") || path.starts_with("/dev") {
        None
    } else if [WORKSPACE, HOME, TMP, OUT]
        .iter()
        .any(|writable| path.starts_with(writable))
    {
        Some(nothing_special)
    } else {
        Some(nothing_special | MountFlags::RDONLY)
    }
}

/// Mount point and flags of a line of mountinfo.
fn parse_mount(line: &str) -> Option<(PathBuf, MountFlags)> {
    let mut fields = line.split(' ').skip(4);
    let path = unescape(fields.next()?);
    let flags = fields.next()?.split(',').fold(MountFlags::empty(), |flags, name| {
        flags
            | match name {
                "ro" => MountFlags::RDONLY,
                "nosuid" => MountFlags::NOSUID,
                "nodev" => MountFlags::NODEV,
                "noexec" => MountFlags::NOEXEC,
                "noatime" => MountFlags::NOATIME,
                "nodiratime" => MountFlags::NODIRATIME,
                "relatime" => MountFlags::RELATIME,
                "nosymfollow" => MountFlags::NOSYMFOLLOW,
                _ => MountFlags::empty(),
            }
    });
    Some((path, flags))
}

/// Blank, tab, newline and backslash stand in the table as `\040` and the like.
fn unescape(field: &str) -> PathBuf {
    let mut path = Vec::new();
    let mut rest = field.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let octal = (byte == b'\\').then(|| tail.get(..3)).flatten();
        let code = octal
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|d| u8::from_str_radix(d, 8).ok());
        path.push(code.unwrap_or(byte));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, path: &str, flags: MountFlags) {
        assert_eq!(parse_mount(line), Some((PathBuf::from(path), flags)));
    }

    #[test]
    fn lines_of_mountinfo() {
        check(
            "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard",
            "/",
            MountFlags::RELATIME,
        );
        check(
            r"28 27 0:25 /a\040b /mnt/a\040b\134c ro,nosuid,nodev,noexec,noatime shared:1 - tmpfs x ro",
            r"/mnt/a b\c",
            MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::NOATIME,
        );
        assert_eq!(parse_mount("broken"), None);
    }
}
