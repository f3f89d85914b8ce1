//! Edited files on top of a view whose facts are known already. Never parses anything.

use std::sync::Arc;

use super::{Index, IndexError, MAX_OVERLAYS, view};
use crate::code::facts::Facts;
use crate::git::BlobId;
use crate::language;
use crate::retrieval::segment::{BlobKey, Builder, SegmentError, Traits, number_of};
use crate::retrieval::view::View;

/// An edited file that somebody else has read.
#[derive(Debug, Clone)]
pub struct ReadEdit {
    /// Its path.
    pub path: String,
    /// Its state: another one after every change.
    pub state: u64,
    /// What it says; nothing when it is gone or cannot be read.
    pub facts: Option<Arc<Facts>>,
}

impl Index {
    /// A view with edited files on top whose facts are known.
    pub fn overlay_read(&self, base: &View, edits: &[ReadEdit]) -> Result<View, IndexError> {
        let mut builder = Builder::default();
        let mut keys = Vec::new();
        for edit in edits {
            let key = edit.facts.as_deref().and_then(|facts| {
                let key = BlobKey::new(stand_in(&edit.path, edit.state)?, &edit.path);
                // What was not read here may hold what its words do not tell.
                let traits = Traits {
                    language: number_of(language::of_path(&edit.path)),
                    is_binary: false,
                    is_opaque: true,
                };
                builder.add(key, traits, facts, None);
                Some(key)
            });
            keys.push((edit.path.clone(), key));
        }
        let segment = view::in_memory(builder)?;
        let changes: Result<Vec<_>, SegmentError> = keys
            .into_iter()
            .map(|(path, key)| Ok((path, key.map(|key| segment.find(&key)).transpose()?.flatten())))
            .collect();
        let view = base.with(Arc::new(segment), &changes?);
        Ok(view.joined(MAX_OVERLAYS)?)
    }
}

/// A name for contents that nobody here has seen.
fn stand_in(path: &str, state: u64) -> Option<BlobId> {
    use sha2::{Digest as _, Sha256};
    let hash = Sha256::new()
        .chain_update(state.to_le_bytes())
        .chain_update(path)
        .finalize();
    hash[..20].try_into().map(BlobId).ok()
}
