//! Commands that steer instead of working: stop, answer, status, help, and the honest answer to verbs
//! that are not built. They have a lane of their own, so that they need not wait for the work.
//! Never changes code.

use super::{InHand, Worker};
use crate::effect::{EffectBody, NewEffect};
use crate::ids::Subject;
use crate::intake::STATUS_REPLY;
use crate::job::{Job, JobError, Outcome};
use crate::publish;
use crate::question::Reply;
use crate::store::{AnswerResult, JobFilter};

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
        let reason = format!("{} asked to stop", job.request.actor.login);
        let mut tx = self.publisher.store.begin().await?;
        let stopped = tx
            .cancel_subject(job.repo_id, &job.subject, &reason, self.ports.clock.now())
            .await?;
        tx.commit().await?;
        match stopped.len() {
            0 => {
                self.answer(in_hand, "Nothing is running or queued here.".to_owned())
                    .await
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
            AnswerResult::NothingAsked => "Nothing here waits for an answer, so nothing was done with it.",
            AnswerResult::TooMany => "That question has too many answers already; this one was not added.",
        };
        self.answer(in_hand, why_not.to_owned()).await
    }

    pub(super) async fn answer(&self, in_hand: &InHand<'_>, text: String) -> Result<(), JobError> {
        let job = &in_hand.leased.job;
        let number = job
            .subject
            .number()
            .ok_or_else(|| JobError::Fail("there is nowhere to answer".to_owned()))?;
        let mut planned = publish::ending(job, Outcome::Answered);
        let comment: NewEffect = publish::comment(job, EffectBody::Comment { number, body: text });
        planned.effects.insert(0, comment);
        self.publish_planned(in_hand, planned).await
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
            let place = match other.state {
                crate::job::JobState::Queued => format!(", {} jobs before it", tx.queue_position(&other.id).await?),
                _ => String::new(),
            };
            let reason = other
                .reason
                .as_deref()
                .map_or_else(String::new, |reason| format!(" ({})", self.publisher.safe(reason)));
            lines.push(format!("- job {} is **{}**{place}{reason}", other.id, other.state));
            if other.state.is_final() {
                break;
            }
        }
        if lines.is_empty() {
            let what = if matches!(job.subject, Subject::Pull(_)) {
                "pull request"
            } else {
                "issue"
            };
            return Ok(format!("Nothing was asked of me on this {what} yet."));
        }
        Ok(lines.join("\n"))
    }
}
