//! Every row of every table arrives as it is, once, and comes back.

use super::filled::{ROWS, filled, rows_of_file, tables};
use super::{dump, migrate, nowhere, problems, run, sums, with_schema};
use crate::databases::Database;
use forgehand::secret::Secret;
use serde_json::Value;

/// A future migration needs nothing in the program; this fails when that stops being true.
#[tokio::test]
async fn every_table_moves_to_postgres_and_back() {
    let source = filled().await;
    let target = Database::postgres().await;
    let before = dump(&source.url).await;
    let there = migrate(&source.url, &target.url, &[]).await.report();
    assert_eq!(dump(&source.url).await, before, "the source is only read");

    let known = tables(&source.url).await;
    assert!(known.len() >= 28, "{known:?}");
    assert_eq!(tables(&target.url).await, known, "both databases have the same tables");
    let mut moved: Vec<String> = sums(&there, "source_sha256")
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    moved.sort();
    assert_eq!(moved, known);
    let rows = rows_of_file(&source.url).await;
    for table in &known {
        assert!(
            rows.iter().any(|row| row.starts_with(&format!("{table}: "))),
            "{table} has no row"
        );
    }
    let all = rows.len() as u64;
    assert_eq!([&there["rows"], &there["copied"]], [&Value::from(all); 2]);
    assert_eq!(sums(&there, "source_sha256"), sums(&there, "target_sha256"));

    let folder = tempfile::tempdir().unwrap();
    let back = nowhere(&folder);
    let again = migrate(&target.url, &back, &[]).await.report();
    assert_eq!(sums(&again, "target_sha256"), sums(&there, "source_sha256"));
    assert_eq!(rows_of_file(&back).await, rows_of_file(&source.url).await);
    target.remove().await;
}

/// A second time finds everything there.
#[tokio::test]
async fn a_second_move_changes_nothing() {
    let source = filled().await;
    for target in [Database::postgres().await, Database::sqlite()] {
        let first = migrate(&source.url, &target.url, &[]).await.report();
        let before = dump(&target.url).await;
        let second = migrate(&source.url, &target.url, &[]).await.report();
        assert_eq!([&second["copied"], &second["errors"]], [0, 0]);
        assert_eq!(second["skipped"], first["rows"]);
        assert_eq!(dump(&target.url).await, before);
        target.remove().await;
    }
}

#[tokio::test]
async fn a_dry_run_makes_nothing() {
    let source = filled().await;
    let folder = tempfile::tempdir().unwrap();
    let file = nowhere(&folder);
    let server = Database::postgres().await;
    for target in [&file, &server.url] {
        let dry = migrate(&source.url, target, &["--dry-run"]).await.report();
        assert_eq!([&dry["dry_run"], &dry["copied"]], [&Value::from(true), &dry["rows"]]);
        assert_eq!(dry["tables"][0]["target_sha256"], Value::Null);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no file was made");
    assert_eq!(tables(&server.url).await, Vec::<String>::new(), "no table was made");
    // Of a database that has some of the rows, it says which are missing.
    let target = with_schema(Database::postgres().await).await;
    migrate(&source.url, &target.url, &[]).await.report();
    target.execute("DELETE FROM notes").await;
    let before = dump(&target.url).await;
    let dry = migrate(&source.url, &target.url, &["--dry-run"]).await.report();
    assert_eq!(dry["copied"], ROWS as u64);
    assert_eq!(dump(&target.url).await, before);
    target.remove().await;
    server.remove().await;
}

/// What somebody changed on the target is told by table and key, and stays as it is.
#[tokio::test]
async fn a_row_that_differs_is_an_error_and_stays() {
    let source = filled().await;
    let target = Database::postgres().await;
    migrate(&source.url, &target.url, &[]).await.report();
    target
        .execute("UPDATE notes SET value = 'mine', written_by = 'me' WHERE key LIKE 'Zebra%'")
        .await;
    target.execute("DELETE FROM causes").await;
    let before = dump(&target.url).await.len();
    for arguments in [["--dry-run"].as_slice(), &[]] {
        let ended = migrate(&source.url, &target.url, arguments).await;
        let report = ended.assert_code(1).json()["report"].clone();
        assert_eq!(ended.json()["complete"], false);
        assert_eq!(
            [&report["errors"], &report["copied"]],
            [1, ROWS as u64],
            "the rest goes on"
        );
        let problems = problems(&report);
        let [(table, key, problem)] = problems.as_slice() else {
            panic!("{problems:?}")
        };
        assert_eq!(table, "notes");
        assert!(
            key.starts_with("scope=Zebra\\r\\n\\ttab") && key.contains(", key=Zebra"),
            "{key}"
        );
        assert_eq!(problem, "the target has it with another value, written_by");
    }
    let after = dump(&target.url).await;
    assert_eq!(after.len(), before + added_lines(&source.url).await);
    assert!(after.iter().any(|line| line.contains("mine")), "{after:#?}");
    let words = run(&["migrate", "--from", source.url.expose(), "--to", target.url.expose()]).await;
    words
        .assert_code(1)
        .assert_err("notes scope=Zebra")
        .assert_err("nothing there was overwritten");
    target.remove().await;
}

/// Lines that the rows of one table take in a dump of PostgreSQL.
async fn added_lines(source: &Secret) -> usize {
    let target = Database::postgres().await;
    migrate(source, &target.url, &[]).await.report();
    let all = dump(&target.url).await.len();
    target.execute("DELETE FROM causes").await;
    let without = dump(&target.url).await.len();
    target.remove().await;
    all - without
}

/// What belongs to a row that found no place is told with its own key, and the rest of its portion
/// arrives.
#[tokio::test]
async fn a_row_without_its_owner_takes_no_other_with_it() {
    let source = filled().await;
    source
        .execute(
            "PRAGMA foreign_keys = OFF;
            DELETE FROM jobs WHERE id LIKE 'Zebra%'",
        )
        .await;
    let target = Database::postgres().await;
    let ended = migrate(&source.url, &target.url, &[]).await;
    let report = ended.assert_code(1).json()["report"].clone();
    let problems = problems(&report);
    assert!(!problems.is_empty());
    for (table, key, problem) in &problems {
        assert_eq!(
            problem, "the row that it belongs to is not on the target",
            "{table} {key}"
        );
    }
    let effects = report["tables"]
        .as_array()
        .unwrap()
        .iter()
        .find(|table| table["table"] == "effects");
    let effects = effects.unwrap();
    assert_eq!([&effects["copied"], &effects["errors"]], [ROWS as u64 - 1, 1]);
    target.remove().await;
}

/// PostgreSQL keeps no NUL in a text: its picture stands there, as in everything the service writes.
#[tokio::test]
async fn a_nul_in_a_text_becomes_its_picture() {
    let source = with_schema(Database::sqlite()).await;
    source
        .execute(
            "INSERT INTO notes (scope, key, value, written_by, written_at)
            VALUES ('s', 'k', 'a' || CHAR(0) || 'b', 'w', '2026-01-01T00:00:00+00:00')",
        )
        .await;
    let target = Database::postgres().await;
    migrate(&source.url, &target.url, &[]).await.report();
    let rows = dump(&target.url).await;
    assert!(rows.iter().any(|row| row.contains("a␀b")), "{rows:?}");
    let second = migrate(&source.url, &target.url, &[]).await.report();
    assert_eq!([&second["copied"], &second["errors"]], [0, 0]);
    target.remove().await;
}

/// What a migration itself puts into a new database is the same on both sides.
#[tokio::test]
async fn a_new_database_moves_into_a_new_one() {
    let database = with_schema(Database::sqlite()).await;
    for target in [Database::postgres().await, Database::sqlite()] {
        let report = migrate(&database.url, &target.url, &[]).await.report();
        assert_eq!([&report["copied"], &report["errors"]], [0, 0], "{report}");
        target.remove().await;
    }
}
