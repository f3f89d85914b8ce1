//! The worker: claim, heartbeat, authorize, work, publish, settle; and the maintenance beside it.
//! Every way a job can end is decided here, once. Called by `app`. Never lets two things write for
//! one job at a time.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::authority::{self, Authority};
use crate::clock::boot_time;
use crate::effect::{EffectBody, NewEffect};
use crate::event::{RunEvent, Stage};
use crate::github::{Access, GitHub};
use crate::ids::RunId;
use crate::job::{Job, JobError, JobKind, JobState, LeasedJob, Outcome, Trigger};
use crate::ledger::Ledger;
use crate::milestone::Limits;
use crate::phrase::reason;
use crate::publish::{self, Publisher};
use crate::queue::{Pulse, Queue, recover_every};
use crate::recorder::Recorder;
use crate::right::Right;
use crate::run::{self, Ports};
use crate::store::{StoreError, Tx};
use crate::workspace::remove_all;

mod carry;
mod checks;
mod control;
mod desk;
mod fix;
mod heartbeat;
mod line;
mod maintenance;
mod measure;
mod poll;
mod rebase;
mod reconcile;
mod retry;
mod salvage;
mod steer;
mod sweep;
mod wait;
mod watch_clock;

pub use maintenance::maintain;
pub use poll::Poll;
pub use reconcile::{Pass, Reconcile};
pub use sweep::{Leftover, Mode, Sweep, What, branches};
pub use watch_clock::WatchClock;

/// Everything a worker needs. Cheap to clone.
#[derive(Clone)]
pub struct Worker {
    /// The queue.
    pub queue: Queue,
    /// What runs need.
    pub ports: Ports,
    /// What publishing needs.
    pub publisher: Publisher,
    /// Where runs keep their folders.
    pub state_dir: PathBuf,
    /// How much of a work graph may fail.
    pub graph_limits: Limits,
}

/// A job in hand.
struct InHand<'a> {
    leased: &'a LeasedJob,
    recorder: Recorder,
    pulse: Pulse,
    /// Stops the agent and its commands: the job was cancelled or the service drains.
    cancel: CancellationToken,
    cancelled_by_person: Arc<AtomicBool>,
    /// The job is over or handed back: there is no lease to keep alive any more.
    released: Arc<AtomicBool>,
    /// The work is stored and being published: nothing may take its place any more.
    publishing: AtomicBool,
}

impl Worker {
    /// Claims and works until `stop`, on at most `slots` jobs at once. Jobs in hand at that moment
    /// are handed back with their checkpoint and without a counted attempt.
    pub async fn run(&self, slots: u32, stop: &CancellationToken) {
        let mut at_work = JoinSet::new();
        while !stop.is_cancelled() {
            let free = slots.saturating_sub(u32::try_from(at_work.len()).unwrap_or(slots));
            let mut pause = None;
            // The leases began at some time after this, however long the answer took.
            let begun = boot_time();
            match self.claim(free).await {
                Ok(claimed) => {
                    let is_any = !claimed.is_empty();
                    for leased in claimed {
                        let pulse = Pulse::since(begun, self.queue.silence_limit());
                        let (worker, drain) = (self.while_alive(&pulse), stop.clone());
                        at_work.spawn(async move { worker.work_on(leased, pulse, &drain).await });
                    }
                    if is_any {
                        continue;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "no job could be claimed");
                    pause = Some(self.queue.config().poll_seconds);
                }
            }
            tokio::select! {
                () = self.wait_for_work(free, pause) => {}
                Some(ended) = at_work.join_next() => tell_of_panic(ended),
                () = stop.cancelled() => {}
            }
        }
        while let Some(ended) = at_work.join_next().await {
            tell_of_panic(ended);
        }
    }

    async fn claim(&self, free: u32) -> Result<Vec<LeasedJob>, StoreError> {
        match free {
            0 => Ok(Vec::new()),
            _ => self.queue.claim(free).await,
        }
    }

    /// Returns when there may be something to claim; without a free slot, never.
    async fn wait_for_work(&self, free: u32, pause: Option<Duration>) {
        match (free, pause) {
            (0, _) => std::future::pending().await,
            (_, Some(pause)) => tokio::time::sleep(pause).await,
            (_, None) => self.queue.wait().await,
        }
    }

    /// Writes the last words of jobs that ended without a worker and the questions of those that
    /// wait, now and then until `stop`.
    pub async fn settle_ended(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            match publish::settle_ended(&self.publisher).await {
                Ok(0) => {}
                Ok(jobs) => tracing::info!(jobs, "ended jobs were settled"),
                Err(error) => tracing::warn!(?error, "ended jobs could not be looked for"),
            }
            match publish::ask_waiting(&self.publisher).await {
                Ok(0) => {}
                Ok(jobs) => tracing::info!(jobs, "questions of waiting jobs were shown"),
                Err(error) => tracing::warn!(?error, "waiting jobs could not be looked for"),
            }
            match publish::remind_waiting(&self.publisher).await {
                Ok(0) => {}
                Ok(jobs) => tracing::info!(jobs, "people were reminded of questions"),
                Err(error) => tracing::warn!(?error, "reminders could not be looked for"),
            }
            tokio::select! {
                () = tokio::time::sleep(recover_every(self.queue.config())) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// The same for one job: its ports reach nobody once its lease may have ended.
    fn while_alive(&self, pulse: &Pulse) -> Self {
        let pulse = pulse.clone();
        let right = Right::new(move || pulse.is_alive());
        let mut worker = self.clone();
        worker.publisher = worker.publisher.only_while(&right);
        worker.ports.git = worker.ports.git.only_while(&right);
        worker.ports.trees = worker.ports.trees.map(|trees| trees.only_while(&right));
        worker
    }

    async fn work_on(&self, leased: LeasedJob, pulse: Pulse, drain: &CancellationToken) {
        let job = &leased.job;
        let span = tracing::info_span!("job", job.id = %job.id, repo = %job.repo, subject = %job.subject, fence = leased.lease.fence);
        let _entered = span.enter();
        drop(_entered);
        let in_hand = InHand {
            recorder: Recorder::stored(
                self.publisher.store.clone(),
                leased.lease.clone(),
                self.ports.clock.clone(),
                self.ports.redactor.clone(),
            )
            .with_ledger(self.ledger(&leased)),
            pulse,
            cancel: CancellationToken::new(),
            cancelled_by_person: Arc::default(),
            released: Arc::default(),
            publishing: AtomicBool::new(leased.resumes_publishing),
            leased: &leased,
        };
        let work = async {
            // Boxed, as are the stages below: a run is a deep future, and worker threads have small stacks.
            let result = Box::pin(self.attempt(&in_hand)).await;
            Box::pin(self.settle(&in_hand, result, drain)).await;
        };
        let beat = heartbeat::keep_alive(&self.queue, &in_hand, drain);
        use tracing::Instrument as _;
        async {
            tracing::info!(attempt = job.attempt, kind = %job.kind, "job claimed");
            metrics::counter!("forgehand_jobs_claimed_total").increment(1);
            tokio::select! {
                () = work => {}
                () = beat => tracing::warn!("the lease was lost; the work was dropped"),
            }
        }
        .instrument(span)
        .await;
    }

    /// What the calls of a job may cost and do cost, whatever kind of work it is.
    fn ledger(&self, leased: &LeasedJob) -> Ledger {
        let Publisher { store, caps, .. } = &self.publisher;
        Ledger::open(store.clone(), leased.lease.clone(), &leased.job, caps.clone())
    }

    async fn attempt(&self, in_hand: &InHand<'_>) -> Result<(), JobError> {
        let leased = in_hand.leased;
        fp!("attempt.begun");
        if leased.resumes_publishing {
            return self.publish(in_hand, leased.clone()).await;
        }
        let client = self.github().repo(
            leased.job.installation,
            leased.job.repo_id,
            leased.job.repo.clone(),
            Access::Read,
        );
        let client = client.under_present_name().await?;
        let asking = authority::authorize(self.ports.language, &leased.job, &client);
        match run::stage(&in_hand.recorder, Stage::Authorize, asking).await? {
            Authority::Denied(why) => return self.deny(in_hand, why).await,
            Authority::Allowed(role) => self.note_authority(in_hand, role).await?,
        }
        match leased.job.kind {
            JobKind::Rebase => Box::pin(self.rebase(in_hand, &client)).await,
            JobKind::Fix | JobKind::Plan | JobKind::Ask | JobKind::Review | JobKind::Draft => {
                Box::pin(self.fix(in_hand, &client)).await
            }
            JobKind::Eval => Box::pin(self.measure(in_hand, &client)).await,
            JobKind::Reply => Box::pin(self.reply(in_hand)).await,
            JobKind::Answer => Box::pin(self.hear(in_hand)).await,
            JobKind::Stop => Box::pin(self.stop(in_hand)).await,
            JobKind::Create => Box::pin(self.create(in_hand)).await,
            JobKind::Steer => Box::pin(self.steer(in_hand)).await,
            JobKind::Retry => Box::pin(self.retry(in_hand)).await,
            JobKind::Budget => Box::pin(self.set_budget(in_hand)).await,
        }
    }

    fn github(&self) -> &GitHub {
        &self.publisher.github
    }

    async fn note_authority(&self, in_hand: &InHand<'_>, role: String) -> Result<(), JobError> {
        let job = &in_hand.leased.job;
        let run = RunId::new(self.ports.clock.now());
        in_hand
            .recorder
            .record(RunEvent::RunStarted {
                run,
                model: self.ports.model.name().to_owned(),
            })
            .await?;
        in_hand
            .recorder
            .record(RunEvent::Authorized {
                actor: job.request.actor.login.clone(),
                permission: role,
            })
            .await?;
        fp!("authorize.noted");
        Ok(())
    }

    /// Ends a job whose person has no right. Nothing is written under a stranger's influence but,
    /// to a command and once a day for each person, one polite sentence.
    async fn deny(&self, in_hand: &InHand<'_>, why: String) -> Result<(), JobError> {
        let job = &in_hand.leased.job;
        tracing::info!(actor = %job.request.actor.login, why, "not allowed");
        let mut planned = publish::ending(job, Outcome::Refused { reason: why });
        if let (Trigger::Comment { .. }, Some(number)) = (&job.request.trigger, job.subject.number()) {
            let day = self.ports.clock.now().format("%Y-%m-%d");
            let dedupe_key = format!("polite/{}/{}/{day}", job.repo_id, job.request.actor.id);
            let mut tx = self.publisher.store.begin().await?;
            let told_today = tx.effect_key_is_taken(&dedupe_key).await?;
            drop(tx);
            if !told_today {
                let body = reason::only_writers(self.ports.language).to_owned();
                let comment = publish::comment(job, EffectBody::Comment { number, body });
                planned.effects.insert(0, NewEffect { dedupe_key, ..comment });
            }
        }
        self.publish_planned(in_hand, planned).await
    }

    /// Stores the ending and performs what belongs to it.
    async fn end(&self, in_hand: &InHand<'_>, outcome: Outcome) -> Result<(), JobError> {
        let planned = publish::ending(&in_hand.leased.job, outcome);
        self.publish_planned(in_hand, planned).await
    }

    async fn publish_planned(&self, in_hand: &InHand<'_>, planned: publish::Planned) -> Result<(), JobError> {
        if let Some(bundle) = &planned.bundle {
            in_hand.recorder.checkpoint(publish::BUNDLE, 0, bundle).await?;
        }
        let tx = self.publisher.store.begin().await?;
        self.publish_with(in_hand, tx, planned).await
    }

    /// Stores the ending together with what else a transaction did, and performs what belongs to it.
    async fn publish_with(&self, in_hand: &InHand<'_>, mut tx: Tx, planned: publish::Planned) -> Result<(), JobError> {
        tx.begin_publishing(&in_hand.leased.lease, &planned.outcome, &planned.effects)
            .await?;
        fp!("publish.written");
        tx.commit().await?;
        fp!("publish.committed");
        in_hand.publishing.store(true, Ordering::SeqCst);
        let mut leased = in_hand.leased.clone();
        leased.job.state = JobState::Publishing;
        leased.job.outcome = Some(planned.outcome);
        self.publish(in_hand, leased).await
    }

    /// Performs the stored effects and finishes the job.
    async fn publish(&self, in_hand: &InHand<'_>, leased: LeasedJob) -> Result<(), JobError> {
        Box::pin(publish::dispatch(&self.publisher, &leased, &in_hand.pulse)).await?;
        let outcome = publish::final_outcome(&self.publisher, &leased.job).await?;
        in_hand.released.store(true, Ordering::SeqCst);
        self.queue.finish(&leased.lease, &outcome).await?;
        fp!("publish.finished");
        tracing::info!(outcome = ?outcome, "job finished");
        metrics::counter!("forgehand_jobs_finished_total").increment(1);
        self.remove_folders(&leased.job).await;
        Ok(())
    }

    async fn remove_folders(&self, job: &Job) {
        let (state_dir, id) = (self.state_dir.clone(), job.id.clone());
        match tokio::task::spawn_blocking(move || remove_all(&state_dir, &id)).await {
            Ok(Ok(())) => {}
            other => tracing::info!(?other, "the folders of the job stay; maintenance will remove them"),
        }
    }

    /// What happens to a job whose attempt did not end it.
    async fn settle(&self, in_hand: &InHand<'_>, result: Result<(), JobError>, drain: &CancellationToken) {
        let lease = &in_hand.leased.lease;
        let settled = match result {
            Ok(()) => Ok(()),
            Err(JobError::LeaseLost) => {
                tracing::warn!("the lease was lost; another worker goes on");
                Ok(())
            }
            Err(JobError::Snooze(until, reason)) => {
                tracing::info!(%until, reason, "job put off");
                self.queue.snooze(lease, until, &reason).await
            }
            Err(_) if drain.is_cancelled() => {
                let why = reason::service_stopped(self.ports.language);
                self.queue.snooze(lease, self.ports.clock.now(), why).await
            }
            Err(JobError::NoRight(why)) => self.withdraw(in_hand, &why).await,
            Err(JobError::HeadMoved(why)) => self.queue.reopen(lease, &why).await,
            Err(JobError::End(outcome)) => self.end_or_bury(in_hand, outcome).await,
            Err(JobError::Fail(reason)) => {
                tracing::warn!(reason, "job failed");
                self.end_or_bury(in_hand, Outcome::GaveUp { reason, branch: None })
                    .await
            }
            Err(JobError::Retry(reason) | JobError::Unsent(reason)) => self.retry_or_give_up(in_hand, reason).await,
        };
        match settled {
            Ok(()) => {}
            Err(StoreError::LeaseLost(_)) => tracing::warn!("the lease was lost; another worker goes on"),
            // The lease ends by itself and recovery takes over.
            Err(error) => tracing::warn!(%error, "the job could not be settled"),
        }
    }

    async fn retry_or_give_up(&self, in_hand: &InHand<'_>, reason: String) -> Result<(), StoreError> {
        let job = &in_hand.leased.job;
        // Publishing has a count of its own, which the database keeps.
        if job.attempt < job.max_attempts || self.is_publishing(in_hand).await {
            tracing::info!(reason, attempt = job.attempt, "attempt failed; another follows");
            return self
                .queue
                .retry(&in_hand.leased.lease, job.attempt, &reason)
                .await
                .map(|_| ());
        }
        tracing::warn!(reason, "the last attempt failed");
        let outcome = Outcome::GaveUp {
            reason: reason::attempts(self.ports.language, &reason, job.attempt),
            branch: None,
        };
        self.end_or_bury(in_hand, outcome).await
    }

    /// Whether the work is stored. Where the answer to the commit that stored it was lost, only the
    /// database knows.
    async fn is_publishing(&self, in_hand: &InHand<'_>) -> bool {
        if in_hand.publishing.load(Ordering::SeqCst) {
            return true;
        }
        let stored = async { self.publisher.store.begin().await?.job(&in_hand.leased.job.id).await }.await;
        // Without an answer nothing can be settled either: the lease ends, and recovery reads it.
        let is_stored = matches!(stored, Ok(Some(job)) if job.state == JobState::Publishing);
        in_hand.publishing.fetch_or(is_stored, Ordering::SeqCst);
        is_stored
    }

    /// Publishes an ending; where even that fails for good, the job is buried with its reason.
    async fn end_or_bury(&self, in_hand: &InHand<'_>, outcome: Outcome) -> Result<(), StoreError> {
        let lease = &in_hand.leased.lease;
        let reason = match &outcome {
            Outcome::GaveUp { reason, .. } | Outcome::Refused { reason } | Outcome::Stopped { reason, .. } => {
                reason.clone()
            }
            other => format!("{other:?}"),
        };
        if in_hand.publishing.load(Ordering::SeqCst) {
            // How it ends stands in the database already, and that did not work out.
            return self.queue.bury(lease, &reason).await;
        }
        match self.end(in_hand, outcome).await {
            Ok(()) | Err(JobError::LeaseLost) => Ok(()),
            Err(JobError::Snooze(until, why)) => self.queue.snooze(lease, until, &why).await,
            Err(JobError::Retry(why) | JobError::Unsent(why)) => self
                .queue
                .retry(lease, in_hand.leased.job.attempt, &why)
                .await
                .map(|_| ()),
            Err(JobError::Fail(why) | JobError::NoRight(why) | JobError::HeadMoved(why)) => {
                self.queue.bury(lease, &format!("{reason}; and then: {why}")).await
            }
            Err(JobError::End(_)) => self.queue.bury(lease, &reason).await,
        }
    }

    /// The person lost the right: nothing more is written, the job is cancelled.
    async fn withdraw(&self, in_hand: &InHand<'_>, why: &str) -> Result<(), StoreError> {
        tracing::warn!(why, "permission was lost; nothing is published");
        let reason = reason::permission(self.ports.language, why);
        self.queue.withdraw(&in_hand.leased.lease, &reason).await
    }

    fn was_cancelled(&self, in_hand: &InHand<'_>) -> bool {
        in_hand.cancelled_by_person.load(Ordering::SeqCst)
    }
}

/// One job that breaks us must not leave the service with one slot less. The job is recovered when
/// its lease ends, and given up in time.
fn tell_of_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!("the work on a job broke down; it is tried again when its lease ends; please report this");
    }
}
