//! Schedules of the configuration at the command line: shown, kept apart from those that were added,
//! and wrong ones refused at the start with everything that is wrong.

use super::User;

const GOOD: &str = r#"
[[schedule]]
name = "nightly"
cron = "30 2 * * *"
timezone = "Europe/Berlin"
repository = "octo/words"
task = "Update the dependencies."

[[schedule]]
name = "notes"
cron = "30 7 * * MON-FRI"
repository = "octo/words"
skill = "release-notes"
enabled = false
"#;

#[test]
fn schedules_of_the_file_are_shown_and_changed_there() {
    let user = User::new();
    user.write("work/forgehand.toml", GOOD);
    user.run(&["config", "show"])
        .assert_code(0)
        .assert_out("schedule[1].cron = 30 2 * * *   (forgehand.toml)")
        .assert_out("schedule[2].timezone = UTC   (default)");
    user.run(&["migrate"]).assert_code(0);
    user.run(&["schedule", "list"])
        .assert_code(0)
        .assert_out("nightly  octo/words  every day at 02:30, Europe/Berlin")
        .assert_out("notes  octo/words  every weekday at 07:30, UTC  (disabled)");
    let listed = user.run(&["schedule", "list", "--json"]).json();
    assert_eq!(listed[0]["source"], "file");
    assert_eq!(listed[0]["next"].as_array().unwrap().len(), 3);
    assert_eq!(listed[1]["next"].as_array().unwrap().len(), 0, "it is off");
    for arguments in [
        &["schedule", "remove", "nightly"][..],
        &[
            "schedule",
            "add",
            "nightly",
            "--cron",
            "@daily",
            "--repo",
            "octo/words",
            "--task",
            "x",
        ],
    ] {
        user.run(arguments)
            .assert_code(1)
            .assert_err("nightly stands in forgehand.toml as schedule[1]");
    }
    user.run(&["schedule", "history", "nightly"])
        .assert_code(0)
        .assert_out("nightly has not fired yet");
    user.run(&["schedule", "history", "nightli"])
        .assert_code(1)
        .assert_err("did you mean nightly?");
    user.run(&["schedule", "list", "--set", "schedule.cron=@daily"])
        .assert_code(78)
        .assert_err("schedule.cron: [[schedule]] is read from the file only (flag)");
}

#[test]
fn a_wrong_schedule_ends_the_service_at_its_start_with_everything_that_is_wrong() {
    let user = User::new();
    user.write(
        "work/forgehand.toml",
        r#"
[[schedule]]
name = "Nightly"
crn = "30 2 * * *"
timezone = "Europe/Berln"
repository = "words"
task = "x"
skil = "y"

[[schedule]]
name = "b"
cron = "30 2 31 2 *"
repository = "octo/words"
task = "x"
graph = "g"
jitter_seconds = "soon"
catch_up = "twice"

[[schedule]]
name = "b"
cron = "@daily"
repository = "octo/words"
eval = "../swe"
"#,
    );
    user.run(&["serve"])
        .assert_code(78)
        .assert_err("schedule[1].crn: there is no such key (forgehand.toml); did you mean schedule[1].cron?")
        .assert_err("schedule[1].skil: there is no such key (forgehand.toml); did you mean schedule[1].skill?")
        .assert_err("schedule[1].name: \"Nightly\" is no name")
        .assert_err("schedule[1].cron: is missing")
        .assert_err("schedule[1].timezone: there is no time zone \"Europe/Berln\"; did you mean Europe/Berlin?")
        .assert_err("schedule[1].repository: \"words\" is not a repository name")
        .assert_err("schedule[2].cron: \"30 2 31 2 *\" is no cron expression: there is no such day in any year")
        .assert_err("schedule[2].graph: stands beside a task")
        .assert_err("schedule[2].jitter_seconds: a whole number is expected, found string")
        .assert_err("schedule[2].catch_up: \"twice\" is not one of `once` `none`")
        .assert_err("schedule[3].name: schedule[2] has the same name")
        .assert_err("schedule[3].eval: the path of a file in the repository")
        .assert_err("12 problems");
    user.write("work/forgehand.toml", "[schedule]\nname = \"a\"\n");
    user.run(&["doctor"])
        .assert_code(78)
        .assert_err("schedule: is written [[schedule]], with two brackets on each side");
    user.write("work/forgehand.toml", "schedule = [1]\n[[queue]]\nworkers = 2\n");
    user.run(&["doctor"])
        .assert_code(78)
        .assert_err("schedule[1]: a section in brackets is expected, found integer")
        .assert_err("queue: a section in brackets is expected, found array");
}

#[test]
fn a_wrong_schedule_is_not_added() {
    let user = User::new();
    let add = [
        "schedule",
        "add",
        "a",
        "--cron",
        "often",
        "--repo",
        "octo/words/x",
        "--timezone",
        "Mars/Olympus",
    ];
    user.run(&[&add[..], &["--task", "x"]].concat())
        .assert_code(64)
        .assert_err("--cron: \"often\" is no cron expression: it has one field")
        .assert_err("--timezone: there is no time zone \"Mars/Olympus\"")
        .assert_err("--repo: ");
    user.run(&add).assert_code(64).assert_err("--task");
    user.run(&["schedule", "list"])
        .assert_code(0)
        .assert_out("no schedules");
}
