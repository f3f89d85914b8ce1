//! How work ended that this database does not know to have ended: it was put back from a backup, and
//! the last words on GitHub are younger than it is. They carry the ending, signed. Called by
//! `worker` before work begins, and before a request that waits is told its place. Never believes a comment that our App did not write.

use chrono::TimeDelta;
use sha2::{Digest as _, Sha256};

use super::Publisher;
use super::dispatch::is_ours;
use super::marker::Ending;
use super::plan::Planned;
use crate::github::{Comment, RepoClient};
use crate::ids::IssueNumber;
use crate::job::{Job, JobError, Outcome, Trigger};
use crate::text;

/// Clock difference between GitHub and us that listing by time allows for.
const CLOCK_SLACK: TimeDelta = TimeDelta::minutes(5);
/// Most comments looked through.
const MAX_LOOKED_THROUGH: usize = 1_000;
/// Most characters of a reason that an ending carries; the comment itself has all of it.
const MAX_REASON_CHARS: usize = 300;

/// The ending of a job that ended before, or whose trigger another job has answered: nothing is
/// left to be done or said.
///
/// # Errors
/// When GitHub cannot be asked.
pub async fn ended_before(publisher: &Publisher, job: &Job) -> Result<Option<Planned>, JobError> {
    let Some(number) = job.subject.number() else {
        return Ok(None);
    };
    let client = publisher.client(job).under_present_name().await?;
    let ours = our_comments(publisher, &client, job, number).await?;
    let endings: Vec<Ending> = ours
        .iter()
        .flat_map(|comment| publisher.marker.endings_in(&comment.body))
        .collect();
    let own = endings
        .iter()
        .find(|ending| ending.job == job.id && ending.round == job.round);
    let asked = asked(job);
    let others = || {
        endings
            .iter()
            .find(|ending| ending.job != job.id && ending.asked == asked)
    };
    let Some(ending) = own.or_else(|| others().filter(|_| job.round == 0)) else {
        return Ok(None);
    };
    tracing::warn!(job.id = %job.id, ended = %ending.job, "this ended already, which the database does not know");
    Ok(Some(Planned {
        outcome: ending.outcome.clone(),
        effects: Vec::new(),
        bundle: None,
    }))
}

/// Whether our App wrote on a job that this database knows to have never been claimed: it was put back
/// from a backup.
pub(super) async fn was_told(
    publisher: &Publisher,
    client: &RepoClient,
    job: &Job,
    (number, seq): (IssueNumber, i64),
) -> Result<bool, JobError> {
    let ours = our_comments(publisher, client, job, number).await?;
    let (marker, asked) = (publisher.marker.marker(&job.id, seq), asked(job));
    let is_of_it = |ending: &Ending| ending.job == job.id || ending.asked == asked;
    Ok(ours.iter().any(|comment| {
        comment.body.contains(&marker) || publisher.marker.endings_in(&comment.body).iter().any(is_of_it)
    }))
}

/// What our App wrote since a job was asked for.
async fn our_comments(
    publisher: &Publisher,
    client: &RepoClient,
    job: &Job,
    number: IssueNumber,
) -> Result<Vec<Comment>, JobError> {
    let since = job.request.triggered_at.min(job.created_at) - CLOCK_SLACK;
    let mut comments = client.comments(number, Some(since), MAX_LOOKED_THROUGH).await?;
    comments.retain(|comment| is_ours(publisher, comment));
    Ok(comments)
}

/// What the last words of a job carry.
pub(super) fn ending(job: &Job, outcome: &Outcome) -> Ending {
    let mut outcome = outcome.clone();
    match &mut outcome {
        Outcome::Measured { summary: reason }
        | Outcome::NothingToDo { reason }
        | Outcome::Refused { reason }
        | Outcome::GaveUp { reason, .. }
        | Outcome::Stopped { reason, .. } => *reason = text::cap_chars(reason, MAX_REASON_CHARS),
        Outcome::Opened { .. } | Outcome::Pushed { .. } | Outcome::Answered | Outcome::Reviewed { .. } => {}
    }
    Ending {
        job: job.id.clone(),
        round: job.round,
        asked: asked(job),
        outcome,
    }
}

/// The event that asked for a job, in a few letters: the same event gives the same letters when it
/// is delivered again. What no person asked for is known by its job alone.
fn asked(job: &Job) -> String {
    let request = &job.request;
    match request.trigger {
        Trigger::Label { .. } | Trigger::Comment { .. } | Trigger::ReviewComment { .. } | Trigger::Review { .. } => {
            let mut hash = Sha256::new();
            hash.update(serde_json::to_vec(&request.trigger).unwrap_or_default());
            hash.update(format!(" {} {}", job.kind, request.triggered_at.timestamp_micros()));
            hex::encode(hash.finalize())[..16].to_owned()
        }
        Trigger::Queue { .. }
        | Trigger::Checks { .. }
        | Trigger::CommandLine
        | Trigger::Schedule { .. }
        | Trigger::Milestone { .. } => job.id.to_string(),
    }
}
