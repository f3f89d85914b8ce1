//! The tool `glob`: files by the shape of their path. Never looks into a file.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Tool, ToolContext, ToolError, ToolOutput, arguments, files, relative, unexpected};
use crate::model::ToolSpec;
use crate::sandbox::{FileReply, FileRequest};
use crate::text;

/// Most paths of one call.
const MAX_PATHS: u32 = 200;

/// Finds files by name.
pub(super) struct Glob;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Pattern such as `src/**/*.rs` or `**/README*`.
    #[serde(alias = "glob", alias = "name")]
    pattern: String,
    /// Folder to look in, relative to the workspace; left out for all of it.
    #[serde(default, alias = "directory", alias = "folder")]
    path: String,
}

#[async_trait]
impl Tool for Glob {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "glob".to_owned(),
            description:
                "Finds files whose path matches a pattern, the latest changed first; ignored files are left out."
                    .to_owned(),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    fn may_repeat(&self) -> bool {
        true
    }

    async fn call(&self, context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let wanted: Arguments = arguments::fit("glob", arguments)?;
        let request = FileRequest::Glob {
            pattern: below(&relative(&wanted.path), &relative(&wanted.pattern)),
            max_entries: MAX_PATHS,
        };
        let FileReply::Entries { entries, truncated } = files(context, request).await? else {
            return Err(unexpected("a list of files"));
        };
        if entries.is_empty() {
            return Ok(ToolOutput::Text("[no file matches]".to_owned()));
        }
        let mut lines: Vec<String> = entries.iter().map(|entry| text::reveal(&entry.path)).collect();
        if truncated {
            lines.push(format!("[more than {} files; use a narrower pattern]", entries.len()));
        }
        Ok(ToolOutput::Text(lines.join("\n")))
    }
}

fn below(folder: &str, pattern: &str) -> String {
    match folder.trim_end_matches('/') {
        "" => pattern.to_owned(),
        folder => format!("{}/{pattern}", globset::escape(folder)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_narrows_the_pattern() {
        for (folder, pattern, expected) in [
            ("", "**/*.rs", "**/*.rs"),
            ("src/", "*.rs", "src/*.rs"),
            ("a[b]", "*", "a[[]b[]]/*"),
        ] {
            assert_eq!(below(folder, pattern), expected);
        }
    }
}
