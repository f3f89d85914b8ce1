//! Finding files by name and lines by pattern, with ripgrep's walker and searcher: ignore files
//! are obeyed, hidden files are seen, `.git` and binary files are not. Called by `files`.
//! Never runs longer than its time: what was found until then is the answer.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use globset::{GlobBuilder, GlobMatcher};
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch};
use ignore::{DirEntry, WalkBuilder};
use rustix::fs::{FileType, OFlags};

use super::super::{Entry, FileReply, FileRequest, GrepLine};
use super::list::{MAX_ENTRIES, MAX_REPLY_BYTES, file_entry};
use super::{Refusal, Tree, escape, existing_path, explain};

/// Longest search.
const MAX_SEARCH: Duration = Duration::from_secs(10);

/// Matching lines in one answer, however many are asked for.
const MAX_MATCHES: u32 = 5_000;

/// Lines around a match, however many are asked for.
const MAX_CONTEXT: u32 = 20;

/// A minified line would fill the model's context.
const MAX_LINE_BYTES: usize = 500;

/// Memory for one line; files with longer ones are skipped.
const LINE_HEAP_BYTES: usize = 8 * 1024 * 1024;

/// Larger files are data, not text to be searched in a turn.
const MAX_FILE_BYTES: i64 = 256 * 1024 * 1024;

/// Compiled size of a pattern, so that `(a{1000}){1000}` is refused rather than built.
const MAX_PATTERN_BYTES: usize = 10 * 1024 * 1024;

/// Bytes of paths remembered to be sorted by time.
const MAX_CANDIDATE_BYTES: usize = 64 * 1024 * 1024;

pub(super) fn glob(tree: &Tree, pattern: &str, max_entries: u32) -> Result<FileReply, Refusal> {
    let matcher = glob_matcher(pattern)?;
    let mut found: Vec<(SystemTime, PathBuf, u64)> = Vec::new();
    let mut candidate_bytes = 0;
    let mut walk = Walk::start(tree, Path::new(""));
    while let Some((entry, path)) = walk.next_file() {
        if matcher.is_match(&path)
            && let Ok(data) = entry.metadata()
        {
            candidate_bytes += path.as_os_str().len();
            found.push((data.modified().unwrap_or(SystemTime::UNIX_EPOCH), path, data.len()));
            if candidate_bytes >= MAX_CANDIDATE_BYTES {
                walk.cut_short = true;
                break;
            }
        }
    }
    found.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    let (all, most) = (found.len(), (max_entries as usize).min(MAX_ENTRIES));
    let mut room = MAX_REPLY_BYTES;
    let fits = |entry: &Entry| {
        let fits = entry.path.len() <= room;
        room = room.saturating_sub(entry.path.len());
        fits
    };
    let newest = found.into_iter().take(most);
    let entries: Vec<Entry> = newest
        .map(|(_, path, bytes)| file_entry(path, bytes))
        .take_while(fits)
        .collect();
    let truncated = walk.cut_short || entries.len() < all;
    Ok(FileReply::Entries { entries, truncated })
}

pub(super) fn grep(tree: &Tree, request: &FileRequest) -> Result<FileReply, Refusal> {
    let FileRequest::Grep {
        pattern,
        path,
        glob,
        ignore_case,
        context,
        max_matches,
    } = request
    else {
        return Err("this is not a search".to_owned());
    };
    let matcher = RegexMatcherBuilder::new()
        .case_insensitive(*ignore_case)
        .size_limit(MAX_PATTERN_BYTES)
        .crlf(true)
        .build(pattern)
        .map_err(|error| format!("the pattern is not a regular expression: {error}"))?;
    let name_matcher = glob.as_deref().map(glob_matcher).transpose()?;
    let start = tree
        .resolve(&existing_path(tree, path)?)
        .map_err(|error| explain(path, error))?;
    let mut lines = Lines::new(*context, *max_matches);
    let mut walk = Walk::start(tree, &start);
    lines.search_all(tree, &matcher, name_matcher.as_ref(), &mut walk);
    if walk.files == 0 && !walk.cut_short {
        // What is named itself is searched although an ignore file excludes it.
        walk = Walk::of_named(tree, &start);
        lines.search_all(tree, &matcher, name_matcher.as_ref(), &mut walk);
    }
    let truncated = lines.full || walk.cut_short;
    Ok(FileReply::Lines {
        lines: lines.found,
        files: lines.files,
        truncated,
    })
}

pub(super) fn glob_matcher(pattern: &str) -> Result<GlobMatcher, Refusal> {
    let pattern = pattern.strip_prefix("/workspace/").unwrap_or(pattern);
    GlobBuilder::new(pattern.trim_start_matches("./"))
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| format!("the glob is not valid: {error}"))
}

/// All regular files below a folder that no ignore file excludes.
pub(super) struct Walk<'t> {
    tree: &'t Tree,
    entries: ignore::Walk,
    until: Instant,
    pub(super) files: u64,
    pub(super) cut_short: bool,
}

impl<'t> Walk<'t> {
    /// From the workspace's root, so that its ignore files count, but only towards `folder`.
    pub(super) fn start(tree: &'t Tree, folder: &Path) -> Self {
        let (root, folder) = (tree.path.clone(), folder.to_path_buf());
        Self::below(tree, &tree.path, move |entry| {
            let path = entry.path().strip_prefix(&root).unwrap_or(entry.path());
            path.starts_with(&folder) || folder.starts_with(path)
        })
    }

    /// From the folder itself.
    pub(super) fn of_named(tree: &'t Tree, folder: &Path) -> Self {
        Self::below(tree, &tree.path.join(folder), |_| true)
    }

    fn below(tree: &'t Tree, from: &Path, wanted: impl Fn(&DirEntry) -> bool + Send + Sync + 'static) -> Self {
        let entries = WalkBuilder::new(from)
            .hidden(false)
            .parents(false)
            .require_git(false)
            .git_global(false)
            .git_exclude(false)
            .follow_links(false)
            .filter_entry(move |entry| entry.file_name() != ".git" && wanted(entry))
            .sort_by_file_name(|one, other| one.cmp(other))
            .build();
        Self {
            tree,
            entries,
            until: Instant::now() + MAX_SEARCH,
            files: 0,
            cut_short: false,
        }
    }

    /// The next file and its path in the workspace.
    pub(super) fn next_file(&mut self) -> Option<(DirEntry, PathBuf)> {
        loop {
            if Instant::now() >= self.until {
                self.cut_short = true;
                return None;
            }
            // Folders that vanish or may not be read are passed over.
            let Ok(entry) = self.entries.next()? else { continue };
            if entry.file_type().is_some_and(|kind| kind.is_file())
                && let Ok(path) = entry.path().strip_prefix(&self.tree.path)
            {
                let path = path.to_path_buf();
                self.files += 1;
                return Some((entry, path));
            }
        }
    }
}

/// Collects the lines of all files.
struct Lines {
    searcher: Searcher,
    found: Vec<GrepLine>,
    bytes: usize,
    matches_left: u32,
    files: u64,
    full: bool,
}

impl Lines {
    fn new(context: u32, max_matches: u32) -> Self {
        let context = context.min(MAX_CONTEXT) as usize;
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .line_terminator(LineTerminator::crlf())
            .before_context(context)
            .after_context(context)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(LINE_HEAP_BYTES))
            .build();
        Self {
            searcher,
            found: Vec::new(),
            bytes: 0,
            matches_left: max_matches.clamp(1, MAX_MATCHES),
            files: 0,
            full: false,
        }
    }

    fn search_all(&mut self, tree: &Tree, matcher: &RegexMatcher, names: Option<&GlobMatcher>, walk: &mut Walk<'_>) {
        while !self.full
            && let Some((_, path)) = walk.next_file()
        {
            let wanted = |names: &GlobMatcher| {
                names.is_match(&path) || path.file_name().is_some_and(|name| names.is_match(name))
            };
            if names.is_none_or(wanted) {
                self.search(tree, matcher, path);
            }
        }
    }

    fn search(&mut self, tree: &Tree, matcher: &RegexMatcher, path: PathBuf) {
        // Opened anew beneath the workspace: between walk and search a folder may become a link.
        let Ok(file) = tree.open_at(&path, OFlags::RDONLY | OFlags::NOFOLLOW) else {
            return;
        };
        let searchable = |found: rustix::fs::Stat| {
            FileType::from_raw_mode(found.st_mode) == FileType::RegularFile && found.st_size <= MAX_FILE_BYTES
        };
        if !rustix::fs::fstat(&file).is_ok_and(searchable) {
            return;
        }
        self.files += 1;
        let before = (self.found.len(), self.bytes, self.matches_left, self.full);
        let mut searcher = self.searcher.clone();
        let mut sink = FileSink {
            lines: self,
            path: escape(path.as_os_str()),
            is_binary: false,
        };
        // A line too long for memory ends the search of this file, not the whole one.
        let _ = searcher.search_file(matcher, &std::fs::File::from(file), &mut sink);
        if sink.is_binary {
            self.found.truncate(before.0);
            (self.bytes, self.matches_left, self.full) = (before.1, before.2, before.3);
        }
    }
}

/// A line as it is shown: without its end, and not too long.
pub(super) fn line_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_LINE_BYTES * 4)]);
    let text = text.trim_end_matches(['\n', '\r']);
    let end = text.floor_char_boundary(MAX_LINE_BYTES);
    let cut = if end < text.len() { "…" } else { "" };
    format!("{}{cut}", &text[..end])
}

struct FileSink<'l> {
    lines: &'l mut Lines,
    path: String,
    is_binary: bool,
}

impl FileSink<'_> {
    fn push(&mut self, line: Option<u64>, bytes: &[u8], matched: bool) {
        let text = line_text(bytes);
        self.lines.bytes += self.path.len() + text.len();
        self.lines.found.push(GrepLine {
            path: self.path.clone(),
            line: line.unwrap_or(0),
            text,
            matched,
        });
    }
}

impl Sink for FileSink<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, std::io::Error> {
        if self.lines.matches_left == 0 || self.lines.bytes >= MAX_REPLY_BYTES {
            self.lines.full = true;
            return Ok(false);
        }
        self.lines.matches_left -= 1;
        self.push(found.line_number(), found.bytes(), true);
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> Result<bool, std::io::Error> {
        // Lines before a match that will not be shown are not shown either.
        if self.lines.matches_left > 0 || *found.kind() != SinkContextKind::Before {
            self.push(found.line_number(), found.bytes(), false);
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, std::io::Error> {
        self.is_binary = true;
        Ok(false)
    }
}
