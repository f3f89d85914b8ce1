//! One reminder of a question that still waits, to the person who asked for the work: an edited
//! comment tells nobody that something is wanted of them. It is sent at most once, since a second
//! one would be noise. Never says that silence means anything but the end of the work.

use super::{Publisher, plan};
use crate::github::GitHubError;
use crate::ids::JobId;
use crate::job::{Job, JobError, JobState};
use crate::phrase::status as words;

/// Reminders sent in one go.
const BATCH: u32 = 20;
/// Where reminders stand among the positions of a job's round, for their markers.
const REMINDER: i64 = 400;

/// Reminds people of the questions whose time is nearly over; returns how many.
///
/// # Errors
/// Of the database; what GitHub certainly did not take is tried again next time.
pub async fn remind_waiting(publisher: &Publisher) -> Result<usize, JobError> {
    let mut tx = publisher.store.begin().await?;
    let due = tx.due_reminders(BATCH).await?;
    drop(tx);
    let mut sent = 0;
    for (id, question) in due {
        match remind(publisher, &id, question).await {
            Ok(is_sent) => sent += usize::from(is_sent),
            Err(error) => tracing::warn!(job.id = %id, ?error, "people were not reminded of a question"),
        }
    }
    Ok(sent)
}

async fn remind(publisher: &Publisher, id: &JobId, question: u32) -> Result<bool, JobError> {
    let mut tx = publisher.store.begin().await?;
    let job = tx.job(id).await?.filter(|job| job.state == JobState::Waiting);
    let asked = tx.last_question(id).await?.filter(|asked| asked.seq == question);
    let (Some(job), Some(asked)) = (job, asked) else {
        return Ok(false);
    };
    if !tx.take_reminder(id, question).await? {
        return Ok(false);
    }
    tx.commit().await?;
    let by = asked.answer_by.format("%Y-%m-%d %H:%M UTC").to_string();
    match send(publisher, &job, question, &by).await {
        Ok(()) => Ok(true),
        // Whether it arrived is not known: a second reminder would be worse than none.
        Err(GitHubError::Unclear { what, detail }) => {
            tracing::info!(job.id = %id, what, detail, "whether a reminder arrived is not known; no other is sent");
            Ok(true)
        }
        Err(error) => {
            let mut tx = publisher.store.begin().await?;
            tx.return_reminder(id, question).await?;
            tx.commit().await?;
            Err(error.into())
        }
    }
}

async fn send(publisher: &Publisher, job: &Job, question: u32, by: &str) -> Result<(), GitHubError> {
    let Some(number) = job.subject.number() else {
        return Ok(());
    };
    let position = plan::at(job, REMINDER + i64::from(question));
    let marker = publisher.marker.marker(&job.id, position);
    let words = words::reminder(publisher.language, &job.request.actor.login, &publisher.command, by);
    let client = publisher.client(job).under_present_name().await?;
    client.create_comment(number, &format!("{words}\n\n{marker}")).await?;
    Ok(())
}
