//! One state of a repository as the index sees it: its files with what is known of each, and every
//! name and word with where it stands. What ranking and the graph read. Never changes once made.
//! Stands on segments that other views share, and keeps only which file is which blob of them.

use std::borrow::Cow;
use std::sync::Arc;

use super::facts::{Facts, Field, Import, Reference, Symbol, Unit};
use super::segment::{self, BlobKey, Builder, Entry, ListKind, Record, Segment, SegmentError, Traits, Use};
use crate::git::BlobId;
use crate::language::Language;

mod files;
mod literal;
#[cfg(test)]
mod tests;

use files::Files;
pub use files::Place;
pub use literal::Candidates;

/// A file of a view, from 0 to [`View::len`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// Where a word stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Posting {
    /// The file.
    pub file: FileId,
    /// The unit in it.
    pub unit: u32,
    /// How often.
    pub count: u32,
}

/// A state of a repository.
#[derive(Debug, Default)]
pub struct View {
    segments: Vec<Arc<Segment>>,
    files: Files,
    notes: Vec<String>,
    is_incomplete: bool,
}

/// Version of segments that stand in memory only, and are never read by another program.
const IN_MEMORY: u64 = 0;

impl View {
    /// A view of files whose facts are at hand.
    pub fn of(files: Vec<(String, Option<&'static Language>, Arc<Facts>)>) -> Self {
        let mut files = files;
        files.sort_by(|a, b| a.0.cmp(&b.0));
        files.dedup_by(|a, b| a.0 == b.0);
        let mut builder = Builder::default();
        let mut places = Vec::with_capacity(files.len());
        for (blob, (path, language, facts)) in (0u32..).zip(files) {
            // Any ids will do that are all different, and in the order of the files.
            let mut id = [0; 20];
            id[..4].copy_from_slice(&blob.to_be_bytes());
            let key = BlobKey {
                id: BlobId(id),
                language: segment::number_of(language),
            };
            let traits = Traits {
                language: key.language,
                ..Traits::default()
            };
            builder.add(key, traits, &facts, None);
            places.push((path, Place { segment: 0, blob }));
        }
        match in_memory(builder) {
            Ok(segment) => Self::new(vec![Arc::new(segment)], places, Vec::new()),
            Err(error) => Self {
                notes: vec![error.to_string()],
                ..Self::default()
            },
        }
    }

    /// A view of files by where their blobs are. Sorted by path, each path once.
    pub(super) fn new<P: AsRef<str>>(segments: Vec<Arc<Segment>>, files: Vec<(P, Place)>, notes: Vec<String>) -> Self {
        let files = Files::new(&segments, files);
        Self {
            segments,
            files,
            notes,
            is_incomplete: false,
        }
    }

    /// This view with other contents at some paths (nothing: no file there any more), which
    /// are in `segment`.
    pub(super) fn with(&self, segment: Arc<Segment>, changes: &[(String, Option<u32>)]) -> Self {
        let mut segments = self.segments.clone();
        segments.push(segment);
        let top = segments.len() as u32 - 1;
        let mut files: std::collections::BTreeMap<&str, Place> = self
            .files()
            .map(|file| (self.path(file), self.files.place(file)))
            .collect();
        for (path, blob) in changes {
            match blob {
                Some(blob) => files.insert(
                    path,
                    Place {
                        segment: top,
                        blob: *blob,
                    },
                ),
                None => files.remove(path.as_str()),
            };
        }
        Self::new(segments, files.into_iter().collect(), self.notes.clone()).incomplete(self.is_incomplete)
    }

    /// The same view, which lacks files that may turn up.
    pub(super) fn incomplete(self, is_incomplete: bool) -> Self {
        Self { is_incomplete, ..self }
    }

    /// Whether contents of files were missing that another update may find.
    pub fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// Whether a segment under it was found damaged: some answers may lack something.
    pub fn is_damaged(&self) -> bool {
        self.segments.iter().any(|segment| segment.is_damaged())
    }

    /// The same view with its segments in memory put into one when there are more than `max`.
    pub(super) fn joined(self, max: usize) -> Result<Self, SegmentError> {
        let is_own = |segment: &Arc<Segment>| segment.is_in_memory();
        if self.segments.iter().filter(|segment| is_own(segment)).count() <= max {
            return Ok(self);
        }
        let (own, mut kept): (Vec<_>, Vec<_>) = self.segments.iter().cloned().partition(is_own);
        let inputs: Vec<&Segment> = own.iter().map(|segment| &**segment).collect();
        let number = |segment: &Arc<Segment>| {
            let at = self.segments.iter().position(|other| Arc::ptr_eq(other, segment));
            at.unwrap_or_default() as u32
        };
        let numbers: Vec<u32> = own.iter().map(number).collect();
        let is_live = |at: usize, blob: u32| self.files.of_blob(numbers[at], blob).next().is_some();
        let (bytes, _) = segment::merge(&inputs, is_live, Vec::new(), IN_MEMORY)?;
        let joined = Segment::of_memory(bytes, IN_MEMORY)?;
        let moved: Vec<Option<u32>> = self
            .segments
            .iter()
            .map(|segment| kept.iter().position(|other| Arc::ptr_eq(other, segment)))
            .map(|at| at.map(|at| at as u32))
            .collect();
        let mut files = Vec::with_capacity(self.len());
        for file in self.files() {
            let place = self.files.place(file);
            let place = match moved[place.segment as usize] {
                Some(segment) => Place { segment, ..place },
                None => {
                    let key = self.segments[place.segment as usize].key(place.blob)?;
                    let blob = joined.find(&key)?;
                    Place {
                        segment: kept.len() as u32,
                        blob: blob.ok_or(SegmentError::Damaged("a blob got lost"))?,
                    }
                }
            };
            files.push((self.path(file), place));
        }
        kept.push(Arc::new(joined));
        Ok(Self::new(kept, files, self.notes.clone()).incomplete(self.is_incomplete))
    }

    /// What was left out of it, a line each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is no file.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All files, by path.
    pub fn files(&self) -> impl Iterator<Item = FileId> + use<> {
        (0..self.files.len() as u32).map(FileId)
    }

    /// A file's path.
    pub fn path(&self, file: FileId) -> &str {
        self.files.path(file)
    }

    /// The file at a path.
    pub fn file(&self, path: &str) -> Option<FileId> {
        self.files.at(path)
    }

    /// A file's blob. That of an edited file is known to nobody else.
    pub fn blob(&self, file: FileId) -> BlobId {
        let place = self.files.place(file);
        let key = self.good(place.segment, |segment| segment.key(place.blob));
        key.map_or(BlobId([0; 20]), |key| key.id)
    }

    /// A file's language.
    pub fn language(&self, file: FileId) -> Option<&'static Language> {
        segment::language_of(self.row(file).traits.language)
    }

    /// A file's number of lines.
    pub fn lines(&self, file: FileId) -> u32 {
        self.row(file).lines
    }

    /// Words in all units of a file.
    pub fn words(&self, file: FileId) -> u32 {
        self.row(file).words
    }

    /// Number of a file's units.
    pub fn unit_count(&self, file: FileId) -> u32 {
        self.row(file).units
    }

    fn row(&self, file: FileId) -> segment::Row {
        let place = self.files.place(file);
        let row = self.good(place.segment, |segment| segment.row(place.blob));
        row.unwrap_or_default()
    }

    /// A file's definitions.
    pub fn symbols(&self, file: FileId) -> Vec<Symbol> {
        self.record(file, |record| record.symbols()).unwrap_or_default()
    }

    /// One of a file's definitions, without reading the others' names.
    pub fn symbol(&self, file: FileId, at: u32) -> Option<Symbol> {
        self.record(file, |record| record.symbol(at)).flatten()
    }

    /// A file's uses of names.
    pub fn references(&self, file: FileId) -> Vec<Reference> {
        self.record(file, |record| record.references()).unwrap_or_default()
    }

    /// Some of a file's uses of names, by their places, which are in order.
    pub fn references_at(&self, file: FileId, places: &[u32]) -> Vec<Reference> {
        self.record(file, |record| record.references_at(places))
            .unwrap_or_default()
    }

    /// What a file brings in.
    pub fn imports(&self, file: FileId) -> Vec<Import> {
        self.record(file, |record| record.imports()).unwrap_or_default()
    }

    /// A file's units.
    pub fn units(&self, file: FileId) -> Vec<Unit> {
        self.record(file, |record| record.units()).unwrap_or_default()
    }

    fn record<T>(&self, file: FileId, read: impl FnOnce(&Record<'_>) -> Result<T, SegmentError>) -> Option<T> {
        let place = self.files.place(file);
        self.good(place.segment, |segment| read(&segment.record(place.blob)?))
    }

    /// What a segment says, unless it is damaged: then it says nothing, and the index will replace it.
    fn good<T>(&self, segment: u32, read: impl FnOnce(&Segment) -> Result<T, SegmentError>) -> Option<T> {
        let segment = &self.segments[segment as usize];
        segment.judge(read(segment)).ok()
    }

    /// Where a name is defined: file and place in its [`Self::symbols`].
    pub fn defined(&self, name: &str) -> Vec<(FileId, u32)> {
        let postings = self.places(ListKind::Symbols, name);
        postings.into_iter().map(|place| (place.file, place.unit)).collect()
    }

    /// Where a name is used: file and place in its [`Self::references`].
    pub fn referred(&self, name: &str) -> Vec<(FileId, u32)> {
        let postings = self.places(ListKind::References, name);
        postings.into_iter().map(|place| (place.file, place.unit)).collect()
    }

    /// Imports that give a name another one: file and place in its [`Self::imports`].
    pub fn renamed(&self, name: &str) -> Vec<(FileId, u32)> {
        let postings = self.places(ListKind::Renames, name);
        postings.into_iter().map(|place| (place.file, place.unit)).collect()
    }

    /// Where a name is one that a type extends or implements: file and place in its
    /// [`Self::references`].
    pub fn extended(&self, name: &str) -> Vec<(FileId, u32)> {
        let postings = self.places(ListKind::Extended, name);
        postings.into_iter().map(|place| (place.file, place.unit)).collect()
    }

    /// Where it is said, apart from a type of this name, what it implements: file and place in its
    /// [`Self::references`].
    pub fn extends(&self, name: &str) -> Vec<(FileId, u32)> {
        let postings = self.places(ListKind::Extends, name);
        postings.into_iter().map(|place| (place.file, place.unit)).collect()
    }

    /// A file's uses of names, and the segment that has their texts.
    pub fn uses(&self, file: FileId) -> (u32, Vec<Use>) {
        let uses = self.record(file, |record| record.uses());
        (self.files.place(file).segment, uses.unwrap_or_default())
    }

    /// A text of a segment by its number.
    pub fn text(&self, segment: u32, id: u32) -> Cow<'_, str> {
        let text = self.segments[segment as usize].text(id);
        self.segments[segment as usize].judge(text).unwrap_or_default()
    }

    /// Where a word stands, by file and unit.
    pub fn postings(&self, field: Field, term: &str) -> Vec<Posting> {
        self.places(field.into(), term)
    }

    fn places(&self, kind: ListKind, word: &str) -> Vec<Posting> {
        let mut found = Found::default();
        for (at, segment) in (0..).zip(&self.segments) {
            let entry = self.good(at, |segment| segment.word(word)).flatten();
            let Some(entry) = entry.filter(|entry| entry.has(kind)) else {
                continue;
            };
            let read = segment.each_place(&entry, kind, |blob, places| {
                for file in self.files.of_blob(at, blob) {
                    found.add(file, places);
                }
            });
            let _ = segment.judge(read);
        }
        found.in_order()
    }

    /// In how many blobs a word stands. Blobs of other commits are counted too: for weighing words.
    pub fn spread(&self, field: Field, term: &str) -> u32 {
        let entries = (0..self.segments.len() as u32).filter_map(|at| self.good(at, |segment| segment.word(term)));
        entries
            .flatten()
            .map(|entry| entry.blobs(field.into()))
            .fold(0, u32::saturating_add)
    }

    /// Defined names that begin like this, at most `max`, for suggestions.
    pub fn names_from(&self, prefix: &str, max: usize) -> Vec<String> {
        let mut names = std::collections::BTreeSet::new();
        for (at, segment) in (0..).zip(&self.segments) {
            let mut found = Vec::new();
            let read = segment.each_word(prefix, |word, entry| {
                if word.starts_with(prefix) && entry.has(ListKind::Symbols) && self.is_live(at, entry) {
                    found.push(word.to_owned());
                }
                word.starts_with(prefix) && found.len() < max
            });
            let _ = segment.judge(read);
            names.extend(found);
        }
        names.into_iter().take(max).collect()
    }

    /// Whether a name is defined in a file of this view.
    fn is_live(&self, segment: u32, entry: &Entry) -> bool {
        let mut is_live = false;
        let read = self.segments[segment as usize].each_place(entry, ListKind::Symbols, |blob, _| {
            is_live |= self.files.of_blob(segment, blob).next().is_some();
        });
        read.is_ok() && is_live
    }

    pub(super) fn segments(&self) -> &[Arc<Segment>] {
        &self.segments
    }
}

/// A segment in memory of what a builder holds.
pub(super) fn in_memory(mut builder: Builder) -> Result<Segment, SegmentError> {
    let (bytes, _) = builder.write(Vec::new(), IN_MEMORY)?;
    Segment::of_memory(bytes, IN_MEMORY)
}

/// Places found in several segments: together for each file, the files in any order.
#[derive(Default)]
struct Found {
    postings: Vec<Posting>,
    runs: Vec<(FileId, u32, u32)>,
}

impl Found {
    fn add(&mut self, file: FileId, places: &[(u32, u32)]) {
        let from = self.postings.len() as u32;
        self.postings.extend(places.iter().map(|(unit, count)| Posting {
            file,
            unit: *unit,
            count: *count,
        }));
        self.runs.push((file, from, self.postings.len() as u32));
    }

    /// Sorts the runs and not the places, of which there are many more.
    fn in_order(mut self) -> Vec<Posting> {
        if self.runs.is_sorted() {
            return self.postings;
        }
        self.runs.sort_unstable();
        let mut sorted = Vec::with_capacity(self.postings.len());
        for (_, from, to) in self.runs {
            sorted.extend_from_slice(&self.postings[from as usize..to as usize]);
        }
        sorted
    }
}
