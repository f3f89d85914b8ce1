//! `forgehand doctor` and the commands around the database: a hint is no failure, nothing is made by
//! looking, and what is missing is said.

use serde_json::Value;

use super::{User, ended, snapshot};

fn status<'a>(report: &'a Value, what: &str) -> (&'a str, &'a str) {
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["what"] == what).unwrap();
    (found["status"].as_str().unwrap(), found["detail"].as_str().unwrap())
}

#[test]
fn on_a_fresh_machine_there_are_hints_and_nothing_is_made() {
    let user = User::new();
    let text = user.run(&["doctor"]);
    text.assert_code(0)
        .assert_out("hint  github    no App yet")
        .assert_out("hint  model     none is set up")
        .assert_out("ok    git       git ")
        .assert_out("ok    sandbox   local (namespaces");
    let json = user.run(&["doctor", "--json"]);
    let report = json.assert_code(0).json();
    assert_eq!(report["ok"], true);
    assert_eq!(status(&report, "github").0, "hint");
    assert_eq!(status(&report, "sandbox").0, "ok");
    assert!(
        status(&report, "database")
            .1
            .contains("none yet; `forgehand serve` makes ")
    );
    assert!(report["configuration"].as_array().unwrap().len() > 40);
    assert!(snapshot(&user.work()).is_empty() && !user.work().join(".forgehand").exists());
    user.assert_tidy();
}

#[test]
fn what_is_half_set_up_is_a_failure() {
    let user = User::new();
    let half = user.run(&["doctor", "--set", "github.app_id=7"]);
    half.assert_code(1)
        .assert_out("FAIL  github")
        .assert_out("github.private_key_file and github.webhook_secret_file")
        .assert_out("one thing has to be mended");
    let wrong = user.run(&[
        "doctor",
        "--json",
        "--set",
        "model.provider=openai",
        "--set",
        "model.base_url=ftp://x",
    ]);
    let report = wrong.assert_code(1).json();
    assert_eq!(report["ok"], false);
    assert_eq!(status(&report, "model").0, "problem");
    assert!(status(&report, "model").1.contains("model.base_url"));
    user.write("work/file", "");
    let nowhere = user.run(&["doctor", "--set", "server.state_dir=file/state"]);
    nowhere
        .assert_code(1)
        .assert_out("FAIL  database")
        .assert_out("file is not a folder");
    user.run(&["doctor", "--invariants"])
        .assert_code(1)
        .assert_err("there is no database at");
}

#[test]
fn a_database_that_is_there_is_looked_at_and_stays_as_it_is() {
    let user = User::new();
    user.run(&["migrate"])
        .assert_code(0)
        .assert_out("the sqlite database is up to date");
    let before = snapshot(&user.work());
    let report = user.run(&["doctor", "--json"]).json();
    assert!(status(&report, "database").1.contains("sqlite answers"));
    user.run(&["doctor", "--invariants"])
        .assert_code(0)
        .assert_out("every invariant holds");
    // Not assert_eq: nobody wants to read a database in a message.
    assert!(snapshot(&user.work()) == before, "looking changed a file");
    user.run(&["migrate"]).assert_code(0);
    user.run(&["jobs", "list"]).assert_code(0).assert_out("no jobs");
    user.run(&["recover"]).assert_code(0).assert_out("nothing to recover");
    user.run(&["migrate", "--from", "sqlite:a", "--to", "sqlite:b"])
        .assert_code(1)
        .assert_err("the source: there is no file a");
}

#[test]
fn looking_for_jobs_in_the_wrong_folder_makes_nothing() {
    let user = User::new();
    for arguments in [
        &["jobs", "list"][..],
        &["recover"],
        &["jobs", "retry", "01ARZ3NDEKTSV4RRFFQ69G5FAV"],
    ] {
        user.run(arguments)
            .assert_code(1)
            .assert_err("there is no database at .forgehand/forgehand.sqlite")
            .assert_err("server.state_dir");
    }
    assert!(snapshot(&user.work()).is_empty() && !user.work().join(".forgehand").exists());
}

#[test]
fn a_home_that_is_empty_or_missing_is_no_problem() {
    let user = User::new();
    for home in [Some(""), None] {
        let mut command = user.forgehand();
        command.arg("doctor").env_remove("HOME");
        if let Some(home) = home {
            command.env("HOME", home);
        }
        ended(command.output().unwrap()).assert_code(0);
    }
}
