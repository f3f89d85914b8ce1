//! The same event, told twice in different words: GitHub's lists name times that may differ by a moment
//! from those of its webhook calls. And what an event that comes late may not touch. Called by `accept`.
//! Never takes two webhook calls for one event: only what was found in a list is compared like this.

use chrono::{DateTime, Utc};

use super::{Accepted, Verdict};
use crate::ids::Subject;
use crate::intake::payload::{Delivery, Payload, closed_key};
use crate::intake::rebuilt::{guid_of, is_rebuilt};
use crate::job::{Job, NewJob, Trigger};
use crate::store::{DeliveryRow, Inserted, StoreError, Tx};

/// Seconds by which the times that GitHub tells of one act may differ.
const SAME_ACT: i64 = 3;

/// Far more than anybody does to one issue within those seconds.
const MAX_NEAR: u32 = 1_000;

/// What stands beside such a delivery.
pub(super) const OUTCOME: &str = "this was found on GitHub before";

/// Digits of the time at the end of a semantic key.
const DIGITS: usize = 12;

/// Meanings that are the same event as a delivery's: a common beginning, the first and the last of them.
fn window(delivery: &Delivery) -> Option<(String, String, String)> {
    let key = delivery.semantic_key();
    match (&delivery.payload, delivery.action.as_str()) {
        (Payload::Issue { .. } | Payload::Pull { .. }, "labeled" | "unlabeled" | "closed") => {
            let (prefix, at) = key.split_at_checked(key.len().checked_sub(DIGITS)?)?;
            let at: i64 = at.parse().ok()?;
            let end = |at: i64| format!("{prefix}{:012}", at.max(0));
            Some((prefix.to_owned(), end(at - SAME_ACT), end(at + SAME_ACT)))
        }
        // A comment is written once, but its list shows when it was last changed.
        (Payload::IssueComment { .. } | Payload::ReviewComment { .. }, "created") => {
            let (prefix, at) = key.rsplit_once(':')?;
            at.parse::<i64>().ok()?;
            Some((
                format!("{prefix}:"),
                format!("{prefix}:"),
                format!("{prefix}:999999999999"),
            ))
        }
        _ => None,
    }
}

/// Whether one of the two was found in a list, and the other is the same event.
pub(super) async fn was_told(tx: &mut Tx, delivery: &Delivery) -> Result<bool, StoreError> {
    let Some((prefix, first, last)) = window(delivery) else {
        return Ok(false);
    };
    let keys = tx.semantic_keys(&first, &last, MAX_NEAR).await?;
    for key in keys.iter().filter(|key| key.starts_with(&prefix)) {
        if is_rebuilt(&delivery.guid) || tx.delivery(&guid_of(key)).await?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Keeps the delivery, so that it is known by its GUID, too.
pub(super) async fn note(mut tx: Tx, row: DeliveryRow) -> Result<Accepted, StoreError> {
    let is_new = !is_rebuilt(&row.guid) && tx.insert_delivery(&row).await? == Inserted::New;
    if is_new {
        tx.commit().await?;
    }
    Ok(Accepted {
        verdict: Verdict::Duplicate,
        outcome: OUTCOME.to_owned(),
        jobs: Vec::new(),
        stopped: 0,
    })
}

/// Whether work was asked for on something that is known to have been closed afterwards, which ends it:
/// deliveries come in any order. In the same second it may have been before.
pub(super) async fn was_closed(tx: &mut Tx, job: &NewJob) -> Result<bool, StoreError> {
    let (event, number) = match job.subject {
        Subject::Issue(number) => ("issues", number),
        Subject::Pull(number) => ("pull_request", number),
        Subject::Local(_) | Subject::Task(_) => return Ok(false),
    };
    if !job.kind.is_work() {
        return Ok(false);
    }
    let end = |at: i64| closed_key(event, job.repo_id, number, at);
    let (first, last) = (end(job.request.triggered_at.timestamp() + 1), end(999_999_999_999));
    let keys = tx.semantic_keys(&first, &last, MAX_NEAR).await?;
    let prefix = first.get(..first.len() - DIGITS).unwrap_or_default();
    Ok(keys.iter().any(|key| key.starts_with(prefix)))
}

/// Whether a job was asked for before what a delivery tells, both by GitHub's clock. What was closed and
/// opened again, or had its label taken off and put on again, is not stopped by the old news.
pub(super) fn came_before(job: &Job, delivery: &Delivery) -> bool {
    let is_by_github = match job.request.trigger {
        Trigger::Label { .. }
        | Trigger::Comment { .. }
        | Trigger::ReviewComment { .. }
        | Trigger::Review { .. }
        | Trigger::Queue { .. } => true,
        Trigger::Checks { .. } | Trigger::CommandLine | Trigger::Schedule { .. } | Trigger::Milestone { .. } => false,
    };
    match happened_at(delivery) {
        Some(at) if is_by_github => job.request.triggered_at <= at,
        _ => true,
    }
}

fn happened_at(delivery: &Delivery) -> Option<DateTime<Utc>> {
    match (&delivery.payload, delivery.action.as_str()) {
        (Payload::Issue { issue, .. }, "closed" | "unlabeled") => issue.updated_at,
        (Payload::Pull { pull }, "closed") => pull.updated_at,
        _ => None,
    }
}
