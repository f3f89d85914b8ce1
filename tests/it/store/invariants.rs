//! Each invariant is noticed when it is broken behind the store's back.

use super::*;
use crate::databases::Database;

/// Breaks one invariant in a fresh database of each kind and expects exactly that to be found.
async fn check(statements: &str, invariant: &str) {
    for database in [Database::sqlite(), Database::postgres().await] {
        let store = database.open().await;
        let lease = publishing(&store, &fix(1), &[1], LONG).await;
        insert(&store, &fix(1)).await;
        let find = async || with(&store, async |tx| tx.violations().await).await.unwrap();
        assert_eq!(find().await, []);
        let id = lease.job.to_string();
        database.execute(&statements.replace("$JOB", &id)).await;
        let found = find().await;
        let names: Vec<_> = found.iter().map(|violation| violation.invariant).collect();
        assert_eq!(names, [invariant], "on {}: {found:?}", database.kind());
        let told = &found[0].detail;
        assert!(told.contains(&id) || told.contains("lane issue/1"), "{told}");
        store.close().await;
        database.remove().await;
    }
}

#[tokio::test]
async fn two_active_jobs_in_a_lane() {
    let statements = "DROP INDEX jobs_one_active_per_lane;
        INSERT INTO questions (job_id, seq, round, question, asked_at, answer_by)
        SELECT id, 1, 0, '{}', created_at, created_at FROM jobs WHERE state = 'queued';
        UPDATE jobs SET state = 'waiting' WHERE state = 'queued'";
    check(statements, "I2").await;
}

#[tokio::test]
async fn a_job_that_waits_for_nothing() {
    let waiting = "UPDATE jobs SET state = 'waiting', lease_token = NULL, lease_owner = NULL, lease_until = NULL
        WHERE id = '$JOB'";
    check(waiting, "I12").await;
}

#[tokio::test]
async fn a_claim_with_an_old_fence() {
    let claimed = "INSERT INTO job_events VALUES ('$JOB', 9, '2026-01-01T00:00:00+00:00', 1, 'claimed', '{}')";
    check(claimed, "I3").await;
}

#[tokio::test]
async fn an_entry_of_a_worker_that_was_shut_out() {
    let event = "INSERT INTO job_events VALUES ('$JOB', 9, '2026-01-01T00:00:00+00:00', 0, 'noted', '{}')";
    check(event, "I4").await;
    check("UPDATE effects SET fence = 2", "I4").await;
}

#[tokio::test]
async fn a_lease_that_nobody_recovers() {
    let ended = "UPDATE jobs SET lease_until = '2026-01-01T00:00:00+00:00' WHERE id = '$JOB'";
    check(ended, "I5").await;
    check("UPDATE jobs SET lease_until = NULL WHERE id = '$JOB'", "I5").await;
}

#[tokio::test]
async fn more_attempts_than_allowed() {
    check("UPDATE jobs SET attempt = 6 WHERE id = '$JOB'", "I6").await;
}

/// Makes the job final in a way that only one invariant can object to.
fn ended(state: &str, reason: &str) -> String {
    format!(
        "UPDATE jobs SET state = '{state}', reason = {reason}, finished_at = '2026-01-01T00:00:00+00:00',
         lease_token = NULL, lease_owner = NULL, lease_until = NULL WHERE id = '$JOB';"
    )
}

#[tokio::test]
async fn a_job_that_ended_before_its_effects() {
    check(&ended("done", "NULL"), "I7").await;
    check(&ended("cancelled", "'closed'"), "I11").await;
}

#[tokio::test]
async fn a_dead_job_without_a_reason() {
    let statements = ended("dead", "NULL") + "UPDATE effects SET state = 'skipped'";
    check(&statements, "I8").await;
}

#[tokio::test]
async fn a_write_without_a_trace() {
    check("UPDATE effects SET state = 'done'", "I9").await;
}

#[tokio::test]
async fn a_call_that_is_in_the_ledger_or_in_the_log_alone() {
    let row = |seq: u32| {
        format!(
            "INSERT INTO ledger VALUES ('$JOB', {seq}, '2026-01-01T00:00:00+00:00', '2026-01-01', 7, 'octo/widgets', 99,
                'issue/1', 'm', 1, 1, NULL);"
        )
    };
    let event = |seq: u32| {
        format!(
            "INSERT INTO job_events VALUES ('$JOB', {seq}, '2026-01-01T00:00:00+00:00', 1, 'model_replied', '{{}}');"
        )
    };
    check(&row(9), "I15").await;
    check(&format!("{}{}{}", row(9), event(9), event(10)), "I15").await;
}
