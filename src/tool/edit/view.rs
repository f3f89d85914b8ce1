//! A file's bytes as text with plain line feeds, and the way back, so that bytes outside an edit
//! stay as they are: line ends, encoding, byte order mark. Never decides what is edited.

use std::ops::Range;

/// A file seen as text.
pub(in crate::tool) struct View {
    /// The text with every CRLF as a line feed.
    pub(in crate::tool) text: String,
    /// Offsets in `text` of line feeds that had a carriage return before them, ascending.
    with_cr: Vec<usize>,
    mostly_crlf: bool,
    original: String,
    encoding: Encoding,
}

#[derive(Clone, Copy, PartialEq)]
enum Encoding {
    Utf8,
    /// Every byte is the character of its number: wrong for most other encodings as a reading,
    /// but exact as a way there and back.
    Bytes,
}

/// Whether bytes are no text: NUL does not occur in text, but in everything else and in UTF-16.
pub(in crate::tool) fn is_binary(content: &[u8]) -> bool {
    content.contains(&0)
}

impl View {
    pub(in crate::tool) fn of(content: &[u8]) -> Self {
        let (original, encoding) = match std::str::from_utf8(content) {
            Ok(text) => (text.to_owned(), Encoding::Utf8),
            Err(_) => (content.iter().map(|byte| char::from(*byte)).collect(), Encoding::Bytes),
        };
        let text = original.replace("\r\n", "\n");
        let with_cr: Vec<usize> = original
            .match_indices("\r\n")
            .enumerate()
            .map(|(before, (at, _))| at - before)
            .collect();
        let line_feeds = text.bytes().filter(|byte| *byte == b'\n').count();
        Self {
            text,
            mostly_crlf: with_cr.len() * 2 > line_feeds,
            with_cr,
            original,
            encoding,
        }
    }

    /// The first character that the file's encoding has no byte for.
    pub(in crate::tool) fn cannot_hold(&self, text: &str) -> Option<char> {
        match self.encoding {
            Encoding::Utf8 => None,
            // Beyond ASCII the file's real encoding would have to be known.
            Encoding::Bytes => text.chars().find(|c| u32::from(*c) > 0xff),
        }
    }

    /// The bytes with `len` bytes of `text` at each of the places replaced by `new`, in the line
    /// ends that stood there, or else in those of the file.
    pub(super) fn replaced(&self, places: &[usize], len: usize, new: &str) -> Vec<u8> {
        let pieces: Vec<_> = places.iter().map(|at| (*at..at + len, new.to_owned())).collect();
        self.spliced(&pieces)
    }

    /// The bytes with each of the ascending pieces of `text` replaced by its own new text.
    pub(in crate::tool) fn spliced(&self, pieces: &[(Range<usize>, String)]) -> Vec<u8> {
        let mut result = String::with_capacity(self.original.len());
        let mut done = 0;
        for (piece, new) in pieces {
            let (start, end) = (self.offset(piece.start), self.offset(piece.end));
            result.push_str(&self.original[done..start]);
            if self.wants_crlf(&self.original[start..end]) {
                result.push_str(&new.replace('\n', "\r\n"));
            } else {
                result.push_str(new);
            }
            done = end;
        }
        result.push_str(&self.original[done..]);
        match self.encoding {
            Encoding::Utf8 => result.into_bytes(),
            Encoding::Bytes => result.chars().map(|c| u8::try_from(c).unwrap_or(b'?')).collect(),
        }
    }

    fn offset(&self, at: usize) -> usize {
        at + self.with_cr.partition_point(|line_feed| *line_feed < at)
    }

    fn wants_crlf(&self, replaced: &str) -> bool {
        if replaced.contains('\n') {
            replaced.contains("\r\n")
        } else {
            self.mostly_crlf
        }
    }
}
