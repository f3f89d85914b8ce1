//! Plans the publishing of a merge of the base into a pull request's branch: one merge commit with
//! both parents, and words on what was merged, what was settled and what the checks said.
//! Called by `worker`. Never plans a push that is no step forward of the branch.

use super::carry::FinishedMerge;
use super::plan::{self, Planned, row};
use super::{Publisher, body};
use crate::effect::{EffectBody, PushTo};
use crate::git::Import;
use crate::ids::{BranchName, CommitSha};
use crate::job::{Job, JobError, Outcome};
use crate::phrase::branch;
use crate::publish::risk::risks_of;

/// A finished merge on its way.
pub struct MergePlan<'a> {
    /// The branch of the pull request.
    pub branch: &'a BranchName,
    /// The base that was merged into it.
    pub base: &'a BranchName,
    /// The head of the branch when it was merged.
    pub head: &'a CommitSha,
    /// The merge.
    pub merge: &'a FinishedMerge,
    /// How many commits it brings.
    pub commits: usize,
    /// What the agent said of it; empty where none was asked.
    pub summary: &'a str,
    /// Its words on risks.
    pub risks: &'a str,
    /// What it changed in the merge.
    pub import: &'a Import,
    /// That as a difference, capped.
    pub diff: &'a str,
    /// The fork that has the branch, where it is one.
    pub to: Option<PushTo>,
    /// What the checks said.
    pub checks: body::Checks<'a>,
}

impl MergePlan<'_> {
    /// The message of the merge commit.
    pub fn message(publisher: &Publisher, base: &BranchName, branch: &BranchName, summary: &str) -> String {
        let title = branch::merge_title(base.as_str(), branch.as_str());
        body::message(publisher, &body::title(publisher, &title), summary)
    }
}

/// Plans the push of a merge.
///
/// # Errors
/// When git cannot show what was changed.
pub async fn plan_merge(publisher: &Publisher, job: &Job, wanted: &MergePlan<'_>) -> Result<Planned, JobError> {
    let MergePlan {
        branch,
        base,
        head,
        merge,
        ..
    } = *wanted;
    if let Some(kept) = plan::leak(publisher, job, wanted.import).await? {
        return Ok(kept);
    }
    let push = EffectBody::Push {
        branch: branch.clone(),
        to: wanted.to.clone(),
        expect: Some(head.clone()),
        parent: head.clone(),
        merged: vec![merge.merged.clone()],
        sha: merge.commit.clone(),
        message: MergePlan::message(publisher, base, branch, wanted.summary),
    };
    let outcome = Outcome::Pushed {
        branch: branch.clone(),
        sha: merge.commit.clone(),
    };
    let mut planned = plan::ending_with(job, outcome, details(publisher, wanted));
    planned.effects.insert(0, row(job, plan::seq::PUSH, push));
    Ok(planned)
}

fn details(publisher: &Publisher, wanted: &MergePlan<'_>) -> String {
    let lead = branch::merged(
        publisher.language,
        wanted.base.as_str(),
        wanted.branch.as_str(),
        wanted.commits,
        &wanted.merge.settled,
    );
    let noticed = risks_of(publisher.language, wanted.diff);
    let words = body::Words {
        title: "",
        summary: wanted.summary,
        risks: wanted.risks,
        not_done: "",
        noticed: &noticed,
        notice: None,
    };
    body::merge(publisher, &lead, wanted.import, &words, &wanted.checks)
}
