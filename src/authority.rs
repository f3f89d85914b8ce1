//! Whether the person who asked may: GitHub's collaborator-permission API, matched by numeric id,
//! failing closed. Never looks at `author_association`, logins or labels as authority.

use crate::github::{GitHubError, Permission, RepoClient};
use crate::job::{Job, JobError};
use crate::phrase::{Language, reason as words};

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authority {
    /// The person may; GitHub's name for the role.
    Allowed(String),
    /// The person may not, in words.
    Denied(String),
}

/// Asks whether the job's actor may have work done in the repository, and whether the repository
/// is still the one that was asked for.
///
/// # Errors
/// Only for what may pass: an unclear answer is no permission, but worth another attempt.
pub async fn authorize(language: Language, job: &Job, client: &RepoClient) -> Result<Authority, JobError> {
    let repository = match client.repository().await {
        Ok(repository) => repository,
        Err(GitHubError::NotFound { .. }) => {
            return Ok(Authority::Denied(words::no_repository(language).to_owned()));
        }
        Err(error) => return Err(error.into()),
    };
    if repository.id != job.repo_id {
        // The name was given to another repository meanwhile.
        return Ok(Authority::Denied(words::other_repository(
            language,
            &job.repo.to_string(),
        )));
    }
    if repository.archived {
        return Ok(Authority::Denied(words::archived(language).to_owned()));
    }
    recheck(language, job, client).await
}

/// Asks only for the person's permission; done again before effects.
///
/// # Errors
/// As [`authorize`].
pub async fn recheck(language: Language, job: &Job, client: &RepoClient) -> Result<Authority, JobError> {
    let actor = &job.request.actor;
    if job.request.trigger.is_operators() {
        // Whoever configures this machine decides what runs on it; the installation lets it write.
        return Ok(Authority::Allowed("the operator".to_owned()));
    }
    if actor.is_bot {
        // W7: GitHub knows no role of an App. Only those that the operator listed by number get as
        // far as this: triage lets no other bot start anything.
        return Ok(Authority::Allowed("a listed App".to_owned()));
    }
    let collaborator = match client.permission(&actor.login).await {
        Ok(collaborator) => collaborator,
        Err(GitHubError::NotFound { .. } | GitHubError::Forbidden { .. } | GitHubError::Rejected { .. }) => {
            return Ok(Authority::Denied(words::no_role(language, &actor.login)));
        }
        Err(error) => return Err(error.into()),
    };
    if collaborator.account.id != actor.id {
        return Ok(Authority::Denied(words::other_account(language, &actor.login)));
    }
    if collaborator.permission >= Permission::Write {
        Ok(Authority::Allowed(collaborator.role))
    } else {
        Ok(Authority::Denied(words::role_too_low(
            language,
            &actor.login,
            &collaborator.role,
        )))
    }
}
