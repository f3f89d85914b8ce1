//! A repository's own tuning, `.forgehand.env`: lines `NAME=value` of which a short fixed list
//! counts, and only downwards. Read at a pinned commit of a repository that is trusted.
//! Never touches the environment of a process, never substitutes anything, and never repeats a
//! value: a line that is refused may hold a secret that somebody left there.

use std::str::FromStr;
use std::time::Duration;

use crate::config::{AgentConfig, BudgetConfig, RetrievalConfig, SandboxConfig};
use crate::text;

/// Where the file stands in a repository.
pub const REPO_ENV_PATH: &str = ".forgehand.env";

/// Largest file that is read, in bytes.
pub const MAX_REPO_ENV_BYTES: u64 = 16 * 1024;

/// Most lines, with empty ones and comments.
const MAX_LINES: usize = 200;
/// Longest name that is shown.
const MAX_NAME_CHARS: usize = 60;
/// What the names on the list begin with.
const PREFIX: &str = "FORGEHAND_";

/// The names that count, as the file has to write them.
pub const NAMES: [&str; 14] = [
    "FORGEHAND_AGENT__MAX_EXPLORE_TURNS",
    "FORGEHAND_AGENT__REVIEW_BEFORE_FINISH",
    "FORGEHAND_BUDGET__MAX_COST_USD",
    "FORGEHAND_BUDGET__MAX_MINUTES",
    "FORGEHAND_BUDGET__MAX_TOKENS",
    "FORGEHAND_BUDGET__MAX_TURNS",
    "FORGEHAND_RETRIEVAL__ENABLED",
    "FORGEHAND_RETRIEVAL__MAP_TOKENS",
    "FORGEHAND_RETRIEVAL__WAIT_SECONDS",
    "FORGEHAND_SANDBOX__COMMAND_TIMEOUT_SECONDS",
    "FORGEHAND_SANDBOX__CPUS",
    "FORGEHAND_SANDBOX__DISK_MIB",
    "FORGEHAND_SANDBOX__MAX_PROCESSES",
    "FORGEHAND_SANDBOX__MEMORY_MIB",
];

/// The file, read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepoEnv {
    lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    /// From 1.
    number: usize,
    name: String,
    value: String,
}

/// The sections that a repository can tune.
pub struct Sections<'a> {
    /// `[agent]`
    pub agent: &'a mut AgentConfig,
    /// `[budget]`
    pub budget: &'a mut BudgetConfig,
    /// `[retrieval]`
    pub retrieval: &'a mut RetrievalConfig,
    /// `[sandbox]`
    pub sandbox: &'a mut SandboxConfig,
}

/// Why a line has no effect.
enum Refusal {
    /// Not as the operator means it: people are told.
    Policy(&'static str),
    /// No value of its key: the file is broken.
    Value(&'static str),
}

impl RepoEnv {
    /// Reads the file.
    ///
    /// # Errors
    /// Every line that is none, with its number and without its value.
    pub fn parse(bytes: &[u8]) -> Result<Self, Vec<String>> {
        if bytes.len() as u64 > MAX_REPO_ENV_BYTES {
            let most = text::bytes_in_words(MAX_REPO_ENV_BYTES);
            return Err(vec![format!("{REPO_ENV_PATH}: it is longer than {most}")]);
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Err(vec![format!("{REPO_ENV_PATH}: it is not UTF-8")]);
        };
        // Editors put a mark at the beginning and returns at the ends of lines.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.lines().count() > MAX_LINES {
            return Err(vec![format!("{REPO_ENV_PATH}: it has more than {MAX_LINES} lines")]);
        }
        let (mut lines, mut problems) = (Vec::<Line>::new(), Vec::new());
        for (at, line) in text.lines().enumerate() {
            let number = at + 1;
            match parse_line(line) {
                Ok(None) => {}
                Ok(Some((name, value))) => match lines.iter().find(|line| line.name == name) {
                    Some(first) => problems.push(format!(
                        "{REPO_ENV_PATH} line {number}: {} stands in line {} already",
                        shown(&name),
                        first.number
                    )),
                    None => lines.push(Line { number, name, value }),
                },
                Err(problem) => problems.push(format!("{REPO_ENV_PATH} line {number}: {problem}")),
            }
        }
        if problems.is_empty() {
            Ok(Self { lines })
        } else {
            Err(problems)
        }
    }

    /// Lowers what the file lowers, and says of every other line why it has no effect. `is_set`
    /// knows the dotted keys that somebody set for this process: those stay.
    ///
    /// # Errors
    /// Every value that is none of its key, with the line's number.
    pub fn narrow(
        &self,
        sections: &mut Sections<'_>,
        is_set: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, Vec<String>> {
        let (mut refused, mut problems) = (Vec::new(), Vec::new());
        for Line { number, name, value } in &self.lines {
            let result = match why_not(name) {
                Some(why) => Err(Refusal::Policy(why)),
                None if is_set(&dotted(name)) => Err(Refusal::Policy("it is set for this process, which counts more")),
                None => sections.lower(name, value),
            };
            let said = |why| format!("{REPO_ENV_PATH} line {number}: {}: {why}", shown(name));
            match result {
                Ok(()) => {}
                Err(Refusal::Policy(why)) => refused.push(said(why)),
                Err(Refusal::Value(why)) => problems.push(said(why)),
            }
        }
        if problems.is_empty() {
            Ok(refused)
        } else {
            Err(problems)
        }
    }
}

/// `NAME=value`, with the value plain, or in quotes of one kind. Nothing for an empty line or a
/// comment.
fn parse_line(line: &str) -> Result<Option<(String, String)>, &'static str> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    if line.contains('\0') {
        return Err("there is a NUL in it");
    }
    let (name, value) = line.split_once('=').ok_or("a line is written NAME=value")?;
    let name = name.trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err("what stands before the `=` is no name");
    }
    let value = value.trim();
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
    let value = match quote {
        Some(quote) => {
            let inside = value[1..].strip_suffix(quote).ok_or("the quotes are not closed")?;
            if inside.contains(['"', '\'', '\\']) {
                return Err("there are quotes or a backslash within the quotes");
            }
            inside
        }
        None if value.contains(['"', '\'']) => return Err("there is a quote within the value"),
        None => value,
    };
    Ok(Some((name.to_owned(), value.to_owned())))
}

/// Why a name does not count at all.
fn why_not(name: &str) -> Option<&'static str> {
    if NAMES.contains(&name) {
        return None;
    }
    let upper = name.to_ascii_uppercase();
    if NAMES.contains(&upper.as_str()) {
        return Some("names are written in capitals");
    }
    let has = |parts: &[&str]| parts.iter().any(|part| upper.contains(part));
    let begins = |parts: &[&str]| parts.iter().any(|part| upper.starts_with(part));
    Some(if begins(&["LD_", "DYLD_"]) {
        "variables of the loader are never taken from a repository"
    } else if SHELL.contains(&upper.as_str()) {
        "variables of the shell are never taken from a repository"
    } else if begins(&["GIT_", "SSH_"]) {
        "variables of git are never taken from a repository"
    } else if begins(&INTERPRETERS) {
        "variables that make programs load code are never taken from a repository"
    } else if has(&["KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL"]) {
        "secrets do not belong into a repository, and are never taken from one; take it out, and make a new one"
    } else if has(&["PROXY", "URL", "ENDPOINT", "HOST", "EGRESS"]) {
        "addresses are never taken from a repository"
    } else if has(&["PERMISSION", "TRUST", "UNSAFE"]) {
        "what is allowed is never taken from this file"
    } else if upper.starts_with(PREFIX) {
        "a repository may not set this key"
    } else {
        "only keys of Forgehand that a repository may lower count here"
    })
}

/// What shells obey.
const SHELL: [&str; 10] = [
    "BASH_ENV",
    "CDPATH",
    "ENV",
    "HOME",
    "IFS",
    "PATH",
    "PROMPT_COMMAND",
    "PS4",
    "SHELL",
    "SHELLOPTS",
];

/// What programs that run code obey begins with these.
const INTERPRETERS: [&str; 9] = [
    "CARGO", "JAVA", "JDK_", "NODE", "NPM_", "PERL", "PYTHON", "RUBY", "RUST",
];

impl Sections<'_> {
    fn lower(&mut self, name: &str, value: &str) -> Result<(), Refusal> {
        let Sections {
            agent,
            budget,
            retrieval,
            sandbox,
        } = self;
        match name {
            "FORGEHAND_AGENT__MAX_EXPLORE_TURNS" => lower(&mut agent.max_explore_turns, value, 1),
            "FORGEHAND_AGENT__REVIEW_BEFORE_FINISH" => switch(&mut agent.review_before_finish, value, true),
            "FORGEHAND_BUDGET__MAX_COST_USD" => lower_money(&mut budget.max_cost_usd, value),
            "FORGEHAND_BUDGET__MAX_MINUTES" => lower(&mut budget.max_minutes, value, 1),
            "FORGEHAND_BUDGET__MAX_TOKENS" => lower(&mut budget.max_tokens, value, 1),
            "FORGEHAND_BUDGET__MAX_TURNS" => lower(&mut budget.max_turns, value, 1),
            "FORGEHAND_RETRIEVAL__ENABLED" => switch(&mut retrieval.enabled, value, false),
            "FORGEHAND_RETRIEVAL__MAP_TOKENS" => lower(&mut retrieval.map_tokens, value, 0),
            "FORGEHAND_RETRIEVAL__WAIT_SECONDS" => lower_seconds(&mut retrieval.wait_seconds, value, 0),
            "FORGEHAND_SANDBOX__COMMAND_TIMEOUT_SECONDS" => {
                lower_seconds(&mut sandbox.command_timeout_seconds, value, 1)
            }
            "FORGEHAND_SANDBOX__CPUS" => lower_cpus(&mut sandbox.cpus, value),
            "FORGEHAND_SANDBOX__DISK_MIB" => lower(&mut sandbox.disk_mib, value, LEAST_DISK_MIB),
            "FORGEHAND_SANDBOX__MAX_PROCESSES" => lower(&mut sandbox.max_processes, value, LEAST_PROCESSES),
            "FORGEHAND_SANDBOX__MEMORY_MIB" => lower(&mut sandbox.memory_mib, value, LEAST_MEMORY_MIB),
            _ => Err(Refusal::Policy("a repository may not set this key")),
        }
    }
}

/// Below these nothing runs any more.
const LEAST_MEMORY_MIB: u64 = 64;
const LEAST_DISK_MIB: u64 = 16;
const LEAST_PROCESSES: u64 = 16;
const LEAST_CPUS: f64 = 0.01;

const TOO_MUCH: Refusal = Refusal::Policy("it would be more than the operator allows; a repository can only lower it");
const TOO_LITTLE: Refusal = Refusal::Policy("it is too little to work with");

fn lower<T: FromStr + PartialOrd + Copy>(now: &mut T, value: &str, least: T) -> Result<(), Refusal> {
    let own: T = value
        .parse()
        .map_err(|_| Refusal::Value("a whole number is expected"))?;
    if own > *now {
        return Err(TOO_MUCH);
    }
    if own < least {
        return Err(TOO_LITTLE);
    }
    *now = own;
    Ok(())
}

fn lower_seconds(now: &mut Duration, value: &str, least: u64) -> Result<(), Refusal> {
    // A part of a second that the operator gave is no reason to refuse the same number.
    let mut seconds = now.as_secs() + u64::from(now.subsec_nanos() > 0);
    lower(&mut seconds, value, least)?;
    *now = Duration::from_secs(seconds).min(*now);
    Ok(())
}

fn number(value: &str) -> Result<f64, Refusal> {
    let number = value
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or(Refusal::Value("a number that is not negative is expected"))
}

/// No cap is no sum: nothing is lower than none.
fn lower_money(now: &mut f64, value: &str) -> Result<(), Refusal> {
    let own = number(value)?;
    if own == 0.0 || (*now > 0.0 && own > *now) {
        return Err(TOO_MUCH);
    }
    *now = own;
    Ok(())
}

fn lower_cpus(now: &mut f64, value: &str) -> Result<(), Refusal> {
    let own = number(value)?;
    if own > *now {
        return Err(TOO_MUCH);
    }
    if own < LEAST_CPUS {
        return Err(TOO_LITTLE);
    }
    *now = own;
    Ok(())
}

/// Can be switched in one direction.
fn switch(now: &mut bool, value: &str, to: bool) -> Result<(), Refusal> {
    let own: bool = value
        .parse()
        .map_err(|_| Refusal::Value("`true` or `false` is expected"))?;
    if own != to && own != *now {
        return Err(Refusal::Policy("a repository can only switch it the other way"));
    }
    *now = own;
    Ok(())
}

/// The key of the configuration that a name stands for.
fn dotted(name: &str) -> String {
    let key = name.strip_prefix(PREFIX).unwrap_or(name).to_ascii_lowercase();
    key.replacen("__", ".", 1)
}

fn shown(name: &str) -> String {
    text::cap_chars(name, MAX_NAME_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Server {
        agent: AgentConfig,
        budget: BudgetConfig,
        retrieval: RetrievalConfig,
        sandbox: SandboxConfig,
    }

    impl Server {
        fn narrow(&mut self, text: &str, set: &[&str]) -> Result<Vec<String>, Vec<String>> {
            let mut sections = Sections {
                agent: &mut self.agent,
                budget: &mut self.budget,
                retrieval: &mut self.retrieval,
                sandbox: &mut self.sandbox,
            };
            RepoEnv::parse(text.as_bytes())?.narrow(&mut sections, |key| set.contains(&key))
        }

        fn everything(&self) -> String {
            format!(
                "{:?} {:?} {:?} {:?}",
                self.agent, self.budget, self.retrieval, self.sandbox
            )
        }
    }

    #[test]
    fn every_name_on_the_list_lowers_its_key() {
        let mut server = Server::default();
        let before = server.everything();
        let text = "\u{feff}# Small.\r\n\r\n\
            FORGEHAND_AGENT__MAX_EXPLORE_TURNS=4\r\n\
            FORGEHAND_AGENT__REVIEW_BEFORE_FINISH=true\n\
            FORGEHAND_BUDGET__MAX_COST_USD='0.5'\n\
            FORGEHAND_BUDGET__MAX_MINUTES = \"7\"\n\
            FORGEHAND_BUDGET__MAX_TOKENS=1000\n\
            FORGEHAND_BUDGET__MAX_TURNS=9\n\
            FORGEHAND_RETRIEVAL__ENABLED=false\n\
            FORGEHAND_RETRIEVAL__MAP_TOKENS=0\n\
            FORGEHAND_RETRIEVAL__WAIT_SECONDS=1\n\
            FORGEHAND_SANDBOX__COMMAND_TIMEOUT_SECONDS=30\n\
            FORGEHAND_SANDBOX__CPUS=1\n\
            FORGEHAND_SANDBOX__DISK_MIB=100\n\
            FORGEHAND_SANDBOX__MAX_PROCESSES=64\n\
            FORGEHAND_SANDBOX__MEMORY_MIB=512";
        assert_eq!(text.matches('=').count(), NAMES.len());
        assert_eq!(server.narrow(text, &[]), Ok(Vec::new()));
        assert_ne!(server.everything(), before);
        let found = (
            server.agent.max_explore_turns,
            server.agent.review_before_finish,
            server.budget.max_cost_usd,
            server.budget.max_minutes,
            server.budget.max_tokens,
            server.budget.max_turns,
        );
        assert_eq!(found, (4, true, 0.5, 7, 1000, 9));
        let found = (
            server.retrieval.enabled,
            server.retrieval.map_tokens,
            server.retrieval.wait_seconds,
            server.sandbox.command_timeout_seconds,
            server.sandbox.cpus,
            server.sandbox.disk_mib,
            server.sandbox.max_processes,
            server.sandbox.memory_mib,
        );
        let seconds = Duration::from_secs;
        assert_eq!(found, (false, 0, seconds(1), seconds(30), 1.0, 100, 64, 512));
        let keys: Vec<String> = crate::config::sections()
            .iter()
            .flat_map(|section| section.keys.iter().map(|key| format!("{}.{}", section.name, key.name)))
            .collect();
        for name in NAMES {
            assert!(keys.contains(&dotted(name)), "{name} is no key of the configuration");
        }
    }

    /// What a repository must not set, with a word of the reason.
    const ABUSE: [(&str, &str); 40] = [
        ("LD_PRELOAD", "loader"),
        ("LD_LIBRARY_PATH", "loader"),
        ("ld_preload", "loader"),
        ("DYLD_INSERT_LIBRARIES", "loader"),
        ("PATH", "shell"),
        ("Path", "shell"),
        ("BASH_ENV", "shell"),
        ("ENV", "shell"),
        ("IFS", "shell"),
        ("PROMPT_COMMAND", "shell"),
        ("SHELLOPTS", "shell"),
        ("HOME", "shell"),
        ("GIT_DIR", "git"),
        ("GIT_SSH_COMMAND", "git"),
        ("GIT_CONFIG_GLOBAL", "git"),
        ("GIT_EXTERNAL_DIFF", "git"),
        ("SSH_AUTH_SOCK", "git"),
        ("NODE_OPTIONS", "load code"),
        ("PYTHONPATH", "load code"),
        ("PYTHONSTARTUP", "load code"),
        ("PERL5OPT", "load code"),
        ("RUBYOPT", "load code"),
        ("JAVA_TOOL_OPTIONS", "load code"),
        ("RUSTC_WRAPPER", "load code"),
        ("CARGO_BUILD_RUSTC", "load code"),
        ("HTTP_PROXY", "addresses"),
        ("https_proxy", "addresses"),
        ("ALL_PROXY", "addresses"),
        ("FORGEHAND_MODEL__BASE_URL", "addresses"),
        ("FORGEHAND_EGRESS__UNSAFE_ALLOW_ALL", "addresses"),
        ("FORGEHAND_WEB__HOSTS", "addresses"),
        ("FORGEHAND_MODEL__API_KEY", "secrets"),
        ("OPENAI_API_KEY", "secrets"),
        ("FORGEHAND_GITHUB__PRIVATE_KEY_FILE", "secrets"),
        ("GITHUB_TOKEN", "secrets"),
        ("FORGEHAND_PERMISSION__ALLOW", "allowed"),
        ("FORGEHAND_SANDBOX__UNSAFE_LOCAL", "allowed"),
        ("FORGEHAND_TRUST", "allowed"),
        ("FORGEHAND_MODEL__NAME", "may not set"),
        ("forgehand_budget__max_turns", "capitals"),
    ];

    #[test]
    fn nothing_else_counts_and_no_value_is_repeated() {
        for (name, word) in ABUSE {
            let mut server = Server::default();
            let before = server.everything();
            let refused = server.narrow(&format!("{name}=hunter2"), &[]).unwrap();
            assert_eq!(refused.len(), 1, "{name}");
            assert!(refused[0].contains(word) && refused[0].contains(name), "{refused:?}");
            assert!(!refused[0].contains("hunter2"), "{refused:?}");
            assert_eq!(server.everything(), before, "{name}");
        }
    }

    #[test]
    fn it_lowers_and_never_lifts() {
        for (line, word) in [
            ("FORGEHAND_BUDGET__MAX_TURNS=61", "more than the operator allows"),
            ("FORGEHAND_BUDGET__MAX_TURNS=0", "too little"),
            ("FORGEHAND_BUDGET__MAX_COST_USD=5.01", "more than the operator allows"),
            ("FORGEHAND_BUDGET__MAX_COST_USD=0", "more than the operator allows"),
            ("FORGEHAND_BUDGET__MAX_MINUTES=61", "more than the operator allows"),
            ("FORGEHAND_SANDBOX__MEMORY_MIB=999999", "more than the operator allows"),
            ("FORGEHAND_SANDBOX__CPUS=64", "more than the operator allows"),
            ("FORGEHAND_RETRIEVAL__MAP_TOKENS=1501", "more than the operator allows"),
            ("FORGEHAND_SANDBOX__MEMORY_MIB=1", "too little"),
        ] {
            let mut server = Server::default();
            let before = server.everything();
            let refused = server.narrow(line, &[]).unwrap();
            assert!(refused.len() == 1 && refused[0].contains(word), "{line}: {refused:?}");
            assert_eq!(server.everything(), before, "{line}");
        }
        let mut server = Server::default();
        server.agent.review_before_finish = true;
        let refused = server
            .narrow("FORGEHAND_AGENT__REVIEW_BEFORE_FINISH=false", &[])
            .unwrap();
        assert!(refused[0].contains("the other way") && server.agent.review_before_finish);
        server.retrieval.enabled = false;
        let refused = server.narrow("FORGEHAND_RETRIEVAL__ENABLED=true", &[]).unwrap();
        assert!(refused[0].contains("the other way") && !server.retrieval.enabled);
        let mut server = Server::default();
        let refused = server
            .narrow("FORGEHAND_BUDGET__MAX_TURNS=3", &["budget.max_turns"])
            .unwrap();
        assert!(refused[0].contains("set for this process") && server.budget.max_turns == 60);
        server.budget.max_cost_usd = 0.0;
        assert_eq!(server.narrow("FORGEHAND_BUDGET__MAX_COST_USD=2", &[]), Ok(Vec::new()));
        assert_eq!(server.budget.max_cost_usd, 2.0, "no cap is lowered by any");
    }

    #[test]
    fn what_is_no_line_is_named_by_its_number() {
        let long = format!("A={}", "x".repeat(MAX_REPO_ENV_BYTES as usize));
        let many = "\n".repeat(MAX_LINES + 1);
        for (text, words) in [
            ("FORGEHAND_BUDGET__MAX_TURNS", "line 1: a line is written NAME=value"),
            ("\n=3", "line 2: what stands before"),
            ("A B=3", "what stands before"),
            ("export A=3", "what stands before"),
            ("1A=3", "what stands before"),
            ("A=\"3", "not closed"),
            ("A='", "not closed"),
            ("A=\"a\\n\"", "backslash"),
            ("A=3\"4\"", "a quote within"),
            ("A=1\nA=2", "line 2: A stands in line 1 already"),
            ("A=\0", "NUL"),
            (&long, "longer than"),
            (&many, "more than 200 lines"),
            ("FORGEHAND_BUDGET__MAX_TURNS=many", "a whole number"),
            ("FORGEHAND_BUDGET__MAX_TURNS=$(id)", "a whole number"),
            ("FORGEHAND_BUDGET__MAX_TURNS=-1", "a whole number"),
            ("FORGEHAND_BUDGET__MAX_COST_USD=inf", "not negative"),
            ("FORGEHAND_BUDGET__MAX_COST_USD=NaN", "not negative"),
            ("FORGEHAND_RETRIEVAL__ENABLED=0", "`true` or `false`"),
        ] {
            let problems = Server::default().narrow(text, &[]).unwrap_err();
            assert!(
                problems.len() == 1 && problems[0].contains(words),
                "{text:?}: {problems:?}"
            );
        }
        assert!(RepoEnv::parse(b"A=\xff").unwrap_err()[0].contains("UTF-8"));
        assert_eq!(RepoEnv::parse(b"").unwrap(), RepoEnv::default());
        let several = RepoEnv::parse(b"x\n=\nA='").unwrap_err();
        assert_eq!(several.len(), 3, "all at once: {several:?}");
    }
}
