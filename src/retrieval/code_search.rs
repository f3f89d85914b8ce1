//! The index of the code as one run sees it: brought to the run's first commit while the run is
//! prepared, with the files on top that the agent edited. Called by `run` and by tools. Never makes a
//! run wait longer than it says, and never fails: without an index it says why there is none.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::apart::{self, Order};
use super::graph::Graph;
use super::history::History;
use super::index::{Index, Limits, Progress, ReadEdit, Reader};
use super::map;
use super::query::Query;
use super::rank::{Answer, Chronicle, Ranker, Sources};
use super::view::{FileId, View};
use crate::closed;
use crate::code::facts::Facts;
use crate::git::Git;
use crate::ids::CommitSha;
use crate::sandbox::{FileReply, FileRequest, Sandbox};

/// Longest time for the index of one commit. A run goes on meanwhile.
const MAX_TIME: Duration = Duration::from_secs(30 * 60);
/// All indexes together may have so many times the bytes of one; the one used longest ago goes first.
const MAX_INDEXES: u64 = 8;
/// The history of a repository, beside its index.
const HISTORY: &str = "history";
/// Files that a ranking orders before it is cut to its budget.
const MAX_RANKED: usize = 100;
/// Files that a map of the repository is drawn around.
const MAX_NEAR: usize = 20;
/// Bytes of a file in a repository that names other repositories it borrows from.
const MAX_ALTERNATES: usize = 64 * 1024;

/// Where indexes are kept, and what makes them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Indexes {
    folder: PathBuf,
    program: PathBuf,
    git: Git,
    limits: Limits,
}

impl Indexes {
    /// Indexes below a state folder, made by `program`, which is this program.
    pub fn new(state_dir: &Path, program: &Path, git: &Git, limits: Limits) -> Self {
        Self {
            folder: state_dir.join("index"),
            program: program.to_owned(),
            git: git.clone(),
            limits,
        }
    }

    /// This program, which indexes in processes of its own.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Bounds of each index.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The folder of a repository's index.
    pub fn folder_of(&self, repo: &Path) -> PathBuf {
        let name = Sha256::digest(repo.as_os_str().as_encoded_bytes());
        self.folder.join(hex::encode(&name[..12]))
    }

    /// Begins to bring the index of a bare repository to a commit, unless it is there already.
    /// Files count as edited that changed after `since_ns`, nanoseconds since 1970.
    pub fn begin(&self, repo: &Path, commit: &CommitSha, since_ns: i64) -> CodeSearch {
        let (tell, news) = watch::channel(News::Working(Progress { done: 0, all: 0 }));
        let (indexes, repo, commit) = (self.clone(), repo.to_owned(), commit.clone());
        let task = tokio::spawn(async move {
            let progress = |progress| drop(tell.send(News::Working(progress)));
            let (made, past) = tokio::join!(indexes.bring(&repo, &commit, progress), indexes.past(&repo, &commit));
            let last = match made {
                Ok(brought) => News::Ready(Ready {
                    index: brought.index,
                    view: brought.view,
                    commit,
                    past,
                }),
                Err(why) => News::Failed(why),
            };
            let index = match &last {
                News::Ready(ready) => Some(ready.index.clone()),
                News::Working(_) | News::Failed(_) => None,
            };
            // Whoever asked may have gone.
            let _ = tell.send(last);
            if let Some(index) = index {
                let most = indexes.limits.max_bytes.saturating_mul(MAX_INDEXES);
                let tidied = tokio::task::spawn_blocking(move || index.tidy().and_then(|()| index.make_room(most)));
                if let Ok(Err(error)) = tidied.await {
                    tracing::warn!(%error, "the indexes were not tidied");
                }
            }
        });
        CodeSearch {
            news,
            since_ns,
            edited: Mutex::default(),
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Brings the index of a bare repository to a commit, unless it is there already.
    ///
    /// # Errors
    /// Why there is no index of it, in words.
    pub async fn bring(
        &self,
        repo: &Path,
        commit: &CommitSha,
        progress: impl Fn(Progress) + Send,
    ) -> Result<Brought, String> {
        let folder = self.folder_of(repo);
        let repo = repo.canonicalize().unwrap_or_else(|_| repo.to_owned());
        if let Some(ready) = self.at_hand(&folder, commit).await? {
            return Ok(ready);
        }
        let order = Order {
            lenders: lenders(&repo),
            index: folder.clone(),
            repo,
            commit: commit.clone(),
            limits: self.limits.clone(),
            max_time: MAX_TIME,
        };
        let parsed = apart::update(&self.program, &order, &CancellationToken::new(), progress)
            .await
            .map_err(|problem| problem.to_string())?;
        let ready = self.at_hand(&folder, commit).await?;
        let ready = ready.ok_or_else(|| "the index does not hold the commit".to_owned())?;
        Ok(Brought { parsed, ..ready })
    }

    /// The history of a repository up to a commit, kept beside its index.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub async fn past(&self, repo: &Path, commit: &CommitSha) -> Result<Arc<History>, String> {
        let (file, git) = (self.folder_of(repo).join(HISTORY), self.git.clone());
        let (repo, commit) = (repo.to_owned(), commit.clone());
        let read = tokio::task::spawn_blocking(move || {
            let mut history = History::load(&file);
            // What cannot be kept is read again the next time.
            let kept = file.parent().is_some_and(|folder| closed::make_folder(folder).is_ok());
            let extended = history.extend(&git, &repo, &commit, kept.then_some(file.as_path()));
            extended.map_err(|error| error.to_string())?;
            Ok(Arc::new(history))
        });
        read.await.map_err(|error| error.to_string())?
    }

    /// The index and the view of a commit, when it is ready.
    async fn at_hand(&self, folder: &Path, commit: &CommitSha) -> Result<Option<Brought>, String> {
        let (folder, limits, commit) = (folder.to_owned(), self.limits.clone(), commit.clone());
        let opened = tokio::task::spawn_blocking(move || {
            closed::make_folder(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            let index = Index::open(&folder, limits, Reader::default()).map_err(|error| error.to_string())?;
            let view = index.view(&commit);
            Ok(view.map(|view| Brought {
                index: Arc::new(index),
                view,
                parsed: 0,
            }))
        });
        opened.await.map_err(|error| error.to_string())?
    }
}

/// An index that holds a commit.
#[derive(Debug, Clone)]
pub struct Brought {
    /// The index.
    pub index: Arc<Index>,
    /// The commit in it.
    pub view: Arc<View>,
    /// Blobs that were parsed for it just now.
    pub parsed: u64,
}

/// The repositories whose objects a repository borrows. It is written by git or by us alone.
pub fn lenders(repo: &Path) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(repo.join("objects/info/alternates")).unwrap_or_default();
    let lines = text.get(..text.len().min(MAX_ALTERNATES)).unwrap_or_default().lines();
    lines.map(|line| repo.join("objects").join(line)).collect()
}

enum News {
    Working(Progress),
    Ready(Ready),
    Failed(String),
}

#[derive(Clone)]
struct Ready {
    index: Arc<Index>,
    view: Arc<View>,
    commit: CommitSha,
    past: Result<Arc<History>, String>,
}

/// The code of a run.
pub struct CodeSearch {
    news: watch::Receiver<News>,
    since_ns: i64,
    edited: Mutex<Edited>,
    _task: AbortOnDropHandle<()>,
}

impl fmt::Debug for CodeSearch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CodeSearch")
    }
}

/// What was edited when it was last looked at, and the graph with it.
#[derive(Default)]
struct Edited {
    states: BTreeMap<String, (u64, Option<Arc<Facts>>)>,
    graph: Option<Arc<Graph>>,
    ranker: Option<Arc<Ranker>>,
}

impl Ready {
    fn ranker(&self, view: &Arc<View>) -> Ranker {
        let past = self.past.clone().and_then(|history| {
            let past = Chronicle::new(history, view, &self.commit);
            past.ok_or_else(|| "the commit is not in it".to_owned())
        });
        Ranker::new(view.clone(), past)
    }
}

fn is_below(path: &str, folder: &str) -> bool {
    let folder = folder.trim_matches('/');
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Most tokens of a first look.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Of the places.
    pub places: usize,
    /// Of the map; 0 for none.
    pub map: usize,
}

/// What an agent knows before it looks itself.
#[derive(Debug, Clone)]
pub struct FirstLook {
    /// The places that the task is about.
    pub places: Answer,
    /// Folders and files with their main symbols.
    pub map: String,
}

/// The code as it is now.
#[derive(Debug, Clone)]
pub struct Present {
    /// Its graph, with the view that it is of.
    pub graph: Arc<Graph>,
    /// What is missing in it, in words.
    pub notes: Vec<String>,
}

impl CodeSearch {
    /// The same with another time from which on files count as edited, for an index that was begun
    /// before there were files.
    #[must_use]
    pub fn edited_since(mut self, since_ns: i64) -> Self {
        self.since_ns = since_ns;
        self
    }

    /// What an agent should know of the first commit before it looks itself, waited for at most so
    /// long: the places that a task is about, and a map of the repository around them. `count` says
    /// how many tokens a text has.
    ///
    /// # Errors
    /// Why there is nothing, in words.
    pub async fn first_look(
        &self,
        task: &str,
        budget: Budget,
        count: fn(&str) -> usize,
        wait: Duration,
    ) -> Result<FirstLook, String> {
        let ready = self.ready(wait).await?;
        let task = task.to_owned();
        let look = tokio::task::spawn_blocking(move || {
            let graph = Graph::of(ready.view.clone());
            let ranker = ready.ranker(&ready.view);
            let query = Query::parse(&task);
            let ranking = ranker.rank(&query, Sources::All, MAX_RANKED);
            let near: Vec<FileId> = ranking.files.iter().take(MAX_NEAR).map(|ranked| ranked.file).collect();
            FirstLook {
                places: ranker.places(&query, &ranking, budget.places, &count),
                map: match budget.map {
                    0 => String::new(),
                    most => map::map(&graph, &near, most, &count),
                },
            }
        });
        look.await.map_err(|error| error.to_string())
    }

    /// The places of the code, as it is now, that words are about. Only those below `folder`, unless
    /// it is empty.
    ///
    /// # Errors
    /// Why there is no index, in words.
    pub async fn places(
        &self,
        present: &Present,
        words: &str,
        folder: &str,
        max_tokens: usize,
        count: fn(&str) -> usize,
    ) -> Result<Answer, String> {
        let ready = self.ready(Duration::ZERO).await?;
        let known = self.edited.lock().await.ranker.clone();
        let (view, words, folder) = (present.graph.shared_view(), words.to_owned(), folder.to_owned());
        let work = tokio::task::spawn_blocking(move || {
            let ranker = match known {
                Some(ranker) if std::ptr::eq(ranker.view(), view.as_ref()) => ranker,
                _ => Arc::new(ready.ranker(&view)),
            };
            let query = Query::parse(&words);
            let mut ranking = ranker.rank(
                &query,
                Sources::All,
                if folder.is_empty() { MAX_RANKED } else { usize::MAX },
            );
            if !folder.is_empty() {
                let is_below = |file: FileId| is_below(ranker.view().path(file), &folder);
                ranking.files.retain(|ranked| is_below(ranked.file));
                ranking.functions.retain(|function| is_below(function.file));
            }
            let answer = ranker.places(&query, &ranking, max_tokens, &count);
            (ranker, answer)
        });
        let (ranker, answer) = work.await.map_err(|error| error.to_string())?;
        self.edited.lock().await.ranker = Some(ranker);
        Ok(answer)
    }

    /// The code with what was edited in the workspace.
    ///
    /// # Errors
    /// Why there is no index, in words.
    pub async fn present(&self, sandbox: &dyn Sandbox, wait: Duration) -> Result<Present, String> {
        let Ready { index, view, .. } = self.ready(wait).await?;
        let mut notes = Vec::new();
        let mut edited = self.edited.lock().await;
        let known = edited.states.iter().map(|(path, (state, _))| (path.clone(), *state));
        let request = FileRequest::Edited {
            since_ns: self.since_ns,
            known: known.collect(),
        };
        match sandbox.files(&request).await {
            Ok(FileReply::Edited { files, truncated }) => {
                if truncated {
                    notes.push("not every edited file is in the index".to_owned());
                }
                let before = std::mem::take(&mut edited.states);
                let mut is_new = before.len() != files.len();
                for file in files {
                    let facts = match before.get(&file.path) {
                        Some((state, facts)) if *state == file.state => facts.clone(),
                        _ => {
                            is_new = true;
                            file.facts.map(|facts| Arc::from(*facts))
                        }
                    };
                    edited.states.insert(file.path, (file.state, facts));
                }
                if is_new {
                    edited.graph = None;
                }
            }
            Ok(FileReply::Failed { problem }) => notes.push(format!("edited files are not in the index: {problem}")),
            Ok(_) => notes.push("edited files are not in the index: another answer came".to_owned()),
            Err(error) => notes.push(format!("edited files are not in the index: {error}")),
        }
        let graph = match &edited.graph {
            Some(graph) => graph.clone(),
            None => {
                let edits: Vec<ReadEdit> = edited
                    .states
                    .iter()
                    .map(|(path, (state, facts))| ReadEdit {
                        path: path.clone(),
                        state: *state,
                        facts: facts.clone(),
                    })
                    .collect();
                let laid = tokio::task::spawn_blocking(move || index.overlay_read(&view, &edits)).await;
                let laid = laid.map_err(|error| error.to_string())?;
                let graph = Arc::new(Graph::of(Arc::new(laid.map_err(|error| error.to_string())?)));
                edited.graph = Some(graph.clone());
                graph
            }
        };
        Ok(Present { graph, notes })
    }

    async fn ready(&self, wait: Duration) -> Result<Ready, String> {
        let mut news = self.news.clone();
        let ready = news.wait_for(|news| !matches!(news, News::Working(_)));
        match tokio::time::timeout(wait, ready).await {
            Ok(Ok(news)) => match &*news {
                News::Ready(ready) => Ok(ready.clone()),
                News::Failed(why) => Err(why.clone()),
                News::Working(_) => Err("it is not ready yet".to_owned()),
            },
            Ok(Err(_)) => Err("nobody makes it any more".to_owned()),
            Err(_) => Err(match &*self.news.borrow() {
                News::Working(Progress { done, all }) if *all > 0 => {
                    format!("it is not ready yet ({done} of {all} files)")
                }
                _ => "it is not ready yet".to_owned(),
            }),
        }
    }
}
