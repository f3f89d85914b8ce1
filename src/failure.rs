//! How a failure of a port becomes a decision about the job: another attempt, a pause, or the end.
//! One table in one place. Never retries anything itself.

use crate::git::GitError;
use crate::github::GitHubError;
use crate::job::JobError;
use crate::model::ModelError;
use crate::sandbox::SandboxError;
use crate::store::StoreError;

impl From<StoreError> for JobError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::LeaseLost(_) => JobError::LeaseLost,
            StoreError::Unavailable(_) => JobError::Retry(error.to_string()),
            StoreError::TooNew(_) | StoreError::Address(_) | StoreError::Corrupt(_) => {
                JobError::Fail(error.to_string())
            }
        }
    }
}

#[cfg(feature = "failpoints")]
impl From<crate::fault::Injected> for JobError {
    fn from(injected: crate::fault::Injected) -> Self {
        JobError::Retry(injected.to_string())
    }
}

impl From<GitHubError> for JobError {
    fn from(error: GitHubError) -> Self {
        if error.is_of_installation() {
            return JobError::NoRight(format!("the App may not act in this repository any more ({error})"));
        }
        match &error {
            GitHubError::RateLimited { until, .. } | GitHubError::Held { until, .. } => {
                JobError::Snooze(*until, error.to_string())
            }
            GitHubError::Unreachable { .. } | GitHubError::Conflict { .. } | GitHubError::Moved { .. } => {
                JobError::Unsent(error.to_string())
            }
            GitHubError::Unclear { .. } => JobError::Retry(error.to_string()),
            GitHubError::Withheld { .. } => JobError::LeaseLost,
            GitHubError::NotFound { .. }
            | GitHubError::Unauthorized { .. }
            | GitHubError::Forbidden { .. }
            | GitHubError::Rejected { .. } => JobError::Fail(error.to_string()),
        }
    }
}

impl From<GitError> for JobError {
    fn from(error: GitError) -> Self {
        match &error {
            GitError::Unavailable(_)
            | GitError::Limited(_)
            | GitError::Failed(_)
            | GitError::Unauthorized(_)
            | GitError::Moved(_) => JobError::Retry(error.to_string()),
            GitError::Withheld(_) => JobError::LeaseLost,
            GitError::NotFound(_) | GitError::Refused(_) | GitError::Policy(_) => JobError::Fail(error.to_string()),
        }
    }
}

impl From<SandboxError> for JobError {
    fn from(error: SandboxError) -> Self {
        match &error {
            SandboxError::Unavailable { .. } => JobError::Fail(format!("sandbox_unavailable: {error}")),
            SandboxError::Broken(_) | SandboxError::Cancelled => JobError::Retry(error.to_string()),
        }
    }
}

impl From<ModelError> for JobError {
    fn from(error: ModelError) -> Self {
        match &error {
            ModelError::RateLimited { .. } | ModelError::Unavailable(_) | ModelError::Cancelled => {
                JobError::Retry(error.to_string())
            }
            ModelError::Unauthorized(_)
            | ModelError::PaymentRequired(_)
            | ModelError::ContextOverflow(_)
            | ModelError::Rejected(_)
            | ModelError::NoScript(_) => JobError::Fail(error.to_string()),
        }
    }
}
