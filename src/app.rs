//! Puts everything together: ports from the configuration, the roles of a process, and an orderly
//! end. Called by the command line only. Never contains behaviour that a module above could hold.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures_util::FutureExt as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::audit::{Act, Action};
use crate::clock::Clock;
use crate::config::{Config, GitHubConfig, Origin};
use crate::git::Git;
use crate::github::{App as GitHubApp, GitHub};
use crate::intake::Rules;
use crate::ledger::Caps;
use crate::publish::{MarkerKey, Publisher};
use crate::queue::Queue;
use crate::quota::Quota;
use crate::run::Ports;
use crate::secret::{Redactor, Secret};
use crate::store::{Store, StoreError};
use crate::web;
use crate::worker::{Sweep, Worker};
use crate::workspace::{Setups, Trees};

mod approvals;
pub mod cli;
mod instance;
mod logging;
mod ports;
mod record;
mod scheduler;
mod state_dir;
mod trust;

pub use instance::Instance;

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ServiceRole {
    /// Takes webhooks.
    Receiver,
    /// Works on jobs and publishes their results.
    Worker,
    /// Gives back jobs of workers that are gone, and tidies.
    Scheduler,
}

/// What the process knows of its surroundings. Read once, at the command line.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// This program, which sandboxes re-execute as their helper.
    pub program: PathBuf,
    /// The user's own folder of settings for this program.
    pub config_dir: Option<PathBuf>,
    /// The user's home folder, where toolchains are looked for.
    pub home: Option<PathBuf>,
    /// Where rustup keeps its toolchains, when not in the home folder.
    pub rustup_home: Option<PathBuf>,
    /// Where programs keep what they remember of their user's work, when not in the home folder.
    pub state_home: Option<PathBuf>,
}

/// The service with its ports open.
#[derive(Clone)]
pub struct App {
    config: Config,
    surroundings: Surroundings,
    store: Store,
    clock: Clock,
    redactor: Redactor,
    stop: CancellationToken,
    /// Another process had the database open and did not close it.
    was_left_open: bool,
}

impl App {
    /// Opens the state folder and the database, and brings the schema up to date.
    ///
    /// # Errors
    /// With what is missing and what to do.
    pub async fn build(mut config: Config, surroundings: Surroundings) -> anyhow::Result<Self> {
        let state_dir = state_dir::prepare(&config.server.state_dir)?;
        config.server.state_dir = state_dir;
        complete_credentials(&mut config)?;
        let redactor = Redactor::default();
        for secret in config.secrets() {
            redactor.add(&secret);
        }
        let was_left_open = Store::was_left_open(&config.database_url());
        let store = Store::open(&config.database_url(), config.database.max_connections)
            .await
            .context("open the database")?;
        store.migrate().await.context("bring the database up to date")?;
        Ok(Self {
            config,
            surroundings,
            store,
            clock: Clock::System,
            redactor,
            stop: CancellationToken::new(),
            was_left_open,
        })
    }

    /// The same with a token that somebody else may have cancelled already.
    #[must_use]
    pub fn stopped_by(self, stop: CancellationToken) -> Self {
        Self { stop, ..self }
    }

    /// The same on another clock, such as one that is moved by hand.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// The database.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Stops [`App::serve`] gracefully when cancelled.
    pub fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Runs the roles until the stop token is cancelled, then drains. `ready` is told the address
    /// once the receiver listens (or at once without one).
    ///
    /// # Errors
    /// When a role cannot start.
    pub async fn serve(self, roles: &[ServiceRole], ready: impl FnOnce(Option<SocketAddr>)) -> anyhow::Result<()> {
        raise_open_files();
        let instance = Instance::claim(&self.config.server.state_dir).context("claim the state folder")?;
        let queue = Queue::new(
            self.store.clone(),
            self.config.queue.clone(),
            instance.owner().to_owned(),
        );
        if instance.is_only_one() {
            if self.was_left_open {
                self.check_database().await?;
            }
            let recovered = queue
                .recover_own()
                .await
                .context("recover the jobs of the process before this one")?;
            if !recovered.is_empty() {
                tracing::warn!(
                    jobs = recovered.len(),
                    "an earlier process ended in the middle of jobs; they go on"
                );
            }
        }
        self.note_start(roles, &instance).await.context("write the audit")?;
        let mut tasks = tokio::task::JoinSet::new();
        let address = if roles.contains(&ServiceRole::Receiver) {
            Some(self.start_receiver(&mut tasks).await?)
        } else {
            None
        };
        if roles.contains(&ServiceRole::Worker) {
            self.start_workers(&queue, &mut tasks).await?;
        }
        if roles.contains(&ServiceRole::Scheduler) {
            self.start_scheduler(queue, &mut tasks);
        }
        ready(address);
        let has_roles = !tasks.is_empty();
        let lost = tokio::select! {
            biased;
            () = self.stop.cancelled() => None,
            ended = tasks.join_next(), if has_roles => ended,
        };
        self.stop.cancel();
        self.drain(&mut tasks).await;
        self.store.close().await;
        drop(instance);
        match lost {
            None => Ok(()),
            // Half a service looks like a whole one; whoever supervises it starts it again.
            Some(Ok(())) => bail!("a part of the service ended by itself; the log says why"),
            Some(Err(error)) => Err(anyhow::Error::new(error).context("a part of the service broke down")),
        }
    }

    /// After a process that was cut off: damage is found now, not in the middle of somebody's work.
    async fn check_database(&self) -> anyhow::Result<()> {
        let started = std::time::Instant::now();
        self.store.check_whole().await.context(
            "the process before this one was cut off, and its database is damaged since. Nothing was changed: keep a \
             copy of the file, and put a backup in its place",
        )?;
        tracing::info!(took = ?started.elapsed(), "the process before this one was cut off; its database is whole");
        Ok(())
    }

    /// The configuration in force is a row of the audit, as the hash of what `config show` prints: no secret
    /// is in it, and whoever has the file can tell whether it is the same.
    async fn note_start(&self, roles: &[ServiceRole], instance: &Instance) -> Result<(), StoreError> {
        let names: Vec<String> = roles.iter().map(|role| format!("{role:?}").to_lowercase()).collect();
        let act = Act::new(Action::ServiceStarted)
            .with("version", env!("CARGO_PKG_VERSION"))
            .with("config_sha256", self.config.fingerprint())
            .with("roles", names)
            .with("worker", instance.owner());
        let mut tx = self.store.begin().await?;
        let schema = tx.schema_version().await?;
        tx.audit(act.with("schema", schema));
        tx.commit().await
    }

    /// Waits until every role has ended, at most as long as configured.
    async fn drain(&self, tasks: &mut tokio::task::JoinSet<()>) {
        tracing::info!(tasks = tasks.len(), "stopping; work in hand is handed back");
        let all = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(self.config.server.drain_seconds, all)
            .await
            .is_err()
        {
            tracing::warn!("not everything ended in time; leases of the rest run out by themselves");
            tasks.shutdown().await;
        }
    }

    async fn start_receiver(&self, tasks: &mut tokio::task::JoinSet<()>) -> anyhow::Result<SocketAddr> {
        let listen = self.config.server.listen;
        let listener = TcpListener::bind(listen)
            .await
            .with_context(|| format!("listen on {listen}"))?;
        let address = listener.local_addr()?;
        let client = self.github().ok();
        let rules = Rules::new(&self.config.github, &self.config.queue, bot_slug(client.as_ref()).await);
        let github = &self.config.github;
        let state = web::WebState {
            store: self.store.clone(),
            rules,
            webhook_secrets: [&github.webhook_secret, &github.webhook_secret_previous]
                .into_iter()
                .flatten()
                .cloned()
                .collect(),
            clock: self.clock.clone(),
            metrics: Some(logging::metrics()),
            draining: self.stop.clone(),
            skew: client.as_ref().map(GitHub::skew),
            setup: self.setup_page(address),
        };
        let stop = self.stop.clone();
        if let Some(client) = client {
            let stop = self.stop.clone();
            tasks.spawn(async move { compare_clocks(&client, &stop).await });
        }
        tasks.spawn(async move {
            if let Err(error) = web::serve(listener, web::router(state), stop).await {
                tracing::error!(%error, "the receiver stopped");
            }
        });
        tracing::info!(%address, "the receiver listens");
        Ok(address)
    }

    /// The page that makes the App, while there is none. Its address is printed with a token.
    fn setup_page(&self, address: SocketAddr) -> Option<web::Setup> {
        if self.config.github.app_id.is_some() {
            return None;
        }
        let mut server = self.config.server.clone();
        server.listen = address;
        let setup = web::Setup::new(&server, &self.config.github, self.clock.clone());
        eprintln!("There is no GitHub App yet. Make one here: {}", setup.url().expose());
        Some(setup)
    }

    async fn start_workers(&self, queue: &Queue, tasks: &mut tokio::task::JoinSet<()>) -> anyhow::Result<()> {
        let github = match self.github() {
            Ok(github) => github,
            Err(error) if self.config.github.app_id.is_none() => {
                // The set-up page of the receiver is the way to get credentials.
                tracing::warn!(
                    "no GitHub App yet ({error}); jobs are not worked on until the service is started with one"
                );
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let ports = self.ports()?;
        let workers = self.config.queue.workers;
        let publisher = self.publisher(&github, &ports.git);
        let (config, stop, queue) = (self.config.clone(), self.stop.clone(), queue.clone());
        let sweep = self.sweep(&queue);
        tasks.spawn(async move {
            // GitHub may be away at start-up; work begins when it answers.
            let Some(app) = who_are_we(&github, &stop).await else {
                return;
            };
            let publisher = publisher(app);
            let worker = Worker {
                queue,
                ports,
                publisher,
                state_dir: config.server.state_dir,
                graph_limits: (&config.workgraph).into(),
            };
            let mut slots = tokio::task::JoinSet::new();
            let (trees, setups) = (worker.ports.trees.clone(), worker.ports.setups.clone());
            let until = stop.clone();
            slots.spawn(async move { keep_tidy(trees, setups, &until).await });
            let until = stop.clone();
            slots.spawn(async move { unbroken(&until, || sweep.keep(&until)).await });
            let (settler, until) = (worker.clone(), stop.clone());
            slots.spawn(async move { unbroken(&until, || settler.settle_ended(&until)).await });
            let (greeter, until) = (worker.clone(), stop.clone());
            slots.spawn(async move { unbroken(&until, || greeter.acknowledge_waiting(&until)).await });
            slots.spawn(async move { unbroken(&stop, || worker.run(workers, &stop)).await });
            while slots.join_next().await.is_some() {}
        });
        Ok(())
    }

    /// What publishing needs, once GitHub has told who we are.
    fn publisher(&self, github: &GitHub, git: &Git) -> impl FnOnce(GitHubApp) -> Publisher + Send + 'static + use<> {
        let (config, github, git) = (self.config.clone(), github.clone(), git.clone());
        let (store, clock, redactor) = (self.store.clone(), self.clock.clone(), self.redactor.clone());
        move |app| Publisher {
            store,
            github,
            app,
            git,
            state_dir: config.server.state_dir.clone(),
            marker: marker_key(&config.github),
            command: config.github.command.clone(),
            security_advisories: config.github.security_advisories,
            language: config.github.language.into(),
            caps: Caps::new(&config.budget, config.github.language.into(), &config.github.command),
            call_timeout: config.github.call_timeout_seconds,
            list_lag: config.github.list_lag_seconds,
            write_interval: config.github.write_interval_seconds,
            clock,
            redactor,
        }
    }

    /// What looks for leftovers.
    fn sweep(&self, queue: &Queue) -> Sweep {
        Sweep {
            queue: queue.clone(),
            store: self.store.clone(),
            state_dir: self.config.server.state_dir.clone(),
            sandbox: self.config.sandbox.clone(),
        }
    }

    fn github(&self) -> anyhow::Result<GitHub> {
        let github = GitHub::new(&self.config.github, self.clock.clone(), self.redactor.clone())?;
        let quota = Quota::new(self.store.clone(), &self.config.github);
        Ok(github.with_gate(Arc::new(quota)))
    }

    /// What runs need, from the configuration.
    ///
    /// # Errors
    /// When git or the model cannot be opened.
    pub fn ports(&self) -> anyhow::Result<Ports> {
        let mut ports = ports::open(&self.config, &self.surroundings, &self.clock, &self.redactor)?;
        // A service has a state folder of its own, named or not.
        let indexes = || {
            ports::indexes(
                &self.config,
                &self.surroundings,
                &ports.git,
                &self.config.server.state_dir,
            )
        };
        ports.indexes = self.config.retrieval.enabled.then(indexes);
        ports.trees = Trees::new(
            &self.config.server.state_dir,
            &ports.git,
            &ports.sandbox,
            &self.config.workspace,
        );
        ports.setups = Setups::new(&self.config.server.state_dir, &self.config.workspace);
        Ok(ports)
    }
}

/// Time between two looks at what is prepared for later runs.
const TIDY_PREPARED_EVERY: Duration = Duration::from_secs(3_600);

/// Tidies what is prepared for later runs, at the start and now and then until `stop`.
async fn keep_tidy(trees: Option<Trees>, setups: Option<Setups>, stop: &CancellationToken) {
    while !stop.is_cancelled() {
        tidy_prepared(trees.clone(), setups.clone()).await;
        tokio::select! {
            () = tokio::time::sleep(TIDY_PREPARED_EVERY) => {}
            () = stop.cancelled() => {}
        }
    }
}

/// Removes what a process left that was killed while it prepared something for later runs.
async fn tidy_prepared(trees: Option<Trees>, setups: Option<Setups>) {
    let tidied = async {
        if let Some(trees) = trees {
            trees.tidy().await?;
        }
        tokio::task::spawn_blocking(move || setups.map_or(Ok(()), |setups| setups.tidy())).await?
    };
    if let Err(error) = tidied.await {
        tracing::warn!(%error, "what is prepared for later runs was not tidied");
    }
}

/// Thousands of connections may be open at once, and shells start programs with a low soft limit.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
}

/// Runs work until `stop`, again after it panicked: one job that breaks us must not leave the
/// service with one worker less. The job is recovered when its lease ends, and given up in time.
async fn unbroken<F: Future<Output = ()>>(stop: &CancellationToken, work: impl Fn() -> F) {
    while AssertUnwindSafe(work()).catch_unwind().await.is_err() {
        tracing::error!("a worker broke down and is started again; please report this");
        tokio::select! {
            () = tokio::time::sleep(AFTER_A_BREAKDOWN) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Pause before a worker that broke down is started again.
const AFTER_A_BREAKDOWN: Duration = Duration::from_secs(1);

/// Credentials that the set-up page stored fill what the configuration leaves open.
fn complete_credentials(config: &mut Config) -> anyhow::Result<()> {
    if config.github.app_id.is_some() {
        return Ok(());
    }
    let Some(stored) = web::stored_app(&config.server.state_dir)? else {
        return Ok(());
    };
    let origin = Origin::File(config.server.state_dir.join("credentials"));
    for key in ["github.app_id", "github.private_key", "github.webhook_secret"] {
        config.origins.insert(key.to_owned(), origin.clone());
    }
    config.github.app_id = stored.app_id;
    config.github.private_key = config.github.private_key.take().or(stored.private_key);
    config.github.webhook_secret = config.github.webhook_secret.take().or(stored.webhook_secret);
    Ok(())
}

/// The bot's slug, so that its own comments are known; without credentials there is none yet.
async fn bot_slug(github: Option<&GitHub>) -> Option<String> {
    match github?.app().await {
        Ok(app) => Some(app.slug),
        Err(error) => {
            tracing::warn!(%error, "GitHub did not tell who we are; our own comments are known by the App id alone");
            None
        }
    }
}

/// Time between two looks at GitHub's clock.
const COMPARE_CLOCKS_EVERY: Duration = Duration::from_secs(120);

/// A receiver makes no calls that would tell it whether its clock is right.
async fn compare_clocks(github: &GitHub, stop: &CancellationToken) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(COMPARE_CLOCKS_EVERY) => {}
            () = stop.cancelled() => return,
        }
        if let Err(error) = github.app().await {
            tracing::debug!(%error, "GitHub's clock was not seen");
        }
    }
}

/// Asks GitHub who we are until it answers.
async fn who_are_we(github: &GitHub, stop: &CancellationToken) -> Option<GitHubApp> {
    let mut pause = Duration::from_millis(200);
    loop {
        match github.app().await {
            Ok(app) => return Some(app),
            Err(error) => tracing::warn!(%error, "GitHub does not tell who we are; asking again in {pause:?}"),
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return None,
        }
        pause = (pause * 2).min(Duration::from_secs(30));
    }
}

/// All processes of a service share the App's key, so they agree on markers.
fn marker_key(config: &GitHubConfig) -> MarkerKey {
    let empty = Secret::default();
    MarkerKey::from_secret(config.private_key.as_ref().unwrap_or(&empty))
}

/// Cancels a token on SIGTERM or SIGINT; a second signal ends the process at once.
pub fn stop_on_signal(stop: CancellationToken) -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        let mut seen = 0;
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            seen += 1;
            if seen > 1 {
                std::process::exit(130);
            }
            stop.cancel();
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn work_that_breaks_down_is_started_again() {
        let (stop, begun) = (CancellationToken::new(), AtomicU32::new(0));
        unbroken(&stop, || async {
            assert!(begun.fetch_add(1, Ordering::SeqCst) >= 2, "it breaks twice");
        })
        .await;
        assert_eq!(begun.load(Ordering::SeqCst), 3);
    }
}
