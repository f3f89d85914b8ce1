//! `forgehand schedule`: list, add, remove and run schedules, and what became of their fires. Never
//! fires anything by itself: it inserts a job, which the service works on.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use chrono::{DateTime, Utc};
use serde::Serialize;

use super::{Context, Usage, show};
use crate::app::App;
use crate::audit::OPERATOR;
use crate::clock::Clock;
use crate::ids::{JobId, RepoName};
use crate::job::{Job, JobState, Outcome};
use crate::schedule::{CatchUp, Schedule, Source, Written};
use crate::store::{ScheduleCursor, Store};
use crate::unattended::cron::{self, Cron, RunError};

mod print;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Schedules stand in the configuration as [[schedule]], or are added here. The service begins their work: \
`forgehand serve` with the role scheduler, on as many machines as you like.

Examples:
  forgehand schedule list
  forgehand schedule add nightly --cron \"30 2 * * *\" --timezone Europe/Berlin \\
      --repo octo/words --task \"Update the dependencies; run all tests.\"
  forgehand schedule run nightly --wait
  forgehand schedule history nightly
  forgehand schedule remove nightly

Where nothing is to run all the time, cron, a systemd timer or CI can start `forgehand run` in a checkout: \
deploy/ has examples.")]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List schedules with their next fires.
    List {
        /// Next fires shown of each.
        #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=100))]
        next: u8,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Add a schedule to the database; the service follows it at once.
    Add(Box<AddArgs>),
    /// Remove a schedule that was added here.
    Remove {
        /// The schedule's name.
        name: String,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Begin the work of a schedule now, beside its timetable.
    #[command(after_help = "\
Exit codes with --wait:
  0    done, or nothing to do
  2    no result
  4    failed
Without --wait: 0 once the job is queued.")]
    Run {
        /// The schedule's name.
        name: String,
        /// Wait for the end of the job, and say by the exit code how it went.
        #[arg(long)]
        wait: bool,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show what became of the latest fires.
    History {
        /// Only those of this schedule.
        name: Option<String>,
        /// Most fires shown.
        #[arg(long, value_name = "NUMBER", default_value_t = 20)]
        limit: u32,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    /// What it is called: lower-case letters, digits and hyphens.
    name: String,
    /// Minute, hour, day of the month, month, day of the week, such as "30 7 * * MON-FRI"; or @daily.
    #[arg(long, value_name = "EXPRESSION")]
    cron: String,
    /// The zone whose clock that is about.
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    timezone: String,
    /// Most seconds that a fire is put off by.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    jitter_seconds: u64,
    /// The repository to work in.
    #[arg(long, value_name = "OWNER/NAME")]
    repo: String,
    /// What to do, in words; or what the skill is told.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, required_unless_present_any = ["skill", "graph", "eval"])]
    task: Option<String>,
    /// The skill to work by.
    #[arg(long, value_name = "NAME", conflicts_with = "graph")]
    skill: Option<String>,
    /// The work graph to begin.
    #[arg(long, value_name = "NAME", conflicts_with = "task")]
    graph: Option<String>,
    /// The file with cases to measure retrieval on, in the repository, on its default branch.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["task", "skill", "graph"])]
    eval: Option<String>,
    /// With --eval, the least mean reciprocal rank of files in percent; below it the run has failed.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, requires = "eval")]
    min_mrr: u32,
    /// What becomes of missed fires: `once` makes up for the last, `none` for none.
    #[arg(long, value_name = "ONCE|NONE", default_value = "once")]
    catch_up: CatchUp,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// A schedule as it is shown.
#[derive(Debug, Serialize)]
struct Shown {
    name: String,
    source: Source,
    enabled: bool,
    cron: String,
    timezone: &'static str,
    in_words: String,
    repository: RepoName,
    work: String,
    catch_up: CatchUp,
    jitter_seconds: u64,
    next: Vec<DateTime<Utc>>,
}

/// The work went, but not to a result.
const NO_RESULT: u8 = 2;
/// The job failed.
const FAILED: u8 = 4;

/// Time between two looks at a job that is waited for.
const LOOK: Duration = Duration::from_millis(500);

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    let app = match args.action {
        // The first thing that somebody does may be to add one.
        Action::Add(_) => {
            let config = context.config()?;
            App::build(config, super::surroundings()?).await?
        }
        _ => context.existing_app().await?,
    };
    let done = act(&app, args.action).await;
    app.store().close().await;
    done
}

async fn act(app: &App, action: Action) -> anyhow::Result<ExitCode> {
    match action {
        Action::List { next, json } => list(app, next, json).await?,
        Action::Add(args) => add(app, *args).await?,
        Action::Remove { name, json } => remove(app, &name, json).await?,
        Action::Run { name, wait, json } => return run_now(app, &name, wait, json).await,
        Action::History { name, limit, json } => {
            let mut tx = app.store().begin().await?;
            let fires = tx.schedule_fires(name.as_deref(), limit).await?;
            drop(tx);
            match (json, name) {
                (true, _) => show::json(&fires)?,
                (false, Some(name)) if fires.is_empty() => {
                    find(app, &name).await?;
                    say!("{name} has not fired yet");
                }
                _ => print::fires(&fires),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn all(app: &App) -> anyhow::Result<Vec<Schedule>> {
    Ok(cron::schedules(app.store(), &app.config().schedules()).await?)
}

async fn list(app: &App, next: u8, json: bool) -> anyhow::Result<()> {
    let now = Clock::System.now();
    let shown: Vec<Shown> = all(app)
        .await?
        .iter()
        .map(|schedule| shown(schedule, now, next))
        .collect();
    if json {
        return show::json(&shown);
    }
    print::schedules(&shown);
    Ok(())
}

fn shown(schedule: &Schedule, now: DateTime<Utc>, next: u8) -> Shown {
    let timetable = &schedule.timetable;
    let fires = std::iter::successors(timetable.next_after(now), |at| timetable.next_after(*at));
    Shown {
        name: schedule.name.clone(),
        source: schedule.source,
        enabled: schedule.enabled,
        cron: timetable.expression().to_owned(),
        timezone: timetable.zone().name(),
        in_words: timetable.in_words(),
        repository: schedule.repository.clone(),
        work: schedule.work.title(),
        catch_up: schedule.catch_up,
        jitter_seconds: schedule.jitter_seconds,
        next: fires
            .take(if schedule.enabled { usize::from(next) } else { 0 })
            .collect(),
    }
}

async fn add(app: &App, args: AddArgs) -> anyhow::Result<()> {
    let written = Written {
        name: Some(args.name.clone()),
        cron: Some(args.cron),
        timezone: args.timezone,
        jitter_seconds: args.jitter_seconds,
        repository: Some(args.repo),
        task: args.task,
        skill: args.skill,
        graph: args.graph,
        eval: args.eval,
        min_mrr: args.min_mrr,
        enabled: true,
        catch_up: args.catch_up,
    };
    let schedule = Schedule::parse(&written, Source::Database).map_err(|problems| {
        let lines = problems
            .iter()
            .map(|problem| format!("  - {}: {}", option(problem.key), problem.text));
        Usage(format!(
            "the schedule is wrong:\n{}",
            lines.collect::<Vec<_>>().join("\n")
        ))
    })?;
    if app.config().schedules().iter().any(|other| other.name == schedule.name) {
        bail!(in_the_file(app, &schedule.name));
    }
    let now = Clock::System.now();
    let mut tx = app.store().begin().await?;
    tx.act_as(OPERATOR);
    if !tx.add_schedule(&schedule.name, &written, now).await? {
        bail!(
            "there is a schedule {0} already; `forgehand schedule remove {0}` removes it",
            schedule.name
        );
    }
    let cursor = ScheduleCursor {
        timetable: cron::words_of(&schedule),
        until: now,
    };
    // One of the same name may have stood in the configuration before.
    match tx.schedule_cursor(&schedule.name).await? {
        Some(old) => drop(tx.move_schedule(&schedule.name, &old, &cursor).await?),
        None => drop(tx.begin_schedule(&schedule.name, &cursor).await?),
    }
    tx.commit().await?;
    let shown = shown(&schedule, now, 3);
    if args.json {
        return show::json(&shown);
    }
    say!("added:");
    print::schedules(&[shown]);
    Ok(())
}

/// The option of a key.
fn option(key: &str) -> String {
    match key {
        "name" => "NAME".to_owned(),
        "repository" => "--repo".to_owned(),
        key => format!("--{}", key.replace('_', "-")),
    }
}

async fn remove(app: &App, name: &str, json: bool) -> anyhow::Result<()> {
    let mut tx = app.store().begin().await?;
    tx.act_as(OPERATOR);
    let removed = tx.remove_schedule(name).await?;
    tx.commit().await?;
    if !removed {
        let schedule = find(app, name).await?;
        bail!(in_the_file(app, &schedule.name));
    }
    if json {
        return show::json(&serde_json::json!({"schedule": name, "result": "removed"}));
    }
    say!("{name} is removed; what it began goes on, and its history stays");
    Ok(())
}

/// What is written down in the configuration is changed there.
fn in_the_file(app: &App, name: &str) -> String {
    let schedules = app.config().schedules();
    let at = schedules.iter().position(|schedule| schedule.name == name).unwrap_or(0) + 1;
    let origin = app.config().origins.get(&format!("schedule[{at}].name"));
    let file = origin.map_or_else(|| "the configuration".to_owned(), ToString::to_string);
    format!("{name} stands in {file} as schedule[{at}]; change it there and start the service again")
}

async fn find(app: &App, name: &str) -> anyhow::Result<Schedule> {
    let all = all(app).await?;
    let names = all.iter().map(|schedule| schedule.name.as_str());
    let near = crate::text::nearest(name, names, 3).map(|near| format!("; did you mean {near}?"));
    let near = near.unwrap_or_else(|| "; `forgehand schedule list` shows all".to_owned());
    let found = all.iter().find(|schedule| schedule.name == name).cloned();
    found.with_context(|| format!("there is no schedule {name}{near}"))
}

async fn run_now(app: &App, name: &str, wait: bool, json: bool) -> anyhow::Result<ExitCode> {
    let schedule = find(app, name).await?;
    let cron = Cron {
        store: app.store().clone(),
        github: app.github()?,
        clock: Clock::System,
        configured: Vec::new(),
        max_attempts: app.config().queue.max_attempts,
        graphs: app.graphs(),
        pause: app.config().queue.poll_seconds,
    };
    let fired = match cron.run_now(&schedule).await {
        Ok(fired) => fired,
        Err(error @ RunError::AtWork { .. }) => {
            bail!("{error}; `forgehand jobs show` shows it, `forgehand jobs cancel` stops it")
        }
        Err(error) => return Err(error.into()),
    };
    let Some(job) = fired.job.clone().filter(|_| wait) else {
        match (json, fired.job.as_ref()) {
            (false, Some(job)) => say!("{name}: job {job} is queued; the service works on it"),
            _ => show::json(&fired)?,
        }
        return Ok(ExitCode::SUCCESS);
    };
    if !json {
        note!("{name}: job {job} is queued; waiting for its end");
    }
    let ended = wait_for(app.store(), &job).await?;
    match json {
        true => show::json(&ended)?,
        false => print::ended(&ended),
    }
    Ok(ExitCode::from(code(&ended)))
}

/// Whoever does not want to wait any longer presses Ctrl-C; the job goes on.
async fn wait_for(store: &Store, id: &JobId) -> anyhow::Result<Job> {
    loop {
        let mut tx = store.begin().await?;
        let job = tx.job(id).await?.with_context(|| format!("job {id} is gone"))?;
        drop(tx);
        if job.state.is_final() {
            return Ok(job);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// How a job went, as an exit code.
fn code(job: &Job) -> u8 {
    match (job.state, &job.outcome) {
        (JobState::Dead, _) => FAILED,
        (JobState::Cancelled, _) => NO_RESULT,
        (
            _,
            Some(
                Outcome::Opened { .. }
                | Outcome::Pushed { .. }
                | Outcome::Answered
                | Outcome::Reviewed { .. }
                | Outcome::Measured { .. }
                | Outcome::NothingToDo { .. },
            ),
        ) => 0,
        (_, Some(Outcome::Refused { .. } | Outcome::GaveUp { .. } | Outcome::Stopped { .. }) | None) => NO_RESULT,
    }
}
