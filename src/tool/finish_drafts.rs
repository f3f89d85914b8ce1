//! The closing tool of a run that drafts issues: `finish` with a word on what was drafted. The
//! drafts themselves were given before. Never posts or creates anything.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Finish, Tool, ToolContext, ToolError, ToolOutput, arguments};
use crate::model::ToolSpec;
use crate::text;

/// Most bytes of the words.
const MAX_SUMMARY_BYTES: usize = 4 * 1024;

/// Ends the run.
pub(super) struct FinishDrafts;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// What was drafted, or why nothing deserves an issue, in a sentence or two. Nothing of a security finding.
    #[serde(
        alias = "answer",
        alias = "text",
        alias = "message",
        alias = "result",
        alias = "reason"
    )]
    summary: String,
    /// True when nothing should be drafted; the summary then says why.
    #[serde(default)]
    refused: bool,
}

#[async_trait]
impl Tool for FinishDrafts {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "finish".to_owned(),
            description: "Ends the work, once every draft was given to `draft_issue` and kept.".to_owned(),
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
    let summary = text::reveal(&text::cap(said.summary.trim(), MAX_SUMMARY_BYTES));
    match (summary.is_empty(), said.refused) {
        (true, _) => Err(ToolError::BadCall(
            "finish: the summary is empty; say what was drafted, or why nothing was".to_owned(),
        )),
        (false, true) => Ok(Finish::Refused { reason: summary }),
        (false, false) => Ok(Finish::Answered { answer: summary }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_end_has_words() {
        let judged = |arguments| arguments::fit("finish", arguments).and_then(judge);
        let said = judged(json!({"answer": " One draft. "})).unwrap();
        assert_eq!(
            said,
            Finish::Answered {
                answer: "One draft.".to_owned()
            }
        );
        assert!(matches!(
            judged(json!({"summary": "x", "refused": true})),
            Ok(Finish::Refused { .. })
        ));
        assert!(
            judged(json!({"summary": " "}))
                .unwrap_err()
                .to_string()
                .contains("empty")
        );
    }
}
