//! The `*** Begin Patch` form. Called by `patch`. Never needs its frame to be whole: shells, fences
//! and models leave remnants around it.

use super::{Change, FilePatch, Hunk, Kind, clean_path, read_header, read_line, unified};

const UPDATE: &str = "*** Update File:";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";
const END: &str = "*** End Patch";

/// What shells and languages leave around the last line.
const REMNANTS: &[char] = &['`', '\'', '"', '\\', ' ', '\t', ')', ';', '$', '@'];

pub(super) fn is_envelope(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim_start();
        [UPDATE, ADD, DELETE, "*** Begin Patch"]
            .iter()
            .any(|mark| line.starts_with(mark))
    })
}

pub(super) fn parse(text: &str) -> Result<Vec<FilePatch>, String> {
    let lines = body(text);
    let mut files = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let section_end = (at + 1..lines.len())
            .find(|at| is_section(&lines[*at]))
            .unwrap_or(lines.len());
        let line = lines[at].trim_start();
        let rest = &lines[at + 1..section_end];
        if let Some(path) = line.strip_prefix(UPDATE) {
            files.push(update(&clean_path(path)?, rest)?);
        } else if let Some(path) = line.strip_prefix(ADD) {
            let path = clean_path(path)?;
            let change = Change::Add(content(&path, rest)?);
            files.push(FilePatch { path, change });
        } else if let Some(path) = line.strip_prefix(DELETE) {
            let change = Change::Delete(Vec::new());
            files.push(FilePatch {
                path: clean_path(path)?,
                change,
            });
        } else if line.starts_with("***") {
            return Err(format!(
                "line {:?} of the patch is none of `{UPDATE}`, `{ADD}`, `{DELETE}`",
                crate::text::cap_chars(line, 80)
            ));
        }
        // Anything else before the first file is talk.
        at = section_end;
    }
    Ok(files)
}

fn is_section(line: &str) -> bool {
    let line = line.trim_start();
    [UPDATE, ADD, DELETE].iter().any(|mark| line.starts_with(mark))
}

/// The lines between the frame.
fn body(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.split('\n') {
        if line.trim_start().starts_with("*** Begin Patch") {
            // What stood before it was a shell's line or a fence.
            lines.clear();
            continue;
        }
        let Some(at) = line.find(END) else {
            lines.push(line.to_owned());
            continue;
        };
        // The end may be glued to the last line by a line end that was spelt out.
        let before = &line[..at];
        let glued = ["`n", "\\n"].iter().find_map(|end| before.strip_suffix(end));
        match glued {
            Some(last) if !last.is_empty() => lines.push(last.to_owned()),
            None if !before.trim_matches(REMNANTS).trim_start_matches('n').is_empty() => {
                lines.push(line.to_owned());
                continue;
            }
            _ => {}
        }
        return lines;
    }
    // Without an end: drop blank lines and fences that follow.
    while lines
        .last()
        .is_some_and(|line| line.trim().is_empty() || line.trim() == "```" || line.trim() == "EOF")
    {
        lines.pop();
    }
    lines
}

/// The content of a new file. Every line has a `+`, or none has.
fn content(path: &str, lines: &[String]) -> Result<String, String> {
    let last = lines
        .iter()
        .rposition(|line| !line.trim().is_empty())
        .map_or(0, |at| at + 1);
    let lines = &lines[..last];
    let marked = lines.iter().filter(|line| line.starts_with('+')).count();
    let mut content = String::new();
    for line in lines {
        let text = match line.strip_prefix('+') {
            Some(text) => text,
            None if line.trim().is_empty() || marked == 0 => line,
            None => {
                return Err(format!(
                    "{path}: each line of a new file begins with `+`, and this one does not: {:?}",
                    crate::text::cap_chars(line, 80)
                ));
            }
        };
        content.push_str(text);
        content.push('\n');
    }
    Ok(content)
}

fn update(path: &str, lines: &[String]) -> Result<FilePatch, String> {
    let mut move_to = None;
    let mut hunks: Vec<Hunk> = Vec::new();
    let mut current = Hunk::default();
    for line in lines {
        if let Some(to) = line.trim_start().strip_prefix(MOVE) {
            move_to = Some(clean_path(to)?);
        } else if line.trim() == END_OF_FILE {
            current.at_end = true;
        } else if line.starts_with("@@") {
            if !current.lines.is_empty() {
                hunks.push(std::mem::take(&mut current));
            }
            read_header(line, &mut current);
        } else if unified::is_no_newline(line) {
            unified::mark_unterminated(&mut current);
        } else if !(current.lines.is_empty() && is_diff_header(line)) {
            current.lines.push(read_line(line));
        }
    }
    hunks.push(current);
    hunks.retain(|hunk| hunk.lines.iter().any(|line| line.kind != Kind::Context));
    if hunks.is_empty() && move_to.is_none() {
        return Err(format!(
            "{path}: nothing is changed; lines to take out begin with `-` and new ones with `+`"
        ));
    }
    let change = Change::Update { move_to, hunks };
    Ok(FilePatch {
        path: path.to_owned(),
        change,
    })
}

/// Some models put the header of a unified diff inside.
fn is_diff_header(line: &str) -> bool {
    line.starts_with("--- ") || line.starts_with("+++ ") || line.starts_with("diff --git ")
}
