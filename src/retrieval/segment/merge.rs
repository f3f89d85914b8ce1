//! Puts several segments into one, without the blobs that nobody needs any more. Called by `index`
//! and `view`. Reads each input once from front to back. Never holds more than the new dictionary
//! and one list in memory.

use std::io::Write;

use super::build::Built;
use super::bytes::put;
use super::dictionary::{DictionaryWriter, Walk};
use super::file::Out;
use super::list::{ListWriter, Place};
use super::read::{Segment, Table};
use super::record;
use super::{KINDS, ListKind, SegmentError};

/// A blob that is left out.
const GONE: u32 = u32::MAX;

/// Writes the blobs of `inputs` that are `wanted`, given the input and the blob's number in it. A
/// blob that several inputs have is taken from the first.
pub fn merge<W: Write>(
    inputs: &[&Segment],
    wanted: impl Fn(usize, u32) -> bool,
    to: W,
    version: u64,
) -> Result<(W, Built), SegmentError> {
    let (order, numbers) = number(inputs, wanted)?;
    let used = used_words(inputs, &order)?;
    let mut out = Out::new(to);
    let mut words: Vec<Vec<u32>> = inputs
        .iter()
        .map(|input| vec![GONE; input.word_count() as usize])
        .collect();
    let mut dictionary = DictionaryWriter::default();
    let mut lists: [ListWriter; KINDS] = Default::default();
    let mut walks = Walks::new(inputs)?;
    let mut id = 0;
    while let Some(same) = walks.least() {
        for (kind, list) in ListKind::ALL.into_iter().zip(&mut lists) {
            join(inputs, &walks, &same, kind, &numbers, list)?;
        }
        let is_used = |at: &usize| used[*at][walks.0[*at].entry().id as usize];
        if lists.iter().any(|list| list.blobs > 0) || same.iter().any(is_used) {
            dictionary.add(walks.0[same[0]].text(), &lists, &mut out)?;
            for at in &same {
                words[*at][walks.0[*at].entry().id as usize] = id;
            }
            id += 1;
        }
        walks.step(&same)?;
    }
    let mut table = Table::new(dictionary.finish(&mut out)?);
    let mut bytes = Vec::new();
    for (input, blob) in order {
        let (texts, rest) = record::split(inputs[input].record_bytes(blob)?)?;
        bytes.clear();
        put(&mut bytes, texts.len() as u64);
        for text in texts {
            put(&mut bytes, u64::from(words[input][text as usize]));
        }
        bytes.extend(rest);
        table.add(&inputs[input].key(blob)?, &inputs[input].row(blob)?, &bytes, &mut out)?;
    }
    table.finish(out, version)
}

/// The blobs in the order of their keys, and the new number of each by input and old number.
type Order = (Vec<(usize, u32)>, Vec<Vec<u32>>);

fn number(inputs: &[&Segment], wanted: impl Fn(usize, u32) -> bool) -> Result<Order, SegmentError> {
    let mut keyed = Vec::new();
    for (at, input) in inputs.iter().enumerate() {
        for blob in (0..input.blobs()).filter(|blob| wanted(at, *blob)) {
            keyed.push((input.key(blob)?, at, blob));
        }
    }
    keyed.sort_unstable();
    keyed.dedup_by_key(|(key, ..)| *key);
    let mut numbers: Vec<Vec<u32>> = inputs.iter().map(|input| vec![GONE; input.blobs() as usize]).collect();
    for (new, (_, at, blob)) in (0..).zip(&keyed) {
        numbers[*at][*blob as usize] = new;
    }
    Ok((keyed.into_iter().map(|(_, at, blob)| (at, blob)).collect(), numbers))
}

/// Which words of each input are texts of records that stay.
fn used_words(inputs: &[&Segment], order: &[(usize, u32)]) -> Result<Vec<Vec<bool>>, SegmentError> {
    let mut used: Vec<Vec<bool>> = inputs
        .iter()
        .map(|input| vec![false; input.word_count() as usize])
        .collect();
    for (at, blob) in order {
        for text in record::split(inputs[*at].record_bytes(*blob)?)?.0 {
            let used = used[*at].get_mut(text as usize);
            *used.ok_or(SegmentError::Damaged("a text that does not exist"))? = true;
        }
    }
    Ok(used)
}

/// One walk for each input that has words left.
struct Walks<'a>(Vec<Walk<'a>>, Vec<bool>);

impl<'a> Walks<'a> {
    fn new(inputs: &[&'a Segment]) -> Result<Self, SegmentError> {
        let mut walks = Self(Vec::new(), Vec::new());
        for input in inputs {
            let mut walk = input.words()?;
            walks.1.push(walk.step()?);
            walks.0.push(walk);
        }
        Ok(walks)
    }

    /// The inputs that stand at the least word.
    fn least(&self) -> Option<Vec<usize>> {
        let left = || (0..self.0.len()).filter(|at| self.1[*at]);
        let least = left().map(|at| self.0[at].text()).min()?;
        Some(left().filter(|at| self.0[*at].text() == least).collect())
    }

    fn step(&mut self, at: &[usize]) -> Result<(), SegmentError> {
        for at in at {
            let before = self.0[*at].text().to_owned();
            self.1[*at] = self.0[*at].step()?;
            if self.1[*at] && self.0[*at].text() <= before.as_str() {
                return Err(SegmentError::Damaged("words out of order"));
            }
        }
        Ok(())
    }
}

/// The lists of one word, as one.
fn join(
    inputs: &[&Segment],
    walks: &Walks<'_>,
    same: &[usize],
    kind: ListKind,
    numbers: &[Vec<u32>],
    into: &mut ListWriter,
) -> Result<(), SegmentError> {
    into.clear();
    let mut places: Vec<Place> = Vec::new();
    let mut blobs: Vec<(u32, usize, usize)> = Vec::new();
    for at in same {
        let entry = walks.0[*at].entry();
        if !entry.has(kind) {
            continue;
        }
        let mut list = inputs[*at].list(&entry, kind)?;
        let mut from = places.len();
        while let Some(blob) = list.next(&mut places)? {
            let new = numbers[*at].get(blob as usize).copied();
            match new.ok_or(SegmentError::Damaged("a blob that does not exist"))? {
                GONE => places.truncate(from),
                new => blobs.push((new, from, places.len())),
            }
            from = places.len();
        }
    }
    blobs.sort_unstable();
    if blobs.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err(SegmentError::Damaged("a blob twice in a list"));
    }
    let mut one = Vec::new();
    for (blob, from, to) in blobs {
        one.clear();
        one.extend_from_slice(&places[from..to]);
        into.add(blob, &mut one);
    }
    Ok(())
}
