//! The commands of an operator beside the living service, on the same database.

use std::time::Duration;

use forgehand::job::JobState;
use rustix::process::Signal;
use serde_json::Value;

use super::{WHOLE, WORKER, ask, assert_invariants};
use crate::databases::Database;
use crate::process::{LEASE, REPO, SLOWLY, Site, finished, jobs_of};

const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_lists_shows_cancels_and_retries() {
    for database in [Database::sqlite(), Database::postgres().await] {
        eprintln!("on {}", database.kind());
        let site = Site::open(database).await;
        let mut service = site.program("service", WHOLE);
        service.start().await;
        let store = site.database.open().await;
        let issue = ask(&site, 0, SLOWLY);
        let id = site
            .wait("the job is worked on", PATIENCE, async || {
                let job = jobs_of(&store, issue).await.pop()?;
                (job.state == JobState::Leased && site.double.comments(REPO, issue).unwrap().len() == 1)
                    .then(|| job.id.to_string())
            })
            .await;
        let listed = service.json(&["jobs", "list", "--state", "leased", "--json"]).await;
        assert_eq!(listed[0]["id"], id.as_str());
        assert_eq!(listed[0]["repo"], REPO);
        assert_eq!(
            service.json(&["recover", "--dry-run", "--json"]).await,
            serde_json::json!([])
        );
        let shown = service.run(&["recover", "--dry-run"]).await;
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert!(shown.starts_with("nothing to recover; 1 jobs are held"), "{shown}");
        let cancelled = service.json(&["jobs", "cancel", &id, "--json"]).await;
        assert_eq!(cancelled["result"], "requested");
        let job = site
            .wait("the job stops", PATIENCE, async || finished(&store, issue).await)
            .await;
        assert_eq!(job.state, JobState::Cancelled, "{:?}", job.outcome);
        let refused = service.run(&["jobs", "cancel", &id]).await;
        assert_eq!(refused.status.code(), Some(1), "it is over already");
        let retried = service.json(&["jobs", "retry", &id, "--json"]).await;
        assert_eq!(retried["result"], "queued");
        let job = site
            .wait("the second round ends", PATIENCE, async || {
                finished(&store, issue).await
            })
            .await;
        assert_eq!(job.state, JobState::Done, "{:?}\n{}", job.outcome, site.logs());
        let shown = service.json(&["jobs", "show", &id, "--json"]).await;
        assert_eq!(shown["job"]["state"], "done");
        assert_eq!(shown["job"]["round"], 1);
        let kinds = |part: &str| shown[part].as_array().map_or(0, Vec::len);
        assert!(kinds("events") > 20 && kinds("effects") >= 6, "{shown:#}");
        assert!(!shown.to_string().contains("PRIVATE KEY"));
        let read = service.run(&["show", &id]).await;
        let read = String::from_utf8(read.stdout).unwrap();
        for part in [
            "attempt 1, by ",
            "━━ Work on the change",
            "Turn 1  ",
            "✓ finish ",
            "finished: ",
        ] {
            assert!(read.contains(part), "{part:?} is not in\n{read}");
        }
        assert_eq!(site.double.pulls(REPO).unwrap().len(), 1);
        assert_invariants(&service).await;
        service.stop().await;
        store.close().await;
        site.close().await;
    }
}

/// The one leftover of a kind.
fn of(left: &Value, what: &str) -> Option<Value> {
    let mut found = left.as_array().unwrap().iter().filter(|one| one["what"] == what);
    let first = found.next().cloned();
    assert_eq!(found.next(), None, "{left:#}");
    first
}

/// The worker is frozen, so that its lease ends while nobody recovers it.
#[tokio::test(flavor = "multi_thread")]
async fn recover_shows_and_gives_back_what_a_lost_worker_held() {
    let site = Site::open(Database::postgres().await).await;
    let mut receiver = site.program("receiver", "receiver");
    let mut worker = site.program("worker", WORKER);
    receiver.start().await;
    worker.start().await;
    let store = site.database.open().await;
    let issue = ask(&site, 0, SLOWLY);
    let id = site
        .wait("the job is worked on", PATIENCE, async || {
            let job = jobs_of(&store, issue).await.pop()?;
            (job.state == JobState::Leased).then(|| job.id.to_string())
        })
        .await;
    worker.signal(Signal::STOP);
    // Nobody else gives it back before it is done by hand.
    receiver.stop().await;
    let shown = site
        .wait("the lease ends", LEASE * 2, async || {
            let shown = receiver.json(&["recover", "--dry-run", "--json"]).await;
            of(&shown, "lease")
        })
        .await;
    assert_eq!(
        (&shown["id"], &shown["done"]),
        (&Value::from(id.as_str()), &Value::Null)
    );
    let settled = of(&receiver.json(&["recover", "--json"]).await, "lease").unwrap();
    assert_eq!(
        (&settled["id"], &settled["done"]),
        (&Value::from(id.as_str()), &Value::from("given back"))
    );
    assert_eq!(jobs_of(&store, issue).await[0].state, JobState::Queued);
    worker.signal(Signal::CONT);
    let job = site
        .wait("the job ends", PATIENCE, async || finished(&store, issue).await)
        .await;
    assert_eq!(job.state, JobState::Done);
    assert_invariants(&receiver).await;
    worker.stop().await;
    store.close().await;
    site.close().await;
}
