//! The inner end of the way out of a sandbox that a server made elsewhere: a listener on the
//! sandbox's own loopback whose connections are carried to the service. The server's daemon knows no
//! input and only lines of text, so that what comes in lies in numbered files that the daemon writes,
//! and what goes out goes in lines of base64. A user of its own runs it, so that commands can
//! neither end nor read it. Never looks at what passes: the proxy judges, at the service.

use std::fs::File;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustix::process::DumpableBehavior;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::contained::LONGEST_HOLD;
use super::link::{End, Frame, Link, MAX_CONNECTIONS, Unread};
use super::spec::{Failure, Step};
use super::{PROXY_PORT, raw, remote};

/// Stage that carries the way out; the name of the folder with what comes in goes behind it.
pub(super) const CARRY: &str = "carry";

/// The user who carries.
pub(super) const CARRIER: u32 = 10_002;

/// Where the folders with what comes in are; only the daemon's user writes there.
pub(super) const WAYS: &str = "/run/forgehand/way";

/// First letter of a line that carries frames.
pub(super) const CARRIED: char = 'c';

/// Bytes in a line; daemons read lines into memory.
const LINE_BYTES: usize = 24 * 1024;

/// Files with what comes in; each is used again once it was read.
pub(super) const SLOTS: u32 = 8;

/// Frames in one file, without its head.
pub(super) const MAX_PIECE: usize = 256 * 1024;

/// Number and length of what stands in a file.
pub(super) const PIECE_HEAD: usize = 8;

/// How often one looks for the next file while there are connections, and while there are none.
const LOOK_SOON: Duration = Duration::from_millis(5);
const LOOK_LATER: Duration = Duration::from_millis(40);
/// While there is no descriptor for another connection, the next is asked for after so long.
const FULL_FOR: Duration = Duration::from_millis(50);

/// Carries until the service or the sandbox is gone.
pub(super) fn run(folder: Option<&str>) -> ExitCode {
    let carried = match folder {
        Some(name) if name.bytes().all(|byte| byte.is_ascii_hexdigit()) => carry(&Path::new(WAYS).join(name)),
        _ => Err(Failure::broken("the carrier is started by the service, not by hand")),
    };
    remote::ended(carried)
}

fn carry(folder: &Path) -> Result<(), Failure> {
    let prepare = || "prepare the way out".to_owned();
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).step(prepare)?;
    raw::close_all_on_exec().step(prepare)?;
    remote::look_around()?;
    let (link, outward) = Link::new(End::Inner);
    let (pieces, inward) = mpsc::channel(1);
    let is_busy = Arc::new(AtomicBool::new(false));
    let inbox = Inbox {
        folder: folder.to_owned(),
        is_busy: is_busy.clone(),
        until: Instant::now() + LONGEST_HOLD,
    };
    std::thread::spawn(move || inbox.pass_on(&pieces));
    std::thread::spawn(move || {
        if say(outward, std::io::stdout()).is_err() {
            // Nobody hears us any more.
            std::process::exit(1);
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .step(prepare)?;
    runtime.block_on(serve(link, inward, &is_busy))
}

async fn serve(
    mut link: Link,
    mut inward: mpsc::Receiver<(u32, Vec<u8>)>,
    is_busy: &AtomicBool,
) -> Result<(), Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PROXY_PORT))
        .await
        .step(|| "open the way to the proxy".to_owned())?;
    let out = link.out().clone();
    let lost = || Failure::broken("the way out was closed");
    out.send(Frame::Ready).await.map_err(|_| lost())?;
    let mut unread = Unread::default();
    loop {
        is_busy.store(link.count() > 0, Ordering::Relaxed);
        tokio::select! {
            accepted = listener.accept(), if link.count() < MAX_CONNECTIONS => match accepted {
                Ok((client, _)) => begin(&mut link, client).await.ok_or_else(lost)?,
                // Out of descriptors: let some connections end first.
                Err(_) => tokio::time::sleep(FULL_FOR).await,
            },
            piece = inward.recv() => {
                let (number, bytes) = piece.ok_or_else(lost)?;
                unread.push(&bytes);
                let wrong = |breach| Failure::broken(format!("what the service said makes no sense: {breach}"));
                while let Some(frame) = unread.next().map_err(wrong)? {
                    link.take(frame).map_err(wrong)?;
                }
                out.send(Frame::Read(number)).await.map_err(|_| lost())?;
            }
        }
    }
}

async fn begin(link: &mut Link, client: TcpStream) -> Option<()> {
    // Answers are small pieces that somebody waits for.
    let _ = client.set_nodelay(true);
    let (opening, joint) = link.begin()?;
    link.out().send(opening).await.ok()?;
    tokio::spawn(joint.pass(client));
    Some(())
}

/// Writes frames as they come, as many as there are in one line.
fn say(mut frames: mpsc::Receiver<Frame>, mut to: impl Write) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    while let Some(frame) = frames.blocking_recv() {
        frame.write(&mut bytes);
        while bytes.len() < LINE_BYTES
            && let Ok(frame) = frames.try_recv()
        {
            frame.write(&mut bytes);
        }
        for piece in bytes.chunks(LINE_BYTES) {
            let line = format!("{CARRIED}{}\n", BASE64_STANDARD.encode(piece));
            to.write_all(line.as_bytes())?;
            to.flush()?;
        }
        bytes.clear();
    }
    Ok(())
}

/// The files with what comes in.
struct Inbox {
    folder: PathBuf,
    is_busy: Arc<AtomicBool>,
    until: Instant,
}

impl Inbox {
    /// Passes on what comes, in its order.
    fn pass_on(&self, to: &mpsc::Sender<(u32, Vec<u8>)>) {
        let mut number: u32 = 1;
        while Instant::now() < self.until {
            let path = self.folder.join(slot(number));
            match File::open(path).ok().and_then(|file| piece(file, number)) {
                Some(bytes) => {
                    if to.blocking_send((number, bytes)).is_err() {
                        return;
                    }
                    number = number.wrapping_add(1);
                }
                None if self.is_busy.load(Ordering::Relaxed) => std::thread::sleep(LOOK_SOON),
                None => std::thread::sleep(LOOK_LATER),
            }
        }
    }
}

/// Name of the file in which a piece lies.
pub(super) fn slot(number: u32) -> String {
    (number % SLOTS).to_string()
}

/// The piece with this number, once it is there as a whole. A daemon empties a file and writes it
/// bit by bit; until then another one stands in it, or a part.
fn piece(file: impl Read, number: u32) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = u64::try_from(PIECE_HEAD + MAX_PIECE).unwrap_or(u64::MAX);
    file.take(most).read_to_end(&mut bytes).ok()?;
    let (found, rest) = bytes.split_first_chunk::<4>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let is_whole = u32::from_le_bytes(*found) == number && rest.len() == length;
    is_whole.then(|| rest.to_vec())
}

/// A piece as it lies in its file.
pub(super) fn packed(number: u32, frames: &[u8]) -> Vec<u8> {
    let length = u32::try_from(frames.len()).unwrap_or(u32::MAX);
    [&number.to_le_bytes()[..], &length.to_le_bytes(), frames].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_counts_once_it_is_whole_and_in_its_turn() {
        let whole = packed(9, b"frames");
        for length in 0..whole.len() {
            assert_eq!(piece(&whole[..length], 9), None, "{length}");
        }
        assert_eq!(piece(&whole[..], 9).as_deref(), Some(&b"frames"[..]));
        assert_eq!(piece(&whole[..], 17), None, "the one before in the same file");
        assert_eq!(slot(9), slot(17));
        let largest = packed(1, &vec![7; MAX_PIECE]);
        assert_eq!(piece(&largest[..], 1).map(|bytes| bytes.len()), Some(MAX_PIECE));
    }

    #[test]
    fn lines_carry_all_frames() {
        let (out, frames) = mpsc::channel(8);
        let large = Frame::Data(1, vec![3; super::super::link::MAX_DATA]);
        for frame in [Frame::Ready, large.clone(), large.clone(), Frame::Done(1)] {
            out.try_send(frame).expect("room");
        }
        drop(out);
        let mut lines = Vec::new();
        say(frames, &mut lines).expect("it writes");
        let mut unread = Unread::default();
        let mut found = Vec::new();
        for line in String::from_utf8(lines).expect("text").lines() {
            let base64 = line.strip_prefix(CARRIED).expect("our letter");
            let bytes = BASE64_STANDARD.decode(base64).expect("base64");
            assert!(bytes.len() <= LINE_BYTES);
            unread.push(&bytes);
            while let Some(frame) = unread.next().expect("sense") {
                found.push(frame);
            }
        }
        assert_eq!(found, [Frame::Ready, large.clone(), large, Frame::Done(1)]);
    }
}
