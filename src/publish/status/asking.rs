//! The status comment of a job that waits: what is asked, and how to answer. No line of it begins
//! with a command, and nothing in it counts as one. Never says that silence means yes.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};

use super::StatusView;
use crate::phrase::{Language, plan, status as words};
use crate::question::{ProposedPlan, Question};
use crate::text;

/// Most characters of one text of a question.
const MAX_QUESTION_CHARS: usize = 2_000;

/// The questions with their numbers, and how to answer.
pub(super) fn needs_you(
    view: &StatusView<'_>,
    question: &Question,
    answer_by: DateTime<Utc>,
    safe: &dyn Fn(&str) -> String,
) -> String {
    let (language, command) = (view.language, view.command);
    let line = |text: &str| line(text, safe);
    let mut out = match question {
        Question::Plan(_) => plan::needs_approval(language),
        _ => words::needs_you(language),
    }
    .to_owned();
    out.push_str("\n\n");
    let how = match question {
        Question::Ask { questions } => {
            for (at, question) in questions.iter().enumerate() {
                let _ = writeln!(out, "{}. {}", at + 1, line(question));
            }
            words::how_to_answer(language, command, questions.len() > 1)
        }
        Question::Confirm { action, consequence } => {
            let _ = writeln!(
                out,
                "1. {}",
                words::two(language, words::may_i(language), &line(action))
            );
            if !consequence.is_empty() {
                let _ = writeln!(
                    out,
                    "   {}",
                    words::two(language, words::consequence(language), &line(consequence))
                );
            }
            words::yes_or_no(language, command)
        }
        Question::Plan(proposed) => {
            out.push_str(&plan_in_markdown(proposed, language, safe));
            plan::how(language, command)
        }
        Question::Permit { key, call } => {
            let _ = writeln!(
                out,
                "1. {}\n\n{}",
                words::may_i_run(language, &line(key)),
                safe_block(call, safe)
            );
            words::yes_or_no(language, command)
        }
    };
    let by = answer_by.format("%Y-%m-%d %H:%M UTC").to_string();
    let how = words::two(language, &how, &words::until_then(language, command, &by));
    let _ = writeln!(out, "\n{how}");
    out
}

/// A plan as people read it.
pub(in crate::publish) fn plan_in_markdown(
    plan: &ProposedPlan,
    language: Language,
    safe: &dyn Fn(&str) -> String,
) -> String {
    let mut out = format!("{}\n", safe(&text::cap_chars(&plan.summary, MAX_QUESTION_CHARS)));
    let [steps, files, tests, risks] = plan::parts(language);
    if !plan.steps.is_empty() {
        let _ = writeln!(out, "\n**{steps}**\n");
        for (at, step) in plan.steps.iter().enumerate() {
            let _ = writeln!(out, "{}. {}", at + 1, line(step, safe));
        }
    }
    for (name, items) in [(files, &plan.files), (tests, &plan.tests), (risks, &plan.risks)] {
        if !items.is_empty() {
            let _ = writeln!(out, "\n**{name}**\n");
            for item in items {
                let _ = writeln!(out, "- {}", line(item, safe));
            }
        }
    }
    out
}

fn line(text: &str, safe: &dyn Fn(&str) -> String) -> String {
    safe(&text::cap_chars(text, MAX_QUESTION_CHARS)).replace('\n', " ")
}

/// A call as it would run, without its secrets.
fn safe_block(call: &str, safe: &dyn Fn(&str) -> String) -> String {
    let call = text::cap_chars(call, MAX_QUESTION_CHARS);
    let fence = text::code_fence(&call);
    safe(&format!("{fence}text\n{call}\n{fence}"))
}
