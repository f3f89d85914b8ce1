//! Every word and name of a segment in order, each with where its lists of places are. Blocks of
//! sixteen share their beginnings; the first of each block is found by halving. Called by `build`,
//! `merge` and `read`. Never reads a list.

use std::cmp::Ordering;
use std::io::Write;

use super::bytes::{Bytes, put};
use super::file::{Body, Out};
use super::list::ListWriter;
use super::{KINDS, ListKind, SegmentError};

/// Words in a block: a search reads half of one on average.
const BLOCK: usize = 16;
/// Longest word; extraction cuts names far before.
pub(super) const MAX_TEXT: usize = 4096;

/// A list of places in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Span {
    pub(super) from: u64,
    pub(super) length: u32,
    pub(super) blobs: u32,
}

/// A word of the dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Entry {
    /// Its number, in the order of the words.
    pub id: u32,
    spans: [Option<Span>; KINDS],
}

impl Entry {
    pub(super) fn span(&self, kind: ListKind) -> Option<Span> {
        self.spans[kind as usize]
    }

    /// Whether there is a list of this kind.
    pub fn has(&self, kind: ListKind) -> bool {
        self.span(kind).is_some()
    }

    /// In how many blobs of the segment.
    pub fn blobs(&self, kind: ListKind) -> u32 {
        self.span(kind).map_or(0, |span| span.blobs)
    }
}

/// A dictionary being written, in memory; its lists go to the file at once.
#[derive(Default)]
pub(super) struct DictionaryWriter {
    words: Vec<u8>,
    index: Vec<u8>,
    count: u32,
    last: String,
}

impl DictionaryWriter {
    /// Adds a word behind the last one, with its lists in the order of their kinds.
    pub(super) fn add<W: Write>(
        &mut self,
        word: &str,
        lists: &[ListWriter; KINDS],
        out: &mut Out<W>,
    ) -> Result<(), SegmentError> {
        let mut shared = 0;
        if (self.count as usize).is_multiple_of(BLOCK) {
            self.index.extend((self.words.len() as u64).to_le_bytes());
            self.index.extend(out.at().to_le_bytes());
        } else {
            let same = self.last.bytes().zip(word.bytes());
            shared = same.take_while(|(a, b)| a == b).count();
            while !word.is_char_boundary(shared) {
                shared -= 1;
            }
        }
        put(&mut self.words, shared as u64);
        put(&mut self.words, (word.len() - shared) as u64);
        self.words.extend(&word.as_bytes()[shared..]);
        let mask = (0..KINDS).filter(|kind| lists[*kind].blobs > 0).map(|kind| 1 << kind);
        self.words.push(mask.sum());
        for list in lists.iter().filter(|list| list.blobs > 0) {
            put(&mut self.words, list.bytes.len() as u64);
            put(&mut self.words, u64::from(list.blobs));
            out.write(&list.bytes)?;
        }
        self.last.clear();
        self.last.push_str(word);
        self.count += 1;
        Ok(())
    }

    /// Writes it behind the lists.
    pub(super) fn finish<W: Write>(self, out: &mut Out<W>) -> Result<Dictionary, SegmentError> {
        let words = out.at();
        out.write(&self.words)?;
        let index = out.at();
        out.write(&self.index)?;
        Ok(Dictionary {
            words,
            index,
            end: out.at(),
            count: self.count,
        })
    }
}

/// Where a dictionary is in a body.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Dictionary {
    pub(super) words: u64,
    pub(super) index: u64,
    pub(super) end: u64,
    pub(super) count: u32,
}

impl Dictionary {
    /// Whether the sections can be what they say.
    pub(super) fn check(&self) -> Result<(), SegmentError> {
        let blocks = u64::from(self.count).div_ceil(BLOCK as u64);
        if self.words > self.index || self.index.checked_add(blocks * 16) != Some(self.end) {
            return Err(SegmentError::Damaged("the dictionary's place"));
        }
        Ok(())
    }

    fn blocks(&self) -> usize {
        (self.count as usize).div_ceil(BLOCK)
    }

    /// Where a block begins, and where its lists begin.
    fn block(&self, body: &Body, block: usize) -> Result<(u64, u64), SegmentError> {
        if block >= self.blocks() {
            return Ok((self.index, 0));
        }
        let row = self.index + block as u64 * 16;
        let mut index = Bytes(body.bytes(row..row + 16)?);
        let (from, lists) = (index.u64()?, index.u64()?);
        let start = self.words.checked_add(from).filter(|start| *start <= self.index);
        Ok((start.ok_or(SegmentError::Damaged("a block of the dictionary"))?, lists))
    }

    /// A walk from the first word of a block, to the end of the block before `end`.
    fn walk<'a>(&self, body: &'a Body, block: usize, end: usize) -> Result<Walk<'a>, SegmentError> {
        let (start, lists) = self.block(body, block)?;
        let (stop, _) = self.block(body, end)?;
        Ok(Walk {
            bytes: Bytes(body.bytes(start..stop)?),
            lists,
            next: (block * BLOCK) as u32,
            count: self.count.min((end * BLOCK) as u32),
            text: String::new(),
            entry: Entry::default(),
        })
    }

    /// All words.
    pub(super) fn all<'a>(&self, body: &'a Body) -> Result<Walk<'a>, SegmentError> {
        self.walk(body, 0, self.blocks())
    }

    /// All words from the block on in which `word` would be.
    pub(super) fn from<'a>(&self, body: &'a Body, word: &str) -> Result<Walk<'a>, SegmentError> {
        self.walk(body, self.block_of(body, word)?, self.blocks())
    }

    /// The block in which a word would be.
    fn block_of(&self, body: &Body, word: &str) -> Result<usize, SegmentError> {
        let (mut low, mut high) = (0, self.blocks());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.first(body, middle)?.cmp(word.as_bytes()) {
                Ordering::Greater => high = middle,
                Ordering::Less | Ordering::Equal => low = middle,
            }
        }
        Ok(low)
    }

    /// The first word of a block.
    fn first<'a>(&self, body: &'a Body, block: usize) -> Result<&'a [u8], SegmentError> {
        let (start, _) = self.block(body, block)?;
        let end = self.index.min(start + MAX_TEXT as u64 + 16);
        let mut bytes = Bytes(body.bytes(start..end)?);
        bytes.number()?;
        let length = bytes.small()? as usize;
        bytes.take(length)
    }

    /// The entry of a word.
    pub(super) fn find(&self, body: &Body, word: &str) -> Result<Option<Entry>, SegmentError> {
        let block = self.block_of(body, word)?;
        let mut walk = self.walk(body, block, self.blocks().min(block + 1))?;
        while walk.step()? {
            match walk.text().cmp(word) {
                Ordering::Less => {}
                Ordering::Equal => return Ok(Some(walk.entry())),
                Ordering::Greater => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The word with a number.
    pub(super) fn text(&self, body: &Body, id: u32) -> Result<String, SegmentError> {
        if id >= self.count {
            return Err(SegmentError::Damaged("a word that does not exist"));
        }
        let block = id as usize / BLOCK;
        let mut walk = self.walk(body, block, block + 1)?;
        for _ in 0..=id as usize % BLOCK {
            walk.step()?;
        }
        Ok(walk.text)
    }
}

/// Words one after the other.
pub(super) struct Walk<'a> {
    bytes: Bytes<'a>,
    lists: u64,
    next: u32,
    count: u32,
    text: String,
    entry: Entry,
}

impl Walk<'_> {
    /// Goes to the next word; false after the last one.
    pub(super) fn step(&mut self) -> Result<bool, SegmentError> {
        if self.next >= self.count {
            return Ok(false);
        }
        let (shared, length) = (self.bytes.small()? as usize, self.bytes.small()? as usize);
        let odd = SegmentError::Damaged("a word of the dictionary");
        if shared > self.text.len() || !self.text.is_char_boundary(shared) || shared + length > MAX_TEXT {
            return Err(odd);
        }
        self.text.truncate(shared);
        let rest = std::str::from_utf8(self.bytes.take(length)?).map_err(|_| odd)?;
        self.text.push_str(rest);
        let mask = self.bytes.byte()?;
        self.entry = Entry {
            id: self.next,
            spans: [None; KINDS],
        };
        for (kind, span) in self.entry.spans.iter_mut().enumerate() {
            if mask & (1 << kind) != 0 {
                let (length, blobs) = (self.bytes.small()?, self.bytes.small()?);
                let from = self.lists;
                let next = from.checked_add(u64::from(length));
                self.lists = next.ok_or(SegmentError::Damaged("a list's place"))?;
                *span = Some(Span { from, length, blobs });
            }
        }
        self.next += 1;
        Ok(true)
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn entry(&self) -> Entry {
        self.entry
    }
}
