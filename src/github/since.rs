//! What changed in a repository since a time, page by page: issues, what happened to them, comments.
//! Called by `worker` to find what no webhook told. Each page is one call, so that the caller can count.
//! Never says that nothing changed unless GitHub does.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::client::Call;
use super::error::GitHubError;
use super::{Comment, Issue, IssueEvent, IssuePage, RepoClient, ReviewComment};
use crate::ids::{CommentId, IssueNumber};

/// The most that GitHub puts on a page.
const PER_PAGE: usize = 100;

/// Something that happened to one of a repository's issues.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RepoEvent {
    /// What happened.
    #[serde(flatten)]
    pub event: IssueEvent,
    /// The issue as it is now; gone with a deleted one.
    #[serde(default)]
    pub issue: Option<Issue>,
}

/// One page of what changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes<T> {
    /// In GitHub's order.
    pub items: Vec<T>,
    /// Whether there may be another page.
    pub is_full: bool,
}

/// Something said, and on which issue or pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said<T> {
    /// The issue or pull request.
    pub number: IssueNumber,
    /// The comment.
    pub comment: T,
}

#[derive(Deserialize)]
struct OnIssue {
    issue_url: String,
    #[serde(flatten)]
    comment: Comment,
}

#[derive(Deserialize)]
struct OnPull {
    pull_request_url: String,
    #[serde(flatten)]
    comment: ReviewComment,
}

impl RepoClient {
    /// Issues and pull requests, open or closed, that changed at or after `since`, the first change
    /// first; `None` when the page is as it was under `etag`.
    pub async fn changed_issues(
        &self,
        since: DateTime<Utc>,
        page: usize,
        etag: Option<&str>,
    ) -> Result<Option<IssuePage>, GitHubError> {
        let mut call = since_call(&self.path(&["issues"]), since, page);
        call.query.push(("state", "all".to_owned()));
        call.unless = etag.map(str::to_owned);
        let answer = self.send(&call).await?;
        if answer.is_unchanged {
            return Ok(None);
        }
        let issues: Vec<Issue> = answer.json(&call)?;
        let etag = answer.headers.get(reqwest::header::ETAG);
        Ok(Some(IssuePage {
            is_full: issues.len() >= PER_PAGE,
            issues,
            etag: etag.and_then(|etag| etag.to_str().ok()).map(str::to_owned),
        }))
    }

    /// `GET /issues/events`: what happened to issues and pull requests, the last first.
    pub async fn repo_events(&self, page: usize) -> Result<Changes<RepoEvent>, GitHubError> {
        let mut call = Call::get(&self.path(&["issues", "events"]));
        call.query.push(("per_page", PER_PAGE.to_string()));
        call.query.push(("page", page.to_string()));
        self.changes(&call).await
    }

    /// Comments on issues and pull requests that changed at or after `since`, the first change first.
    pub async fn comments_since(
        &self,
        since: DateTime<Utc>,
        page: usize,
    ) -> Result<Changes<Said<Comment>>, GitHubError> {
        let call = since_call(&self.path(&["issues", "comments"]), since, page);
        let found: Changes<OnIssue> = self.changes(&call).await?;
        Ok(said(found, |on| (number_in(&on.issue_url), on.comment)))
    }

    /// Comments on lines of pull requests that changed at or after `since`, the first change first.
    pub async fn review_comments_since(
        &self,
        since: DateTime<Utc>,
        page: usize,
    ) -> Result<Changes<Said<ReviewComment>>, GitHubError> {
        let call = since_call(&self.path(&["pulls", "comments"]), since, page);
        let found: Changes<OnPull> = self.changes(&call).await?;
        Ok(said(found, |on| (number_in(&on.pull_request_url), on.comment)))
    }

    /// Whether a comment is still there.
    pub async fn has_comment(&self, id: CommentId) -> Result<bool, GitHubError> {
        let id = id.to_string();
        self.is_there(&Call::get(&self.path(&["issues", "comments", &id])))
            .await
    }

    /// Whether a comment on a line is still there.
    pub async fn has_review_comment(&self, id: CommentId) -> Result<bool, GitHubError> {
        let id = id.to_string();
        self.is_there(&Call::get(&self.path(&["pulls", "comments", &id]))).await
    }

    async fn is_there(&self, call: &Call) -> Result<bool, GitHubError> {
        match self.send(call).await {
            Ok(_) => Ok(true),
            Err(GitHubError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn changes<T: DeserializeOwned>(&self, call: &Call) -> Result<Changes<T>, GitHubError> {
        let items: Vec<T> = self.send(call).await?.json(call)?;
        Ok(Changes {
            is_full: items.len() >= PER_PAGE,
            items,
        })
    }
}

fn since_call(path: &[&str], since: DateTime<Utc>, page: usize) -> Call {
    let mut call = Call::get(path);
    for (name, value) in [
        ("since", since.to_rfc3339_opts(SecondsFormat::Secs, true)),
        ("sort", "updated".to_owned()),
        ("direction", "asc".to_owned()),
        ("per_page", PER_PAGE.to_string()),
        ("page", page.to_string()),
    ] {
        call.query.push((name, value));
    }
    call
}

/// The number at the end of an issue's or pull request's address.
fn number_in(address: &str) -> Option<IssueNumber> {
    let (_, number) = address.rsplit_once('/')?;
    number.parse().ok().map(IssueNumber)
}

fn said<R, T>(found: Changes<R>, read: impl Fn(R) -> (Option<IssueNumber>, T)) -> Changes<Said<T>> {
    let on = |raw| {
        let (number, comment) = read(raw);
        number.map(|number| Said { number, comment })
    };
    Changes {
        is_full: found.is_full,
        items: found.items.into_iter().filter_map(on).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_stands_at_the_end_of_the_address() {
        for (address, expected) in [
            ("https://api.github.com/repos/o/r/issues/12", Some(12)),
            ("https://api.github.com/repos/o/r/pulls/7", Some(7)),
            ("https://api.github.com/repos/o/r/issues/", None),
            ("12", None),
        ] {
            assert_eq!(number_in(address), expected.map(IssueNumber), "{address}");
        }
    }
}
