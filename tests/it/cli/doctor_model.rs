//! `forgehand doctor --model` against servers that can everything, little, and nothing.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Method, Uri};
use axum::response::Response;
use serde_json::{Value, json};

use super::{Ended, User};

/// What a server can.
#[derive(Clone, Copy)]
struct Skills {
    lists: &'static str,
    streams: bool,
    takes_tools: bool,
    calls: bool,
    tells_usage: bool,
    /// Tokens that it reads; the rest it forgets silently.
    window: usize,
    /// Whether it says when that is too little.
    says_so: bool,
}

const GOOD: Skills = Skills {
    lists: "clever-model",
    streams: true,
    takes_tools: true,
    calls: true,
    tells_usage: true,
    window: 1_000_000,
    says_so: true,
};

/// Tokens as this server counts them.
fn tokens(request: &Value) -> usize {
    request["messages"].to_string().len() / 4
}

/// What a model would say: (text, calls).
fn reply(skills: Skills, request: &Value) -> (String, Vec<(&'static str, Value)>) {
    let messages = request["messages"].as_array().expect("messages");
    let asked = messages
        .last()
        .and_then(|message| message["content"].as_str())
        .unwrap_or_default();
    let all = request["messages"].to_string();
    if asked.contains("Count from 1") {
        return ((1..=40).map(|number| format!("{number} ")).collect(), Vec::new());
    }
    if let Some((_, rest)) = asked.split_once("exactly as it stands between the angle brackets: <") {
        let text = rest.trim_end_matches('>');
        return match skills.calls {
            true => (String::new(), vec![("note", json!({"text": text, "count": 42}))]),
            false => ("Sure, I would call note.".to_owned(), Vec::new()),
        };
    }
    if asked.contains("Under which number") {
        let number = all
            .split("under the number ")
            .nth(1)
            .and_then(|rest| rest.split('.').next());
        return (number.unwrap_or("none").to_owned(), Vec::new());
    }
    if asked.contains("Paris") {
        let cities = ["Paris", "Oslo"].map(|city| ("weather", json!({"city": city})));
        return (
            String::new(),
            cities.into_iter().take(if skills.calls { 2 } else { 0 }).collect(),
        );
    }
    let word = all
        .split("word to remember is ")
        .nth(1)
        .and_then(|rest| rest.split('.').next());
    match word {
        Some(word) if tokens(request) <= skills.window => (word.to_owned(), Vec::new()),
        _ => ("Which word?".to_owned(), Vec::new()),
    }
}

async fn answer(State(skills): State<Arc<Skills>>, method: Method, uri: Uri, body: Bytes) -> Response {
    let skills = *skills;
    let respond = |status: u16, kind: &str, body: String| {
        let response = Response::builder().status(status).header("content-type", kind);
        response.body(Body::from(body)).expect("an answer")
    };
    let error = |words: &str| {
        respond(
            400,
            "application/json",
            json!({"error": {"message": words}}).to_string(),
        )
    };
    if method == Method::GET && uri.path() == "/v1/models" {
        return respond(
            200,
            "application/json",
            json!({"data": [{"id": skills.lists}]}).to_string(),
        );
    }
    let request: Value = serde_json::from_slice(&body).expect("JSON");
    if request.get("tools").is_some() && !skills.takes_tools {
        return error("this model does not support tools");
    }
    if skills.says_so && tokens(&request) > skills.window {
        return error(&format!(
            "This model's maximum context length is {} tokens.",
            skills.window
        ));
    }
    let (text, calls) = reply(skills, &request);
    let as_text = request.get("tools").is_none();
    let mut content = text;
    let mut pieces = Vec::new();
    for (at, (name, arguments)) in calls.iter().enumerate() {
        if as_text {
            content += &format!(
                "<tool_call>{}</tool_call>",
                json!({"name": name, "arguments": arguments})
            );
        } else {
            pieces.push(json!({"index": at, "id": format!("c{at}"), "type": "function",
                "function": {"name": name, "arguments": arguments.to_string()}}));
        }
    }
    let usage = json!({"prompt_tokens": tokens(&request).min(skills.window), "completion_tokens": 9});
    let reason = if pieces.is_empty() { "stop" } else { "tool_calls" };
    if !skills.streams {
        let message = json!({"role": "assistant", "content": content, "tool_calls": pieces});
        return respond(
            200,
            "application/json",
            json!({"choices": [{"message": message, "finish_reason": reason}]}).to_string(),
        );
    }
    let mut events: Vec<Value> = content
        .split_inclusive(' ')
        .map(|word| json!({"content": word}))
        .collect();
    events.push(json!({"tool_calls": pieces}));
    let mut chunks: Vec<String> = events
        .into_iter()
        .map(|delta| format!("data: {}\n\n", json!({"choices": [{"delta": delta}]})))
        .collect();
    chunks.push(format!(
        "data: {}\n\n",
        json!({"choices": [{"delta": {}, "finish_reason": reason}]})
    ));
    if skills.tells_usage {
        chunks.push(format!("data: {}\n\n", json!({"choices": [], "usage": usage})));
    }
    chunks.push("data: [DONE]\n\n".to_owned());
    let pieces = futures_util::stream::iter(chunks.into_iter().map(Ok::<_, std::io::Error>));
    // One by one, as the network would bring them.
    let pieces = futures_util::StreamExt::then(pieces, |piece| async {
        tokio::task::yield_now().await;
        piece
    });
    Response::builder().body(Body::from_stream(pieces)).expect("an answer")
}

/// Runs the doctor against a server with these skills.
async fn examine(skills: Skills, more: &'static [&'static str]) -> Ended {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = format!("model.base_url=http://{}", listener.local_addr().expect("an address"));
    let app = Router::new().fallback(answer).with_state(Arc::new(skills));
    let server = tokio::spawn(async move { axum::serve(listener, app).await });
    let ended = tokio::task::spawn_blocking(move || {
        let settings = ["model.provider=openai", address.as_str(), "model.name=clever-model"];
        let mut arguments = vec!["doctor", "--model"];
        settings.iter().for_each(|setting| arguments.extend(["--set", setting]));
        arguments.extend(more);
        User::new().run(&arguments)
    });
    let ended = ended.await.expect("the doctor ends");
    server.abort();
    ended
}

fn standing(report: &Value, what: &str) -> (String, String) {
    let findings = report["models"][0]["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["what"] == what);
    let found = found.unwrap_or_else(|| panic!("{what} is not in {report:#}"));
    let word = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (word("standing"), format!("{} → {}", word("detail"), word("fix")))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_can_everything_is_said_to() {
    let table = examine(GOOD, &["--set", "model.prices={ \"clever*\" = [1.0, 2.0] }"]).await;
    table
        .assert_code(0)
        .assert_err("asks clever-model at http://127.0.0.1:")
        .assert_err("tokens in all")
        .assert_out("this can be worked with");
    for what in [
        "model           clever-model is in the server's list",
        "reachable       answered within",
        "streaming       the reply came in",
        "usage           ",
        "tool calls      `note` was called",
        "arguments       JSON, with quotes, backslashes and umlauts intact",
        "tool outputs    the model reads them",
        "parallel calls  2 calls in one reply",
        "window          ",
        "price           known",
    ] {
        table.assert_out(&format!("  ok    {what}"));
    }
    assert!(
        !table.out.contains("hint") && !table.out.contains("FAIL"),
        "{}",
        table.out
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_can_little_is_told_how_to_do_better() {
    let poor = Skills {
        lists: "other-model",
        streams: false,
        takes_tools: false,
        tells_usage: false,
        window: 8_000,
        ..GOOD
    };
    let report = examine(poor, &["--json"]).await;
    let report = report.assert_code(0).json();
    for (what, expected, words) in [
        ("model", "limited", "other-model"),
        ("streaming", "limited", "one piece"),
        ("usage", "limited", "our own count"),
        ("tool calls", "limited", "as text"),
        ("arguments", "works", "intact"),
        ("parallel calls", "works", "2 calls"),
        ("window", "limited", "model.context_window = 8000"),
        ("price", "limited", "model.prices"),
    ] {
        let (standing, said) = standing(&report, what);
        assert!(
            standing == expected && said.contains(words),
            "{what}: {standing}, {said}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c02_a_server_that_cuts_silently_or_calls_nothing_fails_with_the_fix() {
    let silent = Skills {
        window: 4_096,
        says_so: false,
        calls: false,
        ..GOOD
    };
    let table = examine(silent, &[]).await;
    table
        .assert_code(1)
        .assert_out("FAIL  tool calls      the model called no tool")
        .assert_out("--enable-auto-tool-choice")
        .assert_out("FAIL  window ")
        .assert_out("its window seems to be 4096")
        .assert_out("OLLAMA_CONTEXT_LENGTH")
        .assert_out("2 things have to be mended");
}

#[test]
fn without_a_server_or_a_model_the_way_is_shown() {
    let user = User::new();
    user.run(&["doctor", "--model"])
        .assert_code(64)
        .assert_err("no model is set up")
        .assert_err("model.base_url");
    let gone = user.run(&[
        "doctor",
        "--model",
        "--set",
        "model.provider=openai",
        "--set",
        "model.base_url=http://127.0.0.1:9",
    ]);
    gone.assert_code(1)
        .assert_out("FAIL  reachable")
        .assert_out("→ see that the server runs");
    user.assert_tidy();
}
