//! The list of local runs by their records: what each was asked, and whether it ended, goes on, or
//! was interrupted. Never believes a flag about what goes on: a living process holds its record.

use chrono::{DateTime, Utc};
use serde_json::json;

use super::super::screen::paint::one_line;
use super::super::{Context, show, surroundings};
use crate::agent::Stop;
use crate::app::record::{self, Listed, State};
use crate::text;
use crate::tool::Finish;

/// Most characters of what a run was asked.
const MAX_TITLE_CHARS: usize = 72;

/// Prints it, the newest first.
pub(super) fn print(context: &Context, as_json: bool) -> anyhow::Result<()> {
    let folder = record::folder(&context.config()?, &surroundings()?);
    let listed = folder
        .map(|folder| record::list(&folder))
        .transpose()?
        .unwrap_or_default();
    if as_json {
        let rows: Vec<serde_json::Value> = listed
            .iter()
            .map(|row| json!({"run": row.run, "began_at": began(row), "state": state(row), "title": row.title}))
            .collect();
        return show::json(&rows);
    }
    if listed.is_empty() {
        note!("no local run is recorded");
    }
    for row in &listed {
        let title = row.title.as_deref().map(one_line);
        let title = title.unwrap_or_else(|| "(it had not begun to work)".to_owned());
        let at = began(row).map(show::time).unwrap_or_default();
        let title = text::cap_chars(&title, MAX_TITLE_CHARS);
        say!("{}  {at}  {:11}  {title}", row.run, state(row));
    }
    Ok(())
}

fn state(row: &Listed) -> &'static str {
    match &row.state {
        State::Running => "running",
        State::Interrupted => "interrupted",
        State::Ended(Stop::Finished(Finish::Refused { .. })) => "refused",
        State::Ended(Stop::Finished(_)) => "finished",
        State::Ended(Stop::Budget(_)) => "limit",
        State::Ended(Stop::Cancelled) => "stopped",
        State::Ended(Stop::Stuck(_)) => "failed",
        State::Ended(Stop::NeedsInput(_)) => "waiting",
    }
}

/// When a run began, which its id holds.
fn began(row: &Listed) -> Option<DateTime<Utc>> {
    let id = ulid::Ulid::from_string(row.run.as_str()).ok()?;
    DateTime::from_timestamp_millis(i64::try_from(id.timestamp_ms()).ok()?)
}
