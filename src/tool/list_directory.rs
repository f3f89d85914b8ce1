//! The tool `list_directory`: what is in a folder, a few levels deep. Never follows a link.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Tool, ToolContext, ToolError, ToolOutput, arguments, files, key, relative, unexpected};
use crate::model::ToolSpec;
use crate::sandbox::{Entry, EntryKind, FileReply, FileRequest};
use crate::text;

/// Most entries of one call.
const MAX_ENTRIES: u32 = 500;

/// Most levels of one call.
const MAX_DEPTH: u32 = 5;

/// Lists a folder.
pub(super) struct ListDirectory;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Folder, relative to the workspace; left out for its root.
    #[serde(default, alias = "directory", alias = "folder", alias = "dir")]
    path: String,
    /// Levels to show, 1 to 5; 1 if left out.
    #[serde(default)]
    depth: Option<u32>,
}

#[async_trait]
impl Tool for ListDirectory {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "list_directory".to_owned(),
            description: "Lists the files and folders in a folder, with sizes.".to_owned(),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    fn may_repeat(&self) -> bool {
        true
    }

    fn permission_key(&self, arguments: &Value) -> String {
        key::file("list_directory", arguments)
    }

    async fn call(&self, context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let wanted: Arguments = arguments::fit("list_directory", arguments)?;
        let request = FileRequest::List {
            path: relative(&wanted.path),
            depth: wanted.depth.unwrap_or(1).clamp(1, MAX_DEPTH),
            max_entries: MAX_ENTRIES,
        };
        match files(context, request).await? {
            FileReply::Entries { entries, truncated } => Ok(ToolOutput::Text(render(&entries, truncated))),
            _ => Err(unexpected("a list of files")),
        }
    }
}

fn render(entries: &[Entry], truncated: bool) -> String {
    if entries.is_empty() {
        return "[the folder is empty]".to_owned();
    }
    let mut lines: Vec<String> = entries
        .iter()
        .map(|entry| {
            let path = text::reveal(&entry.path);
            match entry.kind {
                EntryKind::File => format!("{path} ({})", text::bytes_in_words(entry.bytes)),
                EntryKind::Folder => format!("{path}/"),
                EntryKind::Link => format!("{path} (link)"),
                EntryKind::Other => format!("{path} (no regular file)"),
            }
        })
        .collect();
    if truncated {
        lines.push(format!(
            "[more than {} entries; list a folder below or use glob]",
            entries.len()
        ));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_told_apart() {
        let entry = |path: &str, kind| Entry {
            path: path.to_owned(),
            kind,
            bytes: 2048,
        };
        let entries = [
            entry("src", EntryKind::Folder),
            entry("a\u{202e}b", EntryKind::File),
            entry("link", EntryKind::Link),
        ];
        assert_eq!(render(&entries, false), "src/\na⟦U+202E⟧b (2.0 KiB)\nlink (link)");
        assert!(render(&entries, true).ends_with("use glob]"));
        assert_eq!(render(&[], false), "[the folder is empty]");
    }
}
