//! `forgehand goal`: a run that reads the checkout and proposes milestones for a goal. Called by the
//! command line. Never begins a milestone, and approves none that a person did not.

use std::path::PathBuf;

use super::super::args::{Args, Drafts, ModelArgs, Output};
use super::super::ending::Ending;
use super::super::events::{End, Events};
use super::super::local::Order;
use super::super::site::{Given, Site};
use crate::agent::Stop;
use crate::app::cli::milestones::{self, graph_of, store_of};
use crate::app::cli::screen::paint::clean;
use crate::app::cli::{Usage, show};
use crate::clock::Clock;
use crate::event::{Event, RunEvent};
use crate::milestone::{GraphName, Holder, Standing};
use crate::run::Finished;
use crate::tool::{Finish, Mode};
use crate::workgraph::{Desk, Purpose, WorkGraph};

/// What was asked of `forgehand goal`.
pub(in crate::app::cli) struct Goal {
    pub(in crate::app::cli) text: String,
    pub(in crate::app::cli) repo: PathBuf,
    pub(in crate::app::cli) graph: GraphName,
    pub(in crate::app::cli) approve: bool,
    pub(in crate::app::cli) log: Option<PathBuf>,
    pub(in crate::app::cli) model: ModelArgs,
    pub(in crate::app::cli) json: bool,
    pub(in crate::app::cli) quiet: bool,
}

/// How a goal is given to the model that plans it.
const TASK: &str = "Plan the work for the goal below as milestones, and give them all in one call of `generate_milestones`. \
                    Look at the repository first: what is there, how it is tested. Each milestone is one change that can be \
                    reviewed by itself and leaves the repository working; give each an acceptance command that fails now \
                    and passes when it is done, such as a test that the milestone has to write. Then finish with the plan \
                    in a few sentences and what you left out.\n\nThe goal: ";

/// What is planned, and where.
pub(in crate::app::cli::run) struct Wanted {
    goal: String,
    name: GraphName,
    approve: bool,
}

impl Goal {
    /// The arguments of the run that plans, and what it is for.
    pub(in crate::app::cli::run) fn into_args(self) -> (Args, Wanted) {
        let args = Args::from(Drafts {
            text: format!("{TASK}{}", self.text),
            repo: self.repo,
            log: self.log,
            model: self.model,
            json: self.json,
            quiet: self.quiet,
        });
        let wanted = Wanted {
            goal: self.text,
            name: self.graph,
            approve: self.approve,
        };
        (args, wanted)
    }
}

/// Plans, and shows the proposal.
pub(in crate::app::cli::run) async fn plan(
    given: Given,
    args: &Args,
    wanted: Wanted,
    events: &Events,
) -> anyhow::Result<Ending> {
    let Wanted { goal, name, approve } = wanted;
    let site = Site::open(given, args).await?;
    let graph = graph_of(&store_of(&site.config).await?, &site.repo, &name, &site.config);
    if let Some(found) = graph.load().await?
        && found.standing == Standing::Approved
        && !found.milestones.is_empty()
    {
        return Err(Usage(format!(
            "the graph {name} is approved and has milestones; plan under another name (--graph NAME), or remove it \
             (forgehand milestones remove --all)"
        ))
        .into());
    }
    let (is_proposed, ended) = Box::pin(propose(&site, args, &graph, &goal)).await?;
    let as_json = args.output() == Output::Json;
    let (outcome, ending, why) = match (is_proposed, ended) {
        (true, Ok(())) => ("proposed", Ending::Done, String::new()),
        // What was proposed before it broke off may not be all.
        (true, Err((ending, why))) => ("broke_off", ending, why),
        (false, Ok(())) => ("nothing_proposed", Ending::NoResult, NO_REASON.to_owned()),
        (false, Err((ending, why))) => ("nothing_proposed", ending, why),
    };
    if approve && outcome == "proposed" {
        graph.approve().await?;
    }
    let found = match is_proposed {
        true => Some(graph.existing().await?),
        false => None,
    };
    let end = End {
        outcome,
        exit_code: ending.code(),
        reason: Some(&*why).filter(|why| !why.is_empty()),
        left: None,
    };
    events.end(&end, Clock::System.now());
    match (&found, as_json) {
        (Some(found), true) => show::json(&milestones::as_json(found, graph.limits()))?,
        (Some(found), false) => milestones::print(found, graph.limits()),
        (None, true) => {
            show::json(&serde_json::json!({"outcome": outcome, "exit_code": ending.code(), "reason": why}))?;
        }
        (None, false) => {}
    }
    match outcome {
        "nothing_proposed" => note!("forgehand: no milestones were proposed: {}", clean(&why)),
        "broke_off" => note!(
            "forgehand: the run broke off, so that nothing was approved: {}",
            clean(&why)
        ),
        _ => {}
    }
    Ok(ending)
}

/// Whether milestones were proposed, and how a run ended that did not finish by itself.
async fn propose(
    site: &Site,
    args: &Args,
    graph: &WorkGraph,
    goal: &str,
) -> anyhow::Result<(bool, Result<(), (Ending, String)>)> {
    let order = Order {
        task: args.task().unwrap_or_default(),
        // It reads, and its result is in the graph.
        mode: Mode::Answer,
        base: site.repo.head.clone(),
        checks: args.checks(),
        acceptance: None,
        title: Some(goal.to_owned()),
        branch: None,
    };
    let mut begun = site.begin(&order).await?;
    let by = Holder::Process("a planning run".to_owned());
    let purpose = Purpose::Plan { goal: goal.to_owned() };
    let redactor = begun.ports.redactor.clone();
    begun.ports.desk = Some(Desk::new(graph.clone(), by, purpose, redactor));
    let tried = Box::pin(site.local(&order, &begun).attempt()).await;
    site.over(&begun);
    let tried = tried?;
    let took = |event: &Event| matches!(&event.body, RunEvent::ToolCalled { tool, ok: true, .. } if tool == "generate_milestones");
    let is_proposed = begun.recorder.kept().iter().any(took);
    let ended = match (tried.failure, &tried.finished) {
        (Some(reason), _) => Err((Ending::Error, reason)),
        (None, Some(finished)) => how_it_ended(finished, is_proposed),
        (None, None) => Err((Ending::Interrupted, STOPPED.to_owned())),
    };
    Ok((is_proposed, ended))
}

const STOPPED: &str = "it was stopped";
const NO_REASON: &str = "the model did not say why";

/// A run that finished has nothing more to say where it proposed something.
fn how_it_ended(finished: &Finished, is_proposed: bool) -> Result<(), (Ending, String)> {
    match &finished.stop {
        Stop::Finished(Finish::Answered { .. }) if is_proposed => Ok(()),
        Stop::Finished(Finish::Answered { answer }) => Err((Ending::NoResult, answer.clone())),
        Stop::Finished(Finish::Refused { reason }) | Stop::Stuck(reason) => Err((Ending::NoResult, reason.clone())),
        Stop::Finished(_) if is_proposed => Ok(()),
        Stop::Finished(_) | Stop::NeedsInput(_) => Err((Ending::NoResult, NO_REASON.to_owned())),
        Stop::Budget(limit) => Err((Ending::Limit, limit.clone())),
        Stop::Cancelled => Err((Ending::Interrupted, STOPPED.to_owned())),
    }
}
