//! `forgehand goal`: milestones for a goal, planned by the model on a local checkout. What it does is
//! a run; only its words are its own. Never works on what it plans.

use std::path::PathBuf;
use std::process::ExitCode;

use super::run::{self, ModelArgs};
use super::{Context, Usage};
use crate::milestone::{GraphName, MAX_GOAL_BYTES};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads the checkout at its last commit and proposes milestones with acceptance commands and what \
depends on what. Nothing is worked on before you approve them: look at the commands, which run in \
the sandbox, then `forgehand milestones approve` and `forgehand run --workgraph`.

Examples:
  forgehand goal \"Read files of version 2 of the format, too\"
  forgehand goal --graph docs \"Document every public function\"

Exit codes:
  0    milestones are proposed (approved with --approve)
  2    the model proposed none
  3    stopped by a limit
  4    the model, the sandbox or git failed
  64   wrong usage, also when the graph is approved already
  78   wrong configuration
  130  interrupted")]
pub(super) struct Args {
    /// What is to be reached, in words.
    #[arg(required = true, value_name = "GOAL")]
    words: Vec<String>,
    /// A folder of the checkout; its last commit counts.
    #[arg(long, default_value = ".", value_name = "FOLDER")]
    repo: PathBuf,
    /// Name of the graph that the milestones form.
    #[arg(long, default_value = "main", value_name = "NAME")]
    graph: GraphName,
    /// Let them be worked on without looking at them first.
    #[arg(long)]
    approve: bool,
    /// Write what happens to this file, for `forgehand show`.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    #[command(flatten)]
    model: ModelArgs,
    /// Print the proposal as one JSON document.
    #[arg(long)]
    json: bool,
    /// Show only the proposal, and not how it comes about.
    #[arg(long, short)]
    quiet: bool,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    let text = args.words.join(" ");
    if text.trim().is_empty() || text.len() > MAX_GOAL_BYTES {
        return Err(Usage(format!(
            "a goal has 1 to {MAX_GOAL_BYTES} bytes; put details into a file of the repository"
        ))
        .into());
    }
    let goal = run::Goal {
        text,
        repo: args.repo,
        graph: args.graph,
        approve: args.approve,
        log: args.log,
        model: args.model,
        json: args.json,
        quiet: args.quiet,
    };
    run::goal(context, goal).await
}
