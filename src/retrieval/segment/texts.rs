//! The words of a segment by their numbers, decoded a block at a time and kept up to a bound, since
//! records ask for the same names again and again. Called by `read`. Never decodes what nobody asks
//! for, and never keeps more than its bound.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::SegmentError;
use super::dictionary::Dictionary;
use super::file::Body;

/// Bytes of words that are kept for one segment; those of 30,000 files take a tenth.
const MAX_KEPT: usize = 48 << 20;

/// The words of one block.
#[derive(Debug)]
struct Block {
    text: Box<str>,
    ends: Box<[u32]>,
}

impl Block {
    fn read(dictionary: &Dictionary, body: &Body, block: usize) -> Result<Self, SegmentError> {
        let (mut text, mut ends) = (String::new(), Vec::with_capacity(16));
        dictionary.block_texts(body, block, |word| {
            text.push_str(word);
            ends.push(text.len() as u32);
        })?;
        Ok(Self {
            text: text.into(),
            ends: ends.into(),
        })
    }

    fn get(&self, at: usize) -> Result<&str, SegmentError> {
        let missing = SegmentError::Damaged("a word that does not exist");
        let to = *self.ends.get(at).ok_or(missing)? as usize;
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        Ok(&self.text[from..to])
    }

    fn bytes(&self) -> usize {
        self.text.len() + self.ends.len() * 4 + 64
    }
}

/// The blocks that were decoded.
#[derive(Debug)]
pub(super) struct Texts {
    blocks: Box<[OnceLock<Box<Block>>]>,
    kept: AtomicUsize,
}

impl Texts {
    pub(super) fn new(dictionary: &Dictionary) -> Self {
        Self {
            blocks: (0..dictionary.block_count()).map(|_| OnceLock::new()).collect(),
            kept: AtomicUsize::new(0),
        }
    }

    /// The word with a number.
    pub(super) fn get(&self, dictionary: &Dictionary, body: &Body, id: u32) -> Result<Cow<'_, str>, SegmentError> {
        let (block, at) = dictionary.place_of(id)?;
        if let Some(block) = self.blocks[block].get() {
            return block.get(at).map(Cow::Borrowed);
        }
        let read = Block::read(dictionary, body, block)?;
        if self.kept.fetch_add(read.bytes(), Ordering::Relaxed) > MAX_KEPT {
            return read.get(at).map(|text| Cow::Owned(text.to_owned()));
        }
        let block = self.blocks[block].get_or_init(|| Box::new(read));
        block.get(at).map(Cow::Borrowed)
    }
}
