//! A shell line as the rules of permission see it: one plain command, or a whole that only an
//! equal rule allows, with every part that can be seen in it. Called through `permission`.
//! Never decides whether the line is harmless, and never takes what it cannot read for harmless.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tree_sitter::{Node, ParseOptions, Parser, Tree};

use super::flags;
use super::literal::{Word, word, written};

/// Longer lines are not read: they are scripts.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// Longest time to read a line. A second is a thousand times what a long one takes.
const MAX_TIME: Duration = Duration::from_secs(1);

/// Shells within shells that are read.
const MAX_DEPTH: u32 = 4;

/// Most scripts within a line that are read.
const MAX_SCRIPTS: u32 = 64;

/// Most parts of a line that are looked at; a line with more counts as one that cannot be read.
const MAX_PARTS: usize = 4_096;

/// Where a command within a command may begin, and how much of it is kept.
const MAX_INNER_WORDS: usize = 64;

/// A shell line as rules know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandKey {
    line: String,
    /// The words of the one plain command that the line is.
    plain: Option<Vec<String>>,
    /// Every command in the line, also within others; words that are not known are `None`.
    pub(super) parts: Vec<Vec<Word>>,
    /// Files that redirections write to.
    pub(super) written: Vec<Word>,
    /// Whether everything in the line could be seen.
    pub(super) is_readable: bool,
    scripts: u32,
}

/// Reads a shell line. A plain command is known by its program and arguments, a program of the
/// system by its bare name. Everything else is keyed whole: lists and pipelines, substitutions,
/// here-documents, redirections that write, assignments, words that only the shell knows, programs
/// and options that run other programs, and what is no shell line at all.
pub fn command_key(line: &str) -> CommandKey {
    let line = line.trim();
    let mut key = CommandKey {
        line: line.to_owned(),
        plain: None,
        parts: Vec::new(),
        written: Vec::new(),
        is_readable: true,
        scripts: 0,
    };
    if let Some(tree) = key.parse(line, 0) {
        key.collect(&tree, line, 0);
        key.plain = plain(&tree, line);
    }
    key
}

impl CommandKey {
    /// The line as it stands in a key.
    pub fn text(&self) -> String {
        match &self.plain {
            Some(words) => words.iter().map(|word| written(word)).collect::<Vec<_>>().join(" "),
            None => self.line.clone(),
        }
    }

    /// The words of the one plain command, program first; `None` for a line that is keyed whole.
    pub fn plain(&self) -> Option<&[String]> {
        self.plain.as_deref()
    }

    /// Adds the commands of a script.
    fn read(&mut self, script: &str, depth: u32) {
        if let Some(tree) = self.parse(script, depth) {
            self.collect(&tree, script, depth);
        }
    }

    fn parse(&mut self, script: &str, depth: u32) -> Option<Tree> {
        self.scripts += 1;
        let may_read = depth < MAX_DEPTH && self.scripts <= MAX_SCRIPTS;
        let tree = may_read.then(|| parse(script)).flatten();
        self.is_readable &= tree.is_some();
        tree
    }

    fn collect(&mut self, tree: &Tree, script: &str, depth: u32) {
        // Depth first and without recursion: a line may nest as deep as it is long.
        let mut cursor = tree.walk();
        'tree: loop {
            let node = cursor.node();
            match node.kind() {
                "command" => self.add(words(node, script), depth),
                "file_redirect" => self.add_redirect(node, script),
                _ => {}
            }
            if cursor.goto_first_child() {
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    break 'tree;
                }
            }
        }
    }

    fn add(&mut self, words: Vec<Word>, depth: u32) {
        if self.parts.len() >= MAX_PARTS {
            self.is_readable = false;
            return;
        }
        if let Some(Some(program)) = words.first() {
            let program = flags::base(program).to_owned();
            if flags::is_shell(&program) {
                self.add_shell(&words, depth);
            } else if program == "eval" {
                match words[1..].iter().cloned().collect::<Option<Vec<_>>>() {
                    Some(script) => self.read(&script.join(" "), depth + 1),
                    None => self.is_readable = false,
                }
            } else if flags::is_wrapper(&program) {
                // Options of wrappers are many; the command begins behind one of the words.
                self.is_readable &= words.len() <= MAX_INNER_WORDS;
                for at in 1..words.len().min(MAX_INNER_WORDS) {
                    if !words[at].as_deref().is_some_and(|word| word.starts_with('-')) {
                        self.add_inner(&words[at..], depth);
                    }
                }
            } else {
                for inner in flags::behind_exec(&words) {
                    self.add_inner(inner, depth);
                }
            }
        }
        self.parts.push(words);
    }

    /// A command within a command. Of wrappers in it only the shells are looked into again: the
    /// words of others are among those that the outer one hands out.
    fn add_inner(&mut self, words: &[Word], depth: u32) {
        let program = words.first().cloned().flatten();
        let is_shell = program.is_some_and(|program| flags::is_shell(flags::base(&program)));
        if is_shell {
            self.add_shell(words, depth);
        }
        if self.parts.len() < MAX_PARTS {
            self.parts.push(words.iter().take(MAX_INNER_WORDS).cloned().collect());
        } else {
            self.is_readable = false;
        }
    }

    /// The script behind `-c`. One that comes from somewhere else is not known; a file is.
    fn add_shell(&mut self, words: &[Word], depth: u32) {
        let is_option = |word: &Word| word.as_deref().is_some_and(|word| word.starts_with(['-', '+']));
        let says_script = |word: &Word| {
            is_option(word)
                && word
                    .as_deref()
                    .is_some_and(|word| !word.starts_with("--") && word.contains('c'))
        };
        let arguments = &words[1..];
        match arguments.iter().position(says_script) {
            Some(at) => match arguments[at + 1..].iter().find(|word| !is_option(word)) {
                Some(Some(script)) => self.read(script, depth + 1),
                _ => self.is_readable = false,
            },
            None if arguments.iter().all(is_option) => self.is_readable = false,
            None => {}
        }
    }

    fn add_redirect(&mut self, node: Node<'_>, script: &str) {
        let text = &script[node.byte_range()];
        if text.contains('>')
            && let Some(to) = node.child_by_field_name("destination")
        {
            self.written.push(word(to, script));
        }
    }
}

/// The tree of a line that is valid shell.
fn parse(script: &str) -> Option<Tree> {
    if script.len() > MAX_LINE_BYTES || script.contains('\0') {
        return None;
    }
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    let until = Instant::now() + MAX_TIME;
    let mut watch = |_: &tree_sitter::ParseState| {
        if Instant::now() > until {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let options = ParseOptions::new().progress_callback(&mut watch);
    let bytes = script.as_bytes();
    let mut from = |at: usize, _: tree_sitter::Point| bytes.get(at..).unwrap_or_default();
    let tree = parser.parse_with_options(&mut from, None, Some(options))?;
    (!tree.root_node().has_error()).then_some(tree)
}

/// Program and arguments of a command.
fn words(command: Node<'_>, script: &str) -> Vec<Word> {
    let mut cursor = command.walk();
    let mut words = Vec::new();
    for (at, child) in command.children(&mut cursor).enumerate() {
        let field = command.field_name_for_child(u32::try_from(at).unwrap_or(u32::MAX));
        if matches!(field, Some("name" | "argument")) {
            words.push(word(child, script));
        }
    }
    words
}

/// The words, if the line is one plain command and nothing else.
fn plain(tree: &Tree, line: &str) -> Option<Vec<String>> {
    let root = tree.root_node();
    if line.contains(['\n', '\r']) || root.child_count() != 1 {
        return None;
    }
    let mut command = root.child(0)?;
    if command.kind() == "redirected_statement" {
        let mut cursor = command.walk();
        let mut redirects = command.children_by_field_name("redirect", &mut cursor);
        if !redirects.all(|redirect| is_harmless(redirect, line)) {
            return None;
        }
        command = command.child_by_field_name("body")?;
    }
    if command.kind() != "command" {
        return None;
    }
    let mut cursor = command.walk();
    for (at, _) in command.children(&mut cursor).enumerate() {
        // An assignment or a redirection within the command.
        if !matches!(
            command.field_name_for_child(u32::try_from(at).ok()?),
            Some("name" | "argument")
        ) {
            return None;
        }
    }
    let mut words = words(command, line).into_iter().collect::<Option<Vec<String>>>()?;
    let program = words.first()?.clone();
    if program.is_empty() || flags::runs_others(&program, &words[1..]) {
        return None;
    }
    // A program of the system is known by its name; one that lies elsewhere is another one.
    let (folder, name) = program.rsplit_once('/').unwrap_or(("", &program));
    if SYSTEM_FOLDERS.contains(&folder) {
        words[0] = name.to_owned();
    }
    Some(words)
}

/// Where programs of the system lie.
const SYSTEM_FOLDERS: [&str; 6] = [
    "/usr/bin",
    "/bin",
    "/usr/local/bin",
    "/usr/sbin",
    "/sbin",
    "/usr/local/sbin",
];

/// A redirection that writes no file.
fn is_harmless(redirect: Node<'_>, line: &str) -> bool {
    if redirect.kind() != "file_redirect" {
        return false;
    }
    let text: String = line[redirect.byte_range()]
        .chars()
        .filter(|c| !c.is_whitespace())
        .collect();
    let nowhere = [
        ">/dev/null",
        "1>/dev/null",
        "2>/dev/null",
        "&>/dev/null",
        ">>/dev/null",
        "2>>/dev/null",
        "2>&1",
        ">&2",
        "1>&2",
        "</dev/null",
    ];
    nowhere.contains(&text.as_str())
}
