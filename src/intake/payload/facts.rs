//! The parts of webhook bodies that triage looks at. Unknown fields are passed over, deleted
//! accounts and absent texts are no errors. Never holds a text with a NUL.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::ids::{AppId, CommentId, CommitSha, IssueNumber, RepoId, RepoName, UserId};

/// A repository as a delivery names it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Repo {
    /// Numeric id.
    pub id: RepoId,
    /// `owner/name`.
    #[serde(rename = "full_name")]
    pub name: RepoName,
}

/// An account as a delivery names it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Sender {
    /// Numeric id.
    pub id: UserId,
    /// Login.
    #[serde(default, deserialize_with = "text")]
    pub login: String,
    /// `User`, `Bot`, `Organization`, …
    #[serde(rename = "type", default, deserialize_with = "text")]
    pub kind: String,
}

/// An issue, or the issue side of a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct IssueFacts {
    /// Number.
    pub number: IssueNumber,
    /// Title.
    #[serde(default, deserialize_with = "text")]
    pub title: String,
    /// Body; null is empty.
    #[serde(default, deserialize_with = "text")]
    pub body: String,
    /// `open` or `closed`.
    #[serde(default, deserialize_with = "text")]
    pub state: String,
    /// Author; `None` for a deleted account.
    #[serde(default)]
    pub user: Option<Sender>,
    /// Last change, by GitHub's clock.
    #[serde(default, deserialize_with = "instant")]
    pub updated_at: Option<DateTime<Utc>>,
    /// Present when the issue is a pull request.
    #[serde(default)]
    pull_request: Option<Value>,
}

impl IssueFacts {
    /// Whether it is the issue side of a pull request.
    pub fn is_pull(&self) -> bool {
        self.pull_request.is_some()
    }
}

/// A pull request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PullFacts {
    /// Number.
    pub number: IssueNumber,
    /// Title.
    #[serde(default, deserialize_with = "text")]
    pub title: String,
    /// Body; null is empty.
    #[serde(default, deserialize_with = "text")]
    pub body: String,
    /// `open` or `closed`.
    #[serde(default, deserialize_with = "text")]
    pub state: String,
    /// Author; `None` for a deleted account.
    #[serde(default)]
    pub user: Option<Sender>,
    /// Last change, by GitHub's clock.
    #[serde(default, deserialize_with = "instant")]
    pub updated_at: Option<DateTime<Utc>>,
    /// Where its changes are.
    #[serde(default)]
    head: Option<Head>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Head {
    sha: CommitSha,
}

impl PullFacts {
    /// Its head commit, where the delivery tells it.
    pub fn head_sha(&self) -> Option<CommitSha> {
        self.head.as_ref().map(|head| head.sha.clone())
    }
}

/// A comment in a conversation or on a line.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct CommentFacts {
    /// Id.
    pub id: CommentId,
    /// Text.
    #[serde(default, deserialize_with = "text")]
    pub body: String,
    /// When it was written, by GitHub's clock.
    #[serde(default, deserialize_with = "instant")]
    pub created_at: Option<DateTime<Utc>>,
    /// When it was last changed.
    #[serde(default, deserialize_with = "instant")]
    pub updated_at: Option<DateTime<Utc>>,
    /// The App that wrote it, where GitHub tells.
    #[serde(default)]
    performed_via_github_app: Option<AppFacts>,
    /// The review that a comment on a line belongs to.
    #[serde(default, rename = "pull_request_review_id")]
    pub review_id: Option<u64>,
}

impl CommentFacts {
    /// The App through which it was written.
    pub fn app(&self) -> Option<AppId> {
        self.performed_via_github_app.as_ref().map(|app| app.id)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct AppFacts {
    id: AppId,
}

/// A review of a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ReviewFacts {
    /// Id.
    pub id: u64,
    /// Text; null is empty.
    #[serde(default, deserialize_with = "text")]
    pub body: String,
    /// When it was submitted, by GitHub's clock.
    #[serde(default, deserialize_with = "instant")]
    pub submitted_at: Option<DateTime<Utc>>,
}

/// What a check run, a check suite or a commit status says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct CheckFacts {
    #[serde(default, deserialize_with = "text")]
    head_sha: String,
    /// The conclusion of a check, the state of a status; empty while there is none.
    #[serde(default, rename = "conclusion", deserialize_with = "text")]
    pub result: String,
    #[serde(default)]
    app: Option<AppFacts>,
}

impl CheckFacts {
    /// A commit status, whose facts stand in the body itself.
    pub(super) fn of_status(fields: &Map<String, Value>) -> Self {
        let word = |name: &str| fields.get(name).and_then(Value::as_str).map(clean).unwrap_or_default();
        Self {
            head_sha: word("sha"),
            result: word("state"),
            app: None,
        }
    }

    /// The commit, where it is named as one.
    pub fn head_sha(&self) -> Option<CommitSha> {
        self.head_sha.parse().ok()
    }

    /// The App that says it; a status does not tell.
    pub fn app(&self) -> Option<AppId> {
        self.app.as_ref().map(|app| app.id)
    }
}

/// Text; null is empty. PostgreSQL cannot store a NUL, so it becomes a replacement character.
pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?
        .map(|text| clean(&text))
        .unwrap_or_default())
}

pub(super) fn clean(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// A time as GitHub writes it; anything else is no time.
fn instant<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DateTime<Utc>>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(value
        .as_str()
        .and_then(|text| DateTime::parse_from_rfc3339(text).ok())
        .map(|time| time.to_utc()))
}
