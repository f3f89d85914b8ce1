//! One process among several runs what needs only one: it holds a row for a term and renews it. What
//! it runs is safe to run twice all the same; the election keeps several processes from asking
//! GitHub the same questions. Called by `app`.
//! Never goes on with the work when it may not be the leader any more.

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Pulse, Queue};
use crate::clock::boot_time;
use crate::store::StoreError;

/// Longest wait for work that was told to end, before it is dropped.
const PATIENCE: Duration = Duration::from_secs(10);

impl Queue {
    /// Runs `work` whenever this process leads under `name`, until `stop`. Its token is cancelled
    /// when the term ends.
    pub async fn lead<F>(&self, name: &str, stop: &CancellationToken, work: impl Fn(CancellationToken) -> F)
    where
        F: Future<Output = ()>,
    {
        while !stop.is_cancelled() {
            match self.elected(name).await {
                Ok(Some(term)) => {
                    tracing::debug!(name, term, "this process leads");
                    self.reign(name, stop, &work).await;
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(name, %error, "it is not known who leads"),
            }
            tokio::select! {
                () = tokio::time::sleep(self.config.heartbeat_seconds) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Works until the term is lost or `stop`; then lets others lead.
    async fn reign<F>(&self, name: &str, stop: &CancellationToken, work: impl Fn(CancellationToken) -> F)
    where
        F: Future<Output = ()>,
    {
        let term = stop.child_token();
        let mut working = std::pin::pin!(work(term.clone()));
        tokio::select! {
            () = &mut working => {}
            () = self.renewed(name) => {
                tracing::warn!(name, "another process leads now, or may");
                term.cancel();
                // What does not end in time is dropped where it stands; its rows decide.
                let _ = tokio::time::timeout(PATIENCE, working).await;
                return;
            }
        }
        let resigned = async {
            let mut tx = self.store.begin().await?;
            tx.resign(name, &self.owner).await?;
            tx.commit().await
        };
        if let Err(error) = resigned.await {
            tracing::debug!(%error, "the term ends by itself");
        }
    }

    /// Returns when the term is lost, or may be.
    async fn renewed(&self, name: &str) {
        let pulse = Pulse::new(self.silence_limit());
        loop {
            tokio::time::sleep(self.config.heartbeat_seconds).await;
            let begun = boot_time();
            let answer = tokio::time::timeout(self.config.heartbeat_seconds, self.elected(name)).await;
            match answer {
                Ok(Ok(Some(_))) => pulse.beat(begun),
                Ok(Ok(None)) => return,
                Ok(Err(_)) | Err(_) => {}
            }
            if !pulse.is_alive() {
                return;
            }
        }
    }

    async fn elected(&self, name: &str) -> Result<Option<i64>, StoreError> {
        let mut tx = self.store.begin().await?;
        let term = tx.lead(name, &self.owner, self.config.lease_seconds).await?;
        tx.commit().await?;
        Ok(term)
    }
}
