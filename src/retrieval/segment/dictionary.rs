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
    /// The block that is not full yet: its texts, and what is said of them. They stand apart, so that
    /// a search in all words runs over the texts alone.
    texts: Vec<u8>,
    spans: Vec<u8>,
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
            self.end_block();
            self.index.extend((self.words.len() as u64).to_le_bytes());
            self.index.extend(out.at().to_le_bytes());
        } else {
            let same = self.last.bytes().zip(word.bytes());
            shared = word.floor_char_boundary(same.take_while(|(a, b)| a == b).count());
        }
        put(&mut self.texts, shared as u64);
        put(&mut self.texts, (word.len() - shared) as u64);
        self.texts.extend(&word.as_bytes()[shared..]);
        let mask = (0..KINDS).filter(|kind| lists[*kind].blobs > 0).map(|kind| 1 << kind);
        self.spans.push(mask.sum());
        for list in lists.iter().filter(|list| list.blobs > 0) {
            put(&mut self.spans, list.bytes.len() as u64);
            put(&mut self.spans, u64::from(list.blobs));
            out.write(&list.bytes)?;
        }
        self.last.clear();
        self.last.push_str(word);
        self.count += 1;
        Ok(())
    }

    fn end_block(&mut self) {
        if !self.texts.is_empty() {
            put(&mut self.words, self.texts.len() as u64);
            put(&mut self.words, self.spans.len() as u64);
            self.words.append(&mut self.texts);
            self.words.append(&mut self.spans);
        }
    }

    /// Writes it behind the lists.
    pub(super) fn finish<W: Write>(mut self, out: &mut Out<W>) -> Result<Dictionary, SegmentError> {
        self.end_block();
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
            blocks: Bytes(body.bytes(start..stop)?),
            lists,
            next: (block * BLOCK) as u32,
            count: self.count.min((end * BLOCK) as u32),
            ..Walk::default()
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
        let end = self.index.min(start + MAX_TEXT as u64 + 32);
        let mut bytes = Bytes(body.bytes(start..end)?);
        // The lengths of the block's two parts, and the beginning shared with nothing.
        for _ in 0..3 {
            bytes.number()?;
        }
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

    /// All words that contain `needle`, which is not empty. Puts the words of a block side by side
    /// and searches them at once, which is ten times as quick as word by word.
    pub(super) fn containing(&self, body: &Body, needle: &str) -> Result<Vec<Entry>, SegmentError> {
        let finder = memchr::memmem::Finder::new(needle);
        let (start, _) = self.block(body, 0)?;
        let mut blocks = Bytes(body.bytes(start..self.index)?);
        let mut found = Vec::new();
        let mut side_by_side = Vec::new();
        for block in 0..self.blocks() {
            side_by_side.clear();
            let mut texts = parts(&mut blocks)?.0;
            let mut last = 0;
            while !texts.is_empty() {
                let (shared, rest) = text(&mut texts)?;
                if last + shared > side_by_side.len() {
                    return Err(SegmentError::Damaged("a word of the dictionary"));
                }
                let now = side_by_side.len();
                side_by_side.extend_from_within(last..last + shared);
                side_by_side.extend_from_slice(rest);
                // No text holds this byte, so nothing is found across two of them.
                side_by_side.push(0xff);
                last = now;
            }
            if finder.find(&side_by_side).is_some() {
                let mut walk = self.walk(body, block, block + 1)?;
                while walk.step()? {
                    if finder.find(walk.text().as_bytes()).is_some() {
                        found.push(walk.entry());
                    }
                }
            }
        }
        Ok(found)
    }

    /// How many blocks there are.
    pub(super) fn block_count(&self) -> usize {
        self.blocks()
    }

    /// In which block the word with a number is, and at which place of it.
    pub(super) fn place_of(&self, id: u32) -> Result<(usize, usize), SegmentError> {
        if id >= self.count {
            return Err(SegmentError::Damaged("a word that does not exist"));
        }
        Ok((id as usize / BLOCK, id as usize % BLOCK))
    }

    /// The words of a block, each handed to `each` in order.
    pub(super) fn block_texts(
        &self,
        body: &Body,
        block: usize,
        mut each: impl FnMut(&str),
    ) -> Result<(), SegmentError> {
        let (start, _) = self.block(body, block)?;
        let (stop, _) = self.block(body, block + 1)?;
        // Texts alone, without what is said of them: records ask for many.
        let mut texts = parts(&mut Bytes(body.bytes(start..stop)?))?.0;
        let odd = SegmentError::Damaged("a word of the dictionary");
        let mut word = String::new();
        while !texts.is_empty() {
            let (shared, rest) = text(&mut texts)?;
            if !word.is_char_boundary(shared) || shared + rest.len() > MAX_TEXT {
                return Err(odd);
            }
            word.truncate(shared);
            word.push_str(std::str::from_utf8(rest).map_err(|_| SegmentError::Damaged("a word of the dictionary"))?);
            each(&word);
        }
        Ok(())
    }
}

/// Words one after the other.
#[derive(Default)]
pub(super) struct Walk<'a> {
    /// Blocks that were not begun.
    blocks: Bytes<'a>,
    texts: Bytes<'a>,
    spans: Bytes<'a>,
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
        if (self.next as usize).is_multiple_of(BLOCK) {
            (self.texts, self.spans) = parts(&mut self.blocks)?;
            self.text.clear();
        }
        let (shared, rest) = text(&mut self.texts)?;
        let odd = SegmentError::Damaged("a word of the dictionary");
        if !self.text.is_char_boundary(shared) || shared + rest.len() > MAX_TEXT {
            return Err(odd);
        }
        self.text.truncate(shared);
        self.text.push_str(std::str::from_utf8(rest).map_err(|_| odd)?);
        let mask = self.spans.byte()?;
        self.entry = Entry {
            id: self.next,
            spans: [None; KINDS],
        };
        for (kind, span) in self.entry.spans.iter_mut().enumerate() {
            if mask & (1 << kind) != 0 {
                let (length, blobs) = (self.spans.small()?, self.spans.small()?);
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

/// The texts of the next block, and what is said of them.
fn parts<'a>(blocks: &mut Bytes<'a>) -> Result<(Bytes<'a>, Bytes<'a>), SegmentError> {
    let (texts, spans) = (blocks.small()? as usize, blocks.small()? as usize);
    Ok((Bytes(blocks.take(texts)?), Bytes(blocks.take(spans)?)))
}

/// How much of the last text the next one begins with, and the rest of it.
fn text<'a>(texts: &mut Bytes<'a>) -> Result<(usize, &'a [u8]), SegmentError> {
    let (shared, length) = (texts.small()? as usize, texts.small()? as usize);
    Ok((shared, texts.take(length)?))
}
