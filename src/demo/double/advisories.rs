//! Security advisories of a repository, seen by its maintainers only. Called by `routes` and by
//! tests. Never publishes one.

use serde_json::{Value, json};

use super::GitHubDouble;
use super::answer::{Answer, Refused};
use super::issues::text;
use super::noun::Repo;
use super::routes::Call;
use super::shape::time;
use super::state::State;

/// A draft advisory.
#[derive(Debug, Clone)]
pub struct Advisory {
    /// `GHSA-…`.
    pub ghsa_id: String,
    /// One line.
    pub summary: String,
    /// The finding.
    pub description: String,
    /// `low`, `medium`, `high`, `critical`.
    pub severity: String,
}

impl State {
    pub(super) fn post_advisory(&mut self, call: &Call, repo: u64) -> Result<Answer, Refused> {
        let missing = |field: &str| Refused::invalid("RepositoryAdvisory", field, "missing_field", None);
        let summary = text(call, "RepositoryAdvisory", "summary")?;
        let description = text(call, "RepositoryAdvisory", "description")?;
        if !call.body["vulnerabilities"].is_array() {
            return Err(missing("vulnerabilities"));
        }
        let severity = call.body["severity"].as_str().unwrap_or_default();
        if !["low", "medium", "high", "critical"].contains(&severity) {
            return Err(Refused::invalid("RepositoryAdvisory", "severity", "invalid", None));
        }
        let number = self.fresh_id();
        let advisory = Advisory {
            ghsa_id: format!(
                "GHSA-{:04}-{:04}-{:04}",
                number / 1_000_000 % 10_000,
                number / 100 % 10_000,
                number % 100
            ),
            summary: summary.to_owned(),
            description: description.to_owned(),
            severity: severity.to_owned(),
        };
        let shape = self.shape_advisory(self.repo(repo)?, &advisory);
        self.repo_mut(repo)?.advisories.push(advisory);
        Answer::created(shape)
    }

    fn shape_advisory(&self, repo: &Repo, advisory: &Advisory) -> Value {
        let id = &advisory.ghsa_id;
        let now = time(self.now());
        let mut shape = json!({
            "ghsa_id": id,
            "url": format!("{}/repos/{}/security-advisories/{id}", self.api(), repo.full_name()),
            "html_url": format!("{}/{}/security/advisories/{id}", self.origin, repo.full_name()),
            "summary": advisory.summary,
            "description": advisory.description,
            "severity": advisory.severity,
            "author": self.shape_account(self.app.bot),
            "identifiers": [{ "type": "GHSA", "value": id }],
            "state": "draft",
            "created_at": now,
            "updated_at": now,
            "vulnerabilities": [],
            "credits": [],
            "credits_detailed": [],
            "collaborating_users": [],
            "collaborating_teams": [],
            "cwes": [],
            "cwe_ids": [],
            "cvss": { "vector_string": null, "score": null },
        });
        let unset = [
            "cve_id",
            "publisher",
            "published_at",
            "closed_at",
            "withdrawn_at",
            "submission",
            "private_fork",
        ];
        for name in unset {
            shape[name] = Value::Null;
        }
        shape
    }
}

impl GitHubDouble {
    /// The advisories of a repository.
    pub fn advisories(&self, repo: &str) -> anyhow::Result<Vec<Advisory>> {
        Ok(self.lock().repo_named(repo)?.advisories.clone())
    }
}
