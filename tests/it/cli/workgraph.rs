//! Work graphs on a user's checkout: planned, approved, worked on one milestone after another, and
//! every exit code. Processes that are killed or stopped in the middle lose nothing.

use std::io::BufReader;
use std::os::unix::process::CommandExt as _;
use std::process::Child;

use serde_json::{Value, json};

use super::checkout::{Checkout, call, change, edit, finish};
use super::interrupted::{interrupt, read_until};
use super::{Ended, ended, snapshot};

mod followed;

/// A checkout with a graph.
struct Planned(Checkout);

impl Planned {
    fn new(milestones: &[(&str, &str, &[&str])]) -> Self {
        let planned = Self(Checkout::new());
        for (id, acceptance, after) in milestones {
            let title = format!("Do {id}");
            let mut words = vec!["add", title.as_str(), "--id", id];
            if !acceptance.is_empty() {
                words.extend(["--accept", acceptance]);
            }
            words.extend(after.iter().flat_map(|after| ["--after", after]));
            planned.milestones(&words).assert_code(0);
        }
        planned
    }

    fn milestones(&self, words: &[&str]) -> Ended {
        self.0.user.run(&[&["milestones"], words].concat())
    }

    /// The whole graph.
    fn graph(&self) -> Value {
        self.milestones(&["--json"]).assert_code(0).json()
    }

    fn milestone(&self, id: &str) -> Value {
        let graph = self.graph();
        let found = graph["milestones"]
            .as_array()
            .unwrap()
            .iter()
            .find(|milestone| milestone["id"] == id);
        found.unwrap_or_else(|| panic!("{id} in {graph}")).clone()
    }

    /// Where each milestone stands.
    fn states(&self) -> Vec<String> {
        let graph = self.graph();
        let states = graph["milestones"].as_array().unwrap().iter();
        states
            .map(|milestone| milestone["state"].as_str().unwrap().to_owned())
            .collect()
    }

    fn script(&self, cases: &Value) -> String {
        self.script_in("script.json", cases)
    }

    fn script_in(&self, name: &str, cases: &Value) -> String {
        let path = self.0.user.write(name, &json!({ "cases": cases }).to_string());
        format!("model.stub_script={}", path.display())
    }

    /// Works on the graph with a script.
    fn work(&self, cases: &Value, more: &[&str]) -> Ended {
        let script = self.script(cases);
        let mut command = self.0.user.forgehand();
        command
            .args(["run", "--workgraph", "--json", "--set", &script])
            .args(more);
        ended(command.output().unwrap())
    }

    /// The same in the background, in a process group of its own.
    fn begin(&self, cases: &Value) -> Child {
        let script = self.script(cases);
        let mut command = self.0.user.forgehand();
        command.args(["run", "--workgraph", "--json", "--set", &script]);
        command.process_group(0).spawn().unwrap()
    }
}

/// What is said to a run whose request holds some words.
fn case(contains: &str, turns: Value) -> Value {
    json!({"when": {"contains": contains}, "turns": turns})
}

fn of(id: &str) -> String {
    format!("the milestone {id} of a plan")
}

/// Makes a file and says that it is done.
fn make(file: &str, content: &str) -> Value {
    json!([
        change("write_file", json!({"path": file, "content": content})),
        finish("done", "It is there."),
    ])
}

fn mend() -> Value {
    json!([edit(), finish("done", "The operator was the wrong one.")])
}

/// Says that it is done though it is not, as often as it is asked.
fn boast() -> Value {
    let done = finish("done", "It is there.");
    json!([
        change("write_file", json!({"path": "boast.txt", "content": "all is well\n"})),
        done,
        done,
        done,
    ])
}

#[track_caller]
fn check_end(ended: &Ended, code: i32, outcome: &str) -> Value {
    let json = ended.assert_code(code).json();
    assert_eq!(
        (&json["outcome"], &json["exit_code"]),
        (&json!(outcome), &json!(code)),
        "{json}"
    );
    json
}

#[test]
fn milestones_become_commits_on_one_branch() {
    let planned = Planned::new(&[
        ("sum", "sh test.sh", &[]),
        ("hello", "grep -q hello hello.txt", &["sum"]),
        ("note", "", &[]),
    ]);
    let checkout = &planned.0;
    checkout.write("staged.txt", "in the index only\n");
    checkout.git(&["add", "staged.txt"]);
    let before = snapshot(&checkout.root());
    let cases = json!([
        case(&of("sum"), mend()),
        case(&of("hello"), make("hello.txt", "hello\n")),
        case(&of("note"), make("note.txt", "a note\n")),
    ]);
    let json = check_end(&planned.work(&cases, &[]), 0, "done");
    assert_eq!(json["branch"], "agent/graph-main");
    assert_eq!(json["tries"].as_array().unwrap().len(), 3);
    assert_eq!(planned.states(), ["done", "done", "done"]);
    assert_eq!(checkout.other_branches(), ["agent/graph-main"]);
    let log = checkout.git(&[
        "log",
        "--reverse",
        "--format=%s|%(trailers:key=Milestone,valueonly,separator=%x2C)",
        "main..agent/graph-main",
    ]);
    assert_eq!(
        log,
        "Add instead of subtracting|main/sum\nAdd instead of subtracting|main/hello\nAdd instead of subtracting|main/note"
    );
    assert_eq!(
        checkout.git(&["diff", "--name-only", "main", "agent/graph-main"]),
        "add.sh\nhello.txt\nnote.txt"
    );
    let commit = planned.milestone("note")["commit"].as_str().unwrap().to_owned();
    assert_eq!(commit, checkout.git(&["rev-parse", "agent/graph-main"]));
    checkout.git(&["fsck", "--strict", "--no-dangling"]);

    let mut after = snapshot(&checkout.root());
    let in_git = |path: &std::path::Path, part: &str| path.starts_with(checkout.root().join(".git").join(part));
    after.retain(|path, _| {
        !(in_git(path, "objects") || in_git(path, "refs/heads/agent") || in_git(path, "logs/refs/heads/agent"))
    });
    let mut before = before;
    before.retain(|path, _| !in_git(path, "objects"));
    assert_eq!(after, before, "the checkout is as it was");

    check_end(&planned.work(&json!([]), &[]), 0, "done");
}

#[test]
fn without_milestones_there_is_a_code_of_its_own() {
    let planned = Planned::new(&[]);
    check_end(&planned.work(&json!([]), &[]), 5, "empty");
    planned.milestones(&[]).assert_code(0).assert_out("no milestones");
    planned
        .milestones(&["add", "Only to be removed", "--id", "x"])
        .assert_code(0);
    planned.milestones(&["remove", "x"]).assert_code(0);
    let other = planned.work(&json!([]), &["--graph", "other"]);
    check_end(&other, 5, "empty");
    check_end(&planned.work(&json!([]), &[]), 5, "empty");
}

#[test]
fn what_passes_already_is_done_without_a_model() {
    let planned = Planned::new(&[("there", "test -f add.sh", &[])]);
    let json = check_end(&planned.work(&json!([]), &[]), 0, "done");
    assert_eq!(json["totals"]["turns"], 0, "{json}");
    assert_eq!(planned.milestone("there")["commit"], Value::Null);
    assert!(planned.0.other_branches().is_empty());
}

#[test]
fn attempts_are_kept_across_processes_until_it_is_stuck() {
    let planned = Planned::new(&[
        ("sum", "echo the sum is wrong; sh test.sh", &[]),
        ("after", "", &["sum"]),
    ]);
    let limits = ["--max", "1", "--set", "workgraph.max_fix_attempts=1"];
    let cases = json!([case(&of("sum"), boast())]);
    let first = check_end(&planned.work(&cases, &limits), 0, "limit");
    let problem = first["tries"][0]["problem"].as_str().unwrap();
    assert!(
        problem.contains("`echo the sum is wrong; sh test.sh` ended with exit code 1:\nthe sum is wrong"),
        "{problem}"
    );
    let sum = planned.milestone("sum");
    assert_eq!((&sum["state"], &sum["attempts"]), (&json!("needs_fix"), &json!(1)));
    assert_eq!(sum["kept"]["branch"], "agent/kept/main/sum");

    let second = check_end(&planned.work(&cases, &limits), 2, "stuck");
    assert_eq!(second["tries"][0]["try"], 2);
    assert_eq!(planned.milestone("sum")["attempts"], 2);
    assert_eq!(planned.states(), ["needs_fix", "pending"]);
    let third = check_end(&planned.work(&cases, &limits), 2, "stuck");
    assert_eq!(third["tries"], json!([]), "nothing more is tried");
    planned
        .0
        .user
        .run(&[
            "run",
            "--workgraph",
            "--set",
            &planned.script(&cases),
            "--set",
            "workgraph.max_fix_attempts=1",
        ])
        .assert_code(2)
        .assert_out("sum did not get done in all fix attempts");
}

#[test]
fn a_fix_attempt_begins_with_what_was_left_and_is_told_what_was_wrong() {
    let planned = Planned::new(&[("sum", "echo the sum is wrong; sh test.sh", &[])]);
    let fix = json!([
        call(
            "run_command",
            json!({"command": "grep -q well boast.txt && echo it is still there"})
        ),
        edit(),
        finish("done", "The operator was the wrong one."),
    ]);
    let cases = json!([
        // The last output is among what it is told.
        case("`echo the sum is wrong; sh test.sh` ended with exit code 1", fix),
        case(&of("sum"), boast()),
    ]);
    let json = check_end(&planned.work(&cases, &[]), 0, "done");
    let conclusions: Vec<&Value> = json["tries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tried| &tried["conclusion"])
        .collect();
    assert_eq!(conclusions, ["failed", "done"]);
    let checkout = &planned.0;
    assert_eq!(checkout.git(&["rev-list", "--count", "main..agent/graph-main"]), "1");
    assert_eq!(
        checkout.git(&["diff", "--name-only", "main", "agent/graph-main"]),
        "add.sh\nboast.txt",
        "it began with what the first try left"
    );
    assert_eq!(
        checkout.other_branches(),
        ["agent/graph-main"],
        "what was kept is of no use any more"
    );
}

#[test]
fn milestones_given_up_in_a_row_open_the_breaker_until_a_person_closes_it() {
    let planned = Planned::new(&[("one", "false", &[]), ("two", "false", &[]), ("three", "", &[])]);
    let limits = [
        "--set",
        "workgraph.max_fix_attempts=0",
        "--set",
        "workgraph.breaker_failures=2",
    ];
    let cases = json!([case("of a plan", boast())]);
    let json = check_end(&planned.work(&cases, &limits), 3, "breaker");
    assert_eq!(json["tries"].as_array().unwrap().len(), 2);
    assert_eq!(planned.states(), ["needs_fix", "needs_fix", "pending"]);
    let json = check_end(&planned.work(&cases, &limits), 3, "breaker");
    assert_eq!(json["tries"], json!([]));
    let context = ["--set", "workgraph.max_fix_attempts=0"];
    planned
        .milestones(&[&["reset"][..], &context].concat())
        .assert_code(0)
        .assert_out("the breaker is closed; one, two can be tried again");
    // Each has one more try, and the breaker opens again.
    let json = check_end(&planned.work(&cases, &limits), 3, "breaker");
    assert_eq!(json["tries"].as_array().unwrap().len(), 2);
    planned.milestones(&[&["reset"][..], &context].concat()).assert_code(0);
    planned.milestones(&["done", "one"]).assert_code(0);
    planned.milestones(&["done", "two"]).assert_code(0);
    check_end(&planned.work(&cases, &limits), 0, "done");
}

#[test]
fn an_error_of_the_model_costs_no_attempt() {
    let planned = Planned::new(&[("sum", "sh test.sh", &[])]);
    let nobody = [
        "run",
        "--workgraph",
        "--json",
        "--base-url",
        "http://127.0.0.1:9/v1",
        "--model",
        "m",
    ];
    let json = check_end(&planned.0.user.run(&nobody), 4, "failed");
    assert!(json["reason"].as_str().unwrap().contains("127.0.0.1:9"), "{json}");
    let sum = planned.milestone("sum");
    assert_eq!(
        (&sum["state"], &sum["attempts"], &sum["held_by"]),
        (&json!("pending"), &json!(0), &Value::Null)
    );

    // The script ends in the middle: what was done is kept, and the next call begins with it.
    let json = check_end(
        &planned.work(&json!([case(&of("sum"), json!([edit()]))]), &[]),
        4,
        "failed",
    );
    assert!(
        json["reason"].as_str().unwrap().contains("script has 1 turns"),
        "{json}"
    );
    assert_eq!(planned.milestone("sum")["attempts"], 0);
    assert_eq!(
        planned.0.git(&["show", "agent/kept/main/sum:add.sh"]),
        "echo $(($1 + $2))"
    );
    let json = check_end(&planned.work(&json!([]), &[]), 0, "done");
    assert_eq!(json["totals"]["turns"], 0, "what was left passes");
    assert_eq!(planned.0.git(&["show", "agent/graph-main:add.sh"]), "echo $(($1 + $2))");
    assert_eq!(planned.0.other_branches(), ["agent/graph-main"]);
}

#[test]
fn a_killed_process_is_taken_over() {
    let planned = Planned::new(&[("sum", "sh test.sh", &[])]);
    let sleep = json!([edit(), call("run_command", json!({"command": "sleep 300"}))]);
    let mut child = planned.begin(&json!([case(&of("sum"), sleep)]));
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    read_until(&mut errors, "sleep 300");
    assert_eq!(planned.states(), ["in_progress"]);
    let beside = planned.work(&json!([]), &[]);
    check_end(&beside, 0, "running");
    child.kill().unwrap();
    child.wait().unwrap();

    let json = check_end(&planned.work(&json!([case(&of("sum"), mend())]), &[]), 0, "done");
    assert_eq!(json["tries"][0]["try"], 1, "to be killed costs no attempt");
    assert_eq!(planned.states(), ["done"]);
    assert_eq!(planned.0.git(&["rev-list", "--count", "main..agent/graph-main"]), "1");
}

#[test]
fn a_stopped_call_keeps_its_work_and_the_next_one_goes_on() {
    let planned = Planned::new(&[("sum", "sh test.sh", &[])]);
    let sleep = json!([
        edit(),
        call("run_command", json!({"command": "sleep 300"})),
        finish("done", "never said")
    ]);
    let mut child = planned.begin(&json!([case(&of("sum"), sleep)]));
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    read_until(&mut errors, "sleep 300");
    interrupt(&child);
    check_end(&ended(child.wait_with_output().unwrap()), 0, "stopped");
    let sum = planned.milestone("sum");
    assert_eq!((&sum["state"], &sum["attempts"]), (&json!("pending"), &json!(0)));
    assert_eq!(
        planned.0.git(&["show", "agent/kept/main/sum:add.sh"]),
        "echo $(($1 + $2))"
    );
    check_end(&planned.work(&json!([]), &[]), 0, "done");
}

#[test]
fn a_goal_becomes_milestones_that_a_person_approves() {
    let planned = Planned(Checkout::new());
    let milestones = json!({"milestones": [
        {"id": "sum", "title": "Add", "description": "Add.", "acceptance": "sh test.sh", "depends_on": []},
        {"id": "hello", "title": "Say hello", "acceptance": "grep -q hello hello.txt", "depends_on": ["sum"]},
    ]});
    let circle = json!({"milestones": [
        {"id": "a", "title": "A", "depends_on": ["b"]},
        {"id": "b", "title": "B", "depends_on": ["a"]},
    ]});
    let answer = call("finish", json!({"answer": "First the sum, then the greeting."}));
    let plan = json!([
        call("generate_milestones", circle),
        call("generate_milestones", milestones),
        answer,
    ]);
    let script = planned.script_in("plan.json", &json!([case("The goal: Add and greet", plan)]));
    let goal = ["goal", "Add and greet", "--set", &script];
    planned
        .0
        .user
        .run(&goal)
        .assert_code(0)
        .assert_out("main (proposed): Add and greet")
        .assert_out("accepted by: grep -q hello hello.txt")
        .assert_out("blocked by sum")
        .assert_out("forgehand milestones approve")
        .assert_err("the dependencies form a cycle: a → b → a");
    let cases = json!([
        case(&of("sum"), mend()),
        case(&of("hello"), make("hello.txt", "hello\n"))
    ]);
    check_end(&planned.work(&cases, &[]), 2, "proposed");
    assert!(planned.0.other_branches().is_empty());
    planned.milestones(&["approve"]).assert_code(0).assert_out("approved");
    check_end(&planned.work(&cases, &[]), 0, "done");
    planned
        .0
        .user
        .run(&goal)
        .assert_code(64)
        .assert_err("is approved and has milestones");
    let other = [&goal[..], &["--graph", "other", "--approve", "--json"]].concat();
    let json = planned.0.user.run(&other).assert_code(0).json();
    assert_eq!((&json["approved"], &json["outlook"]), (&json!(true), &json!("ready")));

    let nothing = planned.script(&json!([case(
        "The goal: Nothing",
        json!([call("finish", json!({"answer": "There is nothing to plan."}))])
    )]));
    planned
        .0
        .user
        .run(&["goal", "Nothing", "--graph", "third", "--set", &nothing])
        .assert_code(2)
        .assert_err("There is nothing to plan.");
}

#[test]
fn the_model_sees_the_graph_and_does_not_decide_for_a_command() {
    let planned = Planned::new(&[("sum", "sh test.sh", &[]), ("later", "test -f later.txt", &["sum"])]);
    let use_tool = |arguments: Value| call("milestone", arguments);
    let turns = json!([
        use_tool(json!({"action": "list"})),
        use_tool(json!({"action": "done", "id": "sum"})),
        use_tool(json!({"action": "done", "id": "later"})),
        use_tool(json!({"action": "remove", "id": "later"})),
        use_tool(json!({"action": "add", "title": "Write a note", "depends_on": ["later"]})),
        edit(),
        finish("done", "The operator was the wrong one."),
    ]);
    let log = planned.0.user.path("events.ndjson");
    let ended = planned.work(
        &json!([case(&of("sum"), turns)]),
        &["--max", "1", "--log", &log.display().to_string()],
    );
    check_end(&ended, 0, "limit");
    assert_eq!(planned.states(), ["done", "pending", "pending"]);
    assert_eq!(planned.milestone("write-a-note")["depends_on"], json!(["later"]));
    let events = std::fs::read_to_string(log).unwrap();
    for words in [
        "- sum (in_progress, the one at hand): Do sum",
        "- later (blocked by sum): Do later",
        "sum is the milestone at hand",
        "only the program's own run of `test -f later.txt` decides whether later is done",
        "only a person removes it",
        "Added as write-a-note.",
    ] {
        assert!(events.contains(words), "{words}: {events}");
    }
}

#[test]
fn a_graph_is_changed_by_hand_and_goes_to_a_file_and_back() {
    let planned = Planned::new(&[("a", "", &[]), ("b", "sh test.sh", &["a"])]);
    planned
        .milestones(&["add", "A cycle", "--id", "c", "--after", "c"])
        .assert_code(64)
        .assert_err("cycle: c → c");
    planned
        .milestones(&["add", "Lost", "--after", "nobody"])
        .assert_code(64)
        .assert_err("depends on nobody");
    planned
        .milestones(&["remove", "a"])
        .assert_code(64)
        .assert_err("because b depends on it");
    planned.milestones(&["next"]).assert_code(0).assert_out("a  Do a");
    planned.milestones(&["start", "a"]).assert_code(0);
    planned
        .milestones(&["start", "b"])
        .assert_code(64)
        .assert_err("b is blocked by a");
    check_end(&planned.work(&json!([]), &[]), 0, "running");
    planned.milestones(&["done", "a"]).assert_code(0);
    planned
        .milestones(&["needs-fix", "b", "--because", "the sum is wrong"])
        .assert_code(0);
    planned
        .milestones(&[])
        .assert_code(0)
        .assert_out("a  done")
        .assert_out("accepted by: sh test.sh")
        .assert_out("the last time: the sum is wrong");
    planned
        .milestones(&["next"])
        .assert_code(0)
        .assert_out("the sum is wrong");

    let file = planned.0.user.path("graph.json").display().to_string();
    planned.milestones(&["export", &file]).assert_code(0);
    planned
        .milestones(&["import", &file])
        .assert_code(64)
        .assert_err("--replace");
    planned
        .milestones(&["import", &file, "--graph", "copy"])
        .assert_code(0)
        .assert_out("2 milestones are proposed");
    let copy = planned.milestones(&["--graph", "copy", "export"]);
    assert_eq!(copy.assert_code(0).out, std::fs::read_to_string(&file).unwrap());
    planned
        .0
        .user
        .write("bad.json", r#"{"version": 1, "milestones": [{"id": "x"}]}"#);
    let bad = planned.0.user.path("bad.json").display().to_string();
    planned
        .milestones(&["import", &bad])
        .assert_code(64)
        .assert_err("missing field `title`");
    planned
        .milestones(&["remove", "--all"])
        .assert_code(0)
        .assert_out("2 milestones");
    planned
        .milestones(&["next"])
        .assert_code(64)
        .assert_err("there is no work graph main");
    planned
        .milestones(&["--repository", "octo/x"])
        .assert_code(1)
        .assert_err("there is no database");
}

#[test]
fn a_branch_that_somebody_stands_on_is_left_alone() {
    let planned = Planned::new(&[("sum", "sh test.sh", &[]), ("note", "", &[])]);
    let cases = json!([
        case(&of("sum"), mend()),
        case(&of("note"), make("note.txt", "a note\n"))
    ]);
    check_end(&planned.work(&cases, &["--max", "1"]), 0, "limit");
    planned.0.git(&["switch", "--quiet", "agent/graph-main"]);
    let json = check_end(&planned.work(&cases, &[]), 4, "failed");
    let reason = json["reason"].as_str().unwrap();
    assert!(reason.contains("agent/graph-main is checked out in"), "{reason}");
    assert_eq!(planned.milestone("note")["state"], "pending");
    planned.0.git(&["switch", "--quiet", "main"]);
    check_end(&planned.work(&cases, &[]), 0, "done");
}
