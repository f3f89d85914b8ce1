//! Whether the person who asked may: GitHub's collaborator-permission API, matched by numeric id,
//! failing closed. Never looks at `author_association`, logins or labels as authority.

use crate::github::{GitHubError, Permission, RepoClient};
use crate::job::{Job, JobError};

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
pub async fn authorize(job: &Job, client: &RepoClient) -> Result<Authority, JobError> {
    let repository = match client.repository().await {
        Ok(repository) => repository,
        Err(GitHubError::NotFound { .. }) => {
            return Ok(Authority::Denied("the repository is not there any more".to_owned()));
        }
        Err(error) => return Err(error.into()),
    };
    if repository.id != job.repo_id {
        // The name was given to another repository meanwhile.
        return Ok(Authority::Denied(format!(
            "{} is another repository now (repo_identity)",
            job.repo
        )));
    }
    if repository.archived {
        return Ok(Authority::Denied("the repository is archived".to_owned()));
    }
    recheck(job, client).await
}

/// Asks only for the person's permission; done again before effects.
///
/// # Errors
/// As [`authorize`].
pub async fn recheck(job: &Job, client: &RepoClient) -> Result<Authority, JobError> {
    let actor = &job.request.actor;
    if actor.is_bot {
        // W7: GitHub knows no role of an App. Only those that the operator listed by number get as
        // far as this: triage lets no other bot start anything.
        return Ok(Authority::Allowed("a listed App".to_owned()));
    }
    let collaborator = match client.permission(&actor.login).await {
        Ok(collaborator) => collaborator,
        Err(GitHubError::NotFound { .. } | GitHubError::Forbidden { .. } | GitHubError::Rejected { .. }) => {
            return Ok(Authority::Denied(format!(
                "{} has no role in this repository",
                actor.login
            )));
        }
        Err(error) => return Err(error.into()),
    };
    if collaborator.account.id != actor.id {
        return Ok(Authority::Denied(format!(
            "the login {} belongs to another account now",
            actor.login
        )));
    }
    if collaborator.permission >= Permission::Write {
        Ok(Authority::Allowed(collaborator.role))
    } else {
        Ok(Authority::Denied(format!(
            "{} has the role `{}` here, and write, maintain or admin is needed",
            actor.login, collaborator.role
        )))
    }
}
