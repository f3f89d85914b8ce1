//! A service in a process of its own whose clock the story moves: the test program runs itself, with one
//! test that is nothing but the service. Never waits for a time to pass.

use std::process::Stdio;
use std::time::Duration;

use chrono::{DateTime, Utc};
use forgehand::app::{App, ServiceRole, Surroundings};
use forgehand::clock::Clock;
use forgehand::config::{ConfigSources, load};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::{Running, Service, environment, program, until};

/// Where its clock begins; without it the test is none.
const BEGINS: &str = "FORGEHAND_TEST_CLOCK";
/// Its configuration file.
const FILE: &str = "FORGEHAND_TEST_CONFIG";

impl Service {
    /// Starts the service on the story's clock, in a process that can be killed. `file` is a part of its
    /// configuration.
    pub async fn start_on_clock(&mut self, file: &str) {
        assert!(self.running.is_none(), "the service runs already");
        let (config, output, log) = (
            self.folder.path().join("forgehand.toml"),
            self.folder.path().join("output"),
            self.folder.path().join("log"),
        );
        std::fs::write(&config, file).expect("the configuration is written");
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .expect("a log");
        let child = tokio::process::Command::new(std::env::current_exe().expect("this program"))
            .args([
                "--exact",
                "service::moved::the_service_of_a_story",
                "--ignored",
                "--nocapture",
            ])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .envs(environment(&self.config))
            .env(BEGINS, self.clock.now().to_rfc3339())
            .env(FILE, config)
            .stdin(Stdio::piped())
            .stdout(std::fs::File::create(&output).expect("a file for output"))
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .expect("the service starts");
        self.running = Some(Running::Process(child));
        self.hooked(&output).await;
    }

    /// Moves the clock, GitHub's first.
    pub async fn advance(&mut self, by: Duration) {
        self.clock.advance(by);
        let now = self.clock.now().to_rfc3339();
        if let Some(Running::Process(child)) = &mut self.running {
            let stdin = child.stdin.as_mut().expect("the service hears");
            stdin
                .write_all(format!("{now}\n").as_bytes())
                .await
                .expect("it is told");
        }
        let output = self.folder.path().join("output");
        until("the service has the new time", async || {
            let said = std::fs::read_to_string(&output).unwrap_or_default();
            said.contains(&format!("it is {now}\n"))
        })
        .await;
    }
}

/// Only what a story starts.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the service of a story in a process of its own, and no story"]
async fn the_service_of_a_story() {
    let begins: DateTime<Utc> = std::env::var(BEGINS)
        .expect("a story starts it")
        .parse()
        .expect("a time");
    let log = tracing_subscriber::fmt()
        .with_env_filter("forgehand=info")
        .with_writer(std::io::stderr);
    log.init();
    let clock = Clock::manual(begins);
    let sources = ConfigSources {
        file: std::env::var_os(FILE).map(Into::into),
        environment: std::env::vars().collect(),
        ..ConfigSources::default()
    };
    let surroundings = Surroundings {
        program: program(),
        config_dir: None,
        home: None,
        rustup_home: None,
        state_home: None,
    };
    let config = load(&sources).expect("the configuration is right");
    let app = App::build(config, surroundings)
        .await
        .expect("the service can be built");
    let app = app.with_clock(clock.clone());
    let stop = app.stop_token();
    tokio::spawn(async move {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let to: DateTime<Utc> = line.parse().expect("a time");
            clock.advance((to - clock.now()).to_std().expect("later"));
            println!("it is {line}");
        }
    });
    let mut terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).expect("a signal");
    tokio::spawn(async move {
        terminated.recv().await;
        stop.cancel();
    });
    let roles = [ServiceRole::Receiver, ServiceRole::Worker, ServiceRole::Scheduler];
    let listens =
        |address: Option<std::net::SocketAddr>| println!("\nlistening on http://{}", address.expect("an address"));
    app.serve(&roles, listens).await.expect("the service ends well");
}
