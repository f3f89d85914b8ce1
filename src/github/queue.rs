//! Issues as a queue that is polled: lists that cost nothing while they do not change, who put an
//! issue where it is, who changed its text, and what a search selects. Called by `unattended`.
//! Never says that an issue is not selected: an answer that is not complete says so.

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::json;

use crate::ids::{IssueNumber, UserId};

use super::client::Call;
use super::error::GitHubError;
use super::graphql::Operation;
use super::payload::null_is_default;
use super::{Account, AppRef, Issue, Label, Milestone, Pull, RepoClient};

/// The most that GitHub puts on a page.
const PER_PAGE: usize = 100;

/// GitHub finds no more than a thousand.
const MAX_SEARCH_PAGES: usize = 10;

/// Far more than an issue ever has; with more it is not known what happened last.
const MAX_EVENTS: usize = 3_000;

/// Changes of one text that are looked at.
const MAX_EDITS: usize = 100;

const ISSUE_EDITS: Operation = Operation {
    name: "IssueEdits",
    text: "query IssueEdits($owner: String!, $name: String!, $number: Int!, $first: Int!) {
  repository(owner: $owner, name: $name) {
    issue(number: $number) {
      lastEditedAt
      userContentEdits(first: $first) {
        pageInfo { hasNextPage endCursor }
        nodes {
          editedAt
          editor {
            __typename
            login
            ... on User { databaseId }
            ... on Bot { databaseId }
            ... on Mannequin { databaseId }
            ... on Organization { databaseId }
          }
        }
      }
    }
  }
}",
};

/// What this file sends as GraphQL.
#[cfg(test)]
pub(super) const OPERATIONS: &[&Operation] = &[&ISSUE_EDITS];

/// Which open issues are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenIssues<'a> {
    /// Only those with this label.
    pub label: Option<&'a str>,
    /// Only those that have a milestone, whichever.
    pub has_milestone: bool,
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuePage {
    /// Issues and, as GitHub lists them together, pull requests; oldest first.
    pub issues: Vec<Issue>,
    /// What the next request for this page carries, so that an unchanged one costs nothing.
    pub etag: Option<String>,
    /// Whether there may be another page.
    pub is_full: bool,
}

/// Something that happened to an issue.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct IssueEvent {
    /// `labeled`, `milestoned`, `renamed` and many more.
    pub event: String,
    /// Who did it; a deleted account is `None`.
    #[serde(default)]
    pub actor: Option<Account>,
    /// The App through which it was done, where GitHub tells.
    #[serde(default)]
    pub performed_via_github_app: Option<AppRef>,
    /// When.
    pub created_at: DateTime<Utc>,
    /// The label that came or went.
    #[serde(default)]
    pub label: Option<Label>,
    /// The milestone that it came to or left.
    #[serde(default)]
    pub milestone: Option<Milestone>,
}

/// One change of an issue's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyEdit {
    /// When.
    pub at: DateTime<Utc>,
    /// Who; `None` for a deleted account.
    pub by: Option<UserId>,
}

/// Changes of an issue's body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BodyEdits {
    /// The last one.
    pub last_at: Option<DateTime<Utc>>,
    /// All of them, or the newest hundred.
    pub edits: Vec<BodyEdit>,
    /// Whether there are more.
    pub has_more: bool,
}

/// What a search selected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selected {
    /// Numbers and last changes, oldest issue first. The index lags: read each again.
    pub issues: Vec<(IssueNumber, DateTime<Utc>)>,
    /// Whether GitHub says that this is all.
    pub is_complete: bool,
}

impl RepoClient {
    /// One page of the open issues, from 1; `None` when it is as it was under `etag`.
    pub async fn open_issues(
        &self,
        which: OpenIssues<'_>,
        page: usize,
        etag: Option<&str>,
    ) -> Result<Option<IssuePage>, GitHubError> {
        let mut call = Call::get(&self.path(&["issues"]));
        for (name, value) in [("state", "open"), ("sort", "created"), ("direction", "asc")] {
            call.query.push((name, value.to_owned()));
        }
        call.query.extend(which.label.map(|label| ("labels", label.to_owned())));
        if which.has_milestone {
            call.query.push(("milestone", "*".to_owned()));
        }
        call.query.push(("per_page", PER_PAGE.to_string()));
        call.query.push(("page", page.to_string()));
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

    /// `GET /issues/{number}/events`, oldest first. `Unclear` when there are more than anybody reads:
    /// who looks for the last one must not be shown the first ones alone.
    pub async fn issue_events(&self, number: IssueNumber) -> Result<Vec<IssueEvent>, GitHubError> {
        let call = Call::get(&self.path(&["issues", &number.to_string(), "events"]));
        let what = call.what();
        let events = self.list(call, MAX_EVENTS + 1, |_| true).await?;
        if events.len() > MAX_EVENTS {
            let detail = format!("the issue has more than {MAX_EVENTS} events");
            return Err(GitHubError::Unclear { what, detail });
        }
        Ok(events)
    }

    /// When an issue's body was changed, and by whom: only GraphQL tells.
    pub async fn body_edits(&self, number: IssueNumber) -> Result<BodyEdits, GitHubError> {
        let variables = json!({
            "owner": self.name().owner(),
            "name": self.name().name(),
            "number": number,
            "first": MAX_EDITS,
        });
        let answer: Answer = self.query(&ISSUE_EDITS, variables).await?;
        let issue = answer.repository.and_then(|repository| repository.issue);
        let issue = issue.ok_or_else(|| GitHubError::NotFound {
            what: format!("issue {number} of {}", self.name()),
        })?;
        let Some(edits) = issue.user_content_edits else {
            // Whoever may not see the changes still sees that there was one.
            return Ok(BodyEdits {
                last_at: issue.last_edited_at,
                edits: Vec::new(),
                has_more: issue.last_edited_at.is_some(),
            });
        };
        let edit = |edit: Edit| BodyEdit {
            at: edit.edited_at,
            by: edit.editor.and_then(|editor| editor.database_id),
        };
        Ok(BodyEdits {
            last_at: issue.last_edited_at,
            edits: edits.nodes.into_iter().flatten().map(edit).collect(),
            has_more: edits.page_info.has_next_page,
        })
    }

    /// `GET /search/issues` in this repository with GitHub's own search words, oldest first.
    pub async fn select_issues(&self, query: &str) -> Result<Selected, GitHubError> {
        let mut selected = Selected {
            is_complete: true,
            ..Selected::default()
        };
        let home = format!("/repos/{}", self.name()).to_lowercase();
        for page in 1..=MAX_SEARCH_PAGES {
            let found = self.search_page(query, page, PER_PAGE).await?;
            let is_full = found.items.len() >= PER_PAGE;
            selected.is_complete &= !found.incomplete_results;
            // A qualifier that GitHub does not understand is ignored by it, so look again.
            let here = |item: &Found| item.repository_url.to_lowercase().ends_with(&home);
            let items = found.items.into_iter().filter(here);
            let issues = items.filter(|item| item.pull_request.is_none());
            selected
                .issues
                .extend(issues.map(|item| (item.number, item.updated_at)));
            if !is_full {
                return Ok(selected);
            }
        }
        selected.is_complete = false;
        Ok(selected)
    }

    /// How many open issues the repository has, pull requests not counted.
    pub async fn count_open_issues(&self) -> Result<u64, GitHubError> {
        Ok(self.search_page("is:issue is:open", 1, 1).await?.total_count)
    }

    async fn search_page(&self, query: &str, page: usize, per_page: usize) -> Result<Page, GitHubError> {
        let mut call = Call::get(&["search", "issues"]);
        let query = format!("repo:{} {query}", self.name());
        for (name, value) in [
            ("q", query),
            ("sort", "created".to_owned()),
            ("order", "asc".to_owned()),
            ("per_page", per_page.to_string()),
            ("page", page.to_string()),
        ] {
            call.query.push((name, value));
        }
        self.send(&call).await?.json(&call)
    }

    /// How many open pull requests an account has in this repository, at most `max`.
    pub async fn open_pulls_of(&self, login: &str, max: usize) -> Result<usize, GitHubError> {
        let mut call = Call::get(&self.path(&["pulls"]));
        call.query.push(("state", "open".to_owned()));
        let theirs = |pull: &Pull| pull.user.as_ref().is_some_and(|user| user.login == login);
        Ok(self.list(call, max, theirs).await?.len())
    }
}

#[derive(Deserialize)]
struct Page {
    total_count: u64,
    #[serde(default)]
    incomplete_results: bool,
    items: Vec<Found>,
}

#[derive(Deserialize)]
struct Found {
    number: IssueNumber,
    updated_at: DateTime<Utc>,
    #[serde(default)]
    pull_request: Option<serde_json::Value>,
    #[serde(default, deserialize_with = "null_is_default")]
    repository_url: String,
}

#[derive(Deserialize)]
struct Answer {
    repository: Option<Repository>,
}

#[derive(Deserialize)]
struct Repository {
    issue: Option<EditedIssue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EditedIssue {
    last_edited_at: Option<DateTime<Utc>>,
    user_content_edits: Option<Edits>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Edits {
    page_info: PageInfo,
    #[serde(default, deserialize_with = "null_is_default")]
    nodes: Vec<Option<Edit>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageInfo {
    has_next_page: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Edit {
    edited_at: DateTime<Utc>,
    editor: Option<Editor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Editor {
    #[serde(default)]
    database_id: Option<UserId>,
}
