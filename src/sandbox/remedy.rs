//! What an administrator can do when the kernel refuses a sandbox. Called by `local`.
//! Never changes a setting itself.

use std::fs;

/// Settings by which machines refuse namespaces to ordinary users.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Facts {
    is_root: bool,
    unprivileged_off: bool,
    apparmor_restricts: bool,
    no_user_namespaces: bool,
    in_container: bool,
}

impl Facts {
    pub(super) fn of_this_machine() -> Self {
        let setting = |path: &str| {
            fs::read_to_string(path)
                .map(|value| value.trim().to_owned())
                .unwrap_or_default()
        };
        Self {
            is_root: rustix::process::geteuid().is_root(),
            unprivileged_off: setting("/proc/sys/kernel/unprivileged_userns_clone") == "0",
            apparmor_restricts: setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1",
            no_user_namespaces: setting("/proc/sys/user/max_user_namespaces") == "0",
            in_container: ["/.dockerenv", "/run/.containerenv"]
                .iter()
                .any(|mark| fs::metadata(mark).is_ok()),
        }
    }

    /// The first thing that stands in the way.
    pub(super) fn remedy(self) -> &'static str {
        let user = !self.is_root;
        if user && self.unprivileged_off {
            "Run `sysctl -w kernel.unprivileged_userns_clone=1` as root"
        } else if user && self.no_user_namespaces {
            "Run `sysctl -w user.max_user_namespaces=15000` as root"
        } else if user && self.apparmor_restricts {
            "Run `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` as root, or give this program an AppArmor \
             profile with the rule `userns,`"
        } else if self.in_container {
            "This is a container: start it with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined \
             --security-opt systempaths=unconfined --cap-add SYS_ADMIN`, or run Forgehand outside of it"
        } else if self.is_root {
            "Start the service with the capability SYS_ADMIN, or as an ordinary user"
        } else {
            "Allow user namespaces to this user; in a systemd unit, remove RestrictNamespaces= and ProtectKernelTunables="
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(facts: Facts, expected: &str) {
        assert!(facts.remedy().contains(expected), "{}", facts.remedy());
    }

    #[test]
    fn every_refusal_has_its_remedy() {
        let none = Facts::default();
        check(
            Facts {
                unprivileged_off: true,
                ..none
            },
            "kernel.unprivileged_userns_clone=1",
        );
        check(
            Facts {
                no_user_namespaces: true,
                ..none
            },
            "user.max_user_namespaces=15000",
        );
        check(
            Facts {
                apparmor_restricts: true,
                ..none
            },
            "apparmor_restrict_unprivileged_userns=0",
        );
        check(
            Facts {
                in_container: true,
                apparmor_restricts: true,
                is_root: true,
                ..none
            },
            "container",
        );
        check(Facts { is_root: true, ..none }, "SYS_ADMIN");
        check(none, "systemd");
    }
}
