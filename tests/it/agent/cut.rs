//! A stream with a tool call, cut at every byte: nothing incomplete is run, and every run ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use forgehand::agent::{Brief, Setting, Solution, Stop, Task, Unattended, solve};
use forgehand::clock::Clock;
use forgehand::config::{ModelConfig, ModelProvider};
use forgehand::conversation::MAIN;
use forgehand::event::RunEvent;
use forgehand::model::{Live, Model};
use forgehand::permission::Policy;
use forgehand::recorder::Recorder;
use forgehand::secret::Redactor;
use forgehand::tool::{Mode, Toolbox};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{BUDGET, Bench, FENCE};

/// What the call writes: two kilobytes with everything that can be cut badly.
fn content() -> String {
    "fn größe() -> &'static str { \"a \\\"word\\\"\\n\" } // 寸法\n".repeat(20)
}

/// The stream of a call that writes the file of a run.
fn call(run: usize) -> Vec<u8> {
    let arguments = json!({"path": format!("{run}.txt"), "content": content()}).to_string();
    let pieces: Vec<char> = arguments.chars().collect();
    let mut chunks = vec![json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
        "function": {"name": "write_file", "arguments": ""}}]})];
    chunks.extend(pieces.chunks(300).map(|piece| {
        let piece: String = piece.iter().collect();
        json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    }));
    let mut body: String = chunks
        .iter()
        .map(|delta| format!("data: {}\n\n", json!({"choices": [{"delta": delta}]})))
        .collect();
    body += "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n";
    body += "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":900,\"completion_tokens\":600}}\n\ndata: [DONE]\n\n";
    body.into_bytes()
}

fn finish() -> Vec<u8> {
    // What a finished change lacks would be looked for with a command in each of the runs.
    let arguments = json!({"status": "nothing_to_do", "summary": "The line broke."}).to_string();
    let call = json!({"index": 0, "id": "call_2", "function": {"name": "finish", "arguments": arguments}});
    let body = json!({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
    format!("data: {body}\n\ndata: [DONE]\n\n").into_bytes()
}

type Asked = Arc<Mutex<HashMap<usize, u32>>>;

/// The first answer to run N breaks off after N bytes; whatever is asked then, the run is done.
async fn answer(State(asked): State<Asked>, body: Bytes) -> Response {
    let request: Value = serde_json::from_slice(&body).expect("a request is JSON");
    let brief = request["messages"][1]["content"].as_str().unwrap_or_default();
    let run = brief.split("Cut after ").nth(1).and_then(|rest| rest.split(' ').next());
    let run: usize = run.and_then(|run| run.parse().ok()).expect("the run is named");
    let times = {
        let mut asked = asked.lock().unwrap();
        let times = asked.entry(run).or_default();
        *times += 1;
        *times
    };
    let pieces = if times == 1 {
        let mut cut = call(run);
        cut.truncate(run);
        vec![Ok(Bytes::from(cut)), Err(std::io::Error::other("the line breaks"))]
    } else {
        vec![Ok(Bytes::from(finish()))]
    };
    // What was said before the break is flushed while nothing more is ready.
    let pieces = stream::iter(pieces).then(|piece| async {
        tokio::task::yield_now().await;
        piece
    });
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(Body::from_stream(pieces))
        .expect("an answer")
}

async fn run(bench: &Bench, model: &dyn Model, tools: &Toolbox, run: usize) -> (Solution, Recorder) {
    let brief = Brief {
        mode: Mode::Change,
        repo: "octo/cut".parse().expect("a name"),
        title: format!("Cut after {run} bytes"),
        request: "Write it.".to_owned(),
        instructions: String::new(),
        rules: String::new(),
        checks: Vec::new(),
        files: Vec::new(),
        notes: Vec::new(),
        places: String::new(),
        map: String::new(),
        threads: Vec::new(),
    };
    let recorder = Recorder::in_memory(Clock::System, Redactor::default());
    let (permission, cancel, setting) = (Policy::default(), CancellationToken::new(), Setting::default());
    let solution = solve(Task {
        code: None,
        name: MAIN,
        fence: FENCE,
        brief: &brief,
        setting: &setting,
        sandbox: &bench.sandbox,
        model,
        tools,
        recorder: &recorder,
        budget: BUDGET,
        permission: &permission,
        people: &Unattended,
        live: Live::default(),
        cancel: &cancel,
        resume: None,
    });
    (solution.await.expect("the run ends with a solution"), recorder)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m02_a_stream_cut_at_every_byte_runs_nothing_incomplete_and_every_run_ends() {
    let bench = Bench::with(&[]).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let config = ModelConfig {
        provider: ModelProvider::OpenAi,
        base_url: Some(format!("http://{}", listener.local_addr().expect("an address"))),
        name: "test-model".to_owned(),
        ..ModelConfig::default()
    };
    let app = Router::new().fallback(answer).with_state(Asked::default());
    let server = tokio::spawn(async move { axum::serve(listener, app).await });
    let model = forgehand::model::open(&config, &Redactor::default()).expect("a model");
    let tools = Toolbox::standard();
    let length = call(1_000).len();
    assert!(length > 2_000, "{length}");
    let runs = stream::iter(0..=length).map(|at| {
        let (bench, model, tools) = (&bench, model.as_ref(), &tools);
        async move { (at, run(bench, model, tools, at).await) }
    });
    let ended: Vec<(usize, (Solution, Recorder))> = runs.buffer_unordered(300).collect().await;
    server.abort();
    assert!(ended.len() > 2_000);
    let mut whole = 0;
    for (at, (solution, recorder)) in ended {
        assert!(matches!(solution.stop, Stop::Finished(_)), "cut at {at}: {solution:?}");
        let written = std::fs::read_to_string(bench.path(&format!("{at}.txt"))).ok();
        let calls = recorder.kept().into_iter().filter_map(|event| match event.body {
            RunEvent::ToolCalled { tool, ok, .. } => Some((tool, ok)),
            _ => None,
        });
        let calls: Vec<(String, bool)> = calls.collect();
        let finish = ("finish".to_owned(), true);
        match written {
            None => assert_eq!(calls, [finish], "cut at {at}"),
            Some(written) => {
                whole += 1;
                assert!(written == content(), "cut at {at}: a part was written");
                assert_eq!(calls, [("write_file".to_owned(), true), finish], "cut at {at}");
            }
        }
    }
    // The reason for ending stands shortly before the end: from there on, the call is whole.
    assert!((10..400).contains(&whole), "{whole} whole calls");
}
