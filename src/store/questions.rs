//! Tables `questions` and `answers`: T5, a job that waits for a person, and T6, the answer or its
//! absence. Called by `worker`, by maintenance and by the command line. Never lets an answer into
//! a run before somebody checked that the person may give it: that is the caller's proof to bring.

use chrono::{DateTime, Utc};

use super::audit::Whose;
use super::checkpoints::CARRY;
use super::claims::one_row;
use super::row::{count, from_json, micros, parse, reason, row, to_json, without_nul};
use super::{AnswerResult, NewQuestion, StoreError, Tx};
use crate::audit::{Act, Action};
use crate::effect::{EffectState, NewEffect};
use crate::event::RunEvent;
use crate::ids::{JobId, RepoId, Subject};
use crate::job::{JobState, Lease};
use crate::question::{Asked, Reply};

/// Most answers to one question: people who go on talking are not heard for ever.
const MAX_ANSWERS: i64 = 20;

/// What people read of a job that waits.
const WAITS: &str = "a person has to answer before it goes on";

row! {
    Stored {
        seq: i64,
        round: i64,
        question: String,
        base_sha: Option<String>,
        asked_at: DateTime<Utc>,
        answer_by: DateTime<Utc>,
        taken_at: Option<DateTime<Utc>>,
        expired_at: Option<DateTime<Utc>>,
    }
}

row! {
    StoredReply {
        by_login: String,
        words: String,
        at: DateTime<Utc>,
    }
}

impl Tx {
    /// T5: leased → waiting with the question and the effects that show it. The attempt is not
    /// used up by it. False: somebody asked to stop the job meanwhile, and nothing was done.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`]; [`StoreError::Corrupt`] when the job is publishing already.
    pub async fn pause_job(
        &mut self,
        lease: &Lease,
        asking: &NewQuestion,
        effects: &[NewEffect],
    ) -> Result<bool, StoreError> {
        let held = self.hold(lease).await?;
        if held.state()? != JobState::Leased {
            return Err(StoreError::Corrupt(format!(
                "job {} is publishing and cannot wait for an answer",
                lease.job
            )));
        }
        if held.cancel_requested_at.is_some() {
            return Ok(false);
        }
        let now = self.db_now().await?;
        let paused = on_db!(
            self,
            sqlx::query(
                "UPDATE jobs
                 SET state = 'waiting',
                     max_attempts = max_attempts + 1,
                     lost_leases = 0,
                     reason = $3,
                     lease_token = NULL,
                     lease_owner = NULL,
                     lease_until = NULL
                 WHERE id = $1
                   AND fence = $2
                   AND state = 'leased'"
            )
            .bind(lease.job.as_str())
            .bind(lease.fence)
            .bind(WAITS),
            execute
        )?;
        one_row(paused, &lease.job)?;
        on_db!(
            self,
            sqlx::query(
                "INSERT INTO questions (job_id, seq, round, question, base_sha, asked_at, answer_by)
                 SELECT jobs.id, $2, jobs.round, $3, $4, $5, $6
                 FROM jobs
                 WHERE jobs.id = $1"
            )
            .bind(lease.job.as_str())
            .bind(i64::from(asking.seq))
            .bind(to_json("questions.question", &asking.question)?)
            .bind(asking.base.as_ref().map(ToString::to_string))
            .bind(micros(now))
            .bind(micros(asking.answer_by)),
            execute
        )?;
        self.add_effects(lease, effects).await?;
        self.unsettle_effects(&lease.job).await?;
        let event = RunEvent::Asked {
            question: asking.question.clone(),
            answer_by: asking.answer_by,
        };
        self.log_event(&lease.job, lease.fence, &event, now).await?;
        Ok(true)
    }

    /// The last question of a job, of whichever round.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when a column does not parse.
    pub async fn last_question(&mut self, job: &JobId) -> Result<Option<Asked>, StoreError> {
        let stored: Option<Stored> = on_db!(
            self,
            sqlx::query_as(
                "SELECT seq, round, question, base_sha, asked_at, answer_by, taken_at, expired_at
                 FROM questions
                 WHERE job_id = $1
                 ORDER BY seq DESC
                 LIMIT 1"
            )
            .bind(job.as_str()),
            fetch_optional
        )?;
        stored.map(Asked::try_from).transpose()
    }

    /// What people said to a question so far, oldest first.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn replies(&mut self, job: &JobId, question: u32) -> Result<Vec<Reply>, StoreError> {
        let stored: Vec<StoredReply> = on_db!(
            self,
            sqlx::query_as(
                "SELECT by_login, words, at
                 FROM answers
                 WHERE job_id = $1
                   AND question = $2
                 ORDER BY at, source"
            )
            .bind(job.as_str())
            .bind(i64::from(question)),
            fetch_all
        )?;
        Ok(stored
            .into_iter()
            .map(|stored| Reply {
                by: stored.by_login,
                words: stored.words,
                at: stored.at,
            })
            .collect())
    }

    /// Gives a run what was said to its question. From then on nothing more is taken for it.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] and those of the database.
    pub async fn take_replies(&mut self, lease: &Lease, question: u32) -> Result<Vec<Reply>, StoreError> {
        self.hold(lease).await?;
        let replies = self.replies(&lease.job, question).await?;
        if replies.is_empty() {
            return Ok(replies);
        }
        let now = self.db_now().await?;
        on_db!(
            self,
            sqlx::query(
                "UPDATE questions
                 SET taken_at = COALESCE(taken_at, $3)
                 WHERE job_id = $1
                   AND seq = $2"
            )
            .bind(lease.job.as_str())
            .bind(i64::from(question))
            .bind(micros(now)),
            execute
        )?;
        Ok(replies)
    }

    /// The job of a subject that has asked something and was not given the answer yet.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn asking_job(&mut self, repo: RepoId, subject: &Subject) -> Result<Option<JobId>, StoreError> {
        let id: Option<String> = on_db!(
            self,
            sqlx::query_scalar(
                "SELECT jobs.id
                 FROM jobs
                 JOIN questions ON questions.job_id = jobs.id
                 WHERE jobs.repo_id = $1
                   AND jobs.subject = $2
                   AND jobs.kind IN ('fix', 'plan', 'rebase')
                   AND jobs.state IN ('waiting', 'queued', 'leased')
                   AND jobs.cancel_requested_at IS NULL
                   AND questions.round = jobs.round
                   AND questions.taken_at IS NULL
                   AND questions.expired_at IS NULL
                 ORDER BY jobs.id
                 LIMIT 1"
            )
            .bind(repo.as_i64())
            .bind(subject.to_string()),
            fetch_optional
        )?;
        id.map(|id| parse("jobs.id", &id)).transpose()
    }

    /// The job that was given an answer from this source.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn answered_by(&mut self, source: &str) -> Result<Option<JobId>, StoreError> {
        let id: Option<String> = on_db!(
            self,
            sqlx::query_scalar(
                "SELECT job_id
                 FROM answers
                 WHERE source = $1"
            )
            .bind(source),
            fetch_optional
        )?;
        id.map(|id| parse("answers.job_id", &id)).transpose()
    }

    /// T6: stores what somebody who may said to the open question of a job; a waiting job goes back
    /// to the queue. One source (the job of a command, for example) counts once.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn answer_job(&mut self, id: &JobId, source: &str, reply: &Reply) -> Result<AnswerResult, StoreError> {
        let Some(locked) = self.lock_job(id).await? else {
            return Ok(AnswerResult::NothingAsked);
        };
        let known: i64 = on_db!(
            self,
            sqlx::query_scalar("SELECT COUNT(*) FROM answers WHERE job_id = $1 AND source = $2")
                .bind(id.as_str())
                .bind(source),
            fetch_one
        )?;
        if known > 0 {
            return Ok(AnswerResult::Taken);
        }
        let state = locked.state()?;
        let open = self
            .last_question(id)
            .await?
            .filter(|asked| !asked.is_taken && !asked.is_expired);
        let hears = matches!(state, JobState::Waiting | JobState::Queued | JobState::Leased);
        let (Some(asked), true, None) = (open, hears, locked.cancel_requested_at) else {
            return Ok(AnswerResult::NothingAsked);
        };
        if self.add_answer(id, source, asked.seq, reply).await? == 0 {
            return Ok(AnswerResult::TooMany);
        }
        let now = self.db_now().await?;
        if state == JobState::Waiting {
            self.wake(id, "the question was answered").await?;
        }
        let answered = RunEvent::Answered { by: reply.by.clone() };
        self.log_event(id, locked.fence, &answered, now).await?;
        let act = Act::new(Action::Answered)
            .with("question", asked.seq)
            .with("by", reply.by.as_str());
        self.audit_job(act, id, Whose::Act).await?;
        Ok(AnswerResult::Taken)
    }

    async fn add_answer(&mut self, id: &JobId, source: &str, question: u32, reply: &Reply) -> Result<u64, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query(
                "INSERT INTO answers (job_id, source, question, by_login, words, at)
                 SELECT $1, $2, $3, $4, $5, $6
                 WHERE (
                     SELECT COUNT(*)
                     FROM answers
                     WHERE job_id = $1
                       AND question = $3
                 ) < $7"
            )
            .bind(id.as_str())
            .bind(without_nul(source))
            .bind(i64::from(question))
            .bind(without_nul(&reply.by))
            .bind(without_nul(&reply.words))
            .bind(micros(reply.at))
            .bind(MAX_ANSWERS),
            execute
        )?)
    }

    /// T6: waiting jobs whose time is over go back to the queue, to be ended by a worker.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn expire_questions(&mut self, limit: u32) -> Result<Vec<JobId>, StoreError> {
        let now = self.db_now().await?;
        let late: Vec<(String, i64)> = on_db!(
            self,
            sqlx::query_as(
                "SELECT jobs.id, questions.seq
                 FROM jobs
                 JOIN questions ON questions.job_id = jobs.id
                 WHERE jobs.state = 'waiting'
                   AND questions.round = jobs.round
                   AND questions.taken_at IS NULL
                   AND questions.expired_at IS NULL
                   AND questions.answer_by <= $1
                 ORDER BY jobs.id
                 LIMIT $2"
            )
            .bind(micros(now))
            .bind(i64::from(limit)),
            fetch_all
        )?;
        let mut expired = Vec::new();
        for (id, seq) in late {
            let id: JobId = parse("jobs.id", &id)?;
            let Some(locked) = self.lock_job(&id).await? else {
                continue;
            };
            if locked.state()? != JobState::Waiting {
                continue;
            }
            on_db!(
                self,
                sqlx::query(
                    "UPDATE questions
                     SET expired_at = $3
                     WHERE job_id = $1
                       AND seq = $2"
                )
                .bind(id.as_str())
                .bind(seq)
                .bind(micros(now)),
                execute
            )?;
            self.wake(&id, "nobody answered in time").await?;
            self.log_event(&id, locked.fence, &RunEvent::Unanswered, now).await?;
            expired.push(id);
        }
        Ok(expired)
    }

    /// Whether a waiting job has work that is worth keeping when it ends.
    pub(super) async fn has_work(&mut self, id: &JobId) -> Result<bool, StoreError> {
        let last = self.last_question(id).await?;
        Ok(last.is_some_and(|asked| asked.base.is_some()))
    }

    /// Whether a job has finished work that is not published: it goes back to the queue to carry it to
    /// a branch that moved.
    pub(super) async fn has_finished_work(&mut self, id: &JobId) -> Result<bool, StoreError> {
        Ok(self.checkpoint(id, CARRY).await?.is_some())
    }

    /// waiting → queued, as the next of its lane. What would still tell people that it waits is
    /// not wanted any more. The caller holds the row.
    pub(super) async fn wake(&mut self, id: &JobId, why: &str) -> Result<(), StoreError> {
        let woken = on_db!(
            self,
            sqlx::query(
                "UPDATE jobs
                 SET state = 'queued',
                     reason = $2
                 WHERE id = $1
                   AND state = 'waiting'"
            )
            .bind(id.as_str())
            .bind(reason(why)),
            execute
        )?;
        one_row(woken, id)?;
        on_db!(
            self,
            sqlx::query(
                "UPDATE effects
                 SET state = 'skipped',
                     problem = $2
                 WHERE job_id = $1
                   AND kind = 'ask'
                   AND state = 'pending'"
            )
            .bind(id.as_str())
            .bind(reason(why)),
            execute
        )?;
        self.ring_on_commit();
        Ok(())
    }

    /// Waiting jobs whose question people cannot see yet.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn unasked_jobs(&mut self, limit: u32) -> Result<Vec<JobId>, StoreError> {
        let ids: Vec<String> = on_db!(
            self,
            sqlx::query_scalar(
                "SELECT DISTINCT jobs.id
                 FROM jobs
                 JOIN effects ON effects.job_id = jobs.id
                 WHERE jobs.state = 'waiting'
                   AND effects.kind = 'ask'
                   AND effects.state = 'pending'
                 ORDER BY jobs.id
                 LIMIT $1"
            )
            .bind(i64::from(limit)),
            fetch_all
        )?;
        ids.iter().map(|id| parse("jobs.id", id)).collect()
    }

    /// Notes that the questions of a waiting job stand in its status comment (`done`), or cannot
    /// (`failed`). Nobody holds the job, so no lease is asked for; an effect that became final
    /// meanwhile stays as it is.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn note_asked(&mut self, job: &JobId, state: EffectState, said: &str) -> Result<(), StoreError> {
        let now = self.db_now().await?;
        let (remote_id, problem) = match state {
            EffectState::Done => (Some(without_nul(said).into_owned()), None),
            _ => (None, Some(reason(said))),
        };
        let noted: Vec<i64> = on_db!(
            self,
            sqlx::query_scalar(
                "UPDATE effects
                 SET state = $2,
                     sent_at = $3,
                     tries = tries + 1,
                     remote_id = $4,
                     problem = $5
                 WHERE job_id = $1
                   AND kind = 'ask'
                   AND state = 'pending'
                 RETURNING seq"
            )
            .bind(job.as_str())
            .bind(state.as_str())
            .bind(micros(now))
            .bind(remote_id)
            .bind(problem),
            fetch_all
        )?;
        for seq in noted {
            self.audit_effect(job, seq).await?;
        }
        Ok(())
    }
}

impl TryFrom<Stored> for Asked {
    type Error = StoreError;

    fn try_from(stored: Stored) -> Result<Self, StoreError> {
        Ok(Self {
            seq: count("questions.seq", stored.seq)?,
            round: count("questions.round", stored.round)?,
            question: from_json("questions.question", &stored.question)?,
            base: stored
                .base_sha
                .map(|base| parse("questions.base_sha", &base))
                .transpose()?,
            asked_at: stored.asked_at,
            answer_by: stored.answer_by,
            is_taken: stored.taken_at.is_some(),
            is_expired: stored.expired_at.is_some(),
        })
    }
}
