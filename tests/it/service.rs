//! The whole service in this process: the real `App` with every role, on a GitHub double with real
//! git, a scripted model server, the real sandbox and both databases. A story acts as people do
//! and looks at what people see; when it ends, nothing may be left undone, unread or running.
//! Never waits for a time, only for conditions, each with a deadline.

use std::path::{Path, PathBuf};
use std::time::Duration;

use forgehand::app::{App, ServiceRole, Surroundings};
use forgehand::clock::Clock;
use forgehand::config::{Config, ConfigSources, ModelProvider, load};
use forgehand::demo::double::{GitHubDouble, RepositorySeed};
use forgehand::secret::Secret;
use forgehand::store::Store;
use tokio_util::sync::CancellationToken;

use crate::databases::{Database, each_database};
use crate::model_server::ModelServer;

mod ending;
mod moved;
mod people;
mod seen;

pub use people::{MONA, REPO, bug_fix, finish, mend, note, nothing_to_do, with_bug};
pub use seen::lasting;

/// What a story begins with, where it is not the usual.
pub struct Setup {
    seed: fn(RepositorySeed) -> RepositorySeed,
    configure: fn(&mut Config),
    /// Where a clock that is moved by hand begins.
    begins: Option<&'static str>,
}

/// A repository whose script has a bug that its test shows, and an ordinary configuration.
pub fn usual() -> Setup {
    Setup {
        seed: |seed| people::with_bug(seed).commit("Count words"),
        configure: |_| {},
        begins: None,
    }
}

impl Setup {
    /// With another repository.
    pub fn repository(mut self, seed: fn(RepositorySeed) -> RepositorySeed) -> Self {
        self.seed = seed;
        self
    }

    /// With another configuration.
    pub fn configuration(mut self, configure: fn(&mut Config)) -> Self {
        self.configure = configure;
        self
    }

    /// On a clock that begins then and is moved by hand.
    pub fn at(mut self, begins: &'static str) -> Self {
        self.begins = Some(begins);
        self
    }

    /// Tells the story on each database.
    pub async fn tell(self, story: impl AsyncFn(&mut Service)) {
        each_database(async |database| {
            let mut service = Service::prepare(database, &self).await;
            service.start().await;
            story(&mut service).await;
            service.end().await;
        })
        .await;
    }

    /// Tells a story in which the service is not started yet.
    pub async fn tell_before_start(self, story: impl AsyncFn(&mut Service)) {
        each_database(async |database| {
            let mut service = Service::prepare(database, &self).await;
            story(&mut service).await;
            service.end().await;
        })
        .await;
    }
}

/// A service with its surroundings.
pub struct Service {
    /// GitHub.
    pub github: GitHubDouble,
    /// The model.
    pub model: ModelServer,
    /// The database, as another process sees it.
    pub store: Store,
    /// The configuration with which the service starts next.
    pub config: Config,
    /// The clock of GitHub, and of a service that is started on it.
    pub clock: Clock,
    folder: tempfile::TempDir,
    running: Option<Running>,
    address: String,
}

enum Running {
    /// In this process.
    Here {
        stop: CancellationToken,
        served: tokio::task::JoinHandle<anyhow::Result<()>>,
    },
    /// In a process of its own.
    Process(tokio::process::Child),
}

impl Service {
    async fn prepare(database: &Database, setup: &Setup) -> Self {
        start_log();
        let folder = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .expect("a scratch folder");
        let clock = match setup.begins {
            None => Clock::System,
            Some(begins) => Clock::manual(begins.parse().expect("a time")),
        };
        let github = GitHubDouble::start(clock.clone()).await.expect("a GitHub of our own");
        let seed = (setup.seed)(github.repository(REPO));
        seed.create().await.expect("the repository is made");
        github.grant(REPO, MONA, "admin").expect("mona exists");
        let model = ModelServer::start([]).await;
        let mut config = quick_config();
        github.configure(&mut config.github);
        config.server.state_dir = folder.path().join("state");
        config.database.url = Some(database.url.clone());
        config.model.provider = ModelProvider::OpenAi;
        config.model.base_url = Some(model.url().to_owned());
        config.sandbox.helper = Some(program());
        (setup.configure)(&mut config);
        Self {
            github,
            model,
            store: database.open().await,
            config,
            clock,
            folder,
            running: None,
            address: String::new(),
        }
    }

    /// Where GitHub sends its webhooks.
    pub fn address(&self) -> String {
        self.address.clone()
    }

    /// Starts the service and lets GitHub send its webhooks there.
    pub async fn start(&mut self) {
        assert!(self.running.is_none(), "the service runs already");
        let surroundings = Surroundings {
            program: program(),
            config_dir: None,
            home: None,
            rustup_home: None,
            state_home: None,
        };
        let app = App::build(self.config.clone(), surroundings)
            .await
            .expect("the service can be built");
        let stop = app.stop_token();
        let (tell, told) = tokio::sync::oneshot::channel();
        let served = tokio::spawn(async move {
            let roles = [ServiceRole::Receiver, ServiceRole::Worker, ServiceRole::Scheduler];
            app.serve(&roles, |address| {
                // Whoever waits for it may have given up.
                let _ = tell.send(address);
            })
            .await
        });
        let address = told.await.expect("the service starts").expect("the receiver listens");
        self.address = format!("http://{address}/webhook");
        self.github.hooks(&self.address, &self.github.webhook_secret());
        self.running = Some(Running::Here { stop, served });
    }

    /// Starts the service as an operator does, in a process of its own with its configuration and
    /// its secrets in the environment. Gives the file with its log.
    pub async fn start_process(&mut self) -> PathBuf {
        assert!(self.running.is_none(), "the service runs already");
        let (output, log) = (self.folder.path().join("output"), self.folder.path().join("log"));
        let create = |path| std::fs::File::create(path).expect("a file for output");
        let child = tokio::process::Command::new(program())
            .arg("serve")
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .envs(environment(&self.config))
            .stdin(std::process::Stdio::null())
            .stdout(create(&output))
            .stderr(create(&log))
            .kill_on_drop(true)
            .spawn()
            .expect("the program starts");
        self.running = Some(Running::Process(child));
        self.hooked(&output).await;
        log
    }

    /// Waits until a service in a process of its own says where it listens, and lets GitHub send its
    /// webhooks there.
    async fn hooked(&self, output: &Path) {
        let mut address = String::new();
        until("the service listens", async || {
            let said = std::fs::read_to_string(output).unwrap_or_default();
            let line = said.lines().find_map(|line| line.strip_prefix("listening on "));
            address = line.unwrap_or_default().to_owned();
            said.ends_with('\n') && !address.is_empty()
        })
        .await;
        let secret = self.config.github.webhook_secret.clone().expect("a secret");
        self.github.hooks(&format!("{address}/webhook"), &secret);
    }

    /// Stops the service as an operator does, and waits until it is gone.
    pub async fn stop(&mut self) {
        match self.running.take().expect("the service runs") {
            Running::Here { stop, served } => {
                stop.cancel();
                let served = tokio::time::timeout(PATIENCE, served).await;
                served
                    .expect("the service stops in time")
                    .expect("the service does not panic")
                    .expect("the service ends well");
            }
            Running::Process(mut child) => {
                let id = child
                    .id()
                    .and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
                let id = id.expect("the service runs");
                rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("a signal is sent");
                let ended = tokio::time::timeout(PATIENCE, child.wait()).await;
                let ended = ended.expect("the service stops in time").expect("it can be waited for");
                assert!(ended.success(), "the service ended with {ended}");
            }
        }
    }

    /// Kills the service, which runs in a process of its own, in the middle of whatever it does.
    pub async fn kill(&mut self) {
        let Some(Running::Process(mut child)) = self.running.take() else {
            panic!("the service does not run in a process of its own");
        };
        child.kill().await.expect("the process is killed");
    }

    /// Runs one command of an operator beside the service, to its end.
    pub async fn command(&self, arguments: &[&str]) -> std::process::Output {
        let command = tokio::process::Command::new(program())
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .envs(environment(&self.config))
            .stdin(std::process::Stdio::null())
            .kill_on_drop(true)
            .output();
        let ended = tokio::time::timeout(PATIENCE, command).await;
        ended.expect("the command ends in time").expect("the program starts")
    }

    /// The state folder.
    pub fn state_dir(&self) -> PathBuf {
        self.folder.path().join("state")
    }
}

/// Nothing in a story takes longer, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// Time between two looks at a condition.
const LOOK: Duration = Duration::from_millis(20);

/// Waits for a condition; `what` completes "it did not happen that …".
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !condition().await {
        assert!(
            tokio::time::Instant::now() < deadline,
            "it did not happen that {what} within {PATIENCE:?}"
        );
        tokio::time::sleep(LOOK).await;
    }
}

/// The program.
pub fn program() -> PathBuf {
    env!("CARGO_BIN_EXE_forgehand").into()
}

/// Times of the default configuration, scaled down together.
const QUICK: [(&str, &str); 16] = [
    ("server.listen", "127.0.0.1:0"),
    ("server.drain_seconds", "20"),
    ("github.write_interval_seconds", "0.02"),
    ("github.max_content_per_minute", "100000"),
    ("github.max_content_per_hour", "100000"),
    ("github.call_timeout_seconds", "1.5"),
    ("github.list_lag_seconds", "0.75"),
    ("model.name", "test-model"),
    ("model.input_usd_per_million", "1.0"),
    ("model.output_usd_per_million", "10.0"),
    ("queue.poll_seconds", "0.05"),
    ("queue.lease_seconds", "6"),
    ("queue.heartbeat_seconds", "0.5"),
    ("queue.margin_seconds", "0.75"),
    ("queue.retry_seconds", "0.2"),
    ("queue.max_attempts", "3"),
];

/// The default configuration with its times scaled down.
pub fn quick_config() -> Config {
    let flags = QUICK.map(|(key, value)| (key.to_owned(), value.to_owned()));
    load(&ConfigSources {
        flags: flags.into(),
        ..ConfigSources::default()
    })
    .expect("the configuration is right")
}

/// A configuration as an operator would put it into the environment.
fn environment(config: &Config) -> Vec<(String, String)> {
    let secret = |secret: &Option<Secret>| secret.as_ref().map_or_else(String::new, |it| it.expose().to_owned());
    let github = &config.github;
    let values = [
        ("server.state_dir", config.server.state_dir.display().to_string()),
        ("database.url", secret(&config.database.url)),
        ("github.api_url", github.api_url.clone()),
        ("github.web_url", github.web_url.clone()),
        (
            "github.app_id",
            github.app_id.map_or_else(String::new, |id| id.to_string()),
        ),
        ("github.private_key", secret(&github.private_key)),
        ("github.webhook_secret", secret(&github.webhook_secret)),
        (
            "github.webhook_secret_previous",
            secret(&github.webhook_secret_previous),
        ),
        ("model.provider", "openai".to_owned()),
        ("model.base_url", config.model.base_url.clone().unwrap_or_default()),
        ("model.api_key", secret(&config.model.api_key)),
        (
            "model.fallback_base_url",
            config.model.fallback_base_url.clone().unwrap_or_default(),
        ),
        ("model.fallback_api_key", secret(&config.model.fallback_api_key)),
        ("web.github_token", secret(&config.web.github_token)),
        ("log.filter", "forgehand=trace,sqlx=debug,info".to_owned()),
    ];
    let quick = QUICK.map(|(key, value)| (key, value.to_owned()));
    // A key that is not set is not in the environment either: an empty secret is refused.
    let all = quick.into_iter().chain(values).filter(|(_, value)| !value.is_empty());
    all.map(|(key, value)| (format!("FORGEHAND_{}", key.to_uppercase().replace('.', "__")), value))
        .collect()
}

/// The log of a failed story is shown by the test runner.
fn start_log() {
    let started = tracing_subscriber::fmt()
        .with_env_filter("forgehand=info")
        .with_test_writer()
        .try_init();
    drop(started);
}
