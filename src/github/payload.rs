//! What GitHub tells us, as far as we need it: lenient structs that ignore additions and accept
//! the `null`s that GitHub really sends (deleted accounts, empty bodies, outdated lines).
//! Called by everything that talks about issues and pull requests. Never makes a call.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::ids::{AppId, BranchName, CommentId, CommitSha, IssueNumber, RepoId, RepoName, UserId};
use crate::secret::Secret;

/// What a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read contents, issues, pull requests.
    Read,
    /// Also write them. Only `publish` asks for this.
    Write,
}

/// A person's or bot's account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Numeric id.
    pub id: UserId,
    /// Login.
    pub login: String,
    /// `User`, `Bot`, `Organization`.
    #[serde(rename = "type", default)]
    pub kind: String,
}

/// A repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repository {
    /// Numeric id.
    pub id: RepoId,
    /// `owner/name`.
    pub full_name: RepoName,
    /// Default branch.
    pub default_branch: String,
    /// Whether it is private.
    #[serde(default)]
    pub private: bool,
    /// Whether it is read-only.
    #[serde(default)]
    pub archived: bool,
}

/// GitHub's opaque id of an object, which GraphQL wants.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub String);

impl std::fmt::Display for NodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// An issue, or the issue side of a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    /// GitHub's id of the object, which sub-issues are added by; 0 where it is not told.
    #[serde(default)]
    pub id: u64,
    /// Number.
    pub number: IssueNumber,
    /// Title.
    pub title: String,
    /// Body; absent is empty.
    #[serde(default, deserialize_with = "null_is_default")]
    pub body: String,
    /// `open` or `closed`.
    pub state: String,
    /// Author; a deleted account is `None`.
    pub user: Option<Account>,
    /// Labels.
    #[serde(default)]
    pub labels: Vec<Label>,
    /// Its milestone.
    #[serde(default)]
    pub milestone: Option<Milestone>,
    /// Present when it is a pull request.
    #[serde(default)]
    pub pull_request: Option<serde_json::Value>,
    /// Address of its page.
    #[serde(default)]
    pub html_url: String,
    /// The App that opened it, where GitHub tells.
    #[serde(default)]
    pub performed_via_github_app: Option<AppRef>,
    /// When it was opened, where that is told.
    #[serde(default)]
    pub created_at: Option<DateTime<Utc>>,
    /// Last change.
    pub updated_at: DateTime<Utc>,
}

/// A milestone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Milestone {
    /// Title.
    pub title: String,
}

/// A label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// Name.
    pub name: String,
}

/// A comment in a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comment {
    /// Id.
    pub id: CommentId,
    /// Text.
    #[serde(default, deserialize_with = "null_is_default")]
    pub body: String,
    /// Author; a deleted account is `None`.
    pub user: Option<Account>,
    /// When it was written.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
    /// The App that wrote it, where GitHub tells.
    #[serde(default)]
    pub performed_via_github_app: Option<AppRef>,
}

/// A comment on a line of a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewComment {
    /// Id.
    pub id: CommentId,
    /// Text.
    #[serde(default, deserialize_with = "null_is_default")]
    pub body: String,
    /// File.
    pub path: String,
    /// Line in the new file; `None` when the hunk is outdated.
    #[serde(default)]
    pub line: Option<u64>,
    /// Line when it was written.
    #[serde(default)]
    pub original_line: Option<u64>,
    /// The diff around it.
    #[serde(default)]
    pub diff_hunk: String,
    /// The review it belongs to.
    #[serde(default)]
    pub pull_request_review_id: Option<u64>,
    /// The comment it answers: the first of its thread.
    #[serde(default)]
    pub in_reply_to_id: Option<CommentId>,
    /// Address on the pull request's page.
    #[serde(default)]
    pub html_url: String,
    /// Author.
    pub user: Option<Account>,
    /// When it was written.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// A reference to an App.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppRef {
    /// Its id.
    pub id: AppId,
}

/// One end of a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullEnd {
    /// Branch.
    #[serde(rename = "ref")]
    pub branch: String,
    /// Commit.
    pub sha: CommitSha,
    /// Repository; `None` when a fork was deleted.
    pub repo: Option<PullRepo>,
}

/// The repository of one end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRepo {
    /// Numeric id.
    pub id: RepoId,
    /// `owner/name`.
    pub full_name: RepoName,
}

/// A pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pull {
    /// Number.
    pub number: IssueNumber,
    /// Title.
    pub title: String,
    /// Body.
    #[serde(default, deserialize_with = "null_is_default")]
    pub body: String,
    /// `open` or `closed`.
    pub state: String,
    /// Whether it is merged (only told for a single pull request).
    #[serde(default)]
    pub merged: bool,
    /// Whether it is a draft.
    #[serde(default)]
    pub draft: bool,
    /// Where the changes are.
    pub head: PullEnd,
    /// Where they shall go.
    pub base: PullEnd,
    /// Author.
    pub user: Option<Account>,
    /// Address of its page.
    #[serde(default)]
    pub html_url: String,
    /// Its id for [`super::RepoClient::mark_ready`] and its opposite.
    pub node_id: NodeId,
    /// Whether it can be merged; `None` while GitHub does not know, and in lists.
    #[serde(default)]
    pub mergeable: Option<bool>,
    /// `clean`, `dirty`, `blocked`, `behind`, `unstable`, `draft`, `unknown`; empty in lists.
    #[serde(default, deserialize_with = "null_is_default")]
    pub mergeable_state: String,
    /// Whether people with write access to the base may push to the head of a fork.
    #[serde(default, deserialize_with = "null_is_default")]
    pub maintainer_can_modify: bool,
    /// When it was merged.
    #[serde(default)]
    pub merged_at: Option<DateTime<Utc>>,
    /// Whose review is asked for and not given yet.
    #[serde(default)]
    pub requested_reviewers: Vec<Account>,
    /// Labels.
    #[serde(default)]
    pub labels: Vec<Label>,
    /// Number of commits, told only for a single pull request.
    #[serde(default)]
    pub commits: Option<u64>,
    /// Number of changed files, told only for a single pull request.
    #[serde(default)]
    pub changed_files: Option<u64>,
}

/// A pull request to be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPull {
    /// Branch of the same repository.
    pub head: BranchName,
    /// Target branch.
    pub base: BranchName,
    /// Title.
    pub title: String,
    /// Body.
    pub body: String,
    /// As a draft.
    pub draft: bool,
}

/// What a person may do in a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    /// Nothing.
    None,
    /// Read.
    Read,
    /// Triage.
    Triage,
    /// Write.
    Write,
    /// Maintain.
    Maintain,
    /// Administer.
    Admin,
}

/// The answer of the collaborator-permission API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collaborator {
    /// The account that GitHub found under the login; compare its id.
    pub account: Account,
    /// What it may do.
    pub permission: Permission,
    /// The role's name as GitHub spells it.
    pub role: String,
}

/// The App itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct App {
    /// Its id.
    pub id: AppId,
    /// Its slug; the bot's login is `<slug>[bot]`.
    pub slug: String,
    /// Its name.
    pub name: String,
    /// Address of its page.
    #[serde(default)]
    pub html_url: String,
}

/// What the manifest flow returns once.
#[derive(Debug, Clone, Deserialize)]
pub struct AppCredentials {
    /// The App's id.
    pub id: AppId,
    /// Its slug.
    pub slug: String,
    /// Private key, PEM.
    pub pem: Secret,
    /// Webhook secret.
    pub webhook_secret: Secret,
    /// Address of its page.
    pub html_url: String,
}

/// Reads `null` as the default value.
pub(super) fn null_is_default<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
