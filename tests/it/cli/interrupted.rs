//! Ctrl-C, and output that nobody reads: the program ends soon and keeps what it has.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;

use super::checkout::{Checkout, call, edit, finish};
use super::{User, ended};

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

    let json = ended.assert_code(130).json();
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
    ended.assert_code(130).assert_out("Stopped");
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
