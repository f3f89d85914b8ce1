//! FI-15: many jobs for a long time, with a fault in one of a hundred steps: every job ends well, and what
//! the service holds of memory, descriptors, threads and rows does not grow with time.
//! `FORGEHAND_TEST_SOAK_SECONDS` says for how long; an hour is for a machine of its own.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use forgehand::demo::double::Fault;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use super::PATIENCE;
use crate::crash::{WHOLE, ask, assert_each_done_once, assert_invariants, number, random};
use crate::databases::{Database, row_counts};
use crate::model_server::{ModelServer, Reply};
use crate::process::{Place, Site, below, finished};

/// Time between two jobs: more than the ten a minute that are asked for.
const EVERY: Duration = Duration::from_millis(2_000);
/// Unless so many are not done yet.
const OPEN: usize = 4;
/// Of so many steps one goes wrong.
const ONE_IN: u32 = 100;
/// The double's ledger keeps no more requests.
const LEDGER: usize = 20_000;
/// What a process may hold more of in the end than in the middle: noise, not growth.
const NOISE_KB: f64 = 12_000.0;
const NOISE_FILES: f64 = 12.0;

/// A look at the process.
#[derive(Debug, Clone, Copy)]
struct Look {
    kb: f64,
    files: f64,
    threads: f64,
}

#[tokio::test(flavor = "multi_thread")]
async fn fi15_nothing_grows_and_nothing_is_stuck_on_sqlite() {
    soak(Database::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fi15_nothing_grows_and_nothing_is_stuck_on_postgres() {
    soak(Database::postgres().await).await;
}

async fn soak(database: Database) {
    let kind = database.kind();
    let mut chance = random(&format!("soak on {kind}"));
    let span = Duration::from_secs(number("FORGEHAND_TEST_SOAK_SECONDS", 60));
    let site = Site::open(database).await;
    let model = model(chance.fork()).await;
    let place = Place {
        model: format!(
            "provider = \"openai\"\nbase_url = {:?}\nname = \"test-model\"\ninput_usd_per_million = 1.0\n\
             output_usd_per_million = 10.0\n",
            model.url()
        ),
        ..site.here()
    };
    let mut service = site.program_at("service", WHOLE, &place);
    service.start().await;
    let store = site.database.open().await;
    let mut issues = Vec::new();
    let (mut looks, mut faults) = (Vec::new(), BTreeMap::new());
    let (mut begun, mut next) = (Instant::now(), Instant::now());
    let mut halfway: Option<(usize, BTreeMap<String, i64>)> = None;
    let mut seen = site.double.requests().len();
    let mut open: Vec<u64> = Vec::new();
    while begun.elapsed() < span {
        let mut still = Vec::new();
        for issue in open {
            if finished(&store, issue).await.is_none() {
                still.push(issue);
            }
        }
        open = still;
        // A machine that needs longer than that for a job gets no more than it can do.
        if Instant::now() >= next && open.len() < OPEN {
            let issue = ask(&site, issues.len(), "It prints a difference.");
            issues.push(issue);
            open.push(issue);
            next = Instant::now() + EVERY;
            site.double.renew_rate();
        }
        let requests = site.double.requests().len();
        disturb(
            &site,
            service.pid(),
            requests.saturating_sub(seen),
            &mut chance,
            &mut faults,
        );
        seen = requests;
        looks.push(look(service.pid()));
        if halfway.is_none() && begun.elapsed() >= span / 2 {
            // Counted where nothing is under way; this wait is no part of the time.
            let paused = Instant::now();
            all_end(&site, &store, &issues).await;
            halfway = Some((issues.len(), row_counts(&site.database).await));
            begun += paused.elapsed();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    site.double.clear_faults();
    site.redeliver_failed().await;
    all_end(&site, &store, &issues).await;
    let (first, at_half) = halfway.expect("half of the time passed");
    report(kind, span, &issues, &looks, &faults);
    assert_flat(&looks);
    assert_rows(first, &at_half, issues.len(), &row_counts(&site.database).await);
    assert!(
        issues.len() as f64 >= span.as_secs_f64() / 6.0,
        "fewer than ten jobs a minute"
    );
    match site.double.requests().len() < LEDGER {
        true => assert_each_done_once(&site, &store, &service, &issues).await,
        false => assert_invariants(&service).await,
    }
    service.stop().await;
    store.close().await;
    site.close().await;
}

async fn all_end(site: &Site, store: &forgehand::store::Store, issues: &[u64]) {
    site.redeliver_failed().await;
    for &issue in issues {
        site.wait("no job is stuck", PATIENCE, async || finished(store, issue).await)
            .await;
    }
}

/// The model mends the repository in four turns; one reply of a hundred is an error or breaks off.
async fn model(chance: fastrand::Rng) -> ModelServer {
    let server = ModelServer::start([]).await;
    let chance = Mutex::new(chance);
    server.answer_with(move |request| {
        let mut chance = chance.lock().unwrap();
        let reply = turn(request);
        match chance.u32(..ONE_IN * 3) {
            0 => Reply::error(500, "something broke"),
            1 => Reply::error(429, "too many").header("retry-after", "1"),
            2 => reply.cut_after(20),
            _ => reply,
        }
    });
    server
}

fn turn(request: &Value) -> Reply {
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    match messages.iter().filter(|message| message["role"] == "assistant").count() {
        0 => Reply::call("read_file", json!({"path": "add.sh"})),
        1 => Reply::call("run_command", json!({"command": "sleep 0.2; sh test.sh"})),
        2 => Reply::change(
            "write_file",
            json!({"path": "add.sh", "content": "#!/bin/sh\necho $(($1 + $2))\n"}),
        ),
        _ => Reply::finish(
            "Add instead of subtracting",
            "`add.sh` subtracted. It now adds, as `test.sh` expects.",
        ),
    }
}

/// One of a hundred requests to GitHub goes wrong, and now and then a command of a sandbox is killed.
fn disturb(
    site: &Site,
    service: Pid,
    requests: usize,
    chance: &mut fastrand::Rng,
    faults: &mut BTreeMap<&'static str, u32>,
) {
    for _ in 0..requests {
        if chance.u32(..ONE_IN) > 0 {
            continue;
        }
        let (what, fault) = match chance.u8(..5) {
            0 => ("500", Fault::status(500, "Server Error")),
            1 => ("502", Fault::status(502, "Bad Gateway")),
            2 => ("reset", Fault::ResetBeforeApply),
            3 => ("applied, then reset", Fault::ApplyThenReset),
            _ => ("applied, then silent", Fault::ApplyThenHang),
        };
        *faults.entry(what).or_default() += 1;
        site.double.fault("* /repos/**", fault, 1);
    }
    if chance.u32(..ONE_IN / 2) == 0
        && let Some((pid, _)) = below(service).into_iter().find(|(_, name)| name == "sleep")
        && rustix::process::kill_process(pid, Signal::KILL).is_ok()
    {
        *faults.entry("command killed").or_default() += 1;
    }
}

fn look(service: Pid) -> Look {
    let pid = service.as_raw_pid();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let number = |key: &str| {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(key))
            .unwrap_or_default();
        let digits = line.split_whitespace().next().unwrap_or_default();
        digits.parse().unwrap_or(0.0)
    };
    Look {
        kb: number("VmRSS:"),
        threads: number("Threads:"),
        files: std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as f64,
    }
}

/// The middle value of a part of the looks.
fn middle(looks: &[Look], of: fn(&Look) -> f64) -> f64 {
    let mut values: Vec<f64> = looks.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The second and the last quarter: the first is for what a program makes once.
fn quarters(looks: &[Look], of: fn(&Look) -> f64) -> (f64, f64) {
    let quarter = looks.len() / 4;
    (
        middle(&looks[quarter..2 * quarter], of),
        middle(&looks[3 * quarter..], of),
    )
}

fn assert_flat(looks: &[Look]) {
    let (before, after) = quarters(looks, |look| look.kb);
    assert!(after - before <= NOISE_KB, "memory grew from {before} KB to {after} KB");
    let (before, after) = quarters(looks, |look| look.files);
    assert!(
        after - before <= NOISE_FILES,
        "descriptors grew from {before} to {after}"
    );
    let (before, after) = quarters(looks, |look| look.threads);
    assert!(after - before <= NOISE_FILES, "threads grew from {before} to {after}");
}

/// Every job leaves as many rows as those before it.
fn assert_rows(first: usize, at_half: &BTreeMap<String, i64>, jobs: usize, in_the_end: &BTreeMap<String, i64>) {
    let later = jobs - first;
    for (table, rows) in in_the_end {
        let before = at_half.get(table).copied().unwrap_or_default();
        let (each, each_later) = (before as f64 / first as f64, (rows - before) as f64 / later as f64);
        assert!(
            each_later <= each * 1.4 + 1.0,
            "{table}: {each:.1} rows for each of the first {first} jobs, {each_later:.1} for each of the {later} after them"
        );
    }
}

fn report(kind: &str, span: Duration, issues: &[u64], looks: &[Look], faults: &BTreeMap<&'static str, u32>) {
    let kb = quarters(looks, |look| look.kb);
    let files = quarters(looks, |look| look.files);
    let threads = quarters(looks, |look| look.threads);
    eprintln!(
        "{} jobs in {span:?} on {kind} with {faults:?}; from the second to the last quarter: resident {:.0} to {:.0} KB, \
         descriptors {:.0} to {:.0}, threads {:.0} to {:.0}; 0 stuck",
        issues.len(),
        kb.0,
        kb.1,
        files.0,
        files.1,
        threads.0,
        threads.1
    );
}
