//! GitHub's own log of the App's webhook calls, with which missed ones are made up for and which
//! serves a machine that GitHub cannot reach at all. Called by `worker`. Never asks GitHub to
//! deliver anything again: the log holds the payloads.

use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::client::Call;
use super::{GitHub, GitHubError};
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
            let mut call = Call::get(&["app", "hook", "deliveries"]);
            call.query.push(("per_page", PER_PAGE.to_string()));
            call.query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
            let answer = self.shared.as_app(&call).await?;
            let page: Vec<LoggedDelivery> = answer.json(&call)?;
            let reached_the_past = page.iter().any(|delivery| delivery.delivered_at < since);
            found.extend(page.into_iter().filter(|delivery| delivery.delivered_at >= since));
            cursor = next_link(&answer.headers).and_then(|next| {
                let mut pairs = next.query_pairs();
                pairs
                    .find(|(name, _)| name == "cursor")
                    .map(|(_, value)| value.into_owned())
            });
            if reached_the_past || cursor.is_none() || found.len() >= max {
                found.truncate(max);
                return Ok(found);
            }
        }
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
        let detail: Detail = self.shared.as_app(&call).await?.json(&call)?;
        Ok(detail.request.payload.to_string())
    }
}
