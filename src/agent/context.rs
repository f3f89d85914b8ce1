//! The conversation as a list of messages: mended after an interruption, and made shorter when it
//! does not fit the model. Called by `turn`. Never separates a tool call from its output.

use std::collections::HashSet;

use crate::model::{Message, Role, ToolCall};

/// What a tool call is answered with whose run was interrupted.
pub(super) const INTERRUPTED: &str = "[interrupted: the run was stopped before this call ended. The workspace may already hold its effect; look before you repeat it.]";

/// Outputs up to this size are not worth dropping.
const SMALL_BYTES: usize = 1_024;

/// As many outputs at the end are never dropped: the model is working with them.
const KEPT_OUTPUTS: usize = 4;

/// Gives every tool call of a stored conversation exactly one output, right behind it, and drops
/// outputs that no call asked for. Calls of the last reply that have no output yet are returned:
/// the caller gives them theirs.
pub(super) fn mend(messages: Vec<Message>) -> (Vec<Message>, Vec<ToolCall>) {
    let mut mended: Vec<Message> = Vec::with_capacity(messages.len());
    let mut open: Vec<ToolCall> = Vec::new();
    for message in messages {
        if message.role == Role::Tool {
            let answered = message.tool_call_id.as_ref();
            if let Some(at) = open.iter().position(|call| Some(&call.id) == answered) {
                open.remove(at);
                mended.push(message);
            }
            continue;
        }
        mended.extend(open.drain(..).map(|call| Message::tool(call.id, INTERRUPTED)));
        let mut seen = HashSet::new();
        open.extend(
            message
                .tool_calls
                .iter()
                .filter(|call| seen.insert(call.id.clone()))
                .cloned(),
        );
        mended.push(message);
    }
    (mended, open)
}

/// Drops bulky old tool outputs; their calls and a note stay. `None`: there was nothing to drop,
/// otherwise the bytes won.
pub(super) fn shed(messages: &mut [Message]) -> Option<usize> {
    let outputs = messages.iter().filter(|message| message.role == Role::Tool).count();
    let mut won = 0;
    let old = messages
        .iter_mut()
        .filter(|message| message.role == Role::Tool)
        .take(outputs.saturating_sub(KEPT_OUTPUTS));
    for message in old.filter(|message| message.content.len() > SMALL_BYTES) {
        let note = format!(
            "[{} bytes of output were dropped to make room; make the call again if you need it]",
            message.content.len()
        );
        won += message.content.len() - note.len();
        message.content = note;
    }
    (won > 0).then_some(won)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(ids: &[&str]) -> Message {
        Message {
            role: Role::Assistant,
            tool_calls: ids
                .iter()
                .map(|id| ToolCall {
                    id: (*id).to_owned(),
                    name: "grep".to_owned(),
                    arguments: "{}".to_owned(),
                })
                .collect(),
            ..Message::user("")
        }
    }

    fn shape(messages: &[Message]) -> String {
        let words: Vec<String> = messages
            .iter()
            .map(|message| match (message.role, &message.tool_call_id) {
                (Role::Tool, Some(id)) if message.content == INTERRUPTED => format!("{id}!"),
                (Role::Tool, id) => id.clone().unwrap_or_default(),
                (Role::Assistant, _) => format!("A{}", message.tool_calls.len()),
                _ => "U".to_owned(),
            })
            .collect();
        words.join(" ")
    }

    #[track_caller]
    fn check(messages: Vec<Message>, expected: &str, open: &[&str]) {
        let (mended, left) = mend(messages);
        assert_eq!(shape(&mended), expected);
        let left: Vec<&str> = left.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(left, open);
    }

    #[test]
    fn l17_every_call_gets_its_output_after_an_interruption() {
        let user = || Message::user("x");
        check(vec![user(), calls(&["a", "b"])], "U A2", &["a", "b"]);
        check(
            vec![user(), calls(&["a", "b"]), Message::tool("a", "x")],
            "U A2 a",
            &["b"],
        );
        check(vec![user(), calls(&["a"]), user()], "U A1 a! U", &[]);
        check(
            vec![user(), calls(&["a"]), Message::tool("a", "x"), Message::tool("a", "y")],
            "U A1 a",
            &[],
        );
        check(vec![user(), Message::tool("z", "x"), calls(&[])], "U A0", &[]);
    }

    #[test]
    fn c7_old_output_is_dropped_and_its_call_stays() {
        let mut messages = vec![Message::user("x")];
        for id in ["a", "b", "c", "d", "e", "f"] {
            messages.push(calls(&[id]));
            messages.push(Message::tool(id, "x".repeat(if id == "b" { 10 } else { 5_000 })));
        }
        let before = shape(&messages);
        assert!(shed(&mut messages).is_some_and(|won| won > 4_000));
        assert_eq!(shape(&messages), before);
        assert!(messages[2].content.starts_with("[5000 bytes of output were dropped"));
        assert_eq!(messages[4].content.len(), 10, "small ones stay");
        assert_eq!(messages[6].content.len(), 5_000, "recent ones stay");
        assert_eq!(shed(&mut messages), None, "no progress is said to be none");
    }
}
