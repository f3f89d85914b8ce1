//! Unified diffs, plain or as git writes them. Called by `patch`. Never trusts the numbers in a
//! header: they only say which of several places is meant.

use super::{Change, FilePatch, Hunk, Kind, clean_path, read_header, read_line, unquoted};

const NOTHING: &str = "/dev/null";

/// One side of a hunk's header.
pub(super) struct Range {
    pub(super) first: usize,
    pub(super) count: usize,
}

pub(super) fn is_unified(text: &str) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    lines.iter().any(|line| line.starts_with("diff --git ")) || (0..lines.len()).any(|at| is_header(&lines, at))
}

/// `--- a`, `+++ b`, and then a hunk or nothing.
fn is_header(lines: &[&str], at: usize) -> bool {
    let line = |at: usize| lines.get(at).copied();
    line(at).is_some_and(|line| line.starts_with("--- "))
        && line(at + 1).is_some_and(|line| line.starts_with("+++ "))
        && line(at + 2).is_none_or(|line| line.starts_with("@@") || line.trim().is_empty())
}

/// The two sides of `@@ -1,2 +3 @@`; a length left out is 1.
pub(super) fn ranges(line: &str) -> Option<(Range, Range)> {
    let mut words = line.trim_start_matches('@').split_whitespace();
    let mut side = |mark: char| {
        let word = words.next()?.strip_prefix(mark)?;
        let (first, count) = word.split_once(',').unwrap_or((word, "1"));
        Some(Range {
            first: first.parse().ok()?,
            count: count.parse().ok()?,
        })
    };
    Some((side('-')?, side('+')?))
}

pub(super) fn is_no_newline(line: &str) -> bool {
    line.starts_with("\\ No newline")
}

/// The marker speaks of the line before it.
pub(super) fn mark_unterminated(hunk: &mut Hunk) {
    match hunk.lines.last().map(|line| line.kind) {
        Some(Kind::Add) => hunk.unterminated.1 = true,
        Some(Kind::Remove) => hunk.unterminated.0 = true,
        Some(Kind::Context) => hunk.unterminated = (true, true),
        None => {}
    }
}

pub(super) fn parse(text: &str) -> Result<Vec<FilePatch>, String> {
    let lines: Vec<&str> = text.split('\n').collect();
    let mut files = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if lines[at].starts_with("diff --git ") || is_header(&lines, at) {
            let (file, next) = file(&lines, at)?;
            files.extend(file);
            at = next;
        } else {
            at += 1;
        }
    }
    Ok(files)
}

/// What the lines above the hunks say.
#[derive(Default)]
struct Header {
    old: Option<String>,
    new: Option<String>,
    from: Option<String>,
    to: Option<String>,
    makes: bool,
    removes: bool,
}

fn file(lines: &[&str], start: usize) -> Result<(Option<FilePatch>, usize), String> {
    let mut header = Header::default();
    let mut at = start;
    if let Some(names) = lines[at].strip_prefix("diff --git ") {
        header.take_git_line(names);
        at += 1;
    }
    while at < lines.len() && !lines[at].starts_with("@@") {
        let line = lines[at];
        if line.starts_with("diff --git ") || (header.new.is_some() && is_header(lines, at)) {
            break;
        }
        header.read(line)?;
        at += 1;
    }
    let mut hunks = Vec::new();
    while at < lines.len() && lines[at].starts_with("@@") {
        let (hunk, next) = hunk(lines, at);
        hunks.push(hunk);
        at = next;
    }
    hunks.retain(|hunk: &Hunk| hunk.lines.iter().any(|line| line.kind != Kind::Context));
    Ok((header.file(hunks)?, at.max(start + 1)))
}

impl Header {
    /// `a/x b/x`: only needed when nothing else names the file, and then both are the same.
    fn take_git_line(&mut self, names: &str) {
        if let Some((one, other)) = names.split_once(" b/")
            && one.strip_prefix("a/") == Some(other)
        {
            (self.from, self.to) = (Some(other.to_owned()), Some(other.to_owned()));
        }
    }

    fn read(&mut self, line: &str) -> Result<(), String> {
        let name = |rest: &str| unquoted(rest.split('\t').next().unwrap_or(rest).trim_end_matches(' '));
        if let Some(rest) = line.strip_prefix("--- ") {
            self.old = Some(name(rest));
        } else if let Some(rest) = line.strip_prefix("+++ ") {
            self.new = Some(name(rest));
        } else if let Some(rest) = line.strip_prefix("rename from ") {
            self.from = Some(name(rest));
        } else if let Some(rest) = line.strip_prefix("rename to ") {
            self.to = Some(name(rest));
        } else if let Some(mode) = line.strip_prefix("new file mode ") {
            if mode.trim() != "100644" {
                return Err(format!(
                    "a patch makes only plain files, and this one wants mode {}; add the file, then use chmod or ln -s",
                    mode.trim()
                ));
            }
            self.makes = true;
        } else if line.starts_with("deleted file mode ") {
            self.removes = true;
        } else if line.starts_with("old mode ") || line.starts_with("new mode ") {
            return Err("a patch does not change the mode of a file; use run_command with chmod for that".to_owned());
        } else if line.starts_with("copy from ") || line.starts_with("copy to ") {
            return Err("a patch does not copy files; use run_command with cp, then patch the copy".to_owned());
        } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
            return Err("a patch holds text only; binary files cannot be patched".to_owned());
        }
        Ok(())
    }

    fn file(self, hunks: Vec<Hunk>) -> Result<Option<FilePatch>, String> {
        let git = self
            .old
            .as_deref()
            .is_none_or(|old| old == NOTHING || old.starts_with("a/"))
            && self
                .new
                .as_deref()
                .is_none_or(|new| new == NOTHING || new.starts_with("b/"));
        let plain = |name: String, prefix: &str| {
            let name = name
                .strip_prefix(prefix)
                .filter(|_| git)
                .map(str::to_owned)
                .unwrap_or(name);
            clean_path(&name)
        };
        let makes = self.makes || self.old.as_deref() == Some(NOTHING);
        let removes = self.removes || self.new.as_deref() == Some(NOTHING);
        let old = match self.old.filter(|old| old != NOTHING) {
            Some(old) => Some(plain(old, "a/")?),
            None => self.from.as_deref().map(clean_path).transpose()?,
        };
        let new = match self.new.filter(|new| new != NOTHING) {
            Some(new) => Some(plain(new, "b/")?),
            None => self.to.as_deref().map(clean_path).transpose()?,
        };
        let (path, change) = match (old, new) {
            (_, Some(path)) if makes => (path, Change::Add(added(&hunks))),
            (Some(path), _) if removes => (path, Change::Delete(hunks)),
            (Some(old), Some(new)) if old != new => {
                let move_to = Some(new);
                (old, Change::Update { move_to, hunks })
            }
            (Some(path), _) | (_, Some(path)) if !hunks.is_empty() => {
                let move_to = None;
                (path, Change::Update { move_to, hunks })
            }
            // A header without anything that would change.
            _ => return Ok(None),
        };
        Ok(Some(FilePatch { path, change }))
    }
}

/// The content that the hunks of a new file add up to.
fn added(hunks: &[Hunk]) -> String {
    let lines = hunks
        .iter()
        .flat_map(|hunk| &hunk.lines)
        .filter(|line| line.kind == Kind::Add);
    let mut content: String = lines.flat_map(|line| [line.text.as_str(), "\n"]).collect();
    if hunks.last().is_some_and(|hunk| hunk.unterminated.1) {
        content.pop();
    }
    content
}

fn hunk(lines: &[&str], start: usize) -> (Hunk, usize) {
    let mut hunk = Hunk::default();
    read_header(lines[start], &mut hunk);
    let (mut old_left, mut new_left) = ranges(lines[start]).map_or((0, 0), |(old, new)| (old.count, new.count));
    let mut at = start + 1;
    while at < lines.len() {
        let line = lines[at];
        let complete = old_left == 0 && new_left == 0;
        let last = lines[at..].iter().all(|line| line.trim().is_empty());
        if line.starts_with("@@") || line.starts_with("diff --git ") || is_header(lines, at) {
            break;
        }
        // The signature of a mailed patch, the end of a fence, and blank lines behind it all.
        if complete && (line.trim_end() == "--" || line.starts_with("```") || last) {
            break;
        }
        at += 1;
        if is_no_newline(line) {
            mark_unterminated(&mut hunk);
            continue;
        }
        let line = read_line(line);
        old_left = old_left.saturating_sub(usize::from(line.kind != Kind::Add));
        new_left = new_left.saturating_sub(usize::from(line.kind != Kind::Remove));
        hunk.lines.push(line);
    }
    (hunk, at)
}
