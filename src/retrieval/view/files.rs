//! The files of a view: paths in order, the place of each one's blob, and the way back from a blob
//! to its files. Called by the view. Never reads a segment, apart from how many blobs it has.

use std::fmt;
use std::sync::Arc;

use super::FileId;
use crate::retrieval::segment::Segment;

/// No file.
pub(super) const NONE: u32 = u32::MAX;

/// Where a blob is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The segment, by its place in the view.
    pub segment: u32,
    /// The blob's number in it.
    pub blob: u32,
}

/// Files, by path.
#[derive(Default)]
pub(super) struct Files {
    /// All paths, one after the other: a string each would cost more than the path itself.
    paths: String,
    ends: Vec<u32>,
    places: Vec<Place>,
    /// For each segment and blob, its first file.
    first: Vec<Vec<u32>>,
    /// For each file, the next one with the same blob.
    next: Vec<u32>,
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Files({})", self.places.len())
    }
}

impl Files {
    /// Takes files in the order of their paths; one that is out of order, or whose blob does not
    /// exist, is left out.
    pub(super) fn new<P: AsRef<str>>(segments: &[Arc<Segment>], from: Vec<(P, Place)>) -> Self {
        let mut files = Self {
            first: segments
                .iter()
                .map(|segment| vec![NONE; segment.blobs() as usize])
                .collect(),
            places: Vec::with_capacity(from.len()),
            next: Vec::with_capacity(from.len()),
            ..Self::default()
        };
        for (path, place) in from {
            let file = files.len() as u32;
            let path = path.as_ref();
            let is_next = file.checked_sub(1).is_none_or(|last| files.path(FileId(last)) < path);
            let blobs = files.first.get_mut(place.segment as usize);
            let first = blobs.and_then(|blobs| blobs.get_mut(place.blob as usize));
            let (Some(first), true) = (first, is_next) else {
                continue;
            };
            files.next.push(std::mem::replace(first, file));
            files.paths.push_str(path);
            files.ends.push(files.paths.len() as u32);
            files.places.push(place);
        }
        files
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn path(&self, file: FileId) -> &str {
        let at = file.0 as usize;
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.paths[from as usize..self.ends[at] as usize]
    }

    pub(super) fn place(&self, file: FileId) -> Place {
        self.places[file.0 as usize]
    }

    pub(super) fn at(&self, path: &str) -> Option<FileId> {
        let (mut low, mut high) = (0, self.len() as u32);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.path(FileId(middle)).cmp(path) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(FileId(middle)),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// The files that have a blob, the last one first.
    pub(super) fn of_blob(&self, segment: u32, blob: u32) -> impl Iterator<Item = FileId> + '_ {
        let mut file = self.first[segment as usize].get(blob as usize).copied().unwrap_or(NONE);
        std::iter::from_fn(move || {
            let now = (file != NONE).then_some(FileId(file))?;
            file = self.next[file as usize];
            Some(now)
        })
    }
}
