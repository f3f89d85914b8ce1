//! A reply put together from pieces of a stream or from one object, in every dialect seen. Called by
//! `reading`. Never lets half a tool call pass for a whole one, and never judges what arguments
//! mean.

use serde_json::Value;

use super::pricing;
use super::text_calls;
use crate::event::Usage;
use crate::model::{ChatReply, ChatRequest, FinishReason, ToolCall};

/// A reply in the making.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    content: String,
    reasoning: String,
    calls: Vec<Partial>,
    finish: Option<String>,
    usage: Option<Usage>,
    cached_input: u64,
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

    /// What was said so far, thinking between tags included.
    pub(super) fn content(&self) -> &str {
        &self.content
    }

    /// What was thought so far, where the server keeps it apart.
    pub(super) fn reasoning(&self) -> &str {
        &self.reasoning
    }

    /// What the server says that it read and wrote, if it has said so yet.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// Tokens of the input that the server had in a cache.
    pub(super) fn cached_input(&self) -> u64 {
        self.cached_input
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
        let cached = [
            &usage["prompt_tokens_details"]["cached_tokens"],
            &usage["input_tokens_details"]["cached_tokens"],
            &usage["prompt_cache_hit_tokens"],
            &usage["cache_read_input_tokens"],
            &usage["cached_tokens"],
        ];
        let cached = cached.into_iter().find_map(Value::as_u64).unwrap_or(0);
        self.cached_input = self.cached_input.max(cached);
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

    /// The finished reply of a model, with the tokens counted here where the server did not say.
    pub(super) fn into_reply(mut self, request: &ChatRequest, model: &str) -> ChatReply {
        let (content, thought) = split_thinking(&self.content);
        if !thought.is_empty() {
            if !self.reasoning.is_empty() {
                self.reasoning.push('\n');
            }
            self.reasoning.push_str(&thought);
        }
        let reason = self.finish.as_deref().unwrap_or("stop").to_owned();
        let cut = CUT_REASONS.contains(&reason.as_str());
        let mut tool_calls = finished_calls(self.calls, cut);
        let mut content = content;
        if tool_calls.is_empty() && !cut {
            (content, tool_calls) = text_calls::extract(content, &request.tools);
        }
        let finish = match reason.as_str() {
            _ if cut => FinishReason::Length,
            "content_filter" | "refusal" | "safety" | "SAFETY" | "sensitive" => FinishReason::Filtered,
            _ if !tool_calls.is_empty() => FinishReason::ToolCalls,
            // The server meant to call a tool and sent none: its limit cut the call away.
            "tool_calls" | "function_call" => FinishReason::Length,
            _ => FinishReason::Stop,
        };
        let mut reply = ChatReply {
            model: model.to_owned(),
            notes: Vec::new(),
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

/// How servers say that a limit cut the reply.
const CUT_REASONS: [&str; 6] = [
    "length",
    "max_tokens",
    "MAX_TOKENS",
    "max_output_tokens",
    "model_length",
    "model_context_window_exceeded",
];

/// The calls in order. One that a limit cut keeps arguments that are no JSON, so that nobody can
/// run it; it is there to be answered, and only the last can be one.
fn finished_calls(partials: Vec<Partial>, cut: bool) -> Vec<ToolCall> {
    let mut calls: Vec<ToolCall> = Vec::new();
    for partial in partials {
        if partial.name.is_empty() && (partial.arguments.is_empty() || cut) {
            continue;
        }
        let id = match partial.id {
            id if id.is_empty() || calls.iter().any(|call| call.id == id) => made_up_id(),
            id => id,
        };
        let arguments = match partial.arguments.trim() {
            "" if cut => "{".to_owned(),
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
