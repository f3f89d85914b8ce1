//! A local repository with its index: found, brought up to its last commit, with the edits of its
//! checkout on top. Called by the commands that ask the index. Never writes into the repository.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::bar::{Bar, Show};
use super::{Context, Usage, surroundings};
use crate::app::{ports, record, state_dir};
use crate::git::{Git, GitError};
use crate::ids::CommitSha;
use crate::retrieval::code_search::{Brought, Indexes};
use crate::retrieval::index::{Edit, Progress, Stats};
use crate::retrieval::view::View;

/// Edited files that are read; of a checkout with more the rest is as committed.
const MAX_EDITS: usize = 5_000;
/// Largest edited file that is read.
const MAX_EDIT_BYTES: u64 = 2 << 20;

/// A repository and what the index knows of it.
#[derive(Debug)]
pub(super) struct Indexed {
    pub(super) view: Arc<View>,
    pub(super) head: CommitSha,
    /// Where the repository keeps its objects.
    pub(super) git_dir: PathBuf,
    /// Edited files that are laid over the commit.
    pub(super) edits: usize,
    pub(super) stats: Stats,
    pub(super) folder: PathBuf,
    pub(super) indexes: Indexes,
    pub(super) took: Duration,
}

/// A repository on this machine.
struct Place {
    git_dir: PathBuf,
    head: CommitSha,
    /// The folder of the checkout, and the paths of its edits.
    edited: Option<(PathBuf, Vec<String>)>,
}

/// Opens the repository in or around a folder and brings its index up to date.
pub(super) async fn open(context: &Context, folder: &Path, show: Show) -> anyhow::Result<Indexed> {
    let began = Instant::now();
    let config = context.config()?;
    let git = Git::find()?;
    let place = find(&git, folder).await?;
    let surroundings = surroundings()?;
    if config.origins.contains_key("server.state_dir") {
        state_dir::prepare(&config.server.state_dir)?;
    }
    let records = record::folder(&config, &surroundings);
    let state = records.as_deref().and_then(Path::parent);
    let state = state.context("neither HOME nor XDG_STATE_HOME names a folder; set server.state_dir to one")?;
    let indexes = ports::indexes(&config, &surroundings, &git, state);
    let bar = Bar::new(show, "indexing", "files");
    let brought = indexes
        .bring(&place.git_dir, &place.head, |Progress { done, all }| {
            bar.show(done, all)
        })
        .await;
    bar.end();
    let Brought { index, view, parsed } = brought.map_err(|why| anyhow::anyhow!("the index: {why}"))?;
    let edits = place
        .edited
        .map_or_else(Vec::new, |(root, paths)| read_edits(&root, paths));
    let view = if edits.is_empty() {
        view
    } else {
        Arc::new(index.overlay(&view, &edits)?)
    };
    Ok(Indexed {
        view,
        head: place.head,
        edits: edits.len(),
        stats: Stats {
            parsed,
            ..index.stats()
        },
        folder: indexes.folder_of(&place.git_dir),
        git_dir: place.git_dir,
        indexes,
        took: began.elapsed(),
    })
}

async fn find(git: &Git, folder: &Path) -> anyhow::Result<Place> {
    let is_bare = folder.join("HEAD").is_file() && folder.join("objects").is_dir();
    if is_bare {
        let git_dir = folder
            .canonicalize()
            .with_context(|| format!("find the folder {}", folder.display()))?;
        return Ok(Place {
            head: git.head(&git_dir).await?,
            git_dir,
            edited: None,
        });
    }
    let repo = match git.open_local(folder).await {
        Ok(repo) => repo,
        Err(GitError::NotFound(what)) => return Err(Usage(format!("there is no {what}")).into()),
        Err(error) => return Err(error.into()),
    };
    let paths = git.uncommitted_paths(&repo).await?;
    Ok(Place {
        git_dir: repo.git_dir,
        head: repo.head,
        edited: Some((repo.root, paths)),
    })
}

/// The contents of edited files. A link is left out: what it points to may be anything.
fn read_edits(root: &Path, paths: Vec<String>) -> Vec<Edit> {
    let mut edits = Vec::new();
    for path in paths.into_iter().take(MAX_EDITS) {
        let full = root.join(&path);
        match std::fs::symlink_metadata(&full) {
            Ok(about) if about.is_file() && about.len() <= MAX_EDIT_BYTES => {
                if let Ok(content) = std::fs::read(&full) {
                    let content = Some(content);
                    edits.push(Edit { path, content });
                }
            }
            Ok(_) => {}
            Err(_) => edits.push(Edit { path, content: None }),
        }
    }
    edits
}
