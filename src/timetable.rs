//! When a schedule fires: a cron expression of five fields read in a time zone. Called by
//! `schedule`, and by whatever shows or runs schedules.
//!
//! Daylight saving, in three rules:
//!
//! * Times on the clock (`30 2 * * *`) fire once a day. One that the clock skips fires at the first
//!   instant after the gap; several that are skipped together fire once there.
//! * Times on the clock that come twice fire the first time only.
//! * A `*` in the field of minutes or hours (`*/15 * * * *`) means real time: nothing is made up for
//!   what is skipped, and what comes twice fires twice.
//!
//! Never asks what time it is.

use chrono::{DateTime, Datelike as _, NaiveDateTime, TimeDelta, TimeZone as _, Utc};
use chrono_tz::{GapInfo, TZ_VARIANTS, Tz};
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use sha2::{Digest as _, Sha256};

use crate::text;

/// Longest expression that is read, in bytes.
const MAX_EXPRESSION_BYTES: usize = 200;

/// What is looked at; at the ends of time there is no local one.
const YEARS: std::ops::RangeInclusive<i32> = 1..=4000;

/// Names of zones that differ in more letters are not what was meant.
const NEAR_ZONE: usize = 3;

/// A cron expression and the zone whose clock it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timetable {
    cron: Cron,
    expression: String,
    zone: Tz,
    /// The third rule above holds, and not the first two.
    in_real_time: bool,
}

/// The zone with this name in the IANA database, such as `Europe/Berlin`.
///
/// # Errors
/// With a name that is nearly the same, when there is one.
pub fn zone(name: &str) -> Result<Tz, String> {
    if let Ok(zone) = name.parse() {
        return Ok(zone);
    }
    let mut names = TZ_VARIANTS.iter().map(|zone| zone.name());
    let near = names
        .clone()
        .find(|known| known.eq_ignore_ascii_case(name))
        .or_else(|| text::nearest(name, &mut names, NEAR_ZONE.min(name.len() / 2)));
    let hint = near.map_or_else(
        || "names are written as in Europe/Berlin or UTC".to_owned(),
        |near| format!("did you mean {near}?"),
    );
    Err(format!("there is no time zone {:?}; {hint}", text::cap_chars(name, 60)))
}

impl Timetable {
    /// Reads an expression of five fields (minute, hour, day of the month, month, day of the week) or
    /// one of `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.
    ///
    /// # Errors
    /// What is wrong, and how expressions are written.
    pub fn parse(expression: &str, zone: Tz) -> Result<Self, String> {
        let expression = expression.split_whitespace().collect::<Vec<_>>().join(" ");
        let wrong = |problem: &str| {
            Err(format!(
                "{:?} is no cron expression: {problem}. Five fields are expected: minute hour day month weekday, such \
                 as \"30 7 * * MON-FRI\"",
                text::cap_chars(&expression, 60)
            ))
        };
        if expression.len() > MAX_EXPRESSION_BYTES {
            return wrong("it is too long");
        }
        let parser = CronParser::builder()
            .seconds(Seconds::Disallowed)
            .year(Year::Disallowed)
            .build();
        let fields = expression.split(' ').count();
        if !expression.starts_with('@') && fields != 5 {
            return wrong(&format!(
                "it has {}",
                if fields == 1 {
                    "one field".to_owned()
                } else {
                    format!("{fields} fields")
                }
            ));
        }
        let cron = match parser.parse(&expression) {
            Ok(cron) => cron,
            Err(error) => return wrong(error.to_string().trim_end_matches('.')),
        };
        let in_real_time = match expression.as_str() {
            nickname if nickname.starts_with('@') => nickname.eq_ignore_ascii_case("@hourly"),
            fields => fields.split(' ').take(2).any(|field| field.contains('*')),
        };
        let timetable = Self {
            cron,
            expression: expression.clone(),
            zone,
            in_real_time,
        };
        match timetable.next_after(DateTime::UNIX_EPOCH) {
            Some(_) => Ok(timetable),
            None => wrong("there is no such day in any year"),
        }
    }

    /// The expression as it was written.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The zone.
    pub fn zone(&self) -> Tz {
        self.zone
    }

    /// The first fire after `at`. Nothing: there never is one, or not in this age.
    pub fn next_after(&self, at: DateTime<Utc>) -> Option<DateTime<Utc>> {
        if !YEARS.contains(&at.year()) {
            return None;
        }
        let local = at.with_timezone(&self.zone);
        if self.in_real_time {
            let next = self.cron.find_next_occurrence(&local, false).ok()?;
            return Some(next.with_timezone(&Utc));
        }
        // Along the clock on the wall, which knows nothing of changes.
        let mut wall = local.naive_local();
        loop {
            wall = self.cron.find_next_occurrence(&wall, false).ok()?;
            let instant = self.instant(wall)?;
            // Not so for times that come a second time.
            if instant > at {
                return Some(instant);
            }
        }
    }

    /// The fires after `after`, up to and with `until`; the first `max` of them.
    pub fn fires_between(&self, after: DateTime<Utc>, until: DateTime<Utc>, max: usize) -> Vec<DateTime<Utc>> {
        let next = |at: &DateTime<Utc>| self.next_after(*at);
        std::iter::successors(self.next_after(after), next)
            .take_while(|fire| *fire <= until)
            .take(max)
            .collect()
    }

    /// In words for people, such as `every weekday at 07:30, Europe/Berlin`.
    pub fn in_words(&self) -> String {
        let words = self.cron.describe();
        let words = words.trim_end_matches('.');
        let words = words
            .strip_prefix("At every")
            .map_or_else(|| words.to_owned(), |rest| format!("every{rest}"));
        let words = words.replacen("Every", "every", 1).replacen("At ", "at ", 1);
        let mut words = words.replace(WEEKDAYS, "on weekdays");
        let is_time = |text: &str| text.len() == "at 07:30".len() && text.starts_with("at ");
        if is_time(&words) {
            words = format!("every day {words}");
        } else if let Some((time, "on weekdays")) = words.split_once(", ").filter(|(time, _)| is_time(time)) {
            words = format!("every weekday {time}");
        } else if words.starts_with(ON_THE_HOUR) {
            words = words.replacen(ON_THE_HOUR, "every hour", 1);
        }
        format!("{words}, {}", self.zone.name())
    }

    /// The instant of a time on the wall: the first one where there are two, the end of the gap where
    /// there is none.
    fn instant(&self, wall: NaiveDateTime) -> Option<DateTime<Utc>> {
        let instant = match self.zone.from_local_datetime(&wall).earliest() {
            Some(instant) => instant,
            None => GapInfo::new(&wall, &self.zone)?.end?,
        };
        Some(instant.with_timezone(&Utc))
    }
}

/// As croner says it.
const WEEKDAYS: &str = "on Monday, Tuesday, Wednesday, Thursday, and Friday";
const ON_THE_HOUR: &str = "at minute 0 past every hour";

/// How much later than its time a fire begins: from nothing to `at_most_seconds`, and the same
/// whoever asks, so that replicas agree and many schedules of one minute spread.
pub fn jitter(name: &str, fire_at: DateTime<Utc>, at_most_seconds: u64) -> TimeDelta {
    let digest = Sha256::new()
        .chain_update(name.as_bytes())
        .chain_update([0])
        .chain_update(fire_at.timestamp().to_be_bytes())
        .finalize();
    let number = digest
        .iter()
        .take(8)
        .fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let seconds = number % at_most_seconds.saturating_add(1);
    TimeDelta::try_seconds(i64::try_from(seconds).unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
