//! What work that is not over was asked for by, and is not there any more: deleted comments, deleted and
//! transferred issues. No list shows them, so each is asked for. Called by `visit`.
//! Never takes what cannot be seen at all for deleted: the repository's list was read just before.

use std::collections::HashSet;

use crate::github::GitHubError;
use crate::ids::{IssueNumber, Subject};
use crate::intake::{BadDelivery, Delivery};
use crate::job::{Job, JobState, Trigger};
use crate::store::JobFilter;

use super::visit::{Found, Stopped, Visit};

/// Jobs of one repository that are looked at; more are hardly ever open at a time.
const MAX_OPEN: u32 = 50;

impl Visit<'_> {
    /// The deliveries that would have told of it.
    pub(super) async fn gone(&self) -> Result<Found, Stopped> {
        let states = [JobState::Queued, JobState::Leased, JobState::Waiting];
        let filter = JobFilter {
            states: states.to_vec(),
            repo_id: Some(self.repo.id),
            subject: None,
            limit: MAX_OPEN,
        };
        let jobs = self.store.begin().await?.jobs(&filter).await?;
        let mut found = Found::new();
        let mut asked = HashSet::new();
        for job in &jobs {
            if let Subject::Issue(number) = job.subject
                && asked.insert(number)
                && let Some(action) = self.issue_is_gone(number).await?
            {
                found.push((job.created_at, self.rebuilder.issue_gone(number, action)));
                continue;
            }
            if let Some(delivery) = self.comment_is_gone(job).await? {
                found.push((job.created_at, delivery));
            }
        }
        Ok(found)
    }

    async fn issue_is_gone(&self, number: IssueNumber) -> Result<Option<&'static str>, Stopped> {
        self.calls.one()?;
        match self.client.issue(number).await {
            // A moved issue is shown where it is now.
            Ok(issue) if issue.number != number => Ok(Some("transferred")),
            Ok(_) => Ok(None),
            Err(GitHubError::NotFound { .. }) => Ok(Some("deleted")),
            Err(error) => Err(error.into()),
        }
    }

    /// Only work that has not begun stops with its comment.
    async fn comment_is_gone(&self, job: &Job) -> Result<Option<Result<Delivery, BadDelivery>>, Stopped> {
        let number = job.subject.number();
        let (JobState::Queued, Some(number)) = (job.state, number) else {
            return Ok(None);
        };
        let is_pull = matches!(job.subject, Subject::Pull(_));
        match job.request.trigger {
            Trigger::Comment { id } => {
                self.calls.one()?;
                let is_there = self.client.has_comment(id).await?;
                Ok((!is_there).then(|| self.rebuilder.comment_deleted(id, number, is_pull)))
            }
            Trigger::ReviewComment { id } => {
                self.calls.one()?;
                let is_there = self.client.has_review_comment(id).await?;
                Ok((!is_there).then(|| self.rebuilder.line_comment_deleted(id, number)))
            }
            _ => Ok(None),
        }
    }
}
