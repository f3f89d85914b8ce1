//! `kill -9` of the whole service at random moments, then a restart: nothing is lost, nothing is
//! there twice.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use forgehand::effect::EffectState;
use forgehand::event::{RunEvent, Stage};
use forgehand::job::{Job, JobState};
use forgehand::store::Store;

use super::{WHOLE, ask, assert_each_done_once, number, random};
use crate::databases::Database;
use crate::process::{Orphans, Program, Site, finished, jobs_of};

/// A job that was killed this often is left alone until it ends: three lost leases without
/// progress are a job that kills its workers, which is another story.
const MOST_HITS: u32 = 2;
/// Most jobs in flight at once.
const IN_FLIGHT: usize = 4;
/// Longest time until a job ends after the last kill.
const PATIENCE: Duration = Duration::from_secs(120);
/// What was killed is gone within this time.
const ORPHANS_GONE: Duration = Duration::from_secs(5);

/// J16: what is at work is a lease that ends, not a mark that stays.
#[tokio::test(flavor = "multi_thread")]
async fn fifty_kills_lose_nothing_on_sqlite() {
    kill_again_and_again(Database::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_kills_lose_nothing_on_postgres() {
    kill_again_and_again(Database::postgres().await).await;
}

/// What the rounds saw.
#[derive(Default)]
struct Tally {
    /// Doing what → jobs killed while doing it.
    doing: BTreeMap<String, u32>,
    /// Kills that hit no job in progress.
    idle: u32,
    /// From the start of the process to the first answer.
    restart: Vec<Duration>,
}

async fn kill_again_and_again(database: Database) {
    let kind = database.kind();
    let mut random = random(&format!("kills on {kind}"));
    let kills = number("FORGEHAND_TEST_KILLS", 50);
    let site = Site::open(database).await;
    let mut orphans = Orphans::watch(site.folder());
    let mut service = site.program("service", WHOLE);
    service.start().await;
    let store = site.database.open().await;
    let (mut issues, mut undisturbed) = undisturbed(&site, &store).await;
    let mut tally = Tally::default();
    let mut open: BTreeMap<u64, u32> = BTreeMap::new();
    let began = Instant::now();
    for number in 0..kills {
        let issue = ask(&site, issues.len(), "It prints a difference.");
        issues.push(issue);
        open.insert(issue, 0);
        // The way to the work is short beside the work: every fourth kill is meant for it.
        let span = if number % 4 == 0 { 0.1 } else { 1.3 };
        let moment = undisturbed.mul_f64(span * random.f64());
        tokio::time::sleep(moment).await;
        service.kill().await;
        hit(&store, &mut open, &mut tally).await;
        restart(&mut service, &mut tally).await;
        orphans.are_gone(&[service.pid()], ORPHANS_GONE).await;
        site.redeliver_failed().await;
        // The machine may be busier or idler than it was at the beginning.
        for took in settle(&site, &store, &mut open).await {
            undisturbed = undisturbed.mul_f64(0.7) + took.mul_f64(0.3);
        }
    }
    for issue in open.into_keys() {
        ended(&site, &store, issue).await;
    }
    let took = began.elapsed();
    report(kind, kills, undisturbed, took, &mut tally, orphans.longest);
    assert_each_done_once(&site, &store, &service, &issues).await;
    assert_no_token_is_kept(&service.state);
    site.wait("the folders of ended jobs are removed", PATIENCE, async || {
        service.leftovers().is_empty().then_some(())
    })
    .await;
    assert_spread(kills, &tally);
    service.stop().await;
    store.close().await;
    site.close().await;
}

/// Tokens live in memory: nothing of a killed process tells one.
pub fn assert_no_token_is_kept(folder: &std::path::Path) {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_symlink() {
                continue;
            } else if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = std::fs::read(&path).unwrap_or_default();
                assert!(
                    !bytes.windows(4).any(|word| word == b"ghs_"),
                    "a token is in {}",
                    path.display()
                );
            }
        }
    }
}

/// How long a job takes when nobody disturbs it; the first one also makes the mirror.
async fn undisturbed(site: &Site, store: &Store) -> (Vec<u64>, Duration) {
    let mut issues = Vec::new();
    let mut took = Vec::new();
    for _ in 0..3 {
        let began = Instant::now();
        let issue = ask(site, issues.len(), "It prints a difference.");
        ended(site, store, issue).await;
        issues.push(issue);
        took.push(began.elapsed());
    }
    took.sort();
    (issues, took[1])
}

async fn ended(site: &Site, store: &Store, issue: u64) -> Job {
    site.wait(&format!("the job of issue {issue} ends"), PATIENCE, async || {
        finished(store, issue).await
    })
    .await
}

/// Notes what each open job was doing, and that it was hit.
async fn hit(store: &Store, open: &mut BTreeMap<u64, u32>, tally: &mut Tally) {
    let mut in_progress = false;
    for (issue, hits) in open.iter_mut() {
        let doing = doing(store, *issue).await;
        in_progress |= doing != "done";
        *hits += u32::from(doing != "done");
        *tally.doing.entry(doing).or_default() += 1;
    }
    tally.idle += u32::from(!in_progress);
}

async fn restart(service: &mut Program, tally: &mut Tally) {
    let began = Instant::now();
    service.start().await;
    tally.restart.push(began.elapsed());
}

/// Goes on to the next kill when few enough jobs are open, and none that was hit too often.
/// Returns how long jobs took that nobody disturbed.
async fn settle(site: &Site, store: &Store, open: &mut BTreeMap<u64, u32>) -> Vec<Duration> {
    let open = std::cell::RefCell::new(open);
    let undisturbed = std::cell::RefCell::new(Vec::new());
    site.wait("jobs end between two kills", PATIENCE, async || {
        let issues: Vec<u64> = open.borrow().keys().copied().collect();
        for issue in issues {
            let Some(job) = finished(store, issue).await else {
                continue;
            };
            open.borrow_mut().remove(&issue);
            if let (1, Some(end)) = (job.fence, job.finished_at) {
                undisturbed
                    .borrow_mut()
                    .push((end - job.created_at).to_std().unwrap_or_default());
            }
        }
        let open = open.borrow();
        (open.len() < IN_FLIGHT && open.values().all(|hits| *hits < MOST_HITS)).then_some(())
    })
    .await;
    undisturbed.into_inner()
}

/// What the job of an issue was doing, in the words of the table.
async fn doing(store: &Store, issue: u64) -> String {
    let Some(job) = jobs_of(store, issue).await.pop() else {
        return "before accept".to_owned();
    };
    match job.state {
        JobState::Queued | JobState::Waiting if job.fence == 0 => "queued".to_owned(),
        JobState::Queued | JobState::Waiting => "handed back".to_owned(),
        JobState::Leased => leased(store, &job).await,
        JobState::Publishing => format!(
            "publishing: {}",
            effect(store, &job).await.unwrap_or("finish".to_owned())
        ),
        JobState::Done | JobState::Dead | JobState::Cancelled => "done".to_owned(),
    }
}

async fn leased(store: &Store, job: &Job) -> String {
    if let Some(early) = effect(store, job).await {
        return format!("acknowledging: {early}");
    }
    let mut tx = store.begin().await.unwrap();
    let events = tx.events(&job.id, 0, 10_000).await.unwrap();
    let claimed = events
        .iter()
        .rposition(|event| matches!(event.body, RunEvent::Claimed { .. }));
    let mut doing = "authorize";
    for event in &events[claimed.unwrap_or(0)..] {
        match event.body {
            RunEvent::StageStarted { stage } => doing = word(stage),
            RunEvent::StageFinished { stage, .. } => doing = after(stage),
            _ => {}
        }
    }
    doing.to_owned()
}

fn word(stage: Stage) -> &'static str {
    match stage {
        Stage::Authorize => "authorize",
        Stage::Brief => "brief",
        Stage::Open => "open",
        Stage::SetUp => "set-up and checks before",
        Stage::Solve => "solve",
        Stage::Verify => "verify",
        Stage::Publish => "publishing",
    }
}

fn after(stage: Stage) -> &'static str {
    match stage {
        Stage::Authorize => "brief",
        Stage::Brief => "open",
        Stage::Open => "set-up and checks before",
        Stage::SetUp => "solve",
        Stage::Solve => "import",
        Stage::Verify | Stage::Publish => "plan",
    }
}

/// The first effect that is not final, and how far it is.
async fn effect(store: &Store, job: &Job) -> Option<String> {
    let mut tx = store.begin().await.unwrap();
    let effects = tx.effects(&job.id).await.unwrap();
    let next = effects.iter().find(|effect| !effect.state.is_final())?;
    let how = match next.state {
        EffectState::Sending => "calling",
        EffectState::Unknown => "waiting",
        _ => "next",
    };
    Some(format!("{} ({how})", next.body.kind()))
}

fn report(kind: &str, kills: u64, undisturbed: Duration, took: Duration, tally: &mut Tally, orphans: Duration) {
    tally.restart.sort();
    let middle = tally.restart.get(tally.restart.len() / 2).copied().unwrap_or_default();
    let slowest = tally.restart.last().copied().unwrap_or_default();
    eprintln!(
        "{kills} kills on {kind} in {took:.1?}; an undisturbed job takes {undisturbed:.2?}; restart {middle:.0?} \
         (slowest {slowest:.0?}); nothing outlived its service by more than {orphans:.0?}; {} kills met no job",
        tally.idle
    );
    for (doing, count) in &tally.doing {
        eprintln!("  {count:4}  {doing}");
    }
}

/// The moments must cover the whole way, or the test says little.
fn assert_spread(kills: u64, tally: &Tally) {
    assert!(u64::from(tally.idle) * 2 <= kills, "too many kills met no job");
    let met = |words: &[&str]| {
        let count = tally
            .doing
            .iter()
            .filter(|(doing, _)| words.iter().any(|word| doing.contains(word)));
        count.map(|(_, count)| u64::from(*count)).sum::<u64>()
    };
    if kills < 50 {
        return;
    }
    for phase in [
        ["before accept", "queued", "authorize", "acknowledging"].as_slice(),
        &["brief", "open", "set-up"],
        &["solve", "import"],
        &["verify", "plan"],
        &["publishing"],
    ] {
        assert!(met(phase) > 0, "no kill met any of {phase:?}");
    }
}
