//! `forgehand trust`, and what a local run does with the instructions of a checkout.

use serde_json::{Value, json};

use super::checkout::{Checkout, edit, finish};
use super::ended;

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
    let turns = |summary: &str| -> Value { json!([edit(), finish("done", summary)]) };
    let script = json!({"cases": [
        {"when": {"contains": "Obey the checkout."}, "turns": turns("It was told to.")},
        {"when": {"contains": "Shout at the operator"}, "turns": turns("Only a skill came through.")},
        {"turns": turns("Nobody told it anything.")},
    ]});
    let path = checkout.user.write("script.json", &script.to_string());
    let mut command = checkout.user.forgehand();
    command.args(["run", "--task", "Add, do not subtract", "--set"]);
    ended(
        command
            .arg(format!("model.stub_script={}", path.display()))
            .output()
            .unwrap(),
    )
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
