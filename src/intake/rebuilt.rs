//! Deliveries made from what GitHub's lists show, for events that no webhook told. They have the meaning
//! of the real ones, so that whichever comes second is known. Called by `worker`, which reads the lists.
//! Never judges them: they are accepted like any other delivery.

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::payload::{BadDelivery, Delivery, Repo};
use crate::github::{Account, Comment, Issue, IssueEvent, Pull, Review, ReviewComment};
use crate::ids::{CommentId, InstallationId, IssueNumber};

/// GitHub's GUIDs are hexadecimal digits and hyphens, so that none begins like this.
const PREFIX: &str = "rebuilt-";

/// The GUID of a delivery that was made here, from its meaning: two processes that find the same event
/// make the same delivery.
pub(super) fn guid_of(semantic_key: &str) -> String {
    let digest = hex::encode(Sha256::digest(semantic_key));
    format!("{PREFIX}{}", &digest[..40])
}

/// Whether a GUID is one of these.
pub(super) fn is_rebuilt(guid: &str) -> bool {
    guid.starts_with(PREFIX)
}

/// Makes deliveries about one repository.
pub struct Rebuilder {
    repo: Value,
    installation: InstallationId,
    now: DateTime<Utc>,
}

impl Rebuilder {
    /// For a repository and the installation that holds it; `now` is when they arrive.
    pub fn new(repo: &Repo, installation: InstallationId, now: DateTime<Utc>) -> Self {
        Self {
            repo: json!({ "id": repo.id, "full_name": repo.name }),
            installation,
            now,
        }
    }

    /// A label came or went, or an issue or pull request was closed: whatever the event says. `state` is
    /// what the issue was then.
    ///
    /// # Errors
    /// As [`Delivery::parse`].
    pub fn happened(&self, event: &IssueEvent, issue: &Issue, state: &str) -> Result<Delivery, BadDelivery> {
        let mut about = json!(issue);
        about["updated_at"] = time(event.created_at);
        about["state"] = state.into();
        let is_pull = issue.pull_request.is_some();
        let (name, part) = match (is_pull, event.event.as_str()) {
            (true, "closed") => ("pull_request", "pull_request"),
            _ => ("issues", "issue"),
        };
        let mut body = json!({ part: about });
        if let Some(label) = &event.label {
            body["label"] = json!({ "name": label.name });
        }
        self.delivery(name, &event.event, event.actor.as_ref(), body)
    }

    /// Somebody wrote a comment on an issue or pull request.
    ///
    /// # Errors
    /// As [`Delivery::parse`].
    pub fn commented(&self, comment: &Comment, issue: &Issue) -> Result<Delivery, BadDelivery> {
        let mut said = json!(comment);
        // As it was when it was written.
        said["updated_at"] = time(comment.created_at);
        let body = json!({ "issue": issue, "comment": said });
        self.delivery("issue_comment", "created", comment.user.as_ref(), body)
    }

    /// Somebody wrote a comment on a line. Its time of change is that at which its review was submitted.
    ///
    /// # Errors
    /// As [`Delivery::parse`].
    pub fn commented_on_line(&self, comment: &ReviewComment, pull: &Pull) -> Result<Delivery, BadDelivery> {
        let body = json!({ "pull_request": pull, "comment": comment });
        self.delivery("pull_request_review_comment", "created", comment.user.as_ref(), body)
    }

    /// Somebody submitted a review.
    ///
    /// # Errors
    /// As [`Delivery::parse`].
    pub fn reviewed(&self, review: &Review, pull: &Pull) -> Result<Delivery, BadDelivery> {
        let said = json!({
            "id": review.id,
            "body": review.body,
            "submitted_at": review.submitted_at.map(time),
        });
        let body = json!({ "pull_request": pull, "review": said });
        self.delivery("pull_request_review", "submitted", review.user.as_ref(), body)
    }

    /// A comment is gone.
    ///
    /// # Errors
    /// As [`Delivery::parse`].
    pub fn comment_deleted(&self, id: CommentId, number: IssueNumber, is_pull: bool) -> Result<Delivery, BadDelivery> {
        let mut issue = json!({ "number": number });
        if is_pull {
            issue["pull_request"] = json!({});
        }
        let body = json!({ "issue": issue, "comment": { "id": id } });
        self.delivery("issue_comment", "deleted", None, body)
    }

    /// A comment on a line is gone.
    ///
    /// # Errors
    /// As [`Delivery::parse`].
    pub fn line_comment_deleted(&self, id: CommentId, number: IssueNumber) -> Result<Delivery, BadDelivery> {
        let body = json!({ "pull_request": { "number": number }, "comment": { "id": id } });
        self.delivery("pull_request_review_comment", "deleted", None, body)
    }

    /// An issue is gone: `deleted`, or `transferred` to another repository.
    ///
    /// # Errors
    /// As [`Delivery::parse`].
    pub fn issue_gone(&self, number: IssueNumber, action: &str) -> Result<Delivery, BadDelivery> {
        // Its meaning is its body, which must differ from that of an earlier one.
        let body = json!({ "issue": { "number": number, "updated_at": time(self.now) } });
        self.delivery("issues", action, None, body)
    }

    fn delivery(
        &self,
        event: &str,
        action: &str,
        sender: Option<&Account>,
        body: Value,
    ) -> Result<Delivery, BadDelivery> {
        let mut fields: Map<String, Value> = match body {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        fields.insert("action".to_owned(), action.into());
        fields.insert("repository".to_owned(), self.repo.clone());
        fields.insert("installation".to_owned(), json!({ "id": self.installation }));
        fields.insert("sender".to_owned(), json!(sender));
        let body = Value::Object(fields).to_string();
        let delivery = Delivery::parse(PREFIX, event, body.into_bytes(), self.now)?;
        Ok(Delivery {
            guid: guid_of(&delivery.semantic_key()),
            ..delivery
        })
    }
}

fn time(at: DateTime<Utc>) -> Value {
    at.to_rfc3339_opts(SecondsFormat::Secs, true).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repo() -> Repo {
        Repo {
            id: crate::ids::RepoId(7),
            name: "octo/widgets".parse().unwrap(),
        }
    }

    /// A webhook call as GitHub sends it.
    fn real(event: &str, body: &Value) -> Delivery {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        Delivery::parse("a-1", event, body.to_string().into_bytes(), now).unwrap()
    }

    #[test]
    fn what_is_rebuilt_means_what_the_webhook_means() {
        let mona = json!({ "id": 3, "login": "mona", "type": "User" });
        let issue = json!({
            "id": 1, "number": 12, "title": "Broken", "body": null, "state": "open", "user": mona,
            "labels": [{ "name": "agent" }], "updated_at": "2026-01-09T00:00:00Z",
        });
        let rebuilder = Rebuilder::new(&repo(), InstallationId(99), "2026-01-10T00:00:00Z".parse().unwrap());
        let around = |event: &str, mut body: Value| {
            body["repository"] = json!({ "id": 7, "full_name": "octo/widgets" });
            body["installation"] = json!({ "id": 99 });
            body["sender"] = mona.clone();
            real(event, &body)
        };
        let now: Issue = serde_json::from_value(issue.clone()).unwrap();
        let mut then = issue.clone();
        then["updated_at"] = "2026-01-02T03:04:05Z".into();
        for action in ["labeled", "unlabeled", "closed"] {
            let label = (action != "closed").then(|| json!({ "name": "Agent" }));
            let event = json!({
                "event": action, "actor": mona, "created_at": "2026-01-02T03:04:05Z", "label": label,
            });
            let event: IssueEvent = serde_json::from_value(event).unwrap();
            let rebuilt = rebuilder.happened(&event, &now, "open").unwrap();
            let webhook = around("issues", json!({ "action": action, "issue": then, "label": label }));
            assert_eq!(rebuilt.semantic_key(), webhook.semantic_key());
            assert_eq!(rebuilt.sender, webhook.sender);
            assert_eq!(rebuilt.guid, guid_of(&webhook.semantic_key()));
            assert!(is_rebuilt(&rebuilt.guid) && !is_rebuilt(&webhook.guid));
        }
        let comment = json!({
            "id": 5, "body": "/agent fix", "user": mona, "created_at": "2026-01-02T03:04:05Z",
            "updated_at": "2026-01-05T00:00:00Z",
        });
        let found: Comment = serde_json::from_value(comment.clone()).unwrap();
        let mut first = comment;
        first["updated_at"] = first["created_at"].clone();
        let webhook = around(
            "issue_comment",
            json!({ "action": "created", "issue": issue, "comment": first }),
        );
        let rebuilt = rebuilder.commented(&found, &now).unwrap();
        assert_eq!(rebuilt.semantic_key(), webhook.semantic_key());
        let webhook = around(
            "issue_comment",
            json!({ "action": "deleted", "issue": issue, "comment": first }),
        );
        let rebuilt = rebuilder.comment_deleted(CommentId(5), IssueNumber(12), false).unwrap();
        assert_eq!(rebuilt.semantic_key(), webhook.semantic_key());
    }
}
