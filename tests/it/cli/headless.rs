//! `forgehand run` with nobody there: what it may do, what is denied and written down, questions,
//! signals, and that nothing outlives it.

use std::os::unix::process::CommandExt as _;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::checkout::{Checkout, call, edit, finish};
use super::ended;

const SOON: Duration = Duration::from_secs(30);

/// The events of a run that were written to a file.
fn events(checkout: &Checkout) -> Vec<Value> {
    let text = std::fs::read_to_string(checkout.user.path("events.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_kind(events: &[Value], kind: &str) -> Vec<Value> {
    let bodies = events.iter().map(|event| event["body"].clone());
    bodies.filter(|body| body["kind"] == kind).collect()
}

fn events_option(checkout: &Checkout) -> String {
    format!("--events={}", checkout.user.path("events.jsonl").display())
}

/// X1: a mode that asks, with nobody to ask, denies what is not listed, and goes on.
#[test]
fn x1_what_is_not_listed_is_denied_with_the_rule_that_would_allow_it() {
    let checkout = Checkout::new();
    let turns = json!([
        call("run_command", json!({"command": "touch unlisted"})),
        call("run_command", json!({"command": "git push origin main"})),
        call("run_command", json!({"command": "rm add.sh"})),
        edit(),
        finish("done", "The operator was the wrong one."),
    ]);
    let events_option = events_option(&checkout);
    let rules = [
        "--allow=run_command:sh test.sh; git diff",
        "--allow=read_file:*",
        "--allow=write_file:*",
        "--set=permission.sandboxed=ask",
        "--set=permission.deny=[\"run_command:rm\"]",
    ];
    let ended = checkout.task(&turns, &[&rules[..], &[&events_option]].concat());
    ended
        .assert_code(0)
        .assert_err("denied: run_command:touch unlisted: ")
        .assert_err("to allow it: permission.allow = [\"run_command:touch unlisted\"]");
    let denied = of_kind(&events(&checkout), "call_denied");
    let calls: Vec<&str> = denied.iter().filter_map(|body| body["call"].as_str()).collect();
    assert_eq!(
        calls,
        [
            "run_command:touch unlisted",
            "run_command:git push origin main",
            "run_command:rm add.sh"
        ]
    );
    assert!(
        denied[0]["why"].as_str().unwrap().contains("nobody can be asked"),
        "{}",
        denied[0]
    );
    assert_eq!(
        denied[0]["allow"],
        "permission.allow = [\"run_command:touch unlisted\"]"
    );
    assert!(denied[1].get("allow").is_none(), "no rule allows it: {}", denied[1]);
    assert!(
        denied[2]
            .get("allow")
            .is_some_and(|rule| rule.to_string().contains("rm add.sh")),
        "{}",
        denied[2]
    );
    // The rule that is named is the one that helps.
    let turns = json!([
        call("run_command", json!({"command": "touch unlisted"})),
        edit(),
        finish("done", "The operator was the wrong one."),
    ]);
    let more = [&rules[..], &["--allow=run_command:touch unlisted"]].concat();
    let ended = checkout.task(&turns, &more);
    assert!(!ended.assert_code(0).err.contains("denied"), "{}", ended.err);
    let file = checkout.user.path("events.jsonl").display().to_string();
    checkout
        .user
        .run(&["show", &file])
        .assert_code(0)
        .assert_out("denied: run_command:git push origin main");
    checkout.user.assert_tidy();
}

/// X1: questions are refused at once, and the model is told.
#[test]
fn x1_questions_are_refused_at_once() {
    let checkout = Checkout::new();
    let events_option = events_option(&checkout);
    let began = Instant::now();
    let turns = json!([
        call("ask_user", json!({"questions": ["Which of the two?"]})),
        edit(),
        finish("done", "The operator was the wrong one."),
    ]);
    checkout.task(&turns, &[&events_option]).assert_code(0);
    assert!(began.elapsed() < Duration::from_secs(60));
    let events = events(&checkout);
    let refused = of_kind(&events, "question_refused");
    assert_eq!(refused.len(), 1);
    assert!(refused[0]["question"].as_str().unwrap().contains("Which of the two?"));
    let told = of_kind(&events, "tool_called");
    let told = told.iter().find(|body| body["tool"] == "ask_user").unwrap();
    assert!(
        told["output"]
            .as_str()
            .unwrap()
            .contains("nobody can be asked in this run: decide yourself")
    );
}

/// The list of a repository: it asks and denies by itself, and allows what the operator lets it
/// allow, where it is trusted.
#[test]
fn a_repository_allows_only_within_what_the_operator_lets_it() {
    let checkout = Checkout::new();
    checkout.write(
        ".github/forgehand.toml",
        "test = [\"sh test.sh\"]\n[permission]\nallow = [\"run_command:touch\", \"run_command:mkdir\"]\ndeny = [\"run_command:mv\"]\n",
    );
    checkout.commit("A list");
    let turns = json!([
        call("run_command", json!({"command": "touch a"})),
        call("run_command", json!({"command": "mkdir b"})),
        call("run_command", json!({"command": "mv add.sh c.sh"})),
        edit(),
        finish("done", "The operator was the wrong one."),
    ]);
    let denied = |more: &[&str]| -> Vec<String> {
        let _ = std::fs::remove_file(checkout.user.path("events.jsonl"));
        let events_option = events_option(&checkout);
        let own = [
            "--allow=run_command:mv",
            "--allow=run_command:sh test.sh; git diff",
            "--allow=write_file:*",
        ];
        let ask = ["--set=permission.sandboxed=ask", &events_option];
        checkout.task(&turns, &[&own[..], &ask, more].concat()).assert_code(0);
        let denied = of_kind(&events(&checkout), "call_denied");
        denied
            .iter()
            .map(|body| body["call"].as_str().unwrap().to_owned())
            .collect()
    };
    let all = [
        "run_command:touch a",
        "run_command:mkdir b",
        "run_command:mv add.sh c.sh",
    ];
    let lets = "--set=permission.repository=[\"run_command:touch\"]";
    assert_eq!(denied(&[]), all, "an untrusted list may only deny");
    assert_eq!(denied(&[lets]), all, "whatever the operator would let a trusted one");
    assert_eq!(denied(&["--trust=once"]), all, "trust alone widens nothing");
    assert_eq!(
        denied(&[lets, "--trust=once"]),
        all[1..],
        "and no more than the operator lets it"
    );
}

fn alive(marker: &str) -> Vec<u32> {
    let has_marker = |pid: &u32| {
        std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(marker))
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(has_marker).collect()
}

#[track_caller]
fn soon(what: &str, happened: impl Fn() -> bool) {
    let deadline = Instant::now() + SOON;
    while !happened() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::yield_now();
    }
}

/// A run whose model leaves a command in the background, and one that hides from it.
fn with_survivors(checkout: &Checkout, marker: &str) -> Child {
    let hidden = format!("setsid nohup sleep {marker} >/dev/null 2>&1 & exec sleep {marker}");
    let script = checkout.script(&json!([
        edit(),
        call("start_command", json!({"command": hidden})),
        call("run_command", json!({"command": format!("sleep {marker}")})),
        finish("done", "never said"),
    ]));
    let child = checkout
        .user
        .forgehand()
        .args(["run", "--quiet", "--set", &script, "--task", "Add, do not subtract"])
        .process_group(0)
        .spawn()
        .unwrap();
    // The one in front, the one in the background and the one that left its session.
    soon("the start of all three", || alive(marker).len() >= 3);
    child
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
}

/// X23: nothing in the background outlives the process, however it ends.
#[test]
fn x23_nothing_outlives_a_run_that_is_killed() {
    let checkout = Checkout::new();
    let marker = format!("97421.{}", std::process::id());
    let mut child = with_survivors(&checkout, &marker);
    send(&child, Signal::KILL);
    child.wait().unwrap();
    soon("the end of all of them", || alive(&marker).is_empty());
    assert!(checkout.other_branches().is_empty(), "nobody was left to keep the work");

    // X1: it is listed as what it is, and the next run is not kept from anything.
    let listed = checkout.user.run(&["show", "--json"]).json();
    assert_eq!(listed[0]["state"], "interrupted");
    assert_eq!(listed[0]["title"], "Add, do not subtract");
    let run = listed[0]["run"].as_str().unwrap().to_owned();
    checkout
        .user
        .run(&["show", &run])
        .assert_code(0)
        .assert_out("edit_file add.sh:1");
    checkout
        .task(&json!([edit(), finish("done", "Mended.")]), &[])
        .assert_code(0);
    checkout
        .user
        .run(&["show"])
        .assert_code(0)
        .assert_out("  finished     Add, do not subtract\n")
        .assert_out("  interrupted  Add, do not subtract\n");
}

/// X23, and the work is kept: one signal ends it in good order, whichever it is.
#[test]
fn x23_a_signal_ends_everything_and_keeps_the_work() {
    for (number, signal) in [(1, Signal::INT), (2, Signal::TERM), (3, Signal::HUP)] {
        let checkout = Checkout::new();
        let marker = format!("8642{number}.{}", std::process::id());
        let child = with_survivors(&checkout, &marker);
        let listed = checkout.user.run(&["show", "--json"]).json();
        assert_eq!(listed[0]["state"], "running");
        send(&child, signal);
        ended(child.wait_with_output().unwrap())
            .assert_code(0)
            .assert_out("Stopped; the work so far is kept.");
        assert!(alive(&marker).is_empty(), "{signal:?}");
        assert_eq!(
            checkout.git(&["show", "agent/add-do-not-subtract:add.sh"]),
            "echo $(($1 + $2))"
        );
        let listed = checkout.user.run(&["show", "--json"]).json();
        assert_eq!(listed[0]["state"], "stopped");
        checkout.user.assert_tidy();
    }
}

/// X23: `npm test &` and an end of the turn is no success.
#[test]
fn x23_what_still_runs_at_the_end_is_not_done() {
    let checkout = Checkout::new();
    let done = || finish("done", "All tests pass.");
    let turns = json!([
        edit(),
        call("bash", json!({"command": "sleep 97531", "run_in_background": true})),
        done(),
        done(),
    ]);
    let ended = checkout.task(&turns, &["--json"]);
    let json = ended.assert_code(2).json();
    assert_eq!(
        (&json["outcome"], &json["unfinished"]),
        (&json!("unfinished"), &json!(["sleep 97531"]))
    );
    assert!(
        ended.err.contains("these commands still run"),
        "the model was told first: {}",
        ended.err
    );
    checkout
        .task(&turns, &[])
        .assert_code(2)
        .assert_out("Still running at the end, and ended unfinished: sleep 97531");
    // Who waits for it, or ends it, has nothing left behind.
    let turns = json!([
        edit(),
        call("bash", json!({"command": "sleep 97531", "run_in_background": true})),
        call("stop_command", json!({"id": 1})),
        done(),
    ]);
    checkout.task(&turns, &[]).assert_code(0);
    // A line that leaves something behind is told so.
    let events_option = events_option(&checkout);
    let turns = json!([edit(), call("run_command", json!({"command": "sleep 97531 &"})), done()]);
    checkout.task(&turns, &[&events_option]).assert_code(0);
    let called = of_kind(&events(&checkout), "tool_called");
    let told = |body: &Value| body["output"].to_string().contains("was killed when the line ended");
    assert!(called.iter().any(told), "{called:?}");
}

/// X14: what a killed run left is there to be looked at for a week, and then goes by itself.
#[test]
fn x14_folders_of_killed_runs_go_after_a_week() {
    let checkout = Checkout::new();
    let make = |name: &str, days: u64| {
        let folder = checkout.user.tmp.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("in-use"), "").unwrap();
        let age = Duration::from_secs(days * 24 * 3600 + 60);
        let opened = std::fs::File::open(&folder).unwrap();
        opened.set_modified(std::time::SystemTime::now() - age).unwrap();
        folder
    };
    let (old, fresh, foreign, held) = (
        make("forgehand-run-old", 7),
        make("forgehand-run-fresh", 6),
        make("somebody-elses", 7),
        make("forgehand-run-held", 7),
    );
    let holder = std::fs::File::open(held.join("in-use")).unwrap();
    holder.lock().unwrap();
    checkout
        .task(&json!([edit(), finish("done", "Mended.")]), &[])
        .assert_code(0);
    assert!(!old.exists() && fresh.exists() && foreign.exists() && held.exists());
}
