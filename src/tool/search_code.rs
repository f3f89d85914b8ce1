//! The tool `search_code`: which places of the code have to do with some words, and who uses a symbol,
//! from the index of the repository with the agent's own edits. Where there is no index, a search by
//! letters answers for words and the reply says so. Never claims to understand the question.

use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::code_graph::{self, Ask};
use super::{Tool, ToolContext, ToolError, ToolOutput, arguments, files, relative, unexpected};
use crate::model::{ToolSpec, tokens_of};
use crate::retrieval::code_search::Present;
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

/// How long a call waits for an index that is being made.
const WAIT: Duration = Duration::from_secs(4);

/// Most tokens of places.
const MAX_TOKENS: usize = 1500;

/// Finds places by words and by symbols.
pub(super) struct SearchCode;

// What is looked for. Told to models in one line with the argument: a sentence for each value would
// make a schema that some servers refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Find {
    #[default]
    #[serde(alias = "text", alias = "search", alias = "code")]
    Words,
    #[serde(alias = "definition", alias = "definitions", alias = "symbols")]
    Symbol,
    #[serde(alias = "references", alias = "usages", alias = "uses")]
    Callers,
    Callees,
    #[serde(alias = "call_path")]
    Path,
    Impact,
    #[serde(alias = "implementations", alias = "subclasses")]
    Implementors,
    Tests,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// For `words`: what the code in question is about and the names that probably stand in it. Otherwise one symbol: `parse`, `Parser.parse` or `src/parser.rs:parse`.
    #[serde(
        alias = "words",
        alias = "pattern",
        alias = "keywords",
        alias = "search",
        alias = "symbol",
        alias = "name",
        alias = "from"
    )]
    query: String,
    /// What to find: places by words (left out), where the symbol is defined, who uses it, what it uses, how it comes to call `to`, what a change of it can reach, what implements it, which tests touch it.
    #[serde(default, alias = "mode", alias = "kind", alias = "type")]
    find: Find,
    /// For `path`: the symbol at the other end.
    #[serde(default, alias = "target")]
    to: String,
    /// For `words`: folder to search, relative to the workspace; left out for all of it.
    #[serde(default, alias = "directory", alias = "folder", alias = "target_directories")]
    path: String,
}

#[async_trait]
impl Tool for SearchCode {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "search_code".to_owned(),
            description: "Asks the index of the code, your own edits included. `words` ranks the places that have most to do \
                          with several words at once (`retry after header timeout`); the others answer about one symbol: where \
                          it is defined, its callers, its callees, a path of calls, what a change of it can reach \
                          (`impact`), what implements it, which tests touch it. Each answer says how sure it is. For exact text \
                          use grep."
                .to_owned(),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    fn may_repeat(&self) -> bool {
        true
    }

    async fn call(&self, context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let wanted: Arguments = arguments::fit("search_code", arguments)?;
        if wanted.query.trim().is_empty() {
            return Err(ToolError::ForModel(
                "give `query`: words, or the name of a symbol".to_owned(),
            ));
        }
        let present = match context.code {
            Some(code) => code.present(context.sandbox.as_ref(), WAIT).await,
            None => Err("this run has none".to_owned()),
        };
        let ask = match wanted.find {
            Find::Words => return words_of(context, &wanted, present).await,
            Find::Path => None,
            Find::Symbol => Some(Ask::Symbol),
            Find::Callers => Some(Ask::Callers),
            Find::Callees => Some(Ask::Callees),
            Find::Impact => Some(Ask::Impact),
            Find::Implementors => Some(Ask::Implementors),
            Find::Tests => Some(Ask::Tests),
        };
        let present = present.map_err(|why| {
            ToolError::ForModel(format!(
                "the index of the code is unavailable: {why}; use grep or ast_grep instead"
            ))
        })?;
        let answer = match ask {
            Some(ask) => code_graph::about(context, &present, ask, &wanted.query).await?,
            None if wanted.to.trim().is_empty() => {
                return Err(ToolError::ForModel(
                    "a path needs `to`, the symbol at its end".to_owned(),
                ));
            }
            None => code_graph::path(context, &present, &wanted.query, &wanted.to).await?,
        };
        Ok(ToolOutput::Text(answer))
    }
}

/// Places by words.
async fn words_of(
    context: &ToolContext<'_>,
    wanted: &Arguments,
    present: Result<Present, String>,
) -> Result<ToolOutput, ToolError> {
    let why = match (context.code, present) {
        (Some(code), Ok(present)) => {
            let folder = relative(&wanted.path);
            let answer = code.places(&present, &wanted.query, &folder, MAX_TOKENS, tokens_of);
            match answer.await {
                Ok(answer) if !answer.places.is_empty() => {
                    let mut shown = answer.text.trim_end().to_owned();
                    for note in &present.notes {
                        shown.push_str(&format!("\n[{note}]"));
                    }
                    return Ok(ToolOutput::Text(text::reveal(&shown)));
                }
                Ok(_) => "no place in it has to do with these words".to_owned(),
                Err(why) => why,
            }
        }
        (_, Err(why)) => why,
        (None, Ok(_)) => "this run has none".to_owned(),
    };
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
        } => {
            let mut shown = render(&files, matching, looked, truncated);
            if context.code.is_some() {
                shown.push_str(&format!("\n[fallback: index unavailable: {why}; ranked by letters]"));
            }
            Ok(ToolOutput::Text(shown))
        }
        _ => Err(unexpected("ranked files")),
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
