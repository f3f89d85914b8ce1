//! A repository's own file, `.github/forgehand.toml`: its commands and wishes. A different type
//! from the server's configuration because it is trusted differently: it can narrow, never widen.
//! Never read from anywhere but the default branch at a pinned commit.

use serde::Deserialize;

use crate::config::{PermissionConfig, SandboxBackend, SandboxConfig};
use crate::dev_container;
use crate::permission::{self, HostRule};
use crate::phrase::repository::Problem;
use crate::phrase::{Language, repository};

/// Where the file stands in a repository.
pub const REPO_CONFIG_PATH: &str = ".github/forgehand.toml";

/// Largest file that is read, in bytes.
pub const MAX_REPO_CONFIG_BYTES: u64 = 64 * 1024;

/// Most bytes of a label's name, most commands of a list, and most bytes of one.
const MAX_LABEL_BYTES: usize = 200;
const MAX_COMMANDS: usize = 20;
const MAX_COMMAND_BYTES: usize = 4_096;

/// The file's content; every key is optional.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RepoConfig {
    /// Branch that pull requests go to; the default branch otherwise.
    pub base: Option<String>,
    /// Label that starts work here besides the server's, once a job has read this file.
    pub label: Option<String>,
    /// Commands that prepare the sandbox.
    pub setup: Option<Vec<String>>,
    /// Commands that verify a change.
    pub test: Option<Vec<String>>,
    /// Commands that format changed files before the checks; `{files}` stands for their paths.
    pub format: Vec<String>,
    /// Image for container sandboxes.
    pub image: Option<String>,
    /// Which of several dev containers names the image: a folder below `.devcontainer`.
    pub devcontainer: Option<String>,
    /// The only hosts that commands may reach, of those that the server allows.
    pub egress: Option<Vec<String>>,
    /// Lower cap on money, in US dollars.
    pub max_cost_usd: Option<f64>,
    /// Lower cap on time, in minutes.
    pub max_minutes: Option<u64>,
    /// Whether pull requests are opened as drafts.
    pub draft: Option<bool>,
    /// Whether a pull request is marked ready when its verification passes.
    pub auto_ready: bool,
    /// Whether a review thread is resolved once a commit of ours does what it asks. Otherwise that
    /// is left to the reviewer.
    pub resolve_threads: bool,
    /// Most changed lines of a pull request that is not kept a draft.
    pub max_changed_lines: Option<u64>,
    /// Most changed files of one.
    pub max_changed_files: Option<u64>,
    /// Paths that the agent's change may not touch, as globs.
    pub protected_paths: Vec<String>,
    /// Text for the agent.
    pub instructions: Option<String>,
    /// What tool calls may do here.
    pub permission: PermissionList,
}

/// `[permission]` of a repository's own file. `allow` counts as far as the server's
/// `permission.repository` goes, and only where the repository is trusted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PermissionList {
    /// Calls that go on without asking.
    pub allow: Vec<String>,
    /// Calls that a person is asked about.
    pub ask: Vec<String>,
    /// Calls that are never made.
    pub deny: Vec<String>,
}

impl PermissionList {
    /// The same list as a section of the configuration.
    pub fn as_rules(&self) -> PermissionConfig {
        PermissionConfig {
            allow: self.allow.clone(),
            ask: self.ask.clone(),
            deny: self.deny.clone(),
            ..PermissionConfig::default()
        }
    }

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Most rules of a repository's list.
const MAX_RULES: usize = 200;

/// How a pull request is opened in a repository, from its file and its template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRules {
    /// As a draft.
    pub draft: bool,
    /// Marked ready when its verification passes.
    pub auto_ready: bool,
    /// Most changed lines and files of one that is not kept a draft.
    pub max_size: (u64, u64),
    /// Whether it goes to the default branch: only from there GitHub closes issues.
    pub closes: bool,
    /// The repository's template.
    pub template: Option<String>,
}

/// Changed lines and files that a person still reviews in one go.
const REVIEWED_IN_ONE_GO: (u64, u64) = (1_000, 50);

/// Why the file is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepoConfigProblem(Problem);

impl RepoConfigProblem {
    /// One sentence without its stop, with the file, and the line or key.
    pub fn in_words(&self, language: Language) -> String {
        repository::problem(language, REPO_CONFIG_PATH, &self.0)
    }
}

impl RepoConfig {
    /// How a pull request is opened: to the default branch or not, with a template or without.
    pub fn pull_rules(&self, closes: bool, template: Option<String>) -> PullRules {
        PullRules {
            draft: self.draft.unwrap_or(true),
            auto_ready: self.auto_ready,
            max_size: (
                self.max_changed_lines.unwrap_or(REVIEWED_IN_ONE_GO.0),
                self.max_changed_files.unwrap_or(REVIEWED_IN_ONE_GO.1),
            ),
            closes,
            template,
        }
    }

    /// Keys that are set and that are not acted on, so that the person is told: an image where the
    /// sandbox has none, or one that the operator did not list; a choice of dev container beside an image.
    pub fn not_built(&self, sandbox: &SandboxConfig) -> Vec<&'static str> {
        let is_refused = |image: &String| !sandbox.lets_choose(image);
        // An image of the repository's own comes first, and without containers there is no image.
        let is_idle = self.image.is_some() || sandbox.backend == SandboxBackend::Local;
        let set = [
            ("image", self.image.as_ref().is_some_and(is_refused)),
            ("devcontainer", self.devcontainer.is_some() && is_idle),
        ];
        set.into_iter()
            .filter(|(_, is_set)| *is_set)
            .map(|(key, _)| key)
            .collect()
    }

    /// The rules of `egress`, where it is set.
    ///
    /// # Errors
    /// What is no host, in words.
    pub fn egress_rules(&self) -> Result<Option<Vec<HostRule>>, String> {
        let rules = |hosts: &Vec<String>| hosts.iter().map(|host| HostRule::parse(host)).collect();
        self.egress.as_ref().map(rules).transpose()
    }

    /// Reads the file's text.
    ///
    /// # Errors
    /// What is wrong, with line or key; nothing of a broken file is used.
    pub fn parse(text: &str) -> Result<Self, RepoConfigProblem> {
        let config: Self = toml::from_str(text).map_err(|error: toml::de::Error| {
            let line = error
                .span()
                .map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            let said = error.message().replace('\n', " ");
            RepoConfigProblem(Problem::Syntax { line, said })
        })?;
        if config.max_cost_usd.is_some_and(|cost| !cost.is_finite() || cost < 0.0) {
            return Err(RepoConfigProblem(Problem::NotMoney));
        }
        let list = &config.permission;
        if list.allow.len() + list.ask.len() + list.deny.len() > MAX_RULES {
            let said = format!("permission: at most {MAX_RULES} rules");
            return Err(RepoConfigProblem(Problem::NotRules { said }));
        }
        if let Err(problems) = permission::check(&list.as_rules()) {
            let said = problems.join("; ");
            return Err(RepoConfigProblem(Problem::NotRules { said }));
        }
        if let Err(said) = config.egress_rules() {
            return Err(RepoConfigProblem(Problem::NotHosts { said }));
        }
        let is_label =
            |label: &String| !label.trim().is_empty() && label.len() <= MAX_LABEL_BYTES && !label.contains('\0');
        if !config.label.iter().all(is_label) {
            return Err(RepoConfigProblem(Problem::NotALabel { most: MAX_LABEL_BYTES }));
        }
        if !config.devcontainer.iter().all(|name| dev_container::is_name(name)) {
            return Err(RepoConfigProblem(Problem::NotAFolder));
        }
        for (key, commands) in [
            ("setup", config.setup.as_deref()),
            ("test", config.test.as_deref()),
            ("format", Some(&config.format[..])),
        ] {
            let commands = commands.unwrap_or_default();
            let is_command = |command: &String| {
                !command.trim().is_empty() && command.len() <= MAX_COMMAND_BYTES && !command.contains('\0')
            };
            if commands.len() > MAX_COMMANDS || !commands.iter().all(is_command) {
                return Err(RepoConfigProblem(Problem::NotCommands {
                    key,
                    most: MAX_COMMANDS,
                    most_bytes: MAX_COMMAND_BYTES,
                }));
            }
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_optional() {
        assert_eq!(RepoConfig::parse("").unwrap(), RepoConfig::default());
        let config = RepoConfig::parse("test = [\"make check\"]\nmax_minutes = 5").unwrap();
        assert_eq!(config.test.unwrap(), ["make check"]);
    }

    #[test]
    fn keys_without_effect_are_named() {
        let config = RepoConfig::parse("image = \"x\"\nbase = \"main\"").unwrap();
        let mut sandbox = SandboxConfig {
            images: vec!["x".to_owned()],
            ..SandboxConfig::default()
        };
        assert_eq!(config.not_built(&sandbox), ["image"], "the local sandbox has no images");
        sandbox.backend = SandboxBackend::Docker;
        assert!(config.not_built(&sandbox).is_empty());
        sandbox.images.clear();
        assert_eq!(config.not_built(&sandbox), ["image"], "it is not listed");
        let mut config = RepoConfig::parse("devcontainer = \"api\"").unwrap();
        assert!(config.not_built(&sandbox).is_empty());
        config.image = Some("x".to_owned());
        assert_eq!(config.not_built(&sandbox), ["image", "devcontainer"]);
        config.image = None;
        sandbox.backend = SandboxBackend::Local;
        assert_eq!(config.not_built(&sandbox), ["devcontainer"]);
    }

    #[test]
    fn a_list_of_hosts_is_read_or_refused() {
        let rules = |text| RepoConfig::parse(text).map(|config| config.egress_rules());
        assert_eq!(rules(""), Ok(Ok(None)));
        assert_eq!(rules("egress = []"), Ok(Ok(Some(Vec::new()))));
        assert_eq!(rules("egress = [\"docs.rs\"]").unwrap().unwrap().unwrap().len(), 1);
        let refused = rules("egress = [\"*\"]").unwrap_err();
        assert!(refused.in_words(Language::English).contains("egress"), "{refused:?}");
    }

    #[test]
    fn a_broken_file_is_reported_with_line_and_key() {
        let said = |text: &str, language| RepoConfig::parse(text).unwrap_err().in_words(language);
        let unknown = "base = \"main\"\nnetwork = \"full\"";
        let problem = said(unknown, Language::English);
        assert!(problem.contains("line 2") && problem.contains("network"), "{problem}");
        assert!(said(unknown, Language::Chinese).starts_with("`.github/forgehand.toml` 第 2 行："));
        for (text, key) in [
            ("max_cost_usd = -1", "max_cost_usd"),
            ("label = \" \"", "label"),
            ("test = [\"\"]", "test"),
            ("devcontainer = \"../x\"", "devcontainer"),
        ] {
            let problem = said(text, Language::English);
            assert!(
                problem.starts_with(&format!("`.github/forgehand.toml`: {key} is ")),
                "{problem}"
            );
        }
    }
}
