//! Looking for issues and pull requests by words. Called by whoever looks for duplicates.
//! Never lets words from outside steer the search: they are searched for and nothing else. Never
//! a proof that something does not exist: GitHub's index lags and leaves things out.

use serde::Deserialize;

use crate::ids::IssueNumber;

use super::RepoClient;
use super::client::Call;
use super::error::GitHubError;
use super::payload::null_is_default;

/// GitHub refuses queries of more than 256 characters; the repository's name is not counted.
const MAX_QUERY_CHARS: usize = 250;

/// One issue or pull request that has the words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundIssue {
    /// Number.
    pub number: IssueNumber,
    /// Title.
    pub title: String,
    /// Body; absent is empty.
    pub body: String,
    /// `open` or `closed`.
    pub state: String,
    /// Whether it is a pull request.
    pub is_pull: bool,
    /// Address of its page.
    pub html_url: String,
}

impl RepoClient {
    /// `GET /search/issues` in this repository, open and closed, best matches first, at most
    /// `max`. `words` are only words: quotes, operators and qualifiers in them mean nothing.
    /// Without any word nothing is asked and nothing is found.
    pub async fn search_issues(&self, words: &str, max: usize) -> Result<Vec<FoundIssue>, GitHubError> {
        #[derive(Deserialize)]
        struct Item {
            number: IssueNumber,
            title: String,
            #[serde(default, deserialize_with = "null_is_default")]
            body: String,
            state: String,
            #[serde(default)]
            pull_request: Option<serde_json::Value>,
            html_url: String,
            repository_url: String,
        }
        let words = plain_query(words);
        if words.is_empty() {
            return Ok(Vec::new());
        }
        let mut call = Call::get(&["search", "issues"]);
        call.query.push(("q", format!("{words} repo:{}", self.name)));
        let home = format!("/repos/{}", self.name).to_lowercase();
        // A qualifier that GitHub does not understand is ignored by it, so look again.
        let here = |item: &Item| item.repository_url.to_lowercase().ends_with(&home);
        let items = self.list_inside(call, "items", max, here).await?;
        let found = items.into_iter().map(|item| FoundIssue {
            number: item.number,
            title: item.title,
            body: item.body,
            state: item.state,
            is_pull: item.pull_request.is_some(),
            html_url: item.html_url,
        });
        Ok(found.collect())
    }
}

/// Words without anything that the search would take as more than a word.
fn plain_query(words: &str) -> String {
    let spaced: String = words
        .chars()
        .map(|c| if c.is_alphanumeric() || c == '_' { c } else { ' ' })
        .collect();
    let mut query = String::new();
    for word in spaced.split_whitespace() {
        let operator = ["and", "or", "not"]
            .iter()
            .any(|other| word.eq_ignore_ascii_case(other));
        if operator || query.chars().count() + word.chars().count() >= MAX_QUERY_CHARS {
            continue;
        }
        if !query.is_empty() {
            query.push(' ');
        }
        query.push_str(word);
    }
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_only_words() {
        for (words, query) in [
            ("parser drops last line", "parser drops last line"),
            (
                "repo:evil/secrets is:open OR \"exact\" -not",
                "repo evil secrets is open exact",
            ),
            ("off-by-one in `a::b()`", "off by one in a b"),
            ("  \"\" : - ", ""),
            ("解析器 丢行", "解析器 丢行"),
        ] {
            assert_eq!(plain_query(words), query, "{words}");
        }
        assert!(plain_query(&"word ".repeat(500)).chars().count() <= MAX_QUERY_CHARS);
        assert_eq!(plain_query(&"x".repeat(500)), "");
    }
}
