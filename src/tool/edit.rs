//! Replacing a piece of text in a file's bytes: exactly, literally, and only where it is clear
//! which piece is meant. Called by `edit_file`. Pure. Never changes a byte outside the piece, and
//! never guesses silently: what is near is reported with its line.

use std::fmt::Write as _;

mod loose;
mod near;
mod view;

pub(super) use view::{View, is_binary};

/// Which places are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EditMode {
    /// The only one; several are a problem.
    Unique,
    /// All of them.
    All,
    /// No old text: the new text becomes lines of its own after this line; 0 is the top.
    InsertAfter(usize),
}

/// A file after an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edited {
    /// Its bytes.
    pub(super) content: Vec<u8>,
    /// Places changed.
    pub(super) places: usize,
    /// Line of the first, from 1.
    pub(super) first_line: usize,
    /// Something that looks wrong about the new text.
    pub(super) doubt: Option<String>,
}

/// Why a file was not edited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EditProblem {
    /// There is no old text to look for.
    NothingToFind,
    /// Old and new text are the same.
    NoChange,
    /// The file is not text.
    Binary,
    /// The file is not UTF-8, and the new text has a character it cannot hold.
    NotInEncoding(char),
    /// The old text is not there.
    NotFound {
        /// The most similar lines.
        nearest: Vec<(usize, String)>,
        /// What may be wrong.
        hint: Option<&'static str>,
    },
    /// It is there but for spaces, tabs or blank lines.
    Whitespace {
        /// Line where it begins.
        line: usize,
        /// What really stands there.
        actual: String,
    },
    /// It is there several times, on these lines.
    Ambiguous(Vec<usize>),
    /// The new text is there already.
    AlreadyDone(usize),
    /// The file has only so many lines.
    NoSuchLine(usize),
}

impl std::fmt::Display for EditProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NothingToFind => f.write_str("old_text is empty; to make or replace a whole file use write_file"),
            Self::NoChange => f.write_str("old_text and new_text are the same; nothing was changed"),
            Self::Binary => f.write_str("this is not a text file; it cannot be edited with this tool"),
            Self::NotInEncoding(c) => write!(
                f,
                "the file is not UTF-8 and cannot hold {c:?}; write it without that character, or convert the file with iconv first if the task asks for it"
            ),
            Self::NotFound { nearest, hint } => {
                f.write_str("old_text does not occur in the file.")?;
                if let Some(hint) = hint {
                    write!(f, " {hint}")?;
                }
                if nearest.is_empty() {
                    return f.write_str(" Read the file again and copy the text exactly.");
                }
                f.write_str(" The most similar lines are:\n")?;
                nearest
                    .iter()
                    .try_for_each(|(line, text)| writeln!(f, "{line:>6}\t{text}"))?;
                f.write_str("Copy the text exactly as it stands in the file.")
            }
            Self::Whitespace { line, actual } => write!(
                f,
                "old_text occurs at line {line} only with other white space (indentation, spaces or blank lines). Nothing was changed. The file says exactly:\n{actual}\nRepeat the call with that as old_text, and check the indentation of new_text."
            ),
            Self::Ambiguous(lines) => {
                let mut shown: Vec<String> = lines.iter().take(MAX_LINES_NAMED).map(usize::to_string).collect();
                if lines.len() > MAX_LINES_NAMED {
                    shown.push("…".to_owned());
                }
                write!(
                    f,
                    "old_text occurs {}{} times, on lines {}; add lines around it so that it is unique, or set replace_all",
                    if lines.len() < MAX_AMBIGUOUS { "" } else { "at least " },
                    lines.len(),
                    shown.join(", ")
                )
            }
            Self::AlreadyDone(line) => write!(
                f,
                "new_text already stands at line {line}: this edit has been made before. Nothing was changed; go on."
            ),
            Self::NoSuchLine(lines) => write!(
                f,
                "the file has {lines} lines; insert_after_line is at most that (0 is the top)"
            ),
        }
    }
}

/// Most line numbers named in an answer.
const MAX_LINES_NAMED: usize = 20;

/// As many places are enough to say that a text is not unique.
const MAX_AMBIGUOUS: usize = 100;

/// New text shorter than this is found by chance too often to say that an edit has been made.
const MIN_TELLING_BYTES: usize = 4;

/// Makes the edit. Line ends do not matter for finding, and the file keeps its own.
pub(super) fn apply_edit(content: &[u8], old: &str, new: &str, mode: EditMode) -> Result<Edited, EditProblem> {
    if is_binary(content) {
        return Err(EditProblem::Binary);
    }
    let view = View::of(content);
    let old = old.replace("\r\n", "\n");
    let new = new.replace("\r\n", "\n");
    if let Some(foreign) = view.cannot_hold(&new) {
        return Err(EditProblem::NotInEncoding(foreign));
    }
    if let EditMode::InsertAfter(line) = mode {
        return insert(&view, &new, line);
    }
    if old.is_empty() {
        return Err(EditProblem::NothingToFind);
    }
    if old == new {
        return Err(EditProblem::NoChange);
    }
    let places = find(&view.text, &old, mode);
    if places.is_empty() {
        let shown = (unrevealed(&old), unrevealed(&new));
        return match shown {
            (Some(old), new_shown) => apply_edit(content, &old, new_shown.as_deref().unwrap_or(&new), mode),
            _ => apply_loosely(&view, &old, &new, mode).ok_or_else(|| explain(&view.text, &old, &new)),
        };
    }
    if places.iter().all(|at| stands_already(&view.text, *at, &old, &new)) {
        return Err(EditProblem::AlreadyDone(line_of(&view.text, places[0])));
    }
    if mode == EditMode::Unique && places.len() > 1 {
        let lines = places.iter().map(|at| line_of(&view.text, *at));
        return Err(EditProblem::Ambiguous(lines.collect()));
    }
    Ok(Edited {
        content: view.replaced(&places, old.len(), &new),
        places: places.len(),
        first_line: line_of(&view.text, places[0]),
        doubt: doubt(&old, &new),
    })
}

/// The old text is there but for white space around it. The new text is taken as it is.
fn apply_loosely(view: &View, old: &str, new: &str, mode: EditMode) -> Option<Edited> {
    if mode != EditMode::Unique || already_there(&view.text, new).is_some() {
        return None;
    }
    let piece = loose::but_for_surrounding_space(&view.text, old, new)?;
    let first_line = line_of(&view.text, piece.start);
    Some(Edited {
        content: view.spliced(&[(piece, new.to_owned())]),
        places: 1,
        first_line,
        doubt: Some(
            "old_text was found only without the white space around it; see that the result is right.".to_owned(),
        ),
    })
}

/// Where `needle` begins. Overlapping places count when it must be unique, and not when all are
/// replaced one after another.
fn find(text: &str, needle: &str, mode: EditMode) -> Vec<usize> {
    let step = match mode {
        EditMode::All => needle.len(),
        _ => needle.chars().next().map_or(1, char::len_utf8),
    };
    let mut places = Vec::new();
    let mut from = 0;
    while (mode == EditMode::All || places.len() < MAX_AMBIGUOUS)
        && let Some(at) = text.get(from..).and_then(|rest| rest.find(needle))
    {
        places.push(from + at);
        from += at + step;
    }
    places
}

/// Line of an offset, from 1.
fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Whether the old text at this place is a part of the new text that stands there already.
fn stands_already(text: &str, at: usize, old: &str, new: &str) -> bool {
    new.match_indices(old)
        .take(MAX_AMBIGUOUS)
        .any(|(before, _)| at >= before && text.as_bytes()[at - before..].starts_with(new.as_bytes()))
}

/// The line where the new text stands, if it is long enough to tell.
fn already_there(text: &str, new: &str) -> Option<usize> {
    let telling = new.trim().len() >= MIN_TELLING_BYTES;
    telling.then(|| text.find(new)).flatten().map(|at| line_of(text, at))
}

/// Why the old text is not there, as helpfully as can be said.
fn explain(text: &str, old: &str, new: &str) -> EditProblem {
    if let Some(line) = already_there(text, new) {
        return EditProblem::AlreadyDone(line);
    }
    if let Some((line, actual)) = near::but_for_whitespace(text, old) {
        return EditProblem::Whitespace { line, actual };
    }
    let without_numbers = near::without_line_numbers(old);
    let hint = if without_numbers.is_some_and(|old| text.contains(&old)) {
        Some("Leave out the line numbers that read_file puts before each line.")
    } else if old.contains('\\') && text.contains(&unescaped(old)) {
        Some("It is escaped once too often: write line ends and quotes as they stand in the file.")
    } else {
        None
    };
    EditProblem::NotFound {
        nearest: near::nearest_lines(text, old),
        hint,
    }
}

/// Invisible characters are shown to the model as `⟦U+XXXX⟧`; a text copied with such marks means
/// the characters themselves. `None`: there are no marks in it.
fn unrevealed(text: &str) -> Option<String> {
    use std::sync::LazyLock;
    static MARK: LazyLock<regex::Regex> =
        LazyLock::new(|| regex::Regex::new("⟦U\\+([0-9A-F]{4,6})⟧").expect("the pattern is valid"));
    MARK.is_match(text).then(|| {
        let plain = MARK.replace_all(text, |mark: &regex::Captures<'_>| {
            let character = u32::from_str_radix(&mark[1], 16).ok().and_then(char::from_u32);
            character.map_or_else(|| "\u{fffd}".to_owned(), String::from)
        });
        plain.into_owned()
    })
}

fn unescaped(text: &str) -> String {
    text.replace("\\n", "\n")
        .replace("\\t", "\t")
        .replace("\\\"", "\"")
        .replace("\\\\", "\\")
}

/// A new text with `\n` spelt out may mean just that, or be escaped once too often.
fn doubt(old: &str, new: &str) -> Option<String> {
    let suspicious = new.contains("\\n") && !new.contains('\n') && !old.contains("\\n")
        || new.contains("\\\"") && !old.contains("\\\"");
    suspicious.then(|| {
        let mut doubt = String::from("new_text holds a backslash before ");
        let _ = write!(doubt, "{}", if new.contains("\\n") { "`n`" } else { "a quote" });
        doubt
            + ", which now stands in the file as two characters. If a line end or a plain quote was meant, correct it."
    })
}

fn insert(view: &View, new: &str, after: usize) -> Result<Edited, EditProblem> {
    let lines = view.text.lines().count();
    if after > lines {
        return Err(EditProblem::NoSuchLine(lines));
    }
    let body = new.strip_suffix('\n').unwrap_or(new);
    let ends = view.text.match_indices('\n').map(|(at, _)| at + 1);
    let (at, piece) = match after {
        0 => (0, format!("{body}\n")),
        // The last line has no end of its own, and keeps having none.
        _ if after == lines && !view.text.ends_with('\n') => (view.text.len(), format!("\n{body}")),
        _ => (ends.take(after).last().unwrap_or(0), format!("{body}\n")),
    };
    Ok(Edited {
        content: view.replaced(&[at], 0, &piece),
        places: 1,
        first_line: after + 1,
        doubt: doubt("", new),
    })
}

#[cfg(test)]
mod tests;
