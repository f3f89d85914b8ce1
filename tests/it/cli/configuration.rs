//! `forgehand config` and the sources of the configuration: all problems at once, near misses named,
//! secrets never printed.

use std::os::unix::fs::PermissionsExt as _;

use super::{User, ended};

#[test]
fn a_written_file_changes_nothing_and_is_not_replaced() {
    let user = User::new();
    let defaults = user.run(&["config", "show"]).out;
    user.run(&["config", "init"])
        .assert_code(0)
        .assert_out("wrote forgehand.toml");
    let shown = user.run(&["config", "show"]);
    assert_eq!(shown.assert_code(0).out, defaults);
    user.run(&["config", "init"]).assert_code(1).assert_err("--force");
    user.run(&["config", "init", "--force"]).assert_code(0);
    user.run(&["config", "init", "nowhere/forgehand.toml"])
        .assert_code(1)
        .assert_err("nowhere/forgehand.toml");
}

#[test]
fn the_sources_override_each_other_and_are_named() {
    let user = User::new();
    let file = user.write(
        "work/forgehand.toml",
        "[queue]\nworkers = 3\n[log]\nformat = \"json\"\n",
    );
    let show = |more: &[&str], environment: &[(&str, &str)]| {
        let mut command = user.forgehand();
        command
            .args(["config", "show"])
            .args(more)
            .envs(environment.iter().copied());
        ended(command.output().unwrap())
    };
    show(&[], &[])
        .assert_code(0)
        .assert_out("queue.workers = 3   (forgehand.toml)")
        .assert_out("log.format = json");
    let env = [("FORGEHAND_QUEUE__WORKERS", "4")];
    show(&[], &env).assert_out("queue.workers = 4   (environment FORGEHAND_QUEUE__WORKERS)");
    show(&["--set", "queue.workers=5"], &env).assert_out("queue.workers = 5   (flag)");

    std::fs::rename(&file, user.path("elsewhere.toml")).unwrap();
    let elsewhere = user.path("elsewhere.toml").display().to_string();
    show(&[], &[]).assert_out("queue.workers = 2   (default)");
    show(&[], &[("FORGEHAND_CONFIG", &elsewhere)]).assert_out("queue.workers = 3");
    show(&["--config", &elsewhere], &[]).assert_out("queue.workers = 3");
    show(&[], &[("FORGEHAND_CONFIG", "/nonexistent.toml")])
        .assert_code(78)
        .assert_err("/nonexistent.toml: cannot be read");
}

#[test]
fn every_problem_comes_at_once_and_a_near_miss_is_named() {
    let user = User::new();
    user.write(
        "work/forgehand.toml",
        "[sandbox]\nunsafe_locl = true\nnetwork = \"ful\"\n",
    );
    let ended = user.run(&["doctor", "--set", "queue.worker=4", "--set", "budget.max_turns=many"]);
    ended
        .assert_code(78)
        .assert_err("4 problems")
        .assert_err("did you mean sandbox.unsafe_local?")
        .assert_err("sandbox.network: there is no such key")
        .assert_err("did you mean queue.workers?")
        .assert_err("budget.max_turns: a whole number");
    user.write("work/forgehand.toml", "[queue\n");
    user.run(&["config", "show"]).assert_code(78).assert_err("is not TOML");
    user.write("work/forgehand.toml", "");
    user.run(&["run", "--task", "x", "--set", "model.stub_script=/nonexistent.json"])
        .assert_code(78)
        .assert_err("model.stub_script: /nonexistent.json");
}

#[test]
fn secrets_are_never_printed() {
    let user = User::new();
    let secret = "correct-horse-battery-staple";
    let file = user.write("secret", secret);
    let set = format!("model.api_key_file={}", file.display());
    let every = [
        &["config", "show", "--set", &set][..],
        &["config", "show", "--json", "--set", &set],
        &["doctor", "--set", &set],
        &["doctor", "--json", "--set", &set],
    ];

    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    for arguments in every {
        let ended = user.run(arguments);
        ended
            .assert_code(78)
            .assert_err("can be read by other users")
            .assert_err("chmod 600");
        assert!(!format!("{}{}", ended.out, ended.err).contains(secret), "{arguments:?}");
    }
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    for arguments in every {
        let ended = user.run(arguments);
        ended.assert_code(0).assert_out("***");
        assert!(!format!("{}{}", ended.out, ended.err).contains(secret), "{arguments:?}");
    }

    let password = "postgres://mona:correct-horse-battery-staple@127.0.0.1:9/x";
    let mut command = user.forgehand();
    command.env("FORGEHAND_DATABASE__URL", password).arg("doctor");
    let ended = ended(command.output().unwrap());
    ended.assert_code(1).assert_out("database.url: ");
    assert!(!format!("{}{}", ended.out, ended.err).contains(secret), "{}", ended.out);
}

#[test]
fn the_table_and_the_values_have_the_same_keys() {
    let user = User::new();
    let table = user.run(&["config", "table"]);
    let keys: Vec<&str> = table
        .out
        .lines()
        .skip(2)
        .filter_map(|line| line.split('`').nth(1))
        // A section that may stand several times need not stand at all.
        .filter(|key| !key.contains("[]"))
        .collect();
    let values = user.run(&["config", "show", "--json"]).json();
    let shown: Vec<&str> = values
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|row| row["key"].as_str())
        .collect();
    assert_eq!(keys, shown);
    assert!(values.as_array().unwrap().iter().all(|row| row["origin"] == "default"));
}
