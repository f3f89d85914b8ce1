//! Stands between the service and PostgreSQL, reads the messages of both sides, and breaks things
//! at a chosen one. Called by the stories of database faults. Never changes a message.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forgehand::secret::Secret;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

/// What PostgreSQL calls its socket, for the default port.
const SOCKET: &str = ".s.PGSQL.5432";
/// What a client asks before it speaks, where it would rather speak TLS.
const WANTS_TLS: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection breaks before a message of the service reaches the server.
    Drop,
    /// It breaks right behind it.
    DropBehind,
    /// The server commits, and the connection breaks before the service hears of it.
    LoseCommit,
    /// A message takes that long.
    Stall(Duration),
}

/// The proxy of one database.
pub struct Proxy {
    folder: tempfile::TempDir,
    shared: Arc<Shared>,
    _accepting: AbortOnDropHandle<()>,
}

struct Shared {
    state: Mutex<State>,
}

struct State {
    target: PathBuf,
    /// At this many messages (or commits) from now.
    armed: Option<(u64, Fault)>,
    acted: u64,
    messages: u64,
    commits: u64,
    /// Ends all connections of now.
    cut: CancellationToken,
    is_open: bool,
}

impl Proxy {
    /// Listens in a folder of its own.
    pub fn open(database: &Secret) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                target: socket_of(database),
                armed: None,
                acted: 0,
                messages: 0,
                commits: 0,
                cut: CancellationToken::new(),
                is_open: true,
            }),
        });
        let accepting = accept(listener, shared.clone());
        Self {
            folder,
            shared,
            _accepting: AbortOnDropHandle::new(tokio::spawn(accepting)),
        }
    }

    /// The same database's address, through here.
    pub fn address(&self, database: &Secret) -> Secret {
        with_host(database, self.folder.path())
    }

    /// From now on, at the `nth` message of the service, or commit where a commit is lost.
    pub fn arm(&self, nth: u64, fault: Fault) {
        let mut state = self.shared.state.lock().unwrap();
        state.acted = 0;
        state.armed = Some((nth.max(1), fault));
    }

    /// Nothing more happens. Whether it did.
    pub fn disarm(&self) -> bool {
        let mut state = self.shared.state.lock().unwrap();
        state.armed = None;
        state.acted > 0
    }

    /// Messages and commits of the service so far.
    pub fn seen(&self) -> (u64, u64) {
        let state = self.shared.state.lock().unwrap();
        (state.messages, state.commits)
    }

    /// Ends all connections and takes no new ones.
    pub fn close(&self) {
        let mut state = self.shared.state.lock().unwrap();
        state.is_open = false;
        std::mem::take(&mut state.cut).cancel();
    }

    /// Takes connections again, for the server of that address.
    pub fn lead_to(&self, database: &Secret) {
        let mut state = self.shared.state.lock().unwrap();
        state.target = socket_of(database);
        state.is_open = true;
    }
}

/// The address of the same database on a server whose socket is in another folder.
pub fn with_host(database: &Secret, folder: &Path) -> Secret {
    let mut url: Url = database.expose().parse().unwrap();
    let pairs: Vec<(String, String)> = url
        .query_pairs()
        .map(|(key, value)| match &*key {
            "host" => (key.into_owned(), folder.display().to_string()),
            _ => (key.into_owned(), value.into_owned()),
        })
        .collect();
    assert!(pairs.iter().any(|(key, _)| key == "host"), "the cluster is on a socket");
    url.query_pairs_mut().clear().extend_pairs(pairs);
    Secret::new(url.as_str())
}

fn socket_of(database: &Secret) -> PathBuf {
    let url: Url = database.expose().parse().unwrap();
    let (_, folder) = url.query_pairs().find(|(key, _)| key == "host").expect("a socket");
    Path::new(&*folder).join(SOCKET)
}

async fn accept(listener: UnixListener, shared: Arc<Shared>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        let (target, cut) = {
            let state = shared.state.lock().unwrap();
            if !state.is_open {
                continue;
            }
            (state.target.clone(), state.cut.clone())
        };
        let shared = shared.clone();
        tokio::spawn(async move {
            if let Ok(server) = UnixStream::connect(target).await {
                tokio::select! {
                    () = cut.cancelled() => {}
                    _ = pass(client, server, &shared) => {}
                }
            }
        });
    }
}

/// Ends with either side.
async fn pass(client: UnixStream, server: UnixStream, shared: &Shared) -> std::io::Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    let mut begin = packet(&mut from_client).await?;
    if begin == WANTS_TLS {
        to_client.write_all(b"N").await?;
        begin = packet(&mut from_client).await?;
    }
    to_server.write_all(&begin).await?;
    tokio::select! {
        ended = forth(from_client, to_server, shared) => ended,
        ended = back(from_server, to_client, shared) => ended,
    }
}

/// The first packet has a length and no type.
async fn packet(from: &mut OwnedReadHalf) -> std::io::Result<Vec<u8>> {
    let mut whole = vec![0; 4];
    from.read_exact(&mut whole).await?;
    let length = u32::from_be_bytes([whole[0], whole[1], whole[2], whole[3]]) as usize;
    whole.resize(length.max(4), 0);
    from.read_exact(&mut whole[4..]).await?;
    Ok(whole)
}

async fn message(from: &mut OwnedReadHalf) -> std::io::Result<Vec<u8>> {
    let mut whole = vec![0; 5];
    from.read_exact(&mut whole).await?;
    let length = u32::from_be_bytes([whole[1], whole[2], whole[3], whole[4]]) as usize;
    whole.resize(length + 1, 0);
    from.read_exact(&mut whole[5..]).await?;
    Ok(whole)
}

async fn forth(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: &Shared) -> std::io::Result<()> {
    loop {
        let message = message(&mut from).await?;
        match shared.count(|state| &mut state.messages, |fault| fault != Fault::LoseCommit) {
            None | Some(Fault::LoseCommit) => to.write_all(&message).await?,
            Some(Fault::Drop) => return Ok(()),
            Some(Fault::DropBehind) => return to.write_all(&message).await,
            Some(Fault::Stall(time)) => {
                tokio::time::sleep(time).await;
                to.write_all(&message).await?;
            }
        }
    }
}

async fn back(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: &Shared) -> std::io::Result<()> {
    loop {
        let message = message(&mut from).await?;
        let committed = message[0] == b'C' && message[5..].starts_with(b"COMMIT");
        if committed
            && shared
                .count(|state| &mut state.commits, |fault| fault == Fault::LoseCommit)
                .is_some()
        {
            return Ok(());
        }
        to.write_all(&message).await?;
    }
}

impl Shared {
    /// Counts one, and says what happens at it.
    fn count(&self, counter: impl Fn(&mut State) -> &mut u64, is_due: impl Fn(Fault) -> bool) -> Option<Fault> {
        let mut state = self.state.lock().unwrap();
        *counter(&mut state) += 1;
        let (left, fault) = state.armed.as_mut().filter(|(_, fault)| is_due(*fault))?;
        *left -= 1;
        if *left > 0 {
            return None;
        }
        let fault = *fault;
        state.armed = None;
        state.acted += 1;
        Some(fault)
    }
}
