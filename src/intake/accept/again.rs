//! The same event, told twice in different words: GitHub's lists name times that may differ by a moment
//! from those of its webhook calls. And what an event that comes late may not touch. Called by `accept`.
//! Never takes two webhook calls for one event: only what was found in a list is compared like this.

use chrono::{DateTime, Utc};

use super::{Accepted, Verdict};
use crate::ids::{RepoId, Subject};
use crate::intake::payload::{Delivery, Payload, closed_key, deleted_key};
use crate::intake::rebuilt::{guid_of, is_rebuilt};
use crate::intake::triage::Intent;
use crate::job::{Job, NewJob, Trigger};
use crate::store::{DeliveryRow, Inserted, StoreError, Tx, label_key};

/// Seconds by which the times that GitHub tells of one act may differ.
const SAME_ACT: i64 = 3;

/// Far more than anybody does to one issue within those seconds, or to one label of an issue.
const MAX_NEAR: u32 = 1_000;

/// What stands beside such a delivery.
pub(super) const OUTCOME: &str = "this was found on GitHub before";

/// Digits of the time at the end of a semantic key.
const DIGITS: usize = 12;

/// Semantic keys with a common beginning, from the first to the last.
#[derive(Debug)]
struct Range {
    prefix: String,
    first: String,
    last: String,
}

impl Range {
    fn one(key: String) -> Self {
        Self {
            prefix: key.clone(),
            first: key.clone(),
            last: key,
        }
    }

    /// Those whose digits of time are above a second: in the same one it may have been before.
    fn after(second: DateTime<Utc>, key: impl Fn(i64) -> String) -> Self {
        let first = key(second.timestamp() + 1);
        Self {
            prefix: first.get(..first.len() - DIGITS).unwrap_or_default().to_owned(),
            first,
            last: key(999_999_999_999),
        }
    }

    fn holds(&self, key: &str) -> bool {
        key.starts_with(&self.prefix) && (self.first.as_str()..=self.last.as_str()).contains(&key)
    }
}

/// What was stored before that matters to a delivery and what it asks for. Looked up in one statement:
/// most deliveries that start something look at three kinds.
#[derive(Default)]
pub(super) struct Told {
    keys: Vec<String>,
}

impl Told {
    /// Looks it up.
    pub(super) async fn look(tx: &mut Tx, delivery: &Delivery, intents: &[Intent]) -> Result<Self, StoreError> {
        let of_intent = |intent: &Intent| match intent {
            Intent::Start(job) | Intent::Join(job) => {
                vec![
                    gone(delivery, job.repo_id, &job.request.trigger, job.request.triggered_at),
                    closed(job),
                ]
            }
            Intent::CancelTrigger { repo, trigger, .. } => vec![comings(delivery, *repo, trigger)],
            _ => Vec::new(),
        };
        let ranges: Vec<Range> = intents
            .iter()
            .flat_map(of_intent)
            .chain([window(delivery)])
            .flatten()
            .collect();
        let bounds: Vec<(&str, &str)> = ranges.iter().map(|range| (&*range.first, &*range.last)).collect();
        let keys = tx.semantic_keys(&bounds, MAX_NEAR).await?;
        Ok(Self { keys })
    }

    fn any(&self, range: Option<Range>) -> bool {
        range.is_some_and(|range| self.keys.iter().any(|key| range.holds(key)))
    }

    /// W15: deliveries come in any order. Whether the trigger of a job is known to be gone already.
    pub(super) fn is_gone(&self, delivery: &Delivery, job: &NewJob) -> bool {
        self.any(gone(
            delivery,
            job.repo_id,
            &job.request.trigger,
            job.request.triggered_at,
        ))
    }

    /// The other way round: whether the label is known to have come again after this removal of it. What
    /// is open is the work of that coming, too.
    pub(super) fn is_labelled_again(&self, delivery: &Delivery, repo: RepoId, trigger: &Trigger) -> bool {
        self.any(comings(delivery, repo, trigger))
    }

    /// Whether work was asked for on something that is known to have been closed afterwards, which ends it.
    pub(super) fn is_closed(&self, job: &NewJob) -> bool {
        self.any(closed(job))
    }

    /// Whether one of the two was found in a list, and the other is the same event.
    pub(super) async fn is_same(&self, tx: &mut Tx, delivery: &Delivery) -> Result<bool, StoreError> {
        let Some(range) = window(delivery) else {
            return Ok(false);
        };
        for key in self.keys.iter().filter(|key| range.holds(key)) {
            if is_rebuilt(&delivery.guid) || tx.delivery(&guid_of(key)).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Meanings that are the same event as a delivery's.
fn window(delivery: &Delivery) -> Option<Range> {
    let key = delivery.semantic_key();
    match (&delivery.payload, delivery.action.as_str()) {
        (Payload::Issue { .. } | Payload::Pull { .. }, "labeled" | "unlabeled" | "closed") => {
            let (prefix, at) = key.split_at_checked(key.len().checked_sub(DIGITS)?)?;
            let at: i64 = at.parse().ok()?;
            let end = |at: i64| format!("{prefix}{:012}", at.max(0));
            Some(Range {
                first: end(at - SAME_ACT),
                last: end(at + SAME_ACT),
                prefix: prefix.to_owned(),
            })
        }
        // A comment is written once, but its list shows when it was last changed.
        (Payload::IssueComment { .. } | Payload::ReviewComment { .. }, "created") => {
            let (prefix, at) = key.rsplit_once(':')?;
            at.parse::<i64>().ok()?;
            Some(Range {
                prefix: format!("{prefix}:"),
                first: format!("{prefix}:"),
                last: format!("{prefix}:999999999999"),
            })
        }
        _ => None,
    }
}

/// The end of a comment, or the removals of a label after it came.
fn gone(delivery: &Delivery, repo: RepoId, trigger: &Trigger, came_at: DateTime<Utc>) -> Option<Range> {
    match (trigger, &delivery.payload) {
        (Trigger::Comment { id } | Trigger::ReviewComment { id }, _) => {
            Some(Range::one(deleted_key(&delivery.event, repo, *id)))
        }
        (Trigger::Label { label }, Payload::Issue { issue, .. }) => {
            let prefix = label_key("unlabeled", repo, issue.number, label);
            Some(Range::after(came_at, |at| format!("{prefix}{at:012}")))
        }
        _ => None,
    }
}

/// The comings of a label after this removal of it.
fn comings(delivery: &Delivery, repo: RepoId, trigger: &Trigger) -> Option<Range> {
    match (trigger, &delivery.payload) {
        (Trigger::Label { label }, Payload::Issue { issue, .. }) => {
            let prefix = label_key("labeled", repo, issue.number, label);
            Some(Range::after(issue.updated_at?, |at| format!("{prefix}{at:012}")))
        }
        _ => None,
    }
}

/// The closing of what a job works on, after it was asked for.
fn closed(job: &NewJob) -> Option<Range> {
    let (event, number) = match job.subject {
        Subject::Issue(number) => ("issues", number),
        Subject::Pull(number) => ("pull_request", number),
        Subject::Local(_) | Subject::Task(_) => return None,
    };
    let key = |at: i64| closed_key(event, job.repo_id, number, at);
    job.kind.is_work().then(|| Range::after(job.request.triggered_at, key))
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
