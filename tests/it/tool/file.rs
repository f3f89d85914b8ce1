//! Reading, writing, editing and searching by the rows of the failure catalogue.

use serde_json::json;

use super::*;

#[tokio::test]
async fn e02_a_character_that_the_file_cannot_hold_leaves_it_whole() {
    let desk = Desk::empty().await;
    desk.write("latin.txt", b"caf\xe9 = 1\n");
    let edit = json!({"path": "latin.txt", "old_text": " = 1", "new_text": " = \u{2192}"});
    check_words(&desk.refused("edit_file", edit).await, &["not UTF-8"]);
    assert_eq!(std::fs::read(desk.path("latin.txt")).unwrap(), b"caf\xe9 = 1\n");
    let said = desk
        .call(
            "write_file",
            json!({"path": "latin.txt", "content": "caf\u{e9} \u{2192} \u{1f600}\n"}),
        )
        .await;
    assert!(said.starts_with("Replaced latin.txt"), "{said}");
    assert_eq!(desk.read("latin.txt"), "caf\u{e9} \u{2192} \u{1f600}\n");
}

#[tokio::test]
async fn f11_names_that_look_alike_are_two_files() {
    let desk = Desk::empty().await;
    for (path, content) in [
        ("README", "up\n"),
        ("readme", "low\n"),
        ("caf\u{e9}", "one\n"),
        ("cafe\u{301}", "two\n"),
    ] {
        desk.write(path, content);
    }
    desk.call(
        "edit_file",
        json!({"path": "readme", "old_text": "low", "new_text": "new"}),
    )
    .await;
    desk.call(
        "edit_file",
        json!({"path": "cafe\u{301}", "old_text": "two", "new_text": "new"}),
    )
    .await;
    let all = ["README", "readme", "caf\u{e9}", "cafe\u{301}"].map(|path| desk.read(path));
    assert_eq!(all, ["up\n", "new\n", "one\n", "new\n"]);
}

#[tokio::test]
async fn f13_a_file_with_two_names_is_written_as_a_copy() {
    let desk = Desk::empty().await;
    desk.write("a", "old\n");
    desk.sh("ln a b").await;
    desk.call("edit_file", json!({"path": "a", "old_text": "old", "new_text": "new"}))
        .await;
    desk.call("apply_patch", json!({"patch": "*** Update File: a\n-new\n+newer"}))
        .await;
    assert_eq!(
        (desk.read("a"), desk.read("b")),
        ("newer\n".to_owned(), "old\n".to_owned())
    );
}

#[tokio::test]
async fn f06_large_folders_and_lines_give_bounded_answers() {
    let desk = Desk::empty().await;
    desk.sh("mkdir many; cd many; seq 1 30000 | xargs touch; head -c 20M /dev/zero | tr '\\0' x > ../line")
        .await;
    let listed = desk.call("list_directory", json!({"path": "many"})).await;
    assert!(
        listed.len() < 20_000 && listed.ends_with("use glob]"),
        "{}",
        listed.len()
    );
    let read = desk.refused("read_file", json!({"path": "none"})).await;
    assert_eq!(read, "none does not exist");
    let shown = desk.call("read_file", json!({"path": "line"})).await;
    assert!(shown.len() < 4_000, "{}", shown.len());
    check_words(&shown, &["cut -c", "only its first 16.0 MiB"]);
    let found = desk.call("grep", json!({"pattern": "x+"})).await;
    assert!(found.len() < 4_000, "{}", found.len());
}

/// Archives are unpacked by programs in the sandbox, which cannot write elsewhere.
#[tokio::test]
async fn f09_a_hostile_archive_writes_nothing_outside() {
    let desk = Desk::empty().await;
    let make = "import io, tarfile\nwith tarfile.open('x.tar', 'w') as tar:\n    def add(name, kind=tarfile.REGTYPE, link=''):\n        info = tarfile.TarInfo(name)\n        info.type, info.linkname = kind, link\n        info.size = 4 if kind == tarfile.REGTYPE else 0\n        tar.addfile(info, io.BytesIO(b'evil'))\n    add('../evil1')\n    add('/evil2')\n    add('out', tarfile.SYMTYPE, '../../..')\n    add('out/evil3')\n    add('hard', tarfile.LNKTYPE, '/etc/passwd')\n    add('null', tarfile.CHRTYPE)\n    add('good')\n";
    desk.write("make.py", make);
    desk.sh("python3 make.py; tar -xPf x.tar; python3 -c \"import tarfile; tarfile.open('x.tar').extractall(filter='fully_trusted')\"").await;
    assert_eq!(desk.read("good"), "evil");
    for name in ["evil1", "evil2", "evil3"] {
        let above = desk.folder.path().join(name);
        assert!(!above.exists() && !Path::new("/").join(name).exists(), "{name}");
    }
    let outside = std::fs::read_dir(desk.folder.path()).expect("a folder").count();
    assert_eq!(outside, 5, "workspace, home, tmp, base.git, out");
}

#[tokio::test]
async fn x07_the_indentation_of_the_first_line_stays() {
    let desk = Desk::empty().await;
    desk.write("a.py", "def f():\n    one()\n    two()\n");
    let said = desk.sh("sed -n '2,3p' a.py").await;
    assert!(said.ends_with("]\n    one()\n    two()"), "{said}");
}

#[tokio::test]
async fn x08_x20_search_needs_no_program_and_sees_hidden_files() {
    let desk = Desk::empty().await;
    desk.write(".github/workflows/ci.yml", "on: push\njobs:\n");
    desk.write(".git/objects/x", "jobs:\n");
    desk.write("min.js", format!("jobs:{}", "x".repeat(50_000)));
    let found = desk.call("grep", json!({"pattern": "^jobs:"})).await;
    check_words(&found, &[".github/workflows/ci.yml:2:jobs:", "min.js:1:jobs:xxx"]);
    assert!(found.len() < 1_000 && !found.contains(".git/objects"), "{found}");
    assert_eq!(
        desk.call("glob", json!({"pattern": "**/*.yml"})).await,
        ".github/workflows/ci.yml"
    );
}

#[tokio::test]
async fn x05_no_pager_and_no_terminal_wait_for_a_key() {
    let desk = Desk::checkout("seq 1 500 > a").await;
    let said = desk
        .sh("git init -q . && git add a && git commit -qm one && git log -p && test ! -t 1 && echo $PAGER")
        .await;
    assert!(said.starts_with("[exit code 0") && said.ends_with("cat"), "{said}");
}

#[tokio::test]
async fn x04_c04_a_time_limit_ends_children_too_and_the_output_is_capped() {
    let desk = Desk::empty().await;
    let line = "sleep 1000 & yes \"$(head -c 200 /dev/zero | tr '\\0' y)\" & sleep 1000";
    let started = std::time::Instant::now();
    let said = desk
        .call("run_command", json!({"command": line, "timeout_seconds": 1}))
        .await;
    assert!(
        said.starts_with("[killed: timeout after 1 s") && said.len() < 20_000,
        "{}",
        said.len()
    );
    check_words(&said, &["of output, the middle is left out", "/tmp/out.txt"]);
    assert!(started.elapsed() < std::time::Duration::from_secs(10));
}

#[tokio::test]
async fn x22_a_child_that_keeps_the_output_open_does_not_hold_the_call() {
    let desk = Desk::empty().await;
    let started = std::time::Instant::now();
    let said = desk.sh("true && nohup sleep 500 & echo begun; exit 3").await;
    assert!(said.starts_with("[exit code 3") && said.contains("begun"), "{said}");
    assert!(started.elapsed() < std::time::Duration::from_secs(10));
}

#[tokio::test]
async fn c05_half_a_gigabyte_of_output_is_not_held() {
    let desk = Desk::empty().await;
    let said = desk.sh("yes | head -c 500M; echo end").await;
    assert!(
        said.starts_with("[exit code 0") && said.ends_with("end") && said.len() < 20_000,
        "{}",
        said.len()
    );
    check_words(&said, &["500.0 MiB of output"]);
}

#[tokio::test]
async fn a_path_that_is_not_there_is_answered_with_those_that_are() {
    let desk = Desk::empty().await;
    desk.write("lib/src/words.rs", "x\n");
    let said = desk.refused("read_file", json!({"path": "src/words.rs"})).await;
    assert_eq!(said, "src/words.rs does not exist; lib/src/words.rs does");
}
