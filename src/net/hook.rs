//! Messages to an address that the operator chose: one POST of JSON, signed so that the receiver knows
//! who sent it. Never follows a redirect, and never tells the address: chat hooks have their secret in
//! it.

use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::CONNECT_TIMEOUT;
use crate::secret::Secret;

/// Most bytes of an answer that are read, for its words.
const MAX_ANSWER_BYTES: usize = 300;

/// A webhook of the operator's.
#[derive(Clone)]
pub struct Hook {
    /// Where it is.
    pub url: Secret,
    /// What messages are signed with; nothing leaves them unsigned.
    pub secret: Option<Secret>,
    /// Longest time of one message.
    pub timeout: Duration,
}

/// Why a message was not taken.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// Another try may work.
    #[error("{0}")]
    Later(String),
    /// No other try will.
    #[error("{0}")]
    Never(String),
}

/// `v1=` and the HMAC-SHA256 of `ID.TIMESTAMP.BODY` in hex: a receiver that compares the time knows an
/// old message that somebody sends again.
pub fn signature(secret: &Secret, id: &str, timestamp: i64, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()).expect("HMAC takes keys of any length");
    mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
    let sum: String = mac
        .finalize()
        .into_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("v1={sum}")
}

impl Hook {
    /// Sends one message. `id` is the same in each try, so that a receiver can leave out the second.
    ///
    /// # Errors
    /// [`HookError`] by whether another try makes sense.
    pub async fn send(&self, id: &str, timestamp: i64, body: &str) -> Result<(), HookError> {
        let failed = |error: &reqwest::Error| HookError::Later(self.without_address(&super::in_words(error)));
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(CONNECT_TIMEOUT.min(self.timeout))
            .timeout(self.timeout)
            .user_agent(concat!("forgehand/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| failed(&error))?;
        let mut request = client
            .post(self.url.expose())
            .header("content-type", "application/json")
            .header("x-forgehand-delivery", id)
            .header("x-forgehand-timestamp", timestamp.to_string());
        if let Some(secret) = &self.secret {
            request = request.header("x-forgehand-signature", signature(secret, id, timestamp, body));
        }
        let response = request.body(body.to_owned()).send().await;
        let response = response.map_err(|error| failed(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let words = match super::body::read(response, MAX_ANSWER_BYTES).await {
            Ok(body) => body.text.trim().to_owned(),
            Err(_) => String::new(),
        };
        let words = self.without_address(&format!("HTTP {} {words}", status.as_u16()));
        let may_pass = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
        Err(match may_pass {
            true => HookError::Later(words),
            false => HookError::Never(words),
        })
    }

    fn without_address(&self, words: &str) -> String {
        let url = self.url.expose();
        let path = url::Url::parse(url)
            .map(|url| url.path().to_owned())
            .unwrap_or_default();
        let words = words.replace(url, "the address");
        match path.len() {
            0 | 1 => words,
            _ => words.replace(&path, "/…"),
        }
    }
}
