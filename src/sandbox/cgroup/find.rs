//! Where this service may make groups: below its own group of the unified hierarchy (v2) where that
//! was delegated to it, and of each old hierarchy (v1) that it may write. Called by the door.
//! Never moves a process that the service did not start.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::{Base, Bases, Resource, Version};

/// The group below a delegated one into which the service moves itself: a group that limits what is
/// below it may hold no process of its own. Also the name for systemd's `DelegateSubgroup=`.
const OWN_GROUP: &str = "forgehand";

/// A hierarchy that is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    version: Version,
    /// Which part of the hierarchy.
    root: PathBuf,
    at: PathBuf,
    /// Controllers of an old one.
    options: Vec<String>,
}

pub(super) fn bases() -> Bases {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (mounts, own) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
    let mounts: Vec<Mount> = mounts.lines().filter_map(parse_mount).collect();
    let mut found = Bases::default();
    // A container may show the hierarchy in several places; the first is the usual one.
    if let Some(mount) = mounts.iter().find(|mount| mount.version == Version::Two) {
        match unified(mount, &own) {
            Ok(base) => found.bases.push(base),
            Err(why) => found.why = Some(why),
        }
    }
    for mount in mounts.iter().filter(|mount| mount.version == Version::One) {
        let limits: Vec<Resource> = Resource::ALL
            .into_iter()
            .filter(|resource| has(mount, *resource) && found.holds(*resource).is_none())
            .collect();
        if limits.is_empty() {
            continue;
        }
        match own_folder(mount, &own) {
            Some(folder) if is_writable(&folder) => found.bases.push(Base {
                version: Version::One,
                folder,
                limits,
            }),
            Some(folder) => found.why = Some(format!("{} may not be written", folder.display())),
            None => {}
        }
    }
    if Resource::ALL.iter().all(|resource| found.holds(*resource).is_some()) {
        found.why = None;
    } else if found.why.is_none() {
        found.why = Some("no hierarchy of control groups is mounted that would limit everything".to_owned());
    }
    found
}

fn has(mount: &Mount, resource: Resource) -> bool {
    mount.options.iter().any(|option| option == resource.controller())
}

fn parse_mount(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(3);
    let (root, at) = (PathBuf::from(before.next()?), PathBuf::from(before.next()?));
    let mut after = after.split(' ');
    let version = match after.next()? {
        "cgroup" => Version::One,
        "cgroup2" => Version::Two,
        _ => return None,
    };
    let options = after.nth(1)?.split(',').map(str::to_owned).collect();
    Some(Mount {
        version,
        root,
        at,
        options,
    })
}

/// This process's own group, as a folder.
fn own_folder(mount: &Mount, own: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_it = match mount.version {
            Version::Two => number == "0" && controllers.is_empty(),
            Version::One => controllers
                .split(',')
                .any(|name| mount.options.iter().any(|option| option == name)),
        };
        is_it.then_some(path)
    })?;
    // In a namespace of groups the root of the mount is our own, and paths count from there.
    let below = Path::new(path)
        .strip_prefix(&mount.root)
        .or_else(|_| Path::new(path).strip_prefix("/"));
    let below = below.ok()?;
    // A group outside of the namespace is written with `..`, which leads somewhere else here.
    let is_inside = below
        .components()
        .all(|part| matches!(part, std::path::Component::Normal(_)));
    let folder: PathBuf = mount.at.join(below).components().collect();
    (is_inside && folder.is_dir()).then_some(folder)
}

fn is_writable(folder: &Path) -> bool {
    [folder.to_path_buf(), folder.join("cgroup.procs")]
        .iter()
        .all(|path| accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok())
}

/// Ours where it was delegated; for root else the hierarchy's own root, where its groups are limited.
fn unified(mount: &Mount, own: &str) -> Result<Base, String> {
    let own = own_folder(mount, own).ok_or("the own group is not mounted")?;
    let above = own
        .parent()
        .filter(|_| own.file_name().is_some_and(|name| name == OWN_GROUP));
    let folder = above.filter(|above| is_writable(above)).unwrap_or(&own);
    let mut why = None;
    if is_writable(folder) {
        match enable(folder) {
            Ok(limits) => {
                return Ok(Base {
                    version: Version::Two,
                    folder: folder.to_path_buf(),
                    limits,
                });
            }
            Err(error) => why = Some(format!("{}: {error}", folder.display())),
        }
    }
    if is_writable(&mount.at) {
        return Ok(Base {
            version: Version::Two,
            folder: mount.at.clone(),
            limits: enabled(&mount.at),
        });
    }
    Err(why.unwrap_or_else(|| format!("the group {} was not delegated to this user", folder.display())))
}

fn names(folder: &Path, file: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// What groups below `folder` can limit.
fn enabled(folder: &Path) -> Vec<Resource> {
    let names = names(folder, "cgroup.subtree_control");
    Resource::ALL
        .into_iter()
        .filter(|resource| names.contains(resource.controller()))
        .collect()
}

/// Lets groups below `folder` limit what the folder itself is allowed to.
fn enable(folder: &Path) -> io::Result<Vec<Resource>> {
    let offered = names(folder, "cgroup.controllers");
    let on = enabled(folder);
    for resource in Resource::ALL {
        if on.contains(&resource) || !offered.contains(resource.controller()) {
            continue;
        }
        let switch = || {
            fs::write(
                folder.join("cgroup.subtree_control"),
                format!("+{}", resource.controller()),
            )
        };
        match switch() {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                move_out(folder)?;
                switch()?;
            }
            switched => switched?,
        }
    }
    Ok(enabled(folder))
}

/// Moves the service and what it started into a group below.
fn move_out(folder: &Path) -> io::Result<()> {
    let members = fs::read_to_string(folder.join("cgroup.procs"))?;
    let members: Vec<u32> = members.lines().filter_map(|line| line.parse().ok()).collect();
    if let Some(stranger) = members.iter().find(|pid| !is_ours(**pid)) {
        let problem = format!("process {stranger}, which the service did not start, is in the same group");
        return Err(io::Error::other(problem));
    }
    let own = folder.join(OWN_GROUP);
    match fs::create_dir(&own) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    for pid in members {
        match fs::write(own.join("cgroup.procs"), pid.to_string()) {
            // It ended meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            moved => moved?,
        }
    }
    Ok(())
}

/// Whether a process is this one or below it.
fn is_ours(pid: u32) -> bool {
    let mut at = pid;
    // Deeper trees than this are not ours.
    for _ in 0..64 {
        if at == std::process::id() {
            return true;
        }
        let status = fs::read_to_string(format!("/proc/{at}/status")).unwrap_or_default();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        match parent.and_then(|parent| parent.trim().parse().ok()) {
            Some(0) | None => return false,
            Some(parent) => at = parent,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_are_read_from_the_mounts() {
        let old =
            parse_mount("32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct");
        let old = old.expect("a hierarchy");
        assert_eq!(
            (old.version, old.at.as_path()),
            (Version::One, Path::new("/sys/fs/cgroup/cpu,cpuacct"))
        );
        assert!(has(&old, Resource::Processors) && !has(&old, Resource::Memory));
        let new = parse_mount("41 31 0:38 /a /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate").expect("a hierarchy");
        assert_eq!((new.version, new.root.as_path()), (Version::Two, Path::new("/a")));
        assert_eq!(parse_mount("27 1 254:0 / / rw,relatime - ext4 /dev/vda rw"), None);
    }

    #[test]
    fn a_process_and_its_children_are_ours() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(is_ours(std::process::id()) && is_ours(child.id()));
        assert!(!is_ours(1) && !is_ours(std::os::unix::process::parent_id()));
        child.kill().and_then(|()| child.wait()).unwrap();
        assert!(!is_ours(child.id()));
    }
}
