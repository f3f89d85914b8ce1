//! The usual end of a job, in a transaction of its own. Ends that come while others are on their way
//! wait for them and then go together, as one statement: what an end costs is the way to the server
//! and the commit. Called by `queue`.
//! Never ends what [`Tx::finish_job`] would not end: whatever is not usual goes there.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use super::row::{reason, to_json};
use super::{PostgresStore, Store, StoreError, Tx, answered};
use crate::event::RunEvent;
use crate::job::{Lease, Outcome};

/// Most ends of one statement.
const MAX_GROUP: usize = 256;

/// The guards are those of `Tx::finish_job` and `Tx::end_job`. A done job has no effect that could
/// be skipped. Rows are the jobs that ended, and whether somebody waits in the lane that is free now.
const FINISH_AT_ONCE: &str = "WITH clock AS MATERIALIZED (
         SELECT CLOCK_TIMESTAMP() AS now
     ),
     ended AS (
         UPDATE jobs
         SET state = 'done',
             outcome = given.outcome,
             reason = given.reason,
             finished_at = (SELECT now FROM clock),
             lease_token = NULL,
             lease_owner = NULL,
             lease_until = NULL
         FROM UNNEST($1::TEXT[], $2::BIGINT[], $3::TEXT[], $4::TEXT[], $5::TEXT[], $6::TEXT[])
             AS given (id, fence, token, outcome, reason, data)
         WHERE jobs.id = given.id
           AND jobs.fence = given.fence
           AND jobs.lease_token = given.token
           AND jobs.lease_until > (SELECT now FROM clock)
           AND jobs.state IN ('leased', 'publishing')
           AND NOT EXISTS (
               SELECT 1
               FROM effects
               WHERE effects.job_id = jobs.id
                 AND effects.state NOT IN ('done', 'skipped', 'failed')
           )
         RETURNING jobs.id, jobs.repo_id, jobs.subject, jobs.fence, given.data
     ),
     logged AS (
         INSERT INTO job_events (job_id, seq, at, fence, kind, data)
         SELECT ended.id,
                (SELECT COALESCE(MAX(seq), 0) + 1 FROM job_events WHERE job_events.job_id = ended.id),
                (SELECT now FROM clock),
                ended.fence,
                $7,
                ended.data
         FROM ended
     )
     SELECT ended.id,
            EXISTS (
                SELECT 1
                FROM jobs
                WHERE jobs.repo_id = ended.repo_id
                  AND jobs.subject = ended.subject
                  AND jobs.state = 'queued'
            )
     FROM ended";

/// The same on SQLite, where a statement that writes gives nothing to others. The unary plus keeps it
/// from reading all jobs that are held instead of these.
const FINISH_ON_SQLITE: &str = "UPDATE jobs
     SET state = 'done',
         outcome = given.value ->> 'outcome',
         reason = given.value ->> 'reason',
         finished_at = $2,
         lease_token = NULL,
         lease_owner = NULL,
         lease_until = NULL
     FROM JSON_EACH($1) AS given
     WHERE jobs.id = given.value ->> 'id'
       AND jobs.fence = given.value ->> 'fence'
       AND jobs.lease_token = given.value ->> 'token'
       AND +jobs.lease_until > $2
       AND +jobs.state IN ('leased', 'publishing')
       AND NOT EXISTS (
           SELECT 1
           FROM effects
           WHERE effects.job_id = jobs.id
             AND effects.state NOT IN ('done', 'skipped', 'failed')
       )
     RETURNING id";

/// The log's entries of those that ended.
const LOG_ON_SQLITE: &str = "INSERT INTO job_events (job_id, seq, at, fence, kind, data)
     SELECT given.value ->> 'id',
            (SELECT COALESCE(MAX(seq), 0) + 1 FROM job_events WHERE job_events.job_id = given.value ->> 'id'),
            $2,
            given.value ->> 'fence',
            $3,
            given.value ->> 'data'
     FROM JSON_EACH($1) AS given
     WHERE given.value ->> 'id' IN (SELECT value FROM JSON_EACH($4))";

/// The ends that stand in line in this process.
#[derive(Clone, Default)]
pub(super) struct Ends {
    waiting: Arc<Mutex<Vec<Waiting>>>,
    /// Held by whoever has a statement under way.
    turn: Arc<tokio::sync::Mutex<()>>,
}

struct Waiting {
    end: End,
    /// Hears whether it was a usual end, and if so it is durable.
    told: oneshot::Sender<Result<bool, StoreError>>,
}

/// One end, as the statements want it.
#[derive(serde::Serialize)]
struct End {
    id: String,
    fence: i64,
    token: String,
    outcome: String,
    reason: Option<String>,
    data: String,
    #[serde(skip)]
    makes_room: bool,
}

impl Ends {
    fn add(&self, end: End) -> oneshot::Receiver<Result<bool, StoreError>> {
        let (told, answer) = oneshot::channel();
        self.all().push(Waiting { end, told });
        answer
    }

    /// The next to go together, in one order for everybody, the one in which deliveries cancel: two that
    /// lock the same rows do not wait for each other. A job ends once in a statement; another end of it is left.
    fn next(&self) -> Vec<Waiting> {
        let mut waiting = self.all();
        let mut seen = HashSet::new();
        let mut group: Vec<Waiting> = waiting
            .extract_if(.., |one| seen.len() < MAX_GROUP && seen.insert(one.end.id.clone()))
            .collect();
        group.sort_by(|a, b| b.end.id.cmp(&a.end.id));
        group
    }

    fn all(&self) -> std::sync::MutexGuard<'_, Vec<Waiting>> {
        // Each change of the list is whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    /// Ends a job as [`super::Tx::finish_job`] does, in a transaction of its own. `makes_room` says
    /// that jobs of other lanes may wait for this one's end, so that everybody is to look.
    ///
    /// # Errors
    /// Those of [`super::Tx::finish_job`].
    pub async fn finish_job(&self, lease: &Lease, outcome: &Outcome, makes_room: bool) -> Result<(), StoreError> {
        let usual = match outcome {
            // A refusal stands in the audit as well.
            Outcome::Stopped { .. } | Outcome::Refused { .. } => None,
            Outcome::Opened { .. }
            | Outcome::Pushed { .. }
            | Outcome::Answered
            | Outcome::Reviewed { .. }
            | Outcome::Measured { .. } => Some(None),
            Outcome::NothingToDo { reason } | Outcome::GaveUp { reason, .. } => Some(Some(reason.as_str())),
        };
        if let Some(why) = usual {
            let end = End {
                id: lease.job.as_str().to_owned(),
                fence: lease.fence,
                token: lease.token.clone(),
                outcome: to_json("jobs.outcome", outcome)?,
                reason: why.map(reason),
                data: to_json("job_events.data", &finished(outcome.clone()))?,
                makes_room,
            };
            let answer = self.ends().add(end);
            // A task of its own, because others' ends may go with it, whoever gives up waiting here.
            let store = self.clone();
            tokio::spawn(async move { store.end_group().await });
            if answer
                .await
                .map_err(|_| StoreError::Unavailable("the program is shutting down".to_owned()))??
            {
                return Ok(());
            }
        }
        // Stopped and refused jobs, and the errors in their words.
        let mut tx = self.begin().await?;
        tx.finish_job(lease, outcome).await?;
        tx.commit().await
    }

    fn ends(&self) -> &Ends {
        match self {
            Store::Sqlite(store) => store.ends(),
            Store::Postgres(store) => store.ends(),
        }
    }

    /// Ends those that stand in line; a task before this one may have done so.
    async fn end_group(&self) {
        let _turn = self.ends().turn.lock().await;
        let group = self.ends().next();
        if group.is_empty() {
            return;
        }
        let ends: Vec<&End> = group.iter().map(|waiting| &waiting.end).collect();
        let ended = match self {
            Store::Sqlite(_) => self.end_on_sqlite(&ends).await,
            Store::Postgres(store) => end_on_postgres(store, &ends).await,
        };
        for Waiting { end, told } in group {
            let verdict = match &ended {
                Ok(ids) => Ok(ids.contains(&end.id)),
                // What is wrong with one of them is to be told of that one alone.
                Err(StoreError::Corrupt(_)) => Ok(false),
                Err(error) => Err(error.clone()),
            };
            // Whoever gave up meanwhile learns it from the job.
            let _ = told.send(verdict);
        }
    }

    async fn end_on_sqlite(&self, ends: &[&End]) -> Result<HashSet<String>, StoreError> {
        let given = to_json("jobs.outcome", &ends)?;
        let mut tx = self.begin().await?;
        let at = tx.db_now().await?;
        let Tx::Sqlite(open) = &mut tx else {
            return Ok(HashSet::new());
        };
        let ended: Vec<String> = sqlx::query_scalar(FINISH_ON_SQLITE)
            .bind(&given)
            .bind(at)
            .fetch_all(&mut *open.tx)
            .await?;
        if !ended.is_empty() {
            sqlx::query(LOG_ON_SQLITE)
                .bind(&given)
                .bind(at)
                .bind(finished(Outcome::Answered).kind())
                .bind(to_json("jobs.id", &ended)?)
                .execute(&mut *open.tx)
                .await?;
            tx.ring_on_commit();
        }
        tx.commit().await?;
        Ok(ended.into_iter().collect())
    }
}

fn finished(outcome: Outcome) -> RunEvent {
    RunEvent::Finished { outcome }
}

/// Rings everywhere where somebody may wait for one of them.
async fn end_on_postgres(store: &PostgresStore, ends: &[&End]) -> Result<HashSet<String>, StoreError> {
    let all = |text: fn(&End) -> String| -> Vec<String> { ends.iter().map(|end| text(end)).collect() };
    let mut connection = store.connection().await?;
    let finish = sqlx::query_as(FINISH_AT_ONCE)
        .bind(all(|end| end.id.clone()))
        .bind(ends.iter().map(|end| end.fence).collect::<Vec<i64>>())
        .bind(all(|end| end.token.clone()))
        .bind(all(|end| end.outcome.clone()))
        .bind(
            ends.iter()
                .map(|end| end.reason.clone())
                .collect::<Vec<Option<String>>>(),
        )
        .bind(all(|end| end.data.clone()))
        .bind(finished(Outcome::Answered).kind());
    let ended: Vec<(String, bool)> = answered(finish.fetch_all(&mut *connection)).await?;
    drop(connection);
    let awaited = ended.iter().any(|(_, awaited)| *awaited) || ends.iter().any(|end| end.makes_room);
    match awaited && !ended.is_empty() {
        true => store.bell().ring_everywhere(),
        false => store.bell().ring(),
    }
    Ok(ended.into_iter().map(|(id, _)| id).collect())
}
