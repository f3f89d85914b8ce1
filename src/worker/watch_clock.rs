//! Watches the clock that judges leases, which is the database's. When it jumps, leases seem to be over
//! whose workers are well, or seem to last for hours whose workers are gone. Called by maintenance
//! at each look for ended leases. Never judges a lease, and never looks at this machine's wall clock.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::clock::boot_time;
use crate::queue::Queue;
use crate::store::{Recovery, StoreError};

/// A clock that is put right by a time server moves by less; a slow answer looks like a jump, too.
const JUMP: TimeDelta = TimeDelta::seconds(5);

/// What has been seen of a clock.
pub struct WatchClock {
    /// The time that passes between a jump and the next recovery: workers notice within it that their
    /// lease is over, and stop.
    pause: Duration,
    /// The clock's time when the machine booted, as it was last seen.
    began: Option<DateTime<Utc>>,
    suspended_until: Duration,
}

impl WatchClock {
    /// Nothing is seen yet. `lease` is how long a lease lasts.
    pub fn new(lease: Duration) -> Self {
        Self {
            pause: lease,
            began: None,
            suspended_until: Duration::ZERO,
        }
    }

    /// Takes back ended leases, unless the clock is not to be trusted now. Also shortens leases that last
    /// longer than any can, because the clock went back.
    ///
    /// # Errors
    /// Of the database.
    pub async fn recover(&mut self, queue: &Queue) -> Result<Vec<Recovery>, StoreError> {
        let (now, shortened) = queue.clamp_leases().await?;
        if shortened > 0 {
            tracing::warn!(
                leases = shortened,
                "the database's clock went back; leases that seemed to last on were shortened"
            );
        }
        let boot = boot_time();
        if let Some(by) = self.see(now, boot) {
            tracing::warn!(
                seconds = by.num_seconds(),
                pause = ?self.pause,
                "the database's clock jumped; ended leases are not taken back for a while"
            );
            metrics::counter!("forgehand_clock_jumps_total").increment(1);
        }
        if boot < self.suspended_until {
            return Ok(Vec::new());
        }
        queue.recover().await
    }

    /// By how much the clock jumped since it was last seen, if it did.
    fn see(&mut self, now: DateTime<Utc>, boot: Duration) -> Option<TimeDelta> {
        let began = now - TimeDelta::from_std(boot).unwrap_or_default();
        let by = began - self.began.replace(began)?;
        if by.abs() <= JUMP {
            return None;
        }
        self.suspended_until = boot + self.pause;
        Some(by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(60);

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    /// A clock that is seen every ten seconds and jumps once; gives whether recovery is suspended right
    /// after the jump, and for how many of these looks.
    #[track_caller]
    fn check(before: &str, after: &str, jumps: bool) {
        let mut watch = WatchClock::new(LEASE);
        let mut boot = Duration::from_secs(1_000);
        for seen in [at(before) - TimeDelta::seconds(10), at(before)] {
            assert_eq!(watch.see(seen, boot), None, "{before}");
            boot += Duration::from_secs(10);
        }
        assert!(boot >= watch.suspended_until);
        let mut now = at(after);
        assert_eq!(watch.see(now, boot).is_some(), jumps, "{before} {after}");
        let mut looks = 0;
        while boot < watch.suspended_until {
            boot += Duration::from_secs(10);
            now += TimeDelta::seconds(10);
            looks += 1;
            assert_eq!(watch.see(now, boot), None, "one jump is told once");
        }
        assert_eq!(looks, if jumps { 6 } else { 0 }, "{before} {after}");
    }

    #[test]
    fn fi8_jumps_are_told_from_the_passing_of_time() {
        let noon = "2026-03-10T12:00:00Z";
        check(noon, "2026-03-10T12:00:10Z", false);
        check(noon, "2026-03-10T12:00:14Z", false);
        check(noon, "2026-03-10T12:00:06Z", false);
        check(noon, "2026-03-10T12:00:40Z", true);
        check(noon, "2026-03-10T11:59:40Z", true);
        check(noon, "2026-03-10T13:00:10Z", true);
        check(noon, "2026-03-10T11:00:10Z", true);
        check(noon, "1970-01-01T00:00:10Z", true);
        check("1970-01-01T00:00:00Z", noon, true);
        // Summer time is no affair of a clock that shows UTC, nor is the length of a year.
        check("2026-03-29T00:59:55Z", "2026-03-29T01:00:05Z", false);
        check("2028-02-28T23:59:55Z", "2028-02-29T00:00:05Z", false);
        check("2028-02-29T23:59:55Z", "2028-03-01T00:00:05Z", false);
    }

    #[test]
    fn fi8_a_clock_that_runs_ten_times_as_fast_is_never_trusted() {
        let mut watch = WatchClock::new(LEASE);
        let (mut now, mut boot) = (at("2026-03-10T12:00:00Z"), Duration::from_secs(1_000));
        watch.see(now, boot);
        for _ in 0..20 {
            now += TimeDelta::seconds(100);
            boot += Duration::from_secs(10);
            assert!(watch.see(now, boot).is_some());
            assert!(boot < watch.suspended_until);
        }
    }
}
