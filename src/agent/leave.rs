//! The agent and the caps that it shares with others: leave is asked before each call of the model,
//! and what a call may have cost that gave no reply is written down. Called by `turn`, `compact`
//! and `subagent`. Never counts what the ledger counts, and never knows whose caps there are.

use super::progress::Progress;
use super::winddown;
use crate::agent::{SolveError, Stop, Task};
use crate::event::{RunEvent, Usage};
use crate::ledger::{Call, Leave};
use crate::model::Failed;

/// Asks for leave for a call of a helper or of a summary, with so many tokens. Why not, if it must
/// not be made. What is near is said to whoever leads the run, at its next turn.
pub(super) async fn beside(
    task: &Task<'_>,
    input_tokens: u64,
    output_tokens: u32,
    job_cap_usd: f64,
) -> Result<Option<String>, SolveError> {
    let call = Call {
        estimate_usd: task.model.estimate(input_tokens, output_tokens),
        job_cap_usd,
    };
    match task.recorder.leave(&call).await? {
        Leave::Granted { .. } => Ok(None),
        Leave::Refused(why) => Ok(Some(why)),
    }
}

/// Writes down what a call may have cost that gave no reply; a call that cost nothing leaves
/// nothing set aside.
pub(super) async fn lost(task: &Task<'_>, turn: u32, failed: &Failed) -> Result<(), SolveError> {
    if failed.usage == Usage::default() {
        return Ok(task.recorder.release().await?);
    }
    let event = RunEvent::ModelFailed {
        turn,
        model: task.model.name().to_owned(),
        text: failed.error.to_string(),
        usage: failed.usage,
        cost_usd: failed.cost_usd,
    };
    Ok(task.recorder.record(event).await?)
}

impl Progress<'_> {
    /// Asks for leave for the next turn. The model is told of caps that are near; where one is
    /// reached, the run ends.
    pub(super) async fn leave(&mut self, output_tokens: u32) -> Result<Option<Stop>, SolveError> {
        let call = Call {
            estimate_usd: self.task.model.estimate(self.history.tokens(), output_tokens),
            job_cap_usd: self.task.budget.max_cost_usd,
        };
        match self.task.recorder.leave(&call).await? {
            Leave::Granted { left_usd, near } => {
                self.meter.set_money_left(left_usd);
                for near in near {
                    if self.meter.sees_first(near.key) {
                        self.wind_down(&near.words);
                    }
                }
                Ok(None)
            }
            Leave::Refused(why) => {
                let why = winddown::with_open_steps(self.task.setting.language, why, &self.discipline.plan);
                Ok(Some(Stop::Budget(why)))
            }
        }
    }

    /// Tells the model that a limit is near.
    pub(super) fn wind_down(&mut self, near: &str) {
        let left = self.meter.left();
        let words = if std::mem::replace(&mut self.discipline.is_winding_down, true) {
            winddown::further(near, &left)
        } else {
            winddown::first(near, &left)
        };
        self.remark(&words);
    }
}
