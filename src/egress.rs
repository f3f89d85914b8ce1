//! The guarded way out of a sandbox: one proxy for each run, on a Unix socket outside of the
//! workspace. A host is read once, matched, resolved here, vetted and connected to by its vetted
//! address. Called by `run` and `doctor`. Never open unless the configuration names hosts, and never
//! a party to what is inside TLS.

use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::EgressConfig;
use crate::net::{Resolve, Vetting, host_rules};
use crate::permission::HostRule;
use crate::sandbox::{Sandbox, WayOut};

mod authority;
mod forward;
mod guarded;
mod hello;
mod log;
mod meter;
mod policy;
mod refusal;
mod registry;
mod serve;
mod tunnel;

pub use log::{Row, Verdict};
pub use registry::detect_registries;

use log::Log;
use meter::{Limits, Meter};
use policy::Policy;
use registry::{Registries, Registry};
use serve::Shared;

/// Name of the socket in the folder of a run.
const SOCKET: &str = "egress.sock";

/// `[egress]`, read and checked; a run opens its proxy from it.
#[derive(Clone)]
pub struct Egress {
    config: EgressConfig,
    hosts: Vec<HostRule>,
    registries: Vec<Registry>,
    vetting: Vetting,
}

impl Egress {
    /// With the resolver of this machine.
    ///
    /// # Errors
    /// Every wrong value, with its key.
    pub fn new(config: &EgressConfig) -> Result<Self, Vec<String>> {
        let registries = config.registries.iter().map(|text| Registry::parse(text));
        let registries = registries
            .collect::<Result<_, _>>()
            .map_err(|problem| vec![format!("egress.registries: {problem}")])?;
        Ok(Self {
            registries,
            hosts: host_rules("egress.hosts", &config.hosts)?,
            vetting: Vetting::new("egress.allow_private", &config.allow_private)?,
            config: config.clone(),
        })
    }

    /// Without any way out.
    pub fn closed() -> Self {
        Self {
            hosts: Vec::new(),
            registries: Vec::new(),
            vetting: Vetting::public_only(),
            config: EgressConfig::default(),
        }
    }

    /// The same with another resolver, for machines that have their own way to names.
    pub fn with_resolver(mut self, resolver: Arc<dyn Resolve>) -> Self {
        self.vetting = self.vetting.with_resolver(resolver);
        self
    }

    /// Whether there is no way out at all.
    pub fn is_closed(&self) -> bool {
        self.hosts.is_empty() && self.registries.is_empty() && !self.config.unsafe_allow_all
    }

    /// Where commands get, in words for `doctor`.
    pub fn in_words(&self) -> String {
        if self.is_closed() {
            return "closed: commands reach nothing (egress.hosts and egress.registries are empty)".to_owned();
        }
        let mut text = match self.config.unsafe_allow_all {
            true => "EVERY public host (egress.unsafe_allow_all)".to_owned(),
            false if self.hosts.is_empty() => "commands reach no host".to_owned(),
            false => format!("commands reach {} and no other host", self.config.hosts.join(", ")),
        };
        if !self.registries.is_empty() {
            text.push_str("; packages are read from ");
            text.push_str(&self.config.registries.join(", "));
        }
        if !self.config.allow_private.is_empty() {
            text.push_str("; private servers that are meant: ");
            text.push_str(&self.config.allow_private.join(", "));
        }
        text
    }

    /// Whether `doctor` should warn.
    pub fn is_dangerous(&self) -> bool {
        self.config.unsafe_allow_all
    }

    /// Opens the proxy of one run, with its socket in a folder that no sandbox can write. Nothing
    /// when there is no way out. `narrowed` is the repository's own list.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn open(&self, folder: &Path, narrowed: Option<Vec<HostRule>>) -> std::io::Result<Option<Arc<Gate>>> {
        let wants_nothing = narrowed.as_ref().is_some_and(Vec::is_empty);
        if self.is_closed() || wants_nothing {
            return Ok(None);
        }
        let socket = folder.join(SOCKET);
        let listener = listen(folder, &socket)?;
        let shared = Arc::new(Shared {
            policy: Policy {
                hosts: self.hosts.clone(),
                is_open: self.config.unsafe_allow_all,
                narrowed,
            },
            vetting: self.vetting.clone(),
            registries: Registries::new(self.registries.clone()),
            clients: tokio::sync::Mutex::default(),
            meter: Meter::new(self.limits()),
            log: Log::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        });
        shared.tasks.spawn(serve::serve(listener, shared.clone()));
        let mut way = WayOut::through_proxy(socket);
        registry::add_to(&mut way, &self.registries);
        Ok(Some(Arc::new(Gate { way, shared })))
    }

    fn limits(&self) -> Limits {
        let config = &self.config;
        Limits {
            upload: config.max_upload_kib.saturating_mul(1024),
            download: config.max_download_mib.saturating_mul(1024 * 1024),
            connections: usize::try_from(config.max_connections).unwrap_or(1),
            rate: config.max_rate_kib.saturating_mul(1024),
            connection_time: config.connection_seconds,
        }
    }
}

/// Makes the socket. Its path may be longer than an address of a socket can be, so the folder is
/// named by a descriptor.
fn listen(folder: &Path, socket: &Path) -> std::io::Result<UnixListener> {
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let opened = std::fs::File::open(folder)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", opened.as_raw_fd()));
    let listener = UnixListener::bind(short)?;
    // The folder above is ours alone; in the sandbox another user connects.
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

/// The open proxy of one run. It closes when it is dropped.
pub struct Gate {
    shared: Arc<Shared>,
    way: WayOut,
}

impl Gate {
    /// What a sandbox needs to reach the proxy.
    pub fn way_out(&self) -> &WayOut {
        &self.way
    }

    /// The sandbox with words about blocked hosts under the output of its commands.
    pub fn guard(self: &Arc<Self>, sandbox: Arc<dyn Sandbox>) -> Arc<dyn Sandbox> {
        Arc::new(guarded::Guarded::new(self.clone(), sandbox))
    }

    /// Rows that were not taken before.
    pub fn rows(&self) -> Vec<Row> {
        self.shared.log.fresh()
    }

    /// Waits until there may be such rows.
    pub async fn wait(&self) {
        self.shared.log.wait().await;
    }

    /// What passed in all.
    pub fn totals(&self) -> Totals {
        let (sent, received, requests) = self.shared.meter.totals();
        Totals {
            sent_bytes: sent,
            received_bytes: received,
            requests,
            rows_left_out: self.shared.log.left_out(),
        }
    }

    /// Ends every connection and waits until none is left.
    pub async fn close(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.shared.stop.cancel();
        let _ = std::fs::remove_file(&self.way.socket);
    }
}

/// What passed through the proxy of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// Bytes out of the sandbox.
    pub sent_bytes: u64,
    /// Bytes into it.
    pub received_bytes: u64,
    /// Requests and tunnels.
    pub requests: u64,
    /// Rows that found no room in the record.
    pub rows_left_out: u64,
}
