//! Conversations that are too long: said in every wording, under every code, at any point of an
//! answer; or not said at all.

use std::sync::Arc;
use std::time::Duration;

use forgehand::config::ModelConfig;
use forgehand::model::{Message, ModelError};
use forgehand::phrase::model::ModelNote;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{ask, class, config, open, request};
use crate::model_server::{ModelServer, Reply, Said};

#[tokio::test]
async fn c01_an_overflow_is_known_however_it_comes_and_is_not_tried_again() {
    for words in [
        "request (138229 tokens) exceeds the available context size (133376 tokens), try increasing it",
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "Please reduce the length of the messages or completion.",
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
        "Prompt contains 140000 tokens and 0 draft tokens, too large for model with 131072 maximum context length",
        "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens",
        "`inputs` must have less than 4095 tokens. Given: 5000",
    ] {
        let object = json!({"error": {"message": words, "type": "invalid_request_error"}});
        let begun = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
        let inside = format!("{begun}data: {object}\n\n");
        for reply in [
            Reply::error(400, words),
            Reply::error(500, words),
            Reply::json(&object),
            Reply::raw(200, "text/event-stream", inside),
            Reply::raw(
                200,
                "text/event-stream",
                format!("event: error\ndata: {}\n\n", object["error"]),
            ),
        ] {
            let server = ModelServer::start([reply.clone()]).await;
            let answer = ask(&server).await;
            assert_eq!(class(&answer), "overflow", "{words}: {reply:?}");
            server.assert_all_read();
        }
    }
    let page = "<html><head><title>413 Request Entity Too Large</title></head></html>";
    let server = ModelServer::start([Reply::raw(413, "text/html", page)]).await;
    assert_eq!(class(&ask(&server).await), "overflow");
}

#[tokio::test]
async fn the_window_that_a_server_names_is_remembered() {
    let words = "request (30000 tokens) exceeds the available context size (24576 tokens), try increasing it";
    let server = ModelServer::start([Reply::error(400, words)]).await;
    let model = open(&config(&server));
    assert_eq!(model.profile().context_window, 128_000);
    let answer = model.complete(&request(), &CancellationToken::new()).await;
    assert_eq!(class(&answer), "overflow");
    let profile = model.profile();
    assert_eq!((profile.context_window, profile.output_ceiling), (24_576, 6_144));
    assert!(profile.max_output_tokens <= profile.output_ceiling);
}

#[tokio::test]
async fn c01_a_reply_that_leaves_no_room_is_asked_for_shorter_first() {
    let words = "input length and `max_tokens` exceed context limit: 199000 + 8000 > 200000";
    let server = ModelServer::start([Reply::error(400, words), Reply::say("Hello")]).await;
    let mut long = request();
    long.max_output_tokens = 8_000;
    let reply = open(&config(&server))
        .complete(&long, &CancellationToken::new())
        .await
        .unwrap();
    assert_eq!(reply.content, "Hello");
    assert_eq!(server.requests()[1].body["max_tokens"], 2_000);
    server.assert_all_read();
    let server = ModelServer::start([
        Reply::error(400, words),
        Reply::error(400, words),
        Reply::error(400, words),
    ])
    .await;
    let answer = open(&config(&server)).complete(&long, &CancellationToken::new()).await;
    assert_eq!(class(&answer), "overflow", "once it is as short as it can be");
    server.assert_all_read();
}

#[tokio::test]
async fn c02_l37_a_server_that_cuts_silently_is_named_once_in_a_conversation() {
    let cut = || Said::text("What shall I do?").usage(Some((4_000, 60))).reply();
    let server = ModelServer::start([cut(), cut(), cut()]).await;
    let model = open(&config(&server));
    let mut long = request();
    long.messages.push(Arc::new(Message::user("word ".repeat(12_000))));
    let first = model.complete(&long, &CancellationToken::new()).await.unwrap();
    let cut = ModelNote::CutSilently {
        model: "test-model".to_owned(),
        read: 4_000,
    };
    assert_eq!(first.notes, [cut]);
    assert_eq!(
        model.profile().context_window,
        4_096,
        "conversations are made shorter in time"
    );
    long.messages.push(Arc::new(Message::user("And?")));
    let second = model.complete(&long, &CancellationToken::new()).await.unwrap();
    assert!(second.notes.is_empty(), "{:?}", second.notes);
    long.messages[1] = Arc::new(Message::user("Fix something else."));
    let other = model.complete(&long, &CancellationToken::new()).await.unwrap();
    assert_eq!(other.notes.len(), 1, "another run has other people");
}

#[tokio::test]
async fn limits_by_the_minute_are_no_overflow() {
    let server = ModelServer::start([Reply::error(
        429,
        "Rate limit reached: 30000 tokens per min, please reduce the length of the messages",
    )
    .header("retry-after", "3600")])
    .await;
    let config = ModelConfig {
        timeout_seconds: Duration::from_secs(5),
        ..config(&server)
    };
    let error = open(&config)
        .complete(&request(), &CancellationToken::new())
        .await
        .unwrap_err();
    assert!(matches!(error, ModelError::RateLimited { .. }), "{error}");
}
