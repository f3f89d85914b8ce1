//! The tool `grep`: lines that match a regular expression. Never runs a program: the search is the
//! sandbox's own and linear in time.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Tool, ToolContext, ToolError, ToolOutput, arguments, files, relative, unexpected};
use crate::model::ToolSpec;
use crate::sandbox::{FileReply, FileRequest, GrepLine};
use crate::text;

/// Most matches of one call.
const MAX_MATCHES: u32 = 100;

/// Most lines around a match.
const MAX_CONTEXT: u32 = 10;

/// Most bytes of one answer.
const MAX_BYTES: usize = 30 * 1024;

/// Searches in files.
pub(super) struct Grep;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Regular expression (Rust's regex syntax); escape `(`, `{`, `[`, `.` to search for them.
    #[serde(alias = "query", alias = "regex", alias = "search")]
    pattern: String,
    /// Folder or file to search, relative to the workspace; left out for all of it.
    #[serde(default, alias = "directory", alias = "folder", alias = "file")]
    path: String,
    /// Only files whose path matches this pattern, such as `*.rs`.
    #[serde(default, alias = "include")]
    glob: Option<String>,
    /// Do not tell capital from small letters.
    #[serde(default, alias = "case_insensitive")]
    ignore_case: bool,
    /// Lines to show around each match, 0 to 10.
    #[serde(default)]
    context: u32,
}

#[async_trait]
impl Tool for Grep {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "grep".to_owned(),
            description:
                "Searches files for a regular expression, hidden files included; ignored files are left out. For \
                          code by its structure use ast_grep."
                    .to_owned(),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    fn may_repeat(&self) -> bool {
        true
    }

    async fn call(&self, context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let wanted: Arguments = arguments::fit("grep", arguments)?;
        let request = |pattern: String| FileRequest::Grep {
            pattern,
            path: relative(&wanted.path),
            glob: wanted.glob.clone(),
            ignore_case: wanted.ignore_case,
            context: wanted.context.min(MAX_CONTEXT),
            max_matches: MAX_MATCHES,
        };
        let mut note = "";
        let mut reply = files(context, request(wanted.pattern.clone())).await;
        // Code is searched for as it stands more often than as an expression that happens to be wrong.
        if matches!(&reply, Err(ToolError::ForModel(problem)) if problem.contains("not a regular expression")) {
            note = "[not a regular expression; searched for as plain text]\n";
            reply = files(context, request(regex::escape(&wanted.pattern))).await;
        }
        match reply? {
            FileReply::Lines {
                lines,
                files,
                truncated,
            } => Ok(ToolOutput::Text(format!("{note}{}", render(&lines, files, truncated)))),
            _ => Err(unexpected("matching lines")),
        }
    }
}

pub(super) fn render(lines: &[GrepLine], files: u64, truncated: bool) -> String {
    if lines.is_empty() {
        return format!("[no match in {files} files]");
    }
    let mut shown = String::new();
    let mut before: Option<&GrepLine> = None;
    let mut cut = truncated;
    for line in lines {
        if before.is_some_and(|before| !line.matched && (before.path != line.path || before.line + 1 < line.line)) {
            shown.push_str("--\n");
        }
        let mark = if line.matched { ':' } else { '-' };
        let path = text::reveal(&line.path);
        let text = text::reveal(&line.text);
        let row = format!("{path}{mark}{}{mark}{}\n", line.line, text.trim_end_matches('\n'));
        if shown.len() + row.len() > MAX_BYTES {
            cut = true;
            break;
        }
        shown.push_str(&row);
        before = Some(line);
    }
    if cut {
        shown.push_str("[there are more matches; narrow the search with path, glob or a longer pattern]");
    }
    shown.trim_end_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(path: &str, number: u64, text: &str, matched: bool) -> GrepLine {
        GrepLine {
            path: path.to_owned(),
            line: number,
            text: text.to_owned(),
            matched,
        }
    }

    #[test]
    fn matches_and_their_surroundings_are_told_apart() {
        let lines = [
            line("a.rs", 3, "  before", false),
            line("a.rs", 4, "  hit", true),
            line("b.rs", 8, "before", false),
            line("b.rs", 9, "hit", true),
        ];
        assert_eq!(
            render(&lines, 2, false),
            "a.rs-3-  before\na.rs:4:  hit\n--\nb.rs-8-before\nb.rs:9:hit"
        );
        assert_eq!(render(&[], 7, false), "[no match in 7 files]");
    }

    #[test]
    fn an_answer_is_bounded_and_says_so() {
        let lines: Vec<GrepLine> = (0..200).map(|at| line("a", at, &"x".repeat(500), true)).collect();
        let shown = render(&lines, 1, false);
        assert!(shown.len() < MAX_BYTES + 200 && shown.ends_with("longer pattern]"));
    }
}
