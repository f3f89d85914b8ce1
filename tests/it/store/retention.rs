//! What may leave the database and what must stay, statement by statement.

use std::collections::BTreeSet;

use super::ledger::replied;
use super::*;
use crate::databases::{Database, each, each_database};
use forgehand::audit::{Act, Action};
use forgehand::ids::RepoName;
use forgehand::milestone::{Graph, GraphKey, Hold, Holder, MilestoneState, NewMilestone, Standing};
use forgehand::mission::Mission;
use forgehand::money::Usd;
use forgehand::store::{
    Account, AuditFilter, AutotaskSwitch, CostFilter, CostsBy, Gone, ItemState, JobTable, Kept, Old, OldJob, QueueItem,
    QueueKey, TABLES,
};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};

/// Everything that is over is old, whatever the clock of the database says.
fn everything() -> Old {
    Old {
        before: in_seconds(3_600),
        records_before: in_seconds(-3_600),
    }
}

async fn old(store: &Store) -> Vec<JobId> {
    let found = with(store, async |tx| tx.old_jobs(everything(), None, 100).await).await;
    let found: Vec<JobId> = found.unwrap().into_iter().map(|job| job.id).collect();
    let count = with(store, async |tx| tx.count_old_jobs(everything()).await).await;
    assert_eq!(count.unwrap(), i64::try_from(found.len()).unwrap());
    found
}

async fn ended(store: &Store, job: &NewJob) -> JobId {
    let lease = leased(store, job, LONG).await;
    with(store, async |tx| tx.bury_job(&lease, "it is over").await)
        .await
        .unwrap();
    lease.job
}

async fn remove(store: &Store, job: &OldJob) -> Gone {
    let act = Act::new(Action::RunArchived).with("file", "x.jsonl.gz");
    with(store, async |tx| tx.remove_job(job, everything(), act).await)
        .await
        .unwrap()
}

async fn only_old(store: &Store) -> OldJob {
    let mut found = with(store, async |tx| tx.old_jobs(everything(), None, 2).await)
        .await
        .unwrap();
    assert_eq!(found.len(), 1);
    found.remove(0)
}

/// A migration that makes a table says what bounds it.
#[test]
fn every_table_of_the_migrations_has_its_policy() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut made = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let names = text.lines().filter_map(|line| line.strip_prefix("CREATE TABLE "));
        made.extend(names.map(|rest| {
            let rest = rest.trim_start_matches("IF NOT EXISTS ");
            rest.split([' ', '(']).next().unwrap().to_owned()
        }));
    }
    let known: BTreeSet<String> = TABLES.iter().map(|(table, _)| (*table).to_owned()).collect();
    let unknown: Vec<_> = made.difference(&known).collect();
    assert!(
        unknown.is_empty(),
        "{unknown:?}: say in TABLES of src/store/retention.rs what bounds them"
    );
    let gone: Vec<_> = known.difference(&made).collect();
    assert!(gone.is_empty(), "no migration makes {gone:?}");
    assert!(TABLES.is_sorted_by_key(|(table, _)| *table), "by name");
    let moved: BTreeSet<&str> = JobTable::ALL.iter().map(|table| table.as_str()).collect();
    for (table, kept) in TABLES {
        assert!(
            *kept != Kept::WithJob || moved.contains(table),
            "{table} is to go with its job and is not among JobTable"
        );
    }
}

/// One row with every column in each table that goes with its job.
const FULL: &str = "
    UPDATE jobs SET dedupe_key = 'k', outcome = '{\"outcome\":\"answered\"}', reason = 'r',
        cancel_requested_at = '2026-01-01T00:00:00+00:00' WHERE id = '$JOB';
    INSERT INTO effects VALUES ('e', '$JOB', 1, 'comment', 'd', '{}', 'done', 1, '2026-01-01T00:00:00+00:00', 1, 'r', 'p', 2, '6');
    INSERT INTO checkpoints VALUES ('$JOB', 'solution', 1, 1, 'bytes');
    INSERT INTO conversation VALUES ('$JOB', 'main', 0, 1, '{}');
    INSERT INTO questions VALUES ('$JOB', 1, 0, '{}', 'b', '2026-01-01T00:00:00+00:00', '2026-01-01T00:00:00+00:00',
        '2026-01-01T00:00:00+00:00', '2026-01-01T00:00:00+00:00', '2026-01-01T00:00:00+00:00');
    INSERT INTO answers VALUES ('$JOB', 's', 1, 'mona', 'yes', '2026-01-01T00:00:00+00:00');
    INSERT INTO instructions VALUES ('$JOB', 1, 's', 'mona', 'go', '2026-01-01T00:00:00+00:00',
        '2026-01-01T00:00:00+00:00');
    INSERT INTO reservations VALUES ('$JOB', 1, '2026-01-01', 7, 99, 'issue/1', 5);
    INSERT INTO cap_warnings VALUES ('$JOB', 'issue', 5);
    INSERT INTO drafts VALUES ('d', '$JOB', 7, 'octo/widgets', 'issue/1', 4, 'bug', 'h', '{}', '{}', TRUE, 'created',
        '2026-01-01T00:00:00+00:00', 'mona', '2026-01-01T00:00:00+00:00', '$JOB', '5');
    INSERT INTO schedule_fires VALUES ('nightly', '2026-01-01T00:00:00+00:00', '$JOB', 'o', '2026-01-01T00:00:00+00:00');
";

async fn columns(database: &Database, table: &str) -> BTreeSet<String> {
    let url = database.url.expose();
    let query = match database.kind() {
        "sqlite" => format!("SELECT name FROM pragma_table_info('{table}')"),
        _ => format!("SELECT column_name::TEXT FROM information_schema.columns WHERE table_name = '{table}'"),
    };
    let query = AssertSqlSafe(query);
    let names: Vec<String> = match database.kind() {
        "sqlite" => {
            let mut connection = SqliteConnection::connect(url).await.unwrap();
            sqlx::query_scalar(query).fetch_all(&mut connection).await.unwrap()
        }
        _ => {
            let mut connection = PgConnection::connect(url).await.unwrap();
            sqlx::query_scalar(query).fetch_all(&mut connection).await.unwrap()
        }
    };
    names.into_iter().collect()
}

/// What is read of a job's tables is what they have.
async fn every_column_is_read(database: &Database, store: &Store, job: &JobId) {
    for table in JobTable::ALL {
        let read = async |page| {
            with(store, async |tx| tx.rows_of_job(*table, job, page).await)
                .await
                .unwrap()
        };
        let rows = read((0, 100)).await;
        assert!(!rows.is_empty(), "{table}");
        let keys: BTreeSet<String> = rows[0].as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys, columns(database, table.as_str()).await, "columns of {table}");
        let (first, rest) = (read((0, 1)).await, read((1, 100)).await);
        assert_eq!([first, rest].concat(), rows, "{table} in pages");
    }
    let bytes = with(store, async |tx| {
        tx.rows_of_job(JobTable::Checkpoints, job, (0, 1)).await
    });
    assert_eq!(bytes.await.unwrap()[0]["body"], "Ynl0ZXM=", "bytes are in base64");
}

#[tokio::test]
async fn a_jobs_file_has_every_column_of_its_tables_and_its_removal_leaves_nothing() {
    each_database(async |database| {
        let store = database.open().await;
        let lease = leased(&store, &fix(1), LONG).await;
        for (model, cost) in [("a", Some(0.25)), ("a", Some(0.5)), ("b", None)] {
            with(&store, async |tx| {
                tx.append_event(&lease, &replied(model, cost), now()).await
            })
            .await
            .unwrap();
        }
        with(&store, async |tx| tx.bury_job(&lease, "it is over").await)
            .await
            .unwrap();
        database.execute(&FULL.replace("$JOB", lease.job.as_str())).await;
        let account = Account {
            job: "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap(),
            repo_id: RepoId(7),
            subject: Subject::Issue(IssueNumber(1)),
            installation: InstallationId(99),
        };
        let costs = async |by| {
            let filter = CostFilter {
                limit: 10,
                ..CostFilter::default()
            };
            with(&store, async |tx| tx.costs(by, &filter).await).await.unwrap()
        };
        let spent = async || {
            with(&store, async |tx| tx.spent(&account, now()).await)
                .await
                .unwrap()
                .subject
        };
        let before = (costs(CostsBy::Day).await, costs(CostsBy::Model).await, spent().await);
        assert_eq!(before.2, Usd::from_cents(75));

        every_column_is_read(database, &store, &lease.job).await;
        let job = only_old(&store).await;
        assert_eq!(remove(&store, &job).await, Gone::Removed);
        for table in JobTable::ALL {
            let rows = with(&store, async |tx| tx.rows_of_job(*table, &lease.job, (0, 1)).await).await;
            assert_eq!(rows.unwrap(), [] as [serde_json::Value; 0], "{table}");
            let count = with(&store, async |tx| tx.count_rows(table.as_str()).await).await;
            assert_eq!(count.unwrap(), 0, "{table}");
        }
        assert_eq!(remove(&store, &job).await, Gone::Before);
        assert!(
            with(&store, async |tx| tx.count_rows("sqlite_master").await)
                .await
                .is_err()
        );

        let after = (costs(CostsBy::Day).await, costs(CostsBy::Model).await, spent().await);
        assert_eq!(after, before, "what it cost goes on counting");
        assert_eq!(costs(CostsBy::Job).await[0].name, "archived jobs");
        let filter = AuditFilter {
            job: Some(lease.job.clone()),
            limit: 10,
            ..AuditFilter::default()
        };
        let said = with(&store, async |tx| tx.audit_rows(&filter).await).await.unwrap();
        assert_eq!((said.len(), said[0].action.as_str()), (1, "run_archived"));

        // The number of a draft means one text for ever.
        let other = leased(&store, &fix(1), LONG).await;
        let job = load(&store, &other.job).await;
        let offer = super::drafts::offer("next");
        let numbers = with(&store, async |tx| tx.offer_drafts(&other, &job, &[offer], now()).await);
        assert_eq!(numbers.await.unwrap(), [5]);

        let forget = async |days: u64| {
            let day = now().date_naive() + chrono::Days::new(days);
            with(&store, async |tx| tx.forget_costs(day, 1).await).await.unwrap()
        };
        assert_eq!(forget(0).await, 0, "today's stay");
        assert_eq!([forget(1).await, forget(1).await, forget(1).await], [1, 1, 0]);
        assert_eq!(spent().await, Usd::ZERO);
        store.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_job_stays_that_is_not_over_was_begun_again_or_is_needed() {
    each(async |store| {
        let first = ended(&store, &fix(1)).await;
        let second = ended(&store, &fix(3)).await;
        insert(&store, &fix(2)).await;
        let mine = old(&store).await;
        assert_eq!(mine, [first, second]);
        let page = with(&store, async |tx| tx.old_jobs(everything(), Some(&mine[0]), 1).await).await;
        assert_eq!(page.unwrap()[0].id, mine[1]);
        let younger = Old {
            before: in_seconds(-3_600),
            ..everything()
        };
        let none = with(&store, async |tx| tx.old_jobs(younger, None, 10).await).await;
        assert_eq!(none.unwrap(), []);

        let found = with(&store, async |tx| tx.old_jobs(everything(), None, 1).await).await;
        let found = found.unwrap().remove(0);
        with(&store, async |tx| tx.requeue_job(&found.id, now()).await)
            .await
            .unwrap();
        assert_eq!(remove(&store, &found).await, Gone::Stays, "it was begun again");
        with(&store, async |tx| tx.cancel_job(&found.id, "enough", now()).await)
            .await
            .unwrap();
        assert_eq!(
            remove(&store, &found).await,
            Gone::Stays,
            "and is over in another round"
        );
        assert!(old(&store).await.contains(&found.id));
    })
    .await;
}

#[tokio::test]
async fn an_unattended_job_stays_until_its_record_is_written() {
    each(async |store| {
        let mut nightly = fix(1);
        nightly.request.trigger = Trigger::Schedule {
            name: "nightly".to_owned(),
            fire_at: in_seconds(-60),
        };
        let id = ended(&store, &nightly).await;
        assert_eq!(old(&store).await, []);
        let long_ago = Old {
            records_before: in_seconds(3_600),
            ..everything()
        };
        let found = with(&store, async |tx| tx.count_old_jobs(long_ago).await).await;
        assert_eq!(found.unwrap(), 1, "records of that time leave, too");
        let mission = Mission::of(&load(&store, &id).await, "01".to_owned()).unwrap();
        with(&store, async |tx| tx.insert_mission(&mission).await)
            .await
            .unwrap();
        assert_eq!(old(&store).await, [id]);
    })
    .await;
}

#[tokio::test]
async fn a_job_stays_that_a_milestone_or_a_draft_needs() {
    each(async |store| {
        let id = ended(&store, &fix(1)).await;
        let key = GraphKey {
            repository: "repository/7".to_owned(),
            name: "main".parse().unwrap(),
        };
        let mut graph = Graph::new(key, "goal", Standing::Approved);
        let new = NewMilestone {
            id: Some("a".parse().unwrap()),
            title: "Do it".to_owned(),
            description: "In words".to_owned(),
            acceptance: None,
            depends_on: Vec::new(),
        };
        graph.add(vec![new]).unwrap();
        graph.milestones[0].state = MilestoneState::InProgress;
        graph.milestones[0].hold = Some(Hold {
            by: Holder::Job(id.clone()),
            until: None,
        });
        with(&store, async |tx| {
            tx.insert_graph(&graph).await?;
            tx.insert_milestone(&graph.key, &graph.milestones[0]).await
        })
        .await
        .unwrap();
        assert_eq!(old(&store).await, [], "the end of its milestone is not noted yet");
        with(&store, async |tx| {
            tx.delete_milestone(&graph.key, &graph.milestones[0].id).await
        })
        .await
        .unwrap();
        assert_eq!(old(&store).await, [id]);
    })
    .await;
    each(async |store| {
        let offering = leased(&store, &fix(1), LONG).await;
        let job = load(&store, &offering.job).await;
        let offer = super::drafts::offer("one");
        with(&store, async |tx| {
            tx.offer_drafts(&offering, &job, std::slice::from_ref(&offer), now())
                .await
        })
        .await
        .unwrap();
        with(&store, async |tx| tx.finish_job(&offering, &Outcome::Answered).await)
            .await
            .unwrap();
        let creating = leased(&store, &fix(2), LONG).await;
        with(&store, async |tx| {
            tx.confirm_draft(&creating, &offer.id, "mona", now()).await
        })
        .await
        .unwrap();
        assert_eq!(old(&store).await, [], "its draft is being created");
        with(&store, async |tx| tx.finish_job(&creating, &Outcome::Answered).await)
            .await
            .unwrap();
        let found = only_old(&store).await;
        assert_eq!(found.id, offering.job, "the draft names who created it");
        assert_eq!(remove(&store, &found).await, Gone::Removed);
        assert_eq!(old(&store).await, [creating.job]);
    })
    .await;
}

#[tokio::test]
async fn the_last_branch_of_a_task_stays_for_its_next_run() {
    each(async |store| {
        let mut ids = Vec::new();
        for _ in 0..2 {
            let mut task = fix(1);
            task.subject = Subject::Task("nightly".to_owned());
            let lease = leased(&store, &task, LONG).await;
            let pushed = Outcome::Pushed {
                branch: "agent/nightly".parse().unwrap(),
                sha: "1111111111111111111111111111111111111111".parse().unwrap(),
            };
            with(&store, async |tx| tx.finish_job(&lease, &pushed).await)
                .await
                .unwrap();
            ids.push(lease.job);
        }
        assert_eq!(old(&store).await, &ids[..1]);
    })
    .await;
}

#[tokio::test]
async fn what_queues_and_schedules_leave_behind_goes() {
    each(async |store| {
        let key = QueueKey {
            source: "is:issue",
            repo: RepoId(7),
        };
        let id = ended(&store, &fix(1)).await;
        let item = |number: u64, state, absent| QueueItem {
            number: IssueNumber(number),
            version: "v".to_owned(),
            changed_at: now(),
            state,
            reason: String::new(),
            job: (number == 1).then(|| id.clone()),
            asked_by: None,
            absent,
            seen_at: in_seconds(-60),
        };
        let items = [
            item(1, ItemState::Done, 0),
            item(2, ItemState::Done, 1),
            item(3, ItemState::Working, 1),
            item(4, ItemState::Left, 2),
        ];
        with(&store, async |tx| {
            for item in &items {
                tx.put_queue_item(key, item).await?;
            }
            Ok(())
        })
        .await
        .unwrap();
        assert_eq!(remove(&store, &only_old(&store).await).await, Gone::Removed);
        let forget = async |seconds| {
            with(&store, async |tx| tx.forget_left_items(in_seconds(seconds), 1).await)
                .await
                .unwrap()
        };
        assert_eq!(forget(-600).await, 0, "they were seen since");
        assert_eq!([forget(0).await, forget(0).await, forget(0).await], [1, 1, 0]);
        let left = with(&store, async |tx| tx.queue_items(key).await).await.unwrap();
        let left: Vec<_> = left.into_iter().map(|item| (item.number.0, item.job)).collect();
        assert_eq!(
            left,
            [(1, None), (3, None)],
            "what is in the queue is known without its job"
        );

        let repo: RepoName = "octo/widgets".parse().unwrap();
        with(&store, async |tx| {
            for (is_on, at) in [(true, -300), (false, -200), (true, -100)] {
                let switch = AutotaskSwitch {
                    repo: repo.clone(),
                    is_on,
                    by: "mona".to_owned(),
                    at: in_seconds(at),
                };
                tx.switch_autotask(&switch).await?;
            }
            for at in [-300, -200] {
                tx.note_fire("nightly", in_seconds(at), "missed", now()).await?;
            }
            Ok(())
        })
        .await
        .unwrap();
        let forget = async |seconds, limit| {
            with(&store, async |tx| tx.forget_switches(in_seconds(seconds), limit).await)
                .await
                .unwrap()
        };
        assert_eq!([forget(-250, 10).await, forget(0, 10).await], [1, 1]);
        let switches = with(&store, async |tx| tx.autotask_switches().await).await.unwrap();
        assert!(switches.len() == 1 && switches[0].is_on, "the last one stays");
        let forget = async |seconds| {
            with(&store, async |tx| tx.forget_fires_before(in_seconds(seconds), 1).await)
                .await
                .unwrap()
        };
        assert_eq!([forget(-250).await, forget(-250).await, forget(0).await], [1, 0, 1]);
    })
    .await;
}

#[tokio::test]
async fn a_turn_is_one_process_at_a_time_and_ends_by_itself() {
    each(async |store| {
        let take = async |holder: &str, seconds| {
            with(&store, async |tx| tx.take_upkeep("retention", holder, seconds).await)
                .await
                .unwrap()
        };
        assert!(take("a", 600).await && take("a", 600).await);
        assert!(!take("b", 600).await);
        with(&store, async |tx| tx.leave_upkeep("retention", "b").await)
            .await
            .unwrap();
        assert!(!take("b", 600).await, "only who has it gives it back");
        assert!(take("a", 0).await);
        assert!(take("b", 600).await, "its time was over");
        with(&store, async |tx| tx.leave_upkeep("retention", "b").await)
            .await
            .unwrap();
        assert!(take("a", 600).await);
    })
    .await;
}
