//! FI-3: the receiver dies between the commit of a delivery and its answer, GitHub delivers again,
//! and there is one job.

use super::Bench;
use crate::crash::{WHOLE, number, random};
use crate::databases::Database;
use crate::process::{QUICKLY, Site, jobs_of};

/// Deliveries of one request for work: the issue is opened, and labelled.
const DELIVERIES: u32 = 2;

#[tokio::test(flavor = "multi_thread")]
async fn no_second_job_on_sqlite() {
    die_before_the_answer(Database::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_second_job_on_postgres() {
    die_before_the_answer(Database::postgres().await).await;
}

async fn die_before_the_answer(database: Database) {
    let kind = database.kind();
    let mut random = random(&format!("receivers that die before the answer on {kind}"));
    let kills = number("FORGEHAND_TEST_RECEIVER_KILLS", 50).div_ceil(2);
    let site = Site::open(database).await;
    let receiver = site.program("service", "receiver");
    let store = site.database.open().await;
    let mut bench = Bench {
        service: receiver,
        site,
        store,
        issues: Vec::new(),
    };
    let mut labelled = 0;
    for _ in 0..kills {
        let hit = random.u32(1..=DELIVERIES);
        labelled += u64::from(hit == DELIVERIES);
        let armed = format!("{hit}*receiver.committed=crash");
        bench.service.env = vec![("FORGEHAND_FAILPOINTS".to_owned(), armed)];
        bench.service.start().await;
        let issue = bench.ask(QUICKLY);
        assert_eq!(bench.service.ended().await, None, "it was killed");
        bench.site.double.deliveries_settled().await;
        assert!(!bench.site.failed_deliveries().is_empty(), "GitHub had an answer");
        if hit == DELIVERIES {
            assert_eq!(jobs_of(&bench.store, issue).await.len(), 1, "it was committed");
        }
        bench.service.env.clear();
        bench.service.start().await;
        bench.site.redeliver_failed().await;
        assert_eq!(jobs_of(&bench.store, issue).await.len(), 1, "issue {issue}");
        bench.service.stop().await;
    }
    eprintln!("{kills} receivers died before their answer on {kind}, {labelled} of them with a new job");
    bench.service = bench.site.program("service", WHOLE);
    bench.service.start().await;
    for issue in bench.issues.clone() {
        bench.ends(issue).await;
    }
    bench.settle().await;
}
