//! `forgehand eval`: measures what can be measured without a model. Never changes a repository.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

use super::show;
use crate::closed;
use crate::eval::{self, Ask, Case, Plan};
use crate::git::Git;
use crate::retrieval::index::Limits;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// How often the files and functions of real changes are found from what was written about them.
    Retrieval(RetrievalArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each line of FILE is a JSON object with id, repo (OWNER/NAME), parent_commit, query_full, gold_files and, \
if wanted, query_subject, query_nostem and gold_lines ({path: [[first, last], …]}).
Repositories are looked for at DIR/OWNER+NAME/repo, DIR/OWNER/NAME and DIR/NAME, with or without .git.

Acc@k: all changed files are among the first k. The line `weights of other repos` is the honest one: each \
repository is ranked with weights fitted on the others.")]
struct RetrievalArgs {
    /// The cases, a JSON object a line.
    #[arg(long, value_name = "FILE")]
    cases: PathBuf,
    /// The folder that holds the repositories.
    #[arg(long, value_name = "DIR")]
    repos: PathBuf,
    /// Which text of a case is asked.
    #[arg(long, value_enum, default_value_t = Query::Full)]
    query: Query,
    /// Where indexes are kept for the next time [default: a temporary folder].
    #[arg(long, value_name = "DIR")]
    index: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Query {
    Full,
    Subject,
    Nostem,
}

pub(super) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let What::Retrieval(args) = args.what;
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let work = tokio::task::spawn_blocking(move || retrieval(&args, &stop));
    tokio::pin!(work);
    tokio::select! {
        done = &mut work => done.context("the measurement broke off")?,
        _ = tokio::signal::ctrl_c() => {
            cancel.cancel();
            work.await.context("the measurement broke off")?
        }
    }
}

fn retrieval(args: &RetrievalArgs, cancel: &CancellationToken) -> anyhow::Result<ExitCode> {
    let text = std::fs::read_to_string(&args.cases).with_context(|| format!("read {}", args.cases.display()))?;
    let cases = Case::parse_all(&text).with_context(|| format!("read {}", args.cases.display()))?;
    anyhow::ensure!(!cases.is_empty(), "{} holds no cases", args.cases.display());
    let temporary = closed::temporary("forgehand-eval-").context("make a folder for indexes")?;
    let plan = Plan {
        cases,
        find: &|name| eval::find_in(&args.repos, name),
        ask: match args.query {
            Query::Full => Ask::Full,
            Query::Subject => Ask::Subject,
            Query::Nostem => Ask::NoStem,
        },
        limits: Limits::default(),
        indexes: args.index.as_deref().unwrap_or(temporary.path()),
    };
    let report = eval::run(&plan, &Git::find()?, cancel, &|done, all| {
        if done % 20 == 0 || done == all {
            note!("{done} of {all} cases");
        }
    })?;
    if args.json {
        show::json(&report)?;
    } else {
        report.lines().iter().for_each(|line| say!("{line}"));
    }
    let is_empty = report.skipped.len() == plan.cases.len();
    Ok(if is_empty { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
