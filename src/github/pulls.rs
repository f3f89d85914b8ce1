//! Pull requests, their review comments, and where branches point. Called by `run` and
//! `publish`. Never pushes: that is `git`. Never merges.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Deserialize;
use serde_json::json;

use crate::ids::{BranchName, CommitSha, IssueNumber};

use super::client::Call;
use super::error::GitHubError;
use super::graphql::Operation;
use super::{NewPull, NodeId, Pull, RepoClient, ReviewComment};

/// A branch of ours has one pull request, rarely a few closed ones before it.
const MAX_PULLS_OF_A_BRANCH: usize = 1_000;

/// The convention of a repository's titles shows in its last closed pull requests; one page.
const CLOSED_PULLS_LOOKED_AT: usize = 100;

const MARK_READY: Operation = Operation {
    name: "MarkReady",
    text: "mutation MarkReady($pull: ID!) {
  markPullRequestReadyForReview(input: { pullRequestId: $pull }) {
    pullRequest { id isDraft }
  }
}",
};

/// What this file sends as GraphQL.
#[cfg(test)]
pub(super) const OPERATIONS: &[&Operation] = &[&MARK_READY];

impl RepoClient {
    /// `GET /pulls/{number}`.
    pub async fn pull(&self, number: IssueNumber) -> Result<Pull, GitHubError> {
        let call = Call::get(&self.path(&["pulls", &number.to_string()]));
        self.send(&call).await?.json(&call)
    }

    /// All pull requests, open or closed, whose head is this branch of this repository.
    pub async fn pulls_by_head(&self, branch: &BranchName) -> Result<Vec<Pull>, GitHubError> {
        let mut call = Call::get(&self.path(&["pulls"]));
        call.query.push(("head", format!("{}:{branch}", self.name.owner())));
        call.query.push(("state", "all".to_owned()));
        let repo = self.scope.repo;
        // A filter that GitHub does not understand is ignored by it, so look again.
        let ours = |pull: &Pull| {
            pull.head.branch == branch.as_str() && pull.head.repo.as_ref().is_some_and(|head| head.id == repo)
        };
        self.list(call, MAX_PULLS_OF_A_BRANCH, ours).await
    }

    /// `POST /pulls`. `Conflict` while an open one has the same head and base.
    pub async fn create_pull(&self, new: &NewPull) -> Result<Pull, GitHubError> {
        let body = json!({
            "head": new.head,
            "base": new.base,
            "title": new.title,
            "body": new.body,
            "draft": new.draft,
        });
        let call = Call::post(&self.path(&["pulls"]), body);
        self.send(&call).await?.json(&call)
    }

    /// Takes a pull request ([`Pull::node_id`]) out of draft. Ask only for a draft: GitHub may
    /// refuse what is ready already.
    pub async fn mark_ready(&self, pull: &NodeId) -> Result<(), GitHubError> {
        self.mutate(&MARK_READY, json!({ "pull": pull })).await
    }

    /// Titles of the last merged pull requests into a branch, the last one first, at most `max`
    /// and only those among the last hundred that were closed.
    pub async fn merged_titles(&self, base: &BranchName, max: usize) -> Result<Vec<String>, GitHubError> {
        let mut call = Call::get(&self.path(&["pulls"]));
        for (name, value) in [
            ("state", "closed"),
            ("base", base.as_str()),
            ("sort", "updated"),
            ("direction", "desc"),
        ] {
            call.query.push((name, value.to_owned()));
        }
        let closed: Vec<Pull> = self.list(call, CLOSED_PULLS_LOOKED_AT, |_| true).await?;
        let mut merged: Vec<Pull> = closed
            .into_iter()
            .filter(|pull| pull.merged_at.is_some() && pull.base.branch == base.as_str())
            .collect();
        merged.sort_by_key(|pull| std::cmp::Reverse(pull.merged_at));
        Ok(merged.into_iter().take(max).map(|pull| pull.title).collect())
    }

    /// Review comments of a pull request, oldest first, at most `max`, optionally changed since a
    /// time.
    pub async fn review_comments(
        &self,
        number: IssueNumber,
        since: Option<DateTime<Utc>>,
        max: usize,
    ) -> Result<Vec<ReviewComment>, GitHubError> {
        let mut call = Call::get(&self.path(&["pulls", &number.to_string(), "comments"]));
        if let Some(since) = since {
            let text = since.to_rfc3339_opts(SecondsFormat::Secs, true);
            call.query.push(("since", text));
        }
        self.list(call, max, |_| true).await
    }

    /// `GET /git/ref/heads/{branch}`; `None` when there is none.
    pub async fn branch_sha(&self, branch: &BranchName) -> Result<Option<CommitSha>, GitHubError> {
        #[derive(Deserialize)]
        struct Ref {
            object: Object,
        }
        #[derive(Deserialize)]
        struct Object {
            sha: CommitSha,
        }
        let mut path = self.path(&["git", "ref", "heads"]);
        path.extend(branch.as_str().split('/'));
        let call = Call::get(&path);
        match self.send(&call).await {
            Ok(answer) => answer.json(&call).map(|found: Ref| Some(found.object.sha)),
            // 409 is a repository without any commit.
            Err(GitHubError::NotFound { .. } | GitHubError::Conflict { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
