//! The way out of a remote sandbox: its carrier is started there, and each connection that it
//! carries is joined here with the socket of the run's own proxy, while the sandbox keeps the
//! server's closed network. Called by `opensandbox` before and after each command.
//! Never lets a command start while the way is down, and never goes on with a carrier that broke
//! the rules.

use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::{Stream, StreamExt as _};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::execd::{Event, Execd, Source, User};
use super::server::CallError;
use super::stream::Remote;
use crate::sandbox::carrier::{CARRIED, CARRIER, CARRY, MAX_PIECE, PIECE_HEAD, SLOTS, WAYS, packed, slot};
use crate::sandbox::contained::LONGEST_HOLD;
use crate::sandbox::link::{Breach, End, Frame, Joint, Link, MAX_DATA, Unread};
use crate::sandbox::remote::SWEEP_WAY;
use crate::sandbox::root::EGRESS;
use crate::sandbox::{SandboxError, WayOut};
use crate::secret::random_hex;

/// Longest time until the carrier listens.
const LONGEST_START: Duration = Duration::from_secs(30);

/// Longest transfer of one piece; the daemon writes a quarter of a MiB at most.
const PIECE_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a run may lose its way and get another.
const MAX_OPENINGS: u32 = 20;

/// Kept of what a carrier says that is no frame.
const MAX_NOISE: usize = 500;

/// Room for a frame's head, so that a piece is never larger than it may be.
const FRAME_ROOM: usize = MAX_DATA + 16;

/// A run's way out.
#[derive(Debug)]
pub(super) struct Way {
    remote: Arc<Remote>,
    socket: PathBuf,
    /// As a helper inside is told of it.
    inner: WayOut,
    closing: CancellationToken,
    running: TaskTracker,
    standing: tokio::sync::Mutex<Standing>,
}

#[derive(Debug, Default)]
struct Standing {
    openings: u32,
    carrier: Option<Carrier>,
}

/// One carrier; how it ended stands here once it has.
type Carrier = Arc<OnceLock<Ending>>;

#[derive(Debug, Clone)]
enum Ending {
    /// The stream broke; another may be opened.
    Lost(String),
    /// What is in the sandbox does not keep to the rules.
    Breach(Breach),
    /// The run is over.
    Closed,
}

type Events = Pin<Box<dyn Stream<Item = Result<Event, CallError>> + Send>>;

impl Way {
    pub(super) fn new(remote: Arc<Remote>, way_out: &WayOut, closing: CancellationToken, running: TaskTracker) -> Self {
        let inner = WayOut {
            socket: EGRESS.into(),
            environment: way_out.environment.clone(),
            // They are there already.
            files: Vec::new(),
        };
        Self {
            remote,
            socket: way_out.socket.clone(),
            inner,
            closing,
            running,
            standing: tokio::sync::Mutex::default(),
        }
    }

    pub(super) fn inner(&self) -> &WayOut {
        &self.inner
    }

    /// Sees to it that the way stands. One that was lost is opened again.
    pub(super) async fn stand(&self) -> Result<(), SandboxError> {
        let mut standing = self.standing.lock().await;
        if let Some(carrier) = &standing.carrier {
            match carrier.get() {
                None => return Ok(()),
                Some(Ending::Breach(breach)) => return Err(broken(*breach)),
                Some(Ending::Lost(why)) if standing.openings >= MAX_OPENINGS => {
                    let words = format!("the sandbox's way out was lost {MAX_OPENINGS} times, the last time: {why}");
                    return Err(SandboxError::Broken(words));
                }
                Some(Ending::Lost(_) | Ending::Closed) => {}
            }
        }
        standing.openings += 1;
        let opened = tokio::time::timeout(LONGEST_START, self.open()).await;
        let opened = opened.unwrap_or_else(|_| Err("it takes too long".to_owned()));
        let carrier =
            opened.map_err(|why| SandboxError::Broken(format!("the way out does not open in the sandbox: {why}")))?;
        standing.carrier = Some(carrier);
        Ok(())
    }

    /// Whether the carrier has kept to the rules until now.
    pub(super) async fn is_kept(&self) -> Result<(), SandboxError> {
        match self
            .standing
            .lock()
            .await
            .carrier
            .as_ref()
            .and_then(|carrier| carrier.get())
        {
            Some(Ending::Breach(breach)) => Err(broken(*breach)),
            Some(Ending::Lost(_) | Ending::Closed) | None => Ok(()),
        }
    }

    /// Whether the carrier is gone and another is to be opened.
    pub(super) async fn is_lost(&self) -> bool {
        let standing = self.standing.lock().await;
        matches!(
            standing.carrier.as_ref().and_then(|carrier| carrier.get()),
            Some(Ending::Lost(_))
        )
    }

    async fn open(&self) -> Result<Carrier, String> {
        let execd = &self.remote.execd;
        let name = random_hex::<8>();
        let folder = format!("{WAYS}/{name}");
        // An earlier one may still hold the port.
        let sweep = self.remote.program.join(" ");
        let prepare = format!(
            "{sweep} {SWEEP_WAY} && rm -rf {WAYS} && mkdir -p -m 755 {WAYS} && mkdir -m 750 {folder} && chown \
             0:{CARRIER} {folder}"
        );
        execd.chore(&prepare).await.map_err(|error| error.words)?;
        let line = format!("{} {name} < /dev/null", self.remote.line(CARRY));
        let events = execd.command(&line, User::Ordinary(CARRIER), LONGEST_HOLD).await;
        let mut events: Events = Box::pin(events.map_err(|error| error.words)?);
        let (link, frames) = Link::new(End::Outer);
        let (acknowledged, read) = watch::channel(0);
        let (ready, is_ready) = oneshot::channel();
        let sent = Arc::new(AtomicU32::new(0));
        let mut outer = Outer {
            link,
            socket: self.socket.clone(),
            running: self.running.clone(),
            sent: sent.clone(),
            acknowledged,
            ready: Some(ready),
            unread: Unread::default(),
            noise: String::new(),
        };
        let pieces = Pieces {
            execd: execd.clone(),
            folder,
            frames,
            sent,
            read,
        };
        let carrier = Carrier::default();
        let (closing, kept) = (self.closing.clone(), carrier.clone());
        self.running.spawn(async move {
            let ending = tokio::select! {
                ending = outer.listen(&mut events) => ending,
                why = pieces.send() => Ending::Lost(why),
                () = closing.cancelled() => Ending::Closed,
            };
            match &ending {
                Ending::Lost(why) => {
                    tracing::warn!(why, "a sandbox's way out was lost; the next command opens another")
                }
                Ending::Breach(breach) => tracing::warn!(%breach, "a sandbox's way out broke the rules and is closed"),
                Ending::Closed => {}
            }
            let _ = kept.set(ending);
        });
        match is_ready.await {
            Ok(()) => Ok(carrier),
            Err(_) => Err(match carrier.get() {
                Some(Ending::Lost(why)) => why.clone(),
                Some(Ending::Breach(breach)) => breach.to_string(),
                Some(Ending::Closed) | None => "the run is over".to_owned(),
            }),
        }
    }
}

fn broken(breach: Breach) -> SandboxError {
    SandboxError::Broken(format!("the sandbox's way out broke the rules of its stream: {breach}"))
}

/// What listens to a carrier.
struct Outer {
    link: Link,
    /// Of the run's proxy.
    socket: PathBuf,
    running: TaskTracker,
    /// Pieces that were sent.
    sent: Arc<AtomicU32>,
    /// Pieces that were read there.
    acknowledged: watch::Sender<u32>,
    /// Told once the carrier listens.
    ready: Option<oneshot::Sender<()>>,
    unread: Unread,
    noise: String,
}

impl Outer {
    /// Takes in what comes until the stream ends. Never waits for anything else, so that neither end
    /// can bring the other to a halt.
    async fn listen(&mut self, events: &mut Events) -> Ending {
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error) => return Ending::Lost(error.words),
            };
            match event.kind.as_str() {
                "stdout" => {
                    for line in event.text.split('\n') {
                        if let Err(breach) = self.line(line) {
                            return Ending::Breach(breach);
                        }
                    }
                    // Tasks whose connections have ended are to come to their ends, too.
                    tokio::task::yield_now().await;
                }
                "stderr" => self.hear(&event.text),
                "execution_complete" => break,
                "error" => {
                    let code = event.error.map(|error| format!("({} {})", error.ename, error.evalue));
                    self.hear(&code.unwrap_or_default());
                    break;
                }
                _ => {}
            }
        }
        Ending::Lost(match self.noise.trim() {
            "" => "its stream has ended".to_owned(),
            noise => noise.to_owned(),
        })
    }

    fn hear(&mut self, noise: &str) {
        if self.noise.len() < MAX_NOISE && !noise.trim().is_empty() {
            self.noise.push_str(&crate::text::cap_chars(noise.trim(), MAX_NOISE));
            self.noise.push(' ');
        }
    }

    fn line(&mut self, line: &str) -> Result<(), Breach> {
        let Some(base64) = line.strip_prefix(CARRIED) else {
            self.hear(line);
            return Ok(());
        };
        let bytes = BASE64_STANDARD.decode(base64.trim_end());
        self.unread
            .push(&bytes.map_err(|_| Breach::new("a line is no base64"))?);
        while let Some(frame) = self.unread.next()? {
            self.frame(frame)?;
        }
        Ok(())
    }

    fn frame(&mut self, frame: Frame) -> Result<(), Breach> {
        match (frame, self.ready.is_some()) {
            (Frame::Ready, true) => {
                if let Some(ready) = self.ready.take() {
                    let _ = ready.send(());
                }
            }
            (_, true) => return Err(Breach::new("it speaks before it is ready")),
            (Frame::Read(number), false) => {
                let before = *self.acknowledged.borrow();
                if before.checked_add(1) != Some(number) || number > self.sent.load(Ordering::Acquire) {
                    return Err(Breach::new("it has read what was not sent"));
                }
                self.acknowledged.send_replace(number);
            }
            (other, false) => {
                if let Some(joint) = self.link.take(other)? {
                    self.running.spawn(joined(joint, self.socket.clone()));
                }
            }
        }
        Ok(())
    }
}

/// One connection from inside, as a connection of the run's proxy.
async fn joined(joint: Joint, socket: PathBuf) {
    match connect(&socket).await {
        Ok(proxy) => joint.pass(proxy).await,
        Err(error) => {
            tracing::debug!(%error, "the proxy of a run took no connection");
            joint.refuse().await;
        }
    }
}

/// The path may be longer than an address of a socket can be, so its folder is named by a descriptor.
async fn connect(socket: &Path) -> std::io::Result<UnixStream> {
    let missing = || std::io::Error::from(std::io::ErrorKind::NotFound);
    let (folder, name) = (
        socket.parent().ok_or_else(missing)?,
        socket.file_name().ok_or_else(missing)?,
    );
    let folder = tokio::fs::File::open(folder).await?;
    let short = Path::new("/proc/self/fd")
        .join(folder.as_raw_fd().to_string())
        .join(name);
    UnixStream::connect(short).await
}

/// What goes to a carrier: pieces in files that are used in turn.
struct Pieces {
    execd: Execd,
    folder: String,
    frames: mpsc::Receiver<Frame>,
    sent: Arc<AtomicU32>,
    read: watch::Receiver<u32>,
}

impl Pieces {
    /// Sends until it fails, and tells why.
    async fn send(mut self) -> String {
        let mut piece = Vec::new();
        let mut number: u32 = 0;
        while let Some(frame) = self.frames.recv().await {
            number = match number.checked_add(1) {
                Some(number) => number,
                None => break,
            };
            // A file is free once the piece before in it was read.
            let free = number.saturating_sub(SLOTS);
            if self.read.wait_for(|read| *read >= free).await.is_err() {
                break;
            }
            piece.clear();
            frame.write(&mut piece);
            while piece.len() + FRAME_ROOM <= MAX_PIECE
                && let Ok(frame) = self.frames.try_recv()
            {
                frame.write(&mut piece);
            }
            debug_assert!(piece.len() <= MAX_PIECE + PIECE_HEAD, "it fits into a file");
            self.sent.store(number, Ordering::Release);
            let path = format!("{}/{}", self.folder, slot(number));
            let sending = self.execd.upload(&path, 644, Source::Bytes(packed(number, &piece)));
            match tokio::time::timeout(PIECE_TIMEOUT, sending).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return error.words,
                Err(_) => return "the daemon takes nothing in".to_owned(),
            }
        }
        "nothing is left to send".to_owned()
    }
}
