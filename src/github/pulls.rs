//! Pull requests, their review comments, and where branches point. Called by `run` and
//! `publish`. Never pushes: that is `git`.

use serde::Deserialize;
use serde_json::json;

use crate::ids::{BranchName, CommitSha, IssueNumber};

use super::client::Call;
use super::error::GitHubError;
use super::{NewPull, Pull, RepoClient, ReviewComment};

/// A branch of ours has one pull request, rarely a few closed ones before it.
const MAX_PULLS_OF_A_BRANCH: usize = 1_000;

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

    /// Review comments of a pull request, oldest first, at most `max`.
    pub async fn review_comments(&self, number: IssueNumber, max: usize) -> Result<Vec<ReviewComment>, GitHubError> {
        let call = Call::get(&self.path(&["pulls", &number.to_string(), "comments"]));
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
