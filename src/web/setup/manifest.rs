//! The facts of the App: permissions and events. `app-manifest.yml` says the same to people; a
//! test compares the two. Never asks for more than is used.

use serde_json::{Value, json};

/// Permission and level.
const PERMISSIONS: [(&str, &str); 6] = [
    ("checks", "write"),
    ("contents", "write"),
    ("issues", "write"),
    ("metadata", "read"),
    ("pull_requests", "write"),
    ("statuses", "read"),
];

/// Events besides those that every App gets (`installation`, `installation_repositories`).
const EVENTS: [&str; 9] = [
    "check_run",
    "check_suite",
    "issues",
    "issue_comment",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "repository",
    "status",
];

/// Where the webhooks of a service without a public address go: nowhere. The name cannot exist
/// (RFC 2606), so nobody gets them, and GitHub's log of failed calls is what the service reads.
const NOWHERE: &str = "https://forgehand.invalid/webhook";

/// The manifest that GitHub is given.
pub(super) fn json(base_url: &str, public_url: Option<&str>) -> Value {
    let permissions: serde_json::Map<String, Value> = PERMISSIONS
        .iter()
        .map(|(name, level)| ((*name).to_owned(), json!(level)))
        .collect();
    let webhook = public_url.map_or_else(|| NOWHERE.to_owned(), |url| format!("{url}/webhook"));
    json!({
        "name": "Forgehand",
        "url": base_url,
        "redirect_url": format!("{base_url}/setup/callback"),
        "public": false,
        "default_permissions": permissions,
        "hook_attributes": { "url": webhook, "active": true },
        "default_events": EVENTS,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of the YAML file without comments.
    fn lines() -> Vec<String> {
        let text = include_str!("../../../app-manifest.yml");
        let without_comment = |line: &str| line.split('#').next().unwrap_or_default().trim_end().to_owned();
        text.lines()
            .map(without_comment)
            .filter(|line| !line.is_empty())
            .collect()
    }

    #[test]
    fn the_file_for_people_says_the_same() {
        let mut expected = vec![
            "name: Forgehand".to_owned(),
            "public: false".to_owned(),
            "default_permissions:".to_owned(),
        ];
        expected.extend(PERMISSIONS.iter().map(|(name, level)| format!("  {name}: {level}")));
        expected.push("default_events:".to_owned());
        expected.extend(EVENTS.iter().map(|event| format!("  - {event}")));
        assert_eq!(lines(), expected);
    }

    #[test]
    fn without_a_public_address_webhooks_go_nowhere_but_are_logged() {
        let manifest = json("http://127.0.0.1:8080", None);
        assert_eq!(manifest["hook_attributes"]["url"], NOWHERE);
        assert!(!manifest["default_events"].as_array().unwrap().is_empty());
        let manifest = json("https://forge.example", Some("https://forge.example"));
        assert_eq!(manifest["hook_attributes"]["url"], "https://forge.example/webhook");
        assert_eq!(manifest["redirect_url"], "https://forge.example/setup/callback");
    }
}
