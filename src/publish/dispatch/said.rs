//! Reactions, comments and the last words of the status comment, and how our own comments are found
//! again. Never says anything that the row and the log do not hold.

use std::time::Duration;

use super::super::{Publisher, plan, status};
use super::twin::own_comments;
use super::{Landed, Step, status_comment_id};
use crate::effect::{Effect, EffectState, ReactionTarget};
use crate::github::{GitHubError, RepoClient};
use crate::ids::IssueNumber;
use crate::job::{Job, JobError};

/// Time between two looks at what becomes of a comment that somebody else is writing.
const LOOK: Duration = Duration::from_millis(100);

impl Step<'_> {
    pub(super) async fn comment(&self, number: IssueNumber, body: &str) -> Result<Landed, JobError> {
        let marker = self.publisher.marker.marker(&self.leased.job.id, self.effect.seq);
        let comment = self
            .client
            .create_comment(number, &format!("{body}\n\n{marker}"))
            .await?;
        Ok(Landed::As(comment.id.to_string()))
    }

    pub(super) async fn react(&self, target: ReactionTarget, content: &str) -> Result<Landed, JobError> {
        match self.client.react(target, content).await {
            Ok(()) => Ok(Landed::As(content.to_owned())),
            // The comment was deleted; there is nothing to react to.
            Err(GitHubError::NotFound { .. }) => Ok(Landed::Not(EffectState::Skipped, "it is gone".to_owned())),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn final_status(&self, end: &status::LastWords<'_>) -> Result<Landed, JobError> {
        let Some(id) = status_comment_id(&self.all().await?) else {
            return Ok(Landed::Not(
                EffectState::Skipped,
                "there is no status comment".to_owned(),
            ));
        };
        match status::update_final(self.publisher, self.leased, self.client, id, end).await {
            Ok(()) => Ok(Landed::As(id.to_string())),
            Err(GitHubError::NotFound { .. }) => Ok(Landed::Not(
                EffectState::Skipped,
                "the status comment was deleted".to_owned(),
            )),
            Err(error) => Err(error.into()),
        }
    }
}

/// Our comment with the marker of a job's effect; of several (an earlier call landed late) the
/// younger ones are deleted.
pub(in crate::publish) async fn own_comment(
    publisher: &Publisher,
    client: &RepoClient,
    job: &Job,
    number: IssueNumber,
    seq: i64,
) -> Result<Option<String>, JobError> {
    let found = own_comments(publisher, client, job, (number, seq)).await?;
    if !found.removed.is_empty() {
        let removed = found.removed.join(", ");
        tracing::warn!(job.id = %job.id, removed, "a comment arrived twice; the younger one was deleted");
    }
    Ok(found.first)
}

/// The job may have been claimed while somebody was telling people that it waits: what became of
/// that comment is known after a call's time at the latest, or has to be found out.
pub(super) async fn wait_for_announcement(publisher: &Publisher, job: &Job) -> Result<(), JobError> {
    let position = plan::at(job, plan::seq::STATUS);
    let is_being_written =
        |effect: &Effect| effect.seq == position && effect.fence == 0 && effect.state == EffectState::Unknown;
    let mut waited = Duration::ZERO;
    while waited < publisher.call_timeout {
        let mut tx = publisher.store.begin().await?;
        let effects = tx.effects(&job.id).await?;
        drop(tx);
        if !effects.iter().any(is_being_written) {
            break;
        }
        tokio::time::sleep(LOOK).await;
        waited += LOOK;
    }
    Ok(())
}
