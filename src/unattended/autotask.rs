//! Issues that wait in a queue become jobs, also on a machine that GitHub cannot reach. One look at a
//! repository may be repeated, interrupted anywhere, and overtaken by another process: every issue is
//! one transaction, guarded by the turn of the look. Called by the service's loop and the command line.
//! Never starts work but by inserting a job, never takes an error, a part of a list or "as it was" for
//! the news that an issue left, and never asks for the same content version twice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::{LocateError, locate};
use crate::clock::Clock;
use crate::config::{AutotaskConfig, GitHubConfig, QueueConfig};
use crate::github::{GitHub, GitHubError};
use crate::ids::{AppId, IssueNumber, JobId, RepoName};
use crate::phrase::Language;
use crate::store::{QueueCursor, QueueKey, RepoRow, Store, StoreError};

mod asker;
mod issues;
mod look;
mod room;
mod source;

pub use asker::Listeners;
pub use issues::GitHubIssues;
pub use source::{Asked, Item, Listed, Listing, QueueSource, SourceError};

use look::Look;

/// A queue that cannot be read is asked again no later than this.
const LONGEST_BACKOFF: Duration = Duration::from_secs(15 * 60);

/// The loop looks at least so often whether it is time for a repository.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// And no more often.
const LEAST_PAUSE: Duration = Duration::from_millis(20);

/// Looks into queues.
pub struct Autotask {
    github: GitHub,
    store: Store,
    source: Arc<dyn QueueSource>,
    config: AutotaskConfig,
    language: Language,
    max_attempts: u32,
    clock: Clock,
    /// Repositories that were not found by their names: they have no row yet.
    unreached: Mutex<HashMap<RepoName, Unreached>>,
}

#[derive(Debug, Clone, Default)]
struct Unreached {
    failures: u32,
    next_at: DateTime<Utc>,
    problem: String,
}

/// Whether this process looks.
enum Turn {
    /// It does.
    Taken(QueueCursor),
    /// It is not time, or another process looks.
    NotNow,
    /// GitHub asked to wait, or did not answer; also who asks for a look has to wait.
    PutOff(QueueCursor),
}

/// When to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// When it is time.
    Due,
    /// Now, unless GitHub asked to wait.
    Now,
}

/// What a look did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Looked {
    /// Whether the list was as it was before; nothing was read then.
    pub unchanged: bool,
    /// Issues that the query selects, as last read.
    pub selected: Option<u32>,
    /// Open issues of the repository, counted when the query selects none.
    pub open_items: Option<u32>,
    /// Issues that became jobs, or whose job another way had made already.
    pub taken: Vec<(IssueNumber, JobId)>,
    /// Issues that wait for room, and why.
    pub held: Vec<(IssueNumber, String)>,
    /// Issues that are not worked on, and why.
    pub refused: Vec<(IssueNumber, String)>,
    /// Issues that left the queue and whose work was stopped.
    pub stopped: Vec<IssueNumber>,
    /// Why it was not read, or not to its end.
    pub problem: Option<String>,
    /// Not before this time.
    pub next_at: Option<DateTime<Utc>>,
}

impl Looked {
    /// In words: the query's effect, so that one that contradicts itself is noticed.
    pub fn selection(&self) -> String {
        match (self.selected, self.open_items) {
            (Some(0), Some(open)) => format!(
                "0 of {open} open issues are selected{}",
                if open > 0 { "; check the query" } else { "" }
            ),
            (Some(1), _) => "1 open issue is selected".to_owned(),
            (Some(selected), _) => format!("{selected} open issues are selected"),
            (None, _) => "not read yet".to_owned(),
        }
    }
}

impl Autotask {
    /// The queue of a configuration on GitHub's issues. `slug` is the App's.
    pub fn on_github(
        github: GitHub,
        store: Store,
        config: &AutotaskConfig,
        (host, queue): (&GitHubConfig, &QueueConfig),
        slug: &str,
        clock: Clock,
    ) -> Self {
        let listeners = Listeners {
            app_id: host.app_id.map(AppId),
            bot_login: format!("{slug}[bot]"),
            allowed_apps: host.allowed_apps.iter().copied().map(AppId).collect(),
        };
        Self {
            source: Arc::new(GitHubIssues::new(github.clone(), config, listeners)),
            github,
            store,
            config: config.clone(),
            language: host.language.into(),
            max_attempts: queue.max_attempts,
            clock,
            unreached: Mutex::default(),
        }
    }

    /// What selects the issues.
    pub fn query(&self) -> &str {
        self.source.name()
    }

    /// Looks at every repository whose turn it is, until `stop`. Time passes in the clock; the pauses
    /// are real.
    pub async fn run(self, stop: CancellationToken) {
        let pause = (self.config.every_seconds / 4).clamp(LEAST_PAUSE, LONGEST_PAUSE);
        tracing::info!(
            query = self.query(),
            "queues of issues are looked at where they are switched on"
        );
        while !stop.is_cancelled() {
            tokio::select! {
                ticked = self.tick() => if let Err(error) = ticked {
                    tracing::warn!(%error, "queues of issues could not be looked at");
                },
                () = stop.cancelled() => return,
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// One pass over all repositories that are switched on and due.
    ///
    /// # Errors
    /// Those of the database; the repositories after it are left for the next pass.
    pub async fn tick(&self) -> Result<(), StoreError> {
        for repo in repositories(&self.store, &self.config).await? {
            if let Some(looked) = self.look(&repo, When::Due).await? {
                self.report(&repo, &looked);
            }
        }
        Ok(())
    }

    /// Looks at one repository. `None`: it is not time, or another process looks.
    ///
    /// # Errors
    /// Those of the database. What was done until then stays, and the next look goes on from there.
    pub async fn look(&self, name: &RepoName, when: When) -> Result<Option<Looked>, StoreError> {
        let now = self.clock.now();
        if let Some(waits) = self.waits_for(name, now) {
            return Ok((when == When::Now).then_some(waits));
        }
        let repo = match locate(&self.github, &self.store, name).await {
            Ok(repo) if repo.active => repo,
            Ok(repo) => return Ok(Some(self.not_reached(name, now, &LocateError::Unknown(repo.name)))),
            Err(LocateError::Store(error)) => return Err(error),
            Err(error) => return Ok(Some(self.not_reached(name, now, &error))),
        };
        self.unreached().remove(name);
        let key = QueueKey {
            source: self.source.name(),
            repo: repo.id,
        };
        match self.take_turn(key, when, now).await? {
            Turn::Taken(cursor) => self.look_in_turn(key, &repo, cursor, now).await.map(Some),
            Turn::NotNow => Ok(None),
            Turn::PutOff(cursor) => Ok(Some(Looked {
                problem: cursor.problem,
                selected: cursor.selected,
                next_at: Some(cursor.next_at),
                ..Looked::default()
            })),
        }
    }

    async fn look_in_turn(
        &self,
        key: QueueKey<'_>,
        repo: &RepoRow,
        cursor: QueueCursor,
        now: DateTime<Utc>,
    ) -> Result<Looked, StoreError> {
        let before = cursor.problem.clone();
        let mut look = Look::new(self, key, repo, cursor, now);
        let failed = match look.all().await {
            Ok(()) => None,
            Err(look::Stopped::Store(error)) => return Err(error),
            // Somebody else looked meanwhile: what this look knows is old.
            Err(look::Stopped::Overtaken) => {
                return Ok(Looked {
                    problem: Some("another process began to look meanwhile, and goes on".to_owned()),
                    ..look.looked
                });
            }
            Err(look::Stopped::Source(error)) => Some(error),
        };
        let Look {
            mut cursor, mut looked, ..
        } = look;
        let every = TimeDelta::from_std(self.config.every_seconds).unwrap_or(TimeDelta::MAX);
        cursor.next_at = now + every;
        cursor.failures = failed.as_ref().map_or(0, |_| cursor.failures + 1);
        match &failed {
            None => {}
            Some(SourceError::Wait { until, .. }) => cursor.next_at = (*until).max(cursor.next_at),
            Some(SourceError::Failed(_)) => {
                cursor.next_at = now + backoff(self.config.every_seconds, cursor.failures, &repo.name);
            }
        }
        cursor.problem = failed.map(|error| error.to_string());
        let mut tx = self.store.begin().await?;
        tx.note_queue_read(key, &cursor).await?;
        tx.commit().await?;
        looked.problem = cursor.problem.clone();
        looked.next_at = Some(cursor.next_at);
        looked.selected = cursor.selected;
        looked.open_items = cursor.open_items;
        tell_of_problem(&repo.name, before.as_deref(), &looked);
        Ok(looked)
    }

    async fn take_turn(&self, key: QueueKey<'_>, when: When, now: DateTime<Utc>) -> Result<Turn, StoreError> {
        let every = TimeDelta::from_std(self.config.every_seconds).unwrap_or(TimeDelta::MAX);
        let mut tx = self.store.begin().await?;
        let mut due_by = now;
        if let (When::Now, Some(known)) = (when, tx.queue_cursor(key).await?) {
            if known.problem.is_some() && known.next_at > now {
                return Ok(Turn::PutOff(known));
            }
            due_by = known.next_at.max(now);
        }
        let cursor = tx.take_queue_turn(key, (now, due_by), now + every).await?;
        tx.commit().await?;
        Ok(cursor.map_or(Turn::NotNow, Turn::Taken))
    }

    fn unreached(&self) -> std::sync::MutexGuard<'_, HashMap<RepoName, Unreached>> {
        self.unreached.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn waits_for(&self, name: &RepoName, now: DateTime<Utc>) -> Option<Looked> {
        let unreached = self.unreached();
        let known = unreached.get(name).filter(|known| known.next_at > now)?;
        Some(Looked {
            problem: Some(known.problem.clone()),
            next_at: Some(known.next_at),
            ..Looked::default()
        })
    }

    fn not_reached(&self, name: &RepoName, now: DateTime<Utc>, error: &LocateError) -> Looked {
        let mut unreached = self.unreached();
        let known = unreached.entry(name.clone()).or_default();
        let before = Some(known.problem.clone()).filter(|problem| !problem.is_empty());
        known.failures += 1;
        known.next_at = now + backoff(self.config.every_seconds, known.failures, name);
        if let LocateError::GitHub(GitHubError::RateLimited { until, .. } | GitHubError::Held { until, .. }) = error {
            known.next_at = (*until).max(known.next_at);
        }
        known.problem = error.to_string();
        let looked = Looked {
            problem: Some(known.problem.clone()),
            next_at: Some(known.next_at),
            ..Looked::default()
        };
        drop(unreached);
        tell_of_problem(name, before.as_deref(), &looked);
        looked
    }

    /// One line where something was done.
    fn report(&self, repo: &RepoName, looked: &Looked) {
        let did = looked.taken.len() + looked.refused.len() + looked.stopped.len();
        if did > 0 {
            tracing::info!(
                %repo,
                query = self.query(),
                selected = looked.selected,
                taken = looked.taken.len(),
                held = looked.held.len(),
                refused = looked.refused.len(),
                stopped = looked.stopped.len(),
                "a queue of issues was looked at"
            );
        }
    }
}

/// The repositories whose queues are on: those of the configuration, and what was switched at the
/// command line.
///
/// # Errors
/// Those of the database.
pub async fn repositories(store: &Store, config: &AutotaskConfig) -> Result<Vec<RepoName>, StoreError> {
    if !config.selects() {
        return Ok(Vec::new());
    }
    let mut names = if config.enabled {
        config.repository_names()
    } else {
        Vec::new()
    };
    let mut tx = store.begin().await?;
    let switches = tx.autotask_switches().await?;
    drop(tx);
    let is = |one: &RepoName, other: &RepoName| one.as_str().eq_ignore_ascii_case(other.as_str());
    for switch in switches {
        let known = names.iter().position(|name| is(name, &switch.repo));
        match (switch.is_on, known) {
            (true, None) => {
                let listed = config.repository_names();
                let written = listed.into_iter().find(|name| is(name, &switch.repo));
                names.push(written.unwrap_or(switch.repo));
            }
            (false, Some(at)) => {
                names.remove(at);
            }
            _ => {}
        }
    }
    Ok(names)
}

/// Once when it begins, once when it is over: not with every look.
fn tell_of_problem(repo: &RepoName, before: Option<&str>, looked: &Looked) {
    match (before, &looked.problem) {
        (None, Some(problem)) => {
            tracing::warn!(%repo, problem, next_at = ?looked.next_at, "a queue of issues cannot be read; it is tried again");
        }
        (Some(_), None) => tracing::info!(%repo, "a queue of issues can be read again"),
        _ => {}
    }
}

/// The pause after so many failures: doubled up to 15 minutes, and not at the same time for all
/// repositories. The same failure has the same pause, whoever computes it.
fn backoff(every: Duration, failures: u32, repo: &RepoName) -> TimeDelta {
    let doubled = every.saturating_mul(2_u32.saturating_pow(failures.min(20)));
    let hash = Sha256::digest(format!("{repo} {failures}"));
    let part = f64::from(hash[0]) / 255.0;
    let paused = doubled.min(LONGEST_BACKOFF).mul_f64(0.8 + 0.2 * part);
    TimeDelta::from_std(paused.max(every)).unwrap_or(TimeDelta::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_quarter_of_an_hour() {
        let repo: RepoName = "octo/words".parse().unwrap();
        let pause = |failures| backoff(Duration::from_secs(60), failures, &repo).num_seconds();
        assert!((96..=120).contains(&pause(1)), "{}", pause(1));
        assert!((192..=240).contains(&pause(2)), "{}", pause(2));
        assert!((720..=900).contains(&pause(30)), "{}", pause(30));
        assert_eq!(pause(3), pause(3));
        let other: RepoName = "octo/tools".parse().unwrap();
        let differ =
            (1..5).any(|failures| backoff(Duration::from_secs(60), failures, &other).num_seconds() != pause(failures));
        assert!(differ);
    }

    #[test]
    fn a_query_that_selects_nothing_is_said_in_words() {
        let looked = |selected, open_items| Looked {
            selected,
            open_items,
            ..Looked::default()
        };
        assert_eq!(
            looked(Some(0), Some(7)).selection(),
            "0 of 7 open issues are selected; check the query"
        );
        assert_eq!(looked(Some(0), Some(0)).selection(), "0 of 0 open issues are selected");
        assert_eq!(looked(Some(1), None).selection(), "1 open issue is selected");
        assert_eq!(looked(None, None).selection(), "not read yet");
    }
}
