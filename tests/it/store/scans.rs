//! Whatever each webhook, claim and look does reads a few rows, also where its plan was made while the
//! tables were empty and they have grown since. PostgreSQL counts what it read.

use super::*;
use crate::databases::Database;
use forgehand::effect::EffectState;
use forgehand::store::{Claim, ClaimLimits, DeliveryRow, JobFilter};
use sqlx::{Connection as _, PgConnection};

/// Rows of each state that stand in the table.
const ROWS: u64 = 30_000;

/// Times that everything is done.
const ROUNDS: u64 = 10;

/// Entries of indexes that may be read each time. Some 5,000 are the window of a claim under limits,
/// and entries of rows that have changed since are counted until they are swept; a statement that
/// reads all jobs of one state counts 30,000.
const MOST: i64 = 15_000;

/// What a job's life asks of the database, once around.
async fn around(store: &Store, number: u64) {
    let subject = Subject::Issue(IssueNumber(number));
    asked(store, number, &subject).await;
    worked(store, &subject).await;
    with(store, async |tx| {
        tx.cancel_subject(RepoId(7), &subject, "closed", now()).await?;
        tx.recover_expired(MAX_LOST, 100).await?;
        tx.expire_questions(100).await
    })
    .await
    .unwrap();
}

/// A webhook.
async fn asked(store: &Store, number: u64, subject: &Subject) {
    let key = format!("issues:labeled:7:{number}:agent:001700000000");
    with(store, async |tx| {
        tx.repo_with_label(RepoId(7)).await?;
        tx.semantic_keys(&[(&key, &key), ("issues:closed:7:", "issues:closed:7:9")], 1_000)
            .await?;
        let filter = JobFilter {
            states: vec![JobState::Done, JobState::Dead],
            repo_id: Some(RepoId(7)),
            subject: Some(subject.clone()),
            limit: 10_000,
        };
        tx.jobs(&filter).await?;
        tx.asking_job(RepoId(7), subject).await?;
        let job = NewJob {
            dedupe_key: Some(format!("fix:{number}")),
            // It comes first.
            priority: 9,
            ..fix(number)
        };
        tx.insert_job(&job, now()).await?.expect("it is new");
        tx.insert_delivery(&DeliveryRow {
            guid: format!("guid-{number}"),
            semantic_key: key.clone(),
            event: "issues".to_owned(),
            action: "labeled".to_owned(),
            repo_id: Some(RepoId(7)),
            body_sha256: String::new(),
            body: "{}".to_owned(),
            received_at: now(),
            outcome: String::new(),
        })
        .await
    })
    .await
    .unwrap();
}

/// Claim, work and end, and a claim under limits.
async fn worked(store: &Store, subject: &Subject) {
    let claim = Claim {
        owner: "worker-1",
        lease: LONG,
        most: 1,
        limits: ClaimLimits::default(),
    };
    let limited = Claim {
        limits: ClaimLimits {
            total: 1_000_000,
            per_installation: 1_000_000,
            per_repository: 1_000_000,
        },
        ..claim
    };
    let first = store.claim_jobs(&claim).await.unwrap().pop().expect("a job is ready");
    assert_eq!(first.job.subject, *subject);
    let lease = first.lease;
    with(store, async |tx| tx.heartbeat(&lease, LONG).await).await.unwrap();
    with(store, async |tx| {
        tx.append_event(&lease, &noted("at work"), now()).await
    })
    .await
    .unwrap();
    with(store, async |tx| {
        tx.begin_publishing(&lease, &Outcome::Answered, &[comment(&lease.job, 1)])
            .await?;
        tx.move_effect(&lease, 1, EffectState::Done, Some("101"), None).await
    })
    .await
    .unwrap();
    store.finish_job(&lease, &Outcome::Answered, false).await.unwrap();
    let other = store.claim_jobs(&limited).await.unwrap().pop();
    if let Some(other) = other {
        with(store, async |tx| {
            tx.snooze_job(&other.lease, now(), "another time").await
        })
        .await
        .unwrap();
    }
}

/// Connections of others to this database.
async fn others(connection: &mut PgConnection) -> i64 {
    sqlx::query_scalar(
        "SELECT COUNT(*)
         FROM pg_stat_activity
         WHERE datname = CURRENT_DATABASE()
           AND pid <> PG_BACKEND_PID()",
    )
    .fetch_one(connection)
    .await
    .unwrap()
}

/// Entries of each index that were read so far, and rows of whole tables, by whoever has gone away.
async fn rows_read(connection: &mut PgConnection) -> Vec<(String, i64)> {
    sqlx::query_as(
        "SELECT indexrelname::TEXT, idx_tup_read
         FROM pg_stat_user_indexes
         WHERE relname = 'jobs'
         UNION ALL
         SELECT 'all rows', seq_tup_read
         FROM pg_stat_user_tables
         WHERE relname = 'jobs'
         ORDER BY 2 DESC",
    )
    .fetch_all(connection)
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_is_done_for_each_job_reads_all_jobs() {
    let database = Database::postgres().await;
    database.open().await.close().await;
    // One connection, so that every plan is one of empty tables.
    let store = Store::open(&database.url, 1).await.unwrap();
    for number in 0..3 {
        around(&store, 1_000_000 + number).await;
    }
    database
        .execute(&format!(
            "ALTER TABLE jobs SET (autovacuum_enabled = false);
             INSERT INTO jobs (id, repo_id, repo, installation_id, kind, subject, lane, state, priority, run_at,
                 attempt, max_attempts, lost_leases, round, fence, request, pins, created_at, finished_at, turn)
             SELECT id || LPAD(CAST(n AS TEXT), 20, '0'), n % 50, 'octo/repo', n % 7, 'fix', 'issue/' || n, 'issue/' || n, state, 0,
                 NOW() - INTERVAL '1 hour', 0, 5, 0, 0, 0,
                 '{{\"trigger\":{{\"by\":\"label\",\"label\":\"agent\"}},\"actor\":{{\"id\":1,\"login\":\"mona\",\"is_bot\":false}},\
                   \"instructions\":\"\",\"triggered_at\":\"2026-01-01T00:00:00Z\"}}', '{{}}', NOW(),
                 CASE state WHEN 'done' THEN NOW() END, n * 20
             FROM GENERATE_SERIES(1, {ROWS}) AS n, (VALUES ('01WA1T', 'queued'), ('00D0NE', 'done')) AS states (id, state)"
        ))
        .await;
    let mut connection = PgConnection::connect(database.url.expose()).await.unwrap();
    for number in 0..ROUNDS {
        around(&store, 2_000_000 + number).await;
    }
    // What a connection counted is told at the latest when it ends.
    store.close().await;
    let deadline = Instant::now() + Duration::from_secs(60);
    while others(&mut connection).await > 0 {
        assert!(Instant::now() < deadline, "connections stay open");
        tokio::task::yield_now().await;
    }
    let read = rows_read(&mut connection).await;
    let sum: i64 = read.iter().map(|(_, rows)| rows).sum();
    assert!(
        (1..MOST * i64::try_from(ROUNDS).unwrap()).contains(&sum),
        "{sum} rows were read in {ROUNDS} rounds: {read:?}"
    );
    connection.close().await.unwrap();
    database.remove().await;
}
