//! The tool `edit_file`: replaces a piece of text in a file. Never writes over a change that
//! happened since it read the file.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::edit::{EditMode, apply_edit};
use super::read_file::numbered;
use super::{Tool, ToolContext, ToolError, ToolOutput, arguments, key, read_existing, relative, write_bytes};
use crate::model::ToolSpec;
use crate::text;

/// Larger files are generated, not written, and are changed by a command.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Lines shown around an edit.
const LINES_AROUND: usize = 3;

/// Most lines of an edit that are shown.
const MAX_LINES_SHOWN: usize = 30;

/// Replaces text in a file.
pub(super) struct EditFile;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// File, relative to the workspace.
    #[serde(alias = "file_path", alias = "file", alias = "filename")]
    path: String,
    /// Text to replace, exactly as it stands in the file and long enough to be unique. Left out only with insert_after_line.
    #[serde(default, alias = "old_str", alias = "old_string", alias = "old", alias = "search")]
    old_text: String,
    /// Text to put there, taken literally.
    #[serde(alias = "new_str", alias = "new_string", alias = "new", alias = "replace")]
    new_text: String,
    /// Replace every occurrence instead of the only one.
    #[serde(default)]
    replace_all: bool,
    /// Instead of replacing, insert new_text as lines of its own after this line; 0 is the top.
    #[serde(default, alias = "insert_line")]
    insert_after_line: Option<u32>,
}

#[async_trait]
impl Tool for EditFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "edit_file".to_owned(),
            description: "Replaces a piece of text in a file. old_text must occur exactly once (or set replace_all); \
                          nothing is expanded in new_text, and the file keeps its line ends."
                .to_owned(),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    fn permission_key(&self, arguments: &Value) -> String {
        key::file("edit_file", arguments)
    }

    async fn call(&self, context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let edit: Arguments = arguments::fit("edit_file", arguments)?;
        let path = relative(&edit.path);
        let file = read_existing(context, &path, MAX_FILE_BYTES).await?;
        if file.bytes > MAX_FILE_BYTES {
            return Err(ToolError::ForModel(format!(
                "{path} is {} long; change files over {} with a command",
                text::bytes_in_words(file.bytes),
                text::bytes_in_words(MAX_FILE_BYTES)
            )));
        }
        let mode = match edit.insert_after_line {
            Some(line) if edit.old_text.is_empty() => EditMode::InsertAfter(line as usize),
            Some(_) => {
                return Err(ToolError::BadCall(
                    "edit_file: give old_text or insert_after_line, not both; nothing was changed".to_owned(),
                ));
            }
            None if edit.replace_all => EditMode::All,
            None => EditMode::Unique,
        };
        let edited = apply_edit(&file.content, &edit.old_text, &edit.new_text, mode)
            .map_err(|problem| ToolError::ForModel(text::reveal(&format!("{path}: {problem}"))))?;
        write_bytes(context, &path, &edited.content, Some(file.sha256)).await?;
        let places = match edited.places {
            1 => format!("at line {}", edited.first_line),
            places => format!("in {places} places, the first at line {}", edited.first_line),
        };
        let doubt = edited
            .doubt
            .map(|doubt| format!("\nCareful: {doubt}"))
            .unwrap_or_default();
        let shown = excerpt(&edited.content, edited.first_line, edit.new_text.lines().count());
        Ok(ToolOutput::Text(format!(
            "Edited {path} {places}. It now reads:\n{shown}{doubt}"
        )))
    }
}

fn excerpt(content: &[u8], first_line: usize, lines: usize) -> String {
    let content = String::from_utf8_lossy(content);
    let skip = first_line.saturating_sub(1 + LINES_AROUND);
    let take = (lines + first_line - 1 - skip + LINES_AROUND).min(MAX_LINES_SHOWN);
    numbered(content.lines().skip(skip).take(take), skip + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_is_shown_with_its_surroundings() {
        let content: String = (1..=20).map(|line| format!("line {line}\n")).collect();
        let shown = excerpt(content.as_bytes(), 10, 2);
        assert_eq!(shown.lines().count(), 8);
        assert!(
            shown.starts_with("     7\tline 7\n") && shown.ends_with("    14\tline 14"),
            "{shown}"
        );
        assert_eq!(excerpt(b"a\n", 1, 1), "     1\ta");
    }
}
