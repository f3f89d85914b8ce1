//! What people see of a reply while it arrives.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use forgehand::model::{Delta, Live};
use tokio_util::sync::CancellationToken;

use super::{KEY, config, open, request};
use crate::model_server::{ModelServer, Reply, Said};

/// A watcher, and what it saw: thinking in brackets, `!` for a beginning anew.
fn watcher() -> (Live, Arc<Mutex<String>>) {
    let seen = Arc::new(Mutex::new(String::new()));
    let into = seen.clone();
    let live = Live::to(move |delta| {
        let mut seen = into.lock().unwrap();
        match delta {
            Delta::Text(text) => seen.push_str(text),
            Delta::Reasoning(text) => *seen += &format!("[{text}]"),
            Delta::Restarted => seen.push('!'),
        }
    });
    (live, seen)
}

async fn seen_of(script: Vec<Reply>) -> String {
    let server = ModelServer::start(script).await;
    let (live, seen) = watcher();
    let mut request = request();
    request.live = live;
    open(&config(&server))
        .complete(&request, &CancellationToken::new())
        .await
        .unwrap();
    server.assert_all_read();
    let seen = seen.lock().unwrap().clone();
    seen.replace("][", "")
}

#[tokio::test]
async fn text_and_thinking_are_shown_apart_and_whole() {
    let said = Said::text("The bug is in größe.rs.")
        .thinking("Where is it, then?")
        .reply();
    assert_eq!(seen_of(vec![said]).await, "[Where is it, then?]The bug is in größe.rs.");
    let tags = Reply::say(
        "<think>Where is it?</think>In a.rs. <tool_call>{\"name\": \"grep\", \"arguments\": {}}</tool_call>",
    );
    assert_eq!(seen_of(vec![tags]).await, "[Where is it?]In a.rs. ");
}

#[tokio::test]
async fn a_reply_that_broke_off_begins_anew() {
    let long = Reply::say("one two three four five six seven eight nine ten eleven twelve").cut_after(400);
    let seen = seen_of(vec![long, Reply::say("once more")]).await;
    let (before, after) = seen.split_once('!').expect("a restart");
    assert!(before.starts_with("one ") && after == "once more", "{seen}");
}

#[tokio::test]
async fn r02_a_key_that_comes_in_pieces_is_never_shown() {
    let seen = seen_of(vec![Reply::say(&format!("The key is {KEY} and it is secret."))]).await;
    assert_eq!(seen, "The key is [redacted] and it is secret.");
}

#[tokio::test]
async fn words_are_seen_before_the_reply_ends() {
    let server = ModelServer::start([Reply::say("Hello over there, whoever you may be").stall_after(500)]).await;
    let (live, seen) = watcher();
    let mut request = request();
    request.live = live;
    let stop = CancellationToken::new();
    let model = open(&config(&server));
    let watching = async {
        let started = Instant::now();
        while !seen.lock().unwrap().starts_with("Hello ") {
            assert!(started.elapsed() < Duration::from_secs(10), "nothing was shown");
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let (reply, ()) = tokio::join!(model.complete(&request, &stop), watching);
    assert!(reply.is_err());
}
