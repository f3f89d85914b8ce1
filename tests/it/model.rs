//! The model port against a server that plays scripts: what comes through, what is tried again,
//! and what is given up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use forgehand::config::{ModelConfig, ModelProvider};
use forgehand::model::{ChatReply, ChatRequest, FinishReason, Message, Model, ModelError, ToolSpec};
use forgehand::secret::{Redactor, Secret};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::model_server::{ModelServer, Reply, Said};

mod aimock;
mod dialect;
mod fallback;
mod live;
mod money;
mod overflow;

/// The key of the first server.
const KEY: &str = "key-0123456789abcdef";

fn config(server: &ModelServer) -> ModelConfig {
    ModelConfig {
        provider: ModelProvider::OpenAi,
        base_url: Some(server.url().to_owned()),
        api_key: Some(Secret::new(KEY)),
        name: "test-model".to_owned(),
        input_usd_per_million: Some(1.0),
        output_usd_per_million: Some(10.0),
        ..ModelConfig::default()
    }
}

fn open(config: &ModelConfig) -> Arc<dyn Model> {
    forgehand::model::open(config, &Redactor::default()).expect("the configuration is right")
}

fn request() -> ChatRequest {
    ChatRequest {
        tools: vec![ToolSpec {
            name: "grep".to_owned(),
            description: "Searches".to_owned(),
            parameters: json!({"type": "object", "properties": {"pattern": {"type": "string"}}}),
        }],
        max_output_tokens: 500,
        ..ChatRequest::new([Message::system("You help."), Message::user("Fix it.")])
    }
}

async fn ask(server: &ModelServer) -> Result<ChatReply, ModelError> {
    open(&config(server))
        .complete(&request(), &CancellationToken::new())
        .await
}

fn class(reply: &Result<ChatReply, ModelError>) -> &'static str {
    match reply {
        Ok(_) => "reply",
        Err(ModelError::RateLimited { .. }) => "rate limited",
        Err(ModelError::Unavailable(_)) => "unavailable",
        Err(ModelError::Unauthorized(_)) => "unauthorized",
        Err(ModelError::PaymentRequired(_)) => "payment",
        Err(ModelError::ContextOverflow(_)) => "overflow",
        Err(ModelError::Rejected(_)) => "rejected",
        Err(ModelError::Cancelled) => "cancelled",
        Err(ModelError::NoScript(_)) => "no script",
    }
}

/// Plays a script and checks what comes of it, and that every line was needed.
#[track_caller]
fn check(script: Vec<Reply>, expected: &str) {
    let lines = script.len();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (class, requests) = runtime.block_on(async {
        let server = ModelServer::start(script).await;
        let reply = ask(&server).await;
        server.assert_all_read();
        (class(&reply), server.requests().len())
    });
    assert_eq!((class, requests), (expected, lines));
}

#[tokio::test]
async fn a_reply_streams_in_with_its_calls_thoughts_tokens_and_cost() {
    let calls = [
        ("grep", json!({"pattern": "größe"}).to_string()),
        ("grep", "{}".to_owned()),
    ];
    let said = Said::calls(calls).thinking("Where is it?").usage(Some((1_000, 100)));
    let server = ModelServer::start([said.reply()]).await;
    let reply = ask(&server).await.unwrap();
    assert_eq!(reply.tool_calls.len(), 2);
    assert_eq!(reply.tool_calls[0].arguments, "{\"pattern\":\"größe\"}");
    assert_eq!(
        (reply.reasoning.as_str(), reply.finish),
        ("Where is it?", FinishReason::ToolCalls)
    );
    assert_eq!(
        (
            reply.usage.input_tokens,
            reply.usage.output_tokens,
            reply.usage.reported
        ),
        (1_000, 100, true)
    );
    assert_eq!(reply.cost_usd, Some(0.002));
    let sent = &server.requests()[0];
    assert_eq!(sent.authorization.as_deref(), Some("Bearer key-0123456789abcdef"));
    assert_eq!(sent.body["model"], "test-model");
    assert_eq!(sent.body["stream"], true);
    assert_eq!(sent.body["stream_options"]["include_usage"], true);
    assert_eq!(sent.body["tools"][0]["function"]["name"], "grep");
    server.assert_all_read();
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let body = json!({
        "choices": [{"message": {"role": "assistant", "content": "Hello", "tool_calls": null}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2},
    });
    let server = ModelServer::start([Reply::json(&body)]).await;
    let reply = ask(&server).await.unwrap();
    assert_eq!(
        (reply.content.as_str(), reply.finish, reply.usage.input_tokens),
        ("Hello", FinishReason::Stop, 7)
    );
}

#[tokio::test]
async fn tokens_are_counted_here_when_the_server_does_not() {
    let server = ModelServer::start([Said::text("Hello").usage(None).reply()]).await;
    let usage = ask(&server).await.unwrap().usage;
    assert!(
        usage.input_tokens > 20 && usage.output_tokens > 0 && !usage.reported,
        "{usage:?}"
    );
}

#[tokio::test]
async fn a_call_cut_by_the_limit_comes_last_and_cannot_be_run() {
    let calls = [
        ("grep", "{\"pattern\":\"a\"}".to_owned()),
        ("grep", "{\"pattern\":\"b".to_owned()),
    ];
    let server = ModelServer::start([Said::calls(calls).ending("length").reply()]).await;
    let reply = ask(&server).await.unwrap();
    assert_eq!((reply.tool_calls.len(), reply.finish), (2, FinishReason::Length));
    assert_eq!(reply.tool_calls[1].arguments, "{\"pattern\":\"b");
}

#[test]
fn what_a_second_try_cannot_mend_is_not_tried_again() {
    check(vec![Reply::error(401, "wrong key")], "unauthorized");
    check(vec![Reply::error(403, "not yours")], "unauthorized");
    check(vec![Reply::error(402, "insufficient credits")], "payment");
    check(vec![Reply::error(429, "You exceeded your current quota")], "payment");
    check(vec![Reply::error(400, "unknown tool type")], "rejected");
    check(vec![Reply::error(404, "no such model")], "rejected");
    check(
        vec![Reply::error(400, "This model's maximum context length is 10 tokens")],
        "overflow",
    );
    check(
        vec![Reply::raw(200, "text/html", "<!doctype html><title>nginx</title>")],
        "rejected",
    );
    check(vec![Reply::json(&json!({"hello": "world"}))], "rejected");
    check(
        vec![Reply::json(&json!({"error": {"message": "prompt is too long"}}))],
        "overflow",
    );
    let inside = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"error\":{\"message\":\"x\",\"code\":402}}\n\n";
    check(vec![Reply::raw(200, "text/event-stream", inside)], "payment");
    check(
        vec![Reply::raw(
            200,
            "text/event-stream",
            format!("data: {}", "x".repeat(9 << 20)),
        )],
        "rejected",
    );
}

#[test]
fn what_may_pass_is_tried_again() {
    let good = || Reply::say("Hello");
    let at_once = |reply: Reply| reply.header("retry-after", "0");
    check(vec![at_once(Reply::error(429, "slow down")), good()], "reply");
    check(
        vec![
            at_once(Reply::raw(502, "text/html", "<html><title>Bad gateway</title>")),
            at_once(Reply::error(503, "overloaded")),
            at_once(Reply::error(500, "oops")),
            good(),
        ],
        "reply",
    );
    check(vec![at_once(Reply::error(500, "oops")); 4], "unavailable");
    check(vec![at_once(Reply::error(429, "slow down")); 4], "rate limited");
    check(
        vec![Reply::raw(200, "text/event-stream", "data: {\"choi"), good()],
        "reply",
    );
    check(
        vec![
            Reply::raw(200, "application/octet-stream", vec![0x1f, 0x8b, 0xff]),
            good(),
        ],
        "reply",
    );
    check(vec![good().header("content-encoding", "gzip"), good()], "reply");
    check(vec![good().cut_after(200), good()], "reply");
}

#[tokio::test]
async fn a_lost_try_is_counted_too() {
    let long = "word ".repeat(200);
    let server = ModelServer::start([Reply::say(&long).cut_after(6_000), Reply::say("Hello")]).await;
    let reply = ask(&server).await.unwrap();
    assert_eq!(reply.content, "Hello");
    assert!(
        reply.usage.output_tokens > 20 + 50 && !reply.usage.reported,
        "{:?}",
        reply.usage
    );
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_reply_loses_nothing() {
    let said = Said::text("Hello").usage(None).reply();
    let server = ModelServer::start([said.cut_after(usize::MAX)]).await;
    assert_eq!(ask(&server).await.unwrap().content, "Hello");
}

#[tokio::test]
async fn a_wait_longer_than_the_deadline_is_left_to_the_caller() {
    let server = ModelServer::start([Reply::error(429, "slow down").header("retry-after", "3600")]).await;
    let Err(ModelError::RateLimited { retry_after, .. }) = ask(&server).await else {
        panic!("another answer")
    };
    assert_eq!(retry_after, Some(Duration::from_secs(3600)));
}

#[tokio::test]
async fn l26_a_silent_stream_is_given_up_and_tried_again() {
    let server = ModelServer::start([Reply::say("Hello").stall_after(150), Reply::say("Hello again")]).await;
    let config = ModelConfig {
        idle_timeout_seconds: Duration::from_millis(200),
        ..config(&server)
    };
    let reply = open(&config)
        .complete(&request(), &CancellationToken::new())
        .await
        .unwrap();
    assert_eq!(reply.content, "Hello again");
    server.assert_all_read();
}

#[tokio::test]
async fn l26_a_server_that_never_answers_meets_the_deadline() {
    let server = ModelServer::start([Reply::silence()]).await;
    let config = ModelConfig {
        timeout_seconds: Duration::from_millis(300),
        ..config(&server)
    };
    let error = open(&config)
        .complete(&request(), &CancellationToken::new())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("model.timeout_seconds"), "{error}");
}

#[tokio::test]
async fn a_stop_is_obeyed_at_once() {
    for script in [vec![Reply::silence()], vec![Reply::say("Hello").stall_after(150)]] {
        let server = ModelServer::start(script).await;
        let cancel = CancellationToken::new();
        let model = open(&config(&server));
        let question = request();
        let stopped_at = async {
            while server.requests().is_empty() {
                tokio::task::yield_now().await;
            }
            cancel.cancel();
            Instant::now()
        };
        let (reply, stopped_at) = tokio::join!(model.complete(&question, &cancel), stopped_at);
        assert_eq!(class(&reply), "cancelled");
        assert!(stopped_at.elapsed() < Duration::from_secs(1));
    }
}

#[tokio::test]
async fn a_server_teaches_its_own_dialect_once() {
    let server = ModelServer::start([
        Reply::error(
            400,
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
        ),
        Reply::error(400, "stream_options: extra inputs are not permitted"),
        Reply::say("Hello"),
        Reply::say("Hello again"),
    ])
    .await;
    let model = open(&config(&server));
    for expected in ["Hello", "Hello again"] {
        let reply = model.complete(&request(), &CancellationToken::new()).await.unwrap();
        assert_eq!(reply.content, expected);
    }
    let last = &server.requests()[3].body;
    assert_eq!(last["max_completion_tokens"], 500);
    assert!(last.get("max_tokens").is_none() && last.get("stream_options").is_none());
    server.assert_all_read();
}

#[tokio::test]
async fn the_key_goes_to_no_other_server_and_into_no_message() {
    let elsewhere = ModelServer::start([]).await;
    let moved =
        Reply::raw(307, "text/plain", "").header("location", &format!("{}/v1/chat/completions", elsewhere.url()));
    let server = ModelServer::start([moved, Reply::error(401, &format!("Incorrect API key provided: {KEY}"))]).await;
    let error = ask(&server).await.unwrap_err().to_string();
    assert!(error.contains("model.base_url"), "{error}");
    assert!(elsewhere.requests().is_empty());
    let error = ask(&server).await.unwrap_err().to_string();
    assert!(error.contains("[redacted]") && !error.contains(KEY), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let config = ModelConfig {
        provider: ModelProvider::OpenAi,
        base_url: Some(format!("http://{address}")),
        timeout_seconds: Duration::from_secs(1),
        ..ModelConfig::default()
    };
    let reply = open(&config).complete(&request(), &CancellationToken::new()).await;
    assert_eq!(class(&reply), "unavailable");
}

#[tokio::test]
async fn without_a_model_the_stub_says_what_to_do() {
    let model = open(&ModelConfig::default());
    assert_eq!(model.name(), "stub (scripted, no model)");
    let error = model
        .complete(&request(), &CancellationToken::new())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("FORGEHAND_MODEL__BASE_URL"), "{error}");
}
