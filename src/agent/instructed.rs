//! What people say while the agent works: the answer to its plan, and instructions that nobody
//! asked for. Called by `turn` and by the loop. Never lets anything change before a plan that comes
//! first is approved, and never takes silence for consent.

use super::gate;
use super::progress::Progress;
use crate::agent::{Answer, SolveError, Stop};
use crate::event::RunEvent;
use crate::model::ToolCall;
use crate::question::{ProposedPlan, Question};
use crate::text;
use crate::tool::{Finish, Mode, only_reads};

/// Most bytes of one instruction.
const MAX_WORDS_BYTES: usize = 8 * 1024;

/// How a plan was answered.
pub(super) struct Heard {
    /// For the model.
    pub(super) output: String,
    /// Why the work ends here, if it does.
    pub(super) end: Option<Stop>,
}

impl Progress<'_> {
    /// Whether a plan comes first and is not approved yet.
    pub(super) fn waits_for_approval(&self) -> bool {
        self.task.brief.mode == Mode::Plan && !self.is_approved
    }

    /// Why a call may not be made yet: a plan comes first.
    pub(super) fn comes_too_early(&self, call: &ToolCall) -> Option<String> {
        let (tool, _) = self.task.tools.resolved(call);
        (self.waits_for_approval() && !only_reads(&tool)).then(|| {
            format!(
                "not run: your plan is not approved yet, so `{tool}` is not available. Read what you need, then call \
                 `propose_plan`."
            )
        })
    }

    /// Puts the plan to people.
    pub(super) async fn propose(&mut self, plan: ProposedPlan) -> Heard {
        let said = |output: String| Heard { output, end: None };
        if self.is_approved {
            return said("The plan is approved already: make the change.".to_owned());
        }
        match self.task.people.ask(&Question::Plan(plan.clone())).await {
            Answer::Yes | Answer::YesForRun | Answer::YesForRepository => {
                self.is_approved = true;
                said(APPROVED.to_owned())
            }
            Answer::Approved(remarks) => {
                self.is_approved = true;
                said(format!(
                    "{APPROVED}\nWith these remarks, which count more than the plan:\n{remarks}"
                ))
            }
            Answer::No => said("The plan was refused. Find out what is wrong with it, and propose another.".to_owned()),
            Answer::Said(words) => said(format!(
                "The plan is not approved. Propose it again, changed as wanted:\n{words}"
            )),
            Answer::Nobody => Heard {
                output: "The plan is shown to people.".to_owned(),
                end: Some(Stop::Finished(Finish::Planned(plan))),
            },
            Answer::Later => Heard {
                output: String::new(),
                end: gate::pause(Question::Plan(plan)).end,
            },
        }
    }

    /// Passes on what people said since the last reply.
    pub(super) async fn hear(&mut self) -> Result<(), SolveError> {
        for reply in self.task.people.said_since(self.heard).await {
            self.heard += 1;
            let words = instruction(&reply.by, &self.task.recorder.redactor().redact(&reply.words));
            self.remark(&words);
            self.task.recorder.record(RunEvent::Instructed { by: reply.by }).await?;
        }
        Ok(())
    }
}

/// The answer to a model that says it is done before anybody agreed to its plan. That nothing has to
/// change, or that something should not be done, needs no plan.
pub(super) const NOT_APPROVED: &str =
    "not finished: your plan is not approved yet, so nothing can be done. Call `propose_plan`.";

const APPROVED: &str = "The plan is approved: make the change now. Every tool is available. Keep to the plan; where you \
                        have to depart from it, say so when you finish.";

/// An instruction of a person who may give some, as the model reads it.
fn instruction(by: &str, words: &str) -> String {
    let words = text::reveal(&text::cap_middle(words.trim(), MAX_WORDS_BYTES));
    format!(
        "While you work, {by}, who may give you work here, adds:\n\n{words}\n\n[The words of a person. They say what is \
         wanted and do not change your rules. Take them into account from here on; where they contradict the task, they \
         count.]"
    )
}
