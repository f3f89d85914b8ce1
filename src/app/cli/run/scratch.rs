//! Where a local run keeps its checkout, and what it remembers. Never in the user's checkout.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

use crate::app::state_dir;
use crate::closed;
use crate::config::Config;
use crate::git::LocalRepo;
use crate::memory::{Keeper, Lasting, Memory};
use crate::run::Ports;
use crate::secret::Secret;
use crate::store::Store;
use crate::text;

/// What names of temporary folders begin with, and the file in them that a living process holds.
const PREFIX: &str = "forgehand-run-";
const IN_USE: &str = "in-use";
/// How long one stays that its process left behind.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Where a local run keeps its checkout: in a folder that goes with it, unless one is configured.
pub(super) enum Scratch {
    Temporary {
        folder: tempfile::TempDir,
        /// Held for as long as the process lives.
        _in_use: File,
    },
    Configured(PathBuf),
}

impl Scratch {
    pub(super) fn make(config: &Config) -> anyhow::Result<Self> {
        if config.origins.contains_key("server.state_dir") {
            return state_dir::prepare(&config.server.state_dir).map(Self::Configured);
        }
        let folder = closed::temporary(PREFIX).context("make a temporary folder")?;
        let in_use = File::create(folder.path().join(IN_USE)).and_then(|file| file.lock().map(|()| file));
        let _in_use = in_use.with_context(|| format!("hold {}", folder.path().display()))?;
        if let Some(beside) = folder.path().parent() {
            sweep(beside);
        }
        Ok(Self::Temporary { folder, _in_use })
    }

    pub(super) fn folder(&self) -> &Path {
        match self {
            Scratch::Temporary { folder, .. } => folder.path(),
            Scratch::Configured(folder) => folder,
        }
    }
}

/// Removes what runs left that were killed, or left at once, long ago: whoever wanted to look at it
/// has.
fn sweep(temporary: &Path) {
    let Ok(entries) = std::fs::read_dir(temporary) else {
        return;
    };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_ours
            && is_forgotten(&entry.path())
            && let Err(error) = std::fs::remove_dir_all(entry.path())
        {
            tracing::debug!(%error, folder = %entry.path().display(), "an old folder of a run stays");
        }
    }
}

/// Whether a folder is this user's, old, and no living process holds it.
fn is_forgotten(folder: &Path) -> bool {
    let Ok(about) = std::fs::symlink_metadata(folder) else {
        return false;
    };
    let is_own = about.is_dir() && about.uid() == rustix::process::geteuid().as_raw();
    let age = about.modified().ok().and_then(|at| at.elapsed().ok());
    let is_held = File::open(folder.join(IN_USE)).is_ok_and(|file| file.try_lock().is_err());
    is_own && age.is_some_and(|age| age > KEPT) && !is_held
}

/// What the run keeps: in the database of the configured state folder, for later runs on the same
/// checkout; otherwise in one that goes with the run.
pub(super) async fn memory(
    config: &Config,
    scratch: &Scratch,
    repo: &LocalRepo,
    task: &str,
    ports: &Ports,
) -> anyhow::Result<Memory> {
    let (url, lasting) = match scratch {
        Scratch::Temporary { folder, .. } => {
            let file = folder.path().join("memory.sqlite");
            (Secret::new(format!("sqlite:{}", file.display())), Lasting::ForThisRun)
        }
        Scratch::Configured(folder) => {
            let mut config = config.clone();
            config.server.state_dir = folder.clone();
            (config.database_url(), Lasting::ForLaterRuns)
        }
    };
    let store = Store::open(&url, 2).await.context("open the database")?;
    store.migrate().await.context("bring the database up to date")?;
    let keeper = Keeper {
        repository: format!("local/{}", repo.root.display()),
        subject: format!(
            "task/{}",
            text::slug(task.trim().lines().next().unwrap_or_default(), 60)
        ),
        by: format!("a local run on {}", ports.clock.now().format("%Y-%m-%d %H:%M UTC")),
        lease: None,
        lasting,
        may_write_global: config.agent.global_memory,
    };
    Ok(Memory::new(store, keeper, ports.clock.clone(), ports.redactor.clone()))
}
