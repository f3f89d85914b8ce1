//! Connections of a sandbox elsewhere, carried over one stream in each direction: every connection
//! has a number and a window, and each end joins frames with sockets. The carrier inside and the
//! service use the same. Never holds more of a connection than its window, and never believes the
//! other end: whoever breaks a rule ends the link.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

mod frame;

pub(super) use frame::{Breach, Frame, MAX_DATA, Unread};

/// Connections that programs inside have at once; more wait until they are accepted. The proxy has
/// its own, lower limit.
pub(super) const MAX_CONNECTIONS: usize = 256;

/// Connections that the service takes at once. The inner end forgets one a moment before this end
/// does, so that there may be more for that moment.
const MOST_TAKEN: usize = 2 * MAX_CONNECTIONS;

/// Bytes of a connection on their way into the sandbox. The way there and back takes a tenth of a
/// second or two, and downloads are to be quick; the memory is the sandbox's.
const INWARD_WINDOW: usize = 1024 * 1024;

/// Bytes of a connection on their way out. The memory is the service's.
const OUTWARD_WINDOW: usize = 64 * 1024;

/// Frames that wait to be sent; whoever has more waits.
const MAX_WAITING: usize = 64;

/// Which end of the link this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// In the sandbox, where connections begin.
    Inner,
    /// At the service, which is not to believe the other.
    Outer,
}

impl End {
    const fn sends(self) -> usize {
        match self {
            Self::Inner => OUTWARD_WINDOW,
            Self::Outer => INWARD_WINDOW,
        }
    }

    const fn takes(self) -> usize {
        match self {
            Self::Inner => INWARD_WINDOW,
            Self::Outer => OUTWARD_WINDOW,
        }
    }
}

/// One end. When it is dropped, its connections break.
#[derive(Debug)]
pub(super) struct Link {
    end: End,
    out: mpsc::Sender<Frame>,
    table: Table,
    last: u32,
}

type Table = Arc<Mutex<HashMap<u32, Arc<Connection>>>>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What both the reader of frames and the task of a connection know of it.
#[derive(Debug)]
struct Connection {
    /// Bytes that the other end may send before it is told of more room.
    allowed: AtomicUsize,
    /// Bytes that this end may send.
    credit: Semaphore,
    inbox: Mutex<Inbox>,
    has_news: Notify,
    /// Broken at the other end, or the whole link is.
    gone: CancellationToken,
}

#[derive(Debug, Default)]
struct Inbox {
    /// One heap, so that many small frames take no more memory than a large one.
    bytes: Vec<u8>,
    is_done: bool,
}

/// What came on a connection since one looked.
enum News {
    Bytes(Vec<u8>),
    Done,
}

impl Connection {
    fn new(end: End) -> Self {
        Self {
            allowed: AtomicUsize::new(end.takes()),
            credit: Semaphore::new(end.sends()),
            inbox: Mutex::default(),
            has_news: Notify::new(),
            gone: CancellationToken::new(),
        }
    }

    fn tell(&self, change: impl FnOnce(&mut Inbox)) {
        change(&mut locked(&self.inbox));
        self.has_news.notify_one();
    }

    /// Only one task waits here.
    async fn news(&self) -> News {
        loop {
            {
                let mut inbox = locked(&self.inbox);
                if !inbox.bytes.is_empty() {
                    return News::Bytes(std::mem::take(&mut inbox.bytes));
                }
                if inbox.is_done {
                    return News::Done;
                }
            }
            self.has_news.notified().await;
        }
    }
}

/// A connection that is to be joined with a socket.
pub(super) struct Joint {
    number: u32,
    connection: Arc<Connection>,
    out: mpsc::Sender<Frame>,
    table: Table,
}

impl Link {
    /// With the queue of what this end sends.
    pub(super) fn new(end: End) -> (Self, mpsc::Receiver<Frame>) {
        let (out, waiting) = mpsc::channel(MAX_WAITING);
        let table = Table::default();
        let link = Self {
            end,
            out,
            table,
            last: 0,
        };
        (link, waiting)
    }

    /// Where this end's own frames go.
    pub(super) fn out(&self) -> &mpsc::Sender<Frame> {
        &self.out
    }

    /// Connections there are.
    pub(super) fn count(&self) -> usize {
        locked(&self.table).len()
    }

    /// Begins a connection; the other end is to be told before anything else is done with it.
    pub(super) fn begin(&mut self) -> Option<(Frame, Joint)> {
        let number = self.last.checked_add(1)?;
        self.last = number;
        Some((Frame::Open(number), self.joint(number)))
    }

    fn joint(&self, number: u32) -> Joint {
        let connection = Arc::new(Connection::new(self.end));
        locked(&self.table).insert(number, connection.clone());
        Joint {
            number,
            connection,
            out: self.out.clone(),
            table: self.table.clone(),
        }
    }

    /// Takes in what the other end says of connections; gives a connection that begins.
    pub(super) fn take(&mut self, frame: Frame) -> Result<Option<Joint>, Breach> {
        match frame {
            Frame::Open(number) => {
                if self.end == End::Inner || Some(number) != self.last.checked_add(1) {
                    return Err(Breach::new("a connection begins out of turn"));
                }
                if self.count() >= MOST_TAKEN {
                    return Err(Breach::new("more connections begin than there may be"));
                }
                self.last = number;
                return Ok(Some(self.joint(number)));
            }
            Frame::Data(number, data) => self.data(number, &data)?,
            Frame::Done(number) => {
                if let Some(connection) = self.find(number)? {
                    if locked(&connection.inbox).is_done {
                        return Err(Breach::new("a connection ends twice"));
                    }
                    connection.tell(|inbox| inbox.is_done = true);
                }
            }
            Frame::Gone(number) => {
                if let Some(connection) = self.find(number)? {
                    locked(&self.table).remove(&number);
                    connection.gone.cancel();
                }
            }
            Frame::Room(number, bytes) => {
                if let Some(connection) = self.find(number)? {
                    let more = usize::try_from(bytes).unwrap_or(usize::MAX);
                    if connection.credit.available_permits().saturating_add(more) > self.end.sends() {
                        return Err(Breach::new("a connection is given more room than there is"));
                    }
                    connection.credit.add_permits(more);
                }
            }
            Frame::Ready | Frame::Read(_) => return Err(Breach::new("a frame comes out of turn")),
        }
        Ok(None)
    }

    fn data(&self, number: u32, data: &[u8]) -> Result<(), Breach> {
        let Some(connection) = self.find(number)? else {
            return Ok(());
        };
        if locked(&connection.inbox).is_done {
            return Err(Breach::new("bytes come on a connection that has ended"));
        }
        // Only this end's task adds to it meanwhile.
        let allowed = connection.allowed.load(Ordering::Acquire);
        if data.len() > allowed {
            return Err(Breach::new("more bytes come on a connection than it has room for"));
        }
        connection.allowed.fetch_sub(data.len(), Ordering::AcqRel);
        connection.tell(|inbox| inbox.bytes.extend_from_slice(data));
        Ok(())
    }

    /// A connection that the other end may name. One that is over at this end already has none: what
    /// was on its way then counts for nothing.
    fn find(&self, number: u32) -> Result<Option<Arc<Connection>>, Breach> {
        if number > self.last {
            return Err(Breach::new("a connection is named that never began"));
        }
        Ok(locked(&self.table).get(&number).cloned())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for (_, connection) in locked(&self.table).drain() {
            connection.gone.cancel();
        }
    }
}

/// Where a connection broke.
enum Broken {
    Here,
    There,
}

impl Joint {
    /// Passes bytes in both directions until both have ended, or one end breaks.
    pub(super) async fn pass(self, socket: impl AsyncRead + AsyncWrite) {
        let (from, to) = tokio::io::split(socket);
        let both = async { tokio::try_join!(self.send(from), self.receive(to)) };
        let passed = self.connection.gone.run_until_cancelled(both).await;
        match passed.unwrap_or(Err(Broken::There)) {
            Ok(_) => self.forget(),
            Err(Broken::Here) => self.refuse().await,
            // It is forgotten already.
            Err(Broken::There) => {}
        }
    }

    /// Breaks it from this end.
    pub(super) async fn refuse(self) {
        self.forget();
        let _ = self.out.send(Frame::Gone(self.number)).await;
    }

    fn forget(&self) {
        locked(&self.table).remove(&self.number);
    }

    async fn say(&self, frame: Frame) -> Result<(), Broken> {
        self.out.send(frame).await.map_err(|_| Broken::There)
    }

    async fn send(&self, mut from: impl AsyncRead + Unpin) -> Result<(), Broken> {
        let credit = &self.connection.credit;
        loop {
            let most = credit.available_permits().clamp(1, MAX_DATA);
            let taken = credit.acquire_many(u32::try_from(most).unwrap_or(1)).await;
            taken.map_err(|_| Broken::There)?.forget();
            let mut block = vec![0; most];
            let length = from.read(&mut block).await.map_err(|_| Broken::Here)?;
            credit.add_permits(most - length);
            if length == 0 {
                return self.say(Frame::Done(self.number)).await;
            }
            block.truncate(length);
            self.say(Frame::Data(self.number, block)).await?;
        }
    }

    async fn receive(&self, mut to: impl AsyncWrite + Unpin) -> Result<(), Broken> {
        loop {
            match self.connection.news().await {
                News::Bytes(bytes) => {
                    to.write_all(&bytes).await.map_err(|_| Broken::Here)?;
                    self.connection.allowed.fetch_add(bytes.len(), Ordering::AcqRel);
                    let room = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                    self.say(Frame::Room(self.number, room)).await?;
                }
                News::Done => {
                    // The reader may be gone by now, which is as good.
                    let _ = to.shutdown().await;
                    return Ok(());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
