//! Reviews of pull requests, replies in their threads, and who is asked to review. (The threads
//! themselves are in `threads`.) Called by `run` and `publish`. Never approves and never requests
//! changes: a review of ours is a comment.

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Value, json};

pub use crate::effect::Side;
use crate::ids::{CommentId, CommitSha, IssueNumber};

use super::client::Call;
use super::error::GitHubError;
use super::payload::null_is_default;
use super::{Account, RepoClient, ReviewComment};

/// A review as GitHub lists it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Review {
    /// Id.
    pub id: u64,
    /// Author; a deleted account is `None`.
    pub user: Option<Account>,
    /// Text; absent is empty.
    #[serde(default, deserialize_with = "null_is_default")]
    pub body: String,
    /// `COMMENTED`, `APPROVED`, `CHANGES_REQUESTED`, `DISMISSED`, `PENDING`.
    pub state: String,
    /// The commit it is about; `None` when that is gone.
    #[serde(default)]
    pub commit_id: Option<CommitSha>,
    /// When it was submitted; a pending one was not.
    #[serde(default)]
    pub submitted_at: Option<DateTime<Utc>>,
    /// Address on the pull request's page.
    #[serde(default)]
    pub html_url: String,
}

/// A comment on lines, to be posted with a review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReviewComment {
    /// File.
    pub path: String,
    /// Line; the last one of several.
    pub line: u64,
    /// Side of the line.
    pub side: Side,
    /// First line of several, on the same side.
    pub start_line: Option<u64>,
    /// Text.
    pub body: String,
}

/// A review to be posted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReview {
    /// The commit whose diff the lines belong to.
    pub commit_id: CommitSha,
    /// Text.
    pub body: String,
    /// Comments on lines.
    pub comments: Vec<NewReviewComment>,
}

impl NewReviewComment {
    fn json(&self) -> Value {
        let mut json = json!({ "path": self.path, "line": self.line, "side": self.side, "body": self.body });
        // One line that begins and ends at the same place is refused as a range.
        if let Some(start) = self.start_line.filter(|start| *start < self.line) {
            json["start_line"] = start.into();
            json["start_side"] = json["side"].clone();
        }
        json
    }
}

impl RepoClient {
    /// Reviews of a pull request, oldest first, at most `max`.
    pub async fn reviews(&self, number: IssueNumber, max: usize) -> Result<Vec<Review>, GitHubError> {
        let call = Call::get(&self.path(&["pulls", &number.to_string(), "reviews"]));
        self.list(call, max, |_| true).await
    }

    /// `POST /pulls/{number}/reviews` as a comment. One line that is not in the diff makes GitHub
    /// refuse all of it ([`GitHubError::is_bad_anchor`]); now and then the text alone was seen to
    /// stay, so look before a repeat. A repeat makes a second review.
    pub async fn create_review(&self, number: IssueNumber, new: &NewReview) -> Result<Review, GitHubError> {
        let body = json!({
            "commit_id": new.commit_id,
            "body": new.body,
            "event": "COMMENT",
            "comments": new.comments.iter().map(NewReviewComment::json).collect::<Vec<_>>(),
        });
        let call = Call::post(&self.path(&["pulls", &number.to_string(), "reviews"]), body);
        self.send(&call).await?.json(&call)
    }

    /// `PUT /pulls/{number}/reviews/{id}`: another text.
    pub async fn update_review(&self, number: IssueNumber, id: u64, body: &str) -> Result<(), GitHubError> {
        let path = ["pulls", &number.to_string(), "reviews", &id.to_string()];
        let call = Call::put(&self.path(&path), json!({ "body": body }));
        self.send(&call).await.map(drop)
    }

    /// `DELETE /pulls/comments/{id}`; that it is gone is fine.
    pub async fn delete_review_comment(&self, id: CommentId) -> Result<(), GitHubError> {
        let call = Call::delete(&self.path(&["pulls", "comments", &id.to_string()]));
        match self.send(&call).await {
            Err(GitHubError::NotFound { .. }) => Ok(()),
            sent => sent.map(drop),
        }
    }

    /// Replies in a thread. `root` is the thread's first comment: GitHub refuses a reply to a
    /// reply. A repeat makes a second reply.
    pub async fn reply_to_review_comment(
        &self,
        number: IssueNumber,
        root: CommentId,
        body: &str,
    ) -> Result<ReviewComment, GitHubError> {
        let (number, root) = (number.to_string(), root.to_string());
        let path = self.path(&["pulls", &number, "comments", &root, "replies"]);
        let call = Call::post(&path, json!({ "body": body }));
        self.send(&call).await?.json(&call)
    }

    /// `POST /pulls/{number}/requested_reviewers`, and gives those whom GitHub refuses: the
    /// author, and people who may not see the repository. They keep nobody else from being
    /// asked. That somebody was asked before is fine.
    pub async fn request_reviewers(&self, number: IssueNumber, logins: &[String]) -> Result<Vec<String>, GitHubError> {
        if logins.is_empty() {
            return Ok(Vec::new());
        }
        match self.ask_to_review(number, logins).await {
            Err(GitHubError::Rejected { .. }) => {}
            other => return other.map(|()| Vec::new()),
        }
        if logins.len() == 1 {
            return Ok(logins.to_vec());
        }
        // GitHub refuses the list as a whole and does not say for whose sake.
        let mut refused = Vec::new();
        for login in logins {
            match self.ask_to_review(number, std::slice::from_ref(login)).await {
                Err(GitHubError::Rejected { .. }) => refused.push(login.clone()),
                other => other?,
            }
        }
        Ok(refused)
    }

    async fn ask_to_review(&self, number: IssueNumber, logins: &[String]) -> Result<(), GitHubError> {
        let path = ["pulls", &number.to_string(), "requested_reviewers"];
        let call = Call::post(&self.path(&path), json!({ "reviewers": logins }));
        self.send(&call).await.map(drop)
    }
}
