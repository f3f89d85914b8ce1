//! The help of every command, as people read it. A changed text shows in a changed snapshot.

use super::User;

/// Every command with its help.
const COMMANDS: &[&str] = &[
    "",
    "serve",
    "worker",
    "run",
    "goal",
    "milestones",
    "milestones add",
    "milestones import",
    "milestones remove",
    "trust",
    "replay",
    "demo",
    "show",
    "jobs",
    "jobs list",
    "jobs show",
    "jobs answer",
    "jobs cancel",
    "jobs retry",
    "schedule",
    "schedule list",
    "schedule add",
    "schedule remove",
    "schedule run",
    "schedule history",
    "draft",
    "drafts",
    "drafts list",
    "drafts show",
    "index",
    "search",
    "graph",
    "autotask",
    "autotask on",
    "autotask off",
    "autotask status",
    "autotask once",
    "costs",
    "ledger",
    "eval",
    "eval retrieval",
    "audit",
    "audit list",
    "audit verify",
    "audit export",
    "retention",
    "recover",
    "doctor",
    "migrate",
    "backup",
    "config",
    "config init",
    "config show",
    "completions",
];

#[test]
fn the_help_of_every_command() {
    let user = User::new();
    for &command in COMMANDS {
        let mut words: Vec<&str> = command.split(' ').filter(|word| !word.is_empty()).collect();
        words.push("--help");
        let ended = user.run(&words);
        ended.assert_code(0);
        let name = format!("help_{}", command.replace(' ', "_"));
        insta::assert_snapshot!(name.trim_end_matches('_'), ended.out);
    }
    user.assert_tidy();
}

#[test]
fn every_command_that_help_lists_has_its_snapshot() {
    let user = User::new();
    let help = user.run(&["--help"]).out;
    let list = help
        .split("Commands:")
        .nth(1)
        .and_then(|rest| rest.split("Options:").next());
    for line in list
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
    {
        let name = line.split_whitespace().next().unwrap();
        assert!(COMMANDS.contains(&name) || name == "help", "{name} has no snapshot");
    }
}

#[test]
fn version_and_wrong_usage() {
    let user = User::new();
    let version = user.run(&["--version"]);
    assert_eq!(
        version.assert_code(0).out,
        format!("forgehand {}\n", env!("CARGO_PKG_VERSION"))
    );
    user.run(&["--no-such-flag"])
        .assert_code(64)
        .assert_err("--no-such-flag");
    user.run(&["dmeo"]).assert_code(64).assert_err("demo");
    user.run(&[]).assert_code(64).assert_err("Usage");
    user.run(&["config", "show", "--set", "queue.workers"])
        .assert_code(64)
        .assert_err("SECTION.KEY=VALUE");
}

#[test]
fn completions_are_scripts_of_their_shells() {
    let user = User::new();
    for (shell, word) in [
        ("bash", "complete -F _forgehand"),
        ("zsh", "#compdef forgehand"),
        ("fish", "complete -c forgehand"),
    ] {
        user.run(&["completions", shell])
            .assert_code(0)
            .assert_out(word)
            .assert_out("doctor");
    }
    user.run(&["completions", "tcsh"]).assert_code(64).assert_err("bash");
}
