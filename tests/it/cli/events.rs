//! `--events`: lines of JSON that are followed while the run goes on, in a file and on standard
//! error, whatever becomes of the process.

use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::checkout::{Checkout, call, edit, finish, fix};
use super::ended;
use crate::model_server::{ModelServer, Reply};

const PATIENCE: Duration = Duration::from_secs(120);

/// Reads a growing file line by line, as `tail -f` does.
struct Follower {
    file: std::fs::File,
    rest: Vec<u8>,
}

impl Follower {
    fn open(path: &Path) -> Self {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Ok(file) = std::fs::File::open(path) {
                return Self { file, rest: Vec::new() };
            }
            assert!(Instant::now() < deadline, "{} was never made", path.display());
            std::thread::yield_now();
        }
    }

    /// The next whole line.
    fn next(&mut self) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return serde_json::from_slice(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
            }
            assert!(Instant::now() < deadline, "no line came; {:?} is begun", self.rest);
            self.file.read_to_end(&mut self.rest).unwrap();
            std::thread::yield_now();
        }
    }

    fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.next();
            if is_it(&line) {
                return line;
            }
        }
    }
}

fn kind(line: &Value) -> &str {
    line["body"]["kind"]
        .as_str()
        .or(line["events"].as_str())
        .unwrap_or_default()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_followed_while_the_run_goes_on() {
    let checkout = Checkout::new();
    let file = checkout.user.path("events.jsonl");
    let go_on = CancellationToken::new();
    let edit = json!({"path": "add.sh", "old_text": "$1 - $2", "new_text": "$1 + $2"});
    let server = ModelServer::start([
        Reply::change("edit_file", edit),
        Reply::finish("Add", "Mended.").after(&go_on),
    ])
    .await;
    let mut command = checkout.user.forgehand();
    command
        .args(["run", "--quiet", "--base-url", server.url(), "--model", "m", "--events"])
        .arg(&file)
        .arg("Add, do not subtract");
    let child = command.spawn().unwrap();
    let followed = tokio::task::spawn_blocking(move || {
        let mut follower = Follower::open(&file);
        let head = follower.next();
        // The model has not finished, and what was done is there to be read.
        follower.until(|line| kind(line) == "tool_called");
        (follower, head, file)
    });
    let (mut follower, head, file) = followed.await.unwrap();
    assert_eq!((kind(&head), &head["format"]), ("begin", &json!(1)));
    assert_eq!(head["program"], env!("CARGO_PKG_VERSION"));
    assert_eq!(head["base"], checkout.git(&["rev-parse", "main"]));
    go_on.cancel();
    let rest = tokio::task::spawn_blocking(move || {
        let job = head["job"].clone();
        let end = follower.until(|line| {
            assert!(line.get("job").is_none_or(|of| *of == job), "{line}");
            kind(line) == "end"
        });
        (ended(child.wait_with_output().unwrap()), head, end)
    });
    let (ended, head, end) = rest.await.unwrap();
    ended.assert_code(0);
    assert_eq!((&end["outcome"], &end["exit_code"]), (&json!("done"), &json!(0)));
    assert_eq!(end["run"], head["run"]);
    assert_eq!(end["branch"], "agent/add-do-not-subtract");
    assert_eq!(end["commit"], checkout.git(&["rev-parse", "agent/add-do-not-subtract"]));
    // The run that its head names is the one that is recorded.
    let run = head["run"].as_str().unwrap();
    assert!(checkout.user.records().join(format!("{run}.jsonl")).is_file());
    let file = file.display().to_string();
    checkout
        .user
        .run(&["show", &file])
        .assert_code(0)
        .assert_out("edit_file add.sh:1");
}

#[test]
fn standard_error_holds_nothing_but_lines_of_json() {
    let checkout = Checkout::new();
    let ended = checkout.task(&fix(), &["--events", "-"]);
    ended.assert_code(0).assert_out("agent/add-do-not-subtract");
    let lines = lines(&ended.err);
    assert_eq!(
        (kind(&lines[0]), kind(lines.last().unwrap())),
        ("begin", "end"),
        "{}",
        ended.err
    );
    assert!(lines.iter().any(|line| kind(line) == "model_replied"));

    // Also when it comes to nothing: what is said is a line, too.
    let ended = checkout.task(&fix(), &["--events", "-", "--repo", "/nonexistent"]);
    let lines = self::lines(&ended.assert_code(64).err);
    let kinds: Vec<&str> = lines.iter().map(kind).collect();
    assert_eq!(kinds, ["note", "begin", "end"], "{}", ended.err);
    assert_eq!(
        (&lines[2]["outcome"], &lines[2]["exit_code"]),
        (&json!("failed"), &json!(64))
    );
    assert!(lines[2]["reason"].as_str().unwrap().contains("/nonexistent"));
}

#[test]
fn a_file_is_appended_to_after_half_a_line_and_a_log_begins_anew() {
    let checkout = Checkout::new();
    let file = checkout.user.path("events.jsonl");
    let path = file.display().to_string();
    checkout.task(&fix(), &["--quiet", "--events", &path]).assert_code(0);
    let first = std::fs::read_to_string(&file).unwrap();
    // As a run leaves it that was killed in the middle of a line.
    std::fs::write(&file, format!("{first}{{\"job\":\"01")).unwrap();
    checkout.user.run(&["show", &path]).assert_code(0);
    checkout.task(&fix(), &["--quiet", "--events", &path]).assert_code(0);
    let both = std::fs::read_to_string(&file).unwrap();
    assert!(both.starts_with(&first));
    let heads = both
        .lines()
        .filter(|line| line.starts_with("{\"events\":\"begin\""))
        .count();
    assert_eq!(heads, 2);
    let shown = checkout.user.run(&["show", &path]);
    assert_eq!(shown.assert_code(0).out.matches("━━ Work on the change").count(), 2);

    checkout.task(&fix(), &["--quiet", "--log", &path]).assert_code(0);
    let anew = std::fs::read_to_string(&file).unwrap();
    assert_eq!(anew.matches("{\"events\":\"begin\"").count(), 1);
    lines(&anew);
    checkout
        .task(&fix(), &["--log", &path, "--events", &path])
        .assert_code(64)
        .assert_err("--events");
}

/// A pipe that nobody reads would hold the run up for ever.
#[test]
fn what_is_no_file_is_refused_at_once() {
    let checkout = Checkout::new();
    let pipe = checkout.user.path("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let folder = checkout.root().display().to_string();
    let missing = checkout.user.path("no/such/folder").display().to_string();
    for name in [&pipe.display().to_string(), &folder, &missing] {
        checkout
            .task(&fix(), &["--events", name])
            .assert_code(64)
            .assert_err(name);
    }
    checkout
        .task(&fix(), &["--quiet", "--events", "/dev/null"])
        .assert_code(0);
}

#[test]
fn whoever_leaves_at_once_leaves_an_end() {
    let checkout = Checkout::new();
    let file = checkout.user.path("events.jsonl");
    // Taking in so many files takes longer than a second signal.
    let many = "for i in $(seq 4000); do echo $i > file$i; done; sleep 300";
    let script = checkout.script(&json!([
        edit(),
        call("run_command", json!({"command": many})),
        finish("done", "never said"),
    ]));
    let mut child = checkout
        .user
        .forgehand()
        .args(["run", "--set", &script, "--task", "Add", "--events"])
        .arg(&file)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut follower = Follower::open(&file);
    follower.until(|line| kind(line) == "tool_started" && line["body"]["arguments"].to_string().contains("seq 4000"));
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    signal(&child, Signal::TERM);
    let mut said = String::new();
    while !said.contains("Stopping") {
        said.clear();
        assert!(errors.read_line(&mut said).unwrap() > 0);
    }
    signal(&child, Signal::HUP);
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    follower.file.seek(SeekFrom::Start(0)).unwrap();
    follower.rest.clear();
    let end = follower.until(|line| kind(line) == "end");
    assert_eq!(
        (&end["outcome"], &end["exit_code"]),
        (&json!("left_at_once"), &json!(130))
    );
}
