//! Commands that steer instead of working: stop, answer, create, budget, status, help. They have a
//! lane of their own, so that they need not wait for the work. Never changes code.

use super::{InHand, Worker};
use crate::audit::person;
use crate::effect::{EffectBody, NewEffect};
use crate::ids::Subject;
use crate::intake::STATUS_REPLY;
use crate::job::{Job, JobError, Outcome};
use crate::money::Usd;
use crate::phrase::{command, money, reason};
use crate::publish;
use crate::question::Reply;
use crate::store::{AnswerResult, JobFilter, NewCap};

impl Worker {
    pub(super) async fn reply(&self, in_hand: &InHand<'_>) -> Result<(), JobError> {
        publish::acknowledge(&self.publisher, in_hand.leased, &in_hand.pulse).await?;
        let job = &in_hand.leased.job;
        let text = if job.request.instructions.starts_with(STATUS_REPLY) {
            self.status_in_words(job).await?
        } else {
            job.request.instructions.clone()
        };
        self.answer(in_hand, text).await
    }

    pub(super) async fn stop(&self, in_hand: &InHand<'_>) -> Result<(), JobError> {
        publish::acknowledge(&self.publisher, in_hand.leased, &in_hand.pulse).await?;
        let job = &in_hand.leased.job;
        let reason = reason::asked_to_stop(self.ports.language, &job.request.actor.login);
        let mut tx = self.publisher.store.begin().await?;
        tx.act_as(person(&job.request.actor.login));
        let stopped = tx
            .cancel_subject(job.repo_id, &job.subject, &reason, self.ports.clock.now())
            .await?;
        let mut waiting = 0;
        for id in &stopped {
            let had_begun = tx
                .effects(id)
                .await?
                .iter()
                .any(|effect| effect.body.kind() == "status_comment");
            waiting += usize::from(!had_begun);
        }
        tx.commit().await?;
        match stopped.len() {
            0 => {
                let words = command::nothing_to_stop(self.ports.language);
                self.answer(in_hand, words.to_owned()).await
            }
            // What never began has no status comment of its own.
            _ if waiting > 0 => {
                let words = command::taken_back(self.publisher.language, waiting, waiting < stopped.len());
                self.answer(in_hand, words).await
            }
            // The status comment of the stopped job tells the rest.
            _ => self.end(in_hand, Outcome::Answered).await,
        }
    }

    /// Gives what a person said to the job that waits for it.
    pub(super) async fn hear(&self, in_hand: &InHand<'_>) -> Result<(), JobError> {
        publish::acknowledge(&self.publisher, in_hand.leased, &in_hand.pulse).await?;
        let job = &in_hand.leased.job;
        let reply = Reply {
            by: job.request.actor.login.clone(),
            words: job.request.instructions.clone(),
            at: job.request.triggered_at,
        };
        let mut tx = self.publisher.store.begin().await?;
        tx.act_as(person(&job.request.actor.login));
        let asking = match tx.answered_by(job.id.as_str()).await? {
            // An earlier attempt of this command got as far as this.
            Some(id) => Some(id),
            None => tx.asking_job(job.repo_id, &job.subject).await?,
        };
        let heard = match &asking {
            Some(id) => tx.answer_job(id, job.id.as_str(), &reply).await?,
            None => AnswerResult::NothingAsked,
        };
        tx.commit().await?;
        let why_not = match heard {
            // The status comment of the job tells the rest.
            AnswerResult::Taken => return self.end(in_hand, Outcome::Answered).await,
            AnswerResult::NothingAsked => command::nothing_asked(self.ports.language),
            AnswerResult::TooMany => command::too_many_answers(self.ports.language),
        };
        self.answer(in_hand, why_not.to_owned()).await
    }

    /// Creates the issue that was drafted, if it is the one that the person means and may have.
    pub(super) async fn create(&self, in_hand: &InHand<'_>) -> Result<(), JobError> {
        publish::acknowledge(&self.publisher, in_hand.leased, &in_hand.pulse).await?;
        let planned = publish::plan_create(&self.publisher, in_hand.leased).await?;
        self.publish_planned(in_hand, planned).await
    }

    /// Sets what all work on the issue or pull request may cost. Work that is going on asks before
    /// its next call, work to come at its beginning.
    pub(super) async fn set_budget(&self, in_hand: &InHand<'_>) -> Result<(), JobError> {
        publish::acknowledge(&self.publisher, in_hand.leased, &in_hand.pulse).await?;
        let job = &in_hand.leased.job;
        let (caps, language) = (&self.publisher.caps, self.publisher.language);
        let cents = job.request.instructions.parse();
        let cents = cents.map_err(|_| JobError::Fail("the sum of the command is not a number".to_owned()))?;
        let (most, limit) = (Usd::from_cents(cents), caps.most_by_comment());
        if most > limit {
            return self.answer(in_hand, money::too_much(language, most, limit)).await;
        }
        let now = self.ports.clock.now();
        let cap = NewCap {
            most,
            by: job.request.actor.login.clone(),
            at: now,
            source: job.id.clone(),
        };
        let mut tx = self.publisher.store.begin().await?;
        tx.check_lease(&in_hand.leased.lease).await?;
        let before = tx.set_subject_cap(job.repo_id, &job.subject, &cap).await?;
        let used = caps.of_subject(&mut tx, job, now).await?;
        tx.commit().await?;
        tracing::info!(by = %cap.by, %most, "a cap was set");
        let before = before.or_else(|| Some(caps.subject()).filter(|operators| *operators > Usd::ZERO));
        let words = used.map(|used| money::set(language, &used, before));
        self.answer(in_hand, words.unwrap_or_default()).await
    }

    pub(super) async fn answer(&self, in_hand: &InHand<'_>, text: String) -> Result<(), JobError> {
        let planned = self.answering(in_hand, text)?;
        self.publish_planned(in_hand, planned).await
    }

    /// The ending of a job that answers with a comment.
    pub(super) fn answering(&self, in_hand: &InHand<'_>, text: String) -> Result<publish::Planned, JobError> {
        let job = &in_hand.leased.job;
        let number = job
            .subject
            .number()
            .ok_or_else(|| JobError::Fail("there is nowhere to answer".to_owned()))?;
        let mut planned = publish::ending(job, Outcome::Answered);
        let comment: NewEffect = publish::comment(job, EffectBody::Comment { number, body: text });
        planned.effects.insert(0, comment);
        Ok(planned)
    }

    /// One line about each job of the subject that is not over, or about the last one.
    async fn status_in_words(&self, job: &Job) -> Result<String, JobError> {
        let mut tx = self.publisher.store.begin().await?;
        let filter = JobFilter {
            repo_id: Some(job.repo_id),
            subject: Some(job.subject.clone()),
            limit: 20,
            ..JobFilter::default()
        };
        let jobs = tx.jobs(&filter).await?;
        let mut lines = Vec::new();
        for other in jobs.iter().filter(|other| other.kind.is_work()) {
            if other.state.is_final() && !lines.is_empty() {
                break;
            }
            let before = match other.state {
                crate::job::JobState::Queued => Some(tx.queue_position(&other.id).await?),
                _ => None,
            };
            let reason = other.reason.as_deref().map(|reason| self.publisher.safe(reason));
            let state = other.state.to_string();
            lines.push(command::stands(
                self.ports.language,
                other.id.as_str(),
                &state,
                before,
                reason.as_deref(),
            ));
            if other.state.is_final() {
                break;
            }
        }
        if lines.is_empty() {
            let is_pull = matches!(job.subject, Subject::Pull(_));
            return Ok(command::nothing_yet(self.ports.language, is_pull).to_owned());
        }
        Ok(lines.join("\n"))
    }
}
