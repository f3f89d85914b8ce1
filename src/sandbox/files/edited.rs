//! What edited files say, for the index of the code: an agent finds its own changes. They are parsed
//! here and not by the service, as their bytes are the agent's. Called by `files`. Never says more of
//! a file than its facts, and never reads a file that is known in its state.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, OFlags, Stat};

use super::super::{EditedFile, FileReply};
use super::search::Walk;
use super::{Refusal, Tree, escape};
use crate::code;

/// Longest look, of which the most goes into parsing.
const MAX_TIME: Duration = Duration::from_secs(4);
/// Most files of one reply.
const MAX_FILES: usize = 300;
/// Most bytes of files that are read for one reply.
const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// A larger file is data.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

pub(super) fn look(tree: &Tree, since_ns: i64, known: &[(String, u64)]) -> Result<FileReply, Refusal> {
    let known: HashMap<&str, u64> = known.iter().map(|(path, state)| (path.as_str(), *state)).collect();
    let until = Instant::now() + MAX_TIME;
    let (mut files, mut bytes, mut truncated) = (Vec::new(), 0, false);
    let mut walk = Walk::start(tree, Path::new(""));
    while let Some((_, path)) = walk.next_file() {
        let shown = escape(path.as_os_str());
        let opened = tree.open_at(&path, OFlags::PATH | OFlags::NOFOLLOW);
        let Ok(stat) = opened.and_then(rustix::fs::fstat) else {
            continue;
        };
        if changed_ns(&stat) <= since_ns || FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            continue;
        }
        if files.len() >= MAX_FILES || Instant::now() >= until {
            truncated = true;
            break;
        }
        let state = state_of(&stat);
        let is_known = known.get(shown.as_str()) == Some(&state);
        let facts = if is_known || bytes >= MAX_BYTES {
            truncated |= !is_known;
            None
        } else {
            let text = read(tree, &path);
            bytes += text.as_ref().map_or(0, |text| text.len() as u64);
            text.map(|text| Box::new(code::facts_of(&shown, &text, until).facts))
        };
        files.push(EditedFile {
            path: shown,
            state,
            facts,
        });
    }
    truncated |= walk.cut_short;
    Ok(FileReply::Edited { files, truncated })
}

fn read(tree: &Tree, path: &Path) -> Option<Vec<u8>> {
    let file = tree.open_at(path, OFlags::RDONLY | OFlags::NOFOLLOW).ok()?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file).ok()?.st_mode);
    if kind != FileType::RegularFile {
        return None;
    }
    let mut bytes = Vec::new();
    File::from(file).take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= MAX_FILE_BYTES).then_some(bytes)
}

fn changed_ns(stat: &Stat) -> i64 {
    let nanoseconds = i64::try_from(stat.st_ctime_nsec).unwrap_or_default();
    stat.st_ctime.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

/// No program can set the time of the last change of status back.
fn state_of(stat: &Stat) -> u64 {
    let mut hasher = DefaultHasher::new();
    (changed_ns(stat), stat.st_size, stat.st_ino).hash(&mut hasher);
    hasher.finish()
}
