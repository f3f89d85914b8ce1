//! Everything moves from one database to another and back, a copy of the database is whole, and
//! the service goes on with either. By the real program; what it says of rows is compared with
//! what the databases say themselves.
//! Never takes the program's word for a row: sums are its own, dumps are the databases'.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use forgehand::secret::Secret;
use serde_json::Value;
use tokio::process::{Child, Command};

use crate::databases::Database;

mod backup;
mod busy;
mod filled;
mod killed;
mod refused;
mod restore;
mod rows;
mod service;

/// The program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_forgehand");
/// Longest time that a move of a test may take.
const SOON: Duration = Duration::from_secs(60);

/// How a command ended.
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ended {
    #[track_caller]
    fn assert_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    fn assert_err(&self, words: &str) -> &Self {
        assert!(self.err.contains(words), "{words:?} is not in:\n{}", self.err);
        self
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("{}\n{}", self.out, self.err))
    }

    /// The report of a move that ended well.
    #[track_caller]
    fn report(&self) -> Value {
        self.assert_code(0);
        assert_eq!(self.json()["complete"], true, "{}", self.out);
        self.json()["report"].clone()
    }
}

/// A command in an empty environment; its state folder holds nothing.
fn command(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .current_dir(home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

async fn run(arguments: &[&str]) -> Ended {
    let home = tempfile::tempdir().unwrap();
    let output = tokio::time::timeout(SOON, command(home.path(), arguments).output()).await;
    let output = output.expect("the command ends").unwrap();
    Ended {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// `forgehand migrate --from … --to … --json`.
async fn migrate(from: &Secret, to: &Secret, more: &[&str]) -> Ended {
    let mut arguments = vec!["migrate", "--from", from.expose(), "--to", to.expose(), "--json"];
    arguments.extend(more);
    run(&arguments).await
}

/// The same, begun and not waited for.
fn begin(home: &Path, from: &Secret, to: &Secret) -> Child {
    let arguments = ["migrate", "--from", from.expose(), "--to", to.expose(), "--json"];
    command(home, &arguments).spawn().unwrap()
}

/// An address that no database has yet.
fn nowhere(folder: &tempfile::TempDir) -> Secret {
    Secret::new(format!(
        "sqlite:{}",
        folder.path().join("new/forgehand.sqlite").display()
    ))
}

/// A database with the schema and nothing else.
async fn with_schema(database: Database) -> Database {
    database.open().await.close().await;
    database
}

/// Table, key and text of every problem of a report.
fn problems(report: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let tables = report["tables"].as_array().unwrap().iter();
    let of_table = |table: &Value| -> Vec<(String, String, String)> {
        let problems = table["problems"].as_array().unwrap().iter();
        problems
            .map(|problem| (text(&table["table"]), text(&problem["key"]), text(&problem["problem"])))
            .collect()
    };
    tables.flat_map(of_table).collect()
}

/// The sums of the source by table.
fn sums(report: &Value, side: &str) -> Vec<(String, String)> {
    let tables = report["tables"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    tables
        .map(|table| (text(&table["table"]), text(&table[side])))
        .collect()
}

/// The lines of a dump that are rows of ours, in one order for both databases.
async fn dump(url: &Secret) -> Vec<String> {
    let mut lines: Vec<String> = crate::databases::dump(url).await.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}
