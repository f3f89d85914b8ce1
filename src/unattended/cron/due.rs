//! Which fires of a schedule lie between two looks, and which of them begins something. Pure.
//! Never more than a few, however long nobody looked.

use std::collections::VecDeque;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::schedule::{CatchUp, Schedule};

/// Most missed fires that are noted one by one.
const MAX_NOTED: usize = 50;

/// A fire that is looked at within this time was not missed: the service was started again, or busy.
const ON_TIME: TimeDelta = TimeDelta::seconds(60);

/// How far back is looked, the shorter first: an hour has few fires of any timetable, a year all of a
/// rare one.
const BACK: [TimeDelta; 5] = [
    TimeDelta::hours(1),
    TimeDelta::days(1),
    TimeDelta::days(7),
    TimeDelta::days(31),
    TimeDelta::days(3_000),
];

/// What a look found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// No fire.
    Nothing,
    /// At least one.
    Fires(Fires),
}

/// Fires, sorted by what becomes of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fires {
    /// Whether there were fires before those that are noted.
    pub(super) has_earlier: bool,
    /// Those that begin nothing.
    pub(super) missed: Vec<DateTime<Utc>>,
    /// The one that begins something.
    pub(super) last: Option<Last>,
}

/// The fire that begins something.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Last {
    pub(super) at: DateTime<Utc>,
    pub(super) on_time: OnTime,
}

/// Whether a fire is done at its time, or made up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnTime {
    Yes,
    No,
}

impl Due {
    /// The fires of a schedule after `seen`, up to and with `now`.
    /// A service that looks every `pause` is that late without anything having been missed.
    pub(super) fn of(schedule: &Schedule, seen: DateTime<Utc>, now: DateTime<Utc>, pause: Duration) -> Self {
        let (mut fires, has_earlier) = latest(schedule, seen, now);
        let Some(last) = fires.pop_back() else {
            return Due::Nothing;
        };
        let mut missed = Vec::from(fires);
        let late = ON_TIME + TimeDelta::from_std(pause).unwrap_or_default();
        let on_time = if now - last <= late { OnTime::Yes } else { OnTime::No };
        let last = match (on_time, schedule.catch_up) {
            (OnTime::No, CatchUp::None) => {
                missed.push(last);
                None
            }
            _ => Some(Last { at: last, on_time }),
        };
        Due::Fires(Fires {
            has_earlier,
            missed,
            last,
        })
    }
}

/// The latest fires between two times, and whether there were more before them.
fn latest(schedule: &Schedule, seen: DateTime<Utc>, now: DateTime<Utc>) -> (VecDeque<DateTime<Utc>>, bool) {
    let mut fires = VecDeque::new();
    for back in BACK {
        let after = seen.max(now - back);
        fires = schedule.timetable.fires_between(after, now, usize::MAX).into();
        if after == seen || fires.len() > MAX_NOTED {
            break;
        }
    }
    let mut has_earlier = false;
    // Those that are noted, and the one that begins something.
    while fires.len() > MAX_NOTED + 1 {
        fires.pop_front();
        has_earlier = true;
    }
    (fires, has_earlier)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Source, Written};

    fn schedule(cron: &str, catch_up: CatchUp) -> Schedule {
        let written = Written {
            name: Some("tidy".to_owned()),
            cron: Some(cron.to_owned()),
            timezone: "UTC".to_owned(),
            jitter_seconds: 0,
            repository: Some("octo/words".to_owned()),
            task: Some("Tidy up.".to_owned()),
            skill: None,
            graph: None,
            eval: None,
            min_mrr: 0,
            enabled: true,
            catch_up,
        };
        Schedule::parse(&written, Source::File).unwrap()
    }

    fn at(text: &str) -> DateTime<Utc> {
        format!("2026-03-{text}Z").parse().unwrap()
    }

    #[track_caller]
    fn check(cron: &str, catch_up: CatchUp, seen: &str, now: &str, missed: usize, last: Option<(&str, OnTime)>) {
        let due = Due::of(&schedule(cron, catch_up), at(seen), at(now), Duration::ZERO);
        let last = last.map(|(time, on_time)| Last { at: at(time), on_time });
        match due {
            Due::Nothing => assert_eq!((missed, last), (0, None)),
            Due::Fires(fires) => assert_eq!((fires.missed.len(), fires.last), (missed, last)),
        }
    }

    #[test]
    fn the_last_fire_begins_something_and_the_others_are_missed() {
        use CatchUp::{None as Never, Once};
        let daily = "30 2 * * *";
        check(daily, Once, "01T02:30:00", "02T02:29:59", 0, None);
        check(
            daily,
            Once,
            "01T02:30:00",
            "02T02:30:00",
            0,
            Some(("02T02:30:00", OnTime::Yes)),
        );
        check(
            daily,
            Never,
            "01T02:30:00",
            "02T02:31:00",
            0,
            Some(("02T02:30:00", OnTime::Yes)),
        );
        // Three days down.
        check(
            daily,
            Once,
            "01T12:00:00",
            "04T12:00:00",
            2,
            Some(("04T02:30:00", OnTime::No)),
        );
        check(daily, Never, "01T12:00:00", "04T12:00:00", 3, None);
        // A clock that went back.
        check(daily, Once, "04T12:00:00", "01T12:00:00", 0, None);
    }

    #[test]
    fn however_long_nobody_looked_few_fires_are_noted() {
        let schedule = schedule("* * * * *", CatchUp::Once);
        let seen = DateTime::UNIX_EPOCH;
        let now = at("04T12:00:30");
        let Due::Fires(fires) = Due::of(&schedule, seen, now, Duration::ZERO) else {
            panic!("there are fires")
        };
        assert_eq!((fires.missed.len(), fires.has_earlier), (MAX_NOTED, true));
        assert_eq!(fires.last.unwrap().at, at("04T12:00:00"));
    }
}
