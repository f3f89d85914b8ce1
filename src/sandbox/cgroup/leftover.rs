//! Groups that a killed service left: found by their names, which say who made them. Called by the
//! door before a sandbox is opened. Never touches a group whose maker lives, nor one of another
//! namespace of processes, whose numbers mean nothing here.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What every group's name begins with.
const PREFIX: &str = "forgehand";

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    /// The namespace in which the number counts.
    space: u64,
    pid: u32,
    /// When it started, in the kernel's ticks since the machine did.
    started: u64,
}

impl Owner {
    pub(super) fn this_process() -> io::Result<Self> {
        let odd = || io::Error::other("/proc/self says nothing about this process");
        let space = own_space().ok_or_else(odd)?;
        let pid = std::process::id();
        let started = started(pid).ok_or_else(odd)?;
        Ok(Self { space, pid, started })
    }

    fn lives(&self) -> bool {
        started(self.pid) == Some(self.started)
    }
}

/// `forgehand-SPACE-PID-START-NUMBER`.
pub(super) fn name(owner: &Owner, number: u64) -> String {
    let Owner { space, pid, started } = owner;
    format!("{PREFIX}-{space}-{pid}-{started}-{number}")
}

fn owner_of(name: &str) -> Option<Owner> {
    let mut parts = name.strip_prefix(PREFIX)?.strip_prefix('-')?.split('-');
    let owner = Owner {
        space: parts.next()?.parse().ok()?,
        pid: parts.next()?.parse().ok()?,
        started: parts.next()?.parse().ok()?,
    };
    parts.next()?.parse::<u64>().ok()?;
    parts.next().is_none().then_some(owner)
}

fn own_space() -> Option<u64> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

/// The 22nd field; the second is a name that may hold blanks and brackets.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

/// Ends and removes the groups below `base` whose makers are gone.
pub(super) fn remove(base: &Path) {
    let Some(space) = own_space() else { return };
    let left: Vec<PathBuf> = fs::read_dir(base)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| {
            let owner = entry.file_name().to_str().and_then(owner_of);
            owner.is_some_and(|owner| owner.space == space && !owner.lives())
        })
        .map(|entry| entry.path())
        .collect();
    super::end(&left);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_who_made_the_group() {
        let owner = Owner::this_process().unwrap();
        assert!(owner.lives());
        assert_eq!(owner_of(&name(&owner, 7)), Some(owner.clone()));
        let later = Owner {
            started: owner.started + 1,
            ..owner
        };
        assert!(!later.lives(), "another process with the same number");
        for other in [
            "forgehand",
            "forgehand-service",
            "forgehand-1-2-3",
            "forgehand-1-2-3-4-5",
            "forgehand-1-x-3-4",
            "docker-1-2-3-4",
            "forgehandx-1-2-3-4",
        ] {
            assert_eq!(owner_of(other), None, "{other}");
        }
    }
}
