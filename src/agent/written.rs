//! Replies and outputs as they are written down, in events and in the log, for the agent and for
//! its children alike. Called by `turn` and `subagent`. Never keeps text that is longer than its
//! bound, or arguments that were not redacted.

use crate::agent::Task;
use crate::event::RunEvent;
use crate::model::{ChatReply, Message, Role, ToolCall};
use crate::phrase;
use crate::text;

/// Most bytes that are kept of what one reply says, and of what it thinks.
const MAX_SAID_BYTES: usize = 256 * 1024;

/// Most bytes that are kept of one call's arguments: longer ones are refused anyway.
const MAX_ARGUMENT_BYTES: usize = 1024 * 1024 + 1;

/// Whose turn it is, and how much of it is written down.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written<'a> {
    /// Turn of the leading agent, from 1.
    pub(super) turn: u32,
    /// The child's name; empty for the leading agent.
    pub(super) agent: &'a str,
    /// Most calls taken of one reply.
    pub(super) max_calls: usize,
    /// Most bytes of one text in an event.
    pub(super) max_event_bytes: usize,
}

impl Written<'_> {
    /// The event of a reply, which is to be written together with the reply itself.
    pub(super) fn reply(&self, reply: &ChatReply, took_ms: u64) -> RunEvent {
        let calls = reply.tool_calls.iter().take(self.max_calls);
        RunEvent::ModelReplied {
            turn: self.turn,
            model: reply.model.clone(),
            agent: self.agent.to_owned(),
            text: text::cap_middle(&reply.content, self.max_event_bytes),
            reasoning: text::cap_middle(&reply.reasoning, self.max_event_bytes),
            tools: calls.map(|call| call.name.clone()).collect(),
            usage: reply.usage,
            cost_usd: reply.cost_usd,
            took_ms,
        }
    }

    /// Records what people should know of how a reply came about.
    pub(super) async fn notes(&self, task: &Task<'_>, reply: &ChatReply) -> Result<(), crate::store::StoreError> {
        for note in &reply.notes {
            let text = phrase::model::note(task.setting.language, note);
            task.recorder.record(RunEvent::Noted { text }).await?;
        }
        Ok(())
    }

    /// A reply as it stands in the conversation.
    pub(super) fn kept(&self, task: &Task<'_>, reply: &ChatReply) -> Message {
        let redactor = task.recorder.redactor();
        let clean = |text: &str, max_bytes: usize| redactor.redact(&text::cap_middle(text, max_bytes));
        let calls = reply.tool_calls.iter().take(self.max_calls).map(|call| ToolCall {
            arguments: clean(&call.arguments, MAX_ARGUMENT_BYTES),
            ..call.clone()
        });
        Message {
            role: Role::Assistant,
            content: clean(&reply.content, MAX_SAID_BYTES),
            reasoning: clean(&reply.reasoning, MAX_SAID_BYTES),
            tool_calls: calls.collect(),
            tool_call_id: None,
        }
    }

    /// A tool call that ended, with its output as the model is shown it.
    pub(super) fn called(&self, call: &ToolCall, shown: &str, ok: bool, took_ms: u64) -> RunEvent {
        RunEvent::ToolCalled {
            turn: self.turn,
            agent: self.agent.to_owned(),
            tool: text::cap_chars(&call.name, 100),
            arguments: text::cap_middle(&call.arguments, self.max_event_bytes),
            output: text::cap_middle(shown, self.max_event_bytes),
            ok,
            took_ms,
        }
    }
}
