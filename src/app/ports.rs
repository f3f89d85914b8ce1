//! The ports of a run from the configuration, and the sandbox's section completed with what this
//! machine has. Never opens a database, and never shows a home folder itself to a sandbox.

use std::path::Path;
use std::sync::Arc;

use super::Surroundings;
use crate::agent::Unattended;
use crate::clock::Clock;
use crate::config::{Config, Problems, SandboxConfig};
use crate::git::Git;
use crate::model::{self, Live};
use crate::permission::Policy;
use crate::run::Ports;
use crate::sandbox::detect_toolchains;
use crate::secret::Redactor;

/// What runs need; no database and no state folder is among it.
pub(super) fn open(
    config: &Config,
    surroundings: &Surroundings,
    clock: &Clock,
    redactor: &Redactor,
) -> anyhow::Result<Ports> {
    // A model that cannot be opened is a mistake in its section: nothing has been called yet.
    let model = model::open(&config.model, redactor).map_err(|error| Problems(vec![format!("{error:#}")]))?;
    Ok(Ports {
        git: Git::find()?,
        model,
        permission: Policy::default(),
        people: Arc::new(Unattended),
        live: Live::default(),
        agent: config.agent.clone(),
        memory: None,
        sandbox: sandbox(&config.sandbox, surroundings),
        budget: config.budget.clone(),
        clock: clock.clone(),
        redactor: redactor.clone(),
    })
}

/// The sandbox's section with this program as its helper, and with the compilers of the user that
/// stand outside /usr, shown read-only.
pub(super) fn sandbox(config: &SandboxConfig, surroundings: &Surroundings) -> SandboxConfig {
    let mut config = config.clone();
    // Without a home folder there may still be a RUSTUP_HOME.
    let home = surroundings.home.as_deref().unwrap_or(Path::new("/nonexistent"));
    for folder in detect_toolchains(home, surroundings.rustup_home.as_deref()) {
        let folder = folder.display().to_string();
        if !config.toolchains.contains(&folder) {
            config.toolchains.push(folder);
        }
    }
    config.helper.get_or_insert_with(|| surroundings.program.clone());
    config
}
