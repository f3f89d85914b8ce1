//! `forgehand show`: a run that was written to a file is read again.

use serde_json::json;

use super::User;
use super::checkout::{Checkout, call, edit, finish};

#[test]
fn a_local_run_can_be_read_from_its_file() {
    let checkout = Checkout::new();
    let log = checkout.user.path("run.jsonl").display().to_string();
    let loud = "seq 100; printf '\\033[31mred\\n'; exit 7";
    let turns = json!([
        call("run_command", json!({"command": loud})),
        call("plan", json!({"steps": [{"step": "Mend it", "done": true}]})),
        edit(),
        finish("done", "The operator was the wrong one."),
    ]);
    checkout.task(&turns, &["--log", &log, "--quiet"]).assert_code(0);

    let shown = checkout.user.run(&["show", &log]);
    shown.assert_code(0);
    let mut rest = shown.out.as_str();
    for line in [
        " with stub (scripted, no model)",
        "━━ Check out the repository  ",
        "  before  ✗ sh test.sh  exit 1",
        "━━ Work on the change  ",
        "\nTurn 1  ",
        " tokens in · ",
        " out (our count) · $0.0000",
        "\n  (scripted) On it.\n",
        "  ✗ $ seq 100; printf",
        "  exit 7, 101 lines",
        "      │ 1\n",
        "      … 86 more lines (--full shows them)\n",
        "      │ 99\n      │ 100\n",
        "red\n",
        "\nTurn 2  ",
        "    ✓ Mend it\n",
        "  ✓ edit_file add.sh:1  +1 −1",
        "      - $1 - $2\n      + $1 + $2\n",
        "  solved: finished, 1 files. Add instead of subtracting",
        "━━ Run the checks after  ",
        "  after   ✓ sh test.sh  exit 0",
        "4 turns · ",
    ] {
        let Some((_, after)) = rest.split_once(line) else {
            panic!("{line:?} does not come next in:\n{rest}\nof\n{}", shown.out);
        };
        rest = after;
    }
    let control = shown.out.chars().find(|c| c.is_control() && *c != '\n');
    assert_eq!(control, None, "{}", shown.out);
    checkout
        .user
        .run(&["show", &log, "--full"])
        .assert_code(0)
        .assert_out("│ 50\n");
    // Its record tells the same of the conversation.
    let records = std::fs::read_dir(checkout.user.records()).unwrap();
    let record = records.map(|entry| entry.unwrap().path()).next().unwrap();
    let run = record.file_stem().unwrap().to_str().unwrap();
    for name in [run, record.to_str().unwrap()] {
        checkout
            .user
            .run(&["show", name])
            .assert_code(0)
            .assert_out("━━ Add, do not subtract at ")
            .assert_out("\nTurn 1  ")
            .assert_out("  ▸ $ seq 100; printf")
            .assert_out("      … 86 more lines")
            .assert_out("  ▸ edit_file add.sh:1  +1 −1")
            .assert_out("4 turns · ");
    }
    let events = checkout.user.run(&["show", &log, "--json"]).json();
    assert!(events.as_array().unwrap().len() > 15);
    checkout.user.assert_tidy();
}

#[test]
fn what_cannot_be_read_is_named() {
    let user = User::new();
    user.run(&["show", "nonsense"])
        .assert_code(64)
        .assert_err("nonsense is neither the id of a job or run nor a file");
    let file = user.write("broken.jsonl", "{\"kind\": 1}\n").display().to_string();
    user.run(&["show", &file])
        .assert_code(1)
        .assert_err("line 1: no event of a run");
    user.run(&["show", "01ARZ3NDEKTSV4RRFFQ69G5FAV"])
        .assert_code(1)
        .assert_err("there is no database");
    user.assert_tidy();
}
