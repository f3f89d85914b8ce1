//! What each verb becomes. Never looks at who may.

use super::*;

#[test]
fn words_for_a_job_that_waits_are_control() {
    for (text, words) in [
        ("/agent answer 1. yes\n2. no", "1. yes\n2. no"),
        ("/agent approve", "yes"),
        ("/agent approve but keep the tests", "yes\nbut keep the tests"),
    ] {
        let job = started("issue_comment", &commented(text, json!({})));
        assert_eq!((job.kind, job.priority), (JobKind::Answer, CONTROL_PRIORITY), "{text}");
        assert_eq!(job.request.instructions, words, "{text}");
        assert_eq!(job.dedupe_key.as_deref(), Some("answer:2:issue/12:comment-500"));
        assert_eq!(job.lane(), "issue/12#control");
    }
    check_reply("/agent answer", json!({}), "`answer` needs your words.");
}

#[track_caller]
fn check_reply(text: &str, parts: Value, begins: &str) {
    let job = started("issue_comment", &commented(text, parts));
    assert_eq!(job.kind, JobKind::Reply, "{text}");
    assert!(
        job.request.instructions.starts_with(begins),
        "{text}: {}",
        job.request.instructions
    );
}

#[test]
fn other_commands_are_answered_honestly() {
    check_reply("/agent status", json!({}), STATUS_REPLY);
    check_reply("/agent help", json!({}), "| command | effect |");
    let job = started("issue_comment", &commented("/agent budget $2.5", json!({})));
    assert_eq!(
        (job.kind, job.request.instructions.as_str(), job.priority),
        (JobKind::Budget, "250", CONTROL_PRIORITY)
    );
    check_reply(
        "/agent review",
        json!({}),
        "`review` is for pull requests; this is an issue",
    );
    check_reply(
        "/agent dance",
        json!({}),
        "I do not know the command `dance`.\n\n| command | effect |",
    );
    check_reply("/agent fix --branch x", json!({}), "`fix` takes no options");
    let mut closed = issue();
    closed["state"] = json!("closed");
    check_reply("/agent fix", json!({"issue": closed}), "This issue is closed");
    let job = started("issues", &labelled(json!({"issue": closed})));
    assert_eq!(job.kind, JobKind::Reply);
}
