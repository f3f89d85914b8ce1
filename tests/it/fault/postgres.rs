//! FI-7 on PostgreSQL: connections that break at any message, commits whose answer is lost, stalls,
//! restarts under load, and a failover that loses the last second.

use std::time::{Duration, Instant};

use forgehand::job::JobState;
use forgehand::secret::Secret;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::Bench;
use super::cluster::Cluster;
use super::proxy::{Fault, Proxy, with_host};
use crate::crash::{WHOLE, assert_invariants, number, random};
use crate::databases::Database;
use crate::process::{QUICKLY, REPO, Site, jobs_of};

/// Longer than any statement takes, shorter than a lease: it is waited for, or given up.
const STALL: Duration = Duration::from_secs(2);

/// How many times a number of cases is to be had.
fn rounds() -> u64 {
    number("FORGEHAND_TEST_DATABASE_ROUNDS", 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_breaks_at_any_message() {
    broken("broken connections", 22 * rounds(), |random| match random.bool() {
        true => Fault::Drop,
        false => Fault::DropBehind,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_to_any_commit_is_lost() {
    broken("lost answers to a commit", 12 * rounds(), |_| Fault::LoseCommit).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_stalls_at_any_message() {
    broken("stalls", 6 * rounds(), |_| Fault::Stall(STALL)).await;
}

/// One worker, so that most messages are of the job and not of looks into the queue.
async fn broken(story: &str, cases: u64, fault: impl Fn(&mut fastrand::Rng) -> Fault) {
    let mut random = random(story);
    let mut database = Database::postgres().await;
    let direct = database.url.clone();
    let proxy = Proxy::open(&direct);
    database.url = proxy.address(&direct);
    let mut bench = open(database, &direct).await;
    let issue = bench.ask(QUICKLY);
    bench.ends(issue).await;
    let before = proxy.seen();
    let issue = bench.ask(QUICKLY);
    bench.ends(issue).await;
    let after = proxy.seen();
    let (mut messages, mut commits) = (after.0 - before.0, after.1 - before.1);
    let (mut acted, mut slowest) = (0, Duration::ZERO);
    let mut jobs = 0;
    while acted < cases {
        jobs += 1;
        assert!(jobs <= 3 * cases, "only {acted} of {jobs} happened");
        let fault = fault(&mut random);
        let all = if fault == Fault::LoseCommit { commits } else { messages };
        proxy.arm(random.u64(1..=all * 9 / 10), fault);
        let issue = bench.ask(QUICKLY);
        let began = Instant::now();
        let before = proxy.seen();
        bench.site.redeliver_failed().await;
        bench.ends(issue).await;
        slowest = slowest.max(began.elapsed());
        if proxy.disarm() {
            acted += 1;
        } else {
            // A job that nothing happened to shows how few messages one may take: how many there are
            // beside it depends on how long it takes.
            let after = proxy.seen();
            messages = messages.min(after.0 - before.0).max(10);
            commits = commits.min(after.1 - before.1).max(10);
        }
    }
    eprintln!(
        "{acted} {story} in {jobs} jobs; a job is {messages} messages and {commits} commits; the slowest took {slowest:.1?}"
    );
    bench.settle().await;
}

/// The service with one worker; the test looks past what the service goes through.
async fn open(database: Database, direct: &Secret) -> Bench {
    let site = Site::open(database).await;
    let mut service = site.program("service", WHOLE);
    service
        .env
        .push(("FORGEHAND_QUEUE__WORKERS".to_owned(), "1".to_owned()));
    service.start().await;
    let store = forgehand::store::Store::open(direct, 4).await.unwrap();
    Bench {
        site,
        service,
        store,
        issues: Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_restarts_under_load() {
    let mut random = random("restarts of the server");
    let cluster = Cluster::start().await;
    let database = Database::postgres_in(&cluster.address()).await;
    let direct = database.url.clone();
    let mut bench = open(database, &direct).await;
    let issue = bench.ask(QUICKLY);
    bench.ends(issue).await;
    for _ in 0..4 * rounds() {
        let issues = [bench.ask(QUICKLY), bench.ask(QUICKLY), bench.ask(QUICKLY)];
        tokio::time::sleep(Duration::from_millis(random.u64(0..3_000))).await;
        cluster.restart().await;
        bench.site.redeliver_failed().await;
        for issue in issues {
            bench.ends(issue).await;
        }
    }
    bench.settle().await;
}

/// The follower stopped to hear of anything a second before the server was lost. What GitHub shows
/// of that second is found again, and not made again.
#[tokio::test(flavor = "multi_thread")]
async fn a_failover_loses_the_last_second() {
    let mut random = random("failovers");
    let mut leader = Cluster::start().await;
    let mut database = Database::postgres_in(&leader.address()).await;
    let mut direct = database.url.clone();
    let proxy = Proxy::open(&direct);
    database.url = proxy.address(&direct);
    let mut bench = open(database, &direct).await;
    let issue = bench.ask(QUICKLY);
    bench.ends(issue).await;
    let mut lost = Vec::new();
    for _ in 0..4 * rounds() {
        let follower = leader.follower().await;
        let issues = [bench.ask(QUICKLY), bench.ask(QUICKLY), bench.ask(QUICKLY)];
        bench.site.redeliver_failed().await;
        tokio::time::sleep(Duration::from_millis(random.u64(0..2_000))).await;
        execute(&follower.address(), "ALTER SYSTEM SET primary_conninfo = ''").await;
        execute(&follower.address(), "SELECT pg_reload_conf()").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before = events(&bench, &issues).await;
        proxy.close();
        bench.store.close().await;
        leader.lose().await;
        follower.promote().await;
        direct = with_host(&direct, &follower.folder());
        bench.store = forgehand::store::Store::open(&direct, 4).await.unwrap();
        lost.push(before.saturating_sub(events(&bench, &issues).await));
        proxy.lead_to(&direct);
        leader = follower;
        bench.site.redeliver_failed().await;
        for issue in issues {
            bench.ends(issue).await;
        }
    }
    eprintln!("events lost in failovers: {lost:?}");
    assert!(lost.iter().any(|lost| *lost > 0), "nothing was lost: {lost:?}");
    assert_there_once(&bench).await;
    assert_invariants(&bench.service).await;
    bench.service.stop().await;
    bench.store.close().await;
}

/// One job, one comment and one pull request of each issue. A job whose end was lost, and with it that
/// we took off its label ourselves, finds the label gone and says that it was stopped.
async fn assert_there_once(bench: &Bench) {
    let double = &bench.site.double;
    let mut stopped = 0;
    for &issue in &bench.issues {
        let jobs = jobs_of(&bench.store, issue).await;
        let [job] = jobs.as_slice() else {
            panic!("issue {issue} has {} jobs", jobs.len())
        };
        let why = job.reason.clone().unwrap_or_default();
        let forgot = job.state == JobState::Cancelled && why.contains("label");
        assert!(job.state == JobState::Done || forgot, "{job:#?}\n{}", bench.site.logs());
        stopped += u32::from(forgot);
        let comments = double.comments(REPO, issue).unwrap();
        assert_eq!(comments.len(), 1, "{comments:#?}");
        let branch = format!("agent/{issue}-");
        let pulls = double.pulls(REPO).unwrap();
        let own = pulls.iter().filter(|pull| pull.head.starts_with(&branch));
        assert_eq!(own.count(), 1, "pull requests of issue {issue}");
    }
    assert_eq!(double.branches(REPO).unwrap().len(), bench.issues.len() + 1);
    eprintln!("{stopped} jobs had forgotten that they were finished");
}

/// How many events of jobs there are.
async fn events(bench: &Bench, issues: &[u64]) -> usize {
    let mut count = 0;
    for issue in issues {
        let Some(job) = jobs_of(&bench.store, *issue).await.pop() else {
            panic!("the job of issue {issue} was lost, too");
        };
        let mut tx = bench.store.begin().await.unwrap();
        count += tx.events(&job.id, 0, 10_000).await.unwrap().len();
    }
    count
}

async fn execute(database: &Secret, statement: &str) {
    let mut connection = PgConnection::connect(database.expose()).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned()))
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}

/// Finished work whose last attempt does not hear that it was stored is published all the same.
#[cfg(feature = "failpoints")]
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_in_the_last_attempt_buries_nothing() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let direct = database.url.clone();
        let site = Site::open(database).await;
        let mut service = site.program("service", WHOLE);
        service
            .env
            .push(("FORGEHAND_QUEUE__MAX_ATTEMPTS".to_owned(), "2".to_owned()));
        let armed = "turn.asking=error;publish.committed=error".to_owned();
        service.env.push(("FORGEHAND_FAILPOINTS".to_owned(), armed));
        service.start().await;
        let store = forgehand::store::Store::open(&direct, 4).await.unwrap();
        let mut bench = Bench {
            site,
            service,
            store,
            issues: Vec::new(),
        };
        let issue = bench.ask(QUICKLY);
        bench.ends(issue).await;
        bench.settle().await;
    }
}
