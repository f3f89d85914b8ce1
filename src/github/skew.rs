//! How far our clock is from GitHub's, by the `Date` of its answers. What we sign about ourselves holds
//! for minutes by GitHub's clock, so that a clock that is wrong by more makes the App a stranger.
//! Called by the client with every answer, by readiness and by `doctor`. Never corrects a clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::clock::boot_time;

/// A clock that is kept by a time server is never off by this much.
const WORTH_A_WARNING: TimeDelta = TimeDelta::seconds(30);

/// With more, calls in the App's name are refused or soon will be.
const TOO_MUCH: TimeDelta = TimeDelta::seconds(120);

/// What was measured longer ago says nothing about the clock of today.
const GOOD_FOR: Duration = Duration::from_secs(10 * 60);

/// `Date` has no fractions of a second.
const TICK: TimeDelta = TimeDelta::seconds(1);

/// The last measurement. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Skew {
    last: Arc<Mutex<Option<Measured>>>,
}

#[derive(Debug, Clone, Copy)]
struct Measured {
    ahead: TimeDelta,
    at: Duration,
}

/// What a measurement means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockState {
    /// Nothing was measured lately.
    Unknown,
    /// The clocks agree well enough.
    Right,
    /// Our clock is ahead by this much (or behind, when negative): to be put right.
    Off(TimeDelta),
    /// The same, by so much that GitHub does not believe us.
    Wrong(TimeDelta),
}

impl Skew {
    /// How our clock is.
    pub fn state(&self) -> ClockState {
        let last = *self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match last {
            Some(measured) if boot_time().saturating_sub(measured.at) <= GOOD_FOR => judged(measured.ahead),
            _ => ClockState::Unknown,
        }
    }

    /// An answer to a call that was sent and answered at these times by our clock.
    pub(super) fn note(&self, date: Option<&str>, sent: DateTime<Utc>, answered: DateTime<Utc>) {
        let Some(theirs) = date.and_then(|text| DateTime::parse_from_rfc2822(text).ok()) else {
            return;
        };
        let ahead = ahead(theirs.to_utc(), sent, answered);
        let measured = Measured { ahead, at: boot_time() };
        let before = self
            .last
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .replace(measured);
        let before = before.map_or(ClockState::Unknown, |before| judged(before.ahead));
        let now = judged(ahead);
        // Each answer says it again; one line for each change is enough.
        if std::mem::discriminant(&before) == std::mem::discriminant(&now) {
            return;
        }
        match now {
            ClockState::Off(by) => tracing::warn!(
                seconds_ahead = by.num_seconds(),
                "this machine's clock differs from GitHub's; keep it with a time server"
            ),
            ClockState::Wrong(by) => tracing::error!(
                seconds_ahead = by.num_seconds(),
                "this machine's clock is wrong: GitHub refuses what we sign; set it with a time server"
            ),
            ClockState::Right if before != ClockState::Unknown => {
                tracing::info!("this machine's clock agrees with GitHub's again");
            }
            ClockState::Right | ClockState::Unknown => {}
        }
    }
}

fn judged(ahead: TimeDelta) -> ClockState {
    if ahead.abs() > TOO_MUCH {
        ClockState::Wrong(ahead)
    } else if ahead.abs() > WORTH_A_WARNING {
        ClockState::Off(ahead)
    } else {
        ClockState::Right
    }
}

/// By how much our clock is ahead at least: GitHub looked at its own between sending and answering.
fn ahead(theirs: DateTime<Utc>, sent: DateTime<Utc>, answered: DateTime<Utc>) -> TimeDelta {
    if theirs > answered {
        answered - theirs
    } else if theirs + TICK < sent {
        sent - (theirs + TICK)
    } else {
        TimeDelta::zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(date: &str, sent: &str, answered: &str, expected: ClockState) {
        let skew = Skew::default();
        skew.note(Some(date), sent.parse().unwrap(), answered.parse().unwrap());
        assert_eq!(skew.state(), expected, "{date} {sent} {answered}");
    }

    #[test]
    fn fi8_the_clock_of_github_says_how_ours_is() {
        let date = "Tue, 10 Mar 2026 12:00:00 GMT";
        use ClockState::{Off, Right, Wrong};
        check(date, "2026-03-10T12:00:00.2Z", "2026-03-10T12:00:00.4Z", Right);
        // A slow answer is no wrong clock.
        check(date, "2026-03-10T11:59:20Z", "2026-03-10T12:00:30Z", Right);
        check(date, "2026-03-10T12:00:31Z", "2026-03-10T12:00:31Z", Right);
        let by = TimeDelta::seconds;
        check(date, "2026-03-10T12:00:32Z", "2026-03-10T12:00:32Z", Off(by(31)));
        check(date, "2026-03-10T11:59:29Z", "2026-03-10T11:59:29Z", Off(by(-31)));
        check(date, "2026-03-10T12:02:01Z", "2026-03-10T12:02:01Z", Off(by(120)));
        check(date, "2026-03-10T13:00:01Z", "2026-03-10T13:00:01Z", Wrong(by(3600)));
        check(date, "2026-03-10T11:00:00Z", "2026-03-10T11:00:00Z", Wrong(by(-3600)));
        check(
            date,
            "1970-01-01T00:00:00Z",
            "1970-01-01T00:00:01Z",
            Wrong(by(1 - 1_773_144_000)),
        );
    }

    #[test]
    fn what_is_no_date_is_not_measured() {
        let skew = Skew::default();
        let now = "2026-03-10T12:00:00Z".parse().unwrap();
        for date in [None, Some(""), Some("yesterday"), Some("2026-03-10")] {
            skew.note(date, now, now);
            assert_eq!(skew.state(), ClockState::Unknown, "{date:?}");
        }
    }
}
