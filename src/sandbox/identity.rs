//! Who a command is: an ordinary user without capabilities, in a user namespace where the kernel
//! allows one. Called by the helper. Never maps root of this machine into a sandbox.

use rustix::io::Errno;
use rustix::process::DumpableBehavior;
use rustix::thread::{CapabilitySet, CapabilitySets, Gid, Uid, UnshareFlags};

use super::raw;
use super::root::INNER_ID;
use super::spec::{Failure, Isolation, Step};

/// Layers in force and what is weaker than it should be.
#[derive(Debug, Default)]
pub(super) struct Walls {
    layers: Vec<String>,
    warnings: Vec<String>,
}

impl Walls {
    pub(super) fn layer(&mut self, layer: impl Into<String>) {
        self.layers.push(layer.into());
    }

    pub(super) fn warning(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.layers.extend(other.layers);
        self.warnings.extend(other.warnings);
    }

    pub(super) fn into_parts(self) -> (Vec<String>, Vec<String>) {
        (self.layers, self.warnings)
    }
}

/// Our user and group as [`INNER_ID`] of a new user namespace. Made before the namespace, written
/// inside it.
pub(super) struct IdMap {
    uid: Uid,
    gid: Gid,
}

impl IdMap {
    pub(super) fn of_this_process() -> Self {
        Self {
            uid: rustix::process::geteuid(),
            gid: rustix::process::getegid(),
        }
    }

    pub(super) fn write(&self) -> Result<(), Failure> {
        for (file, content) in [
            // Without this the kernel refuses a map of groups written without privilege.
            ("setgroups", "deny".to_owned()),
            ("uid_map", format!("{INNER_ID} {} 1", self.uid.as_raw())),
            ("gid_map", format!("{INNER_ID} {} 1", self.gid.as_raw())),
        ] {
            std::fs::write(format!("/proc/self/{file}"), content)
                .step(|| format!("write /proc/self/{file} of the user namespace"))?;
        }
        Ok(())
    }
}

/// Gives up everything that the command must not have. The walls must be built before.
pub(super) fn drop_privileges(uid: Option<u32>, isolation: Isolation) -> Result<Walls, Failure> {
    let mut walls = Walls::default();
    if isolation == Isolation::Namespaces {
        walls.layer("namespaces (mount, pid, net, ipc, uts, cgroup)");
    }
    match uid {
        Some(uid) => {
            become_user(uid)?;
            walls.layer(format!("user id {uid}"));
            if isolation == Isolation::Namespaces {
                match enter_user_namespace() {
                    Ok(()) => walls.layer("user namespace"),
                    Err(failure) => walls.warning(format!("no user namespace ({failure})")),
                }
            }
        }
        None if isolation == Isolation::Namespaces => walls.layer("user namespace"),
        None => {}
    }
    drop_capabilities()?;
    walls.layer("no capabilities");
    Ok(walls)
}

fn become_user(uid: u32) -> Result<(), Failure> {
    drop_bounding_set();
    let failed = || format!("become user {uid}");
    let (user, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
    rustix::thread::set_thread_groups(&[]).step(failed)?;
    rustix::thread::set_thread_res_gid(group, group, group).step(failed)?;
    rustix::thread::set_thread_res_uid(user, user, user).step(failed)?;
    // A change of user makes /proc/self root's, and the maps below could not be written.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).step(failed)
}

/// The user already has nothing of root's, so that a kernel that refuses this takes away a second
/// wall, not the only one.
fn enter_user_namespace() -> Result<(), String> {
    let map = IdMap::of_this_process();
    raw::unshare(UnshareFlags::NEWUSER).map_err(|error| error.to_string())?;
    map.write().map_err(Failure::into_problem)
}

fn drop_capabilities() -> Result<(), Failure> {
    drop_bounding_set();
    let failed = || "drop capabilities".to_owned();
    rustix::thread::clear_ambient_capability_set().step(failed)?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets {
        effective: none,
        permitted: none,
        inheritable: none,
    };
    rustix::thread::set_capabilities(None, sets).step(failed)
}

/// Best effort: without the right to do this the process has no capability that it could pass on.
fn drop_bounding_set() {
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        if rustix::thread::remove_capability_from_bounding_set(capability) == Err(Errno::INVAL) {
            break;
        }
    }
}
