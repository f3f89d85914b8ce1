//! The loops of the scheduler's role: recovery and tidying, what GitHub could not deliver, and work that
//! nobody waits for. Several processes may have the role: each recovers and tidies, since folders are
//! of one machine; one of them, elected, does the rest. Rows decide who does what in any case.
//! Never contains a decision of such a loop: they are in `worker` and `unattended`.

use std::time::Duration;

use super::{App, unbroken, who_are_we};
use crate::intake::Rules;
use crate::queue::Queue;
use crate::retention::Retention;
use crate::unattended;
use crate::worker::{Poll, Reconcile, maintain};

/// Time between looks into GitHub's log of webhook calls, where webhooks arrive by themselves.
const USUAL_POLL: Duration = Duration::from_secs(300);
/// The same, where nothing arrives by itself.
const ONLY_POLL: Duration = Duration::from_secs(15);

/// The name under which the scheduler's loops are led.
const LEADER: &str = "scheduler";

impl App {
    /// Recovery and tidying, and what the elected one of several schedulers does.
    pub(super) fn start_scheduler(&self, queue: Queue, tasks: &mut tokio::task::JoinSet<()>) {
        let (retention, stop) = (self.retention(), self.stop.clone());
        let elected = queue.clone();
        tasks.spawn(async move { maintain(&queue, &retention, &stop).await });
        let app = self.clone();
        tasks.spawn(async move {
            let stop = app.stop.clone();
            let lead = |term| {
                let leading = app.clone().stopped_by(term);
                async move {
                    let mut loops = tokio::task::JoinSet::new();
                    leading.start_elected(&mut loops);
                    while let Some(ended) = loops.join_next().await {
                        // Half a service looks like a whole one: it ends, and is started again.
                        if let Err(error) = ended
                            && error.is_panic()
                        {
                            std::panic::resume_unwind(error.into_panic());
                        }
                    }
                    // Without any loop there is nothing to lead.
                    leading.stop.cancelled().await;
                }
            };
            elected.lead(LEADER, &stop, lead).await;
        });
    }

    /// What one process does for all: the look into GitHub's log of webhook calls, the ledger's accounts,
    /// and work that nobody waits for.
    fn start_elected(&self, tasks: &mut tokio::task::JoinSet<()>) {
        self.start_accounts(tasks);
        self.start_autotask(tasks);
        self.start_graphs(tasks);
        self.start_schedules(tasks);
        self.start_reconcile(tasks);
        // Without a public address the log is the only way in.
        let usual = if self.config.server.public_url.is_some() {
            USUAL_POLL
        } else {
            ONLY_POLL
        };
        let every = self.config.github.poll_seconds.unwrap_or(usual);
        let Ok(github) = self.github() else { return };
        if every.is_zero() {
            return;
        }
        let (config, store, clock, stop) = (
            self.config.clone(),
            self.store.clone(),
            self.clock.clone(),
            self.stop.clone(),
        );
        tasks.spawn(async move {
            let Some(app) = who_are_we(&github, &stop).await else {
                return;
            };
            let rules = Rules::new(&config.github, &config.queue, Some(app.slug));
            Poll {
                github,
                store,
                rules,
                clock,
                every,
            }
            .run(&stop)
            .await;
        });
    }

    /// What moves and removes what is old.
    pub(super) fn retention(&self) -> Retention {
        Retention {
            store: self.store.clone(),
            state_dir: self.config.server.state_dir.clone(),
            config: self.config.retention.clone(),
            keep_records_days: self.config.ledger.keep_days,
            clock: self.clock.clone(),
        }
    }

    /// Looks at the repositories themselves, for what neither webhooks nor their log tell.
    fn start_reconcile(&self, tasks: &mut tokio::task::JoinSet<()>) {
        let every = self.config.github.reconcile_seconds;
        let Ok(github) = self.github() else { return };
        if every.is_zero() {
            return;
        }
        let (config, store, clock, stop) = (
            self.config.clone(),
            self.store.clone(),
            self.clock.clone(),
            self.stop.clone(),
        );
        tasks.spawn(async move {
            let Some(app) = who_are_we(&github, &stop).await else {
                return;
            };
            let reconcile = Reconcile {
                github,
                store,
                rules: Rules::new(&config.github, &config.queue, Some(app.slug)),
                clock,
                every,
            };
            unbroken(&stop, || reconcile.run(&stop)).await;
        });
    }

    /// The ledger of unattended runs, and what is told of them.
    fn start_accounts(&self, tasks: &mut tokio::task::JoinSet<()>) {
        let accounts = unattended::Accounts {
            store: self.store.clone(),
            alerts: unattended::Alerts::new(&self.config.alert),
            state_dir: self.config.server.state_dir.clone(),
            keep_days: self.config.ledger.keep_days,
            pause: self.config.queue.poll_seconds,
            clock: self.clock.clone(),
        };
        let stop = self.stop.clone();
        tasks.spawn(async move { unbroken(&stop, || accounts.run(&stop)).await });
    }

    /// What begins the work of schedules, where there is an App that could do it.
    fn start_schedules(&self, tasks: &mut tokio::task::JoinSet<()>) {
        let Ok(github) = self.github() else { return };
        let cron = unattended::cron::Cron {
            store: self.store.clone(),
            github,
            clock: self.clock.clone(),
            configured: self.config.schedules(),
            max_attempts: self.config.queue.max_attempts,
            graphs: self.graphs(),
            pause: self.config.queue.poll_seconds,
        };
        let stop = self.stop.clone();
        tasks.spawn(async move { unbroken(&stop, || cron.keep(&stop)).await });
    }

    /// Queues of issues that are polled, where the configuration selects any.
    fn start_autotask(&self, tasks: &mut tokio::task::JoinSet<()>) {
        let Ok(github) = self.github() else { return };
        if !self.config.autotask.selects() {
            return;
        }
        let (config, store, clock, stop) = (
            self.config.clone(),
            self.store.clone(),
            self.clock.clone(),
            self.stop.clone(),
        );
        tasks.spawn(async move {
            let Some(app) = who_are_we(&github, &stop).await else {
                return;
            };
            let rules = (&config.github, &config.queue);
            unattended::autotask::Autotask::on_github(github, store, &config.autotask, rules, &app.slug, clock)
                .run(stop)
                .await;
        });
    }

    /// What advances work graphs.
    pub(super) fn graphs(&self) -> unattended::Graphs {
        unattended::Graphs {
            store: self.store.clone(),
            clock: self.clock.clone(),
            config: self.config.workgraph.clone(),
            max_attempts: self.config.queue.max_attempts,
            alerts: unattended::Alerts::new(&self.config.alert),
        }
    }

    /// Approved work graphs, where they are to go on by themselves, and the ends of what schedules began.
    fn start_graphs(&self, tasks: &mut tokio::task::JoinSet<()>) {
        let (graphs, pause, stop) = (self.graphs(), self.config.queue.poll_seconds, self.stop.clone());
        tasks.spawn(async move { unbroken(&stop, || graphs.keep(pause, &stop)).await });
    }
}
