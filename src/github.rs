//! GitHub's REST API as an App uses it: who we are, tokens narrowed to one repository, issues,
//! comments, pull requests. Called by `run`, `publish` and `app`. Hand-written on `reqwest`
//! rather than octocrab, because effects need to know whether a request was sent, must never be
//! repeated behind our back, and because closed enums and strict structs turn GitHub's additions
//! into errors. Never retries a write, never decides whether something may be written.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::config::GitHubConfig;
use crate::effect::ReactionTarget;
use crate::ids::{AppId, BranchName, CommentId, CommitSha, InstallationId, IssueNumber, RepoId, RepoName, UserId};
use crate::secret::{Redactor, Secret};

/// Why GitHub did not do it, named by what the caller can do.
#[derive(Debug, Clone, thiserror::Error)]
pub enum GitHubError {
    /// The object does not exist, or we may not know that it does (404, 410).
    #[error("GitHub does not find {what}")]
    NotFound {
        /// Method and path.
        what: String,
    },
    /// Our credentials are refused (401), also after a fresh token.
    #[error("GitHub refuses our credentials for {what}: {detail}")]
    Unauthorized {
        /// Method and path.
        what: String,
        /// GitHub's words.
        detail: String,
    },
    /// We lack a permission (403 without a rate limit).
    #[error("GitHub forbids {what}: {detail}")]
    Forbidden {
        /// Method and path.
        what: String,
        /// GitHub's words.
        detail: String,
    },
    /// Wait until then; costs no attempt.
    #[error("GitHub limits our rate until {until}")]
    RateLimited {
        /// When to try again.
        until: DateTime<Utc>,
    },
    /// It already exists or conflicts (409, 422 "already exists"): look it up.
    #[error("GitHub reports a conflict for {what}: {detail}")]
    Conflict {
        /// Method and path.
        what: String,
        /// GitHub's words.
        detail: String,
    },
    /// It will never be accepted like this (other 4xx).
    #[error("GitHub rejects {what}: {detail}")]
    Rejected {
        /// Method and path.
        what: String,
        /// GitHub's words.
        detail: String,
    },
    /// Nothing was sent: the connection failed first. Safe to try again.
    #[error("GitHub cannot be reached: {detail}")]
    Unreachable {
        /// The reason.
        detail: String,
    },
    /// It was sent and the outcome is unknown (timeout, reset, 5xx, an answer that does not parse).
    #[error("GitHub did not answer clearly to {what}: {detail}")]
    Unclear {
        /// Method and path.
        what: String,
        /// The reason.
        detail: String,
    },
}

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

/// An issue, or the issue side of a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
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
    /// Present when it is a pull request.
    #[serde(default)]
    pub pull_request: Option<serde_json::Value>,
    /// Last change.
    pub updated_at: DateTime<Utc>,
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
    /// Author.
    pub user: Option<Account>,
    /// When it was written.
    pub created_at: DateTime<Utc>,
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

/// The App's view of GitHub. Cheap to clone; tokens are cached inside.
#[derive(Clone)]
pub struct GitHub {
    _todo: (),
}

/// One repository through one installation.
#[derive(Clone)]
pub struct RepoClient {
    _todo: (),
}

#[allow(unused_variables, clippy::todo, missing_docs)]
impl GitHub {
    /// Reads the key and prepares the connection; no call is made.
    pub fn new(config: &GitHubConfig, clock: Clock, redactor: Redactor) -> anyhow::Result<Self> {
        todo!()
    }

    /// `GET /app`.
    pub async fn app(&self) -> Result<App, GitHubError> {
        todo!()
    }

    /// `GET /repos/{owner}/{repo}/installation`.
    pub async fn installation_of(&self, repo: &RepoName) -> Result<InstallationId, GitHubError> {
        todo!()
    }

    /// A client for one repository. Tokens are minted when first used, for this repository id and
    /// this access only, and renewed ten minutes before they end.
    pub fn repo(&self, installation: InstallationId, id: RepoId, name: RepoName, access: Access) -> RepoClient {
        todo!()
    }

    /// `POST /app-manifests/{code}/conversions`; needs no credentials.
    pub async fn convert_manifest(config: &GitHubConfig, code: &str) -> Result<AppCredentials, GitHubError> {
        todo!()
    }
}

#[allow(unused_variables, clippy::todo, missing_docs)]
impl RepoClient {
    pub fn name(&self) -> &RepoName {
        todo!()
    }
    pub async fn repository(&self) -> Result<Repository, GitHubError> {
        todo!()
    }
    /// `GET /collaborators/{login}/permission`.
    pub async fn permission(&self, login: &str) -> Result<Collaborator, GitHubError> {
        todo!()
    }
    pub async fn issue(&self, number: IssueNumber) -> Result<Issue, GitHubError> {
        todo!()
    }
    /// All comments, oldest first, at most `max`, optionally changed since a time.
    pub async fn comments(
        &self,
        number: IssueNumber,
        since: Option<DateTime<Utc>>,
        max: usize,
    ) -> Result<Vec<Comment>, GitHubError> {
        todo!()
    }
    pub async fn create_comment(&self, number: IssueNumber, body: &str) -> Result<Comment, GitHubError> {
        todo!()
    }
    pub async fn update_comment(&self, id: CommentId, body: &str) -> Result<Comment, GitHubError> {
        todo!()
    }
    pub async fn delete_comment(&self, id: CommentId) -> Result<(), GitHubError> {
        todo!()
    }
    pub async fn react(&self, target: ReactionTarget, content: &str) -> Result<(), GitHubError> {
        todo!()
    }
    /// Removes a label; that it was not there is fine.
    pub async fn remove_label(&self, number: IssueNumber, label: &str) -> Result<(), GitHubError> {
        todo!()
    }
    pub async fn pull(&self, number: IssueNumber) -> Result<Pull, GitHubError> {
        todo!()
    }
    /// All pull requests, open or closed, whose head is this branch of this repository.
    pub async fn pulls_by_head(&self, branch: &BranchName) -> Result<Vec<Pull>, GitHubError> {
        todo!()
    }
    pub async fn create_pull(&self, new: &NewPull) -> Result<Pull, GitHubError> {
        todo!()
    }
    /// Review comments of a pull request, oldest first, at most `max`.
    pub async fn review_comments(&self, number: IssueNumber, max: usize) -> Result<Vec<ReviewComment>, GitHubError> {
        todo!()
    }
    /// `GET /git/ref/heads/{branch}`; `None` when there is none.
    pub async fn branch_sha(&self, branch: &BranchName) -> Result<Option<CommitSha>, GitHubError> {
        todo!()
    }
    /// The token for git, minted or cached.
    pub async fn git_token(&self) -> Result<Secret, GitHubError> {
        todo!()
    }
    /// Address of the repository for git, `https://HOST/owner/name.git`.
    pub fn git_url(&self) -> String {
        todo!()
    }
}

/// Reads `null` as the default value.
fn null_is_default<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
