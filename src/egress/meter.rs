//! What a run may send and receive in all, how fast and over how many connections. Called for each
//! piece that passes. Never gives back what was used: the caps are for the whole run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::refusal::Refusal;
use crate::text::bytes_in_words;

/// Requests and tunnels of one run in all; installing a large project takes some thousands.
const MAX_REQUESTS: u64 = 20_000;

/// How far ahead of the rate a burst may be.
const BURST: Duration = Duration::from_millis(200);

/// The caps.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    /// Bytes out of the sandbox.
    pub(super) upload: u64,
    /// Bytes into it.
    pub(super) download: u64,
    /// Connections at once.
    pub(super) connections: usize,
    /// Bytes a second, both ways together.
    pub(super) rate: u64,
    /// Longest life of one connection.
    pub(super) connection_time: Duration,
}

/// What was used of them.
#[derive(Debug)]
pub(super) struct Meter {
    limits: Limits,
    sent: AtomicU64,
    received: AtomicU64,
    requests: AtomicU64,
    places: Arc<Semaphore>,
    /// When the bytes so far are through, at the rate.
    through: Mutex<Instant>,
}

impl Meter {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            places: Arc::new(Semaphore::new(limits.connections)),
            limits,
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            through: Mutex::new(Instant::now()),
        }
    }

    /// A place among the connections; nothing when all are taken.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }

    pub(super) fn connection_time(&self) -> Duration {
        self.limits.connection_time
    }

    /// Counts a request.
    pub(super) fn request(&self) -> Result<(), Refusal> {
        let before = self.requests.fetch_add(1, Ordering::Relaxed);
        match before < MAX_REQUESTS {
            true => Ok(()),
            false => Err(Refusal::Spent(format!(
                "this run has made {MAX_REQUESTS} requests, which is all it may"
            ))),
        }
    }

    /// Counts bytes that leave the sandbox, before they do.
    pub(super) fn sent(&self, bytes: usize) -> Result<(), Refusal> {
        let cap = self.limits.upload;
        within(&self.sent, bytes, cap)
            .map_err(|()| Refusal::Spent(format!("this run may send {}, and has", bytes_in_words(cap))))
    }

    /// Counts bytes that come in, before they are handed on.
    pub(super) fn received(&self, bytes: usize) -> Result<(), Refusal> {
        let cap = self.limits.download;
        within(&self.received, bytes, cap)
            .map_err(|()| Refusal::Spent(format!("this run may receive {}, and has", bytes_in_words(cap))))
    }

    /// Sent, received, requests.
    pub(super) fn totals(&self) -> (u64, u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (
            read(&self.sent).min(self.limits.upload),
            read(&self.received).min(self.limits.download),
            read(&self.requests).min(MAX_REQUESTS),
        )
    }

    /// Waits as long as the rate demands after so many bytes.
    pub(super) async fn pace(&self, bytes: usize) {
        let now = Instant::now();
        let until = {
            let mut through = self.through.lock().unwrap_or_else(PoisonError::into_inner);
            *through = through_at(*through, now, bytes, self.limits.rate);
            *through
        };
        if until.saturating_duration_since(now) > BURST {
            tokio::time::sleep_until(until - BURST).await;
        }
    }
}

/// When so many more bytes are through.
fn through_at(through: Instant, now: Instant, bytes: usize, rate: u64) -> Instant {
    through.max(now) + Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64)
}

fn within(counter: &AtomicU64, bytes: usize, cap: u64) -> Result<(), ()> {
    let bytes = bytes as u64;
    let before = counter.fetch_add(bytes, Ordering::Relaxed);
    if before.saturating_add(bytes) <= cap {
        Ok(())
    } else {
        Err(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(upload: u64, connections: usize) -> Meter {
        Meter::new(Limits {
            upload,
            download: 10,
            connections,
            rate: 1_000,
            connection_time: Duration::from_secs(1),
        })
    }

    #[test]
    fn n11_caps_hold_for_the_whole_run() {
        let meter = meter(5, 2);
        assert!(meter.sent(3).is_ok() && meter.sent(2).is_ok());
        assert!(meter.sent(1).is_err() && meter.sent(0).is_err(), "nothing comes back");
        assert!(meter.received(10).is_ok() && meter.received(1).is_err());
        assert_eq!(meter.totals(), (5, 10, 0));
    }

    #[test]
    fn n11_connections_and_requests_are_counted() {
        let meter = meter(0, 2);
        let (first, second) = (meter.place(), meter.place());
        assert!(first.is_some() && second.is_some() && meter.place().is_none());
        drop(first);
        assert!(meter.place().is_some());
        assert!((0..MAX_REQUESTS).all(|_| meter.request().is_ok()));
        assert!(meter.request().is_err());
    }

    #[test]
    fn n11_bytes_pass_at_the_rate() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut through = start;
        for _ in 0..10 {
            through = through_at(through, start, 1_000, 1_000);
        }
        assert_eq!(through - start, 10 * second);
        let idle = start + 60 * second;
        assert_eq!(
            through_at(through, idle, 500, 1_000),
            idle + second / 2,
            "time that was not used is gone"
        );
    }
}
