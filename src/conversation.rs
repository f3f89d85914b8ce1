//! A run's conversation as a log: what was said, what the model replied, and what was left out
//! later of what the model is shown. Entries are only ever added; the working set of messages is
//! a fold over them. Written through `recorder`, folded by `agent`, read again by a replay.
//! Never holds text that was not redacted.

use std::sync::{Arc, LazyLock};

use regex::Regex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::event::Usage;
use crate::model::{FinishReason, Message, Role, ToolSpec};

mod compare;

pub use compare::{Comparison, Differing, compare, current};

/// One entry. Positions count all entries of one agent's log, from 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// Something was said to the model, or a tool gave its output.
    Said {
        /// The message.
        message: Arc<Message>,
    },
    /// The model replied. Written before anything is done with the reply.
    Replied {
        /// The reply as a message.
        message: Arc<Message>,
        /// Why it ended.
        finish: FinishReason,
        /// Tokens.
        usage: Usage,
        /// Money in US dollars, where the price is known.
        cost_usd: Option<f64>,
        /// Which model replied; with a fallback, not always the same.
        model: String,
        /// Fingerprint of the messages and tools it was asked with, hex.
        request_sha256: String,
        /// How long it took, in milliseconds.
        took_ms: u64,
    },
    /// The model refused the conversation as too long.
    Refused {
        /// Its words.
        why: String,
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
        /// The model's call that wrote it; without one, it was put together from the log.
        #[serde(default)]
        by: Option<Summariser>,
    },
    /// The conversation begins anew, for example on another commit.
    Restarted,
}

/// The call that wrote a summary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summariser {
    /// Which model.
    pub model: String,
    /// Tokens.
    pub usage: Usage,
    /// Money in US dollars, where the price is known.
    pub cost_usd: Option<f64>,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}

/// Name of the agent that leads a run; its children have names of their own, such as `review-1`.
pub const MAIN: &str = "main";

impl Entry {
    /// Something said to the model.
    pub fn said(message: Message) -> Self {
        Self::Said {
            message: Arc::new(message),
        }
    }

    /// A message of a time when conversations were stored as a list of messages.
    pub fn of_old(message: Message) -> Self {
        if message.role != Role::Assistant {
            return Self::said(message);
        }
        let finish = match message.tool_calls.as_slice() {
            [] => FinishReason::Stop,
            _ => FinishReason::ToolCalls,
        };
        Self::Replied {
            message: Arc::new(message),
            finish,
            usage: Usage::default(),
            cost_usd: None,
            model: String::new(),
            request_sha256: String::new(),
            took_ms: 0,
        }
    }

    /// The message that the entry adds to the conversation, if it adds one.
    pub fn message(&self) -> Option<&Arc<Message>> {
        match self {
            Self::Said { message } | Self::Replied { message, .. } => Some(message),
            Self::Refused { .. } | Self::Shed { .. } | Self::Summarised { .. } | Self::Restarted => None,
        }
    }
}

/// Text with everything taken out that differs between two runs of the same thing: durations,
/// dates and times, memory addresses, ports, paths of temporary files, process ids. Two outputs
/// that say the same give the same text.
pub fn settled(text: &str) -> String {
    static PASSING: LazyLock<Regex> = LazyLock::new(|| {
        let passing = [
            // dates, and times of day
            r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?)?",
            r"\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? +)?(?:\d{1,2} +)?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]* +\d{1,2}(?: +(?:\d{4}|\d\d:\d\d(?::\d\d)?(?: +\d{4})?))?\b",
            r"\b\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?\b",
            // durations
            r"\b\d+(?:\.\d+)? ?(?:ns|µs|us|ms|s|sec|secs|seconds?|min|mins|minutes?|h|hours?)\b",
            r"\b\d+m ?\d+(?:\.\d+)?s\b",
            // addresses in memory and on the network
            r"\b0x[0-9a-fA-F]{4,}\b",
            r"\b(?:localhost|\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}):\d+\b",
            // temporary files
            r#"(?:/private)?(?:/var)?/(?:tmp|dev/shm)/[^\s:;,'"`()\[\]<>]*"#,
            // processes
            r"(?i)\b(?:pid|process|thread)[ =:#]*\d+\b",
        ];
        Regex::new(&passing.join("|")).expect("the pattern is valid")
    });
    PASSING.replace_all(text, "⟨…⟩").into_owned()
}

/// What a message is, for comparing two runs: [`settled`], without reasoning, and without the ids
/// of calls, which servers make up.
pub fn fingerprint(message: &Message) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut part = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    };
    part(match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    });
    match message.role {
        Role::Assistant | Role::System => part(&message.content),
        Role::User | Role::Tool => part(&settled(&message.content)),
    }
    for call in &message.tool_calls {
        part(&call.name);
        part(&call.arguments);
    }
    hash.finalize().into()
}

/// What the tools of a request are, for comparing two runs.
pub fn fingerprint_of_tools(tools: &[ToolSpec]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for tool in tools {
        hash.update(serde_json::to_vec(tool).unwrap_or_default());
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ToolCall;

    #[track_caller]
    fn check_same(one: &str, other: &str) {
        assert_eq!(settled(one), settled(other));
        assert_ne!(settled(one), one, "something was taken out");
    }

    #[test]
    fn what_passes_is_taken_out_of_texts() {
        check_same("[exit code 0, 1.2 s]", "[exit code 0, 340 ms]");
        check_same(
            "test result: ok; finished in 0.01s",
            "test result: ok; finished in 12.40s",
        );
        check_same("took 1m 3s", "took 2m 40.1s");
        check_same("at 2026-01-02T03:04:05.123Z x", "at 2027-11-12 13:14:15 x");
        check_same("-rw-r--r-- 1 a a 5 Nov 29 22:08 x", "-rw-r--r-- 1 a a 5 Dec  1  2026 x");
        check_same("<object at 0x7f00deadbeef>", "<object at 0x7fffdeadbee0>");
        check_same("listening on 127.0.0.1:40123", "listening on 127.0.0.1:9");
        check_same("wrote /tmp/abc123/out.txt", "wrote /tmp/tmp.Xy/z");
        check_same("killed pid 4711", "killed pid 4712");
    }

    #[test]
    fn what_says_something_stays() {
        for text in [
            "assertion failed: left == 2, right == 3",
            "src/lib.rs:12:5: error[E0308]",
            "7 passed; 1 failed",
            "version 1.2.3",
        ] {
            assert_eq!(settled(text), text);
        }
    }

    #[test]
    fn ids_of_calls_do_not_tell_two_runs_apart() {
        let call = |id: &str, arguments: &str| Message {
            role: Role::Assistant,
            tool_calls: vec![ToolCall {
                id: id.to_owned(),
                name: "grep".to_owned(),
                arguments: arguments.to_owned(),
            }],
            ..Message::user("")
        };
        assert_eq!(fingerprint(&call("a", "{}")), fingerprint(&call("b", "{}")));
        assert_ne!(fingerprint(&call("a", "{}")), fingerprint(&call("a", "{\"x\":1}")));
        assert_ne!(fingerprint(&Message::user("a")), fingerprint(&Message::system("a")));
    }

    #[test]
    fn old_entries_still_parse() {
        for old in [
            r#"{"entry":"said","message":{"role":"user","content":"hi"}}"#,
            r#"{"entry":"replied","message":{"role":"assistant","content":"","reasoning":"hm","tool_calls":[{"id":"a","name":"glob","arguments":"{}"}]},"finish":"tool_calls","usage":{"input_tokens":1,"output_tokens":2},"cost_usd":null,"model":"m","request_sha256":"00","took_ms":3}"#,
            r#"{"entry":"refused","why":"too long"}"#,
            r#"{"entry":"shed","before":4}"#,
            r#"{"entry":"summarised","from":2,"to":8,"summary":"s"}"#,
            r#"{"entry":"restarted"}"#,
        ] {
            let entry: Entry = serde_json::from_str(old).expect(old);
            let again = serde_json::to_string(&entry).unwrap();
            assert_eq!(serde_json::from_str::<Entry>(&again).unwrap(), entry);
        }
    }
}
