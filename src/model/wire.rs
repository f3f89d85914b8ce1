//! A request as JSON, in the dialect that a server understands. Called by `endpoint`. Never sends
//! a key that nobody asked for, and never changes the conversation it is given.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::profile::{Replay, Traits};
use super::quirks::{Quirk, Quirks};
use super::text_mode;
use crate::model::{ChatRequest, Message, Role};

/// How one server's model is spoken to.
pub(super) struct Dialect<'a> {
    /// The model's name as the server knows it.
    pub(super) model: &'a str,
    /// What the model's family is like.
    pub(super) traits: &'a Traits,
    /// What the server turned out to be like.
    pub(super) quirks: &'a Quirks,
}

/// The body of a request for a reply of at most so many tokens.
pub(super) fn request_body(request: &ChatRequest, max_output: u32, dialect: &Dialect<'_>) -> Value {
    let quirks = dialect.quirks;
    let replay = dialect.replay();
    let messages: Vec<Value> = dialect
        .fitted(request)
        .iter()
        .map(|message| wire_message(message, replay, quirks.has(Quirk::ShortIds)))
        .collect();
    let limit = match quirks.has(Quirk::CompletionTokens) && !quirks.has(Quirk::PlainMaxTokens) {
        true => "max_completion_tokens",
        false => "max_tokens",
    };
    let mut body = json!({"model": dialect.model, "messages": messages, limit: max_output});
    if !quirks.has(Quirk::NoStream) {
        body["stream"] = json!(true);
        if !quirks.has(Quirk::NoStreamOptions) {
            body["stream_options"] = json!({"include_usage": true});
        }
    }
    if !request.tools.is_empty() && !quirks.has(Quirk::TextTools) {
        body["tools"] = request
            .tools
            .iter()
            .map(|tool| json!({"type": "function", "function": tool}))
            .collect();
    }
    if let Some(temperature) = dialect.traits.temperature.filter(|_| !quirks.has(Quirk::NoTemperature)) {
        body["temperature"] = json!(temperature);
    }
    if let Some(effort) = dialect
        .traits
        .reasoning_effort
        .as_ref()
        .filter(|_| !quirks.has(Quirk::NoEffort))
    {
        body["reasoning_effort"] = json!(effort);
    }
    body
}

impl Dialect<'_> {
    fn replay(&self) -> Replay {
        if self.quirks.has(Quirk::NoReplay) {
            Replay::Never
        } else if self.quirks.has(Quirk::ReplayReasoning) {
            Replay::Field("reasoning_content")
        } else {
            self.traits.replay
        }
    }

    /// The conversation with the roles that the server takes, in an order that it takes.
    fn fitted<'r>(&self, request: &'r ChatRequest) -> Cow<'r, [Arc<Message>]> {
        let has = |quirk| self.quirks.has(quirk);
        let mut messages = Cow::Borrowed(request.messages.as_slice());
        if has(Quirk::TextTools) {
            messages = Cow::Owned(text_mode::rewrite(&request.messages, &request.tools));
        }
        if has(Quirk::NoSystemRole) {
            let systems = messages
                .to_mut()
                .iter_mut()
                .filter(|message| message.role == Role::System);
            systems.for_each(|message| Arc::make_mut(message).role = Role::User);
        }
        if has(Quirk::NoUserAfterTool) && messages.windows(2).any(|pair| speaks_after_tool(&pair[0], &pair[1])) {
            messages = Cow::Owned(joined(&messages, speaks_after_tool));
        }
        if has(Quirk::TextTools) || has(Quirk::NoSystemRole) || has(Quirk::Alternate) {
            messages = Cow::Owned(joined(&messages, |one, other| {
                one.role == other.role && matches!(one.role, Role::User | Role::Assistant)
            }));
        }
        messages
    }
}

fn speaks_after_tool(one: &Message, other: &Message) -> bool {
    one.role == Role::Tool && other.role == Role::User
}

/// The conversation in which a message is added to the one before it where `belongs` says so.
fn joined(messages: &[Arc<Message>], belongs: impl Fn(&Message, &Message) -> bool) -> Vec<Arc<Message>> {
    let mut joined: Vec<Arc<Message>> = Vec::with_capacity(messages.len());
    for message in messages {
        match joined.last_mut() {
            Some(last) if belongs(last, message) => {
                let last = Arc::make_mut(last);
                if !last.content.is_empty() {
                    last.content.push_str("\n\n");
                }
                last.content.push_str(&message.content);
            }
            _ => joined.push(Arc::clone(message)),
        }
    }
    joined
}

fn wire_message(message: &Message, replay: Replay, short_ids: bool) -> Value {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let id_of = |id: &str| match short_ids {
        true => short(id),
        false => id.to_owned(),
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
                    "id": id_of(&call.id),
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
        wire["tool_call_id"] = json!(id_of(id));
    }
    if message.role == Role::Assistant && !message.reasoning.is_empty() {
        match replay {
            Replay::Never => {}
            Replay::Field(field) => wire[field] = json!(message.reasoning),
            Replay::Tags => {
                wire["content"] = json!(format!(
                    "<think>\n{}\n</think>\n\n{}",
                    message.reasoning, message.content
                ))
            }
        }
    }
    wire
}

/// Nine letters and digits for an id that has others, always the same ones.
fn short(id: &str) -> String {
    if id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return id.to_owned();
    }
    hex::encode(Sha256::digest(id))[..9].to_owned()
}

/// Servers parse the arguments of earlier calls again and fail on those that are no JSON object;
/// what was wrong stands in the tool's output, so nothing is lost by leaving them out.
fn replayable(arguments: &str) -> String {
    match serde_json::from_str::<Value>(arguments) {
        Ok(Value::Object(_)) => arguments.to_owned(),
        _ => "{}".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ModelConfig;
    use crate::model::{ToolCall, ToolSpec, profile};

    fn request() -> ChatRequest {
        let mut call = Message::user("");
        call.role = Role::Assistant;
        call.reasoning = "secret thought".to_owned();
        call.tool_calls = vec![ToolCall {
            id: "1".to_owned(),
            name: "a".to_owned(),
            arguments: "{broken".to_owned(),
        }];
        let mut plain = Message::user("hello");
        plain.role = Role::Assistant;
        ChatRequest {
            max_output_tokens: 100,
            ..ChatRequest::new([plain, call, Message::tool("1", "output")])
        }
    }

    fn body(request: &ChatRequest, name: &str, config: &ModelConfig, quirks: &[Quirk]) -> Value {
        let traits = profile::of(config, name);
        let dialect = Dialect {
            model: name,
            traits: &traits,
            quirks: &Quirks::with(quirks),
        };
        request_body(request, request.max_output_tokens, &dialect)
    }

    #[test]
    fn l19_l23_the_request_has_no_key_that_strict_servers_refuse() {
        assert_eq!(
            body(&request(), "m", &ModelConfig::default(), &[]),
            json!({
                "model": "m", "max_tokens": 100, "stream": true, "stream_options": {"include_usage": true},
                "messages": [
                    {"role": "assistant", "content": "hello"},
                    {"role": "assistant", "content": null, "tool_calls": [
                        {"id": "1", "type": "function", "function": {"name": "a", "arguments": "{}"}}]},
                    {"role": "tool", "content": "output", "tool_call_id": "1"},
                ],
            })
        );
    }

    #[test]
    fn l20_reasoning_goes_back_as_the_server_wants_it() {
        use Quirk::{NoReplay, ReplayReasoning};
        let of = |name: &str, quirks: &[Quirk]| {
            let message = &body(&request(), name, &ModelConfig::default(), quirks)["messages"][1];
            (
                message["reasoning_content"].clone(),
                message["reasoning"].clone(),
                message["content"].clone(),
            )
        };
        let thought = json!("secret thought");
        assert_eq!(of("m", &[]), (Value::Null, Value::Null, Value::Null));
        assert_eq!(of("m", &[ReplayReasoning]).0, thought);
        assert_eq!(of("kimi-k2-thinking", &[]).0, thought);
        assert_eq!(of("gpt-oss-20b", &[]).1, thought);
        assert_eq!(of("gpt-oss-20b", &[NoReplay]).1, Value::Null);
        assert_eq!(of("minimax-m2", &[]).2, "<think>\nsecret thought\n</think>\n\n");
    }

    #[test]
    fn only_what_is_set_and_taken_is_sent() {
        let config = ModelConfig {
            temperature: Some(0.5),
            reasoning_effort: Some("low".to_owned()),
            ..ModelConfig::default()
        };
        let sent = body(&request(), "m", &config, &[]);
        assert_eq!(
            (&sent["temperature"], &sent["reasoning_effort"]),
            (&json!(0.5), &json!("low"))
        );
        let quirks = [
            Quirk::NoTemperature,
            Quirk::NoEffort,
            Quirk::NoStreamOptions,
            Quirk::CompletionTokens,
        ];
        let sent = body(&request(), "m", &config, &quirks);
        for absent in ["temperature", "reasoning_effort", "stream_options", "max_tokens"] {
            assert!(sent.get(absent).is_none(), "{absent}");
        }
        assert_eq!(sent["max_completion_tokens"], 100);
        let sent = body(
            &request(),
            "m",
            &config,
            &[Quirk::CompletionTokens, Quirk::PlainMaxTokens, Quirk::NoStream],
        );
        assert_eq!(sent["max_tokens"], 100);
        assert!(sent.get("stream").is_none());
    }

    #[test]
    fn strict_orders_and_ids_are_kept() {
        let mut strict = request();
        strict.messages.push(Arc::new(Message::user("go on")));
        let sent = body(
            &strict,
            "m",
            &ModelConfig::default(),
            &[Quirk::ShortIds, Quirk::NoUserAfterTool],
        );
        let messages = sent["messages"].as_array().unwrap();
        assert_eq!(messages.len(), 3);
        assert_eq!(messages[2]["content"], "output\n\ngo on");
        let id = messages[2]["tool_call_id"].as_str().unwrap();
        assert!(id.len() == 9 && id == messages[1]["tool_calls"][0]["id"], "{id}");
        assert_eq!(short("abcDEF123"), "abcDEF123");
        strict.messages =
            ChatRequest::new([Message::system("rules"), Message::user("task"), Message::user("more")]).messages;
        let sent = body(&strict, "m", &ModelConfig::default(), &[Quirk::NoSystemRole]);
        assert_eq!(
            sent["messages"],
            json!([{"role": "user", "content": "rules\n\ntask\n\nmore"}])
        );
    }

    #[test]
    fn a_server_without_tools_gets_them_as_text() {
        let mut asked = request();
        asked.tools = vec![ToolSpec {
            name: "a".to_owned(),
            description: "Does a.".to_owned(),
            parameters: json!({"type": "object"}),
        }];
        let sent = body(&asked, "gemma3", &ModelConfig::default(), &[Quirk::TextTools]);
        assert!(sent.get("tools").is_none());
        let messages = sent["messages"].as_array().unwrap();
        assert!(
            messages
                .iter()
                .all(|message| message.get("tool_calls").is_none() && message["role"] != "tool")
        );
        assert!(messages[0]["content"].as_str().unwrap().contains("Does a."));
    }
}
