//! The tool `search_github`: repositories, code and issues of GitHub, through its search. Never
//! uses the App's token: what it finds is what anybody finds, or the owner of `web.github_token`.

use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Tool, ToolContext, ToolError, ToolOutput, ToolSpec, WARNING, Web, arguments};
use crate::net::{Address, Get, Page};
use crate::permission::key;
use crate::text;

/// Results of one page.
const PER_PAGE: usize = 10;

/// GitHub gives the first thousand results.
const MAX_PAGE: u64 = 100;

/// Searches on GitHub.
pub(super) struct SearchGitHub(pub(super) Arc<Web>);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// `repos:`, `code:` or `issues:` and GitHub's search words, such as `issues:
    /// repo:tokio-rs/tokio is:open panic`.
    #[serde(alias = "q", alias = "search")]
    query: String,
    /// Page of results, from 1.
    #[serde(default)]
    page: Option<u64>,
}

/// What is searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Repos,
    Code,
    Issues,
}

impl Kind {
    fn path(self) -> &'static str {
        match self {
            Kind::Repos => "repositories",
            Kind::Code => "code",
            Kind::Issues => "issues",
        }
    }
}

#[async_trait]
impl Tool for SearchGitHub {
    fn spec(&self) -> ToolSpec {
        let code = match self.0.github_token {
            Some(_) => "",
            None => " code: needs a token that is not configured here.",
        };
        ToolSpec {
            name: "search_github".to_owned(),
            description: format!(
                "Searches GitHub. The query begins with repos:, code: or issues: (which also finds pull requests).{code}"
            ),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    fn may_repeat(&self) -> bool {
        true
    }

    fn permission_key(&self, _arguments: &Value) -> String {
        key::of_host("search_github", &self.0.github_host().unwrap_or_default())
    }

    async fn call(&self, context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let wanted: Arguments = arguments::fit("search_github", arguments)?;
        let (kind, words) = kind_of(&wanted.query)?;
        let query = self.0.query(words)?;
        if kind == Kind::Code && self.0.github_token.is_none() {
            return Err(ToolError::ForModel(
                "GitHub searches code only for whoever is signed in, and web.github_token is not configured; search \
                 repos: or issues:, or do without"
                    .to_owned(),
            ));
        }
        let page = wanted.page.unwrap_or(1).clamp(1, MAX_PAGE);
        let escaped: String = url::form_urlencoded::byte_serialize(query.as_bytes()).collect();
        let url = format!(
            "{}/search/{}?q={escaped}&per_page={PER_PAGE}&page={page}",
            self.0.api_url,
            kind.path()
        );
        let address = Address::parse(&url).map_err(super::for_model)?;
        let get = Get {
            address: &address,
            reach: self.0.reach,
            accept: match kind {
                Kind::Code => "application/vnd.github.text-match+json",
                Kind::Repos | Kind::Issues => "application/vnd.github+json",
            },
            bearer: self.0.github_token.as_ref(),
        };
        let fetched = self.0.get(context, get).await?;
        render(kind, &fetched, page).map(ToolOutput::Text)
    }
}

fn kind_of(query: &str) -> Result<(Kind, &str), ToolError> {
    let kinds = [
        ("repos:", Kind::Repos),
        ("repositories:", Kind::Repos),
        ("code:", Kind::Code),
        ("issues:", Kind::Issues),
    ];
    let query = query.trim();
    kinds
        .iter()
        .find_map(|(prefix, kind)| query.strip_prefix(prefix).map(|words| (*kind, words)))
        .ok_or_else(|| ToolError::ForModel("a query begins with repos:, code: or issues:".to_owned()))
}

fn render(kind: Kind, page: &Page, number: u64) -> Result<String, ToolError> {
    let answer: Value = serde_json::from_str(&page.text).unwrap_or_default();
    if page.status != 200 {
        let said = text::cap_chars(answer["message"].as_str().unwrap_or_default(), 300);
        let words = match page.status {
            401 => "GitHub does not accept web.github_token".to_owned(),
            403 | 429 => format!("GitHub's limit of searches is reached ({said}); wait a minute, or do without"),
            422 => format!("GitHub does not understand the query: {said}"),
            status => format!("GitHub answered {status}: {said}"),
        };
        return Err(ToolError::ForModel(words));
    }
    let Some(items) = answer["items"].as_array() else {
        return Err(ToolError::ForModel("GitHub's answer holds no results".to_owned()));
    };
    let total = answer["total_count"].as_u64().unwrap_or(0);
    let mut shown = format!("[{total} results on GitHub, {WARNING}]\n");
    for item in items.iter().take(PER_PAGE) {
        match kind {
            Kind::Repos => shown.push_str(&repository(item)),
            Kind::Code => shown.push_str(&code(item)),
            Kind::Issues => shown.push_str(&issue(item)),
        }
    }
    if items.is_empty() {
        shown.push_str("[nothing found; use fewer or other words]\n");
    } else if total > number * PER_PAGE as u64 {
        shown.push_str(&format!("[page={} shows more]\n", number + 1));
    }
    Ok(shown)
}

fn said(item: &Value, pointer: &str, most: usize) -> String {
    let words: Vec<&str> = item
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    text::cap_chars(&words.join(" "), most)
}

fn repository(item: &Value) -> String {
    let archived = if item["archived"] == true { ", archived" } else { "" };
    format!(
        "{} · {} stars · {} · pushed {}{archived}\n   {}\n",
        said(item, "/full_name", 140),
        item["stargazers_count"].as_u64().unwrap_or(0),
        said(item, "/language", 40),
        said(item, "/pushed_at", 10).trim_end_matches('…'),
        said(item, "/description", 250),
    )
}

fn code(item: &Value) -> String {
    let mut shown = format!(
        "{} · {}\n",
        said(item, "/repository/full_name", 140),
        said(item, "/path", 300)
    );
    for found in item["text_matches"].as_array().into_iter().flatten().take(2) {
        let fragment = text::cap(found["fragment"].as_str().unwrap_or_default(), 400);
        for line in fragment.lines() {
            shown.push_str(&format!("   {line}\n"));
        }
    }
    shown
}

fn issue(item: &Value) -> String {
    let what = if item["pull_request"].is_object() {
        "pull request"
    } else {
        "issue"
    };
    let url = said(item, "/html_url", 300);
    format!(
        "{what} {} · {} · {} comments · {}\n   {url}\n   {}\n",
        item["number"].as_u64().unwrap_or(0),
        said(item, "/state", 20),
        item["comments"].as_u64().unwrap_or(0),
        said(item, "/title", 200),
        said(item, "/body", 300),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn page(status: u16, body: &Value) -> Page {
        Page {
            url: "https://api.github.com/search/issues".parse().unwrap(),
            status,
            media_type: "application/json".to_owned(),
            text: body.to_string(),
            is_cut: false,
        }
    }

    #[test]
    fn a_query_says_what_is_searched_for() {
        assert_eq!(kind_of(" repos: rust").unwrap(), (Kind::Repos, " rust"));
        assert_eq!(kind_of("issues:repo:a/b x").unwrap(), (Kind::Issues, "repo:a/b x"));
        assert_eq!(kind_of("code:x").unwrap(), (Kind::Code, "x"));
        for query in ["rust", "users: x", "", "Code :x"] {
            assert!(kind_of(query).is_err(), "{query}");
        }
    }

    #[test]
    fn results_are_short() {
        let body = json!({"total_count": 25, "items": [
            {"number": 7, "state": "open", "comments": 2, "title": "It\nbreaks", "body": null,
             "html_url": "https://github.com/a/b/pull/7", "pull_request": {}}
        ]});
        let shown = render(Kind::Issues, &page(200, &body), 1).unwrap();
        assert!(shown.contains("pull request 7 · open · 2 comments · It breaks\n   https://github.com/a/b/pull/7"));
        assert!(shown.ends_with("[page=2 shows more]\n"), "{shown}");
        assert!(
            !render(Kind::Issues, &page(200, &body), 3)
                .unwrap()
                .contains("shows more")
        );
    }

    #[test]
    fn refusals_of_github_are_told_in_words() {
        for (status, words) in [
            (401, "web.github_token"),
            (403, "limit"),
            (429, "limit"),
            (422, "understand"),
            (500, "500"),
        ] {
            let error = render(Kind::Repos, &page(status, &json!({"message": "no"})), 1).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
