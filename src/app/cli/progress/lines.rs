//! Events that are a line or two and nothing else. Never keeps anything.

use super::super::screen::canvas::{Dress, Row};
use super::super::screen::paint::{clean, one_line};
use super::{gist, result};
use crate::event::RunEvent;
use crate::text;

/// The lines of an event that is none of the model's words, calls, plans and checks.
pub(in crate::app::cli) fn of(event: &RunEvent) -> Vec<Row> {
    match event {
        RunEvent::Noted { text } | RunEvent::BudgetWarned { text } | RunEvent::Shortened { text, .. } => {
            let text = clean(text);
            let lines = text.lines().filter(|line| !line.trim().is_empty()).enumerate();
            lines
                .map(|(at, line)| {
                    let mark = if at == 0 { "  note: " } else { "        " };
                    vec![Dress::Yellow.on(format!("{mark}{}", line.trim_end()))]
                })
                .collect()
        }
        RunEvent::WorkspaceOpened { sandbox, .. } => {
            vec![vec![Dress::Dim.on(format!("  sandbox: {}", one_line(sandbox)))]]
        }
        RunEvent::SetUpRan {
            command,
            exit_code,
            took_ms,
        } => {
            let mark = match exit_code {
                Some(0) => Dress::Green.on("✓ "),
                _ => Dress::Red.on("✗ "),
            };
            let exit = exit_code.map_or_else(|| "killed".to_owned(), |code| format!("exit {code}"));
            vec![vec![
                Dress::Dim.on("  set-up  "),
                mark,
                Dress::None.on(text::cap_chars(&one_line(command), gist::MAX_CHARS)),
                Dress::Dim.on(result(&exit, *took_ms)),
            ]]
        }
        RunEvent::AttemptFailed { reason, .. } => {
            vec![vec![
                Dress::Red.on(format!("  this attempt failed: {}", one_line(reason))),
            ]]
        }
        RunEvent::HostReached { host } => vec![vec![Dress::Dim.on(format!("  network: {}", one_line(host)))]],
        RunEvent::HostBlocked { host, why, allow } => {
            let mut line = format!("  network: {} was blocked: {}", one_line(host), one_line(why));
            if let Some(allow) = allow {
                line.push_str(&format!("; to allow it: {}", one_line(allow)));
            }
            vec![vec![Dress::Yellow.on(line)]]
        }
        RunEvent::CallDenied { call, why, allow, .. } => {
            let call = text::cap_chars(&one_line(call), gist::MAX_CHARS);
            let mut line = format!("  denied: {call}: {}", one_line(why));
            if let Some(allow) = allow {
                line.push_str(&format!("; to allow it: {}", one_line(allow)));
            }
            vec![vec![Dress::Yellow.on(line)]]
        }
        RunEvent::QuestionRefused { question } => {
            let question = text::cap_chars(&one_line(question), gist::MAX_CHARS);
            vec![vec![
                Dress::Yellow.on(format!("  nobody was there to answer: {question}")),
            ]]
        }
        RunEvent::WayOutClosed {
            sent_bytes,
            received_bytes,
            requests,
            ..
        } => {
            let (sent, received) = (text::bytes_in_words(*sent_bytes), text::bytes_in_words(*received_bytes));
            let line = format!("  network: {requests} requests, {sent} sent, {received} received");
            vec![vec![Dress::Dim.on(line)]]
        }
        RunEvent::RunResumed { turn, .. } => vec![vec![Dress::Dim.on(format!("  goes on after turn {turn}"))]],
        _ => Vec::new(),
    }
}
