//! Failed checks on a pull request of ours, before anything is repaired: whether it is still the
//! head, whether all checks are over, whether the base fails as well, and whether they fail again.
//! Where nothing is to be repaired, nothing is said, or one sentence. Called by `fix`.
//! Never repairs what is not known to pass on the base.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::{InHand, Worker};
use crate::effect::{Effect, EffectBody, EffectState};
use crate::event::RunEvent;
use crate::github::{Check, CheckRun, CheckSource, RepoClient, Rollup, Verdict};
use crate::ids::CommitSha;
use crate::job::{Job, JobError, Outcome, Trigger};
use crate::phrase::check::{self as words, Why};
use crate::publish::{self, Planned};
use crate::run::{self, CONVERSATION, Sorted, Target};
use crate::store::{JobFilter, StoreError};
use crate::text;

/// Repairs of one pull request by our own continuation.
const MAX_ROUNDS: usize = 2;
/// Most jobs of a pull request that are looked through.
const MAX_JOBS: u32 = 1_000;
/// Checks that are not over within this many times `queue.retry_seconds` are waited for no more:
/// two hours by default. The same for one that was asked to run again: ten minutes.
const PATIENCE: u32 = 720;
const RERUN_PATIENCE: u32 = 60;
/// Longest pause between two looks.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// Most checks that are asked to run again.
const MAX_RERUNS: usize = 10;
/// Most check runs of a commit that are looked through.
const MAX_RUNS: usize = 2_000;
/// Most characters of the name of a check.
const MAX_NAME_CHARS: usize = 100;

/// A job of a failed check, and what is read for it.
struct Look<'a> {
    worker: &'a Worker,
    in_hand: &'a InHand<'a>,
    client: &'a RepoClient,
    sha: &'a CommitSha,
}

impl Worker {
    /// How a job of failed checks ends without work, or nothing when there is something to repair,
    /// and for every other job.
    pub(super) async fn nothing_to_repair(
        &self,
        in_hand: &InHand<'_>,
        client: &RepoClient,
    ) -> Result<Option<Planned>, JobError> {
        let job = &in_hand.leased.job;
        let Trigger::Checks { sha } = &job.request.trigger else {
            return Ok(None);
        };
        let mut tx = self.publisher.store.begin().await?;
        let has_begun = tx.checkpoint(&job.id, CONVERSATION).await?.is_some();
        drop(tx);
        if has_begun {
            return Ok(None);
        }
        let look = Look {
            worker: self,
            in_hand,
            client,
            sha,
        };
        look.whole().await
    }

    /// Our check run on the head of a pull request of ours that is going to change.
    pub(super) async fn show_at_work(&self, in_hand: &InHand<'_>, target: &Target) -> Result<(), JobError> {
        let Target::ExistingPull { number, head, .. } = target else {
            return Ok(());
        };
        if !in_hand.leased.job.kind.changes_code() {
            return Ok(());
        }
        publish::begin_check(&self.publisher, in_hand.leased, &in_hand.pulse, *number, head).await
    }
}

impl Look<'_> {
    fn job(&self) -> &Job {
        &self.in_hand.leased.job
    }

    async fn whole(&self) -> Result<Option<Planned>, JobError> {
        let number = self.job().subject.number();
        let number = number.ok_or_else(|| JobError::Fail("the job has no pull request".to_owned()))?;
        let pull = self.client.pull(number).await?;
        if pull.state != "open" {
            return Ok(self.quietly(Why::Closed));
        }
        if pull.head.sha != *self.sha {
            return Ok(self.quietly(Why::HeadMoved));
        }
        let head = self.rollup(self.sha).await?;
        let reruns = self.reruns().await?;
        match head.verdict() {
            Verdict::Passed if reruns.is_empty() => return Ok(self.quietly(Why::PassedMeanwhile)),
            Verdict::Passed => return Ok(self.quietly(Why::Flaky)),
            Verdict::Unknown => return Ok(self.quietly(Why::NoneFails)),
            Verdict::Pending if !self.may_wait() => return Ok(self.quietly(Why::NotOver)),
            Verdict::Pending => return Err(self.later(Why::UnderWay)),
            Verdict::Failed => {}
        }
        let open: Vec<&Check> = head.checks.iter().filter(|check| !check.state.is_completed()).collect();
        if !open.is_empty() && self.may_wait() {
            return Err(self.later(Why::OthersUnderWay));
        }
        let base = self.rollup(&pull.base.sha).await?;
        let sorted = run::sort(&head, &base);
        if !sorted.pending.is_empty() && self.may_wait() {
            return Err(self.later(Why::BaseUnderWay));
        }
        if let Some(sentence) = self.sentence(&sorted, &pull.base.sha).await? {
            return Ok(Some(sentence));
        }
        self.again(&sorted.own, &reruns).await?;
        self.note(&open, &head).await?;
        Ok(None)
    }

    /// All that is said about a commit, but for what we say.
    async fn rollup(&self, sha: &CommitSha) -> Result<Rollup, JobError> {
        let rollup = self.client.rollup(sha).await?;
        Ok(rollup.without_app(self.worker.publisher.app.id))
    }

    /// What people are told where there is nothing to repair.
    async fn sentence(&self, sorted: &Sorted<'_>, base: &CommitSha) -> Result<Option<Planned>, JobError> {
        let publisher = &self.worker.publisher;
        let language = publisher.language;
        let unclear: Vec<&Check> = sorted.unknown.iter().chain(&sorted.pending).copied().collect();
        let text = if sorted.own.is_empty() {
            match (sorted.base.as_slice(), unclear.as_slice()) {
                (failing, []) => words::base_fails(language, &self.names(failing), base.short()),
                (_, unclear) => words::base_unknown(language, &self.names(unclear), base.short(), &publisher.command),
            }
        } else if self.rounds().await? >= MAX_ROUNDS {
            words::enough(language, &self.names(&sorted.own), MAX_ROUNDS)
        } else {
            return Ok(None);
        };
        Ok(Some(self.saying(text)))
    }

    /// Repairs that reached the branch.
    async fn rounds(&self) -> Result<usize, StoreError> {
        let filter = JobFilter {
            repo_id: Some(self.job().repo_id),
            subject: Some(self.job().subject.clone()),
            limit: MAX_JOBS,
            ..JobFilter::default()
        };
        let mut tx = self.worker.publisher.store.begin().await?;
        let jobs = tx.jobs(&filter).await?;
        let repaired = jobs.iter().filter(|job| {
            let of_checks = matches!(job.request.trigger, Trigger::Checks { .. });
            of_checks && matches!(job.outcome, Some(Outcome::Pushed { .. }))
        });
        Ok(repaired.count())
    }

    /// The checks that were asked to run again.
    async fn reruns(&self) -> Result<Vec<Effect>, StoreError> {
        let mut tx = self.worker.publisher.store.begin().await?;
        let mut effects = tx.effects(&self.job().id).await?;
        effects.retain(|effect| matches!(effect.body, EffectBody::RerunCheck { .. }));
        Ok(effects)
    }

    /// Failed checks run once more, where their App lets us ask: what passes then was no failure of
    /// the change. Done when all of them failed again, or cannot run again.
    async fn again(&self, own: &[&Check], reruns: &[Effect]) -> Result<(), JobError> {
        let ids: Vec<u64> = own
            .iter()
            .filter_map(|check| match check.source {
                CheckSource::Run { id } => Some(id),
                CheckSource::Status => None,
            })
            .take(MAX_RERUNS)
            .collect();
        if ids.is_empty() {
            return Ok(());
        }
        let runs = self.client.check_runs(self.sha, MAX_RUNS).await?;
        if reruns.is_empty() {
            let asked = runs.iter().filter(|run| ids.contains(&run.id));
            let asked = asked.map(|run| (run.id, run.name.clone(), run.completed_at)).collect();
            publish::rerun_checks(&self.worker.publisher, self.in_hand.leased, &self.in_hand.pulse, asked).await?;
            if self
                .reruns()
                .await?
                .iter()
                .any(|effect| effect.state == EffectState::Done)
            {
                return Err(self.later(Why::RunAgain));
            }
            return Ok(());
        }
        let waits = |effect: &&Effect| effect.state == EffectState::Done && !has_ended_again(effect, &runs);
        match reruns.iter().find(waits) {
            Some(effect) if self.is_within(effect.sent_at, RERUN_PATIENCE) => Err(self.later(Why::RunAgain)),
            _ => Ok(()),
        }
    }

    /// What the work that begins does not know.
    async fn note(&self, open: &[&Check], head: &Rollup) -> Result<(), JobError> {
        let language = self.worker.publisher.language;
        let recorder = &self.in_hand.recorder;
        if !open.is_empty() {
            let text = words::went_on(language, &self.names(open));
            recorder.record(RunEvent::Noted { text }).await?;
        }
        if !head.unread.is_empty() {
            let text = words::unread(language, &head.unread.join("; "));
            recorder.record(RunEvent::Noted { text }).await?;
        }
        Ok(())
    }

    fn names(&self, checks: &[&Check]) -> String {
        let name = |check: &&Check| text::code_span(&text::cap_chars(&check.name, MAX_NAME_CHARS));
        let names: Vec<String> = checks.iter().map(name).collect();
        words::list(self.worker.publisher.language, &names)
    }

    fn quietly(&self, why: Why) -> Option<Planned> {
        let reason = words::why(self.worker.publisher.language, why).to_owned();
        Some(publish::ending(self.job(), Outcome::NothingToDo { reason }))
    }

    fn saying(&self, text: String) -> Planned {
        let mut planned = publish::ending(self.job(), Outcome::NothingToDo { reason: text.clone() });
        if let Some(number) = self.job().subject.number() {
            let comment = publish::comment(self.job(), EffectBody::Comment { number, body: text });
            planned.effects.insert(0, comment);
        }
        planned
    }

    fn may_wait(&self) -> bool {
        self.is_within(Some(self.job().created_at), PATIENCE)
    }

    fn is_within(&self, since: Option<DateTime<Utc>>, patience: u32) -> bool {
        let most = self.worker.queue.config().retry_seconds.saturating_mul(patience);
        let most = TimeDelta::from_std(most).unwrap_or(TimeDelta::MAX);
        since.is_some_and(|since| self.worker.ports.clock.now() - since < most)
    }

    /// Looks again after a pause that grows with the wait.
    fn later(&self, why: Why) -> JobError {
        let now = self.worker.ports.clock.now();
        let waited = (now - self.job().created_at).to_std().unwrap_or_default();
        let least = self.worker.queue.config().retry_seconds;
        let pause = (waited / 4).clamp(least.min(LONGEST_PAUSE), LONGEST_PAUSE);
        let until = now + TimeDelta::from_std(pause).unwrap_or(TimeDelta::MAX);
        let reason = words::why(self.worker.publisher.language, why).to_owned();
        JobError::Snooze(until, reason)
    }
}

/// Whether a check that was asked to run again has come to another end.
fn has_ended_again(effect: &Effect, runs: &[CheckRun]) -> bool {
    let EffectBody::RerunCheck { id, name, ended } = &effect.body else {
        return true;
    };
    let of_name = runs.iter().filter(|run| run.name == *name && run.id >= *id);
    let Some(last) = of_name.max_by_key(|run| run.id) else {
        return true;
    };
    last.status == "completed" && (last.id != *id || last.completed_at != *ended)
}
