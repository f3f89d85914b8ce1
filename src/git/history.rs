//! The log of a repository: what each commit said, and which paths it changed, read as a stream.
//! Called by `retrieval`, on threads that may block. Reads commits and trees only, so a partial
//! mirror without blobs will do. Never fetches, and never follows a mail map, which is a blob.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use super::tree::BlobId;
use super::{Git, GitError};
use crate::ids::CommitSha;

/// Commits that are kept of one repository, the newest first: Linux has had a million, and what was
/// changed ten years ago says little about what is changed today.
pub const MAX_COMMITS: usize = 60_000;
/// Bytes of a message that are kept. The rest of a longer one is a log or a list.
const MAX_MESSAGE: usize = 4 * 1024;
/// Bytes of a record of git's answer that are looked at.
const MAX_RECORD: u64 = 8 * 1024;
/// Changed paths that are kept of a commit. One with more is a move of everything, and says nothing
/// about any of them.
const MAX_CHANGES: usize = 200;
/// Longest time for the log of a repository.
const TIMEOUT: Duration = Duration::from_secs(600);

/// A commit as the log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// Its id, as hexadecimal digits.
    pub id: String,
    /// Its parents' ids.
    pub parents: Vec<String>,
    /// When it was committed, in seconds since 1970.
    pub time: i64,
    /// What it says, at most 4 KiB.
    pub message: String,
    /// What it changed against its first parent; empty when that was more than 200 paths.
    pub changes: Vec<Touch>,
}

/// A path that a commit changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touch {
    /// The path.
    pub path: String,
    /// What stood there before; nothing when the commit added it.
    pub old: Option<BlobId>,
    /// What stands there since; nothing when the commit removed it.
    pub new: Option<BlobId>,
}

/// Reads the log of `at` back to `known`, newest first, until `each` breaks. `known` are commits whose
/// ancestors are known; those that do not exist here are a [`GitError::NotFound`].
pub(super) fn log(
    git: &Git,
    repo: &Path,
    at: &CommitSha,
    known: &[CommitSha],
    each: &mut dyn FnMut(Logged) -> ControlFlow<()>,
) -> Result<(), GitError> {
    let mut call = git
        .call(&[
            "log",
            "-z",
            "--no-mailmap",
            "--no-show-signature",
            "--raw",
            "--no-renames",
            "--no-abbrev",
            "--root",
            "--diff-merges=first-parent",
            "--format=commit %H %ct %P%n%B",
        ])
        .arg(format!("--max-count={MAX_COMMITS}"))
        .arg("--end-of-options")
        .arg(at.as_str());
    for known in known {
        call = call.arg(format!("^{known}"));
    }
    let stream = call.git_dir(repo).timeout(TIMEOUT).stream()?;
    let mut records = stream.records(0);
    let mut commit: Option<Logged> = None;
    let mut omitted = false;
    while let Some(record) = records.next_cut(MAX_RECORD)? {
        let record = record.strip_prefix(b"\n").unwrap_or(record);
        if record.starts_with(b"commit ") {
            if let Some(done) = commit.take()
                && each(done).is_break()
            {
                return Ok(());
            }
            commit = Some(parse_commit(record)?);
            omitted = false;
        } else if let Some(ids) = record.strip_prefix(b":") {
            let ids = parse_ids(ids);
            let path = records
                .next_cut(MAX_RECORD)?
                .and_then(|path| std::str::from_utf8(path).ok());
            let (Some(commit), Some((old, new)), Some(path)) = (&mut commit, ids, path) else {
                continue;
            };
            omitted |= commit.changes.len() >= MAX_CHANGES;
            if omitted {
                commit.changes.clear();
            } else {
                commit.changes.push(Touch {
                    path: path.to_owned(),
                    old,
                    new,
                });
            }
        }
    }
    records.finish(&format!("the log of {at}"))?;
    if let Some(last) = commit {
        let _ = each(last);
    }
    Ok(())
}

fn parse_commit(record: &[u8]) -> Result<Logged, GitError> {
    let head = record.iter().position(|byte| *byte == b'\n').unwrap_or(record.len());
    let (head, message) = record.split_at(head);
    let odd = || {
        GitError::Failed(format!(
            "git log begins a commit with {:?}",
            String::from_utf8_lossy(head)
        ))
    };
    let mut words = std::str::from_utf8(head).map_err(|_| odd())?.split(' ').skip(1);
    let id = words.next().ok_or_else(odd)?.to_owned();
    // A commit can carry a time that is no number that anything could hold.
    let time = words.next().ok_or_else(odd)?.parse().unwrap_or_default();
    let message = message.get(1..).unwrap_or_default();
    Ok(Logged {
        id,
        parents: words.filter(|word| !word.is_empty()).map(str::to_owned).collect(),
        time,
        message: String::from_utf8_lossy(&message[..message.len().min(MAX_MESSAGE)]).into_owned(),
        changes: Vec::new(),
    })
}

/// The ids in `100644 100644 <old> <new> M`; zeros are nothing.
fn parse_ids(record: &[u8]) -> Option<(Option<BlobId>, Option<BlobId>)> {
    let mut fields = record.split(|byte| *byte == b' ').skip(2);
    let mut id = || BlobId::parse(fields.next()?);
    let (old, new) = (id()?, id()?);
    let there = |id: BlobId| (id.0 != [0; 20]).then_some(id);
    Some((there(old), there(new)))
}
