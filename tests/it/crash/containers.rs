//! FI-4 where commands run in containers: `kill -9` of the whole service while they do, at random
//! moments, also where a container stands still so that it cannot end by itself. Soon
//! after the restart no container of the dead service is there, and nothing else of it.
//! Never counts a container of another story's service: each is known by the folders that it shows.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{WHOLE, ask, assert_each_done_once, number, random};
use crate::databases::Database;
use crate::process::{Orphans, Place, Program, SLOWLY, Site, finished};
use crate::sandbox::backends;
use crate::sandbox::engines::{ask as ask_engine, try_to_ask};

/// Longest time until a job ends after the last kill.
const PATIENCE: Duration = Duration::from_secs(120);
/// RELIABILITY.md's limit, counted from the moment at which the restarted service answers.
const GONE: Duration = Duration::from_secs(10);
/// A container that is told to end by the end of its connection may take a moment to be seen gone.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

#[test]
fn fi4_no_container_outlives_its_service_by_long_on_sqlite() {
    backends::on_engines(async || kill_amid_containers(Database::sqlite()).await);
}

#[test]
fn fi4_no_container_outlives_its_service_by_long_on_postgres() {
    backends::on_engines(async || kill_amid_containers(Database::postgres().await).await);
}

/// What the rounds saw.
#[derive(Default)]
struct Tally {
    /// Containers that were there when their service died.
    left: usize,
    /// Of these, those that could not end by themselves.
    held: usize,
    /// Kills that met no container.
    none: u64,
    /// From the first answer of the restarted service until the last container was gone.
    longest: Duration,
}

async fn kill_amid_containers(database: Database) {
    let kind = database.kind();
    let engine = backends::place();
    let mut random = random(&format!("kills amid containers of {engine:?} on {kind}"));
    let kills = number("FORGEHAND_TEST_CONTAINER_KILLS", 5);
    let site = Site::open(database).await;
    let mut orphans = Orphans::watch(site.folder());
    let mut service = site.program_at("service", WHOLE, &in_containers(&site));
    service.start().await;
    let store = site.database.open().await;
    let (mut issues, mut tally) = (Vec::new(), Tally::default());
    for kill in 0..kills {
        let issue = ask(&site, issues.len(), SLOWLY);
        issues.push(issue);
        site.wait("a container is there", PATIENCE, async || {
            let is_over = finished(&store, issue).await.is_some();
            (is_over || !containers(&site).is_empty()).then_some(())
        })
        .await;
        tokio::time::sleep(Duration::from_millis(random.u64(0..2_500))).await;
        // Every second time, what runs stands still.
        let is_held = kill % 2 == 1;
        let dead = service.pid();
        if is_held {
            tally.held += hold(&site);
        }
        service.kill().await;
        let left = containers(&site);
        tally.none += u64::from(left.is_empty());
        tally.left += left.len();
        left.iter().for_each(assert_nothing_lasts);
        service.start().await;
        are_gone(&site, &service, &mut tally).await;
        assert_ne!(service.pid(), dead);
        orphans.are_gone(&[service.pid()], GONE).await;
        site.redeliver_failed().await;
        site.wait("the job ends", PATIENCE, async || finished(&store, issue).await)
            .await;
    }
    eprintln!(
        "{kills} kills amid containers of {engine:?} on {kind}: {} were left, {} of them held still; all gone at most \
         {:.1?} after the restart; {} kills met none",
        tally.left, tally.held, tally.longest, tally.none
    );
    assert!(tally.none * 2 <= kills, "too many kills met no container");
    assert!(kills < 2 || tally.held > 0, "no container was held");
    assert_each_done_once(&site, &store, &service, &issues).await;
    super::kills::assert_no_token_is_kept(&service.state);
    site.wait(
        "folders and containers of ended jobs are removed",
        PATIENCE,
        async || (service.leftovers().is_empty() && containers(&site).is_empty()).then_some(()),
    )
    .await;
    service.stop().await;
    store.close().await;
    site.close().await;
}

/// A service whose commands run in containers of the story's engine.
fn in_containers(site: &Site) -> Place {
    let socket = backends::socket().expect("an engine");
    Place {
        more: format!(
            "[sandbox]\nbackend = \"docker\"\ndocker_socket = {socket:?}\nimage = \"forgehand-test:debian\"\n\
             image_by_tag = true\n"
        ),
        ..site.here()
    }
}

/// Containers that show a folder of this site.
fn containers(site: &Site) -> Vec<Value> {
    let own = site.folder().display().to_string();
    let all = ask_engine("GET", "/containers/json?all=1", "");
    let shows = |mount: &Value| mount["Source"].as_str().is_some_and(|source| source.starts_with(&own));
    let is_ours = |container: &&Value| {
        let mounts = container["Mounts"].as_array();
        mounts.is_some_and(|mounts| mounts.iter().any(shows))
    };
    all.as_array()
        .expect("a list")
        .iter()
        .filter(is_ours)
        .cloned()
        .collect()
}

/// The process that a container says it belongs to.
fn owner(container: &Value) -> i32 {
    let label = container["Labels"]["forgehand.owner"].as_str().expect("an owner");
    let process = label.split('/').nth(2).and_then(|process| process.parse().ok());
    process.unwrap_or_else(|| panic!("no process in {label}"))
}

/// Stops the first process of the running ones, which so does not notice that its service is gone. (To
/// pause the whole container would also stop an engine that is about to start a command in it.) How many
/// there are.
fn hold(site: &Site) -> usize {
    let containers = containers(site).into_iter();
    let running = containers.filter(|container| container["State"] == "running");
    running
        .filter(|container| {
            let id = container["Id"].as_str().expect("an id");
            // One that ends at this moment cannot be held.
            let found = try_to_ask("GET", &format!("/containers/{id}/json"), "").unwrap_or_default();
            let first = found["State"]["Pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
            let first = first.and_then(Pid::from_raw);
            first.is_some_and(|first| kill_process(first, Signal::STOP).is_ok())
        })
        .count()
}

/// Neither a volume nor a network could stay behind a container, and no token is in it.
fn assert_nothing_lasts(container: &Value) {
    let mounts = container["Mounts"].as_array().expect("mounts");
    assert!(
        mounts.iter().all(|mount| mount["Type"] != "volume"),
        "a volume: {container}"
    );
    let networks = container["NetworkSettings"]["Networks"].as_object();
    let is_none = |networks: &serde_json::Map<String, Value>| networks.keys().all(|name| name == "none");
    assert!(networks.is_none_or(is_none), "a network: {container}");
    assert!(!container.to_string().contains("ghs_"), "a token: {container}");
}

/// Waits until all that are there belong to the service of now.
async fn are_gone(site: &Site, service: &Program, tally: &mut Tally) {
    let (began, own) = (Instant::now(), service.pid().as_raw_pid());
    loop {
        let all = containers(site);
        let left: Vec<&Value> = all.iter().filter(|container| owner(container) != own).collect();
        if left.is_empty() {
            break;
        }
        assert!(
            began.elapsed() < GONE,
            "these outlived their service: {left:#?}\n{}",
            site.logs()
        );
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    tally.longest = tally.longest.max(began.elapsed());
}
