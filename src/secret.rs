//! Values that must not be seen: [`Secret`] never prints, and a [`Redactor`] takes live secrets
//! (and things that look like secrets) out of every text before it is stored, logged, shown to a
//! model or posted. Also the source of random bytes. Never decides where a secret may go.

use std::fmt;
use std::sync::{Arc, LazyLock, RwLock};

use base64::Engine as _;
use regex::Regex;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroize;

/// A credential. `Debug`, `Display` and serde print `***`; the memory is wiped on drop.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

impl Secret {
    /// Wraps a credential.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The credential itself. Each caller is a place where it leaves our hands: keep them few.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Length in bytes, for checks of minimum strength.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("***")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Secret)
    }
}

/// Random bytes from the operating system.
///
/// # Panics
/// When the operating system has no randomness to give, in which case nothing here is safe to run.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// `N` random bytes as lowercase hex, for tokens and fences.
pub fn random_hex<const N: usize>() -> String {
    hex::encode(random_bytes::<N>())
}

/// Shapes of well-known credentials. Git commit ids, UUIDs and lockfile hashes match none.
static SHAPES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?s)\bgh[opsur]_[A-Za-z0-9]{20,255}\b",
        r"|\bgithub_pat_[A-Za-z0-9_]{22,255}\b",
        r"|\bsk-[A-Za-z0-9_-]{20,255}",
        r"|\bxox[abprs]-[A-Za-z0-9-]{10,255}",
        r"|\bAKIA[A-Z0-9]{16}\b",
        r"|\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
        r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
        r"|\b(?:postgres(?:ql)?|mysql|amqp|redis)://[^\s:@/]+:[^\s@/]+@[^\s]+",
    ))
    .expect("the pattern is valid")
});

/// What stands where a secret stood.
pub const REDACTED: &str = "[redacted]";

/// Live secrets shorter than this are not searched for: they would hit ordinary words.
const MIN_SECRET_BYTES: usize = 8;

/// Shorter lines of a secret could be part of anything.
const MIN_LINE_BYTES: usize = 24;

/// At most this many passing secrets are remembered; the oldest (expired tokens) are forgotten.
const MAX_PASSING: usize = 512;

/// Replaces live secrets and credential-shaped text. Cheap to clone; all clones share the lists.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Secrets of the configuration, known for as long as the process lives.
    lasting: Arc<RwLock<Vec<Known>>>,
    /// Tokens that end by themselves.
    passing: Arc<RwLock<Vec<Known>>>,
}

impl Redactor {
    /// Adds a secret that lasts, with its base64, hex, URL-encoded and reversed forms. Of one with
    /// several lines, such as a key, each line is a secret.
    pub fn add(&self, secret: &Secret) {
        remember(&self.lasting, secret, usize::MAX);
        let lines = secret.expose().lines().map(str::trim);
        for line in lines.filter(|line| line.len() >= MIN_LINE_BYTES && !line.starts_with("-----")) {
            remember(&self.lasting, &Secret::new(line), usize::MAX);
        }
    }

    /// Adds a token that ends by itself; after some hundred more it is forgotten.
    pub fn add_passing(&self, secret: &Secret) {
        remember(&self.passing, secret, MAX_PASSING);
    }

    /// The text without secrets. Letters of a live secret count whatever their case.
    pub fn redact(&self, text: &str) -> String {
        let mut clean = SHAPES.replace_all(text, REDACTED).into_owned();
        let mut small = clean.to_ascii_lowercase();
        for list in [&self.lasting, &self.passing] {
            let live = list.read().unwrap_or_else(|poisoned| poisoned.into_inner());
            for form in live.iter().flat_map(|known| &known.forms) {
                if small.contains(form.expose()) {
                    clean = without(&clean, &small, form.expose());
                    small = clean.to_ascii_lowercase();
                }
            }
        }
        clean
    }

    /// How many bytes at the end of a text may be the beginning of a live secret of several words
    /// or of other letters than ASCII. (Of others, the word as a whole is one or is not.)
    pub fn begun_secret(&self, text: &str) -> usize {
        let mut longest = 0;
        for list in [&self.lasting, &self.passing] {
            let live = list.read().unwrap_or_else(|poisoned| poisoned.into_inner());
            let several = live.iter().flat_map(|known| &known.spelt).map(Secret::expose);
            for secret in several.filter(|secret| secret.contains(|c: char| c.is_whitespace() || !c.is_ascii())) {
                let starts = secret.char_indices().skip(1).map(|(at, _)| at);
                let begun = starts.filter(|at| text.ends_with(&secret[..*at])).max();
                longest = longest.max(begun.unwrap_or(0));
            }
        }
        longest
    }

    /// Whether the text holds a live secret in any of its forms.
    pub fn finds_live(&self, text: &str) -> bool {
        let small = text.to_ascii_lowercase();
        [&self.lasting, &self.passing].into_iter().any(|list| {
            let live = list.read().unwrap_or_else(|poisoned| poisoned.into_inner());
            let mut forms = live.iter().flat_map(|known| &known.forms);
            forms.any(|form| small.contains(form.expose()))
        })
    }
}

/// A live secret and how it may be written.
struct Known {
    /// As it is, forwards and backwards.
    spelt: [Secret; 2],
    /// Every form in small letters.
    forms: Vec<Secret>,
}

impl Known {
    fn of(secret: &Secret) -> Self {
        let plain = secret.expose();
        let backwards: String = plain.chars().rev().collect();
        let mut forms = vec![
            plain.to_owned(),
            backwards.clone(),
            hex::encode(plain),
            url::form_urlencoded::byte_serialize(plain.as_bytes()).collect(),
            plain.bytes().map(|b| format!("%{b:02x}")).collect(),
            plain.replace('/', "\\/"),
            serde_json::Value::from(plain).to_string().trim_matches('"').to_owned(),
        ];
        forms.extend((0..3).flat_map(|before| in_base64(plain.as_bytes(), before)));
        for form in &mut forms {
            form.make_ascii_lowercase();
        }
        forms.sort();
        forms.dedup();
        // Longest first: a form must not leave the ends of another that holds it.
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        Self {
            spelt: [secret.clone(), Secret::new(backwards)],
            forms: forms.into_iter().map(Secret::new).collect(),
        }
    }
}

/// Bytes in both alphabets of base64 as they stand behind so many other bytes: only the characters
/// that are theirs alone.
fn in_base64(bytes: &[u8], before: usize) -> [String; 2] {
    let padded = [&[0; 2][..before], bytes].concat();
    let own = (before * 8).div_ceil(6)..padded.len() * 8 / 6;
    let standard = base64::engine::general_purpose::STANDARD_NO_PAD.encode(&padded);
    let for_addresses = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(&padded);
    [standard[own.clone()].to_owned(), for_addresses[own].to_owned()]
}

/// The text without each place where a form stands; `small` is the same text in small letters.
fn without(text: &str, small: &str, form: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut at = 0;
    for (found, form) in small.match_indices(form) {
        clean.push_str(&text[at..found]);
        clean.push_str(REDACTED);
        at = found + form.len();
    }
    clean.push_str(&text[at..]);
    clean
}

fn remember(list: &RwLock<Vec<Known>>, secret: &Secret, at_most: usize) {
    if secret.len() < MIN_SECRET_BYTES {
        return;
    }
    let mut live = list.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    if live.iter().any(|known| known.spelt[0] == *secret) {
        return;
    }
    if live.len() >= at_most {
        live.remove(0);
    }
    live.push(Known::of(secret));
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r06_a_secret_never_prints() {
        let secret = Secret::new("hunter2-hunter2");
        assert_eq!(format!("{secret:?} {secret}"), "*** ***");
        assert_eq!(serde_json::to_string(&secret).unwrap(), "\"***\"");
    }

    #[test]
    fn r03_live_secrets_go_in_every_form() {
        let redactor = Redactor::default();
        redactor.add(&Secret::new("s3cr3t/value+1"));
        for form in [
            "s3cr3t/value+1",
            "czNjcjN0L3ZhbHVlKzE=",
            "7333637233742f76616c75652b31",
            "s3cr3t%2Fvalue%2B1",
            "1+eulav/t3rc3s",
            "S3CR3T/Value+1",
            "7333637233742F76616C75652B31",
            "%73%33%63%72%33%74%2F%76%61%6C%75%65%2B%31",
            r"s3cr3t\/value+1",
            // "x:s3cr3t/value+1" and "xy:s3cr3t/value+1" in base64
            "eDpzM2NyM3QvdmFsdWUrMQ",
            "eHk6czNjcjN0L3ZhbHVlKzE",
        ] {
            let text = format!("before {form} after");
            assert!(redactor.finds_live(&text), "{form}");
            assert!(!redactor.redact(&text).contains(form), "{form}");
        }
    }

    #[test]
    fn r04_a_line_of_a_key_is_a_secret() {
        let redactor = Redactor::default();
        let line = "MIIEpAIBAAKCAQEA0123456789abcdef";
        redactor.add(&Secret::new(format!(
            "-----BEGIN PRIVATE KEY-----\n{line}\nQQ==\n-----END PRIVATE KEY-----\n"
        )));
        assert_eq!(redactor.redact(&format!("x {line} y QQ==")), "x [redacted] y QQ==");
    }

    #[test]
    fn r05_credential_shapes_go_and_hashes_stay() {
        let redactor = Redactor::default();
        let token = format!("ghs_{}", "A".repeat(36));
        assert_eq!(redactor.redact(&format!("x {token} y")), "x [redacted] y");
        assert_eq!(redactor.redact("-----BEGIN RSA PRIVATE KEY-----\nabc"), REDACTED);
        assert_eq!(redactor.redact("postgres://u:pw@db/x"), REDACTED);
        let hash = "9fceb02c0f6d3c4b1a6f8e1f0d3c4b1a6f8e1f0d sha512-abcDEF123==";
        assert_eq!(redactor.redact(hash), hash);
    }
}
