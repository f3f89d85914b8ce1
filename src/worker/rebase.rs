//! The path of `rebase`: the base of a pull request is merged into its branch, the agent settles what
//! conflicts, the checks run, and one merge commit with both parents is pushed.
//! Never rewrites a commit that is on the branch: whoever reviewed it would lose the thread.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::carry::{Way, head_of, is_for_its_branch};
use super::{InHand, Worker};
use crate::agent::{Checkpoint, Solution, Stop};
use crate::effect::PushTo;
use crate::event::{RunEvent, Stage};
use crate::github::RepoClient;
use crate::ids::{BranchName, CommitSha};
use crate::job::{Job, JobError, Outcome};
use crate::phrase::{branch as words, policy, reason};
use crate::publish::{self, BUNDLE, ByPatch, Carry, Checks, FinishedMerge, MergePlan, Planned};
use crate::run::{
    self, BaseMerge, Bench, CONVERSATION, Earlier, EarlierMerge, Finished, Gathered, Joined, Place, Ports, Target,
    Verdict,
};
use crate::tool::Finish;
use crate::workspace::{mirror_path, publish_path};

/// Most commits of the base that are counted.
const MAX_COUNTED: usize = 10_000;

/// What is merged into what.
struct Ends {
    /// The fork that has the branch, where it is one.
    fork: Option<(PushTo, ByPatch)>,
    branch: BranchName,
    head: CommitSha,
    base: BranchName,
    tip: CommitSha,
}

impl Worker {
    pub(super) async fn rebase(&self, in_hand: &InHand<'_>, client: &RepoClient) -> Result<(), JobError> {
        if let Some(planned) = self.ended_before(in_hand).await? {
            return self.publish_planned(in_hand, planned).await;
        }
        publish::acknowledge(&self.publisher, in_hand.leased, &in_hand.pulse).await?;
        if let Some(planned) = self.wound_up(in_hand).await? {
            return self.publish_planned(in_hand, planned).await;
        }
        let settled = CancellationToken::new();
        let work = async {
            let worked = Box::pin(self.merge_until_still(in_hand, client)).await;
            settled.cancel();
            worked
        };
        let (planned, ()) = tokio::join!(work, self.keep_status(in_hand, &settled));
        let planned = planned?;
        in_hand
            .recorder
            .record(RunEvent::StageStarted { stage: Stage::Publish })
            .await?;
        self.publish_planned(in_hand, planned).await
    }

    /// Merges until there is a result for the head that the branch has now.
    async fn merge_until_still(&self, in_hand: &InHand<'_>, client: &RepoClient) -> Result<Planned, JobError> {
        loop {
            if let Some(planned) = Box::pin(self.merge_once(in_hand, client)).await? {
                return Ok(planned);
            }
        }
    }

    /// One merge with its checks; nothing when the branch moved meanwhile and it has to be done over.
    async fn merge_once(&self, in_hand: &InHand<'_>, client: &RepoClient) -> Result<Option<Planned>, JobError> {
        let (job, recorder) = (&in_hand.leased.job, &in_hand.recorder);
        let mirror = mirror_path(&self.state_dir, job.repo_id);
        let mut carry = Carry::of(&self.publisher.store, job).await?;
        let asked = Self::as_begun(job, carry.is_some());
        let gathering = Box::pin(run::gather(&self.ports, &asked, client, mirror.clone(), None, recorder));
        let gathered = match (run::stage(recorder, Stage::Brief, gathering).await, &carry) {
            (Err(JobError::End(outcome)), Some(carry)) => {
                return self.end_beside(in_hand, carry, outcome).await.map(Some);
            }
            (gathered, _) => gathered?,
        };
        if carry.is_none() {
            self.show_at_work(in_hand, &gathered.target).await?;
        }
        if let Some(carry) = &mut carry
            && head_of(&gathered.target).is_some_and(|head| *head != carry.base)
        {
            carry.times += 1;
            self.keep_carry(in_hand, carry).await?;
        }
        let ends = match self.ends(&gathered, &mirror, carry.as_ref()).await? {
            Ok(ends) => ends,
            Err(reason) => return Ok(Some(publish::ending(job, Outcome::Refused { reason }))),
        };
        let folder = publish_path(&self.state_dir, &job.id);
        let merging = self.merge(in_hand, &gathered, &ends, carry.as_ref(), &folder);
        let (began, joined) = match Box::pin(merging).await? {
            BaseMerge::Begun(commit, joined) => (commit, joined),
            other => {
                return self
                    .without_merge(in_hand, other, &ends, carry.as_ref())
                    .await
                    .map(Some);
            }
        };
        let Gathered { work, target } = gathered;
        let finished = self.finish_merge(in_hand, work, &ends, (began, joined.clone())).await?;
        let merged = match self
            .keep_merge(in_hand, &finished, &ends, (&joined, &folder), carry.as_ref())
            .await?
        {
            Ok(merged) => merged,
            Err(planned) => return Ok(Some(planned)),
        };
        if self.moved_on(in_hand, client, &target).await? {
            return Ok(None);
        }
        let commits = self
            .ports
            .git
            .commits(&mirror, &ends.tip, &ends.head, MAX_COUNTED)
            .await?;
        self.plan_merge(job, &finished, &ends, &merged, commits.len())
            .await
            .map(Some)
    }

    /// What is merged into what, or why it is not: a merge cannot be handed over as a patch.
    async fn ends(
        &self,
        gathered: &Gathered,
        mirror: &Path,
        carry: Option<&Carry>,
    ) -> Result<Result<Ends, String>, JobError> {
        let Target::ExistingPull {
            branch,
            head,
            base,
            fork,
            ..
        } = &gathered.target
        else {
            return Err(JobError::Fail("only pull requests have a base to merge".to_owned()));
        };
        let fork = match self.way_to(base, fork.as_ref()).await? {
            Way::Here => None,
            Way::Fork(to, by_patch) => Some((to, by_patch)),
            Way::Patch(by_patch) => return Ok(Err(words::fork_merge(self.publisher.language, &by_patch.why))),
        };
        // A merge that is finished is carried over as it is: the base may have moved on as well.
        let tip = match carry.and_then(|carry| carry.merge.as_ref()) {
            Some(merge) => merge.merged.clone(),
            None => self.ports.git.resolve(mirror, &base.full_ref()).await?,
        };
        Ok(Ok(Ends {
            fork,
            branch: branch.clone(),
            head: head.clone(),
            base: base.clone(),
            tip,
        }))
    }

    /// The merge itself, without an agent. One that was finished on an earlier head is taken along.
    async fn merge(
        &self,
        in_hand: &InHand<'_>,
        gathered: &Gathered,
        ends: &Ends,
        carry: Option<&Carry>,
        folder: &Path,
    ) -> Result<BaseMerge, JobError> {
        let job = &in_hand.leased.job;
        let mirror = mirror_path(&self.state_dir, job.repo_id);
        run::begin(folder).await?;
        let bench = Bench {
            mirror: &mirror,
            remote: &gathered.work.remote,
            folder,
        };
        let into = folder.join("earlier.git");
        let mut earlier = None;
        if let Some(carry) = carry
            && let Some(merge) = &carry.merge
            && let Some((_, bundle)) = self.publisher.store.begin().await?.checkpoint(&job.id, BUNDLE).await?
        {
            let file = folder.join("earlier.bundle");
            let written = tokio::fs::write(&file, bundle).await;
            written.map_err(|error| JobError::Retry(format!("{}: {error}", file.display())))?;
            let parents = [&carry.base, &merge.merged];
            let from = (mirror.as_path(), bench.remote);
            self.ports
                .git
                .read_bundle(&file, from, &merge.commit, &parents, &into)
                .await?;
            earlier = Some(EarlierMerge {
                head: &carry.base,
                commit: &merge.commit,
                repo: &into,
            });
        }
        let protected = &gathered.work.repo_config.protected_paths;
        run::merge_base(&self.ports, bench, &ends.head, &ends.tip, earlier, protected).await
    }

    /// Nothing to merge, or nothing that an agent may merge.
    async fn without_merge(
        &self,
        in_hand: &InHand<'_>,
        merge: BaseMerge,
        ends: &Ends,
        carry: Option<&Carry>,
    ) -> Result<Planned, JobError> {
        let (language, job) = (self.publisher.language, &in_hand.leased.job);
        let (branch, base) = (ends.branch.as_str(), ends.base.as_str());
        let outcome = match merge {
            BaseMerge::UpToDate => Outcome::NothingToDo {
                reason: words::up_to_date(language, branch, base),
            },
            BaseMerge::NothingOwn => Outcome::NothingToDo {
                reason: words::nothing_own(language, branch, base),
            },
            BaseMerge::ForPeople(files) => match carry {
                Some(carry) => {
                    let why = words::beside_conflict(language, branch, &files);
                    return self.put_beside(in_hand, carry, why).await;
                }
                None => Outcome::GaveUp {
                    reason: words::only_people(language, base, &files),
                    branch: None,
                },
            },
            BaseMerge::Begun(..) => return Err(JobError::Fail("a merge that has begun is gone on with".to_owned())),
        };
        Ok(publish::ending(job, outcome))
    }

    /// Checks the merge, and lets the agent settle conflicts and mend what the merge broke.
    async fn finish_merge(
        &self,
        in_hand: &InHand<'_>,
        mut work: run::Work,
        ends: &Ends,
        (began, joined): (CommitSha, Joined),
    ) -> Result<Finished, JobError> {
        let job = &in_hand.leased.job;
        let mirror = mirror_path(&self.state_dir, job.repo_id);
        let spent = self.spent(job).await?;
        let lines = (&ends.head, Some(&ends.tip));
        let merge = run::in_words(&self.ports, &mirror, &joined, lines, &ends.tip).await?;
        work.brief.instructions = format!(
            "The task is a merge and nothing else: the base branch `{}` was merged into the branch of this pull request, \
             `{}`, and the workspace is the result. Do not work on the pull request's own topic. {} Where the checks of the \
             result fail, mend what the merge broke.\n\n{}\n\n{}",
            ends.base,
            ends.branch,
            match joined.files().is_empty() {
                true => "No file conflicted.",
                false => "Some files conflict.",
            },
            merge.task,
            job.request.instructions
        );
        work.brief.notes.push(merge.commits);
        work.mirror = joined.merged.repo.clone();
        work.base = began;
        let clean = Finish::Done {
            title: words::merge_title(ends.base.as_str(), ends.branch.as_str()),
            summary: String::new(),
            risks: String::new(),
            // What failed before is not the merge's to mend, and nobody is asked to.
            not_done: "Checks that failed before the merge are left alone.".to_owned(),
            unfinished: Vec::new(),
            threads: Vec::new(),
        };
        let solution = joined.files().is_empty().then(|| Solution {
            stop: Stop::Finished(clean),
            last_words: String::new(),
            conversation: spent.clone(),
        });
        let earlier = Earlier {
            conversation: Some(spent),
            solution,
            joined: Some(joined),
            ..Earlier::default()
        };
        let place = Place {
            state_dir: self.state_dir.clone(),
            job: job.id.clone(),
        };
        let ports = Ports {
            memory: Some(self.memory(in_hand)),
            trees: self.ports.trees.as_ref().map(|trees| trees.of(job.repo_id)),
            setups: self.ports.setups.as_ref().map(|setups| setups.of(job.repo_id)),
            ..self.ports.clone()
        };
        let working = run::work(&ports, work, earlier, &place, &in_hand.recorder, &in_hand.cancel);
        let finished = Box::pin(working).await?;
        self.unless_drained(in_hand, finished)
    }

    /// What earlier attempts spent. The conversation itself begins anew, since the merge does.
    async fn spent(&self, job: &Job) -> Result<Checkpoint, JobError> {
        let mut tx = self.publisher.store.begin().await?;
        let stored = tx.checkpoint(&job.id, CONVERSATION).await?;
        let earlier: Option<Checkpoint> = stored.and_then(|(_, body)| serde_json::from_slice(&body).ok());
        Ok(earlier.map_or(Checkpoint::NEW, Checkpoint::only_spent))
    }

    /// Stores a finished merge. Where there is none that may be pushed, how the job ends.
    async fn keep_merge(
        &self,
        in_hand: &InHand<'_>,
        finished: &Finished,
        ends: &Ends,
        (joined, folder): (&Joined, &Path),
        carry: Option<&Carry>,
    ) -> Result<Result<FinishedMerge, Planned>, JobError> {
        let (job, git) = (&in_hand.leased.job, &self.ports.git);
        let files = joined.files();
        let (Stop::Finished(finish @ Finish::Done { summary, .. }), Some(change)) = (&finished.stop, &finished.change)
        else {
            return self.not_merged(in_hand, finished, ends, &files, carry).await.map(Err);
        };
        let repo = &joined.merged.repo;
        if change.import.repo != *repo {
            git.lend(repo, &change.import.repo)?;
        }
        let message = MergePlan::message(&self.publisher, &ends.base, &ends.branch, summary);
        let parents = [&ends.head, &ends.tip];
        let by = self.publisher.signature(job);
        let commit = git
            .commit_tree(repo, &change.import.tree, &parents, &message, &by)
            .await?;
        let bundle = run::bundle_of(&self.ports, repo, &commit, &parents, folder).await?;
        in_hand.recorder.checkpoint(BUNDLE, 0, &bundle).await?;
        let before = carry.and_then(|carry| carry.merge.as_ref());
        let mut settled = before.map(|merge| merge.settled.clone()).unwrap_or_default();
        settled.extend(
            files
                .into_iter()
                .filter(|file| !settled.contains(file))
                .collect::<Vec<_>>(),
        );
        let merge = FinishedMerge {
            commit,
            merged: ends.tip.clone(),
            settled,
        };
        let now = Carry {
            round: job.round,
            base: ends.head.clone(),
            times: carry.map_or(0, |carry| carry.times),
            finish: finish.clone(),
            by_patch: ends.fork.as_ref().map(|(_, by_patch)| by_patch.clone()),
            merge: Some(merge.clone()),
        };
        self.keep_carry(in_hand, &now).await?;
        let checks = checks_of(&finished.verdict);
        let broken = checks.regressions();
        if broken.is_empty() {
            return Ok(Ok(merge));
        }
        let why = reason::broken_by_merge(self.publisher.language, &broken.join(", "));
        self.put_beside(in_hand, &now, why).await.map(Err)
    }

    /// The merge did not come to its end.
    async fn not_merged(
        &self,
        in_hand: &InHand<'_>,
        finished: &Finished,
        ends: &Ends,
        files: &[String],
        carry: Option<&Carry>,
    ) -> Result<Planned, JobError> {
        let (job, language) = (&in_hand.leased.job, self.publisher.language);
        debug_assert!(!is_for_its_branch(finished));
        if finished.stop == Stop::Cancelled {
            let reason = self.why_stopped(job).await?;
            return match carry {
                Some(carry) => publish::put_beside(&self.publisher, job, carry, &finished.stop, reason).await,
                None => Ok(publish::ending(job, Outcome::Stopped { reason, branch: None })),
            };
        }
        if let Some(carry) = carry {
            let why = words::beside_conflict(language, ends.branch.as_str(), files);
            return self.put_beside(in_hand, carry, why).await;
        }
        let why = match &finished.stop {
            Stop::Budget(why) | Stop::Stuck(why) => why.clone(),
            Stop::Finished(Finish::Refused { reason } | Finish::NothingToDo { reason, .. }) => reason.clone(),
            _ => policy::list(language, &finished.violations),
        };
        let outcome = Outcome::GaveUp {
            reason: match files.is_empty() {
                true => why,
                false => words::not_settled(language, ends.base.as_str(), files, &why),
            },
            branch: None,
        };
        Ok(publish::ending(job, outcome))
    }

    async fn plan_merge(
        &self,
        job: &Job,
        finished: &Finished,
        ends: &Ends,
        merge: &FinishedMerge,
        commits: usize,
    ) -> Result<Planned, JobError> {
        let (Stop::Finished(Finish::Done { summary, risks, .. }), Some(change)) = (&finished.stop, &finished.change)
        else {
            return Err(JobError::Fail("only a finished merge is published".to_owned()));
        };
        let wanted = MergePlan {
            branch: &ends.branch,
            base: &ends.base,
            head: &ends.head,
            merge,
            commits,
            summary,
            risks,
            import: &change.import,
            to: ends.fork.as_ref().map(|(to, _)| to.clone()),
            diff: &change.diff,
            checks: checks_of(&finished.verdict),
        };
        publish::plan_merge(&self.publisher, job, &wanted).await
    }
}

pub(super) fn checks_of(verdict: &Verdict) -> Checks<'_> {
    Checks {
        commands: &verdict.commands,
        base: &verdict.base,
        head: &verdict.head,
        acceptance: verdict.acceptance.as_deref(),
    }
}
