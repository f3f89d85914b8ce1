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

const LONG_AGO: &str = "'2026-01-01T00:00:00+00:00'";

fn delivery(guid: &str, outcome: &str, received_at: &str) -> String {
    format!(
        "INSERT INTO deliveries (guid, semantic_key, event, action, repo_id, body_sha256, body, received_at, outcome)
         VALUES ('{guid}', '{guid}', 'issues', 'labeled', 7, '', '{{}}', {received_at}, {outcome});"
    )
}

/// The delivery that asked for each job that is there, as far as deliveries are kept.
#[tokio::test]
async fn a_job_that_no_delivery_asked_for_and_a_delivery_whose_job_was_lost() {
    let of_others = "INSERT INTO deliveries
        (guid, semantic_key, event, action, repo_id, body_sha256, body, received_at, outcome)
        SELECT id, id, 'issues', 'labeled', 7, '', '{}', created_at, 'taken' FROM jobs WHERE id <> '$JOB';";
    check(&format!("{of_others}{}", delivery("g1", "'ignored'", LONG_AGO)), "I1").await;
    let all = of_others.replace("<> '$JOB'", "<> 'none'");
    // A webhook call of just now, as the database tells the time of the job.
    let lost = "INSERT INTO deliveries
        (guid, semantic_key, event, action, repo_id, body_sha256, body, received_at, outcome)
        SELECT 'g2', 'g2', 'issues', 'labeled', 7, '', '{}', created_at, 'fix job ' || SUBSTR(id, 1, 25) || '_ and $JOB'
        FROM jobs WHERE id = '$JOB';";
    for database in [Database::sqlite(), Database::postgres().await] {
        let store = database.open().await;
        let id = insert(&store, &fix(1)).await.to_string();
        let find = async || with(&store, async |tx| tx.violations().await).await.unwrap();
        database.execute(&all).await;
        assert_eq!(find().await, []);
        database.execute(&lost.replace("$JOB", &id)).await;
        let found = find().await;
        let told: Vec<_> = found
            .iter()
            .map(|violation| (violation.invariant, &violation.detail))
            .collect();
        let [("I1", detail)] = told.as_slice() else {
            panic!("{told:?}")
        };
        assert!(detail.starts_with("delivery g2 became fix job "), "{detail}");
        store.close().await;
        database.remove().await;
    }
}

#[tokio::test]
async fn a_death_that_was_told_twice() {
    let comment = |seq: u32| {
        format!(
            "INSERT INTO effects (id, job_id, seq, kind, dedupe_key, body, state, fence, tries, remote_id)
             VALUES ('e{seq}', '$JOB', {seq}, 'status_comment', 'k{seq}', '{{}}', 'done', 1, 1, '{seq}');"
        )
    };
    let skipped = "UPDATE effects SET state = 'skipped';";
    let statements = [&ended("dead", "'broken'"), skipped, &comment(2), &comment(102)].concat();
    check(&statements, "I8").await;
}

#[tokio::test]
async fn money_that_is_set_aside_for_a_job_that_is_over() {
    let statements = ended("cancelled", "'closed'")
        + "UPDATE effects SET state = 'skipped';
           INSERT INTO reservations VALUES ('$JOB', 1, '2026-01-01', 7, 99, 'issue/1', 5)";
    check(&statements, "I13").await;
}

#[tokio::test]
async fn rows_of_a_job_that_belong_to_another_place() {
    for (repo, installation, subject) in [(8, 99, "issue/1"), (7, 98, "issue/1"), (7, 99, "issue/2")] {
        let reservation = format!(
            "INSERT INTO reservations VALUES ('$JOB', 1, '2026-01-01', {repo}, {installation}, '{subject}', 5)"
        );
        check(&reservation, "I14").await;
    }
    let charge = "INSERT INTO job_events VALUES ('$JOB', 9, '2026-01-01T00:00:00+00:00', 1, 'model_replied', '{}');
        INSERT INTO ledger VALUES ('$JOB', 9, '2026-01-01T00:00:00+00:00', '2026-01-01', 8, 'octo/widgets', 99,
            'issue/1', 'm', 1, 1, NULL)";
    check(charge, "I14").await;
    let item = "INSERT INTO queue_items
        (source, repo_id, number, version, changed_at, state, reason, job_id, absent, seen_at)
        VALUES ('q', 8, 1, '', '2026-01-01T00:00:00+00:00', 'working', '', '$JOB', 0, '2026-01-01T00:00:00+00:00')";
    check(item, "I14").await;
}
