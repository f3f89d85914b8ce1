//! The main path of a job that changes code: acknowledge, gather, work, plan, publish. Never
//! publishes from memory what is not stored first.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::carry::{TakenUp, Way, Worked, head_of};
use super::rebase::checks_of;
use super::wait::{Paused, Pausing};
use super::{InHand, Worker};
use crate::agent::{Checkpoint, Solution, Stop};
use crate::event::{CheckRun, RunEvent, Side, Stage};
use crate::github::RepoClient;
use crate::ids::{BranchName, CommitSha, JobId, RunId, Subject};
use crate::job::{Job, JobError, JobKind, JobState, Outcome};
use crate::memory::{Keeper, Lasting, Memory};
use crate::phrase::{reason, run as words};
use crate::publish::{self, BUNDLE, Carry};
use crate::question::Asked;
use crate::run::{
    self, CONVERSATION, ChangeSet, Earlier, FOLDER, Finished, Gathered, Joined, Place, Ports, RECORD, SOLUTION, Target,
};
use crate::store::{JobFilter, StoreError};
use crate::tool::{Drafting, Finish};
use crate::workspace::{RunFolder, mirror_path};

/// Most earlier jobs of a task that are looked at for their branch.
const MAX_BEFORE: u32 = 50;
/// Events read in one statement.
const PAGE: u32 = 500;
/// First time between two edits of a status comment, in writes; it doubles with each edit.
const STATUS_INTERVAL_WRITES: u32 = 3;
/// Longest time between two edits, in first times: some hundred edits an hour for each job stay
/// within the 500 that GitHub allows an App with several jobs at once.
const LONGEST_STATUS_INTERVAL: u32 = 10;

impl Worker {
    pub(super) async fn fix(&self, in_hand: &InHand<'_>, client: &RepoClient) -> Result<(), JobError> {
        if let Some(planned) = Box::pin(self.nothing_to_repair(in_hand, client)).await? {
            return self.publish_planned(in_hand, planned).await;
        }
        if let Some(planned) = self.ended_before(in_hand).await? {
            return self.publish_planned(in_hand, planned).await;
        }
        publish::acknowledge(&self.publisher, in_hand.leased, &in_hand.pulse).await?;
        if let Some(planned) = self.wound_up(in_hand).await? {
            return self.publish_planned(in_hand, planned).await;
        }
        let settled = CancellationToken::new();
        let work = async {
            let worked = Box::pin(self.work_until_still(in_hand, client)).await;
            settled.cancel();
            worked
        };
        // The edits go on beside the work and are over before the last words are written.
        let (worked, ()) = tokio::join!(work, self.keep_status(in_hand, &settled));
        let (mut finished, target) = match worked? {
            Worked::Finished(finished, target) => (*finished, target),
            Worked::Planned(planned) => return self.publish_planned(in_hand, planned).await,
        };
        if let Stop::NeedsInput(question) = &finished.stop {
            let base = finished.change.as_ref().map(|change| change.import.base.clone());
            match self.pause(in_hand, question, base).await? {
                Paused::Waits => return Ok(()),
                Paused::Stopped => finished.stop = Stop::Cancelled,
            }
        }
        let offered = self.offer(in_hand, client, &finished).await?;
        let planned = Box::pin(self.plan(in_hand, &finished, target)).await?.showing(offered);
        fp!("plan.done");
        in_hand
            .recorder
            .record(RunEvent::StageStarted { stage: Stage::Publish })
            .await?;
        self.publish_planned(in_hand, planned).await
    }

    /// The ending of a job whose last words are on GitHub already: the database is of a time before.
    pub(super) async fn ended_before(&self, in_hand: &InHand<'_>) -> Result<Option<publish::Planned>, JobError> {
        let planned = publish::ended_before(&self.publisher, &in_hand.leased.job).await?;
        if planned.is_some() {
            let text = words::ended_before(self.ports.language).to_owned();
            in_hand.recorder.record(RunEvent::Noted { text }).await?;
        }
        Ok(planned)
    }

    /// Stores the drafts of issues that a run gave; what the status comment says of them.
    async fn offer(&self, in_hand: &InHand<'_>, client: &RepoClient, finished: &Finished) -> Result<String, JobError> {
        let drafts = &finished.drafts;
        let is_done = matches!(finished.stop, Stop::Finished(Finish::Answered { .. }));
        let drafting = match in_hand.leased.job.kind {
            JobKind::Draft if is_done || !drafts.is_empty() => Drafting::Asked,
            _ => Drafting::Noticed,
        };
        publish::offer_drafts(&self.publisher, in_hand.leased, client, drafts, drafting).await
    }

    /// Everything up to a result that is stored.
    pub(super) async fn work(&self, in_hand: &InHand<'_>, client: &RepoClient) -> Result<Worked, JobError> {
        let job = &in_hand.leased.job;
        let recorder = &in_hand.recorder;
        let mirror = mirror_path(&self.state_dir, job.repo_id);
        let mut carry = Carry::of(&self.publisher.store, job).await?;
        let asked = Self::as_begun(job, carry.is_some());
        let before = self.branch_before(job).await?;
        let gathering = Box::pin(run::gather(
            &self.ports,
            &asked,
            client,
            mirror,
            before.as_ref(),
            recorder,
        ));
        let mut gathered = match (run::stage(recorder, Stage::Brief, gathering).await, &carry) {
            (Err(JobError::End(outcome)), Some(carry)) => {
                return self.end_beside(in_hand, carry, outcome).await.map(Worked::Planned);
            }
            (gathered, _) => gathered?,
        };
        fp!("gather.done");
        self.note_label(job, gathered.work.repo_config.label.as_deref()).await?;
        if carry.is_none() {
            self.show_at_work(in_hand, &gathered.target).await?;
        }
        let mut taken_up = None;
        if let Some(carry) = &mut carry
            && head_of(&gathered.target).is_some_and(|head| *head != carry.base)
        {
            carry.times += 1;
            self.keep_carry(in_hand, carry).await?;
            taken_up = self.take_up(in_hand, &gathered, carry).await?;
        }
        let earlier = match taken_up {
            Some(TakenUp::Planned(planned)) => return Ok(Worked::Planned(planned)),
            Some(TakenUp::Earlier(earlier)) => *earlier,
            None => self.earlier(in_hand, &mut gathered).await?,
        };
        let conflicts = earlier.joined.as_ref().map(Joined::files);
        let Gathered { work, target } = gathered;
        let place = Place {
            state_dir: self.state_dir.clone(),
            job: job.id.clone(),
        };
        let ports = Ports {
            people: Arc::new(Pausing::open(self, in_hand).await?),
            memory: Some(self.memory(in_hand)),
            desk: self.desk(in_hand),
            trees: self.ports.trees.as_ref().map(|trees| trees.of(job.repo_id)),
            setups: self.ports.setups.as_ref().map(|setups| setups.of(job.repo_id)),
            ..self.ports.clone()
        };
        // A conflict with what was pushed meanwhile is not work to be kept: what it is about is stored.
        let kept = conflicts.is_none().then(|| work.clone());
        let working = run::work(&ports, work, earlier, &place, recorder, &in_hand.cancel);
        let finished = match (Box::pin(working).await, kept) {
            (worked, Some(work)) => Box::pin(self.or_salvaged(in_hand, worked, (&ports, work, &place))).await?,
            (worked, None) => worked?,
        };
        let finished = self.unless_drained(in_hand, finished)?;
        if let (Some(carry), Some(files), Target::ExistingPull { branch, .. }) = (&carry, &conflicts, &target) {
            let over = self.settled_or_beside(in_hand, carry, (branch.as_str(), files), &finished);
            if let Some(planned) = over.await? {
                return Ok(Worked::Planned(planned));
            }
        }
        if let Some(change) = &finished.change {
            let bundle = tokio::fs::read(&change.bundle)
                .await
                .map_err(|error| JobError::Retry(format!("the bundle: {error}")))?;
            recorder.checkpoint(BUNDLE, 0, &bundle).await?;
            fp!("change.stored");
            self.note_finished(in_hand, carry, change, &finished.stop, &target)
                .await?;
        }
        Ok(Worked::Finished(Box::new(finished), target))
    }

    /// The branch that an earlier job of the same task left with a pull request.
    async fn branch_before(&self, job: &Job) -> Result<Option<BranchName>, StoreError> {
        let Subject::Task(_) = job.subject else { return Ok(None) };
        let filter = JobFilter {
            states: vec![JobState::Done],
            repo_id: Some(job.repo_id),
            subject: Some(job.subject.clone()),
            limit: MAX_BEFORE,
        };
        let mut tx = self.publisher.store.begin().await?;
        let jobs = tx.jobs(&filter).await?;
        Ok(jobs.into_iter().find_map(|job| match job.outcome {
            Some(Outcome::Opened { branch, .. } | Outcome::Pushed { branch, .. }) => Some(branch),
            _ => None,
        }))
    }

    /// Stores the repository's own label, so that it starts work from now on.
    async fn note_label(&self, job: &Job, label: Option<&str>) -> Result<(), StoreError> {
        let mut tx = self.publisher.store.begin().await?;
        if tx.repo_label(job.repo_id).await?.as_deref() != label {
            tx.set_repo_label(job.repo_id, label).await?;
        }
        tx.commit().await
    }

    /// Stores where work stands that is finished and goes to a branch that others use, too.
    async fn note_finished(
        &self,
        in_hand: &InHand<'_>,
        carry: Option<Carry>,
        change: &ChangeSet,
        stop: &Stop,
        target: &Target,
    ) -> Result<(), JobError> {
        let finish = match (stop, &carry) {
            (Stop::Finished(finish @ Finish::Done { .. }), _) => finish.clone(),
            (_, Some(carry)) => carry.finish.clone(),
            (_, None) => return Ok(()),
        };
        let Target::ExistingPull { base, fork, .. } = target else {
            return Ok(());
        };
        let by_patch = self.way_to(base, fork.as_ref()).await?.by_patch();
        let now = Carry {
            round: in_hand.leased.job.round,
            base: change.import.base.clone(),
            times: carry.map_or(0, |carry| carry.times),
            finish,
            by_patch,
            merge: None,
        };
        self.keep_carry(in_hand, &now).await
    }

    /// What runs on the job's repository keep, by its number: names can move to another repository.
    pub(super) fn memory(&self, in_hand: &InHand<'_>) -> Memory {
        let job = &in_hand.leased.job;
        let keeper = Keeper {
            repository: format!("repository/{}", job.repo_id),
            subject: job.subject.to_string(),
            by: format!("job {}", job.id),
            lease: Some(in_hand.leased.lease.clone()),
            lasting: Lasting::ForLaterRuns,
            may_write_global: self.ports.agent.global_memory,
        };
        let (clock, redactor) = (self.ports.clock.clone(), self.ports.redactor.clone());
        Memory::new(self.publisher.store.clone(), keeper, clock, redactor)
    }

    /// A run that was interrupted because the service stops has not ended; one that a person
    /// stopped has.
    pub(super) fn unless_drained(&self, in_hand: &InHand<'_>, finished: Finished) -> Result<Finished, JobError> {
        match finished.stop {
            Stop::Cancelled if !self.was_cancelled(in_hand) => {
                Err(JobError::Retry(reason::service_stopped(self.ports.language).to_owned()))
            }
            _ => Ok(finished),
        }
    }

    async fn plan(
        &self,
        in_hand: &InHand<'_>,
        finished: &Finished,
        target: Target,
    ) -> Result<publish::Planned, JobError> {
        let job = &in_hand.leased.job;
        let is_answered = matches!(finished.stop, Stop::Finished(Finish::Answered { .. }));
        if job.kind == JobKind::Draft && is_answered && !finished.drafts.is_empty() {
            // What it says about its drafts could tell of one that is not for everybody.
            return Ok(publish::ending(job, Outcome::Answered));
        }
        let why_stopped = self.why_stopped(job).await?;
        let target = match target {
            Target::NewPull {
                base,
                issue,
                title,
                rules,
            } => publish::Goal::NewPull {
                base,
                issue: (issue, title),
                rules,
            },
            Target::ExistingPull {
                branch,
                head,
                base,
                fork,
                ..
            } => match self.way_to(&base, fork.as_ref()).await? {
                Way::Here => publish::Goal::ExistingPull {
                    branch,
                    head,
                    fork: None,
                },
                Way::Fork(to, by_patch) => publish::Goal::ExistingPull {
                    branch,
                    head,
                    fork: Some((to, by_patch)),
                },
                Way::Patch(to) => publish::Goal::Patch { to, head },
            },
        };
        let result = publish::Result {
            stop: &finished.stop,
            why_stopped: &why_stopped,
            last_words: &finished.last_words,
            import: finished.change.as_ref().map(|change| &change.import),
            diff: finished.change.as_ref().map_or("", |change| &change.diff),
            violations: &finished.violations,
            checks: checks_of(&finished.verdict),
            target,
        };
        publish::plan(&self.publisher, job, result).await
    }

    /// Who or what asked to stop the job; it was noted while the work went on.
    pub(super) async fn why_stopped(&self, job: &Job) -> Result<String, StoreError> {
        let mut tx = self.publisher.store.begin().await?;
        let now = tx.job(&job.id).await?;
        let asked = now.filter(|job| job.cancel_requested_at.is_some());
        Ok(asked
            .and_then(|job| job.reason)
            .unwrap_or_else(|| reason::stopped(self.ports.language).to_owned()))
    }

    /// What an earlier attempt left, if its checkout is still on this machine and still fits: a
    /// new pull request goes on from the same base, an existing one only from the same head. What
    /// it spent counts in any case.
    async fn earlier(&self, in_hand: &InHand<'_>, gathered: &mut Gathered) -> Result<Earlier, JobError> {
        let job = &in_hand.leased.job;
        let mut tx = self.publisher.store.begin().await?;
        let stored = tx.checkpoint(&job.id, CONVERSATION).await?;
        let ended = tx.checkpoint(&job.id, SOLUTION).await?;
        let record = tx.checkpoint(&job.id, RECORD).await?;
        drop(tx);
        let Some((_, body)) = stored else {
            return Ok(Earlier::default());
        };
        let Ok(conversation) = serde_json::from_slice::<Checkpoint>(&body) else {
            return Ok(Earlier::default());
        };
        let fitting = match (self.last_folder(&job.id).await?, &gathered.target) {
            (Some((folder, base)), Target::NewPull { .. }) => Some((folder, base)),
            (Some((folder, base)), Target::ExistingPull { head, .. }) if *head == base => Some((folder, base)),
            _ => None,
        };
        let asked = self.question_of(job).await?;
        let found = match fitting {
            Some((folder, base)) => Some((Some(folder), None, base)),
            None => self.stored_work(job, asked.as_ref(), &gathered.target).await?,
        };
        let Some((folder, bundle, base)) = found else {
            let mut spent = conversation.only_spent();
            if let Some(asked) = &asked
                && let Some(said) = self.said_before(job, asked).await?
            {
                gathered.work.brief.notes.push(said.note);
                spent.is_approved |= said.approves_plan;
            }
            let text = words::begins_anew(self.ports.language).to_owned();
            in_hand.recorder.record(RunEvent::Noted { text }).await?;
            forget(in_hand, &spent).await?;
            return Ok(Earlier {
                conversation: Some(spent),
                ..Earlier::default()
            });
        };
        gathered.work.base = base;
        let run = RunId::new(self.ports.clock.now());
        in_hand
            .recorder
            .record(RunEvent::RunResumed {
                run,
                turn: conversation.turn,
            })
            .await?;
        let solution: Option<Solution> = ended.and_then(|(_, body)| serde_json::from_slice(&body).ok()).flatten();
        Ok(Earlier {
            folder,
            bundle,
            // A run that waited has not ended.
            solution: solution.filter(|solution| !matches!(solution.stop, Stop::NeedsInput(_))),
            base_checks: self.base_checks(job).await?,
            // One that no reply was given for is of a brief that nobody has read.
            record: record
                .filter(|_| conversation.has_begun())
                .and_then(|(_, body)| serde_json::from_slice(&body).ok()),
            conversation: Some(conversation),
            joined: None,
        })
    }

    /// The folder of this machine in which the job's last attempt worked, and its base. Where other
    /// attempts had others since, on other machines, the conversation knows nothing of this one.
    pub(super) async fn last_folder(&self, job: &JobId) -> Result<Option<(RunFolder, CommitSha)>, StoreError> {
        let mut tx = self.publisher.store.begin().await?;
        let stored = tx.checkpoint(job, FOLDER).await?;
        drop(tx);
        let (state_dir, id) = (self.state_dir.clone(), job.clone());
        let found = tokio::task::spawn_blocking(move || RunFolder::open_existing(&state_dir, &id)).await;
        let Ok(Ok(Some((folder, base)))) = found else {
            return Ok(None);
        };
        let identity = stored.and_then(|(_, identity)| String::from_utf8(identity).ok());
        Ok((folder.identity() == identity).then_some((folder, base)))
    }

    /// The change with which the job went to wait, as long as its conversation has not gone on
    /// since: a machine without its folder begins there.
    async fn stored_work(
        &self,
        job: &Job,
        asked: Option<&Asked>,
        target: &Target,
    ) -> Result<Option<(Option<RunFolder>, Option<Vec<u8>>, CommitSha)>, StoreError> {
        let Some(base) = asked
            .filter(|asked| !asked.is_taken)
            .and_then(|asked| asked.base.clone())
        else {
            return Ok(None);
        };
        if matches!(target, Target::ExistingPull { head, .. } if *head != base) {
            return Ok(None);
        }
        let mut tx = self.publisher.store.begin().await?;
        let bundle = tx.checkpoint(&job.id, BUNDLE).await?;
        Ok(bundle.map(|(_, bundle)| (None, Some(bundle), base)))
    }

    /// The last result of each check on the base.
    pub(super) async fn base_checks(&self, job: &Job) -> Result<Vec<CheckRun>, StoreError> {
        let mut checks: Vec<CheckRun> = Vec::new();
        let mut seen = 0;
        loop {
            let mut tx = self.publisher.store.begin().await?;
            let page = tx.events(&job.id, seen, PAGE).await?;
            drop(tx);
            let Some(last) = page.last() else { return Ok(checks) };
            seen = last.seq;
            for event in page {
                if let RunEvent::Checked { check } = event.body
                    && check.side == Side::Base
                {
                    checks.retain(|other| other.command != check.command);
                    checks.push(check);
                }
            }
        }
    }

    /// Edits the status comment now and then until the work is over.
    pub(super) async fn keep_status(&self, in_hand: &InHand<'_>, settled: &CancellationToken) {
        let first = self.publisher.write_interval.max(Duration::from_millis(200)) * STATUS_INTERVAL_WRITES;
        let (mut pause, mut shown) = (first, publish::Shown::default());
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = settled.cancelled() => return,
            }
            if !in_hand.pulse.is_alive() {
                return;
            }
            pause = (pause * 2).min(first * LONGEST_STATUS_INTERVAL);
            match publish::update_status(&self.publisher, in_hand.leased, &in_hand.pulse, &mut shown).await {
                Ok(()) => {}
                Err(JobError::Snooze(until, why)) => {
                    tracing::info!(%until, why, "the status comment is edited later");
                    let wait = (until - self.ports.clock.now()).to_std().unwrap_or_default();
                    pause = pause.max(wait);
                }
                Err(error) => tracing::info!(?error, "the status comment was not edited"),
            }
        }
    }
}

/// Stores that the conversation begins anew, before there is a checkout that the old one would be
/// taken to speak of.
async fn forget(in_hand: &InHand<'_>, spent: &Checkpoint) -> Result<(), JobError> {
    let body = serde_json::to_vec(spent).map_err(|error| JobError::Fail(error.to_string()))?;
    let recorder = &in_hand.recorder;
    recorder.checkpoint(SOLUTION, 0, b"null").await?;
    recorder.checkpoint(FOLDER, 0, b"").await?;
    Ok(recorder.checkpoint(CONVERSATION, i64::from(spent.turn), &body).await?)
}
