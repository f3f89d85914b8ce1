//! `forgehand replay`: recorded runs once more, without a model, to the same tree or to the turn at
//! which they depart.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::checkout::{Checkout, call, edit, finish, fix};
use super::{Ended, User};
use crate::databases::Database;
use crate::model_server::{ModelServer, Reply};
use crate::process::{Site, finished};

/// The run that a command said it recorded.
fn recorded(ended: &Ended) -> String {
    let words = ended.err.split_once("forgehand replay ").map(|(_, rest)| rest);
    let run = words.and_then(|rest| rest.split_whitespace().next());
    run.unwrap_or_else(|| panic!("no record is named:\n{}", ended.err))
        .to_owned()
}

fn file(checkout: &Checkout, run: &str) -> PathBuf {
    checkout.user.records().join(format!("{run}.jsonl"))
}

/// Replays without a script: what is answered can only be the record.
fn replay(checkout: &Checkout, run: &str) -> Value {
    let ended = checkout.user.run(&["replay", run, "--json"]);
    assert!(matches!(ended.code, Some(0 | 1)), "{:?}\n{}", ended.code, ended.err);
    let mut json = ended.json();
    json["code"] = json!(ended.code);
    json
}

#[test]
fn a_run_ends_in_the_same_tree_again() {
    let checkout = Checkout::new();
    let run = recorded(checkout.task(&fix(), &[]).assert_code(0));
    let tree = checkout.git(&["rev-parse", "agent/add-do-not-subtract^{tree}"]);
    let before = checkout.git(&["for-each-ref"]);
    // What is committed later does not matter.
    checkout.write("add.sh", "echo 7\n");
    checkout.commit("Always seven");

    checkout
        .user
        .run(&["replay", &run])
        .assert_code(0)
        .assert_out("The same: 3 turns")
        .assert_out(&tree);
    let json = replay(&checkout, &run);
    assert_eq!(
        (&json["same"], &json["departed"], &json["code"]),
        (&json!(true), &Value::Null, &json!(0))
    );
    assert_eq!((&json["tree"], &json["recorded_tree"]), (&json!(tree), &json!(tree)));

    let path = file(&checkout, &run);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let elsewhere = checkout.user.path("elsewhere.jsonl");
    std::fs::copy(&path, &elsewhere).unwrap();
    assert_eq!(replay(&checkout, elsewhere.to_str().unwrap())["same"], true);
    let after = checkout.git(&["for-each-ref"]);
    assert_eq!(before.lines().count(), after.lines().count(), "no branch is made");
    checkout.user.assert_tidy();
}

#[test]
fn a_run_that_departs_is_named_with_its_turn() {
    let checkout = Checkout::new();
    let random = "od -An -N8 -tx1 /dev/urandom > seed.txt; cat seed.txt; date +%H:%M:%S";
    let turns = json!([
        call("run_command", json!({"command": "sh test.sh; date"})),
        call("run_command", json!({"command": random})),
        edit(),
        finish("done", "Mended."),
    ]);
    let run = recorded(checkout.task(&turns, &[]).assert_code(0));
    checkout
        .user
        .run(&["replay", &run])
        .assert_code(1)
        .assert_out("It departed at turn 2")
        .assert_out("Turn 2: the output of run_command differs")
        .assert_out("Turn 3: the model was shown something else");
    let json = replay(&checkout, &run);
    assert_eq!((&json["same"], &json["departed"]), (&json!(false), &json!(2)));
    assert!(json["tree"] != json["recorded_tree"]);
    assert_ne!(json["output"]["recorded"], json["output"]["now"]);
    checkout.user.assert_tidy();
}

#[test]
fn a_tampered_or_cut_record_is_said_to_be_one() {
    let checkout = Checkout::new();
    let run = recorded(checkout.task(&fix(), &[]).assert_code(0));
    let whole = std::fs::read_to_string(file(&checkout, &run)).unwrap();
    let with = |text: &str| {
        let path = checkout.user.write("other.jsonl", text);
        checkout.user.run(&["replay", path.to_str().unwrap()])
    };
    with(&whole.replace("$1 + $2", "$1 * $2"))
        .assert_code(1)
        .assert_out("It departed at turn");
    let lines: Vec<&str> = whole.lines().collect();
    with(&format!("{}\n{{\"line\":\"en", lines[..lines.len() - 1].join("\n")))
        .assert_code(1)
        .assert_out("recorded: no end");
    with(&format!("{}\n{}\n", lines[0], lines[3]))
        .assert_code(1)
        .assert_err("follows none");
    with("{}\n")
        .assert_code(1)
        .assert_err("line 1 is not of a run's record");
    with("").assert_code(1).assert_err("holds no run that began");
    checkout.user.assert_tidy();
}

#[test]
fn what_cannot_be_found_is_said() {
    let checkout = Checkout::new();
    let run = recorded(checkout.task(&fix(), &[]).assert_code(0));
    checkout
        .user
        .run(&["replay", "01ARZ3NDEKTSV4RRFFQ69G5FAV"])
        .assert_code(64)
        .assert_err("there is no record of 01ARZ3NDEKTSV4RRFFQ69G5FAV");
    let other = User::new();
    other
        .command("git", &other.work())
        .args(["init", "--quiet"])
        .status()
        .unwrap();
    let elsewhere = checkout.user.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    checkout.git_in(&elsewhere, &["init", "--quiet"]);
    checkout.git_in(
        &elsewhere,
        &["commit", "--quiet", "--allow-empty", "-m", "Another repository"],
    );
    checkout
        .user
        .run(&["replay", &run, "--repo", elsewhere.to_str().unwrap()])
        .assert_code(1)
        .assert_out("It departed at turn 1")
        .assert_out("It could not go on: ");
}

#[test]
fn the_newest_fifty_records_are_kept() {
    let checkout = Checkout::new();
    let old = |at: u32| {
        checkout
            .user
            .records()
            .join(format!("01ARZ3NDEKTSV4RRFFQ69G{at:04}.jsonl"))
    };
    std::fs::create_dir_all(checkout.user.records()).unwrap();
    for at in 0..60 {
        std::fs::write(old(at), "{}\n").unwrap();
    }
    std::fs::write(checkout.user.records().join("notes.txt"), "mine\n").unwrap();
    let run = recorded(checkout.task(&fix(), &[]).assert_code(0));
    let left = std::fs::read_dir(checkout.user.records()).unwrap().count();
    assert_eq!(left, 50 + 1, "and the file that is no record");
    assert!(file(&checkout, &run).exists() && old(59).exists() && !old(10).exists());
}

#[test]
fn a_run_that_cannot_be_recorded_goes_on() {
    let checkout = Checkout::new();
    checkout.user.write("home/.local", "a file where a folder should be\n");
    checkout
        .task(&fix(), &[])
        .assert_code(0)
        .assert_err("this run is not recorded");
}

/// Also what happens when a conversation outgrows the model is in the record.
#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_was_made_shorter_is_replayed() {
    let checkout = Checkout::new();
    let long: String = (0..800).map(|line| format!("line {line} of a long file\n")).collect();
    checkout.write("long.txt", &long);
    checkout.commit("Add a long file");
    let mut script: Vec<Reply> = (1..=8)
        .map(|at| Reply::call("read_file", json!({"path": "long.txt", "offset": at})))
        .collect();
    script.extend([
        Reply::error(400, "This model's maximum context length is 40000 tokens"),
        Reply::say("Eight reads of a long file."),
        Reply::call(
            "edit_file",
            json!({"path": "add.sh", "old_text": "$1 - $2", "new_text": "$1 + $2"}),
        ),
        Reply::finish("Add", "It adds."),
    ]);
    let server = ModelServer::start(script).await;
    let url = format!("model.base_url={}", server.url());
    let run = tokio::task::block_in_place(|| {
        let settings = ["model.provider=openai", &url, "model.name=test-model"];
        let settings = settings.iter().flat_map(|setting| ["--set", setting]);
        let arguments: Vec<&str> = ["run", "--task", "Add"].into_iter().chain(settings).collect();
        recorded(checkout.user.run(&arguments).assert_code(0))
    });
    server.assert_all_read();
    let asked = server.requests().len();
    let json = tokio::task::block_in_place(|| replay(&checkout, &run));
    assert_eq!(
        (&json["same"], &json["departed"], &json["turns"]),
        (&json!(true), &Value::Null, &json!(11)),
        "{json:#}"
    );
    assert_eq!(server.requests().len(), asked, "no model is asked");
}

/// A job of the service, from its database.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_the_service_is_replayed() {
    let site = Site::open(Database::sqlite()).await;
    let mut service = site.program("service", "receiver,worker,scheduler");
    service.start().await;
    let issue = site.ask("Sums are wrong", "It prints a difference.");
    let store = site.database.open().await;
    let job = site
        .wait("the job ends", Duration::from_secs(60), async || {
            finished(&store, issue).await
        })
        .await;
    let json = service.json(&["replay", job.id.as_str(), "--json"]).await;
    assert_eq!(
        (&json["same"], &json["departed"], &json["turns"]),
        (&json!(true), &Value::Null, &json!(4)),
        "{json:#}"
    );
    assert!(json["tree"].is_string());
    service.stop().await;
    store.close().await;
    site.close().await;
}
