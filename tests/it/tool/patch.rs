//! Patches over several files: what they change, and that a refused one changes nothing.

use serde_json::json;

use super::*;

async fn apply(desk: &Desk, patch: &str) -> String {
    desk.call("apply_patch", json!({ "patch": patch })).await
}

/// A patch that is refused and leaves every byte as it was.
async fn refuse(desk: &Desk, patch: &str, words: &[&str]) {
    let before = desk.snapshot();
    let said = desk.refused("apply_patch", json!({ "patch": patch })).await;
    check_words(&said, words);
    assert!(desk.snapshot() == before, "{patch}: the tree changed");
}

#[tokio::test]
async fn several_files_are_changed_in_one_step() {
    let desk = Desk::empty().await;
    desk.write("src/a.txt", "one\ntwo\nthree\n");
    desk.write("old.txt", "gone\n");
    desk.write("tool.sh", "#!/bin/sh\necho old\n");
    desk.sh("chmod 755 tool.sh").await;
    let said = apply(
        &desk,
        "*** Begin Patch\n*** Update File: src/a.txt\n@@\n one\n-two\n+2\n*** Add File: deep/er/new.txt\n+new\n\
         *** Delete File: old.txt\n*** Update File: tool.sh\n*** Move to: bin/tool.sh\n@@\n-echo old\n+echo new\n*** End Patch",
    )
    .await;
    assert_eq!(
        said,
        "M src/a.txt +1 -1 at line 1\nA deep/er/new.txt +1\nD old.txt\nR tool.sh -> bin/tool.sh +1 -1 at line 2"
    );
    assert_eq!(desk.read("src/a.txt"), "one\n2\nthree\n");
    assert_eq!(desk.read("deep/er/new.txt"), "new\n");
    assert!(!desk.path("old.txt").exists() && !desk.path("tool.sh").exists());
    check_words(&desk.sh("bin/tool.sh; ls -A . bin").await, &["[exit code 0", "\nnew\n"]);
    let names = desk.sh("find . -type f | sort | tr '\\n' ' '").await;
    assert!(
        names.ends_with("./bin/tool.sh ./deep/er/new.txt ./src/a.txt"),
        "nothing is left over: {names}"
    );
}

#[tokio::test]
async fn e28_a_git_diff_with_a_rename_and_an_edit_is_applied() {
    let desk = Desk::checkout("printf '1\\n2\\n3\\n4\\n5\\n' > a; echo x > b; echo mode > c").await;
    let diff = "diff --git a/a b/moved/a\nsimilarity index 80%\nrename from a\nrename to moved/a\nindex 1..2 100644\n\
                --- a/a\n+++ b/moved/a\n@@ -2,3 +2,3 @@ 1\n 2\n-3\n+drei\n 4\n\
                diff --git a/b b/b2\nsimilarity index 100%\nrename from b\nrename to b2\n\
                diff --git a/c b/c\ndeleted file mode 100644\n--- a/c\n+++ /dev/null\n@@ -1 +0,0 @@\n-mode\n";
    apply(&desk, diff).await;
    assert_eq!(
        (desk.read("moved/a"), desk.read("b2")),
        ("1\n2\ndrei\n4\n5\n".to_owned(), "x\n".to_owned())
    );
    assert_eq!(desk.snapshot().len(), 2);
}

#[tokio::test]
async fn e22_e25_line_ends_and_encoding_of_a_file_stay() {
    let desk = Desk::empty().await;
    desk.write("crlf.txt", "a\r\nb\r\nc\r\n");
    desk.write("latin.txt", b"caf\xe9\nx\n");
    apply(&desk, "*** Begin Patch\n*** Update File: crlf.txt\n@@\n a\n-b\n+x\n+y\n*** Update File: latin.txt\n@@\n-x\n+y\n*** End Patch").await;
    assert_eq!(desk.read("crlf.txt"), "a\r\nx\r\ny\r\nc\r\n");
    assert_eq!(std::fs::read(desk.path("latin.txt")).unwrap(), b"caf\xe9\ny\n");
    refuse(&desk, "*** Update File: latin.txt\n@@\n-y\n+\u{2192}\n", &["not UTF-8"]).await;
}

#[tokio::test]
async fn e22_a_patch_in_a_shell_call_goes_to_the_tool() {
    let desk = Desk::empty().await;
    desk.write("a", "x\n");
    let patch = "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End Patch";
    let line = format!("apply_patch <<'EOF'\n{patch}\nEOF");
    desk.call("shell", json!({"command": ["bash", "-lc", line]})).await;
    assert_eq!(desk.read("a"), "y\n");
}

#[tokio::test]
async fn f10_a_hostile_patch_changes_nothing() {
    let desk = Desk::empty().await;
    desk.write("good.txt", "a\nb\n");
    desk.write("x", "x\n");
    desk.sh("mkdir .git; echo secret > .git/config; ln -s .git g; ln -s /tmp out; ln -s good.txt link; mkfifo pipe")
        .await;
    let good = "--- a/good.txt\n+++ b/good.txt\n@@ -1 +1 @@\n-a\n+A\n";
    let add = |path: &str| format!("{good}--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+evil\n");
    refuse(&desk, &add("../../x"), &["outside the workspace"]).await;
    refuse(&desk, &add("b/../x"), &["outside the workspace"]).await;
    refuse(&desk, &add("/etc/x"), &["outside the workspace"]).await;
    refuse(&desk, &add("b/.git/hooks/x"), &[".git"]).await;
    refuse(&desk, &add("b/g/hooks/x"), &[".git"]).await;
    refuse(&desk, &add("b/out/x"), &["outside"]).await;
    refuse(&desk, &add("b/x\r"), &["control character"]).await;
    refuse(&desk, &add("b/x"), &["x: it exists already"]).await;
    refuse(&desk, &add("b/link"), &["link"]).await;
    refuse(&desk, &add("b/pipe"), &["pipe"]).await;
    let renamed = format!("{good}diff --git a/x b/.git/config\nrename from x\nrename to .git/config\n");
    refuse(&desk, &renamed, &[".git"]).await;
    refuse(
        &desk,
        &format!("{good}diff --git a/x b/x\nold mode 100644\nnew mode 100755\n"),
        &["chmod"],
    )
    .await;
    refuse(&desk, &format!("{good}@@ -1,2 +1,2 @@\n a\n-b\n+c\n"), &["overlap"]).await;
    refuse(
        &desk,
        &format!("{good}--- a/none\n+++ b/none\n@@ -1 +1 @@\n-a\n+b\n"),
        &["none does not exist"],
    )
    .await;
    refuse(
        &desk,
        "*** Update File: x\n*** Move to: good.txt\n@@\n-x\n+y",
        &["good.txt exists already"],
    )
    .await;
    assert_eq!(
        desk.sh("ls -A /tmp").await.lines().last(),
        Some("[no output]"),
        "nothing outside"
    );
}

/// Everything was prepared and something else took a name meanwhile: what was done is undone.
#[tokio::test]
async fn a_change_that_fails_half_way_is_undone() {
    let desk = Desk::empty().await;
    desk.write("a", "a\n");
    desk.write("b", "b\n");
    desk.sh("mkdir shut; echo c > shut/c; chmod 555 shut").await;
    let before = desk.snapshot();
    let said = desk
        .refused("apply_patch", json!({"patch": "*** Update File: a\n-a\n+A\n*** Delete File: b\n*** Update File: shut/c\n-c\n+C\n*** Add File: n/new\n+x"}))
        .await;
    check_words(&said, &["shut/c", "ermission denied"]);
    assert!(desk.snapshot() == before, "{said}");
}

#[tokio::test]
async fn problems_name_the_file_the_hunk_and_the_lines() {
    let desk = Desk::empty().await;
    desk.write("src/a.txt", "x\ny\nx\n");
    desk.write("src/b.txt", "one\ntwo\n");
    refuse(
        &desk,
        "*** Update File: src/a.txt\n@@\n-y\n+z\n@@\n-x\n+w\n*** Update File: src/b.txt\n@@\n one\n-zwei\n+2\n*** Update File: b.txt\n-a\n+b",
        &[
            "Nothing was changed, in no file",
            "src/b.txt: its lines are not in the file. The first 1 match from line 1 on, then line 2 is `two`",
            "b.txt does not exist",
            "src/b.txt",
        ],
    )
    .await;
    refuse(
        &desk,
        "*** Update File: src/a.txt\n@@\n-x\n+w",
        &["src/a.txt: its lines stand in the file 2 times, at lines 1, 3"],
    )
    .await;
}
