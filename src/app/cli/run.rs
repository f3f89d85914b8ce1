//! `forgehand run`: one task on a local checkout, without GitHub. Shows the diff, leaves a branch
//! and says by its exit code how it went. Never touches the checkout's files, index or branches
//! that exist, and leaves no file of its own behind but the record of the run.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;

use super::{Context, Usage, complain, exit_code, screen, show};
use crate::clock::Clock;
use crate::config::{Config, ModelProvider, Problems};
use crate::job::JobError;
use crate::secret::Redactor;
use crate::text;
use args::{EventsTo, Output};
use ending::Ending;
use events::{End, Events};
use local::{Done, Order};
use report::Report;
use site::{Given, Site};

mod account;
mod args;
mod drafts;
mod ending;
mod events;
mod guidance;
mod interrupt;
mod local;
mod own;
mod people;
mod report;
mod scratch;
mod site;
mod workgraph;

pub(super) use args::{Args, Drafts, ModelArgs};
pub(super) use workgraph::Goal;

/// Largest task, in bytes.
const MAX_TASK_BYTES: u64 = 256 * 1024;

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    if args.events() == EventsTo::Errors {
        show::errors_are_json();
    }
    let redactor = Redactor::default();
    let events = Arc::new(Events::open(&args.events(), redactor.clone())?);
    let error = match Box::pin(attempt(context, &args, &events, redactor)).await {
        Ok(ending) => return Ok(ending.into()),
        Err(error) => error,
    };
    failed(&error, &events, args.output() == Output::Json)
}

/// Plans milestones for a goal.
pub(super) async fn goal(context: &Context, goal: Goal) -> anyhow::Result<ExitCode> {
    let as_json = goal.json;
    let (args, wanted) = goal.into_args();
    let redactor = Redactor::default();
    let events = Arc::new(Events::open(&args.events(), redactor.clone())?);
    let planning = async {
        let given = given(context, &args, &events, redactor)?;
        workgraph::plan(given, &args, wanted, &events).await
    };
    let error = match Box::pin(planning).await {
        Ok(ending) => return Ok(ending.into()),
        Err(error) => error,
    };
    failed(&error, &events, as_json)
}

fn failed(error: &anyhow::Error, events: &Events, as_json: bool) -> anyhow::Result<ExitCode> {
    complain(error);
    let code = exit_code(error).unwrap_or(Ending::Error.code());
    let reason = format!("{error:#}");
    let end = End {
        outcome: "failed",
        exit_code: code,
        reason: Some(&reason),
        left: None,
    };
    events.end(&end, Clock::System.now());
    if as_json {
        show::json(&report::failure(&reason, code))?;
    }
    Ok(ExitCode::from(code))
}

/// The configuration with what is wrong with it, and where a run is told.
fn given(context: &Context, args: &Args, events: &Arc<Events>, redactor: Redactor) -> anyhow::Result<Given> {
    let (config, problems) = match args.context(context).config().map_err(anyhow::Error::downcast) {
        Ok(mut config) => {
            config.permission.allow.extend(args.allow.iter().cloned());
            (Some(config), Vec::new())
        }
        Err(Ok(Problems(problems))) => (None, problems),
        Err(Err(error)) => return Err(error),
    };
    Ok(Given {
        config,
        problems,
        events: events.clone(),
        redactor,
    })
}

async fn attempt(context: &Context, args: &Args, events: &Arc<Events>, redactor: Redactor) -> anyhow::Result<Ending> {
    let given = given(context, args, events, redactor)?;
    if args.graph.workgraph {
        return workgraph::run(given, args, events).await;
    }
    // Nobody is kept waiting for a task that comes to nothing.
    let task = match &given.config {
        Some(_) => read_task(args.task())?,
        None => String::new(),
    };
    let site = Site::open(given, args).await?;
    let order = Order {
        task,
        mode: args.mode(),
        base: site.repo.head.clone(),
        checks: args.checks(),
        acceptance: None,
        title: None,
        branch: args.branch.clone(),
    };
    let done = Box::pin(site.work(&order)).await?;
    let (outcome, ending, reason) = tell(&site, args, &done, events)?;
    account::of_task(&site, args, &order.task, &done, (outcome, ending), reason.as_deref()).await;
    Ok(ending)
}

/// Shows what came of a run.
fn tell(
    site: &Site,
    args: &Args,
    done: &Done,
    events: &Events,
) -> anyhow::Result<(&'static str, Ending, Option<String>)> {
    screen::end_active();
    let report = Report {
        repo: &site.repo,
        done,
        presence: args.presence(),
        mode: args.mode(),
        language: site.ports.language,
    };
    let (outcome, ending) = report.ending();
    let end = End {
        outcome,
        exit_code: ending.code(),
        reason: report.reason(),
        left: done.left.as_ref(),
    };
    events.end(&end, Clock::System.now());
    match args.output() {
        Output::Json => show::json(&report.as_json())?,
        Output::Text(diff) => {
            report.print(diff);
            if args.look().is_some() {
                let run = &done.run;
                note!("\nforgehand show {run} reads it again, forgehand replay {run} runs it again from its record");
            }
        }
    }
    Ok((outcome, ending, report.reason().map(str::to_owned)))
}

/// Without a model and without a script nobody could answer: better said before the checkout and
/// the checks than after them.
fn somebody_answers(config: &Config) -> anyhow::Result<()> {
    if config.model.provider == ModelProvider::Stub && config.model.stub_script.is_none() {
        return Err(Usage(
            "no model is set up: add --base-url URL and --model NAME, or set FORGEHAND_MODEL__PROVIDER=openai, \
             FORGEHAND_MODEL__BASE_URL, FORGEHAND_MODEL__NAME and FORGEHAND_MODEL__API_KEY (or model.stub_script, to \
             script the answers)"
                .to_owned(),
        )
        .into());
    }
    Ok(())
}

fn read_task(task: Option<String>) -> anyhow::Result<String> {
    use std::io::Read as _;
    let Some(mut text) = task else {
        return Err(Usage(
            "say what is to be done: forgehand run \"Mend the …\", or --task TEXT, or - to read it from standard input"
                .to_owned(),
        )
        .into());
    };
    if text == "-" {
        let mut bytes = Vec::new();
        std::io::stdin()
            .take(MAX_TASK_BYTES + 1)
            .read_to_end(&mut bytes)
            .context("read the task from standard input")?;
        text = String::from_utf8_lossy(&bytes).into_owned();
    }
    if text.len() as u64 > MAX_TASK_BYTES {
        let most = text::bytes_in_words(MAX_TASK_BYTES);
        return Err(Usage(format!(
            "the task is longer than {most}; put the details into a file of the repository"
        ))
        .into());
    }
    if text.trim().is_empty() {
        return Err(Usage("the task is empty; say what is to be done".to_owned()).into());
    }
    Ok(text)
}

/// Why there is no result, in words.
pub(super) fn in_words(error: JobError) -> String {
    match error {
        JobError::Retry(reason)
        | JobError::Unsent(reason)
        | JobError::Snooze(_, reason)
        | JobError::Fail(reason)
        | JobError::NoRight(reason)
        | JobError::HeadMoved(reason) => reason,
        JobError::End(outcome) => serde_json::to_string(&outcome).unwrap_or_default(),
        JobError::LeaseLost => "the run lost its lease".to_owned(),
    }
}
