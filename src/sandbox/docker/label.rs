//! How a run's folders are shown to containers on a machine with SELinux: labelled for the run's
//! containers and no others, which all have one level of their own. Called when a container is made.
//! Never labels what the service did not make itself: system programs, its own program, the proxy's
//! socket keep what they have.

use bollard::models::SystemInfo;

use crate::secret::random_bytes;

/// Categories that levels are made of.
const CATEGORIES: u16 = 1024;

/// Which containers may use what a folder holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Those of this run.
    Run,
    /// All: its files may have other names, in folders of other runs.
    All,
}

/// The level of a run's containers and of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Label {
    categories: (u16, u16),
}

impl Label {
    /// A level that no other run is likely to have, where the engine labels containers.
    pub(super) fn of_run(info_says: bool) -> Option<Self> {
        let [a, b, c, d] = random_bytes();
        let (one, other) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        info_says.then(|| Self::of(one % CATEGORIES, other % (CATEGORIES - 1)))
    }

    fn of(one: u16, other: u16) -> Self {
        // Two different ones, the lower first, as the kernel writes them.
        let other = if other >= one { other + 1 } else { other };
        Self {
            categories: (one.min(other), one.max(other)),
        }
    }

    /// The engine's option that gives a container this level.
    pub(super) fn option(&self) -> String {
        let (low, high) = self.categories;
        format!("label=level:s0:c{low},c{high}")
    }
}

/// Whether an engine says that it labels containers and files.
pub(super) fn is_in_force(info: &SystemInfo) -> bool {
    let options = info.security_options.iter().flatten();
    options
        .flat_map(|option| option.split(','))
        .any(|part| part == "name=selinux")
}

/// A mount with labels, in the only form in which engines take that wish. Nothing when the path cannot
/// be written so; without the label the container cannot read it, and the first look inside says so.
pub(super) fn labelled(source: &str, target: &str, read_only: bool, sharing: Sharing) -> Option<String> {
    if source.contains(':') || target.contains(':') {
        return None;
    }
    let access = if read_only { "ro" } else { "rw" };
    let label = match sharing {
        Sharing::Run => 'Z',
        Sharing::All => 'z',
    };
    Some(format!("{source}:{target}:{access},rprivate,{label}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_says_whether_files_are_labelled() {
        let info = |options: &[&str]| SystemInfo {
            security_options: Some(options.iter().map(|option| (*option).to_owned()).collect()),
            ..SystemInfo::default()
        };
        for (options, expected) in [
            (&["name=seccomp,profile=builtin", "name=selinux"][..], true),
            (&["name=seccomp,profile=selinux", "name=cgroupns"], false),
            (&["name=apparmor"], false),
            (&[], false),
        ] {
            assert_eq!(is_in_force(&info(options)), expected, "{options:?}");
        }
        assert!(!is_in_force(&SystemInfo::default()));
        assert_eq!(Label::of_run(false), None);
        assert!(Label::of_run(true).is_some());
    }

    #[test]
    fn a_level_has_two_categories_in_their_order() {
        assert_eq!(Label::of(7, 3).option(), "label=level:s0:c3,c7");
        assert_eq!(Label::of(7, 7).option(), "label=level:s0:c7,c8");
        assert_eq!(Label::of(1023, 1022).option(), "label=level:s0:c1022,c1023");
    }

    #[test]
    fn a_mount_says_who_may_use_it() {
        let mount = labelled("/runs/1/workspace", "/workspace", false, Sharing::Run);
        assert_eq!(mount.as_deref(), Some("/runs/1/workspace:/workspace:rw,rprivate,Z"));
        let mount = labelled("/runs/1/base.git", "/b", true, Sharing::All);
        assert_eq!(mount.as_deref(), Some("/runs/1/base.git:/b:ro,rprivate,z"));
        assert_eq!(labelled("/a:b", "/b", true, Sharing::Run), None);
    }
}
