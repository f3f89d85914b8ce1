//! A local repository with its index: found, brought up to its last commit, with the edits of its
//! checkout on top. Called by the commands that ask the index. Never writes into the repository.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::{Context, Usage, surroundings};
use crate::app::{ports, prepare_state_dir, record};
use crate::git::{Git, GitError};
use crate::ids::CommitSha;
use crate::retrieval::code_search::{Brought, Indexes};
use crate::retrieval::index::{Edit, Progress, Stats};
use crate::retrieval::view::View;

/// Edited files that are read; of a checkout with more the rest is as committed.
const MAX_EDITS: usize = 5_000;
/// Largest edited file that is read.
const MAX_EDIT_BYTES: u64 = 2 << 20;
/// The bar moves as often as the eye follows; a log gets a line now and then.
const BAR_PAUSE: Duration = Duration::from_millis(80);
const LINE_PAUSE: Duration = Duration::from_secs(3);

/// Whether progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Show {
    Progress,
    Nothing,
}

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
        prepare_state_dir(&config.server.state_dir)?;
    }
    let records = record::folder(&config, &surroundings);
    let state = records.as_deref().and_then(Path::parent);
    let state = state.context("neither HOME nor XDG_STATE_HOME names a folder; set server.state_dir to one")?;
    let indexes = ports::indexes(&config, &surroundings, &git, state);
    let bar = Bar::new(show);
    let brought = indexes
        .bring(&place.git_dir, &place.head, |progress| bar.show(progress))
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

/// How far indexing is: a bar on a terminal, lines elsewhere.
struct Bar {
    show: Show,
    is_terminal: bool,
    last: Mutex<Option<Instant>>,
}

impl Bar {
    fn new(show: Show) -> Self {
        Self {
            show,
            is_terminal: std::io::stderr().is_terminal(),
            last: Mutex::new(None),
        }
    }

    fn show(&self, progress: Progress) {
        if self.show == Show::Nothing {
            return;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = if self.is_terminal { BAR_PAUSE } else { LINE_PAUSE };
        let now = Instant::now();
        // A warm index has little to do, and says nothing of it.
        match *last {
            None => *last = Some(now),
            Some(before) if now.duration_since(before) >= pause => {
                *last = Some(now);
                self.draw(progress);
            }
            Some(_) => {}
        }
    }

    fn draw(&self, Progress { done, all }: Progress) {
        if !self.is_terminal {
            note!("indexing: {done} of {all} files");
            return;
        }
        let width = 24;
        let filled = (done * width).checked_div(all).unwrap_or(width).min(width);
        let bar = format!("{}{}", "█".repeat(filled), "░".repeat(width - filled));
        let mut out = std::io::stderr().lock();
        drop(write!(out, "\r\x1b[Kindexing {bar} {done}/{all} files"));
        drop(out.flush());
    }

    /// Takes the bar away.
    fn end(&self) {
        if self.is_terminal && self.show == Show::Progress {
            drop(write!(std::io::stderr().lock(), "\r\x1b[K"));
        }
    }
}
