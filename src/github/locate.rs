//! Which repository a name means, for work that no delivery of GitHub's asked for.
//! Never keeps the token that the question needs.

use serde::Deserialize;
use serde_json::json;

use super::client::Call;
use super::{GitHub, GitHubError};
use crate::ids::{InstallationId, RepoId, RepoName};

/// A repository that the App is installed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// Its number.
    pub id: RepoId,
    /// Its present name; an old one leads to it as well.
    pub name: RepoName,
    /// The installation that may speak for it.
    pub installation: InstallationId,
}

impl GitHub {
    /// Finds a repository by its name: its installation, and its number, which GitHub tells the App
    /// alone with a token for it. That one can read nothing but that the repository exists.
    ///
    /// # Errors
    /// [`GitHubError::NotFound`] when there is none of this name, or the App is not installed on it.
    pub async fn locate(&self, repo: &RepoName) -> Result<Located, GitHubError> {
        #[derive(Deserialize)]
        struct Minted {
            token: crate::secret::Secret,
            #[serde(default)]
            repositories: Vec<Found>,
        }
        #[derive(Deserialize)]
        struct Found {
            id: RepoId,
            full_name: RepoName,
        }
        let installation = self.installation_of(repo).await?;
        let call = Call::post(
            &["app", "installations", &installation.to_string(), "access_tokens"],
            json!({"repositories": [repo.name()], "permissions": {"metadata": "read"}}),
        )
        .repeatable();
        let minted: Minted = self.as_app(&call).await?.json(&call)?;
        self.shared.redactor.add_passing(&minted.token);
        let found = minted.repositories.into_iter().next();
        let found = found.ok_or_else(|| GitHubError::NotFound {
            what: format!("the repository {repo}"),
        })?;
        Ok(Located {
            id: found.id,
            name: found.full_name,
            installation,
        })
    }
}
