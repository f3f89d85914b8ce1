//! What the agent is told of a milestone: the task, the goal that it belongs to, what decides, and
//! what was wrong with the last try. Called by local runs and by the flow that inserts jobs. Never
//! instructs: all of it was written by people, models or commands, and the agent reads it as text of
//! strangers.

use std::fmt::Write as _;

use crate::milestone::{Graph, Limits, Milestone};
use crate::text;

/// Most bytes of the goal; the milestone is what is to be done.
const MAX_GOAL_BYTES: usize = 2 * 1024;

/// What a try begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeginsWith {
    /// What was there before any try.
    Nothing,
    /// The work of an earlier try that was not finished.
    WhatWasLeft,
}

/// The request of a run that tries a milestone, without its title.
pub fn request(milestone: &Milestone, graph: &Graph, begins_with: BeginsWith, limits: Limits) -> String {
    let mut out = String::new();
    if !milestone.description.is_empty() {
        let _ = write!(out, "{}\n\n", milestone.description);
    }
    let _ = write!(out, "This is the milestone {} of a plan", milestone.id);
    match graph.goal.is_empty() {
        true => out.push_str(". Do this one and no other."),
        false => {
            let goal = text::cap(&graph.goal, MAX_GOAL_BYTES);
            let _ = write!(
                out,
                " for the goal below. Do this one and no other.\n\nThe goal: {goal}"
            );
        }
    }
    if let Some(command) = &milestone.acceptance {
        let _ = write!(
            out,
            "\n\nIt is done when `{command}` ends with exit code 0 on a fresh checkout of the change. The program runs \
             it; nothing else decides."
        );
    }
    let left = begins_with == BeginsWith::WhatWasLeft;
    if let Some(problem) = &milestone.problem {
        let which = match milestone.attempts {
            0 => String::new(),
            attempts => format!(" (fix attempt {attempts} of {})", limits.max_fix_attempts),
        };
        let start = match left {
            true => "You begin with what the last try left; look at it before you go on.",
            false => "You begin without what the last try did.",
        };
        let _ = write!(
            out,
            "\n\nIt was tried before{which}. {start} What was wrong then:\n{problem}"
        );
    } else if left {
        out.push_str(
            "\n\nAn earlier run was stopped in the middle of it. You begin with what it left; look at it first.",
        );
    }
    out
}
