//! `forgehand draft` on a user's checkout: drafts are printed, and nothing is changed or created.

use serde_json::{Value, json};

use super::checkout::{Checkout, call, finish};
use super::{Ended, User, ended, snapshot};

fn bug() -> Value {
    json!({
        "kind": "bug",
        "title": "add.sh subtracts its second argument",
        "environment": "sh, at the last commit.",
        "reproduction": ["Run `sh add.sh 2 3`."],
        "observed": [{"statement": "The line has a minus.", "file": "add.sh:1"}],
        "expected": ["It prints 5, as test.sh says."],
        "impact": "Every sum is wrong.",
        "scope": ["add.sh"],
        "acceptance_criteria": ["`sh test.sh` passes."],
        "validation": ["`sh test.sh`"],
        "labels": ["bug"],
    })
}

fn script(drafts: &[Value]) -> Value {
    let mut turns: Vec<Value> = drafts.iter().map(|draft| call("draft_issue", draft.clone())).collect();
    turns.push(call("finish", json!({"summary": "Looked through."})));
    json!(turns)
}

fn draft(checkout: &Checkout, turns: &Value, more: &[&str]) -> Ended {
    let script = checkout.script(turns);
    let mut command = checkout.user.forgehand();
    command.args(["draft", "--set", &script]).args(more);
    ended(command.output().unwrap())
}

#[test]
fn drafts_are_printed_and_nothing_is_changed() {
    let checkout = Checkout::new();
    let before = snapshot(&checkout.root());
    let ended = draft(&checkout, &script(&[bug()]), &["--quiet", "The", "sum", "is", "wrong"]);
    ended.assert_code(0);
    insta::assert_snapshot!(ended.out);
    assert_eq!(snapshot(&checkout.root()), before);
    checkout.user.assert_tidy();
}

#[test]
fn drafts_are_json_for_scripts_and_come_from_a_file() {
    let checkout = Checkout::new();
    let notes = checkout.user.write("notes.md", "The sum is wrong.\n");
    let notes = notes.display().to_string();
    let mut part = bug();
    part["title"] = json!("add.sh ignores a third argument");
    part["part_of"] = json!("add.sh subtracts its second argument");
    let ended = draft(&checkout, &script(&[bug(), part]), &["--json", "--file", &notes]);
    let json = ended.assert_code(0).json();
    assert_eq!((&json["outcome"], &json["exit_code"]), (&json!("drafted"), &json!(0)));
    let [only] = json["drafts"].as_array().unwrap().as_slice() else {
        panic!("{json}")
    };
    assert_eq!(only["title"], "add.sh subtracts its second argument");
    assert_eq!(only["parts"][0]["title"], "add.sh ignores a third argument");
    assert!(
        only["markdown"].as_str().unwrap().starts_with("### Environment"),
        "{only}"
    );
}

#[test]
fn without_a_draft_the_exit_code_says_so() {
    let checkout = Checkout::new();
    draft(&checkout, &script(&[]), &["--quiet"])
        .assert_code(2)
        .assert_err("nothing was drafted");
    draft(&checkout, &script(&[]), &["--file", "no-such-file"])
        .assert_code(64)
        .assert_err("no-such-file");
    draft(&checkout, &script(&[]), &["words", "--file", "x"]).assert_code(64);
}

#[test]
fn a_run_prints_what_it_noticed() {
    let checkout = Checkout::new();
    let turns = json!([call("draft_issue", bug()), finish("nothing_to_do", "All is well.")]);
    let ended = checkout.task(&turns, &["--json"]);
    assert_eq!(ended.assert_code(0).json()["drafts"][0]["kind"], "bug");
    let ended = checkout.task(&turns, &["--quiet"]);
    ended.assert_code(0).assert_out("add.sh subtracts its second argument");
}

#[test]
fn without_a_service_there_are_no_stored_drafts() {
    let user = User::new();
    user.run(&["drafts"]).assert_code(1).assert_err("there is no database");
    user.run(&["drafts", "show", "nonsense"])
        .assert_code(64)
        .assert_err("26 characters");
    user.assert_tidy();
}
