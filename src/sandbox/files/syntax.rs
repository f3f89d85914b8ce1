//! Code found by its shape: a pattern with `$NAME` for any piece is matched with syntax trees.
//! Called by `files`. Never waits for a grammar: a file that takes too long is left out and named,
//! even if its parser never returns.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use super::super::{FileReply, FileRequest, GrepLine};
use super::search::{Walk, glob_matcher, line_text};
use super::{Refusal, Tree, escape, existing_path, explain};
use crate::language;

mod pattern;

use pattern::Shape;

/// Longest search; what was found until then is the answer.
const MAX_SEARCH: Duration = Duration::from_secs(15);

/// Longest time for one file.
const MAX_FILE: Duration = Duration::from_secs(3);

/// Longest parse of a file. Parsers that take hints end by then, the others are left behind.
const MAX_PARSE: Duration = Duration::from_secs(2);

/// Larger files are generated, and their trees would not fit.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Matches in one answer, however many are asked for.
const MAX_MATCHES: usize = 2_000;

/// Most files of a search.
const MAX_FILES: usize = 200_000;

/// Most parsers that are left behind before the search ends.
const MAX_ABANDONED: usize = 3;

/// Most files named that were left out.
const MAX_SKIPPED: usize = 10;

/// Deeply nested trees are compared by recursion.
const STACK_BYTES: usize = 64 * 1024 * 1024;

pub(super) fn search(tree: &Tree, request: &FileRequest) -> Result<FileReply, Refusal> {
    let FileRequest::AstGrep {
        pattern,
        language,
        path,
        glob,
        max_matches,
    } = request
    else {
        return Err("this is not a search".to_owned());
    };
    let until = Instant::now() + MAX_SEARCH;
    let shapes = shapes(pattern, language.as_deref(), until)?;
    let mut search = Search {
        found: Vec::new(),
        most: (*max_matches as usize).clamp(1, MAX_MATCHES),
        skipped: Vec::new(),
        searched: 0,
        truncated: false,
    };
    let files = wanted_files(tree, path, glob.as_deref(), &shapes, &mut search)?;
    search.run(&tree.path, &files, &Arc::new(shapes), until);
    Ok(FileReply::Syntax {
        lines: search.found,
        files: search.searched,
        skipped: search.skipped,
        truncated: search.truncated,
    })
}

/// The pattern in each language that can be meant and in which it is code.
fn shapes(pattern: &str, wanted: Option<&str>, until: Instant) -> Result<Vec<Shape>, Refusal> {
    let Some(name) = wanted else {
        let shapes: Vec<Shape> = language::all()
            .iter()
            .filter_map(|language| Shape::of(language, pattern, until).ok())
            .collect();
        return if shapes.is_empty() {
            Err(
                "the pattern is no code in any language; write a whole expression or statement, or name the language"
                    .to_owned(),
            )
        } else {
            Ok(shapes)
        };
    };
    let language = language::by_name(name).ok_or_else(|| {
        let names: Vec<&str> = language::all().iter().map(|language| language.name).collect();
        format!(
            "{name:?} is no language that is known here; there are {}",
            names.join(", ")
        )
    })?;
    let mut shapes = vec![Shape::of(language, pattern, until)?];
    // Whoever asks for TypeScript means components too.
    if let ("typescript", Some(tsx)) = (language.name, language::by_name("tsx")) {
        shapes.extend(Shape::of(tsx, pattern, until).ok());
    }
    Ok(shapes)
}

struct Candidate {
    path: PathBuf,
    shape: usize,
}

fn wanted_files(
    tree: &Tree,
    path: &str,
    glob: Option<&str>,
    shapes: &[Shape],
    search: &mut Search,
) -> Result<Arc<Vec<Candidate>>, Refusal> {
    let names = glob.map(glob_matcher).transpose()?;
    let start = tree
        .resolve(&existing_path(tree, path)?)
        .map_err(|error| explain(path, error))?;
    let mut files = Vec::new();
    for mut walk in [Walk::start(tree, &start), Walk::of_named(tree, &start)] {
        while let Some((entry, path)) = walk.next_file() {
            let named = names
                .as_ref()
                .is_none_or(|names| names.is_match(&path) || path.file_name().is_some_and(|name| names.is_match(name)));
            let language = path.to_str().and_then(language::of_path);
            let shape = language.and_then(|language| shapes.iter().position(|shape| shape.is_in(language)));
            let Some(shape) = shape.filter(|_| named) else { continue };
            if entry.metadata().is_ok_and(|data| data.len() > MAX_FILE_BYTES) {
                search.skip(&path, "larger than 1 MiB");
            } else if files.len() < MAX_FILES {
                files.push(Candidate { path, shape });
            } else {
                search.truncated = true;
                break;
            }
        }
        search.truncated |= walk.cut_short;
        // What is named itself is searched although an ignore file excludes it.
        if walk.files > 0 || search.truncated {
            break;
        }
    }
    Ok(Arc::new(files))
}

/// What a worker says.
enum News {
    Began(usize),
    Found(GrepLine),
    /// The file that began last could not be parsed in time.
    Skipped,
    Done,
}

struct Search {
    found: Vec<GrepLine>,
    most: usize,
    skipped: Vec<String>,
    searched: u64,
    truncated: bool,
}

impl Search {
    fn skip(&mut self, path: &Path, why: &str) {
        if self.skipped.len() < MAX_SKIPPED {
            self.skipped.push(format!("{} ({why})", escape(path.as_os_str())));
        }
    }

    /// Lets a worker go through the files. When one file holds it for too long, another worker
    /// goes on behind that file.
    fn run(&mut self, workspace: &Path, files: &Arc<Vec<Candidate>>, shapes: &Arc<Vec<Shape>>, until: Instant) {
        let mut next = 0;
        for _ in 0..=MAX_ABANDONED {
            let (sender, receiver) = channel();
            let (workspace, files_of_worker, shapes) = (workspace.to_path_buf(), files.clone(), shapes.clone());
            let from = next;
            let started = std::thread::Builder::new()
                .name("syntax".to_owned())
                .stack_size(STACK_BYTES)
                .spawn(move || work(&workspace, &files_of_worker, &shapes, from, until, &sender));
            if started.is_err() {
                self.truncated = true;
                return;
            }
            match self.listen(&receiver, files, until, &mut next) {
                Heard::All => return,
                Heard::Enough => {
                    self.truncated = true;
                    return;
                }
                Heard::Nothing => {
                    if let Some(file) = files.get(next) {
                        self.skip(&file.path, "it took too long");
                    }
                    next += 1;
                }
            }
        }
        self.truncated = true;
    }

    fn listen(&mut self, receiver: &Receiver<News>, files: &[Candidate], until: Instant, at: &mut usize) -> Heard {
        let mut file_until = Instant::now() + MAX_FILE;
        loop {
            let wait = file_until.min(until).saturating_duration_since(Instant::now());
            match receiver.recv_timeout(wait) {
                Ok(News::Began(file)) => {
                    *at = file;
                    self.searched += 1;
                    file_until = Instant::now() + MAX_FILE;
                }
                Ok(News::Found(_)) if self.found.len() >= self.most => return Heard::Enough,
                Ok(News::Found(line)) => self.found.push(line),
                Ok(News::Skipped) => {
                    if let Some(file) = files.get(*at) {
                        self.skip(&file.path, "parsing took too long");
                    }
                }
                Ok(News::Done) => return Heard::All,
                Err(_) if Instant::now() >= until => return Heard::Enough,
                // A worker that panicked in a grammar says nothing more either.
                Err(_) => return Heard::Nothing,
            }
        }
    }
}

enum Heard {
    All,
    Enough,
    Nothing,
}

fn work(workspace: &Path, files: &[Candidate], shapes: &[Shape], from: usize, until: Instant, news: &Sender<News>) {
    let Ok(tree) = Tree::open(workspace) else { return };
    for (at, file) in files.iter().enumerate().skip(from) {
        if news.send(News::Began(at)).is_err() || Instant::now() >= until {
            return;
        }
        let Some(text) = read(&tree, &file.path) else { continue };
        let shape = &shapes[file.shape];
        if !shape.may_be_in(&text) {
            continue;
        }
        let path = escape(file.path.as_os_str());
        let parse_until = until.min(Instant::now() + MAX_PARSE);
        let found = shape.find(&text, parse_until, &mut |first, last| {
            let line = text.lines().nth(first).unwrap_or_default();
            let more = if last > first {
                format!(" … (to line {})", last + 1)
            } else {
                String::new()
            };
            let found = GrepLine {
                path: path.clone(),
                line: first as u64 + 1,
                text: format!("{}{more}", line_text(line.as_bytes())),
                matched: true,
            };
            news.send(News::Found(found)).is_ok()
        });
        if found.is_none() && news.send(News::Skipped).is_err() {
            return;
        }
    }
    let _ = news.send(News::Done);
}

fn read(tree: &Tree, path: &Path) -> Option<String> {
    use std::io::Read as _;
    let file = tree.open_at(path, OFlags::RDONLY | OFlags::NOFOLLOW).ok()?;
    let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&file).ok()?.st_mode);
    if kind != rustix::fs::FileType::RegularFile {
        return None;
    }
    let mut bytes = Vec::new();
    std::fs::File::from(file)
        .take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .ok()?;
    let text = String::from_utf8(bytes).ok()?;
    (text.len() as u64 <= MAX_FILE_BYTES && !text.contains('\0')).then_some(text)
}
