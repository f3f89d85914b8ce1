//! The layers of a sandbox as rows of a table: which are in force, which are weaker than they could
//! be, which are missing, and what to do about it. Filled by each backend, shown by `doctor`.
//! Never a row that was not tried.

use std::collections::BTreeMap;

use serde::Serialize;

use super::cgroup::{Bases, Resource, Version};
use super::examine::{Examined, SPACES, Stopped};
use super::spec::Limits;
use super::{SandboxDescription, WayOut};

/// How a layer stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerState {
    /// It holds.
    InForce,
    /// It holds less than it could.
    Weaker,
    /// It is not there.
    Missing,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// What it is.
    pub name: String,
    /// How it stands.
    pub state: LayerState,
    /// What was found.
    pub detail: String,
    /// What would make it better, where something would.
    pub remedy: Option<String>,
}

impl Layer {
    /// One that holds.
    pub fn in_force(name: &str, detail: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            state: LayerState::InForce,
            detail: detail.into(),
            remedy: None,
        }
    }

    /// One that holds less than it could.
    pub fn weaker(name: &str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            state: LayerState::Weaker,
            remedy: Some(remedy.into()),
            ..Self::in_force(name, detail)
        }
    }

    /// One that is not there.
    pub fn missing(name: &str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            state: LayerState::Missing,
            remedy: Some(remedy.into()),
            ..Self::in_force(name, detail)
        }
    }
}

/// What a backend says of itself, for one that is not looked at from inside.
pub(super) fn described(description: &SandboxDescription) -> Vec<Layer> {
    let holds = description
        .layers
        .iter()
        .map(|layer| Layer::in_force(layer, "as the backend says"));
    let lacks = description
        .warnings
        .iter()
        .map(|warning| Layer::weaker(warning, "as the backend says", "see the README on sandboxes"));
    holds.chain(lacks).collect()
}

/// What the rows of the local backend are made of.
pub(super) struct Local<'l> {
    pub(super) found: &'l Examined,
    /// The service's own namespaces.
    pub(super) outside: &'l BTreeMap<String, String>,
    pub(super) description: &'l SandboxDescription,
    pub(super) groups: &'l Bases,
    pub(super) limits: &'l Limits,
    pub(super) cpus: f64,
    pub(super) way_out: Option<&'l WayOut>,
    pub(super) remedy: &'static str,
}

impl Local<'_> {
    pub(super) fn rows(&self) -> Vec<Layer> {
        let mut rows = vec![
            self.namespaces(),
            self.root(),
            self.user(),
            self.landlock(),
            self.seccomp(),
        ];
        rows.extend(Resource::ALL.map(|resource| self.limit(resource)));
        rows.extend([self.disk(), self.end(), self.network(), self.way_out()]);
        rows
    }

    fn namespaces(&self) -> Layer {
        let name = "namespaces";
        let (own, shared): (Vec<&str>, Vec<&str>) = SPACES.iter().partition(|space| {
            let inside = self.found.spaces.get(**space);
            inside.is_some() && inside != self.outside.get(**space)
        });
        let detail = |what: &str, spaces: &[&str]| format!("{what} {}", spaces.join(", "));
        match (own.as_slice(), shared.as_slice()) {
            (own, []) => Layer::in_force(name, detail("its own:", own)),
            // The user is another one anyway; the rest would let it see the machine.
            (own, ["user"]) => Layer::weaker(
                name,
                detail("shared with the service: user; its own:", own),
                self.remedy,
            ),
            (_, shared) => Layer::missing(name, detail("shared with the service:", shared), self.remedy),
        }
    }

    fn root(&self) -> Layer {
        let name = "minimal root";
        let found = self.found;
        let holds = found.read_shadow == Some(libc::ENOENT)
            && found.write_root == Some(libc::EROFS)
            && found.write_usr == Some(libc::EROFS);
        if holds {
            Layer::in_force(name, format!("read-only, holds {}", found.root.join(" ")))
        } else {
            let detail = format!(
                "reading /etc/shadow: {}; writing to /: {}; writing to /usr: {}",
                in_words(found.read_shadow),
                in_words(found.write_root),
                in_words(found.write_usr),
            );
            Layer::missing(name, detail, self.remedy)
        }
    }

    fn user(&self) -> Layer {
        let name = "user";
        let line = |name: &str| self.found.status.get(name).map_or("?", String::as_str);
        let without = |set: &str| line(set).chars().all(|digit| digit == '0');
        let detail = format!(
            "user {} inside; capabilities {}, no new privileges {}",
            self.found.uid,
            line("CapEff"),
            line("NoNewPrivs"),
        );
        if self.found.uid != 0 && without("CapEff") && without("CapPrm") && line("NoNewPrivs") == "1" {
            Layer::in_force(name, detail)
        } else {
            Layer::missing(
                name,
                detail,
                "Report this to the maintainers: nothing on the machine should cause it",
            )
        }
    }

    fn landlock(&self) -> Layer {
        const NEWER: &str = "Linux 6.12 and newer have every rule that is used here";
        let name = "Landlock";
        let abi = self
            .description
            .layers
            .iter()
            .find_map(|layer| layer.strip_prefix("landlock "));
        let warning = self
            .description
            .warnings
            .iter()
            .find(|warning| warning.contains("Landlock"));
        match (abi, self.found.write_own_name, warning) {
            (Some(abi), Some(libc::EACCES), None) => Layer::in_force(name, abi),
            (Some(_), Some(libc::EACCES), Some(warning)) => Layer::weaker(name, warning, NEWER),
            (_, tried, warning) => {
                let said = warning.map_or_else(|| "it does not hold".to_owned(), String::clone);
                let detail = format!("{said}; a write that it alone forbids: {}", in_words(tried));
                Layer::missing(
                    name,
                    detail,
                    "Add `landlock` to the kernel's `lsm=` list, or use Linux 5.13 or newer",
                )
            }
        }
    }

    fn seccomp(&self) -> Layer {
        let line = |name: &str| self.found.status.get(name).map_or("?", String::as_str);
        let detail = format!(
            "mode {}, {} filters; a socket to the virtual machine's host: {}",
            line("Seccomp"),
            line("Seccomp_filters"),
            in_words(self.found.odd_socket)
        );
        if line("Seccomp") == "2" && self.found.odd_socket == Some(libc::EPERM) {
            Layer::in_force("seccomp", detail)
        } else {
            let remedy = "Use a kernel with CONFIG_SECCOMP_FILTER, as every distribution's is";
            Layer::missing("seccomp", detail, remedy)
        }
    }

    fn limit(&self, resource: Resource) -> Layer {
        let (name, most) = match resource {
            Resource::Memory => ("memory limit", format!("{} MiB", self.limits.memory_mib)),
            Resource::Processes => (
                "process limit",
                format!("{} processes and threads", self.limits.max_processes),
            ),
            Resource::Processors => ("processor limit", format!("{} processors", self.cpus)),
        };
        let remedy = self.delegate();
        match (self.groups.holds(resource), resource) {
            (Some(Version::Two), _) => Layer::in_force(name, format!("{most}, by cgroup v2")),
            (Some(Version::One), _) => Layer::in_force(name, format!("{most}, by cgroup v1")),
            (None, Resource::Processors) => {
                Layer::weaker(name, "none, but every command is nicer than the service", remedy)
            }
            (None, _) => Layer::weaker(name, format!("{most}, looked at ten times a second"), remedy),
        }
    }

    /// How groups come to hold what they do not hold yet.
    fn delegate(&self) -> String {
        let why = self.groups.why().map_or_else(String::new, |why| format!(" ({why})"));
        format!(
            "Run the service under systemd with `Delegate=yes`, as deploy/forgehand.service does, or as root where the \
             hierarchies of control groups are writable{why}"
        )
    }

    fn disk(&self) -> Layer {
        let name = "disk limit";
        let most = self.limits.disk_mib;
        if self
            .found
            .largest_file
            .is_none_or(|bytes| bytes > most.saturating_mul(1024 * 1024))
        {
            return Layer::missing(name, "no limit of one file holds", self.remedy);
        }
        Layer::weaker(
            name,
            format!("{most} MiB: each file by the kernel, all together walked every few seconds"),
            "Give server.state_dir a file system of its own, so that a command that is faster fills nothing else",
        )
    }

    fn end(&self) -> Layer {
        let own = self.found.spaces.get("pid") != self.outside.get("pid");
        match (own, self.groups.kills()) {
            (true, true) => Layer::in_force("end of everything", "with the first process, and by cgroup.kill"),
            (true, false) => Layer::in_force("end of everything", "with the first process of its namespace"),
            (false, _) => Layer::weaker("end of everything", "descendants are hunted one by one", self.remedy),
        }
    }

    fn network(&self) -> Layer {
        let devices = self.found.devices.join(", ");
        let detail = format!(
            "devices: {devices}; a connection outside: {}",
            in_words(self.found.connect_outside)
        );
        if devices == "lo" && self.found.connect_outside == Some(libc::ENETUNREACH) {
            Layer::in_force("no network", detail)
        } else {
            Layer::missing("no network", detail, self.remedy)
        }
    }

    fn way_out(&self) -> Layer {
        let name = "way out";
        let tried = self.found.connect_proxy;
        match (self.way_out, tried) {
            (None, Some(_)) => Layer::in_force(name, "none is configured, and none is there"),
            (None, None) => Layer::missing(name, "none is configured, but something listens", self.remedy),
            (Some(_), None) => Layer::in_force(name, "the guarded proxy alone answers"),
            (Some(_), Some(_)) => Layer::missing(
                name,
                format!("the proxy does not answer: {}", in_words(tried)),
                "Look at the service's log; commands have no network until it does",
            ),
        }
    }
}

/// How an attempt ended.
fn in_words(stopped: Stopped) -> String {
    stopped.map_or_else(
        || "nothing stopped it".to_owned(),
        |number| format!("refused ({})", std::io::Error::from_raw_os_error(number)),
    )
}
