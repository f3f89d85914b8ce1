//! Collects facts of blobs and writes them as a segment. Each worker has a builder of its own; one
//! that has grown to its limit is written and emptied. Called by `index` and `view`. Never sorts the
//! places of words: blobs come in order, so counting puts them where they belong in linear time.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::bytes::put;
use super::dictionary::{DictionaryWriter, MAX_TEXT};
use super::file::Out;
use super::list::{ListWriter, Place};
use super::read::{Row, Table};
use super::record::{self, Texts};
use super::{BlobKey, KINDS, ListKind, SegmentError, Traits};
use crate::retrieval::facts::Facts;

/// Facts that wait to be written.
#[derive(Default)]
pub struct Builder {
    words: Words,
    log: Vec<Logged>,
    blobs: Vec<Pending>,
    bodies: Vec<u8>,
    texts: Vec<u32>,
}

/// A word of a blob, as it came.
#[derive(Clone, Copy)]
struct Logged {
    /// The word's number and the kind of list.
    list: u32,
    at: u32,
    count: u32,
}

impl Logged {
    fn new(word: u32, kind: ListKind, at: u32, count: u32) -> Self {
        Self {
            list: word * KINDS as u32 + kind as u32,
            at,
            count,
        }
    }
}

/// A blob, with where in the builder's vectors its parts are.
struct Pending {
    key: BlobKey,
    row: Row,
    log: std::ops::Range<usize>,
    body: std::ops::Range<usize>,
    texts: std::ops::Range<usize>,
}

/// Numbers for words in the order in which they were met.
#[derive(Default)]
struct Words {
    ids: HashMap<Box<str>, u32, RandomState>,
    bytes: usize,
    /// For each word: the last record that used it, and its number there.
    local: Vec<(u32, u32)>,
}

impl Words {
    fn id(&mut self, word: &str) -> u32 {
        let word = cut(word);
        if let Some(id) = self.ids.get(word) {
            return *id;
        }
        let id = self.ids.len() as u32;
        self.ids.insert(word.into(), id);
        self.local.push((u32::MAX, 0));
        // The text, its slot in the table and what the allocator adds.
        self.bytes += word.len() + 64;
        id
    }
}

fn cut(word: &str) -> &str {
    &word[..word.floor_char_boundary(MAX_TEXT)]
}

/// The table of one record while it is encoded.
struct Local<'a> {
    words: &'a mut Words,
    log: &'a mut Vec<Logged>,
    texts: &'a mut Vec<u32>,
    from: usize,
    record: u32,
}

impl Local<'_> {
    fn number(&mut self, id: u32) -> u32 {
        let (record, local) = &mut self.words.local[id as usize];
        if *record != self.record {
            (*record, *local) = (self.record, (self.texts.len() - self.from) as u32);
            self.texts.push(id);
        }
        *local
    }
}

impl Texts for Local<'_> {
    fn local(&mut self, text: &str) -> u32 {
        let id = self.words.id(text);
        self.number(id)
    }

    fn listed(&mut self, name: &str, kind: ListKind, at: u32) -> u32 {
        let id = self.words.id(name);
        self.log.push(Logged::new(id, kind, at, 1));
        self.number(id)
    }
}

/// What a written segment holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Built {
    /// Number of blobs.
    pub blobs: u32,
    /// Length of the file.
    pub bytes: u64,
}

impl Builder {
    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.blobs.is_empty()
    }

    /// About how much memory it takes, including what writing it will need.
    pub fn bytes(&self) -> usize {
        self.words.bytes + self.log.len() * 3 * size_of::<Logged>() + self.bodies.len() + self.texts.len() * 4
    }

    /// Adds a blob.
    pub fn add(&mut self, key: BlobKey, traits: Traits, facts: &Facts, note: Option<&str>) {
        let (log, body, texts) = (self.log.len(), self.bodies.len(), self.texts.len());
        let mut last: Option<(&Arc<str>, u32)> = None;
        for term in &facts.terms {
            // The places of one word come together as a rule.
            let id = match last {
                Some((text, id)) if Arc::ptr_eq(text, &term.text) => id,
                _ => self.words.id(&term.text),
            };
            last = Some((&term.text, id));
            self.log.push(Logged::new(id, term.field.into(), term.unit, term.count));
        }
        let mut local = Local {
            words: &mut self.words,
            log: &mut self.log,
            texts: &mut self.texts,
            from: texts,
            record: self.blobs.len() as u32,
        };
        self.bodies.extend(record::encode(facts, note, &mut local));
        let words = facts.units.iter().map(|unit| unit.words);
        self.blobs.push(Pending {
            key,
            row: Row {
                lines: facts.lines,
                words: words.fold(0, u32::saturating_add),
                units: facts.units.len() as u32,
                has_note: note.is_some(),
                traits,
            },
            log: log..self.log.len(),
            body: body..self.bodies.len(),
            texts: texts..self.texts.len(),
        });
    }

    /// Writes everything and empties the builder.
    pub fn write<W: Write>(&mut self, to: W, version: u64) -> Result<(W, Built), SegmentError> {
        let mut all = std::mem::take(self);
        all.blobs.sort_by_key(|blob| blob.key);
        all.blobs.dedup_by_key(|blob| blob.key);
        let mut words: Vec<(Box<str>, u32)> = all.words.ids.drain().collect();
        words.sort_unstable();
        let mut rank = vec![0; words.len()];
        for (at, (_, id)) in (0..).zip(&words) {
            rank[*id as usize] = at;
        }
        let mut out = Out::new(to);
        let placed = Placed::new(&all, &rank);
        let mut dictionary = DictionaryWriter::default();
        let mut lists: [ListWriter; KINDS] = Default::default();
        for (at, (word, _)) in words.iter().enumerate() {
            for (kind, list) in lists.iter_mut().enumerate() {
                placed.fill(at * KINDS + kind, list);
            }
            dictionary.add(word, &lists, &mut out)?;
        }
        drop(placed);
        let dictionary = dictionary.finish(&mut out)?;
        let mut table = Table::new(dictionary);
        let mut record = Vec::new();
        for blob in &all.blobs {
            record.clear();
            put(&mut record, blob.texts.len() as u64);
            for text in &all.texts[blob.texts.clone()] {
                put(&mut record, u64::from(rank[*text as usize]));
            }
            record.extend(&all.bodies[blob.body.clone()]);
            table.add(&blob.key, &blob.row, &record, &mut out)?;
        }
        table.finish(out, version)
    }
}

/// The log in the order of its lists, and in each list in the order of the blobs.
struct Placed {
    ends: Vec<u32>,
    entries: Vec<(u32, Place)>,
}

impl Placed {
    fn new(all: &Builder, rank: &[u32]) -> Self {
        let list = |logged: &Logged| {
            let (word, kind) = (logged.list as usize / KINDS, logged.list as usize % KINDS);
            rank[word] as usize * KINDS + kind
        };
        // First how many in each list, then where each begins; filling moves that to where it ends.
        let mut ends = vec![0u32; rank.len() * KINDS + 1];
        let live = || all.blobs.iter().map(|blob| &all.log[blob.log.clone()]);
        for logged in live().flatten() {
            ends[list(logged) + 1] += 1;
        }
        for at in 1..ends.len() {
            ends[at] += ends[at - 1];
        }
        let total = ends.last().copied().unwrap_or_default() as usize;
        let mut entries = vec![(0, (0, 0)); total];
        for (blob, log) in (0..).zip(live()) {
            for logged in log {
                let end = &mut ends[list(logged)];
                entries[*end as usize] = (blob, (logged.at, logged.count));
                *end += 1;
            }
        }
        Self { ends, entries }
    }

    fn fill(&self, at: usize, list: &mut ListWriter) {
        list.clear();
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before]) as usize;
        let mut places = Vec::new();
        for blob in self.entries[from..self.ends[at] as usize].chunk_by(|a, b| a.0 == b.0) {
            places.clear();
            places.extend(blob.iter().map(|(_, place)| *place));
            list.add(blob[0].0, &mut places);
        }
    }
}
