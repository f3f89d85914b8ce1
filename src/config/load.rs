//! Puts file, environment and flags together, collects every problem instead of the first, and
//! reads the files that hold secrets. Never reads the process environment itself: it is given.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::*;
use crate::text;

/// What a configuration is made from, weakest first.
#[derive(Debug, Clone, Default)]
pub struct ConfigSources {
    /// The file, if there is one. It must exist when named here.
    pub file: Option<PathBuf>,
    /// The environment; only names that begin with `FORGEHAND_` count.
    pub environment: Vec<(String, String)>,
    /// Flags as (dotted key, text).
    pub flags: Vec<(String, String)>,
}

/// Everything that is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
#[error("the configuration has {}:\n{}", count_in_words(.0.len()), .0.iter().map(|line| format!("  - {line}")).collect::<Vec<_>>().join("\n"))]
pub struct Problems(pub Vec<String>);

fn count_in_words(problems: usize) -> String {
    match problems {
        1 => "a problem".to_owned(),
        many => format!("{many} problems"),
    }
}

const ENV_PREFIX: &str = "FORGEHAND_";

/// Environment names with the prefix that are not configuration keys.
const NOT_KEYS: &[&str] = &[
    "FORGEHAND_CONFIG",
    #[cfg(feature = "failpoints")]
    "FORGEHAND_FAILPOINTS",
];
/// What tests are told by the environment.
const TEST_PREFIX: &str = "FORGEHAND_TEST_";

/// Reads and checks the configuration.
///
/// # Errors
/// All problems at once, each with its key.
pub fn load(sources: &ConfigSources) -> Result<Config, Problems> {
    let mut reader = Reader::default();
    if let Some(file) = &sources.file {
        reader.add_file(file);
    }
    for (name, text) in &sources.environment {
        reader.add_environment(name, text);
    }
    for (key, text) in &sources.flags {
        reader.add(key.clone(), Given::Text(text.clone()), Origin::Flag);
    }
    let mut config = Config {
        server: ServerConfig::read(&mut reader),
        database: DatabaseConfig::read(&mut reader),
        github: GitHubConfig::read(&mut reader),
        model: ModelConfig::read(&mut reader),
        sandbox: SandboxConfig::read(&mut reader),
        egress: EgressConfig::read(&mut reader),
        permission: PermissionConfig::read(&mut reader),
        web: WebConfig::read(&mut reader),
        agent: AgentConfig::read(&mut reader),
        retrieval: RetrievalConfig::read(&mut reader),
        workspace: WorkspaceConfig::read(&mut reader),
        budget: BudgetConfig::read(&mut reader),
        queue: QueueConfig::read(&mut reader),
        ledger: LedgerConfig::read(&mut reader),
        retention: RetentionConfig::read(&mut reader),
        alert: AlertConfig::read(&mut reader),
        autotask: AutotaskConfig::read(&mut reader),
        workgraph: WorkgraphConfig::read(&mut reader),
        log: LogConfig::read(&mut reader),
        schedule: (0..reader.items(ScheduleConfig::SECTION))
            .map(|at| ScheduleConfig::read_as(&mut reader, &item(ScheduleConfig::SECTION, at)))
            .collect(),
        origins: BTreeMap::new(),
    };
    reader.refuse_unknown();
    config.check(&mut reader.problems);
    config.origins = reader.origins;
    if reader.problems.is_empty() {
        Ok(config)
    } else {
        Err(Problems(reader.problems))
    }
}

/// The name of an item of a section that may stand several times. People count from 1.
pub(super) fn item(section: &str, at: usize) -> String {
    format!("{section}[{}]", at + 1)
}

enum Given {
    Toml(toml::Value),
    Text(String),
}

/// Hands out values by key and remembers what went wrong.
#[derive(Default)]
pub(super) struct Reader {
    values: BTreeMap<String, (Given, Origin)>,
    /// How often each section of the file that may stand several times does.
    items: BTreeMap<String, usize>,
    origins: BTreeMap<String, Origin>,
    problems: Vec<String>,
}

impl Reader {
    fn add(&mut self, key: String, given: Given, origin: Origin) {
        self.values.insert(key, (given, origin));
    }

    fn add_file(&mut self, path: &Path) {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                return self
                    .problems
                    .push(format!("{}: cannot be read: {error}", path.display()));
            }
        };
        let table = match text.parse::<toml::Table>() {
            Ok(table) => table,
            Err(error) => return self.problems.push(format!("{}: is not TOML: {error}", path.display())),
        };
        let lists = sections().into_iter().filter(|section| section.is_list);
        let lists: Vec<&str> = lists.map(|section| section.name).collect();
        for (section, value) in table {
            match (value, lists.contains(&section.as_str())) {
                (toml::Value::Table(keys), false) => self.add_section(&section, keys, path),
                (toml::Value::Array(items), true) => self.add_list(&section, items, path),
                (_, true) => self.problems.push(format!(
                    "{section}: is written [[{section}]], with two brackets on each side; it may stand several times"
                )),
                (other, false) => self.problems.push(format!(
                    "{section}: a section in brackets is expected, found {}",
                    other.type_str()
                )),
            }
        }
    }

    fn add_section(&mut self, section: &str, keys: toml::Table, path: &Path) {
        for (key, value) in keys {
            let origin = Origin::File(path.to_owned());
            self.add(format!("{section}.{key}"), Given::Toml(value), origin);
        }
    }

    fn add_list(&mut self, section: &str, items: Vec<toml::Value>, path: &Path) {
        self.items.insert(section.to_owned(), items.len());
        for (at, value) in items.into_iter().enumerate() {
            let name = item(section, at);
            match value {
                toml::Value::Table(keys) => self.add_section(&name, keys, path),
                other => self.problems.push(format!(
                    "{name}: a section in brackets is expected, found {}",
                    other.type_str()
                )),
            }
        }
    }

    /// How often a section stands in the file.
    fn items(&self, section: &str) -> usize {
        self.items.get(section).copied().unwrap_or(0)
    }

    fn add_environment(&mut self, name: &str, text: &str) {
        let Some(rest) = name.strip_prefix(ENV_PREFIX) else {
            return;
        };
        if NOT_KEYS.contains(&name) || name.starts_with(TEST_PREFIX) {
            return;
        }
        match rest.split_once("__") {
            Some((section, key)) => {
                let key = format!("{}.{}", section.to_lowercase(), key.to_lowercase());
                self.add(key, Given::Text(text.to_owned()), Origin::Environment(name.to_owned()));
            }
            None => self.problems.push(format!(
                "{name}: a key is written {ENV_PREFIX}SECTION__KEY, with two underscores"
            )),
        }
    }

    /// The value of a key: given, from its file twin, by default, or unset; on a problem the
    /// default, so that reading goes on and finds the other problems.
    pub(super) fn key<T: ConfigValue>(&mut self, section: &str, name: &str, default: &str) -> T {
        let key = format!("{section}.{name}");
        let given = self.values.remove(&key);
        let file = if T::SECRET {
            self.values.remove(&format!("{key}_file"))
        } else {
            None
        };
        let result = match (given, file) {
            (Some(_), Some(_)) => Err(format!("is set twice, also as {key}_file")),
            (Some((given, origin)), None) => {
                self.origins.insert(key.clone(), origin);
                match given {
                    Given::Toml(value) => T::from_toml(&value),
                    Given::Text(text) => T::from_text(&text),
                }
            }
            (None, Some((given, origin))) => {
                self.origins.insert(key.clone(), origin);
                let path = match &given {
                    Given::Toml(value) => value.as_str().unwrap_or_default(),
                    Given::Text(text) => text,
                };
                secret_file::read(Path::new(path)).and_then(|text| T::from_text(&text))
            }
            (None, None) => return Self::fallback(default),
        };
        match result {
            Ok(value) => value,
            Err(problem) => {
                self.problems.push(format!("{key}: {problem}"));
                Self::fallback(default)
            }
        }
    }

    fn fallback<T: ConfigValue>(default: &str) -> T {
        let value = if default.is_empty() {
            T::unset()
        } else {
            T::from_text(default.trim_matches('"')).ok()
        };
        value.expect("every default in the declarations reads as its own kind")
    }

    fn refuse_unknown(&mut self) {
        let known: Vec<String> = sections()
            .iter()
            .flat_map(|section| section.keys.iter().map(|key| format!("{}.{}", section.name, key.name)))
            .collect();
        for (key, (_, origin)) in &self.values {
            let (section, name) = key.split_once('.').unwrap_or((key, ""));
            let (plain, is_item) = match section.split_once('[') {
                Some((plain, _)) => (plain, true),
                None => (section, false),
            };
            if !is_item && sections().iter().any(|known| known.is_list && known.name == plain) {
                self.problems
                    .push(format!("{key}: [[{plain}]] is read from the file only ({origin})"));
                continue;
            }
            let near = text::nearest(&format!("{plain}.{name}"), known.iter().map(String::as_str), NEAR_KEY);
            let hint = near.map_or_else(String::new, |near| {
                format!("; did you mean {}?", near.replacen(plain, section, 1))
            });
            self.problems
                .push(format!("{key}: there is no such key ({origin}){hint}"));
        }
    }
}

/// Keys that differ in more letters are not what was meant.
const NEAR_KEY: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn with_env(pairs: &[(&str, &str)]) -> Result<Config, Problems> {
        let environment = pairs
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect();
        load(&ConfigSources {
            environment,
            ..ConfigSources::default()
        })
    }

    #[test]
    fn nothing_at_all_is_a_configuration() {
        let config = with_env(&[]).unwrap();
        assert_eq!(config.queue.lease_seconds, Duration::from_secs(60));
        assert_eq!(config.github.label, "agent");
    }

    #[test]
    fn all_problems_come_at_once_with_their_keys() {
        let problems = with_env(&[
            ("FORGEHAND_QUEUE__WORKERS", "many"),
            ("FORGEHAND_SERVER__LISTN", "127.0.0.1:1"),
            ("FORGEHAND_GITHUB__WEBHOOK_SECRET", "short"),
            ("FORGEHAND_ODD", "1"),
        ])
        .unwrap_err()
        .to_string();
        for part in [
            "queue.workers: a whole number",
            "did you mean server.listen?",
            "github.webhook_secret: ",
            "FORGEHAND_ODD",
        ] {
            assert!(problems.contains(part), "{part} in {problems}");
        }
        assert!(!problems.contains("short"), "a secret is not repeated: {problems}");
    }

    #[test]
    fn times_that_stop_or_spin_the_service_are_refused() {
        for (name, value, part) in [
            ("FORGEHAND_GITHUB__CALL_TIMEOUT_SECONDS", "1e19", "longer than a year"),
            (
                "FORGEHAND_GITHUB__CALL_TIMEOUT_SECONDS",
                "0",
                "github.call_timeout_seconds",
            ),
            ("FORGEHAND_QUEUE__POLL_SECONDS", "0", "queue.poll_seconds"),
            ("FORGEHAND_QUEUE__HEARTBEAT_SECONDS", "0", "queue.heartbeat_seconds"),
        ] {
            let problems = with_env(&[(name, value)]).unwrap_err().to_string();
            assert!(problems.contains(part), "{part} in {problems}");
        }
        assert!(with_env(&[("FORGEHAND_TEST_ANYTHING", "1")]).is_ok());
    }

    #[test]
    fn the_password_of_the_database_is_a_secret_by_itself() {
        let address = "postgres://forgehand:pass%2Fword1@database/forgehand";
        let config = with_env(&[("FORGEHAND_DATABASE__URL", address)]).unwrap();
        let secrets = config.secrets();
        for secret in ["pass%2Fword1", "pass/word1", address] {
            assert!(secrets.iter().any(|known| known.expose() == secret), "{secret}");
        }
    }

    #[test]
    fn later_sources_win_and_origins_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("forgehand.toml");
        std::fs::write(
            &file,
            "[queue]\nworkers = 3\npoll_seconds = 0.5\n[github]\nallowed_apps = [7]\n",
        )
        .unwrap();
        let config = load(&ConfigSources {
            file: Some(file),
            environment: vec![("FORGEHAND_QUEUE__WORKERS".into(), "4".into())],
            flags: vec![("queue.workers".into(), "5".into())],
        })
        .unwrap();
        assert_eq!(
            (config.queue.workers, config.queue.poll_seconds),
            (5, Duration::from_millis(500))
        );
        assert_eq!(config.origins["queue.workers"], Origin::Flag);
        assert_eq!(config.github.allowed_apps, [7]);
    }

    #[test]
    fn prices_are_a_table_in_the_file_and_in_the_environment() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("forgehand.toml");
        std::fs::write(&file, "[model.prices]\n\"gpt-5*\" = [1.25, 10, 0.125]\n").unwrap();
        let from_file = load(&ConfigSources {
            file: Some(file),
            ..ConfigSources::default()
        });
        let text = "{ \"gpt-5*\" = [1.25, 10.0, 0.125] }";
        let from_env = with_env(&[("FORGEHAND_MODEL__PRICES", text)]);
        for config in [from_file.unwrap(), from_env.unwrap()] {
            assert_eq!(config.model.prices.0["gpt-5*"], [1.25, 10.0, 0.125]);
            assert_eq!(config.model.prices.show(), "{ \"gpt-5*\" = [1.25, 10, 0.125] }");
        }
        for wrong in ["{ x = [1.0] }", "{ x = [1.0, -1.0] }", "{ x = \"free\" }", "cheap"] {
            let problems = with_env(&[("FORGEHAND_MODEL__PRICES", wrong)]).unwrap_err().to_string();
            assert!(problems.contains("model.prices: "), "{problems}");
        }
    }

    #[test]
    fn settings_of_the_model_that_cannot_be_meant_are_refused() {
        for (key, value) in [
            ("CONTEXT_WINDOW", "1000"),
            ("MAX_OUTPUT_TOKENS", "0"),
            ("TEMPERATURE", "3"),
            ("TOOL_CALLS", "maybe"),
            ("REPLAY_REASONING", "always"),
            ("FALLBACK_API_KEY", "0123456789"),
        ] {
            let name = format!("FORGEHAND_MODEL__{key}");
            let problems = with_env(&[(&name, value)]).unwrap_err().to_string();
            assert!(
                problems.contains(&format!("model.{}: ", key.to_lowercase())),
                "{problems}"
            );
        }
    }

    #[test]
    fn a_secret_may_stand_in_a_private_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, "0123456789abcdef\n").unwrap();
        let path = file.display().to_string();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let refused = with_env(&[("FORGEHAND_GITHUB__WEBHOOK_SECRET_FILE", &path)])
            .unwrap_err()
            .to_string();
        assert!(refused.contains("chmod 600"), "{refused}");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let config = with_env(&[("FORGEHAND_GITHUB__WEBHOOK_SECRET_FILE", &path)]).unwrap();
        assert_eq!(config.github.webhook_secret.unwrap().expose(), "0123456789abcdef");
    }
}
