//! The tool `diff`: what the workspace changed, by file and then line by line. Never uses the
//! workspace's own git, so that commits and resets of the agent do not hide anything.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Tool, ToolContext, ToolError, ToolOutput, arguments, relative};
use crate::model::ToolSpec;
use crate::sandbox::{ExecOutput, Exit, SnapshotRequest};
use crate::text;

/// Most bytes of one answer.
const MAX_BYTES: usize = 40 * 1024;

/// Most bytes of the summary by file.
const MAX_SUMMARY_BYTES: usize = 8 * 1024;

/// Shows what changed.
pub(super) struct Diff;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Only this file or folder, relative to the workspace.
    #[serde(default, alias = "file", alias = "file_path")]
    path: String,
    /// Compare with this checkpoint of `commit` instead of the commit the work began with.
    #[serde(default, alias = "checkpoint")]
    since: Option<u32>,
}

#[async_trait]
impl Tool for Diff {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "diff".to_owned(),
            description:
                "Shows what you changed since the work began, new files included and ignored ones not: a summary by \
                          file, then the changes. Read it before you finish."
                    .to_owned(),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    fn may_repeat(&self) -> bool {
        true
    }

    async fn call(&self, context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let wanted: Arguments = arguments::fit("diff", arguments)?;
        let request = SnapshotRequest::Diff {
            since: wanted.since.filter(|number| *number > 0),
            path: relative(&wanted.path),
        };
        let output = context.sandbox.snapshot(&request, context.cancel).await?;
        worked(&output)?;
        let shown = render(&text::reveal(&output.output));
        Ok(ToolOutput::Text(shown))
    }
}

/// Why a snapshot did not work, if it did not.
pub(super) fn worked(output: &ExecOutput) -> Result<(), ToolError> {
    let problem = match output.exit {
        Exit::Code(0) => return Ok(()),
        Exit::Cancelled => return Err(ToolError::Fatal(crate::sandbox::SandboxError::Cancelled)),
        Exit::Code(3) => "there is no such checkpoint (the twenty latest are kept); `commit` makes one".to_owned(),
        Exit::Code(4) => {
            "this workspace was not checked out from a commit, so there is nothing to compare it with; make a \
                          checkpoint with `commit` and compare with that"
                .to_owned()
        }
        _ => format!(
            "it failed ({:?}): {}",
            output.exit,
            text::cap_middle(output.output.trim(), 2_000)
        ),
    };
    Err(ToolError::ForModel(problem))
}

/// The summary whole, then as many files as fit; the others are named.
fn render(output: &str) -> String {
    let (summary, changes) = output.split_once("\n\n").unwrap_or((output, ""));
    if summary.trim().is_empty() {
        return "[nothing changed]".to_owned();
    }
    let mut shown = text::cap(summary.trim_matches('\n'), MAX_SUMMARY_BYTES);
    shown.push('\n');
    let mut left_out = Vec::new();
    for file in files(changes) {
        let room = MAX_BYTES.saturating_sub(shown.len());
        if file.len() < room {
            shown.push('\n');
            shown.push_str(file.trim_end_matches('\n'));
        } else if room > MAX_BYTES / 2 {
            // A large file is shown in part rather than not at all, and leaves room for small ones.
            shown.push('\n');
            shown.push_str(&text::cap(file, room / 2));
            left_out.push(format!("the rest of {}", name(file)));
        } else {
            left_out.push(name(file));
        }
    }
    if !left_out.is_empty() {
        shown.push_str(&format!(
            "\n[not shown: {}; call diff with path to see one of them, or read_file]",
            text::cap(&left_out.join(", "), 2_000)
        ));
    }
    shown
}

/// The parts of a diff that begin with `diff --git`.
fn files(changes: &str) -> Vec<&str> {
    const MARK: &str = "diff --git ";
    let mut starts: Vec<usize> = changes
        .match_indices(&format!("\n{MARK}"))
        .map(|(at, _)| at + 1)
        .collect();
    if changes.starts_with(MARK) {
        starts.insert(0, 0);
    }
    let ends = starts.iter().skip(1).copied().chain([changes.len()]);
    starts
        .iter()
        .zip(ends)
        .map(|(start, end)| &changes[*start..end])
        .collect()
}

fn name(file: &str) -> String {
    let first = file.lines().next().unwrap_or_default();
    first.rsplit_once(" b/").map_or(first, |(_, name)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(name: &str, bytes: usize) -> String {
        format!(
            "diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n+{}\n",
            "x".repeat(bytes)
        )
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let summary = " a | 2 +-\n b | 1 +\n 2 files changed";
        let all = format!("{summary}\n\n{}{}", change("a", 10), change("b", 10));
        let shown = render(&all);
        assert!(
            shown.starts_with(" a | 2 +-") && shown.contains("b/b\n@@") && !shown.contains("not shown"),
            "{shown}"
        );
        let large = format!(
            "{summary}\n\n{}{}{}",
            change("a", 100_000),
            change("b", 10),
            change("c", 100_000)
        );
        let shown = render(&large);
        assert!(shown.len() < MAX_BYTES + 3_000, "{}", shown.len());
        assert!(
            shown.contains("[not shown: the rest of a")
                && shown.ends_with("c; call diff with path to see one of them, or read_file]"),
            "{}",
            &shown[shown.len() - 300..]
        );
        assert_eq!(render("\n\n"), "[nothing changed]");
    }
}
