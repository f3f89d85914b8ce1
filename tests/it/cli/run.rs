//! `forgehand run` on a user's checkout: what is left there, what is said, and the exit codes.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::json;

use super::checkout::{Checkout, call, change, edit, finish, fix};
use super::{User, snapshot, wait};

#[test]
fn a_fix_is_shown_and_left_on_a_branch_and_nothing_else_changes() {
    let checkout = Checkout::new();
    checkout.write("add.sh", "echo a stash\n");
    checkout.git(&["stash"]);
    checkout.write("staged.txt", "in the index only\n");
    checkout.git(&["add", "staged.txt"]);
    checkout.write("test.sh", "echo not committed; exit 1\n");
    checkout.write("untracked.txt", "mine\n");
    let before = snapshot(&checkout.root());

    let ended = checkout.task(&fix(), &[]);

    ended
        .assert_code(0)
        .assert_out("-echo $(($1 - $2))\n+echo $(($1 + $2))")
        .assert_out("sh test.sh  ✗ exit 1  ✓ exit 0")
        .assert_out("Add instead of subtracting\n\nThe operator was the wrong one.")
        .assert_out("agent/add-do-not-subtract")
        .assert_err("what you have not committed (2 changed files, 1 untracked file) is left out");
    assert_eq!(checkout.other_branches(), ["agent/add-do-not-subtract"]);
    let message = checkout.git(&["log", "-1", "--format=%B", "agent/add-do-not-subtract"]);
    assert_eq!(message, "Add instead of subtracting\n\nThe operator was the wrong one.");
    let changed = checkout.git(&["diff", "--name-status", "main", "agent/add-do-not-subtract"]);
    assert_eq!(changed, "M\tadd.sh");
    assert_eq!(
        checkout.git(&["rev-parse", "agent/add-do-not-subtract^"]),
        checkout.git(&["rev-parse", "main"])
    );
    checkout.git(&["fsck", "--strict", "--no-dangling"]);

    let mut after = snapshot(&checkout.root());
    let in_git = |path: &std::path::Path, part: &str| path.starts_with(checkout.root().join(".git").join(part));
    after.retain(|path, content| {
        let same = before.get(path) == Some(content);
        assert!(
            same || in_git(path, "objects")
                || in_git(path, "refs/heads/agent")
                || in_git(path, "logs/refs/heads/agent"),
            "{} is not as it was",
            path.display()
        );
        same
    });
    assert_eq!(after, before);
    checkout.user.assert_tidy();
}

#[test]
fn it_works_from_a_subfolder_and_in_a_linked_work_tree() {
    let checkout = Checkout::new();
    checkout.write("docs/deep/notes.md", "notes\n");
    checkout.commit("Add notes");
    let below = checkout.root().join("docs/deep");
    checkout
        .task_in(&below, &fix(), &["--branch", "from-below"])
        .assert_code(0);

    let beside = checkout.user.path("beside");
    let path = beside.display().to_string();
    checkout.git(&["worktree", "add", "--quiet", "-b", "beside", &path]);
    std::fs::write(beside.join("more.txt"), "more\n").unwrap();
    checkout.git_in(&beside, &["add", "more.txt"]);
    checkout.git_in(&beside, &["commit", "--quiet", "-m", "Only here"]);
    checkout
        .task_in(&beside, &fix(), &["--branch", "from-beside"])
        .assert_code(0);

    assert_eq!(checkout.other_branches(), ["beside", "from-below", "from-beside"]);
    assert_eq!(
        checkout.git(&["rev-parse", "from-beside^"]),
        checkout.git(&["rev-parse", "beside"])
    );
    assert_eq!(checkout.git_in(&beside, &["branch", "--show-current"]), "beside");
    checkout.user.assert_tidy();
}

/// G25: a folder is a folder, whatever it is called.
#[test]
fn g25_a_checkout_may_be_called_like_a_host() {
    let checkout = Checkout::new();
    let clone = checkout.user.path("github.com");
    let path = clone.display().to_string();
    checkout.git(&["clone", "--quiet", ".", &path]);
    checkout.task_in(&clone, &fix(), &[]).assert_code(0);
    let changed = checkout.git_in(&clone, &["diff", "--name-status", "main", "agent/add-do-not-subtract"]);
    assert_eq!(changed, "M\tadd.sh");
    assert_eq!(
        checkout.other_branches(),
        Vec::<String>::new(),
        "the origin is left alone"
    );
}

/// G20: what the agent sets for all of git is gone with its home folder.
#[test]
fn g20_the_users_own_settings_of_git_stay() {
    let checkout = Checkout::new();
    let mine = "[user]\n\tname = Mona\n";
    checkout.user.write("home/.gitconfig", mine);
    let set = "git config --global user.name Other && git config --global --get user.name";
    let turns = json!([
        call("run_command", json!({"command": set})),
        edit(),
        finish("done", "The operator was the wrong one."),
    ]);
    checkout.task(&turns, &[]).assert_code(0);
    let now = std::fs::read_to_string(checkout.user.path("home/.gitconfig")).unwrap();
    assert_eq!(now, mine);
    let author = checkout.git(&["log", "-1", "--format=%an", "agent/add-do-not-subtract"]);
    assert_ne!(author, "Other");
}

#[test]
fn a_branch_that_exists_gets_a_sibling() {
    let checkout = Checkout::new();
    checkout.git(&["branch", "mine"]);
    checkout.git(&["branch", "agent"]);
    checkout.task(&fix(), &["--branch", "mine"]).assert_code(0);
    // Where `agent` is a branch, `agent/…` cannot be one.
    checkout.task(&fix(), &[]).assert_code(0);

    let branches = checkout.other_branches();
    let [agent, beside_agent, mine, beside_mine] = branches.as_slice() else {
        panic!("four branches: {branches:?}");
    };
    assert_eq!((agent.as_str(), mine.as_str()), ("agent", "mine"));
    assert_eq!(beside_agent, "agent-add-do-not-subtract");
    assert!(beside_mine.starts_with("mine-"));
    let main = checkout.git(&["rev-parse", "main"]);
    assert_eq!(checkout.git(&["rev-parse", "mine"]), main);
}

#[test]
fn the_result_is_one_json_document() {
    let checkout = Checkout::new();
    let ended = checkout.task(&fix(), &["--json"]);
    let json = ended.assert_code(0).json();
    let field = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
    assert_eq!((field("outcome"), &json["exit_code"]), ("done".to_owned(), &json!(0)));
    assert_eq!(field("branch"), "agent/add-do-not-subtract");
    assert_eq!(field("commit"), checkout.git(&["rev-parse", &field("branch")]));
    assert_eq!(field("base"), checkout.git(&["rev-parse", "main"]));
    assert_eq!(
        json["files"],
        json!([{"path": "add.sh", "status": "M", "added": 1, "removed": 1}])
    );
    assert!(field("diff").contains("+echo $(($1 + $2))"));
    assert_eq!(json["checks"]["base"][0]["exit_code"], 1);
    assert_eq!(json["checks"]["head"][0]["exit_code"], 0);
    assert_eq!(json["totals"]["turns"], 3);

    let failed = checkout
        .user
        .run(&["run", "--json", "--repo", "/nonexistent", "--task", "x"]);
    let json = failed.assert_code(64).json();
    assert_eq!((&json["outcome"], &json["exit_code"]), (&json!("failed"), &json!(64)));
}

#[test]
fn the_task_may_come_from_standard_input() {
    let checkout = Checkout::new();
    let script = checkout.script(&fix());
    let mut child = checkout
        .user
        .forgehand()
        .args(["run", "--set", &script, "--task", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"Mend the sum\n\nIt says -1 for 2 and 3.\n").unwrap();
    drop(input);
    wait(child).assert_code(0).assert_out("agent/mend-the-sum");
}

#[test]
fn each_way_to_end_has_its_exit_code() {
    let checkout = Checkout::new();
    let talk = json!({"say": "I think about it."});

    checkout
        .task(&json!([finish("nothing_to_do", "It adds already.")]), &[])
        .assert_code(0)
        .assert_out("No change needed: It adds already.");
    checkout
        .task(&json!([finish("refused", "This would break users.")]), &[])
        .assert_code(2)
        .assert_out("Not done: This would break users.");
    checkout
        .task(&json!([talk, talk, talk, talk, talk, talk, talk, talk]), &[])
        .assert_code(2)
        .assert_out("It did not work out: ");
    checkout
        .task(&json!([finish("done", "All is well.")]), &[])
        .assert_code(2)
        .assert_out("no file differs");
    assert!(checkout.other_branches().is_empty());

    checkout
        .task(&json!([edit(), talk]), &["--set", "budget.max_turns=1"])
        .assert_code(3)
        .assert_out("Stopped by a limit: ")
        .assert_out("agent/add-do-not-subtract");
    let message = checkout.git(&["log", "-1", "--format=%s", "agent/add-do-not-subtract"]);
    assert_eq!(message, "Unfinished work: Add, do not subtract");
    checkout.user.assert_tidy();
}

#[test]
fn a_change_that_breaks_what_worked_is_kept_but_not_called_done() {
    let checkout = Checkout::new();
    checkout.write("add.sh", "echo $(($1 + $2))\n");
    checkout.commit("Add at last");
    let broken = change("write_file", json!({"path": "add.sh", "content": "echo 4\n"}));
    let done = finish("done", "Faster.");
    // The result goes back to the agent twice, who insists.
    let turns = json!([broken, done, done, done]);
    let ended = checkout.task(&turns, &["--json"]);
    assert_eq!(ended.assert_code(2).json()["outcome"], "checks_failed");
    assert_eq!(checkout.other_branches().len(), 1);
    checkout
        .task(&turns, &[])
        .assert_code(2)
        .assert_out("Passed before and fails now: sh test.sh");
}

#[test]
fn without_a_model_it_says_what_to_set() {
    let checkout = Checkout::new();
    for arguments in [["run", "--task", "Add"], ["run", "--model=gpt-5", "Add"]] {
        let ended = checkout.user.run(&arguments);
        ended
            .assert_code(64)
            .assert_err("no model is set up")
            .assert_err("FORGEHAND_MODEL__BASE_URL");
        assert!(
            !ended.err.contains("Check out"),
            "it is said before any work: {}",
            ended.err
        );
    }
    // Nobody listens there.
    let nobody = "model.base_url=http://127.0.0.1:9/v1";
    checkout
        .user
        .run(&[
            "run",
            "--task",
            "Add",
            "--set",
            "model.provider=openai",
            "--set",
            nobody,
        ])
        .assert_code(4)
        .assert_err("the model is not available")
        .assert_err("127.0.0.1:9");
    assert!(checkout.other_branches().is_empty());
    checkout.user.assert_tidy();
}

#[test]
fn work_is_kept_when_the_model_goes_away_in_the_middle() {
    let checkout = Checkout::new();
    let ended = checkout.task(&json!([edit()]), &[]);
    ended
        .assert_code(4)
        .assert_err("the stub's script has 1 turns")
        .assert_out("+echo $(($1 + $2))")
        .assert_out("is on the branch agent/add-do-not-subtract");
    let message = checkout.git(&["log", "-1", "--format=%s", "agent/add-do-not-subtract"]);
    assert_eq!(message, "Unfinished work: Add, do not subtract");
    checkout.user.assert_tidy();
}

#[test]
fn folders_that_cannot_be_worked_on_are_wrong_usage() {
    let user = User::new();
    let check = |repo: &str, task: &str, words: &str| {
        user.run(&["run", "--repo", repo, "--task", task])
            .assert_code(64)
            .assert_err(words);
    };
    check("/nonexistent", "x", "/nonexistent");
    check(".", "x", "run `git init` there first");
    check(".", "  ", "the task is empty");
    user.command("git", &user.work())
        .args(["init", "--quiet"])
        .status()
        .unwrap();
    check(".", "x", "commit something first");
    user.run(&["run"]).assert_code(64).assert_err("--task");
    user.run(&["run", "--task", "x", "--branch", "a..b"])
        .assert_code(64)
        .assert_err("branch name");
    user.assert_tidy();
}

#[test]
fn a_broken_file_of_the_repository_is_named_with_its_line() {
    let checkout = Checkout::new();
    checkout.write(
        ".github/forgehand.toml",
        "test = [\"sh test.sh\"]\nnetwork = \"full\"\n",
    );
    checkout.commit("Ask for too much");
    checkout
        .task(&fix(), &[])
        .assert_code(78)
        .assert_err("`.github/forgehand.toml` line 2")
        .assert_err("network");
    checkout.write(
        ".github/forgehand.toml",
        "test = [\"sh test.sh\"]\nprotected_paths = [\"add.*\"]\n",
    );
    checkout.commit("Protect the sum");
    let done = finish("done", "Mended.");
    let ended = checkout.task(&json!([edit(), done, done, done]), &[]);
    ended.assert_code(2).assert_out("Not allowed: ").assert_out("add.sh");
    assert!(checkout.other_branches().is_empty());
}

#[test]
fn a_configured_state_folder_is_used_and_left_with_record_database_and_index() {
    let checkout = Checkout::new();
    let state = checkout.user.path("state");
    let setting = format!("server.state_dir={}", state.display());
    checkout.task(&fix(), &["--set", &setting]).assert_code(0);
    let left = snapshot(&state).into_keys();
    let (records, others): (Vec<_>, Vec<_>) = left.partition(|path| path.starts_with(state.join("records")));
    assert_eq!(records.len(), 1, "{records:?}");
    let is_kept = |path: &std::path::PathBuf| {
        path.starts_with(state.join("index")) || path.display().to_string().contains("/forgehand.sqlite")
    };
    assert!(others.iter().all(is_kept), "{others:?}");
}
