//! What a checkout says of itself at its last commit, and whether that is obeyed: its own file, its
//! tuning, and who trusts it. Called by `Site` before there is any work.
//! Never obeys a word of one that nobody said yes to, and says so in one line.

use tokio_util::sync::CancellationToken;

use super::args::{Args, Presence, TrustArg};
use super::people;
use crate::app::cli::{surroundings, trust};
use crate::app::trust::Decision;
use crate::config::Config;
use crate::git::{Git, LocalRepo, Remote};
use crate::phrase::Language;
use crate::repo_config::{MAX_REPO_CONFIG_BYTES, REPO_CONFIG_PATH, RepoConfig};
use crate::repo_env::{MAX_REPO_ENV_BYTES, REPO_ENV_PATH, RepoEnv, Sections};
use crate::run;

/// Most paths looked at.
pub(super) const MAX_FILES: usize = 20_000;

/// A checkout, read.
pub(super) struct Own {
    /// Its files.
    pub(super) files: Vec<String>,
    /// Its own file, without what only a trusted one may say.
    pub(super) config: RepoConfig,
    pub(super) is_trusted: bool,
    /// What people should know of it.
    pub(super) notes: Vec<String>,
    env: RepoEnv,
    /// It is trusted because the file says so for one run.
    uses_once: bool,
}

impl Own {
    /// Reads it, and adds everything that is wrong to the problems.
    pub(super) async fn read(
        git: &Git,
        repo: &LocalRepo,
        args: &Args,
        stop: &CancellationToken,
        problems: &mut Vec<String>,
    ) -> anyhow::Result<Self> {
        let mut own = Self {
            files: git.list_files(&repo.git_dir, &repo.head, MAX_FILES).await?,
            config: RepoConfig::default(),
            is_trusted: false,
            notes: Vec::new(),
            env: RepoEnv::default(),
            uses_once: false,
        };
        let as_committed = |problem: String| format!("{problem} (as committed in {})", repo.head.short());
        match own.file(git, repo, REPO_CONFIG_PATH, MAX_REPO_CONFIG_BYTES).await? {
            Ok(text) => match RepoConfig::parse(&String::from_utf8_lossy(&text)) {
                Ok(config) => own.config = config,
                Err(problem) => problems.push(as_committed(problem.in_words(Language::English))),
            },
            Err(problem) => problems.push(as_committed(problem)),
        }
        let parts = own.parts();
        match own.decision(repo, args, stop, &parts, problems.is_empty()).await {
            Ok((decision, is_in_file)) => {
                own.is_trusted = decision.is_some_and(Decision::is_yes);
                own.uses_once = decision == Some(Decision::Once) && is_in_file;
            }
            Err(error) => problems.push(format!("trust: {error:#}")),
        }
        if !own.is_trusted {
            own.config.instructions = None;
            own.config.permission.allow.clear();
            if !parts.is_empty() {
                own.notes.push(format!(
                    "{} of this checkout are not loaded, because nobody trusts it; `forgehand trust {}` loads them from \
                     now on, `--trust once` in this run",
                    parts.join(", "),
                    repo.root.display()
                ));
            }
            return Ok(own);
        }
        match own.file(git, repo, REPO_ENV_PATH, MAX_REPO_ENV_BYTES).await? {
            Ok(bytes) => match RepoEnv::parse(&bytes) {
                Ok(env) => own.env = env,
                Err(found) => problems.extend(found.into_iter().map(as_committed)),
            },
            Err(problem) => problems.push(as_committed(problem)),
        }
        Ok(own)
    }

    /// A run begins: what was said for one run alone is used up. Of two runs at once it counts for one.
    pub(super) fn begin(&self, repo: &LocalRepo) -> anyhow::Result<()> {
        match self.uses_once {
            false => Ok(()),
            true if trust::take(&surroundings()?, &repo.root)? == Some(Decision::Once) => Ok(()),
            true => anyhow::bail!(
                "the trust that held for one run was used up by another one meanwhile; begin again, or say `--trust once`"
            ),
        }
    }

    /// Lowers what the checkout's tuning lowers.
    pub(super) fn narrow(&mut self, config: &mut Config, problems: &mut Vec<String>) {
        let set = config.origins.clone();
        let mut sections = Sections {
            agent: &mut config.agent,
            budget: &mut config.budget,
            retrieval: &mut config.retrieval,
            sandbox: &mut config.sandbox,
        };
        let is_set = |key: &str| {
            use crate::config::Origin::{Environment, Flag};
            matches!(set.get(key), Some(Environment(_) | Flag))
        };
        match self.env.narrow(&mut sections, is_set) {
            Ok(refused) => self.notes.extend(refused),
            Err(found) => problems.extend(found),
        }
    }

    /// A file at the last commit, empty where there is none; or why it cannot be used.
    async fn file(
        &self,
        git: &Git,
        repo: &LocalRepo,
        path: &str,
        max_bytes: u64,
    ) -> anyhow::Result<Result<Vec<u8>, String>> {
        if !self.files.iter().any(|file| file == path) {
            return Ok(Ok(Vec::new()));
        }
        let remote = Remote {
            url: String::new(),
            token: None,
        };
        let read = git.read_file(&repo.git_dir, &remote, &repo.head, path, max_bytes).await;
        Ok(match read {
            Ok(bytes) => Ok(bytes.unwrap_or_default()),
            Err(crate::git::GitError::Failed(problem)) => Err(format!("{path}: {problem}")),
            Err(error) => return Err(error.into()),
        })
    }

    /// What only a trusted checkout has a say in, as far as it is there.
    fn parts(&self) -> Vec<&'static str> {
        let has = |path: &str| self.files.iter().any(|file| file == path);
        let instructs = self.config.instructions.is_some() || run::has_instructions(&self.files);
        [
            (instructs, "AGENTS.md, instructions and skills"),
            (!self.config.permission.allow.is_empty(), "the list of allowed calls"),
            (has(REPO_ENV_PATH), REPO_ENV_PATH),
        ]
        .into_iter()
        .filter_map(|(is_there, name)| is_there.then_some(name))
        .collect()
    }

    /// What was said about the checkout: for this run, in the file, or now by whoever is there; and whether
    /// it stands in the file.
    async fn decision(
        &self,
        repo: &LocalRepo,
        args: &Args,
        stop: &CancellationToken,
        parts: &[&str],
        may_ask: bool,
    ) -> anyhow::Result<(Option<Decision>, bool)> {
        match args.trust {
            Some(TrustArg::Never) => return Ok((Some(Decision::Never), false)),
            Some(TrustArg::Once) => return Ok((Some(Decision::Once), false)),
            None => {}
        }
        let surroundings = surroundings()?;
        let said = trust::look(&surroundings, &repo.root)?;
        let is_there = args.presence() == Presence::Attended;
        if said.is_some() || parts.is_empty() || !may_ask || !is_there {
            return Ok((said, true));
        }
        let answer = people::trusts(repo.root.display().to_string(), parts.join(", "), stop).await;
        if let Some(decision @ (Decision::Never | Decision::Always)) = answer {
            trust::say(&surroundings, &repo.root, decision)?;
        }
        Ok((answer, false))
    }
}
