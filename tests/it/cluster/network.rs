//! A network that can be cut between one process and all others: a network namespace with one cable, whose
//! host's end has relays to the database and to GitHub. Where a namespace is not to be had, the relays
//! alone are cut. Called by `partition`. Never leaves a device behind: it goes with its namespace.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::process::Stdio;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What waited in a relay for longer is dropped when it opens again: no network delivers so late.
const LIFE_OF_A_PACKET: Duration = Duration::from_millis(1_500);

/// A place in the network of addresses 10.213.0.0/16 for each link of a test run.
static NEXT: AtomicU8 = AtomicU8::new(0);

/// Where a relay leads.
#[derive(Clone)]
pub enum Target {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

/// How a link is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cut {
    /// What is sent either way is lost, without a sign.
    Lost,
    /// The cable is pulled at the process's end.
    Pulled,
    /// All connections are closed, and new ones at once.
    Closed,
}

/// The state of relays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    /// Nothing is carried.
    Hole,
    Closed,
}

/// The cable of one process.
pub struct Link {
    /// Addresses of the relays as the process sees them, in the order of the targets.
    pub relays: Vec<SocketAddr>,
    /// The process's own address.
    pub own: std::net::Ipv4Addr,
    namespace: Option<Namespace>,
    gate: watch::Sender<Gate>,
    _tasks: JoinSet<()>,
}

/// Held by a process that only sleeps.
struct Namespace {
    holder: Child,
    device: String,
    outer: std::net::Ipv4Addr,
    inner: std::net::Ipv4Addr,
}

impl Link {
    /// Prefers a namespace, and gets along without where it is not demanded.
    pub async fn open(targets: &[Target]) -> Self {
        let namespace = Namespace::open().await;
        assert!(
            namespace.is_some() || std::env::var_os("FORGEHAND_TEST_ALL").is_none(),
            "no network namespace could be made: tests/run needs root and iproute2"
        );
        Self::lay(targets, namespace).await
    }

    /// Without a namespace in any case.
    pub async fn of_relays(targets: &[Target]) -> Self {
        Self::lay(targets, None).await
    }

    async fn lay(targets: &[Target], namespace: Option<Namespace>) -> Self {
        let local = std::net::Ipv4Addr::LOCALHOST;
        let outer = namespace.as_ref().map_or(local, |namespace| namespace.outer);
        let own = namespace.as_ref().map_or(local, |namespace| namespace.inner);
        let (gate, at_gate) = watch::channel(Gate::Open);
        let mut tasks = JoinSet::new();
        let mut relays = Vec::new();
        for target in targets {
            let listener = TcpListener::bind((outer, 0)).await.unwrap();
            relays.push(listener.local_addr().unwrap());
            tasks.spawn(relay(listener, target.clone(), at_gate.clone()));
        }
        Self {
            relays,
            own,
            namespace,
            gate,
            _tasks: tasks,
        }
    }

    /// The process that holds the namespace.
    pub fn network(&self) -> Option<u32> {
        self.namespace.as_ref().and_then(|namespace| namespace.holder.id())
    }

    /// Cuts it.
    pub async fn cut(&self, how: Cut) {
        match (how, &self.namespace) {
            (Cut::Closed, _) => self.set(Gate::Closed),
            (Cut::Lost | Cut::Pulled, None) => self.set(Gate::Hole),
            (Cut::Lost, Some(namespace)) => namespace.lose(true).await,
            (Cut::Pulled, Some(namespace)) => namespace.inside(&["link", "set", "eth0", "down"]).await,
        }
    }

    fn set(&self, gate: Gate) {
        self.gate.send_replace(gate);
    }

    /// Mends it.
    pub async fn heal(&self, how: Cut) {
        match (how, &self.namespace) {
            (Cut::Lost, Some(namespace)) => namespace.lose(false).await,
            (Cut::Pulled, Some(namespace)) => namespace.inside(&["link", "set", "eth0", "up"]).await,
            _ => self.set(Gate::Open),
        }
    }
}

impl Namespace {
    async fn open() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let holder = Command::new("unshare")
            .args(["--net", "sleep", "600"])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .ok()?;
        let id = holder.id()?;
        let own = std::fs::read_link("/proc/self/ns/net").ok()?;
        let begun = Instant::now();
        while std::fs::read_link(format!("/proc/{id}/ns/net")).ok()? == own {
            if begun.elapsed() > Duration::from_secs(5) {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        // Two test runs on one machine must not meet.
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let run = (std::process::id() % 250) as u8;
        let address = |last: u8| std::net::Ipv4Addr::new(10, 213, run, number * 4 + last);
        let namespace = Self {
            device: format!("fh{}x{number}", std::process::id()),
            outer: address(1),
            inner: address(2),
            holder,
        };
        let peer = id.to_string();
        let pair = [
            "link",
            "add",
            &namespace.device,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            &peer,
        ];
        if !ip(&pair).await {
            return None;
        }
        let (outer, inner) = (format!("{}/30", namespace.outer), format!("{}/30", namespace.inner));
        assert!(ip(&["addr", "add", &outer, "dev", &namespace.device]).await);
        assert!(ip(&["link", "set", &namespace.device, "up"]).await);
        namespace.inside(&["addr", "add", &inner, "dev", "eth0"]).await;
        namespace.inside(&["link", "set", "lo", "up"]).await;
        namespace.inside(&["link", "set", "eth0", "up"]).await;
        Some(namespace)
    }

    async fn inside(&self, arguments: &[&str]) {
        let net = format!("--net=/proc/{}/ns/net", self.holder.id().unwrap());
        let done = Command::new("nsenter")
            .arg(net)
            .arg("ip")
            .args(arguments)
            .status()
            .await;
        assert!(
            done.is_ok_and(|status| status.success()),
            "ip {arguments:?} in the namespace"
        );
    }

    /// Both ends send to a machine that is not there.
    async fn lose(&self, lost: bool) {
        let (outer, inner) = (self.outer.to_string(), self.inner.to_string());
        let nobody = ["lladdr", "02:00:00:00:00:99", "nud", "permanent"];
        let order = |to: &str, device: &str| {
            let verb = if lost { "replace" } else { "del" };
            let mut words = vec![
                "neigh".to_owned(),
                verb.to_owned(),
                to.to_owned(),
                "dev".to_owned(),
                device.to_owned(),
            ];
            if lost {
                words.extend(nobody.map(str::to_owned));
            }
            words
        };
        let outside = order(&inner, &self.device);
        let within = order(&outer, "eth0");
        assert!(ip(&outside.iter().map(String::as_str).collect::<Vec<_>>()).await);
        self.inside(&within.iter().map(String::as_str).collect::<Vec<_>>())
            .await;
    }
}

async fn ip(arguments: &[&str]) -> bool {
    let done = Command::new("ip").args(arguments).stderr(Stdio::null()).status().await;
    done.is_ok_and(|status| status.success())
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

async fn relay(listener: TcpListener, target: Target, gate: watch::Receiver<Gate>) {
    let mut carried = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((client, _)) = accepted {
                    carried.spawn(carry(client, target.clone(), gate.clone()));
                }
            }
            Some(_) = carried.join_next(), if !carried.is_empty() => {}
        }
    }
}

async fn carry(mut client: TcpStream, target: Target, mut gate: watch::Receiver<Gate>) {
    if !opens_in_time(&mut gate).await {
        return;
    }
    let server: std::io::Result<Box<dyn Stream>> = match target {
        Target::Unix(path) => UnixStream::connect(path)
            .await
            .map(|stream| Box::new(stream) as Box<dyn Stream>),
        Target::Tcp(address) => TcpStream::connect(address)
            .await
            .map(|stream| Box::new(stream) as Box<dyn Stream>),
    };
    let Ok(mut server) = server else { return };
    let _ = client.set_nodelay(true);
    let mut copying = pin!(copy_bidirectional(&mut client, &mut server));
    loop {
        tokio::select! {
            _ = &mut copying => return,
            changed = gate.changed() => {
                if changed.is_err() || !opens_in_time(&mut gate).await {
                    return;
                }
            }
        }
    }
}

/// Whether what waits at the gate may still pass.
async fn opens_in_time(gate: &mut watch::Receiver<Gate>) -> bool {
    let begun = Instant::now();
    let state = gate.wait_for(|state| *state != Gate::Hole).await.map(|state| *state);
    matches!(state, Ok(Gate::Open)) && begun.elapsed() < LIFE_OF_A_PACKET
}

/// One address in front of several receivers: each connection goes to the next of them, and none stays
/// with one that does not answer.
pub async fn balance(behind: Vec<SocketAddr>) -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut carried = JoinSet::new();
        for next in (0..behind.len()).cycle() {
            let Ok((mut client, _)) = listener.accept().await else {
                return;
            };
            let server = behind[next];
            carried.spawn(async move {
                let carry = async {
                    if let Ok(mut server) = TcpStream::connect(server).await {
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                };
                let _ = tokio::time::timeout(Duration::from_secs(2), carry).await;
            });
            while carried.try_join_next().is_some() {}
        }
    });
    (address, tasks)
}
