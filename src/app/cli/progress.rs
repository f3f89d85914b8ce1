//! A run as it goes on, one line for each thing that happened, for `run` and `demo`.
//! Never shows a whole tool call or reply: that is in the events.

use std::time::Duration;

use serde_json::Value;

use super::show::Progress;
use crate::event::{CheckRun, Event, RunEvent, Side};
use crate::text;

/// Most characters of one line's text, so that it stays one line.
const MAX_CHARS: usize = 100;

/// Arguments that say best what a tool was called for; the rest is content.
const TELLING: [&str; 5] = ["command", "pattern", "path", "glob", "title"];

/// Shows one event.
pub(super) fn tell(progress: &Progress, event: &Event) {
    match &event.body {
        RunEvent::StageStarted { stage } => progress.now(stage.words()),
        RunEvent::Noted { text } | RunEvent::BudgetWarned { text } | RunEvent::Shortened { text, .. } => {
            progress.line(&format!("  note: {text}"))
        }
        RunEvent::WorkspaceOpened { sandbox, .. } => progress.line(&format!("  sandbox: {sandbox}")),
        RunEvent::SetUpRan {
            command,
            exit_code,
            took_ms,
        } => {
            let exit = exit_code.map_or_else(|| "killed".to_owned(), |code| format!("exit {code}"));
            progress.line(&format!(
                "  set-up: {} → {exit} ({})",
                one_line(command),
                took(*took_ms)
            ));
        }
        RunEvent::ModelReplied { turn, text, .. } if !text.trim().is_empty() => {
            progress.line(&format!("  {turn:>2}  {}", one_line(text)));
        }
        RunEvent::ToolCalled {
            turn,
            tool,
            arguments,
            ok,
            ..
        } => {
            let failed = if *ok { "" } else { "  (failed)" };
            let line = format!("  {turn:>2}    {tool} {}", in_short(arguments));
            progress.line(&format!("{}{failed}", line.trim_end()));
        }
        RunEvent::Checked { check } => {
            let side = match check.side {
                Side::Base => "before",
                Side::Head => "after",
            };
            progress.line(&format!(
                "  {side}: {} → {} ({})",
                one_line(&check.command),
                ending(check),
                took(check.took_ms)
            ));
        }
        RunEvent::AttemptFailed { reason, .. } => {
            progress.line(&format!("  this attempt failed: {}", one_line(reason)));
        }
        _ => {}
    }
}

/// How a check ended, in words.
pub(super) fn ending(check: &CheckRun) -> String {
    match (&check.killed, check.exit_code) {
        (Some(killed), _) => killed.clone(),
        (None, Some(code)) => format!("exit {code}"),
        (None, None) => "no exit code".to_owned(),
    }
}

fn took(ms: u64) -> String {
    text::duration_in_words(Duration::from_millis(ms))
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    text::cap_chars(&text::reveal(&words.join(" ")), MAX_CHARS)
}

/// What a tool was called for.
fn in_short(arguments: &str) -> String {
    let Ok(Value::Object(given)) = serde_json::from_str(arguments) else {
        return one_line(arguments);
    };
    let telling = TELLING.iter().filter_map(|name| given.get(*name)?.as_str());
    let words: Vec<&str> = telling.filter(|word| !word.is_empty()).collect();
    match (given.get("steps"), given.get("status")) {
        (Some(Value::Array(steps)), _) => format!("{} steps", steps.len()),
        (_, Some(Value::String(status))) if words.is_empty() => one_line(status),
        _ => one_line(&words.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(arguments: &str, shown: &str) {
        assert_eq!(in_short(arguments), shown);
    }

    #[test]
    fn a_tool_call_is_shown_by_what_it_is_for() {
        check(
            r#"{"path": "src/lib.rs", "old_text": "a", "new_text": "b"}"#,
            "src/lib.rs",
        );
        check(
            r#"{"command": "make \\\n  test", "timeout_seconds": 5}"#,
            "make \\ test",
        );
        check(r#"{"steps": [{"step": "a"}, {"step": "b"}]}"#, "2 steps");
        check(
            r#"{"pattern": "fn lines", "context": 3, "path": "src"}"#,
            "fn lines src",
        );
        check(r#"{"status": "done", "title": "Add"}"#, "Add");
        check(r#"{"status": "refused", "title": ""}"#, "refused");
        check("{}", "");
        check("not json", "not json");
    }
}
