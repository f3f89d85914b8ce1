//! A segment: what is known of many blobs, in one file that never changes once it has its name. Made
//! by [`Builder`] or [`merge`], read in place through a memory map. Called by `index` and `view`.
//! Never trusts the file: every length is checked, and a damaged one is an error, not a panic.
//!
//! The body holds, one after the other: lists of places, the dictionary with every word and name and
//! where its lists are, one record for each blob, a row of fixed size for each blob in the order of
//! the keys, and the table of these sections. After the body come a checksum for each block of it
//! and a footer with the version. A block is checked when it is first read, so opening is cheap.

use std::fmt;

mod build;
mod bytes;
mod dictionary;
mod file;
mod list;
mod map;
mod merge;
mod read;
mod record;
#[cfg(test)]
mod tests;
mod texts;

pub use build::{Builder, Built};
pub use dictionary::Entry;
pub use merge::merge;
pub use read::{Row, Segment};
pub use record::{Record, Use};

use super::facts::Field;
use crate::git::BlobId;
use crate::language::{self, Language};

/// Why a segment cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The file is not what was written.
    #[error("a damaged index file: {0}")]
    Damaged(&'static str),
    /// It was written by another version.
    #[error("an index file of another version")]
    OtherVersion,
    /// It cannot be read or written at all.
    #[error("an index file: {0}")]
    Io(#[from] std::io::Error),
}

/// Which blob, read as which language: facts depend on nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobKey {
    /// The blob.
    pub id: BlobId,
    /// The language of its path by its place in [`language::all`], from 1; 0 for none.
    pub language: u8,
}

impl BlobKey {
    /// The key of a blob at a path.
    pub fn new(id: BlobId, path: &str) -> Self {
        Self {
            id,
            language: number_of(language::of_path(path)),
        }
    }
}

impl fmt::Debug for BlobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.id, self.language)
    }
}

/// What a list of places is a list of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ListKind {
    /// Units with this word as [`Field::Part`].
    Part,
    /// Units with this word as [`Field::Whole`].
    Whole,
    /// Units with this word as [`Field::Defined`].
    Defined,
    /// Symbols of this name.
    Symbols,
    /// References to this name.
    References,
    /// Imports that give this name another one.
    Renames,
    /// References that name this as what a type extends or implements.
    Extended,
    /// References that say, apart from the type of this name, what it implements.
    Extends,
}

/// Number of kinds of lists.
const KINDS: usize = 8;

impl ListKind {
    const ALL: [Self; KINDS] = [
        Self::Part,
        Self::Whole,
        Self::Defined,
        Self::Symbols,
        Self::References,
        Self::Renames,
        Self::Extended,
        Self::Extends,
    ];
}

impl From<Field> for ListKind {
    fn from(field: Field) -> Self {
        match field {
            Field::Part => Self::Part,
            Field::Whole => Self::Whole,
            Field::Defined => Self::Defined,
        }
    }
}

/// What else there is to know of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traits {
    /// The language that its facts were read with, as in [`BlobKey::language`]; the bytes may have
    /// told another one than the path.
    pub language: u8,
    /// It is not text; nothing is known of it, and it belongs to no view.
    pub is_binary: bool,
    /// Not every name in it is in the dictionary, so a search for a literal has to look into it.
    pub is_opaque: bool,
}

impl Traits {
    fn to_bytes(self) -> [u8; 2] {
        [u8::from(self.is_binary) | u8::from(self.is_opaque) << 1, self.language]
    }

    fn from_bytes([bits, language]: [u8; 2]) -> Self {
        Self {
            language,
            is_binary: bits & 1 != 0,
            is_opaque: bits & 2 != 0,
        }
    }
}

/// The language with a number.
pub fn language_of(number: u8) -> Option<&'static Language> {
    language::all().get(usize::from(number).checked_sub(1)?)
}

/// The number by which a segment knows a language.
pub fn number_of(language: Option<&'static Language>) -> u8 {
    let at = language.and_then(|language| language::all().iter().position(|other| std::ptr::eq(other, language)));
    at.and_then(|at| u8::try_from(at + 1).ok()).unwrap_or_default()
}
