//! FI-2 where a job ends without a worker: its last words are written once, whatever happens while
//! they are.

use std::time::Duration;

use forgehand::job::JobState;

use super::marks::marks;
use super::points::{Action, Table};
use crate::crash::assert_invariants;
use crate::databases::Database;
use crate::process::{LABEL, PERSON, QUICKLY, REPO, jobs_of};

const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn last_words_are_written_once_on_sqlite() {
    last_words(Database::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn last_words_are_written_once_on_postgres() {
    last_words(Database::postgres().await).await;
}

async fn last_words(database: Database) {
    let mut table = Table::open(database).await;
    let points: Vec<String> = marks()
        .into_keys()
        .filter(|point| point.starts_with("settle."))
        .collect();
    assert!(points.len() >= 3);
    for point in &points {
        for action in [Action::Crash, Action::Error, Action::Hang] {
            stopped_while_queued(&mut table, point, action).await;
        }
    }
    let mut bench = table.bench;
    let double = &bench.site.double;
    for &issue in &bench.issues {
        let comments = double.comments(REPO, issue).unwrap();
        let words: Vec<&str> = comments.iter().map(|comment| comment.body.as_str()).collect();
        assert!(
            matches!(words.as_slice(), [one] if one.contains("Stopped")),
            "issue {issue}: {words:#?}"
        );
        assert!(
            !double
                .issue(REPO, issue)
                .unwrap()
                .labels
                .iter()
                .any(|label| label == LABEL)
        );
    }
    assert_eq!(double.pulls(REPO).unwrap().len(), 0);
    assert_invariants(&bench.service).await;
    bench.service.stop().await;
    bench.store.close().await;
    bench.site.close().await;
}

/// The job is acknowledged, fails once and is queued again, where nobody claims it until a person
/// takes the label away.
async fn stopped_while_queued(table: &mut Table, point: &str, action: Action) {
    table.arm("gather.done=error;*claim.begun=error");
    let issue = table.bench.ask(QUICKLY);
    let (site, store) = (&table.bench.site, &table.bench.store);
    site.wait("the job is queued again", PATIENCE, async || {
        let job = jobs_of(store, issue).await.pop()?;
        (job.state == JobState::Queued && job.fence > 0).then_some(())
    })
    .await;
    let before = table.fired(point);
    site.double.unlabel_issue(REPO, issue, LABEL, PERSON).unwrap();
    site.double.deliveries_settled().await;
    assert_eq!(jobs_of(store, issue).await[0].state, JobState::Cancelled);
    table.arm(&format!("{point}={}", action.text()));
    table.acts(point, before, action, "").await;
    table.arm("");
    let site = &table.bench.site;
    site.wait("the last words are there", PATIENCE, async || {
        let comments = site.double.comments(REPO, issue).unwrap();
        comments
            .iter()
            .any(|comment| comment.body.contains("Stopped"))
            .then_some(())
    })
    .await;
}
