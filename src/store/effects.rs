//! Table `effects`: the outbox, one row for each write to GitHub. Called by `publish` under the
//! job's lease, and by transitions that end or release a job.
//! Never reopens an effect that is final, and never forgets one that may be on GitHub.

use chrono::{DateTime, Utc};

use super::row::{count, from_json, parse, reason, row, to_json, without_nul};
use super::{StoreError, Tx};
use crate::effect::{Effect, EffectState, NewEffect};
use crate::event::RunEvent;
use crate::ids::{EffectId, JobId};
use crate::job::Lease;

row! {
    Stored {
        id: String,
        seq: i64,
        dedupe_key: String,
        body: String,
        state: String,
        fence: i64,
        sent_at: Option<DateTime<Utc>>,
        tries: i64,
        remote_id: Option<String>,
        problem: Option<String>,
        unclear: i64,
        repaired: Option<String>,
    }
}

impl Tx {
    /// Inserts early effects (reaction, status comment) of a leased job; those that exist stay.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`]; [`StoreError::Corrupt`] when a key or position belongs to
    /// another effect.
    pub async fn insert_effects(&mut self, lease: &Lease, effects: &[NewEffect]) -> Result<(), StoreError> {
        self.hold(lease).await?;
        self.add_effects(lease, effects).await
    }

    /// All effects of a job, in the order in which they are performed.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when a column does not parse.
    pub async fn effects(&mut self, job: &JobId) -> Result<Vec<Effect>, StoreError> {
        let stored: Vec<Stored> = on_db!(
            self,
            sqlx::query_as(
                "SELECT id, seq, dedupe_key, body, state, fence, sent_at, tries, remote_id, problem, unclear, repaired
                 FROM effects
                 WHERE job_id = $1
                 ORDER BY seq"
            )
            .bind(job.as_str()),
            fetch_all
        )?;
        stored.into_iter().map(|stored| stored.into_effect(job)).collect()
    }

    /// Whether any job has an effect with this key.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn effect_key_is_taken(&mut self, dedupe_key: &str) -> Result<bool, StoreError> {
        let found: Option<i64> = on_db!(
            self,
            sqlx::query_scalar(
                "SELECT CAST(1 AS BIGINT)
                 FROM effects
                 WHERE dedupe_key = $1"
            )
            .bind(dedupe_key),
            fetch_optional
        )?;
        Ok(found.is_some())
    }

    /// Moves an effect under a lease. `sending` sets `sent_at` to the database's clock and counts
    /// a try. What is final stays; `done` needs to know what GitHub calls the result. An effect
    /// that becomes final is progress.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`]; [`StoreError::Corrupt`] when there is no such effect, it is
    /// final, or it is done without a remote id.
    pub async fn move_effect(
        &mut self,
        lease: &Lease,
        seq: i64,
        state: EffectState,
        remote_id: Option<&str>,
        problem: Option<&str>,
    ) -> Result<(), StoreError> {
        self.hold(lease).await?;
        let sent_at = match state {
            EffectState::Sending => Some(self.db_now().await?),
            _ => None,
        };
        let moved = on_db!(
            self,
            sqlx::query(
                "UPDATE effects
                 SET state = $3,
                     fence = $4,
                     sent_at = COALESCE($5, sent_at),
                     tries = tries + $6,
                     remote_id = COALESCE($7, remote_id),
                     problem = $8,
                     unclear = unclear + $9
                 WHERE job_id = $1
                   AND seq = $2
                   AND state NOT IN ('done', 'skipped', 'failed')
                   AND ($3 <> 'done' OR COALESCE($7, remote_id) IS NOT NULL)"
            )
            .bind(lease.job.as_str())
            .bind(seq)
            .bind(state.as_str())
            .bind(lease.fence)
            .bind(sent_at)
            .bind(i64::from(sent_at.is_some()))
            .bind(remote_id.map(without_nul))
            .bind(problem.map(reason))
            .bind(i64::from(state == EffectState::Unknown && remote_id.is_none())),
            execute
        )?;
        if moved != 1 {
            return Err(StoreError::Corrupt(format!(
                "effect {seq} of job {} cannot become {state}: it must exist, not be final, and be done only with a \
                 remote id",
                lease.job
            )));
        }
        if state.is_final() {
            self.note_progress(lease).await?;
        }
        self.audit_effect(&lease.job, seq).await?;
        Ok(())
    }

    /// The call of an effect that is `sending` is about to be sent: what is measured from now on is
    /// how long it may take to arrive, without the looks before it.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`]; [`StoreError::Corrupt`] when the effect is not sending.
    pub async fn stamp_effect(&mut self, lease: &Lease, seq: i64) -> Result<(), StoreError> {
        self.hold(lease).await?;
        let now = self.db_now().await?;
        let stamped = on_db!(
            self,
            sqlx::query(
                "UPDATE effects
                 SET sent_at = $4,
                     fence = $3
                 WHERE job_id = $1
                   AND seq = $2
                   AND state = 'sending'"
            )
            .bind(lease.job.as_str())
            .bind(seq)
            .bind(lease.fence)
            .bind(now),
            execute
        )?;
        is_sending(stamped, lease, seq)
    }

    /// A call that was held or refused for a limit did nothing: the effect is as it was, and the try
    /// does not count.
    ///
    /// # Errors
    /// As [`Tx::stamp_effect`].
    pub async fn put_back_effect(&mut self, lease: &Lease, seq: i64, why: &str) -> Result<(), StoreError> {
        self.hold(lease).await?;
        let put_back = on_db!(
            self,
            sqlx::query(
                "UPDATE effects
                 SET state = 'pending',
                     tries = tries - 1,
                     fence = $3,
                     problem = $4
                 WHERE job_id = $1
                   AND seq = $2
                   AND state = 'sending'"
            )
            .bind(lease.job.as_str())
            .bind(seq)
            .bind(lease.fence)
            .bind(reason(why)),
            execute
        )?;
        is_sending(put_back, lease, seq)
    }

    /// What an effect made twice was taken away again, once; it goes into the log with it.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`]; [`StoreError::Corrupt`] when there is no such effect.
    pub async fn note_repaired(&mut self, lease: &Lease, seq: i64, what: &str) -> Result<(), StoreError> {
        let noted = on_db!(
            self,
            sqlx::query(
                "UPDATE effects
                 SET repaired = $3
                 WHERE job_id = $1
                   AND seq = $2"
            )
            .bind(lease.job.as_str())
            .bind(seq)
            .bind(reason(what)),
            execute
        )?;
        if noted != 1 {
            return Err(StoreError::Corrupt(format!("job {} has no effect {seq}", lease.job)));
        }
        let at = self.db_now().await?;
        let noted = RunEvent::Noted { text: reason(what) };
        self.append_event(lease, &noted, at).await.map(drop)
    }

    /// Inserts effects of a job that this transaction holds; those that exist stay.
    pub(super) async fn add_effects(&mut self, lease: &Lease, effects: &[NewEffect]) -> Result<(), StoreError> {
        let now = self.db_now().await?;
        for effect in effects {
            let inserted = on_db!(
                self,
                sqlx::query(
                    "INSERT INTO effects (id, job_id, seq, kind, dedupe_key, body, state, fence, tries)
                     VALUES ($1, $2, $3, $4, $5, $6, 'pending', $7, 0)
                     ON CONFLICT DO NOTHING"
                )
                .bind(EffectId::new(now).as_str())
                .bind(lease.job.as_str())
                .bind(effect.seq)
                .bind(effect.body.kind())
                .bind(&effect.dedupe_key)
                .bind(to_json("effects.body", &effect.body)?)
                .bind(lease.fence),
                execute
            )?;
            if inserted == 0 {
                self.expect_effect(lease, effect).await?;
            }
        }
        Ok(())
    }

    /// An effect that was not inserted is there already, as the same one. Otherwise it would be
    /// left out and nobody would notice.
    async fn expect_effect(&mut self, lease: &Lease, effect: &NewEffect) -> Result<(), StoreError> {
        let same: i64 = on_db!(
            self,
            sqlx::query_scalar(
                "SELECT COUNT(*)
                 FROM effects
                 WHERE job_id = $1
                   AND seq = $2
                   AND dedupe_key = $3
                   AND kind = $4"
            )
            .bind(lease.job.as_str())
            .bind(effect.seq)
            .bind(&effect.dedupe_key)
            .bind(effect.body.kind()),
            fetch_one
        )?;
        if same == 1 {
            return Ok(());
        }
        Err(StoreError::Corrupt(format!(
            "effect {} ({}) of job {} has a key or position that belongs to another effect",
            effect.seq, effect.dedupe_key, lease.job
        )))
    }

    /// Positions of the effects of a job that are not final.
    pub(super) async fn open_effects(&mut self, job: &JobId) -> Result<Vec<i64>, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query_scalar(
                "SELECT seq
                 FROM effects
                 WHERE job_id = $1
                   AND state NOT IN ('done', 'skipped', 'failed')
                 ORDER BY seq"
            )
            .bind(job.as_str()),
            fetch_all
        )?)
    }

    /// What was not sent when the job ended is not wanted any more.
    pub(super) async fn skip_effects(&mut self, job: &JobId, why: &str) -> Result<(), StoreError> {
        on_db!(
            self,
            sqlx::query(
                "UPDATE effects
                 SET state = 'skipped',
                     problem = $2
                 WHERE job_id = $1
                   AND state = 'pending'"
            )
            .bind(job.as_str())
            .bind(reason(why)),
            execute
        )?;
        Ok(())
    }

    /// What was not sent and is not wanted as it stands.
    pub(super) async fn remove_unsent_effects(&mut self, job: &JobId) -> Result<(), StoreError> {
        on_db!(
            self,
            sqlx::query(
                "DELETE FROM effects
                 WHERE job_id = $1
                   AND state = 'pending'"
            )
            .bind(job.as_str()),
            execute
        )?;
        Ok(())
    }

    /// Whoever was sending is gone: the outcome of the call is not known.
    pub(super) async fn unsettle_effects(&mut self, job: &JobId) -> Result<(), StoreError> {
        on_db!(
            self,
            sqlx::query(
                "UPDATE effects
                 SET state = 'unknown',
                     unclear = unclear + 1,
                     problem = 'the worker stopped before the outcome of the call was known'
                 WHERE job_id = $1
                   AND state = 'sending'"
            )
            .bind(job.as_str()),
            execute
        )?;
        Ok(())
    }

    /// Before a new round: what never left is removed, what has no known outcome is closed.
    pub(super) async fn retire_effects(&mut self, job: &JobId) -> Result<(), StoreError> {
        on_db!(
            self,
            sqlx::query(
                "DELETE FROM effects
                 WHERE job_id = $1
                   AND state IN ('pending', 'skipped')
                   AND tries = 0"
            )
            .bind(job.as_str()),
            execute
        )?;
        on_db!(
            self,
            sqlx::query(
                "UPDATE effects
                 SET state = 'skipped',
                     problem = 'the job was started again before the outcome of the call was known'
                 WHERE job_id = $1
                   AND state NOT IN ('done', 'skipped', 'failed')"
            )
            .bind(job.as_str()),
            execute
        )?;
        Ok(())
    }
}

/// One row was found in the state that the statement asked for.
fn is_sending(rows: u64, lease: &Lease, seq: i64) -> Result<(), StoreError> {
    if rows == 1 {
        return Ok(());
    }
    Err(StoreError::Corrupt(format!(
        "effect {seq} of job {} is not sending",
        lease.job
    )))
}

impl Stored {
    fn into_effect(self, job: &JobId) -> Result<Effect, StoreError> {
        Ok(Effect {
            id: parse("effects.id", &self.id)?,
            job: job.clone(),
            seq: self.seq,
            dedupe_key: self.dedupe_key,
            body: from_json("effects.body", &self.body)?,
            state: parse("effects.state", &self.state)?,
            fence: self.fence,
            sent_at: self.sent_at,
            tries: count("effects.tries", self.tries)?,
            remote_id: self.remote_id,
            problem: self.problem,
            unclear: count("effects.unclear", self.unclear)?,
            repaired: self.repaired,
        })
    }
}
