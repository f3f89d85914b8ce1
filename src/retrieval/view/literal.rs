//! Which files may contain a text, found by the dictionary instead of by reading: the names within
//! the text stand in it as a whole, the ones at its ends as a part of a longer name. Called by
//! `source`, which then looks into these files. Never leaves a file out that contains the text.

use super::{FileId, View};
use crate::retrieval::segment::{Entry, ListKind, Segment, SegmentError};
use crate::retrieval::terms;

/// A shorter piece at an end of the text is part of too many names to tell anything.
const MIN_PIECE: usize = 3;
/// Extraction leaves out longer names.
const MAX_NAME: usize = 120;

/// Files that may contain a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidates {
    /// By path.
    pub files: Vec<FileId>,
    /// Whether the text tells nothing, so that these are all files.
    pub is_all: bool,
}

/// A piece of the text and what it has to be in the dictionary.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    /// A whole name.
    Name(String),
    /// A part of a name.
    Part(String),
}

impl View {
    /// The files that may contain `text`, a literal. Case does not matter here, so it serves searches
    /// that care for case and those that do not.
    pub fn literal(&self, text: &str) -> Candidates {
        let pieces = pieces(text);
        if pieces.is_empty() {
            return Candidates {
                files: self.files().collect(),
                is_all: true,
            };
        }
        let mut hits = vec![0u32; self.len()];
        for (at, piece) in (0..).zip(&pieces) {
            self.each_file_with(piece, |file| {
                // Counts up only where all pieces before were found.
                if hits[file.0 as usize] == at {
                    hits[file.0 as usize] = at + 1;
                }
            });
        }
        let all = pieces.len() as u32;
        let is_hit = |file: &FileId| hits[file.0 as usize] == all || self.row(*file).traits.is_opaque;
        Candidates {
            files: self.files().filter(is_hit).collect(),
            is_all: false,
        }
    }

    fn each_file_with(&self, piece: &Piece, mut found: impl FnMut(FileId)) {
        for (at, segment) in (0..).zip(self.segments()) {
            let read = entries(segment, piece).and_then(|entries| {
                for entry in entries {
                    for kind in [ListKind::Part, ListKind::Whole] {
                        segment.each_place(&entry, kind, |blob, _| {
                            self.files.of_blob(at, blob).for_each(&mut found);
                        })?;
                    }
                }
                Ok(())
            });
            let _ = segment.judge(read);
        }
    }
}

fn entries(segment: &Segment, piece: &Piece) -> Result<Vec<Entry>, SegmentError> {
    match piece {
        Piece::Name(name) => Ok(segment.word(name)?.into_iter().collect()),
        Piece::Part(text) => segment.words_with(text),
    }
}

/// The pieces of a text that tell something, the whole names first: they are looked up at once.
fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    terms::names(text, |name| {
        // A name of the text is a piece of the same memory.
        let from = name.as_ptr() as usize - text.as_ptr() as usize;
        let is_open = from == 0 || from + name.len() == text.len();
        let trimmed = name.trim_matches('_').to_ascii_lowercase();
        let is_told = if is_open {
            trimmed.len() >= MIN_PIECE && !terms::is_in_noise(&trimmed)
        } else {
            trimmed.len() >= 2 && !terms::is_noise(&trimmed)
        };
        if name.is_ascii() && name.len() <= MAX_NAME && is_told {
            pieces.push(if is_open {
                Piece::Part(trimmed)
            } else {
                Piece::Name(trimmed)
            });
        }
    });
    pieces.sort_by_key(|piece| matches!(piece, Piece::Part(_)));
    pieces.dedup();
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[Piece]) {
        assert_eq!(pieces(text), expected, "{text}");
    }

    #[test]
    fn what_a_literal_tells() {
        let (name, part) = (
            |text: &str| Piece::Name(text.to_owned()),
            |text: &str| Piece::Part(text.to_owned()),
        );
        check("getUserName", &[part("getusername")]);
        check("(getUserName)", &[name("getusername")]);
        check("cannot find the user", &[name("find"), part("cannot"), part("user")]);
        check("x = _foo_bar;", &[name("foo_bar")]);
        check("the", &[]);
        check("her", &[]);
        check(" -> ", &[]);
    }
}
