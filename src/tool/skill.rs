//! The tool `skill`: lists the skills of a run and shows one. Never shows one that is switched
//! off, and reads no file: what can be loaded was read before the run began.

use std::fmt::Write as _;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Tool, ToolContext, ToolError, ToolOutput, arguments};
use crate::model::ToolSpec;
use crate::skill::Shelf;

/// Shows skills.
pub(super) struct ShowSkill(pub(super) Shelf);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Name of the skill; left out, all are listed.
    #[serde(default, alias = "skill", alias = "command")]
    name: String,
}

#[async_trait]
impl Tool for ShowSkill {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "skill".to_owned(),
            description: "Shows a skill: instructions for one kind of work. Without a name it lists them.".to_owned(),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    fn may_repeat(&self) -> bool {
        true
    }

    async fn call(&self, _context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let wanted: Arguments = arguments::fit("skill", arguments)?;
        if wanted.name.trim().is_empty() {
            let mut list = String::from("Skills:");
            for skill in self.0.offered() {
                let _ = write!(list, "\n- {}: {}", skill.name, skill.description);
            }
            return Ok(ToolOutput::Text(list));
        }
        let skill = self.0.load(&wanted.name).map_err(ToolError::ForModel)?;
        Ok(ToolOutput::Text(format!("# Skill {}\n\n{}", skill.name, skill.body)))
    }
}
