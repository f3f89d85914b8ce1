//! Patches as models write them: the `*** Begin Patch` envelope and unified diffs, read tolerantly,
//! and placed in a file by their lines, not by their numbers. Called by `apply_patch`. Pure.
//! Never guesses between two places, and never lets a path out of the workspace.

use std::fmt::Write as _;

use super::relative;

mod envelope;
mod place;
mod unified;

pub(super) use place::apply;

/// What a patch does to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilePatch {
    /// The file, relative to the workspace.
    pub(super) path: String,
    pub(super) change: Change,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// Makes a file with this content.
    Add(String),
    /// Removes it. What hunks say must be all of it.
    Delete(Vec<Hunk>),
    /// Changes it, and may give it another name.
    Update { move_to: Option<String>, hunks: Vec<Hunk> },
}

/// A piece of a patch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Hunk {
    /// Lines that stand somewhere before it, from the outer to the inner.
    pub(super) anchors: Vec<String>,
    /// Line of the old file where it is said to begin, from 1.
    pub(super) near: Option<usize>,
    /// It is said to reach to the end of the file.
    pub(super) at_end: bool,
    pub(super) lines: Vec<Line>,
    /// Its old side ends without a line end, and its new side.
    pub(super) unterminated: (bool, bool),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) kind: Kind,
    pub(super) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Context,
    Remove,
    Add,
}

/// Most files of one patch.
const MAX_FILES: usize = 200;

/// Most hunks of one patch.
const MAX_HUNKS: usize = 2_000;

/// How a patch looks, for a model that wrote something else.
const EXAMPLE: &str = "*** Begin Patch\n*** Update File: src/app.py\n@@ def greet():\n-    print(\"Hi\")\n\
                       +    print(\"Hello\")\n*** End Patch";

/// Reads a patch in either form.
pub(super) fn parse(text: &str) -> Result<Vec<FilePatch>, String> {
    let text = unified_line_ends(text);
    let files = if envelope::is_envelope(&text) {
        envelope::parse(&text)?
    } else if unified::is_unified(&text) {
        unified::parse(&text)?
    } else {
        return Err(format!(
            "this is neither a patch in the `*** Begin Patch` form nor a unified diff; it looks like this:\n{EXAMPLE}"
        ));
    };
    let hunks: usize = files.iter().map(|file| file.hunks().len()).sum();
    match files.len() {
        0 => Err(format!("the patch names no file; it looks like this:\n{EXAMPLE}")),
        count if count > MAX_FILES || hunks > MAX_HUNKS => Err(format!(
            "the patch has {count} files and {hunks} hunks; at most {MAX_FILES} and {MAX_HUNKS} are taken at once"
        )),
        _ => Ok(files),
    }
}

impl FilePatch {
    pub(super) fn hunks(&self) -> &[Hunk] {
        match &self.change {
            Change::Add(_) => &[],
            Change::Delete(hunks) | Change::Update { hunks, .. } => hunks,
        }
    }
}

/// A patch written with CRLF throughout means lines; a single CR, as in a name, stays to be seen.
/// One line with `\n` spelt out was escaped once too often.
fn unified_line_ends(text: &str) -> String {
    let line_ends = text.matches('\n').count();
    if line_ends == 0 && text.contains("\\n") {
        return text.replace("\\n", "\n").replace("\\t", "\t").replace("\\\"", "\"");
    }
    let with_cr = text.matches("\r\n").count();
    if with_cr > 0 && with_cr + 1 >= line_ends {
        text.replace("\r\n", "\n")
    } else {
        text.to_owned()
    }
}

/// A path of a patch, or why it is refused.
fn clean_path(raw: &str) -> Result<String, String> {
    let path = raw.trim_matches([' ', '\t']);
    let path = match path.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')) {
        Some(inner) => inner,
        None => path,
    };
    if path.chars().any(char::is_control) {
        return Err(format!("{path:?} has a control character in its name"));
    }
    let path = relative(path);
    let path = path.trim_start_matches("./");
    if path.is_empty() || path.ends_with('/') {
        return Err(format!("{raw:?} names no file"));
    }
    if path.starts_with('/') || path.split('/').any(|part| part == "..") {
        return Err(format!(
            "{path} is outside the workspace; paths are relative to its root"
        ));
    }
    if path.split('/').any(|part| part.eq_ignore_ascii_case(".git")) {
        return Err(format!("{path} lies in a .git folder, which only git may write"));
    }
    Ok(path.to_owned())
}

/// The words after `@@`: line numbers of a unified diff, or lines to look for.
fn read_header(line: &str, hunk: &mut Hunk) {
    let words = line.trim_start_matches('@').trim_end();
    if let Some((old, _)) = unified::ranges(line) {
        hunk.near = Some(old.first);
        return;
    }
    let words = words.strip_suffix("@@").unwrap_or(words);
    let words = words.strip_prefix(' ').unwrap_or(words).trim_end();
    if !words.trim().is_empty() {
        hunk.anchors.push(words.to_owned());
    }
}

/// A line of a hunk. Without one of the three marks it can only be context (a model forgot the
/// space), and an empty line is an empty line.
fn read_line(line: &str) -> Line {
    let (kind, text) = match line.as_bytes().first() {
        Some(b'+') => (Kind::Add, &line[1..]),
        Some(b'-') => (Kind::Remove, &line[1..]),
        Some(b' ') => (Kind::Context, &line[1..]),
        _ => (Kind::Context, line),
    };
    Line {
        kind,
        text: text.to_owned(),
    }
}

/// A path quoted as git quotes it.
fn unquoted(path: &str) -> String {
    let Some(inner) = path.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return path.to_owned();
    };
    let mut bytes = Vec::new();
    let mut rest = inner.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let (byte, used) = match (byte, tail.first()) {
            (b'\\', Some(b'n')) => (b'\n', 2),
            (b'\\', Some(b't')) => (b'\t', 2),
            (b'\\', Some(b'r')) => (b'\r', 2),
            (b'\\', Some(b'0'..=b'7')) => octal(tail).map_or((byte, 1), |byte| (byte, 4)),
            (b'\\', Some(&escaped)) => (escaped, 2),
            _ => (byte, 1),
        };
        bytes.push(byte);
        rest = &rest[used..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn octal(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits.get(..3)?).ok()?;
    u8::from_str_radix(digits, 8).ok()
}

/// Line numbers in words, not too many of them.
fn named(lines: impl ExactSizeIterator<Item = usize>) -> String {
    const MOST: usize = 20;
    let total = lines.len();
    let mut words = String::new();
    for (at, line) in lines.take(MOST).enumerate() {
        let _ = write!(words, "{}{line}", if at > 0 { ", " } else { "" });
    }
    if total > MOST {
        words.push_str(", …");
    }
    words
}

#[cfg(test)]
mod tests;
