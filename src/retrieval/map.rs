//! The map of a repository for the first prompt: folders and files with their main symbols, the most
//! used first, within a budget of tokens. Called when a run begins. The same repository and question
//! give the same map, so that a cached prompt stays valid. Never reads a file, never exceeds the budget.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use super::graph::{Graph, is_test_path};
use super::view::FileId;

/// Files that are looked at; those of larger repositories are taken by their number of importers.
const MAX_FILES: usize = 20_000;
/// Symbols of a file that are counted.
const MAX_COUNTED: usize = 12;
/// Symbols of a file that are shown.
const MAX_SHOWN: usize = 6;
/// Uses of one name above this say that the name is common, not that the symbol matters.
const MAX_USES: usize = 60;
/// Ranked files whose neighbours come nearer.
const MAX_CENTRES: usize = 10;
/// Longest name that is shown.
const MAX_NAME: usize = 60;

/// The map, at most `budget` long by `count`. `near` are files that a question is about, the best
/// first; without them the map shows what the repository itself uses most.
pub fn map(graph: &Graph, near: &[FileId], budget: usize, count: &dyn Fn(&str) -> usize) -> String {
    let files = ranked(graph, near);
    let lines: Vec<Line> = files.iter().map(|file| Line::of(graph, *file)).collect();
    // The longest beginning of the list that fits, found by halving; a longer one is a longer text.
    let (mut fits, mut over) = (0, lines.len() + 1);
    let mut text = String::new();
    while over - fits > 1 {
        let middle = fits + (over - fits) / 2;
        let tried = render(&lines[..middle]);
        if count(&tried) <= budget {
            (fits, text) = (middle, tried);
        } else {
            over = middle;
        }
    }
    text
}

/// Files by importance, the most important first, ties by path.
fn ranked(graph: &Graph, near: &[FileId]) -> Vec<FileId> {
    let view = graph.view();
    let closeness = closeness(graph, near);
    let code = view.files().filter(|file| view.language(*file).is_some());
    let code = code.filter(|file| !is_test_path(view.path(*file)) || closeness.contains_key(file));
    let mut scored: Vec<(f64, FileId)> = code
        .take(MAX_FILES)
        .map(|file| {
            let near = closeness.get(&file).copied().unwrap_or_default();
            (importance(graph, file) * (1.0 + near) + 10.0 * near, file)
        })
        .filter(|(score, _)| *score > 0.0)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(view.path(a.1).cmp(view.path(b.1))));
    scored.into_iter().map(|(_, file)| file).collect()
}

/// How near files are to those that a question is about: these themselves, and what they use or are
/// used by.
fn closeness(graph: &Graph, near: &[FileId]) -> HashMap<FileId, f64> {
    let mut closeness: HashMap<FileId, f64> = HashMap::new();
    for (place, file) in near.iter().enumerate() {
        let own = 10.0 / (1.0 + place as f64);
        *closeness.entry(*file).or_default() += own;
        if place < MAX_CENTRES {
            for neighbour in graph.uses(*file, 32).into_iter().chain(graph.importers(*file, 32)) {
                *closeness.entry(neighbour).or_default() += own / 8.0;
            }
        }
    }
    closeness
}

/// How much of the repository uses a file: files that import it, and uses of what it defines, each
/// shared with the other definitions of the name.
fn importance(graph: &Graph, file: FileId) -> f64 {
    let imported = graph.importers(file, usize::MAX).len() as f64;
    let view = graph.view();
    if view.len() > MAX_FILES / 4 {
        return imported;
    }
    let uses = mains(graph, file).into_iter().map(|(uses, _)| uses).sum::<f64>();
    imported + uses / 4.0
}

/// The main symbols of a file by use: those that other files can name.
fn mains(graph: &Graph, file: FileId) -> Vec<(f64, String)> {
    let view = graph.view();
    let symbols = view.symbols(file);
    let outer = symbols.iter().filter(|symbol| {
        let is_main = symbol.kind.is_type() || symbol.kind.is_callable();
        is_main && symbol.parent.is_none() && symbol.owner.is_none() && symbol.name.len() <= MAX_NAME
    });
    let mut mains: Vec<(f64, String)> = outer
        .take(MAX_COUNTED)
        .map(|symbol| {
            let mut users: Vec<FileId> = view.referred(&symbol.name).into_iter().map(|(user, _)| user).collect();
            users.dedup();
            users.retain(|user| *user != file);
            let defined = view.defined(&symbol.name).len().max(1);
            (
                users.len().min(MAX_USES) as f64 / defined as f64,
                symbol.name.to_string(),
            )
        })
        .collect();
    // Stable: symbols that are used alike stay in the order of the file.
    mains.sort_by(|a, b| b.0.total_cmp(&a.0));
    mains
}

/// A file of the map.
struct Line {
    folder: String,
    name: String,
    symbols: Vec<String>,
}

impl Line {
    fn of(graph: &Graph, file: FileId) -> Self {
        let path = graph.view().path(file);
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let symbols = mains(graph, file).into_iter().take(MAX_SHOWN);
        Self {
            folder: folder.to_owned(),
            name: name.to_owned(),
            symbols: symbols.map(|(_, name)| name).collect(),
        }
    }
}

/// Folders and files by path, so that a file more or less moves nothing else.
fn render(lines: &[Line]) -> String {
    let mut folders: BTreeMap<&str, BTreeMap<&str, &[String]>> = BTreeMap::new();
    for line in lines {
        let folder = folders.entry(&line.folder).or_default();
        folder.insert(&line.name, &line.symbols);
    }
    let mut text = String::new();
    for (folder, files) in folders {
        let _ = writeln!(text, "{}/", if folder.is_empty() { "." } else { folder });
        for (name, symbols) in files {
            let _ = match symbols.is_empty() {
                true => writeln!(text, "  {name}"),
                false => writeln!(text, "  {name}: {}", symbols.join(", ")),
            };
        }
    }
    text
}
