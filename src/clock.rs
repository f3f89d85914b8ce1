//! The one place that asks what time it is. Everything else takes a [`Clock`], so that a test
//! can move time by hand. Never used to judge a lease: that is the database's clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};

/// A source of the current time.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The machine's clock.
    System,
    /// A clock that moves only when told to.
    Manual(Arc<Mutex<DateTime<Utc>>>),
}

impl Clock {
    /// A clock that stands still at `at`.
    pub fn manual(at: DateTime<Utc>) -> Self {
        Clock::Manual(Arc::new(Mutex::new(at)))
    }

    /// The current time in UTC, to the microsecond (what both databases keep).
    #[allow(clippy::disallowed_methods)] // this is the file where the time is asked
    pub fn now(&self) -> DateTime<Utc> {
        let now = match self {
            Clock::System => Utc::now(),
            Clock::Manual(at) => *at.lock().unwrap_or_else(|poisoned| poisoned.into_inner()),
        };
        now.trunc_subsecs(6)
    }

    /// Moves a manual clock forward. The system's clock is not moved.
    pub fn advance(&self, by: Duration) {
        if let Clock::Manual(at) = self {
            let mut at = at.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            *at += TimeDelta::from_std(by).unwrap_or(TimeDelta::MAX);
        }
    }
}

/// Time since the machine booted, counting suspended time too, so that a worker notices that
/// its lease ran out while the machine slept. (`Instant` stops during suspend on Linux.)
pub fn boot_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// Calls `once` for as long as `FORGEHAND_TEST_FUZZ_SECONDS` says, or a moment, with a source of
/// chance whose seed is printed; `FORGEHAND_TEST_FUZZ_SEED` repeats one.
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests/run tells tests in the environment")]
pub(crate) fn fuzz(what: &str, mut once: impl FnMut(&mut fastrand::Rng)) {
    /// Enough to notice a test that is broken.
    const MOMENT: Duration = Duration::from_secs(2);
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seconds = number("FORGEHAND_TEST_FUZZ_SECONDS").map_or(MOMENT, Duration::from_secs);
    let seed = number("FORGEHAND_TEST_FUZZ_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("{what}: FORGEHAND_TEST_FUZZ_SEED={seed} repeats this");
    let (mut chance, end, mut rounds) = (fastrand::Rng::with_seed(seed), boot_time() + seconds, 0_u64);
    while rounds == 0 || boot_time() < end {
        once(&mut chance);
        rounds += 1;
    }
    println!("{what}: {rounds} rounds in {} s", seconds.as_secs());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let clock = Clock::manual(DateTime::UNIX_EPOCH);
        assert_eq!(clock.now(), clock.now());
        clock.advance(Duration::from_secs(5));
        assert_eq!(clock.now().timestamp(), 5);
    }

    #[test]
    fn boot_time_never_goes_back() {
        let before = boot_time();
        assert!(boot_time() >= before);
    }
}
