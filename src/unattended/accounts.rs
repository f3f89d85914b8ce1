//! The loop that keeps the ledger: records of jobs that are over, alerts that are due, and old records
//! into files. Several processes may run it; rows decide who does what. Never ends because something
//! failed.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use chrono::TimeDelta;
use tokio_util::sync::CancellationToken;

use super::{Alerts, ledger};
use crate::clock::Clock;
use crate::store::Store;

/// Time between two looks for records that are old.
const ROTATE_EVERY: Duration = Duration::from_secs(3_600);

/// What the loop needs.
pub struct Accounts {
    /// The database.
    pub store: Store,
    /// Who is told.
    pub alerts: Alerts,
    /// Where old records go.
    pub state_dir: PathBuf,
    /// How long records stay in the database, in days.
    pub keep_days: u32,
    /// Time between two passes.
    pub pause: Duration,
    /// The time.
    pub clock: Clock,
}

impl Accounts {
    /// Passes until `stop`. Alerts are sent beside the records: a receiver that is slow holds up nothing
    /// else.
    pub async fn run(&self, stop: &CancellationToken) {
        tokio::join!(self.keep(stop), self.send(stop));
    }

    async fn keep(&self, stop: &CancellationToken) {
        let mut rotated: Option<Instant> = None;
        while !stop.is_cancelled() {
            let keep = TimeDelta::days(i64::from(self.keep_days));
            if let Err(error) = ledger::account(&self.store, &self.alerts, keep, &self.clock).await {
                tracing::warn!(%error, "records of unattended runs could not be written");
            }
            if rotated.is_none_or(|at| at.elapsed() >= ROTATE_EVERY) {
                rotated = Some(Instant::now());
                match ledger::rotate(&self.store, &self.state_dir, keep, &self.clock).await {
                    Ok(0) => {}
                    Ok(moved) => tracing::info!(moved, "old records of unattended runs were moved to files"),
                    Err(error) => tracing::warn!(%error, "old records of unattended runs were not moved"),
                }
            }
            self.rest(stop).await;
        }
    }

    async fn send(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            tokio::select! {
                sent = self.alerts.send_due(&self.store, &self.clock) => {
                    if let Err(error) = sent {
                        tracing::warn!(%error, "alerts could not be looked for");
                    }
                }
                // A try that is broken off is made again.
                () = stop.cancelled() => return,
            }
            self.rest(stop).await;
        }
    }

    async fn rest(&self, stop: &CancellationToken) {
        tokio::select! {
            () = tokio::time::sleep(self.pause) => {}
            () = stop.cancelled() => {}
        }
    }
}
