//! The fallback: who answers when the first model does not, who is never asked, and the way back.

use std::time::Duration;

use forgehand::config::ModelConfig;
use forgehand::model::{ChatReply, ModelError};
use forgehand::phrase::model::ModelNote;
use forgehand::secret::Secret;
use tokio_util::sync::CancellationToken;

use super::{KEY, class, config, open, request};
use crate::model_server::{ModelServer, Reply};

const OTHER_KEY: &str = "other-key-0123456789";

/// Both servers, each with a model of its own.
fn with(first: &ModelServer, second: &ModelServer) -> ModelConfig {
    ModelConfig {
        fallback_base_url: Some(second.url().to_owned()),
        fallback_name: Some("gpt-4o".to_owned()),
        fallback_api_key: Some(Secret::new(OTHER_KEY)),
        ..config(first)
    }
}

fn down() -> Vec<Reply> {
    vec![Reply::error(503, "overloaded").header("retry-after", "0"); 4]
}

async fn ask(model: &dyn forgehand::model::Model) -> Result<ChatReply, ModelError> {
    model.complete(&request(), &CancellationToken::new()).await
}

#[tokio::test]
async fn l25_the_fallback_answers_for_a_first_that_is_down_and_says_so() {
    let first = ModelServer::start(down()).await;
    let second = ModelServer::start([Reply::say("Hello"), Reply::say("Again")]).await;
    let model = open(&with(&first, &second));
    let reply = ask(model.as_ref()).await.unwrap();
    assert_eq!((reply.content.as_str(), reply.model.as_str()), ("Hello", "gpt-4o"));
    assert!(
        matches!(&reply.notes[..], [ModelNote::FellBack { from, to, .. }] if from == "test-model" && to == "gpt-4o"),
        "{:?}",
        reply.notes
    );
    assert_eq!(reply.cost_usd, None, "its price is not in the table");
    let sent = &second.requests()[0];
    assert_eq!(
        (sent.authorization.as_deref(), &sent.body["model"]),
        (Some("Bearer other-key-0123456789"), &"gpt-4o".into())
    );
    assert_eq!(
        model.profile().output_ceiling,
        16_384,
        "the profile is that of who answers next"
    );
    let again = ask(model.as_ref()).await.unwrap();
    assert_eq!((again.content.as_str(), again.notes.len()), ("Again", 0));
    assert_eq!(first.requests().len(), 4, "the first is left alone for a while");
    first.assert_all_read();
    second.assert_all_read();
}

#[tokio::test]
async fn there_is_a_way_back_in_time_and_when_the_fallback_fails() {
    let first = ModelServer::start(down()).await;
    let second = ModelServer::start([Reply::say("Hello")]).await;
    let config = ModelConfig {
        fallback_seconds: Duration::ZERO,
        ..with(&first, &second)
    };
    let model = open(&config);
    assert_eq!(ask(model.as_ref()).await.unwrap().model, "gpt-4o");
    first.play([Reply::error(503, "still down")]);
    second.play([Reply::say("Hello")]);
    assert_eq!(ask(model.as_ref()).await.unwrap().model, "gpt-4o", "one look is enough");
    first.play([Reply::say("Back")]);
    assert_eq!(ask(model.as_ref()).await.unwrap().model, "test-model");
    first.assert_all_read();

    let first = ModelServer::start(down()).await;
    let second = ModelServer::start([Reply::say("Hello")]).await;
    let model = open(&with(&first, &second));
    assert_eq!(ask(model.as_ref()).await.unwrap().model, "gpt-4o");
    second.play([Reply::error(401, "no more")]);
    first.play([Reply::say("Back")]);
    assert_eq!(ask(model.as_ref()).await.unwrap().model, "test-model");
    first.play([Reply::say("Stays")]);
    assert_eq!(ask(model.as_ref()).await.unwrap().content, "Stays");
    first.assert_all_read();
    second.assert_all_read();
}

#[tokio::test]
async fn j14_a_rate_limit_longer_than_the_deadline_goes_to_the_fallback_at_once() {
    let first = ModelServer::start([Reply::error(429, "slow down").header("retry-after", "3600")]).await;
    let second = ModelServer::start([Reply::say("Hello")]).await;
    assert_eq!(
        ask(open(&with(&first, &second)).as_ref()).await.unwrap().model,
        "gpt-4o"
    );
    first.assert_all_read();
}

#[tokio::test]
async fn l32_a_refused_key_helps_itself_only_with_another_server() {
    for (status, expected) in [(401, "unauthorized"), (402, "payment")] {
        let first = ModelServer::start([Reply::error(status, "no")]).await;
        let config = ModelConfig {
            fallback_name: Some("gpt-4o".to_owned()),
            ..config(&first)
        };
        assert_eq!(class(&ask(open(&config).as_ref()).await), expected);
        first.assert_all_read();
        first.play([Reply::error(status, "no")]);
        let second = ModelServer::start([Reply::say("Hello")]).await;
        assert_eq!(
            ask(open(&with(&first, &second)).as_ref()).await.unwrap().model,
            "gpt-4o"
        );
        first.assert_all_read();
    }
}

#[tokio::test]
async fn what_is_wrong_with_the_request_is_no_matter_for_the_fallback() {
    for (reply, expected) in [
        (Reply::error(400, "unknown tool type"), "rejected"),
        (Reply::error(400, "prompt is too long"), "overflow"),
    ] {
        let first = ModelServer::start([reply]).await;
        let second = ModelServer::start([]).await;
        assert_eq!(class(&ask(open(&with(&first, &second)).as_ref()).await), expected);
        assert!(second.requests().is_empty());
    }
}

#[tokio::test]
async fn when_both_fail_the_first_says_what_to_do_and_no_key_is_shown() {
    let first = ModelServer::start(down()).await;
    let second = ModelServer::start([Reply::error(401, &format!("bad key {OTHER_KEY}, not {KEY}"))]).await;
    let error = ask(open(&with(&first, &second)).as_ref()).await.unwrap_err();
    let words = error.to_string();
    assert!(matches!(error, ModelError::Unavailable(_)), "{words}");
    assert!(
        words.contains("overloaded") && words.contains("gpt-4o failed, too") && words.contains("[redacted]"),
        "{words}"
    );
    assert!(!words.contains(KEY) && !words.contains(OTHER_KEY), "{words}");
    let first = ModelServer::start(down()).await;
    let second = ModelServer::start([Reply::error(400, "prompt is too long")]).await;
    let answer = ask(open(&with(&first, &second)).as_ref()).await;
    assert_eq!(
        class(&answer),
        "overflow",
        "a shorter conversation may fit the fallback"
    );
}

#[tokio::test]
async fn another_model_of_the_same_server_uses_the_same_key() {
    let server = ModelServer::start(down()).await;
    server.play([Reply::say("Hello")]);
    let config = ModelConfig {
        fallback_name: Some("small-model".to_owned()),
        ..config(&server)
    };
    assert_eq!(ask(open(&config).as_ref()).await.unwrap().model, "small-model");
    let last = &server.requests()[4];
    assert_eq!(last.authorization.as_deref(), Some("Bearer key-0123456789abcdef"));
    assert_eq!(last.body["model"], "small-model");
}
