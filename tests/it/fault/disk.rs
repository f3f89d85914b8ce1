//! FI-9: no room or no inodes left for the workspace, the database, the log or temporary files. The
//! job ends with a reason or waits, and once there is room the service goes on by itself.

use std::time::Duration;

use forgehand::event::RunEvent;
use forgehand::ids::JobId;
use forgehand::job::{JobState, Outcome};

use super::tmpfs::{Full, Tmpfs};
use super::{Bench, PATIENCE};
use crate::crash::{WHOLE, assert_invariants, number, random};
use crate::databases::Database;
use crate::process::{QUICKLY, REPO, Site, jobs_of};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Workspace,
    Database,
    Log,
    Temporary,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Before,
    Amid,
}

/// How long there is no room.
const FULL: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn no_room_for_workspaces() {
    for full in [Full::Bytes, Full::Inodes] {
        for moment in [Moment::Before, Moment::Amid] {
            no_room(Place::Workspace, full, moment).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_room_for_the_database() {
    for full in [Full::Bytes, Full::Inodes] {
        for moment in [Moment::Before, Moment::Amid] {
            no_room(Place::Database, full, moment).await;
        }
    }
}

/// A log that is open needs no inode.
#[tokio::test(flavor = "multi_thread")]
async fn no_room_for_the_log() {
    no_room(Place::Log, Full::Bytes, Moment::Before).await;
    no_room(Place::Log, Full::Bytes, Moment::Amid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_room_for_temporary_files() {
    no_room(Place::Temporary, Full::Bytes, Moment::Before).await;
    no_room(Place::Temporary, Full::Inodes, Moment::Before).await;
}

async fn no_room(place: Place, full: Full, moment: Moment) {
    for _ in 0..number("FORGEHAND_TEST_DISK_ROUNDS", 1) {
        let mut random = random(&format!("no {full:?} for {place:?}, {moment:?}"));
        let folder = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        let Some(small) = Tmpfs::mount(folder.path()) else {
            return;
        };
        let mut bench = open(place, folder.path()).await;
        // A delivery of more than 64 KiB goes through a temporary file.
        let body = match place {
            Place::Temporary => format!("{QUICKLY} {}", "ééé ".repeat(12_000)),
            Place::Workspace | Place::Database | Place::Log => QUICKLY.to_owned(),
        };
        if moment == Moment::Before {
            small.fill(full);
        }
        let issue = bench.ask(&body);
        if moment == Moment::Amid {
            tokio::time::sleep(Duration::from_millis(random.u64(200..1_500))).await;
            small.fill(full);
        }
        tokio::time::sleep(FULL).await;
        small.free();
        bench.site.redeliver_failed().await;
        bench.ends(issue).await;
        let ended = ended_well(&bench, issue).await;
        eprintln!("no {full:?} for {place:?}, {moment:?}: {ended}");
        let next = bench.ask(&body);
        bench
            .site
            .wait("the next job is done without a restart", PATIENCE, async || {
                let job = bench.over(next).await?;
                assert_eq!(job.state, JobState::Done, "{job:#?}\n{}", bench.site.logs());
                matches!(job.outcome, Some(Outcome::Opened { .. })).then_some(())
            })
            .await;
        assert_invariants(&bench.service).await;
        bench.service.stop().await;
        bench.store.close().await;
        bench.site.close().await;
        drop(small);
    }
}

async fn open(place: Place, folder: &std::path::Path) -> Bench {
    let database = match place {
        Place::Database => Database::sqlite_in(folder.join("forgehand.sqlite")),
        Place::Workspace | Place::Log | Place::Temporary => Database::sqlite(),
    };
    let site = Site::open(database).await;
    let mut service = site.program("service", WHOLE);
    let folder_text = folder.display().to_string();
    match place {
        Place::Workspace => service
            .env
            .push(("FORGEHAND_SERVER__STATE_DIR".to_owned(), folder_text)),
        Place::Log => service.log = folder.join("service.log"),
        Place::Temporary => service.env.push(("TMPDIR".to_owned(), folder_text)),
        Place::Database => {}
    }
    service.start().await;
    let store = site.database.open().await;
    Bench {
        site,
        service,
        store,
        issues: Vec::new(),
    }
}

/// It is done, or it says what was missing; nothing is there twice. Returns how it ended.
async fn ended_well(bench: &Bench, issue: u64) -> String {
    let jobs = jobs_of(&bench.store, issue).await;
    let [job] = jobs.as_slice() else {
        panic!("issue {issue} has {} jobs", jobs.len())
    };
    let double = &bench.site.double;
    assert!(double.comments(REPO, issue).unwrap().len() <= 1);
    let pulls = double.pulls(REPO).unwrap().len();
    match &job.outcome {
        Some(Outcome::Opened { .. }) => {
            assert_eq!(pulls, 1);
            format!("done after {} attempt(s)", job.fence)
        }
        // The scripted agent goes on after whatever it is told; where it was told why nothing could be
        // written, nothing was kept from anybody.
        Some(Outcome::NothingToDo { .. }) if agent_was_told(bench, &job.id).await => {
            assert_eq!(pulls, 0);
            format!("nothing was written after {} attempt(s)", job.fence)
        }
        other => {
            let why = job.reason.clone().unwrap_or_default();
            assert!(why.contains("space"), "{other:?} {why:?}\n{}", bench.site.logs());
            format!("{}: {why}", job.state)
        }
    }
}

/// Whether a call of the agent failed, and its answer said that there was no room.
async fn agent_was_told(bench: &Bench, job: &JobId) -> bool {
    let mut tx = bench.store.begin().await.unwrap();
    let events = tx.events(job, 0, 10_000).await.unwrap();
    events.iter().any(|event| {
        matches!(&event.body, RunEvent::ToolCalled { ok: false, output, .. } if output.contains("No space left"))
    })
}
