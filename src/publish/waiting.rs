//! 👀 for requests that have to wait because work on the same subject goes on: people see that
//! they were heard. A reaction is a set, so nothing needs to be stored to do it once.
//! Never reacts for somebody without the right.

use std::collections::HashSet;

use super::{Publisher, dispatch};
use crate::authority::{self, Authority};
use crate::ids::JobId;
use crate::job::{Job, JobError, JobKind, JobState};
use crate::store::JobFilter;

/// A request that waits no longer than this is acknowledged when it is claimed.
const SOON: chrono::TimeDelta = chrono::TimeDelta::milliseconds(500);
/// Waiting requests looked at in one go.
const BATCH: u32 = 100;

/// Acknowledges the requests that wait and are not in `heard` yet. `heard` forgets what waits no
/// longer.
///
/// # Errors
/// Of the database; what GitHub does not take now is tried again next time.
pub async fn acknowledge_waiting(publisher: &Publisher, heard: &mut HashSet<JobId>) -> Result<(), JobError> {
    let mut tx = publisher.store.begin().await?;
    let now = tx.db_now().await?;
    let filter = JobFilter {
        states: vec![JobState::Queued],
        limit: BATCH,
        ..JobFilter::default()
    };
    let mut waiting = tx.jobs(&filter).await?;
    drop(tx);
    waiting.retain(|job| job.kind == JobKind::Fix && job.fence == 0 && job.created_at + SOON < now);
    heard.retain(|id| waiting.iter().any(|job| job.id == *id));
    for job in waiting {
        if heard.contains(&job.id) {
            continue;
        }
        match acknowledge(publisher, &job).await {
            Ok(()) => drop(heard.insert(job.id)),
            Err(error) => tracing::info!(job.id = %job.id, ?error, "a waiting request was not acknowledged"),
        }
    }
    Ok(())
}

async fn acknowledge(publisher: &Publisher, job: &Job) -> Result<(), JobError> {
    let Some(target) = dispatch::trigger_target(job) else {
        return Ok(());
    };
    let client = publisher.client(job);
    match authority::authorize(job, &client).await? {
        Authority::Allowed(_) => Ok(client.react(target, dispatch::HEARD).await?),
        Authority::Denied(_) => Ok(()), // told so when its turn comes
    }
}
