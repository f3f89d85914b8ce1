//! What is asked, taken apart: words with their weights, names of code, paths and lines. Called by
//! ranking. Knows what issues look like: templates, quoted logs and stack traces say less than what
//! their author wrote. Never looks at a repository.

use std::collections::{BTreeMap, BTreeSet};

use super::terms;

#[cfg(test)]
mod tests;

/// Bytes that are looked at; what an author has to say stands before the logs.
const MAX_BYTES: usize = 32 * 1024;
/// Words that are searched for. A longer text has told what it is about by then.
const MAX_WORDS: usize = 48;
/// Names of code, and runs of words that may be one.
const MAX_NAMES: usize = 64;
/// Paths and lines, of a stack trace for the most part.
const MAX_PATHS: usize = 24;

/// How much a word counts by where it stands. What an author wrote counts in full.
const QUOTED: f32 = 0.4;
/// A fragment of code shows how to see a bug, mostly in the words of the reporter's own program.
const CODE: f32 = 0.5;
/// Logs repeat the names of everything that was running.
const LOG: f32 = 0.25;

/// A question, taken apart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Query {
    /// Words in small letters, the heaviest first: more than 1 for one that is repeated.
    pub words: Vec<(String, f32)>,
    /// Names of code: `tmp_dir` of `tmpDir` and of `tmp_dir`.
    pub names: Vec<String>,
    /// Neighbouring words written together, and single words: names that somebody took apart. From
    /// `tmpdir` to `tmp_dir`.
    pub joined: BTreeMap<String, String>,
    /// Paths of files, with a line where one was named.
    pub paths: Vec<(String, Option<u32>)>,
    /// Whether the question is about tests, so that test files are among the answers.
    pub is_about_tests: bool,
}

impl Query {
    /// Takes a text apart: an issue, a message, a few words.
    pub fn parse(text: &str) -> Self {
        let mut query = Self::default();
        let mut words: BTreeMap<String, f32> = BTreeMap::new();
        let mut names = BTreeSet::new();
        for (line, weight) in weighed(head(text)) {
            if weight > LOG {
                query.join(&line);
                names.extend(names_in(&line));
            }
            query.add_paths(&line);
            terms::names(&line, |name| {
                terms::parts(name, |part| {
                    if !terms::is_noise(part) {
                        *words.entry(part.to_owned()).or_default() += weight;
                    }
                });
            });
        }
        query.names = names.into_iter().take(MAX_NAMES).collect();
        // A word that is said again counts a little more, one that is only quoted a little less.
        let weigh = |sum: f32| if sum > 1.0 { 1.0 + sum.ln() } else { sum };
        query.words = words.into_iter().map(|(word, sum)| (word, weigh(sum))).collect();
        query
            .words
            .sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        query.words.truncate(MAX_WORDS);
        let first = text.lines().next().unwrap_or_default().to_lowercase();
        query.is_about_tests = ["flaky test", "failing test", "test suite", "unit test"]
            .iter()
            .any(|words| first.contains(words));
        query
    }

    /// Whether nothing was asked.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty() && self.paths.is_empty()
    }

    /// Runs of up to three words of a line, written together.
    fn join(&mut self, line: &str) {
        let mut run: Vec<String> = Vec::new();
        terms::names(line, |name| run.push(snake(name)));
        for length in 1..=3 {
            for window in run.windows(length) {
                let word = folded(&window.concat());
                let is_long = word.len() >= if length == 1 { 3 } else { 6 };
                if is_long && !(length == 1 && terms::is_noise(&word)) && self.joined.len() < 4 * MAX_NAMES {
                    self.joined.insert(word, window.join("_"));
                }
            }
        }
    }

    fn add_paths(&mut self, line: &str) {
        let between = |c: char| c.is_whitespace() || "\"'`()<>[]{},;|".contains(c);
        for word in line.split(between).filter(|word| word.contains('.')) {
            let Some((path, number)) = path_and_line(word) else {
                continue;
            };
            // `File "a.py", line 12`, as Python has it.
            let number = number.or_else(|| line_after(line, word));
            if self.paths.len() < MAX_PATHS && !self.paths.iter().any(|(known, at)| *known == path && *at == number) {
                self.paths.push((path, number));
            }
        }
    }
}

/// The two ways in which the index may have a whole name: `tmp_dir` and `tmpdir`.
pub(super) fn spellings(name: &str) -> impl Iterator<Item = String> {
    let other = folded(name);
    let other = (other != name).then_some(other);
    std::iter::once(name.to_owned()).chain(other)
}

/// A name in small letters with an underscore between its parts.
fn snake(name: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    terms::parts(name, |part| parts.push(part.to_owned()));
    // Parts of one letter are not told; `iOS` stays as it is.
    if parts.concat() == folded(name) {
        parts.join("_")
    } else {
        name.trim_matches('_').to_lowercase()
    }
}

/// A name in small letters without underscores.
pub(super) fn folded(name: &str) -> String {
    name.chars()
        .filter(|c| *c != '_')
        .flat_map(char::to_lowercase)
        .collect()
}

fn head(text: &str) -> &str {
    let mut end = text.len().min(MAX_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The lines of a text that say something, each with how much its words count.
fn weighed(text: &str) -> Vec<(String, f32)> {
    let mut lines = Vec::new();
    let mut fence: Option<&str> = None;
    let mut is_comment = false;
    let mut is_about_machine = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(mark) = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark)) {
            fence = if fence == Some(mark) {
                None
            } else {
                fence.or(Some(mark))
            };
            continue;
        }
        is_comment |= trimmed.starts_with("<!--");
        if is_comment {
            is_comment = !trimmed.contains("-->");
            continue;
        }
        if fence.is_none() && is_heading(trimmed) {
            is_about_machine = MACHINE.iter().any(|word| trimmed.to_lowercase().contains(word));
            if is_of_template(trimmed) {
                continue;
            }
        }
        if trimmed.starts_with("- [x]") || trimmed.starts_with("- [X]") || trimmed.starts_with("- [ ]") {
            continue;
        }
        let weight = match trimmed {
            _ if is_log(trimmed) || is_about_machine => LOG,
            _ if fence.is_some() => CODE,
            quoted if quoted.starts_with('>') => QUOTED,
            _ => 1.0,
        };
        lines.push((without_addresses(trimmed), weight));
    }
    lines
}

/// Headings under which reporters list their machines.
const MACHINE: &[&str] = &["environment", "version", "system info", "platform", "setup", "your env"];
/// Headings that templates of issues have, which say nothing of the issue.
const TEMPLATE: &[&str] = &[
    "describe the bug",
    "description",
    "expected",
    "actual",
    "steps",
    "reproduc",
    "environment",
    "version",
    "system info",
    "platform",
    "additional",
    "context",
    "screenshots",
    "logs",
    "what happened",
    "what did you",
    "checklist",
    "summary",
    "motivation",
    "proposal",
    "your env",
    "validations",
    "used package manager",
];

fn is_heading(line: &str) -> bool {
    line.starts_with('#') || (line.starts_with("**") && line.trim_end_matches(':').ends_with("**"))
}

fn is_of_template(heading: &str) -> bool {
    let words = heading.trim_matches(['#', '*', ':', ' ', '?']).to_lowercase();
    words.split(' ').count() <= 7
        && TEMPLATE
            .iter()
            .any(|known| words.starts_with(known) || words.ends_with(known))
}

/// Whether a line is a frame of a stack trace, or begins with a time or a level as logs do.
fn is_log(line: &str) -> bool {
    let starts = |marks: &[&str]| marks.iter().any(|mark| line.starts_with(mark));
    let has_time = line.len() > 8 && line.bytes().take(10).filter(u8::is_ascii_digit).count() >= 6;
    starts(&[
        "at ",
        "File \"",
        "from ",
        "INFO",
        "DEBUG",
        "WARN",
        "TRACE",
        "goroutine ",
        "#0 ",
        "#1 ",
        "#2 ",
        "#3 ",
    ]) && (line.contains(':') || line.contains("line ") || line.contains('('))
        || has_time
}

fn without_addresses(line: &str) -> String {
    let is_address = |word: &&str| word.contains("://") || word.starts_with("www.");
    if line.contains("://") {
        line.split(' ')
            .filter(|word| !is_address(word))
            .collect::<Vec<_>>()
            .join(" ")
    } else {
        line.to_owned()
    }
}

/// Names that are written as code writes them: with an underscore or a capital inside.
fn names_in(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    terms::names(line, |name| {
        let name = name.trim_matches('_');
        let has_inner_capital = name.chars().skip(1).any(char::is_uppercase) && name.chars().any(char::is_lowercase);
        if name.len() >= 3 && (name.contains('_') || has_inner_capital) {
            found.push(snake(name));
        }
    });
    found
}

/// `src/a.rs` and 12 of `src/a.rs:12:5`. A word with a dot is a path when it ends as files of code do.
fn path_and_line(word: &str) -> Option<(String, Option<u32>)> {
    let mut pieces = word.split(':');
    let path = pieces.next()?.trim_start_matches("./");
    let line = pieces.next().and_then(|line| line.parse().ok());
    let is_name = path.len() >= 4 && !path.ends_with('.') && !path.starts_with('.');
    (is_name && crate::language::of_path(path).is_some()).then(|| (path.replace('\\', "/"), line))
}

fn line_after(line: &str, word: &str) -> Option<u32> {
    let rest = &line[line.find(word)? + word.len()..];
    let digits = rest.split("line ").nth(1)?;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}
