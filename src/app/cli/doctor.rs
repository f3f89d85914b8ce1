//! `forgehand doctor`: the configuration in force, every port tried, and what to do about what
//! does not work. Never prints a secret, and never makes, changes or migrates anything.

use std::path::Path;
use std::process::ExitCode;

use chrono::TimeDelta;
use serde::Serialize;

use super::{Context, missing_database, show, surroundings};
use crate::app::{complete_credentials, ports};
use crate::clock::Clock;
use crate::closed;
use crate::config::{Config, ModelProvider, Origin, SandboxBackend};
use crate::git::Git;
use crate::github::{ClockState, GitHub};
use crate::model;
use crate::sandbox;
use crate::secret::Redactor;
use crate::store::Store;

mod asking;
mod walls;
mod web;

#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 nothing to mend · 1 something does not work · 78 wrong configuration")]
pub(super) struct Args {
    /// Check that the rows of the database agree with each other and nothing else.
    #[arg(long)]
    invariants: bool,
    /// Ask the configured model small questions and say what it and its server can do; this costs
    /// some tokens.
    #[arg(long, conflicts_with = "invariants")]
    model: bool,
    /// Open a sandbox, try each of its layers from inside, and say what would make a weaker one better.
    #[arg(long, conflicts_with_all = ["invariants", "model"])]
    sandbox: bool,
    /// With --model: longest text that is sent to see how much the server really reads.
    #[arg(long, value_name = "TOKENS", default_value_t = 32_000, requires = "model")]
    max_context_tokens: u64,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// How a thing that was tried stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    /// It works.
    Ok,
    /// It is not set up yet, which some uses do not need.
    Hint,
    /// It does not work.
    Problem,
}

/// One thing that was tried.
#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    status: Status,
    detail: String,
}

impl Finding {
    fn new(what: &'static str, status: Status, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { what, status, detail }
    }

    fn of(what: &'static str, tried: anyhow::Result<String>) -> Self {
        match tried {
            Ok(detail) => Self::new(what, Status::Ok, detail),
            Err(error) => Self::new(what, Status::Problem, format!("{error:#}")),
        }
    }
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    let config = context.config()?;
    if args.invariants {
        return invariants(&config, args.json).await;
    }
    if args.model {
        return asking::run(&config, args.max_context_tokens, args.json).await;
    }
    if args.sandbox {
        return walls::run(&config, args.json).await;
    }
    let mut findings = vec![
        check_database(&config).await,
        check_git(),
        check_sandbox(&config).await,
        check_egress(&config).await,
        check_model(&config),
        check_github(&config).await,
    ];
    findings.extend(web::check(&config).await);
    let all_well = findings.iter().all(|finding| finding.status != Status::Problem);
    if args.json {
        let values = super::config::rows(&config);
        show::json(&serde_json::json!({"ok": all_well, "findings": findings, "configuration": values}))?;
    } else {
        print(&config, &findings);
    }
    Ok(if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(config: &Config, findings: &[Finding]) {
    let values = config.effective();
    let set: Vec<_> = values
        .iter()
        .filter(|(_, _, origin)| *origin != Origin::Default)
        .collect();
    if set.is_empty() {
        say!("configuration: all defaults (`forgehand config init` writes a file to begin with)");
    } else {
        say!("configuration (what is not listed is at its default)");
    }
    for (key, value, origin) in set {
        say!("  {key} = {value}   ({origin})");
    }
    say!();
    for finding in findings {
        let mark = match finding.status {
            Status::Ok => "ok",
            Status::Hint => "hint",
            Status::Problem => "FAIL",
        };
        say!("{mark:4}  {:8}  {}", finding.what, finding.detail);
    }
    let count = |status| findings.iter().filter(|finding| finding.status == status).count();
    match (count(Status::Problem), count(Status::Hint)) {
        (0, 0) => say!("\neverything works"),
        (0, _) => say!("\neverything works that is set up; a hint says what is not, yet"),
        (1, _) => say!("\none thing has to be mended"),
        (many, _) => say!("\n{many} things have to be mended"),
    }
}

async fn check_database(config: &Config) -> Finding {
    let tried = async {
        if let Some(file) = missing_database(config)? {
            return could_be_made(&file);
        }
        let store = Store::open(&config.database_url(), config.database.max_connections).await?;
        let mut tx = store.begin().await?;
        let now = tx.db_now().await?;
        drop(tx);
        store.close().await;
        anyhow::Ok(format!(
            "{} answers; its clock says {} UTC",
            store.backend(),
            show::time(now)
        ))
    };
    let tried = tried.await.map_err(|error| error.context("database.url"));
    Finding::of("database", tried)
}

/// A file that is not there yet is no problem where it can be made.
fn could_be_made(file: &Path) -> anyhow::Result<String> {
    let file = std::path::absolute(file)?;
    let above = file.ancestors().skip(1).find(|folder| folder.exists());
    let above = above.unwrap_or(Path::new("/"));
    if !above.is_dir() {
        anyhow::bail!("{} cannot be made: {} is not a folder", file.display(), above.display());
    }
    rustix::fs::access(above, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)
        .map_err(|error| anyhow::anyhow!("{} cannot be made in {}: {error}", file.display(), above.display()))?;
    Ok(format!("none yet; `forgehand serve` makes {}", file.display()))
}

fn check_git() -> Finding {
    Finding::of(
        "git",
        Git::find().map(|git| git.describe()).map_err(anyhow::Error::from),
    )
}

async fn check_sandbox(config: &Config) -> Finding {
    let tried = async {
        let config = ports::sandbox(&config.sandbox, &surroundings()?);
        let scratch = closed::temporary("forgehand-doctor-")?;
        let description = sandbox::probe(&config, scratch.path()).await?;
        anyhow::Ok((description, config))
    };
    match tried.await {
        Ok((description, config)) => {
            let shown = match (config.backend, config.toolchains.as_slice()) {
                (SandboxBackend::Docker | SandboxBackend::OpenSandbox, _) => "compilers of the image".to_owned(),
                (SandboxBackend::Local, []) => "compilers of /usr".to_owned(),
                (SandboxBackend::Local, others) => format!("compilers of /usr and {}", others.join(", ")),
            };
            let status = if description.warnings.is_empty() {
                Status::Ok
            } else {
                Status::Problem
            };
            Finding::new("sandbox", status, format!("{description}; {shown}"))
        }
        Err(error) => Finding::of("sandbox", Err(error)),
    }
}

/// Opens the way out in a sandbox of its own, where there is one.
async fn check_egress(config: &Config) -> Finding {
    let tried = async {
        let egress = ports::egress(&config.egress, &surroundings()?)?;
        let scratch = closed::temporary("forgehand-doctor-")?;
        if let Some(gate) = egress.open(scratch.path(), None)? {
            let sandbox = ports::sandbox(&config.sandbox, &surroundings()?);
            sandbox::probe_with(&sandbox, &scratch.path().join("run"), Some(gate.way_out())).await?;
            gate.close().await;
        }
        anyhow::Ok(egress)
    };
    match tried.await {
        Ok(egress) if egress.is_dangerous() => Finding::new("egress", Status::Problem, egress.in_words()),
        Ok(egress) => Finding::new("egress", Status::Ok, egress.in_words()),
        Err(error) => Finding::of("egress", Err(error)),
    }
}

fn check_model(config: &Config) -> Finding {
    let opened = match model::open(&config.model, &Redactor::default()) {
        Ok(opened) => opened,
        Err(error) => return Finding::of("model", Err(error)),
    };
    let model = &config.model;
    match (model.provider, &model.stub_script) {
        (ModelProvider::Stub, Some(script)) => Finding::new(
            "model",
            Status::Ok,
            format!("the stub answers from {}", script.display()),
        ),
        (ModelProvider::Stub, None) => Finding::new(
            "model",
            Status::Hint,
            "none is set up; only the demonstration works without. Set model.provider = \"openai\", model.base_url, \
             model.name and model.api_key_file",
        ),
        (ModelProvider::OpenAi, _) => {
            let price = if opened.price_known() {
                "price known"
            } else {
                "price unknown, so that cost is counted in tokens only"
            };
            let address = model.base_url.as_deref().unwrap_or("?");
            let detail = format!(
                "{} at {address}; {price}; not called (`forgehand doctor --model` asks it small questions)",
                model.name
            );
            Finding::new("model", Status::Ok, detail)
        }
    }
}

async fn check_github(config: &Config) -> Finding {
    let mut config = config.clone();
    if let Err(error) = complete_credentials(&mut config) {
        return Finding::of("github", Err(error));
    }
    let github = &config.github;
    let missing: Vec<&str> = [
        ("github.app_id", github.app_id.is_none()),
        ("github.private_key_file", github.private_key.is_none()),
        ("github.webhook_secret_file", github.webhook_secret.is_none()),
    ]
    .into_iter()
    .filter_map(|(key, is_missing)| is_missing.then_some(key))
    .collect();
    match missing.len() {
        0 => {}
        3 => {
            return Finding::new(
                "github",
                Status::Hint,
                "no App yet; `forgehand serve` prints the address of a page that makes one. `forgehand run` needs none",
            );
        }
        _ => {
            let missing = missing.join(" and ");
            return Finding::new("github", Status::Problem, format!("{missing} is not set"));
        }
    }
    let redactor = Redactor::default();
    config.secrets().iter().for_each(|secret| redactor.add(secret));
    let client = match GitHub::new(&config.github, Clock::System, redactor) {
        Ok(client) => client,
        Err(error) => return Finding::of("github", Err(error)),
    };
    let about = client.app().await;
    // A refusal may have no other reason than this.
    let apart = match client.skew().state() {
        ClockState::Unknown | ClockState::Right => None,
        ClockState::Off(by) => Some((Status::Hint, by)),
        ClockState::Wrong(by) => Some((Status::Problem, by)),
    };
    let detail = match &about {
        Ok(about) => format!(
            "we are the App {} ({}) at {}",
            about.name, about.id, config.github.api_url
        ),
        Err(error) => format!("{error:#}"),
    };
    match apart {
        None => Finding::of("github", about.map(|_| detail).map_err(anyhow::Error::from)),
        Some((status, by)) => {
            let (seconds, side) = (
                by.num_seconds().abs(),
                if by > TimeDelta::zero() { "ahead of" } else { "behind" },
            );
            let detail = format!(
                "{detail}; this machine's clock is {seconds} s {side} GitHub's, which believes what we sign only for \
                 some minutes: set it with a time server"
            );
            let status = if about.is_err() { Status::Problem } else { status };
            Finding::new("github", status, detail)
        }
    }
}

async fn invariants(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    if let Some(file) = missing_database(config)? {
        anyhow::bail!("there is no database at {} yet, so nothing to check", file.display());
    }
    let store = Store::open(&config.database_url(), config.database.max_connections).await?;
    let mut tx = store.begin().await?;
    let violations = tx.violations().await?;
    drop(tx);
    store.close().await;
    if json {
        show::json(&violations)?;
    } else if violations.is_empty() {
        say!("every invariant holds");
    } else {
        violations
            .iter()
            .for_each(|violation| say!("{}: {}", violation.invariant, violation.detail));
    }
    Ok(if violations.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
