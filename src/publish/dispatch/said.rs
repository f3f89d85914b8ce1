//! Reactions, comments and the last words of the status comment, and how our own comments are found
//! again. Never says anything that the row and the log do not hold.

use std::time::Duration;

use super::super::{Publisher, plan, status};
use super::{CLOCK_SLACK, Landed, MAX_LOOKED_THROUGH, Step, status_comment_id};
use crate::effect::{Effect, EffectState, ReactionTarget};
use crate::github::{Comment, GitHubError, RepoClient};
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
    let since = job.created_at - CLOCK_SLACK;
    let comments = client.comments(number, Some(since), MAX_LOOKED_THROUGH).await?;
    let marker = publisher.marker.marker(&job.id, seq);
    let mut own: Vec<&Comment> = comments
        .iter()
        .filter(|comment| comment.body.contains(&marker) && is_ours(publisher, comment))
        .collect();
    own.sort_by_key(|comment| comment.id.0);
    for younger in own.iter().skip(1) {
        client.delete_comment(younger.id).await?;
        tracing::warn!(job.id = %job.id, comment = %younger.id, "a comment arrived twice; the younger one was deleted");
    }
    Ok(own.first().map(|comment| comment.id.to_string()))
}

/// Written by our App; where GitHub does not tell the App, by our bot's account.
fn is_ours(publisher: &Publisher, comment: &Comment) -> bool {
    match (&comment.performed_via_github_app, &comment.user) {
        (Some(app), _) => app.id == publisher.app.id,
        (None, Some(user)) => user.kind == "Bot" && user.login == format!("{}[bot]", publisher.app.slug),
        (None, None) => false,
    }
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
