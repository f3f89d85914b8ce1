//! `forgehand schedule` beside a running service: from adding one to the pull request that it makes.

use forgehand::event::RunEvent;
use serde_json::Value;

use crate::service::{MONA, REPO, Service, bug_fix, nothing_to_do, until, usual};

/// A command of the operator; its exit code, output and errors.
async fn say(service: &Service, arguments: &[&str]) -> (i32, String, String) {
    let all: Vec<&str> = ["schedule"].iter().chain(arguments).copied().collect();
    let output = service.command(&all).await;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

async fn json(service: &Service, arguments: &[&str]) -> Value {
    let (code, out, err) = say(service, &[arguments, &["--json"]].concat()).await;
    assert_eq!(code, 0, "{out}{err}");
    serde_json::from_str(&out).unwrap()
}

const TASK: &str = "Count the last word, too.";

#[tokio::test]
async fn a_schedule_is_added_run_by_hand_and_removed() {
    usual()
        .tell(async |service: &mut Service| {
            let add = ["add", "nightly", "--cron", "30 2 29 2 *", "--timezone", "Europe/Berlin"];
            let add = [&add[..], &["--repo", REPO, "--task", TASK]].concat();
            let (code, out, err) = say(service, &add).await;
            assert_eq!(code, 0, "{err}");
            assert!(out.contains("at 02:30, on day 29, in February, Europe/Berlin"), "{out}");
            assert!(out.contains("-02-29 02:30 CET"), "{out}");
            let (code, _, err) = say(service, &add).await;
            assert!(code == 1 && err.contains("forgehand schedule remove nightly"), "{err}");

            let listed = json(service, &["list", "--next", "2"]).await;
            assert_eq!(listed[0]["name"], "nightly");
            assert_eq!(listed[0]["source"], "database");
            assert_eq!(listed[0]["next"].as_array().unwrap().len(), 2);

            service.model.play(bug_fix());
            let ended = json(service, &["run", "nightly", "--wait"]).await;
            assert_eq!(
                (&ended["state"], &ended["outcome"]["outcome"]),
                (&"done".into(), &"opened".into())
            );
            let pull = service.only_pull();
            assert_eq!(pull.head, "agent/schedule-nightly");
            let prompt = service.model.requests()[0].body.to_string();
            assert!(prompt.contains(TASK), "{prompt}");
            service.done().await;

            let history = json(service, &["history", "nightly"]).await;
            assert_eq!(history[0]["outcome"], "started by hand");
            assert_eq!(history[0]["job"], ended["id"]);
            let (_, out, _) = say(service, &["history"]).await;
            assert!(
                out.contains(&format!("done: opened pull request #{}", pull.number)),
                "{out}"
            );

            let (code, out, _) = say(service, &["remove", "nightly"]).await;
            assert!(code == 0 && out.contains("removed"), "{out}");
            let (code, _, err) = say(service, &["remove", "nightly"]).await;
            assert!(code == 1 && err.contains("there is no schedule nightly"), "{err}");
            assert_eq!(json(service, &["list"]).await, Value::Array(Vec::new()));
        })
        .await;
}

#[tokio::test]
async fn the_exit_code_of_run_says_how_it_went() {
    usual()
        .tell(async |service: &mut Service| {
            let add = ["add", "tidy", "--cron", "@yearly", "--repo", REPO, "--task", TASK];
            assert_eq!(say(service, &add).await.0, 0);

            service.model.play(nothing_to_do());
            let (code, out, err) = say(service, &["run", "tidy", "--wait"]).await;
            assert_eq!(code, 0, "{out}{err}");
            assert!(out.contains("nothing to do"), "{out}");
            service.done().await;

            service.model.play([crate::model_server::Reply::call(
                "finish",
                serde_json::json!({"status": "refused", "summary": "There are no words."}),
            )]);
            let (code, out, err) = say(service, &["run", "tidy", "--wait"]).await;
            assert_eq!(code, 2, "{out}{err}");
            assert!(out.contains("There are no words."), "{out}");
            service.done().await;

            let (code, _, err) = say(service, &["run", "tidi"]).await;
            assert!(code == 1 && err.contains("did you mean tidy?"), "{err}");
        })
        .await;
}

#[tokio::test]
async fn nobody_overtakes_what_is_still_at_work() {
    usual()
        .tell_before_start(async |service: &mut Service| {
            let add = ["add", "tidy", "--cron", "@yearly", "--repo", REPO, "--task", TASK];
            assert_eq!(say(service, &add).await.0, 0);
            let begun = json(service, &["run", "tidy"]).await;
            let job = begun["job"].as_str().unwrap();
            let (code, _, err) = say(service, &["run", "tidy"]).await;
            assert!(
                code == 1 && err.contains(&format!("tidy is still at work: job {job}")),
                "{err}"
            );
            let id = job.parse().unwrap();
            let cancelled = service.command(&["jobs", "cancel", job]).await;
            assert!(cancelled.status.success());
            let (code, _, _) = say(service, &["run", "tidy"]).await;
            assert_eq!(code, 0);
            let mut tx = service.store.begin().await.unwrap();
            assert!(tx.job(&id).await.unwrap().unwrap().state.is_final());
            drop(tx);
            service.model.play(nothing_to_do());
            service.start().await;
            service.done().await;
            let history = json(service, &["history"]).await;
            let ends: Vec<_> = history
                .as_array()
                .unwrap()
                .iter()
                .map(|fire| fire["job_state"].clone())
                .collect();
            assert_eq!(ends, ["done", "cancelled"]);
        })
        .await;
}

#[tokio::test]
async fn a_job_that_is_given_up_is_exit_code_4() {
    usual()
        .tell_before_start(async |service: &mut Service| {
            let add = ["add", "tidy", "--cron", "@yearly", "--repo", REPO, "--task", TASK];
            assert_eq!(say(service, &add).await.0, 0);
            // Its worker is this test, which gives up at once.
            let waits = say(service, &["run", "tidy", "--wait"]);
            let gives_up = until("a job waits for its worker", async || {
                let mut tx = service.store.begin().await.unwrap();
                let Some(leased) = tx
                    .claim_job("worker", std::time::Duration::from_secs(60))
                    .await
                    .unwrap()
                else {
                    return false;
                };
                tx.bury_job(&leased.lease, "the disk is full").await.unwrap();
                tx.commit().await.unwrap();
                true
            });
            let ((code, out, err), ()) = tokio::join!(waits, gives_up);
            assert_eq!(code, 4, "{out}{err}");
            assert!(out.contains("dead: the disk is full"), "{out}");
            // The service says what is to be said of it.
            service.start().await;
        })
        .await;
}

#[tokio::test]
async fn the_service_follows_what_is_added_while_it_runs() {
    usual()
        .tell(async |service: &mut Service| {
            let add = ["add", "often", "--cron", "@yearly", "--repo", REPO, "--task", TASK];
            assert_eq!(say(service, &add).await.0, 0);
            // As if it had been added long ago and the machine had been off since.
            let old = json(service, &["list"]).await;
            let timetable = format!("{} UTC", old[0]["cron"].as_str().unwrap());
            let mut tx = service.store.begin().await.unwrap();
            let seen = tx.schedule_cursor("often").await.unwrap().unwrap();
            assert_eq!(seen.timetable, timetable);
            let long_ago = forgehand::store::ScheduleCursor {
                until: seen.until - chrono::TimeDelta::days(800),
                ..seen.clone()
            };
            assert!(tx.move_schedule("often", &seen, &long_ago).await.unwrap());
            service.model.play(nothing_to_do());
            tx.commit().await.unwrap();
            until("the service makes up for a fire", async || {
                let history = json(service, &["history"]).await;
                history[0]["outcome"] == "made up for" && history[0]["job_state"] == "done"
            })
            .await;
            service.done().await;
            let history = json(service, &["history"]).await;
            assert_eq!(history[1]["outcome"], "missed");
            let (_, out, _) = say(service, &["list"]).await;
            assert!(out.contains("often"), "{out}");
        })
        .await;
}

/// Puts the cases on the default branch, each a question, its repository and what was changed.
async fn suite(service: &Service, path: &str, parent: &str, cases: &[(&str, &str, &str)]) {
    let lines = cases.iter().enumerate().map(|(at, (question, repo, gold))| {
        let case = serde_json::json!({
            "id": format!("case-{at}"), "repo": repo, "parent_commit": parent,
            "query_full": question, "gold_files": [gold],
        });
        format!("{case}\n")
    });
    let text: String = lines.collect();
    service
        .github
        .push(REPO, "main", &[(path, &text)], "Cases", MONA)
        .await
        .unwrap();
}

/// The newest record of the ledger, once there is one.
async fn record(service: &Service) -> Value {
    let mut newest = Value::Null;
    until("the ledger has a record", async || {
        let ledger = service.command(&["ledger", "--last", "1", "--json"]).await;
        let ledger: Value = serde_json::from_slice(&ledger.stdout).unwrap();
        newest = ledger["records"][0].clone();
        newest.is_object()
    })
    .await;
    newest
}

#[tokio::test]
async fn a_suite_is_measured_at_night_and_fails_below_its_figure() {
    usual()
        .tell(async |service: &mut Service| {
            let parent = service.github.branch(REPO, "main").unwrap().unwrap();
            let path = "evals/cases.jsonl";
            let question = "count.sh does not count the last word";
            suite(
                service,
                path,
                &parent,
                &[(question, REPO, "count.sh"), (question, "octo/other", "count.sh")],
            )
            .await;
            let add = ["add", "eval", "--cron", "@daily", "--repo", REPO, "--eval", path];
            let (code, out, err) = say(service, &[&add[..], &["--min-mrr", "50"]].concat()).await;
            assert_eq!(code, 0, "{err}");
            assert!(out.contains("Measure with evals/cases.jsonl"), "{out}");

            let (code, out, err) = say(service, &["run", "eval", "--wait"]).await;
            assert_eq!(code, 0, "{out}{err}");
            let figures = "1 case (1 left out): files Acc@1/5/10 100.0/100.0/100.0, MRR 100.0";
            assert!(out.contains(figures), "{out}");
            service.done().await;
            let job = service.works().await.remove(0);
            let events = service.events(&job).await;
            let table = events.iter().find_map(|event| match event {
                RunEvent::Noted { text } if text.contains("Acc@1") => Some(text),
                _ => None,
            });
            let table = table.expect("the whole table stands in the log");
            let left_out = "skipped case-1: it is about octo/other, which is not measured here";
            assert!(table.contains("only history") && table.contains(left_out), "{table}");
            let ledger = record(service).await;
            assert_eq!((&ledger["state"], &ledger["reason"]), (&"done".into(), &figures.into()));
            assert_eq!(service.model.requests().len(), 0, "no model is asked");
            assert_eq!(service.pulls().len(), 0);

            suite(service, path, &parent, &[(question, REPO, "lost.sh")]).await;
            let (code, out, err) = say(service, &["run", "eval", "--wait"]).await;
            assert_eq!(code, 2, "{out}{err}");
            let below = "gave up: The MRR of files is 0.0; at least 50 is demanded.";
            assert!(out.contains(below), "{out}");
            service.done().await;
            let (_, out, _) = say(service, &["history", "eval"]).await;
            assert!(
                out.contains(below) && out.contains("1 case (1 left out): files"),
                "{out}"
            );
        })
        .await;
}

#[tokio::test]
async fn a_suite_that_cannot_be_measured_says_why() {
    usual()
        .tell(async |service: &mut Service| {
            let parent = service.github.branch(REPO, "main").unwrap().unwrap();
            suite(service, "other.jsonl", &parent, &[("Where?", "octo/other", "count.sh")]).await;
            suite(service, "lost.jsonl", &"5".repeat(40), &[("Where?", REPO, "count.sh")]).await;
            let broken = [("broken.jsonl", "{\"id\": 1}\n"), ("empty.jsonl", "\n")];
            service
                .github
                .push(REPO, "main", &broken, "Broken", MONA)
                .await
                .unwrap();
            for (path, why) in [
                ("none.jsonl", "There is no file none.jsonl on the branch main."),
                (
                    "broken.jsonl",
                    "broken.jsonl cannot be read as cases: line 1 is no case",
                ),
                ("empty.jsonl", "empty.jsonl cannot be read as cases: it is empty"),
                (
                    "other.jsonl",
                    "Not one of 1 cases could be asked; the first because: it is about octo",
                ),
                ("lost.jsonl", "Not one of 1 cases could be asked; the first because: "),
            ] {
                let name = path.trim_end_matches(".jsonl");
                let add = ["add", name, "--cron", "@daily", "--repo", REPO, "--eval", path];
                assert_eq!(say(service, &add).await.0, 0);
                let (code, out, err) = say(service, &["run", name, "--wait"]).await;
                assert!(code == 2 && out.contains(why), "{path}: {code} {out}{err}");
                service.done().await;
            }
        })
        .await;
}
