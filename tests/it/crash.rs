//! Stories of processes that die, freeze and stop at any moment, with the real program on both
//! databases: every job ends, once, and GitHub shows nothing twice.
//! Never kills at a moment chosen to be easy: moments are random and their seed is printed.

mod commands;
mod containers;
mod drain;
mod kills;
mod poison;
mod recover;
mod resume;
mod shared;
mod wire;
mod zombie;

use forgehand::demo::double::Recorded;
use forgehand::job::{Job, JobState, Outcome};
use forgehand::store::Store;

use crate::process::{LABEL, Program, REPO, Site, jobs_of};

/// All roles in one process.
pub const WHOLE: &str = "receiver,worker,scheduler";
/// A process beside the receiver.
pub const WORKER: &str = "worker,scheduler";

/// A number from the environment, or what the test means otherwise.
pub fn number(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")),
        Err(_) => otherwise,
    }
}

/// Random numbers whose seed is printed, so that a failure can be repeated with
/// `FORGEHAND_TEST_SEED`.
pub fn random(story: &str) -> fastrand::Rng {
    let seed = number("FORGEHAND_TEST_SEED", fastrand::u64(..));
    eprintln!("{story}: FORGEHAND_TEST_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

/// The whole truth about issues that were asked for: one job, one pull request with one commit,
/// one comment, and no label, by the database, by the double's world and by its ledger.
pub async fn assert_each_done_once(site: &Site, store: &Store, program: &Program, issues: &[u64]) {
    let double = &site.double;
    let base = double.commits(REPO, "main").await.unwrap().len();
    let bot = double.bot_login();
    for &issue in issues {
        let jobs = jobs_of(store, issue).await;
        let [job] = jobs.as_slice() else {
            panic!("issue {issue} has {} jobs", jobs.len())
        };
        assert_eq!(job.state, JobState::Done, "issue {issue}: {job:#?}\n{}", site.logs());
        let Some(Outcome::Opened { pull, branch, sha }) = &job.outcome else {
            panic!("issue {issue} ended as {:?}\n{}", job.outcome, site.logs())
        };
        assert_eq!(
            double.branch(REPO, branch.as_str()).unwrap().as_deref(),
            Some(sha.as_str())
        );
        let pulls = double.pulls(REPO).unwrap();
        let own: Vec<u64> = pulls
            .iter()
            .filter(|pull| pull.head == branch.as_str())
            .map(|pull| pull.number)
            .collect();
        assert_eq!(own, [pull.0], "pull requests of issue {issue}");
        assert_eq!(double.commits(REPO, branch.as_str()).await.unwrap().len(), base + 1);
        let comments = double.comments(REPO, issue).unwrap();
        let words: Vec<&str> = comments.iter().map(|comment| comment.body.as_str()).collect();
        let [comment] = comments.as_slice() else {
            panic!("issue {issue} has these comments: {words:#?}")
        };
        assert_eq!(double.login(comment.author), bot);
        assert!(comment.body.contains(&format!("✅ Done: #{pull}")), "{}", comment.body);
        assert_eq!(double.comments(REPO, pull.0).unwrap().len(), 0, "comments on #{pull}");
        let labels = double.issue(REPO, issue).unwrap().labels;
        assert!(
            !labels.iter().any(|label| label == LABEL),
            "issue {issue} keeps its label"
        );
    }
    assert_eq!(double.pulls(REPO).unwrap().len(), issues.len());
    assert_eq!(double.branches(REPO).unwrap().len(), issues.len() + 1);
    let (comments, pulls) = created(site);
    assert_eq!(
        (comments, pulls),
        (issues.len(), issues.len()),
        "comments and pull requests ever made"
    );
    assert_invariants(program).await;
}

/// How many comments and pull requests the ledger says were ever made.
fn created(site: &Site) -> (usize, usize) {
    let ledger = site.double.ledger();
    let made = |request: &&Recorded| request.method == "POST" && (200..300).contains(&request.status);
    let count = |end: &str| {
        ledger
            .iter()
            .filter(made)
            .filter(|request| request.path.ends_with(end))
            .count()
    };
    (count("/comments"), count("/pulls"))
}

pub async fn assert_invariants(program: &Program) {
    let doctor = program.run(&["doctor", "--invariants"]).await;
    let said = String::from_utf8_lossy(&doctor.stdout);
    assert!(doctor.status.success(), "{said}");
}

/// Fails when a model turn was played twice.
async fn assert_no_turn_twice(store: &Store, job: &Job) {
    use forgehand::event::RunEvent;
    let mut tx = store.begin().await.unwrap();
    let turns: Vec<u32> = tx
        .events(&job.id, 0, 10_000)
        .await
        .unwrap()
        .iter()
        .filter_map(|event| match event.body {
            RunEvent::ModelReplied { turn, .. } => Some(turn),
            _ => None,
        })
        .collect();
    assert_eq!(turns, [1, 2, 3, 4], "the turns of the model");
}

/// A person asks the service for something in words that are different each time.
pub fn ask(site: &Site, number: usize, body: &str) -> u64 {
    site.ask(&format!("Sums are wrong, case {number}"), body)
}
