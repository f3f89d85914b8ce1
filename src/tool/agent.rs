//! The tool `agent`: a question for a child that reads and searches and gives back its conclusion.
//! Never does the work itself: `agent` runs the child. The child cannot change anything and has
//! no children of its own.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Errand, Tool, ToolContext, ToolError, ToolOutput, arguments};
use crate::model::ToolSpec;
use crate::text;

/// Longest question, in bytes.
const MAX_QUESTION_BYTES: usize = 8 * 1024;

/// Asks a child.
pub(super) struct AskChild;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The whole question, with everything the child has to know; it sees nothing else of your work.
    #[serde(alias = "prompt", alias = "task", alias = "description", alias = "query")]
    question: String,
}

#[async_trait]
impl Tool for AskChild {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "agent".to_owned(),
            description:
                "Asks a helper that reads and searches the workspace with a small budget of its own and gives \
                          back only its conclusion. For questions that need much reading and have a short answer."
                    .to_owned(),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    fn may_repeat(&self) -> bool {
        true
    }

    async fn call(&self, _context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let asked: Arguments = arguments::fit("agent", arguments)?;
        let question = text::cap(asked.question.trim(), MAX_QUESTION_BYTES);
        if question.is_empty() {
            return Err(ToolError::BadCall("agent: the question is empty".to_owned()));
        }
        Ok(ToolOutput::Delegate(Errand::Answer { question }))
    }
}

/// Ends an errand that was a question.
pub(super) struct Conclude;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Conclusion {
    /// The answer in a few sentences, with `path:line` for what matters.
    #[serde(alias = "answer", alias = "summary", alias = "result", alias = "text")]
    conclusion: String,
}

#[async_trait]
impl Tool for Conclude {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "conclude".to_owned(),
            description: "Gives the answer and ends your work.".to_owned(),
            parameters: arguments::schema::<Conclusion>(),
        }
    }

    async fn call(&self, _context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let said: Conclusion = arguments::fit("conclude", arguments)?;
        if said.conclusion.trim().is_empty() {
            return Err(ToolError::BadCall("conclude: the conclusion is empty".to_owned()));
        }
        Ok(ToolOutput::Conclude(super::Conclusion::Answer(
            said.conclusion.trim().to_owned(),
        )))
    }
}
