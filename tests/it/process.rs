//! The real program in processes of its own, beside a GitHub in the test's process: started from a
//! configuration file, killed, stopped, terminated and started again on the same state folder.
//! Called by the stories of crashes. Never reaches into the program except through its doors:
//! the database, the command line, webhooks and signals.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use forgehand::clock::Clock;
use forgehand::config::GitHubConfig;
use forgehand::demo::double::{DeliveryState, GitHubDouble};
use forgehand::ids::{IssueNumber, Subject};
use forgehand::job::Job;
use forgehand::store::{JobFilter, Store};
use rustix::process::{Pid, Signal};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::databases::Database;

mod watch;

pub use watch::{Orphans, below, running_below};

/// The repository of the stories.
pub const REPO: &str = "octo/sums";
/// Who asks for work.
pub const PERSON: &str = "mona";
/// The label that asks.
pub const LABEL: &str = "agent";
/// A word in an issue's body that makes the agent's command take seconds.
pub const SLOWLY: &str = "slowly";
/// A word in an issue's body that makes the agent do it in as few turns as it can.
pub const QUICKLY: &str = "quickly";

/// How long a lease lasts in the stories: a twentieth of the default, as all other times.
pub const LEASE: Duration = Duration::from_secs(3);

/// Longest time anything may take that should happen at once.
const SOON: Duration = Duration::from_secs(60);

const PROGRAM: &str = env!("CARGO_BIN_EXE_forgehand");

/// Where a process stands: what it is told of the others, and the network it is in.
#[derive(Clone)]
pub struct Place {
    /// Address of the database.
    pub database: String,
    /// GitHub's REST address.
    pub api: String,
    /// GitHub's web and git address.
    pub web: String,
    /// Where a receiver listens.
    pub listen: String,
    /// A process in whose network it runs, where that is not the test's.
    pub network: Option<u32>,
    /// The lines of the section about the model.
    pub model: String,
    /// More lines of configuration: whole sections.
    pub more: String,
}

/// One GitHub, one database and any number of processes.
pub struct Site {
    pub double: GitHubDouble,
    pub database: Database,
    folder: tempfile::TempDir,
    app_id: u64,
    port: u16,
}

impl Site {
    /// A GitHub with a small repository whose check fails.
    pub async fn open(database: Database) -> Self {
        Self::open_at(database, Clock::System).await
    }

    /// The same, where GitHub has a clock of its own.
    pub async fn open_at(database: Database, clock: Clock) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("forgehand-site-")
            .tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        let double = GitHubDouble::start(clock).await.unwrap();
        double
            .repository(REPO)
            .file("add.sh", "#!/bin/sh\necho $(($1 - $2))\n")
            .file("test.sh", "#!/bin/sh\ntest \"$(sh add.sh 2 3)\" = 5\n")
            .file("README.md", "# Sums\n\n`sh add.sh 2 3` prints the sum.\n")
            .commit("Add numbers")
            .create()
            .await
            .unwrap();
        double.grant(REPO, PERSON, "admin").unwrap();
        let mut github = GitHubConfig::default();
        double.configure(&mut github);
        write_private(&folder.path().join("app.pem"), double.private_key().expose());
        write_private(&folder.path().join("hook.secret"), double.webhook_secret().expose());
        std::fs::write(folder.path().join("script.json"), script()).unwrap();
        let port = free_port();
        double.hooks(&format!("http://127.0.0.1:{port}/webhook"), &double.webhook_secret());
        Self {
            double,
            database,
            folder,
            app_id: github.app_id.unwrap(),
            port,
        }
    }

    /// Above all state folders.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A program that is not running yet, with a state folder of its own.
    pub fn program(&self, name: &str, roles: &'static str) -> Program {
        self.program_at(name, roles, &self.here())
    }

    /// Beside the test, on this site's port.
    pub fn here(&self) -> Place {
        Place {
            database: self.database.url.expose().to_owned(),
            api: self.double.api_url(),
            web: self.double.web_url(),
            listen: format!("127.0.0.1:{}", self.port),
            network: None,
            model: format!(
                "provider = \"stub\"\nstub_script = {:?}\n",
                self.folder.path().join("script.json").display().to_string()
            ),
            more: String::new(),
        }
    }

    /// The same in another place.
    pub fn program_at(&self, name: &str, roles: &'static str, place: &Place) -> Program {
        let state = self.folder.path().join(name);
        let config = self.folder.path().join(format!("{name}.toml"));
        std::fs::write(&config, self.config(&state, place)).unwrap();
        Program {
            network: place.network,
            listen: place.listen.clone(),
            config,
            state,
            log: self.folder.path().join(format!("{name}.log")),
            env: Vec::new(),
            roles,
            running: None,
        }
    }

    fn config(&self, state: &Path, place: &Place) -> String {
        let in_folder = |name: &str| self.folder.path().join(name).display().to_string();
        format!(
            "[server]\nstate_dir = {:?}\nlisten = {:?}\ndrain_seconds = 5\n\
             [database]\nurl = {:?}\n\
             [github]\napi_url = {:?}\nweb_url = {:?}\napp_id = {}\nprivate_key_file = {:?}\n\
             webhook_secret_file = {:?}\ncall_timeout_seconds = 1.5\nlist_lag_seconds = 0.75\n\
             write_interval_seconds = 0.02\nmax_content_per_minute = 100000\nmax_content_per_hour = 100000\n\
             [model]\n{}\
             [queue]\nworkers = 3\nlease_seconds = {}\nheartbeat_seconds = 0.5\nmargin_seconds = 0.75\n\
             poll_seconds = 0.05\nretry_seconds = 0.2\n\
             [log]\nfilter = \"info\"\n{}",
            state.display().to_string(),
            place.listen,
            place.database,
            place.api,
            place.web,
            self.app_id,
            in_folder("app.pem"),
            in_folder("hook.secret"),
            place.model,
            LEASE.as_secs(),
            place.more,
        )
    }

    /// A person opens an issue and labels it.
    pub fn ask(&self, title: &str, body: &str) -> u64 {
        let issue = self.double.open_issue(REPO, title, body, &[], PERSON).unwrap();
        self.double.label_issue(REPO, issue, LABEL, PERSON).unwrap();
        issue
    }

    /// A person looks at the page of deliveries and sends again what failed, until nothing has.
    pub async fn redeliver_failed(&self) {
        let started = Instant::now();
        loop {
            self.double.deliveries_settled().await;
            let failed = self.failed_deliveries();
            if failed.is_empty() {
                return;
            }
            assert!(
                started.elapsed() < SOON,
                "deliveries still fail: {failed:?}\n{}",
                self.logs()
            );
            for guid in failed {
                self.double.redeliver(&guid).unwrap();
            }
        }
    }

    /// GUIDs of deliveries whose last attempt was not answered well.
    pub fn failed_deliveries(&self) -> Vec<String> {
        let mut last = std::collections::BTreeMap::new();
        for delivery in self.double.deliveries() {
            last.insert(delivery.guid, delivery.state);
        }
        let failed = |state: &DeliveryState| !matches!(state, DeliveryState::Answered(200..=299));
        last.retain(|_, state| failed(state));
        last.into_keys().collect()
    }

    /// Runs `work` until it gives something, at most so long.
    pub async fn wait<T>(&self, what: &str, at_most: Duration, work: impl AsyncFn() -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            if let Some(found) = work().await {
                return found;
            }
            if started.elapsed() > at_most {
                panic!("not within {at_most:?}: {what}\n{}", self.logs());
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// The end of every process's log.
    pub fn logs(&self) -> String {
        let mut text = String::new();
        for entry in std::fs::read_dir(self.folder.path()).unwrap().flatten() {
            if entry.path().extension().is_some_and(|ending| ending == "log") {
                let log = std::fs::read_to_string(entry.path()).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                let tail = lines[lines.len().saturating_sub(60)..].join("\n");
                text.push_str(&format!("── {}\n{tail}\n", entry.file_name().display()));
            }
        }
        text
    }

    /// Leaves nothing behind in the cluster.
    pub async fn close(self) {
        self.double.assert_no_unknown_routes();
        self.database.remove().await;
    }
}

/// All jobs of an issue.
pub async fn jobs_of(store: &Store, issue: u64) -> Vec<Job> {
    let mut tx = store.begin().await.unwrap();
    let filter = JobFilter {
        subject: Some(Subject::Issue(IssueNumber(issue))),
        limit: 100,
        ..JobFilter::default()
    };
    tx.jobs(&filter).await.unwrap()
}

/// The only job of an issue, once it is final.
pub async fn finished(store: &Store, issue: u64) -> Option<Job> {
    let job = jobs_of(store, issue).await.pop()?;
    job.state.is_final().then_some(job)
}

/// One program that can be started again and again.
pub struct Program {
    pub state: PathBuf,
    /// Its configuration file.
    pub config: PathBuf,
    /// Where its standard error goes, from the next start on.
    pub log: PathBuf,
    /// Its environment beside `PATH`.
    pub env: Vec<(String, String)>,
    roles: &'static str,
    network: Option<u32>,
    listen: String,
    running: Option<Running>,
}

struct Running {
    child: Child,
    /// Kept open, so that a late line of output finds a reader.
    _output: Option<BufReader<ChildStdout>>,
}

impl Program {
    /// Starts it, and waits until it works.
    pub async fn start(&mut self) {
        let line = self.first_line().await;
        assert!(
            self.says_it_works(&line),
            "the first line of output was {line:?}\n{}",
            std::fs::read_to_string(&self.log).unwrap()
        );
    }

    /// Starts it, and says whether it works; otherwise it has ended.
    pub async fn try_start(&mut self) -> bool {
        let line = self.first_line().await;
        let works = self.says_it_works(&line);
        if !works {
            self.ended().await;
        }
        works
    }

    fn says_it_works(&self, line: &str) -> bool {
        line.starts_with(match self.roles.contains("receiver") {
            true => "listening on http://",
            false => "ready\n",
        })
    }

    async fn first_line(&mut self) -> String {
        assert!(self.running.is_none(), "it runs already");
        let mut child = self.begin();
        let mut output = child.stdout.take().map(BufReader::new);
        let mut line = String::new();
        let read = tokio::time::timeout(SOON, output.as_mut().unwrap().read_line(&mut line)).await;
        assert!(
            read.is_ok(),
            "it neither works nor ends\n{}",
            std::fs::read_to_string(&self.log).unwrap()
        );
        self.running = Some(Running { child, _output: output });
        line
    }

    /// Starts it, and waits for nothing: it is the caller's.
    pub fn begin(&self) -> Child {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .unwrap();
        let mut serve = self.command(&["serve", "--roles", self.roles]);
        serve.stderr(log).spawn().unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = match self.network {
            None => Command::new(PROGRAM),
            // It becomes the program, so that its process id is the program's.
            Some(process) => {
                let mut enter = Command::new("nsenter");
                enter.arg(format!("--net=/proc/{process}/ns/net")).arg(PROGRAM);
                enter
            }
        };
        command
            .arg("--config")
            .arg(&self.config)
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .envs(self.env.iter().cloned())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Its whole log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Another command of the program with the same configuration.
    pub async fn run(&self, arguments: &[&str]) -> Output {
        let run = self.command(arguments).stderr(Stdio::piped()).output();
        tokio::time::timeout(SOON, run)
            .await
            .expect("the command ends")
            .unwrap()
    }

    /// The same, which must end well; its output as JSON.
    pub async fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let output = self.run(arguments).await;
        let shown = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {shown}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The port that its receiver listens on.
    pub fn port(&self) -> Option<u16> {
        let (_, port) = self.listen.rsplit_once(':')?;
        port.parse().ok()
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        let id = self.running.as_ref().and_then(|running| running.child.id());
        Pid::from_raw(id.expect("it runs").cast_signed()).unwrap()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal).unwrap();
    }

    /// `kill -9`, and waits for the end of the process itself.
    pub async fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.ended().await;
    }

    /// Waits for the end; the exit code, or nothing after a signal.
    pub async fn ended(&mut self) -> Option<i32> {
        let mut running = self.running.take().expect("it runs");
        let status = tokio::time::timeout(SOON, running.child.wait()).await;
        status.expect("the process ends").unwrap().code()
    }

    /// A graceful end, which must be one.
    pub async fn stop(&mut self) {
        self.signal(Signal::TERM);
        let code = self.ended().await;
        assert_eq!(code, Some(0), "{}", std::fs::read_to_string(&self.log).unwrap());
    }

    /// The name it puts into leases.
    pub fn owner(&self) -> String {
        std::fs::read_to_string(self.state.join("instance")).unwrap()
    }

    /// Folders that only work in progress has.
    pub fn leftovers(&self) -> Vec<PathBuf> {
        ["runs", "publish"]
            .iter()
            .filter_map(|part| std::fs::read_dir(self.state.join(part)).ok())
            .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
            .collect()
    }
}

/// A port that nobody listens on.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn write_private(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// What the stub plays: several turns with several calls, in two speeds.
fn script() -> String {
    let finish = serde_json::json!({"tool": "finish", "arguments": {
        "status": "done",
        "title": "Add instead of subtracting",
        "summary": "`add.sh` subtracted. It now adds, as `test.sh` expects.",
        "risks": "None known.",
        "not_done": "",
    }});
    let turns = |pause: &str| {
        let check = serde_json::json!({"tool": "run_command", "arguments": {"command": format!("sleep {pause}; sh test.sh; git diff")}});
        serde_json::json!([
            {"say": "I look.", "calls": [
                {"tool": "read_file", "arguments": {"path": "add.sh"}},
                {"tool": "read_file", "arguments": {"path": "test.sh"}},
            ]},
            {"say": "I reproduce it.", "calls": [check]},
            {"say": "I mend it.", "calls": [
                // Nothing here reads what an interrupted call is answered with, so it is one that may be repeated.
                {"tool": "write_file", "arguments": {"path": "add.sh", "content": "#!/bin/sh\necho $(($1 + $2))\n"}},
                check,
            ]},
            {"say": "Done.", "calls": [finish]},
        ])
    };
    let at_once = serde_json::json!([
        {"say": "I mend it.", "calls": [
            {"tool": "write_file", "arguments": {"path": "add.sh", "content": "#!/bin/sh\necho $(($1 + $2))\n"}},
            {"tool": "run_command", "arguments": {"command": "sh test.sh; git diff"}},
        ]},
        {"say": "Done.", "calls": [finish]},
        // Where the command was interrupted, the first time is not believed.
        {"say": "Done, as far as I know.", "calls": [finish]},
    ]);
    serde_json::json!({"cases": [
        {"when": {"repo": REPO, "contains": QUICKLY}, "turns": at_once},
        {"when": {"repo": REPO, "contains": SLOWLY}, "turns": turns("1.5")},
        {"when": {"repo": REPO}, "turns": turns("0.1")},
    ]})
    .to_string()
}
