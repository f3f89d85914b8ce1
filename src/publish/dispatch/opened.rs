//! What is done to a pull request after it was opened: it is taken out of draft, and somebody is
//! asked to review it. Both are sets: a repeat changes nothing.
//! Never fails a job for it: the pull request is there.

use super::{Landed, Step};
use crate::effect::{EffectBody, EffectState};
use crate::github::GitHubError;
use crate::ids::IssueNumber;
use crate::job::JobError;

impl Step<'_> {
    /// The pull request that an earlier row of this round opened or found.
    pub(super) async fn opened(&self) -> Result<Option<IssueNumber>, JobError> {
        let all = self.all().await?;
        let row = all
            .iter()
            .rev()
            .find(|effect| effect.seq < self.effect.seq && matches!(effect.body, EffectBody::OpenPull { .. }));
        let number = row
            .filter(|row| row.state == EffectState::Done)
            .and_then(|row| row.remote_id.as_deref());
        Ok(number.and_then(|number| number.parse().ok()).map(IssueNumber))
    }

    /// Only what is still the open draft of the commit that was verified is marked ready.
    pub(super) async fn mark_ready(&self) -> Result<Landed, JobError> {
        let Some(number) = self.opened().await? else {
            return Ok(skipped("no pull request was opened"));
        };
        let pull = self.client.pull(number).await?;
        let pushed = super::pushed(&self.all().await?, self.effect.seq).map(|(_, sha)| sha);
        if pull.state != "open" || pushed.is_some_and(|sha| sha != pull.head.sha) {
            return Ok(skipped("the pull request was closed or has other commits by now"));
        }
        if pull.draft {
            self.client.mark_ready(&pull.node_id).await?;
        }
        Ok(Landed::As(number.to_string()))
    }

    pub(super) async fn request_reviewer(&self, login: &str) -> Result<Landed, JobError> {
        let Some(number) = self.opened().await? else {
            return Ok(skipped("no pull request was opened"));
        };
        let logins = [login.to_owned()];
        match self.client.request_reviewers(number, &logins).await {
            Ok(refused) if refused.is_empty() => Ok(Landed::As(login.to_owned())),
            Ok(_) | Err(GitHubError::Forbidden { .. } | GitHubError::NotFound { .. }) => {
                Ok(skipped("GitHub does not take this person as a reviewer"))
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn skipped(why: &str) -> Landed {
    Landed::Not(EffectState::Skipped, why.to_owned())
}
