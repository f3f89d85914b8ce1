//! Replies in every dialect of the chat completions.

use super::*;
use crate::model::Message;
use serde_json::json;

fn request() -> ChatRequest {
    ChatRequest {
        max_output_tokens: 100,
        ..ChatRequest::new([Message::user("fix it")])
    }
}

fn assemble(pieces: &[Value]) -> ChatReply {
    let mut assembly = Assembly::default();
    for piece in pieces {
        assembly.absorb(piece);
    }
    assembly.into_reply(&request(), "m")
}

fn calls_piece(calls: Value) -> Value {
    json!({"choices": [{"delta": {"tool_calls": calls}}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"delta": {}, "finish_reason": reason}]})
}

#[track_caller]
fn check(pieces: &[Value], reason: &str, expected: &[(&str, &str)]) {
    let mut chunks: Vec<Value> = pieces.iter().map(|piece| calls_piece(piece.clone())).collect();
    chunks.push(finish(reason));
    let reply = assemble(&chunks);
    let calls: Vec<(&str, &str)> = reply
        .tool_calls
        .iter()
        .map(|call| (call.name.as_str(), call.arguments.as_str()))
        .collect();
    assert_eq!(calls, expected);
    assert!(reply.tool_calls.iter().all(|call| !call.id.is_empty()));
}

#[test]
fn calls_are_put_together_from_pieces() {
    check(
        &[
            json!([{"index": 0, "id": "a", "function": {"name": "grep", "arguments": ""}}]),
            json!([{"index": 0, "function": {"arguments": "{\"p\":"}}]),
            json!([{"index": 0, "function": {"arguments": "1}"}}]),
        ],
        "tool_calls",
        &[("grep", "{\"p\":1}")],
    );
}

#[test]
fn several_calls_at_once_stay_apart() {
    let expected = [("a", "{}"), ("b", "{\"x\":1}")];
    // interleaved, by index
    check(
        &[
            json!([{"index": 0, "id": "1", "function": {"name": "a", "arguments": ""}},
                   {"index": 1, "id": "2", "function": {"name": "b"}}]),
            json!([{"index": 1, "function": {"arguments": "{\"x\":1}"}}]),
        ],
        "tool_calls",
        &expected,
    );
    // every call with index 0, told apart by id
    check(
        &[
            json!([{"index": 0, "id": "1", "function": {"name": "a", "arguments": ""}}]),
            json!([{"index": 0, "id": "2", "function": {"name": "b", "arguments": "{\"x\""}}]),
            json!([{"index": 0, "function": {"arguments": ":1}"}}]),
        ],
        "tool_calls",
        &expected,
    );
    // no index at all, arguments as an object
    check(
        &[
            json!([{"id": "1", "function": {"name": "a"}}, {"id": "2", "function": {"name": "b", "arguments": {"x": 1}}}]),
        ],
        "stop",
        &expected,
    );
    // no index, no id, whole calls
    check(
        &[
            json!([{"function": {"name": "a", "arguments": "{}"}}]),
            json!([{"function": {"name": "b", "arguments": "{\"x\":1}"}}]),
        ],
        "stop",
        &expected,
    );
    // arguments under an index that never began a call
    check(
        &[
            json!([{"index": 0, "id": "1", "function": {"name": "a", "arguments": ""}}]),
            json!([{"index": 1, "id": "2", "function": {"name": "b", "arguments": ""}}]),
            json!([{"index": 2, "function": {"arguments": "{\"x\":1}"}}]),
        ],
        "tool_calls",
        &expected,
    );
    // the same tool twice under one index, without ids
    check(
        &[
            json!([{"index": 0, "function": {"name": "a", "arguments": "{}"}}]),
            json!([{"index": 0, "function": {"name": "a", "arguments": "{\"x\":1}"}}]),
        ],
        "tool_calls",
        &[("a", "{}"), ("a", "{\"x\":1}")],
    );
}

#[test]
fn a_name_repeated_in_every_piece_is_one_call() {
    check(
        &[
            json!([{"index": 0, "id": "1", "function": {"name": "a", "arguments": "{\"x\""}}]),
            json!([{"index": 0, "function": {"name": "a", "arguments": ":1}"}}]),
        ],
        "tool_calls",
        &[("a", "{\"x\":1}")],
    );
}

#[test]
fn l1_names_are_freed_of_leftovers() {
    check(
        &[json!([{"index": 0, "id": "1", "function": {"name": "edit_file</function>", "arguments": "{}"}}])],
        "tool_calls",
        &[("edit_file", "{}")],
    );
}

#[test]
fn equal_ids_are_told_apart() {
    let mut assembly = Assembly::default();
    assembly.absorb(&calls_piece(
        json!([{"index": 0, "id": "", "function": {"name": "a", "arguments": "{}"}},
                                        {"index": 1, "id": "", "function": {"name": "a", "arguments": "{}"}}]),
    ));
    assembly.absorb(&finish("tool_calls"));
    let reply = assembly.into_reply(&request(), "m");
    assert_eq!(reply.tool_calls.len(), 2);
    assert_ne!(reply.tool_calls[0].id, reply.tool_calls[1].id);
}

#[test]
fn a_call_cut_by_the_limit_cannot_be_run() {
    let cut = |arguments: &str| {
        assemble(&[
            calls_piece(
                json!([{"index": 0, "id": "1", "function": {"name": "a", "arguments": "{\"x\":1}"}},
                               {"index": 1, "id": "2", "function": {"name": "b", "arguments": arguments}}]),
            ),
            finish("length"),
        ])
    };
    for arguments in ["{\"x\":\"ha", "{", "", " "] {
        let reply = cut(arguments);
        assert_eq!((reply.finish, reply.tool_calls.len()), (FinishReason::Length, 2));
        assert!(is_object(&reply.tool_calls[0].arguments));
        assert!(
            serde_json::from_str::<Value>(&reply.tool_calls[1].arguments).is_err(),
            "{arguments:?}"
        );
    }
}

#[test]
fn l10_reasons_for_ending_are_told_apart() {
    let broken = json!([{"index": 0, "id": "1", "function": {"name": "a", "arguments": "{\"x\":"}}]);
    let reply = assemble(&[calls_piece(broken), finish("tool_calls")]);
    assert_eq!((reply.finish, reply.tool_calls.len()), (FinishReason::ToolCalls, 1));
    assert_eq!(assemble(&[finish("tool_calls")]).finish, FinishReason::Length);
    for reason in CUT_REASONS {
        assert_eq!(assemble(&[finish(reason)]).finish, FinishReason::Length);
    }
    assert_eq!(assemble(&[finish("content_filter")]).finish, FinishReason::Filtered);
    assert_eq!(assemble(&[finish("stop")]).finish, FinishReason::Stop);
}

#[track_caller]
fn check_text(delta: Value, content: &str, reasoning: &str) {
    let reply = assemble(&[json!({"choices": [{"delta": delta}]}), finish("stop")]);
    assert_eq!((reply.content.as_str(), reply.reasoning.as_str()), (content, reasoning));
}

#[test]
fn thinking_is_kept_out_of_the_answer() {
    check_text(json!({"content": "hi", "reasoning_content": "hm"}), "hi", "hm");
    check_text(json!({"content": "hi", "reasoning": "hm"}), "hi", "hm");
    check_text(json!({"content": "<think>hm</think>\n\nhi"}), "hi", "hm");
    check_text(json!({"content": "hm</think>hi"}), "hi", "hm");
    check_text(json!({"content": "<think>cut"}), "", "cut");
    check_text(json!({"content": "about <think> tags"}), "about <think> tags", "");
    check_text(
        json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
        "ab",
        "",
    );
}

#[track_caller]
fn check_usage(chunks: &[Value], expected: (u64, u64, bool)) {
    let mut all = vec![
        json!({"choices": [{"delta": {"content": "four words of text"}}]}),
        finish("stop"),
    ];
    all.extend_from_slice(chunks);
    let usage = assemble(&all).usage;
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.reported), expected);
}

#[test]
fn usage_is_read_in_every_variant_and_counted_when_missing() {
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 3});
    check_usage(&[json!({"choices": [], "usage": usage})], (10, 3, true));
    check_usage(&[json!({"choices": [{"delta": {}, "usage": usage}]})], (10, 3, true));
    check_usage(&[json!({"x_groq": {"usage": usage}})], (10, 3, true));
    check_usage(
        &[json!({"usage": {"input_tokens": 10, "output_tokens": 3}})],
        (10, 3, true),
    );
    check_usage(
        &[
            json!({"usage": usage}),
            json!({"usage": {"prompt_tokens": 10, "completion_tokens": 5}}),
            json!({"usage": null}),
        ],
        (10, 5, true),
    );
    let counted = (8, 6, false);
    check_usage(&[], counted);
    check_usage(
        &[json!({"usage": {"prompt_tokens": -1, "completion_tokens": 3}})],
        counted,
    );
}

#[test]
fn cached_input_is_read_in_every_variant() {
    for usage in [
        json!({"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}),
        json!({"prompt_tokens": 10, "completion_tokens": 3, "prompt_cache_hit_tokens": 4}),
        json!({"prompt_tokens": 10, "completion_tokens": 3, "cached_tokens": 4}),
    ] {
        let mut assembly = Assembly::default();
        assembly.absorb(&json!({"usage": usage}));
        assert_eq!(assembly.cached_input(), 4, "{usage}");
    }
}
