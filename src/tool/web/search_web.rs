//! The tool `search_web`: asks the search server of the configuration. Never asks any other, and
//! never shows more than title, address and a few words of a result.

use std::sync::Arc;

use anyhow::Context as _;
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::{Tool, ToolContext, ToolError, ToolOutput, ToolSpec, WARNING, Web, arguments};
use crate::net::{Address, Get, Net, Page, Reach};
use crate::permission::key;
use crate::text;

/// Results that are shown.
const MAX_RESULTS: usize = 10;

/// Longest description of a result.
const MAX_WORDS_CHARS: usize = 300;

/// Where search servers put their list.
const LISTS: [&str; 7] = [
    "/results",
    "/web/results",
    "/items",
    "/organic_results",
    "/organic",
    "/data",
    "/webPages/value",
];

/// Searches the web.
pub(super) struct SearchWeb(pub(super) Arc<Web>);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// A few words, at most 200 characters.
    #[serde(alias = "q", alias = "search_term", alias = "text")]
    query: String,
}

#[async_trait]
impl Tool for SearchWeb {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "search_web".to_owned(),
            description: "Searches the web and shows titles, addresses and a few words of each result.".to_owned(),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    fn may_repeat(&self) -> bool {
        true
    }

    fn permission_key(&self, _arguments: &Value) -> String {
        key::of_host("search_web", &self.0.search_host().unwrap_or_default())
    }

    async fn call(&self, context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let wanted: Arguments = arguments::fit("search_web", arguments)?;
        let query = self.0.query(&wanted.query)?;
        let server = self.0.search_url.as_deref().unwrap_or_default();
        let address = request(server, &query).ok_or_else(|| {
            ToolError::ForModel(
                "the search server of the configuration (web.search_url) has no valid address".to_owned(),
            )
        })?;
        let get = Get {
            address: &address,
            reach: self.0.reach,
            accept: "application/json",
            bearer: None,
        };
        let page = self.0.get(context, get).await?;
        let answer = read(&page).map_err(ToolError::ForModel)?;
        let results = results(&answer).map_err(ToolError::ForModel)?;
        Ok(ToolOutput::Text(render(results)))
    }
}

/// Asks a server one question and counts the results.
pub(super) async fn try_server(net: &Net, server: &str, query: &str) -> anyhow::Result<usize> {
    let address = request(server, query).context("web.search_url is no address")?;
    let get = Get {
        address: &address,
        reach: Reach::Permitted,
        accept: "application/json",
        bearer: None,
    };
    let page = net.get(get).await.context("web.search_url")?;
    let answer = read(&page).map_err(anyhow::Error::msg)?;
    results(&answer).map(Vec::len).map_err(anyhow::Error::msg)
}

/// The answer of a search server.
fn read(page: &Page) -> Result<Value, String> {
    match page.status {
        200 => serde_json::from_str(&page.text).map_err(|_| {
            "the search server did not answer with JSON (of a SearXNG, it may be switched off)".to_owned()
        }),
        403 => Err("the search server answered 403; of a SearXNG, its JSON format may be switched off".to_owned()),
        status => Err(format!("the search server answered {status}")),
    }
}

/// The list in an answer, in the shape of SearXNG or any that is like it.
fn results(answer: &Value) -> Result<&Vec<Value>, String> {
    LISTS
        .iter()
        .find_map(|path| answer.pointer(path).and_then(Value::as_array))
        .or_else(|| answer.as_array())
        .ok_or_else(|| "the answer of the search server holds no list of results".to_owned())
}

/// The address of a search: the place of `{query}` filled in, or SearXNG's own form.
pub(super) fn request(server: &str, query: &str) -> Option<Address> {
    let escaped: String = url::form_urlencoded::byte_serialize(query.as_bytes()).collect();
    let url = if server.contains("{query}") {
        server.replace("{query}", &escaped)
    } else {
        let mut url = Url::parse(server).ok()?;
        if !url.path().ends_with("/search") {
            url.set_path(&format!("{}/search", url.path().trim_end_matches('/')));
        }
        url.query_pairs_mut()
            .append_pair("q", query)
            .append_pair("format", "json");
        url.to_string()
    };
    Address::parse(&url).ok()
}

fn render(list: &[Value]) -> String {
    let field = |result: &Value, names: &[&str], most: usize| {
        let found = names.iter().find_map(|name| result.get(*name).and_then(Value::as_str));
        let words: Vec<&str> = found.unwrap_or_default().split_whitespace().collect();
        text::cap_chars(&words.join(" "), most)
    };
    let mut shown = format!("[results of a web search, {WARNING}]\n");
    let mut count = 0;
    for result in list.iter().take(MAX_RESULTS * 3) {
        let url = field(result, &["url", "link", "href"], 500);
        if url.is_empty() || count == MAX_RESULTS {
            continue;
        }
        count += 1;
        let title = field(result, &["title", "name"], 150);
        let words = field(
            result,
            &["content", "snippet", "description", "abstract", "body"],
            MAX_WORDS_CHARS,
        );
        shown.push_str(&format!("{count}. {title}\n   {url}\n"));
        if !words.is_empty() {
            shown.push_str(&format!("   {words}\n"));
        }
    }
    if count == 0 {
        shown.push_str("[nothing found; try other words]\n");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(server: &str, expected: &str) {
        assert_eq!(request(server, "a b&c").unwrap().url().as_str(), expected);
    }

    #[test]
    fn a_search_server_is_asked_in_its_own_form() {
        check(
            "https://searx.example",
            "https://searx.example/search?q=a+b%26c&format=json",
        );
        check(
            "https://searx.example/search",
            "https://searx.example/search?q=a+b%26c&format=json",
        );
        check(
            "https://x.example/sx/?language=en",
            "https://x.example/sx/search?language=en&q=a+b%26c&format=json",
        );
        check(
            "https://x.example/api?q={query}&n=5",
            "https://x.example/api?q=a+b%26c&n=5",
        );
        assert!(request("not an address", "a").is_none());
    }

    #[test]
    fn results_are_read_in_every_common_shape() {
        let result = json!({"title": "Tokio\n docs", "url": "https://docs.rs/tokio", "content": "A runtime"});
        let other = json!({"name": "Tokio docs", "link": "https://docs.rs/tokio", "snippet": "A runtime"});
        for answer in [
            json!({"results": [result]}),
            json!({"web": {"results": [result]}}),
            json!({"items": [other]}),
            json!({"webPages": {"value": [{"name": "Tokio docs", "url": "https://docs.rs/tokio", "snippet": "A runtime"}]}}),
            json!([{}, 7, other]),
        ] {
            let shown = render(results(&answer).unwrap());
            assert!(
                shown.ends_with("]\n1. Tokio docs\n   https://docs.rs/tokio\n   A runtime\n"),
                "{shown}"
            );
        }
        assert!(render(&[]).contains("nothing found"));
        assert!(results(&json!({"error": "x"})).is_err());
        let many: Vec<Value> = (0..50).map(|_| result.clone()).collect();
        assert!(!render(&many).contains("\n11."));
    }
}
