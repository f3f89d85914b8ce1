//! `forgehand demo`: the whole way on this machine alone. Starts a GitHub of its own with a small
//! repository that has a bug, delivers a signed webhook to the real receiver, shows progress, and
//! prints the pull request as a person would see it. Never uses a network or a key, except for the
//! model when one is configured.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Context, show, surroundings};
use crate::app::{App, ServiceRole, logging, stop_on_signal};
use crate::clock::Clock;
use crate::config::{Config, ConfigSources, ModelProvider, load};
use crate::demo::double::GitHubDouble;
use crate::demo::story;
use crate::event::{Event, RunEvent, Stage};
use crate::ids::{IssueNumber, JobId, Subject};
use crate::job::{Job, JobKind, Outcome};
use crate::store::{JobFilter, Store};
use crate::text;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Keep running afterwards, to look around and to deliver more.
    #[arg(long)]
    serve: bool,
    /// Where to listen for webhooks.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: String,
}

/// Longest time the demonstration waits for one job.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    let folder = tempfile::Builder::new()
        .prefix("forgehand-demo")
        .tempdir()
        .context("make a folder for the demonstration")?;
    let config = demo_config(context, folder.path(), &args)?;
    logging::start(&config.log);
    let double = GitHubDouble::start(Clock::System)
        .await
        .context("start a GitHub of our own")?;
    let demo = Demo::start(config, double).await?;
    println!(
        "A GitHub of its own listens on {}, the receiver on {}.",
        demo.double.web_url(),
        demo.receiver
    );
    println!("Model: {}\n", demo.model);
    let told = demo.tell().await;
    if told.is_ok() && args.serve {
        println!(
            "\nStill running: the GitHub API is at {}, git at {}/{}.git. Stop with Ctrl-C.",
            demo.double.api_url(),
            demo.double.web_url(),
            story::REPO
        );
        stop_on_signal(demo.stop.clone())?;
        demo.stop.cancelled().await;
    }
    demo.end().await?;
    told.map(|()| ExitCode::SUCCESS)
}

/// The configuration: everything in a temporary folder, with the model and sandbox of the
/// environment where they are set.
fn demo_config(context: &Context, folder: &std::path::Path, args: &Args) -> anyhow::Result<Config> {
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
    let has_model = sources
        .environment
        .iter()
        .any(|(name, _)| name == "FORGEHAND_MODEL__BASE_URL");
    let has_filter = sources
        .environment
        .iter()
        .any(|(name, _)| name == "FORGEHAND_LOG__FILTER");
    let mut flags = vec![
        (
            "server.state_dir".to_owned(),
            folder.join("state").display().to_string(),
        ),
        ("server.listen".to_owned(), args.listen.clone()),
        ("github.write_interval_seconds".to_owned(), "0.1".to_owned()),
        ("queue.poll_seconds".to_owned(), "0.2".to_owned()),
    ];
    if has_model {
        flags.push(("model.provider".to_owned(), "openai".to_owned()));
    }
    if !has_filter {
        flags.push(("log.filter".to_owned(), "warn".to_owned()));
    }
    flags.extend(sources.flags);
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
    async fn start(mut config: Config, double: GitHubDouble) -> anyhow::Result<Self> {
        double.configure(&mut config.github);
        let model = match config.model.provider {
            ModelProvider::Stub => "the stub, which plays a script; set FORGEHAND_MODEL__BASE_URL and FORGEHAND_MODEL__API_KEY for a real one".to_owned(),
            ModelProvider::OpenAi => format!("{} at {}", config.model.name, config.model.base_url.as_deref().unwrap_or("?")),
        };
        let mut seed = double.repository(story::REPO);
        for (path, content) in story::FILES {
            seed = seed.file(path, content);
        }
        seed.commit("Count words and lines")
            .create()
            .await
            .context("make the repository")?;
        double.grant(story::REPO, story::MAINTAINER, "admin")?;
        let app = App::build(config, surroundings()?).await?;
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
            Ok(Some(address)) => format!("http://{address}/webhook"),
            _ => match service.await? {
                Ok(()) => bail!("the service ended before it listened"),
                Err(error) => return Err(error),
            },
        };
        double.hooks(&receiver, &double.webhook_secret());
        Ok(Self {
            double,
            store,
            receiver,
            model,
            stop,
            service,
        })
    }

    async fn tell(&self) -> anyhow::Result<()> {
        let issue = self.double.open_issue(
            story::REPO,
            story::ISSUE_TITLE,
            story::ISSUE_BODY,
            &[],
            story::MAINTAINER,
        )?;
        println!("── {} opens issue #{issue}: {}", story::MAINTAINER, story::ISSUE_TITLE);
        println!("── {} puts the label `agent` on it\n", story::MAINTAINER);
        self.double
            .label_issue(story::REPO, issue, "agent", story::MAINTAINER)?;
        let job = self.follow(&Subject::Issue(IssueNumber(issue))).await?;
        let Some(Outcome::Opened { pull, branch, .. }) = job.outcome.clone() else {
            self.print_conversation(issue)?;
            bail!("the job ended without a pull request: {:?}", job.outcome);
        };
        self.print_pull(pull.0).await?;
        self.print_conversation(issue)?;
        self.print_times(&job).await?;
        println!("\n── {} comments on #{pull}: {}\n", story::MAINTAINER, story::FOLLOW_UP);
        self.double
            .comment(story::REPO, pull.0, story::FOLLOW_UP, story::MAINTAINER)?;
        let job = self.follow(&Subject::Pull(pull)).await?;
        if !matches!(job.outcome, Some(Outcome::Pushed { .. })) {
            self.print_conversation(pull.0)?;
            bail!("the follow-up ended without a commit: {:?}", job.outcome);
        }
        self.print_conversation(pull.0)?;
        self.print_times(&job).await?;
        heading(&format!("Commits on {branch}"));
        for subject in self.double.commits(story::REPO, branch.as_str()).await? {
            println!("  {subject}");
        }
        Ok(())
    }

    /// Shows a job's events until it is over.
    async fn follow(&self, subject: &Subject) -> anyhow::Result<Job> {
        let progress = Arc::new(show::Progress::start());
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
                    super::run::tell(&progress, &event);
                }
                if job.state.is_final() {
                    progress.end();
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

    async fn print_pull(&self, number: u64) -> anyhow::Result<()> {
        let pulls = self.double.pulls(story::REPO)?;
        let pull = pulls
            .into_iter()
            .find(|pull| pull.number == number)
            .context("the pull request is not there")?;
        heading(&format!(
            "Pull request #{number} ({} → {}){}",
            pull.head,
            pull.base,
            if pull.draft { ", draft" } else { "" }
        ));
        let issue = self.double.issue(story::REPO, number)?;
        println!(
            "{}\n\n{}",
            issue.title,
            visible(issue.body.as_deref().unwrap_or_default())
        );
        heading("Diff");
        println!("{}", self.double.diff(story::REPO, &pull.base, &pull.head).await?);
        Ok(())
    }

    fn print_conversation(&self, number: u64) -> anyhow::Result<()> {
        for comment in self.double.comments(story::REPO, number)? {
            heading(&format!(
                "Comment by {} on #{number} (edited {} times)",
                self.double.login(comment.author),
                comment.edits.len()
            ));
            println!("{}", visible(&comment.body));
        }
        Ok(())
    }

    /// Where the time went, from the job's own log.
    async fn print_times(&self, job: &Job) -> anyhow::Result<()> {
        let events = self.events(&job.id).await?;
        heading("Where the time went");
        let mut model = Duration::ZERO;
        let mut tools = Duration::ZERO;
        for event in &events {
            match &event.body {
                RunEvent::StageFinished { stage, took_ms } if *stage != Stage::Solve => {
                    println!(
                        "  {:34} {}",
                        stage.words(),
                        text::duration_in_words(Duration::from_millis(*took_ms))
                    );
                }
                RunEvent::ModelReplied { took_ms, .. } => model += Duration::from_millis(*took_ms),
                RunEvent::ToolCalled { took_ms, .. } => tools += Duration::from_millis(*took_ms),
                _ => {}
            }
        }
        println!("  {:34} {}", "Model", text::duration_in_words(model));
        println!("  {:34} {}", "Tools", text::duration_in_words(tools));
        let total = job
            .finished_at
            .map(|end| (end - job.created_at).to_std().unwrap_or_default())
            .unwrap_or_default();
        println!(
            "  {:34} {}",
            "From the webhook to the end",
            text::duration_in_words(total)
        );
        Ok(())
    }

    async fn events(&self, job: &JobId) -> anyhow::Result<Vec<Event>> {
        let mut tx = self.store.begin().await?;
        Ok(tx.events(job, 0, 10_000).await?)
    }

    async fn end(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.service.await?
    }
}

fn heading(text: &str) {
    println!(
        "\n━━ {text} {}",
        "━".repeat(72_usize.saturating_sub(text.chars().count()))
    );
}

/// What GitHub would show of Markdown: without HTML comments.
fn visible(markdown: &str) -> String {
    markdown
        .lines()
        .filter(|line| !line.starts_with("<!--"))
        .collect::<Vec<_>>()
        .join("\n")
        .trim_end()
        .to_owned()
}
