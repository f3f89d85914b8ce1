//! A run's conversation as a log: what was said, what the model replied, and what was left out
//! later of what the model is shown. Entries are only ever added; the working set of messages is
//! a fold over them. Written through `recorder`, folded by `agent`, read again by a replay.
//! Never holds text that was not redacted.

use serde::{Deserialize, Serialize};

use crate::event::Usage;
use crate::model::{FinishReason, Message};

/// One entry. Positions count all entries of one agent's log, from 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// Something was said to the model, or a tool gave its output.
    Said {
        /// The message.
        message: Message,
    },
    /// The model replied. Written before anything is done with the reply.
    Replied {
        /// The reply as a message.
        message: Message,
        /// Why it ended.
        finish: FinishReason,
        /// Tokens.
        usage: Usage,
        /// Money in US dollars, where the price is known.
        cost_usd: Option<f64>,
        /// Which model replied; with a fallback, not always the same.
        model: String,
        /// SHA-256 of the messages and tools it was asked with, hex.
        request_sha256: String,
        /// How long it took, in milliseconds.
        took_ms: u64,
    },
    /// Bulky outputs and reasoning before a position are not shown any more.
    Shed {
        /// The position.
        before: u64,
    },
    /// A span is shown as a summary.
    Summarised {
        /// First position of the span.
        from: u64,
        /// Position behind the span.
        to: u64,
        /// The summary.
        summary: String,
    },
    /// The conversation begins anew, for example on another commit.
    Restarted,
}

/// Name of the agent that leads a run; its children have names of their own, such as `review-1`.
pub const MAIN: &str = "main";
