//! The model port against a server that nobody here wrote.

use std::sync::{Arc, Mutex};

use forgehand::config::{ModelConfig, ModelProvider};
use forgehand::model::{ChatReply, ChatRequest, Delta, FinishReason, Live, Message, ToolSpec};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::aimock::Aimock;

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: name.to_owned(),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    }
}

async fn ask(server: &Aimock, question: &str, live: Live) -> ChatReply {
    let config = ModelConfig {
        provider: ModelProvider::OpenAi,
        base_url: Some(server.url().to_owned()),
        name: "gpt-4o".to_owned(),
        ..ModelConfig::default()
    };
    let request = ChatRequest {
        tools: vec![tool("grep"), tool("read_file")],
        max_output_tokens: 500,
        live,
        ..ChatRequest::new([Message::system("You help."), Message::user(question)])
    };
    let model = super::open(&config);
    model
        .complete(&request, &CancellationToken::new())
        .await
        .expect("a reply")
}

#[tokio::test]
async fn a_foreign_server_streams_text_calls_and_usage_and_is_tried_again() {
    let server = Aimock::start();
    let pieces = Arc::new(Mutex::new(Vec::new()));
    let into = pieces.clone();
    let live = Live::to(move |delta| {
        if let Delta::Text(text) = delta {
            into.lock().unwrap().push(text.to_owned());
        }
    });
    let text = ask(&server, "stream a text", live).await;
    assert!(
        text.content.ends_with("— größer als gedacht.") && text.finish == FinishReason::Stop,
        "{text:?}"
    );
    assert!(text.usage.reported && text.usage.output_tokens > 0, "{:?}", text.usage);
    let pieces = pieces.lock().unwrap().clone();
    assert!(pieces.len() > 3 && pieces.concat() == text.content, "{pieces:?}");

    let calls = ask(&server, "two calls at once", Live::default()).await;
    assert_eq!(
        (calls.content.as_str(), calls.finish),
        ("Let me look.", FinishReason::ToolCalls)
    );
    let made: Vec<(&str, Value)> = calls
        .tool_calls
        .iter()
        .map(|call| (call.name.as_str(), serde_json::from_str(&call.arguments).unwrap()))
        .collect();
    assert_eq!(
        made,
        [
            ("grep", json!({"pattern": "fn main", "path": "src"})),
            ("read_file", json!({"path": "src/größe.rs", "limit": 20})),
        ]
    );
    assert_ne!(calls.tool_calls[0].id, calls.tool_calls[1].id);

    assert_eq!(
        ask(&server, "limit the rate", Live::default()).await.content,
        "After a pause."
    );

    let restarts = Arc::new(Mutex::new(0));
    let into = restarts.clone();
    let live = Live::to(move |delta| *into.lock().unwrap() += u32::from(delta == Delta::Restarted));
    assert_eq!(ask(&server, "cut the stream", live).await.content, "Whole at last.");
    assert_eq!(*restarts.lock().unwrap(), 1);
}
