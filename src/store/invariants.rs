//! The invariants of the job tables, as queries that must find nothing. Called by `doctor` and
//! after every story of the tests. Never repairs what it finds.

use chrono::{DateTime, TimeDelta, Utc};

use super::{StoreError, Tx, Violation};

/// A lease that ended so long ago should have been recovered many times over.
const STUCK_AFTER: TimeDelta = TimeDelta::minutes(10);

/// What belongs to a job is gone this long after its end.
const LEFT_AFTER: TimeDelta = TimeDelta::seconds(60);

/// Whether a delivery's job is still there is looked at for so long; later it may be in the archive.
const RECENT: TimeDelta = TimeDelta::days(1);

/// Deliveries are never removed sooner, whatever the configuration says.
const KEPT: TimeDelta = TimeDelta::days(3);

/// Most findings of one kind that are told; the first ones say enough.
const MAX_FINDINGS: i64 = 100;

impl Tx {
    /// Every broken invariant of the job tables.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn violations(&mut self) -> Result<Vec<Violation>, StoreError> {
        let mut found = Vec::new();
        found.extend(told("I1", self.jobs_nobody_asked_for().await?));
        found.extend(told("I1", self.jobs_that_were_lost().await?));
        found.extend(told("I2", self.crowded_lanes().await?));
        found.extend(told("I3", self.claims_out_of_order().await?));
        found.extend(told("I4", self.fences_going_back().await?));
        found.extend(told("I5", self.stuck_jobs().await?));
        found.extend(told("I6", self.too_many_attempts().await?));
        found.extend(told("I7", self.done_too_early().await?));
        found.extend(told("I8", self.dead_without_reason().await?));
        found.extend(told("I8", self.told_twice().await?));
        found.extend(told("I9", self.done_without_trace().await?));
        found.extend(told("I11", self.open_after_the_end().await?));
        found.extend(told("I12", self.waiting_for_nothing().await?));
        found.extend(told("I13", self.set_aside_for_nobody().await?));
        found.extend(told("I14", self.of_another_place().await?));
        found.extend(told("I15", self.charges_beside_the_log().await?));
        found.extend(self.broken_audit().await?);
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

impl Tx {
    /// A job that somebody asked for on GitHub was made in the transaction of the delivery that asked for
    /// it, as far back as deliveries are kept for sure. (Words that came too late become a job of their own.)
    async fn jobs_nobody_asked_for(&mut self) -> Result<Vec<String>, StoreError> {
        let since = self.db_now().await? - KEPT;
        Ok(on_db!(
            self,
            sqlx::query_scalar(
                "SELECT 'job ' || jobs.id || ' was asked for on GitHub by no delivery'
                 FROM jobs
                 WHERE jobs.created_at > (SELECT MIN(received_at) FROM deliveries)
                   AND jobs.created_at > $2
                   AND (jobs.request LIKE '{\"trigger\":{\"by\":\"label\"%'
                        OR jobs.request LIKE '{\"trigger\":{\"by\":\"comment\"%'
                        OR jobs.request LIKE '{\"trigger\":{\"by\":\"review_comment\"%'
                        OR jobs.request LIKE '{\"trigger\":{\"by\":\"review\"%')
                   AND COALESCE(jobs.dedupe_key, '') NOT LIKE 'fix:of:%'
                   AND NOT EXISTS (
                       SELECT 1
                       FROM deliveries
                       WHERE deliveries.repo_id = jobs.repo_id
                         AND deliveries.received_at = jobs.created_at
                   )
                 LIMIT $1"
            )
            .bind(MAX_FINDINGS)
            .bind(since),
            fetch_all
        )?)
    }

    /// What a delivery of the last day became is there.
    async fn jobs_that_were_lost(&mut self) -> Result<Vec<String>, StoreError> {
        let since: DateTime<Utc> = self.db_now().await? - RECENT;
        Ok(on_db!(
            self,
            sqlx::query_scalar(
                "SELECT 'delivery ' || deliveries.guid || ' became ' || SUBSTR(deliveries.outcome, 1, made.length + 26)
                        || ', which is not there'
                 FROM deliveries
                 JOIN (
                     SELECT 'fix job %' AS words, 8 AS length
                     UNION ALL SELECT 'plan job %', 9
                     UNION ALL SELECT 'ask job %', 8
                     UNION ALL SELECT 'review job %', 11
                     UNION ALL SELECT 'rebase job %', 11
                     UNION ALL SELECT 'draft job %', 10
                     UNION ALL SELECT 'stop job %', 9
                     UNION ALL SELECT 'answer job %', 11
                 ) AS made ON deliveries.outcome LIKE made.words
                 WHERE deliveries.received_at > $1
                   AND NOT EXISTS (
                       SELECT 1
                       FROM jobs
                       WHERE jobs.id = SUBSTR(deliveries.outcome, made.length + 1, 26)
                   )
                 LIMIT $2"
            )
            .bind(since)
            .bind(MAX_FINDINGS),
            fetch_all
        )?)
    }

    /// People were told of a job's death at most once in its round, which has a thousand positions.
    async fn told_twice(&mut self) -> Result<Vec<String>, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query_scalar(
                "SELECT 'job ' || jobs.id || ' is dead and has ' || CAST(COUNT(*) AS TEXT) || ' status comments'
                 FROM effects
                 JOIN jobs ON jobs.id = effects.job_id
                 WHERE jobs.state = 'dead'
                   AND effects.kind = 'status_comment'
                   AND effects.state IN ('done', 'unknown')
                   AND effects.seq > jobs.round * 1000
                 GROUP BY jobs.id
                 HAVING COUNT(*) > 1
                 LIMIT $1"
            )
            .bind(MAX_FINDINGS),
            fetch_all
        )?)
    }

    /// No money is set aside for a job that is over. (Leases of such jobs are I5.)
    async fn set_aside_for_nobody(&mut self) -> Result<Vec<String>, StoreError> {
        let before: DateTime<Utc> = self.db_now().await? - LEFT_AFTER;
        Ok(on_db!(
            self,
            sqlx::query_scalar(
                "SELECT 'job ' || jobs.id || ' is ' || jobs.state || ' and has money set aside'
                 FROM reservations
                 JOIN jobs ON jobs.id = reservations.job_id
                 WHERE jobs.state IN ('done', 'dead', 'cancelled')
                   AND jobs.finished_at < $1
                 LIMIT $2"
            )
            .bind(before)
            .bind(MAX_FINDINGS),
            fetch_all
        )?)
    }

    /// What names a job is of the job's repository and installation.
    async fn of_another_place(&mut self) -> Result<Vec<String>, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query_scalar(
                "SELECT 'job ' || jobs.id || ', ledger ' || CAST(ledger.seq AS TEXT) || ': of another place'
                 FROM ledger
                 JOIN jobs ON jobs.id = ledger.job_id
                 WHERE ledger.repo_id <> jobs.repo_id
                    OR ledger.installation_id <> jobs.installation_id
                    OR ledger.subject <> jobs.subject
                 UNION ALL
                 SELECT 'job ' || jobs.id || ', reservation: of another place'
                 FROM reservations
                 JOIN jobs ON jobs.id = reservations.job_id
                 WHERE reservations.repo_id <> jobs.repo_id
                    OR reservations.installation_id <> jobs.installation_id
                    OR reservations.subject <> jobs.subject
                 UNION ALL
                 SELECT 'job ' || jobs.id || ', draft ' || drafts.id || ': of another repository'
                 FROM drafts
                 JOIN jobs ON jobs.id = drafts.job_id
                 WHERE drafts.repo_id <> jobs.repo_id
                 UNION ALL
                 SELECT 'job ' || jobs.id || ', queue item ' || CAST(queue_items.number AS TEXT)
                        || ': of another repository'
                 FROM queue_items
                 JOIN jobs ON jobs.id = queue_items.job_id
                 WHERE queue_items.repo_id <> jobs.repo_id
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
