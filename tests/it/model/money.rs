//! What calls cost: prices by name, cached input, and calls that gave nothing and are paid for all
//! the same.

use std::time::Duration;

use forgehand::config::{ModelConfig, PriceTable};
use forgehand::model::{Failed, ModelError};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{config, open, request};
use crate::model_server::{ModelServer, Reply, Said};

fn with_prices(server: &ModelServer, rows: &[(&str, &[f64])]) -> ModelConfig {
    let rows = rows.iter().map(|(pattern, row)| ((*pattern).to_owned(), row.to_vec()));
    ModelConfig {
        input_usd_per_million: None,
        output_usd_per_million: None,
        prices: PriceTable(rows.collect()),
        ..config(server)
    }
}

#[tokio::test]
async fn prices_come_from_the_table_and_cached_input_has_its_own() {
    let usage = |usage: Value| {
        Reply::json(&json!({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}], "usage": usage}))
    };
    let cached = json!({"prompt_tokens": 1_000_000, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 600_000}});
    let server = ModelServer::start([usage(cached.clone()), usage(cached), Said::text("Hello").reply()]).await;
    /// Prices by pattern, and what the call costs with them.
    type Case<'a> = (&'a [(&'a str, &'a [f64])], Option<f64>);
    let cases: [Case<'_>; 3] = [
        (&[("test-*", &[1.0, 10.0, 0.1]), ("*", &[5.0, 5.0])], Some(0.46)),
        (&[("test-*", &[1.0, 10.0])], Some(1.0)),
        (&[("gpt-5*", &[1.0, 10.0])], None),
    ];
    for (rows, expected) in cases {
        let model = open(&with_prices(&server, rows));
        assert_eq!(model.price_known(), expected.is_some());
        let cost = model
            .complete(&request(), &CancellationToken::new())
            .await
            .unwrap()
            .cost_usd;
        assert_eq!(cost.map(|cost| (cost * 1e6).round()), expected.map(|cost| cost * 1e6));
    }
    server.assert_all_read();
}

async fn failed(config: &ModelConfig) -> Failed {
    open(config)
        .attempt(&request(), &CancellationToken::new())
        .await
        .unwrap_err()
}

#[tokio::test]
async fn l35_what_came_before_a_failure_is_paid_for() {
    let words = "data: {\"choices\":[{\"delta\":{\"content\":\"many words were written by then\"}}]}\n\n";
    let error = "data: {\"error\":{\"message\":\"no credits\",\"code\":402}}\n\n";
    let garbage = "data: {oh no\n\n";
    let told = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":70,\"completion_tokens\":7}}\n\n";
    let refused = || Reply::error(401, "no");
    for (body, then, class) in [
        (format!("{words}{error}"), None, "payment"),
        (format!("{words}{garbage}"), Some(refused()), "unauthorized"),
        (format!("{words}data: [DONE]\n\n"), Some(refused()), "unauthorized"),
        (format!("{words}{told}{error}"), None, "payment"),
    ] {
        let first = Reply::raw(200, "text/event-stream", body.clone());
        let server = ModelServer::start(std::iter::once(first).chain(then)).await;
        let failed = failed(&config(&server)).await;
        assert_eq!(super::class(&Err(failed.error)), class);
        let usage = failed.usage;
        assert!(usage.output_tokens >= 7 && usage.input_tokens > 0, "{body}: {usage:?}");
        assert_eq!(usage.reported, body.contains(told));
        assert!(failed.cost_usd.is_some_and(|cost| cost > 0.0));
        server.assert_all_read();
    }
}

#[tokio::test]
async fn l35_a_reply_that_is_too_long_late_or_stopped_is_paid_for() {
    let words = format!(
        "data: {}\n\n",
        json!({"choices": [{"delta": {"content": "x".repeat(9_000)}}]})
    );
    let long = Reply::raw(200, "text/event-stream", words.repeat(1_000));
    let server = ModelServer::start([long]).await;
    let too_long = failed(&config(&server)).await;
    assert!(matches!(too_long.error, ModelError::Rejected(_)), "{}", too_long.error);
    assert!(too_long.usage.output_tokens > 1_000_000);

    let server = ModelServer::start([Reply::say("Hello over there").stall_after(300)]).await;
    let late = failed(&ModelConfig {
        timeout_seconds: Duration::from_millis(400),
        ..config(&server)
    })
    .await;
    assert!(late.error.to_string().contains("model.timeout_seconds") && late.usage.output_tokens > 0);

    let server = ModelServer::start([Reply::say("Hello over there").stall_after(300)]).await;
    let stop = CancellationToken::new();
    let (live, seen) = tokio::sync::mpsc::unbounded_channel();
    let mut watched = request();
    watched.live = forgehand::model::Live::to(move |_| {
        let _ = live.send(());
    });
    let model = open(&config(&server));
    let stopping = async {
        let mut seen = seen;
        seen.recv().await;
        stop.cancel();
    };
    let (stopped, ()) = tokio::join!(model.attempt(&watched, &stop), stopping);
    let stopped = stopped.unwrap_err();
    assert!(matches!(stopped.error, ModelError::Cancelled) && stopped.usage.output_tokens > 0);
}

#[tokio::test]
async fn what_a_server_refuses_costs_nothing() {
    let server = ModelServer::start([
        Reply::error(400, "unknown tool type"),
        Reply::raw(200, "text/html", "<html>"),
    ])
    .await;
    for _ in 0..2 {
        let failed = failed(&config(&server)).await;
        assert_eq!(
            (failed.usage.input_tokens, failed.usage.output_tokens, failed.cost_usd),
            (0, 0, Some(0.0))
        );
    }
}

#[tokio::test]
async fn m05_usage_that_cannot_be_is_counted_here() {
    let odd = [
        json!({"prompt_tokens": -5, "completion_tokens": 3}),
        json!({"prompt_tokens": "many", "completion_tokens": 3}),
        json!({"prompt_tokens": 1.5e300, "completion_tokens": null}),
        json!([]),
    ];
    for usage in odd {
        let body =
            json!({"choices": [{"message": {"content": "Hello over there"}, "finish_reason": "stop"}], "usage": usage});
        let server = ModelServer::start([Reply::json(&body)]).await;
        let reply = super::ask(&server).await.unwrap();
        assert!(
            !reply.usage.reported && reply.usage.input_tokens > 20 && reply.usage.output_tokens > 3,
            "{usage}"
        );
        assert!(reply.cost_usd.is_some_and(|cost| cost > 0.0));
    }
}
