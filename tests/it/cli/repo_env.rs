//! `.forgehand.env` of a checkout: what it lowers, what it may not touch, and that it counts only
//! where the checkout is trusted.

use serde_json::json;

use super::Ended;
use super::checkout::{Checkout, edit, finish};

const SECRET: &str = "correct-horse-battery-staple";

fn checkout(env: &str) -> Checkout {
    let checkout = Checkout::new();
    checkout.write(".forgehand.env", env);
    checkout.commit("Tune it");
    checkout
}

/// A run that needs three replies.
fn task(checkout: &Checkout, more: &[&str]) -> Ended {
    let talk = json!({"say": "I think about it."});
    checkout.task(&json!([talk, edit(), finish("done", "Mended.")]), more)
}

#[test]
fn it_lowers_a_limit_where_the_checkout_is_trusted() {
    let checkout = checkout("FORGEHAND_BUDGET__MAX_TURNS=1\n");
    task(&checkout, &[])
        .assert_code(0)
        .assert_err(".forgehand.env of this checkout are not loaded, because nobody trusts it");
    task(&checkout, &["--trust", "once"])
        .assert_code(3)
        .assert_out("Stopped by a limit");
    // What the person says for this process counts more.
    let ended = task(&checkout, &["--trust", "once", "--max-turns", "9"]);
    ended
        .assert_code(0)
        .assert_err("FORGEHAND_BUDGET__MAX_TURNS: it is set for this process");
    checkout.user.assert_tidy();
}

#[test]
fn the_work_tree_does_not_count() {
    let checkout = checkout("FORGEHAND_BUDGET__MAX_TURNS=50\n");
    checkout.write(".forgehand.env", "FORGEHAND_BUDGET__MAX_TURNS=1\n");
    task(&checkout, &["--trust", "once"]).assert_code(0);
}

#[test]
fn whatever_else_stands_in_it_is_refused_by_name_and_never_by_value() {
    let names = [
        "LD_PRELOAD",
        "PATH",
        "BASH_ENV",
        "GIT_SSH_COMMAND",
        "NODE_OPTIONS",
        "PYTHONPATH",
        "HTTP_PROXY",
        "FORGEHAND_MODEL__API_KEY",
        "FORGEHAND_MODEL__BASE_URL",
        "FORGEHAND_PERMISSION__ALLOW",
        "FORGEHAND_SANDBOX__UNSAFE_LOCAL",
        "forgehand_budget__max_turns",
        "Path",
    ];
    let lines: Vec<String> = names.iter().map(|name| format!("{name}={SECRET}")).collect();
    let checkout = checkout(&format!("{}\nFORGEHAND_BUDGET__MAX_COST_USD=500\n", lines.join("\n")));
    checkout.write("test.sh", "env > /tmp/env.txt; ! grep -q correct-horse /tmp/env.txt\n");
    checkout.commit("Look at the environment");
    let events = checkout.user.path("events.jsonl").display().to_string();
    let turns = json!([edit(), finish("done", "Mended.")]);
    let more = ["--trust", "once", "--events", &events];
    let ended = checkout.task(&turns, &more);
    ended.assert_code(0);
    let written = std::fs::read_to_string(&events).unwrap();
    for name in names.iter().chain(&["FORGEHAND_BUDGET__MAX_COST_USD"]) {
        let words = format!(": {name}: ");
        assert!(ended.err.contains(&words), "{name} is not warned about:\n{}", ended.err);
        assert!(written.contains(&words), "{name} is not in the events");
    }
    for text in [&ended.out, &ended.err, &written] {
        assert!(!text.contains(SECRET), "a value is repeated: {text}");
    }
    // Also where nothing is shown but the result.
    let quiet = checkout.task(&turns, &["--trust", "once", "--quiet"]);
    quiet.assert_code(0).assert_err("LD_PRELOAD: variables of the loader");
}
