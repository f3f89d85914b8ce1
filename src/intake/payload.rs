//! Reads a webhook call into a [`Delivery`]: only the fields that triage needs, from structs that
//! tolerate what GitHub adds, leaves out or sets to null. The event's name comes from an unsigned
//! header, so the body's shape must agree with it.
//! Never judges what a delivery means and never trusts a header beyond its grammar.

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::ids::{CommentId, InstallationId, IssueNumber, RepoId};
use crate::store::label_key;

mod facts;
use facts::clean;
pub use facts::{CheckFacts, CommentFacts, IssueFacts, PullFacts, Repo, ReviewFacts, Sender};

/// Why a call with a good signature is not a delivery.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadDelivery {
    /// A header is missing or malformed.
    #[error("the header {0} is missing or malformed")]
    Header(&'static str),
    /// The body is not JSON that can be held in memory safely.
    #[error("the body is not JSON: {0}")]
    NotJson(String),
    /// The body is not one of this event.
    #[error("the body is not that of the event `{event}`: {problem}")]
    WrongShape {
        /// The event's name.
        event: String,
        /// What does not agree.
        problem: String,
    },
}

/// One incoming webhook call.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// GitHub's GUID of the call; a redelivery repeats it.
    pub guid: String,
    /// Event name, from the header.
    pub event: String,
    /// Action, empty when the event has none.
    pub action: String,
    /// When it arrived.
    pub received_at: DateTime<Utc>,
    /// SHA-256 of the body, hex.
    pub body_sha256: String,
    /// The body as it came.
    pub body: String,
    /// The repository it speaks of.
    pub repo: Option<Repo>,
    /// The installation through which the App hears of it.
    pub installation: Option<InstallationId>,
    /// Who did it; `None` for a deleted account.
    pub sender: Option<Sender>,
    /// What happened.
    pub payload: Payload,
}

/// What happened, by event. Events that nothing is made of are `Other`.
#[derive(Debug, Clone, PartialEq)]
pub enum Payload {
    /// GitHub asks whether anybody is there.
    Ping,
    /// `issues`
    Issue {
        /// The issue.
        issue: IssueFacts,
        /// The label that was added or removed.
        label: Option<String>,
    },
    /// `issue_comment`
    IssueComment {
        /// The issue or pull request.
        issue: IssueFacts,
        /// The comment.
        comment: CommentFacts,
    },
    /// `pull_request`
    Pull {
        /// The pull request.
        pull: PullFacts,
    },
    /// `pull_request_review`
    Review {
        /// The pull request.
        pull: PullFacts,
        /// The review.
        review: ReviewFacts,
    },
    /// `pull_request_review_comment`
    ReviewComment {
        /// The pull request.
        pull: PullFacts,
        /// The comment.
        comment: CommentFacts,
    },
    /// `installation`: the App was installed, removed, suspended, ….
    Installation {
        /// The repositories it names; GitHub leaves them out of some actions.
        repos: Vec<Repo>,
    },
    /// `installation_repositories`
    InstallationRepos {
        /// Repositories that came.
        added: Vec<Repo>,
        /// Repositories that went.
        removed: Vec<Repo>,
    },
    /// `repository`: renamed, transferred, deleted, ….
    Repository,
    /// `check_run`, `check_suite` or `status`: what somebody says about a commit.
    Check {
        /// What is said.
        check: CheckFacts,
    },
    /// Anything else.
    Other,
}

impl Delivery {
    /// Reads a call whose signature has been verified.
    ///
    /// # Errors
    /// When a header has the wrong form, or the body is not JSON or not of that event.
    pub fn parse(guid: &str, event: &str, body: Vec<u8>, received_at: DateTime<Utc>) -> Result<Self, BadDelivery> {
        let guid_ok = (1..=100).contains(&guid.len()) && guid.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !guid_ok {
            return Err(BadDelivery::Header("X-GitHub-Delivery"));
        }
        let event_ok = (1..=60).contains(&event.len())
            && event
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit());
        if !event_ok {
            return Err(BadDelivery::Header("X-GitHub-Event"));
        }
        let body_sha256 = hex::encode(Sha256::digest(&body));
        let not_json = |problem: String| BadDelivery::NotJson(crate::text::cap_chars(&problem, 200));
        let body = String::from_utf8(body).map_err(|error| not_json(error.utf8_error().to_string()))?;
        // serde_json refuses more than 128 levels, so a hostile body cannot exhaust the stack.
        let Value::Object(mut fields) = serde_json::from_str(&body).map_err(|error| not_json(error.to_string()))?
        else {
            return Err(not_json("an object is expected".to_owned()));
        };
        let shape = |problem: String| BadDelivery::WrongShape {
            event: event.to_owned(),
            problem: crate::text::cap_chars(&problem, 200),
        };
        let action = fields
            .get("action")
            .and_then(Value::as_str)
            .map(clean)
            .unwrap_or_default();
        let payload = read_payload(event, &mut fields).map_err(shape)?;
        let header = read_header(&mut fields, &payload).map_err(shape)?;
        Ok(Self {
            guid: guid.to_owned(),
            event: event.to_owned(),
            action: crate::text::cap_chars(&action, 60),
            received_at,
            body_sha256,
            body,
            repo: header.repo,
            installation: header.installation,
            sender: header.sender,
            payload,
        })
    }

    /// What the delivery means, so that the same event under another GUID is noticed, while a
    /// second event of the same kind is not taken for the first. Where an event has no such
    /// facts, and where no installation is named (a repository's own webhook may tell the same
    /// story as the App's), it is the body itself.
    pub fn semantic_key(&self) -> String {
        self.meaning()
            .unwrap_or_else(|| format!("{}:{}:body:{}", self.event, self.action, self.body_sha256))
    }

    fn meaning(&self) -> Option<String> {
        let repo = self.repo.as_ref()?.id;
        self.installation?;
        let at = |time: Option<DateTime<Utc>>| time.map(|time| time.timestamp());
        let (event, action) = (&self.event, &self.action);
        match (&self.payload, action.as_str()) {
            (
                Payload::Issue {
                    issue,
                    label: Some(label),
                },
                "labeled" | "unlabeled",
            ) => {
                let prefix = label_key(action, repo, issue.number, label);
                Some(format!("{prefix}{:012}", at(issue.updated_at)?))
            }
            (Payload::IssueComment { comment, .. } | Payload::ReviewComment { comment, .. }, "created") => Some(
                format!("{event}:created:{repo}:{}:{}", comment.id, at(comment.updated_at)?),
            ),
            (Payload::IssueComment { comment, .. } | Payload::ReviewComment { comment, .. }, "deleted") => {
                Some(deleted_key(event, repo, comment.id))
            }
            (Payload::Review { review, .. }, "submitted") => Some(format!("{event}:submitted:{repo}:{}", review.id)),
            (Payload::Issue { issue, .. }, "closed") => {
                Some(closed_key(event, repo, issue.number, at(issue.updated_at)?))
            }
            (Payload::Pull { pull }, "closed") => Some(closed_key(event, repo, pull.number, at(pull.updated_at)?)),
            _ => None,
        }
    }
}

/// The semantic key of an issue's (`issues`) or pull request's (`pull_request`) closing, with twelve digits
/// of time at its end.
pub(super) fn closed_key(event: &str, repo: RepoId, number: IssueNumber, at: i64) -> String {
    format!("{event}:closed:{repo}:{number}:{at:012}")
}

/// The semantic key of a comment's end, which happens once.
pub(super) fn deleted_key(event: &str, repo: RepoId, comment: CommentId) -> String {
    format!("{event}:deleted:{repo}:{comment}")
}

struct Header {
    repo: Option<Repo>,
    installation: Option<InstallationId>,
    sender: Option<Sender>,
}

/// Repository, installation and sender. Where something may be made of the event they must be
/// readable; an event that is ignored anyway may hold whatever it likes.
fn read_header(fields: &mut Map<String, Value>, payload: &Payload) -> Result<Header, String> {
    #[derive(Deserialize)]
    struct Installation {
        id: InstallationId,
    }
    let mut read = || -> Result<Header, String> {
        Ok(Header {
            repo: optional(fields, "repository")?,
            installation: optional::<Installation>(fields, "installation")?.map(|installation| installation.id),
            sender: optional(fields, "sender")?,
        })
    };
    match (read(), payload) {
        (Err(_), Payload::Other | Payload::Ping) => Ok(Header {
            repo: None,
            installation: None,
            sender: None,
        }),
        (result, _) => result,
    }
}

/// Keys that a body of `repository` may have. The list is closed, because `label.deleted` under
/// the name `repository` would otherwise read as the end of the repository.
const REPOSITORY_KEYS: [&str; 7] = [
    "action",
    "changes",
    "enterprise",
    "installation",
    "organization",
    "repository",
    "sender",
];

fn read_payload(event: &str, fields: &mut Map<String, Value>) -> Result<Payload, String> {
    match event {
        "ping" => Ok(Payload::Ping),
        "issues" => {
            lacks(fields, &["comment", "pull_request", "review"])?;
            let label = optional::<Label>(fields, "label")?.map(|label| label.name);
            Ok(Payload::Issue {
                issue: required(fields, "issue")?,
                label,
            })
        }
        "issue_comment" => {
            lacks(fields, &["pull_request", "review"])?;
            Ok(Payload::IssueComment {
                issue: required(fields, "issue")?,
                comment: required(fields, "comment")?,
            })
        }
        "pull_request" => {
            lacks(fields, &["comment", "issue", "review", "thread"])?;
            Ok(Payload::Pull {
                pull: required(fields, "pull_request")?,
            })
        }
        "pull_request_review" => {
            lacks(fields, &["comment", "issue", "thread"])?;
            Ok(Payload::Review {
                pull: required(fields, "pull_request")?,
                review: required(fields, "review")?,
            })
        }
        "pull_request_review_comment" => {
            lacks(fields, &["issue", "review", "thread"])?;
            Ok(Payload::ReviewComment {
                pull: required(fields, "pull_request")?,
                comment: required(fields, "comment")?,
            })
        }
        "installation" => {
            lacks(
                fields,
                &["comment", "issue", "pull_request", "repositories_added", "repository"],
            )?;
            names_account(fields)?;
            Ok(Payload::Installation {
                repos: optional(fields, "repositories")?.unwrap_or_default(),
            })
        }
        "installation_repositories" => {
            names_account(fields)?;
            let added = required(fields, "repositories_added")?;
            Ok(Payload::InstallationRepos {
                added,
                removed: required(fields, "repositories_removed")?,
            })
        }
        "check_run" | "check_suite" => {
            lacks(fields, &["comment", "issue", "pull_request", "review"])?;
            Ok(Payload::Check {
                check: required(fields, event)?,
            })
        }
        "status" => {
            lacks(fields, &["comment", "issue", "pull_request", "review"])?;
            Ok(Payload::Check {
                check: CheckFacts::of_status(fields),
            })
        }
        "repository" => match fields.keys().find(|key| !REPOSITORY_KEYS.contains(&key.as_str())) {
            Some(key) => Err(format!("`{}` does not belong there", clean(key))),
            None if fields.get("repository").is_some_and(Value::is_object) => Ok(Payload::Repository),
            None => Err("`repository` is missing".to_owned()),
        },
        _ => Ok(Payload::Other),
    }
}

#[derive(Deserialize)]
struct Label {
    #[serde(deserialize_with = "facts::text")]
    name: String,
}

fn lacks(fields: &Map<String, Value>, keys: &[&str]) -> Result<(), String> {
    match keys.iter().find(|key| fields.contains_key(**key)) {
        Some(key) => Err(format!("`{key}` does not belong there")),
        None => Ok(()),
    }
}

/// The installation in full, which only events about installations carry.
fn names_account(fields: &Map<String, Value>) -> Result<(), String> {
    match fields
        .get("installation")
        .and_then(|installation| installation.get("account"))
    {
        Some(Value::Object(_)) => Ok(()),
        _ => Err("`installation.account` is missing".to_owned()),
    }
}

fn required<T: serde::de::DeserializeOwned>(fields: &mut Map<String, Value>, key: &str) -> Result<T, String> {
    optional(fields, key)?.ok_or_else(|| format!("`{key}` is missing"))
}

fn optional<T: serde::de::DeserializeOwned>(fields: &mut Map<String, Value>, key: &str) -> Result<Option<T>, String> {
    let Some(value) = fields.get_mut(key).map(Value::take) else {
        return Ok(None);
    };
    serde_json::from_value(value).map_err(|error| format!("`{key}`: {error}"))
}
