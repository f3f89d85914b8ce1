//! Webhook bodies as GitHub writes them, cut down to what matters.

use serde_json::{Value, json};

pub(super) fn person() -> Value {
    json!({"id": 1, "login": "mona", "type": "User"})
}

pub(super) fn ourselves() -> Value {
    json!({"id": 900, "login": "forgehand[bot]", "type": "Bot"})
}

/// A body with what every event has, and `parts` on top.
pub(super) fn body(action: &str, parts: Value) -> Value {
    let mut body = json!({"action": action, "sender": person(), "installation": {"id": 3},
        "repository": {"id": 2, "full_name": "octo/widgets"}});
    for (key, value) in parts.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

pub(super) fn issue(number: u64, second: u32) -> Value {
    json!({"number": number, "title": "Parser drops the last line 🦀", "body": "It does.", "state": "open",
        "user": person(), "labels": [{"name": "agent"}], "updated_at": at(second)})
}

pub(super) fn pull(number: u64) -> Value {
    json!({"number": number, "title": "Keep the last line", "body": null, "state": "open", "user": person(),
        "head": {"ref": "fix", "sha": "a".repeat(40), "repo": null}})
}

/// The label is put on, or taken off, at a second.
pub(super) fn label(action: &str, number: u64, second: u32) -> Value {
    body(
        action,
        json!({"issue": issue(number, second), "label": {"name": "agent"}}),
    )
}

/// A comment on an issue.
pub(super) fn comment(action: &str, id: u64, number: u64, text: &str) -> Value {
    body(
        action,
        json!({"issue": issue(number, 0), "comment": comment_part(id, text)}),
    )
}

/// A comment on a line of a pull request, within a review.
pub(super) fn review_comment(id: u64, number: u64, review: Value, text: &str) -> Value {
    let mut comment = comment_part(id, text);
    comment["pull_request_review_id"] = review;
    comment["line"] = Value::Null;
    body("created", json!({"pull_request": pull(number), "comment": comment}))
}

/// A submitted review.
pub(super) fn review(id: u64, number: u64, text: &str) -> Value {
    let review = json!({"id": id, "body": text, "state": "commented", "submitted_at": at(0), "user": person()});
    body("submitted", json!({"pull_request": pull(number), "review": review}))
}

/// The App was installed on the repository, or removed from it.
pub(super) fn installation(action: &str, id: u64) -> Value {
    json!({"action": action, "sender": person(), "installation": {"id": id, "account": {"id": 4, "login": "octo"}},
        "repositories": [{"id": 2, "full_name": "octo/widgets"}]})
}

fn comment_part(id: u64, text: &str) -> Value {
    json!({"id": id, "body": text, "user": person(), "created_at": at(0), "updated_at": at(0)})
}

fn at(second: u32) -> String {
    format!("2026-01-02T03:04:{second:02}Z")
}
