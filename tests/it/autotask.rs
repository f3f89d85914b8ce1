//! Looks into a queue, one by one, by a clock that tests move: what is asked of GitHub, what becomes
//! a job, and what never does. Nobody works on the jobs here; `story/autotask` tells of the whole way.

use std::time::Duration;

use chrono::{DateTime, Utc};
use forgehand::clock::Clock;
use forgehand::config::{Config, ConfigSources, load};
use forgehand::demo::double::GitHubDouble;
use forgehand::github::GitHub;
use forgehand::ids::{IssueNumber, RepoName};
use forgehand::job::{Job, JobKind, Trigger};
use forgehand::secret::Redactor;
use forgehand::store::{AutotaskSwitch, ItemState, JobFilter, QueueItem, QueueKey, Store};
use forgehand::unattended::autotask::{Autotask, Looked, When};

use crate::databases::each;

mod asking;
mod polling;

const REPO: &str = "octo/widgets";
const ISSUES: &str = "/repos/octo/widgets/issues";
const MINUTE: Duration = Duration::from_secs(60);

/// A world with a queue and nobody who works.
struct Stage {
    double: GitHubDouble,
    clock: Clock,
    store: Store,
    config: Config,
}

impl Stage {
    async fn set(store: &Store, configure: impl FnOnce(&mut Config)) -> Self {
        let noon: DateTime<Utc> = "2026-03-02T12:00:00Z".parse().unwrap();
        let clock = Clock::manual(noon);
        let double = GitHubDouble::start(clock.clone()).await.unwrap();
        let seed = double.repository(REPO).file("a", "1").commit("Begin");
        seed.create().await.unwrap();
        double.grant(REPO, "ada", "write").unwrap();
        let mut config = load(&ConfigSources::default()).unwrap();
        double.configure(&mut config.github);
        config.github.call_timeout_seconds = Duration::from_secs(3);
        config.autotask.enabled = true;
        config.autotask.repositories = vec![REPO.to_owned()];
        config.autotask.label = Some("ready".to_owned());
        config.autotask.max_active = 10;
        configure(&mut config);
        let store = store.clone();
        Self {
            double,
            clock,
            store,
            config,
        }
    }

    /// What a process is that begins now.
    fn autotask(&self) -> Autotask {
        let github = GitHub::new(&self.config.github, self.clock.clone(), Redactor::default()).unwrap();
        let slug = self.double.bot_login().trim_end_matches("[bot]").to_owned();
        let rules = (&self.config.github, &self.config.queue);
        let (store, clock) = (self.store.clone(), self.clock.clone());
        Autotask::on_github(github, store, &self.config.autotask, rules, &slug, clock)
    }

    async fn look(&self) -> Looked {
        let looked = self.autotask().look(&name(), When::Now).await.unwrap();
        looked.expect("nobody else looks")
    }

    /// The next look, a minute later.
    async fn later(&self) -> Looked {
        self.clock.advance(MINUTE);
        self.look().await
    }

    fn issue(&self, title: &str, labels: &[&str]) -> IssueNumber {
        IssueNumber(self.double.open_issue(REPO, title, "It does.", labels, "ada").unwrap())
    }

    async fn jobs(&self) -> Vec<Job> {
        let filter = JobFilter {
            limit: 100,
            ..JobFilter::default()
        };
        let mut jobs = self.store.begin().await.unwrap().jobs(&filter).await.unwrap();
        // As workers claim them.
        jobs.sort_by_key(|job| job.run_at);
        jobs
    }

    async fn items(&self) -> Vec<QueueItem> {
        let source = self.config.autotask.effective_query();
        let key = QueueKey {
            source: &source,
            repo: self.double.repo_id(REPO).unwrap(),
        };
        self.store.begin().await.unwrap().queue_items(key).await.unwrap()
    }

    async fn item(&self, number: IssueNumber) -> QueueItem {
        let found = self.items().await.into_iter().find(|item| item.number == number);
        found.expect("it was seen")
    }

    /// Ends a job, as a worker would.
    async fn end(&self, job: &Job) {
        let mut tx = self.store.begin().await.unwrap();
        tx.cancel_job(&job.id, "it is over", self.clock.now()).await.unwrap();
        tx.commit().await.unwrap();
    }

    fn asked(&self, path: &str) -> usize {
        self.double
            .requests()
            .iter()
            .filter(|request| request.path == path)
            .count()
    }
}

fn name() -> RepoName {
    REPO.parse().unwrap()
}

fn taken(looked: &Looked) -> Vec<u64> {
    looked.taken.iter().map(|(number, _)| number.0).collect()
}

#[tokio::test]
async fn w11_issues_become_jobs_oldest_first_as_they_were_read() {
    each(async |store| {
        let stage = Stage::set(&store, |_| {}).await;
        stage
            .double
            .open_issue(REPO, "No words", "", &["Ready"], "ada")
            .unwrap();
        stage.issue("Not of the queue", &[]);
        stage.issue("Second", &["ready"]);
        stage.clock.advance(MINUTE);
        let looked = stage.look().await;
        assert_eq!((taken(&looked), looked.selected), (vec![1, 3], Some(2)));
        let jobs = stage.jobs().await;
        assert_eq!(jobs.len(), 2);
        let first = &jobs[0];
        assert_eq!(
            (first.kind, first.subject.to_string()),
            (JobKind::Fix, "issue/1".to_owned())
        );
        assert_eq!(first.pins.title.as_deref(), Some("No words"));
        assert_eq!(first.pins.body.as_deref(), Some(""));
        assert_eq!(first.pins.author.as_deref(), Some("ada"));
        assert_eq!(first.request.actor.login, "ada");
        assert_eq!(first.request.triggered_at, stage.clock.now() - MINUTE);
        let Trigger::Queue { label, source } = &first.request.trigger else {
            panic!("{:?}", first.request.trigger);
        };
        assert_eq!(label.as_deref(), Some("ready"));
        assert_eq!(source, "is:issue is:open label:\"ready\"");
        stage.double.assert_no_unknown_routes();
    })
    .await;
}

#[tokio::test]
async fn several_processes_make_one_job_of_an_issue() {
    each(async |store| {
        let stage = Stage::set(&store, |_| {}).await;
        for n in 0..5 {
            stage.issue(&format!("Issue {n}"), &["ready"]);
        }
        let processes = [stage.autotask(), stage.autotask(), stage.autotask()];
        for _ in 0..3 {
            stage.clock.advance(MINUTE);
            let (a, b, c) = tokio::join!(processes[0].tick(), processes[1].tick(), processes[2].tick());
            a.and(b).and(c).unwrap();
        }
        assert_eq!(stage.jobs().await.len(), 5);
        assert_eq!(stage.asked(ISSUES), 3, "one of them looks at a time");
    })
    .await;
}

#[tokio::test]
async fn caps_hold_issues_with_the_reason_and_let_them_go() {
    each(async |store| {
        let stage = Stage::set(&store, |config| {
            config.autotask.max_active = 2;
            config.autotask.max_open_pulls = 3;
        })
        .await;
        for title in ["A", "B", "C", "D"] {
            stage.issue(title, &["ready"]);
        }
        let looked = stage.look().await;
        assert_eq!(taken(&looked), [1, 2]);
        assert!(looked.held[0].1.contains("autotask.max_active: 2 of 2"), "{looked:?}");
        let item = stage.item(IssueNumber(3)).await;
        assert_eq!(item.state, ItemState::Held);
        assert!(item.reason.starts_with("held: autotask.max_active"), "{}", item.reason);
        // One is over and left two pull requests of ours behind, which is as many as may be coming.
        for n in 0..2 {
            let branch = format!("agent/{n}");
            stage
                .double
                .push(REPO, &branch, &[("a", &branch)], "Change", "ada")
                .await
                .unwrap();
            let new = forgehand::demo::double::NewPullByPerson {
                head_repo: REPO,
                head: &branch,
                base: "main",
                title: "Change",
                body: "",
                by: &stage.double.bot_login(),
            };
            stage.double.open_pull(REPO, new).await.unwrap();
        }
        stage.end(&stage.jobs().await[0]).await;
        let looked = stage.later().await;
        assert!(looked.taken.is_empty(), "{looked:?}");
        assert!(
            looked.held[0].1.contains("autotask.max_open_pulls: 2 of 3"),
            "{looked:?}"
        );
        stage.double.close_issue(REPO, 5, "ada").unwrap();
        assert_eq!(taken(&stage.later().await), [3]);
    })
    .await;
}

#[tokio::test]
async fn a_query_that_contradicts_itself_is_said_in_words() {
    each(async |store| {
        let stage = Stage::set(&store, |config| {
            config.autotask.query = Some("no:assignee label:never".to_owned())
        })
        .await;
        stage.issue("First", &["ready"]);
        stage.issue("Second", &[]);
        let looked = stage.look().await;
        assert_eq!(looked.selection(), "0 of 2 open issues are selected; check the query");
        // It is counted once, not with each look.
        let searched = stage.asked("/search/issues");
        stage.later().await;
        assert_eq!(stage.asked("/search/issues"), searched + 1);
        stage.double.label_issue(REPO, 1, "never", "ada").unwrap();
        let looked = stage.later().await;
        assert_eq!(
            (looked.selection(), taken(&looked)),
            ("1 open issue is selected".to_owned(), vec![1])
        );
    })
    .await;
}

#[tokio::test]
async fn switches_at_the_command_line_override_the_configuration() {
    each(async |store| {
        let stage = Stage::set(&store, |_| {}).await;
        stage.issue("First", &["ready"]);
        let switch = async |is_on| {
            let switch = AutotaskSwitch {
                repo: "Octo/Widgets".parse().unwrap(),
                is_on,
                by: "the operator".to_owned(),
                at: stage.clock.now(),
            };
            let mut tx = stage.store.begin().await.unwrap();
            tx.switch_autotask(&switch).await.unwrap();
            tx.commit().await.unwrap();
            stage.clock.advance(MINUTE);
        };
        switch(false).await;
        stage.autotask().tick().await.unwrap();
        assert_eq!((stage.double.requests().len(), stage.jobs().await.len()), (0, 0));
        switch(true).await;
        stage.autotask().tick().await.unwrap();
        assert_eq!(stage.jobs().await.len(), 1);
    })
    .await;
}
