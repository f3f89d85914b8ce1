//! Keeps a job's lease alive while it is worked on, and learns that it was cancelled. Ends only
//! when the lease is lost; then the work is dropped. Never extends a lease it did not get.

use std::sync::atomic::Ordering;

use tokio_util::sync::CancellationToken;

use super::InHand;
use crate::clock::boot_time;
use crate::queue::Queue;
use crate::store::StoreError;

/// Returns when the lease is lost or may be.
pub(super) async fn keep_alive(queue: &Queue, in_hand: &InHand<'_>, drain: &CancellationToken) {
    let mut draining = false;
    loop {
        tokio::select! {
            () = tokio::time::sleep(queue.config().heartbeat_seconds) => {}
            () = drain.cancelled(), if !draining => {
                draining = true;
                in_hand.cancel.cancel();
            }
        }
        if in_hand.released.load(Ordering::SeqCst) {
            // What is left is tidying up, which needs no lease.
            return std::future::pending().await;
        }
        let begun = boot_time();
        // A database that does not answer must not keep us from noticing that the lease is over.
        let answer = tokio::time::timeout(queue.config().heartbeat_seconds, queue.heartbeat(&in_hand.leased.lease));
        let answer = answer
            .await
            .unwrap_or_else(|_| Err(StoreError::Unavailable("no answer within a heartbeat".to_owned())));
        match answer {
            Ok(heartbeat) => {
                in_hand.pulse.beat(begun);
                if heartbeat.cancel_requested && !in_hand.cancelled_by_person.swap(true, Ordering::SeqCst) {
                    tracing::info!("the job was asked to stop");
                    in_hand.cancel.cancel();
                }
            }
            Err(StoreError::LeaseLost(_)) => return in_hand.cancel.cancel(),
            Err(error) => tracing::warn!(%error, "a heartbeat failed"),
        }
        if !in_hand.pulse.is_alive() {
            return in_hand.cancel.cancel();
        }
    }
}
