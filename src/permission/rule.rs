//! The rules themselves: read strictly, and matched against a key. Called through `permission`.
//! Never guesses what a rule that it does not understand might mean: that is a mistake in the
//! configuration.

use std::borrow::Cow;

use globset::{GlobBuilder, GlobMatcher};

use super::host::HostRule;
use super::shell::Word;
use super::{CommandKey, command_key};
use crate::config::{PermissionConfig, PermissionMode};

/// What a tool's calls are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// A shell line.
    Command,
    /// Files of the workspace that are only read.
    Read,
    /// Files of the workspace that are written.
    Write,
    /// A host of the web.
    Host,
    /// Nothing that a rule could tell apart.
    None,
}

/// A tool that rules may name. `write_file` stands for every tool that writes files and
/// `run_command` for every tool that runs a shell line, so that a rule cannot be walked around.
const TOOLS: &[(&str, Subject)] = &[
    ("agent", Subject::None),
    ("apply_patch", Subject::Write),
    ("ask_user", Subject::None),
    ("ast_grep", Subject::None),
    ("command_output", Subject::None),
    ("commit", Subject::None),
    ("conclude", Subject::None),
    ("confirm", Subject::None),
    ("diff", Subject::None),
    ("draft_issue", Subject::None),
    ("edit_file", Subject::Write),
    ("finish", Subject::None),
    ("generate_milestones", Subject::None),
    ("glob", Subject::None),
    ("grep", Subject::None),
    ("list_directory", Subject::Read),
    ("memory", Subject::None),
    ("milestone", Subject::None),
    ("plan", Subject::None),
    ("read_file", Subject::Read),
    ("reason", Subject::None),
    ("reverse_api", Subject::Host),
    ("review", Subject::None),
    ("run_command", Subject::Command),
    ("run_tests", Subject::None),
    ("search_code", Subject::None),
    ("search_github", Subject::Host),
    ("search_web", Subject::Host),
    ("skill", Subject::None),
    ("start_command", Subject::Command),
    ("stop_command", Subject::None),
    ("web_fetch", Subject::Host),
    ("write_file", Subject::Write),
];

/// Whether rules may name a tool.
pub fn is_known_tool(name: &str) -> bool {
    TOOLS.iter().any(|(known, _)| *known == name)
}

fn subject_of(tool: &str) -> Subject {
    TOOLS
        .iter()
        .find(|(known, _)| *known == tool)
        .map_or(Subject::None, |(_, subject)| *subject)
}

/// A key, read.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) tool: String,
    pub(super) about: About,
}

/// What a call is about.
#[derive(Clone)]
pub(super) enum About {
    Command(Box<CommandKey>),
    Paths { paths: Vec<String>, subject: Subject },
    Host(String),
    Nothing,
}

impl Call {
    pub(super) fn read(key: &str) -> Self {
        let (tool, rest) = match key.split_once(':') {
            Some((tool, rest)) => (tool, Some(rest)),
            None => (key, None),
        };
        let about = match (subject_of(tool), rest) {
            (Subject::Command, Some(line)) => About::Command(Box::new(command_key(line))),
            (subject @ (Subject::Read | Subject::Write), Some(paths)) => About::Paths {
                paths: paths.split('\n').map(str::to_owned).collect(),
                subject,
            },
            (Subject::Host, Some(host)) => About::Host(host.to_owned()),
            _ => About::Nothing,
        };
        Self {
            tool: tool.to_owned(),
            about,
        }
    }

    /// The call, or one for each of its files.
    fn each(&self) -> impl Iterator<Item = Cow<'_, Call>> {
        let (whole, paths, subject) = match &self.about {
            About::Paths { paths, subject } => (None, &paths[..], *subject),
            _ => (Some(Cow::Borrowed(self)), &[][..], Subject::None),
        };
        let one = move |path: &String| {
            Cow::Owned(Call {
                tool: self.tool.clone(),
                about: About::Paths {
                    paths: vec![path.clone()],
                    subject,
                },
            })
        };
        whole.into_iter().chain(paths.iter().map(one))
    }

    /// The rule that is about this call and nothing else.
    fn as_rule(&self) -> String {
        match &self.about {
            About::Command(key) => format!("run_command:{}", key.text()),
            About::Paths { paths, subject } => {
                let tool = match subject {
                    Subject::Write => "write_file",
                    _ => &self.tool,
                };
                format!("{tool}:{}", paths.join("\n"))
            }
            About::Host(host) => format!("{}:{host}", self.tool),
            About::Nothing => self.tool.clone(),
        }
    }
}

#[derive(Debug)]
enum Pattern {
    All,
    /// A command that begins with these words.
    Words(Vec<String>),
    /// A line that is equal.
    Line(String),
    Path(GlobMatcher),
    Host(HostRule),
}

#[derive(Debug)]
struct Rule {
    mode: PermissionMode,
    tool: &'static str,
    pattern: Pattern,
    /// How much of a call it fixes; longer rules count first.
    length: usize,
    text: String,
}

/// What the rules say, and which of them.
pub(super) struct Verdict {
    pub(super) mode: PermissionMode,
    pub(super) by: String,
    /// How much of the call the rule fixes; nothing where none matched.
    length: Option<usize>,
}

/// All rules with the defaults.
#[derive(Debug)]
pub(super) struct Rules {
    rules: Vec<Rule>,
    /// What a repository's own list may allow.
    repository: Vec<Rule>,
    /// Whose rules they are.
    whose: &'static str,
    sandboxed: PermissionMode,
    web: PermissionMode,
}

/// Whose rules count for a call, where they differ.
const OF_THE_OPERATOR: &str = "of the configuration";
const OF_THE_REPOSITORY: &str = "of the repository's own file";

impl Default for Rules {
    fn default() -> Self {
        let config = PermissionConfig::default();
        Self {
            rules: Vec::new(),
            repository: Vec::new(),
            whose: OF_THE_OPERATOR,
            sandboxed: config.sandboxed,
            web: config.web,
        }
    }
}

impl Rules {
    /// Reads the rules of a configuration; every problem is named with its key.
    pub(super) fn parse(config: &PermissionConfig) -> Result<Self, Vec<String>> {
        let (mut rules, mut repository, mut problems) = (Vec::new(), Vec::new(), Vec::new());
        for (key, mode, list) in [
            ("permission.allow", PermissionMode::Allow, &config.allow),
            ("permission.ask", PermissionMode::Ask, &config.ask),
            ("permission.deny", PermissionMode::Deny, &config.deny),
            ("permission.repository", PermissionMode::Allow, &config.repository),
        ] {
            for text in list {
                match Rule::parse(mode, text) {
                    Ok(rule) if key == "permission.repository" => repository.push(rule),
                    Ok(rule) => rules.push(rule),
                    Err(problem) => problems.push(format!("{key}: {problem}")),
                }
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self {
            rules,
            repository,
            whose: OF_THE_OPERATOR,
            sandboxed: config.sandboxed,
            web: config.web,
        })
    }

    /// The same rules as those of a repository's own file.
    pub(super) fn of_repository(self) -> Self {
        Self {
            whose: OF_THE_REPOSITORY,
            ..self
        }
    }

    /// The same rules, and `allow` for the tools of the web on these hosts.
    pub(super) fn with_hosts(mut self, hosts: &[HostRule]) -> Self {
        for (tool, _) in TOOLS.iter().filter(|(_, subject)| *subject == Subject::Host) {
            self.rules.extend(hosts.iter().map(|host| Rule {
                mode: PermissionMode::Allow,
                tool,
                length: host.length(),
                pattern: Pattern::Host(host.clone()),
                text: "web.hosts".to_owned(),
            }));
        }
        self
    }

    /// The rule that counts for a call. Of several files each has to pass.
    pub(super) fn judge(&self, call: &Call) -> Verdict {
        call.each()
            .map(|one| self.judge_one(&one))
            .max_by_key(|verdict| severity(verdict.mode))
            .unwrap_or_else(|| self.fallback(call))
    }

    /// Whether every call of a tool that works in the sandbox is asked about or denied.
    pub(super) fn allow_nothing(&self) -> bool {
        let allows = |rule: &Rule| rule.mode == PermissionMode::Allow && !matches!(rule.pattern, Pattern::Host(_));
        self.sandboxed != PermissionMode::Allow && !self.rules.iter().any(allows)
    }

    /// Whether a repository's list could allow anything by itself.
    pub(super) fn lifts(&self, list: &Self) -> bool {
        let allows = |rule: &Rule| rule.mode == PermissionMode::Allow;
        !self.repository.is_empty() && list.rules.iter().any(allows)
    }

    /// What is listed for a call; nothing where no rule is about it. Of several files a rule for each
    /// has to allow it.
    pub(super) fn listed(&self, call: &Call) -> Option<Verdict> {
        let each: Vec<Option<Verdict>> = call.each().map(|one| self.listed_one(&one)).collect();
        let is_allowed = each.iter().all(Option::is_some);
        each.into_iter()
            .flatten()
            .max_by_key(|verdict| severity(verdict.mode))
            .filter(|verdict| is_allowed || verdict.mode != PermissionMode::Allow)
    }

    /// Whether a repository's own list may turn this verdict into a yes: something that it may
    /// allow covers the call, and fixes more of it than the rule that asks.
    pub(super) fn may_lift(&self, call: &Call, asked: &Verdict) -> bool {
        call.each().all(|one| {
            let longest = self.repository.iter().filter(|rule| rule.matches(&one));
            longest.map(|rule| Some(rule.length)).max() > Some(asked.length)
        })
    }

    /// The rules that would allow a call on top of these; nothing where none can.
    pub(super) fn allowing(&self, call: &Call) -> Option<Vec<String>> {
        let mut rules = Vec::new();
        for one in call.each() {
            let verdict = self.judge_one(&one);
            if verdict.mode == PermissionMode::Allow {
                continue;
            }
            let rule = Rule::parse(PermissionMode::Allow, &one.as_rule()).ok()?;
            if !rule.matches(&one) || Some(rule.length) <= verdict.length {
                return None;
            }
            rules.push(rule.text);
        }
        (!rules.is_empty()).then_some(rules)
    }

    fn judge_one(&self, call: &Call) -> Verdict {
        self.listed_one(call).unwrap_or_else(|| self.fallback(call))
    }

    fn listed_one(&self, call: &Call) -> Option<Verdict> {
        let matching = self.rules.iter().filter(|rule| rule.matches(call));
        let best = matching.max_by_key(|rule| (rule.length, severity(rule.mode)))?;
        Some(Verdict {
            mode: best.mode,
            by: format!("the rule `{}` {}", best.text, self.whose),
            length: Some(best.length),
        })
    }

    fn fallback(&self, call: &Call) -> Verdict {
        let (mode, key) = match subject_of(&call.tool) {
            Subject::Host => (self.web, "permission.web"),
            _ => (self.sandboxed, "permission.sandboxed"),
        };
        // Ending the work and speaking to people is never a thing to be asked about.
        let mode = match call.tool.as_str() {
            "ask_user"
            | "conclude"
            | "confirm"
            | "draft_issue"
            | "finish"
            | "generate_milestones"
            | "milestone"
            | "plan" => PermissionMode::Allow,
            _ => mode,
        };
        Verdict {
            mode,
            by: format!("the configuration ({key})"),
            length: None,
        }
    }
}

fn severity(mode: PermissionMode) -> u8 {
    match mode {
        PermissionMode::Allow => 0,
        PermissionMode::Ask => 1,
        PermissionMode::Deny => 2,
    }
}

impl Rule {
    fn parse(mode: PermissionMode, text: &str) -> Result<Self, String> {
        let (name, rest) = match text.split_once(':') {
            Some((name, rest)) => (name, Some(rest)),
            None => (text, None),
        };
        let Some((tool, subject)) = TOOLS.iter().find(|(known, _)| *known == name).copied() else {
            let known: Vec<&str> = TOOLS.iter().map(|(known, _)| *known).collect();
            return Err(format!("{text:?} names no tool; the tools are {}", known.join(", ")));
        };
        let read = match (rest, subject) {
            (Some(rest), _) if rest.trim() != rest || rest.is_empty() => {
                Err("there is nothing, or space, behind the colon".to_owned())
            }
            (Some("*"), _) | (None, Subject::None) => Ok((Pattern::All, 0)),
            (None, _) => Err(format!("every call is written out as `{name}:*`")),
            (Some(_), Subject::None) => Err(format!("rules of this tool are written `{name}`")),
            (Some(rest), _) => read_pattern(subject, rest),
        };
        let (pattern, length) = read.map_err(|problem| format!("{text:?}: {problem}"))?;
        Ok(Self {
            mode,
            tool,
            pattern,
            length,
            text: text.to_owned(),
        })
    }

    fn covers_tool(&self, tool: &str) -> bool {
        self.tool == tool
            || (self.tool == "write_file" && subject_of(tool) == Subject::Write)
            || (self.tool == "run_command" && subject_of(tool) == Subject::Command)
    }

    fn matches(&self, call: &Call) -> bool {
        if !self.covers_tool(&call.tool) {
            return false;
        }
        match (&self.pattern, &call.about) {
            (Pattern::All, _) => true,
            (Pattern::Line(line), About::Command(key)) => *line == key.text(),
            (Pattern::Words(words), About::Command(key)) => match self.mode {
                PermissionMode::Allow => key.plain().is_some_and(|plain| plain.starts_with(words)),
                PermissionMode::Ask | PermissionMode::Deny => may_begin_with(key, words),
            },
            (Pattern::Path(glob), About::Paths { paths, .. }) => paths.iter().all(|path| match self.mode {
                PermissionMode::Allow => !leaves(path) && glob.is_match(path),
                PermissionMode::Ask | PermissionMode::Deny => glob.is_match(flattened(path)),
            }),
            (Pattern::Host(rule), About::Host(host)) => rule.covers(host),
            // A call whose arguments tell nothing does not run either.
            (Pattern::Line(_) | Pattern::Words(_) | Pattern::Path(_) | Pattern::Host(_), _) => false,
        }
    }
}

fn read_pattern(subject: Subject, rest: &str) -> Result<(Pattern, usize), String> {
    match subject {
        Subject::Command => read_command(rest),
        Subject::Read | Subject::Write => read_path(rest),
        Subject::Host => {
            let rule = HostRule::parse(rest)?;
            let length = rule.length();
            Ok((Pattern::Host(rule), length))
        }
        Subject::None => Err("rules of this tool have no part behind the colon".to_owned()),
    }
}

/// `git push` and `git push *` are the same: the words and whatever follows them.
fn read_command(rest: &str) -> Result<(Pattern, usize), String> {
    let words = rest.strip_suffix(" *").unwrap_or(rest);
    if words
        .split_whitespace()
        .any(|word| word.contains('*') && !word.contains(['\'', '"', '\\']))
    {
        return Err("a `*` stands at the end only, behind a space; quote one that is meant as such".to_owned());
    }
    let key = command_key(words);
    if !key.is_readable {
        return Err("this is no shell line that can be read".to_owned());
    }
    match key.plain() {
        Some(plain) => Ok((Pattern::Words(plain.to_vec()), key.text().len())),
        None if words != rest => Err(
            "a line of several commands, or one that runs other programs, is allowed only as it stands, without `*`"
                .to_owned(),
        ),
        // A whole line says more than any of its parts.
        None => Ok((Pattern::Line(key.text()), usize::MAX)),
    }
}

fn read_path(rest: &str) -> Result<(Pattern, usize), String> {
    if leaves(rest) || rest.starts_with("./") || rest.contains("//") || rest.contains(['\\', '\n']) {
        return Err("a path is relative to the workspace, without `.` and `..`".to_owned());
    }
    let glob = if rest.ends_with('/') {
        format!("{rest}**")
    } else {
        rest.to_owned()
    };
    let glob = GlobBuilder::new(&glob)
        .literal_separator(true)
        .build()
        .map_err(|error| error.kind().to_string())?;
    Ok((Pattern::Path(glob.compile_matcher()), rest.len()))
}

/// Whether a path is not plainly below the workspace.
fn leaves(path: &str) -> bool {
    path.starts_with('/') || path.split('/').any(|part| part == "..")
}

/// A path without `.` and `..`, as far as that can be said without looking.
pub(super) fn flattened(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Whether any part of a line begins with these words, or may: what cannot be read might be
/// anything.
fn may_begin_with(key: &CommandKey, words: &[String]) -> bool {
    !key.is_readable
        || key
            .parts
            .iter()
            .any(|part| begins_with(part, words, Unknown::MayBeAnything))
}

/// What a word counts for that only the shell knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknown {
    MayBeAnything,
    IsNothing,
}

/// Whether a command begins with words, options before the second of them left out.
pub(super) fn begins_with(part: &[Word], words: &[String], unknown: Unknown) -> bool {
    let same = |given: &Word, word: &str| match given {
        Some(given) => given == word,
        None => unknown == Unknown::MayBeAnything,
    };
    let Some((program, rest)) = words.split_first() else {
        return true;
    };
    let Some((given, arguments)) = part.split_first() else {
        return false;
    };
    let is_program = match given {
        Some(given) => super::flags::base(given) == super::flags::base(program),
        None => unknown == Unknown::MayBeAnything,
    };
    if !is_program {
        return false;
    }
    for at in 0..=arguments.len() {
        let behind = &arguments[at..];
        if behind.len() >= rest.len() && rest.iter().zip(behind).all(|(word, given)| same(given, word)) {
            return true;
        }
        let is_option = |word: &Word| word.as_deref().is_none_or(|word| word.starts_with(['-', '+']));
        let is_value = at > 0 && arguments.get(at - 1).is_some_and(is_option);
        match arguments.get(at) {
            Some(word) if is_option(word) || is_value => {}
            _ => return false,
        }
    }
    false
}
