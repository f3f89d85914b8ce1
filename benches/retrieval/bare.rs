//! What the index is measured against: a bare loop that parses with tree-sitter and runs the tag queries
//! that the grammars bring, and the search of ripgrep's crates. Never uses the index.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use forgehand::git::{Blob, BlobId, EntryKind, Git};
use forgehand::ids::CommitSha;
use forgehand::language;
use grep_regex::RegexMatcher;
use grep_searcher::{SearcherBuilder, sinks};

/// Lines with a literal, as `rg` finds them: all cores, files that git ignores left out.
pub fn ripgrep(tree: &Path, literal: &str) -> usize {
    let matcher = RegexMatcher::new_line_matcher(&regex::escape(literal)).expect("a pattern");
    let lines = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    ignore::WalkBuilder::new(tree)
        .threads(threads)
        .build_parallel()
        .run(|| {
            let mut searcher = SearcherBuilder::new().line_number(true).build();
            let (matcher, lines) = (&matcher, &lines);
            Box::new(move |entry| {
                if let Ok(entry) = entry
                    && entry.file_type().is_some_and(|kind| kind.is_file())
                {
                    let sink = sinks::Bytes(|_, _| {
                        lines.fetch_add(1, Ordering::Relaxed);
                        Ok(true)
                    });
                    let _ = searcher.search_path(matcher, entry.path(), sink);
                }
                ignore::WalkState::Continue
            })
        });
    lines.into_inner()
}

/// Reads all blobs of languages that are parsed, parses them and runs the tag query of each grammar.
pub fn bare_loop(git: &Git, repo: &Path, commit: &CommitSha) {
    let tree = git.tree(repo, commit).expect("the tree");
    let mut wanted: Vec<(BlobId, &'static language::Language)> = Vec::new();
    for entry in tree.entries.iter().filter(|entry| entry.kind == EntryKind::File) {
        if let Some(language) = language::of_path(&entry.path).filter(|language| tags(language.name).is_some()) {
            wanted.push((entry.id, language));
        }
    }
    let ids = wanted.iter().map(|(id, _)| *id).collect();
    let blobs = Mutex::new((0, git.blobs(repo, ids, 1 << 20).expect("the blobs")));
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let found = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut bytes = Vec::new();
                let mut tools = Tools::default();
                loop {
                    let language = {
                        let mut blobs = blobs.lock().expect("no panic");
                        let at = blobs.0;
                        blobs.0 += 1;
                        match blobs.1.next(&mut bytes).expect("a blob") {
                            None => return,
                            Some(Blob::Here) => wanted[at].1,
                            Some(Blob::Missing | Blob::TooLarge(_)) => continue,
                        }
                    };
                    found.fetch_add(tools.tags(language, &bytes), Ordering::Relaxed);
                }
            });
        }
    });
    assert!(found.into_inner() > 0, "no tag in the whole repository");
}

/// A parser, and the query of each language that was met.
#[derive(Default)]
struct Tools {
    parser: tree_sitter::Parser,
    queries: std::collections::HashMap<&'static str, tree_sitter::Query>,
    cursor: tree_sitter::QueryCursor,
}

impl Tools {
    fn tags(&mut self, language: &'static language::Language, bytes: &[u8]) -> usize {
        use tree_sitter::StreamingIterator as _;
        let grammar = language.grammar();
        self.parser.set_language(&grammar).expect("a grammar that fits");
        let Some(tree) = self.parser.parse(bytes, None) else {
            return 0;
        };
        let query = self.queries.entry(language.name).or_insert_with(|| {
            let source = tags(language.name).expect("a language with tags");
            tree_sitter::Query::new(&grammar, source).expect("the grammar's own query")
        });
        let mut matches = self.cursor.matches(query, tree.root_node(), bytes);
        let mut found = 0;
        while matches.next().is_some() {
            found += 1;
        }
        found
    }
}

/// The tag queries that the grammars bring.
fn tags(language: &str) -> Option<&'static str> {
    Some(match language {
        "c" => tree_sitter_c::TAGS_QUERY,
        "cpp" => tree_sitter_cpp::TAGS_QUERY,
        "go" => tree_sitter_go::TAGS_QUERY,
        "java" => tree_sitter_java::TAGS_QUERY,
        "javascript" => tree_sitter_javascript::TAGS_QUERY,
        "php" => tree_sitter_php::TAGS_QUERY,
        "python" => tree_sitter_python::TAGS_QUERY,
        "ruby" => tree_sitter_ruby::TAGS_QUERY,
        "rust" => tree_sitter_rust::TAGS_QUERY,
        "typescript" => tree_sitter_typescript::TAGS_QUERY,
        _ => return None,
    })
}
