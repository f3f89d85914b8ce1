//! Patches by the rows of the failure catalogue, and what no patch may do.

use super::*;

#[track_caller]
fn patched(content: &str, patch: &str) -> String {
    let files = parse(patch).unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!(files.len(), 1, "{files:?}");
    let applied = apply(content.as_bytes(), files[0].hunks()).unwrap_or_else(|problem| panic!("{problem}"));
    String::from_utf8(applied.content).unwrap()
}

#[track_caller]
fn check(content: &str, hunks: &str, expected: &str) {
    let envelope = format!("*** Begin Patch\n*** Update File: a\n{hunks}\n*** End Patch");
    assert_eq!(patched(content, &envelope), expected, "{hunks}");
}

#[track_caller]
fn check_diff(content: &str, hunks: &str, expected: &str) {
    assert_eq!(
        patched(content, &format!("--- a/a\n+++ b/a\n{hunks}")),
        expected,
        "{hunks}"
    );
}

#[track_caller]
fn check_problem(content: &str, hunks: &str, words: &[&str]) {
    let files = parse(&format!("*** Update File: a\n{hunks}")).unwrap_or_else(|problem| panic!("{problem}"));
    let problem = apply(content.as_bytes(), files[0].hunks()).unwrap_err();
    for word in words {
        assert!(problem.contains(word), "{word:?} is not in: {problem}");
    }
}

#[track_caller]
fn check_refused(patch: &str, word: &str) {
    let problem = parse(patch).expect_err(patch);
    assert!(problem.contains(word), "{word:?} is not in: {problem}");
}

const FILE: &str = "fn a() {\n    one();\n}\n\nfn b() {\n    one();\n}\n";

#[test]
fn an_update_replaces_adds_and_removes_lines() {
    check(
        FILE,
        "@@ fn b() {\n-    one();\n+    two();\n+    three();",
        &FILE.replacen(
            "one();\n}\n\nfn b() {\n    one();",
            "one();\n}\n\nfn b() {\n    two();\n    three();",
            1,
        ),
    );
    check("a\nb\nc\n", " a\n-b\n c", "a\nc\n");
    check("a\nb\nc\n", "@@\n a\n+x\n b\n@@\n-c\n+d", "a\nx\nb\nd\n");
    check("a\n", "@@\n+z\n*** End of File", "a\nz\n");
    check("a\nb\na\n", "@@\n-a\n+z\n*** End of File", "a\nb\nz\n");
}

#[test]
fn e22_remnants_of_a_shell_around_the_envelope_do_not_matter() {
    for patch in [
        "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End Patch\nEOF\n",
        "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y`n*** End Patch\"'",
        "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n`n*** End Patch\"'",
        "```\n*** Begin Patch\n*** Update File: ./a\n-x\n+y\n```",
        "*** Update File: `a`\n-x\n+y",
        "*** Begin Patch\\n*** Update File: a\\n@@\\n-x\\n+y\\n*** End Patch",
        "*** Begin Patch\r\n*** Update File: a\r\n@@\r\n-x\r\n+y\r\n*** End Patch\r\n",
        "*** Begin Patch\n*** Update File: a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n*** End Patch",
    ] {
        assert_eq!(patched("w\nx\nz\n", patch), "w\ny\nz\n", "{patch}");
    }
}

#[test]
fn e22_e25_a_crlf_file_stays_one() {
    check("a\r\nb\r\nc\r\n", "@@\n a\n-b\n+x\n+y\n c", "a\r\nx\r\ny\r\nc\r\n");
    check_diff("a\r\nb\r\n", "@@ -2,0 +3 @@\n+c\n", "a\r\nb\r\nc\r\n");
}

#[test]
fn e23_context_without_its_leading_space_is_understood() {
    check(
        "def f():\n    a = 1\n    return a\n",
        "@@ def f():\n    a = 1\n-    return a\n+    return a + 1",
        "def f():\n    a = 1\n    return a + 1\n",
    );
    check("x\ny\n", "@@\nx\n-y\n+z", "x\nz\n");
}

#[test]
fn g13_a_length_left_out_is_one_and_blank_context_counts() {
    check_diff("a\n", "@@ -1 +1 @@\n-a\n+b\n", "b\n");
    check_diff("a\n\nb\n", "@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n", "a\n\nc\n");
    check_diff("a\n\nb\n", "@@ -1,3 +1,3 @@\n-a\n+x\n \n b\n\n", "x\n\nb\n");
    check_diff("", "@@ -0,0 +1,2 @@\n+a\n+b\n", "a\nb\n");
}

#[test]
fn g14_white_space_that_differs_is_found_and_the_files_own_kept() {
    check(
        "\tone  \n\ttwo\n\tthree\n",
        "@@\n one\n-two\n+2\n three",
        "\tone  \n\t2\n\tthree\n",
    );
    check("one \ntwo\n", "@@\n one\n-two\n+2", "one \n2\n");
    check(
        "    if x:\n        a()\n",
        "@@\n if x:\n-    a()\n+    b()\n+    c()",
        "    if x:\n        b()\n        c()\n",
    );
}

#[test]
fn line_numbers_only_choose_between_places() {
    let file = "x\n1\nx\n2\nx\n3\n";
    check_diff(file, "@@ -3,1 +3,1 @@\n-x\n+y\n", "x\n1\ny\n2\nx\n3\n");
    check_diff(file, "@@ -900,2 +1,2 @@\n x\n-3\n+4\n", "x\n1\nx\n2\nx\n4\n");
    // an earlier hunk that lies lower than its numbers say moves the later ones too
    check_diff(
        "0\n0\n0\na\nx\nb\nx\nx\nc\n",
        "@@ -1,1 +1,1 @@\n-a\n+A\n@@ -4,1 +4,1 @@\n-x\n+y\n",
        "0\n0\n0\nA\nx\nb\ny\nx\nc\n",
    );
}

#[test]
fn the_end_of_the_last_line_is_kept_or_changed_as_said() {
    check("a\nb", "@@\n-b\n+c", "a\nc");
    check("a\nb", "@@\n b\n+c", "a\nb\nc");
    check_diff(
        "a\nb\n",
        "@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n",
        "a\nb",
    );
    check_diff(
        "a\nb",
        "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n",
        "a\nb\n",
    );
}

#[test]
fn e26_an_unclear_place_is_named_by_its_lines() {
    check_problem(
        FILE,
        "@@\n-    one();\n+    two();",
        &["2 times", "lines 2, 6", "context"],
    );
    check_problem(
        FILE,
        "@@\n fn a() {\n-    two();\n+    x();",
        &[
            "The first 1 match from line 1",
            "line 2 is `    one();`",
            "says `    two();`",
        ],
    );
    check_problem(FILE, "@@ fn c()\n-    one();\n+x", &["`fn c()`, is not in the file"]);
    check_problem(FILE, "@@\n-zzz\n+x", &["the first is `zzz`"]);
    check_problem(FILE, "@@\n-fn a() {\n+fn c() {\n@@\n-nothing\n+x", &["hunk 2 of 2"]);
}

#[test]
fn e8_a_change_made_before_is_recognised() {
    check_problem(
        "fn new_name() {}\n",
        "@@\n-fn old_name() {}\n+fn new_name() {}",
        &["already stand at line 1"],
    );
}

#[test]
fn f10_overlapping_hunks_are_refused() {
    check_problem(
        "a\nb\nc\nd\n",
        "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n@@ -2,3 +2,3 @@\n b\n-c\n+C\n d",
        &["overlap"],
    );
}

#[test]
fn f10_what_leads_out_or_is_no_text_is_refused() {
    let add = |path: &str| format!("--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+x\n");
    check_refused(&add("b/../../x"), "outside the workspace");
    check_refused(&add("/etc/passwd"), "outside the workspace");
    check_refused(&add("b/.git/config"), ".git");
    check_refused(&add("b/sub/.GIT/hooks/x"), ".git");
    check_refused(&add("b/x\r"), "control character");
    check_refused(&add("\"b/x\\r\""), "control character");
    check_refused(
        "diff --git a/x b/.git/config\nrename from x\nrename to .git/config\n",
        ".git",
    );
    check_refused("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", "chmod");
    check_refused(
        "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+/etc\n",
        "120000",
    );
    check_refused("diff --git a/x b/x\nGIT binary patch\n", "binary");
    check_refused(
        "*** Begin Patch\n*** Update File: ../x\n@@\n-a\n+b\n*** End Patch",
        "outside",
    );
    check_refused("*** Begin Patch\n*** Delete File: .git/HEAD\n*** End Patch", ".git");
    check_refused("hello", "*** Begin Patch");
    check_refused(
        "*** Begin Patch\n*** Update File: a\n nothing\n*** End Patch",
        "nothing is changed",
    );
}

#[test]
fn e28_a_rename_and_an_edit_are_told_apart() {
    let patch = "diff --git a/old.rs b/new.rs\nsimilarity index 100%\nrename from old.rs\nrename to new.rs\n\
                 diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";
    let files = parse(patch).unwrap();
    let move_to = Some("new.rs".to_owned());
    assert_eq!(
        files[0].change,
        Change::Update {
            move_to,
            hunks: Vec::new()
        }
    );
    assert_eq!(
        (files.len(), files[1].path.as_str(), files[1].hunks().len()),
        (2, "x", 1)
    );
    let both = "*** Begin Patch\n*** Update File: a\n*** Move to: b/c\n@@\n-x\n+y\n*** Add File: d\n+one\n+\n+two\n*** Delete File: e\n*** End Patch";
    let files = parse(both).unwrap();
    assert!(matches!(&files[0].change, Change::Update { move_to: Some(to), hunks } if to == "b/c" && hunks.len() == 1));
    assert_eq!(files[1].change, Change::Add("one\n\ntwo\n".to_owned()));
    assert_eq!(files[2].change, Change::Delete(Vec::new()));
}

proptest::proptest! {
    #[test]
    fn no_input_makes_it_panic(content: Vec<u8>, patch in "(\\*\\*\\* Update File: a\n|@@ -1,2 \\+1 @@\n|--- a\n\\+\\+\\+ b\n|[ +-]?[a-c]{0,2}\n|\\PC{0,5}){0,20}") {
        if let Ok(files) = parse(&patch) {
            for file in files {
                let _ = apply(&content, file.hunks());
            }
        }
    }

    #[test]
    fn quoted_lines_keep_every_byte(before in "[a \t\u{e9}]{0,8}", after in "[b \t]{0,8}") {
        let content = format!("{before}\nOLD\n{after}\n");
        let patch = format!("*** Update File: a\n@@\n {}\n-OLD\n+NEW\n {}\n", before.trim_end(), after.trim_end());
        let files = parse(&patch).unwrap();
        let applied = apply(content.as_bytes(), files[0].hunks()).unwrap();
        proptest::prop_assert_eq!(String::from_utf8(applied.content).unwrap(), format!("{before}\nNEW\n{after}\n"));
    }
}
