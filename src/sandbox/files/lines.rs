//! Single lines of many files in one go, to show what the index found as it is now. Called by `files`.
//! Never fails for one file: what is not there any more is left out.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use rustix::fs::{FileType, OFlags};

use super::super::{FileReply, GrepLine};
use super::Tree;
use super::search::line_text;

/// Most lines of one request.
const MAX_LINES: usize = 500;
/// A larger file is data.
const MAX_FILE_BYTES: u64 = 2 * 1024 * 1024;

pub(super) fn read(tree: &Tree, places: &[(String, u64)]) -> FileReply {
    let mut by_file: BTreeMap<&str, Vec<(usize, u64)>> = BTreeMap::new();
    for (at, (path, line)) in places.iter().enumerate().take(MAX_LINES) {
        by_file.entry(path).or_default().push((at, *line));
    }
    let mut found: Vec<(usize, GrepLine)> = Vec::new();
    for (path, wanted) in &by_file {
        let Some(bytes) = content(tree, path) else { continue };
        let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        for (at, line) in wanted {
            let number = usize::try_from(*line).unwrap_or(usize::MAX);
            let Some(text) = number.checked_sub(1).and_then(|at| lines.get(at)) else {
                continue;
            };
            let shown = GrepLine {
                path: (*path).to_owned(),
                line: *line,
                text: line_text(text),
                matched: true,
            };
            found.push((*at, shown));
        }
    }
    found.sort_by_key(|(at, _)| *at);
    FileReply::Lines {
        lines: found.into_iter().map(|(_, line)| line).collect(),
        files: by_file.len() as u64,
        truncated: places.len() > MAX_LINES,
    }
}

fn content(tree: &Tree, path: &str) -> Option<Vec<u8>> {
    let file = tree.open_at(Path::new(path), OFlags::RDONLY | OFlags::NOFOLLOW).ok()?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file).ok()?.st_mode);
    if kind != FileType::RegularFile {
        return None;
    }
    let mut bytes = Vec::new();
    File::from(file).take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
