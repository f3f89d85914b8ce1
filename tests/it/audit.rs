//! Who did what, as an operator finds it: every act of a job and of people has its row, tampering is
//! found and named, and an anchor that was kept elsewhere proves that nothing was cut off.

use std::process::Output;

use forgehand::effect::EffectState;
use serde_json::Value;

use crate::databases::execute;
use crate::service::{MONA, REPO, Service, bug_fix, usual};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn ok(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

async fn rows(service: &Service, more: &[&str]) -> Vec<Value> {
    let words = [&["audit", "list", "--json", "--limit", "500"], more].concat();
    let listed: Value = serde_json::from_str(&ok(&service.command(&words).await)).unwrap();
    let mut rows = listed["rows"].as_array().unwrap().clone();
    rows.reverse();
    rows
}

fn actions(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["action"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn everything_that_a_job_wrote_and_who_asked_for_it_is_in_the_audit() {
    usual()
        .tell(async |service: &mut Service| {
            service.model.play(bug_fix());
            let issue = service.labelled_issue();
            service.done().await;
            let job = service.fix().await;

            let started = rows(service, &["--action", "service_started"]).await;
            assert_eq!(started.len(), 1);
            let detail: Value = serde_json::from_str(started[0]["detail"].as_str().unwrap()).unwrap();
            assert_eq!(detail["config_sha256"], service.config.fingerprint());
            assert!(detail["schema"].as_i64() >= Some(14), "{detail}");

            let of_job = rows(service, &["--job", job.id.as_str()]).await;
            let allowed = of_job.iter().find(|row| row["action"] == "authorized").unwrap();
            assert_eq!(
                (
                    allowed["actor"].as_str(),
                    allowed["repository"].as_str(),
                    allowed["subject"].as_str()
                ),
                (Some("github:mona"), Some(REPO), Some(format!("issue/{issue}").as_str()))
            );
            assert!(
                allowed["detail"].as_str().unwrap().contains("\"trigger\":\"label\""),
                "{allowed}"
            );

            let mut tx = service.store.begin().await.unwrap();
            let effects = tx.effects(&job.id).await.unwrap();
            drop(tx);
            let done = effects.iter().filter(|effect| effect.state == EffectState::Done);
            let expected: Vec<(String, String)> = done
                .map(|effect| (effect.body.kind().to_owned(), effect.remote_id.clone().unwrap()))
                .collect();
            let written = of_job.iter().filter(|row| row["action"] == "written").map(|row| {
                let detail: Value = serde_json::from_str(row["detail"].as_str().unwrap()).unwrap();
                let said = |name: &str| detail[name].as_str().unwrap().to_owned();
                (said("kind"), said("remote_id"))
            });
            let mut written: Vec<_> = written.collect();
            let mut expected = expected;
            written.sort();
            expected.sort();
            assert_eq!(written, expected, "each effect that landed, once");
            assert!(written.iter().any(|(kind, _)| kind == "open_pull"));

            let said = ok(&service.command(&["audit", "verify"]).await);
            assert!(said.starts_with("the audit is whole: "), "{said}");
            for secret in service.config.secrets() {
                let all = ok(&service.command(&["audit", "export", "-"]).await);
                assert!(!all.contains(secret.expose()), "a secret is in the audit");
            }
        })
        .await;
}

#[tokio::test]
async fn what_people_do_at_the_command_line_and_on_github_has_its_row() {
    usual()
        .tell(async |service: &mut Service| {
            // A stranger asks, and may not.
            service.github.grant(REPO, "stranger", "read").unwrap();
            let issue = service.issue_saying("Count", "It does not.");
            service.comment_by(issue, "/agent fix", "stranger");
            service.done().await;
            let refused = rows(service, &["--action", "refused"]).await;
            assert_eq!(actions(&refused), ["refused"]);
            assert_eq!(refused[0]["actor"], "github:stranger");

            // Who may sets a budget.
            service.comment(issue, "/agent budget $7");
            service.done().await;
            let set = rows(service, &["--action", "budget_set"]).await;
            assert_eq!((set.len(), &set[0]["actor"]), (1, &"github:mona".into()));
            assert!(set[0]["detail"].as_str().unwrap().contains("7000000"), "{}", set[0]);

            // The operator switches, adds, removes, retries.
            let job = service.jobs().await[0].id.to_string();
            let on = ["autotask", "on", "--repository", REPO, "--set", "autotask.label=night"];
            ok(&service.command(&on).await);
            let add = [
                "schedule",
                "add",
                "nightly",
                "--cron",
                "0 3 * * *",
                "--repo",
                REPO,
                "--task",
                "Tidy up.",
            ];
            let added = service.command(&add).await;
            ok(&added);
            ok(&service.command(&["schedule", "remove", "nightly"]).await);
            ok(&service.command(&["jobs", "retry", &job]).await);
            service.done().await;
            let operator = rows(service, &["--actor", "operator"]).await;
            assert_eq!(
                actions(&operator),
                ["autotask_switched", "schedule_added", "schedule_removed", "retried"]
            );
            ok(&service.command(&["audit", "verify", "--json"]).await);
        })
        .await;
}

#[tokio::test]
async fn tampering_is_found_and_named_and_an_anchor_proves_the_end() {
    usual()
        .tell(async |service: &mut Service| {
            service.model.play(bug_fix());
            service.labelled_issue();
            service.done().await;
            service.stop().await;
            let url = service.config.database.url.clone().unwrap();

            let file = service.state_dir().join("audit.jsonl");
            let exported = service.command(&["audit", "export", file.to_str().unwrap()]).await;
            ok(&exported);
            let said = text(&exported.stderr);
            // Whatever the program logs beside it.
            let is_anchor = |word: &&str| matches!(word.split_once(':'), Some((_, hash)) if hash.len() == 64);
            let anchor = said.split_whitespace().rfind(is_anchor).unwrap().to_owned();
            let verify = async |more: &[&str]| service.command(&[&["audit", "verify"], more].concat()).await;
            ok(&verify(&["--anchor", &anchor]).await);
            ok(&verify(&["--file", file.to_str().unwrap(), "--anchor", &anchor]).await);

            let changed = "UPDATE audit SET actor = 'github:mallory' WHERE action = 'authorized'";
            let authorized = rows(service, &["--action", "authorized"]).await[0]["seq"].to_string();
            execute(&url, changed).await;
            let found = verify(&[]).await;
            assert_eq!(found.status.code(), Some(1));
            let told = text(&found.stdout);
            assert_eq!(told.lines().count(), 1, "{told}");
            assert!(told.starts_with(&format!("row {authorized}: changed: ")), "{told}");
            let doctor = service.command(&["doctor", "--invariants"]).await;
            assert!(text(&doctor.stdout).contains("I16"), "{}", text(&doctor.stdout));
            execute(&url, &changed.replace("mallory", MONA)).await;
            ok(&verify(&[]).await);

            // Whoever cuts the end off and says so in the chain's end is found by the anchor alone.
            let cut = "DELETE FROM audit WHERE seq > 3;
                UPDATE audit_chain SET seq = 3, hash = (SELECT hash FROM audit WHERE seq = 3)";
            execute(&url, cut).await;
            ok(&verify(&[]).await);
            let found = verify(&["--anchor", &anchor, "--json"]).await;
            assert_eq!(found.status.code(), Some(1));
            let told: Value = serde_json::from_slice(&found.stdout).unwrap();
            assert_eq!(
                (&told["faults"][0]["seq"], &told["faults"][0]["fault"]),
                (&4.into(), &"cut".into())
            );

            // The file still holds all of it; a line less, and it does not.
            let lines = std::fs::read_to_string(&file).unwrap();
            let less: Vec<&str> = lines
                .lines()
                .enumerate()
                .filter(|(at, _)| *at != 2)
                .map(|(_, line)| line)
                .collect();
            std::fs::write(&file, less.join("\n")).unwrap();
            let found = verify(&["--file", file.to_str().unwrap()]).await;
            assert!(
                text(&found.stdout).starts_with("row 4: missing: rows 3 to 3 "),
                "{}",
                text(&found.stdout)
            );
            service.start().await;
            ok(&service.command(&["audit", "verify"]).await);
            assert_eq!(
                rows(service, &["--action", "service_started"]).await.len(),
                2,
                "the chain goes on"
            );
        })
        .await;
}
