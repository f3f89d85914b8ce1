//! The end of a budget: what is left is said once, the last replies are for the essential, tools
//! show less, and what stays undone is named. Called by `turn`. Never stops anything itself.

use super::budget::Left;
use crate::agent::Budget;
use crate::event::PlanStep;
use crate::phrase::{Language, stuck};
use crate::text;

/// With as many replies left, the model is told to come to an end.
pub(super) const LAST_TURNS: u32 = 3;

/// Most steps of a plan that are named as undone.
const MAX_STEPS: usize = 5;

/// Below these shares of the tokens, outputs of tools are cut to these sizes, in bytes.
const CAPS: [(f64, usize); 2] = [(0.1, 8 * 1024), (0.3, 16 * 1024)];

/// What the model is told when the first limit comes near.
pub(super) fn first(near: &str, left: &Left) -> String {
    format!(
        "Note: {near}. What is left: {}. Wind down: begin nothing new, finish the essential part, run the most \
         important check, and call `finish` in good time; name under `not_done` what you leave.",
        in_words(left)
    )
}

/// What the model is told when another limit comes near.
pub(super) fn further(near: &str, left: &Left) -> String {
    format!("Note: {near}. What is left: {}.", in_words(left))
}

/// What the model is told before its last replies.
pub(super) fn last() -> String {
    format!(
        "Note: you have {LAST_TURNS} replies left, this one included. Only the essential now: bring the workspace into a \
         state that can be reviewed, run the most important check, and call `finish`; name what is left under `not_done`."
    )
}

fn in_words(left: &Left) -> String {
    let mut words = vec![
        format!("{} replies", left.turns),
        format!("{} tokens", left.tokens),
        text::duration_in_words(left.time),
    ];
    if let Some(cost_usd) = left.cost_usd {
        words.push(format!("${cost_usd:.2}"));
    }
    words.join(", ")
}

/// Most bytes of a tool's output, of `usual` while there is enough to spend.
pub(super) fn output_cap(usual: usize, left: &Left, budget: &Budget) -> usize {
    let share = left.tokens as f64 / (budget.max_tokens.max(1)) as f64;
    let cap = CAPS.iter().find(|(below, _)| share < *below);
    cap.map_or(usual, |(_, bytes)| usual.min(*bytes))
}

/// Why the run ended, with what its plan leaves open.
pub(super) fn with_open_steps(language: Language, why: String, plan: &[PlanStep]) -> String {
    let open: Vec<&str> = plan
        .iter()
        .filter(|step| !step.done)
        .map(|step| step.step.as_str())
        .collect();
    if open.is_empty() {
        return why;
    }
    let more = open.len().saturating_sub(MAX_STEPS);
    stuck::open_steps(language, &why, &open[..open.len() - more], more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const LEFT: Left = Left {
        turns: 12,
        tokens: 400,
        cost_usd: Some(1.0),
        time: Duration::from_secs(600),
    };

    #[test]
    fn what_is_left_is_said() {
        let words = first("80 % of the tokens are used (1600 of 2000)", &LEFT);
        for part in ["80 % of the tokens", "12 replies", "400 tokens", "10 min", "$1.00"] {
            assert!(words.contains(part), "{words}");
        }
        let free = Left { cost_usd: None, ..LEFT };
        assert!(!further("x", &free).contains('$'));
    }

    #[test]
    fn outputs_get_shorter_with_the_tokens() {
        let budget = Budget {
            max_turns: 10,
            max_tokens: 1_000,
            max_cost_usd: 0.0,
            max_time: Duration::ZERO,
        };
        for (tokens, expected) in [(1_000, 65_536), (300, 65_536), (299, 16_384), (99, 8_192), (0, 8_192)] {
            let left = Left { tokens, ..LEFT };
            assert_eq!(output_cap(65_536, &left, &budget), expected, "{tokens}");
        }
    }

    #[test]
    fn open_steps_are_named() {
        let step = |at: usize, done: bool| PlanStep {
            step: format!("step {at}"),
            done,
        };
        let why = || "the limit is reached".to_owned();
        assert_eq!(with_open_steps(Language::English, why(), &[step(1, true)]), why());
        assert_eq!(
            with_open_steps(Language::English, why(), &[step(1, true), step(2, false)]),
            "the limit is reached; of its plan is left: step 2"
        );
        let many: Vec<PlanStep> = (0..9).map(|at| step(at, false)).collect();
        assert!(with_open_steps(Language::English, why(), &many).ends_with("step 4; and 4 more steps"));
    }
}
