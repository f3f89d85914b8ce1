//! Ctrl-C, at a terminal and elsewhere, and output that nobody reads: the program ends soon and
//! keeps what it has.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;

use super::checkout::{Checkout, call, edit, finish};
use super::terminal::Terminal;
use super::{User, ended};
use crate::model_server::{ModelServer, Reply};

/// A command that is still running when the signal comes takes up to this to end.
const SOON: Duration = Duration::from_secs(20);

/// Sends what a terminal sends for Ctrl-C: SIGINT to the whole process group.
pub(super) fn interrupt(child: &Child) {
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process_group(group, Signal::INT).unwrap();
}

/// Reads lines until one holds `part`; the end of the stream before that is a failure.
pub(super) fn read_until(stream: &mut impl std::io::BufRead, part: &str) -> String {
    let mut seen = String::new();
    while !seen.lines().last().is_some_and(|line| line.contains(part)) {
        let read = stream.read_line(&mut seen).unwrap();
        assert!(read > 0, "{part:?} was never said:\n{seen}");
    }
    seen
}

#[test]
fn an_interrupted_run_ends_soon_and_keeps_its_work() {
    let checkout = Checkout::new();
    let script = checkout.script(&json!([
        edit(),
        call("run_command", json!({"command": "sleep 300"})),
        finish("done", "never said"),
    ]));
    let mut child = checkout
        .user
        .forgehand()
        .args(["run", "--json", "--set", &script, "--task", "Add, do not subtract"])
        .process_group(0)
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    read_until(&mut errors, "edit_file");
    let asked = Instant::now();
    interrupt(&child);
    let ended = ended(child.wait_with_output().unwrap());
    assert!(asked.elapsed() < SOON, "it took {:?}", asked.elapsed());

    let json = ended.assert_code(0).json();
    assert_eq!(json["outcome"], "cancelled");
    assert_eq!(json["branch"], "agent/add-do-not-subtract");
    assert_eq!(
        checkout.git(&["show", "agent/add-do-not-subtract:add.sh"]),
        "echo $(($1 + $2))"
    );
    checkout.user.assert_tidy();
}

#[test]
fn interrupted_during_the_checks_before_there_is_nothing_to_keep() {
    let checkout = Checkout::new();
    checkout.write("test.sh", "sleep 300\n");
    checkout.commit("Test slowly");
    let script = checkout.script(&json!([finish("done", "never said")]));
    let mut child = checkout
        .user
        .forgehand()
        .args(["run", "--set", &script, "--task", "Add"])
        .process_group(0)
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    read_until(&mut errors, "run the checks before");
    let asked = Instant::now();
    interrupt(&child);
    let ended = ended(child.wait_with_output().unwrap());
    assert!(asked.elapsed() < SOON, "it took {:?}", asked.elapsed());
    ended.assert_code(0).assert_out("Stopped");
    assert!(checkout.other_branches().is_empty());
    checkout.user.assert_tidy();
}

/// A run at a terminal with a script.
fn at_terminal(checkout: &Checkout, turns: &serde_json::Value) -> Terminal {
    let script = checkout.script(turns);
    let mut command = checkout.user.forgehand();
    command.args(["run", "--set", &script, "Add, do not subtract"]);
    Terminal::start(command, 100)
}

#[test]
fn ctrl_c_at_a_terminal_says_that_the_work_is_kept() {
    let checkout = Checkout::new();
    let terminal = at_terminal(
        &checkout,
        &json!([
            edit(),
            call("run_command", json!({"command": "sleep 300"})),
            finish("done", "never said"),
        ]),
    );
    terminal.until("▸ $ sleep 300");
    // The line at the bottom is drawn after the line of the tool.
    terminal.until("turn 2/60 · ");
    let asked = Instant::now();
    terminal.press("\u{3}");
    let (code, screen, _) = terminal.end();
    assert!(asked.elapsed() < SOON, "it took {:?}", asked.elapsed());
    assert_eq!(code, Some(130), "{screen}");
    for part in [
        "Stopping; what has been done is kept. Ctrl-C again leaves at once.",
        "Stopped; the work so far is kept.",
        "The change is on the branch agent/add-do-not-subtract",
    ] {
        assert!(screen.contains(part), "{part:?} is not on the screen:\n{screen}");
    }
    assert!(!screen.contains("▸"), "nothing at the bottom is left:\n{screen}");
    assert_eq!(
        checkout.git(&["show", "agent/add-do-not-subtract:add.sh"]),
        "echo $(($1 + $2))"
    );
    checkout.user.assert_tidy();
}

#[test]
fn the_second_ctrl_c_leaves_at_once_and_says_where_the_files_are() {
    let checkout = Checkout::new();
    // Taking in so many files takes longer than pressing a key.
    let many = "for i in $(seq 4000); do echo $i > file$i; done; sleep 300";
    let terminal = at_terminal(
        &checkout,
        &json!([
            edit(),
            call("run_command", json!({"command": many})),
            finish("done", "never said"),
        ]),
    );
    terminal.until("▸ $ for i in");
    terminal.press("\u{3}");
    terminal.until("Stopping; what has been done is kept.");
    let asked = Instant::now();
    terminal.press("\u{3}");
    let (code, screen, _) = terminal.end();
    assert!(
        asked.elapsed() < Duration::from_secs(5),
        "it took {:?}",
        asked.elapsed()
    );
    assert_eq!(code, Some(130), "{screen}");
    // The terminal may have wrapped the line.
    let said: String = screen.chars().filter(|c| !c.is_whitespace()).collect();
    let (_, after) = said.split_once("Thefilesastheywerearein").expect(&screen);
    let (folder, after) = after.split_once(";remove").expect(&screen);
    assert_eq!(
        std::fs::read_to_string(std::path::Path::new(folder).join("add.sh")).unwrap(),
        "echo $(($1 + $2))\n"
    );
    let (root, _) = after.split_once("whenyouhavelooked").unwrap();
    assert!(folder.starts_with(root));
    assert!(checkout.other_branches().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_its_model_is_stopped_by_sigterm() {
    let checkout = Checkout::new();
    let edit = json!({"path": "add.sh", "old_text": "$1 - $2", "new_text": "$1 + $2"});
    let server = ModelServer::start([Reply::call("edit_file", edit), Reply::silence()]).await;
    let mut child = checkout
        .user
        .forgehand()
        .args([
            "run",
            "--base-url",
            server.url(),
            "--model",
            "m",
            "--json",
            "Add, do not subtract",
        ])
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let deadline = Instant::now() + SOON;
    while server.requests().len() < 2 {
        assert!(Instant::now() < deadline, "the model was not asked twice");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let asked = Instant::now();
    let process = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(process, Signal::TERM).unwrap();
    let rest = tokio::task::spawn_blocking(move || {
        let mut said = String::new();
        std::io::Read::read_to_string(&mut errors, &mut said).unwrap();
        (ended(child.wait_with_output().unwrap()), said)
    });
    let (ended, said) = rest.await.unwrap();
    assert!(asked.elapsed() < SOON, "it took {:?}", asked.elapsed());
    assert!(said.contains("Stopping; what has been done is kept."), "{said}");
    let json = ended.assert_code(0).json();
    assert_eq!(
        (&json["outcome"], &json["branch"]),
        (&json!("cancelled"), &json!("agent/add-do-not-subtract"))
    );
    checkout.user.assert_tidy();
}

#[test]
fn stopped_while_the_checkout_is_made_nothing_is_left() {
    let checkout = Checkout::new();
    for folder in 0..60 {
        for file in 0..200 {
            checkout.write(&format!("many/{folder}/{file}.txt"), "x\n");
        }
    }
    checkout.commit("Many files");
    let script = checkout.script(&json!([finish("done", "never said")]));
    let mut child = checkout
        .user
        .forgehand()
        .args(["run", "--set", &script, "--no-checks", "Add"])
        .process_group(0)
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    read_until(&mut errors, "Check out the repository");
    interrupt(&child);
    let mut said = String::new();
    std::io::Read::read_to_string(&mut errors, &mut said).unwrap();
    let ended = ended(child.wait_with_output().unwrap());
    ended.assert_code(0).assert_out("Stopped");
    assert!(!said.contains("sandbox: "), "the checkout was not waited for:\n{said}");
    assert!(checkout.other_branches().is_empty());
    checkout.user.assert_tidy();
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let user = User::new();
    for arguments in [
        &["config", "table"][..],
        &["config", "show"],
        &["completions", "bash"],
        &["--help"],
        &["doctor"],
    ] {
        let mut child = user.forgehand().args(arguments).spawn().unwrap();
        // The reading end is closed before anything is written.
        drop(child.stdout.take());
        let mut said = String::new();
        BufReader::new(child.stderr.take().unwrap())
            .read_line(&mut said)
            .unwrap();
        let status = child.wait().unwrap();
        assert!(
            status.code().is_some_and(|code| code != 101) && !said.contains("panicked"),
            "{arguments:?}: {status} {said}"
        );
    }
}

#[test]
fn bytes_that_are_no_text_are_no_panic() {
    use std::os::unix::ffi::OsStrExt as _;
    let user = User::new();
    let odd = std::ffi::OsStr::from_bytes(b"\xff\xfe");
    let output = user.forgehand().env("ODD", odd).args(["config", "show"]).output();
    ended(output.unwrap()).assert_code(0);
    let output = user.forgehand().arg(odd).stdout(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
}
