//! The branch that a job's new work goes to, and what the same job left there in an earlier life: a
//! database that was put back from a backup knows nothing of what was published after it. Called
//! by `plan`. Never takes what another job or a person made for the job's own.

use super::Publisher;
use crate::effect::{EffectBody, EffectState};
use crate::github::Pull;
use crate::ids::{BranchName, CommitSha, IssueNumber, Subject};
use crate::job::{Job, JobError};
use crate::workspace::mirror_path;

/// Where new work goes.
pub(super) struct Place {
    /// The branch.
    pub(super) branch: BranchName,
    /// What the job itself put there, and what may make way for its new commit.
    pub(super) expect: Option<CommitSha>,
    /// The head of the pull request that the job itself opened: there is nothing left to be done.
    pub(super) opened: Option<CommitSha>,
}

/// The branch that a job's work goes to, if it is free.
pub(super) fn branch_of(job: &Job, issue: Option<IssueNumber>, title: &str) -> BranchName {
    match (issue, &job.subject) {
        (Some(number), _) => BranchName::for_issue(number, title),
        (None, Subject::Task(name)) => BranchName::for_task(name),
        (None, _) => BranchName::for_task(title),
    }
}

/// The plain name, or one with the job's end where somebody else already has that branch.
pub(super) async fn place_for(publisher: &Publisher, job: &Job, name: BranchName) -> Result<Place, JobError> {
    let client = publisher.client(job);
    let id = job.id.as_str();
    let own_name = name.with_suffix(&format!("{}-{}", &id[id.len() - 6..], job.round));
    let known = known(publisher, job).await?;
    for branch in [&name, &own_name] {
        let is_known = known.contains(branch);
        let pulls = client.pulls_by_head(branch).await?;
        if let Some(pull) = pulls.iter().find(|pull| !is_known && is_of_job(publisher, job, pull)) {
            tracing::warn!(job.id = %job.id, pull = %pull.number, "the job had opened its pull request already, which the database does not know");
            return Ok(Place {
                branch: branch.clone(),
                expect: None,
                opened: Some(pull.head.sha.clone()),
            });
        }
        let there = client.branch_sha(branch).await?;
        let is_own = match &there {
            None => true,
            // Nobody else makes this name.
            Some(_) if *branch == own_name => true,
            Some(sha) => !is_known && is_by_job(publisher, job, sha).await?,
        };
        if is_own {
            return Ok(Place {
                branch: branch.clone(),
                expect: there,
                opened: None,
            });
        }
    }
    Ok(Place {
        branch: own_name,
        expect: None,
        opened: None,
    })
}

/// Branches that this database knows the job to have made, in earlier rounds.
async fn known(publisher: &Publisher, job: &Job) -> Result<Vec<BranchName>, JobError> {
    let mut tx = publisher.store.begin().await?;
    let effects = tx.effects(&job.id).await?;
    let made = effects.into_iter().filter(|effect| effect.state == EffectState::Done);
    Ok(made
        .filter_map(|effect| match effect.body {
            EffectBody::Push { branch, .. } => Some(branch),
            _ => None,
        })
        .collect())
}

/// Opened by our bot, with the job's id in its footer.
fn is_of_job(publisher: &Publisher, job: &Job, pull: &Pull) -> bool {
    let ours = format!("{}[bot]", publisher.app.slug);
    let is_ours = pull.user.as_ref().is_some_and(|user| user.login == ours);
    is_ours && pull.body.contains(job.id.as_str())
}

/// By our bot at the moment that all commits of the job have. The mirror was refreshed when the
/// attempt began, and what came since is not of an earlier life.
async fn is_by_job(publisher: &Publisher, job: &Job, sha: &CommitSha) -> Result<bool, JobError> {
    let mirror = mirror_path(&publisher.state_dir, job.repo_id);
    Ok(publisher.git.is_by(&mirror, sha, &publisher.signature(job)).await?)
}
