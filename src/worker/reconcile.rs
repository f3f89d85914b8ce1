//! Looks at the repositories themselves for what neither a webhook nor GitHub's log of them told:
//! labels, comments, reviews, closed issues, and what is gone. What is found becomes the delivery that
//! did not arrive and is accepted like it. Runs in the scheduler's role, in several processes at once if
//! need be: rows give each repository to one at a time.
//! Never starts anything itself, and never asks whether somebody may: the job does.

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::github::{Access, GitHub, GitHubError};
use crate::intake::{Rebuilder, Repo, Rules};
use crate::store::{Look, LookAt, RepoRow, Store, StoreError};

mod gone;
mod visit;

use visit::{Calls, Stopped, Visit};

/// How far a look reaches back behind what the last one saw: GitHub's lists may lag.
const OVERLAP: TimeDelta = TimeDelta::seconds(60);
/// Most repositories that one pass looks at; the rest have their turn in the next.
const MAX_REPOS: u32 = 500;
/// Most calls of one pass: a small part of what an installation may do in an hour.
const MAX_CALLS: u32 = 400;
/// Longest pause after looks that failed.
const LONGEST_PAUSE: TimeDelta = TimeDelta::hours(1);

/// Looks again and again.
pub struct Reconcile {
    /// Where it looks.
    pub github: GitHub,
    /// Where deliveries go.
    pub store: Store,
    /// What triage goes by.
    pub rules: Rules,
    /// The time.
    pub clock: Clock,
    /// Time between two looks at a repository.
    pub every: Duration,
}

/// Which repositories a pass looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// All: this process has just begun.
    First,
    /// Those whose time has come.
    Usual,
}

impl Reconcile {
    /// Looks until `stop`.
    pub async fn run(&self, stop: &CancellationToken) {
        let mut pass = Pass::First;
        while !stop.is_cancelled() {
            let found = tokio::select! {
                found = self.pass(pass) => found,
                () = stop.cancelled() => return,
            };
            match found {
                Ok(0) => {}
                Ok(found) => tracing::info!(found, "events that no webhook told of were found on GitHub"),
                Err(error) => tracing::warn!(%error, "repositories could not be looked at"),
            }
            pass = Pass::Usual;
            tokio::select! {
                () = tokio::time::sleep(self.every) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// One pass; returns how many events were found that nobody had told of.
    ///
    /// # Errors
    /// Of the database; what GitHub does not show now is looked at again.
    pub async fn pass(&self, pass: Pass) -> Result<usize, StoreError> {
        let now = self.clock.now();
        // Also those that are put off for a while because looks at them failed.
        let due_by = match pass {
            Pass::First => now + LONGEST_PAUSE + self.pause(),
            Pass::Usual => now,
        };
        let repos = self.store.begin().await?.repos_to_look_at(due_by, MAX_REPOS).await?;
        let calls = Calls::new(MAX_CALLS);
        let mut limited = HashSet::new();
        let mut found = 0;
        for repo in repos {
            if calls.are_used_up() {
                break;
            }
            if limited.contains(&repo.installation) {
                continue;
            }
            let mut tx = self.store.begin().await?;
            let at = LookAt::Repository(repo.id);
            let begins = match tx.look(at).await? {
                Some(look) => look.seen_to,
                None => tx.last_heard(repo.id).await?.unwrap_or(now - self.pause()) - OVERLAP,
            };
            let Some(look) = tx.take_look(at, due_by, now + self.pause(), begins).await? else {
                continue;
            };
            tx.commit().await?;
            let (seen, is_limited) = self.visit(&repo, look, pass, &calls).await?;
            found += seen;
            if is_limited {
                limited.insert(repo.installation);
            }
        }
        Ok(found)
    }

    /// Looks at one repository and notes how far. Returns what was found, and whether GitHub limits the
    /// installation's rate.
    async fn visit(
        &self,
        repo: &RepoRow,
        mut look: Look,
        pass: Pass,
        calls: &Calls,
    ) -> Result<(usize, bool), StoreError> {
        let now = self.clock.now();
        let (id, name) = (repo.id, repo.name.clone());
        let named = Repo { id, name: name.clone() };
        let rules = self.own_rules(repo).await?;
        let visit = Visit {
            store: &self.store,
            client: self.github.repo(repo.installation, id, name, Access::Read),
            rules: &rules,
            rebuilder: Rebuilder::new(&named, repo.installation, now),
            repo,
            since: look.seen_to,
            now,
            calls,
        };
        let mut outcome = (0, false);
        match visit.all(look.mark.as_deref(), pass).await {
            Ok(seen) => {
                look.seen_to = seen.to;
                look.mark = seen.mark;
                look.looked_at = Some(now);
                (look.failures, look.problem) = (0, None);
                // There is more than one look reads.
                if !seen.is_complete {
                    look.next_at = now;
                }
                outcome.0 = seen.found;
            }
            Err(Stopped::UsedUp) => look.next_at = now,
            Err(Stopped::Store(error)) => return Err(error),
            Err(Stopped::GitHub(error)) => {
                outcome.1 = matches!(error, GitHubError::RateLimited { .. });
                self.put_off(&mut look, &error, now);
                tracing::warn!(repo = %repo.name, %error, failures = look.failures, "a repository could not be looked at");
            }
        }
        let mut tx = self.store.begin().await?;
        tx.note_look(LookAt::Repository(id), &look).await?;
        tx.commit().await?;
        Ok(outcome)
    }

    fn put_off(&self, look: &mut Look, error: &GitHubError, now: DateTime<Utc>) {
        look.problem = Some(error.to_string());
        if let GitHubError::RateLimited { until, .. } = error {
            look.next_at = look.next_at.max(*until);
            return;
        }
        look.failures = look.failures.saturating_add(1);
        let doubled = self.pause() * (1 << look.failures.min(6));
        look.next_at = now + doubled.min(LONGEST_PAUSE);
    }

    async fn own_rules(&self, repo: &RepoRow) -> Result<Rules, StoreError> {
        Ok(Rules {
            own_label: self.store.begin().await?.repo_label(repo.id).await?,
            ..self.rules.clone()
        })
    }

    fn pause(&self) -> TimeDelta {
        TimeDelta::from_std(self.every)
            .unwrap_or(LONGEST_PAUSE)
            .min(LONGEST_PAUSE)
    }
}
