//! Timetables over changes of the clock, by hand and against an oracle that walks through time
//! minute by minute.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use chrono::{Datelike as _, NaiveDateTime, Timelike as _};

use super::*;

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn timetable(expression: &str, zone_name: &str) -> Timetable {
    Timetable::parse(expression, zone(zone_name).unwrap()).unwrap()
}

/// The fires after a time, in the zone's own words.
#[track_caller]
fn check(expression: &str, zone_name: &str, after: &str, expected: &[&str]) {
    let timetable = timetable(expression, zone_name);
    let mut time = at(after);
    let mut found = Vec::new();
    for _ in expected {
        time = timetable.next_after(time).unwrap();
        found.push(
            time.with_timezone(&timetable.zone())
                .format("%m-%d %H:%M %:z")
                .to_string(),
        );
    }
    assert_eq!(found, expected, "{expression} {zone_name}");
}

#[test]
fn a_time_that_the_clock_skips_fires_once_right_after_the_gap() {
    let days = ["03-28 02:30 +01:00", "03-29 03:00 +02:00", "03-30 02:30 +02:00"];
    check("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", &days);
    let days = ["03-28 02:45 +01:00", "03-29 03:00 +02:00", "03-30 02:00 +02:00"];
    check("0,15,30,45 2 * * *", "Europe/Berlin", "2026-03-28T01:30:00Z", &days);
    let days = ["03-07 02:30 -05:00", "03-08 03:00 -04:00", "03-09 02:30 -04:00"];
    check("30 2 * * *", "America/New_York", "2026-03-06T12:00:00Z", &days);
    // The hour after is a time of its own; that it falls together with the end of the gap is one fire.
    let days = [
        "03-28 03:00 +01:00",
        "03-28 03:30 +01:00",
        "03-29 03:00 +02:00",
        "03-29 03:30 +02:00",
        "03-30 02:00 +02:00",
    ];
    check("0,30 2,3 28-30 3 *", "Europe/Berlin", "2026-03-28T01:45:00Z", &days);
    // Half an hour is skipped on Lord Howe Island.
    let days = ["10-03 02:15 +10:30", "10-04 02:30 +11:00", "10-05 02:15 +11:00"];
    check("15 2 * * *", "Australia/Lord_Howe", "2026-10-02T12:00:00Z", &days);
    // In some countries the clock skipped midnight.
    let days = ["11-03 00:00 -03:00", "11-04 01:00 -02:00", "11-05 00:00 -02:00"];
    check("0 0 * * *", "America/Sao_Paulo", "2018-11-02T12:00:00Z", &days);
}

#[test]
fn a_time_that_comes_twice_fires_the_first_time() {
    let days = ["10-24 02:30 +02:00", "10-25 02:30 +02:00", "10-26 02:30 +01:00"];
    check("30 2 * * *", "Europe/Berlin", "2026-10-23T12:00:00Z", &days);
    let days = ["10-25 02:50 +02:00", "10-25 03:00 +01:00"];
    check("10,50 2 25 10 *", "Europe/Berlin", "2026-10-25T00:40:00Z", &days[..1]);
    // Asked in the middle of the second time, too.
    let next = ["10-26 02:30 +01:00"];
    check("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", &next);
    let days = ["11-01 01:30 -04:00", "11-02 01:30 -05:00"];
    check("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", &days);
    let days = ["04-05 01:45 +11:00", "04-06 01:45 +10:30"];
    check("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00:00Z", &days);
}

#[test]
fn stars_for_hours_or_minutes_follow_real_time() {
    let count = |expression: &str, zone: &str, from: &str, to: &str| {
        timetable(expression, zone).fires_between(at(from), at(to), 1_000).len()
    };
    // Days of 23, 24 and 25 hours.
    for (from, to, hours) in [
        ("2026-03-28T22:59:00Z", "2026-03-29T21:59:00Z", 23),
        ("2026-07-10T21:59:00Z", "2026-07-11T21:59:00Z", 24),
        ("2026-10-24T21:59:00Z", "2026-10-25T22:59:00Z", 25),
    ] {
        assert_eq!(count("0 * * * *", "Europe/Berlin", from, to), hours);
        assert_eq!(count("@hourly", "Europe/Berlin", from, to), hours);
        assert_eq!(count("*/15 * * * *", "Europe/Berlin", from, to), hours * 4);
    }
    let twice = ["10-25 02:30 +02:00", "10-25 02:30 +01:00", "10-25 03:30 +01:00"];
    check("30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", &twice);
    assert_eq!(
        count(
            "*/10 2 * * *",
            "Europe/Berlin",
            "2026-03-28T22:00:00Z",
            "2026-03-29T21:00:00Z"
        ),
        0
    );
}

#[test]
fn days_are_those_of_the_zone() {
    check(
        "0 6 * * *",
        "Asia/Kathmandu",
        "2026-01-01T00:00:00Z",
        &["01-01 06:00 +05:45"],
    );
    check("0 6 * * *", "UTC", "2026-01-01T06:00:00Z", &["01-02 06:00 +00:00"]);
    check(
        "30 7 * * MON-FRI",
        "Europe/Berlin",
        "2026-01-02T07:00:00Z",
        &["01-05 07:30 +01:00"],
    );
    check(
        "0 0 1 * *",
        "America/New_York",
        "2026-01-01T04:59:59Z",
        &["01-01 00:00 -05:00"],
    );
    check(
        "0 22 L * *",
        "Europe/Berlin",
        "2028-02-10T00:00:00Z",
        &["02-29 22:00 +01:00"],
    );
    let leap = timetable("0 12 29 2 *", "Europe/Berlin");
    assert_eq!(
        leap.next_after(at("2025-01-01T00:00:00Z")),
        Some(at("2028-02-29T11:00:00Z"))
    );
    assert_eq!(
        leap.next_after(at("2096-03-01T00:00:00Z")),
        Some(at("2104-02-29T11:00:00Z"))
    );
    // Before all reckoning of seconds, and long after anybody cares.
    assert!(leap.next_after(DateTime::UNIX_EPOCH).is_some());
    assert_eq!(leap.next_after(DateTime::<Utc>::MAX_UTC), None);
}

#[test]
fn wrong_expressions_and_zones_say_what_is_meant() {
    for (expression, part) in [
        ("", "one field"),
        ("* * * *", "4 fields"),
        ("0 * * * * *", "6 fields"),
        ("60 * * * *", "no cron expression"),
        ("0 2 30 2 *", "no such day in any year"),
        ("@noon", "no cron expression"),
        ("0 2 * * FUNDAY", "no cron expression"),
        ("*/0 * * * *", "no cron expression"),
        ("5-1 * * * *", "no cron expression"),
    ] {
        let problem = Timetable::parse(expression, Tz::UTC).unwrap_err();
        assert!(
            problem.contains(part) && problem.contains("minute hour day month weekday"),
            "{problem}"
        );
    }
    assert!(Timetable::parse(&"1,".repeat(10_000), Tz::UTC).is_err());
    for (name, part) in [
        ("Europe/Berln", "did you mean Europe/Berlin?"),
        ("EUROPE/BERLIN", "did you mean Europe/Berlin?"),
        ("+02:00", "as in Europe/Berlin"),
        ("", "as in Europe/Berlin"),
    ] {
        let problem = zone(name).unwrap_err();
        assert!(problem.contains(part), "{problem}");
    }
}

#[test]
fn timetables_in_words() {
    let mut words = String::new();
    for expression in [
        "30 7 * * MON-FRI",
        "0 2 * * *",
        "*/15 * * * *",
        "0 * * * *",
        "* * * * *",
        "0 22 L * *",
        "15 3 1,15 * *",
        "0 9 * * MON#1",
        "0 8-18/2 * * 1-5",
        "0 0 1 1 *",
        "@weekly",
        "0 4 1 * SUN",
    ] {
        let _ = writeln!(
            words,
            "{expression}: {}",
            timetable(expression, "Europe/Berlin").in_words()
        );
    }
    insta::assert_snapshot!(words);
}

#[test]
fn jitter_is_the_same_for_everybody_and_spreads() {
    let fire = at("2026-01-01T02:30:00Z");
    assert_eq!(jitter("nightly", fire, 0), TimeDelta::zero());
    assert_eq!(jitter("nightly", fire, 300), jitter("nightly", fire, 300));
    let spread: BTreeSet<TimeDelta> = (0..200).map(|name| jitter(&format!("job-{name}"), fire, 300)).collect();
    assert!(spread.len() > 90, "{}", spread.len());
    assert!(spread.iter().all(|jitter| (0..=300).contains(&jitter.num_seconds())));
    let days: BTreeSet<TimeDelta> = (0..50)
        .map(|day| jitter("nightly", fire + TimeDelta::days(day), 300))
        .collect();
    assert!(days.len() > 35, "{}", days.len());
    assert!(jitter("nightly", fire, u64::MAX) >= TimeDelta::zero());
}

/// A field as the oracle reads it: the values, and whether it says `*`.
struct Field {
    text: String,
    values: BTreeSet<u32>,
}

impl Field {
    fn has_star(&self) -> bool {
        self.text.contains('*')
    }

    fn star() -> Self {
        Self {
            text: "*".to_owned(),
            values: (0..=60).collect(),
        }
    }

    /// Any way to write a field whose values go from 0 to `most`, the named ones up to `named`.
    fn any(chance: &mut fastrand::Rng, most: u32, named: u32) -> Self {
        let (a, b) = (chance.u32(..=named), chance.u32(..=named));
        let (from, to) = (a.min(b), a.max(b));
        let step = chance.u32(1..=20);
        let (text, values): (String, BTreeSet<u32>) = match chance.u8(..6) {
            0 => ("*".to_owned(), (0..=most).collect()),
            1 => (format!("*/{step}"), (0..=most).step_by(step as usize).collect()),
            2 => (format!("{from}-{to}"), (from..=to).collect()),
            3 => (
                format!("{from}-{to}/{step}"),
                (from..=to).step_by(step as usize).collect(),
            ),
            4 => (format!("{from},{to}"), [from, to].into()),
            _ => (a.to_string(), [a].into()),
        };
        Self { text, values }
    }
}

/// An expression that the oracle knows by heart.
struct Known {
    fields: [Field; 5],
}

impl Known {
    fn any(chance: &mut fastrand::Rng) -> Self {
        let day = chance.u8(..8);
        Self {
            fields: [
                Field::any(chance, 59, 59),
                // Clocks change early in the morning.
                if chance.bool() {
                    Field::any(chance, 23, 4)
                } else {
                    Field::any(chance, 23, 23)
                },
                if day == 0 {
                    Field {
                        text: "29".to_owned(),
                        values: [29].into(),
                    }
                } else {
                    Field::star()
                },
                if day == 1 {
                    Field {
                        text: "3,10".to_owned(),
                        values: [3, 10].into(),
                    }
                } else {
                    Field::star()
                },
                if day.is_multiple_of(4) {
                    Field {
                        text: "0".to_owned(),
                        values: [0].into(),
                    }
                } else {
                    Field::star()
                },
            ],
        }
    }

    fn text(&self) -> String {
        self.fields.each_ref().map(|field| field.text.clone()).join(" ")
    }

    fn matches(&self, wall: NaiveDateTime) -> bool {
        let [minute, hour, day, month, weekday] = &self.fields;
        let on_day = day.values.contains(&wall.day());
        let on_weekday = weekday.values.contains(&wall.weekday().num_days_from_sunday());
        let is_day = match (day.has_star(), weekday.has_star()) {
            (false, false) => on_day || on_weekday,
            _ => on_day && on_weekday,
        };
        is_day
            && minute.values.contains(&wall.minute())
            && hour.values.contains(&wall.hour())
            && month.values.contains(&wall.month())
    }

    /// Every fire after `from` up to `to`, whole minutes both, by looking at each minute.
    fn fires(&self, zone: Tz, from: DateTime<Utc>, to: DateTime<Utc>) -> Vec<DateTime<Utc>> {
        let minute = TimeDelta::minutes(1);
        let wall = |time: DateTime<Utc>| time.with_timezone(&zone).naive_local();
        let in_real_time = self.fields[..2].iter().any(Field::has_star);
        let (mut time, mut seen, mut fires) = (from, wall(from), Vec::new());
        while time < to {
            time += minute;
            let now = wall(time);
            let is_fire = if in_real_time {
                self.matches(now)
            } else {
                let mut passed = std::iter::successors(Some(seen + minute), |at| Some(*at + minute));
                passed.by_ref().take_while(|at| *at <= now).any(|at| self.matches(at))
            };
            if is_fire {
                fires.push(time);
            }
            seen = seen.max(now);
        }
        fires
    }
}

/// When the clocks of a zone change, to the hour.
fn changes(zone: Tz, years: std::ops::Range<i32>) -> Vec<DateTime<Utc>> {
    let hour = |n: i64| Utc.with_ymd_and_hms(years.start, 1, 1, 0, 0, 0).unwrap() + TimeDelta::hours(n);
    let offset = |n| hour(n).with_timezone(&zone).naive_local() - hour(n).naive_utc();
    let hours = i64::from(years.end - years.start) * 366 * 24;
    (1..hours).filter(|n| offset(*n) != offset(n - 1)).map(hour).collect()
}

#[test]
fn every_change_of_several_years_is_as_the_oracle_says() {
    let zones = [
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Asia/Kathmandu",
        "UTC",
    ];
    let zones = zones.map(|name| {
        let zone = zone(name).unwrap();
        let mut days = changes(zone, 2023..2029);
        assert!(days.len() == 12 || days.is_empty(), "{name}: {}", days.len());
        days.push(at("2028-02-29T00:00:00Z"));
        (zone, days)
    });
    crate::clock::fuzz("timetables", |chance| {
        let known = Known::any(chance);
        let (zone, days) = &zones[chance.usize(..zones.len())];
        let Ok(timetable) = Timetable::parse(&known.text(), *zone) else {
            panic!("{} is not read", known.text());
        };
        for day in days {
            let (from, to) = (*day - TimeDelta::hours(36), *day + TimeDelta::hours(36));
            let fires = known.fires(*zone, from, to);
            let found = timetable.fires_between(from, to, usize::MAX);
            assert_eq!(found, fires, "{} {zone} around {day}", known.text());
            // Wherever one begins to look, also between two seconds.
            for _ in 0..20 {
                let after = from + TimeDelta::milliseconds(chance.i64(0..36 * 3_600_000));
                let next = fires.iter().find(|fire| **fire > after);
                let found = timetable.next_after(after).filter(|fire| *fire <= to);
                assert_eq!(found.as_ref(), next, "{} {zone} after {after}", known.text());
            }
        }
    });
}
