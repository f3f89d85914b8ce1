//! Whether there is room for another issue: how many are at work, what the day cost, how many pull
//! requests of ours wait for people. Called by a look. Never begins anything.

use super::Autotask;
use super::look::Stopped;
use crate::money::Usd;
use crate::store::RepoRow;
use chrono::{DateTime, Utc};

/// What is left of the caps.
pub(super) struct Room {
    active: u32,
    max_active: u32,
    /// Open pull requests of ours; nothing without a cap.
    pulls: Option<u32>,
    max_pulls: u32,
    /// What the day cost, where that is too much already.
    overspent: Option<(Usd, Usd)>,
}

impl Room {
    /// Asks the database, and the forge only where the answer may matter.
    pub(super) async fn find(autotask: &Autotask, repo: &RepoRow, now: DateTime<Utc>) -> Result<Self, Stopped> {
        let config = &autotask.config;
        let mut tx = autotask.store.begin().await?;
        let active = tx.queue_jobs_open(repo.id).await?;
        let spent = tx.queue_spent(repo.id, now).await?;
        drop(tx);
        let cap = Usd::from_dollars(config.max_day_usd);
        let mut room = Self {
            active,
            max_active: config.max_active,
            pulls: None,
            max_pulls: config.max_open_pulls,
            overspent: (cap > Usd::ZERO && spent >= cap).then_some((spent, cap)),
        };
        if config.max_open_pulls > 0 && room.lacks().is_none() {
            room.pulls = Some(autotask.source.open_pulls(repo, config.max_open_pulls).await?);
        }
        Ok(room)
    }

    /// Why nothing more may begin.
    pub(super) fn lacks(&self) -> Option<String> {
        if let Some((spent, cap)) = self.overspent {
            return Some(format!("autotask.max_day_usd: {spent} of {cap} are spent today (UTC)"));
        }
        if self.active >= self.max_active {
            return Some(format!(
                "autotask.max_active: {} of {} issues are at work",
                self.active, self.max_active
            ));
        }
        // What is at work may end in a pull request each.
        let pulls = self.pulls?;
        let coming = pulls.saturating_add(self.active);
        (coming >= self.max_pulls).then(|| {
            format!(
                "autotask.max_open_pulls: {pulls} of {} pull requests are open, {} at work",
                self.max_pulls, self.active
            )
        })
    }

    /// Another one is at work.
    pub(super) fn take(&mut self) {
        self.active += 1;
    }
}
