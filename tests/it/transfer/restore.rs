//! An old backup that is put back: the jobs in it have ended long ago on GitHub, and nothing comes
//! there twice, whatever they were doing when it was made and whatever the model does this time.

use std::path::PathBuf;

use forgehand::demo::double::Fault;
use forgehand::job::{Job, JobState, Outcome};
use forgehand::store::{JobFilter, Store};

use super::service::{PATIENCE, WHOLE, made, play};
use crate::databases::Database;
use crate::process::{PERSON, Program, REPO, SLOWLY, Site};

/// Backups that are put back, the first and the last of them always.
const RESTORED: usize = 6;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// What people see on GitHub.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    pulls: Vec<(u64, String, String)>,
    branches: Vec<String>,
    comments: Vec<(u64, usize)>,
    opened: usize,
    commented: usize,
}

impl Seen {
    fn now(site: &Site, issues: &[u64]) -> Self {
        let double = &site.double;
        let pulls = double.pulls(REPO).unwrap();
        let ours = |issue: &u64| {
            let comments = double.comments(REPO, *issue).unwrap();
            comments
                .iter()
                .filter(|comment| double.login(comment.author) == double.bot_login())
                .count()
        };
        let mut branches = double.branches(REPO).unwrap();
        branches.sort();
        Self {
            pulls: pulls
                .into_iter()
                .map(|pull| (pull.number, pull.head, pull.head_sha))
                .collect(),
            branches,
            comments: issues.iter().map(|issue| (*issue, ours(issue))).collect(),
            opened: made(site, "/pulls"),
            commented: made(site, "/comments"),
        }
    }
}

/// All jobs, once every one of them is final and nothing is left to be said.
async fn settled(site: &Site, store: &Store) -> Vec<Job> {
    site.wait("all jobs end", PATIENCE, async || {
        let mut tx = store.begin().await.unwrap();
        let filter = JobFilter {
            limit: 100,
            ..JobFilter::default()
        };
        let jobs = tx.jobs(&filter).await.unwrap();
        jobs.iter().all(|job| job.state.is_final()).then_some(jobs)
    })
    .await
}

fn words(jobs: &[Job]) -> String {
    let mut words: Vec<String> = jobs
        .iter()
        .map(|job| format!("{} {}", job.subject, job.state))
        .collect();
    words.sort();
    words.join(", ")
}

/// Puts a backup in the place of the database, as the README says.
fn restore(site: &Site, backup: &PathBuf) {
    let file = site.database.file().unwrap();
    for ending in ["-wal", "-shm"] {
        let beside = PathBuf::from(format!("{}{ending}", file.display()));
        if beside.exists() {
            std::fs::remove_file(beside).unwrap();
        }
    }
    std::fs::copy(backup, &file).unwrap();
}

/// Copies of the database at every moment of a life, with what the jobs were doing.
async fn copies(site: &Site, service: &Program, store: &Store, folder: &tempfile::TempDir) -> Vec<(PathBuf, String)> {
    let mut copies = Vec::new();
    loop {
        let file = folder.path().join(format!("{}.sqlite", copies.len()));
        let made = service.run(&["backup", file.to_str().unwrap()]).await;
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut tx = store.begin().await.unwrap();
        let filter = JobFilter {
            limit: 100,
            ..JobFilter::default()
        };
        let jobs = tx.jobs(&filter).await.unwrap();
        drop(tx);
        copies.push((file, words(&jobs)));
        if jobs.iter().all(|job| job.state.is_final()) {
            return copies;
        }
        assert!(
            copies.len() < 1_000,
            "the jobs do not end: {}\n{}",
            words(&jobs),
            site.logs()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_backup_brings_nothing_twice() {
    let seed = number("FORGEHAND_TEST_SEED").unwrap_or_else(|| fastrand::u64(..));
    eprintln!("old backups: FORGEHAND_TEST_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let site = Site::open(Database::sqlite()).await;
    play(&site, "first");
    let store = site.database.open().await;
    // Work that was only accepted yet: by a label, by words on an issue, a question.
    let mut receiver = site.program("service", "receiver");
    receiver.start().await;
    let mut issues = vec![site.ask("Sums are wrong, case 0", "A difference.")];
    for (number, body) in ["A difference.", SLOWLY, "Another difference."].iter().enumerate() {
        let title = format!("Sums are wrong, case {}", number + 1);
        let issue = site.double.open_issue(REPO, &title, body, &[], PERSON).unwrap();
        site.double.comment(REPO, issue, "/agent fix", PERSON).unwrap();
        issues.push(issue);
    }
    site.double.deliveries_settled().await;
    receiver.stop().await;
    // Some pull requests take longer than others.
    let pulls = format!("POST /repos/{REPO}/pulls");
    site.double.fault(&pulls, Fault::status(502, "Bad Gateway"), 2);
    let folder = tempfile::tempdir().unwrap();
    let mut service = site.program("service", WHOLE);
    let first = folder.path().join("queued.sqlite");
    let made = service.run(&["backup", first.to_str().unwrap()]).await;
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    service.start().await;
    let mut copies = copies(&site, &service, &store, &folder).await;
    copies.insert(0, (first, "all queued".to_owned()));
    let jobs = settled(&site, &store).await;
    assert!(
        jobs.iter()
            .all(|job| matches!(job.outcome, Some(Outcome::Opened { .. }))),
        "{jobs:#?}\n{}",
        site.logs()
    );
    let before = Seen::now(&site, &issues);
    assert_eq!(before.opened, issues.len());
    service.stop().await;
    store.close().await;

    let mut chosen = vec![copies.remove(0), copies.pop().unwrap()];
    for _ in 2..number("FORGEHAND_TEST_RESTORES").map_or(RESTORED, |number| usize::try_from(number).unwrap()) {
        chosen.push(copies.remove(random.usize(..copies.len())));
    }
    for (at, (copy, doing)) in chosen.iter().enumerate() {
        eprintln!("restored: {doing}");
        restore(&site, copy);
        play(&site, &format!("life {}", at + 2));
        service.start().await;
        let store = site.database.open().await;
        let again = settled(&site, &store).await;
        assert_eq!(Seen::now(&site, &issues), before, "restored: {doing}\n{}", site.logs());
        for (job, earlier) in again.iter().zip(&jobs) {
            assert_eq!((&job.id, job.state), (&earlier.id, JobState::Done), "{job:#?}");
            assert_eq!(job.outcome, earlier.outcome, "restored: {doing}\n{}", site.logs());
        }
        let doctor = service.run(&["doctor", "--invariants"]).await;
        assert!(doctor.status.success(), "{}", String::from_utf8_lossy(&doctor.stdout));
        service.stop().await;
        store.close().await;
    }
    site.close().await;
}

/// A service with one job, and a backup of the moment at which it had only been accepted.
struct Story {
    site: Site,
    service: Program,
    store: Store,
    folder: tempfile::TempDir,
    issue: u64,
}

impl Story {
    /// The job begins with the next start of the service.
    async fn begin() -> Self {
        let site = Site::open(Database::sqlite()).await;
        play(&site, "first");
        let store = site.database.open().await;
        let mut receiver = site.program("service", "receiver");
        receiver.start().await;
        let issue = site
            .double
            .open_issue(REPO, "Sums are wrong", "A difference.", &[], PERSON)
            .unwrap();
        site.double.comment(REPO, issue, "/agent fix", PERSON).unwrap();
        site.double.deliveries_settled().await;
        receiver.stop().await;
        let service = site.program("service", WHOLE);
        let story = Self {
            site,
            service,
            store,
            folder: tempfile::tempdir().unwrap(),
            issue,
        };
        let copy = story.copy();
        let made = story.service.run(&["backup", copy.to_str().unwrap()]).await;
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        story
    }

    fn copy(&self) -> PathBuf {
        self.folder.path().join("copy.sqlite")
    }

    /// The machine is lost once there is something on GitHub, and another one begins with the copy;
    /// the model has other ideas there.
    async fn lost_once(&mut self, what: &str, is_there: impl AsyncFn(&Self) -> bool) {
        self.service.start().await;
        self.site
            .wait(what, PATIENCE, async || is_there(self).await.then_some(()))
            .await;
        self.service.kill().await;
        self.store.close().await;
        std::fs::remove_dir_all(&self.service.state).unwrap();
        restore(&self.site, &self.copy());
        self.site.double.clear_faults();
        play(&self.site, "second");
    }

    /// The job of the copy ends; its outcome.
    async fn ends(&mut self) -> Outcome {
        self.service.start().await;
        self.store = self.site.database.open().await;
        let jobs = settled(&self.site, &self.store).await;
        let [job] = jobs.as_slice() else { panic!("{jobs:#?}") };
        job.outcome
            .clone()
            .unwrap_or_else(|| panic!("{job:#?}\n{}", self.site.logs()))
    }

    fn seen(&self) -> Seen {
        Seen::now(&self.site, &[self.issue])
    }

    async fn close(mut self) {
        self.service.stop().await;
        self.store.close().await;
        self.site.close().await;
    }
}

/// The pull request was there, the last words were not.
#[tokio::test(flavor = "multi_thread")]
async fn a_pull_request_of_a_lost_machine_is_taken_up() {
    let mut story = Story::begin().await;
    let words = format!("PATCH /repos/{REPO}/issues/comments/*");
    story
        .site
        .double
        .fault(&words, Fault::status(502, "Bad Gateway"), 1_000);
    let opened = async |story: &Story| story.seen().opened == 1;
    story.lost_once("the pull request is opened", opened).await;
    let before = story.seen();
    let outcome = story.ends().await;
    let (number, branch, head) = before.pulls[0].clone();
    assert!(
        matches!(&outcome, Outcome::Opened { pull, branch: at, sha }
            if pull.0 == number && at.as_str() == branch && sha.as_str() == head),
        "{outcome:?}\n{}",
        story.site.logs()
    );
    assert_eq!(story.seen(), before);
    let comments = story.site.double.comments(REPO, story.issue).unwrap();
    let said = comments
        .iter()
        .any(|comment| comment.body.contains(&format!("✅ Done: #{number}")));
    assert!(said, "{comments:#?}");
    story.close().await;
}

/// It was even merged before the copy was put back.
#[tokio::test(flavor = "multi_thread")]
async fn a_pull_request_that_was_merged_meanwhile_is_not_made_again() {
    let mut story = Story::begin().await;
    let words = format!("PATCH /repos/{REPO}/issues/comments/*");
    story
        .site
        .double
        .fault(&words, Fault::status(502, "Bad Gateway"), 1_000);
    let opened = async |story: &Story| story.seen().opened == 1;
    story.lost_once("the pull request is opened", opened).await;
    let number = story.seen().pulls[0].0;
    story.site.double.merge_pull(REPO, number, PERSON).await.unwrap();
    let before = story.seen();
    let outcome = story.ends().await;
    // An issue that was closed with it needs no work.
    let is_right = matches!(&outcome, Outcome::Opened { pull, .. } if pull.0 == number);
    assert!(
        is_right || matches!(outcome, Outcome::Stopped { .. }),
        "{outcome:?}\n{}",
        story.site.logs()
    );
    assert_eq!(story.seen(), before);
    story.close().await;
}

/// Only the branch was there: its commit makes way for the new one, since nobody has built on it.
#[tokio::test(flavor = "multi_thread")]
async fn a_branch_of_a_lost_machine_is_used() {
    let mut story = Story::begin().await;
    let pulls = format!("POST /repos/{REPO}/pulls");
    story
        .site
        .double
        .fault(&pulls, Fault::status(502, "Bad Gateway"), 1_000);
    let pushed = async |story: &Story| story.seen().branches.len() == 2;
    story.lost_once("the branch is pushed", pushed).await;
    let before = story.seen();
    let outcome = story.ends().await;
    let after = story.seen();
    assert_eq!(after.branches, before.branches, "no second branch");
    assert_eq!((after.opened, after.comments.clone()), (1, before.comments));
    let Outcome::Opened { sha, branch, .. } = outcome else {
        panic!("{outcome:?}\n{}", story.site.logs())
    };
    assert_eq!(after.pulls[0].2, sha.as_str());
    let file = story.site.double.file(REPO, branch.as_str(), "add.sh").await.unwrap();
    assert!(
        String::from_utf8_lossy(&file).contains("second"),
        "the commit is what the pull request tells of"
    );
    story.close().await;
}

/// A branch of the same name that a person made is left alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_branch_of_a_person_is_not_taken_for_our_own() {
    let mut story = Story::begin().await;
    let pulls = format!("POST /repos/{REPO}/pulls");
    story
        .site
        .double
        .fault(&pulls, Fault::status(502, "Bad Gateway"), 1_000);
    let pushed = async |story: &Story| story.seen().branches.len() == 2;
    story.lost_once("the branch is pushed", pushed).await;
    let name = story.seen().branches.into_iter().find(|name| name != "main").unwrap();
    let theirs = [("theirs.txt", "mine")];
    let sha = story
        .site
        .double
        .push(REPO, &name, &theirs, "Mine", PERSON)
        .await
        .unwrap();
    let outcome = story.ends().await;
    let Outcome::Opened { branch, .. } = outcome else {
        panic!("{outcome:?}\n{}", story.site.logs())
    };
    assert_ne!(branch.as_str(), name);
    assert_eq!(story.site.double.branch(REPO, &name).unwrap(), Some(sha));
    story.close().await;
}

/// The copy is older than the event, and GitHub delivers the event again: it was answered.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_delivered_again_was_answered() {
    let site = Site::open(Database::sqlite()).await;
    play(&site, "first");
    let mut service = site.program("service", WHOLE);
    site.database.open().await.close().await;
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.sqlite");
    let made = service.run(&["backup", copy.to_str().unwrap()]).await;
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    service.start().await;
    let store = site.database.open().await;
    let labelled = site.ask("Sums are wrong, case 0", "A difference.");
    let asked = site
        .double
        .open_issue(REPO, "Sums are wrong, case 1", "A difference.", &[], PERSON)
        .unwrap();
    site.double.comment(REPO, asked, "/agent fix", PERSON).unwrap();
    site.double.deliveries_settled().await;
    let jobs = settled(&site, &store).await;
    assert_eq!(jobs.len(), 2, "{}\n{}", words(&jobs), site.logs());
    let issues = [labelled, asked];
    let before = Seen::now(&site, &issues);
    assert_eq!(before.opened, 2);
    site.double.deliveries_settled().await;
    service.stop().await;
    store.close().await;

    restore(&site, &copy);
    play(&site, "second");
    service.start().await;
    let store = site.database.open().await;
    // In their order: a label that is known to have gone again asks for nothing.
    let mut seen = std::collections::HashSet::new();
    for delivery in site.double.deliveries() {
        if seen.insert(delivery.guid.clone()) {
            site.double.redeliver(&delivery.guid).unwrap();
            site.double.deliveries_settled().await;
        }
    }
    site.wait("the events are jobs again", PATIENCE, async || {
        (settled(&site, &store).await.len() >= 2).then_some(())
    })
    .await;
    let again = settled(&site, &store).await;
    assert_eq!(Seen::now(&site, &issues), before, "{again:#?}\n{}", site.logs());
    for job in &again {
        assert!(jobs.iter().all(|earlier| earlier.id != job.id));
    }
    service.stop().await;
    store.close().await;
    site.close().await;
}
