//! The tool `reverse_api`: end points and signatures of a documentation page, with the lines they
//! come from; of an OpenAPI description if the page has one. Never calls an end point.

use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::web_fetch::key_of;
use super::{
    ACCEPT, Tool, ToolContext, ToolError, ToolOutput, ToolSpec, WARNING, Web, arguments, endpoints, openapi, page,
};
use crate::net::{Address, Get, Page};

/// Descriptions that a page links to and that are looked at.
const MAX_DESCRIPTIONS: usize = 3;

/// Most entries shown.
const MAX_ENTRIES: usize = 200;

/// Reads the documentation of an API.
pub(super) struct ReverseApi(pub(super) Arc<Web>);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Address of a documentation page or of an OpenAPI description.
    #[serde(alias = "uri", alias = "address", alias = "link")]
    url: String,
    /// Only entries that contain this text, whatever its case.
    #[serde(default, alias = "query", alias = "search")]
    filter: String,
}

#[async_trait]
impl Tool for ReverseApi {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "reverse_api".to_owned(),
            description: "Lists the end points and signatures that a documentation page or an OpenAPI description \
                          names, one a line."
                .to_owned(),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    fn may_repeat(&self) -> bool {
        true
    }

    fn permission_key(&self, arguments: &Value) -> String {
        let wanted = arguments::fit::<Arguments>("reverse_api", arguments.clone());
        key_of("reverse_api", wanted.map(|wanted| wanted.url))
    }

    async fn call(&self, context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let wanted: Arguments = arguments::fit("reverse_api", arguments)?;
        let address = self.0.address(&wanted.url)?;
        let first = self.fetch(context, &address).await?;
        if !(200..300).contains(&first.status) {
            // It says what the server answered.
            page::read(first).await?;
            return Err(ToolError::ForModel("the page has no text".to_owned()));
        }
        if let Some(entries) = openapi::read(&first.text) {
            return render(&first, "its OpenAPI description", entries, &wanted.filter, &[]);
        }
        let (linked, mut missed) = (openapi::links(&first), Vec::new());
        for link in linked.into_iter().take(MAX_DESCRIPTIONS) {
            // A description on another host is a fetch that has to be permitted by itself.
            match Address::parse(link.as_str()) {
                Ok(next) if next.host() == address.host() || self.0.net.lists(next.host()) => {
                    if let Ok(found) = self.fetch(context, &next).await
                        && let Some(entries) = openapi::read(&found.text)
                    {
                        return render(
                            &found,
                            "the OpenAPI description it links to",
                            entries,
                            &wanted.filter,
                            &[],
                        );
                    }
                }
                _ => missed.push(link.to_string()),
            }
        }
        let head = first.clone();
        let text = page::read(first).await?.text;
        render(&head, "its text", endpoints::find(&text), &wanted.filter, &missed)
    }
}

impl ReverseApi {
    async fn fetch(&self, context: &ToolContext<'_>, address: &Address) -> Result<Page, ToolError> {
        let get = Get {
            address,
            reach: self.0.reach,
            accept: ACCEPT,
            bearer: None,
        };
        self.0.get(context, get).await
    }
}

fn render(
    page: &Page,
    from: &str,
    entries: Vec<String>,
    filter: &str,
    missed: &[String],
) -> Result<ToolOutput, ToolError> {
    let filter = filter.trim().to_lowercase();
    let total = entries.len();
    let found: Vec<String> = entries
        .into_iter()
        .filter(|entry| filter.is_empty() || entry.to_lowercase().contains(&filter))
        .collect();
    let mut shown = format!(
        "[end points and signatures of {}, from {from}, {WARNING}]\n",
        crate::text::cap_chars(page.url.as_str(), 300)
    );
    for entry in found.iter().take(MAX_ENTRIES) {
        shown.push_str(&crate::text::cap_chars(entry, 300));
        shown.push('\n');
    }
    if found.len() > MAX_ENTRIES {
        shown.push_str(&format!(
            "[{MAX_ENTRIES} of {} are shown; filter narrows them]\n",
            found.len()
        ));
    } else if found.is_empty() && total > 0 {
        shown.push_str(&format!("[none of {total} contains {filter:?}]\n"));
    } else if found.is_empty() {
        shown.push_str("[none found; web_fetch shows the page itself]\n");
    }
    if page.is_cut {
        shown.push_str("[the page is longer than what is read of one, so entries may be missing]\n");
    }
    for link in missed.iter().take(MAX_DESCRIPTIONS) {
        shown.push_str(&format!(
            "[the page links to {}, on another host; reverse_api with that address reads it]\n",
            crate::text::cap_chars(link, 300)
        ));
    }
    Ok(ToolOutput::Text(shown))
}
