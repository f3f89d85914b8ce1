//! FI-7, EIO: the disk below SQLite's file does not write, or does not sync, for a while. What was
//! acknowledged before and meanwhile is there, the service says what is the matter and goes on by itself,
//! and one that is killed meanwhile finds a whole file. The kernel's answers are put in by strace, on the
//! real program's own calls. Never at a file of anybody else: only calls on this database are answered so.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use forgehand::demo::double::DeliveryState;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use super::{Bench, PATIENCE};
use crate::crash::{WHOLE, number, random};
use crate::databases::Database;
use crate::process::{Program, QUICKLY, Site};

/// How long the disk is broken: several looks into the queue, heartbeats and webhooks.
const BROKEN: Duration = Duration::from_secs(3);

/// What the disk does not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fails {
    Write,
    Sync,
}

impl Fails {
    fn calls(self) -> &'static str {
        match self {
            Fails::Write => "pwrite64,pwritev,write",
            Fails::Sync => "fsync,fdatasync",
        }
    }
}

/// How it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The disk is mended.
    Mended,
    /// The service is killed while the disk is broken, and started when it is mended.
    Killed,
}

#[tokio::test(flavor = "multi_thread")]
async fn fi7_a_disk_that_does_not_write_loses_nothing() {
    broken_disk(Fails::Write).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fi7_a_disk_that_does_not_sync_loses_nothing() {
    broken_disk(Fails::Sync).await;
}

async fn broken_disk(fails: Fails) {
    let mut random = random(&format!("a disk that does not {fails:?}"));
    let site = Site::open(Database::sqlite()).await;
    let mut service = site.program("service", WHOLE);
    service.start().await;
    let store = site.database.open().await;
    let mut bench = Bench {
        site,
        service,
        store,
        issues: Vec::new(),
    };
    for _ in 0..number("FORGEHAND_TEST_DATABASE_ROUNDS", 1) {
        for then in [Then::Mended, Then::Killed] {
            let mut issues = vec![bench.ask(QUICKLY)];
            tokio::time::sleep(Duration::from_millis(random.u64(0..1_500))).await;
            let Some(disk) = Broken::disk(&bench, fails).await else {
                return;
            };
            issues.push(bench.ask(QUICKLY));
            tokio::time::sleep(BROKEN).await;
            if then == Then::Killed {
                bench.service.kill().await;
            }
            let answered = disk.mend().await;
            eprintln!("{fails:?}, {then:?}: {answered} calls were answered with EIO");
            assert!(answered > 0, "the disk was not used while it was broken");
            if then == Then::Killed {
                bench.service.start().await;
            }
            assert_acknowledged_is_there(&bench).await;
            bench.site.redeliver_failed().await;
            for issue in issues {
                bench.ends(issue).await;
            }
        }
    }
    assert_said_what_is_wrong(&bench.service);
    bench.settle().await;
}

/// Whatever GitHub was told that we took is a row.
async fn assert_acknowledged_is_there(bench: &Bench) {
    bench.site.double.deliveries_settled().await;
    let taken = |state: &DeliveryState| matches!(state, DeliveryState::Answered(200..=299));
    let deliveries = bench.site.double.deliveries().into_iter();
    let guids: BTreeSet<String> = deliveries.filter(|it| taken(&it.state)).map(|it| it.guid).collect();
    for guid in guids {
        let what = format!("delivery {guid} was acknowledged and is there");
        let is_there = async || {
            let mut tx = bench.store.begin().await.ok()?;
            tx.delivery(&guid).await.ok()?
        };
        bench.site.wait(&what, PATIENCE, is_there).await;
    }
}

/// What is the matter, where, and what to do.
fn assert_said_what_is_wrong(service: &Program) {
    let log = service.log();
    let said = log.lines().find(|line| line.contains("disk I/O error"));
    let said = said.unwrap_or_else(|| panic!("nothing about the disk in\n{log}"));
    for words in ["database.url", "kernel's log", "goes on by itself"] {
        assert!(said.contains(words), "{words:?} is not in {said}");
    }
}

/// Waits until it has all threads, or ends with these words.
async fn attached(tracer: &mut Child, folder: &Path) -> Result<(), String> {
    loop {
        let has_ended = tracer.try_wait().unwrap().is_some();
        let said = std::fs::read_to_string(folder.join("said")).unwrap();
        if said.contains("attached") {
            return Ok(());
        } else if has_ended {
            return Err(said);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A disk that answers with EIO.
struct Broken {
    tracer: Child,
    folder: tempfile::TempDir,
}

impl Broken {
    /// For the service of a bench and its database. `None` where a process cannot be traced, which is a
    /// failure where everything has to be there.
    async fn disk(bench: &Bench, fails: Fails) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let file = bench.site.database.file().unwrap();
        let mut strace = Command::new("strace");
        strace
            .args(["-f", "-o"])
            .arg(folder.path().join("calls"))
            .arg("-p")
            .arg(bench.service.pid().as_raw_pid().to_string())
            .arg("-P")
            .arg(&file)
            .arg("-P")
            .arg(format!("{}-wal", file.display()))
            .args(["-e", &format!("trace={}", fails.calls())])
            .args(["-e", &format!("inject={}:error=EIO", fails.calls())])
            .stdin(Stdio::null())
            .stderr(std::fs::File::create(folder.path().join("said")).unwrap())
            .kill_on_drop(true);
        let problem = match strace.spawn() {
            Ok(mut tracer) => match attached(&mut tracer, folder.path()).await {
                Ok(()) => return Some(Self { tracer, folder }),
                Err(said) => said,
            },
            Err(error) => error.to_string(),
        };
        eprintln!("NOT TRIED: a broken disk needs strace and the right to use it ({problem}); run as root");
        assert!(
            std::env::var_os("FORGEHAND_TEST_ALL").is_none(),
            "a process cannot be traced"
        );
        None
    }

    /// It works again. How many calls did not.
    async fn mend(mut self) -> usize {
        if let Some(id) = self.tracer.id() {
            // It may have ended with its process.
            let _ = kill_process(Pid::from_raw(id.cast_signed()).unwrap(), Signal::INT);
        }
        self.tracer.wait().await.unwrap();
        let calls = std::fs::read_to_string(self.folder.path().join("calls")).unwrap();
        calls.matches("(INJECTED)").count()
    }
}
