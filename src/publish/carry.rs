//! Finished work that is kept until it is on GitHub: on which commit it stands, how often it was
//! carried to another one, and the way to a branch of its own where it cannot go further.
//! Called by `worker` and by the dispatcher. Never merges anything; that is `run`.

use serde::{Deserialize, Serialize};

use super::dispatch::{Broken, rebuild, unpack};
use super::fork::{self, ByPatch, Offer};
use super::plan::{self, Planned, row};
use super::{Publisher, body, threads};
use crate::agent::Stop;
use crate::effect::EffectBody;
use crate::git::Remote;
use crate::ids::{BranchName, CommitSha};
use crate::job::{Job, JobError};
use crate::phrase::reason;
use crate::store::{Store, StoreError};
use crate::tool::Finish;
use crate::workspace::publish_path;

/// Checkpoint with a [`Carry`]; the change itself is in the one for bundles. The store asks for it
/// when a job is cancelled.
pub use crate::store::CARRY;

/// How often finished work follows a branch that moves.
const MAX_TIMES: u32 = 3;

/// Where stored work stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carry {
    /// Round of the job that it is of.
    pub round: u32,
    /// The commit that it stands on.
    pub base: CommitSha,
    /// How often it was carried.
    pub times: u32,
    /// What the agent said when it had finished.
    pub finish: Finish,
    /// Who gets it as a patch, where its branch is not ours to push to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_patch: Option<ByPatch>,
    /// The finished merge, where the work is one: then the bundle holds this commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<FinishedMerge>,
}

/// A merge of ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishedMerge {
    /// The commit.
    pub commit: CommitSha,
    /// Its second parent.
    pub merged: CommitSha,
    /// Files whose conflicts the agent settled.
    #[serde(default)]
    pub settled: Vec<String>,
}

impl Carry {
    /// What is stored of the job's present round.
    ///
    /// # Errors
    /// Of the database.
    pub async fn of(store: &Store, job: &Job) -> Result<Option<Self>, StoreError> {
        let mut tx = store.begin().await?;
        let stored = tx.checkpoint(&job.id, CARRY).await?;
        let carry: Option<Self> = stored.and_then(|(_, body)| serde_json::from_slice(&body).ok());
        Ok(carry.filter(|carry| carry.round == job.round))
    }

    /// Whether it may follow its branch once more.
    pub fn may_go_on(&self) -> bool {
        self.times < MAX_TIMES
    }

    /// As bytes of the checkpoint.
    ///
    /// # Errors
    /// None that can happen.
    pub fn to_bytes(&self) -> Result<Vec<u8>, JobError> {
        serde_json::to_vec(self).map_err(|error| JobError::Fail(format!("the checkpoint cannot be written: {error}")))
    }
}

/// Plans that stored work goes to a branch of its own, because the job ended so.
///
/// # Errors
/// When git or GitHub cannot be asked.
pub async fn put_beside(
    publisher: &Publisher,
    job: &Job,
    carry: &Carry,
    stop: &Stop,
    reason: String,
) -> Result<Planned, JobError> {
    if carry.merge.is_some() && carry.by_patch.is_some() {
        // A merge is no patch, and a fork's commits are not put on a branch here.
        return Ok(plan::ending(job, plan::unfinished(stop, reason, None)));
    }
    let client = publisher.client(job).under_present_name().await?;
    let remote = Remote {
        url: client.git_url(),
        token: Some(client.git_token().await?),
    };
    let folder = publish_path(&publisher.state_dir, &job.id);
    let branch = beside(job);
    let (title, summary) = match &carry.finish {
        Finish::Done { title, summary, .. } => (title.clone(), summary.as_str()),
        _ => (
            reason::unfinished_work(publisher.language, &job.subject.to_string()),
            "",
        ),
    };
    let message = body::message(publisher, &body::title(publisher, &title), summary);
    let planning = async {
        let (sha, merged) = match &carry.merge {
            Some(merge) => {
                let parents = [&carry.base, &merge.merged];
                unpack(publisher, job, &folder, &remote, &merge.commit, &parents).await?;
                (merge.commit.clone(), vec![merge.merged.clone()])
            }
            None => {
                let import = rebuild(publisher, job, &folder, &remote, &carry.base).await?;
                if let Some(kept) = plan::leak(publisher, job, &import).await.map_err(Broken::Job)? {
                    return Ok(kept);
                }
                if let Some(to) = &carry.by_patch {
                    let offer = Offer {
                        import: &import,
                        message: &message,
                        to,
                        lead: "",
                        outcome: plan::unfinished(stop, reason, None),
                    };
                    return fork::offer(publisher, job, offer).await.map_err(Broken::Job);
                }
                let by = publisher.signature(job);
                (
                    publisher.git.commit(&import, &carry.base, &message, &by).await?,
                    Vec::new(),
                )
            }
        };
        let push = EffectBody::Push {
            branch: branch.clone(),
            to: None,
            expect: None,
            parent: carry.base.clone(),
            merged,
            sha,
            message,
        };
        let outcome = plan::unfinished(stop, reason, Some(branch));
        let mut planned = plan::ending(job, outcome);
        planned.effects.insert(0, row(job, plan::seq::PUSH, push));
        planned
            .effects
            .extend(threads::said_beside(publisher, job, &carry.finish));
        Ok(planned)
    };
    let planned: Result<Planned, Broken> = planning.await;
    if let Err(error) = tokio::fs::remove_dir_all(&folder).await {
        tracing::debug!(folder = %folder.display(), %error, "the publishing folder was not removed");
    }
    planned.map_err(Broken::into_job)
}

/// The branch of a job's own for work that cannot go where it should.
pub(super) fn beside(job: &Job) -> BranchName {
    BranchName::for_task(&job.subject.to_string()).with_suffix(&job.id.as_str()[20..])
}
