//! The tool `ast_grep`: code by its shape. A tool of its own beside `grep`, because a pattern of code
//! and a regular expression look alike and mean different things. Never runs a program: the search
//! is the sandbox's own, and a file that a grammar cannot cope with is left out and named.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::grep::render;
use super::{Tool, ToolContext, ToolError, ToolOutput, arguments, files, relative, unexpected};
use crate::model::ToolSpec;
use crate::sandbox::{FileReply, FileRequest};
use crate::text;

/// Most matches of one call.
const MAX_MATCHES: u32 = 100;

/// Searches in syntax trees.
pub(super) struct AstGrep;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// One whole expression, statement or definition, with `$NAME` for any one piece and `$$$` for any number of pieces: `foo($A, $$$)`.
    #[serde(alias = "query", alias = "rule")]
    pattern: String,
    /// Language, such as `rust`, `python` or `tsx`; left out for every language in which the pattern is code.
    #[serde(default, alias = "lang")]
    language: Option<String>,
    /// Folder or file to search, relative to the workspace; left out for all of it.
    #[serde(default, alias = "directory", alias = "folder", alias = "file")]
    path: String,
    /// Only files whose path matches this pattern, such as `src/**/*.ts`.
    #[serde(default, alias = "include")]
    glob: Option<String>,
}

#[async_trait]
impl Tool for AstGrep {
    fn spec(&self) -> ToolSpec {
        let names: Vec<&str> = crate::language::all().iter().map(|language| language.name).collect();
        ToolSpec {
            name: "ast_grep".to_owned(),
            description: format!(
                "Finds code by its structure, whatever its white space, line breaks and comments. Examples: \
                 `console.log($$$)` (every call), `$A.unwrap()`, `def $F(self, $$$): $$$`, `if err != nil {{ $$$ }}`. For plain \
                 text use grep. Languages: {}.",
                names.join(", ")
            ),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    fn may_repeat(&self) -> bool {
        true
    }

    async fn call(&self, context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let wanted: Arguments = arguments::fit("ast_grep", arguments)?;
        let request = FileRequest::AstGrep {
            pattern: wanted.pattern,
            language: wanted.language.filter(|language| !language.trim().is_empty()),
            path: relative(&wanted.path),
            glob: wanted.glob,
            max_matches: MAX_MATCHES,
        };
        match files(context, request).await? {
            FileReply::Syntax {
                lines,
                files,
                skipped,
                truncated,
            } => {
                let mut shown = render(&lines, files, truncated);
                if !skipped.is_empty() {
                    shown.push_str(&format!("\n[not searched: {}]", text::reveal(&skipped.join(", "))));
                }
                Ok(ToolOutput::Text(shown))
            }
            _ => Err(unexpected("matching code")),
        }
    }
}
