//! A service moves to PostgreSQL with jobs in every state: what was begun ends there, once.

use std::time::Duration;

use forgehand::demo::double::Fault;
use forgehand::effect::EffectBody;
use forgehand::job::{JobState, Outcome};
use forgehand::store::Store;
use serde_json::{Value, json};
use sqlx::Connection as _;

use super::{migrate, nowhere, sums};
use crate::databases::Database;
use crate::process::{PERSON, REPO, SLOWLY, Site, finished, jobs_of};

pub(super) const WHOLE: &str = "receiver,worker,scheduler";
pub(super) const PATIENCE: Duration = Duration::from_secs(90);
/// A word in an issue's body that makes the agent ask first.
const ASKS: &str = "unclear";

/// What the model does from the next start on; `how` makes its change another one.
pub(super) fn play(site: &Site, how: &str) {
    let mend = json!({"tool": "write_file", "arguments": {
        "path": "add.sh",
        "content": format!("#!/bin/sh\n# {how}\necho $(($1 + $2))\n"),
    }});
    let note = json!({"tool": "memory", "arguments": {"action": "set", "key": "tests", "value": format!("sh test.sh, {how}")}});
    let finish = json!({"tool": "finish", "arguments": {
        "status": "done",
        "title": format!("Add instead of subtracting, {how}"),
        "summary": format!("`add.sh` subtracted. It now adds, {how}."),
        "risks": "None known.",
        "not_done": "",
    }});
    let pause = json!({"tool": "run_command", "arguments": {"command": "sleep 1"}});
    let ask = json!({"tool": "ask_user", "arguments": {"questions": ["Really?"]}});
    let turn = |calls: Vec<&Value>| json!({"say": "So.", "calls": calls});
    let script = json!({"cases": [
        {"when": {"contains": ASKS}, "turns": [turn(vec![&ask]), turn(vec![&mend, &note]), turn(vec![&finish])]},
        {"when": {"contains": SLOWLY}, "turns": [
            turn(vec![&pause]), turn(vec![&mend]), turn(vec![&pause]), turn(vec![&note]), turn(vec![&finish]),
        ]},
        {"turns": [turn(vec![&mend, &note]), turn(vec![&finish])]},
    ]});
    std::fs::write(site.folder().join("script.json"), script.to_string()).unwrap();
}

/// How often something was made, by the double's ledger.
pub(super) fn made(site: &Site, end: &str) -> usize {
    let ledger = site.double.ledger();
    let made = ledger
        .iter()
        .filter(|request| request.method == "POST" && (200..300).contains(&request.status));
    made.filter(|request| request.path.ends_with(end)).count()
}

async fn in_state(site: &Site, store: &Store, issue: u64, state: JobState) {
    site.wait(&format!("the job of issue {issue} is {state}"), PATIENCE, async || {
        let job = jobs_of(store, issue).await.pop()?;
        (job.state == state).then_some(())
    })
    .await;
}

/// The job has done its work, and GitHub does not take the pull request.
pub(super) async fn held_up(site: &Site, store: &Store, issue: u64) {
    site.wait("a pull request is refused", PATIENCE, async || {
        let job = jobs_of(store, issue).await.pop()?;
        let mut tx = store.begin().await.unwrap();
        let effects = tx.effects(&job.id).await.unwrap();
        let mut opens = effects
            .iter()
            .filter(|effect| matches!(effect.body, EffectBody::OpenPull { .. }));
        opens
            .any(|effect| effect.tries > 0 && !effect.state.is_final())
            .then_some(())
    })
    .await;
}

/// Every job of these issues opened one pull request, and there are no others.
async fn assert_each_once(site: &Site, store: &Store, issues: &[u64]) {
    for &issue in issues {
        let jobs = jobs_of(store, issue).await;
        let pulls: Vec<_> = jobs
            .iter()
            .filter_map(|job| match &job.outcome {
                Some(Outcome::Opened { pull, .. }) => Some(pull.0),
                _ => None,
            })
            .collect();
        assert_eq!(pulls.len(), 1, "issue {issue}: {jobs:#?}\n{}", site.logs());
        assert_eq!(
            site.double
                .comments(REPO, issue)
                .unwrap()
                .iter()
                .filter(|comment| { site.double.login(comment.author) == site.double.bot_login() })
                .count(),
            1,
            "issue {issue}"
        );
    }
    assert_eq!(site.double.pulls(REPO).unwrap().len(), issues.len());
    assert_eq!(site.double.branches(REPO).unwrap().len(), issues.len() + 1);
    assert_eq!(made(site, "/pulls"), issues.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_goes_on_with_postgres() {
    let mut site = Site::open(Database::sqlite()).await;
    play(&site, "first");
    let mut service = site.program("service", WHOLE);
    service.start().await;
    let store = site.database.open().await;
    let done = site.ask("Sums are wrong, case 0", "A difference.");
    site.wait("a job is done", PATIENCE, async || finished(&store, done).await)
        .await;
    let waiting = site.ask("Sums are wrong, case 1", ASKS);
    in_state(&site, &store, waiting, JobState::Waiting).await;
    let pulls = format!("POST /repos/{REPO}/pulls");
    site.double.fault(&pulls, Fault::status(502, "Bad Gateway"), 1_000);
    let publishing = site.ask("Sums are wrong, case 2", "A difference.");
    held_up(&site, &store, publishing).await;
    service.stop().await;
    let mut receiver = site.program("service", "receiver");
    receiver.start().await;
    let mut issues = vec![done, waiting, publishing];
    for number in 3..6 {
        issues.push(site.ask(&format!("Sums are wrong, case {number}"), "A difference."));
    }
    site.double.deliveries_settled().await;
    for issue in &issues[3..] {
        in_state(&site, &store, *issue, JobState::Queued).await;
    }
    receiver.stop().await;
    store.close().await;

    let server = Database::postgres().await;
    let there = migrate(&site.database.url, &server.url, &[]).await.report();
    assert_eq!(sums(&there, "source_sha256"), sums(&there, "target_sha256"));
    site.double.clear_faults();
    let file = std::mem::replace(&mut site.database, server);
    let mut service = site.program("service", WHOLE);
    service.start().await;
    let store = site.database.open().await;
    site.double.comment(REPO, waiting, "/agent answer yes", PERSON).unwrap();
    for issue in &issues {
        // The answer is a job of its own.
        site.wait(&format!("the jobs of issue {issue} end"), PATIENCE, async || {
            let jobs = jobs_of(&store, *issue).await;
            jobs.iter().all(|job| job.state.is_final()).then_some(())
        })
        .await;
    }
    assert_each_once(&site, &store, &issues).await;
    let doctor = service.run(&["doctor", "--invariants"]).await;
    assert!(doctor.status.success(), "{}", String::from_utf8_lossy(&doctor.stdout));
    service.stop().await;
    store.close().await;
    // What runs on a repository learned is there, too.
    let mut connection = sqlx::PgConnection::connect(site.database.url.expose()).await.unwrap();
    let notes: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM notes")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(notes, 1);
    connection.close().await.unwrap();

    // The old file has less now, so that nothing goes back into it; a new one gets everything.
    let refused = migrate(&site.database.url, &file.url, &[]).await;
    refused.assert_code(1);
    let folder = tempfile::tempdir().unwrap();
    let back = nowhere(&folder);
    let home = migrate(&site.database.url, &back, &[]).await.report();
    assert_eq!(sums(&home, "source_sha256"), sums(&home, "target_sha256"));
    let again = migrate(&back, &site.database.url, &["--dry-run"]).await.report();
    assert_eq!(again["skipped"], home["rows"]);
    site.close().await;
}
