//! Security advisories of a repository: the place for a finding that must not be public. Called
//! by `publish`. Never opens a public issue instead: the caller decides what to do when a
//! repository or a permission does not allow an advisory.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::RepoClient;
use super::client::{Call, Need};
use super::error::GitHubError;

/// How bad a vulnerability is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Low.
    Low,
    /// Medium.
    Medium,
    /// High.
    High,
    /// Critical.
    Critical,
}

/// A draft advisory, seen by the repository's maintainers only.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Advisory {
    /// `GHSA-…`.
    pub ghsa_id: String,
    /// Address of its page.
    pub html_url: String,
}

impl RepoClient {
    /// `POST /security-advisories`, as a draft. `Forbidden` when the App or the repository does
    /// not allow it, `NotFound` where the host has no advisories. A repeat makes a second one.
    pub async fn create_advisory(
        &self,
        summary: &str,
        description: &str,
        severity: Severity,
    ) -> Result<Advisory, GitHubError> {
        let body = json!({
            "summary": summary,
            "description": description,
            "severity": severity,
            "vulnerabilities": [],
        });
        let call = Call::post(&self.path(&["security-advisories"]), body).needs(Need::Advisories);
        self.send(&call).await?.json(&call)
    }
}
