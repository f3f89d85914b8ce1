//! The dispatcher: performs the rows of a job in order, each with a look-up before a create, a
//! fresh look at permission and pins right before the write, and a wait where an earlier call may
//! still land. The protocol and its proof are those of the outbox with natural keys: the row says
//! what is wanted, the remote says what is there. Never runs two effects of a job at once.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::outcome::{pushed, pushed_branch, pushed_id};
use super::{BUNDLE, Publisher, plan, status};
use crate::authority::{self, Authority};
use crate::effect::{Effect, EffectBody, EffectState, ReactionTarget};
use crate::git::{GitError, Remote, TreePolicy};
use crate::github::{Comment, GitHubError, NewPull, RepoClient};
use crate::ids::{BranchName, CommentId, CommitSha, IssueNumber, Subject};
use crate::job::{Job, JobError, JobKind, LeasedJob, Outcome, Trigger};
use crate::queue::Pulse;
use crate::workspace::{mirror_path, publish_path};

/// Clock difference between GitHub and us that listing by time allows for.
const CLOCK_SLACK: TimeDelta = TimeDelta::minutes(5);
/// Most comments looked through for our own.
const MAX_LOOKED_THROUGH: usize = 1_000;
/// First pause before an effect is tried again; it doubles with each try.
const FIRST_PAUSE: TimeDelta = TimeDelta::seconds(2);
/// Longest pause between two tries.
const LONGEST_PAUSE: TimeDelta = TimeDelta::minutes(15);

/// Tries before an effect is given up, pauses included: finished work is tried for a day, since
/// GitHub's outages end within hours; a reaction must not hold up the work that it announces.
fn max_tries(body: &EffectBody) -> u32 {
    match body {
        EffectBody::Push { .. } | EffectBody::OpenPull { .. } | EffectBody::Comment { .. } => 100,
        EffectBody::FinalStatus { .. } | EffectBody::RemoveLabel { .. } | EffectBody::StatusComment { .. } => 12,
        EffectBody::Reaction { .. } => 4,
    }
}

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
    if let (JobKind::Fix, Some(number)) = (job.kind, job.subject.number()) {
        let body = EffectBody::StatusComment {
            number,
            body: status::first_words(publisher, job),
        };
        effects.push(plan::row(job, plan::seq::STATUS, body));
    }
    let mut tx = publisher.store.begin().await?;
    tx.insert_effects(&leased.lease, &effects).await?;
    tx.commit().await?;
    dispatch(publisher, leased, pulse).await
}

pub(super) fn trigger_target(job: &Job) -> Option<ReactionTarget> {
    match (&job.request.trigger, &job.subject) {
        (Trigger::Label { .. } | Trigger::Review { .. }, Subject::Issue(number) | Subject::Pull(number)) => {
            Some(ReactionTarget::Issue { number: *number })
        }
        (Trigger::Comment { id }, _) => Some(ReactionTarget::Comment { id: *id }),
        (Trigger::ReviewComment { id }, _) => Some(ReactionTarget::ReviewComment { id: *id }),
        (Trigger::Label { .. } | Trigger::Review { .. }, Subject::Local(_)) | (Trigger::CommandLine, _) => None,
    }
}

/// Performs every effect of the job that is not final, in order.
///
/// # Errors
/// [`JobError::Snooze`] when a call of unclear outcome has to be waited for, [`JobError::NoRight`]
/// when the person lost the right, others as they come. What was done stays done.
pub async fn dispatch(publisher: &Publisher, leased: &LeasedJob, pulse: &Pulse) -> Result<(), JobError> {
    let client = publisher.client(&leased.job);
    let mut tx = publisher.store.begin().await?;
    let effects = tx.effects(&leased.job.id).await?;
    drop(tx);
    for effect in effects.into_iter().filter(|effect| !effect.state.is_final()) {
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
        if let Some(problem) = self.stopped().await? {
            return self.settle(Landed::Not(EffectState::Skipped, problem)).await;
        }
        if let Some(problem) = self.superfluous().await? {
            return self.settle(Landed::Not(EffectState::Skipped, problem)).await;
        }
        self.wait_until_clear().await?;
        self.move_to(EffectState::Sending, None, None).await?;
        match self.prepare().await {
            Ok(Some(remote_id)) => return self.settle(Landed::As(remote_id)).await,
            Ok(None) => {}
            // Nothing was sent, and whatever was sent before can no longer land.
            Err(error) => return self.failed(error, EffectState::Pending).await,
        }
        if !self.pulse.is_alive() {
            return Err(JobError::LeaseLost);
        }
        match self.call().await {
            Ok(landed) => self.settle(landed).await,
            Err(error) => self.failed(error, EffectState::Unknown).await,
        }
    }

    /// Looks whether it is there already; if not, whether it may still be done, right before it is.
    async fn prepare(&self) -> Result<Option<String>, JobError> {
        let found = self.look_up().await?;
        if found.is_none() {
            self.check_right().await?;
        }
        Ok(found)
    }

    /// Somebody stopped the job after its work was done: what would show the work is skipped. Work
    /// that was stopped earlier is published as such.
    async fn stopped(&self) -> Result<Option<String>, JobError> {
        let shows_work = match self.effect.body {
            EffectBody::Push { .. } | EffectBody::OpenPull { .. } | EffectBody::Comment { .. } => true,
            EffectBody::Reaction { .. }
            | EffectBody::StatusComment { .. }
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
        Ok(asked.map(|job| job.reason.unwrap_or_else(|| "it was stopped".to_owned())))
    }

    /// An effect whose foundation failed is skipped: no pull request without a branch.
    async fn superfluous(&self) -> Result<Option<String>, JobError> {
        let EffectBody::OpenPull { branch, .. } = &self.effect.body else {
            return Ok(None);
        };
        let pushed = pushed_branch(&self.all().await?, self.effect.seq);
        Ok(match pushed {
            Some(actual) if actual == *branch => None,
            _ => Some("the branch was not pushed".to_owned()),
        })
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
            EffectBody::FinalStatus { .. } | EffectBody::RemoveLabel { .. } | EffectBody::Reaction { .. } => {
                return Ok(());
            }
            // The polite answer to somebody without the right.
            EffectBody::Comment { .. } if refused => return Ok(()),
            EffectBody::Push { .. }
            | EffectBody::OpenPull { .. }
            | EffectBody::Comment { .. }
            | EffectBody::StatusComment { .. } => {}
        }
        match authority::recheck(&self.leased.job, self.client).await? {
            Authority::Allowed(_) => Ok(()),
            Authority::Denied(why) => Err(JobError::NoRight(why)),
        }
    }

    async fn look_up(&self) -> Result<Option<String>, JobError> {
        match &self.effect.body {
            EffectBody::Reaction { .. } | EffectBody::RemoveLabel { .. } | EffectBody::FinalStatus { .. } => Ok(None),
            EffectBody::StatusComment { number, .. } | EffectBody::Comment { number, .. } => {
                self.own_comment(*number).await
            }
            EffectBody::Push { branch, sha, .. } => {
                let there = self.client.branch_sha(branch).await?;
                Ok((there.as_ref() == Some(sha)).then(|| pushed_id(branch, sha)))
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

    /// Our comment with this effect's marker; of several (an earlier call landed late) the younger
    /// ones are deleted.
    async fn own_comment(&self, number: IssueNumber) -> Result<Option<String>, JobError> {
        let since = self.leased.job.created_at - CLOCK_SLACK;
        let comments = self.client.comments(number, Some(since), MAX_LOOKED_THROUGH).await?;
        let marker = self.publisher.marker.marker(&self.leased.job.id, self.effect.seq);
        let mut own: Vec<&Comment> = comments
            .iter()
            .filter(|comment| comment.body.contains(&marker) && self.is_ours(comment))
            .collect();
        own.sort_by_key(|comment| comment.id.0);
        for younger in own.iter().skip(1) {
            self.client.delete_comment(younger.id).await?;
            tracing::warn!(job.id = %self.leased.job.id, comment = %younger.id, "a comment arrived twice; the younger one was deleted");
        }
        Ok(own.first().map(|comment| comment.id.to_string()))
    }

    /// Written by our App; where GitHub does not tell the App, by our bot's account.
    fn is_ours(&self, comment: &Comment) -> bool {
        match (&comment.performed_via_github_app, &comment.user) {
            (Some(app), _) => app.id == self.publisher.app.id,
            (None, Some(user)) => user.kind == "Bot" && user.login == format!("{}[bot]", self.publisher.app.slug),
            (None, None) => false,
        }
    }

    async fn call(&self) -> Result<Landed, JobError> {
        match &self.effect.body {
            EffectBody::Reaction { target, content } => self.react(*target, content).await,
            EffectBody::StatusComment { number, body } | EffectBody::Comment { number, body } => {
                let marker = self.publisher.marker.marker(&self.leased.job.id, self.effect.seq);
                let comment = self
                    .client
                    .create_comment(*number, &format!("{body}\n\n{marker}"))
                    .await?;
                Ok(Landed::As(comment.id.to_string()))
            }
            EffectBody::Push {
                branch,
                expect,
                parent,
                sha,
                message,
            } => self.push(branch, expect.as_ref(), parent, sha, message).await,
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
            EffectBody::FinalStatus { details } => self.final_status(details).await,
            EffectBody::RemoveLabel { number, label } => {
                self.client.remove_label(*number, label).await?;
                Ok(Landed::As(label.clone()))
            }
        }
    }

    async fn react(&self, target: ReactionTarget, content: &str) -> Result<Landed, JobError> {
        match self.client.react(target, content).await {
            Ok(()) => Ok(Landed::As(content.to_owned())),
            // The comment was deleted; there is nothing to react to.
            Err(GitHubError::NotFound { .. }) => Ok(Landed::Not(EffectState::Skipped, "it is gone".to_owned())),
            Err(error) => Err(error.into()),
        }
    }

    async fn final_status(&self, details: &str) -> Result<Landed, JobError> {
        let Some(id) = status_comment_id(&self.all().await?) else {
            return Ok(Landed::Not(
                EffectState::Skipped,
                "there is no status comment".to_owned(),
            ));
        };
        match status::update_final(self.publisher, self.leased, self.client, id, details).await {
            Ok(()) => Ok(Landed::As(id.to_string())),
            Err(GitHubError::NotFound { .. }) => Ok(Landed::Not(
                EffectState::Skipped,
                "the status comment was deleted".to_owned(),
            )),
            Err(error) => Err(error.into()),
        }
    }

    /// Rebuilds the commit from the stored bundle and pushes it. Where somebody moved the branch
    /// meanwhile, or the pull request is over, the work goes beside it and nothing of theirs is
    /// touched.
    async fn push(
        &self,
        branch: &BranchName,
        expect: Option<&CommitSha>,
        parent: &CommitSha,
        sha: &CommitSha,
        message: &str,
    ) -> Result<Landed, JobError> {
        let (publisher, job) = (self.publisher, &self.leased.job);
        let over = self.over(expect).await?;
        let token = self.client.git_token().await?;
        let remote = Remote {
            url: self.client.git_url(),
            token: Some(token.clone()),
        };
        let folder = publish_path(&publisher.state_dir, &job.id);
        let result = async {
            let import = self.rebuild(&folder, &remote, parent).await?;
            let rebuilt = publisher
                .git
                .commit(&import, parent, message, &publisher.signature(job))
                .await?;
            if rebuilt != *sha {
                return Err(JobError::Fail(format!(
                    "the stored change rebuilds to {rebuilt}, not to {sha}"
                )));
            }
            let why = match over {
                Some(over) => over,
                None => match publisher.git.push(&import.repo, &remote, sha, branch, expect).await {
                    Ok(()) => return Ok(Landed::As(pushed_id(branch, sha))),
                    Err(GitError::Moved(_)) => format!("somebody pushed to `{branch}` meanwhile"),
                    Err(GitError::Refused(why)) => return Ok(Landed::Not(EffectState::Failed, why)),
                    Err(error) => return Err(error.into()),
                },
            };
            let side = BranchName::for_task(&job.subject.to_string()).with_suffix(&job.id.as_str()[20..]);
            publisher.git.push(&import.repo, &remote, sha, &side, None).await?;
            Ok(Landed::Beside(pushed_id(&side, sha), why))
        }
        .await;
        if let Err(error) = tokio::fs::remove_dir_all(&folder).await {
            tracing::debug!(folder = %folder.display(), %error, "the publishing folder was not removed");
        }
        if matches!(result, Err(JobError::Retry(_))) {
            // The token may be the reason: the next try gets another one.
            drop(self.client.git_token_after(&token).await);
        }
        result
    }

    /// P10: commits on the branch of a pull request that is over would go nowhere.
    async fn over(&self, expect: Option<&CommitSha>) -> Result<Option<String>, JobError> {
        let (Subject::Pull(number), Some(_)) = (&self.leased.job.subject, expect) else {
            return Ok(None);
        };
        let pull = self.client.pull(*number).await?;
        Ok((pull.state != "open").then(|| {
            let word = if pull.merged { "merged" } else { "closed" };
            format!("pull request #{number} was {word} meanwhile")
        }))
    }

    async fn rebuild(
        &self,
        folder: &std::path::Path,
        remote: &Remote,
        base: &CommitSha,
    ) -> Result<crate::git::Import, JobError> {
        let (publisher, job) = (self.publisher, &self.leased.job);
        let mut tx = publisher.store.begin().await?;
        let stored = tx.checkpoint(&job.id, BUNDLE).await?;
        drop(tx);
        let Some((_, bundle)) = stored else {
            return Err(JobError::Fail("the stored change is missing".to_owned()));
        };
        let local = |error: std::io::Error| JobError::Retry(format!("{}: {error}", folder.display()));
        if tokio::fs::try_exists(folder).await.map_err(local)? {
            tokio::fs::remove_dir_all(folder).await.map_err(local)?;
        }
        tokio::fs::create_dir_all(folder).await.map_err(local)?;
        let bundle_file = folder.join("change.bundle");
        tokio::fs::write(&bundle_file, bundle).await.map_err(local)?;
        let (base_git, tree) = (folder.join("base.git"), folder.join("tree"));
        let mirror = mirror_path(&publisher.state_dir, job.repo_id);
        publisher
            .git
            .refresh_mirror(&mirror, remote, &[], Duration::from_secs(900))
            .await?;
        publisher.git.check_out(&mirror, remote, base, &base_git, &tree).await?;
        // The rules were applied when the change was accepted; here only the bytes are needed.
        let policy = TreePolicy::default();
        Ok(publisher
            .git
            .import(&bundle_file, &base_git, base, &folder.join("import.git"), &policy)
            .await?)
    }

    /// A try that did not come to its end: `left` is what it left behind. What may pass is tried
    /// again after a pause, but not for ever.
    async fn failed(&self, error: JobError, left: EffectState) -> Result<(), JobError> {
        match error {
            JobError::Retry(reason) if self.effect.tries + 1 >= max_tries(&self.effect.body) => {
                let state = match self.effect.body {
                    // The last words are not given up with the job; see `settle_ended`.
                    EffectBody::FinalStatus { .. } => EffectState::Skipped,
                    _ => EffectState::Failed,
                };
                self.settle(Landed::Not(state, reason)).await
            }
            JobError::Retry(reason) => {
                self.move_to(left, None, Some(&reason)).await?;
                Err(JobError::Snooze(self.next_try(left).await?, reason))
            }
            JobError::Fail(reason) => self.settle(Landed::Not(EffectState::Failed, reason)).await,
            JobError::Snooze(until, reason) => {
                // A refused call did not land: it may be made again without a wait.
                self.move_to(EffectState::Pending, None, Some(&reason)).await?;
                Err(JobError::Snooze(until, reason))
            }
            JobError::NoRight(why) => {
                self.move_to(EffectState::Pending, None, Some(&why)).await?;
                Err(JobError::NoRight(why))
            }
            other @ (JobError::End(_) | JobError::LeaseLost) => Err(other),
        }
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
        tx.commit().await?;
        Ok(())
    }
}

/// The pause after a try, given how many there were before it.
fn pause(tries: u32) -> TimeDelta {
    let doubled = FIRST_PAUSE * (1 << tries.min(10));
    doubled.min(LONGEST_PAUSE)
}

/// The job's status comment, if it was created.
pub(super) fn status_comment_id(effects: &[Effect]) -> Option<CommentId> {
    let status = effects
        .iter()
        .rev()
        .find(|effect| matches!(effect.body, EffectBody::StatusComment { .. }))?;
    status.remote_id.as_deref()?.parse().ok().map(CommentId)
}
