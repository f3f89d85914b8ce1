//! The files of one commit, as the index keeps them: each path with the key of its blob. Called by
//! `index` and `folder`. Never knows what is in a blob.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::git::{BlobId, EntryKind, Tree};
use crate::retrieval::segment::{BlobKey, Segment, SegmentError};
use crate::retrieval::view::Place;

const MAGIC: &[u8; 8] = b"fh-tree\n";
/// Notes of one view; who needs more looks into the log.
pub(super) const MAX_NOTES: usize = 200;

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A file.
    File,
    /// A file that is not read because of its size.
    TooLarge,
    /// A file whose blob the mirror does not have.
    Missing,
    /// A symbolic link.
    Link,
    /// Another repository.
    Submodule,
}

impl Kind {
    const ALL: [Self; 5] = [Self::File, Self::TooLarge, Self::Missing, Self::Link, Self::Submodule];
}

/// A path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreeEntry {
    pub(super) path: String,
    pub(super) kind: Kind,
    pub(super) key: BlobKey,
}

/// All paths of a commit, in order.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct CommitTree {
    entries: Vec<TreeEntry>,
    unreadable: u32,
}

impl CommitTree {
    pub(super) fn new(tree: Tree) -> Self {
        let mut entries: Vec<TreeEntry> = tree.entries.into_iter().filter_map(entry).collect();
        // Git puts `a/b` behind `a.c`; here, paths are in the order of their bytes.
        entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        entries.dedup_by(|a, b| a.path == b.path);
        Self {
            entries,
            unreadable: tree.unreadable as u32,
        }
    }

    /// Makes it the tree of the commit that differs in this.
    pub(super) fn change(&mut self, changes: Tree) {
        let mut changed: BTreeMap<String, Option<TreeEntry>> = changes
            .entries
            .into_iter()
            .map(|change| (change.path.clone(), entry(change)))
            .collect();
        let old = std::mem::take(&mut self.entries);
        let kept = old.into_iter().filter(|old| !changed.contains_key(&old.path));
        self.entries = kept.collect();
        self.entries
            .extend(std::mem::take(&mut changed).into_values().flatten());
        self.entries.sort_by(|a, b| a.path.cmp(&b.path));
    }

    pub(super) fn entries(&self) -> &[TreeEntry] {
        &self.entries
    }

    /// Whether some blobs were missing, so that another update may find more.
    pub(super) fn is_incomplete(&self) -> bool {
        self.entries.iter().any(|entry| entry.kind == Kind::Missing)
    }

    /// Says what became of the blobs that were looked for: these could not be read, all others were.
    pub(super) fn settle(&mut self, unread: &HashMap<BlobId, Kind>) {
        for entry in &mut self.entries {
            if matches!(entry.kind, Kind::File | Kind::Missing) {
                entry.kind = unread.get(&entry.key.id).copied().unwrap_or(Kind::File);
            }
        }
    }

    /// Where each entry's blob is, if it is in a segment.
    pub(super) fn places(&self, segments: &[Arc<Segment>]) -> Result<Vec<Option<Place>>, SegmentError> {
        let mut places = vec![None; self.entries.len()];
        let readable = |at: &u32| matches!(self.entries[*at as usize].kind, Kind::File | Kind::Missing);
        // Most keys differ in their first bytes, which are quicker to compare as a number.
        let head = |at: u32| {
            self.entries[at as usize]
                .key
                .id
                .0
                .first_chunk()
                .copied()
                .map(u64::from_be_bytes)
        };
        let order = (0..self.entries.len() as u32).filter(readable).map(|at| (head(at), at));
        let mut order: Vec<(Option<u64>, u32)> = order.collect();
        order.sort_unstable_by(|a, b| {
            let keys = || self.entries[a.1 as usize].key.cmp(&self.entries[b.1 as usize].key);
            a.0.cmp(&b.0).then_with(keys)
        });
        let mut order: Vec<u32> = order.into_iter().map(|(_, at)| at).collect();
        for (number, segment) in (0..).zip(segments) {
            if order.is_empty() {
                break;
            }
            // Both are in order, so one pass over both finds all; few keys are looked up one by one.
            let few = order.len() * 16 < segment.blobs() as usize;
            let mut blob = 0;
            let mut left = Vec::new();
            for at in &order {
                let key = &self.entries[*at as usize].key;
                let found = if few {
                    segment.judge(segment.find(key))?
                } else {
                    while blob < segment.blobs() && segment.judge(segment.key(blob))? < *key {
                        blob += 1;
                    }
                    (blob < segment.blobs() && segment.key(blob)? == *key).then_some(blob)
                };
                match found {
                    Some(blob) => {
                        places[*at as usize] = Some(Place { segment: number, blob });
                    }
                    None => left.push(*at),
                }
            }
            order = left;
        }
        Ok(places)
    }

    /// Blobs that have no place, each once with one of its paths.
    pub(super) fn unknown(&self, places: &[Option<Place>]) -> Vec<(BlobKey, String)> {
        let mut unknown = BTreeMap::new();
        for (entry, place) in self.entries.iter().zip(places) {
            if place.is_none() && matches!(entry.kind, Kind::File | Kind::Missing) {
                unknown.entry(entry.key).or_insert(&entry.path);
            }
        }
        // By path: neighbours are near each other in the pack, too.
        let mut unknown: Vec<(BlobKey, String)> = unknown.into_iter().map(|(key, path)| (key, path.clone())).collect();
        unknown.sort_unstable_by(|a, b| a.1.cmp(&b.1));
        unknown
    }

    /// What is left out, in words.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let count = |kind| self.entries.iter().filter(|entry| entry.kind == kind).count();
        let mut add = |count: usize, what: &str| {
            if count > 0 {
                notes.push(format!("{count} {what}"));
            }
        };
        add(
            self.unreadable as usize,
            "files are left out: their names are not UTF-8",
        );
        add(count(Kind::Link), "symbolic links are not followed");
        add(count(Kind::Submodule), "submodules are left out");
        add(
            count(Kind::Missing),
            "files are left out: the mirror does not have their contents yet",
        );
        let large = self.entries.iter().filter(|entry| entry.kind == Kind::TooLarge);
        notes.extend(
            large
                .take(MAX_NOTES)
                .map(|entry| format!("{}: too large to be indexed", entry.path)),
        );
        notes
    }

    /// As the bytes of a file.
    pub(super) fn encode(&self, version: u64) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(version.to_le_bytes());
        bytes.extend(self.unreadable.to_le_bytes());
        bytes.extend((self.entries.len() as u32).to_le_bytes());
        let mut last = "";
        for entry in &self.entries {
            let same = last.bytes().zip(entry.path.bytes()).take_while(|(a, b)| a == b);
            let shared = entry.path.floor_char_boundary(same.count());
            for length in [shared, entry.path.len() - shared] {
                bytes.extend((length as u16).to_le_bytes());
            }
            bytes.extend(&entry.path.as_bytes()[shared..]);
            bytes.extend([entry.kind as u8, entry.key.language]);
            bytes.extend(entry.key.id.0);
            last = &entry.path;
        }
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// From the bytes of a file; nothing when they are damaged or of another version.
    pub(super) fn decode(bytes: &[u8], version: u64) -> Option<Self> {
        let (body, sum) = bytes.split_last_chunk::<4>()?;
        if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
            return None;
        }
        let mut rest = body.strip_prefix(MAGIC)?;
        let mut take = |length: usize| {
            let (taken, left) = rest.split_at_checked(length)?;
            rest = left;
            Some(taken)
        };
        if u64::from_le_bytes(take(8)?.try_into().ok()?) != version {
            return None;
        }
        let unreadable = u32::from_le_bytes(take(4)?.try_into().ok()?);
        let count = u32::from_le_bytes(take(4)?.try_into().ok()?);
        let mut entries: Vec<TreeEntry> = Vec::new();
        for _ in 0..count {
            let shared = usize::from(u16::from_le_bytes(take(2)?.try_into().ok()?));
            let length = usize::from(u16::from_le_bytes(take(2)?.try_into().ok()?));
            let last = entries.last().map_or("", |entry| entry.path.as_str());
            let path = format!("{}{}", last.get(..shared)?, std::str::from_utf8(take(length)?).ok()?);
            let [kind, language] = take(2)?.try_into().ok()?;
            entries.push(TreeEntry {
                path,
                kind: *Kind::ALL.get(usize::from(kind))?,
                key: BlobKey {
                    id: BlobId(take(20)?.try_into().ok()?),
                    language,
                },
            });
        }
        Some(Self { entries, unreadable })
    }
}

fn entry(entry: crate::git::Entry) -> Option<TreeEntry> {
    let kind = match entry.kind {
        EntryKind::File => Kind::File,
        EntryKind::Link => Kind::Link,
        EntryKind::Submodule => Kind::Submodule,
        EntryKind::Gone => return None,
    };
    Some(TreeEntry {
        key: BlobKey::new(entry.id, &entry.path),
        path: entry.path,
        kind,
    })
}
