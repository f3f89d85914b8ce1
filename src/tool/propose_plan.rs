//! The tool `propose_plan`: what the agent means to do, for a person to approve, change or refuse
//! before anything is changed. Never approves anything itself.

use async_trait::async_trait;
use serde_json::Value;

use super::{Tool, ToolContext, ToolError, ToolOutput, arguments};
use crate::model::ToolSpec;
use crate::question::{ProposedPlan, Question};

/// Proposes a plan.
pub(super) struct ProposePlan;

#[async_trait]
impl Tool for ProposePlan {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "propose_plan".to_owned(),
            description:
                "Shows your plan to the people who asked and waits for their answer, which can take days. Until \
                          it is approved, tools that change files or run commands are refused. Find out everything you \
                          need by reading first, so that the plan names real files and real tests."
                    .to_owned(),
            parameters: arguments::schema::<ProposedPlan>(),
        }
    }

    /// A plan that was proposed already is answered with what was said.
    fn may_repeat(&self) -> bool {
        true
    }

    async fn call(&self, _context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let plan: ProposedPlan = arguments::fit("propose_plan", arguments)?;
        let question = Question::Plan(plan).cleaned(&|text| crate::text::reveal(text.trim()));
        match &question {
            Question::Plan(plan) if plan.summary.is_empty() || plan.steps.is_empty() => Err(ToolError::BadCall(
                "propose_plan: a plan has a summary and at least one step".to_owned(),
            )),
            _ => Ok(ToolOutput::Ask(question)),
        }
    }
}
