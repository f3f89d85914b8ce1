//! Our own check run as effects: looked up by its name and the job's id, begun on the head that is
//! worked on, and settled there and on the head that was pushed. And the request that a check of
//! somebody else runs again. Never fails a job: without the permission for checks there is none.

use std::sync::Once;

use super::super::check;
use super::super::{outcome, plan};
use super::{Landed, Step};
use crate::effect::EffectState;
use crate::github::{GitHubError, NewCheckRun};
use crate::ids::CommitSha;
use crate::job::JobError;
use crate::phrase::check::NAME;

/// Without the permission the same would be said of every job.
static FORBIDDEN: Once = Once::new();

impl Step<'_> {
    /// The check run of this job on a commit, if it is there already.
    pub(super) async fn own_check(&self, sha: &CommitSha) -> Result<Option<String>, JobError> {
        let found = check::find(self.publisher, self.client, &self.leased.job, sha).await;
        Ok(known(found)?.map(|id| id.to_string()))
    }

    pub(super) async fn begin_check(&self, sha: &CommitSha) -> Result<Landed, JobError> {
        let job = &self.leased.job;
        let new = NewCheckRun {
            name: NAME.to_owned(),
            head_sha: sha.clone(),
            external_id: job.id.to_string(),
            report: check::under_way(self.publisher.language, job),
        };
        let made = known(self.client.create_check_run(&new).await)?;
        Ok(Landed::As(made.id.to_string()))
    }

    pub(super) async fn settle_check(&self) -> Result<Landed, JobError> {
        let (publisher, job) = (self.publisher, &self.leased.job);
        let effects = self.all().await?;
        let Some(planned) = &job.outcome else {
            return Ok(Landed::Not(EffectState::Skipped, "the job has no outcome".to_owned()));
        };
        let outcome = outcome::outcome_of(self.publisher.language, planned, &effects, plan::at(job, 0));
        let settled = check::settle(publisher, self.client, job, &effects, &outcome).await?;
        match known(settled)? {
            Some(id) => Ok(Landed::As(id)),
            None => Ok(Landed::Not(
                EffectState::Skipped,
                "there is no check to settle".to_owned(),
            )),
        }
    }

    pub(super) async fn rerun_check(&self, id: u64) -> Result<Landed, JobError> {
        known(self.client.rerequest_check_run(id).await)?;
        Ok(Landed::As(id.to_string()))
    }
}

/// A missing permission ends an effect and is told once.
fn known<T>(result: Result<T, GitHubError>) -> Result<T, JobError> {
    if let Err(GitHubError::Forbidden { detail, .. }) = &result {
        FORBIDDEN.call_once(|| {
            tracing::warn!(
                detail,
                "checks cannot be written or run again here; grant the App `checks: write` to have them"
            );
        });
    }
    Ok(result?)
}
