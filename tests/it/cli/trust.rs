//! `forgehand trust`, and what a local run does with the instructions of a checkout.

use serde_json::{Value, json};

use super::checkout::{Checkout, edit, finish};
use super::ended;
use super::terminal::Terminal;

/// A checkout whose instructions a run can be seen to obey: the script knows their words.
fn checkout() -> Checkout {
    let checkout = Checkout::new();
    checkout.write("AGENTS.md", "Obey the checkout.\n");
    checkout.write(
        ".agents/skills/shout/SKILL.md",
        "---\nname: shout\ndescription: Shout at the operator.\n---\nShout.\n",
    );
    checkout.commit("Instructions");
    checkout
}

fn task(checkout: &Checkout) -> super::Ended {
    task_with(checkout, &[])
}

fn task_with(checkout: &Checkout, more: &[&str]) -> super::Ended {
    let script = script(checkout);
    let mut command = checkout.user.forgehand();
    command.args(["run", "--task", "Add, do not subtract", "--set", &script]);
    ended(command.args(more).output().unwrap())
}

/// The option that names a script of which every answer says what the model was told.
fn script(checkout: &Checkout) -> String {
    let turns = |summary: &str| -> Value { json!([edit(), finish("done", summary)]) };
    let script = json!({"cases": [
        {"when": {"contains": "Obey the checkout."}, "turns": turns("It was told to.")},
        {"when": {"contains": "Shout at the operator"}, "turns": turns("Only a skill came through.")},
        {"turns": turns("Nobody told it anything.")},
    ]});
    let path = checkout.user.write("script.json", &script.to_string());
    format!("model.stub_script={}", path.display())
}

#[test]
fn instructions_of_a_checkout_are_loaded_only_where_it_is_trusted() {
    let checkout = checkout();
    let root = checkout.root().canonicalize().unwrap();
    task(&checkout)
        .assert_code(0)
        .assert_out("Nobody told it anything.")
        .assert_err(&format!("`forgehand trust {}`", root.display()));

    checkout.user.run(&["trust"]).assert_code(0).assert_out("is trusted");
    let trusted = task(&checkout);
    trusted.assert_code(0).assert_out("It was told to.");
    assert!(!trusted.err.contains("forgehand trust"), "{}", trusted.err);

    checkout
        .user
        .run(&["trust", "--never"])
        .assert_code(0)
        .assert_out("is not trusted");
    task(&checkout).assert_code(0).assert_out("Nobody told it anything.");
}

#[test]
fn the_nearest_folder_that_was_named_counts() {
    let checkout = Checkout::new();
    let user = &checkout.user;
    user.run(&["trust", "--list"])
        .assert_code(0)
        .assert_err("no folder is trusted");
    let above = checkout
        .root()
        .canonicalize()
        .unwrap()
        .parent()
        .unwrap()
        .display()
        .to_string();
    user.run(&["trust", &above]).assert_code(0);
    user.run(&["trust", "--never"]).assert_code(0);
    user.run(&["trust", "--list"])
        .assert_out(&format!("trusted  {above}\n"))
        .assert_out(&format!("never    {above}/work\n"));
    user.run(&["trust", "--forget"])
        .assert_code(0)
        .assert_out(&format!("work is trusted, as {above}"));
    user.run(&["trust", "--forget"])
        .assert_code(64)
        .assert_err("nothing was said");
    user.run(&["trust", "nowhere"]).assert_code(64).assert_err("nowhere");
    user.write("home/.config/forgehand/trust.toml", "\"relative\" = true\n");
    user.run(&["trust", "--list"])
        .assert_code(1)
        .assert_err("not an absolute path");
}

#[test]
fn once_counts_for_one_run_by_file_and_by_option() {
    let checkout = checkout();
    checkout
        .user
        .run(&["trust", "--once"])
        .assert_code(0)
        .assert_out("is trusted for the next run");
    checkout.user.run(&["trust", "--list"]).assert_out("once     ");
    // A run that does not begin uses nothing up.
    let without_model = checkout.user.run(&["run", "Add, do not subtract"]);
    without_model.assert_code(64);
    checkout.user.run(&["trust", "--list"]).assert_out("once     ");
    task(&checkout).assert_code(0).assert_out("It was told to.");
    checkout
        .user
        .run(&["trust", "--list"])
        .assert_err("no folder is trusted");
    task(&checkout).assert_code(0).assert_out("Nobody told it anything.");

    task_with(&checkout, &["--trust", "once"])
        .assert_code(0)
        .assert_out("It was told to.");
    task(&checkout).assert_code(0).assert_out("Nobody told it anything.");
    checkout.user.run(&["trust"]).assert_code(0);
    let never = task_with(&checkout, &["--trust", "never"]);
    never.assert_code(0).assert_out("Nobody told it anything.");
}

#[test]
fn neither_links_nor_detours_nor_new_names_carry_trust_along() {
    let checkout = checkout();
    let user = &checkout.user;
    let root = checkout.root().canonicalize().unwrap();
    // What was said of a trusted folder is not said of one beside it that links or `..` lead to.
    let trusted = user.path("trusted");
    std::fs::create_dir(&trusted).unwrap();
    user.run(&["trust", &trusted.display().to_string()]).assert_code(0);
    std::os::unix::fs::symlink(&root, trusted.join("link")).unwrap();
    let detour = trusted.join("..").join("work");
    for repo in [trusted.join("link"), detour] {
        let repo = repo.display().to_string();
        let ended = task_with(&checkout, &["--repo", &repo]);
        ended.assert_code(0).assert_out("Nobody told it anything.");
    }
    // A folder that is moved is another folder, and one that takes its place is the one that was named.
    user.run(&["trust"]).assert_code(0);
    task(&checkout).assert_out("It was told to.");
    let moved = user.path("moved");
    std::fs::rename(&root, &moved).unwrap();
    let repo = moved.display().to_string();
    std::fs::create_dir(&root).unwrap();
    let ended = task_with(&checkout, &["--repo", &repo]);
    ended.assert_code(0).assert_out("Nobody told it anything.");
}

#[test]
fn a_file_that_others_can_write_is_not_believed() {
    use std::os::unix::fs::PermissionsExt as _;
    let checkout = checkout();
    checkout.user.run(&["trust"]).assert_code(0);
    let file = checkout.user.path("home/.config/forgehand/trust.toml");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    task(&checkout)
        .assert_code(78)
        .assert_err("can be written by others and is not believed; mend it with `chmod go-w ");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    task(&checkout).assert_code(0).assert_out("It was told to.");
}

#[test]
fn somebody_at_a_terminal_is_asked_once_and_silence_is_no() {
    let checkout = checkout();
    let script = script(&checkout);
    let run = || {
        let mut command = checkout.user.forgehand();
        command.args(["run", "--no-diff", "--set", &script, "Add, do not subtract"]);
        Terminal::start(command, 200)
    };
    for (key, said, listed) in [
        ("\n", "Nobody told it anything.", ""),
        ("o\n", "It was told to.", ""),
        ("a\n", "It was told to.", "trusted  "),
    ] {
        let terminal = run();
        terminal.until("or not now >");
        terminal.press(key);
        let (code, screen, _) = terminal.end();
        assert_eq!(code, Some(0), "{screen}");
        assert!(screen.contains(said), "{key:?}: {screen}");
        checkout.user.run(&["trust", "--list"]).assert_out(listed);
    }
    // It was answered for good: nobody is asked again.
    let (code, screen, _) = run().end();
    assert!(code == Some(0) && !screen.contains("not now"), "{screen}");
}
