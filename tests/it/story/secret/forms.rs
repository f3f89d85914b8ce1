//! The forms in which a secret may leave: each is looked for in everything that leaves. Never a form
//! that ordinary text could hold by chance.

use std::io::Write as _;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};

/// How many kinds of form there are; the search for "in 12 encodings" holds at least as many.
pub const KINDS: usize = 15;

/// Every form, each with the name of its kind.
pub fn all(secret: &str) -> Vec<(&'static str, Vec<u8>)> {
    let hex = hex::encode(secret);
    let each = |form: fn(u8) -> String| secret.bytes().map(form).collect::<String>();
    let mut forms = vec![
        ("plain", secret.as_bytes().to_vec()),
        ("hex", hex.clone().into_bytes()),
        ("HEX", hex.to_uppercase().into_bytes()),
        ("hex with blanks", spaced(&hex).into_bytes()),
        ("URL escapes", each(|byte| format!("%{byte:02X}")).into_bytes()),
        ("backwards", secret.chars().rev().collect::<String>().into_bytes()),
        ("JSON escapes", each(|byte| format!("\\u{byte:04x}")).into_bytes()),
        ("entities of HTML", each(|byte| format!("&#{byte};")).into_bytes()),
        ("octal escapes", each(|byte| format!("\\{byte:03o}")).into_bytes()),
        ("rot13", secret.chars().map(rot13).collect::<String>().into_bytes()),
        (
            "UTF-16, low byte first",
            secret.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        ),
        (
            "UTF-16, high byte first",
            secret.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        ),
        ("gzip and base64", gzip_base64(secret)),
    ];
    for (kind, alphabet) in [("base64", &alphabet::STANDARD), ("base64 of URLs", &alphabet::URL_SAFE)] {
        let engine = GeneralPurpose::new(alphabet, NO_PAD);
        forms.extend((0..3).map(|offset| (kind, at_offset(&engine, secret, offset))));
    }
    forms
}

/// The part of base64 that does not depend on what stands before and after.
fn at_offset(engine: &GeneralPurpose, secret: &str, offset: usize) -> Vec<u8> {
    let bytes = [&b"\0\0"[..offset], secret.as_bytes()].concat();
    let coded = engine.encode(&bytes).into_bytes();
    let whole = bytes.len() * 8 / 6;
    let before = (offset * 8).div_ceil(6);
    coded[before..whole].to_vec()
}

fn spaced(hex: &str) -> String {
    let pairs: Vec<&str> = hex
        .as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).unwrap())
        .collect();
    pairs.join(" ")
}

fn rot13(c: char) -> char {
    let turn = |base: u8| char::from((c as u8 - base + 13) % 26 + base);
    match c {
        'a'..='z' => turn(b'a'),
        'A'..='Z' => turn(b'A'),
        other => other,
    }
}

/// What `printf SECRET | gzip -n | base64` prints, without the header that every such text has.
fn gzip_base64(secret: &str) -> Vec<u8> {
    let mut gzip = Command::new("gzip")
        .args(["-n", "-c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("gzip");
    gzip.stdin.take().unwrap().write_all(secret.as_bytes()).unwrap();
    let packed = gzip.wait_with_output().expect("gzip").stdout;
    let coded = base64::prelude::BASE64_STANDARD_NO_PAD.encode(packed).into_bytes();
    coded[16..].to_vec()
}

/// A search that finds nothing is worth something only if it would have found it: what usual programs
/// make of a secret is found by these forms.
#[test]
fn r03_what_programs_make_of_a_secret_is_found() {
    let secret = "model-key-0123456789abcdef~>?XYZ";
    let made = |line: &str| {
        let output = Command::new("bash")
            .args(["-c", line, "bash", secret])
            .output()
            .expect("bash");
        assert!(
            output.status.success(),
            "{line}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    };
    let forms = all(secret);
    let kinds: std::collections::BTreeSet<&str> = forms.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds.len(), KINDS);
    for (kind, line) in [
        ("plain", "printf 'a %s b' \"$1\""),
        ("base64", "printf %s \"$1\" | base64 -w0"),
        ("base64", "printf 'key=%s; and more' \"$1\" | base64 -w0"),
        ("base64", "printf 'the key=%s' \"$1\" | base64 -w0"),
        ("base64", "printf '%s, and more' \"xx$1\" | base64 -w0"),
        ("base64 of URLs", "printf %s \"$1\" | base64 -w0 | tr +/ -_"),
        ("hex", "printf %s \"$1\" | od -An -v -tx1 | tr -d ' \\n'"),
        ("HEX", "printf %s \"$1\" | od -An -v -tx1 | tr -d ' \\n' | tr a-f A-F"),
        ("hex with blanks", "printf %s \"$1\" | od -An -v -tx1 | tr -d '\\n'"),
        (
            "URL escapes",
            "printf %s \"$1\" | perl -pe 's/(.)/sprintf \"%%%02X\", ord $1/ge'",
        ),
        ("backwards", "printf %s \"$1\" | rev"),
        ("rot13", "printf %s \"$1\" | tr A-Za-z N-ZA-Mn-za-m"),
        ("UTF-16, low byte first", "printf %s \"$1\" | iconv -t UTF-16LE"),
        ("UTF-16, high byte first", "printf %s \"$1\" | iconv -t UTF-16BE"),
        ("gzip and base64", "printf %s \"$1\" | gzip -n | base64 -w0"),
        (
            "JSON escapes",
            "printf %s \"$1\" | perl -pe 's/(.)/sprintf \"\\\\u%04x\", ord $1/ge'",
        ),
        (
            "entities of HTML",
            "printf %s \"$1\" | perl -pe 's/(.)/\"&#\".ord($1).\";\"/ge'",
        ),
        (
            "octal escapes",
            "printf %s \"$1\" | perl -pe 's/(.)/sprintf \"\\\\%03o\", ord $1/ge'",
        ),
    ] {
        let found = forms.iter().filter(|(name, _)| *name == kind);
        let text = made(line);
        let is_found = found
            .map(|(_, form)| form)
            .any(|form| text.windows(form.len()).any(|window| window == form));
        assert!(is_found, "{kind}: {line}: {:?}", String::from_utf8_lossy(&text));
    }
}
