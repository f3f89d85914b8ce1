//! What is left of workers, services and jobs that are gone: found, and settled or only shown. The service
//! does so at its start and now and then; `forgehand recover` shows it and does it by hand.
//! Never touches what a living worker holds: every step asks again before it acts.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::config::SandboxConfig;
use crate::effect::EffectState;
use crate::ids::JobId;
use crate::job::JobState;
use crate::queue::Queue;
use crate::sandbox;
use crate::store::{JobFilter, Recovery, Store, StoreError};
use crate::workspace::{jobs_with_folders, remove_all};

mod branches;

pub use branches::branches;

/// Rows of one kind in one sweep; the next one goes on.
const MAX_ROWS: u32 = 1_000;
/// Time between two sweeps of a service.
const EVERY: Duration = Duration::from_secs(60);
/// The same after the first one. What the service before this one had asked the container engine for may
/// be made only now, though nobody waits for it any more.
const SOON: Duration = Duration::from_secs(1);

/// Longest time for the end of one container: what else is left waits for it.
const END: Duration = Duration::from_secs(20);

/// What was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A job whose lease ended.
    Lease,
    /// A job that nobody holds and nobody could claim.
    Job,
    /// A question that nobody answered in time.
    Question,
    /// Money set aside for a call of a worker that is gone.
    Money,
    /// An effect of a job that is over.
    Effect,
    /// The folders of a job that is over.
    Folder,
    /// A container of a service that is gone.
    Container,
    /// A status comment, check or label of a job that is over.
    Ending,
    /// A branch of a job that came to nothing.
    Branch,
}

impl What {
    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            What::Lease => "lease",
            What::Job => "job",
            What::Question => "question",
            What::Money => "money",
            What::Effect => "effect",
            What::Folder => "folder",
            What::Container => "container",
            What::Ending => "ending",
            What::Branch => "branch",
        }
    }
}

/// One thing that was left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Leftover {
    /// Its kind.
    pub what: What,
    /// Which one: a job, a container, a branch.
    pub id: String,
    /// What is the matter, for people.
    pub detail: String,
    /// What was done about it; nothing while it is only shown.
    pub done: Option<String>,
}

impl Leftover {
    /// Something that was found.
    pub fn new(what: What, id: impl ToString, detail: impl Into<String>) -> Self {
        Self {
            what,
            id: id.to_string(),
            detail: detail.into(),
            done: None,
        }
    }

    fn done(mut self, done: impl Into<String>) -> Self {
        self.done = Some(done.into());
        self
    }
}

/// Whether leftovers are settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They are only shown.
    Show,
    /// They are settled.
    Settle,
}

/// Looks for what is left.
#[derive(Clone)]
pub struct Sweep {
    /// The queue, by which leases are given back.
    pub queue: Queue,
    /// The rows.
    pub store: Store,
    /// Where runs keep their folders.
    pub state_dir: PathBuf,
    /// Where their commands ran.
    pub sandbox: SandboxConfig,
}

impl Sweep {
    /// Settles what no other loop of the service does, until `stop`: rows, and what sandboxes left here.
    pub async fn keep(&self, stop: &CancellationToken) {
        // Where the scheduler is in the same process, it has just looked at the folders.
        let mut is_first = true;
        let mut pause = SOON;
        while !stop.is_cancelled() {
            if !is_first {
                match self.folders(Mode::Settle).await {
                    Ok(left) => left.iter().for_each(tell),
                    Err(error) => tracing::warn!(%error, "folders of jobs could not be looked at"),
                }
            }
            is_first = false;
            match self.unseen_rows(Mode::Settle).await {
                Ok(left) => left.iter().for_each(tell),
                Err(error) => tracing::warn!(%error, "leftovers could not be looked for in the database"),
            }
            let config = self.sandbox.clone();
            let swept = tokio::task::spawn_blocking(move || sandbox::sweep_groups(&config)).await;
            if let Err(error) = swept {
                tracing::warn!(%error, "control groups could not be swept");
            }
            self.containers(Mode::Settle).await.iter().for_each(tell);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => {}
            }
            pause = (pause * 2).min(EVERY);
        }
    }

    /// Everything in the database, added to what was found before: what was settled when a later step
    /// failed is not forgotten.
    ///
    /// # Errors
    /// Of the database.
    pub async fn rows(&self, mode: Mode, left: &mut Vec<Leftover>) -> Result<(), StoreError> {
        left.extend(self.leases(mode).await?);
        left.extend(self.questions(mode).await?);
        left.extend(self.unseen_rows(mode).await?);
        left.extend(self.effects(mode).await?);
        Ok(())
    }

    async fn unseen_rows(&self, mode: Mode) -> Result<Vec<Leftover>, StoreError> {
        let mut left = self.stuck(mode).await?;
        left.extend(self.money(mode).await?);
        Ok(left)
    }

    async fn leases(&self, mode: Mode) -> Result<Vec<Leftover>, StoreError> {
        if mode == Mode::Settle {
            let recovered = self.queue.recover().await?;
            let settled = recovered.into_iter().map(|recovery| {
                let (id, done) = match recovery {
                    Recovery::Requeued(id) => (id, "given back"),
                    Recovery::Cancelled(id) => (id, "cancelled: somebody had asked to stop it"),
                    Recovery::Dead(id) => (id, "dead: its lease was lost too often"),
                };
                Leftover::new(What::Lease, id, "its lease ended").done(done)
            });
            return Ok(settled.collect());
        }
        let mut tx = self.store.begin().await?;
        let now = tx.db_now().await?;
        let filter = JobFilter {
            states: vec![JobState::Leased, JobState::Publishing],
            limit: MAX_ROWS,
            ..JobFilter::default()
        };
        let held = tx.jobs(&filter).await?;
        let ended = held.into_iter().filter_map(|job| {
            let ended_at = job.lease_until.filter(|until| *until <= now)?;
            let owner = job.lease_owner.unwrap_or_default();
            let detail = format!("the lease of {owner} ended at {ended_at}");
            Some(Leftover::new(What::Lease, job.id, detail))
        });
        Ok(ended.collect())
    }

    async fn stuck(&self, mode: Mode) -> Result<Vec<Leftover>, StoreError> {
        let mut tx = self.store.begin().await?;
        let stuck = tx.stuck(MAX_ROWS).await?;
        let mut left = Vec::new();
        for job in stuck {
            let found = Leftover::new(
                What::Job,
                &job.id,
                format!("it is {}, and nobody holds or wakes it", job.state),
            );
            if mode == Mode::Show {
                left.push(found);
            } else if tx.free_stuck(&job.id).await? {
                left.push(found.done("freed"));
            }
        }
        tx.commit().await?;
        Ok(left)
    }

    async fn questions(&self, mode: Mode) -> Result<Vec<Leftover>, StoreError> {
        let words = "nobody answered its question in time";
        if mode == Mode::Settle {
            let expired = self.queue.expire_questions().await?;
            let settled = expired
                .into_iter()
                .map(|id| Leftover::new(What::Question, id, words).done("it goes on without an answer"));
            return Ok(settled.collect());
        }
        let overdue = self.store.begin().await?.overdue_questions(MAX_ROWS).await?;
        Ok(overdue
            .into_iter()
            .map(|id| Leftover::new(What::Question, id, words))
            .collect())
    }

    async fn money(&self, mode: Mode) -> Result<Vec<Leftover>, StoreError> {
        let mut tx = self.store.begin().await?;
        let stale = tx.stale_reservations(MAX_ROWS).await?;
        if mode == Mode::Settle && !stale.is_empty() {
            tx.free_stale_reservations().await?;
        }
        tx.commit().await?;
        let left = stale.into_iter().map(|(job, sum)| {
            let found = Leftover::new(
                What::Money,
                job,
                format!("{sum} is set aside for a worker that is gone"),
            );
            match mode {
                Mode::Show => found,
                Mode::Settle => found.done("free again"),
            }
        });
        Ok(left.collect())
    }

    async fn effects(&self, mode: Mode) -> Result<Vec<Leftover>, StoreError> {
        let mut tx = self.store.begin().await?;
        let mut left = Vec::new();
        for effect in tx.effects_left_open(MAX_ROWS).await? {
            let (seq, kind, state) = (effect.seq, &effect.kind, effect.state);
            let detail = format!("its job is over, and effect {seq} ({kind}) is {state}");
            let found = Leftover::new(What::Effect, &effect.job, detail);
            if mode == Mode::Show || state == EffectState::Unknown {
                left.push(found);
            } else if tx.end_open_effect(&effect.job, seq).await? {
                left.push(found.done("ended"));
            }
        }
        tx.commit().await?;
        Ok(left)
    }

    /// What is left on this machine: folders and containers.
    ///
    /// # Errors
    /// Of the database, which says which jobs are over.
    pub async fn machine(&self, mode: Mode) -> Result<Vec<Leftover>, StoreError> {
        let mut left = self.folders(mode).await?;
        left.extend(self.containers(mode).await);
        Ok(left)
    }

    async fn folders(&self, mode: Mode) -> Result<Vec<Leftover>, StoreError> {
        // Listed before the living jobs are: folders of jobs that come meanwhile are not looked at.
        let state_dir = self.state_dir.clone();
        let listed = tokio::task::spawn_blocking(move || jobs_with_folders(&state_dir)).await;
        let Ok(Ok(folders)) = listed else {
            let detail = "the folders of jobs could not be listed";
            return Ok(vec![Leftover::new(What::Folder, self.state_dir.display(), detail)]);
        };
        let alive = JobState::ALL.iter().copied().filter(|state| !state.is_final());
        let filter = JobFilter {
            states: alive.collect(),
            limit: u32::MAX,
            ..JobFilter::default()
        };
        let jobs = self.store.begin().await?.jobs(&filter).await?;
        let keep: HashSet<JobId> = jobs.into_iter().map(|job| job.id).collect();
        let mut left = Vec::new();
        for job in folders.into_iter().filter(|job| !keep.contains(job)) {
            let found = Leftover::new(What::Folder, &job, "its job is over");
            left.push(match mode {
                Mode::Show => found,
                Mode::Settle => match remove(&self.sandbox, &self.state_dir, job).await {
                    Ok(()) => found.done("removed"),
                    Err(error) => found.done(format!("it stays: {error:#}")),
                },
            });
        }
        Ok(left)
    }

    async fn containers(&self, mode: Mode) -> Vec<Leftover> {
        let orphans = match sandbox::orphans(&self.sandbox).await {
            Ok(orphans) => orphans,
            Err(error) => {
                tracing::warn!(%error, "containers could not be looked for");
                return Vec::new();
            }
        };
        let mut left = Vec::new();
        for id in orphans {
            let found = Leftover::new(What::Container, &id, "its service is gone");
            left.push(match mode {
                Mode::Show => found,
                Mode::Settle => match tokio::time::timeout(END, sandbox::end_orphan(&self.sandbox, &id)).await {
                    Ok(Ok(())) => found.done("ended"),
                    Ok(Err(error)) => found.done(format!("it stays: {error}")),
                    Err(_) => found.done("it stays: the container engine does not get rid of it"),
                },
            });
        }
        left
    }
}

fn tell(left: &Leftover) {
    tracing::info!(
        what = left.what.as_str(),
        id = left.id,
        left.detail,
        left.done,
        "a leftover was settled"
    );
}

/// Also what the run has on another machine, which only its folder names.
async fn remove(config: &SandboxConfig, state_dir: &Path, job: JobId) -> anyhow::Result<()> {
    sandbox::let_go(config, &state_dir.join("runs").join(job.as_str())).await?;
    let state_dir = state_dir.to_owned();
    tokio::task::spawn_blocking(move || remove_all(&state_dir, &job)).await?
}
