//! Code by its shape and files by words.

use serde_json::json;

use super::*;

#[tokio::test]
async fn code_is_found_by_its_shape_in_every_file_of_its_language() {
    let desk = Desk::empty().await;
    desk.write("src/a.rs", "fn f() {\n    a.unwrap();\n    // b.unwrap()\n    let s = \".unwrap()\";\n    long(\n        1,\n    ).unwrap();\n}\n");
    desk.write("web/b.ts", "const x = a.unwrap();\n");
    desk.write("target/c.rs", "fn f() { c.unwrap(); }\n");
    desk.write(".gitignore", "target/\n");
    let found = desk
        .call("ast_grep", json!({"pattern": "$A.unwrap()", "language": "Rust"}))
        .await;
    assert_eq!(found, "src/a.rs:2:    a.unwrap();\nsrc/a.rs:5:    long( … (to line 7)");
    let found = desk.call("sg", json!({"pattern": "$A.unwrap()", "lang": "ts"})).await;
    assert_eq!(found, "web/b.ts:1:const x = a.unwrap();");
    let found = desk
        .call("ast_grep", json!({"pattern": "$A.unwrap()", "glob": "*.ts"}))
        .await;
    assert_eq!(found, "web/b.ts:1:const x = a.unwrap();");
    let found = desk
        .call("ast_grep", json!({"pattern": "$A.expect($B)", "path": "src"}))
        .await;
    assert_eq!(found, "[no match in 1 files]");
    check_words(
        &desk
            .refused("ast_grep", json!({"pattern": "x", "language": "cobol"}))
            .await,
        &["rust", "tsx"],
    );
    check_words(
        &desk
            .refused("ast_grep", json!({"pattern": "fn fn ((", "language": "rust"}))
            .await,
        &["no rust code"],
    );
}

#[tokio::test]
async fn r01_a_file_that_a_grammar_cannot_cope_with_is_left_out() {
    let desk = Desk::empty().await;
    desk.write("a.tsx", "<".repeat(1_000_000));
    desk.write(
        "b.tsx",
        format!("x = {}f(1){};", "(".repeat(200_000), ")".repeat(200_000)),
    );
    desk.write("c.tsx", "f(1)\n".repeat(300_000));
    desk.write("d.tsx", "f(1);\n");
    desk.sh("mkfifo e.tsx; ln -s /dev/zero g.tsx; printf 'f(1)\\377' > h.tsx")
        .await;
    let started = std::time::Instant::now();
    let found = desk
        .call("ast_grep", json!({"pattern": "f($A)", "language": "tsx"}))
        .await;
    check_words(&found, &["d.tsx:1:f(1);", "c.tsx (larger than 1 MiB)"]);
    assert!(
        started.elapsed() < std::time::Duration::from_secs(25),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn files_with_the_most_and_the_rarest_words_come_first() {
    let desk = Desk::empty().await;
    for number in 0..30 {
        desk.write(&format!("common/{number}.txt"), "parse parse parse parse\n");
    }
    desk.write("src/http.rs", "fn parse_header(timeout: u64) {}\nfn other() {}\n");
    desk.write("src/rare.rs", "// Timeout\n");
    let found = desk
        .call("search_code", json!({"query": "where do we parse the header timeout"}))
        .await;
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "src/http.rs (parse header timeout, 3 times)",
            "     1: fn parse_header(timeout: u64) {}",
            "src/rare.rs (timeout, 1 times)"
        ]
    );
    check_words(&found, &["the best 12 of 32 files"]);
    assert_eq!(
        desk.call("search_code", json!({"query": "zebra"})).await,
        "[none of the words is in any of 32 files]"
    );
}
