//! The exit codes of `forgehand run`, each reached through the program with a model server behind
//! it, and a wrong configuration that is told whole before anything is done.

use serde_json::{Value, json};

use super::checkout::Checkout;
use super::{Ended, ended};
use crate::model_server::{ModelServer, Reply};

fn mend() -> Reply {
    Reply::change(
        "edit_file",
        json!({"path": "add.sh", "old_text": "$1 - $2", "new_text": "$1 + $2"}),
    )
}

fn finish(status: &str, summary: &str) -> Reply {
    Reply::call("finish", json!({"status": status, "title": "Add", "summary": summary}))
}

/// A run whose model answers with this script, and how many requests came.
async fn played(checkout: &Checkout, script: Vec<Reply>, more: &[&str]) -> (Ended, usize) {
    let server = ModelServer::start(script).await;
    let mut command = checkout.user.forgehand();
    command
        .args(["run", "--json", "--quiet", "--base-url", server.url(), "--model", "m"])
        .args(["--task", "Add, do not subtract"])
        .args(more);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    (ended(output.await.unwrap()), server.requests().len())
}

/// Checks the code, in the document, too, and the word.
#[track_caller]
fn check(ended: &Ended, code: i32, outcome: &str) -> Value {
    let json = ended.assert_code(code).json();
    assert_eq!((&json["outcome"], &json["exit_code"]), (&json!(outcome), &json!(code)));
    json
}

#[tokio::test(flavor = "multi_thread")]
async fn each_exit_code_is_reached_with_a_model_server() {
    let checkout = Checkout::new();
    let done = || finish("done", "The operator was the wrong one.");

    let (ended, _) = played(&checkout, vec![mend(), done()], &[]).await;
    check(&ended, 0, "done");
    let (ended, _) = played(&checkout, vec![finish("nothing_to_do", "It adds already.")], &[]).await;
    check(&ended, 0, "nothing_to_do");

    let (ended, _) = played(&checkout, vec![finish("refused", "This would break users.")], &[]).await;
    check(&ended, 2, "refused");
    let (ended, _) = played(&checkout, vec![done(), done(), done()], &[]).await;
    check(&ended, 2, "no_change");

    let (ended, _) = played(&checkout, vec![mend(), Reply::say("Hm.")], &["--max-turns", "1"]).await;
    let json = check(&ended, 3, "budget");
    assert!(json["reason"].as_str().is_some_and(|reason| !reason.is_empty()));

    let broken = || Reply::error(401, "this key opens nothing");
    let (ended, _) = played(&checkout, vec![broken()], &[]).await;
    let json = check(&ended, 4, "failed");
    assert!(json["reason"].as_str().unwrap().contains("401"), "{json}");

    let (ended, asked) = played(&checkout, vec![], &["--repo", "/nonexistent"]).await;
    check(&ended, 64, "failed");
    assert_eq!(asked, 0);
    let (ended, asked) = played(&checkout, vec![], &["--set", "budget.max_turn=3"]).await;
    check(&ended, 78, "failed");
    assert_eq!(asked, 0, "the model is not asked before the configuration is right");

    // Nobody watched: each run that began has its record, the newest first.
    let ledger = checkout.user.run(&["ledger", "--json"]);
    let ledger = ledger.assert_code(0).json();
    let records = ledger["records"].as_array().unwrap();
    let states: Vec<&str> = records.iter().map(|record| record["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["failed", "limit", "stuck", "refused", "nothing_to_do", "done"]);
    let done = records.last().unwrap();
    assert_eq!(done["subject"], "task/add-do-not-subtract");
    assert!(done["commits"][0]["sha"].is_string(), "{done}");
    checkout.user.assert_tidy();
}

/// What is wrong in four places is told at once, before a checkout, a check or a model call.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_configuration_is_told_whole_at_the_start() {
    let checkout = Checkout::new();
    checkout.write(
        ".github/forgehand.toml",
        "test = [\"touch ran; false\"]\n[permission]\nallow = [\"bash:*\"]\n",
    );
    checkout.write(".forgehand.env", "FORGEHAND_BUDGET__MAX_TURNS=many\nnonsense\n");
    checkout.commit("Wrong in places");
    checkout
        .user
        .write("home/.config/forgehand/trust.toml", "\"relative\" = true\n");
    let skills = checkout.user.write("skills/broken/SKILL.md", "no front matter");
    let skills = skills.parent().unwrap().parent().unwrap().display().to_string();
    let skills = format!("agent.skills_dir={skills}");

    let wrong = ["--set", "budget.max_minutes=soon", "--set", "queue.worker=3"];
    let (ended, asked) = played(&checkout, vec![], &wrong).await;
    ended
        .assert_code(78)
        .assert_err("budget.max_minutes: ")
        .assert_err("did you mean queue.workers?")
        .assert_err("`.github/forgehand.toml`: permission.allow: \"bash:*\" names no tool")
        .assert_err("not an absolute path");
    assert_eq!(asked, 0);

    // Once the file of trust is right, what is trusted is read, and can be wrong, too.
    std::fs::remove_file(checkout.user.path("home/.config/forgehand/trust.toml")).unwrap();
    let (ended, asked) = played(
        &checkout,
        vec![],
        &["--trust", "once", "--set", &skills, "--allow", "bash:ls"],
    )
    .await;
    ended
        .assert_code(78)
        .assert_err("`.github/forgehand.toml`: permission.allow: \"bash:*\"")
        .assert_err(".forgehand.env line 2: a line is written NAME=value")
        .assert_err("permission.allow: \"bash:ls\" names no tool")
        .assert_err("agent.skills_dir: ");
    assert_eq!(asked, 0);
    assert!(!ended.err.contains("Check out"), "before any work: {}", ended.err);
    assert!(checkout.other_branches().is_empty());
    checkout.user.assert_tidy();
}

/// J17: a mode that asks about everything, and nobody to ask, is a mistake that is told at once.
#[tokio::test(flavor = "multi_thread")]
async fn j17_a_run_that_nobody_could_permit_anything_fails_at_the_start() {
    let checkout = Checkout::new();
    let ask = ["--set", "permission.sandboxed=ask"];
    let (ended, asked) = played(&checkout, vec![], &ask).await;
    ended
        .assert_code(78)
        .assert_err("permission.sandboxed: ")
        .assert_err("permission.allow");
    assert_eq!(asked, 0);
    let done = || finish("done", "The operator was the wrong one.");
    let (ended, _) = played(&checkout, vec![mend(), done()], &[&ask[..], &["--yes"]].concat()).await;
    check(&ended, 0, "done");
}

/// There is one table, and the README repeats it.
#[test]
fn the_help_and_the_readme_name_the_same_codes() {
    let checkout = Checkout::new();
    let help = checkout.user.run(&["run", "--help"]);
    let (_, table) = help.out.split_once("Exit codes:\n").unwrap();
    let lines: Vec<&str> = table
        .lines()
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    let codes: Vec<&str> = lines.iter().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(codes, ["0", "2", "3", "4", "5", "64", "78", "130"]);
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    for line in lines {
        assert!(readme.contains(line), "the README does not say {line:?}");
    }
}
