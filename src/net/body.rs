//! The text of a response: read up to a limit after decompression, and only if it is text. Called
//! by `net`. Never reads on behind the limit, however little came over the wire for it.

use axum::http;
use reqwest::{Response, header};

use super::{NetError, in_words};

/// Bytes of a body that tell whether it is text.
const SNIFFED_BYTES: usize = 8 * 1024;

/// What was read.
pub(super) struct Body {
    pub(super) media_type: String,
    pub(super) text: String,
    pub(super) is_cut: bool,
}

/// Reads a response.
pub(super) async fn read(mut response: Response, max_bytes: usize) -> Result<Body, NetError> {
    let content_type = response.headers().get(header::CONTENT_TYPE).cloned();
    let media_type = content_type
        .as_ref()
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    if !may_be_text(&media_type) {
        return Err(NetError::Failed(format!(
            "it is {}, not text",
            crate::text::cap_chars(&media_type, 60)
        )));
    }
    let mut bytes: Vec<u8> = Vec::new();
    let mut is_cut = false;
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => {
                let room = max_bytes - bytes.len();
                bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if chunk.len() > room {
                    is_cut = true;
                    break;
                }
            }
            Ok(None) => break,
            Err(error) => {
                return Err(NetError::Failed(format!("the answer broke off: {}", in_words(&error))));
            }
        }
    }
    drop(response);
    if !looks_like_text(&bytes) {
        return Err(NetError::Failed("it is not text, whatever it says it is".to_owned()));
    }
    let mut whole = http::Response::new(bytes);
    if let Some(value) = content_type {
        whole.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    // Decodes by the charset that the server names; wrong bytes become U+FFFD.
    let decoded = Response::from(whole).text().await;
    Ok(Body {
        media_type,
        text: decoded.map_err(|error| NetError::Failed(in_words(&error)))?,
        is_cut,
    })
}

/// Media types of text; one that says nothing is looked into.
fn may_be_text(media_type: &str) -> bool {
    let (kind, name) = media_type.split_once('/').unwrap_or((media_type, ""));
    match kind {
        "" | "text" => true,
        "application" => {
            name.ends_with("+json")
                || name.ends_with("+xml")
                || name.ends_with("+yaml")
                || matches!(
                    name,
                    "octet-stream"
                        | "json"
                        | "xml"
                        | "yaml"
                        | "x-yaml"
                        | "toml"
                        | "javascript"
                        | "x-javascript"
                        | "ecmascript"
                        | "x-ndjson"
                        | "x-sh"
                        | "graphql"
                        | "sql"
                )
        }
        _ => false,
    }
}

fn looks_like_text(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(SNIFFED_BYTES)];
    let is_wide = head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]);
    let is_known = [
        &b"%PDF-"[..],
        b"PK\x03\x04",
        b"\x1f\x8b",
        b"\x7fELF",
        b"\x89PNG",
        b"GIF8",
        b"\xff\xd8\xff",
    ]
    .iter()
    .any(|magic| head.starts_with(magic));
    let control = head
        .iter()
        .filter(|byte| **byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b))
        .count();
    is_wide || (!is_known && !head.contains(&0) && control * 20 <= head.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_known_by_its_type_and_by_its_bytes() {
        for kind in [
            "text/html",
            "application/json",
            "application/vnd.github+json",
            "",
            "application/octet-stream",
        ] {
            assert!(may_be_text(kind), "{kind}");
        }
        for kind in [
            "image/png",
            "image/svg+xml",
            "application/pdf",
            "application/zip",
            "video/mp4",
            "font/woff2",
        ] {
            assert!(!may_be_text(kind), "{kind}");
        }
        for bytes in [
            &b""[..],
            b"plain",
            "caf\u{e9}".as_bytes(),
            b"caf\xe9",
            b"\xff\xfeh\0i\0",
        ] {
            assert!(looks_like_text(bytes), "{bytes:?}");
        }
        for bytes in [&b"%PDF-1.7"[..], b"a\0b", b"\x1f\x8b\x08", b"\x01\x02\x03abc"] {
            assert!(!looks_like_text(bytes), "{bytes:?}");
        }
    }
}
