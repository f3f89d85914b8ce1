//! 👀 for requests that have to wait because another job of the same issue or pull request is at
//! work. A reaction is a set: putting it on twice is putting it on once, so it needs no lease.
//! Never writes for somebody without the right.

use super::{Publisher, dispatch};
use crate::authority::{self, Authority};
use crate::github::Access;
use crate::job::{Job, JobError};

/// Puts 👀 on what asked for a job that is still queued, if the person may ask.
///
/// # Errors
/// When GitHub does not answer; nothing is lost, the job acknowledges itself when its turn comes.
pub async fn acknowledge_waiting(publisher: &Publisher, job: &Job) -> Result<(), JobError> {
    let Some(target) = dispatch::trigger_target(job) else {
        return Ok(());
    };
    let reader = publisher
        .github
        .repo(job.installation, job.repo_id, job.repo.clone(), Access::Read);
    match authority::authorize(publisher.language, job, &reader).await? {
        Authority::Denied(_) => Ok(()),
        Authority::Allowed(_) => Ok(publisher.client(job).react(target, "eyes").await?),
    }
}
