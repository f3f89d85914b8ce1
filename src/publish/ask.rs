//! Shows people what a waiting job asks: its status comment is edited to "needs you". Nobody holds
//! the job then, so no lease is needed; an edit made twice is an edit. Never creates anything, and
//! never says that a job waits which does not.

use super::settle::for_good;
use super::{Publisher, dispatch, plan, status};
use crate::effect::{EffectBody, EffectState, NewEffect};
use crate::ids::{CommentId, JobId};
use crate::job::{Job, JobError, JobState};

/// Jobs whose questions are shown in one go.
const BATCH: u32 = 20;

/// The row that brings a job's status comment to its question.
pub fn asking(job: &Job, question: u32) -> NewEffect {
    plan::row(job, plan::seq::ASK + i64::from(question), EffectBody::Ask)
}

/// Shows the questions that people cannot see yet; returns how many.
///
/// # Errors
/// Of the database; what GitHub does not take now is tried again next time.
pub async fn ask_waiting(publisher: &Publisher) -> Result<usize, JobError> {
    let mut tx = publisher.store.begin().await?;
    let ids = tx.unasked_jobs(BATCH).await?;
    drop(tx);
    let mut shown = 0;
    for id in ids {
        match ask_people(publisher, &id).await {
            Ok(()) => shown += 1,
            Err(error) => tracing::warn!(job.id = %id, ?error, "the questions of a waiting job are not shown yet"),
        }
    }
    Ok(shown)
}

/// Shows the question of one job, if it still waits.
///
/// # Errors
/// When GitHub does not take the edit; [`ask_waiting`] makes up for it.
pub async fn ask_people(publisher: &Publisher, id: &JobId) -> Result<(), JobError> {
    let mut tx = publisher.store.begin().await?;
    let Some(job) = tx.job(id).await?.filter(|job| job.state == JobState::Waiting) else {
        return Ok(());
    };
    let effects = tx.effects(id).await?;
    drop(tx);
    let (state, said) = match dispatch::status_comment_id(&effects) {
        Some(comment) => match for_good(edit(publisher, &job, comment).await)? {
            Ok(()) => (EffectState::Done, comment.to_string()),
            Err(problem) => (EffectState::Failed, problem),
        },
        None => (EffectState::Failed, "there is no status comment".to_owned()),
    };
    let mut tx = publisher.store.begin().await?;
    tx.note_asked(id, state, &said).await?;
    tx.commit().await?;
    Ok(())
}

async fn edit(publisher: &Publisher, job: &Job, comment: CommentId) -> Result<(), JobError> {
    let body = status::present(publisher, job, None).await?;
    let client = publisher.client(job).under_present_name().await?;
    client.update_comment(comment, &body).await?;
    Ok(())
}
