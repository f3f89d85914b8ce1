//! The facts of one file from its bytes: what may be parsed is parsed and asked one query, what may
//! not is still counted by its words. Called once for each blob the index has not seen. Never panics,
//! never goes down a tree by recursion, and never takes longer than it was given.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use super::facts::Facts;
use super::terms::terms;
use crate::language::{self, Language};

mod binding;
mod build;
mod declarator;
mod dialect;
mod embedded;
mod found;
mod import;
mod kind;
mod limit;
mod name;
mod query;
mod tree;

use limit::Limit;

#[cfg(test)]
mod tests;

/// Counts up when the same bytes give other facts; what was kept of them is made anew then.
pub const VERSION: u64 = 5;
/// A source file longer than this was generated or holds data; its words are still counted.
const MAX_PARSED_BYTES: usize = 1 << 20;
/// Words are counted up to here in every file.
const MAX_TEXT_BYTES: usize = 2 << 20;
/// One line of this length is minified code or data, and says nothing of structure.
const MAX_LINE_BYTES: usize = 16 << 10;
/// Code of people has lines of 30 to 60 bytes; the mean of minified code is in the hundreds.
const MAX_MEAN_LINE_BYTES: usize = 250;
/// Below this length even a strange file is parsed in no time.
const MIN_MINIFIED_BYTES: usize = 8 << 10;
/// Where a NUL byte tells that a file is not text, as Git does.
const BINARY_PROBE_BYTES: usize = 8_000;
/// A grammar that needs more of a core's time for one file has met something it was not made for. What
/// other programs do at the same time does not count: what is cut short is kept for good.
const PARSE_TIMEOUT: Duration = Duration::from_millis(500);

/// What a file gave.
#[derive(Debug, Clone, Default)]
pub struct Extracted {
    /// The language that its facts were read with.
    pub language: Option<&'static Language>,
    /// What is known of it.
    pub facts: Facts,
    /// Why less is known than could be.
    pub note: Option<String>,
}

/// The facts of a file. Its path only tells the language. Work on it ends at `until`; what is not
/// ready then is left out, with a note.
pub fn facts_of(path: &str, bytes: &[u8], until: Instant) -> Extracted {
    extracted(path, bytes, until, PARSE_TIMEOUT)
}

fn extracted(path: &str, bytes: &[u8], until: Instant, timeout: Duration) -> Extracted {
    if bytes[..bytes.len().min(BINARY_PROBE_BYTES)].contains(&0) {
        return Extracted {
            note: Some("binary".to_owned()),
            ..Extracted::default()
        };
    }
    let (kept, mut note) = match bytes.get(..MAX_TEXT_BYTES) {
        Some(kept) if kept.len() < bytes.len() => {
            (kept, Some(format!("words of the first {MAX_TEXT_BYTES} bytes only")))
        }
        _ => (bytes, None),
    };
    let text = text_of(kept);
    let mut facts = Facts {
        lines: lines_of(bytes),
        ..Facts::default()
    };
    let language = language::of_path(path).map(|language| dialect::refine(language, &text));
    if let Some(dialect) = language.and_then(dialect::of) {
        match unparsable(&text, bytes.len()) {
            Some(why) => note = Some(why),
            None => {
                // The first file of a language makes its query, which may take as long as a parse.
                let _ = dialect.compiled();
                let limit = Limit::new(until, timeout);
                note = tree::read(dialect, &text, limit, &mut facts).or(note);
            }
        }
    }
    (facts.units, facts.terms) = terms(&text, &facts.symbols);
    Extracted { language, facts, note }
}

fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

fn lines_of(bytes: &[u8]) -> u32 {
    let ends = memchr::memchr_iter(b'\n', bytes).count();
    let unfinished = bytes.last().is_some_and(|byte| *byte != b'\n');
    u32::try_from(ends + usize::from(unfinished)).unwrap_or(u32::MAX)
}

/// Why a file of a known language is not parsed.
fn unparsable(text: &str, bytes: usize) -> Option<String> {
    if bytes > MAX_PARSED_BYTES {
        return Some(format!("not parsed: longer than {MAX_PARSED_BYTES} bytes"));
    }
    if text.len() < MIN_MINIFIED_BYTES {
        return None;
    }
    let (mut lines, mut longest) = (0, 0);
    for line in text.split('\n') {
        lines += 1;
        longest = longest.max(line.len());
    }
    if longest > MAX_LINE_BYTES || text.len() / lines > MAX_MEAN_LINE_BYTES {
        return Some("not parsed: minified or generated".to_owned());
    }
    None
}
