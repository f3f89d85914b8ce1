//! Finished work whose branch moved: it is carried to the new head, checked there, and goes to a
//! branch of its own where the two conflict for good. Called by `fix`.
//! Never pushes over what somebody else pushed, and never follows a branch for ever.

use super::{InHand, Worker};
use crate::agent::{Checkpoint, Solution, Stop};
use crate::effect::PushTo;
use crate::event::RunEvent;
use crate::github::{Pull, RepoClient};
use crate::ids::{BranchName, CommitSha};
use crate::job::{Job, JobError, Outcome, Pins};
use crate::phrase::branch;
use crate::publish::{self, BUNDLE, ByPatch, CARRY, Carry, Planned};
use crate::run::{self, Bench, CONVERSATION, Carried, Earlier, Finished, Fork, Gathered, RECORD, Target};
use crate::tool::Finish;
use crate::workspace::{mirror_path, publish_path};

/// What became of the work of one attempt.
pub(super) enum Worked {
    /// A result, and where it goes.
    Finished(Box<Finished>, Target),
    /// An ending that is planned already.
    Planned(Planned),
}

/// How a result gets to the branch of its pull request.
pub(super) enum Way {
    /// The branch is in the job's repository.
    Here,
    /// It is in this fork, and what the fork does not take is shown as a patch.
    Fork(PushTo, ByPatch),
    /// It is out of our reach.
    Patch(ByPatch),
}

impl Way {
    /// Who gets a patch where nothing can be pushed. Whatever happens, a stranger's commits are not
    /// put on a branch of the job's repository.
    pub(super) fn by_patch(self) -> Option<ByPatch> {
        match self {
            Way::Here => None,
            Way::Fork(_, by_patch) | Way::Patch(by_patch) => Some(by_patch),
        }
    }
}

/// What a run begins with that has finished work from before.
pub(super) enum TakenUp {
    /// The work, to be gone on with.
    Earlier(Box<Earlier>),
    /// Nothing is left to be done.
    Planned(Planned),
}

impl Worker {
    /// Works until there is a result for the head that the branch has now. What is finished is
    /// carried along, not done again.
    pub(super) async fn work_until_still(&self, in_hand: &InHand<'_>, client: &RepoClient) -> Result<Worked, JobError> {
        loop {
            let worked = Box::pin(self.work(in_hand, client)).await?;
            let Worked::Finished(finished, target) = &worked else {
                return Ok(worked);
            };
            if !is_for_its_branch(finished) || !self.moved_on(in_hand, client, target).await? {
                return Ok(worked);
            }
        }
    }

    /// Whether finished work has to be carried over before it is published: the branch moved, the
    /// pull request is open, and the work has not followed it too often.
    pub(super) async fn moved_on(
        &self,
        in_hand: &InHand<'_>,
        client: &RepoClient,
        target: &Target,
    ) -> Result<bool, JobError> {
        let Target::ExistingPull {
            number, head, branch, ..
        } = target
        else {
            return Ok(false);
        };
        let carry = Carry::of(&self.publisher.store, &in_hand.leased.job).await?;
        if in_hand.cancel.is_cancelled() || !carry.is_some_and(|carry| carry.may_go_on()) {
            return Ok(false);
        }
        let pull: Pull = client.pull(*number).await?;
        if pull.state != "open" || pull.head.sha == *head {
            return Ok(false);
        }
        let text = branch::moved(self.publisher.language, branch.as_str());
        in_hand.recorder.record(RunEvent::Noted { text }).await?;
        Ok(true)
    }

    /// How a result gets to the branch of its pull request.
    pub(super) async fn way_to(&self, base: &BranchName, fork: Option<&Fork>) -> Result<Way, JobError> {
        let Some(fork) = fork else { return Ok(Way::Here) };
        let by_patch = |why| ByPatch {
            base: base.clone(),
            why,
        };
        let repo = fork.repo.as_ref();
        Ok(match publish::way_to(&self.publisher, repo, fork.may_modify).await? {
            Ok(to) => {
                let name = repo.map(|repo| repo.full_name.as_str());
                Way::Fork(to, by_patch(branch::fork_not_here(self.publisher.language, name)))
            }
            Err(why) => Way::Patch(by_patch(why)),
        })
    }

    /// Stores where finished work stands. The bundle is stored before.
    pub(super) async fn keep_carry(&self, in_hand: &InHand<'_>, carry: &Carry) -> Result<(), JobError> {
        Ok(in_hand.recorder.checkpoint(CARRY, 0, &carry.to_bytes()?).await?)
    }

    /// The job as it is gathered for. What was pinned when it was asked for holds for the beginning
    /// of the work: a review speaks of the commit that its author saw. A `fix` in a comment speaks of
    /// the branch as it is, whichever commit that is when its turn comes, and no delivery of a
    /// comment tells a head. Once there is finished work, the branch may move under it: it is
    /// carried over and checked on what is there then.
    pub(super) fn as_begun(job: &Job, has_work: bool) -> Job {
        let mut job = job.clone();
        if has_work {
            job.pins = Pins {
                head_sha: None,
                ..job.pins
            };
        }
        job
    }

    /// Finished work whose issue or pull request is over: it goes to a branch of its own.
    pub(super) async fn end_beside(
        &self,
        in_hand: &InHand<'_>,
        carry: &Carry,
        outcome: Outcome,
    ) -> Result<Planned, JobError> {
        let why = match outcome {
            Outcome::Stopped { reason, .. } | Outcome::Refused { reason } => reason,
            other => return Err(JobError::End(other)),
        };
        self.put_beside(in_hand, carry, why).await
    }

    /// Plans a branch of its own for finished work.
    pub(super) async fn put_beside(
        &self,
        in_hand: &InHand<'_>,
        carry: &Carry,
        why: String,
    ) -> Result<Planned, JobError> {
        let stop = Stop::Stuck(String::new());
        publish::put_beside(&self.publisher, &in_hand.leased.job, carry, &stop, why).await
    }

    /// Finished work, taken to the head that its branch has now.
    pub(super) async fn take_up(
        &self,
        in_hand: &InHand<'_>,
        gathered: &Gathered,
        carry: &Carry,
    ) -> Result<Option<TakenUp>, JobError> {
        let Target::ExistingPull { branch, head, .. } = &gathered.target else {
            return Ok(None);
        };
        let job = &in_hand.leased.job;
        let mut tx = self.publisher.store.begin().await?;
        let bundle = tx.checkpoint(&job.id, BUNDLE).await?;
        let conversation = tx.checkpoint(&job.id, CONVERSATION).await?;
        let record = tx.checkpoint(&job.id, RECORD).await?;
        drop(tx);
        let (Some((_, bundle)), Some((_, conversation))) = (bundle, conversation) else {
            return Ok(None);
        };
        let Ok(conversation) = serde_json::from_slice::<Checkpoint>(&conversation) else {
            return Ok(None);
        };
        let folder = publish_path(&self.state_dir, &job.id);
        let mirror = mirror_path(&self.state_dir, job.repo_id);
        let bench = Bench {
            mirror: &mirror,
            remote: &gathered.work.remote,
            folder: &folder,
        };
        let language = self.publisher.language;
        let carried = match Box::pin(run::carry(&self.ports, bench, (&bundle, &carry.base), head)).await {
            Err(JobError::Fail(why)) => {
                tracing::warn!(why, "stored work does not fit the commit that it should stand on");
                return Ok(None);
            }
            other => other?,
        };
        let note = |text| in_hand.recorder.record(RunEvent::Noted { text });
        let (bundle, joined) = match carried {
            Carried::Nothing => {
                let reason = branch::there_already(language, branch.as_str());
                let planned = publish::ending(job, Outcome::NothingToDo { reason });
                return Ok(Some(TakenUp::Planned(planned)));
            }
            Carried::ForPeople(files) => {
                let why = branch::beside_conflict(language, branch.as_str(), &files);
                let planned = self.put_beside(in_hand, carry, why).await?;
                return Ok(Some(TakenUp::Planned(planned)));
            }
            Carried::Bundle(bundle, joined) => (bundle, joined),
        };
        let mut earlier = Earlier {
            bundle: Some(bundle),
            record: record.and_then(|(_, body)| serde_json::from_slice(&body).ok()),
            ..Earlier::default()
        };
        if joined.files().is_empty() {
            note(branch::carried(language, carry.base.short(), head.short())).await?;
            earlier.conversation = Some(conversation.clone());
            earlier.solution = Some(Solution {
                stop: Stop::Finished(carry.finish.clone()),
                last_words: String::new(),
                conversation,
            });
        } else {
            note(branch::conflicts(language, &joined.files())).await?;
            let conflicts = run::in_words(&self.ports, &mirror, &joined, (head, None), &carry.base).await?;
            let remark = format!(
                "While you worked, somebody pushed to the branch. Your finished change was put on top of their commits, \
                 and the workspace is that now: their commits are in it, your change is not committed. {}",
                conflicts.framed()
            );
            earlier.conversation = Some(conversation.with_remark(&remark));
        }
        earlier.joined = Some(joined);
        Ok(Some(TakenUp::Earlier(Box::new(earlier))))
    }

    /// After a run on carried work that conflicted: where it did not bring the two together, the
    /// finished work goes to a branch of its own, as it was.
    pub(super) async fn settled_or_beside(
        &self,
        in_hand: &InHand<'_>,
        carry: &Carry,
        (branch, files): (&str, &[String]),
        finished: &Finished,
    ) -> Result<Option<Planned>, JobError> {
        let language = self.publisher.language;
        let job = &in_hand.leased.job;
        if files.is_empty() {
            // The lines fit together, and what came of them is judged as any other change.
            return Ok(None);
        }
        let why = match &finished.stop {
            Stop::Cancelled => self.why_stopped(job).await?,
            _ if is_for_its_branch(finished) => {
                let text = branch::settled(language, files);
                in_hand.recorder.record(RunEvent::Noted { text }).await?;
                return Ok(None);
            }
            _ => branch::beside_conflict(language, branch, files),
        };
        let planned = publish::put_beside(&self.publisher, job, carry, &finished.stop, why).await?;
        Ok(Some(planned))
    }
}

/// Whether a result is a finished change, for the branch that it was asked for.
pub(super) fn is_for_its_branch(finished: &Finished) -> bool {
    matches!(finished.stop, Stop::Finished(Finish::Done { .. })) && finished.change.is_some()
}

/// The head of the pull request that the work goes to.
pub(super) fn head_of(target: &Target) -> Option<&CommitSha> {
    match target {
        Target::ExistingPull { head, .. } => Some(head),
        Target::NewPull { .. } => None,
    }
}
