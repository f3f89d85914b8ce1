//! Schedules and their fires for people. Never asks the database.

use std::str::FromStr as _;

use chrono_tz::Tz;

use super::Shown;
use crate::app::cli::screen::paint::one_line;
use crate::app::cli::show;
use crate::job::{Job, Outcome};
use crate::schedule::Source;
use crate::store::ScheduleFire;
use crate::text;

/// Longest line of a task that is shown, in characters.
const MAX_CHARS: usize = 80;

pub(super) fn schedules(schedules: &[Shown]) {
    if schedules.is_empty() {
        say!("no schedules; `forgehand schedule add --help` shows how to add one");
    }
    for schedule in schedules {
        let source = match (schedule.source, schedule.enabled) {
            (_, false) => "  (disabled)",
            (Source::File, true) => "",
            (Source::Database, true) => "  (added here)",
        };
        say!(
            "{}  {}  {}{source}",
            schedule.name,
            schedule.repository,
            schedule.in_words
        );
        say!("    {}", text::cap_chars(&one_line(&schedule.work), MAX_CHARS));
        let zone = Tz::from_str(schedule.timezone).unwrap_or(Tz::UTC);
        for (at, fire) in schedule.next.iter().enumerate() {
            let word = if at == 0 { "next" } else { "then" };
            let local = fire.with_timezone(&zone).format("%a %Y-%m-%d %H:%M %Z");
            match schedule.jitter_seconds {
                0 => say!("    {word} {local}"),
                seconds => say!("    {word} {local}, and up to {seconds} s"),
            }
        }
    }
}

pub(super) fn fires(fires: &[ScheduleFire]) {
    if fires.is_empty() {
        say!("no schedule has fired yet");
    }
    for fire in fires {
        let job = match (&fire.job, fire.job_state) {
            (Some(job), Some(state)) => {
                let ended = fire
                    .job_outcome
                    .as_ref()
                    .map(|outcome| format!(": {}", in_words(outcome)));
                format!("  job {job} {state}{}", ended.unwrap_or_default())
            }
            (Some(job), None) => format!("  job {job}"),
            (None, _) => String::new(),
        };
        say!(
            "{}  {}  {}{job}",
            show::time(fire.fire_at),
            fire.schedule,
            one_line(&fire.outcome)
        );
    }
}

pub(super) fn ended(job: &Job) {
    let outcome = job.outcome.as_ref().map(in_words);
    let reason = job.reason.as_deref().map(one_line);
    let said = outcome.or(reason).unwrap_or_default();
    say!("job {} {}: {said}", job.id, job.state);
}

fn in_words(outcome: &Outcome) -> String {
    let words = match outcome {
        Outcome::Opened { pull, .. } => format!("opened pull request #{pull}"),
        Outcome::Pushed { branch, .. } => format!("pushed to {branch}"),
        Outcome::Answered => "answered".to_owned(),
        Outcome::Reviewed { verdict, .. } => format!("reviewed: {verdict}"),
        Outcome::Measured { summary } => summary.clone(),
        Outcome::NothingToDo { reason } => format!("nothing to do: {reason}"),
        Outcome::Refused { reason } => format!("refused: {reason}"),
        Outcome::GaveUp { reason, .. } => format!("gave up: {reason}"),
        Outcome::Stopped { reason, .. } => format!("stopped: {reason}"),
    };
    text::cap_chars(&one_line(&words), MAX_CHARS)
}
