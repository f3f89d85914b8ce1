//! GitHub's own log of the App's webhook calls, with which missed ones are made up for and which
//! serves a machine that GitHub cannot reach at all. Called by `worker`. Never asks GitHub to
//! deliver anything again: the log holds the payloads.

use std::sync::MutexGuard;

use chrono::{DateTime, Utc};
use reqwest::header::ETAG;
use serde::Deserialize;

use super::client::Call;
use super::{GitHub, GitHubError, Shared};
use crate::github::page::next_link;

/// The most that GitHub puts on a page.
const PER_PAGE: usize = 100;

/// One webhook call as the log lists it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LoggedDelivery {
    /// GitHub's id of the attempt.
    pub id: u64,
    /// The delivery's GUID; a redelivery has the same.
    pub guid: String,
    /// When it was sent.
    pub delivered_at: DateTime<Utc>,
    /// Event name.
    pub event: String,
    /// Action, where the event has one.
    #[serde(default)]
    pub action: Option<String>,
    /// HTTP status of the answer, 0 when there was none.
    pub status_code: u16,
}

/// A page of the log, the cursor of the next one, and what the page is known by.
#[derive(Debug, Clone)]
pub(super) struct LoggedPage {
    page: Vec<LoggedDelivery>,
    next: Option<String>,
    etag: String,
}

impl Shared {
    fn newest_deliveries(&self) -> MutexGuard<'_, Option<LoggedPage>> {
        let newest = self.newest_deliveries.lock();
        newest.unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl LoggedDelivery {
    /// Whether the receiver took it.
    pub fn arrived(&self) -> bool {
        (200..300).contains(&self.status_code)
    }
}

impl GitHub {
    /// Webhook calls sent at or after `since`, newest first, at most `max`.
    pub async fn deliveries(&self, since: DateTime<Utc>, max: usize) -> Result<Vec<LoggedDelivery>, GitHubError> {
        let mut found = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let LoggedPage { page, next, .. } = self.page_of_deliveries(cursor.take()).await?;
            let reached_the_past = page.iter().any(|delivery| delivery.delivered_at < since);
            found.extend(page.into_iter().filter(|delivery| delivery.delivered_at >= since));
            cursor = next;
            if reached_the_past || cursor.is_none() || found.len() >= max {
                found.truncate(max);
                return Ok(found);
            }
        }
    }

    /// One page of the log. The first is asked for again and again, mostly in vain: while it has not
    /// changed, GitHub does not send it again.
    async fn page_of_deliveries(&self, cursor: Option<String>) -> Result<LoggedPage, GitHubError> {
        let known = match cursor {
            Some(_) => None,
            None => self.shared.newest_deliveries().clone(),
        };
        let is_first = cursor.is_none();
        let mut call = Call::get(&["app", "hook", "deliveries"]);
        call.query.push(("per_page", PER_PAGE.to_string()));
        call.query.extend(cursor.map(|cursor| ("cursor", cursor)));
        call.unless = known.as_ref().map(|known| known.etag.clone());
        let answer = self.as_app(&call).await?;
        if let Some(known) = known.filter(|_| answer.is_unchanged) {
            return Ok(known);
        }
        let etag = answer.headers.get(ETAG).and_then(|etag| etag.to_str().ok());
        let page = LoggedPage {
            page: answer.json(&call)?,
            next: next_link(&answer.headers).and_then(|next| {
                let mut pairs = next.query_pairs();
                pairs
                    .find(|(name, _)| name == "cursor")
                    .map(|(_, value)| value.into_owned())
            }),
            etag: etag.unwrap_or_default().to_owned(),
        };
        if is_first && !page.etag.is_empty() {
            *self.shared.newest_deliveries() = Some(page.clone());
        }
        Ok(page)
    }

    /// The payload of a logged call, as JSON text.
    pub async fn delivery_payload(&self, id: u64) -> Result<String, GitHubError> {
        #[derive(Deserialize)]
        struct Detail {
            request: Request,
        }
        #[derive(Deserialize)]
        struct Request {
            payload: serde_json::Value,
        }
        let id = id.to_string();
        let call = Call::get(&["app", "hook", "deliveries", &id]);
        let detail: Detail = self.as_app(&call).await?.json(&call)?;
        Ok(detail.request.payload.to_string())
    }
}
