//! The tool `generate_milestones`: how a model turns a goal into milestones with acceptance
//! commands. They go in as a proposal that a person approves.
//! Never begins one, and never changes what somebody has approved.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::milestone::{id_of, ids_of, problem};
use super::{Tool, ToolContext, ToolError, ToolOutput, arguments};
use crate::milestone::{MAX_MILESTONES, NewMilestone};
use crate::model::ToolSpec;
use crate::text;
use crate::workgraph::Desk;

/// Takes milestones for a goal.
pub(super) struct GenerateMilestones(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The milestones in the order in which they are best done.
    milestones: Vec<Planned>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Planned {
    /// Its name: lowercase letters, digits and hyphens, up to 40.
    #[serde(alias = "name")]
    id: String,
    /// What it is, in one line.
    title: String,
    /// What has to be done, so that somebody who knows nothing else can do it.
    #[serde(default)]
    description: String,
    /// The command whose exit code 0, on a fresh checkout, says that it is done: fails now, passes then.
    #[serde(default, alias = "acceptance_command", alias = "command")]
    acceptance: String,
    /// Names of the milestones that have to be done before.
    #[serde(default, alias = "dependencies", alias = "after")]
    depends_on: Vec<String>,
}

#[async_trait]
impl Tool for GenerateMilestones {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "generate_milestones".to_owned(),
            description: format!(
                "Proposes the milestones of the goal; a person approves them. Each is one change that can be reviewed and \
                 that leaves the repository working, with an acceptance command that fails now and passes when it is \
                 done, and with the names of those that have to be done before. Give all of them in one call (at most \
                 {MAX_MILESTONES}); a second call takes the place of the first."
            ),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    fn may_repeat(&self) -> bool {
        true
    }

    async fn call(&self, _context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let asked: Arguments = arguments::fit("generate_milestones", arguments)?;
        let new: Result<Vec<NewMilestone>, ToolError> = asked.milestones.into_iter().map(planned).collect();
        let graph = self.0.propose(new?).await.map_err(problem)?;
        let without: Vec<&str> = graph
            .milestones
            .iter()
            .filter(|milestone| milestone.acceptance.is_none())
            .map(|milestone| milestone.id.as_str())
            .collect();
        let mut text = format!(
            "{} milestones are proposed for a person to approve.",
            graph.milestones.len()
        );
        if !without.is_empty() {
            text.push_str(&format!(
                " Without an acceptance command: {}. Give them one where a command can tell, and call again.",
                without.join(", ")
            ));
        }
        Ok(ToolOutput::Text(text))
    }
}

fn planned(planned: Planned) -> Result<NewMilestone, ToolError> {
    let acceptance = Some(planned.acceptance.trim()).filter(|command| !command.is_empty());
    Ok(NewMilestone {
        id: Some(id_of("generate_milestones", &planned.id)?),
        title: text::reveal(&planned.title),
        description: text::reveal(&planned.description),
        acceptance: acceptance.map(text::reveal),
        depends_on: ids_of("generate_milestones", &planned.depends_on)?,
    })
}
