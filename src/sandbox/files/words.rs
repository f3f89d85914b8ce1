//! Files ranked by the words they hold: rare words count more than common ones, and a file with
//! all of them comes first. Called by `files`. Never understands code: this is a search by letters.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use super::super::{FileReply, FileRequest, GrepLine, RankedFile};
use super::search::{Walk, line_text};
use super::{Refusal, Tree, escape, existing_path, explain};

/// Longest search.
const MAX_SEARCH: Duration = Duration::from_secs(12);

/// Larger files are data.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Most words of a search.
const MAX_WORDS: usize = 12;

/// Most files with a match that are remembered.
const MAX_REMEMBERED: usize = 100_000;

/// Most files in one answer, however many are asked for.
const MAX_FILES: usize = 100;

/// Lines shown of one file.
const LINES_OF_FILE: usize = 4;

struct Candidate {
    path: PathBuf,
    /// How often each word occurs.
    counts: Vec<u32>,
    /// Which words the path itself has.
    in_path: Vec<bool>,
}

pub(super) fn search(tree: &Tree, request: &FileRequest) -> Result<FileReply, Refusal> {
    let FileRequest::Words { words, path, max_files } = request else {
        return Err("this is not a search".to_owned());
    };
    let words: Vec<String> = words
        .iter()
        .map(|word| word.to_lowercase())
        .filter(|word| !word.is_empty())
        .collect();
    if words.is_empty() || words.len() > MAX_WORDS {
        return Err(format!("give 1 to {MAX_WORDS} words to search for"));
    }
    let start = tree
        .resolve(&existing_path(tree, path)?)
        .map_err(|error| explain(path, error))?;
    let until = Instant::now() + MAX_SEARCH;
    let mut found: Vec<Candidate> = Vec::new();
    let (mut looked, mut truncated) = (0_u64, false);
    let mut walk = Walk::start(tree, &start);
    while let Some((entry, path)) = walk.next_file() {
        if Instant::now() >= until || found.len() >= MAX_REMEMBERED {
            truncated = true;
            break;
        }
        if entry.metadata().is_ok_and(|data| data.len() > MAX_FILE_BYTES) {
            continue;
        }
        let Some(text) = read(tree, &path) else { continue };
        looked += 1;
        let counts: Vec<u32> = words.iter().map(|word| occurrences(&text, word)).collect();
        let shown = escape(path.as_os_str()).to_lowercase();
        let in_path: Vec<bool> = words.iter().map(|word| shown.contains(word.as_str())).collect();
        if counts.iter().any(|count| *count > 0) || in_path.iter().any(|there| *there) {
            found.push(Candidate { path, counts, in_path });
        }
    }
    truncated |= walk.cut_short;
    let order = ranked(&found, looked, words.len());
    let most = (*max_files as usize).clamp(1, MAX_FILES);
    let files = order
        .iter()
        .take(most)
        .map(|at| shown(tree, &found[*at], &words))
        .collect();
    Ok(FileReply::Ranked {
        files,
        matching: found.len() as u64,
        looked,
        truncated,
    })
}

/// Text in small letters.
fn read(tree: &Tree, path: &std::path::Path) -> Option<String> {
    Some(text(tree, path)?.to_lowercase())
}

fn text(tree: &Tree, path: &std::path::Path) -> Option<String> {
    use std::io::Read as _;
    let file = tree.open_at(path, OFlags::RDONLY | OFlags::NOFOLLOW).ok()?;
    let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&file).ok()?.st_mode);
    if kind != rustix::fs::FileType::RegularFile {
        return None;
    }
    let mut bytes = Vec::new();
    std::fs::File::from(file)
        .take(MAX_FILE_BYTES)
        .read_to_end(&mut bytes)
        .ok()?;
    (!bytes.contains(&0)).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

fn occurrences(text: &str, word: &str) -> u32 {
    u32::try_from(text.matches(word).count()).unwrap_or(u32::MAX)
}

/// The best first. A word that stands in few files says more about a file that has it.
fn ranked(found: &[Candidate], looked: u64, words: usize) -> Vec<usize> {
    let weight: Vec<f64> = (0..words)
        .map(|word| {
            let files = found
                .iter()
                .filter(|file| file.counts[word] > 0 || file.in_path[word])
                .count();
            ((looked as f64 + 1.0) / (files as f64 + 0.5)).ln().max(0.1)
        })
        .collect();
    let score = |file: &Candidate| -> f64 {
        let words = file.counts.iter().zip(&file.in_path).zip(&weight);
        words
            .map(|((count, in_path), weight)| {
                let often = if *count > 0 {
                    1.0 + f64::from(*count).ln() / 4.0
                } else {
                    0.0
                };
                weight * (often + f64::from(u8::from(*in_path)) / 2.0)
            })
            .sum()
    };
    let distinct = |file: &Candidate| {
        file.counts
            .iter()
            .zip(&file.in_path)
            .filter(|(count, in_path)| **count > 0 || **in_path)
            .count()
    };
    let mut order: Vec<(usize, usize, f64)> = found
        .iter()
        .enumerate()
        .map(|(at, file)| (at, distinct(file), score(file)))
        .collect();
    order.sort_by(|one, other| {
        other
            .1
            .cmp(&one.1)
            .then(other.2.total_cmp(&one.2))
            .then_with(|| found[one.0].path.cmp(&found[other.0].path))
    });
    order.into_iter().map(|(at, _, _)| at).collect()
}

/// A file with the lines that hold the most of the words.
fn shown(tree: &Tree, file: &Candidate, words: &[String]) -> RankedFile {
    let path = escape(file.path.as_os_str());
    let text = text(tree, &file.path).unwrap_or_default();
    let mut lines: Vec<(usize, usize, &str)> = text
        .lines()
        .enumerate()
        .filter_map(|(number, line)| {
            let folded = line.to_lowercase();
            let there = words.iter().filter(|word| folded.contains(word.as_str())).count();
            (there > 0).then_some((there, number, line))
        })
        .collect();
    lines.sort_by_key(|(there, number, _)| (std::cmp::Reverse(*there), *number));
    lines.truncate(LINES_OF_FILE);
    lines.sort_by_key(|(_, number, _)| *number);
    let has = |at: &usize| file.counts[*at] > 0 || file.in_path[*at];
    RankedFile {
        words: (0..words.len()).filter(has).map(|at| words[at].clone()).collect(),
        matches: file.counts.iter().map(|count| u64::from(*count)).sum(),
        lines: lines
            .into_iter()
            .map(|(_, number, line)| GrepLine {
                path: path.clone(),
                line: number as u64 + 1,
                text: line_text(line.as_bytes()),
                matched: true,
            })
            .collect(),
        path,
    }
}
