//! Last words for jobs that ended without a worker: cancelled while they waited, or recovered for
//! the last time. Each call is a set or an edit, so that two processes doing the same do no harm; only
//! what was given up before it had a status comment gets one, see `notice`.
//! Never opens anything.

use chrono::{DateTime, TimeDelta};

use super::{Publisher, check, dispatch, notice, outcome, plan, status};
use crate::effect::{Effect, EffectBody, EffectState};
use crate::ids::{CommentId, JobId};
use crate::job::{Job, JobError, JobState, Outcome};
use crate::phrase::reason;
use crate::store::JobFilter;

/// How far back ended jobs are looked for.
const SINCE: TimeDelta = TimeDelta::days(7);
/// Jobs settled in one go.
const BATCH: u32 = 20;
/// Most other jobs of the issue that are looked at.
const MAX_OTHERS: u32 = 100;

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
            Err(JobError::Snooze(until, why)) => tracing::info!(job.id = %id, %until, why, "last words are put off"),
            Err(error) => tracing::warn!(job.id = %id, ?error, "the last words of an ended job were not written"),
        }
    }
    Ok(settled)
}

async fn settle(publisher: &Publisher, id: &JobId) -> Result<(), JobError> {
    let mut tx = publisher.store.begin().await?;
    let Some(job) = tx.job(id).await? else { return Ok(()) };
    let effects = tx.effects(id).await?;
    drop(tx);
    let comment = match dispatch::status_comment_id(&effects) {
        Some(comment) => Ok(Some(comment)),
        None => match lost_comment(publisher, &job, &effects).await? {
            Some(comment) => Ok(Some(comment)),
            None => for_good(notice::give(publisher, &job, &effects).await)?,
        },
    };
    let (state, said) = match comment {
        Ok(Some(comment)) => match for_good(say(publisher, &job, &effects, comment).await)? {
            Ok(()) => (EffectState::Done, comment.to_string()),
            Err(problem) => (EffectState::Failed, problem),
        },
        Ok(None) => (EffectState::Failed, "there is no status comment".to_owned()),
        Err(problem) => (EffectState::Failed, problem),
    };
    if let Err(problem) = for_good(take_off_label(publisher, &job).await)? {
        tracing::warn!(job.id = %id, problem, "the label of an ended job stays");
    }
    let checked = for_good(settle_check(publisher, &job, &effects).await)?;
    fp!("settle.said");
    let mut tx = publisher.store.begin().await?;
    tx.note_settled(id, plan::at(&job, plan::seq::FINAL_STATUS), state, &said)
        .await?;
    let at = plan::at(&job, plan::seq::SETTLE_CHECK);
    match checked {
        Ok(None) => {}
        Ok(Some(settled)) => tx.note_check_settled(id, at, EffectState::Done, &settled).await?,
        Err(problem) => tx.note_check_settled(id, at, EffectState::Failed, &problem).await?,
    }
    fp!("settle.written");
    tx.commit().await?;
    fp!("settle.committed");
    Ok(())
}

/// A status comment of unclear outcome is looked for, once it can no longer arrive.
async fn lost_comment(publisher: &Publisher, job: &Job, effects: &[Effect]) -> Result<Option<CommentId>, JobError> {
    let lost = effects.iter().rev().find_map(|effect| match effect.body {
        EffectBody::StatusComment { number, .. } if effect.state == EffectState::Unknown => Some((effect, number)),
        _ => None,
    });
    let Some((row, number)) = lost else { return Ok(None) };
    let wait = TimeDelta::from_std(publisher.unclear_wait()).unwrap_or(TimeDelta::MAX);
    let clear_at = row.sent_at.map_or(DateTime::UNIX_EPOCH, |sent_at| sent_at + wait);
    let mut tx = publisher.store.begin().await?;
    let now = tx.db_now().await?;
    drop(tx);
    if now < clear_at {
        let reason = "its status comment may still arrive".to_owned();
        return Err(JobError::Snooze(clear_at, reason));
    }
    let client = publisher.client(job).under_present_name().await?;
    let found = dispatch::own_comment(publisher, &client, job, number, row.seq).await?;
    let Some(found) = found else { return Ok(None) };
    let mut tx = publisher.store.begin().await?;
    tx.note_announced(&job.id, row.seq, &found).await?;
    tx.commit().await?;
    Ok(found.parse().ok().map(CommentId))
}

/// The check run of the job ends as the job did, and the pull request that it opened has one;
/// `None` when there is neither.
async fn settle_check(publisher: &Publisher, job: &Job, effects: &[Effect]) -> Result<Option<String>, JobError> {
    let shows = |effect: &Effect| matches!(effect.body, EffectBody::BeginCheck { .. } | EffectBody::OpenPull { .. });
    if !effects.iter().any(shows) {
        return Ok(None);
    }
    let client = publisher.client(job).under_present_name().await?;
    let settled = check::settle(publisher, &client, job, effects, &ending_of(publisher, job, effects)).await??;
    Ok(Some(settled.unwrap_or_else(|| "there is none".to_owned())))
}

/// Sorts out what will never be different: the comment, the issue or the installation is gone, and
/// there is nobody to tell. Everything else is tried again.
pub(super) fn for_good<T>(result: Result<T, JobError>) -> Result<Result<T, String>, JobError> {
    match result {
        Ok(done) => Ok(Ok(done)),
        Err(JobError::Fail(problem)) => Ok(Err(problem)),
        Err(error) => Err(error),
    }
}

pub(super) async fn say(
    publisher: &Publisher,
    job: &Job,
    effects: &[Effect],
    comment: CommentId,
) -> Result<(), JobError> {
    let text = status::present(publisher, job, Some(&ending_of(publisher, job, effects))).await?;
    publisher
        .client(job)
        .under_present_name()
        .await?
        .update_comment(comment, &text)
        .await?;
    Ok(())
}

/// The label goes, unless somebody put it on again meanwhile and another job waits for its turn.
async fn take_off_label(publisher: &Publisher, job: &Job) -> Result<(), JobError> {
    let (Some(label), Some(number)) = (job.request.trigger.label(), job.subject.number()) else {
        return Ok(());
    };
    if why_label_stays(publisher, job).await?.is_none() {
        publisher
            .client(job)
            .under_present_name()
            .await?
            .remove_label(number, label)
            .await?;
    }
    Ok(())
}

/// Why the label on the issue is not a job's to take off, if it is not: it was taken off by somebody since,
/// so one that is there now was put on for other work, told of or not; or that work stands in the queue.
pub(super) async fn why_label_stays(publisher: &Publisher, job: &Job) -> Result<Option<&'static str>, JobError> {
    let (Some(label), Some(number)) = (job.request.trigger.label(), job.subject.number()) else {
        return Ok(None);
    };
    let filter = JobFilter {
        states: JobState::ALL
            .iter()
            .copied()
            .filter(|state| !state.is_final())
            .collect(),
        repo_id: Some(job.repo_id),
        subject: Some(job.subject.clone()),
        limit: MAX_OTHERS,
    };
    let mut tx = publisher.store.begin().await?;
    let since = job.request.triggered_at;
    if tx.was_unlabelled(job.repo_id, number, label, since).await? {
        return Ok(Some("the label was taken off before"));
    }
    let others = tx.jobs(&filter).await?;
    let is_needed = others
        .iter()
        .any(|other| other.id != job.id && other.request.trigger.label().is_some());
    Ok(is_needed.then_some("the label was put on again"))
}

pub(super) fn ending_of(publisher: &Publisher, job: &Job, effects: &[Effect]) -> Outcome {
    match (&job.outcome, job.state) {
        (Some(outcome), JobState::Done | JobState::Cancelled) => outcome.clone(),
        _ => {
            let reason = job
                .reason
                .clone()
                .unwrap_or_else(|| reason::given_up(publisher.language).to_owned());
            // What was pushed and opened before the end is not lost.
            outcome::opened_since(effects, plan::at(job, 0)).unwrap_or_else(|| Outcome::GaveUp {
                reason,
                branch: outcome::pushed_since(effects, plan::at(job, 0)),
            })
        }
    }
}
