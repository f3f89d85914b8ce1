//! Writes to GitHub while everything goes wrong: every answer fault on every kind of effect, the
//! protocol under random schedules of crashes, lost leases and late calls, and the budget that all
//! processes of an installation share. Time is moved by hand: GitHub's clock forwards, and what the
//! database stored backwards. Never waits for a pause to pass.

mod budget;
mod classes;
mod faults;
mod kind;
mod schedule;

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use forgehand::clock::Clock;
use forgehand::config::{BudgetConfig, Config, GitHubConfig};
use forgehand::demo::double::{GitHubDouble, Recorded};
use forgehand::effect::{Effect, EffectBody, NewEffect};
use forgehand::git::Git;
use forgehand::github::GitHub;
use forgehand::ids::{CommentId, IssueNumber, JobId, Subject, UserId};
use forgehand::job::{Actor, Job, JobKind, LeasedJob, NewJob, Outcome, Pins, Request, Trigger};
use forgehand::ledger::Caps;
use forgehand::phrase::Language;
use forgehand::publish::{MarkerKey, Publisher};
use forgehand::quota::Quota;
use forgehand::secret::{Redactor, Secret};
use forgehand::store::Store;

use crate::databases::Database;
use crate::service::{MONA, REPO, quick_config};

/// A lease that no story outlives.
const LONG: Duration = Duration::from_secs(6 * 3_600);

/// Columns that hold a time which somebody waits for.
const TIMES: [(&str, &str); 6] = [
    ("jobs", "run_at"),
    ("jobs", "lease_until"),
    ("effects", "sent_at"),
    ("write_budgets", "next_at"),
    ("content_writes", "at"),
    ("rate_limits", "until"),
];

/// A number from the environment, or what the test means otherwise.
fn number(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")),
        Err(_) => otherwise,
    }
}

/// A GitHub with one repository, on a clock that is moved by hand.
#[derive(Clone)]
struct Stage {
    github: GitHubDouble,
    clock: Clock,
    mona: UserId,
}

impl Stage {
    async fn set() -> Self {
        Self::set_on(Clock::manual(Clock::System.now())).await
    }

    async fn set_on(clock: Clock) -> Self {
        let github = GitHubDouble::start(clock.clone()).await.unwrap();
        let seed = github.repository(REPO).file("README.md", "# words\n\nMore.\n");
        seed.commit("Begin").create().await.unwrap();
        let mona = github.grant(REPO, MONA, "admin").unwrap();
        github.grant(REPO, "hubot", "write").unwrap();
        Self { github, clock, mona }
    }
}

/// A GitHub and a database.
struct World<'a> {
    github: GitHubDouble,
    clock: Clock,
    database: &'a Database,
    store: Store,
    config: Config,
    mona: UserId,
    folder: tempfile::TempDir,
}

impl<'a> World<'a> {
    async fn new(database: &'a Database, stage: Stage, configure: impl FnOnce(&mut GitHubConfig)) -> Self {
        let Stage { github, clock, mona } = stage;
        let folder = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        let mut config = quick_config();
        github.configure(&mut config.github);
        config.server.state_dir = folder.path().join("state");
        config.database.url = Some(database.url.clone());
        config.github.write_interval_seconds = Duration::ZERO;
        config.github.list_lag_seconds = Duration::from_secs(15);
        config.queue.lease_seconds = LONG;
        config.queue.poll_seconds = Duration::from_millis(10);
        config.queue.workers = 1;
        configure(&mut config.github);
        Self {
            github,
            clock,
            database,
            store: database.open().await,
            config,
            mona,
            folder,
        }
    }

    /// The way to GitHub as one process has it.
    fn client(&self) -> GitHub {
        let quota = Quota::new(self.store.clone(), &self.config.github);
        let client = GitHub::new(&self.config.github, self.clock.clone(), Redactor::default()).unwrap();
        client.with_gate(Arc::new(quota))
    }

    /// A publisher as one process has it, behind the gate that all share.
    async fn publisher(&self) -> Publisher {
        let (github, redactor, client) = (&self.config.github, Redactor::default(), self.client());
        Publisher {
            store: self.store.clone(),
            app: client.app().await.unwrap(),
            github: client,
            git: Git::find().unwrap(),
            state_dir: self.folder.path().to_owned(),
            marker: MarkerKey::from_secret(&Secret::new("marker")),
            command: "/agent".to_owned(),
            security_advisories: false,
            language: Language::English,
            caps: Caps::new(&BudgetConfig::default(), Language::English, "/agent"),
            call_timeout: github.call_timeout_seconds,
            write_interval: github.write_interval_seconds,
            list_lag: github.list_lag_seconds,
            clock: self.clock.clone(),
            redactor,
        }
    }

    fn issue(&self) -> u64 {
        self.github.open_issue(REPO, "Title", "Body", &["agent"], MONA).unwrap()
    }

    fn job(&self, issue: u64) -> NewJob {
        NewJob {
            repo_id: self.github.repo_id(REPO).unwrap(),
            repo: REPO.parse().unwrap(),
            installation: self.github.installation(),
            kind: JobKind::Fix,
            subject: Subject::Issue(IssueNumber(issue)),
            dedupe_key: Some(format!("story/{issue}")),
            priority: 0,
            run_at: Clock::System.now() - TimeDelta::seconds(60),
            max_attempts: 5,
            request: Request {
                trigger: Trigger::Comment { id: CommentId(1) },
                actor: Actor {
                    id: self.mona,
                    login: MONA.to_owned(),
                    is_bot: false,
                },
                instructions: String::new(),
                triggered_at: Clock::System.now(),
            },
            pins: Pins::default(),
        }
    }

    /// A job whose work is done and that has these effects to publish, held by `owner`. `rows` is
    /// told the job's id.
    async fn publishing(
        &self,
        owner: &str,
        issue: u64,
        outcome: &Outcome,
        rows: impl FnOnce(&JobId) -> Vec<(i64, EffectBody)>,
    ) -> LeasedJob {
        let mut tx = self.store.begin().await.unwrap();
        let id = tx
            .insert_job(&self.job(issue), Clock::System.now())
            .await
            .unwrap()
            .unwrap();
        let mut leased = tx.claim_job(owner, LONG).await.unwrap().expect("the job is ready");
        assert_eq!(leased.job.id, id, "another job was ready");
        let effects: Vec<NewEffect> = rows(&id)
            .into_iter()
            .map(|(seq, body)| NewEffect {
                seq,
                dedupe_key: format!("{id}/{seq}"),
                body,
            })
            .collect();
        tx.begin_publishing(&leased.lease, outcome, &effects).await.unwrap();
        tx.commit().await.unwrap();
        leased.job = self.load(&id).await;
        leased
    }

    async fn load(&self, id: &JobId) -> Job {
        let mut tx = self.store.begin().await.unwrap();
        tx.job(id).await.unwrap().unwrap()
    }

    async fn effects(&self, id: &JobId) -> Vec<Effect> {
        let mut tx = self.store.begin().await.unwrap();
        tx.effects(id).await.unwrap()
    }

    /// Lets so much time pass, for GitHub and for the database.
    async fn advance(&self, by: TimeDelta) {
        let by = by.max(TimeDelta::zero());
        self.clock.advance(by.to_std().unwrap());
        let seconds = by.as_seconds_f64();
        let statements = TIMES.map(|(table, column)| match self.database.kind() {
            "sqlite" => format!(
                "UPDATE {table} SET {column} = STRFTIME('%Y-%m-%dT%H:%M:%f', {column}, '-{seconds:.3} seconds') || \
                 '+00:00' WHERE {column} IS NOT NULL;"
            ),
            _ => format!(
                "UPDATE {table} SET {column} = {column} - INTERVAL '{seconds:.6} seconds' WHERE {column} IS NOT NULL;"
            ),
        });
        self.database.execute(&statements.join("\n")).await;
    }

    /// Successful calls of the App that began with this since a place in the ledger.
    fn made(&self, since: usize, method: &str, path: impl Fn(&str) -> bool) -> usize {
        let ledger = self.github.ledger();
        let made = |request: &&Recorded| {
            request.method == method && (200..300).contains(&request.status) && path(&request.path)
        };
        ledger[since..].iter().filter(made).count()
    }

    async fn assert_invariants(&self) {
        let mut tx = self.store.begin().await.unwrap();
        assert_eq!(tx.violations().await.unwrap(), []);
    }
}
