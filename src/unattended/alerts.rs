//! What is told of unattended runs to a webhook: rows first, then sent with retries. The text can go
//! straight to a chat. Never blocks or fails what it tells of.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;

use crate::clock::Clock;
use crate::config::{AlertConfig, AlertOn};
use crate::mission::Mission;
use crate::net::{Hook, HookError};
use crate::store::{Store, StoreError, Tx};

/// Tries of one message: with pauses that double from ten seconds to an hour, about two and a half hours.
const MAX_TRIES: u32 = 11;
/// First pause between two tries.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// Longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);
/// Messages sent in one pass.
const BATCH: usize = 20;
/// How long messages are kept that were sent, or given up.
const KEEP: TimeDelta = TimeDelta::days(30);

/// The webhook that is told, with when it is.
#[derive(Clone)]
pub struct Alerts {
    hook: Option<Hook>,
    on: AlertOn,
}

impl Alerts {
    /// As configured.
    pub fn new(config: &AlertConfig) -> Self {
        let hook = config.url.clone().map(|url| Hook {
            url,
            secret: config.secret.clone(),
            timeout: config.timeout_seconds,
        });
        Self { hook, on: config.on }
    }

    /// Stores the message about a record, where there is one to send.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn tell(&self, tx: &mut Tx, mission: &Mission, at: DateTime<Utc>) -> Result<(), StoreError> {
        if self.wants(mission) {
            tx.insert_alert(&mission.id, &message(mission), at).await?;
        }
        Ok(())
    }

    fn wants(&self, mission: &Mission) -> bool {
        let is_wanted = match self.on {
            AlertOn::Failure => mission.is_failure(),
            AlertOn::Always => true,
        };
        self.hook.is_some() && is_wanted
    }

    /// One pass: sends what is due; returns how many messages were taken.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn send_due(&self, store: &Store, clock: &Clock) -> Result<usize, StoreError> {
        let Some(hook) = &self.hook else { return Ok(0) };
        let mut sent = 0;
        for _ in 0..BATCH {
            let now = clock.now();
            let until = now + delta(hook.timeout * 2 + FIRST_PAUSE);
            let mut tx = store.begin().await?;
            let Some(alert) = tx.take_alert(now, until).await? else {
                tx.delete_alerts(now - KEEP).await?;
                tx.commit().await?;
                break;
            };
            tx.commit().await?;
            let result = hook.send(&alert.id, now.timestamp(), &alert.body).await;
            let mut tx = store.begin().await?;
            match result {
                Ok(()) => {
                    tx.alert_sent(&alert.id).await?;
                    sent += 1;
                }
                Err(HookError::Later(problem)) if alert.tries < MAX_TRIES => {
                    let pause = FIRST_PAUSE.saturating_mul(1 << alert.tries.min(12).saturating_sub(1));
                    let next = clock.now() + delta(pause.min(LONGEST_PAUSE));
                    tracing::info!(%problem, %next, "an alert was not taken; it is sent again");
                    tx.alert_failed(&alert.id, &problem, Some(next)).await?;
                }
                Err(HookError::Later(problem) | HookError::Never(problem)) => {
                    tracing::warn!(%problem, record = alert.id, "an alert was not taken and is given up");
                    tx.alert_failed(&alert.id, &problem, None).await?;
                }
            }
            tx.commit().await?;
        }
        Ok(sent)
    }
}

fn delta(time: Duration) -> TimeDelta {
    TimeDelta::from_std(time).unwrap_or(TimeDelta::MAX)
}

/// `text` is what Slack, Mattermost and Teams show, `content` what Discord does; the record is for
/// programs.
fn message(mission: &Mission) -> String {
    let words = mission.in_words();
    json!({
        "text": words,
        "content": words,
        "version": 1,
        "failed": mission.is_failure(),
        "exit_code": mission.state.exit_code(),
        "record": mission,
    })
    .to_string()
}
