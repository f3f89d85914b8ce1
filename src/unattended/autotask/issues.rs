//! The queue of GitHub's issues: by label, milestone and search words together. Lists are conditional
//! requests, each page with its own mark; what a search finds is read again, because its index lags.
//! Never takes a part of a list for the whole.

use async_trait::async_trait;

use super::asker::{Listeners, unchanged_since};
use super::source::{Asked, Item, Listed, Listing, QueueSource, SourceError};
use crate::config::AutotaskConfig;
use crate::github::{Access, GitHub, GitHubError, Issue, IssueEvent, OpenIssues, RepoClient};
use crate::ids::IssueNumber;
use crate::job::Pins;
use crate::store::RepoRow;

/// A queue is worked on oldest first; what stands behind a thousand issues waits.
const MAX_PAGES: usize = 10;

/// Lists of the search's index that lack an issue, before it counts as gone.
const INDEX_PATIENCE: u32 = 3;

/// Issues of repositories on GitHub.
pub struct GitHubIssues {
    github: GitHub,
    name: String,
    label: Option<String>,
    milestone: Option<String>,
    /// Whether the search selects, and not the list of issues.
    by_search: bool,
    listeners: Listeners,
}

impl GitHubIssues {
    /// The queue of a configuration.
    pub fn new(github: GitHub, config: &AutotaskConfig, listeners: Listeners) -> Self {
        Self {
            github,
            name: config.effective_query(),
            label: config.label.clone(),
            milestone: config.milestone.clone(),
            by_search: config.query.is_some(),
            listeners,
        }
    }

    fn client(&self, repo: &RepoRow) -> RepoClient {
        self.github
            .repo(repo.installation, repo.id, repo.name.clone(), Access::Read)
    }

    /// As far as the issue itself tells.
    fn selects(&self, issue: &Issue) -> bool {
        let is_labelled = |wanted: &String| issue.labels.iter().any(|label| same(&label.name, wanted));
        let is_of = |wanted: &String| issue.milestone.as_ref().is_some_and(|it| same(&it.title, wanted));
        issue.pull_request.is_none()
            && issue.state == "open"
            && self.label.as_ref().is_none_or(is_labelled)
            && self.milestone.as_ref().is_none_or(is_of)
    }

    /// The issue, where it is in this repository and belongs to the queue.
    async fn selected(&self, client: &RepoClient, number: IssueNumber) -> Result<Option<Issue>, SourceError> {
        match client.issue(number).await {
            // One that was moved leads to another repository, where it has another number.
            Ok(issue) => Ok(Some(issue).filter(|issue| issue.number == number && self.selects(issue))),
            Err(GitHubError::NotFound { .. }) => {
                // The issue is gone; a repository that is gone is another matter.
                client.repository().await?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn asked(&self, client: &RepoClient, issue: &Issue) -> Result<Asked, SourceError> {
        let (event, wanted, what, again) = match (&self.label, &self.milestone) {
            (Some(label), _) => ("labeled", label, "put the label on", "put the label on again"),
            (None, Some(title)) => (
                "milestoned",
                title,
                "put it into the milestone",
                "take it out of the milestone and put it there again",
            ),
            (None, None) => return Ok(self.listeners.author(issue)),
        };
        let events = client.issue_events(issue.number).await?;
        let came = |it: &IssueEvent| {
            let of_label = it.label.as_ref().is_some_and(|label| same(&label.name, wanted));
            let of_milestone = it
                .milestone
                .as_ref()
                .is_some_and(|milestone| same(&milestone.title, wanted));
            it.event == event && (of_label || of_milestone)
        };
        let asked = self.listeners.putter(&events, came, what);
        if !matches!(asked, Asked::By { .. }) {
            return Ok(asked);
        }
        let edits = client.body_edits(issue.number).await?;
        Ok(unchanged_since(asked, &events, &edits, again))
    }

    /// The list page by page, each under its mark: a change on a later page does not show on the
    /// first one.
    async fn list_pages(&self, client: &RepoClient, mark: &[String]) -> Result<Listing, SourceError> {
        let which = OpenIssues {
            label: self.label.as_deref(),
            has_milestone: self.milestone.is_some(),
        };
        if !mark.is_empty() && self.is_unchanged(client, which, mark).await? {
            return Ok(Listing::Unchanged);
        }
        let (mut items, mut marks) = (Vec::new(), Vec::new());
        for page in 1..=MAX_PAGES {
            let read = client.open_issues(which, page, None).await?;
            let read = read.ok_or_else(|| SourceError::Failed("GitHub answered what was not asked".to_owned()))?;
            let selected = read.issues.iter().filter(|issue| self.selects(issue));
            items.extend(selected.map(|issue| Listed {
                number: issue.number,
                changed_at: issue.updated_at,
            }));
            marks.push(read.etag.unwrap_or_default());
            if !read.is_full {
                return Ok(Listing::Read {
                    items,
                    // Without a mark for each page nothing can be asked conditionally.
                    mark: if marks.iter().any(String::is_empty) {
                        Vec::new()
                    } else {
                        marks
                    },
                    is_complete: true,
                });
            }
        }
        Ok(Listing::Read {
            items,
            mark: Vec::new(),
            is_complete: false,
        })
    }

    async fn is_unchanged(
        &self,
        client: &RepoClient,
        which: OpenIssues<'_>,
        mark: &[String],
    ) -> Result<bool, SourceError> {
        for (at, etag) in mark.iter().enumerate() {
            if client.open_issues(which, at + 1, Some(etag)).await?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[async_trait]
impl QueueSource for GitHubIssues {
    fn name(&self) -> &str {
        &self.name
    }

    fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    fn patience(&self) -> u32 {
        if self.by_search { INDEX_PATIENCE } else { 1 }
    }

    async fn list(&self, repo: &RepoRow, mark: &[String]) -> Result<Listing, SourceError> {
        let client = self.client(repo);
        if !self.by_search {
            return self.list_pages(&client, mark).await;
        }
        let selected = client.select_issues(&self.name).await?;
        let listed = |(number, changed_at)| Listed { number, changed_at };
        Ok(Listing::Read {
            items: selected.issues.into_iter().map(listed).collect(),
            mark: Vec::new(),
            is_complete: selected.is_complete,
        })
    }

    async fn item(&self, repo: &RepoRow, number: IssueNumber) -> Result<Option<Item>, SourceError> {
        let client = self.client(repo);
        let Some(issue) = self.selected(&client, number).await? else {
            return Ok(None);
        };
        let asked = self.asked(&client, &issue).await?;
        Ok(Some(Item {
            changed_at: issue.updated_at,
            pins: Pins {
                title: Some(issue.title),
                body: Some(issue.body),
                head_sha: None,
                author: issue.user.map(|user| user.login),
                suite: None,
            },
            asked,
        }))
    }

    async fn belongs(&self, repo: &RepoRow, number: IssueNumber) -> Result<bool, SourceError> {
        Ok(self.selected(&self.client(repo), number).await?.is_some())
    }

    async fn open_items(&self, repo: &RepoRow) -> Result<u32, SourceError> {
        let open = self.client(repo).count_open_issues().await?;
        Ok(u32::try_from(open).unwrap_or(u32::MAX))
    }

    async fn open_pulls(&self, repo: &RepoRow, max: u32) -> Result<u32, SourceError> {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let open = self.client(repo).open_pulls_of(&self.listeners.bot_login, max).await?;
        Ok(u32::try_from(open).unwrap_or(u32::MAX))
    }
}

/// GitHub compares names of labels and titles of milestones without case.
fn same(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

impl From<GitHubError> for SourceError {
    fn from(error: GitHubError) -> Self {
        match error {
            GitHubError::RateLimited { until, .. } | GitHubError::Held { until, .. } => Self::Wait {
                until,
                detail: error.to_string(),
            },
            error => Self::Failed(error.to_string()),
        }
    }
}
