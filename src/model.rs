//! The language model behind one trait, and the words of a chat: messages, tool calls, usage.
//! Called by `agent`. Never executes a tool, never stores a conversation, and never knows what
//! the conversation is about.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::config::{ModelConfig, ModelProvider};
use crate::event::Usage;
use crate::ids::RepoName;
use crate::phrase::model::ModelNote;
use crate::secret::Redactor;

mod address;
mod assembly;
mod client;
mod cut;
mod endpoint;
mod failure;
mod names;
mod overflow;
mod pricing;
pub mod probe;
mod profile;
mod quirks;
mod reading;
mod replay;
mod screen;
mod sse;
mod stub;
mod text_calls;
mod text_mode;
mod wire;

pub use replay::{Replay, ReplayedAgent};
pub use stub::{Case, Script, ScriptedCall, ScriptedTurn, When, builtin};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The program's own instructions.
    System,
    /// The request, and the program's later remarks.
    User,
    /// The model.
    Assistant,
    /// The output of a tool call.
    Tool,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    #[serde(default)]
    pub content: String,
    /// What an assistant thought; stored, and replayed only where a profile says so.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// Tools an assistant called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

/// Cautious count of the tokens of a text.
pub fn tokens_of(text: &str) -> usize {
    usize::try_from(pricing::count_bytes(text.len())).unwrap_or(usize::MAX)
}

impl Message {
    /// The program's own instructions.
    pub fn system(content: impl Into<String>) -> Self {
        Self::plain(Role::System, content.into())
    }

    /// A request or remark to the model.
    pub fn user(content: impl Into<String>) -> Self {
        Self::plain(Role::User, content.into())
    }

    /// The output of a tool call.
    pub fn tool(call_id: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            tool_call_id: Some(call_id.into()),
            ..Self::plain(Role::Tool, content.into())
        }
    }

    /// Cautious count of the tokens that a model reads in it; reasoning is not counted, since it is
    /// hardly ever sent back.
    pub fn tokens(&self) -> u64 {
        pricing::count_message(self)
    }

    fn plain(role: Role, content: String) -> Self {
        Self {
            role,
            content,
            reasoning: String::new(),
            tool_calls: Vec::new(),
            tool_call_id: None,
        }
    }
}

impl From<&ChatReply> for Message {
    fn from(reply: &ChatReply) -> Self {
        Self {
            reasoning: reply.reasoning.clone(),
            tool_calls: reply.tool_calls.clone(),
            ..Self::plain(Role::Assistant, reply.content.clone())
        }
    }
}

/// A tool call as the model wrote it. `arguments` is JSON text that nobody has checked yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The server's id, or one made up here when it gave none.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// JSON text.
    pub arguments: String,
}

/// A tool as the model is told of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolSpec {
    /// Name.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON schema of its arguments.
    pub parameters: serde_json::Value,
}

impl ToolSpec {
    /// Cautious count of the tokens that a model reads in it.
    pub fn tokens(&self) -> u64 {
        pricing::count_tool(self)
    }
}

/// What a reply is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The next turn of a conversation.
    Turn,
    /// A summary of a part of it. No turn of a script answers that.
    Summary,
}

/// One call.
#[derive(Debug, Clone)]
pub struct ChatRequest {
    /// Which agent asks: the one that leads a run is `main`, its children have names of their own.
    pub agent: String,
    /// For what.
    pub purpose: Purpose,
    /// The conversation. Shared with the log that it comes from: nothing is copied for a request.
    pub messages: Vec<Arc<Message>>,
    /// The tools that may be called.
    pub tools: Vec<ToolSpec>,
    /// Most tokens of the reply.
    pub max_output_tokens: u32,
    /// The repository worked on, which the stub's built-in scripts are found by.
    pub repo: Option<RepoName>,
    /// Replies so far in the whole conversation, shown or not; the stub finds its turn by it.
    pub turn: u32,
    /// Who watches the reply arrive.
    pub live: Live,
}

impl ChatRequest {
    /// Cautious count of the tokens that a model reads in it.
    pub fn tokens(&self) -> u64 {
        pricing::count_request(self)
    }

    /// A conversation of its own, without tools.
    pub fn new(messages: impl IntoIterator<Item = Message>) -> Self {
        Self {
            agent: "main".to_owned(),
            purpose: Purpose::Turn,
            messages: messages.into_iter().map(Arc::new).collect(),
            tools: Vec::new(),
            max_output_tokens: 1_024,
            repo: None,
            turn: 0,
            live: Live::default(),
        }
    }
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model was done.
    Stop,
    /// It waits for its tools.
    ToolCalls,
    /// The output limit cut it.
    Length,
    /// The server refused or filtered.
    Filtered,
}

/// A complete reply, or one that the output limit cut. Half a tool call is only there as one whose
/// arguments are no JSON, and only as the last of a reply that ended for its length.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatReply {
    /// Which model replied; with a fallback, not always the same.
    pub model: String,
    /// What people should know of how the reply came about.
    pub notes: Vec<ModelNote>,
    /// What was said.
    pub content: String,
    /// What was thought.
    pub reasoning: String,
    /// Tools called.
    pub tool_calls: Vec<ToolCall>,
    /// Why it ended.
    pub finish: FinishReason,
    /// Tokens.
    pub usage: Usage,
    /// Money in US dollars, `None` when the price is unknown.
    pub cost_usd: Option<f64>,
}

/// Why there is no reply, named by what the caller can do.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// Wait and try again.
    #[error("the model is rate limited: {detail}")]
    RateLimited {
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
        /// The server's words.
        detail: String,
    },
    /// Try again; the server or the line failed.
    #[error("the model is not available: {0}")]
    Unavailable(String),
    /// The key is wrong or has no right.
    #[error("the model server refuses the key: {0}")]
    Unauthorized(String),
    /// The account has no money.
    #[error("the model server asks for payment: {0}")]
    PaymentRequired(String),
    /// The conversation is longer than the model's window.
    #[error("the conversation does not fit the model's context window: {0}")]
    ContextOverflow(String),
    /// The server does not accept the request; trying again would not help.
    #[error("the model server rejects the request: {0}")]
    Rejected(String),
    /// The run was stopped.
    #[error("the call was cancelled")]
    Cancelled,
    /// The stub has no script for this.
    #[error("{0}")]
    NoScript(String),
}

impl ModelError {
    /// The same error in other words.
    pub(crate) fn with_words(self, change: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::RateLimited { retry_after, detail } => Self::RateLimited {
                retry_after,
                detail: change(detail),
            },
            Self::Unavailable(words) => Self::Unavailable(change(words)),
            Self::Unauthorized(words) => Self::Unauthorized(change(words)),
            Self::PaymentRequired(words) => Self::PaymentRequired(change(words)),
            Self::ContextOverflow(words) => Self::ContextOverflow(change(words)),
            Self::Rejected(words) => Self::Rejected(change(words)),
            other @ (Self::Cancelled | Self::NoScript(_)) => other,
        }
    }
}

/// A call that gave no reply. What came of it before it failed may have to be paid for all the
/// same, and counts.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Failed {
    /// Why.
    pub error: ModelError,
    /// Tokens that the server may charge.
    pub usage: Usage,
    /// Money for them in US dollars, `None` when the price is unknown.
    pub cost_usd: Option<f64>,
}

/// What a model can do, from its name and the configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Most tokens of a request and its reply together.
    pub context_window: u64,
    /// Most tokens of one reply to begin with.
    pub max_output_tokens: u32,
    /// Most tokens of one reply after replies were cut.
    pub output_ceiling: u32,
    /// How it is told to change files.
    pub edit_format: EditFormat,
}

/// How a model is told to change files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EditFormat {
    /// `edit_file`: a piece of text and what replaces it.
    Replace,
    /// `apply_patch`: patches over several files.
    Patch,
}

/// A part of a reply while it arrives, for people who watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delta<'a> {
    /// Text.
    Text(&'a str),
    /// Reasoning.
    Reasoning(&'a str),
    /// The reply broke off and begins anew: what was shown of it is void.
    Restarted,
}

/// Who watches replies arrive; must not block.
#[derive(Clone, Default)]
pub struct Live(Option<Arc<Watcher>>);

type Watcher = dyn Fn(Delta<'_>) + Send + Sync;

impl Live {
    /// Somebody who watches.
    pub fn to(watcher: impl Fn(Delta<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(watcher)))
    }

    /// Whether anybody watches.
    pub fn is_watched(&self) -> bool {
        self.0.is_some()
    }

    /// Shows a part.
    pub fn show(&self, delta: Delta<'_>) {
        if let Some(watcher) = &self.0 {
            watcher(delta);
        }
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() {
            "Live(watched)"
        } else {
            "Live(unwatched)"
        })
    }
}

/// A language model.
#[async_trait]
pub trait Model: Send + Sync {
    /// Its name, for people.
    fn name(&self) -> &str;

    /// Asks for one reply. Retries what can pass within its own deadline.
    async fn complete(&self, request: &ChatRequest, cancel: &CancellationToken) -> Result<ChatReply, ModelError>;

    /// The same, and an error says what the call may have cost all the same.
    async fn attempt(&self, request: &ChatRequest, cancel: &CancellationToken) -> Result<ChatReply, Failed> {
        self.complete(request, cancel).await.map_err(|error| Failed {
            error,
            usage: Usage::default(),
            cost_usd: Some(0.0),
        })
    }

    /// Whether the model's price is known.
    fn price_known(&self) -> bool;

    /// What a call with so many tokens may cost at most in US dollars, by the dearest that may
    /// answer it. `None` when no price is known.
    fn estimate(&self, _input_tokens: u64, _output_tokens: u32) -> Option<f64> {
        None
    }

    /// What it can do.
    fn profile(&self) -> Profile;
}

/// The model that the configuration names. Its key is made known to the redactor.
///
/// # Errors
/// When an address, a price or a script in the configuration cannot be used.
pub fn open(config: &ModelConfig, redactor: &Redactor) -> anyhow::Result<Arc<dyn Model>> {
    Ok(match config.provider {
        ModelProvider::OpenAi => Arc::new(client::Client::new(config, redactor)?),
        ModelProvider::Stub => Arc::new(stub::Stub::open(config)?),
    })
}
