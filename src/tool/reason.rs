//! The tool `reason`: a tree of hypotheses about a cause, kept for later runs on the same issue,
//! pull request or task. Never holds anything itself, and never says which hypothesis is right.

use std::fmt::Write as _;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::memory::problem;
use super::{Tool, ToolContext, ToolError, ToolOutput, arguments};
use crate::memory::{MAX_WEIGHT, Memory, margin, render, trace};
use crate::model::ToolSpec;
use crate::note::{Cause, CauseStatus};

/// Keeps hypotheses.
pub(super) struct Reason(pub(super) Memory);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// `add`, `status`, `margin`, `list` or `trace`.
    action: String,
    /// With `add`: what may be the cause, in one sentence.
    #[serde(default)]
    hypothesis: String,
    /// With `add`: the number of the hypothesis that this one would explain; 0 for a new root.
    #[serde(default)]
    parent: u32,
    /// With `status` and `trace`: the number of the hypothesis.
    #[serde(default, alias = "id")]
    node: u32,
    /// With `status`: `open`, `confirmed` or `refuted`.
    #[serde(default)]
    status: String,
    /// With `status`: what you saw that speaks for or against it.
    #[serde(default)]
    evidence: String,
    /// With `status`: how strongly it speaks, from -5 (against) to 5 (for); 0 takes 1 or -1 by the status.
    #[serde(default)]
    weight: i32,
    /// With `list`, `margin` and `trace`: another tree of this repository; empty for the task at hand.
    #[serde(default)]
    tree: String,
}

#[async_trait]
impl Tool for Reason {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "reason".to_owned(),
            description: "Keeps a tree of hypotheses about the cause of a problem, for you and for later runs on the same \
                          task: add a hypothesis (below the one it explains), give its status with the evidence you saw, \
                          ask for the margin by which the best is ahead of the next, list the tree, trace one \
                          hypothesis from its root. Use it when the cause is not obvious."
                .to_owned(),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    async fn call(&self, _context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let asked: Arguments = arguments::fit("reason", arguments)?;
        let tree = Some(asked.tree.trim()).filter(|tree| !tree.is_empty());
        let text = match asked.action.trim().to_lowercase().as_str() {
            "add" => {
                let parent = (asked.parent > 0).then_some(asked.parent);
                let node = self.0.suppose(parent, &asked.hypothesis).await.map_err(problem)?;
                format!("Hypothesis {node} is open.")
            }
            "status" => self.judge(&asked).await?,
            "margin" => lead(&self.0.causes(tree).await.map_err(problem)?),
            "list" => self.listed(tree).await?,
            "trace" => {
                let causes = self.0.causes(tree).await.map_err(problem)?;
                traced(&causes, asked.node)?
            }
            _ => {
                return Err(ToolError::BadCall(
                    "reason: the action is one of add, status, margin, list, trace; nothing was done".to_owned(),
                ));
            }
        };
        Ok(ToolOutput::Text(text))
    }
}

impl Reason {
    async fn judge(&self, asked: &Arguments) -> Result<String, ToolError> {
        let status: CauseStatus = asked.status.trim().to_lowercase().parse().map_err(|_| {
            ToolError::BadCall("reason: the status is open, confirmed or refuted; nothing was done".to_owned())
        })?;
        if asked.weight.abs() > MAX_WEIGHT {
            return Err(ToolError::BadCall(format!(
                "reason: a weight goes from -{MAX_WEIGHT} to {MAX_WEIGHT}; nothing was done"
            )));
        }
        let weight = match (asked.weight, status) {
            (0, CauseStatus::Refuted) => -1,
            (0, CauseStatus::Open | CauseStatus::Confirmed) => 1,
            (weight, _) => weight,
        };
        let judged = self.0.judge(asked.node, status, weight, &asked.evidence).await;
        let cause = judged.map_err(problem)?;
        Ok(format!(
            "Hypothesis {} is {} with {:+}.",
            cause.node,
            cause.status,
            cause.score()
        ))
    }

    async fn listed(&self, tree: Option<&str>) -> Result<String, ToolError> {
        let causes = self.0.causes(tree).await.map_err(problem)?;
        let mut out = match causes.is_empty() {
            true => "There is no hypothesis yet.\n".to_owned(),
            false => render(&causes),
        };
        let shown = tree.unwrap_or(self.0.subject());
        let others: Vec<String> = self
            .0
            .trees()
            .await
            .map_err(problem)?
            .into_iter()
            .filter(|(name, _)| name != shown)
            .map(|(name, nodes)| format!("{name} ({nodes})"))
            .collect();
        if !others.is_empty() {
            let _ = writeln!(out, "Other trees of this repository: {}", others.join(", "));
        }
        Ok(out)
    }
}

fn lead(causes: &[Cause]) -> String {
    match margin(causes) {
        None => "No hypothesis stands: add one.".to_owned(),
        Some((best, None, lead)) => format!(
            "Hypothesis {} ({}) has {lead:+} and no rival. Think of another explanation before you trust it.",
            best.node, best.hypothesis
        ),
        Some((best, Some(next), lead)) => format!(
            "Hypothesis {} ({}) is ahead of hypothesis {} ({}) by {lead}.",
            best.node, best.hypothesis, next.node, next.hypothesis
        ),
    }
}

fn traced(causes: &[Cause], node: u32) -> Result<String, ToolError> {
    let path = trace(causes, node);
    if path.is_empty() {
        return Err(ToolError::ForModel(format!(
            "there is no hypothesis {node} in this tree; `list` shows them"
        )));
    }
    let mut out = String::new();
    for cause in path {
        let _ = writeln!(
            out,
            "{}. [{}, {:+}] {}",
            cause.node,
            cause.status,
            cause.score(),
            cause.hypothesis
        );
        for evidence in &cause.evidence {
            let _ = writeln!(
                out,
                "   {:+} {} (seen by {})",
                evidence.weight, evidence.words, evidence.by
            );
        }
    }
    Ok(out)
}
