//! The invariants of the job tables, as queries that must find nothing. Called by `doctor` and
//! after every story of the tests. Never repairs what it finds.

use chrono::{DateTime, TimeDelta, Utc};

use super::{StoreError, Tx, Violation};

/// A lease that ended so long ago should have been recovered many times over.
const STUCK_AFTER: TimeDelta = TimeDelta::minutes(10);

/// Most findings of one kind that are told; the first ones say enough.
const MAX_FINDINGS: i64 = 100;

impl Tx {
    /// Every broken invariant of the job tables.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn violations(&mut self) -> Result<Vec<Violation>, StoreError> {
        let mut found = Vec::new();
        found.extend(told("I2", self.crowded_lanes().await?));
        found.extend(told("I3", self.claims_out_of_order().await?));
        found.extend(told("I4", self.fences_going_back().await?));
        found.extend(told("I5", self.stuck_jobs().await?));
        found.extend(told("I6", self.too_many_attempts().await?));
        found.extend(told("I7", self.done_too_early().await?));
        found.extend(told("I8", self.dead_without_reason().await?));
        found.extend(told("I9", self.done_without_trace().await?));
        found.extend(told("I11", self.open_after_the_end().await?));
        found.extend(told("I12", self.waiting_for_nothing().await?));
        found.extend(told("I15", self.charges_beside_the_log().await?));
        Ok(found)
    }

    /// At most one active job in a lane.
    async fn crowded_lanes(&mut self) -> Result<Vec<String>, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query_scalar(
                "SELECT 'repository ' || CAST(repo_id AS TEXT) || ', lane ' || lane || ': '
                        || CAST(COUNT(*) AS TEXT) || ' active jobs'
                 FROM jobs
                 WHERE state IN ('leased', 'waiting', 'publishing')
                 GROUP BY repo_id, lane
                 HAVING COUNT(*) > 1
                 LIMIT $1"
            )
            .bind(MAX_FINDINGS),
            fetch_all
        )?)
    }

    /// Each claim has a higher fence than the one before, and the job has that of the last.
    async fn claims_out_of_order(&mut self) -> Result<Vec<String>, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query_scalar(
                "SELECT 'job ' || claims.job_id || ', event ' || CAST(claims.seq AS TEXT)
                        || ': claimed with fence ' || CAST(claims.fence AS TEXT)
                 FROM (
                     SELECT job_id, seq, fence, LAG(fence, 1, 0) OVER (PARTITION BY job_id ORDER BY seq) AS earlier
                     FROM job_events
                     WHERE kind = 'claimed'
                 ) AS claims
                 JOIN jobs ON jobs.id = claims.job_id
                 WHERE claims.fence <= claims.earlier
                    OR claims.fence > jobs.fence
                 LIMIT $1"
            )
            .bind(MAX_FINDINGS),
            fetch_all
        )?)
    }

    /// No event has a lower fence than an earlier one, no effect a higher one than its job.
    async fn fences_going_back(&mut self) -> Result<Vec<String>, StoreError> {
        let mut found: Vec<String> = on_db!(
            self,
            sqlx::query_scalar(
                "SELECT 'job ' || job_id || ', event ' || CAST(seq AS TEXT) || ': fence '
                        || CAST(fence AS TEXT) || ' after ' || CAST(earlier AS TEXT)
                 FROM (
                     SELECT job_id, seq, fence, LAG(fence, 1, 0) OVER (PARTITION BY job_id ORDER BY seq) AS earlier
                     FROM job_events
                 ) AS log
                 WHERE fence < earlier
                 LIMIT $1"
            )
            .bind(MAX_FINDINGS),
            fetch_all
        )?;
        let effects: Vec<String> = on_db!(
            self,
            sqlx::query_scalar(
                "SELECT 'job ' || jobs.id || ', effect ' || CAST(effects.seq AS TEXT) || ': fence '
                        || CAST(effects.fence AS TEXT) || ', its job has ' || CAST(jobs.fence AS TEXT)
                 FROM effects
                 JOIN jobs ON jobs.id = effects.job_id
                 WHERE effects.fence > jobs.fence
                 LIMIT $1"
            )
            .bind(MAX_FINDINGS),
            fetch_all
        )?;
        found.extend(effects);
        Ok(found)
    }

    /// Every job that is not final is in the queue, held by a lease that somebody renews or
    /// recovers, or publishing; and no job keeps a lease that its state does not allow.
    async fn stuck_jobs(&mut self) -> Result<Vec<String>, StoreError> {
        let long_ago: DateTime<Utc> = self.db_now().await? - STUCK_AFTER;
        Ok(on_db!(
            self,
            sqlx::query_scalar(
                "SELECT 'job ' || id || ': ' || state || ' with lease owner ' || COALESCE(lease_owner, 'nobody')
                 FROM jobs
                 WHERE (state IN ('leased', 'publishing') AND lease_until < $1)
                    OR (state = 'leased' AND (lease_token IS NULL OR lease_owner IS NULL OR lease_until IS NULL))
                    OR (state = 'publishing' AND (lease_token IS NULL) <> (lease_until IS NULL))
                    OR (state NOT IN ('leased', 'publishing')
                        AND (lease_token IS NOT NULL OR lease_owner IS NOT NULL OR lease_until IS NOT NULL))
                    OR (state IN ('done', 'dead', 'cancelled')) <> (finished_at IS NOT NULL)
                 LIMIT $2"
            )
            .bind(long_ago)
            .bind(MAX_FINDINGS),
            fetch_all
        )?)
    }

    async fn too_many_attempts(&mut self) -> Result<Vec<String>, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query_scalar(
                "SELECT 'job ' || id || ': attempt ' || CAST(attempt AS TEXT) || ' of ' || CAST(max_attempts AS TEXT)
                 FROM jobs
                 WHERE attempt > max_attempts
                    OR attempt < 0
                 LIMIT $1"
            )
            .bind(MAX_FINDINGS),
            fetch_all
        )?)
    }

    async fn done_too_early(&mut self) -> Result<Vec<String>, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query_scalar(
                "SELECT 'job ' || jobs.id || ' is done, its effect ' || CAST(effects.seq AS TEXT) || ' is '
                        || effects.state
                 FROM effects
                 JOIN jobs ON jobs.id = effects.job_id
                 WHERE jobs.state = 'done'
                   AND effects.state NOT IN ('done', 'skipped', 'failed')
                 LIMIT $1"
            )
            .bind(MAX_FINDINGS),
            fetch_all
        )?)
    }

    async fn dead_without_reason(&mut self) -> Result<Vec<String>, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query_scalar(
                "SELECT 'job ' || id || ' is dead without a reason'
                 FROM jobs
                 WHERE state = 'dead'
                   AND COALESCE(reason, '') = ''
                 LIMIT $1"
            )
            .bind(MAX_FINDINGS),
            fetch_all
        )?)
    }

    /// An effect that is done has a trace on GitHub. (That keys are unique, its index sees to.)
    async fn done_without_trace(&mut self) -> Result<Vec<String>, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query_scalar(
                "SELECT 'job ' || job_id || ', effect ' || CAST(seq AS TEXT) || ' is done without a remote id'
                 FROM effects
                 WHERE state = 'done'
                   AND COALESCE(remote_id, '') = ''
                 LIMIT $1"
            )
            .bind(MAX_FINDINGS),
            fetch_all
        )?)
    }

    /// After its job was given up or stopped, no effect waits to be sent or is being sent.
    async fn open_after_the_end(&mut self) -> Result<Vec<String>, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query_scalar(
                "SELECT 'job ' || jobs.id || ' is ' || jobs.state || ', its effect '
                        || CAST(effects.seq AS TEXT) || ' is ' || effects.state
                 FROM effects
                 JOIN jobs ON jobs.id = effects.job_id
                 WHERE jobs.state IN ('dead', 'cancelled')
                   AND effects.state IN ('pending', 'sending')
                 LIMIT $1"
            )
            .bind(MAX_FINDINGS),
            fetch_all
        )?)
    }
}

impl Tx {
    /// A job that waits has a question of its round that can still be answered.
    async fn waiting_for_nothing(&mut self) -> Result<Vec<String>, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query_scalar(
                "SELECT 'job ' || jobs.id || ' waits without an open question'
                 FROM jobs
                 WHERE jobs.state = 'waiting'
                   AND NOT EXISTS (
                       SELECT 1
                       FROM questions
                       WHERE questions.job_id = jobs.id
                         AND questions.round = jobs.round
                         AND questions.taken_at IS NULL
                         AND questions.expired_at IS NULL
                   )
                 LIMIT $1"
            )
            .bind(MAX_FINDINGS),
            fetch_all
        )?)
    }
}

impl Tx {
    /// The ledger has a row for each reply and failed call in a job's log since its first row, and
    /// no row without an event. Logs of versions without a ledger have none at all.
    async fn charges_beside_the_log(&mut self) -> Result<Vec<String>, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query_scalar(
                "SELECT 'job ' || job_id || ', event ' || CAST(seq AS TEXT) || ': not in the ledger'
                 FROM job_events
                 WHERE kind IN ('model_replied', 'model_failed')
                   AND seq > (SELECT MIN(ledger.seq) FROM ledger WHERE ledger.job_id = job_events.job_id)
                   AND NOT EXISTS (
                       SELECT 1 FROM ledger WHERE ledger.job_id = job_events.job_id AND ledger.seq = job_events.seq
                   )
                 UNION ALL
                 SELECT 'job ' || job_id || ', ledger ' || CAST(seq AS TEXT) || ': no event'
                 FROM ledger
                 WHERE NOT EXISTS (
                     SELECT 1
                     FROM job_events
                     WHERE job_events.job_id = ledger.job_id
                       AND job_events.seq = ledger.seq
                       AND kind IN ('model_replied', 'model_failed', 'shortened')
                 )
                 LIMIT $1"
            )
            .bind(MAX_FINDINGS),
            fetch_all
        )?)
    }
}

fn told(invariant: &'static str, details: Vec<String>) -> impl Iterator<Item = Violation> {
    details.into_iter().map(move |detail| Violation { invariant, detail })
}
