//! `forgehand run --workgraph`: the milestones of a checkout's work graph, one try after another, on
//! one branch of ours that grows commit by commit. What a try came to is in rows before the next one
//! begins, so that whoever goes on after a killed process knows it.
//! Never touches the checkout's files, its index or a branch of a person.

use std::time::Instant;

use super::super::milestones::{graph_of, limits_of, store_of};
use super::account;
use super::args::Args;
use super::ending::Ending as Exit;
use super::events::Events;
use super::site::{Given, Site};
use crate::clock::Clock;
use crate::ids::BranchName;
use crate::milestone::{GraphName, Hold, Holder, MilestoneId, MilestoneState, Outlook};
use crate::workgraph::{Taken, WorkGraph, WorkGraphError};

mod attempt;
mod ending;
mod plan;
mod process;

pub(super) use ending::Told;
pub(in crate::app::cli) use plan::Goal;
pub(super) use plan::plan;

use attempt::{How, Tried};
use ending::Ending;

#[derive(Debug, Default, Clone, clap::Args)]
#[command(next_help_heading = "Work graph")]
pub(in crate::app::cli) struct GraphArgs {
    /// Work on the milestones of this checkout's work graph (`forgehand milestones`) instead of a task.
    /// Each that is done becomes a commit on the branch agent/graph-NAME. Exit codes then: 0 all done, going
    /// on or stopped by you; 2 blocked, or given up after all fix attempts; 3 too many given up in a row;
    /// 4 the model, the sandbox or git failed; 5 no milestones.
    #[arg(long, conflicts_with_all = ["words", "task", "branch", "plan", "ask"])]
    pub(super) workgraph: bool,
    /// Name of the graph.
    #[arg(long, value_name = "NAME", requires = "workgraph")]
    graph: Option<GraphName>,
    /// Most tries of milestones in this call (`workgraph.max_per_call`).
    #[arg(long, value_name = "NUMBER", requires = "workgraph", value_parser = clap::value_parser!(u32).range(1..))]
    max: Option<u32>,
}

/// Works on a checkout's graph.
pub(super) async fn run(given: Given, args: &Args, events: &Events) -> anyhow::Result<Exit> {
    let site = Site::open(given, args).await?;
    let name = args.graph.graph.clone().unwrap_or_default();
    let graph = graph_of(&store_of(&site.config).await?, &site.repo, &name, &site.config);
    let series = Series {
        most: args.graph.max.unwrap_or(site.config.workgraph.max_per_call),
        args,
        site: &site,
        graph: &graph,
        by: process::me(),
        branch: branch_of(&name),
        began: Instant::now(),
    };
    let (tries, ending) = series.work().await;
    let now = graph.load().await?;
    let exit = ending::tell(&series, now.as_ref(), &tries, &ending, events)?;
    account::of_graph(&site, args, &ending::told(&series, now.as_ref(), &tries, &ending)).await;
    Ok(exit)
}

/// The branch that a graph's milestones are committed on.
fn branch_of(name: &GraphName) -> BranchName {
    let branch = format!("agent/graph-{name}");
    branch.parse().expect("a graph's name fits into the name of a branch")
}

/// The branch that keeps what a try of a milestone left.
fn kept_branch_of(name: &GraphName, id: &MilestoneId) -> BranchName {
    let branch = format!("agent/kept/{name}/{id}");
    branch.parse().expect("both names fit into the name of a branch")
}

/// One call that works on a graph.
struct Series<'a> {
    args: &'a Args,
    site: &'a Site,
    graph: &'a WorkGraph,
    by: Holder,
    branch: BranchName,
    most: u32,
    began: Instant,
}

impl Series<'_> {
    /// One try after another, until there is nothing to begin, something stops it, or it was enough.
    async fn work(&self) -> (Vec<Tried>, Ending) {
        let mut tries: Vec<Tried> = Vec::new();
        let ending = loop {
            if self.site.stop.is_cancelled() {
                break Ending::Stopped;
            }
            let taken = match self.take(tries.len()).await {
                Ok(taken) => taken,
                Err(WorkGraphError::Missing(_)) => break Ending::Now(Outlook::Empty),
                Err(error) => break Ending::Failed(error.to_string()),
            };
            let (milestone, graph) = match taken {
                Taken::Milestone { milestone, graph } => (milestone, graph),
                Taken::Nothing(outlook) => break Ending::Now(outlook),
            };
            let tried = Box::pin(self.attempt(&milestone, &graph)).await;
            let how = tried.how.clone();
            tries.push(tried);
            match how {
                How::Done | How::Failed => {}
                How::Stopped => break Ending::Stopped,
                How::Broke(reason) => break Ending::Failed(reason),
            }
        };
        (tries, ending)
    }

    /// The next milestone, unless there were as many tries as there may be.
    async fn take(&self, tries: usize) -> Result<Taken, WorkGraphError> {
        let now = Clock::System.now();
        let is_over = |hold: &Hold| process::is_gone(&hold.by) || hold.until.is_some_and(|until| until <= now);
        self.settle(is_over).await?;
        if tries < self.most as usize {
            return self.graph.take_next(&self.by, process::is_gone).await;
        }
        let graph = self.graph.existing().await?;
        Ok(Taken::Nothing(graph.outlook(limits_of(&self.site.config.workgraph))))
    }

    /// Whoever ended between moving the branch and saying so has done their milestone: the commit that it
    /// was to become stands at the end of the branch.
    async fn settle(&self, is_over: impl Fn(&Hold) -> bool) -> Result<(), WorkGraphError> {
        let graph = self.graph.existing().await?;
        let unsaid = graph.milestones.iter().filter_map(|milestone| {
            let hold = milestone.hold.as_ref().filter(|hold| is_over(hold))?;
            let is_open = milestone.state == MilestoneState::InProgress;
            Some((milestone, hold, milestone.commit.as_ref().filter(|_| is_open)?))
        });
        for (milestone, hold, commit) in unsaid {
            let tip = self.site.ports.git.tip(&self.site.repo, &self.branch).await;
            if tip.is_ok_and(|tip| tip.as_ref() == Some(commit)) {
                let commit = Some(commit.clone());
                let done = crate::milestone::Conclusion::Done { commit };
                self.graph.conclude(&milestone.id, &hold.by, done).await?;
            }
        }
        Ok(())
    }
}
