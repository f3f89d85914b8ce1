//! Brings up the loopback device of a new network namespace, so that test suites can talk to
//! servers that they start themselves. Called by the helper, before it gives up capabilities.
//! Never touches another device: there is none.

use std::io::Read;

use socket2::{Domain, Protocol, Socket, Type};

use super::spec::{Failure, Step};

const AF_NETLINK: i32 = 16;
const NETLINK_ROUTE: i32 = 0;
const RTM_NEWLINK: u16 = 16;
const NLM_F_REQUEST_ACK: u16 = 1 | 4;
const NLMSG_ERROR: u16 = 2;
const IFF_UP: u32 = 1;

/// The loopback device is the first one of every namespace.
const LOOPBACK_INDEX: i32 = 1;

/// Header (16 bytes) and the link message (16 bytes).
const MESSAGE_BYTES: u32 = 32;

pub(super) fn bring_up() -> Result<(), Failure> {
    let failed = || "bring up the loopback device".to_owned();
    let protocol = Protocol::from(NETLINK_ROUTE);
    let mut socket = Socket::new(Domain::from(AF_NETLINK), Type::RAW, Some(protocol)).step(failed)?;
    socket.send(&request()).step(failed)?;
    let mut answer = [0; 64];
    let length = socket.read(&mut answer).step(failed)?;
    let kind = u16::from_ne_bytes([answer[4], answer[5]]);
    let code = i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]);
    match (length >= 20 && kind == NLMSG_ERROR, code) {
        (true, 0) => Ok(()),
        (true, code) => Err(std::io::Error::from_raw_os_error(-code)).step(failed),
        (false, _) => Err(Failure::broken(
            "bring up the loopback device: no answer from the kernel",
        )),
    }
}

/// `RTM_NEWLINK` with the flag "up" set in flags and in the mask of changes.
fn request() -> Vec<u8> {
    let mut message = Vec::with_capacity(MESSAGE_BYTES as usize);
    message.extend(MESSAGE_BYTES.to_ne_bytes());
    message.extend(RTM_NEWLINK.to_ne_bytes());
    message.extend(NLM_F_REQUEST_ACK.to_ne_bytes());
    message.extend([0; 8]); // sequence, port
    message.extend([0; 4]); // family, padding, device type
    message.extend(LOOPBACK_INDEX.to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());
    message
}
