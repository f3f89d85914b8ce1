//! Chat completions as JSON: the request that is sent, and the reply put together from a stream
//! of pieces or from one object, in every dialect seen. Called by `client`. Never lets half a
//! tool call through, and never judges what arguments mean.

use serde_json::{Value, json};

use super::pricing;
use super::quirks::{Quirk, Quirks};
use super::text_calls;
use crate::event::Usage;
use crate::model::{ChatReply, ChatRequest, FinishReason, Message, Role, ToolCall};

/// The body of a request.
pub(super) fn request_body(request: &ChatRequest, model: &str, quirks: &Quirks) -> Value {
    let replay_reasoning = quirks.has(Quirk::ReplayReasoning);
    let messages: Vec<Value> = request
        .messages
        .iter()
        .map(|message| wire_message(message, replay_reasoning))
        .collect();
    let limit = if quirks.has(Quirk::CompletionTokens) {
        "max_completion_tokens"
    } else {
        "max_tokens"
    };
    let mut body = json!({"model": model, "messages": messages, limit: request.max_output_tokens});
    if !quirks.has(Quirk::NoStream) {
        body["stream"] = json!(true);
        if !quirks.has(Quirk::NoStreamOptions) {
            body["stream_options"] = json!({"include_usage": true});
        }
    }
    if !request.tools.is_empty() {
        body["tools"] = request
            .tools
            .iter()
            .map(|tool| json!({"type": "function", "function": tool}))
            .collect();
    }
    body
}

fn wire_message(message: &Message, replay_reasoning: bool) -> Value {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    // Always a plain string: some servers refuse a list of parts from tools.
    let mut wire = json!({"role": role, "content": message.content});
    if message.role == Role::Assistant && message.content.is_empty() {
        // Some servers refuse a reply without any content, even if it was their own.
        wire["content"] = json!("(empty reply)");
    }
    if !message.tool_calls.is_empty() {
        // Absent otherwise: several servers refuse `null` and `[]`.
        wire["tool_calls"] = message
            .tool_calls
            .iter()
            .map(|call| {
                json!({
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": replayable(&call.arguments)},
                })
            })
            .collect();
        if message.content.is_empty() {
            wire["content"] = Value::Null;
        }
    }
    if let Some(id) = &message.tool_call_id {
        wire["tool_call_id"] = json!(id);
    }
    if replay_reasoning && message.role == Role::Assistant && !message.reasoning.is_empty() {
        wire["reasoning_content"] = json!(message.reasoning);
    }
    wire
}

/// Servers parse the arguments of earlier calls again and fail on those that are no JSON object;
/// what was wrong stands in the tool's output, so nothing is lost by leaving them out.
fn replayable(arguments: &str) -> String {
    match serde_json::from_str::<Value>(arguments) {
        Ok(Value::Object(_)) => arguments.to_owned(),
        _ => "{}".to_owned(),
    }
}

/// A reply in the making.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    content: String,
    reasoning: String,
    calls: Vec<Partial>,
    finish: Option<String>,
    usage: Option<Usage>,
}

#[derive(Debug, Default)]
struct Partial {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl Assembly {
    /// Takes one piece of a stream, or a whole reply.
    pub(super) fn absorb(&mut self, chunk: &Value) {
        self.absorb_usage(&chunk["usage"]);
        self.absorb_usage(&chunk["x_groq"]["usage"]);
        let choice = &chunk["choices"][0];
        self.absorb_usage(&choice["usage"]);
        if let Some(reason) = choice["finish_reason"].as_str().filter(|reason| !reason.is_empty()) {
            self.finish = Some(reason.to_owned());
        }
        for part in [&choice["delta"], &choice["message"]] {
            push_text(&mut self.content, &part["content"]);
            let before = self.reasoning.len();
            push_text(&mut self.reasoning, &part["reasoning_content"]);
            if self.reasoning.len() == before {
                push_text(&mut self.reasoning, &part["reasoning"]);
            }
            for call in part["tool_calls"].as_array().into_iter().flatten() {
                self.absorb_call(call);
            }
        }
    }

    /// Whether the server said why it ended; without that, the reply is cut.
    pub(super) fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// Bytes written so far, to count what a cut reply may have cost.
    pub(super) fn written_bytes(&self) -> usize {
        let calls: usize = self
            .calls
            .iter()
            .map(|call| call.name.len() + call.arguments.len())
            .sum();
        self.content.len() + self.reasoning.len() + calls
    }

    /// Servers send running totals or one total: the largest is the right one.
    fn absorb_usage(&mut self, usage: &Value) {
        let count = |names: [&str; 2]| names.iter().find_map(|name| usage[*name].as_u64());
        let (Some(input), Some(output)) = (
            count(["prompt_tokens", "input_tokens"]),
            count(["completion_tokens", "output_tokens"]),
        ) else {
            return;
        };
        let so_far = self.usage.unwrap_or_default();
        self.usage = Some(Usage {
            input_tokens: so_far.input_tokens.max(input),
            output_tokens: so_far.output_tokens.max(output),
            reported: true,
        });
    }

    fn absorb_call(&mut self, piece: &Value) {
        let index = piece["index"].as_u64();
        let id = piece["id"].as_str().unwrap_or_default();
        let function = &piece["function"];
        let name = function["name"].as_str().unwrap_or_default();
        let at = self.find_call(index, id, name).unwrap_or_else(|| {
            self.calls.push(Partial {
                index,
                ..Partial::default()
            });
            self.calls.len() - 1
        });
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        match &function["arguments"] {
            Value::Null => {}
            Value::String(text) => call.arguments.push_str(text),
            whole => call.arguments = whole.to_string(),
        }
    }

    /// The call that a piece continues; `None`: it begins another one. Indexes cannot be relied
    /// on (some servers leave them out or send 0 for every call), ids appear only once.
    fn find_call(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let same_index = || {
            self.calls
                .iter()
                .rposition(|call| index.is_some() && call.index == index)
        };
        if !id.is_empty() {
            if let Some(known) = self.calls.iter().position(|call| call.id == id) {
                return Some(known);
            }
            return same_index().filter(|at| self.calls[*at].id.is_empty() && self.calls[*at].name.is_empty());
        }
        let candidate = match (same_index(), name.is_empty()) {
            (Some(at), _) => at,
            // Arguments with an index that never began a call belong to the latest one.
            (None, true) => self.calls.len().checked_sub(1)?,
            (None, false) => return None,
        };
        let call = &self.calls[candidate];
        let begins_another =
            !name.is_empty() && !call.name.is_empty() && (call.name != name || is_object(&call.arguments));
        (!begins_another).then_some(candidate)
    }

    /// The finished reply, with the tokens counted here where the server did not say.
    pub(super) fn into_reply(mut self, request: &ChatRequest) -> ChatReply {
        let (content, thought) = split_thinking(&self.content);
        if !thought.is_empty() {
            if !self.reasoning.is_empty() {
                self.reasoning.push('\n');
            }
            self.reasoning.push_str(&thought);
        }
        let reason = self.finish.as_deref().unwrap_or("stop").to_owned();
        let cut = matches!(reason.as_str(), "length" | "max_tokens" | "MAX_TOKENS");
        let mut tool_calls = finished_calls(self.calls, cut);
        let mut content = content;
        if tool_calls.is_empty() && !cut {
            (content, tool_calls) = text_calls::extract(content, &request.tools);
        }
        let finish = match reason.as_str() {
            _ if cut => FinishReason::Length,
            "content_filter" | "refusal" | "safety" => FinishReason::Filtered,
            _ if !tool_calls.is_empty() => FinishReason::ToolCalls,
            // The server meant to call a tool and sent none: its limit cut the call away.
            "tool_calls" | "function_call" => FinishReason::Length,
            _ => FinishReason::Stop,
        };
        let mut reply = ChatReply {
            content: content.trim().to_owned(),
            reasoning: self.reasoning.trim().to_owned(),
            tool_calls,
            finish,
            usage: Usage::default(),
            cost_usd: None,
        };
        reply.usage = self.usage.unwrap_or_else(|| Usage {
            input_tokens: pricing::count_request(request),
            output_tokens: pricing::count_reply(&reply),
            reported: false,
        });
        reply
    }
}

fn finished_calls(partials: Vec<Partial>, cut: bool) -> Vec<ToolCall> {
    let mut calls: Vec<ToolCall> = Vec::new();
    for partial in partials {
        if partial.name.is_empty() && partial.arguments.is_empty() || cut && !is_object(&partial.arguments) {
            continue;
        }
        let id = match partial.id {
            id if id.is_empty() || calls.iter().any(|call| call.id == id) => made_up_id(),
            id => id,
        };
        let arguments = match partial.arguments.trim() {
            "" => "{}".to_owned(),
            _ => partial.arguments,
        };
        calls.push(ToolCall {
            id,
            name: leading_identifier(&partial.name),
            arguments,
        });
    }
    calls
}

/// An id for a call that came without one.
pub(super) fn made_up_id() -> String {
    format!("call_{}", crate::secret::random_hex::<8>())
}

/// The name without what careless servers leave at its end (`read_file</function>`).
pub(super) fn leading_identifier(name: &str) -> String {
    name.trim_start()
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
        .take(128)
        .collect()
}

fn is_object(arguments: &str) -> bool {
    matches!(serde_json::from_str::<Value>(arguments), Ok(Value::Object(_)))
}

/// Text that is a string or a list of parts with a `text` each.
fn push_text(into: &mut String, value: &Value) {
    match value {
        Value::String(text) => into.push_str(text),
        Value::Array(parts) => {
            for part in parts {
                into.push_str(part["text"].as_str().unwrap_or_default());
            }
        }
        _ => {}
    }
}

/// Takes the thinking out of a text that has it at its beginning between `<think>` tags. Chat
/// templates often swallow the opening tag; a reply that was cut lacks the closing one.
fn split_thinking(content: &str) -> (String, String) {
    let start = content.trim_start();
    let (open, rest) = match start.strip_prefix("<think>") {
        Some(rest) => (true, rest),
        None => (false, start),
    };
    match rest.split_once("</think>") {
        Some((thought, said)) if open || !thought.contains("<think>") => (said.to_owned(), thought.trim().to_owned()),
        None if open => (String::new(), rest.trim().to_owned()),
        _ => (content.to_owned(), String::new()),
    }
}

#[cfg(test)]
mod tests;
