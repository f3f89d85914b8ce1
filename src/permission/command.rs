//! A shell line as the rules of permission see it: one plain command, or a whole that only an
//! equal rule allows, with every part that can be seen in it. Called through `permission`.
//! Never decides whether the line is harmless, and never takes what it cannot read for harmless.

use super::flags;
use super::shell::{self, Script, Word, written};

/// Longer lines are not read: they are scripts.
const MAX_LINE_BYTES: usize = 64 * 1024;

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
    // Other white space is a character like any other to a shell.
    let line = line.trim_matches([' ', '\t', '\n']);
    let mut key = CommandKey {
        line: line.to_owned(),
        plain: None,
        parts: Vec::new(),
        written: Vec::new(),
        is_readable: true,
        scripts: 0,
    };
    if let Some(script) = key.read(line, 0) {
        key.plain = plain(&script);
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

    /// Reads a script and adds its commands.
    fn read(&mut self, text: &str, depth: u32) -> Option<Script> {
        self.scripts += 1;
        let may_read =
            depth < MAX_DEPTH && self.scripts <= MAX_SCRIPTS && text.len() <= MAX_LINE_BYTES && !text.contains('\0');
        let script = may_read.then(|| shell::read(text)).flatten();
        let Some(script) = script else {
            self.is_readable = false;
            return None;
        };
        for words in &script.commands {
            self.add(words.clone(), depth);
        }
        for inner in &script.inner {
            self.read(inner, depth + 1);
        }
        self.written.extend(script.written.iter().cloned());
        Some(script)
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
                    Some(script) => drop(self.read(&script.join(" "), depth + 1)),
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
                Some(Some(script)) => drop(self.read(script, depth + 1)),
                _ => self.is_readable = false,
            },
            None if arguments.iter().all(is_option) => self.is_readable = false,
            None => {}
        }
    }
}

/// The words, if the line is one plain command that runs nothing else.
fn plain(script: &Script) -> Option<Vec<String>> {
    let mut words = script.plain()?;
    let program = words.first()?.clone();
    if flags::runs_others(&program, &words[1..]) {
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
