//! Measures retrieval on changes that were really made: the question is what people wrote, the right
//! answer is what they changed, the corpus is the commit before. Called from the command line and from
//! jobs of schedules. Never tunes on what it reports: fitted weights are those of all other repositories.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::git::Git;
use crate::retrieval::history::History;
use crate::retrieval::index::{Bounds, Index, Limits, Reader};

pub mod apart;
pub mod case;
mod fit;
mod measure;
mod observe;
mod report;
mod repository;

pub use case::{Ask, Case};
pub use measure::Measure;
pub use report::{Report, Row};
pub use repository::find_in;

use observe::Observation;

/// What is measured, and on what.
pub struct Plan<'a> {
    /// The cases.
    pub cases: Vec<Case>,
    /// The git directory of a repository by its name, or why there is none.
    pub find: &'a dyn Fn(&str) -> Result<PathBuf, String>,
    /// Which text of a case is asked.
    pub ask: Ask,
    /// Where indexes are kept; one that is there is used again.
    pub indexes: &'a Path,
    /// Bounds of an index.
    pub limits: Limits,
}

/// Longest time for the index of one commit; the first of a repository is the long one.
const INDEX_TIMEOUT: Duration = Duration::from_secs(1800);

/// Runs all cases, and tells `progress` how many are done.
pub fn run(
    plan: &Plan<'_>,
    git: &Git,
    cancel: &CancellationToken,
    progress: &dyn Fn(usize, usize),
) -> anyhow::Result<Report> {
    let started = Instant::now();
    let mut by_repo: BTreeMap<&str, Vec<&Case>> = BTreeMap::new();
    for case in &plan.cases {
        by_repo.entry(case.repo.as_str()).or_default().push(case);
    }
    let mut observations = Vec::new();
    let mut skipped = Vec::new();
    let mut done = 0;
    // Without another repository nothing is fitted.
    let is_fitted = by_repo.len() > 1;
    for (repo, cases) in by_repo {
        let dir = match (plan.find)(repo) {
            Ok(dir) => dir,
            Err(why) => {
                skipped.extend(cases.iter().map(|case| (case.id.clone(), why.clone())));
                done += cases.len();
                progress(done, plan.cases.len());
                continue;
            }
        };
        let indexes = plan.indexes.join(repo.replace('/', "+"));
        let mut bench = Bench::open(git, dir, &indexes, plan.limits.clone())?;
        for case in cases {
            if cancel.is_cancelled() {
                anyhow::bail!("stopped after {done} of {} cases", plan.cases.len());
            }
            match bench.observe(case, plan.ask, cancel) {
                Ok(observation) if is_fitted => observations.push(observation),
                Ok(observation) => observations.push(observation.without_options()),
                Err(error) => skipped.push((case.id.clone(), format!("{error:#}"))),
            }
            done += 1;
            progress(done, plan.cases.len());
        }
    }
    Ok(Report::of(&observations, skipped, plan.ask, started.elapsed()))
}

/// One repository with its index and history.
struct Bench<'a> {
    git: &'a Git,
    dir: PathBuf,
    index: Index,
    history: Arc<History>,
    history_file: PathBuf,
}

impl<'a> Bench<'a> {
    fn open(git: &'a Git, dir: PathBuf, index: &Path, limits: Limits) -> anyhow::Result<Self> {
        std::fs::create_dir_all(index)?;
        let history_file = index.join("history.jsonl");
        Ok(Self {
            git,
            dir,
            index: Index::open(&index.join("index"), limits, Reader::default())?,
            history: Arc::new(History::load(&history_file)),
            history_file,
        })
    }

    fn observe(&mut self, case: &Case, ask: Ask, cancel: &CancellationToken) -> anyhow::Result<Observation> {
        let at = &case.parent_commit;
        let started = Instant::now();
        let bounds = Bounds {
            cancel,
            until: started + INDEX_TIMEOUT,
            progress: &|_| {},
        };
        let view = self.index.update(self.git, &self.dir, at, &bounds)?;
        let indexed = started.elapsed();
        let started = Instant::now();
        if !self.history.knows(at) {
            // Nobody else holds it between two cases.
            let history = Arc::get_mut(&mut self.history);
            let history = history.ok_or_else(|| anyhow::anyhow!("the history is still in use"))?;
            history.extend(self.git, &self.dir, at, Some(&self.history_file))?;
        }
        let read = started.elapsed();
        Ok(Observation::of(case, ask, view, &self.history, (indexed, read)))
    }
}
