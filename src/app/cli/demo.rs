//! `forgehand demo`: the whole way on this machine alone. Starts a GitHub of its own with a small
//! repository that has a bug, delivers a signed webhook to the real receiver, shows progress, and
//! prints the pull request as a person would see it. Never uses a network or a key, except for the
//! model when one is configured.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::progress::Limits;
use super::screen::{Look, Screen};
use super::{Context, show, surroundings};
use crate::app::{App, ServiceRole, logging, stop_on_signal};
use crate::clock::Clock;
use crate::closed;
use crate::config::{Config, ConfigSources, ModelProvider, load};
use crate::demo::double::GitHubDouble;
use crate::demo::story;
use crate::event::Event;
use crate::ids::{IssueNumber, JobId, Subject};
use crate::job::{Job, JobKind, Outcome};
use crate::model::{ChatRequest, Message};
use crate::run::Ports;
use crate::sandbox::{self, Exec, SandboxFolders};
use crate::secret::Redactor;
use crate::store::{JobFilter, Store};
use crate::text;
use print::{act, heading};

mod print;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The repository of the demonstration is a small Rust program, so that a Rust toolchain and a C \
compiler are needed. Without a model, scripted answers are played. With FORGEHAND_MODEL__BASE_URL, \
FORGEHAND_MODEL__NAME and FORGEHAND_MODEL__API_KEY set, that model does the work. \
Everything is in a temporary folder that is removed at the end.")]
pub(super) struct Args {
    /// Keep running afterwards, to look around, until Ctrl-C.
    #[arg(long)]
    serve: bool,
    /// Where to listen for webhooks; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: String,
}

/// Longest time the demonstration waits for one job.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// Longest time until a model has answered one word; a local server may have to load it first.
const FIRST_WORD: Duration = Duration::from_secs(60);

/// Ended by Ctrl-C.
const INTERRUPTED: u8 = 130;

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    let folder = closed::temporary("forgehand-demo-").context("make a folder for the demonstration")?;
    let config = demo_config(context, folder.path(), &args)?;
    logging::start_to(&config.log, || show::Errors);
    let double = GitHubDouble::start(Clock::System)
        .await
        .context("start a GitHub of our own")?;
    let demo = Demo::start(config, double, folder.path()).await?;
    stop_on_signal(demo.stop.clone())?;
    demo.introduce();
    let told = tokio::select! {
        told = demo.tell() => Some(told),
        () = demo.stop.cancelled() => None,
    };
    if matches!(told, Some(Ok(()))) && args.serve {
        demo.say_what_can_be_done(folder.path())?;
        demo.stop.cancelled().await;
    }
    demo.end().await?;
    match told {
        Some(told) => told.map(|()| ExitCode::SUCCESS),
        None => Ok(ExitCode::from(INTERRUPTED)),
    }
}

/// The configuration: everything in a temporary folder, with the model and sandbox of the
/// environment where they are set.
fn demo_config(context: &Context, folder: &Path, args: &Args) -> anyhow::Result<Config> {
    let mut sources = context.sources()?;
    let wanted = [
        "FORGEHAND_MODEL__",
        "FORGEHAND_SANDBOX__",
        "FORGEHAND_LOG__",
        "FORGEHAND_BUDGET__",
    ];
    sources
        .environment
        .retain(|(name, _)| wanted.iter().any(|prefix| name.starts_with(prefix)));
    let is_set = |name: &str, key: &str| {
        let mut names = sources.environment.iter().map(|(name, _)| name);
        names.any(|other| other == name) || sources.flags.iter().any(|(other, _)| other == key)
    };
    let state = folder.join("state").display().to_string();
    let mut flags = vec![
        ("server.state_dir", state.as_str()),
        ("server.listen", args.listen.as_str()),
        ("github.write_interval_seconds", "0.1"),
        ("github.max_content_per_minute", "600"),
        ("github.max_content_per_hour", "10000"),
        ("queue.poll_seconds", "0.2"),
        // Somebody is watching: what does not work is said at once.
        ("queue.max_attempts", "2"),
        ("queue.retry_seconds", "1"),
    ];
    if is_set("FORGEHAND_MODEL__BASE_URL", "model.base_url") {
        flags.push(("model.provider", "openai"));
    }
    if !is_set("FORGEHAND_LOG__FILTER", "log.filter") {
        flags.push(("log.filter", "error"));
    }
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let flags = flags.into_iter().map(owned).chain(sources.flags.clone()).collect();
    Ok(load(&ConfigSources {
        file: None,
        environment: sources.environment,
        flags,
    })?)
}

struct Demo {
    double: GitHubDouble,
    store: Store,
    receiver: String,
    model: String,
    stop: CancellationToken,
    service: tokio::task::JoinHandle<anyhow::Result<()>>,
}

impl Demo {
    async fn start(mut config: Config, double: GitHubDouble, folder: &Path) -> anyhow::Result<Self> {
        double.configure(&mut config.github);
        let model = match config.model.provider {
            ModelProvider::Stub => "none: scripted answers (for a real one, see `forgehand demo --help`)".to_owned(),
            ModelProvider::OpenAi => format!(
                "{} at {}",
                config.model.name,
                config.model.base_url.as_deref().unwrap_or("?")
            ),
        };
        let has_model = config.model.provider == ModelProvider::OpenAi;
        let app = App::build(config, surroundings()?).await?;
        let ports = app.ports()?;
        look_for_compilers(&ports, folder).await?;
        if has_model {
            ask_for_a_word(&ports, &model).await?;
        }
        let mut seed = double.repository(story::REPO);
        for (path, content) in story::FILES {
            seed = seed.file(path, content);
        }
        seed.commit("Count words and lines")
            .create()
            .await
            .context("make the repository")?;
        double.grant(story::REPO, story::MAINTAINER, "admin")?;
        let (store, stop) = (app.store().clone(), app.stop_token());
        let (tell_address, address) = oneshot::channel();
        let service = tokio::spawn(async move {
            let roles = [ServiceRole::Receiver, ServiceRole::Worker, ServiceRole::Scheduler];
            app.serve(&roles, |address| {
                // Whoever waits for it may have given up.
                let _ = tell_address.send(address);
            })
            .await
        });
        let receiver = match address.await {
            Ok(Some(address)) => format!("http://{address}"),
            _ => match service.await? {
                Ok(()) => bail!("the service ended before it listened"),
                Err(error) => return Err(error),
            },
        };
        double.hooks(&format!("{receiver}/webhook"), &double.webhook_secret());
        Ok(Self {
            double,
            store,
            receiver,
            model,
            stop,
            service,
        })
    }

    fn introduce(&self) {
        say!("From a label to a pull request, on this machine alone\n");
        for (what, value) in [
            (
                "GitHub",
                format!("{} (a stand-in inside this program)", self.double.web_url()),
            ),
            ("Receiver", format!("{}/webhook", self.receiver)),
            ("Model", self.model.clone()),
        ] {
            say!("  {what:10}{value}");
        }
        say!();
    }

    async fn tell(&self) -> anyhow::Result<()> {
        let issue = self.double.open_issue(
            story::REPO,
            story::ISSUE_TITLE,
            story::ISSUE_BODY,
            &[],
            story::MAINTAINER,
        )?;
        act(&format!(
            "{} opens issue #{issue}: {}",
            story::MAINTAINER,
            story::ISSUE_TITLE
        ));
        act(&format!("{} puts the label `agent` on it", story::MAINTAINER));
        self.double
            .label_issue(story::REPO, issue, "agent", story::MAINTAINER)?;
        let job = self.follow(&Subject::Issue(IssueNumber(issue))).await?;
        let Some(Outcome::Opened { pull, branch, .. }) = job.outcome.clone() else {
            print::conversation(&self.double, issue)?;
            bail!("the job ended without a pull request{}", why(&job));
        };
        print::pull(&self.double, pull.0).await?;
        print::conversation(&self.double, issue)?;
        print::times(&job, &self.events(&job.id).await?);
        say!();
        act(&format!(
            "{} comments on #{pull}: {}",
            story::MAINTAINER,
            story::FOLLOW_UP
        ));
        self.double
            .comment(story::REPO, pull.0, story::FOLLOW_UP, story::MAINTAINER)?;
        let job = self.follow(&Subject::Pull(pull)).await?;
        print::conversation(&self.double, pull.0)?;
        if !matches!(job.outcome, Some(Outcome::Pushed { .. })) {
            bail!("the follow-up ended without a commit{}", why(&job));
        }
        print::times(&job, &self.events(&job.id).await?);
        print::commits(&self.double, branch.as_str()).await
    }

    /// Shows a job's events until it is over.
    async fn follow(&self, subject: &Subject) -> anyhow::Result<Job> {
        // What is shown comes from the database, where it stands without secrets.
        let screen = Screen::start(Look::of_errors(), Limits::default(), Redactor::default());
        let started = Instant::now();
        let mut seen = 0;
        loop {
            let mut tx = self.store.begin().await?;
            let filter = JobFilter {
                subject: Some(subject.clone()),
                limit: 10,
                ..JobFilter::default()
            };
            let jobs = tx.jobs(&filter).await?;
            let job = jobs.into_iter().find(|job| job.kind == JobKind::Fix);
            if let Some(job) = job {
                for event in tx.events(&job.id, seen, 1_000).await? {
                    seen = event.seq;
                    screen.tell(&event);
                }
                if job.state.is_final() {
                    screen.end();
                    return Ok(job);
                }
            }
            drop(tx);
            if started.elapsed() > PATIENCE {
                bail!(
                    "the job on {subject} did not end within {}",
                    text::duration_in_words(PATIENCE)
                );
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn events(&self, job: &JobId) -> anyhow::Result<Vec<Event>> {
        let mut tx = self.store.begin().await?;
        Ok(tx.events(job, 0, 10_000).await?)
    }

    fn say_what_can_be_done(&self, folder: &Path) -> anyhow::Result<()> {
        heading("Still running; Ctrl-C ends it and removes everything");
        let program = surroundings()?.program;
        let jobs = format!(
            "{} --set server.state_dir={} jobs",
            program.display(),
            folder.join("state").display()
        );
        say!("In another terminal:\n");
        for (command, what) in [
            (format!("curl {}/healthz", self.receiver), "is it alive"),
            (format!("curl {}/metrics", self.receiver), "its numbers, for Prometheus"),
            (format!("{jobs} list"), "its jobs"),
            (format!("{jobs} show ID"), "everything that happened in one of them"),
        ] {
            say!("  # {what}\n  {command}\n");
        }
        Ok(())
    }

    async fn end(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.service.await?
    }
}

/// Why a job ended as it did, as far as it says.
fn why(job: &Job) -> String {
    match (&job.reason, &job.outcome) {
        (Some(reason), _) => format!(": {reason}"),
        (None, Some(outcome)) => format!(": {}", serde_json::to_string(outcome).unwrap_or_default()),
        (None, None) => String::new(),
    }
}

/// Tries the compilers where the demonstration needs them, so that a machine without them says so
/// at once, and not in the words of a failed test.
async fn look_for_compilers(ports: &Ports, folder: &Path) -> anyhow::Result<()> {
    let scratch = folder.join("compilers");
    let folders = SandboxFolders::within(&scratch);
    for folder in [&folders.workspace, &folders.base_git] {
        std::fs::create_dir_all(folder).with_context(|| format!("make the folder {}", folder.display()))?;
    }
    // Number 0 is as good as any: no run is alive yet.
    let sandbox = sandbox::open(&ports.sandbox, folders, 0).await?;
    let stop = CancellationToken::new();
    let mut missing = Vec::new();
    for (program, question) in [("cargo", "cargo --version"), ("a C compiler", "cc --version")] {
        if sandbox.exec(&Exec::shell(question), &stop).await?.code() != Some(0) {
            missing.push(program);
        }
    }
    sandbox.close().await;
    if missing.is_empty() {
        return Ok(());
    }
    let places = match ports.sandbox.toolchains.as_slice() {
        [] => "/usr (no toolchain of rustup was found in the home folder or RUSTUP_HOME)".to_owned(),
        others => format!("/usr and {}", others.join(", ")),
    };
    bail!(
        "the sandbox does not find {}. The repository of the demonstration is a Rust program, and a sandbox sees only \
         {places}. Install what is missing, or name the folder of a toolchain: \
         FORGEHAND_SANDBOX__TOOLCHAINS=/home/me/.rustup/toolchains/stable-x86_64-unknown-linux-gnu",
        missing.join(" and ")
    );
}

/// Asks the model for one word, so that a wrong address or key is said at once.
async fn ask_for_a_word(ports: &Ports, name: &str) -> anyhow::Result<()> {
    note!("… Ask the model for one word");
    let request = ChatRequest {
        max_output_tokens: 256,
        ..ChatRequest::new([Message::user("Reply with the word ready.")])
    };
    let stop = CancellationToken::new();
    match tokio::time::timeout(FIRST_WORD, ports.model.complete(&request, &stop)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(anyhow::Error::from(error).context(format!(
            "the model {name} does not answer. Check FORGEHAND_MODEL__BASE_URL, FORGEHAND_MODEL__NAME and \
             FORGEHAND_MODEL__API_KEY, or unset them for scripted answers"
        ))),
        Err(_) => bail!(
            "the model {name} did not answer within {}. Check FORGEHAND_MODEL__BASE_URL, or unset it for scripted \
             answers",
            text::duration_in_words(FIRST_WORD)
        ),
    }
}
