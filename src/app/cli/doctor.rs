//! `forgehand doctor`: the configuration in force, every port tried, and what to do about what
//! does not work. Never prints a secret, never changes anything.

use std::process::ExitCode;

use serde::Serialize;

use super::{Context, show, surroundings};
use crate::app::App;
use crate::config::{Config, ModelProvider};
use crate::git::Git;
use crate::github::GitHub;
use crate::sandbox;
use crate::store::Store;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Check that the rows of the database agree with each other (I1 to I16), and nothing else.
    #[arg(long)]
    invariants: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// One thing that was tried.
#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    ok: bool,
    detail: String,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    let config = context.config()?;
    if args.invariants {
        return invariants(&config, args.json).await;
    }
    let findings = vec![
        check_database(&config).await,
        check_git(),
        check_sandbox(&config).await,
        check_model(&config),
        check_github(&config).await,
    ];
    let all_well = findings.iter().all(|finding| finding.ok);
    if args.json {
        let values: Vec<_> = config
            .effective()
            .into_iter()
            .map(|(key, value, origin)| serde_json::json!({"key": key, "value": value, "origin": origin.to_string()}))
            .collect();
        show::json(&serde_json::json!({"ok": all_well, "findings": findings, "configuration": values}))?;
    } else {
        println!("configuration (what is not listed is at its default)");
        for (key, value, origin) in config.effective() {
            if origin != crate::config::Origin::Default {
                println!("  {key} = {value}   ({origin})");
            }
        }
        println!();
        for finding in &findings {
            println!(
                "{} {:9} {}",
                if finding.ok { "ok  " } else { "FAIL" },
                finding.what,
                finding.detail
            );
        }
    }
    Ok(if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn finding(what: &'static str, result: Result<String, String>) -> Finding {
    match result {
        Ok(detail) => Finding { what, ok: true, detail },
        Err(detail) => Finding {
            what,
            ok: false,
            detail,
        },
    }
}

async fn check_database(config: &Config) -> Finding {
    let tried = async {
        let store = open(config).await?;
        let mut tx = store.begin().await?;
        let now = tx.db_now().await?;
        anyhow::Ok(format!(
            "{} answers; its clock says {}",
            store.backend(),
            show::time(now)
        ))
    };
    finding(
        "database",
        tried.await.map_err(|error| format!("{error:#}. Check database.url")),
    )
}

async fn open(config: &Config) -> anyhow::Result<Store> {
    let app = App::build(config.clone(), surroundings()?).await?;
    Ok(app.store().clone())
}

fn check_git() -> Finding {
    finding(
        "git",
        Git::find().map(|git| git.describe()).map_err(|error| error.to_string()),
    )
}

async fn check_sandbox(config: &Config) -> Finding {
    let tried = async {
        let scratch = tempfile::tempdir()?;
        anyhow::Ok(sandbox::probe(&config.sandbox, scratch.path()).await?)
    };
    match tried.await {
        Ok(description) => Finding {
            what: "sandbox",
            ok: description.warnings.is_empty(),
            detail: description.to_string(),
        },
        Err(error) => Finding {
            what: "sandbox",
            ok: false,
            detail: format!("{error:#}"),
        },
    }
}

fn check_model(config: &Config) -> Finding {
    let model = &config.model;
    finding(
        "model",
        match model.provider {
            ModelProvider::Stub => Ok(
                "the stub answers from scripts; set model.provider = \"openai\" and model.base_url for a real model"
                    .to_owned(),
            ),
            ModelProvider::OpenAi => {
                let price = if model.input_usd_per_million.is_some() {
                    "price known"
                } else {
                    "price unknown: cost is counted in tokens only"
                };
                Ok(format!(
                    "{} at {}; {price}; not called",
                    model.name,
                    model.base_url.as_deref().unwrap_or("?")
                ))
            }
        },
    )
}

async fn check_github(config: &Config) -> Finding {
    let tried = async {
        let redactor = crate::secret::Redactor::default();
        let app = App::build(config.clone(), surroundings()?).await?;
        if app.config().github.app_id.is_none() {
            anyhow::bail!(
                "no App is configured: start `forgehand serve` and open /setup, or set github.app_id and github.private_key_file"
            );
        }
        let github = GitHub::new(&app.config().github, crate::clock::Clock::System, redactor)?;
        let about = github.app().await?;
        anyhow::Ok(format!(
            "we are the App {} ({}) at {}",
            about.name, about.id, config.github.api_url
        ))
    };
    finding("github", tried.await.map_err(|error| format!("{error:#}")))
}

async fn invariants(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let store = open(config).await?;
    let mut tx = store.begin().await?;
    let violations = tx.violations().await?;
    if json {
        show::json(&violations)?;
    } else if violations.is_empty() {
        println!("every invariant holds");
    } else {
        violations
            .iter()
            .for_each(|violation| println!("{}: {}", violation.invariant, violation.detail));
    }
    Ok(if violations.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
