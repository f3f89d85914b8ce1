//! The title of a pull request in the form that a repository's titles have: Conventional Commits,
//! an area in brackets, a capital or none, a full stop or none. Pure.
//! Never invents a ticket number, a scope or an area, and takes no words from other titles but
//! these.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

/// Fewer titles than this show no convention.
const FEWEST: usize = 3;

/// A type of Conventional Commits, a scope, the mark of a breaking change.
static TYPED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?i)(feat|feature|fix|bugfix|hotfix|docs?|style|refactor|perf|tests?|build|ci|chore|revert|deps)(?:\(([^()\s]{1,40})\))?(!?):\s+(\S.*)$")
        .expect("the pattern is valid")
});

/// An area in brackets.
static BRACKETED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\[([^\[\]]{1,40})\]\s*(\S.*)$").expect("the pattern is valid"));

/// The number of a ticket in front, set off from what follows: `UTF-8 is read` has none.
static TICKET: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:[\[(](?:[A-Z][A-Z0-9]+-|#)\d+[\])]|[A-Z][A-Z0-9]+-\d+\s*(?::|-\s)|#\d+\b)[:\s-]*(\S.*)$")
        .expect("the pattern is valid")
});

/// Which number of a pull request a squashed commit's title ends with.
static NUMBER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\s*\(#\d+\)$").expect("the pattern is valid"));

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    Typed,
    Bracketed,
}

/// How a repository writes its titles.
#[derive(Debug, Clone)]
pub(super) struct Convention {
    form: Form,
    /// Whether the first word begins with a capital; nothing: as the author wrote it.
    capital: Option<bool>,
    full_stop: bool,
    /// Types as they are written here: `feature` where others write `feat`.
    types: Vec<String>,
    /// Scopes or areas in use.
    areas: Vec<String>,
}

/// A title in parts.
#[derive(Debug, Default)]
struct Parts {
    kind: Option<String>,
    area: Option<String>,
    breaking: bool,
    subject: String,
}

impl Convention {
    /// Read from titles; what less than two thirds of them do is no convention.
    pub(super) fn of(titles: &[String]) -> Self {
        let titles: Vec<&str> = titles
            .iter()
            .map(|title| title.trim())
            .filter(|title| !title.is_empty())
            .collect();
        let most = |count: usize| titles.len() >= FEWEST && count * 3 >= titles.len() * 2;
        let typed: Vec<Parts> = titles.iter().filter_map(|title| typed(title)).collect();
        let bracketed: Vec<Parts> = titles.iter().filter_map(|title| bracketed(title)).collect();
        let form = match () {
            () if most(typed.len()) => Form::Typed,
            () if most(bracketed.len()) => Form::Bracketed,
            () => Form::Plain,
        };
        let subjects: Vec<String> = titles.iter().map(|title| subject_of(title)).collect();
        let capitals = subjects
            .iter()
            .filter(|subject| begins(subject, char::is_uppercase))
            .count();
        let smalls = subjects
            .iter()
            .filter(|subject| begins(subject, char::is_lowercase))
            .count();
        let stops = subjects.iter().filter(|subject| subject.ends_with('.')).count();
        let like = match form {
            Form::Typed => &typed,
            Form::Bracketed | Form::Plain => &bracketed,
        };
        Self {
            form,
            capital: match () {
                () if most(capitals) => Some(true),
                () if most(smalls) => Some(false),
                () => None,
            },
            full_stop: most(stops),
            types: by_use(typed.iter().filter_map(|parts| parts.kind.clone())),
            areas: by_use(like.iter().filter_map(|parts| parts.area.clone())),
        }
    }

    /// A title in this form, for a change of these paths.
    pub(super) fn apply(&self, title: &str, paths: &[&str]) -> String {
        let given = taken_apart(title);
        if given.subject.is_empty() {
            return title.trim().to_owned();
        }
        let subject = self.written(&given.subject);
        let area = given.area.clone().filter(|area| self.knows(area));
        let area = area.or_else(|| self.area_of(paths));
        match (self.form, area) {
            (Form::Plain, _) | (Form::Bracketed, None) => subject,
            (Form::Bracketed, Some(area)) => format!("[{area}] {subject}"),
            (Form::Typed, area) => {
                let kind = self.kind_of(&given, paths);
                let scope = area.map_or_else(String::new, |area| format!("({area})"));
                let breaking = if given.breaking { "!" } else { "" };
                format!("{kind}{scope}{breaking}: {subject}")
            }
        }
    }

    fn written(&self, subject: &str) -> String {
        let mut subject = subject.trim().to_owned();
        if subject.ends_with('.') && !subject.ends_with("..") && !self.full_stop {
            subject.pop();
        }
        if self.full_stop && !subject.ends_with(['.', '!', '?', '…']) {
            subject.push('.');
        }
        let first = subject.split_whitespace().next().unwrap_or_default();
        // A name, an acronym or code is written as it is written.
        let is_word = first.chars().all(char::is_alphabetic) && first.chars().skip(1).all(char::is_lowercase);
        match (self.capital, is_word, subject.chars().next()) {
            (Some(true), true, Some(letter)) => {
                letter.to_uppercase().collect::<String>() + &subject[letter.len_utf8()..]
            }
            (Some(false), true, Some(letter)) => {
                letter.to_lowercase().collect::<String>() + &subject[letter.len_utf8()..]
            }
            _ => subject,
        }
    }

    fn knows(&self, area: &str) -> bool {
        self.areas.iter().any(|known| known.eq_ignore_ascii_case(area))
    }

    /// The area in use that every changed path lies in; the most used one of several.
    fn area_of(&self, paths: &[&str]) -> Option<String> {
        let lies_in = |path: &str, area: &str| {
            path.split('/')
                .map(|part| part.split('.').next().unwrap_or(part))
                .any(|part| part.eq_ignore_ascii_case(area))
        };
        let all_in = |area: &&String| !paths.is_empty() && paths.iter().all(|path| lies_in(path, area));
        self.areas.iter().find(all_in).cloned()
    }

    /// The type that the author gave, or what the change looks like, in the repository's spelling.
    fn kind_of(&self, given: &Parts, paths: &[&str]) -> String {
        let kind = match &given.kind {
            Some(kind) => kind.to_lowercase(),
            None => guessed(&given.subject, paths).to_owned(),
        };
        let same = |used: &&String| meaning(used) == meaning(&kind);
        self.types.iter().find(same).cloned().unwrap_or(kind)
    }
}

/// What a change is, from its first word and its files.
fn guessed(subject: &str, paths: &[&str]) -> &'static str {
    let all = |is: &dyn Fn(&str) -> bool| !paths.is_empty() && paths.iter().all(|path| is(path));
    let is_prose = |path: &str| path.starts_with("docs/") || path.ends_with(".md") || path.ends_with(".rst");
    if all(&is_prose) {
        return "docs";
    }
    if all(&super::risk::is_test) {
        return "test";
    }
    let first = subject.split_whitespace().next().unwrap_or_default().to_lowercase();
    match first.as_str() {
        "add" | "adds" | "support" | "introduce" | "allow" | "implement" | "offer" => "feat",
        "refactor" | "rename" | "extract" | "simplify" | "restructure" | "move" => "refactor",
        "bump" | "upgrade" => "chore",
        "document" => "docs",
        // Most of what an agent is asked for is something that is wrong.
        _ => "fix",
    }
}

/// Different spellings of one type.
fn meaning(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.as_str() {
        "feature" => "feat",
        "bugfix" | "hotfix" => "fix",
        "doc" => "docs",
        "tests" => "test",
        other => other,
    }
    .to_owned()
}

fn typed(title: &str) -> Option<Parts> {
    let found = TYPED.captures(title)?;
    Some(Parts {
        kind: Some(found[1].to_owned()),
        area: found.get(2).map(|area| area.as_str().to_owned()),
        breaking: !found[3].is_empty(),
        subject: found[4].to_owned(),
    })
}

fn bracketed(title: &str) -> Option<Parts> {
    if TICKET.is_match(title) {
        return None;
    }
    let found = BRACKETED.captures(title)?;
    Some(Parts {
        area: Some(found[1].to_owned()),
        subject: found[2].to_owned(),
        ..Parts::default()
    })
}

/// All prefixes of a title, however many; the outermost of each kind counts.
fn taken_apart(title: &str) -> Parts {
    let mut parts = Parts {
        subject: NUMBER.replace(title.trim(), "").into_owned(),
        ..Parts::default()
    };
    for _ in 0..4 {
        let Some(found) = typed(&parts.subject).or_else(|| bracketed(&parts.subject)) else {
            break;
        };
        parts.kind = parts.kind.or(found.kind);
        parts.area = parts.area.or(found.area);
        parts.breaking |= found.breaking;
        parts.subject = found.subject;
    }
    if let Some(found) = TICKET.captures(&parts.subject) {
        parts.subject = found[1].to_owned();
    }
    parts
}

fn subject_of(title: &str) -> String {
    taken_apart(title).subject
}

fn begins(subject: &str, is: fn(char) -> bool) -> bool {
    subject.chars().next().is_some_and(is)
}

/// Each once, the most used first.
fn by_use(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut uses: HashMap<String, usize> = HashMap::new();
    for word in words {
        *uses.entry(word).or_default() += 1;
    }
    let mut words: Vec<(String, usize)> = uses.into_iter().collect();
    words.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    words.into_iter().map(|(word, _)| word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convention(titles: &[&str]) -> Convention {
        Convention::of(&titles.iter().map(|title| (*title).to_owned()).collect::<Vec<_>>())
    }

    /// Given titles, a title, and what it becomes.
    #[track_caller]
    fn check(titles: &[&str], table: &[(&str, &[&str], &str)]) {
        for (title, paths, expected) in table {
            assert_eq!(convention(titles).apply(title, paths), *expected, "{title}");
        }
    }

    #[test]
    fn conventional_commits() {
        let titles = [
            "fix: drop a stale lock",
            "feat(cli): read a file",
            "chore: bump serde",
            "fix(store): retry",
        ];
        check(
            &titles,
            &[
                ("Count the last word", &["src/count.rs"], "fix: count the last word"),
                ("Add a flag.", &["src/cli/run.rs"], "feat(cli): add a flag"),
                ("fix: Count the last word", &["a.rs"], "fix: count the last word"),
                ("fix: fix: count", &["a.rs"], "fix: count"),
                ("Fix(store): fix: count", &["a.rs"], "fix(store): count"),
                ("fix(invented): count", &["a.rs"], "fix: count"),
                ("[cli] Count", &["a.rs"], "fix(cli): count"),
                ("Explain it", &["docs/a.md", "README.md"], "docs: explain it"),
                ("Cover it", &["tests/a.rs"], "test: cover it"),
                ("HTTP errors are shown", &["a.rs"], "fix: HTTP errors are shown"),
                ("feat!: drop v1", &["a.rs"], "feat!: drop v1"),
                ("ABC-12: Count", &["a.rs"], "fix: count"),
            ],
        );
    }

    #[test]
    fn types_are_spelt_as_the_repository_does() {
        let titles = ["bugfix: A", "feature: B", "feature: C"];
        check(
            &titles,
            &[
                ("count words", &["a"], "bugfix: Count words"),
                ("feat: x", &["a"], "feature: X"),
            ],
        );
    }

    #[test]
    fn areas_in_brackets() {
        let titles = ["[store] Keep rows", "[cli] Read a file", "[store] Lock less"];
        check(
            &titles,
            &[
                ("count words", &["src/store/rows.rs"], "[store] Count words"),
                ("fix: count words", &["src/cli.rs"], "[cli] Count words"),
                ("[store] Count", &["docs/x"], "[store] Count"),
                ("[invented] Count", &["docs/x"], "Count"),
                ("Count words", &["src/cli.rs", "src/store.rs"], "Count words"),
            ],
        );
    }

    #[test]
    fn plain_titles_and_tickets() {
        check(
            &["Count words", "Read a file", "Keep rows (#12)"],
            &[
                ("fix: count the last word", &["a"], "Count the last word"),
                ("Count it.", &["a"], "Count it"),
                ("[x] count it", &["a"], "Count it"),
                ("UTF-8 is read", &["a"], "UTF-8 is read"),
                ("wc.sh counts", &["a"], "wc.sh counts"),
            ],
        );
        check(
            &["Count words.", "Read a file.", "Keep rows."],
            &[("count it", &["a"], "Count it.")],
        );
        check(
            &["count words", "read a file", "keep rows"],
            &[("Count it", &["a"], "count it")],
        );
        check(
            &["AB-1: Count", "AB-2 Read", "[AB-3] Keep"],
            &[("Count it", &["a"], "Count it")],
        );
        check(
            &["#4 Count", "#5 Read", "#6 Keep"],
            &[("AB-1: count it", &["a"], "Count it")],
        );
    }

    #[test]
    fn too_little_is_no_convention() {
        check(
            &[],
            &[
                ("fix: count it", &["a"], "count it"),
                ("Wait...", &["a"], "Wait..."),
                ("", &[], ""),
            ],
        );
        check(&["fix: a", "fix: b"], &[("Count it", &[], "Count it")]);
        check(
            &["fix: a", "Read b", "Keep c", "docs: d"],
            &[("Count it", &[], "Count it")],
        );
    }
}
