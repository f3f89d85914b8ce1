//! Plans the end of a job that was waiting for a person and goes on no more: its stored work goes
//! to a branch as other unfinished work does. Called by `worker`. Never runs a model or a sandbox.

use super::dispatch::{Broken, rebuild};
use super::plan::{self, Planned};
use super::{Publisher, body, fork};
use crate::agent::Stop;
use crate::git::Remote;
use crate::ids::CommitSha;
use crate::job::{Job, JobError};
use crate::phrase::reason;
use crate::workspace::publish_path;

/// Why a job goes on no more.
pub struct Unfinished<'a> {
    /// How it ended.
    pub stop: &'a Stop,
    /// Who or what stopped it, where it was stopped.
    pub why_stopped: &'a str,
}

/// Plans the end of a job whose work, if there is any, is stored on top of `base`.
///
/// # Errors
/// When git or GitHub cannot be asked.
pub async fn wind_up(
    publisher: &Publisher,
    job: &Job,
    base: Option<&CommitSha>,
    unfinished: &Unfinished<'_>,
) -> Result<Planned, JobError> {
    let why = match unfinished.stop {
        Stop::Cancelled => unfinished.why_stopped.to_owned(),
        Stop::Stuck(why) | Stop::Budget(why) => why.clone(),
        Stop::Finished(_) | Stop::NeedsInput(_) => String::new(),
    };
    let Some(base) = base else {
        return Ok(plan::ending(job, plan::unfinished(unfinished.stop, why, None)));
    };
    let client = publisher.client(job).under_present_name().await?;
    let remote = Remote {
        url: client.git_url(),
        token: Some(client.git_token().await?),
    };
    let folder = publish_path(&publisher.state_dir, &job.id);
    let planning = async {
        let import = rebuild(publisher, job, &folder, &remote, base).await?;
        if let Some(to) = fork::by_patch_of(publisher, job, &client).await.map_err(Broken::Job)? {
            let offer = fork::Offer {
                import: &import,
                message: &body::message(
                    publisher,
                    &reason::unfinished_work(publisher.language, &job.subject.to_string()),
                    &why,
                ),
                to: &to,
                lead: "",
                outcome: plan::unfinished(unfinished.stop, why.clone(), None),
            };
            return fork::offer(publisher, job, offer).await.map_err(Broken::Job);
        }
        plan::keep_work(publisher, job, &import, unfinished.stop, why)
            .await
            .map_err(Broken::Job)
    };
    let planned = planning.await;
    if let Err(error) = tokio::fs::remove_dir_all(&folder).await {
        tracing::debug!(folder = %folder.display(), %error, "the publishing folder was not removed");
    }
    planned.map_err(Broken::into_job)
}
