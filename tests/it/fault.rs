//! Faults put in on purpose, with the real program in processes of its own: failpoints, a receiver
//! that dies before its answer, databases that drop, stall, restart and lose, and full disks.
//! Never calls a fault survived before GitHub and the database agree on what was done, once.

mod cluster;
mod disk;
mod eio;
mod limit;
mod marks;
#[cfg(feature = "failpoints")]
mod points;
mod postgres;
mod proxy;
#[cfg(feature = "failpoints")]
mod receiver;
#[cfg(feature = "failpoints")]
mod settled;
mod sqlite;
mod tmpfs;

use std::time::Duration;

use forgehand::ids::{IssueNumber, Subject};
use forgehand::job::Job;
use forgehand::store::{JobFilter, Store};

use crate::crash::assert_each_done_once;
use crate::process::{Program, Site};

/// Longest time a job may take beside others on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The service at work on a site, and what was asked of it so far.
struct Bench {
    site: Site,
    service: Program,
    store: Store,
    issues: Vec<u64>,
}

impl Bench {
    /// Asks for something in words that are different each time.
    fn ask(&mut self, body: &str) -> u64 {
        let issue = self
            .site
            .ask(&format!("Sums are wrong, case {}", self.issues.len()), body);
        self.issues.push(issue);
        issue
    }

    /// Waits until the job of an issue is over, whatever became of it.
    async fn ends(&self, issue: u64) -> Job {
        let what = format!("the job of issue {issue} ends");
        self.site.wait(&what, PATIENCE, async || self.over(issue).await).await
    }

    /// The job of an issue when it is over; nothing while the database does not answer.
    async fn over(&self, issue: u64) -> Option<Job> {
        let filter = JobFilter {
            subject: Some(Subject::Issue(IssueNumber(issue))),
            limit: 1,
            ..JobFilter::default()
        };
        let jobs = self.store.begin().await.ok()?.jobs(&filter).await.ok()?;
        jobs.into_iter().next().filter(|job| job.state.is_final())
    }

    /// Everything was done, once, and nothing is left.
    async fn settle(mut self) {
        self.check().await;
        self.site.close().await;
    }

    /// The same where the database goes with its server.
    async fn check(&mut self) {
        assert_each_done_once(&self.site, &self.store, &self.service, &self.issues).await;
        self.site
            .wait("the folders of ended jobs are removed", PATIENCE, async || {
                self.service.leftovers().is_empty().then_some(())
            })
            .await;
        self.service.stop().await;
        self.store.close().await;
    }
}
