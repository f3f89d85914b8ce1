//! What a tool call looks like, by tool.

use super::change::MAX_BELOW;
use super::*;

#[track_caller]
fn check(tool: &str, arguments: &str, output: &str, label: &str, how: &str) {
    let gist = of(tool, arguments, output, true);
    assert_eq!((gist.label.as_str(), gist.how.as_str()), (label, how));
    assert_eq!(super::label(tool, arguments), label.trim_end_matches(":12"));
}

#[test]
fn a_tool_call_is_shown_by_what_it_is_for_and_what_came_of_it() {
    check(
        "run_command",
        r#"{"command": "make \\\n  test", "timeout_seconds": 5}"#,
        "[exit code 0, 1.2 s]\nok\nok",
        "$ make \\ test",
        "exit 0, 2 lines",
    );
    check(
        "bash",
        r#"{"command": "ls"}"#,
        "[exit code 0, 1 ms]\n[no output]",
        "$ ls",
        "exit 0",
    );
    check(
        "read_file",
        r#"{"path": "src/a.rs"}"#,
        "     1\tfn a\n     2\t",
        "read_file src/a.rs",
        "2 lines",
    );
    check("list_directory", "{}", "a\nb/\n", "list_directory", "2 entries");
    check(
        "glob",
        r#"{"pattern": "*.rs"}"#,
        "[no file matches]",
        "glob *.rs",
        "no file",
    );
    check(
        "grep",
        r#"{"pattern": "fn lines", "path": "src", "context": 3}"#,
        "src/a.rs-3-x\nsrc/a.rs:4:fn lines: usize\n--\nsrc/b.rs:9:fn lines",
        "grep fn lines src",
        "2 matches in 2 files",
    );
    check(
        "grep",
        r#"{"pattern": "x"}"#,
        "[no match in 7 files]",
        "grep x",
        "no match",
    );
    check(
        "finish",
        r#"{"status": "done", "title": "Add"}"#,
        "The work is finished.",
        "finish Add",
        "",
    );
    check(
        "finish",
        r#"{"status": "refused", "title": ""}"#,
        "",
        "finish refused",
        "",
    );
    check(
        "memory",
        r#"{"action": "get", "key": "k"}"#,
        "\nvalue\nmore",
        "memory k get",
        "value",
    );
    check("read_file", "not json", "     1\ta", "read_file", "1 line");
}

#[test]
fn an_edit_shows_its_lines() {
    let arguments = r#"{"path": "src/lib.rs", "old_text": "a\nb\nc\nd", "new_text": "a\nB\nc\nd"}"#;
    let gist = of(
        "str_replace",
        arguments,
        "Edited src/lib.rs at line 12. It now reads:\n…",
        true,
    );
    assert_eq!(
        (gist.label.as_str(), gist.how.as_str()),
        ("edit_file src/lib.rs:12", "+1 −1")
    );
    let [same, removed, added, after] = gist.below.as_slice() else {
        panic!("{:?}", gist.below)
    };
    assert_eq!((same, after), (&Below::Same("a".into()), &Below::Same("c".into())));
    assert_eq!(
        (removed, added),
        (&Below::Removed("b".into()), &Below::Added("B".into()))
    );

    let content = (1..=40).map(|line| format!("line {line}\\n")).collect::<String>();
    let gist = of(
        "write_file",
        &format!(r#"{{"path": "new.txt", "content": "{content}"}}"#),
        "Created new.txt: 40 lines, 300 B.",
        true,
    );
    assert_eq!(gist.how, "new, 40 lines");
    assert_eq!(gist.below.len(), MAX_BELOW);
    assert_eq!(gist.below[MAX_BELOW - 1], Below::More("29 more lines".into()));
}

#[test]
fn two_changes_in_one_edit_are_two() {
    let change = between("a\nb\nc\nd\ne", "a\nx\nc\ny\ne");
    assert_eq!((change.added, change.removed), (2, 2));
    let change = between(&"old\n".repeat(1_000), &"new\n".repeat(1_000));
    assert_eq!((change.added, change.removed), (1_000, 1_000));
    let patch = "*** Begin Patch\n*** Update File: a.rs\n@@\n-a\n+b\n+c\n*** End Patch\n";
    let change = of_patch(patch);
    assert_eq!((change.added, change.removed), (2, 1));
    assert_eq!(change.shown()[0], Below::More("Update File: a.rs".into()));
}

#[test]
fn what_failed_shows_its_end() {
    let output = "[exit code 101, 3.2 s]\n1\n2\n3\n\n4\n5\n\u{1b}[31mlast";
    let gist = of("run_command", r#"{"command": "cargo test"}"#, output, true);
    assert!(!gist.went_well);
    assert_eq!(gist.how, "exit 101, 7 lines");
    let lines: Vec<&Below> = gist.below.iter().collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[4], &Below::Output("⟦U+001B⟧[31mlast".into()));
    let gist = of("run_command", "{}", "[killed: timeout after 5 s, 5.0 s]\nx", true);
    assert_eq!(
        (gist.went_well, gist.how.as_str()),
        (false, "killed: timeout after 5 s, 1 line")
    );
    let gist = of("edit_file", r#"{"path": "a"}"#, "a: the text is not in the file", false);
    assert_eq!(gist.below, [Below::Output("a: the text is not in the file".into())]);
}

#[test]
fn tests_that_failed_and_what_a_finish_lacks_are_named() {
    let output =
        "[exit code 1, 0.2 s: `python3 -m unittest`]\nFailed (2):\n- test_a (t.T)\n- test_b (t.T)\n\nlast line";
    let gist = of("run_tests", "{}", output, true);
    assert_eq!((gist.went_well, gist.how.as_str()), (false, "exit 1, 2 failed"));
    assert_eq!(
        gist.below,
        ["test_a (t.T)", "test_b (t.T)"].map(|name| Below::Output(name.into()))
    );
    let gist = of("run_tests", "{}", "[exit code 0, 0.2 s: `make test`]\nok", true);
    assert_eq!((gist.went_well, gist.how.as_str()), (true, "exit 0"));
    let sent_back = "Not finished yet. Before that:\n- nothing was run\nThen call `finish` again.\n-old\n+new";
    let gist = of("finish", r#"{"title": "Add"}"#, sent_back, false);
    assert_eq!(gist.below, [Below::Output("- nothing was run".into())]);
}

#[test]
fn arguments_that_are_cut_still_say_what_they_were_for() {
    let cut = r#"{"path": "src/a \"b\".rs", "content": "x[… 20000 bytes left out …]"#;
    assert_eq!(label("write_file", cut), r#"write_file src/a "b".rs"#);
    assert_eq!(label("no_such_tool\u{1b}", "{}"), "no_such_tool⟦U+001B⟧");
}
