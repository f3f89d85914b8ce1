//! Lists of places: blobs by their numbers in the segment, and in each the units, symbols or
//! references with a count. Gaps instead of numbers, so that most places take two bytes. Called by
//! `build`, `merge` and `read`. Never holds a list in memory as a whole when it is read.

use super::SegmentError;
use super::bytes::{Bytes, put};

/// A place in a blob: the unit, symbol or reference, and how often.
pub(super) type Place = (u32, u32);

/// A list being written.
#[derive(Default)]
pub(super) struct ListWriter {
    pub(super) bytes: Vec<u8>,
    /// How many blobs are in it.
    pub(super) blobs: u32,
    next: u32,
}

impl ListWriter {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.blobs = 0;
        self.next = 0;
    }

    /// Adds a blob behind those that are in it. Puts the places in order and the counts of the same
    /// place together.
    pub(super) fn add(&mut self, blob: u32, places: &mut Vec<Place>) {
        if !places.is_sorted_by_key(|(at, _)| *at) {
            places.sort_unstable_by_key(|(at, _)| *at);
        }
        places.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            same
        });
        if places.is_empty() {
            return;
        }
        let many = places.len() > 1;
        put(&mut self.bytes, u64::from(blob - self.next) << 1 | u64::from(many));
        if many {
            put(&mut self.bytes, places.len() as u64 - 2);
        }
        let mut next = 0;
        for (at, count) in places.iter() {
            let often = *count != 1;
            put(&mut self.bytes, u64::from(at - next) << 1 | u64::from(often));
            if often {
                put(&mut self.bytes, u64::from(*count));
            }
            next = at.saturating_add(1);
        }
        self.next = blob + 1;
        self.blobs += 1;
    }
}

/// A list being read.
#[derive(Clone, Copy, Default)]
pub(super) struct List<'a> {
    bytes: Bytes<'a>,
    next: u32,
}

impl<'a> List<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes: Bytes(bytes),
            next: 0,
        }
    }

    /// The next blob; its places are put behind what is in `into`.
    #[inline]
    pub(super) fn next(&mut self, into: &mut Vec<Place>) -> Result<Option<u32>, SegmentError> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let head = self.bytes.number()?;
        let places = if head & 1 == 0 {
            1
        } else {
            self.bytes.count()?.saturating_add(2)
        };
        let blob = add(self.next, head >> 1)?;
        let mut next = 0;
        for _ in 0..places {
            let head = self.bytes.number()?;
            let at = add(next, head >> 1)?;
            let count = if head & 1 == 0 { 1 } else { self.bytes.small()? };
            into.push((at, count));
            next = at.saturating_add(1);
        }
        self.next = blob.saturating_add(1);
        Ok(Some(blob))
    }
}

fn add(base: u32, gap: u64) -> Result<u32, SegmentError> {
    let sum = u64::from(base).checked_add(gap);
    sum.and_then(|sum| u32::try_from(sum).ok())
        .ok_or(SegmentError::Damaged("a gap that is too large"))
}
