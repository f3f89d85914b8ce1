//! The tool `search_code`: which files have to do with some words. It is a search by letters that
//! ranks files. Never claims to understand the question.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Tool, ToolContext, ToolError, ToolOutput, arguments, files, relative, unexpected};
use crate::model::ToolSpec;
use crate::sandbox::{FileReply, FileRequest, RankedFile};
use crate::text;

/// Most files of one call.
const MAX_FILES: u32 = 12;

/// Most words that are searched for.
const MAX_WORDS: usize = 12;

/// Most bytes of one answer.
const MAX_BYTES: usize = 16 * 1024;

/// Words of a question that are in every file and say nothing.
const EMPTY_WORDS: &[&str] = &[
    "a", "an", "and", "are", "as", "at", "be", "by", "can", "do", "does", "for", "from", "how", "in", "is", "it", "of",
    "on", "or", "that", "the", "this", "to", "we", "what", "when", "where", "which", "who", "why", "with",
];

/// Ranks files.
pub(super) struct SearchCode;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Words that the code in question probably contains: names, parts of names, words of messages.
    #[serde(alias = "words", alias = "pattern", alias = "keywords", alias = "search")]
    query: String,
    /// Folder to search, relative to the workspace; left out for all of it.
    #[serde(default, alias = "directory", alias = "folder", alias = "target_directories")]
    path: String,
}

#[async_trait]
impl Tool for SearchCode {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "search_code".to_owned(),
            description: "Ranks files by several words at once, those with the most different words first, and shows their \
                          best lines. It compares letters, not meaning: give words that stand in the code (`parse header \
                          timeout`), not a question."
                .to_owned(),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    fn may_repeat(&self) -> bool {
        true
    }

    async fn call(&self, context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let wanted: Arguments = arguments::fit("search_code", arguments)?;
        let request = FileRequest::Words {
            words: words(&wanted.query),
            path: relative(&wanted.path),
            max_files: MAX_FILES,
        };
        match files(context, request).await? {
            FileReply::Ranked {
                files,
                matching,
                looked,
                truncated,
            } => Ok(ToolOutput::Text(render(&files, matching, looked, truncated))),
            _ => Err(unexpected("ranked files")),
        }
    }
}

/// The words that tell files apart, each once.
fn words(query: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let all = query.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-');
    for word in all.map(|word| word.trim_matches('-').to_lowercase()) {
        let tells = word.chars().count() > 1 && !EMPTY_WORDS.contains(&word.as_str());
        if tells && !words.contains(&word) && words.len() < MAX_WORDS {
            words.push(word);
        }
    }
    words
}

fn render(files: &[RankedFile], matching: u64, looked: u64, truncated: bool) -> String {
    if files.is_empty() {
        return format!("[none of the words is in any of {looked} files]");
    }
    let mut shown = String::new();
    for (at, file) in files.iter().enumerate() {
        let mut entry = format!("{} ({}, {} times)\n", file.path, file.words.join(" "), file.matches);
        for line in &file.lines {
            entry.push_str(&format!("{:>6}: {}\n", line.line, line.text.trim()));
        }
        if shown.len() + entry.len() > MAX_BYTES {
            shown.push_str(&format!("[{} more of these files are not shown]\n", files.len() - at));
            break;
        }
        shown.push_str(&entry);
    }
    if matching > files.len() as u64 {
        shown.push_str(&format!(
            "[the best {} of {matching} files with any of the words; use more or rarer words, or path]\n",
            files.len()
        ));
    }
    if truncated {
        shown.push_str("[the search ended early: not every file was looked at; narrow it with path]\n");
    }
    text::reveal(shown.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_tell_nothing_are_left_out() {
        for (query, expected) in [
            ("where is the retry_after header parsed?", "retry_after header parsed"),
            ("Retry retry `x` a.b::parse_all()", "retry parse_all"),
            ("the", ""),
        ] {
            assert_eq!(words(query).join(" "), expected);
        }
        assert_eq!(words(&"w1 w2 w3 w4 ".repeat(9)).len(), 4);
    }
}
