//! Two logs of the same conversation side by side: where the second first departs from the first.
//! Called by a replay. Never counts as a difference what differs from one run to the next anyway:
//! times, addresses, names of temporary files.

use serde::Serialize;

use super::{Entry, settled};
use crate::model::{Role, ToolCall};
use crate::text;

/// Most bytes of an excerpt, and how much of it stands before the difference.
const EXCERPT_BYTES: usize = 400;
const BEFORE_BYTES: usize = 80;

/// How two logs compare.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// Turns of the second log.
    pub turns: usize,
    /// The first turn whose request was another one. It follows from a difference before, from
    /// another version of the program, or from a limit that came at another time.
    pub request: Option<usize>,
    /// The first output that was another one.
    pub output: Option<Differing>,
    /// The turn that only one of the two logs has.
    pub missing: Option<usize>,
}

/// An output that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Differing {
    /// In which turn, from 1.
    pub turn: usize,
    /// Of which tool.
    pub tool: String,
    /// The recorded output, around the first difference.
    pub recorded: String,
    /// The output now, around the first difference.
    pub now: String,
}

impl Comparison {
    /// The turn at which the second log departed, from 1.
    pub fn departed(&self) -> Option<usize> {
        let output = self.output.as_ref().map(|output| output.turn);
        [output, self.request, self.missing].into_iter().flatten().min()
    }
}

/// A reply with the outputs of its calls.
struct Turn<'a> {
    request_sha256: &'a str,
    calls: &'a [ToolCall],
    outputs: Vec<(&'a str, &'a str)>,
}

/// The entries since the conversation last began anew.
pub fn current(log: &[Entry]) -> &[Entry] {
    let restarted = log.iter().rposition(|entry| matches!(entry, Entry::Restarted));
    &log[restarted.map_or(0, |at| at + 1)..]
}

/// Compares what was recorded with what came now.
pub fn compare(recorded: &[Entry], now: &[Entry]) -> Comparison {
    let (recorded, now) = (turns(current(recorded)), turns(current(now)));
    let mut comparison = Comparison {
        turns: now.len(),
        request: None,
        output: None,
        missing: (recorded.len() != now.len()).then_some(recorded.len().min(now.len()) + 1),
    };
    for (at, (was, is)) in recorded.iter().zip(&now).enumerate() {
        if comparison.request.is_none() && !was.request_sha256.is_empty() && was.request_sha256 != is.request_sha256 {
            comparison.request = Some(at + 1);
        }
        if comparison.output.is_none() {
            comparison.output = differing(at + 1, was, is);
        }
    }
    comparison
}

fn turns(log: &[Entry]) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for entry in log {
        match entry {
            Entry::Replied {
                message,
                request_sha256,
                ..
            } => turns.push(Turn {
                request_sha256,
                calls: &message.tool_calls,
                outputs: Vec::new(),
            }),
            Entry::Said { message } if message.role == Role::Tool => {
                let id = message.tool_call_id.as_deref().unwrap_or_default();
                if let Some(turn) = turns.last_mut() {
                    turn.outputs.push((id, &message.content));
                }
            }
            _ => {}
        }
    }
    turns
}

/// The first call whose output differs. What only one log has is no difference: the last outputs
/// of a run are not in its log.
fn differing(turn: usize, was: &Turn<'_>, is: &Turn<'_>) -> Option<Differing> {
    was.outputs
        .iter()
        .zip(&is.outputs)
        .find_map(|((id, was_output), (_, is_output))| {
            if was_output == is_output {
                return None;
            }
            let (was_settled, is_settled) = (settled(was_output), settled(is_output));
            if was_settled == is_settled {
                return None;
            }
            let call = was.calls.iter().find(|call| call.id == *id);
            let same = was_settled
                .bytes()
                .zip(is_settled.bytes())
                .take_while(|(one, other)| one == other)
                .count();
            Some(Differing {
                turn,
                tool: call.map_or_else(String::new, |call| call.name.clone()),
                recorded: excerpt(&was_settled, same),
                now: excerpt(&is_settled, same),
            })
        })
}

fn excerpt(text: &str, at: usize) -> String {
    let mut start = at.saturating_sub(BEFORE_BYTES).min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    text::reveal(&text::cap(&text[start..], EXCERPT_BYTES))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::event::Usage;
    use crate::model::{FinishReason, Message};

    fn turn(request: &str, outputs: &[&str]) -> Vec<Entry> {
        let call = |at: usize| ToolCall {
            id: format!("call_{at}"),
            name: format!("tool_{at}"),
            arguments: "{}".to_owned(),
        };
        let reply = Entry::Replied {
            message: Arc::new(Message {
                role: Role::Assistant,
                tool_calls: (0..outputs.len()).map(call).collect(),
                ..Message::user("")
            }),
            finish: FinishReason::ToolCalls,
            usage: Usage::default(),
            cost_usd: None,
            model: "m".to_owned(),
            request_sha256: request.to_owned(),
            took_ms: 1,
        };
        let said = outputs.iter().enumerate();
        let said = said.map(|(at, output)| Entry::said(Message::tool(format!("call_{at}"), *output)));
        [reply].into_iter().chain(said).collect()
    }

    #[track_caller]
    fn check(recorded: &[Vec<Entry>], now: &[Vec<Entry>], departed: Option<usize>) -> Comparison {
        let comparison = compare(&recorded.concat(), &now.concat());
        assert_eq!(comparison.departed(), departed, "{comparison:?}");
        comparison
    }

    #[test]
    fn the_first_departure_is_found() {
        let was = [turn("a", &["x", "took 1 s"]), turn("b", &["y"])];
        check(&was, &[turn("a", &["x", "took 3 s"]), turn("b", &["y"])], None);
        let other = [turn("a", &["x", "failed"]), turn("c", &["z"])];
        let found = check(&was, &other, Some(1)).output.unwrap();
        assert_eq!(
            (found.turn, found.tool.as_str(), found.now.as_str()),
            (1, "tool_1", "failed")
        );
        let comparison = check(&was, &[turn("a", &["x", "took 1 s"]), turn("c", &["y"])], Some(2));
        assert_eq!((comparison.request, comparison.output), (Some(2), None));
        check(&was, &was[..1], Some(2));
        check(&was[..1], &was, Some(2));
        check(&was, &[], Some(1));
    }

    #[test]
    fn outputs_that_a_log_lacks_at_its_end_are_no_difference() {
        check(&[turn("a", &["x"])], &[turn("a", &["x", "more"])], None);
        check(&[turn("a", &[])], &[turn("a", &["x"])], None);
    }

    #[test]
    fn only_the_latest_conversation_counts() {
        let again = [vec![Entry::Restarted], turn("a", &["x"])].concat();
        check(&[turn("old", &["o"]), again], &[turn("a", &["x"])], None);
    }

    #[test]
    fn excerpts_show_the_difference_in_long_outputs() {
        let was = [turn("a", &[&format!("{}é here", "é".repeat(5_000))])];
        let is = [turn("a", &[&format!("{}é there", "é".repeat(5_000))])];
        let found = check(&was, &is, Some(1)).output.unwrap();
        assert!(
            found.recorded.len() < 500 && found.recorded.contains("here"),
            "{found:?}"
        );
        assert!(found.now.contains("there"));
    }
}
