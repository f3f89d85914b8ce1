//! The audit, statement by statement, and what tampering with each kind of database shows.

use super::*;
use crate::databases::{Database, each, each_database};
use forgehand::audit::{Act, Action, Entry, FaultKind, Point};
use forgehand::store::AuditFilter;

async fn add(store: &Store, acts: usize) {
    with(store, async |tx| {
        tx.act_as("operator");
        for at in 0..acts {
            tx.audit(Act::new(Action::Removed).with("at", at));
        }
        Ok(())
    })
    .await
    .unwrap();
}

async fn rows(store: &Store) -> Vec<Entry> {
    with(store, async |tx| tx.audit_after(0, 1_000).await).await.unwrap()
}

async fn faults(store: &Store, anchors: &[Point]) -> Vec<(i64, FaultKind)> {
    let checked = with(store, async |tx| tx.check_audit(anchors).await).await.unwrap();
    checked
        .faults
        .into_iter()
        .map(|fault| (fault.seq, fault.fault))
        .collect()
}

#[tokio::test]
async fn rows_come_with_their_acts_or_not_at_all() {
    each(async |store| {
        assert_eq!(faults(&store, &[]).await, [], "nothing was done yet");
        let schema = with(&store, async |tx| tx.schema_version().await).await.unwrap();
        assert!(schema >= 14, "{schema}");
        let mut tx = store.begin().await.unwrap();
        tx.audit(Act::new(Action::Removed));
        drop(tx);
        assert_eq!(rows(&store).await, []);
        add(&store, 3).await;
        let found = rows(&store).await;
        assert_eq!(found.iter().map(|row| row.seq).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(
            (found[0].actor.as_str(), &found[0].prev),
            ("operator", &Point::origin().hash)
        );
        assert_eq!(found[2].detail, "{\"at\":2}");
        let ends = with(&store, async |tx| tx.audit_ends().await).await.unwrap();
        assert_eq!(ends, (Point::origin(), found[2].point()));
        assert_eq!(faults(&store, &[found[1].point()]).await, []);
        let odd = Act::new(Action::Removed).by("nul\0").with("text", "a\0b");
        with(&store, async |tx| {
            tx.audit(odd);
            Ok(())
        })
        .await
        .unwrap();
        assert_eq!(
            faults(&store, &[]).await,
            [],
            "what PostgreSQL cannot store is not hashed either"
        );
    })
    .await;
}

/// Everything that people and jobs do has its row.
#[tokio::test]
async fn acts_of_jobs_name_who_asked_for_them_and_what_was_written() {
    each(async |store| {
        let lease = publishing(&store, &fix(1), &[1], LONG).await;
        let allowed = RunEvent::Authorized {
            actor: "mona".to_owned(),
            permission: "write".to_owned(),
        };
        with(&store, async |tx| tx.append_event(&lease, &allowed, now()).await)
            .await
            .unwrap();
        let blocked = RunEvent::HostBlocked {
            host: "evil.example:443".to_owned(),
            why: "it is not listed".to_owned(),
            allow: None,
        };
        with(&store, async |tx| tx.append_event(&lease, &blocked, now()).await)
            .await
            .unwrap();
        use forgehand::effect::EffectState;
        for (state, remote_id) in [(EffectState::Sending, None), (EffectState::Done, Some("77"))] {
            with(&store, async |tx| {
                tx.move_effect(&lease, 1, state, remote_id, None).await
            })
            .await
            .unwrap();
        }
        let refused = Outcome::Refused {
            reason: "only writers may".to_owned(),
        };
        with(&store, async |tx| tx.finish_job(&lease, &refused).await)
            .await
            .unwrap();
        with(&store, async |tx| {
            tx.act_as("operator");
            tx.requeue_job(&lease.job, now()).await?;
            tx.cancel_job(&lease.job, "stopped at the command line", now()).await
        })
        .await
        .unwrap();
        let found = rows(&store).await;
        let told: Vec<_> = found
            .iter()
            .map(|row| (row.action.as_str(), row.actor.as_str()))
            .collect();
        assert_eq!(
            told,
            [
                ("authorized", "github:mona"),
                ("host_blocked", "service"),
                ("written", "service"),
                ("refused", "github:mona"),
                ("retried", "operator"),
                ("stop_requested", "operator"),
            ]
        );
        for row in &found {
            assert_eq!(row.job.as_deref(), Some(lease.job.as_str()));
            assert_eq!(row.repository.as_deref(), Some("octo/widgets"));
            assert_eq!(row.subject.as_deref(), Some("issue/1"));
            assert!(row.detail.contains("\"asked_by\":\"github:mona\""), "{}", row.detail);
        }
        let written = &found[2].detail;
        for part in ["\"remote_id\":\"77\"", "\"kind\":\"comment\"", "\"fence\":1"] {
            assert!(written.contains(part), "{part} in {written}");
        }
        assert!(!written.contains("comment 1"), "no body: {written}");
    })
    .await;
}

#[tokio::test]
async fn rows_are_found_by_what_is_asked() {
    each(async |store| {
        let lease = leased(&store, &fix(1), LONG).await;
        with(&store, async |tx| tx.cancel_job(&lease.job, "enough", now()).await)
            .await
            .unwrap();
        add(&store, 2).await;
        let find = async |filter: AuditFilter| {
            let filter = AuditFilter { limit: 10, ..filter };
            let found = with(&store, async |tx| tx.audit_rows(&filter).await).await.unwrap();
            found.into_iter().map(|row| row.seq).collect::<Vec<_>>()
        };
        assert_eq!(find(AuditFilter::default()).await, [3, 2, 1], "the latest first");
        let job = Some(lease.job.clone());
        assert_eq!(
            find(AuditFilter {
                job,
                ..AuditFilter::default()
            })
            .await,
            [1]
        );
        let repository = Some("Octo/Widgets".parse().unwrap());
        assert_eq!(
            find(AuditFilter {
                repository,
                ..AuditFilter::default()
            })
            .await,
            [1]
        );
        let action = Some(Action::Removed);
        assert_eq!(
            find(AuditFilter {
                action,
                ..AuditFilter::default()
            })
            .await,
            [3, 2]
        );
        let actor = Some("service".to_owned());
        assert_eq!(
            find(AuditFilter {
                actor,
                ..AuditFilter::default()
            })
            .await,
            [1]
        );
        let since = Some(in_seconds(3_600));
        assert_eq!(
            find(AuditFilter {
                since,
                ..AuditFilter::default()
            })
            .await,
            [0_i64; 0]
        );
    })
    .await;
}

/// Tampers with six rows behind the store's back and expects this to be found, as I16, too.
async fn check(statements: &str, expected: &[(i64, FaultKind)]) {
    for database in [Database::sqlite(), Database::postgres().await] {
        let store = database.open().await;
        add(&store, 6).await;
        database.execute(statements).await;
        assert_eq!(
            faults(&store, &[]).await,
            expected,
            "on {}: {statements}",
            database.kind()
        );
        let found = with(&store, async |tx| tx.violations().await).await.unwrap();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        assert!(found.iter().all(|violation| violation.invariant == "I16"), "{found:?}");
        store.close().await;
        database.remove().await;
    }
}

#[tokio::test]
async fn a_changed_row_is_found() {
    check(
        "UPDATE audit SET actor = 'github:mallory' WHERE seq = 3",
        &[(3, FaultKind::Changed)],
    )
    .await;
    check(
        "UPDATE audit SET detail = '{}' WHERE seq = 6",
        &[(6, FaultKind::Changed)],
    )
    .await;
}

#[tokio::test]
async fn a_removed_row_is_found_in_the_middle_at_the_end_and_at_the_beginning() {
    check("DELETE FROM audit WHERE seq = 3", &[(4, FaultKind::Missing)]).await;
    check("DELETE FROM audit WHERE seq > 4", &[(5, FaultKind::Cut)]).await;
    check("DELETE FROM audit WHERE seq < 3", &[(3, FaultKind::Missing)]).await;
}

#[tokio::test]
async fn a_moved_beginning_that_no_row_states_is_found() {
    let moved = "UPDATE audit_chain SET anchor_seq = 2, anchor_hash = (SELECT hash FROM audit WHERE seq = 2);
        DELETE FROM audit WHERE seq <= 2";
    check(moved, &[(2, FaultKind::Beginning)]).await;
}

#[tokio::test]
async fn rows_in_another_order_and_a_fork_are_found() {
    let swapped = "UPDATE audit SET seq = 100 WHERE seq = 3;
        UPDATE audit SET seq = 3 WHERE seq = 4;
        UPDATE audit SET seq = 4 WHERE seq = 100";
    check(
        swapped,
        &[
            (3, FaultKind::Unlinked),
            (3, FaultKind::Changed),
            (4, FaultKind::Forked),
            (4, FaultKind::Changed),
            (5, FaultKind::Forked),
        ],
    )
    .await;
    let forked = "UPDATE audit SET prev = (SELECT prev FROM audit WHERE seq = 4) WHERE seq = 5";
    check(forked, &[(5, FaultKind::Forked), (5, FaultKind::Changed)]).await;
}

/// Whoever moves the end as well is found by an anchor that was kept elsewhere.
#[tokio::test]
async fn a_cut_tail_is_found_by_an_anchor() {
    each_database(async |database| {
        let store = database.open().await;
        add(&store, 6).await;
        let anchor = rows(&store).await[5].point();
        assert_eq!(faults(&store, std::slice::from_ref(&anchor)).await, []);
        let cut = "DELETE FROM audit WHERE seq > 4;
            UPDATE audit_chain SET seq = 4, hash = (SELECT hash FROM audit WHERE seq = 4)";
        database.execute(cut).await;
        assert_eq!(faults(&store, &[]).await, [], "by itself it looks whole");
        assert_eq!(
            faults(&store, std::slice::from_ref(&anchor)).await,
            [(5, FaultKind::Cut)]
        );
        add(&store, 3).await;
        assert_eq!(
            faults(&store, std::slice::from_ref(&anchor)).await,
            [(6, FaultKind::Rewritten)],
            "also when it grew again"
        );
        store.close().await;
    })
    .await;
}

#[tokio::test]
async fn old_rows_leave_and_the_chain_says_where_it_begins() {
    each(async |store| {
        add(&store, 6).await;
        let found = rows(&store).await;
        let drop_through = async |point: Point| {
            let act = Act::new(Action::AuditArchived).with("file", "a.jsonl.gz");
            with(&store, async |tx| tx.drop_audit(&point, act).await).await.unwrap()
        };
        let wrong = Point {
            seq: 4,
            ..found[2].point()
        };
        assert!(!drop_through(wrong).await, "it is not in the chain");
        assert!(!drop_through(found[5].point()).await, "the last row stays");
        assert!(drop_through(found[3].point()).await);
        assert!(!drop_through(found[3].point()).await, "it is gone");
        let left = rows(&store).await;
        assert_eq!(left.iter().map(|row| row.seq).collect::<Vec<_>>(), [5, 6, 7]);
        assert_eq!(faults(&store, &[found[3].point(), found[4].point()]).await, []);
        assert_eq!(faults(&store, &[found[1].point()]).await, [(2, FaultKind::Archived)]);
        assert!(!drop_through(left[2].point()).await, "it is the last");
        add(&store, 1).await;
        assert!(drop_through(left[2].point()).await, "the row that said so goes, too");
        assert_eq!(faults(&store, &[]).await, []);
    })
    .await;
}

/// Eight writers, each with a store of its own, make one chain.
#[tokio::test(flavor = "multi_thread")]
async fn a_chain_of_many_writers_does_not_fork() {
    const WRITERS: usize = 8;
    const EACH: usize = 25;
    each_database(async |database| {
        let mut writers = Vec::new();
        for _ in 0..WRITERS {
            writers.push(database.open().await);
        }
        let writing = writers.iter().cloned().map(|store| {
            tokio::spawn(async move {
                for at in 0..EACH {
                    loop {
                        let acts = 1 + at % 3;
                        let done = with(&store, async |tx| {
                            for _ in 0..acts {
                                tx.audit(Act::new(Action::Removed).with("at", at));
                            }
                            Ok(())
                        })
                        .await;
                        match done {
                            Ok(()) => break,
                            Err(StoreError::Unavailable(_)) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            })
        });
        for writer in writing.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
        let store = &writers[0];
        let expected: usize = WRITERS * (0..EACH).map(|at| 1 + at % 3).sum::<usize>();
        assert_eq!(rows(store).await.len(), expected);
        assert_eq!(faults(store, &[]).await, []);
        for store in writers {
            store.close().await;
        }
    })
    .await;
}
