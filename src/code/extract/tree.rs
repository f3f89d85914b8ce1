//! One file's tree and one query over it: what the query finds, as places in the text. The parser and
//! the cursor are kept for each thread. Never goes on beyond its limit, never recurses.

use std::borrow::Cow;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::ops::Range;

use tree_sitter::{
    Node, ParseOptions, ParseState, Parser, QueryCapture, QueryCursor, QueryCursorOptions, StreamingIterator, Tree,
};

use super::binding::{self, Binding};
use super::build;
use super::declarator::{declared, named};
use super::dialect::{Alphabet, Dialect};
use super::embedded::items;
use super::found::{Found, Frame, Local, Place, Used, What};
use super::kind::{Head, Kinds};
use super::limit::Limit;
use super::name;
use super::query::{Compiled, LocalKind, Role, Use};
use crate::code::facts::Facts;

/// Matches of a pattern that may be open at once: broken input nests without end.
const MAX_OPEN_MATCHES: u32 = 4_096;
/// Things of one kind that are kept of one file; a longer list is a table, not code.
const MAX_FOUND: usize = 50_000;

/// How deep macros that wrap items are followed: `cfg_net! { cfg_unix! { … } }`.
const MAX_EMBEDDING: usize = 3;
/// Imports that are kept of one file.
const MAX_IMPORTS: usize = 5_000;
struct Tools {
    parser: Parser,
    cursor: QueryCursor,
}

thread_local! {
    static TOOLS: RefCell<Tools> = RefCell::new(Tools {
        parser: Parser::new(),
        cursor: QueryCursor::new(),
    });
}

/// Reads symbols, references and imports of a text; tells what could not be read.
pub fn read(dialect: &'static Dialect, text: &str, limit: Limit, facts: &mut Facts) -> Option<String> {
    let compiled = match dialect.compiled() {
        Ok(compiled) => compiled,
        Err(why) => return Some(format!("no symbols of {}: {why}", dialect.name)),
    };
    TOOLS.with_borrow_mut(|tools| {
        let mut search = Search {
            dialect,
            compiled,
            text,
            source: readable(dialect.alphabet, text),
            limit,
            found: Found::default(),
            embedded: Vec::new(),
        };
        let ended = search.all(tools, facts);
        build::facts(dialect, text, search.found, facts);
        match ended {
            Ended::Complete => None,
            Ended::Unparsed => Some("not parsed in time".to_owned()),
            Ended::Late => Some("not searched to its end in time".to_owned()),
            Ended::Full => Some(format!("only the first {MAX_FOUND} names")),
        }
    })
}

/// A text that a grammar can read, byte for byte as long: names are read from the text as it was.
fn readable(alphabet: Alphabet, text: &str) -> Cow<'_, str> {
    if alphabet == Alphabet::Unicode || text.is_ascii() {
        return text.into();
    }
    let letters = text
        .bytes()
        .map(|byte| if byte.is_ascii() { char::from(byte) } else { 'x' });
    letters.collect::<String>().into()
}

/// How a search came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Complete,
    Unparsed,
    Late,
    Full,
}

struct Search<'s> {
    dialect: &'static Dialect,
    compiled: &'static Compiled,
    text: &'s str,
    /// What is parsed: the text, or one with everything in the same places.
    source: Cow<'s, str>,
    limit: Limit,
    found: Found,
    /// Items inside of macros that are still to be parsed.
    embedded: Vec<tree_sitter::Range>,
}

impl Search<'_> {
    /// Searches the text, then what macros wrap in it, which is items to us and tokens to the grammar.
    fn all(&mut self, tools: &mut Tools, facts: &mut Facts) -> Ended {
        let mut ranges = Vec::new();
        for _ in 0..=MAX_EMBEDDING {
            let Some(tree) = self.parse(&mut tools.parser, &ranges) else {
                return Ended::Unparsed;
            };
            let ended = self.one(&mut tools.cursor, &tree, facts);
            if ended != Ended::Complete {
                return ended;
            }
            ranges = std::mem::take(&mut self.embedded);
            ranges.sort_by_key(|range| (range.start_byte, Reverse(range.end_byte)));
            let mut end = 0;
            ranges.retain(|range| {
                let is_outermost = range.start_byte >= end;
                end = end.max(range.end_byte);
                is_outermost
            });
            if ranges.is_empty() {
                break;
            }
            let is_inside = |at: usize| {
                let before = ranges.partition_point(|range| range.start_byte <= at);
                before > 0 && at < ranges[before - 1].end_byte
            };
            self.found
                .uses
                .retain(|used| used.how != Use::Token || !is_inside(used.name.start as usize));
        }
        Ended::Complete
    }

    fn parse(&self, parser: &mut Parser, ranges: &[tree_sitter::Range]) -> Option<Tree> {
        parser.set_language(&self.compiled.grammar).ok()?;
        parser.set_included_ranges(ranges).ok()?;
        let bytes = self.source.as_bytes();
        let mut limit = self.limit;
        let mut go_on = |_: &ParseState| limit.flow();
        let options = ParseOptions::new().progress_callback(&mut go_on);
        let tree = parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), None, Some(options));
        if tree.is_none() {
            parser.reset();
        }
        tree
    }

    fn one(&mut self, cursor: &mut QueryCursor, tree: &Tree, facts: &mut Facts) -> Ended {
        let mut late = false;
        let mut limit = self.limit;
        let mut go_on = |_: &tree_sitter::QueryCursorState| {
            let flow = limit.flow();
            late = flow.is_break();
            flow
        };
        let options = QueryCursorOptions::new().progress_callback(&mut go_on);
        cursor.set_match_limit(MAX_OPEN_MATCHES);
        let (text, compiled) = (self.text.as_bytes(), self.compiled);
        let mut matches = cursor.matches_with_options(&compiled.query, tree.root_node(), text, options);
        let mut imports = Vec::new();
        let mut full = false;
        while let Some(found) = matches.next() {
            self.take(found.pattern_index as u32, found.captures(), &mut imports);
            if self
                .found
                .uses
                .len()
                .max(self.found.frames.len())
                .max(self.found.locals.len())
                >= MAX_FOUND
            {
                full = true;
                break;
            }
        }
        drop(matches);
        self.read_imports(imports, facts);
        match (full, late) {
            (true, _) => Ended::Full,
            (false, true) => Ended::Late,
            (false, false) => Ended::Complete,
        }
    }

    fn take<'t>(&mut self, pattern: u32, captures: &[QueryCapture<'t>], imports: &mut Vec<Node<'t>>) {
        let (mut what, mut end, mut name, mut owner) = (None, None, Place::default(), None);
        let (mut variable, mut typed, mut declarator) = (None, None, None);
        for capture in captures {
            let node = capture.node;
            match self.compiled.roles[capture.index as usize] {
                Role::Use(how) => self.take_use(node, how, pattern),
                Role::Definition(kind) => what = Some((What::Symbol(kind), node)),
                Role::Promoted => what = Some((What::Promoted, node)),
                Role::Prototype => what = Some((What::Prototype, node)),
                Role::End => end = Some(node),
                Role::Variable => variable = Some(node.byte_range()),
                Role::Typed => typed = Some(node),
                Role::Ignored => {}
                Role::Name => name = node.byte_range().into(),
                Role::Declarator => declarator = Some(node),
                Role::ParameterDeclarator => self.take_parameter(node),
                Role::Owner => owner = name::last(self.text, node.byte_range()).map(Place::from),
                Role::Scope => what = Some((What::Scope, node)),
                Role::Closure => what = Some((What::Closure, node)),
                Role::Import => what = Some((What::Import, node)),
                Role::Require if &self.text[node.byte_range()] != "require" => return,
                Role::Require => {}
                Role::Embedded => self.embedded.extend(items(node, self.text)),
                Role::Local(binding) => self.found.locals.push(Local {
                    name: node.byte_range().into(),
                    binding,
                }),
            }
        }
        if let Some((name, typed)) = variable.zip(typed) {
            self.take_binding(name, typed);
        }
        let Some((mut what, node)) = what else { return };
        if let Some(declarator) = declarator {
            let Some(declared) = declared(declarator, what, &self.compiled.kinds) else {
                return;
            };
            (what, name) = (declared.what, declared.name.byte_range().into());
        }
        if what == What::Import {
            imports.push(node);
        }
        let end = end.unwrap_or(node);
        self.found.frames.push(Frame {
            range: (node.start_byte()..end.end_byte()).into(),
            lines: if what.is_symbol() {
                (first_line(node, &self.compiled.kinds), last_line(end))
            } else {
                (0, 0)
            },
            what,
            name,
            owner,
            pattern,
        });
    }

    fn take_parameter(&mut self, declarator: Node<'_>) {
        if let Some(name) = named(declarator, &self.compiled.kinds) {
            self.found.locals.push(Local {
                name: name.byte_range().into(),
                binding: LocalKind::Parameter,
            });
        }
    }

    fn take_binding(&mut self, name: Range<usize>, typed: Node<'_>) {
        if self.found.bindings.len() < MAX_FOUND
            && let Some(written) = binding::written(self.text, typed, &self.compiled.kinds, self.dialect.separators)
        {
            self.found.bindings.push(Binding {
                name,
                line: typed.start_position().row as u32 + 1,
                written,
            });
        }
    }

    fn take_use(&mut self, node: Node<'_>, how: Use, pattern: u32) {
        let whole = node.byte_range();
        let mut line = node.start_position().row as u32 + 1;
        let name = if node.child_count() == 0 {
            whole
        } else {
            let Some(name) = name::last(self.text, whole.clone()) else {
                return;
            };
            let breaks = self.text.as_bytes()[whole.start..name.start]
                .iter()
                .filter(|byte| **byte == b'\n');
            line += breaks.count() as u32;
            name
        };
        self.found.uses.push(Used {
            name: name.into(),
            line,
            how,
            pattern,
        });
    }

    /// Reads the imports in their order; one inside another was found by two patterns.
    fn read_imports(&self, mut imports: Vec<Node<'_>>, facts: &mut Facts) {
        imports.sort_by_key(|node| (node.start_byte(), Reverse(node.end_byte())));
        let mut end = 0;
        for node in imports {
            if node.end_byte() > end && facts.imports.len() < MAX_IMPORTS {
                end = node.end_byte();
                (self.dialect.imports)(node, self.text, &mut facts.imports);
            }
        }
        facts.imports.truncate(MAX_IMPORTS);
        facts.imports.sort_by_key(|import| import.line);
    }
}

/// The first line of a definition, from 1, behind its annotations.
fn first_line(node: Node<'_>, kinds: &Kinds) -> u32 {
    let mut first = node;
    for at in 0.. {
        let Some(child) = node.child(at) else { break };
        first = match kinds.head(child) {
            Head::Annotation => continue,
            Head::Modifiers => behind_annotations(child, kinds).or(node.child(at + 1)).unwrap_or(first),
            Head::Other => child,
        };
        break;
    }
    first.start_position().row as u32 + 1
}

/// The first of modifiers that is no annotation; annotations stand in front as a rule.
fn behind_annotations<'t>(modifiers: Node<'t>, kinds: &Kinds) -> Option<Node<'t>> {
    let is_annotation = |node: &Node<'_>| kinds.head(*node) == Head::Annotation;
    if !modifiers.child(0).is_some_and(|first| is_annotation(&first)) {
        return Some(modifiers);
    }
    let mut others = (1..).map_while(|at| modifiers.child(at));
    others.find(|node| !is_annotation(node))
}

/// The last line of a definition, from 1. A node that ends with a line break does not reach the next.
fn last_line(node: Node<'_>) -> u32 {
    let end = node.end_position();
    end.row as u32 + u32::from(end.column > 0)
}
