//! What the operator finds in the morning: a record of each unattended run, and a message where one
//! failed.

use forgehand::config::AlertOn;
use forgehand::job::Trigger;
use forgehand::secret::Secret;
use serde_json::Value;

use super::task::plan;
use crate::hook_server::HookServer;
use crate::service::{Service, bug_fix, nothing_to_do, until, usual};

fn nightly() -> Trigger {
    Trigger::Schedule {
        name: "nightly".into(),
        fire_at: "2026-10-25T02:30:00Z".parse().unwrap(),
    }
}

async fn records(service: &Service, more: &[&str]) -> Vec<Value> {
    let ran = service.command(&[&["ledger", "--json"], more].concat()).await;
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let all: Value = serde_json::from_slice(&ran.stdout).unwrap();
    all["records"].as_array().unwrap().clone()
}

#[tokio::test]
async fn unattended_runs_have_a_record_each_and_failures_are_told() {
    usual()
        .tell_before_start(async |service: &mut Service| {
            let chat = HookServer::start([500]).await;
            service.config.alert.url = Some(Secret::new(chat.url()));
            service.config.alert.on = AlertOn::Failure;
            service.start().await;

            service.model.play(bug_fix());
            service.labelled_issue();
            service.done().await;
            assert_eq!(
                records(service, &[]).await,
                [] as [Value; 0],
                "somebody waits for that one"
            );

            service.model.play(bug_fix());
            let done = plan(service, nightly()).await;
            service.done().await;
            service.model.play(nothing_to_do());
            let stuck = plan(
                service,
                Trigger::Milestone {
                    graph: "main".into(),
                    milestone: "count".into(),
                    acceptance: Some("false".into()),
                },
            )
            .await;
            service.done().await;
            until("both have their record", async || {
                records(service, &[]).await.len() == 2
            })
            .await;

            let all = records(service, &[]).await;
            let (newest, oldest) = (&all[0], &all[1]);
            assert_eq!(oldest["job"], done.as_str());
            assert_eq!(
                (&oldest["state"], &oldest["cause"]["name"]),
                (&"done".into(), &"nightly".into())
            );
            assert_eq!(oldest["counts"]["turns"], 2);
            assert_eq!(oldest["counts"]["tool_calls"], 3);
            assert_eq!(oldest["commits"][0]["branch"], "agent/count-words");
            assert!(
                oldest["pull"].is_u64() && oldest["cost_usd"].as_f64().unwrap() > 0.0,
                "{oldest}"
            );
            assert_eq!(newest["job"], stuck.as_str());
            assert_eq!(newest["state"], "stuck");
            assert_eq!(newest["milestones"][0]["conclusion"], "needs_fix");

            let shown = service.command(&["ledger", "--failed", "--detail"]).await;
            let shown = String::from_utf8(shown.stdout).unwrap();
            assert_eq!(shown.matches(" ✗ ").count(), 1, "{shown}");
            assert!(shown.contains("milestone count: needs_fix"), "{shown}");
            assert!(!shown.contains("nightly"), "{shown}");
            let file = service.state_dir().join("all.jsonl");
            let exported = service.command(&["ledger", "--export", file.to_str().unwrap()]).await;
            assert!(exported.status.success());
            let lines = std::fs::read_to_string(&file).unwrap();
            let jobs = lines
                .lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap()["job"].clone());
            assert!(jobs.eq([done.as_str(), stuck.as_str()]), "{lines}");

            until("the chat was told", async || !chat.messages().is_empty()).await;
            let told = chat.messages()[0].json();
            assert_eq!(told["record"]["job"], stuck.as_str());
            let token = "T0KEN-of-the-chat";
            let doctor = service.command(&["config", "show"]).await;
            assert!(!String::from_utf8_lossy(&doctor.stdout).contains(token));
        })
        .await;
}
