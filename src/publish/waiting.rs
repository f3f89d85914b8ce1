//! What people see of a request that has to wait: 👀 on it, and its status comment with its place in
//! the queue. No worker holds such a job, so none of this needs a lease: a reaction is a set, and the
//! row of the comment is given to one process. Never writes for somebody without the right, and
//! never a second comment.

use super::earlier::was_told;
use super::settle::{for_good, say};
use super::{Publisher, ask_people, dispatch, status};
use crate::authority::{self, Authority};
use crate::github::{Access, GitHubError};
use crate::ids::{CommentId, JobId};
use crate::job::{Job, JobError, JobState};

/// Puts 👀 on what asked for a job that is still queued, if the person may ask.
///
/// # Errors
/// When GitHub does not answer; nothing is lost, the job acknowledges itself when its turn comes.
pub async fn acknowledge_waiting(publisher: &Publisher, job: &Job) -> Result<(), JobError> {
    match dispatch::trigger_target(job) {
        Some(target) if is_allowed(publisher, job).await? => Ok(publisher.client(job).react(target, "eyes").await?),
        _ => Ok(()),
    }
}

/// Writes the status comment of a job that nobody has claimed yet, with its place in the queue.
/// Nothing: there is none to write, or somebody else writes it.
///
/// # Errors
/// When GitHub does not take it; the job looks for it, or writes it, when its turn comes.
pub async fn announce_waiting(publisher: &Publisher, job: &Job, before: u64) -> Result<Option<CommentId>, JobError> {
    let number = job.subject.number();
    let (Some(row), Some(number), Some(_)) = (
        dispatch::status_row(publisher, job),
        number,
        dispatch::trigger_target(job),
    ) else {
        return Ok(None);
    };
    if !is_allowed(publisher, job).await? {
        return Ok(None);
    }
    let client = publisher.client(job).under_present_name().await?;
    if was_told(publisher, &client, job, (number, row.seq)).await? {
        return Ok(None);
    }
    let mut tx = publisher.store.begin().await?;
    if !tx.announce_job(&job.id, &row).await? {
        return Ok(None);
    }
    let words = status::queued(publisher, job, before);
    // What the command said that became this job goes on as its status.
    if let Some(known) = tx.answer_of_command(&job.id).await? {
        tx.note_announced(&job.id, row.seq, &known).await?;
        tx.commit().await?;
        let Ok(comment) = known.parse().map(CommentId) else {
            return Ok(None);
        };
        client.update_comment(comment, &words).await?;
        say_again(publisher, &job.id, comment).await?;
        return Ok(Some(comment));
    }
    tx.commit().await?;
    match client.create_comment(number, &words).await {
        Ok(comment) => {
            let mut tx = publisher.store.begin().await?;
            tx.note_announced(&job.id, row.seq, &comment.id.to_string()).await?;
            tx.commit().await?;
            Ok(Some(comment.id))
        }
        // It may be there: whoever comes next looks for it.
        Err(error @ GitHubError::Unclear { .. }) => Err(error.into()),
        Err(error) => {
            let mut tx = publisher.store.begin().await?;
            tx.return_announcement(&job.id, row.seq).await?;
            tx.commit().await?;
            Err(error.into())
        }
    }
}

/// Brings the status comment of a job that still waits to its present place in the queue.
///
/// # Errors
/// When GitHub does not take the edit.
pub async fn move_up(publisher: &Publisher, id: &JobId, comment: CommentId, before: u64) -> Result<(), JobError> {
    let Some(job) = in_line(publisher, id).await? else {
        return Ok(());
    };
    let words = status::queued(publisher, &job, before);
    let client = publisher.client(&job).under_present_name().await?;
    client.update_comment(comment, &words).await?;
    say_again(publisher, id, comment).await
}

/// After an edit about the place in the queue: what was said later stands there again.
async fn say_again(publisher: &Publisher, id: &JobId, comment: CommentId) -> Result<(), JobError> {
    // A worker that took the job meanwhile goes on editing; what it said last must not be covered.
    let mut tx = publisher.store.begin().await?;
    let (now, effects) = (tx.job(id).await?, tx.effects(id).await?);
    drop(tx);
    match now {
        Some(job) if job.state.is_final() => {
            if let Err(problem) = for_good(say(publisher, &job, &effects, comment).await)? {
                tracing::info!(job.id = %id, problem, "the last words were not said again");
            }
            Ok(())
        }
        Some(job) if job.state == JobState::Waiting => ask_people(publisher, id).await,
        _ => Ok(()),
    }
}

/// The job, if it waits and was never claimed.
async fn in_line(publisher: &Publisher, id: &JobId) -> Result<Option<Job>, JobError> {
    let mut tx = publisher.store.begin().await?;
    let job = tx.job(id).await?;
    Ok(job.filter(|job| job.state == JobState::Queued && job.fence == 0))
}

pub(super) async fn is_allowed(publisher: &Publisher, job: &Job) -> Result<bool, JobError> {
    let reader = publisher
        .github
        .repo(job.installation, job.repo_id, job.repo.clone(), Access::Read);
    let authority = authority::authorize(publisher.language, job, &reader).await?;
    Ok(matches!(authority, Authority::Allowed(_)))
}
