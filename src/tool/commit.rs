//! The tool `commit`: keeps the state of the workspace, or goes back to one. Never makes a commit of
//! the repository: what is published is made from the files, by the program.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::diff::worked;
use super::{Tool, ToolContext, ToolError, ToolOutput, arguments};
use crate::model::ToolSpec;
use crate::sandbox::SnapshotRequest;
use crate::text;

/// Most bytes of the summary of what going back changed.
const MAX_SUMMARY_BYTES: usize = 4 * 1024;

/// Keeps and restores checkpoints.
pub(super) struct Commit;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// What the checkpoint is: `parser works, tests pass`.
    #[serde(default, alias = "name", alias = "title")]
    message: String,
    /// Instead of keeping: go back to this checkpoint; 0 is the commit the work began with.
    #[serde(default)]
    restore: Option<u32>,
}

#[async_trait]
impl Tool for Commit {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "commit".to_owned(),
            description: "Keeps the present state of all files as a numbered checkpoint, to compare with (`diff` with since) or \
                          to go back to (restore) when an attempt fails. It is only for you: no commit of the repository is \
                          made, and none is needed."
                .to_owned(),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    async fn call(&self, context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let wanted: Arguments = arguments::fit("commit", arguments)?;
        let request = match wanted.restore {
            Some(number) => SnapshotRequest::Restore { number },
            None => SnapshotRequest::Keep {
                name: wanted.message.clone(),
            },
        };
        let output = context.sandbox.snapshot(&request, context.cancel).await?;
        worked(&output)?;
        let (number, rest) = kept(&output.output);
        let said = match wanted.restore {
            None => format!("Kept as checkpoint {number}."),
            Some(0) => format!("The files are as the work began; what was there is checkpoint {number}.{rest}"),
            Some(back) => {
                format!("The files are as in checkpoint {back}; what was there is checkpoint {number}.{rest}")
            }
        };
        Ok(ToolOutput::Text(text::reveal(&said)))
    }
}

/// The number of the state that was kept, and what stands behind it.
fn kept(output: &str) -> (&str, String) {
    let found = output
        .split_once("forgehand: kept ")
        .map(|(_, rest)| rest)
        .unwrap_or_default();
    let (number, rest) = found.split_once('\n').unwrap_or((found, ""));
    let rest = match rest.trim_end() {
        "" => String::new(),
        rest => format!("\n{}", text::cap(rest, MAX_SUMMARY_BYTES)),
    };
    (number.trim(), rest)
}
