//! Jobs that need a person: the run is put aside with its work, goes on with the answer, or is
//! wound up when nobody answered or somebody stopped it. Called by `fix`.
//! Never takes silence for consent, and never lets a job wait whose question is not stored.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use chrono::TimeDelta;

use super::{InHand, Worker};
use crate::agent::{Answer, People, Question, Stop, answer};
use crate::event::Stage;
use crate::ids::CommitSha;
use crate::job::{Job, JobError, Lease};
use crate::phrase::reason as words;
use crate::publish;
use crate::question::{Asked, Reply};
use crate::run;
use crate::secret::Redactor;
use crate::store::{NewQuestion, Store, StoreError};

/// Most questions of one round of a job: whoever has to ask more often needs a conversation, not a
/// job.
const MAX_ASKED: u32 = 10;

/// The people on an issue or pull request: they answer later, and what they said already is known.
pub(super) struct Pausing {
    store: Store,
    lease: Lease,
    redactor: Redactor,
    may_ask: bool,
    /// The question that this run waited with and whose answer it has not been given yet.
    answered: Mutex<Option<Asked>>,
}

impl Pausing {
    /// The people of the job in hand.
    pub(super) async fn open(worker: &Worker, in_hand: &InHand<'_>) -> Result<Self, StoreError> {
        let job = &in_hand.leased.job;
        let store = worker.publisher.store.clone();
        let mut tx = store.begin().await?;
        let last = tx.last_question(&job.id).await?;
        let asked_so_far = last.as_ref().map_or(0, |asked| asked.seq);
        let mut answered = last.filter(|asked| asked.round == job.round && !asked.is_expired);
        if let Some(asked) = &answered {
            // A permission holds for one call, and that call has begun.
            let is_used = asked.is_taken && matches!(asked.question, Question::Permit { .. });
            if is_used || tx.replies(&job.id, asked.seq).await?.is_empty() {
                answered = None;
            }
        }
        drop(tx);
        let limit = MAX_ASKED.saturating_mul(job.round.saturating_add(1));
        Ok(Self {
            store,
            lease: in_hand.leased.lease.clone(),
            redactor: worker.ports.redactor.clone(),
            // A task has no place where anybody could be asked.
            may_ask: job.subject.number().is_some() && worker.queue.config().answer_days > 0.0 && asked_so_far < limit,
            answered: Mutex::new(answered),
        })
    }

    fn clean(&self, question: &Question) -> Question {
        question.cleaned(&|text| self.redactor.redact(text))
    }

    /// The answered question, if it is this one. It is given out once.
    fn take(&self, question: &Question) -> Option<Asked> {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        answered.take_if(|asked| asked.question == *question)
    }

    async fn given(&self, asked: &Asked) -> Result<Option<Answer>, StoreError> {
        let mut tx = self.store.begin().await?;
        let replies = tx.take_replies(&self.lease, asked.seq).await?;
        tx.commit().await?;
        Ok(answer(&asked.question, &replies))
    }
}

#[async_trait]
impl People for Pausing {
    async fn has_more(&self, heard: u32) -> bool {
        let counting = async {
            let mut tx = self.store.begin().await?;
            tx.count_instructions(&self.lease.job).await
        };
        match counting.await {
            Ok(given) => given > heard,
            Err(error) => {
                // They become a job of their own.
                tracing::warn!(%error, "instructions could not be counted");
                false
            }
        }
    }

    async fn said_since(&self, heard: u32) -> Vec<Reply> {
        let taking = async {
            let mut tx = self.store.begin().await?;
            let said = tx.take_instructions(&self.lease).await?;
            tx.commit().await.map(|()| said)
        };
        match taking.await {
            Ok(said) => said.into_iter().skip(heard as usize).collect(),
            Err(error) => {
                // They stay for the next turn, or for a job of their own.
                tracing::warn!(%error, "instructions could not be read");
                Vec::new()
            }
        }
    }

    fn can_ask(&self) -> bool {
        self.may_ask
    }

    fn has_answer(&self, question: &Question) -> bool {
        let answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let question = self.clean(question);
        answered.as_ref().is_some_and(|asked| asked.question == question)
    }

    async fn ask(&self, question: &Question) -> Answer {
        let question = self.clean(question);
        if let Some(asked) = self.take(&question) {
            match self.given(&asked).await {
                Ok(Some(answer)) => return answer,
                Ok(None) => {}
                // The job is not put to wait for an answer that is there: see `pause`.
                Err(error) => tracing::warn!(%error, "an answer could not be read"),
            }
        }
        if self.may_ask { Answer::Later } else { Answer::Nobody }
    }
}

/// A question of an earlier attempt with its answer.
pub(super) struct SaidBefore {
    /// Both, for the agent.
    pub(super) note: String,
    /// Whether it was a plan and people said yes to it: it is not proposed again.
    pub(super) approves_plan: bool,
}

/// What became of a job that wants to wait.
pub(super) enum Paused {
    /// It waits.
    Waits,
    /// Somebody asked to stop it meanwhile.
    Stopped,
}

impl Worker {
    /// Puts the job aside until somebody answers. `base` is the commit that the stored change
    /// stands on, if there is one.
    pub(super) async fn pause(
        &self,
        in_hand: &InHand<'_>,
        question: &Question,
        base: Option<CommitSha>,
    ) -> Result<Paused, JobError> {
        let job = &in_hand.leased.job;
        let mut tx = self.publisher.store.begin().await?;
        let last = tx.last_question(&job.id).await?;
        let question = question.cleaned(&|text| self.ports.redactor.redact(text));
        if let Some(last) = &last
            && (last.round, last.is_taken, &last.question) == (job.round, false, &question)
            && !tx.replies(&job.id, last.seq).await?.is_empty()
        {
            return Err(JobError::Retry("the answer could not be read".to_owned()));
        }
        let seq = last.map_or(1, |last| last.seq + 1);
        let days = self.queue.config().answer_days;
        let wait = TimeDelta::milliseconds((days * 86_400_000.0) as i64);
        let asking = NewQuestion {
            seq,
            question,
            base,
            answer_by: tx.db_now().await? + wait,
        };
        let row = publish::asking(job, seq);
        if !tx.pause_job(&in_hand.leased.lease, &asking, &[row]).await? {
            return Ok(Paused::Stopped);
        }
        in_hand.released.store(true, Ordering::SeqCst);
        tx.commit().await?;
        tracing::info!("the job waits for a person");
        metrics::counter!("forgehand_jobs_paused_total").increment(1);
        if let Err(error) = publish::ask_people(&self.publisher, &job.id).await {
            tracing::info!(?error, "the question is not shown yet; it will be");
        }
        Ok(Paused::Waits)
    }

    /// How a job ends that waited and goes on no more; nothing for one that goes on.
    pub(super) async fn wound_up(&self, in_hand: &InHand<'_>) -> Result<Option<publish::Planned>, JobError> {
        let job = &in_hand.leased.job;
        let asked = self.question_of(job).await?;
        let why_stopped = job
            .reason
            .clone()
            .unwrap_or_else(|| words::stopped(self.ports.language).to_owned());
        if job.cancel_requested_at.is_some()
            && let Some(carry) = publish::Carry::of(&self.publisher.store, job).await?
        {
            let planning = publish::put_beside(&self.publisher, job, &carry, &Stop::Cancelled, why_stopped);
            return run::stage(&in_hand.recorder, Stage::Publish, planning).await.map(Some);
        }
        let stop = match &asked {
            _ if job.cancel_requested_at.is_some() => Stop::Cancelled,
            Some(asked) if asked.is_expired => Stop::Stuck(words::no_answer(
                self.ports.language,
                &asked.answer_by.format("%Y-%m-%d %H:%M UTC").to_string(),
            )),
            _ => return Ok(None),
        };
        let base = asked.and_then(|asked| asked.base);
        let result = publish::Unfinished {
            stop: &stop,
            why_stopped: &why_stopped,
        };
        let planning = publish::wind_up(&self.publisher, job, base.as_ref(), &result);
        run::stage(&in_hand.recorder, Stage::Publish, planning).await.map(Some)
    }

    /// The last question of the job's present round.
    pub(super) async fn question_of(&self, job: &Job) -> Result<Option<Asked>, StoreError> {
        let mut tx = self.publisher.store.begin().await?;
        Ok(tx
            .last_question(&job.id)
            .await?
            .filter(|asked| asked.round == job.round))
    }

    /// What was asked and answered, for a run that cannot go on where it was and begins anew.
    pub(super) async fn said_before(&self, job: &Job, asked: &Asked) -> Result<Option<SaidBefore>, StoreError> {
        let mut tx = self.publisher.store.begin().await?;
        let replies = tx.replies(&job.id, asked.seq).await?;
        drop(tx);
        let answer = answer(&asked.question, &replies);
        let is_yes = matches!(answer, Some(Answer::Yes | Answer::Approved(_)));
        let said = match answer {
            Some(Answer::Said(words)) => words,
            Some(Answer::Yes) => "A person said yes.".to_owned(),
            Some(Answer::Approved(remarks)) => format!("A person said yes. {remarks}"),
            Some(Answer::No) => "A person said no.".to_owned(),
            _ => return Ok(None),
        };
        let question = match &asked.question {
            Question::Ask { questions } => questions.join(" "),
            Question::Confirm { action, .. } => action.clone(),
            Question::Plan(plan) => plan.in_words(),
            Question::Permit { call, .. } => call.clone(),
        };
        Ok(Some(SaidBefore {
            note: format!("In an earlier attempt you asked: {question}\n{said}"),
            approves_plan: is_yes && matches!(asked.question, Question::Plan(_)),
        }))
    }
}
