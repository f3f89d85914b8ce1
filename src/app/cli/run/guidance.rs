//! The instructions of a local checkout, if its user trusts it. Called by `run`. Never loads a word
//! of one that nobody said yes to, and says so in one line.

use std::path::Path;

use super::in_words;
use crate::agent::Guidance;
use crate::app::cli::{surroundings, trust};
use crate::git::{LocalRepo, Remote};
use crate::repo_config::RepoConfig;
use crate::run::{self, Ports};

/// The main rules, and what there is besides.
pub(super) async fn load(
    ports: &Ports,
    repo: &LocalRepo,
    remote: &Remote,
    files: &[String],
    repo_config: &RepoConfig,
) -> anyhow::Result<(String, Guidance)> {
    if trust::is_trusted(&surroundings()?, &repo.root)? {
        let (mirror, base) = (&repo.git_dir, &repo.head);
        let rules = run::rules_of(ports, mirror, remote, base, repo_config).await;
        let guidance = run::guidance_of(ports, mirror, remote, base, files).await;
        let failed = |error| anyhow::anyhow!(in_words(error));
        return Ok((rules.map_err(failed)?, guidance.map_err(failed)?));
    }
    let mut guidance = run::untrusted_guidance(ports);
    if repo_config.instructions.is_some() || run::has_instructions(files) {
        guidance.notes.push(how_to_trust(&repo.root));
    }
    Ok((String::new(), guidance))
}

fn how_to_trust(root: &Path) -> String {
    format!(
        "AGENTS.md, instructions and skills of this checkout are not loaded, because nobody trusts it; \
         `forgehand trust {}` loads them from now on",
        root.display()
    )
}
