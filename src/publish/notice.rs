//! The one notice of a job that was given up before it had a status comment: it becomes the status comment,
//! with its last words at once. No lease protects it, so its row is given to one process, and a call of
//! unclear outcome is waited for and looked up before there is another.
//! Never a second notice, and never one under the influence of somebody without the right.

use chrono::TimeDelta;

use super::waiting::is_allowed;
use super::{Publisher, plan, settle, status};
use crate::effect::{Effect, EffectBody};
use crate::github::GitHubError;
use crate::ids::CommentId;
use crate::job::{Job, JobError, JobState};

/// Writes it, where the job's end is to be told and nobody else tells it. The caller has looked for a
/// comment of an earlier call.
///
/// # Errors
/// When GitHub does not take it; the next one to settle the job tries again, or looks for it.
pub(super) async fn give(publisher: &Publisher, job: &Job, effects: &[Effect]) -> Result<Option<CommentId>, JobError> {
    let (JobState::Dead, Some(number)) = (job.state, job.subject.number()) else {
        return Ok(None);
    };
    if !is_allowed(publisher, job).await? {
        return Ok(None);
    }
    let words = status::present(publisher, job, Some(&settle::ending_of(publisher, job, effects))).await?;
    let row = plan::row(
        job,
        plan::seq::STATUS,
        EffectBody::StatusComment {
            number,
            body: words.clone(),
        },
    );
    let wait = TimeDelta::from_std(publisher.unclear_wait()).unwrap_or(TimeDelta::MAX);
    let client = publisher.client(job).under_present_name().await?;
    let mut tx = publisher.store.begin().await?;
    if !tx.take_notice(&job.id, &row, wait).await? {
        return Ok(None);
    }
    tx.commit().await?;
    match client.create_comment(number, &words).await {
        Ok(comment) => {
            let mut tx = publisher.store.begin().await?;
            tx.note_announced(&job.id, row.seq, &comment.id.to_string()).await?;
            tx.commit().await?;
            Ok(Some(comment.id))
        }
        Err(error @ GitHubError::Unclear { .. }) => Err(error.into()),
        Err(error) => {
            let mut tx = publisher.store.begin().await?;
            tx.return_notice(&job.id, row.seq).await?;
            tx.commit().await?;
            Err(error.into())
        }
    }
}
