//! `[[schedule]]`: the section that may stand several times, each time for one schedule. Called by
//! `load` and by the check. Never fires anything.

use toml::Value;

use super::{ConfigValue, load, section};
use crate::schedule::{CatchUp, Schedule, Source, Written};

section! {
    /// Work that begins at set times, each as a job of its own. The section may stand several times,
    /// in the file only.
    pub struct ScheduleConfig "schedule" {
        /// What the schedule is called: lower-case letters, digits and hyphens; no two have the same name.
        name: Option<String> = "",
        /// When it fires: minute, hour, day of the month, month, day of the week, such as
        /// `30 7 * * MON-FRI`; or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`. Times that the
        /// clock skips fire right after the gap, times that come twice fire once; with a `*` for minutes
        /// or hours, real time counts.
        cron: Option<String> = "",
        /// The zone whose clock that is about, as the IANA database calls it.
        timezone: String = "\"UTC\"",
        /// Most time that a fire is put off by, in seconds; the same fire always by the same time.
        jitter_seconds: u64 = "0",
        /// The repository, as `owner/name`.
        repository: Option<String> = "",
        /// What to do, in words.
        task: Option<String> = "",
        /// The skill to work by, instead of a task; with one, the task is what it is told.
        skill: Option<String> = "",
        /// The work graph to begin, instead of a task.
        graph: Option<String> = "",
        /// The eval suite to run, instead of a task: a file with cases in the repository, on its default
        /// branch, as `forgehand eval retrieval` reads it.
        eval: Option<String> = "",
        /// Least mean reciprocal rank of files of such a suite, in percent; below it the run has failed.
        /// 0: none.
        min_mrr: u32 = "0",
        /// Whether it fires.
        enabled: bool = "true",
        /// When fires were missed, such as while the service was down: `once` makes up for the last of
        /// them, `none` for none.
        catch_up: CatchUp = "\"once\"",
    }
}

impl ConfigValue for CatchUp {
    const KIND: &'static str = "one of `once` `none`";
    fn from_toml(value: &Value) -> Result<Self, String> {
        let word = value
            .as_str()
            .ok_or_else(|| format!("{} is expected, found {}", Self::KIND, value.type_str()))?;
        word.parse().map_err(|_| format!("{word:?} is not {}", Self::KIND))
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl ScheduleConfig {
    fn written(&self) -> Written {
        Written {
            name: self.name.clone(),
            cron: self.cron.clone(),
            timezone: self.timezone.clone(),
            jitter_seconds: self.jitter_seconds,
            repository: self.repository.clone(),
            task: self.task.clone(),
            skill: self.skill.clone(),
            graph: self.graph.clone(),
            eval: self.eval.clone(),
            min_mrr: self.min_mrr,
            enabled: self.enabled,
            catch_up: self.catch_up,
        }
    }

    /// The schedule that is meant.
    pub(super) fn schedule(&self) -> Result<Schedule, Vec<crate::schedule::Problem>> {
        Schedule::parse(&self.written(), Source::File)
    }
}

/// Adds what is wrong with the schedules, each with its position, from 1.
pub(super) fn check(schedules: &[ScheduleConfig], problems: &mut Vec<String>) {
    for (at, schedule) in schedules.iter().enumerate() {
        let key = load::item(ScheduleConfig::SECTION, at);
        if let Err(found) = schedule.schedule() {
            problems.extend(
                found
                    .iter()
                    .map(|problem| format!("{key}.{}: {}", problem.key, problem.text)),
            );
        }
        let same = |other: &ScheduleConfig| schedule.name.is_some() && other.name == schedule.name;
        if let Some(first) = schedules[..at].iter().position(same) {
            let first = load::item(ScheduleConfig::SECTION, first);
            problems.push(format!("{key}.name: {first} has the same name"));
        }
    }
}
