//! What changed, checkpoints, and going back.

use serde_json::json;

use super::*;

async fn desk() -> Desk {
    Desk::checkout(
        "mkdir -p src; printf 'one\\ntwo\\n' > src/a.txt; echo gone > gone; echo '*.log' > .gitignore; echo x > tool",
    )
    .await
}

#[tokio::test]
async fn a_diff_shows_every_kind_of_change_whatever_git_says() {
    let desk = desk().await;
    assert_eq!(desk.call("diff", json!({})).await, "[nothing changed]");
    desk.sh("sed -i s/two/zwei/ src/a.txt; rm gone; echo new > src/new.txt; echo l > x.log; mkdir target; echo o > target/o; chmod +x tool; git init -q; git add -A; git commit -qm mine").await;
    let shown = desk.call("diff", json!({})).await;
    check_words(
        &shown,
        &[
            "gone        | 1 -",
            "src/a.txt   | 2 +-",
            "4 files changed",
            "-two\n+zwei",
            "new file mode 100644\nindex",
            "b/src/new.txt\n@@ -0,0 +1 @@\n+new",
            "new mode 100755",
        ],
    );
    assert!(!shown.contains("x.log") && !shown.contains("target/"), "{shown}");
    let one = desk.call("diff", json!({"path": "/workspace/src/new.txt"})).await;
    assert!(one.contains("+new") && !one.contains("zwei"), "{one}");
    assert_eq!(
        desk.call("diff", json!({"path": "src/*"})).await,
        "[nothing changed]",
        "a path is no pattern"
    );
}

#[tokio::test]
async fn a_large_diff_is_capped_and_says_how_to_see_the_rest() {
    let desk = desk().await;
    desk.sh("for n in 1 2 3; do seq 1 20000 > big$n; done; ln -s / root; mkfifo pipe")
        .await;
    let shown = desk.call("diff", json!({})).await;
    assert!(shown.len() < 50_000, "{}", shown.len());
    check_words(
        &shown,
        &[
            "big1 | 20000 +",
            "[not shown: the rest of big1",
            "big3",
            "call diff with path",
            "120000",
        ],
    );
}

#[tokio::test]
async fn a_failed_attempt_is_taken_back() {
    let desk = desk().await;
    desk.sh("echo good > src/new.txt; echo l > x.log").await;
    assert_eq!(
        desk.call("commit", json!({"message": "good\nstate"})).await,
        "Kept as checkpoint 1."
    );
    desk.sh("echo bad > src/new.txt; rm -r src/a.txt tool; echo more > extra; rm -rf .git")
        .await;
    let since = desk.call("diff", json!({"since": 1})).await;
    check_words(&since, &["-good\n+bad", "4 files changed"]);
    let said = desk.call("commit", json!({"restore": 1})).await;
    check_words(
        &said,
        &["as in checkpoint 1; what was there is checkpoint 2", "4 files changed"],
    );
    assert_eq!(
        (desk.read("src/new.txt"), desk.read("src/a.txt")),
        ("good\n".to_owned(), "one\ntwo\n".to_owned())
    );
    assert!(
        desk.path("x.log").exists() && !desk.path("extra").exists(),
        "ignored files stay, others go"
    );
    desk.call("commit", json!({"restore": 2})).await;
    assert_eq!(desk.read("src/new.txt"), "bad\n", "going back can be taken back");
    desk.call("commit", json!({"restore": 0})).await;
    assert_eq!(desk.call("diff", json!({})).await, "[nothing changed]");
    check_words(
        &desk.refused("commit", json!({"restore": 99})).await,
        &["no such checkpoint"],
    );
    check_words(
        &desk.refused("diff", json!({"since": 99})).await,
        &["no such checkpoint"],
    );
}

#[tokio::test]
async fn only_so_many_checkpoints_are_kept() {
    let desk = desk().await;
    for number in 1..=22 {
        desk.write("n", format!("{number}\n"));
        assert_eq!(
            desk.call("commit", json!({})).await,
            format!("Kept as checkpoint {number}.")
        );
    }
    desk.refused("commit", json!({"restore": 2})).await;
    desk.call("commit", json!({"restore": 3})).await;
    assert_eq!(desk.read("n"), "3\n");
}

#[tokio::test]
async fn a_workspace_without_a_commit_says_so() {
    let desk = Desk::empty().await;
    desk.write("a", "1\n");
    check_words(&desk.refused("diff", json!({})).await, &["nothing to compare it with"]);
    assert_eq!(
        desk.call("commit", json!({"message": "first"})).await,
        "Kept as checkpoint 1."
    );
    desk.write("a", "2\n");
    check_words(&desk.call("diff", json!({"since": 1})).await, &["-1\n+2"]);
}
