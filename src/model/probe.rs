//! What a server and its model really do, found out with small questions through our own client.
//! Called by `forgehand doctor --model`. Never asks for more tokens than it announces, and never
//! takes a server's word where it can look for itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde::Serialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::client::Client;
use super::endpoint::{Endpoint, add, sum};
use super::{cut, overflow, pricing};
use crate::config::ModelConfig;
use crate::event::Usage;
use crate::model::{ChatReply, ChatRequest, Live, Message, ModelError, ToolCall, ToolSpec};
use crate::secret::{Redactor, random_hex};
use crate::text;

/// Tries of each question: one for a hiccup, since the question is what the server does now.
const TRIES: u32 = 2;

/// Most tokens of an answer; models that think need some before they say a word.
const MAX_ANSWER: u32 = 2_048;

/// Questions besides those about the window.
const SMALL_QUESTIONS: u64 = 4;

/// The first size of the window that is tried. Below it our count says too little.
const FIRST_SIZE: u64 = 3_500;

/// What one question showed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shown {
    /// What was asked about.
    pub what: &'static str,
    /// How it stands.
    pub standing: Standing,
    /// What was seen.
    pub detail: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// How a thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// As it should be.
    Works,
    /// Good enough to work with.
    Limited,
    /// Runs would suffer or fail.
    Fails,
}

/// The questions to one server.
pub struct Probe {
    endpoint: Endpoint,
    /// Sizes of the window to try, in tokens.
    sizes: Vec<u64>,
    tally: Tally,
    shown: Vec<Shown>,
}

/// What the questions cost, and what was seen on the way.
#[derive(Debug, Default)]
struct Tally {
    usage: Usage,
    cost_usd: Option<f64>,
    reasoning_bytes: usize,
}

/// Probes for the configured server and its fallback.
///
/// # Errors
/// When an address or a price in the configuration cannot be used.
pub fn probes(config: &ModelConfig, max_context_tokens: u64, redactor: &Redactor) -> anyhow::Result<Vec<Probe>> {
    let endpoints = Client::new(config, redactor)?.into_endpoints();
    let probe = |endpoint: Endpoint| {
        let window = endpoint
            .profile()
            .context_window
            .saturating_sub(2 * u64::from(MAX_ANSWER));
        let largest = max_context_tokens.min(window).max(FIRST_SIZE);
        let doubling = std::iter::successors(Some(FIRST_SIZE), |size| Some(size * 2));
        let mut sizes: Vec<u64> = doubling.take_while(|size| *size < largest).collect();
        sizes.push(largest);
        Probe {
            endpoint,
            sizes,
            tally: Tally {
                cost_usd: Some(0.0),
                ..Tally::default()
            },
            shown: Vec::new(),
        }
    };
    Ok(endpoints.into_iter().map(probe).collect())
}

impl Probe {
    /// The model's name.
    pub fn name(&self) -> &str {
        self.endpoint.name()
    }

    /// What will be asked and what it may cost at most.
    pub fn announcement(&self) -> String {
        let questions = SMALL_QUESTIONS + self.sizes.len() as u64;
        let tokens = self.sizes.iter().sum::<u64>() + questions * (u64::from(MAX_ANSWER) + 500);
        format!(
            "asks {} at {} up to {questions} questions, with fewer than {tokens} tokens in all, each at most {TRIES} times",
            self.name(),
            self.endpoint.address()
        )
    }

    /// Tokens and money of the questions so far, in words.
    pub fn spent(&self) -> String {
        let usage = self.tally.usage;
        let money = self
            .tally
            .cost_usd
            .map_or_else(String::new, |cost| format!(", ${cost:.4}"));
        format!(
            "{} tokens read and {} written{money}",
            usage.input_tokens, usage.output_tokens
        )
    }

    /// Asks everything; `see` is told of each thing as it shows.
    pub async fn run(mut self, cancel: &CancellationToken, see: &mut (dyn FnMut(&Shown) + Send)) -> Self {
        let mut told = 0;
        for step in 0..5 {
            let goes_on = match step {
                0 => self.look_for_model().await,
                1 => self.ask_to_count(cancel).await,
                2 => self.ask_for_calls(cancel).await,
                3 => self.ask_for_two_calls(cancel).await,
                _ => self.fill_window(cancel).await,
            };
            self.shown[told..].iter().for_each(&mut *see);
            told = self.shown.len();
            if !goes_on {
                return self;
            }
        }
        self.sum_up();
        self.shown[told..].iter().for_each(see);
        self
    }

    /// Everything that showed.
    pub fn shown(&self) -> &[Shown] {
        &self.shown
    }

    fn show(&mut self, what: &'static str, standing: Standing, detail: impl Into<String>, fix: Option<&str>) {
        self.shown.push(Shown {
            what,
            standing,
            detail: detail.into(),
            fix: fix.map(str::to_owned),
        });
    }

    fn show_error(&mut self, what: &'static str, error: &ModelError) {
        self.show(what, Standing::Fails, error.to_string(), Some(fix_for(error)));
    }

    async fn ask(
        &mut self,
        messages: Vec<Message>,
        tools: &[ToolSpec],
        live: Live,
        cancel: &CancellationToken,
    ) -> Result<ChatReply, ModelError> {
        let request = ChatRequest {
            tools: tools.to_vec(),
            max_output_tokens: MAX_ANSWER.min(self.endpoint.profile().output_ceiling),
            live,
            ..ChatRequest::new(messages)
        };
        let answer = self.endpoint.ask(&request, TRIES, cancel).await;
        let (usage, cost) = match &answer {
            Ok(reply) => (reply.usage, reply.cost_usd),
            Err(failed) => (failed.usage, failed.cost_usd),
        };
        self.tally.usage = add(self.tally.usage, usage);
        self.tally.cost_usd = sum(self.tally.cost_usd, cost);
        let reply = answer.map_err(|failed| failed.error)?;
        self.tally.reasoning_bytes += reply.reasoning.len();
        Ok(reply)
    }

    async fn look_for_model(&mut self) -> bool {
        let name = self.name().to_owned();
        match self.endpoint.list_models().await {
            Ok(Some(names)) if names.iter().any(|known| is_same(known, &name)) => {
                self.show(
                    "model",
                    Standing::Works,
                    format!("{name} is in the server's list"),
                    None,
                );
            }
            Ok(Some(names)) => {
                let some: Vec<&str> = names.iter().take(8).map(String::as_str).collect();
                let detail = format!(
                    "{name} is not in the server's list of {}, such as {}",
                    names.len(),
                    some.join(", ")
                );
                let fix = "put one of the listed names into model.name, unless the answers below are right";
                self.show("model", Standing::Limited, text::cap_chars(&detail, 400), Some(fix));
            }
            Ok(None) => self.show("model", Standing::Limited, "the server does not list its models", None),
            Err(error) => {
                self.show_error("reachable", &error);
                // A gateway may guard its list and answer all the same.
                return matches!(error, ModelError::Unauthorized(_) | ModelError::Rejected(_)) && {
                    self.shown.pop();
                    self.show(
                        "model",
                        Standing::Limited,
                        "the server does not show its list of models",
                        None,
                    );
                    true
                };
            }
        }
        true
    }

    async fn ask_to_count(&mut self, cancel: &CancellationToken) -> bool {
        let pieces = Arc::new(AtomicUsize::new(0));
        let counted = pieces.clone();
        let live = Live::to(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let asked_at = Instant::now();
        let question =
            Message::user("Count from 1 to 40. Write the numbers with spaces between them and nothing else.");
        let reply = match self.ask(vec![question], &[], live, cancel).await {
            Ok(reply) => reply,
            Err(error) => {
                self.show_error("reachable", &error);
                return false;
            }
        };
        let took = text::duration_in_words(asked_at.elapsed());
        self.show("reachable", Standing::Works, format!("answered within {took}"), None);
        match pieces.load(Ordering::Relaxed) {
            0..3 => self.show(
                "streaming",
                Standing::Limited,
                "the reply came in one piece",
                Some("nothing shows while a reply is written, and long ones may meet a time limit; look for a proxy that buffers"),
            ),
            many => self.show("streaming", Standing::Works, format!("the reply came in {many} pieces"), None),
        }
        if reply.usage.reported {
            let detail = format!(
                "{} tokens read, {} written",
                reply.usage.input_tokens, reply.usage.output_tokens
            );
            self.show("usage", Standing::Works, detail, None);
        } else {
            let fix = "costs and limits go by our own count, which errs to the dear side";
            self.show(
                "usage",
                Standing::Limited,
                "the server does not say how many tokens a reply took",
                Some(fix),
            );
        }
        true
    }

    async fn ask_for_calls(&mut self, cancel: &CancellationToken) -> bool {
        const TEXT: &str = "a \"quoted\" word, C:\\new and größer";
        let tool = tool(
            "note",
            json!({"text": {"type": "string"}, "count": {"type": "integer"}}),
        );
        let question = Message::user(format!(
            "Call the tool `note` once, with count 42 and with this text, exactly as it stands between the angle \
             brackets: <{TEXT}>"
        ));
        let reply = match self
            .ask(
                vec![question.clone()],
                std::slice::from_ref(&tool),
                Live::default(),
                cancel,
            )
            .await
        {
            Ok(reply) => reply,
            Err(error) => {
                self.show_error("tool calls", &error);
                return true;
            }
        };
        let Some(call) = reply.tool_calls.first().cloned() else {
            let detail = format!(
                "the model called no tool; it said {:?}",
                text::cap_chars(&reply.content, 100)
            );
            self.show("tool calls", Standing::Fails, detail, Some(NO_CALLS));
            return true;
        };
        if self.endpoint.tools_are_text() {
            let fix = "set model.tool_calls = \"native\" once the server takes tools (vLLM: --enable-auto-tool-choice)";
            self.show(
                "tool calls",
                Standing::Limited,
                "as text: the server takes no tools",
                Some(fix),
            );
        } else {
            self.show(
                "tool calls",
                Standing::Works,
                format!("`{}` was called", call.name),
                None,
            );
        }
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        let count = arguments["count"]
            .as_u64()
            .or_else(|| arguments["count"].as_str()?.trim().parse().ok());
        match (&arguments, count, arguments["text"].as_str()) {
            (Value::Object(_), Some(42), Some(text)) if text.trim() == TEXT => {
                self.show(
                    "arguments",
                    Standing::Works,
                    "JSON, with quotes, backslashes and umlauts intact",
                    None,
                );
            }
            (Value::Object(_), ..) => {
                let detail = format!(
                    "JSON, but not what was asked for: {}",
                    text::cap_chars(&call.arguments, 200)
                );
                let fix = "edits of files need exact text: try a larger model, or one that is less quantised";
                self.show("arguments", Standing::Limited, detail, Some(fix));
            }
            _ => {
                let detail = format!("no JSON object: {}", text::cap_chars(&call.arguments, 200));
                let fix = "choose the tool parser that belongs to the model (vLLM: --tool-call-parser), or model.tool_calls = \"text\"";
                self.show("arguments", Standing::Fails, detail, Some(fix));
            }
        }
        self.give_output(question, reply, call, &tool, cancel).await
    }

    async fn give_output(
        &mut self,
        question: Message,
        reply: ChatReply,
        call: ToolCall,
        tool: &ToolSpec,
        cancel: &CancellationToken,
    ) -> bool {
        let number = u32::from(u16::from_be_bytes(crate::secret::random_bytes())) + 100_000;
        let mut called = Message::from(&reply);
        called.tool_calls.truncate(1);
        let output = Message::tool(call.id, format!("Noted under the number {number}."));
        let next = Message::user("Under which number was it noted? Answer with the number alone, and call no tool.");
        let messages = vec![question, called, output, next];
        match self
            .ask(messages, std::slice::from_ref(tool), Live::default(), cancel)
            .await
        {
            Ok(reply) if reply.content.contains(&number.to_string()) => {
                self.show("tool outputs", Standing::Works, "the model reads them", None);
            }
            Ok(reply) => {
                let detail = format!(
                    "the model did not read one; it said {:?}",
                    text::cap_chars(&reply.content, 100)
                );
                self.show(
                    "tool outputs",
                    Standing::Fails,
                    detail,
                    Some("check the chat template of the server; or set model.tool_calls = \"text\""),
                );
            }
            Err(error) => self.show_error("tool outputs", &error),
        }
        true
    }

    async fn ask_for_two_calls(&mut self, cancel: &CancellationToken) -> bool {
        let tool = tool("weather", json!({"city": {"type": "string"}}));
        let question = Message::user("Call the tool `weather` for Paris and for Oslo, both at once in this one reply.");
        match self.ask(vec![question], &[tool], Live::default(), cancel).await {
            Ok(reply) => match reply.tool_calls.len() {
                0 => self.show("parallel calls", Standing::Limited, "none was made", None),
                1 => {
                    let fix = "nothing has to be done; runs take more replies";
                    self.show("parallel calls", Standing::Limited, "one call at a time", Some(fix));
                }
                many => self.show(
                    "parallel calls",
                    Standing::Works,
                    format!("{many} calls in one reply"),
                    None,
                ),
            },
            Err(error) => self.show_error("parallel calls", &error),
        }
        true
    }

    /// Sends longer and longer texts and asks for a word from their beginning.
    async fn fill_window(&mut self, cancel: &CancellationToken) -> bool {
        let claimed = self.endpoint.profile().context_window;
        let mut good = 0;
        for size in self.sizes.clone() {
            let word = format!("harbour-{}", random_hex::<2>());
            let messages = vec![Message::user(long_text(size, &word))];
            let counted = messages.iter().map(pricing::count_message).sum();
            match self.ask(messages, &[], Live::default(), cancel).await {
                Ok(reply) => {
                    let read = reply.usage.input_tokens;
                    if let Some(cut) = cut::of(&reply.usage, 0, counted) {
                        let window = cut.window.unwrap_or(read);
                        let detail = format!(
                            "of about {size} tokens the server read {read} and said nothing: its window seems to be {window}"
                        );
                        self.show("window", Standing::Fails, detail, Some(CUT));
                        return true;
                    }
                    if !reply.content.contains(&word) {
                        let detail =
                            format!("in a text of {read} tokens the model did not find a word from the beginning");
                        let standing = if good == 0 { Standing::Fails } else { Standing::Limited };
                        self.show("window", standing, detail, Some(CUT));
                        return true;
                    }
                    good = good.max(read);
                }
                Err(ModelError::ContextOverflow(words)) => {
                    let window = overflow::window(&words).unwrap_or(good.max(1));
                    let detail = format!("{window} tokens, and the server says when they are full");
                    let fix =
                        format!("set model.context_window = {window}, so that conversations are made shorter in time");
                    let fix = (window < claimed).then_some(fix.as_str());
                    let standing = if fix.is_some() {
                        Standing::Limited
                    } else {
                        Standing::Works
                    };
                    self.show("window", standing, detail, fix);
                    return true;
                }
                Err(error) => {
                    self.show_error("window", &error);
                    return true;
                }
            }
        }
        let detail = format!(
            "{good} tokens were read and remembered; more was not asked for (--max-context-tokens), {claimed} are assumed"
        );
        self.show("window", Standing::Works, detail, None);
        true
    }

    fn sum_up(&mut self) {
        let detail = match self.tally.reasoning_bytes {
            0 => "none was shown: the model does not think, or the server keeps it back".to_owned(),
            bytes => format!("seen ({bytes} bytes), kept apart from the answers"),
        };
        self.show("reasoning", Standing::Works, detail, None);
        if self.endpoint.price_known() {
            self.show("price", Standing::Works, "known", None);
        } else {
            let fix = "set model.prices = { \"NAME*\" = [INPUT, OUTPUT] }, or budget.max_cost_usd cannot stop a run";
            self.show(
                "price",
                Standing::Limited,
                "unknown, so that cost is counted in tokens only",
                Some(fix),
            );
        }
    }
}

const NO_CALLS: &str = "start the server with tools (vLLM: --enable-auto-tool-choice --tool-call-parser NAME; llama.cpp: \
                        --jinja), take a model that was trained on them, or set model.tool_calls = \"text\"";

const CUT: &str = "give the model a larger window (Ollama: OLLAMA_CONTEXT_LENGTH, or num_ctx in a Modelfile) and set \
                   model.context_window to it; agents need 16,000 tokens at the least";

fn fix_for(error: &ModelError) -> &'static str {
    match error {
        ModelError::Unauthorized(_) => "set model.api_key_file to a file with a key of this server",
        ModelError::PaymentRequired(_) => "put money on the account, or use another key",
        ModelError::RateLimited { .. } => "wait, or ask the provider for a higher limit",
        ModelError::Unavailable(_) => "see that the server runs and that model.base_url is its address",
        ModelError::Rejected(_) => "check model.name and model.base_url; the words of the server say more",
        ModelError::ContextOverflow(_) => "give the model a larger window: not even a small question fits",
        ModelError::Cancelled | ModelError::NoScript(_) => "ask again",
    }
}

fn tool(name: &str, properties: Value) -> ToolSpec {
    let required: Vec<&String> = properties
        .as_object()
        .into_iter()
        .flat_map(|keys| keys.keys())
        .collect();
    ToolSpec {
        name: name.to_owned(),
        description: format!("Takes a {name}."),
        parameters: json!({"type": "object", "properties": properties, "required": required}),
    }
}

/// Names are compared without what Ollama adds and Gemini leaves out.
fn is_same(known: &str, name: &str) -> bool {
    let plain = |name: &str| {
        name.trim_start_matches("models/")
            .trim_end_matches(":latest")
            .to_lowercase()
    };
    plain(known) == plain(name)
}

/// A text of about so many tokens, with a word at its beginning and a question at its end.
fn long_text(tokens: u64, word: &str) -> String {
    let bytes = usize::try_from(tokens.saturating_mul(4)).unwrap_or(usize::MAX);
    let mut text = format!("The word to remember is {word}.\n\n");
    let mut line = 0;
    while text.len() < bytes {
        line += 1;
        text.push_str(&format!(
            "{line}. The river runs past the old mill, and the boats wait for the morning.\n"
        ));
    }
    text.push_str("\nWhich word was to be remembered, in the first line? Answer with the word alone.");
    text
}
