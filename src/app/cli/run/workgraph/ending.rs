//! How a call that works on a graph ended: the exit code, and what is told. Called by `workgraph`
//! alone. Never says that all is well while something was given up.

use serde_json::{Value, json};

use super::{How, Series, Tried};
use crate::app::cli::milestones;
use crate::app::cli::run::args::Output;
use crate::app::cli::run::ending::Ending as Exit;
use crate::app::cli::run::events::{End, Events};
use crate::app::cli::screen::paint::{clean, one_line};
use crate::app::cli::show;
use crate::clock::Clock;
use crate::event::Totals;
use crate::ids::{BranchName, CommitSha};
use crate::milestone::{Graph, MilestoneId, Outlook};
use crate::mission::MissionState;

/// Why no more tries were made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// A person stopped it.
    Stopped,
    /// The model, the sandbox, git or the database failed.
    Failed(String),
    /// What there is to do in the graph now; with something ready, it was enough for one call.
    Now(Outlook),
}

impl Ending {
    /// The outcome in a word, and the exit code.
    pub(super) fn in_short(&self) -> (&'static str, Exit) {
        match self {
            Ending::Stopped => ("stopped", Exit::Done),
            Ending::Failed(_) => ("failed", Exit::Error),
            Ending::Now(Outlook::Done) => ("done", Exit::Done),
            Ending::Now(Outlook::Ready(_)) => ("limit", Exit::Done),
            Ending::Now(Outlook::Running) => ("running", Exit::Done),
            Ending::Now(Outlook::Stuck(_)) => ("stuck", Exit::NoResult),
            Ending::Now(Outlook::Proposed) => ("proposed", Exit::NoResult),
            Ending::Now(Outlook::Breaker) => ("breaker", Exit::Limit),
            Ending::Now(Outlook::Empty) => ("empty", Exit::Empty),
        }
    }

    fn in_words(&self, graph: Option<&Graph>) -> String {
        let name = graph.map(|graph| graph.key.name.as_str()).unwrap_or_default();
        let named = match name {
            "" | "main" => String::new(),
            name => format!(" --graph {name}"),
        };
        match self {
            Ending::Stopped => "Stopped; what was done is kept.".to_owned(),
            Ending::Failed(reason) => format!("It could not go on: {}", clean(reason)),
            Ending::Now(Outlook::Done) => "All milestones are done.".to_owned(),
            Ending::Now(Outlook::Ready(id)) => format!("Enough for one call (--max); {id} is next."),
            Ending::Now(Outlook::Running) => "Nothing can begin before another run or person is done.".to_owned(),
            Ending::Now(Outlook::Stuck(ids)) => {
                let ids: Vec<&str> = ids.iter().map(MilestoneId::as_str).collect();
                format!(
                    "Nothing can be done any more: {} did not get done in all fix attempts, and the others wait. \
                     `forgehand milestones needs-fix ID --because TEXT{named}` begins anew.",
                    ids.join(", ")
                )
            }
            Ending::Now(Outlook::Proposed) => {
                format!(
                    "The milestones are only proposed; look at them and let them run with `forgehand milestones approve{named}`."
                )
            }
            Ending::Now(Outlook::Breaker) => format!(
                "{} milestones in a row were given up, so nothing is tried any more. See why, then: \
                 `forgehand milestones reset{named}`.",
                graph.map_or(0, |graph| graph.failures)
            ),
            Ending::Now(Outlook::Empty) => {
                "There are no milestones; `forgehand goal \"…\"` plans some, `forgehand milestones add` adds one."
                    .to_owned()
            }
        }
    }
}

/// What the ledger is told of a call.
pub(in crate::app::cli::run) struct Told<'a> {
    pub(in crate::app::cli::run) name: &'a str,
    pub(in crate::app::cli::run) graph: Option<&'a Graph>,
    pub(in crate::app::cli::run) state: MissionState,
    pub(in crate::app::cli::run) reason: String,
    pub(in crate::app::cli::run) left: Option<(BranchName, CommitSha)>,
    pub(in crate::app::cli::run) totals: Totals,
    pub(in crate::app::cli::run) took: std::time::Duration,
}

/// What the ledger is told.
pub(super) fn told<'a>(series: &'a Series<'_>, graph: Option<&'a Graph>, tries: &[Tried], ending: &Ending) -> Told<'a> {
    let state = match ending {
        Ending::Stopped => MissionState::Stopped,
        Ending::Failed(_) => MissionState::Failed,
        Ending::Now(Outlook::Done) if tries.is_empty() => MissionState::NothingToDo,
        Ending::Now(Outlook::Done | Outlook::Ready(_) | Outlook::Running) => MissionState::Done,
        Ending::Now(Outlook::Stuck(_)) => graph.map_or(MissionState::Stuck, MissionState::of_stuck),
        Ending::Now(Outlook::Proposed) => MissionState::Stuck,
        Ending::Now(Outlook::Breaker) => MissionState::Breaker,
        Ending::Now(Outlook::Empty) => MissionState::Empty,
    };
    Told {
        name: series.graph.key().name.as_str(),
        graph,
        state,
        reason: ending.in_words(graph),
        left: left_by(series, tries),
        totals: total(tries),
        took: series.began.elapsed(),
    }
}

/// The last commit of a call on the graph's branch.
fn left_by(series: &Series<'_>, tries: &[Tried]) -> Option<(BranchName, CommitSha)> {
    let last = tries.iter().rev().find_map(|tried| tried.commit.clone());
    last.map(|commit| (series.branch.clone(), commit))
}

/// Tells what came of a call, and gives its exit code.
pub(super) fn tell(
    series: &Series<'_>,
    graph: Option<&Graph>,
    tries: &[Tried],
    ending: &Ending,
    events: &Events,
) -> anyhow::Result<Exit> {
    let (outcome, exit) = ending.in_short();
    let reason = ending.in_words(graph);
    let left = left_by(series, tries);
    let end = End {
        outcome,
        exit_code: exit.code(),
        reason: Some(&reason),
        left: left.as_ref(),
    };
    events.end(&end, Clock::System.now());
    match series.args.output() {
        Output::Json => show::json(&as_json(series, graph, tries, ending))?,
        Output::Text(_) => print(series, graph, tries, ending),
    }
    Ok(exit)
}

fn as_json(series: &Series<'_>, graph: Option<&Graph>, tries: &[Tried], ending: &Ending) -> Value {
    let (outcome, exit) = ending.in_short();
    let tried: Vec<Value> = tries
        .iter()
        .map(|tried| {
            json!({
                "milestone": tried.milestone.id,
                "title": tried.milestone.title,
                "try": tried.milestone.attempts + 1,
                "conclusion": word_of(tried),
                "problem": tried.problem,
                "commit": tried.commit,
                "run": tried.run,
                "totals": tried.totals,
                "took_ms": u64::try_from(tried.took.as_millis()).unwrap_or(u64::MAX),
            })
        })
        .collect();
    json!({
        "outcome": outcome,
        "exit_code": exit.code(),
        "reason": ending.in_words(graph),
        "branch": series.branch,
        "tries": tried,
        "graph": graph.map(|graph| milestones::as_json(graph, series.graph.limits())),
        "totals": total(tries),
    })
}

fn print(series: &Series<'_>, graph: Option<&Graph>, tries: &[Tried], ending: &Ending) {
    for tried in tries {
        let commit = match (&tried.how, &tried.commit) {
            (How::Done, Some(commit)) => format!(" · {} on {}", commit.short(), series.branch),
            (How::Done, None) => " · nothing had to change".to_owned(),
            _ => String::new(),
        };
        say!(
            "{}  {}  {}{commit}",
            tried.milestone.id,
            word_of(tried),
            one_line(&tried.milestone.title)
        );
        if let Some(problem) = &tried.problem {
            for line in clean(problem).trim().lines().take(MAX_LINES) {
                say!("    {line}");
            }
        }
    }
    if let Some(graph) = graph.filter(|graph| !graph.milestones.is_empty()) {
        if !tries.is_empty() {
            say!();
        }
        milestones::print(graph, series.graph.limits());
    }
    let totals = total(tries);
    say!(
        "\n{}\n{} turns · {} + {} tokens · ${:.2} · {}",
        ending.in_words(graph),
        totals.turns,
        totals.input_tokens,
        totals.output_tokens,
        totals.cost_usd,
        crate::text::duration_in_words(series.began.elapsed())
    );
}

/// Lines of a problem that are shown; all of it is in the table's row and in JSON.
const MAX_LINES: usize = 12;

fn word_of(tried: &Tried) -> &'static str {
    match tried.how {
        How::Done => "done",
        How::Failed => "failed",
        How::Stopped => "stopped",
        How::Broke(_) => "broke off",
    }
}

fn total(tries: &[Tried]) -> Totals {
    tries.iter().fold(Totals::default(), |mut all, tried| {
        all.turns += tried.totals.turns;
        all.input_tokens += tried.totals.input_tokens;
        all.output_tokens += tried.totals.output_tokens;
        all.cost_usd += tried.totals.cost_usd;
        all.price_unknown |= tried.totals.price_unknown;
        all
    })
}
