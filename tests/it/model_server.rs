//! A model server that plays a script over real HTTP: OpenAI-compatible, streaming, and as broken
//! as a test wants it. It checks every request as strictly as the strictest server does, and fails
//! the test by name on a request that nobody scripted. Never answers twice from one script line,
//! but for a last `finish` that was sent back: the scripted model insists.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

/// One scripted answer.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    ending: Ending,
    gate: Option<CancellationToken>,
}

/// What happens after the body.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ending {
    /// The answer ends as it should.
    Good,
    /// The connection breaks.
    Break,
    /// Nothing more comes, ever.
    Stall,
    /// Not even the head of the answer comes.
    Silence,
}

impl Reply {
    /// A streamed text.
    pub fn say(text: &str) -> Self {
        Said::text(text).reply()
    }

    /// A streamed tool call.
    pub fn call(tool: &str, arguments: Value) -> Self {
        Self::calls(&[(tool, arguments)])
    }

    /// Several tool calls in one reply.
    pub fn calls(calls: &[(&str, Value)]) -> Self {
        let calls = calls.iter().map(|(tool, arguments)| (*tool, arguments.to_string()));
        Said::calls(calls).reply()
    }

    /// A change, with the run and the look at the difference that a good worker adds.
    pub fn change(tool: &str, arguments: Value) -> Self {
        let look = json!({"command": "sh test.sh; git diff"});
        Self::calls(&[(tool, arguments), ("run_command", look)])
    }

    /// A tool call with arguments as they are.
    pub fn raw_call(tool: &str, arguments: &str) -> Self {
        Said::calls([(tool, arguments.to_owned())]).reply()
    }

    /// The call that ends a run.
    pub fn finish(title: &str, summary: &str) -> Self {
        Self::call("finish", json!({"status": "done", "title": title, "summary": summary}))
    }

    /// A whole JSON body, not streamed.
    pub fn json(body: &Value) -> Self {
        Self::raw(200, "application/json", body.to_string())
    }

    /// An error as servers give it.
    pub fn error(status: u16, message: &str) -> Self {
        Self::raw(
            status,
            "application/json",
            json!({"error": {"message": message}}).to_string(),
        )
    }

    /// Any bytes.
    pub fn raw(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: vec![("content-type", content_type.to_owned())],
            body: body.into(),
            ending: Ending::Good,
            gate: None,
        }
    }

    /// The answer comes only once this token is cancelled.
    pub fn after(mut self, gate: &CancellationToken) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    /// The request is taken and never answered.
    pub fn silence() -> Self {
        Self {
            ending: Ending::Silence,
            ..Self::raw(200, "text/event-stream", "")
        }
    }

    /// With one more header.
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// The connection breaks after so many bytes.
    pub fn cut_after(mut self, bytes: usize) -> Self {
        self.body.truncate(bytes);
        self.ending = Ending::Break;
        self
    }

    /// The stream stands still after so many bytes.
    pub fn stall_after(mut self, bytes: usize) -> Self {
        self.body.truncate(bytes);
        self.ending = Ending::Stall;
        self
    }

    fn respond(self) -> Response {
        let ending = self.ending;
        // Small pieces, so that lines and characters are cut where nobody expects it.
        let pieces: Vec<Result<Bytes, std::io::Error>> = match self.body.len() {
            0..100_000 => self
                .body
                .chunks(37)
                .map(|piece| Ok(Bytes::copy_from_slice(piece)))
                .collect(),
            _ => vec![Ok(Bytes::from(self.body))],
        };
        let end = stream::once(async move {
            match ending {
                Ending::Good => None,
                Ending::Break => {
                    // What was said before the break is flushed while nothing more is ready.
                    tokio::task::yield_now().await;
                    Some(Err(std::io::Error::other("the script breaks the connection")))
                }
                Ending::Stall | Ending::Silence => std::future::pending().await,
            }
        });
        let body = Body::from_stream(stream::iter(pieces).chain(end.filter_map(std::future::ready)));
        let mut response = Response::builder().status(self.status);
        for (name, value) in self.headers {
            response = response.header(name, value);
        }
        response.body(body).expect("a scripted answer is valid")
    }
}

/// A streamed reply in the making.
#[derive(Debug, Clone)]
pub struct Said {
    text: String,
    reasoning: String,
    calls: Vec<(String, String)>,
    finish: &'static str,
    usage: Option<(u64, u64)>,
}

impl Said {
    /// A text.
    pub fn text(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            reasoning: String::new(),
            calls: Vec::new(),
            finish: "stop",
            usage: Some((100, 20)),
        }
    }

    /// Tool calls with their arguments as JSON text.
    pub fn calls<'a>(calls: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        Self {
            calls: calls
                .into_iter()
                .map(|(tool, arguments)| (tool.to_owned(), arguments))
                .collect(),
            finish: "tool_calls",
            ..Self::text("")
        }
    }

    /// With thoughts.
    pub fn thinking(mut self, reasoning: &str) -> Self {
        self.reasoning = reasoning.to_owned();
        self
    }

    /// With another reason for ending.
    pub fn ending(mut self, finish: &'static str) -> Self {
        self.finish = finish;
        self
    }

    /// With other usage, or none.
    pub fn usage(mut self, usage: Option<(u64, u64)>) -> Self {
        self.usage = usage;
        self
    }

    /// As a stream of events.
    pub fn reply(&self) -> Reply {
        let mut events = vec![json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})];
        let mut delta = |delta: Value| events.push(json!({"choices": [{"index": 0, "delta": delta}]}));
        if !self.reasoning.is_empty() {
            delta(json!({"reasoning_content": self.reasoning}));
        }
        for piece in pieces(&self.text) {
            delta(json!({"content": piece}));
        }
        for (index, (tool, arguments)) in self.calls.iter().enumerate() {
            let id = format!("call_{index}");
            delta(json!({"tool_calls": [{"index": index, "id": id, "type": "function",
                                         "function": {"name": tool, "arguments": ""}}]}));
            for piece in pieces(arguments) {
                delta(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}));
            }
        }
        events.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": self.finish}]}));
        if let Some((input, output)) = self.usage {
            let usage = json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output});
            events.push(json!({"choices": [], "usage": usage}));
        }
        let mut body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        body.push_str("data: [DONE]\n\n");
        Reply::raw(200, "text/event-stream; charset=utf-8", body)
    }
}

fn pieces(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(11).map(|piece| piece.iter().collect()).collect()
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    /// The `authorization` header.
    pub authorization: Option<String>,
    /// The body.
    pub body: Value,
}

impl Request {
    /// The conversation.
    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Content of the last message.
    pub fn last(&self) -> &str {
        self.messages()
            .last()
            .and_then(|message| message["content"].as_str())
            .unwrap_or_default()
    }
}

#[derive(Default)]
struct Play {
    script: VecDeque<Reply>,
    /// The last line of the script once it was played, if it ends a run.
    finish: Option<Reply>,
    requests: Vec<Request>,
    problems: Vec<String>,
}

/// The server. It stops when it is dropped.
pub struct ModelServer {
    url: String,
    play: Arc<Mutex<Play>>,
    _stop: DropGuard,
}

impl ModelServer {
    /// Starts a server with a script.
    pub async fn start(script: impl IntoIterator<Item = Reply>) -> Self {
        let play = Arc::new(Mutex::new(Play {
            script: script.into_iter().collect(),
            ..Play::default()
        }));
        let app = Router::new().fallback(answer).with_state(play.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                served = axum::serve(listener, app).into_future() => served.expect("the server runs"),
                () = stopped.cancelled() => {}
            }
        });
        Self {
            url,
            play,
            _stop: stop.drop_guard(),
        }
    }

    /// Its base address, without `/v1`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Adds lines to the script.
    pub fn play(&self, script: impl IntoIterator<Item = Reply>) {
        locked(&self.play).script.extend(script);
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        locked(&self.play).requests.clone()
    }

    /// Fails unless every line of the script was played and every request was in order.
    #[track_caller]
    pub fn assert_all_read(&self) {
        let play = locked(&self.play);
        assert!(play.problems.is_empty(), "requests were wrong: {:#?}", play.problems);
        assert!(
            play.script.is_empty(),
            "{} lines of the script were not played",
            play.script.len()
        );
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        let problems = std::mem::take(&mut locked(&self.play).problems);
        if !std::thread::panicking() {
            assert!(problems.is_empty(), "requests were wrong: {problems:#?}");
        }
    }
}

fn locked(play: &Mutex<Play>) -> MutexGuard<'_, Play> {
    play.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

async fn answer(
    State(play): State<Arc<Mutex<Play>>>,
    method: axum::http::Method,
    uri: axum::http::Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let reply = {
        let mut play = locked(&play);
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let mut wrong = problems_of(&body);
        if (method.as_str(), uri.path()) != ("POST", "/v1/chat/completions") {
            wrong.push(format!("{method} {uri} is not chat completions"));
        }
        let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        play.requests.push(Request {
            authorization: authorization.map(str::to_owned),
            body,
        });
        let sent_back = play
            .requests
            .last()
            .is_some_and(|request| request.last().starts_with("Not finished yet."));
        let reply = play
            .script
            .pop_front()
            .or_else(|| play.finish.take().filter(|_| sent_back));
        if play.script.is_empty() {
            play.finish = reply.clone();
        }
        if reply.is_none() {
            wrong.push(format!("request {} is not in the script", play.requests.len()));
        }
        play.problems.extend(wrong.iter().cloned());
        match reply {
            Some(reply) if wrong.is_empty() => reply,
            _ => Reply::error(StatusCode::BAD_REQUEST.as_u16(), &wrong.join("; ")),
        }
    };
    if let Some(gate) = &reply.gate {
        gate.cancelled().await;
    }
    if reply.ending == Ending::Silence {
        return std::future::pending().await;
    }
    reply.respond()
}

/// What the strictest servers would refuse.
fn problems_of(body: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let Some(messages) = body["messages"].as_array().filter(|messages| !messages.is_empty()) else {
        return vec!["there are no messages".to_owned()];
    };
    if !body["model"].is_string() {
        wrong.push("there is no model".to_owned());
    }
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            match open.iter().position(|open| *open == id) {
                Some(found) => drop(open.remove(found)),
                None => wrong.push(format!("message {at}: no call asked for output {id:?}")),
            }
            if !message["content"].is_string() {
                wrong.push(format!("message {at}: the content of a tool is no string"));
            }
            continue;
        }
        if !open.is_empty() {
            wrong.push(format!("message {at}: calls {open:?} before it have no output"));
            open.clear();
        }
        if let Some(calls) = message.get("tool_calls") {
            if calls.as_array().is_none_or(Vec::is_empty) {
                wrong.push(format!("message {at}: tool_calls is {calls}"));
            }
            for call in calls.as_array().into_iter().flatten() {
                let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
                if !matches!(serde_json::from_str(arguments), Ok(Value::Object(_))) {
                    wrong.push(format!("message {at}: arguments {arguments:?} are no object"));
                }
                open.push(call["id"].as_str().unwrap_or_default());
            }
        } else if !message["content"].is_string() {
            wrong.push(format!("message {at}: there is no content"));
        }
    }
    if !open.is_empty() {
        wrong.push(format!("calls {open:?} at the end have no output"));
    }
    wrong
}
