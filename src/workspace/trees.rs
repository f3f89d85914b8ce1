//! Prepared trees in the state folder: `trees/<repository>/<commit>`. A workspace is laid over one, or
//! copied from it where the machine has no layers. Called by `run` when a workspace opens.
//! Never shows one repository's trees to another, and never shows one to a sandbox for writing.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::sync::OnceCell;

use super::folder::{Kind, RunFolder, absolute};
use super::remove::remove_tree;
use super::stock::Stock;
use crate::config::{SandboxConfig, WorkspaceConfig};
use crate::git::{Git, Laying, Place, PreparedTree, Remote, Step};
use crate::ids::{CommitSha, RepoId};
use crate::right::Right;
use crate::sandbox;

/// Most files and folders in which a workspace differs from the tree it lies on. With more, a tree of
/// its own is worth its room.
const MAX_STEP: usize = 300;
/// Trees that are compared with a commit that has none.
const MAX_COMPARED: usize = 3;
/// Where layers are tried; a process that dies may leave one.
const TRIAL_PREFIX: &str = ".trial-";
/// Age of a trial that nobody waits for any more.
const OLD_TRIAL: Duration = Duration::from_secs(3600);

/// The prepared trees of all repositories, or of one. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Trees {
    stock: Stock,
    git: Git,
    sandbox: SandboxConfig,
    laying: Arc<OnceCell<Laying>>,
}

/// A tree that a run may lie on, kept for it.
#[derive(Debug)]
pub struct Found {
    tree: PreparedTree,
    step: Option<Step>,
}

impl Found {
    /// Files and folders in which the workspace will differ from the tree.
    pub fn differing(&self) -> usize {
        self.step.as_ref().map_or(0, Step::size)
    }
}

impl Trees {
    /// Trees below a state folder; `None` when the configuration keeps none.
    pub fn new(state_dir: &Path, git: &Git, sandbox: &SandboxConfig, config: &WorkspaceConfig) -> Option<Self> {
        let max_trees = config.prepared_trees as usize;
        let root = absolute(state_dir).ok()?.join("trees");
        (config.prepared_mib > 0 && max_trees > 0).then(|| Self {
            stock: Stock::new(root, config.prepared_mib.saturating_mul(1 << 20), max_trees),
            git: git.clone(),
            sandbox: sandbox.clone(),
            laying: Arc::default(),
        })
    }

    /// The same, whose git is bound to a right.
    #[must_use]
    pub fn only_while(&self, right: &Right) -> Self {
        Self {
            git: self.git.clone().only_while(right),
            ..self.clone()
        }
    }

    /// Those of one repository: by number, because names can move.
    #[must_use]
    pub fn of(&self, repo: RepoId) -> Self {
        Self {
            stock: self.stock.of(repo.to_string()),
            ..self.clone()
        }
    }

    /// How workspaces are laid out on this machine, tried once.
    pub async fn laying(&self) -> Laying {
        *self.laying.get_or_init(|| self.try_layers()).await
    }

    async fn try_layers(&self) -> Laying {
        let tried = async {
            let scratch = tempfile::Builder::new()
                .prefix(TRIAL_PREFIX)
                .tempdir_in(self.stock.root()?)?
                .keep();
            let tried = sandbox::can_layer(&self.sandbox, &scratch).await;
            // What the trial left may belong to another user, with any mode.
            tokio::task::spawn_blocking(move || remove_tree(&scratch)).await??;
            anyhow::Ok(tried?)
        };
        match tried.await {
            Ok(()) => Laying::Over,
            Err(error) => {
                tracing::info!(%error, "workspaces do not lie on prepared trees here, but are copied from them");
                Laying::Copy
            }
        }
    }

    /// A tree that is there, at the commit or with few files that differ. It stays as long as the run
    /// folder lies on it. `repo` is asked what differs.
    ///
    /// # Errors
    /// Of this machine's disk.
    pub async fn find(&self, run: &RunFolder, repo: &Path, at: &CommitSha) -> Result<Option<Found>> {
        let trees = self.blocking(|trees| trees.stock.complete()).await?;
        let trees: Vec<PreparedTree> = trees
            .into_iter()
            .filter_map(|listed| {
                let commit = listed.folder.file_name()?.to_str()?.parse().ok()?;
                Some(PreparedTree {
                    folder: listed.folder,
                    commit,
                })
            })
            .collect();
        let found = match trees.iter().find(|tree| tree.commit == *at) {
            Some(tree) => Found {
                tree: tree.clone(),
                step: None,
            },
            None => match self.nearest(&trees, repo, at).await {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        let (run, folder) = (run.clone(), found.tree.folder.clone());
        let kept = self
            .blocking(move |trees| trees.stock.keep(&run, Kind::Tree, &folder))
            .await?;
        Ok(kept.then_some(found))
    }

    /// Of the trees used last, the one that differs least.
    async fn nearest(&self, trees: &[PreparedTree], repo: &Path, at: &CommitSha) -> Option<Found> {
        let mut nearest: Option<Found> = None;
        for tree in trees.iter().take(MAX_COMPARED) {
            // A repository that cannot tell is asked for the files themselves next.
            let Ok(Some(step)) = self.git.step(repo, &tree.commit, at, MAX_STEP).await else {
                continue;
            };
            if nearest.as_ref().is_none_or(|other| step.size() < other.differing()) {
                nearest = Some(Found {
                    tree: tree.clone(),
                    step: Some(step),
                });
            }
        }
        nearest
    }

    /// Makes the tree of a commit, unless somebody else just did, and makes room for it.
    ///
    /// # Errors
    /// Of git and of this machine's disk.
    pub async fn make(&self, run: &RunFolder, mirror: &Path, remote: &Remote, at: &CommitSha) -> Result<Found> {
        let name = at.to_string();
        if let Some(making) = self.blocking(move |trees| trees.stock.begin(&name)).await? {
            let tree = PreparedTree {
                folder: making.place.clone(),
                commit: at.clone(),
            };
            self.git.prepare(mirror, remote, &tree).await?;
            self.blocking(|_| making.finish()).await?;
        }
        let tree = PreparedTree {
            folder: self.stock.folder(at.as_str()),
            commit: at.clone(),
        };
        let (run, folder) = (run.clone(), tree.folder.clone());
        let kept = self.blocking(move |trees| {
            let kept = trees.stock.keep(&run, Kind::Tree, &folder)?;
            trees.stock.make_room()?;
            Ok(kept)
        });
        anyhow::ensure!(kept.await?, "the prepared tree of {} was removed", at.short());
        Ok(Found { tree, step: None })
    }

    /// Fills a run folder from a tree that was found for it, and marks it as complete.
    ///
    /// # Errors
    /// Of git and of this machine's disk.
    pub async fn lay(&self, run: &RunFolder, found: &Found, repo: &Path, remote: &Remote) -> Result<()> {
        let laying = self.laying().await;
        let base_git = run.base_git();
        let files = match laying {
            Laying::Over => run.upper(),
            Laying::Copy => run.workspace(),
        };
        let place = Place {
            base_git: &base_git,
            files: &files,
        };
        let step = found.step.as_ref().map(|step| (step, repo, remote));
        let at = found.step.as_ref().map_or(&found.tree.commit, Step::to);
        let laid = self.git.lay_out(&found.tree, step, laying, place).await;
        laid.with_context(|| format!("lay out {} of {}", at.short(), remote.url))?;
        if laying == Laying::Copy {
            run.leave(Kind::Tree)?;
        }
        run.mark_complete(at)
    }

    /// Removes what is over the bounds, and what a process that died left.
    ///
    /// # Errors
    /// Of this machine's disk.
    pub async fn tidy(&self) -> Result<()> {
        self.blocking(|trees| {
            for entry in fs::read_dir(trees.stock.root()?)? {
                let entry = entry?;
                let is_old = || {
                    let made = entry.metadata().and_then(|found| found.modified());
                    made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > OLD_TRIAL))
                };
                if entry.file_name().to_string_lossy().starts_with(TRIAL_PREFIX) && is_old() {
                    remove_tree(&entry.path())?;
                }
            }
            trees.stock.tidy()
        })
        .await
    }

    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Self) -> Result<T> + Send + 'static) -> Result<T> {
        let trees = self.clone();
        tokio::task::spawn_blocking(move || work(&trees)).await?
    }
}
