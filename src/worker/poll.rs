//! Looks into GitHub's log of webhook calls for those that did not arrive, and accepts them as if
//! they had: after a downtime, and all the time on a machine that GitHub cannot reach. What
//! arrived in another way is known by its GUID and its meaning. Never starts work by itself.

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::github::{GitHub, GitHubError, LoggedDelivery};
use crate::intake::{Delivery, Rules, accept};
use crate::store::{Store, StoreError};

/// GitHub keeps its log for three days.
const LOG_LIFE: TimeDelta = TimeDelta::days(3);
/// How far the next look reaches back behind the last one: calls may be logged late.
const OVERLAP: TimeDelta = TimeDelta::minutes(10);
/// Most calls listed at one look.
const MAX_LISTED: usize = 5_000;
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
        let mut since = self.clock.now() - LOG_LIFE;
        while !stop.is_cancelled() {
            let begun = self.clock.now();
            match self.look(since).await {
                Ok(0) => since = begun - OVERLAP,
                Ok(missed) => {
                    since = begun - OVERLAP;
                    tracing::info!(
                        missed,
                        "webhook calls that had not arrived were taken from GitHub's log"
                    );
                }
                Err(error) => tracing::warn!(%error, "GitHub's log of webhook calls could not be read"),
            }
            tokio::select! {
                () = tokio::time::sleep(self.every) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// One look; returns how many missed calls were accepted.
    async fn look(&self, since: DateTime<Utc>) -> Result<usize, PollError> {
        let mut logged = self.github.deliveries(since, MAX_LISTED).await?;
        // Oldest first, so that they are accepted in their order.
        logged.reverse();
        let arrived: HashSet<&str> = logged
            .iter()
            .filter(|delivery| delivery.arrived())
            .map(|delivery| delivery.guid.as_str())
            .collect();
        let mut accepted = 0;
        for delivery in &logged {
            let wanted = !arrived.contains(delivery.guid.as_str()) && is_of_use(delivery);
            if wanted && !self.is_known(delivery).await? {
                accepted += usize::from(self.take(delivery).await?);
            }
        }
        Ok(accepted)
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
                accept(&self.store, &delivery, &self.rules).await?;
                Ok(true)
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
