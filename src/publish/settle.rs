//! Last words for jobs that ended without a worker: cancelled while they waited, or recovered for
//! the last time. Each call is a set or an edit, so that two processes doing the same do no harm.
//! Never opens or creates anything.

use super::{Publisher, dispatch, plan, status};
use crate::effect::EffectState;
use crate::github::GitHubError;
use crate::ids::JobId;
use crate::job::{Job, JobError, JobState, Outcome, Trigger};

/// How far back ended jobs are looked for.
const SINCE: chrono::TimeDelta = chrono::TimeDelta::days(7);
/// Jobs settled in one go.
const BATCH: u32 = 20;
/// Most events a status is rendered from.
const MAX_EVENTS: u32 = 5_000;

/// Settles what ended unsaid; returns how many jobs.
///
/// # Errors
/// Of the database; what GitHub does not take now is tried again next time.
pub async fn settle_ended(publisher: &Publisher) -> Result<usize, JobError> {
    let mut tx = publisher.store.begin().await?;
    let ids = tx.unsettled_jobs(publisher.clock.now() - SINCE, BATCH).await?;
    drop(tx);
    let mut settled = 0;
    for id in ids {
        match settle(publisher, &id).await {
            Ok(()) => settled += 1,
            Err(error) => tracing::warn!(job.id = %id, ?error, "the last words of an ended job were not written"),
        }
    }
    Ok(settled)
}

async fn settle(publisher: &Publisher, id: &JobId) -> Result<(), JobError> {
    let mut tx = publisher.store.begin().await?;
    let Some(job) = tx.job(id).await? else { return Ok(()) };
    let events = tx.events(id, 0, MAX_EVENTS).await?;
    let effects = tx.effects(id).await?;
    drop(tx);
    let Some(comment) = dispatch::status_comment_id(&effects) else {
        return Ok(());
    };
    let outcome = ending_of(&job);
    let view = status::StatusView {
        job: &job,
        events: &events,
        outcome: Some(&outcome),
        details: "",
    };
    let body = status::render_status(&view, &|text| publisher.safe(text));
    let marker = publisher.marker.marker(id, plan::at(&job, plan::seq::STATUS));
    let client = publisher.client(&job).under_present_name().await?;
    let (state, said) = match client.update_comment(comment, &format!("{body}\n\n{marker}")).await {
        Ok(_) => (EffectState::Done, comment.to_string()),
        // The comment or the installation is gone: there is nobody to tell.
        Err(
            error @ (GitHubError::NotFound { .. } | GitHubError::Unauthorized { .. } | GitHubError::Forbidden { .. }),
        ) => (EffectState::Failed, error.to_string()),
        Err(error) => return Err(error.into()),
    };
    if let (Trigger::Label { label }, Some(number), EffectState::Done) =
        (&job.request.trigger, job.subject.number(), state)
    {
        client.remove_label(number, label).await?;
    }
    let mut tx = publisher.store.begin().await?;
    tx.note_settled(id, plan::at(&job, plan::seq::FINAL_STATUS), state, &said)
        .await?;
    tx.commit().await?;
    Ok(())
}

fn ending_of(job: &Job) -> Outcome {
    match (&job.outcome, job.state) {
        (Some(outcome), JobState::Done | JobState::Cancelled) => outcome.clone(),
        _ => {
            let reason = job.reason.clone().unwrap_or_else(|| "the job was given up".to_owned());
            Outcome::GaveUp { reason, branch: None }
        }
    }
}
