//! A work graph as a table for people and as JSON for scripts. Called by every command that shows
//! one. Never prints a control code of somebody else.

use serde_json::{Value, json};

use crate::app::cli::screen::paint::{clean, one_line};
use crate::milestone::{Graph, Holder, Limits, Milestone, MilestoneId, Outlook, Standing};
use crate::text;
use crate::workgraph::standing_of;

/// Most characters of a line of a problem in the table.
const MAX_PROBLEM_CHARS: usize = 160;

/// For people: a line for each milestone, its acceptance command and what was wrong below it.
pub(in crate::app::cli) fn print(graph: &Graph, limits: Limits) {
    let name = &graph.key.name;
    match graph.goal.is_empty() {
        true => say!("{name} ({})", graph.standing),
        false => say!(
            "{name} ({}): {}",
            graph.standing,
            one_line(&text::cap_chars(&graph.goal, 200))
        ),
    }
    let widest = |width: &dyn Fn(&Milestone) -> usize| graph.milestones.iter().map(width).max().unwrap_or_default();
    let standing = |milestone: &Milestone| standing_of(graph, milestone, limits.max_fix_attempts);
    let id_width = widest(&|milestone| milestone.id.as_str().len());
    let standing_width = widest(&|milestone| standing(milestone).len()).min(40);
    for milestone in &graph.milestones {
        say!(
            "{:id_width$}  {:standing_width$}  {}",
            milestone.id,
            standing(milestone),
            one_line(&milestone.title)
        );
        if let Some(command) = &milestone.acceptance {
            say!("{:id_width$}  accepted by: {}", "", one_line(command));
        }
        if let Some(hold) = &milestone.hold {
            let who = match &hold.by {
                Holder::Job(id) => format!("job {id}"),
                Holder::Process(_) => "a run on this database".to_owned(),
                Holder::Person => "a person".to_owned(),
            };
            say!("{:id_width$}  {who} is at it", "");
        }
        if let Some(problem) = &milestone.problem {
            let last = clean(problem).trim().lines().last().unwrap_or_default().to_owned();
            say!(
                "{:id_width$}  the last time: {}",
                "",
                text::cap_chars(&last, MAX_PROBLEM_CHARS)
            );
        }
        if let Some(kept) = &milestone.kept {
            say!(
                "{:id_width$}  its work so far: {} at {}",
                "",
                kept.branch,
                kept.sha.short()
            );
        }
    }
    match graph.outlook(limits) {
        Outlook::Proposed => say!(
            "\nOnly proposed: look at the commands, then let it run with `forgehand milestones approve{}`",
            named(graph)
        ),
        Outlook::Breaker => say!(
            "\n{} milestones in a row were given up: nothing is tried before `forgehand milestones reset{}`",
            graph.failures,
            named(graph)
        ),
        _ => {}
    }
}

/// The option that names a graph, where it has to be named.
fn named(graph: &Graph) -> String {
    match graph.key.name.as_str() {
        "main" => String::new(),
        name => format!(" --graph {name}"),
    }
}

/// For scripts.
pub(in crate::app::cli) fn as_json(graph: &Graph, limits: Limits) -> Value {
    let (word, about) = match graph.outlook(limits) {
        Outlook::Empty => ("empty", Vec::new()),
        Outlook::Done => ("done", Vec::new()),
        Outlook::Proposed => ("proposed", Vec::new()),
        Outlook::Breaker => ("breaker", Vec::new()),
        Outlook::Ready(id) => ("ready", vec![id]),
        Outlook::Running => ("running", Vec::new()),
        Outlook::Stuck(ids) => ("stuck", ids),
    };
    let milestones: Vec<Value> = graph
        .milestones
        .iter()
        .map(|milestone| milestone_as_json(graph, milestone, limits))
        .collect();
    json!({
        "graph": graph.key.name,
        "repository": graph.key.repository,
        "goal": graph.goal,
        "approved": graph.standing == Standing::Approved,
        "failures_in_a_row": graph.failures,
        "outlook": word,
        "about": about,
        "milestones": milestones,
    })
}

/// One milestone for scripts.
pub(in crate::app::cli) fn milestone_as_json(graph: &Graph, milestone: &Milestone, limits: Limits) -> Value {
    let waits: Vec<MilestoneId> = graph.waits_for(milestone);
    json!({
        "id": milestone.id,
        "title": milestone.title,
        "description": milestone.description,
        "acceptance": milestone.acceptance,
        "depends_on": milestone.depends_on,
        "state": milestone.state,
        "blocked_by": waits,
        "given_up": milestone.is_given_up(limits),
        "attempts": milestone.attempts,
        "problem": milestone.problem,
        "kept": milestone.kept,
        "commit": milestone.commit,
        "held_by": milestone.hold.as_ref().map(|hold| hold.by.to_string()),
        "held_until": milestone.hold.as_ref().and_then(|hold| hold.until),
    })
}
