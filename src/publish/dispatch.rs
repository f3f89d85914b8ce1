//! The dispatcher: performs the rows of a job in order, each with a look-up before a create, a
//! fresh look at permission and pins right before the write, and a wait where an earlier call may
//! still land. The protocol and its proof are those of the outbox with natural keys: the row says
//! what is wanted, the remote says what is there. Never runs two effects of a job at once.

use chrono::{DateTime, TimeDelta, Utc};

use super::outcome::{pushed, pushed_branch, pushed_id};
use super::{Publisher, plan, settle, status};
use crate::authority::{self, Authority};
use crate::effect::{Effect, EffectBody, EffectState, NewEffect, ReactionTarget};
use crate::github::{NewPull, RepoClient};
use crate::ids::{BranchName, CommentId, CommitSha, Subject};
use crate::job::{Job, JobError, JobKind, LeasedJob, Outcome, Trigger};
use crate::phrase::reason;
use crate::queue::Pulse;

mod check;
mod create;
mod opened;
mod push;
mod review;
mod said;
mod thread;
mod tries;
mod twin;

pub(super) use push::{Broken, rebuild, unpack};
pub(super) use said::own_comment;
pub(super) use twin::is_ours;

use tries::{LONGEST_PAUSE, max_tries, pause};

/// Clock difference between GitHub and us that listing by time allows for.
const CLOCK_SLACK: TimeDelta = TimeDelta::minutes(5);
/// Most comments looked through for our own.
const MAX_LOOKED_THROUGH: usize = 1_000;
/// Inserts and performs the first effects of a job: 👀 on what triggered it and the one status
/// comment.
///
/// # Errors
/// As [`dispatch`].
pub async fn acknowledge(publisher: &Publisher, leased: &LeasedJob, pulse: &Pulse) -> Result<(), JobError> {
    let job = &leased.job;
    let mut effects = Vec::new();
    if let Some(target) = trigger_target(job) {
        let body = EffectBody::Reaction {
            target,
            content: "eyes".to_owned(),
        };
        effects.push(plan::row(job, plan::seq::REACTION, body));
    }
    let status = status_row(publisher, job);
    said::wait_for_announcement(publisher, job).await?;
    let mut tx = publisher.store.begin().await?;
    // What a command said that became this job goes on as its status: one request, one comment.
    if let Some(status) = &status
        && job.round == 0
        && let Some(comment) = tx.answer_of_command(&job.id).await?
    {
        tx.adopt_comment(&leased.lease, status, &comment).await?;
    }
    effects.extend(status);
    tx.insert_effects(&leased.lease, &effects).await?;
    fp!("acknowledge.written");
    tx.commit().await?;
    fp!("acknowledge.committed");
    dispatch(publisher, leased, pulse).await
}

/// The row of the one status comment of a job that works.
pub(super) fn status_row(publisher: &Publisher, job: &Job) -> Option<NewEffect> {
    let number = job.subject.number().filter(|_| job.kind.is_work())?;
    let body = EffectBody::StatusComment {
        number,
        body: status::first_words(publisher, job),
    };
    Some(plan::row(job, plan::seq::STATUS, body))
}

pub(super) fn trigger_target(job: &Job) -> Option<ReactionTarget> {
    match (&job.request.trigger, &job.subject) {
        (
            Trigger::Label { .. } | Trigger::Review { .. } | Trigger::Queue { .. },
            Subject::Issue(number) | Subject::Pull(number),
        ) => Some(ReactionTarget::Issue { number: *number }),
        (Trigger::Comment { id }, _) => Some(ReactionTarget::Comment { id: *id }),
        (Trigger::ReviewComment { id }, _) => Some(ReactionTarget::ReviewComment { id: *id }),
        (
            Trigger::Label { .. } | Trigger::Review { .. } | Trigger::Queue { .. },
            Subject::Local(_) | Subject::Task(_),
        )
        | (Trigger::Checks { .. } | Trigger::CommandLine | Trigger::Schedule { .. } | Trigger::Milestone { .. }, _) => {
            None
        }
    }
}

/// Performs every effect of the job that is not final, in order.
///
/// # Errors
/// [`JobError::Snooze`] when a call of unclear outcome has to be waited for, [`JobError::NoRight`]
/// when the person lost the right, others as they come. What was done stays done.
pub async fn dispatch(publisher: &Publisher, leased: &LeasedJob, pulse: &Pulse) -> Result<(), JobError> {
    let mut tx = publisher.store.begin().await?;
    let mut effects = tx.effects(&leased.job.id).await?;
    drop(tx);
    effects.retain(|effect| !effect.state.is_final());
    if effects.is_empty() {
        return Ok(());
    }
    let client = publisher.client_while(&leased.job, pulse).under_present_name().await?;
    for effect in effects {
        let step = Step {
            publisher,
            leased,
            pulse,
            client: &client,
            effect: &effect,
        };
        step.perform().await?;
    }
    Ok(())
}

/// One effect on its way.
struct Step<'a> {
    publisher: &'a Publisher,
    leased: &'a LeasedJob,
    pulse: &'a Pulse,
    client: &'a RepoClient,
    effect: &'a Effect,
}

/// What became of a call.
enum Landed {
    /// It is there; GitHub's name for it.
    As(String),
    /// It is there, but not where it was wanted, and why.
    Beside(String, String),
    /// It is not wanted or cannot be, for good.
    Not(EffectState, String),
}

impl Step<'_> {
    async fn perform(&self) -> Result<(), JobError> {
        // It is on GitHub, whatever is wanted by now.
        if let Some(made) = self.made() {
            return self.look_again(made).await;
        }
        if let Some(problem) = self.stopped().await? {
            return self.settle(Landed::Not(EffectState::Skipped, problem)).await;
        }
        if let Some(problem) = self.superfluous().await? {
            return self.settle(Landed::Not(EffectState::Skipped, problem)).await;
        }
        self.wait_until_clear().await?;
        self.move_to(EffectState::Sending, None, None).await?;
        fp!("effect.sending");
        match self.prepare().await {
            Ok(Some(remote_id)) => return self.settle(Landed::As(remote_id)).await,
            Ok(None) => {
                if let Some(problem) = self.outlived().await? {
                    return self.settle(Landed::Not(EffectState::Skipped, problem)).await;
                }
            }
            // Nothing was sent, and whatever was sent before can no longer land.
            Err(error) => return self.failed(error, EffectState::Pending).await,
        }
        self.stamp().await?;
        if !self.pulse.is_alive() {
            return Err(JobError::LeaseLost);
        }
        fp!("effect.calling");
        let called = self.call().await;
        fp!("effect.called");
        match called {
            Ok(Landed::As(made)) if self.may_have_twin() => self.look_again_later(&made).await,
            Ok(landed) => self.settle(landed).await,
            Err(JobError::Unsent(why)) => self.failed(JobError::Unsent(why), EffectState::Pending).await,
            Err(error) => self.failed(error, EffectState::Unknown).await,
        }
    }

    /// Looking took a while: how long a call may be on its way is measured from here, and whoever lost
    /// the lease meanwhile learns it here, by the database's clock.
    async fn stamp(&self) -> Result<(), JobError> {
        let mut tx = self.publisher.store.begin().await?;
        tx.stamp_effect(&self.leased.lease, self.effect.seq).await?;
        Ok(tx.commit().await?)
    }

    /// Looks whether it is there already; if not, whether it may still be done, right before it is.
    async fn prepare(&self) -> Result<Option<String>, JobError> {
        let found = self.look_up().await?;
        fp!("effect.looked_up");
        if found.is_none() {
            self.check_right().await?;
        }
        Ok(found)
    }

    /// Somebody stopped the job after its work was done: what would show the work is skipped. Work
    /// that was stopped earlier is published as such.
    async fn stopped(&self) -> Result<Option<String>, JobError> {
        let shows_work = match self.effect.body {
            EffectBody::Push { .. }
            | EffectBody::OpenPull { .. }
            | EffectBody::SubmitReview { .. }
            | EffectBody::ReplyThread { .. }
            | EffectBody::ResolveThread { .. }
            | EffectBody::RequestReview { .. }
            | EffectBody::Comment { .. }
            | EffectBody::CreateIssue { .. }
            | EffectBody::CreateAdvisory { .. }
            | EffectBody::MarkReady
            | EffectBody::RequestReviewer { .. }
            | EffectBody::AddSubIssue { .. } => true,
            EffectBody::Reaction { .. }
            | EffectBody::StatusComment { .. }
            | EffectBody::BeginCheck { .. }
            | EffectBody::SettleCheck
            | EffectBody::RerunCheck { .. }
            | EffectBody::TellCreated { .. }
            | EffectBody::Ask
            | EffectBody::FinalStatus { .. }
            | EffectBody::RemoveLabel { .. } => false,
        };
        let stopped_already = matches!(self.leased.job.outcome, Some(Outcome::Stopped { .. }));
        if !shows_work || stopped_already {
            return Ok(None);
        }
        let mut tx = self.publisher.store.begin().await?;
        let job = tx.job(&self.leased.job.id).await?;
        let asked = job.filter(|job| job.cancel_requested_at.is_some());
        Ok(asked.map(|job| {
            job.reason
                .unwrap_or_else(|| reason::stopped(self.publisher.language).to_owned())
        }))
    }

    /// An effect whose foundation failed is skipped: no pull request without a branch.
    async fn superfluous(&self) -> Result<Option<String>, JobError> {
        if matches!(self.effect.body, EffectBody::Ask) {
            // A job that is in hand does not wait any more.
            return Ok(Some("the work goes on".to_owned()));
        }
        if matches!(self.effect.body, EffectBody::RemoveLabel { .. }) {
            let why = settle::why_label_stays(self.publisher, &self.leased.job).await?;
            return Ok(why.map(str::to_owned));
        }
        if matches!(
            self.effect.body,
            EffectBody::MarkReady | EffectBody::RequestReviewer { .. }
        ) {
            let opened = self.opened().await?;
            return Ok(opened.is_none().then(|| "no pull request was opened".to_owned()));
        }
        if let EffectBody::CreateIssue { part: 1.., .. } = &self.effect.body {
            let epic = plan::at(&self.leased.job, plan::seq::CREATE);
            let all = self.all().await?;
            let is_there = all.iter().any(|row| row.seq == epic && row.state == EffectState::Done);
            return Ok((!is_there).then(|| reason::stopped(self.publisher.language).to_owned()));
        }
        // Of one that may have been sent it has to be found out first what became of it.
        if self.effect.sent_at.is_none()
            && let Some(why) = self.outlived().await?
        {
            return Ok(Some(why));
        }
        let EffectBody::OpenPull { branch, .. } = &self.effect.body else {
            return self.thread_superfluous().await;
        };
        let pushed = pushed_branch(&self.all().await?, self.effect.seq);
        Ok(match pushed {
            Some(actual) if actual == *branch => None,
            _ => Some("the branch was not pushed".to_owned()),
        })
    }

    /// That words were passed on is not said any more once they became work of their own, which answers.
    async fn outlived(&self) -> Result<Option<String>, JobError> {
        if !matches!(self.effect.body, EffectBody::Comment { .. }) || self.leased.job.kind != JobKind::Steer {
            return Ok(None);
        }
        let mut tx = self.publisher.store.begin().await?;
        let why = "the work that it was passed on to ended without it";
        Ok(tx.became_job(&self.leased.job.id).await?.then(|| why.to_owned()))
    }

    async fn all(&self) -> Result<Vec<Effect>, JobError> {
        let mut tx = self.publisher.store.begin().await?;
        Ok(tx.effects(&self.leased.job.id).await?)
    }

    /// After a call of unclear outcome nobody may call again before it can no longer land. A
    /// repeat that nobody would see needs no wait.
    async fn wait_until_clear(&self) -> Result<(), JobError> {
        let unclear = matches!(self.effect.state, EffectState::Unknown | EffectState::Sending);
        let Some(sent_at) = self
            .effect
            .sent_at
            .filter(|_| unclear && self.effect.body.repeats_are_visible())
        else {
            return Ok(());
        };
        let wait = TimeDelta::from_std(self.publisher.unclear_wait()).unwrap_or(TimeDelta::MAX);
        let clear_at = sent_at + wait;
        let mut tx = self.publisher.store.begin().await?;
        let now = tx.db_now().await?;
        if now < clear_at {
            let reason = format!("an earlier {} may still arrive", self.effect.body.kind());
            return Err(JobError::Snooze(clear_at, reason));
        }
        Ok(())
    }

    /// The person still has the right, the repository is still the one. The status comment's last
    /// words and the label are ours to settle in any case.
    async fn check_right(&self) -> Result<(), JobError> {
        let refused = matches!(self.leased.job.outcome, Some(Outcome::Refused { .. }));
        match self.effect.body {
            EffectBody::FinalStatus { .. }
            | EffectBody::SettleCheck
            | EffectBody::RemoveLabel { .. }
            | EffectBody::Reaction { .. }
            | EffectBody::Ask => {
                return Ok(());
            }
            // The polite answer to somebody without the right.
            EffectBody::Comment { .. } if refused => return Ok(()),
            EffectBody::Push { .. }
            | EffectBody::OpenPull { .. }
            | EffectBody::SubmitReview { .. }
            | EffectBody::ReplyThread { .. }
            | EffectBody::ResolveThread { .. }
            | EffectBody::RequestReview { .. }
            | EffectBody::Comment { .. }
            | EffectBody::BeginCheck { .. }
            | EffectBody::RerunCheck { .. }
            | EffectBody::CreateIssue { .. }
            | EffectBody::CreateAdvisory { .. }
            | EffectBody::AddSubIssue { .. }
            | EffectBody::TellCreated { .. }
            | EffectBody::MarkReady
            | EffectBody::RequestReviewer { .. }
            | EffectBody::StatusComment { .. } => {}
        }
        match authority::authorize(self.publisher.language, &self.leased.job, self.client).await? {
            Authority::Allowed(_) => Ok(()),
            Authority::Denied(why) => Err(JobError::NoRight(why)),
        }
    }

    async fn look_up(&self) -> Result<Option<String>, JobError> {
        match &self.effect.body {
            EffectBody::Reaction { .. }
            | EffectBody::RemoveLabel { .. }
            | EffectBody::AddSubIssue { .. }
            | EffectBody::ResolveThread { .. }
            | EffectBody::MarkReady
            | EffectBody::RequestReviewer { .. }
            | EffectBody::RequestReview { .. }
            | EffectBody::RerunCheck { .. }
            | EffectBody::SettleCheck
            | EffectBody::Ask
            | EffectBody::FinalStatus { .. } => Ok(None),
            EffectBody::ReplyThread { number, .. } => self.own_reply(*number).await,
            EffectBody::BeginCheck { sha } => self.own_check(sha).await,
            EffectBody::StatusComment { number, .. }
            | EffectBody::Comment { number, .. }
            | EffectBody::TellCreated { number } => {
                let (job, seq) = (&self.leased.job, self.effect.seq);
                let found = twin::own_comments(self.publisher, self.client, job, (*number, seq)).await?;
                self.settled_on(found).await
            }
            EffectBody::CreateIssue {
                draft,
                part,
                offered_at,
                ..
            } => {
                let wanted = create::Wanted {
                    draft,
                    part: *part,
                    offered_at: *offered_at,
                };
                self.own_issue(&wanted).await
            }
            EffectBody::CreateAdvisory { .. } => self.no_second_advisory(),
            EffectBody::SubmitReview { number, .. } => self.own_review(*number).await,
            EffectBody::Push { branch, to, sha, .. } => {
                let there = self.client_for(to.as_ref()).branch_sha(branch).await?;
                let is_there = match &there {
                    Some(there) => there == sha,
                    None => to.is_none() && self.was_pushed(branch, sha).await?,
                };
                Ok(is_there.then(|| pushed_id(branch, sha)))
            }
            EffectBody::OpenPull { branch, .. } => {
                let sent = pushed(&self.all().await?, self.effect.seq).map(|(_, sha)| sha);
                let pulls = self.client.pulls_by_head(branch).await?;
                // A branch is often deleted with its pull request, and its name used again: what is
                // over and shows another commit is of that earlier work.
                let ours = pulls
                    .iter()
                    .filter(|pull| pull.state == "open" || Some(&pull.head.sha) == sent.as_ref());
                Ok(ours.map(|pull| pull.number).max().map(|number| number.to_string()))
            }
        }
    }

    /// A branch is often deleted with its pull request, which tells what it held.
    async fn was_pushed(&self, branch: &BranchName, sha: &CommitSha) -> Result<bool, JobError> {
        let pulls = self.client.pulls_by_head(branch).await?;
        Ok(pulls.iter().any(|pull| pull.head.sha == *sha))
    }

    async fn call(&self) -> Result<Landed, JobError> {
        match &self.effect.body {
            EffectBody::Reaction { target, content } => self.react(*target, content).await,
            EffectBody::StatusComment { number, body } | EffectBody::Comment { number, body } => {
                self.comment(*number, body).await
            }
            EffectBody::Push {
                branch,
                to,
                expect,
                parent,
                merged,
                sha,
                message,
            } => {
                let promise = push::Promise {
                    branch,
                    to: to.as_ref(),
                    expect: expect.as_ref(),
                    parent,
                    merged,
                    sha,
                    message,
                };
                self.push(&promise).await
            }
            EffectBody::OpenPull {
                branch,
                base,
                title,
                body,
                draft,
            } => {
                let new = NewPull {
                    head: branch.clone(),
                    base: base.clone(),
                    title: title.clone(),
                    body: body.clone(),
                    draft: *draft,
                };
                let pull = self.client.create_pull(&new).await?;
                Ok(Landed::As(pull.number.to_string()))
            }
            EffectBody::SubmitReview {
                number,
                commit,
                body,
                comments,
            } => self.submit_review(*number, commit, body, comments).await,
            EffectBody::ReplyThread {
                number,
                root,
                said,
                branch,
                reply,
            } => self.reply_thread((*number, *root), *said, branch.as_ref(), reply).await,
            EffectBody::ResolveThread { number, root, seen } => self.resolve_thread(*number, *root, *seen).await,
            EffectBody::RequestReview { number, logins } => self.request_review(*number, logins).await,
            EffectBody::MarkReady => self.mark_ready().await,
            EffectBody::RequestReviewer { login } => self.request_reviewer(login).await,
            EffectBody::BeginCheck { sha } => self.begin_check(sha).await,
            EffectBody::SettleCheck => self.settle_check().await,
            EffectBody::RerunCheck { id, .. } => self.rerun_check(*id).await,
            EffectBody::Ask => Ok(Landed::Not(EffectState::Skipped, "the work goes on".to_owned())),
            EffectBody::FinalStatus { details, drafts } => {
                self.final_status(&status::LastWords { details, drafts }).await
            }
            EffectBody::CreateIssue { .. }
            | EffectBody::CreateAdvisory { .. }
            | EffectBody::AddSubIssue { .. }
            | EffectBody::TellCreated { .. } => self.create().await,
            EffectBody::RemoveLabel { number, label } => {
                self.client.remove_label(*number, label).await?;
                Ok(Landed::As(label.clone()))
            }
        }
    }

    /// A try that did not come to its end: `left` is what it left behind. What may pass is tried
    /// again after a pause, but not for ever.
    async fn failed(&self, error: JobError, left: EffectState) -> Result<(), JobError> {
        match error {
            JobError::Retry(reason) | JobError::Unsent(reason)
                if self.effect.tries + 1 >= max_tries(&self.effect.body) =>
            {
                let state = match self.effect.body {
                    // The last words are not given up with the job; see `settle_ended`.
                    EffectBody::FinalStatus { .. } | EffectBody::SettleCheck => EffectState::Skipped,
                    _ => EffectState::Failed,
                };
                self.settle(Landed::Not(state, reason)).await
            }
            JobError::Retry(reason) | JobError::Unsent(reason) => {
                self.move_to(left, None, Some(&reason)).await?;
                Err(JobError::Snooze(self.next_try(left).await?, reason))
            }
            JobError::Fail(reason) => self.settle(Landed::Not(EffectState::Failed, reason)).await,
            JobError::Snooze(until, reason) => {
                // A held or refused call did not land: it may be made again without a wait, and a limit
                // costs no try.
                self.put_back(&reason).await?;
                Err(JobError::Snooze(until, reason))
            }
            JobError::NoRight(why) => {
                self.move_to(EffectState::Pending, None, Some(&why)).await?;
                Err(JobError::NoRight(why))
            }
            // The branch is somewhere else, so that the call can no longer land either.
            JobError::HeadMoved(why) => {
                self.move_to(EffectState::Pending, None, Some(&why)).await?;
                Err(JobError::HeadMoved(why))
            }
            other @ (JobError::End(_) | JobError::LeaseLost) => Err(other),
        }
    }

    async fn put_back(&self, why: &str) -> Result<(), JobError> {
        let mut tx = self.publisher.store.begin().await?;
        tx.put_back_effect(&self.leased.lease, self.effect.seq, why).await?;
        Ok(tx.commit().await?)
    }

    /// When the next try may be made: not before an earlier call can no longer land, where its
    /// repeat would be seen.
    async fn next_try(&self, left: EffectState) -> Result<DateTime<Utc>, JobError> {
        let mut tx = self.publisher.store.begin().await?;
        let now = tx.db_now().await?;
        let pause = pause(self.effect.tries);
        let wait = match left {
            EffectState::Unknown if self.effect.body.repeats_are_visible() => {
                TimeDelta::from_std(self.publisher.unclear_wait()).unwrap_or(LONGEST_PAUSE)
            }
            _ => TimeDelta::zero(),
        };
        Ok(now + pause.max(wait))
    }

    async fn settle(&self, landed: Landed) -> Result<(), JobError> {
        match landed {
            Landed::As(remote_id) => self.move_to(EffectState::Done, Some(&remote_id), None).await,
            Landed::Beside(remote_id, why) => self.move_to(EffectState::Done, Some(&remote_id), Some(&why)).await,
            Landed::Not(state, problem) => self.move_to(state, None, Some(&problem)).await,
        }
    }

    async fn move_to(
        &self,
        state: EffectState,
        remote_id: Option<&str>,
        problem: Option<&str>,
    ) -> Result<(), JobError> {
        let problem = problem.map(|problem| self.publisher.redactor.redact(problem));
        let mut tx = self.publisher.store.begin().await?;
        tx.move_effect(
            &self.leased.lease,
            self.effect.seq,
            state,
            remote_id,
            problem.as_deref(),
        )
        .await?;
        // What a draft became is known from the moment on that its row is done.
        if let (EffectState::Done, Some(created), Some(draft)) = (state, remote_id, self.effect.body.draft()) {
            tx.note_draft_created(&self.leased.lease, draft, created).await?;
        }
        fp!("effect.written");
        tx.commit().await?;
        fp!("effect.committed");
        Ok(())
    }
}

/// The job's status comment, if it was created.
pub(super) fn status_comment_id(effects: &[Effect]) -> Option<CommentId> {
    let status = effects
        .iter()
        .rev()
        .find(|effect| matches!(effect.body, EffectBody::StatusComment { .. }))?;
    status.remote_id.as_deref()?.parse().ok().map(CommentId)
}
