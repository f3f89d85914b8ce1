//! Reactions, comments and the last words of the status comment. Never says anything that the row
//! and the log do not hold.

use super::super::status;
use super::{Landed, Step, status_comment_id};
use crate::effect::{EffectState, ReactionTarget};
use crate::github::GitHubError;
use crate::ids::IssueNumber;
use crate::job::JobError;

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
