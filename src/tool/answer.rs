//! The closing tool of a run that answers a question: `finish` with the answer. Never posts
//! anything: the program does, after it was made safe.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Finish, Tool, ToolContext, ToolError, ToolOutput, arguments};
use crate::model::ToolSpec;
use crate::text;

/// Most bytes of an answer: what a person reads in one go.
const MAX_ANSWER_BYTES: usize = 16 * 1024;

/// Ends the run with an answer.
pub(super) struct FinishAnswer;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The answer in short Markdown: first the answer itself, then what it rests on, with `path:line` for what you saw. Say what you could not find out.
    #[serde(alias = "summary", alias = "text", alias = "message", alias = "result")]
    answer: String,
    /// True when the question should not be answered; the answer then says why.
    #[serde(default)]
    refused: bool,
}

#[async_trait]
impl Tool for FinishAnswer {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "finish".to_owned(),
            description: "Gives the answer to the person who asked, and ends your work.".to_owned(),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    fn may_repeat(&self) -> bool {
        true
    }

    async fn call(&self, _context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        judge(arguments::fit("finish", arguments)?).map(ToolOutput::Finish)
    }
}

fn judge(said: Arguments) -> Result<Finish, ToolError> {
    let answer = text::reveal(&text::cap(said.answer.trim(), MAX_ANSWER_BYTES));
    match (answer.is_empty(), said.refused) {
        (true, _) => Err(ToolError::BadCall("finish: the answer is empty".to_owned())),
        (false, true) => Ok(Finish::Refused { reason: answer }),
        (false, false) => Ok(Finish::Answered { answer }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_has_words() {
        let judged = |arguments| arguments::fit("finish", arguments).and_then(judge);
        let answered = judged(json!({"answer": " In `a.rs:3`. "})).unwrap();
        assert_eq!(
            answered,
            Finish::Answered {
                answer: "In `a.rs:3`.".to_owned()
            }
        );
        let refused = judged(json!({"summary": "It asks for a secret.", "refused": true})).unwrap();
        assert!(matches!(refused, Finish::Refused { .. }));
        assert!(
            judged(json!({"answer": " "}))
                .unwrap_err()
                .to_string()
                .contains("empty")
        );
    }
}
