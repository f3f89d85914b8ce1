//! The command line: one subcommand a file. The only place that reads the process environment.
//! Never does work of its own; it parses, calls, prints and chooses the exit code.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::app::{App, Surroundings, logging};
use crate::config::{Config, ConfigSources, load};
use crate::store::Store;

#[macro_use]
mod show;
mod audit;
mod autotask;
mod backup;
mod bar;
mod completions;
mod config;
mod costs;
mod demo;
mod doctor;
mod draft;
mod drafts;
mod eval;
mod goal;
mod graph;
mod index;
mod indexed;
mod jobs;
mod ledger;
mod migrate;
mod milestones;
mod progress;
mod recover;
mod replay;
mod retention;
mod run;
mod schedule;
mod screen;
mod search;
mod serve;
mod transcript;
mod trust;

/// Label an issue `agent`, or write `/agent fix` on a pull request, and Forgehand works on it in a
/// sandbox and opens a draft pull request.
#[derive(Debug, Parser)]
#[command(name = "forgehand", version, propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "New here? `forgehand demo` shows the whole way; `forgehand doctor` says what this machine lacks.\n\n\
                  Exit codes: 0 done · 1 failed · 64 wrong usage · 78 wrong configuration. `run` has more."
)]
struct Cli {
    /// Configuration file [default: $FORGEHAND_CONFIG, else forgehand.toml in this folder].
    #[arg(long, short, global = true, value_name = "FILE", help_heading = GLOBAL)]
    config: Option<PathBuf>,
    /// Set one configuration key, for example `queue.workers=4`; may be repeated.
    #[arg(long = "set", global = true, value_name = "SECTION.KEY=VALUE", help_heading = GLOBAL)]
    set: Vec<String>,
    #[command(subcommand)]
    command: Command,
}

/// Stack of a thread of the runtime; a build without optimisation needs more than two megabytes.
const STACK_BYTES: usize = 8 * 1024 * 1024;

/// Heading of the options that every command has.
const GLOBAL: &str = "Configuration";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service: receive webhooks, work on jobs, publish.
    Serve(serve::Args),
    /// Run only workers and maintenance, beside a service on the same PostgreSQL database.
    Worker(serve::WorkerArgs),
    /// Work on a local checkout, without GitHub: shows the diff and leaves a branch.
    Run(Box<run::Args>),
    /// Plan milestones for a goal in a local checkout, for you to approve.
    Goal(Box<goal::Args>),
    /// Show and change the milestones that `run --workgraph` or the service works on.
    Milestones(milestones::Args),
    /// Say which local checkouts may instruct the agent, or show it.
    Trust(trust::Args),
    /// Run a recorded run again without a model or a network, and say where it departs.
    Replay(replay::Args),
    /// See the whole way from a label to a pull request, without a network or a key.
    Demo(demo::Args),
    /// Read a run from the first turn to the last.
    Show(transcript::Args),
    /// List, show, answer, cancel and retry jobs.
    Jobs(jobs::Args),
    /// List, add, remove and run schedules, and show what became of their fires.
    Schedule(schedule::Args),
    /// Write drafts of issues about a local checkout, without GitHub: reads, and creates nothing.
    Draft(Box<draft::Args>),
    /// List or show drafts of issues that runs of the service offered.
    Drafts(drafts::Args),
    /// Index a local repository, so that `search` and `graph` answer at once.
    Index(index::Args),
    /// Find the places of a local repository that words, or a whole issue, are about.
    Search(search::Args),
    /// Say who uses what in a local repository: callers, callees, paths of calls, what a change reaches.
    Graph(graph::Args),
    /// Look for issues by itself and work on them: switch it on or off, see its queues, look now.
    Autotask(autotask::Args),
    /// Show what calls of models cost: by day, job, issue, repository, installation or model.
    Costs(costs::Args),
    /// Show what ran while nobody was there: schedules, work graphs, issue queues, and how each ended.
    Ledger(ledger::Args),
    /// Measure retrieval on changes that were really made.
    Eval(eval::Args),
    /// Show, check and export who did what: permissions, answers, stops, writes to GitHub.
    Audit(audit::Args),
    /// Move jobs that are long over into files and remove what is old, as the service does by itself.
    Retention(retention::Args),
    /// Give jobs whose worker is gone back to the queue, as the service does by itself.
    Recover(recover::Args),
    /// Check the configuration and every port, and say what to mend.
    Doctor(doctor::Args),
    /// Make the database or bring it up to date, as the service does at its start; or move it to another.
    Migrate(migrate::Args),
    /// Copy the database into a file while the service runs.
    Backup(backup::Args),
    /// Write a configuration file to begin with, or show the values in force.
    Config(config::Args),
    /// Print a script that completes commands and options in a shell.
    Completions(completions::Args),
}

/// Wrong usage, as in `sysexits.h`.
const USAGE: u8 = 64;
/// Wrong configuration, as in `sysexits.h`.
const CONFIG: u8 = 78;

/// Runs the command line.
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let word = arguments.next().unwrap_or_default();
    if word == crate::sandbox::HELPER_COMMAND {
        return crate::sandbox::helper_main(arguments);
    }
    if word == crate::retrieval::apart::HELPER_COMMAND {
        return crate::retrieval::apart::helper_main();
    }
    if word == crate::eval::apart::HELPER_COMMAND {
        return crate::eval::apart::helper_main();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { USAGE } else { 0 };
            drop(error.print());
            return ExitCode::from(code);
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // A run is a deep future. What is not touched is not taken.
        .thread_stack_size(STACK_BYTES)
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&anyhow::Error::from(error).context("start the runtime")),
    };
    match runtime.block_on(Box::pin(dispatch(cli))) {
        Ok(code) => code,
        Err(error) => fail(&error),
    }
}

async fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    #[cfg(feature = "failpoints")]
    arm_failpoints()?;
    let context = Context {
        file: cli.config,
        set: cli.set,
    };
    match cli.command {
        Command::Serve(args) => serve::run(&context, args).await,
        Command::Worker(args) => serve::run_worker(&context, args).await,
        Command::Run(args) => run::run(&context, *args).await,
        Command::Goal(args) => goal::run(&context, *args).await,
        Command::Milestones(args) => milestones::run(&context, args).await,
        Command::Trust(args) => trust::run(&args),
        Command::Replay(args) => replay::run(&context, args).await,
        Command::Demo(args) => demo::run(&context, args).await,
        Command::Show(args) => transcript::run(&context, args).await,
        Command::Jobs(args) => jobs::run(&context, args).await,
        Command::Schedule(args) => schedule::run(&context, args).await,
        Command::Draft(args) => draft::run(&context, *args).await,
        Command::Drafts(args) => drafts::run(&context, args).await,
        Command::Index(args) => index::run(&context, args).await,
        Command::Search(args) => search::run(&context, args).await,
        Command::Graph(args) => graph::run(&context, args).await,
        Command::Autotask(args) => autotask::run(&context, args).await,
        Command::Costs(args) => costs::run(&context, args).await,
        Command::Ledger(args) => ledger::run(&context, args).await,
        Command::Eval(args) => eval::run(args).await,
        Command::Audit(args) => audit::run(&context, args).await,
        Command::Retention(args) => retention::run(&context, args).await,
        Command::Recover(args) => recover::run(&context, args).await,
        Command::Doctor(args) => doctor::run(&context, args).await,
        Command::Migrate(args) => migrate::run(&context, args).await,
        Command::Backup(args) => backup::run(&context, args).await,
        Command::Config(args) => config::run(&context, args),
        Command::Completions(args) => completions::run(args, &mut Cli::command()),
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    complain(error);
    exit_code(error).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// One line for people; the cause below it.
fn complain(error: &anyhow::Error) {
    screen::end_active();
    note!("forgehand: {error}");
    for cause in error.chain().skip(1) {
        note!("  because: {cause}");
    }
}

/// The exit code of an error that has one of its own.
fn exit_code(error: &anyhow::Error) -> Option<u8> {
    if error.is::<crate::config::Problems>() {
        Some(CONFIG)
    } else {
        error.is::<Usage>().then_some(USAGE)
    }
}

/// What was asked for cannot be, and the person who asked can mend it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Usage(String);

/// Global flags.
struct Context {
    file: Option<PathBuf>,
    set: Vec<String>,
}

impl Context {
    /// Where the configuration comes from: the named file, else `FORGEHAND_CONFIG`, else
    /// `forgehand.toml` here.
    #[allow(clippy::disallowed_methods)] // the command line is where the environment is read
    fn sources(&self) -> anyhow::Result<ConfigSources> {
        let here = PathBuf::from("forgehand.toml");
        let named = self
            .file
            .clone()
            .or_else(|| std::env::var_os("FORGEHAND_CONFIG").map(PathBuf::from));
        let file = named.or_else(|| here.exists().then_some(here));
        let mut flags = Vec::new();
        for pair in &self.set {
            let (key, value) = pair
                .split_once('=')
                .ok_or_else(|| Usage(format!("--set {pair}: it is written SECTION.KEY=VALUE")))?;
            flags.push((key.trim().to_owned(), value.to_owned()));
        }
        Ok(ConfigSources {
            file,
            environment: environment(),
            flags,
        })
    }

    /// The configuration of a command that prints a result: logging starts with warnings only,
    /// unless something else is configured.
    fn config(&self) -> anyhow::Result<Config> {
        let mut config = load(&self.sources()?)?;
        if !config.origins.contains_key("log.filter") {
            "warn".clone_into(&mut config.log.filter);
        }
        logging::start_to(&config.log, || show::Errors);
        Ok(config)
    }

    /// The service with its database made or brought up to date.
    async fn app(&self) -> anyhow::Result<App> {
        let config = load(&self.sources()?)?;
        logging::start(&config.log);
        App::build(config, surroundings()?).await
    }

    /// The service for commands that only make sense on a database that is there.
    async fn existing_app(&self) -> anyhow::Result<App> {
        let config = self.config()?;
        if let Some(file) = missing_database(&config)? {
            anyhow::bail!(
                "there is no database at {}. `forgehand serve` makes it; if the service keeps its files elsewhere, \
                 name the folder with --set server.state_dir=FOLDER",
                file.display()
            );
        }
        App::build(config, surroundings()?).await
    }
}

/// Where the database will be, as long as there is none.
fn missing_database(config: &Config) -> anyhow::Result<Option<PathBuf>> {
    let file = Store::file(&config.database_url())?;
    Ok(file.filter(|file| !file.exists()))
}

/// The variables of this process that can be configuration. Others may hold any bytes.
#[allow(clippy::disallowed_methods)] // the command line is where the environment is read
fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
        .collect()
}

/// Arms the failpoints of a test; a release has neither the points nor the variable.
#[cfg(feature = "failpoints")]
#[allow(clippy::disallowed_methods)] // the command line is where the environment is read
fn arm_failpoints() -> anyhow::Result<()> {
    let text = std::env::var("FORGEHAND_FAILPOINTS").unwrap_or_default();
    crate::fault::arm(&text).map_err(|problem| Usage(format!("FORGEHAND_FAILPOINTS: {problem}")).into())
}

/// What this process knows of the machine.
#[allow(clippy::disallowed_methods)] // the command line is where the environment is read
fn surroundings() -> anyhow::Result<Surroundings> {
    use anyhow::Context as _;
    let folder = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let configs = folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")));
    Ok(Surroundings {
        program: std::env::current_exe().context("find the path of this program")?,
        config_dir: configs.map(|folder| folder.join("forgehand")),
        home: folder("HOME"),
        rustup_home: folder("RUSTUP_HOME"),
        state_home: folder("XDG_STATE_HOME"),
    })
}
