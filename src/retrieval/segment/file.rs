//! The outside of a segment: a body of blocks with a checksum each, and a footer. Writing goes
//! forward only, reading checks a block when it is first touched. Called by `build`, `merge` and
//! `read`. Never knows what is in the body.

use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use memmap2::Mmap;

use super::SegmentError;
use super::bytes::Bytes;
use super::map::map;

/// Bytes under one checksum: few enough that reading a word does not check a megabyte, many enough
/// that the checksums are small.
const BLOCK: usize = 32 * 1024;
const MAGIC: &[u8; 8] = b"fh-segm\n";
/// Counts up with every change of the format.
const FORMAT: u32 = 2;
const FOOTER: usize = 8 + 4 + 8 + 8 + 8 + 4;

/// A body being written.
pub(super) struct Out<W: Write> {
    to: W,
    at: u64,
    block: Vec<u8>,
    sums: Vec<u8>,
}

impl<W: Write> Out<W> {
    pub(super) fn new(to: W) -> Self {
        Self {
            to,
            at: 0,
            block: Vec::with_capacity(BLOCK),
            sums: Vec::new(),
        }
    }

    /// Where the next byte goes.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    pub(super) fn write(&mut self, mut bytes: &[u8]) -> Result<(), SegmentError> {
        self.at += bytes.len() as u64;
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - self.block.len()));
            self.block.extend_from_slice(now);
            if self.block.len() == BLOCK {
                self.end_block()?;
            }
            bytes = later;
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<(), SegmentError> {
        self.sums.extend(crc32fast::hash(&self.block).to_le_bytes());
        self.to.write_all(&self.block)?;
        self.block.clear();
        Ok(())
    }

    /// Ends the body; `table` says where in it the table of sections is. Returns the file's length.
    pub(super) fn finish(mut self, version: u64, table: u64) -> Result<(W, u64), SegmentError> {
        if !self.block.is_empty() {
            self.end_block()?;
        }
        let mut tail = std::mem::take(&mut self.sums);
        tail.extend(MAGIC);
        tail.extend(FORMAT.to_le_bytes());
        tail.extend(version.to_le_bytes());
        tail.extend(self.at.to_le_bytes());
        tail.extend(table.to_le_bytes());
        tail.extend(crc32fast::hash(&tail).to_le_bytes());
        self.to.write_all(&tail)?;
        self.to.flush()?;
        Ok((self.to, self.at + tail.len() as u64))
    }
}

enum Held {
    Map(Mmap),
    Memory(Vec<u8>),
}

impl Held {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Map(map) => map,
            Self::Memory(bytes) => bytes,
        }
    }
}

/// A body that is read.
pub(super) struct Body {
    held: Held,
    length: usize,
    table: u64,
    /// A bit for each block that was found whole.
    whole: Box<[AtomicU64]>,
    is_damaged: AtomicBool,
}

impl Body {
    pub(super) fn open(path: &Path, version: u64) -> Result<Self, SegmentError> {
        Self::new(Held::Map(map(path)?), version)
    }

    pub(super) fn of_memory(bytes: Vec<u8>, version: u64) -> Result<Self, SegmentError> {
        Self::new(Held::Memory(bytes), version)
    }

    fn new(held: Held, version: u64) -> Result<Self, SegmentError> {
        let all = held.bytes();
        let damaged = SegmentError::Damaged("the end of the file");
        let Some(footer) = all.len().checked_sub(FOOTER) else {
            return Err(damaged);
        };
        let mut footer = Bytes(&all[footer..]);
        if footer.take(8)? != MAGIC {
            return Err(damaged);
        }
        if footer.u32()? != FORMAT || footer.u64()? != version {
            return Err(SegmentError::OtherVersion);
        }
        let (length, table, sum) = (footer.u64()?, footer.u64()?, footer.u32()?);
        let length = usize::try_from(length).map_err(|_| SegmentError::Damaged("its length"))?;
        let blocks = length.div_ceil(BLOCK);
        if length.checked_add(blocks * 4 + FOOTER) != Some(all.len())
            || crc32fast::hash(&all[length..all.len() - 4]) != sum
        {
            return Err(damaged);
        }
        let whole = (0..blocks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Self {
            length,
            table,
            whole,
            held,
            is_damaged: AtomicBool::new(false),
        })
    }

    /// Where the table of sections is.
    pub(super) fn table(&self) -> u64 {
        self.table
    }

    /// Length of the file in bytes.
    pub(super) fn file_length(&self) -> u64 {
        self.held.bytes().len() as u64
    }

    pub(super) fn length(&self) -> u64 {
        self.length as u64
    }

    pub(super) fn is_in_memory(&self) -> bool {
        matches!(self.held, Held::Memory(_))
    }

    pub(super) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    /// Remembers that something in it made no sense.
    pub(super) fn set_damaged(&self) {
        self.is_damaged.store(true, Ordering::Relaxed);
    }

    /// Bytes of the body, checked.
    pub(super) fn bytes(&self, range: Range<u64>) -> Result<&[u8], SegmentError> {
        let outside = SegmentError::Damaged("a place outside of the file");
        let (Ok(from), Ok(to)) = (usize::try_from(range.start), usize::try_from(range.end)) else {
            return Err(outside);
        };
        if from > to || to > self.length {
            return Err(outside);
        }
        if from < to && matches!(self.held, Held::Map(_)) {
            for block in from / BLOCK..=(to - 1) / BLOCK {
                self.check(block)?;
            }
        }
        Ok(&self.held.bytes()[from..to])
    }

    fn check(&self, block: usize) -> Result<(), SegmentError> {
        let (word, bit) = (&self.whole[block / 64], 1 << (block % 64));
        if word.load(Ordering::Relaxed) & bit != 0 {
            return Ok(());
        }
        let all = self.held.bytes();
        let body = &all[block * BLOCK..self.length.min((block + 1) * BLOCK)];
        let sum = Bytes(&all[self.length + block * 4..]).u32()?;
        if crc32fast::hash(body) != sum {
            self.set_damaged();
            return Err(SegmentError::Damaged("a block with a wrong checksum"));
        }
        word.fetch_or(bit, Ordering::Relaxed);
        Ok(())
    }
}
