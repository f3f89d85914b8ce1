//! The tool `milestone`: the work graph that a run belongs to, as its model sees it. Never holds
//! anything itself: what a model may do with a graph is the desk's.

use std::fmt::Write as _;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Tool, ToolContext, ToolError, ToolOutput, arguments};
use crate::milestone::{MAX_ACCEPTANCE_BYTES, MAX_MILESTONES, MAX_TITLE_CHARS, Milestone, MilestoneId, NewMilestone};
use crate::model::ToolSpec;
use crate::text;
use crate::workgraph::{Desk, DeskError};

/// Most bytes of a list.
const MAX_LIST_BYTES: usize = 16 * 1024;
/// Most bytes of what is shown of one milestone.
const MAX_SHOWN_BYTES: usize = 4 * 1024;

/// Shows and changes milestones.
pub(super) struct MilestoneTool(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// `list`, `next`, `add`, `start`, `done`, `needs_fix` or `remove`.
    action: String,
    /// The milestone's name: lowercase letters, digits and hyphens. With `add` it may be left out.
    #[serde(default, alias = "name", alias = "milestone")]
    id: String,
    /// With `add`: what it is, in one line.
    #[serde(default)]
    title: String,
    /// With `add`: what has to be done.
    #[serde(default)]
    description: String,
    /// With `add`: the command whose exit code 0 says that it is done; best a test.
    #[serde(default)]
    acceptance: String,
    /// With `add`: names of the milestones that have to be done before.
    #[serde(default, alias = "after", alias = "dependencies")]
    depends_on: Vec<String>,
    /// With `needs_fix`: what is wrong, with the output that shows it.
    #[serde(default, alias = "reason")]
    problem: String,
}

#[async_trait]
impl Tool for MilestoneTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "milestone".to_owned(),
            description: format!(
                "The milestones of the goal that this run works towards: list, next, add, start, done, needs_fix, remove. \
                 The one at hand is concluded by the program when you finish; where a milestone has an acceptance \
                 command, only the program's own run of it decides. Use `add` for what the goal needs and nobody planned, \
                 `needs_fix` where something that counts as done turns out broken. Titles have up to {MAX_TITLE_CHARS} \
                 characters, commands {MAX_ACCEPTANCE_BYTES} bytes, and there are {MAX_MILESTONES} milestones."
            ),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    async fn call(&self, _context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let asked: Arguments = arguments::fit("milestone", arguments)?;
        let desk = &self.0;
        let id = || id_of("milestone", &asked.id);
        let text = match asked.action.trim().to_lowercase().as_str() {
            "list" => listed(desk).await?,
            "next" => match desk.next().await.map_err(problem)? {
                Some(milestone) => shown(&milestone),
                None => "Nothing is ready now; `list` says why.".to_owned(),
            },
            "add" => {
                let id = desk.add(new_of(&asked)?).await.map_err(problem)?;
                format!("Added as {id}.")
            }
            "start" => {
                let id = id()?;
                desk.start(&id).await.map_err(problem)?;
                format!("{id} is in progress; say `done` when it is.")
            }
            "done" => {
                let id = id()?;
                desk.done(&id).await.map_err(problem)?;
                format!("{id} is done.")
            }
            "needs_fix" => {
                let id = id()?;
                desk.needs_fix(&id, &asked.problem).await.map_err(problem)?;
                format!("{id} needs a fix.")
            }
            "remove" => {
                let id = id()?;
                desk.remove(&id).await.map_err(problem)?;
                format!("{id} is removed.")
            }
            _ => {
                return Err(ToolError::BadCall(
                    "milestone: the action is one of list, next, add, start, done, needs_fix, remove; nothing was done"
                        .to_owned(),
                ));
            }
        };
        Ok(ToolOutput::Text(text))
    }
}

/// A name as a model writes it.
pub(super) fn id_of(tool: &str, name: &str) -> Result<MilestoneId, ToolError> {
    name.trim()
        .parse()
        .map_err(|error| ToolError::BadCall(format!("{tool}: {error}; nothing was done")))
}

/// What went wrong, for the model: a graph that is away is no reason to stop.
pub(super) fn problem(error: DeskError) -> ToolError {
    ToolError::ForModel(error.to_string())
}

fn new_of(asked: &Arguments) -> Result<NewMilestone, ToolError> {
    let id = Some(asked.id.trim()).filter(|id| !id.is_empty());
    let acceptance = Some(asked.acceptance.trim()).filter(|command| !command.is_empty());
    Ok(NewMilestone {
        id: id.map(|id| id_of("milestone", id)).transpose()?,
        title: text::reveal(&asked.title),
        description: text::reveal(&asked.description),
        acceptance: acceptance.map(text::reveal),
        depends_on: ids_of("milestone", &asked.depends_on)?,
    })
}

/// Names of dependencies.
pub(super) fn ids_of(tool: &str, names: &[String]) -> Result<Vec<MilestoneId>, ToolError> {
    names.iter().map(|name| id_of(tool, name)).collect()
}

/// The whole graph, a line for each milestone.
async fn listed(desk: &Desk) -> Result<String, ToolError> {
    let Some(graph) = desk.load().await.map_err(problem)? else {
        return Ok("There are no milestones.".to_owned());
    };
    let mut out = format!("Milestones of {}", desk.name());
    if !graph.goal.is_empty() {
        let goal: Vec<&str> = graph.goal.split_whitespace().collect();
        let _ = write!(out, ", for the goal: {}", text::cap_chars(&goal.join(" "), 300));
    }
    for milestone in &graph.milestones {
        let _ = write!(
            out,
            "\n- {} ({}): {}",
            milestone.id,
            desk.standing(&graph, milestone),
            milestone.title
        );
        if let Some(command) = &milestone.acceptance {
            let _ = write!(out, " [accepted by `{}`]", text::cap_chars(command, 200));
        }
    }
    Ok(text::cap(&out, MAX_LIST_BYTES))
}

fn shown(milestone: &Milestone) -> String {
    let mut out = format!("{} ({}): {}", milestone.id, milestone.state, milestone.title);
    if !milestone.description.is_empty() {
        let _ = write!(out, "\n{}", milestone.description);
    }
    if let Some(command) = &milestone.acceptance {
        let _ = write!(out, "\nAccepted by the program's run of `{command}`.");
    }
    if let Some(problem) = &milestone.problem {
        let _ = write!(out, "\nThe last time: {problem}");
    }
    text::cap_middle(&out, MAX_SHOWN_BYTES)
}
