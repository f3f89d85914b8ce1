//! Lists that come in pages: follows `Link: rel="next"` on our host until enough is read.
//! Called by every file that reads lists. Never hands out a part of a list as if it were the whole:
//! who looks for something that is not there must be able to trust the answer.

use reqwest::header::{HeaderMap, LINK};
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use super::RepoClient;
use super::client::{Answer, Call};
use super::error::GitHubError;

/// The most that GitHub puts on a page.
const PER_PAGE: usize = 100;

/// Ten thousand items; a server that links further is broken or hostile.
const MAX_PAGES: usize = 100;

impl RepoClient {
    /// The first `max` items that `keep` accepts.
    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        call: Call,
        max: usize,
        keep: impl Fn(&T) -> bool,
    ) -> Result<Vec<T>, GitHubError> {
        self.list_by(call, max, keep, |answer, call| answer.json(call)).await
    }

    /// The same for answers that are objects with the list in the field `name`.
    pub(super) async fn list_inside<T: DeserializeOwned>(
        &self,
        call: Call,
        name: &'static str,
        max: usize,
        keep: impl Fn(&T) -> bool,
    ) -> Result<Vec<T>, GitHubError> {
        let read = |answer: &Answer, call: &Call| {
            let mut object: serde_json::Map<String, Value> = answer.json(call)?;
            let list = object.remove(name).unwrap_or_default();
            serde_json::from_value(list).map_err(|error| GitHubError::Unclear {
                what: call.what(),
                detail: format!("the list `{name}` of the answer does not parse: {error}"),
            })
        };
        self.list_by(call, max, keep, read).await
    }

    async fn list_by<T>(
        &self,
        mut call: Call,
        max: usize,
        keep: impl Fn(&T) -> bool,
        read: impl Fn(&Answer, &Call) -> Result<Vec<T>, GitHubError>,
    ) -> Result<Vec<T>, GitHubError> {
        call.query.push(("per_page", PER_PAGE.to_string()));
        let mut items = Vec::new();
        let mut page = None;
        for _ in 0..MAX_PAGES {
            let answer = self.send_page(&call, page.as_ref()).await?;
            let part: Vec<T> = read(&answer, &call)?;
            items.extend(part.into_iter().filter(|item| keep(item)));
            if items.len() >= max {
                items.truncate(max);
                return Ok(items);
            }
            let Some(next) = next_link(&answer.headers) else {
                return Ok(items);
            };
            page = Some(self.shared.api.check_host(&call, next)?);
        }
        Err(GitHubError::Unclear {
            what: call.what(),
            detail: format!("the list has more than {MAX_PAGES} pages"),
        })
    }
}

/// The address in `Link: <…>; rel="next"`.
pub(super) fn next_link(headers: &HeaderMap) -> Option<Url> {
    headers
        .get_all(LINK)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .find_map(|link| {
            let (address, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
            let next = parameters
                .split(';')
                .any(|parameter| matches!(parameter.trim(), "rel=\"next\"" | "rel=next"));
            if next { Url::parse(address).ok() } else { None }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(link: &str, expected: Option<&str>) {
        let mut headers = HeaderMap::new();
        headers.insert(LINK, link.parse().unwrap());
        assert_eq!(next_link(&headers).as_ref().map(Url::as_str), expected);
    }

    #[test]
    fn the_next_page_is_found_among_the_links() {
        check(
            r#"<https://h/x?page=1>; rel="prev", <https://h/x?page=3&per_page=2>; rel="next", <https://h/x?page=9>; rel="last""#,
            Some("https://h/x?page=3&per_page=2"),
        );
        check(r#"<https://h/x?page=1>; rel="prev""#, None);
        check("nonsense", None);
        check(r#"<not an address>; rel="next""#, None);
    }
}
