//! What the two ends of a link say to each other: small frames with a kind, a connection and a
//! number each, and bytes behind those that carry some. Called by `link` and by both ends.
//! Never reads a frame that is larger than it may be, and never guesses what a wrong one means.

/// Kind, connection and number.
const HEAD_BYTES: usize = 9;

/// Most bytes of a connection in one frame.
pub(in crate::sandbox) const MAX_DATA: usize = 16 * 1024;

/// One message; connections have numbers from one on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::sandbox) enum Frame {
    /// The inner end listens. Comes once, before everything else.
    Ready,
    /// The inner end has read the piece with this number.
    Read(u32),
    /// A program inside connected.
    Open(u32),
    /// Bytes of a connection, never none.
    Data(u32, Vec<u8>),
    /// The sender has nothing more to say on this connection.
    Done(u32),
    /// The connection is broken at the sender's end.
    Gone(u32),
    /// So many more bytes of the connection may be sent.
    Room(u32, u32),
}

/// Why a link cannot go on: the other end broke the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sandbox) struct Breach(pub(super) &'static str);

impl std::fmt::Display for Breach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl Breach {
    pub(in crate::sandbox) const fn new(what: &'static str) -> Self {
        Self(what)
    }
}

impl Frame {
    /// Puts it behind what is there.
    pub(in crate::sandbox) fn write(&self, to: &mut Vec<u8>) {
        let (kind, connection, number, data): (u8, u32, u32, &[u8]) = match self {
            Self::Ready => (b'R', 0, 0, &[]),
            Self::Read(piece) => (b'A', 0, *piece, &[]),
            Self::Open(connection) => (b'O', *connection, 0, &[]),
            Self::Data(connection, data) => {
                let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
                (b'D', *connection, length, data)
            }
            Self::Done(connection) => (b'E', *connection, 0, &[]),
            Self::Gone(connection) => (b'G', *connection, 0, &[]),
            Self::Room(connection, bytes) => (b'W', *connection, *bytes, &[]),
        };
        to.push(kind);
        to.extend_from_slice(&connection.to_le_bytes());
        to.extend_from_slice(&number.to_le_bytes());
        to.extend_from_slice(data);
    }
}

/// Bytes that came and are no whole frame yet.
#[derive(Debug, Default)]
pub(in crate::sandbox) struct Unread {
    bytes: Vec<u8>,
    at: usize,
}

impl Unread {
    /// Bytes that are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(in crate::sandbox) fn push(&mut self, bytes: &[u8]) {
        // What was read goes now, so that no more than one frame is kept over.
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next frame, if it is there as a whole. Is to be called until there is none before more
    /// bytes are pushed.
    pub(in crate::sandbox) fn next(&mut self) -> Result<Option<Frame>, Breach> {
        let rest = &self.bytes[self.at..];
        let Some((head, behind)) = rest.split_first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let [kind, c0, c1, c2, c3, n0, n1, n2, n3] = *head;
        let connection = u32::from_le_bytes([c0, c1, c2, c3]);
        let number = u32::from_le_bytes([n0, n1, n2, n3]);
        let frame = match (kind, connection, number) {
            (b'R', 0, 0) => Frame::Ready,
            (b'A', 0, 1..) => Frame::Read(number),
            (b'O', 1.., 0) => Frame::Open(connection),
            (b'E', 1.., 0) => Frame::Done(connection),
            (b'G', 1.., 0) => Frame::Gone(connection),
            (b'W', 1.., 1..) => Frame::Room(connection, number),
            (b'D', 1.., 1..) => {
                let length = usize::try_from(number).unwrap_or(usize::MAX);
                if length > MAX_DATA {
                    return Err(Breach("a frame is larger than it may be"));
                }
                let Some(data) = behind.get(..length) else {
                    return Ok(None);
                };
                let frame = Frame::Data(connection, data.to_vec());
                self.at += length;
                frame
            }
            _ => return Err(Breach("a frame makes no sense")),
        };
        self.at += HEAD_BYTES;
        Ok(Some(frame))
    }
}
