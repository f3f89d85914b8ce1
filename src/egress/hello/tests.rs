//! ClientHellos made by hand: whole, cut at every byte, in many records, with hidden and doubled
//! names.

use super::*;

fn field(length_bytes: usize, body: &[u8]) -> Vec<u8> {
    let length = body.len().to_be_bytes();
    [&length[length.len() - length_bytes..], body].concat()
}

fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &field(2, body)].concat()
}

fn sni(host: &str) -> Vec<u8> {
    let entry = [&[HOST_NAME][..], &field(2, host.as_bytes())].concat();
    extension(SERVER_NAME, &field(2, &entry))
}

/// The message of the handshake with these extensions.
fn message(extensions: &[Vec<u8>]) -> Vec<u8> {
    let body = [
        &[3, 3][..],
        &[7; 32],
        &field(1, &[9; 32]),
        &field(2, &[0x13, 0x01, 0x13, 0x02]),
        &field(1, &[0]),
        &field(2, &extensions.concat()),
    ]
    .concat();
    [&[CLIENT_HELLO][..], &field(3, &body)].concat()
}

/// A message in records of so many bytes.
fn records(message: &[u8], size: usize) -> Vec<u8> {
    let record = |part: &[u8]| [&[HANDSHAKE_RECORD, 3, 1][..], &field(2, part)].concat();
    message.chunks(size).flat_map(record).collect()
}

fn hello(extensions: &[Vec<u8>]) -> Vec<u8> {
    records(&message(extensions), 1 << 14)
}

fn named(host: &str) -> Peek {
    Peek::Name(Some(host.to_owned()))
}

#[test]
fn n07_the_name_is_read() {
    let other = extension(0x002b, &[2, 3, 4]);
    for extensions in [
        vec![sni("docs.rs")],
        vec![other.clone(), sni("docs.rs"), other.clone()],
        vec![sni("DOCS.rs")],
    ] {
        assert_eq!(peek(&hello(&extensions)), named("docs.rs"));
    }
    assert_eq!(peek(&hello(&[other])), Peek::Name(None));
    assert_eq!(peek(&hello(&[])), Peek::Name(None));
    let early = [hello(&[sni("docs.rs")]), vec![23, 3, 3, 0, 1, 0]].concat();
    assert_eq!(peek(&early), named("docs.rs"), "what follows does not matter");
}

#[test]
fn n07_a_part_is_never_enough() {
    let whole = hello(&[sni("docs.rs"), extension(0x0010, &[0; 40])]);
    for end in 0..whole.len() {
        assert_eq!(peek(&whole[..end]), Peek::More, "{end} bytes");
    }
    for size in [1, 2, 3, 5, 50] {
        let spread = records(&message(&[sni("docs.rs")]), size);
        assert_eq!(peek(&spread), named("docs.rs"), "in records of {size} bytes");
        for end in 0..spread.len() {
            assert_eq!(peek(&spread[..end]), Peek::More, "{end} bytes of records of {size}");
        }
    }
}

#[test]
fn n07_hidden_and_doubled_names_are_refused() {
    let refused = |extensions: &[Vec<u8>]| matches!(peek(&hello(extensions)), Peek::Refused(_));
    let ech = extension(ENCRYPTED_CLIENT_HELLO, &[0; 60]);
    assert!(refused(&[sni("docs.rs"), ech.clone()]) && refused(&[ech]));
    assert!(refused(&[sni("docs.rs"), extension(ENCRYPTED_SERVER_NAME, &[0; 60])]));
    assert!(refused(&[sni("docs.rs"), sni("evil.com")]), "two names");
    let entry = |host: &str| [&[HOST_NAME][..], &field(2, host.as_bytes())].concat();
    let two = extension(SERVER_NAME, &field(2, &[entry("docs.rs"), entry("evil.com")].concat()));
    assert!(refused(&[two]), "two entries");
    assert!(refused(&[sni("")]) && refused(&[sni("docs.rs\0.evil.com")]) && refused(&[sni("a b")]));
    assert!(
        refused(&[extension(SERVER_NAME, &[0, 200, 0])]),
        "a length beyond the end"
    );
}

#[test]
fn n09_what_is_not_tls_is_refused() {
    for bytes in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"SSH-2.0-OpenSSH\r\n",
        &[HANDSHAKE_RECORD, 2, 0],
        &[HANDSHAKE_RECORD, 3, 1, 0, 0],
        &[HANDSHAKE_RECORD, 3, 1, 0xff, 0xff],
        &[HANDSHAKE_RECORD, 3, 1, 0, 4, 2, 0, 0, 0],
        &[HANDSHAKE_RECORD, 3, 1, 0, 4, CLIENT_HELLO, 0xff, 0xff, 0xff],
        &[HANDSHAKE_RECORD, 3, 1, 0, 4, CLIENT_HELLO, 0, 0, 0],
    ] {
        assert!(matches!(peek(bytes), Peek::Refused(_)), "{bytes:?}");
    }
    let endless = records(&[&[CLIENT_HELLO, 0, 0x3f, 0xff][..], &[0; 1 << 14]].concat(), 1);
    assert!(
        matches!(peek(&endless[..MAX_BYTES]), Peek::Refused(_)),
        "one byte a record"
    );
}

#[test]
fn any_bytes_are_judged_without_a_panic() {
    let whole = hello(&[sni("docs.rs"), extension(0x0010, &[1; 20])]);
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            let _ = peek(&bytes);
        }
    }
}
