//! Reading a segment: blobs by key, lists by word, records by number. Called by `view`, `index` and
//! `merge`. Never fails by panic, and remembers when something in the file made no sense, so that
//! the index can replace it.

use std::borrow::Cow;
use std::fmt;
use std::io::Write;
use std::path::Path;

use super::build::Built;
use super::bytes::Bytes;
use super::dictionary::{Dictionary, Entry, Walk};
use super::file::{Body, Out};
use super::list::{List, Place};
use super::record::Record;
use super::texts::Texts;
use super::{BlobKey, ListKind, SegmentError, Traits};
use crate::git::BlobId;

/// Bytes of a blob's row: key, traits, place and length of the record, and its sizes.
const ROW: usize = 20 + 4 + 8 + 4 + 4 + 4 + 4;

/// What is known of a blob without reading its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Row {
    /// Number of lines.
    pub lines: u32,
    /// Words of all units.
    pub words: u32,
    /// Number of units.
    pub units: u32,
    /// Whether extraction had something to say.
    pub has_note: bool,
    /// What else.
    pub traits: Traits,
}

/// The rows and the table of sections, being written.
pub(super) struct Table {
    dictionary: Dictionary,
    rows: Vec<u8>,
    blobs: u32,
}

impl Table {
    pub(super) fn new(dictionary: Dictionary) -> Self {
        Self {
            dictionary,
            rows: Vec::new(),
            blobs: 0,
        }
    }

    pub(super) fn add<W: Write>(
        &mut self,
        key: &BlobKey,
        row: &Row,
        record: &[u8],
        out: &mut Out<W>,
    ) -> Result<(), SegmentError> {
        let length = u32::try_from(record.len()).map_err(|_| SegmentError::Damaged("a record of gigabytes"))?;
        self.rows.extend(key.id.0);
        let [traits, language] = row.traits.to_bytes();
        self.rows
            .extend([key.language, traits, language, u8::from(row.has_note)]);
        self.rows.extend(out.at().to_le_bytes());
        for number in [length, row.lines, row.words, row.units] {
            self.rows.extend(number.to_le_bytes());
        }
        self.blobs += 1;
        out.write(record)
    }

    pub(super) fn finish<W: Write>(self, mut out: Out<W>, version: u64) -> Result<(W, Built), SegmentError> {
        let rows = out.at();
        out.write(&self.rows)?;
        let at = out.at();
        let Dictionary {
            words,
            index,
            end,
            count,
        } = self.dictionary;
        for number in [words, index, end, u64::from(count), rows, u64::from(self.blobs)] {
            out.write(&number.to_le_bytes())?;
        }
        let (to, bytes) = out.finish(version, at)?;
        Ok((
            to,
            Built {
                blobs: self.blobs,
                bytes,
            },
        ))
    }
}

/// A segment.
pub struct Segment {
    body: Body,
    dictionary: Dictionary,
    texts: Texts,
    rows: u64,
    blobs: u32,
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Segment({} blobs, {} words)", self.blobs, self.dictionary.count)
    }
}

impl Segment {
    /// Opens a file that was written with this version of the facts.
    pub fn open(path: &Path, version: u64) -> Result<Self, SegmentError> {
        Self::new(Body::open(path, version)?)
    }

    /// A segment that stands nowhere but in memory.
    pub fn of_memory(bytes: Vec<u8>, version: u64) -> Result<Self, SegmentError> {
        Self::new(Body::of_memory(bytes, version)?)
    }

    fn new(body: Body) -> Result<Self, SegmentError> {
        let mut table = Bytes(body.bytes(body.table()..body.length())?);
        let (words, index, end) = (table.u64()?, table.u64()?, table.u64()?);
        let (count, rows, blobs) = (table.u64()?, table.u64()?, table.u64()?);
        let small = |number| u32::try_from(number).map_err(|_| SegmentError::Damaged("a number of the table"));
        let (count, blobs) = (small(count)?, small(blobs)?);
        if rows.checked_add(u64::from(blobs) * ROW as u64) != Some(body.table()) || end > rows {
            return Err(SegmentError::Damaged("the place of the rows"));
        }
        let dictionary = Dictionary {
            words,
            index,
            end,
            count,
        };
        dictionary.check()?;
        Ok(Self {
            body,
            texts: Texts::new(&dictionary),
            dictionary,
            rows,
            blobs,
        })
    }

    /// Number of blobs.
    pub fn blobs(&self) -> u32 {
        self.blobs
    }

    /// Length of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.body.file_length()
    }

    /// Whether something in it made no sense.
    pub fn is_damaged(&self) -> bool {
        self.body.is_damaged()
    }

    /// Whether it stands in memory only.
    pub fn is_in_memory(&self) -> bool {
        self.body.is_in_memory()
    }

    /// Reads all of it, to find out whether it is damaged.
    pub fn check_all(&self) {
        let _ = self.judge(self.body.bytes(0..self.body.length()));
    }

    /// Passes a result on, and remembers damage.
    pub fn judge<T>(&self, result: Result<T, SegmentError>) -> Result<T, SegmentError> {
        if result.is_err() {
            self.body.set_damaged();
        }
        result
    }

    fn row_bytes(&self, blob: u32) -> Result<Bytes<'_>, SegmentError> {
        if blob >= self.blobs {
            return Err(SegmentError::Damaged("a blob that does not exist"));
        }
        let from = self.rows + u64::from(blob) * ROW as u64;
        Ok(Bytes(self.body.bytes(from..from + ROW as u64)?))
    }

    fn key_of(mut row: Bytes<'_>) -> Result<BlobKey, SegmentError> {
        let mut id = [0; 20];
        id.copy_from_slice(row.take(20)?);
        Ok(BlobKey {
            id: BlobId(id),
            language: row.byte()?,
        })
    }

    /// Which blob it is.
    pub fn key(&self, blob: u32) -> Result<BlobKey, SegmentError> {
        Self::key_of(self.row_bytes(blob)?)
    }

    /// Its row.
    pub fn row(&self, blob: u32) -> Result<Row, SegmentError> {
        let mut row = self.row_bytes(blob)?;
        row.take(21)?;
        let (traits, language, has_note) = (row.byte()?, row.byte()?, row.byte()?);
        row.take(12)?;
        Ok(Row {
            lines: row.u32()?,
            words: row.u32()?,
            units: row.u32()?,
            has_note: has_note != 0,
            traits: Traits::from_bytes([traits, language]),
        })
    }

    /// The number of a blob.
    pub fn find(&self, key: &BlobKey) -> Result<Option<u32>, SegmentError> {
        let (mut low, mut high) = (0, self.blobs);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.key(middle)?.cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(Some(middle)),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }

    pub(super) fn record_bytes(&self, blob: u32) -> Result<&[u8], SegmentError> {
        let mut row = self.row_bytes(blob)?;
        row.take(24)?;
        let (from, length) = (row.u64()?, row.u32()?);
        let to = from.checked_add(u64::from(length)).filter(|to| *to <= self.rows);
        let to = to.ok_or(SegmentError::Damaged("a record's place"))?;
        self.body.bytes(from..to)
    }

    /// What is known of a blob.
    pub fn record(&self, blob: u32) -> Result<Record<'_>, SegmentError> {
        Record::new(self, self.record_bytes(blob)?)
    }

    /// The word with a number.
    pub fn text(&self, id: u32) -> Result<Cow<'_, str>, SegmentError> {
        self.texts.get(&self.dictionary, &self.body, id)
    }

    /// The entry of a word.
    pub fn word(&self, word: &str) -> Result<Option<Entry>, SegmentError> {
        self.dictionary.find(&self.body, word)
    }

    pub(super) fn words(&self) -> Result<Walk<'_>, SegmentError> {
        self.dictionary.all(&self.body)
    }

    pub(super) fn word_count(&self) -> u32 {
        self.dictionary.count
    }

    /// Calls `found` with every word from `from` on, in order, until it says no.
    pub fn each_word(&self, from: &str, mut found: impl FnMut(&str, &Entry) -> bool) -> Result<(), SegmentError> {
        let mut walk = self.dictionary.from(&self.body, from)?;
        while walk.step()? {
            if walk.text() >= from && !found(walk.text(), &walk.entry()) {
                break;
            }
        }
        Ok(())
    }

    /// The entries of all words that contain a text, which is not empty.
    pub fn words_with(&self, text: &str) -> Result<Vec<Entry>, SegmentError> {
        self.dictionary.containing(&self.body, text)
    }

    pub(super) fn list(&self, entry: &Entry, kind: ListKind) -> Result<List<'_>, SegmentError> {
        let Some(span) = entry.span(kind) else {
            return Ok(List::default());
        };
        let to = span.from.checked_add(u64::from(span.length));
        let to = to.filter(|to| *to <= self.dictionary.words);
        let to = to.ok_or(SegmentError::Damaged("a list's place"))?;
        Ok(List::new(self.body.bytes(span.from..to)?))
    }

    /// Calls `found` with each blob of a list and its places: the unit, symbol or reference, and how
    /// often.
    pub fn each_place(
        &self,
        entry: &Entry,
        kind: ListKind,
        mut found: impl FnMut(u32, &[Place]),
    ) -> Result<(), SegmentError> {
        let mut list = self.list(entry, kind)?;
        let mut places = Vec::new();
        while let Some(blob) = list.next(&mut places)? {
            if blob >= self.blobs {
                return Err(SegmentError::Damaged("a blob that does not exist"));
            }
            found(blob, &places);
            places.clear();
        }
        Ok(())
    }
}
