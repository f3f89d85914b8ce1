//! Keeps an index small: many small segments become few, and what only old commits need is dropped
//! when the folder is too large. Called by `index` under the lock. Never touches a file that a view
//! may be reading: it writes new ones and takes names away.

use std::collections::HashSet;

use super::folder::Folder;
use super::{IndexError, Limits};
use crate::ids::CommitSha;
use crate::retrieval::segment::{BlobKey, Segment, merge as merge_segments};

/// Segments that may stand side by side; every word is looked up in each.
const MAX_SEGMENTS: usize = 4;
/// Segments that are borne for a while, so that nobody waits for a large one to be written.
const MAX_FOR_NOW: usize = 16;
/// Bytes of segments that are put together while somebody waits: some five milliseconds of work.
const SMALL: u64 = 256 * 1024;

/// How much work a merge may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// In proportion to the bytes that were just written.
    After(u64),
    /// As much as it takes.
    Any,
}

/// Puts the small segments together when there are too many. A large one is only written again when
/// the small ones together are half its size, so that each blob is written a few times at most.
pub(super) fn merge(folder: &Folder, work: Work) -> Result<(), IndexError> {
    let mut named = folder.named();
    if named.len() <= MAX_SEGMENTS {
        return Ok(());
    }
    let most = match work {
        Work::After(written) if named.len() <= MAX_FOR_NOW => SMALL.max(2 * written),
        Work::After(_) | Work::Any => u64::MAX,
    };
    named.reverse();
    let mut sum = 0;
    let mut many = 0;
    for (_, segment) in &named {
        if (many >= 2 && segment.bytes() > 2 * sum) || sum + segment.bytes() > most {
            break;
        }
        sum += segment.bytes();
        many += 1;
    }
    if many < 2 {
        return Ok(());
    }
    named.truncate(many);
    rewrite(folder, &named, |_| true)
}

/// Writes some segments as one, with the blobs that are wanted.
fn rewrite(
    folder: &Folder,
    named: &[(String, std::sync::Arc<Segment>)],
    wanted: impl Fn(&BlobKey) -> bool,
) -> Result<(), IndexError> {
    let inputs: Vec<&Segment> = named.iter().map(|(_, segment)| &**segment).collect();
    let is_wanted = |input: usize, blob: u32| inputs[input].key(blob).is_ok_and(|key| wanted(&key));
    let result = folder.add(|file| merge_segments(&inputs, is_wanted, file, folder.version()));
    if let Err(error) = result {
        // Which of them it was is found out when its blocks are read; then it is made anew.
        for input in inputs {
            input.check_all();
        }
        return Err(error);
    }
    let names: Vec<String> = named.iter().map(|(name, _)| name.clone()).collect();
    folder.remove(&names);
    Ok(())
}

/// Forgets commits beyond the limits, the one used last latest, and the blobs that only they have.
/// Says whether it did.
pub(super) fn evict(folder: &Folder, limits: &Limits, current: &CommitSha) -> Result<bool, IndexError> {
    let mut commits = folder.commits();
    commits.retain(|commit| commit != current);
    for commit in commits.iter().skip(limits.max_commits.saturating_sub(1)) {
        folder.forget(commit);
    }
    commits.truncate(limits.max_commits.saturating_sub(1));
    let mut did = false;
    while folder.bytes() > limits.max_bytes {
        let is_last = commits.is_empty();
        // Half of them at a time: each round writes everything that stays.
        let keep = commits.len() / 2;
        for commit in commits.drain(keep..) {
            folder.forget(&commit);
        }
        let live = live(folder, commits.iter().chain([current]));
        rewrite(folder, &folder.named(), |key| live.contains(key))?;
        did = true;
        if is_last {
            tracing::warn!(index = %folder.path().display(), "one commit alone needs more than the index may have");
            break;
        }
    }
    Ok(did)
}

fn live<'a>(folder: &Folder, commits: impl Iterator<Item = &'a CommitSha>) -> HashSet<BlobKey> {
    let trees = commits.filter_map(|commit| folder.tree(commit));
    trees
        .flat_map(|tree| tree.entries().iter().map(|entry| entry.key).collect::<Vec<_>>())
        .collect()
}
