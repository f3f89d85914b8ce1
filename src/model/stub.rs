//! Answers without a model, from a script, so that everything can be tried without a key. Called
//! through the `Model` trait. Never pretends to be a model: its name and every text say what it is.
//!
//! A script is JSON or TOML (`model.stub_script`, by the file's ending), or built in:
//!
//! ```json
//! {"cases": [{
//!     "when": {"repo": "octo/wordcount", "contains": "empty file"},
//!     "turns": [
//!         {"say": "I look first.", "calls": [{"tool": "read_file", "arguments": {"path": "src/lib.rs"}}]},
//!         {"say": "Done.", "calls": [{"tool": "finish", "arguments": {"status": "done", "title": "…", "summary": "…"}}]}
//!     ]
//! }]}
//! ```
//!
//! The first case fits whose `repo` (matched without case) and `contains` (searched without case
//! in the first user message) both fit; a condition left out always does. `agent` names the child
//! that a case is for, such as `review` (any) or `review-2`; a case without it is for the agent
//! itself. Which turn is played follows from the request's count of replies in the whole
//! conversation, so that a run goes on in another process where it was. A case without calls in a
//! turn simply talks. A last turn that calls `finish` and is sent back is played again: a script
//! insists.

use std::path::Path;

use anyhow::Context as _;
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::pricing::{self, Price};
use super::profile;
use crate::config::ModelConfig;
use crate::event::Usage;
use crate::model::{ChatReply, ChatRequest, Delta, FinishReason, Model, ModelError, Profile, Purpose, Role, ToolCall};
use crate::text;

/// Largest script file.
const MAX_SCRIPT_BYTES: u64 = 4 * 1024 * 1024;

/// The stub's name.
const NAME: &str = "stub (scripted, no model)";

/// Name of the agent that leads a run.
const LEADING: &str = "main";

/// What stands before everything the stub says.
const MARK: &str = "(scripted)";

/// Scripted answers.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Cases; the first that fits is played.
    pub cases: Vec<Case>,
}

/// Answers for one kind of conversation.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Which conversations.
    #[serde(default)]
    pub when: When,
    /// The replies, in order.
    pub turns: Vec<ScriptedTurn>,
}

/// Which conversations a case is for.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// The repository, as `owner/name`.
    #[serde(default)]
    pub repo: Option<String>,
    /// Part of the first user message.
    #[serde(default)]
    pub contains: Option<String>,
    /// Which child, by its name or its kind; the agent itself if left out.
    #[serde(default)]
    pub agent: Option<String>,
}

/// One reply.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedTurn {
    /// What is said.
    #[serde(default)]
    pub say: String,
    /// Tools called.
    #[serde(default)]
    pub calls: Vec<ScriptedCall>,
}

/// One tool call of a reply.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    /// The tool.
    pub tool: String,
    /// Its arguments, an object.
    #[serde(default)]
    pub arguments: Value,
}

impl When {
    fn fits(&self, request: &ChatRequest) -> bool {
        let first = request.messages.iter().find(|message| message.role == Role::User);
        let asked = first.map_or("", |message| message.content.as_str());
        let repo_fits = self.repo.as_ref().is_none_or(|wanted| {
            let repo = request.repo.as_ref();
            repo.is_some_and(|repo| repo.as_str().eq_ignore_ascii_case(wanted))
        });
        let text_fits = self
            .contains
            .as_ref()
            .is_none_or(|wanted| asked.to_lowercase().contains(&wanted.to_lowercase()));
        let agent_fits = match &self.agent {
            None => request.agent == LEADING,
            Some(wanted) => {
                let kind = request.agent.rsplit_once('-').map_or("", |(kind, _)| kind);
                *wanted == request.agent || wanted == kind
            }
        };
        repo_fits && text_fits && agent_fits
    }
}

/// The scripts that the program brings along.
///
/// # Panics
/// When a script that was built in does not parse, which a test rules out.
pub fn builtin() -> Vec<Script> {
    [include_str!("stub/demo.json")]
        .into_iter()
        .map(|script| serde_json::from_str(script).expect("built-in scripts parse"))
        .collect()
}

/// The scripted model.
pub(super) struct Stub {
    scripts: Vec<Script>,
    profile: Profile,
}

impl Stub {
    /// Reads the configured script, or takes the built-in ones.
    pub(super) fn open(config: &ModelConfig) -> anyhow::Result<Self> {
        let scripts = match &config.stub_script {
            Some(path) => vec![load(path).with_context(|| format!("model.stub_script: {}", path.display()))?],
            None => builtin(),
        };
        Ok(Self {
            scripts,
            profile: profile::of(config, &config.name).profile,
        })
    }

    fn reply(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        let mut cases = self.scripts.iter().flat_map(|script| &script.cases);
        let case = cases
            .find(|case| case.when.fits(request))
            .ok_or_else(|| no_script(request))?;
        if request.purpose == Purpose::Summary {
            return Err(ModelError::NoScript("a script summarises nothing".to_owned()));
        }
        let turn = request.turn as usize;
        let last = case.turns.last().filter(|last| {
            let sent_back = request
                .messages
                .last()
                .is_some_and(|message| message.role == Role::Tool);
            sent_back && last.calls.iter().any(|call| call.tool == "finish")
        });
        let scripted = case.turns.get(turn).or(last).ok_or_else(|| {
            ModelError::NoScript(format!(
                "the stub's script has {} turns and the conversation asks for another one; let its last turn call `finish`",
                case.turns.len()
            ))
        })?;
        let calls = scripted.calls.iter().enumerate();
        let tool_calls: Vec<ToolCall> = calls
            .map(|(at, call)| ToolCall {
                id: format!("stub_{}_{}", turn + 1, at + 1),
                name: call.tool.clone(),
                arguments: match &call.arguments {
                    Value::Null => "{}".to_owned(),
                    arguments => arguments.to_string(),
                },
            })
            .collect();
        let mut reply = ChatReply {
            model: NAME.to_owned(),
            notes: Vec::new(),
            content: format!("{MARK} {}", scripted.say).trim_end().to_owned(),
            reasoning: String::new(),
            finish: if tool_calls.is_empty() {
                FinishReason::Stop
            } else {
                FinishReason::ToolCalls
            },
            tool_calls,
            usage: Usage::default(),
            cost_usd: None,
        };
        reply.usage = Usage {
            input_tokens: pricing::count_request(request),
            output_tokens: pricing::count_reply(&reply),
            reported: false,
        };
        reply.cost_usd = Price::FREE.cost(&reply.usage, 0);
        Ok(reply)
    }
}

fn load(path: &Path) -> anyhow::Result<Script> {
    let size = std::fs::metadata(path)?.len();
    if size > MAX_SCRIPT_BYTES {
        anyhow::bail!(
            "is {} long; at most {} are read",
            text::bytes_in_words(size),
            text::bytes_in_words(MAX_SCRIPT_BYTES)
        );
    }
    let script = std::fs::read_to_string(path)?;
    Ok(match path.extension().and_then(|ending| ending.to_str()) {
        Some("toml") => toml::from_str(&script)?,
        _ => serde_json::from_str(&script)?,
    })
}

fn no_script(request: &ChatRequest) -> ModelError {
    let repo = request.repo.as_ref().map_or("this conversation", |repo| repo.as_str());
    ModelError::NoScript(format!(
        "no model is configured, and the stub has no script for {repo}. Set FORGEHAND_MODEL__PROVIDER=openai, \
         FORGEHAND_MODEL__BASE_URL, FORGEHAND_MODEL__NAME and FORGEHAND_MODEL__API_KEY to use a real model, \
         or model.stub_script to script the answers"
    ))
}

#[async_trait]
impl Model for Stub {
    fn name(&self) -> &str {
        NAME
    }

    async fn complete(&self, request: &ChatRequest, cancel: &CancellationToken) -> Result<ChatReply, ModelError> {
        if cancel.is_cancelled() {
            return Err(ModelError::Cancelled);
        }
        let reply = self.reply(request)?;
        // As a server would stream it.
        let words = reply.content.split_inclusive(' ');
        words.for_each(|word| request.live.show(Delta::Text(word)));
        Ok(reply)
    }

    fn price_known(&self) -> bool {
        true
    }

    fn estimate(&self, _input_tokens: u64, _output_tokens: u32) -> Option<f64> {
        Some(0.0)
    }

    fn profile(&self) -> Profile {
        self.profile.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Message;

    fn stub() -> Stub {
        let script = r#"{"cases": [
            {"when": {"repo": "Octo/One", "contains": "CRASH"}, "turns": [
                {"say": "first", "calls": [{"tool": "plan", "arguments": {"steps": ["a"]}}, {"tool": "glob"}]},
                {"say": "second"}
            ]},
            {"when": {"repo": "octo/two"}, "turns": []}
        ]}"#;
        Stub {
            scripts: vec![serde_json::from_str(script).unwrap()],
            profile: profile::of(&ModelConfig::default(), "stub").profile,
        }
    }

    fn request(repo: &str, replies: u32) -> ChatRequest {
        // Replies that a long conversation does not show any more count all the same.
        let messages = ["It crashes", "crash, no script looks here"].map(Message::user);
        ChatRequest {
            repo: Some(repo.parse().unwrap()),
            turn: replies,
            ..ChatRequest::new([vec![Message::system("s")], messages.into()].concat())
        }
    }

    #[test]
    fn the_turn_follows_from_the_count_of_replies() {
        let first = stub().reply(&request("octo/one", 0)).unwrap();
        assert_eq!(first.content, format!("{MARK} first"));
        assert_eq!(first.tool_calls[0].arguments, r#"{"steps":["a"]}"#);
        assert_eq!(first.tool_calls[1].arguments, "{}");
        assert_eq!((first.finish, first.cost_usd), (FinishReason::ToolCalls, Some(0.0)));
        assert!(first.usage.input_tokens > 0 && !first.usage.reported);
        assert_eq!(first, stub().reply(&request("octo/one", 0)).unwrap(), "deterministic");
        let second = stub().reply(&request("octo/one", 1)).unwrap();
        assert_eq!(
            (second.content, second.finish),
            (format!("{MARK} second"), FinishReason::Stop)
        );
    }

    #[track_caller]
    fn check_missing(repo: &str, replies: u32, words: &str) {
        let problem = stub().reply(&request(repo, replies)).unwrap_err().to_string();
        assert!(problem.contains(words), "{problem}");
    }

    #[test]
    fn what_the_script_lacks_is_said_with_a_way_out() {
        check_missing("octo/three", 0, "FORGEHAND_MODEL__BASE_URL");
        check_missing("octo/one", 2, "has 2 turns");
        check_missing("octo/two", 0, "has 0 turns");
    }

    #[test]
    fn cases_for_children_are_apart() {
        let mut stub = stub();
        let script = r#"{"cases": [{"when": {"agent": "review"}, "turns": [{"say": "child"}]}]}"#;
        stub.scripts.insert(0, serde_json::from_str(script).unwrap());
        let asked = |agent: &str| {
            let request = ChatRequest {
                agent: agent.to_owned(),
                ..request("octo/one", 0)
            };
            stub.reply(&request).map(|reply| reply.content)
        };
        assert_eq!(asked("review-3").unwrap(), format!("{MARK} child"));
        assert_eq!(asked("main").unwrap(), format!("{MARK} first"));
        assert!(asked("agent-1").is_err());
    }

    #[test]
    fn a_script_insists_on_its_finish() {
        let script = r#"{"cases": [{"turns": [{"say": "x"}, {"say": "done", "calls": [{"tool": "finish"}]}]}]}"#;
        let mut stub = stub();
        stub.scripts = vec![serde_json::from_str(script).unwrap()];
        let mut asked = request("octo/one", 2);
        assert!(stub.reply(&asked).is_err(), "nobody sent it back");
        asked
            .messages
            .push(std::sync::Arc::new(Message::tool("1", "Not finished yet.")));
        assert_eq!(stub.reply(&asked).unwrap().content, format!("{MARK} done"));
    }

    #[test]
    fn built_in_scripts_end_with_finish() {
        for case in builtin().iter().flat_map(|script| &script.cases) {
            let last = case.turns.last().and_then(|turn| turn.calls.last());
            assert_eq!(last.map(|call| call.tool.as_str()), Some("finish"));
        }
    }

    #[test]
    fn script_files_are_json_or_toml() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script.toml");
        std::fs::write(&path, "[[cases]]\nturns = [{say = \"hi\"}]\n").unwrap();
        assert_eq!(load(&path).unwrap().cases[0].turns[0].say, "hi");
        std::fs::write(&path, "[[cases]]\nturn = []\n").unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("turn"));
    }
}
