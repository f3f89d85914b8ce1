//! What servers say and take in ways of their own: calls in every shape, tools as text, fields that
//! are refused or wanted.

use std::sync::Arc;

use forgehand::config::ModelConfig;
use forgehand::model::{ChatReply, FinishReason, Message, Role, ToolCall};
use forgehand::phrase::model::ModelNote;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{ask, config, open, request};
use crate::model_server::{ModelServer, Reply, Said};

fn stream(chunks: &[Value]) -> Reply {
    let mut body: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    body.push_str("data: [DONE]\n\n");
    Reply::raw(200, "text/event-stream", body)
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

fn end(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn calls(reply: &ChatReply) -> Vec<(&str, &str)> {
    let calls = reply.tool_calls.iter();
    calls
        .map(|call| (call.name.as_str(), call.arguments.as_str()))
        .collect()
}

async fn answer(reply: Reply) -> ChatReply {
    let server = ModelServer::start([reply]).await;
    let reply = ask(&server).await.expect("a reply");
    server.assert_all_read();
    reply
}

#[tokio::test]
async fn l08_arguments_may_be_an_object() {
    let whole = json!({"choices": [{"finish_reason": "tool_calls", "message": {"role": "assistant", "content": null,
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "grep", "arguments": {"pattern": "x"}}}]}}]});
    assert_eq!(
        calls(&answer(Reply::json(&whole)).await),
        [("grep", r#"{"pattern":"x"}"#)]
    );
    let piece = delta(
        json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "grep", "arguments": {"pattern": "x"}}}]}),
    );
    let streamed = answer(stream(&[piece, end("tool_calls")])).await;
    assert_eq!(calls(&streamed), [("grep", r#"{"pattern":"x"}"#)]);
}

#[tokio::test]
async fn l10_l13_a_wrong_call_is_passed_on_as_one_and_not_called_cut() {
    let said = Said::calls([("grep", "{\"pattern\": \"x".to_owned())]);
    let reply = answer(said.reply()).await;
    assert_eq!(
        (reply.finish, calls(&reply)),
        (FinishReason::ToolCalls, vec![("grep", "{\"pattern\": \"x")])
    );
    let empty = answer(stream(&[delta(json!({"content": ""})), end("tool_calls")])).await;
    assert_eq!(empty.finish, FinishReason::Length, "its limit cut the call away");
}

#[tokio::test]
async fn l11_l38_calls_left_in_the_text_count_where_there_are_no_others() {
    let text = "I look.\n<tool_call>\n<function=grep>\n<parameter=pattern>\nx\n</parameter>\n</function>\n</tool_call>";
    let reply = answer(Reply::say(text)).await;
    assert_eq!(
        (reply.content.as_str(), reply.finish),
        ("I look.", FinishReason::ToolCalls)
    );
    assert_eq!(calls(&reply), [("grep", r#"{"pattern":"x"}"#)]);
    let hermes = "<tool_call>{\"name\": \"grep\", \"arguments\": {\"pattern\": \"y\"}}</tool_call>";
    let whole = json!({"choices": [{"finish_reason": "stop", "message": {"content": hermes, "tool_calls": null}}]});
    assert_eq!(
        calls(&answer(Reply::json(&whole)).await),
        [("grep", r#"{"pattern":"y"}"#)]
    );
    let both = [
        delta(json!({"content": hermes})),
        delta(json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "grep", "arguments": "{}"}}]})),
        end("tool_calls"),
    ];
    let reply = answer(stream(&both)).await;
    assert_eq!(calls(&reply), [("grep", "{}")], "structured calls win");
    assert_eq!(reply.content, hermes, "and the text stays as it was");
}

#[tokio::test]
async fn l14_two_parallel_calls_of_which_the_first_is_empty_stay_apart() {
    let pieces = [
        json!([{"index": 0, "id": "a", "function": {"name": "grep", "arguments": ""}}]),
        json!([{"index": 0, "id": "b", "function": {"name": "grep", "arguments": ""}}]),
        json!([{"function": {"arguments": "{\"pattern\""}}]),
        json!([{"index": 1, "function": {"arguments": ":\"x\"}"}}]),
    ];
    let mut chunks: Vec<Value> = pieces
        .into_iter()
        .map(|calls| delta(json!({"tool_calls": calls})))
        .collect();
    chunks.push(end("tool_calls"));
    let reply = answer(stream(&chunks)).await;
    assert_eq!(calls(&reply), [("grep", "{}"), ("grep", r#"{"pattern":"x"}"#)]);
}

/// A conversation with a call, its output, thoughts and a remark.
fn conversation() -> Vec<Arc<Message>> {
    let call = Message {
        role: Role::Assistant,
        content: "I look.".to_owned(),
        reasoning: "Where may it be?".to_owned(),
        tool_calls: vec![ToolCall {
            id: "call_of_another_server".to_owned(),
            name: "grep".to_owned(),
            arguments: r#"{"pattern":"x"}"#.to_owned(),
        }],
        tool_call_id: None,
    };
    let said = [
        Message::system("You help."),
        Message::user("Fix it."),
        call,
        Message::tool("call_of_another_server", "a.rs:1: x"),
        Message::user("Two replies are left."),
    ];
    said.map(Arc::new).to_vec()
}

async fn sent(config: ModelConfig, server: &ModelServer) -> Value {
    let mut request = request();
    request.messages = conversation();
    open(&config)
        .complete(&request, &CancellationToken::new())
        .await
        .expect("a reply");
    server.assert_all_read();
    server.requests().last().expect("a request").body.clone()
}

#[tokio::test]
async fn l20_thoughts_stay_out_of_the_content_and_go_back_where_they_are_wanted() {
    for (name, field) in [
        ("gpt-4o", None),
        ("kimi-k2-thinking", Some("reasoning_content")),
        ("gpt-oss-20b", Some("reasoning")),
    ] {
        let server = ModelServer::start([Reply::say("Hello")]).await;
        let config = ModelConfig {
            name: name.to_owned(),
            ..config(&server)
        };
        let body = sent(config, &server).await;
        let replayed = &body["messages"][2];
        assert_eq!(replayed["content"], "I look.", "{name}");
        for known in ["reasoning_content", "reasoning"] {
            assert_eq!(replayed.get(known).is_some(), field == Some(known), "{name} {known}");
        }
    }
}

#[tokio::test]
async fn l22_nested_properties_reach_the_server_as_they_are() {
    let nested = json!({"type": "object", "properties": {"where": {"type": "object", "properties": {
        "files": {"type": "array", "items": {"type": "object", "properties": {"path": {"type": "string"}}}}}}}});
    let server = ModelServer::start([Reply::say("Hello")]).await;
    let mut request = request();
    request.tools[0].parameters = nested.clone();
    open(&config(&server))
        .complete(&request, &CancellationToken::new())
        .await
        .unwrap();
    assert_eq!(server.requests()[0].body["tools"][0]["function"]["parameters"], nested);
}

#[tokio::test]
async fn l34_usage_behind_the_calls_is_read() {
    let said = Said::calls([("grep", "{}".to_owned())]).usage(Some((777, 33)));
    let usage = answer(said.reply()).await.usage;
    assert_eq!(
        (usage.input_tokens, usage.output_tokens, usage.reported),
        (777, 33, true)
    );
}

#[tokio::test]
async fn a_server_that_takes_no_tools_gets_them_as_text_from_then_on() {
    let call = "<tool_call>\n<function=grep>\n<parameter=pattern>\nx\n</parameter>\n</function>\n</tool_call>";
    let server = ModelServer::start([
        Reply::error(400, "registry.ollama.ai/library/tiny does not support tools"),
        Reply::say(call),
        Reply::say("Done."),
    ])
    .await;
    let model = open(&config(&server));
    let first = model.complete(&request(), &CancellationToken::new()).await.unwrap();
    assert_eq!(calls(&first), [("grep", r#"{"pattern":"x"}"#)]);
    let in_text = ModelNote::ToolsInText {
        model: "test-model".to_owned(),
    };
    assert_eq!(first.notes, [in_text]);
    let mut next = request();
    next.messages = conversation();
    let second = model.complete(&next, &CancellationToken::new()).await.unwrap();
    assert!(second.notes.is_empty());
    let requests = server.requests();
    assert!(requests[0].body.get("tools").is_some());
    for at in [1, 2] {
        assert!(requests[at].body.get("tools").is_none());
        let system = requests[at].messages()[0]["content"].as_str().unwrap();
        assert!(system.starts_with("You help.") && system.contains("## grep") && system.contains("\"pattern\""));
    }
    let messages = requests[2].messages();
    assert_eq!(messages.len(), 4, "roles take turns: {messages:#?}");
    assert!(messages[2]["content"].as_str().unwrap().contains("<function=grep>"));
    let output = messages[3]["content"].as_str().unwrap();
    assert!(
        output.contains("<tool_response name=\"grep\">\na.rs:1: x\n</tool_response>") && output.ends_with("are left.")
    );
    server.assert_all_read();
}

#[tokio::test]
async fn what_a_server_refuses_is_left_out_from_then_on() {
    let server = ModelServer::start([
        Reply::error(
            400,
            "Unsupported parameter: 'temperature' is not supported with this model.",
        ),
        Reply::error(400, "Unrecognized request argument supplied: reasoning_effort"),
        Reply::error(
            400,
            "max_tokens is too large: 500. This model supports at most 300 completion tokens",
        ),
        Reply::error(400, "Unexpected role 'user' after role 'tool'"),
        Reply::error(
            400,
            "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
        ),
        Reply::say("Hello"),
    ])
    .await;
    let config = ModelConfig {
        temperature: Some(0.3),
        reasoning_effort: Some("low".to_owned()),
        ..config(&server)
    };
    let body = sent(config, &server).await;
    assert!(body.get("temperature").is_none() && body.get("reasoning_effort").is_none());
    assert_eq!(body["max_tokens"], 300);
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 4);
    assert_eq!(messages[3]["content"], "a.rs:1: x\n\nTwo replies are left.");
    assert_eq!(messages[3]["tool_call_id"].as_str().map(str::len), Some(9));
    let first = &server.requests()[0].body;
    assert_eq!(
        (&first["temperature"], &first["reasoning_effort"]),
        (&json!(0.3), &json!("low"))
    );
}

#[tokio::test]
async fn a_server_that_always_refuses_is_not_asked_for_ever() {
    let number = |at: u32| Reply::error(400, &format!("max_tokens is too large: at most {}", 490 - at));
    let server = ModelServer::start((0..9).map(number)).await;
    let error = ask(&server).await.unwrap_err().to_string();
    assert!(error.contains("too large"), "{error}");
    server.assert_all_read();
}
