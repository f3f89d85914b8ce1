//! Looks into GitHub's log of webhook calls for those that did not arrive, and accepts them as if
//! they had: after a downtime, and all the time on a machine that GitHub cannot reach. What
//! arrived in another way is known by its GUID and its meaning. A row says since when nothing was seen,
//! and gives each look to one process. Never starts work by itself.

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::github::{GitHub, GitHubError, LoggedDelivery};
use crate::intake::{Delivery, Rules, Verdict, accept};
use crate::store::{Look, LookAt, Store, StoreError};

/// GitHub keeps its log for three days: so far back looks the first look ever.
const LOG_LIFE: TimeDelta = TimeDelta::days(3);
/// GitHub Enterprise Server keeps it longer; deliveries are known again for longer than that.
const LONGEST_LOG_LIFE: TimeDelta = TimeDelta::days(7);
/// How far the next look reaches back behind the last one: calls may be logged late.
const OVERLAP: TimeDelta = TimeDelta::minutes(10);
/// Most calls listed at one look: two hundred pages.
const MAX_LISTED: usize = 20_000;
/// Longest time between two looks of one process after another has looked.
const LONGEST_PAUSE: TimeDelta = TimeDelta::hours(1);
/// Events that something is made of; the payloads of others are not fetched.
const EVENTS: [&str; 11] = [
    "issues",
    "issue_comment",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "installation",
    "installation_repositories",
    "repository",
    "check_run",
    "check_suite",
    "status",
];

/// Reads the log again and again.
pub struct Poll {
    /// Whose log.
    pub github: GitHub,
    /// Where deliveries go.
    pub store: Store,
    /// What triage goes by.
    pub rules: Rules,
    /// The time.
    pub clock: Clock,
    /// Time between two looks.
    pub every: Duration,
}

impl Poll {
    /// Looks until `stop`.
    pub async fn run(&self, stop: &CancellationToken) {
        // A process that has just begun does not wait for what another one put off.
        let mut ahead = LONGEST_PAUSE + self.pause();
        while !stop.is_cancelled() {
            match self.turn(ahead).await {
                Ok(0) => {}
                Ok(missed) => tracing::info!(
                    missed,
                    "webhook calls that had not arrived were taken from GitHub's log"
                ),
                Err(error) => tracing::warn!(%error, "GitHub's log of webhook calls could not be looked at"),
            }
            ahead = TimeDelta::zero();
            tokio::select! {
                () = tokio::time::sleep(self.every) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// One look, if it is this process's turn; returns how many missed calls were accepted.
    async fn turn(&self, ahead: TimeDelta) -> Result<usize, StoreError> {
        let begun = self.clock.now();
        let mut tx = self.store.begin().await?;
        let taken = tx
            .take_look(LookAt::Log, begun + ahead, begun + self.pause(), begun - LOG_LIFE)
            .await?;
        let Some(mut look) = taken else { return Ok(0) };
        tx.commit().await?;
        let mut accepted = 0;
        let since = (look.seen_to - OVERLAP).max(begun - LONGEST_LOG_LIFE);
        match self.look(since, &mut accepted).await {
            Ok(()) => {
                look.seen_to = begun;
                look.looked_at = Some(begun);
                (look.failures, look.problem) = (0, None);
            }
            Err(PollError::Store(error)) => return Err(error),
            Err(PollError::GitHub(error)) => self.put_off(&mut look, &error),
        }
        let mut tx = self.store.begin().await?;
        tx.note_look(LookAt::Log, &look).await?;
        tx.commit().await?;
        Ok(accepted)
    }

    /// The next look begins where this one began.
    fn put_off(&self, look: &mut Look, error: &GitHubError) {
        if let GitHubError::RateLimited { until, .. } = error {
            look.next_at = look.next_at.max(*until);
        }
        look.failures = look.failures.saturating_add(1);
        look.problem = Some(error.to_string());
        // Where the log cannot be read at all, looks at the repositories find what is missing.
        match look.failures {
            1 => tracing::warn!(%error, "GitHub's log of webhook calls could not be read"),
            failures => tracing::debug!(%error, failures, "GitHub's log of webhook calls could not be read"),
        }
    }

    fn pause(&self) -> TimeDelta {
        TimeDelta::from_std(self.every)
            .unwrap_or(LONGEST_PAUSE)
            .min(LONGEST_PAUSE)
    }

    /// Reads the log since a time. One call that cannot be read holds up no other.
    async fn look(&self, since: DateTime<Utc>, accepted: &mut usize) -> Result<(), PollError> {
        let mut logged = self.github.deliveries(since, MAX_LISTED).await?;
        if logged.len() >= MAX_LISTED {
            tracing::warn!("GitHub's log is longer than one look reads; repositories are looked at for the rest");
        }
        // Oldest first, so that they are accepted in their order.
        logged.reverse();
        let arrived: HashSet<&str> = logged
            .iter()
            .filter(|delivery| delivery.arrived())
            .map(|delivery| delivery.guid.as_str())
            .collect();
        let mut unread = None;
        for delivery in &logged {
            let wanted = !arrived.contains(delivery.guid.as_str()) && is_of_use(delivery);
            if !wanted || self.is_known(delivery).await? {
                continue;
            }
            match self.take(delivery).await {
                Ok(is_news) => *accepted += usize::from(is_news),
                Err(PollError::GitHub(error)) if !matches!(error, GitHubError::RateLimited { .. }) => {
                    unread = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        unread.map_or(Ok(()), |error| Err(error.into()))
    }

    async fn is_known(&self, logged: &LoggedDelivery) -> Result<bool, PollError> {
        let mut tx = self.store.begin().await?;
        Ok(tx.delivery(&logged.guid).await?.is_some())
    }

    async fn take(&self, logged: &LoggedDelivery) -> Result<bool, PollError> {
        let body = match self.github.delivery_payload(logged.id).await {
            Ok(body) => body,
            // It fell out of the log meanwhile.
            Err(GitHubError::NotFound { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        match Delivery::parse(&logged.guid, &logged.event, body.into_bytes(), logged.delivered_at) {
            Ok(delivery) => {
                let accepted = accept(&self.store, &delivery, &self.rules).await?;
                Ok(accepted.verdict != Verdict::Duplicate)
            }
            Err(problem) => {
                tracing::warn!(guid = logged.guid, %problem, "a logged webhook call cannot be read");
                Ok(false)
            }
        }
    }
}

/// Whether something may be made of it. Of checks, which are many, only their ends.
fn is_of_use(logged: &LoggedDelivery) -> bool {
    let is_over = !logged.event.starts_with("check_") || logged.action.as_deref() == Some("completed");
    is_over && EVENTS.contains(&logged.event.as_str())
}

/// Why a look ended early; the next one begins where it began.
#[derive(Debug, thiserror::Error)]
enum PollError {
    #[error(transparent)]
    GitHub(#[from] GitHubError),
    #[error(transparent)]
    Store(#[from] StoreError),
}
