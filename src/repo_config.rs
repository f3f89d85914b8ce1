//! A repository's own file, `.github/forgehand.toml`: its commands and wishes. A different type
//! from the server's configuration because it is trusted differently: it can narrow, never widen.
//! Never read from anywhere but the default branch at a pinned commit.

use serde::Deserialize;

use crate::config::SandboxConfig;

/// Where the file stands in a repository.
pub const REPO_CONFIG_PATH: &str = ".github/forgehand.toml";

/// Largest file that is read, in bytes.
pub const MAX_REPO_CONFIG_BYTES: u64 = 64 * 1024;

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
    /// Extra hosts that set-up may reach, within the server's policy.
    pub egress: Vec<String>,
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
}

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
    /// sandbox has none or the operator did not list it, and what this version cannot do.
    pub fn not_built(&self, sandbox: &SandboxConfig) -> Vec<&'static str> {
        let is_refused = |image: &String| !sandbox.lets_choose(image);
        let set = [
            ("image", self.image.as_ref().is_some_and(is_refused)),
            ("egress", !self.egress.is_empty()),
        ];
        set.into_iter()
            .filter(|(_, is_set)| *is_set)
            .map(|(key, _)| key)
            .collect()
    }

    /// Reads the file's text.
    ///
    /// # Errors
    /// One sentence for people with line and key; nothing of a broken file is used.
    pub fn parse(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error: toml::de::Error| {
            let line = error
                .span()
                .map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            format!(
                "`{REPO_CONFIG_PATH}` line {line}: {}",
                error.message().replace('\n', " ")
            )
        })?;
        if config.max_cost_usd.is_some_and(|cost| !cost.is_finite() || cost < 0.0) {
            return Err(format!(
                "`{REPO_CONFIG_PATH}`: max_cost_usd is a sum of money, 0 or more"
            ));
        }
        let is_label = |label: &String| !label.trim().is_empty() && label.len() <= 200 && !label.contains('\0');
        if !config.label.iter().all(is_label) {
            return Err(format!("`{REPO_CONFIG_PATH}`: label is a name of at most 200 bytes"));
        }
        for (key, commands) in [
            ("setup", config.setup.as_deref()),
            ("test", config.test.as_deref()),
            ("format", Some(&config.format[..])),
        ] {
            let commands = commands.unwrap_or_default();
            if commands.len() > 20
                || commands
                    .iter()
                    .any(|command| command.trim().is_empty() || command.len() > 4096 || command.contains('\0'))
            {
                return Err(format!(
                    "`{REPO_CONFIG_PATH}`: {key} is a list of at most 20 commands, none of them empty or over 4,096 bytes"
                ));
            }
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SandboxBackend;

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
    }

    #[test]
    fn a_broken_file_is_reported_with_line_and_key() {
        let problem = RepoConfig::parse("base = \"main\"\nnetwork = \"full\"").unwrap_err();
        assert!(problem.contains("line 2") && problem.contains("network"), "{problem}");
        assert!(
            RepoConfig::parse("max_cost_usd = -1")
                .unwrap_err()
                .contains("max_cost_usd")
        );
    }
}
