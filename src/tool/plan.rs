//! The tool `plan`: the steps the agent means to take, shown to people while it works. Never
//! decides anything.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Tool, ToolContext, ToolError, ToolOutput, arguments};
use crate::event::PlanStep;
use crate::model::ToolSpec;
use crate::text;

/// Most steps of a plan that a person reads.
const MAX_STEPS: usize = 20;

/// Most characters of a step.
const MAX_STEP_CHARS: usize = 200;

/// Sets the plan.
pub(super) struct Plan;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// All steps in order, each with whether it is done.
    steps: Vec<PlanStep>,
}

#[async_trait]
impl Tool for Plan {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "plan".to_owned(),
            description: "Sets the plan that people see while you work: all steps, with those that are done. Call it \
                          again when a step is done or the plan changes."
                .to_owned(),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    fn may_repeat(&self) -> bool {
        true
    }

    async fn call(&self, _context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let plan: Arguments = arguments::fit("plan", arguments)?;
        let steps = tidied(plan.steps);
        if steps.is_empty() {
            return Err(ToolError::BadCall("plan: there is no step in it".to_owned()));
        }
        let done = steps.iter().filter(|step| step.done).count();
        let answer = format!("The plan has {} steps, {done} done.", steps.len());
        Ok(ToolOutput::Plan(steps, answer))
    }
}

fn tidied(steps: Vec<PlanStep>) -> Vec<PlanStep> {
    steps
        .into_iter()
        .map(|step| PlanStep {
            step: one_line(&step.step, MAX_STEP_CHARS),
            ..step
        })
        .filter(|step| !step.step.is_empty())
        .take(MAX_STEPS)
        .collect()
}

/// A text on one line, hidden characters written out, at most so many characters.
pub(super) fn one_line(text: &str, max_chars: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    text::cap_chars(&text::reveal(&words.join(" ")), max_chars)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_short_lines() {
        let step = |step: &str| PlanStep {
            step: step.to_owned(),
            done: true,
        };
        let steps = tidied(vec![step("a\n  b"), step(" "), step(&"x".repeat(500))]);
        assert_eq!(steps.len(), 2);
        assert_eq!((steps[0].step.as_str(), steps[0].done), ("a b", true));
        assert_eq!(steps[1].step.chars().count(), MAX_STEP_CHARS);
        assert_eq!(tidied(vec![step("a"); 100]).len(), MAX_STEPS);
    }
}
