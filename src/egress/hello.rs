//! The first words of TLS: which host a client names in its ClientHello (RFC 8446, RFC 6066). Called
//! by the tunnel before a byte goes on. Never decides by a part of a message, and never takes a
//! hidden name (ECH, ESNI) for no name.

/// Most bytes until the name is known. Keys against quantum computers take about two kilobytes.
pub(super) const MAX_BYTES: usize = 16 * 1024;

/// What the bytes so far say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Peek {
    /// They may yet become a ClientHello.
    More,
    /// A whole ClientHello, with the host it names.
    Name(Option<String>),
    /// Not what may pass.
    Refused(&'static str),
}

const HANDSHAKE_RECORD: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;
const ENCRYPTED_SERVER_NAME: u16 = 0xffce;
const HOST_NAME: u8 = 0;

/// Reads the beginning of a stream.
pub(super) fn peek(bytes: &[u8]) -> Peek {
    let message = match handshake(bytes) {
        Ok(message) => message,
        Err(why) => return Peek::Refused(why),
    };
    match message.first() {
        Some(&CLIENT_HELLO) => {}
        Some(_) => return Peek::Refused("it does not begin with a ClientHello"),
        None => return more(bytes),
    }
    let Some(length) = message.get(1..4) else {
        return more(bytes);
    };
    let length = usize::from(length[0]) << 16 | usize::from(length[1]) << 8 | usize::from(length[2]);
    if length > MAX_BYTES {
        return Peek::Refused("its ClientHello is too long");
    }
    match message.get(4..4 + length) {
        Some(hello) => name(hello).unwrap_or(Peek::Refused("its ClientHello is malformed")),
        None => more(bytes),
    }
}

fn more(bytes: &[u8]) -> Peek {
    match bytes.len() >= MAX_BYTES {
        true => Peek::Refused("its ClientHello is too long"),
        false => Peek::More,
    }
}

/// The handshake bytes of the records so far: a message may be spread over several.
fn handshake(mut bytes: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut message = Vec::new();
    while let Some((&kind, rest)) = bytes.split_first() {
        if kind != HANDSHAKE_RECORD {
            return Err("it is not TLS");
        }
        if rest.first().is_some_and(|major| *major != 3) {
            return Err("it is not TLS");
        }
        let Some(length) = rest.get(2..4) else {
            return Ok(message);
        };
        let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
        if length == 0 || length > 1 << 14 {
            return Err("a record of TLS has an impossible length");
        }
        let body = &rest[4..];
        if body.len() < length {
            message.extend_from_slice(body);
            return Ok(message);
        }
        message.extend_from_slice(&body[..length]);
        bytes = &body[length..];
        if is_complete(&message) {
            break;
        }
    }
    Ok(message)
}

fn is_complete(message: &[u8]) -> bool {
    let length = message.get(1..4);
    length.is_some_and(|l| message.len() >= 4 + (usize::from(l[0]) << 16 | usize::from(l[1]) << 8 | usize::from(l[2])))
}

/// The host that a ClientHello names; `None` when it is malformed.
fn name(hello: &[u8]) -> Option<Peek> {
    let mut rest = hello.get(2 + 32..)?; // version, random
    take(&mut rest, 1)?; // session
    take(&mut rest, 2)?; // cipher suites
    take(&mut rest, 1)?; // compression
    if rest.is_empty() {
        return Some(Peek::Name(None));
    }
    let mut extensions = take(&mut rest, 2)?;
    if !rest.is_empty() {
        return None;
    }
    let mut found = None;
    while !extensions.is_empty() {
        let (kind, tail) = extensions.split_at_checked(2)?;
        let kind = u16::from_be_bytes([kind[0], kind[1]]);
        extensions = tail;
        let body = take(&mut extensions, 2)?;
        match kind {
            ENCRYPTED_CLIENT_HELLO | ENCRYPTED_SERVER_NAME => {
                return Some(Peek::Refused("it hides the host that it names (encrypted ClientHello)"));
            }
            SERVER_NAME if found.is_some() => return None,
            SERVER_NAME => found = Some(server_name(body)?),
            _ => {}
        }
    }
    Some(Peek::Name(found))
}

/// The one entry of the list of names.
fn server_name(mut body: &[u8]) -> Option<String> {
    let mut list = take(&mut body, 2)?;
    let (kind, tail) = list.split_first()?;
    list = tail;
    let host = take(&mut list, 2)?;
    let is_name = *kind == HOST_NAME && !host.is_empty() && host.iter().all(u8::is_ascii_graphic);
    (is_name && body.is_empty() && list.is_empty()).then(|| String::from_utf8_lossy(host).to_ascii_lowercase())
}

/// Takes a field that is preceded by its length in so many bytes.
fn take<'b>(bytes: &mut &'b [u8], length_bytes: usize) -> Option<&'b [u8]> {
    let (length, rest) = bytes.split_at_checked(length_bytes)?;
    let length = length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let (field, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some(field)
}

#[cfg(test)]
mod tests;
