//! The rules of the contract. Each broken one is named with what would keep it, so that whoever
//! wrote the draft can mend all of them at once. Called through `Draft::check`.
//! Never judges whether a statement is true.

use super::{Draft, Kind, Problem, render};
use crate::phrase::Language;

/// A title says what it is about and still fits into a list of issues.
const TITLE_WIDTH: std::ops::RangeInclusive<usize> = 10..=100;
/// Longest text of several sentences, and longest statement, in characters.
const MAX_TEXT_CHARS: usize = 2_000;
const MAX_STATEMENT_CHARS: usize = 500;
/// Longest output that is evidence.
const MAX_LOG_CHARS: usize = 1_500;
/// Most statements of one section.
const MAX_STATEMENTS: usize = 12;
/// An issue with more of them has several goals.
const MAX_CRITERIA: usize = 8;
/// Most labels.
const MAX_LABELS: usize = 6;
/// Longest issue. A maintainer reads two pages; five of them still fit into one comment.
const MAX_BODY_CHARS: usize = 8_000;

/// Words that join a second goal to the first.
const JOINTS: [&str; 9] = [
    " and also ",
    " as well as ",
    "; ",
    " additionally",
    " in addition",
    " furthermore",
    "；",
    "此外",
    "同时还",
];

/// Titles that say nothing.
const EMPTY_TITLES: [&str; 10] = [
    "bug report",
    "feature request",
    "it does not work",
    "does not work",
    "doesn't work",
    "something is wrong",
    "improve the code",
    "fix the bug",
    "small improvements",
    "various improvements",
];

/// What it says in place of a section that is left out.
const PLACEHOLDERS: [&str; 9] = ["n/a", "na", "none", "tbd", "todo", "unknown", "-", "...", "…"];

struct Check<'a> {
    draft: &'a Draft,
    problems: Vec<Problem>,
}

pub(super) fn check(draft: &Draft, labels: Option<&[String]>) -> Vec<Problem> {
    let mut check = Check {
        draft,
        problems: Vec::new(),
    };
    check.title();
    check.sections();
    check.statements();
    check.goals();
    check.labels(labels);
    if check.problems.is_empty() {
        let chars = render(draft, Language::English, &str::to_owned).chars().count();
        if chars > MAX_BODY_CHARS {
            let words =
                format!("the issue has {chars} characters, at most {MAX_BODY_CHARS} are read; shorten it or split it");
            check.say("draft", words);
        }
    }
    check.problems
}

impl Check<'_> {
    fn say(&mut self, field: &'static str, words: impl Into<String>) {
        let words = words.into();
        self.problems.push(Problem { field, words });
    }

    fn title(&mut self) {
        let title = self.draft.title.trim();
        // Two columns for what is written without spaces between words.
        let width: usize = title.chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum();
        let lower = title.to_lowercase();
        if title.contains('\n') {
            self.say("title", "it is one line");
        } else if width < *TITLE_WIDTH.start() || EMPTY_TITLES.contains(&lower.trim_end_matches('.')) {
            self.say("title", "it says too little: name what is wrong or wanted, and where");
        } else if title.chars().count() > *TITLE_WIDTH.end() {
            let most = TITLE_WIDTH.end();
            self.say("title", format!("it is longer than {most} characters"));
        }
    }

    fn sections(&mut self) {
        let draft = self.draft;
        let is_bug = draft.kind == Kind::Bug;
        let is_plan = matches!(draft.kind, Kind::Feature | Kind::Chore | Kind::Infra);
        let texts = [
            (
                "environment",
                &draft.environment,
                is_bug,
                "say where it was seen: version, system, configuration",
            ),
            (
                "impact",
                &draft.impact,
                !is_plan,
                "say who or what suffers, and how badly",
            ),
            (
                "context",
                &draft.context,
                is_plan,
                "say how things are today and why that is not enough",
            ),
            (
                "goal",
                &draft.goal,
                is_plan,
                "say in one sentence which state is to be reached",
            ),
        ];
        for (field, text, is_needed, how) in texts {
            if is_needed && is_missing(text) {
                self.say(field, format!("a {} needs it; {how}", draft.kind));
            }
            if text.chars().count() > MAX_TEXT_CHARS {
                self.say(field, format!("it is longer than {MAX_TEXT_CHARS} characters"));
            }
        }
        self.lists(is_bug, is_plan);
        let severity = draft.severity.trim().to_lowercase();
        if draft.kind == Kind::Security && !["low", "medium", "high", "critical"].contains(&severity.as_str()) {
            self.say("severity", "it is one of low, medium, high, critical");
        }
    }

    fn lists(&mut self, is_bug: bool, is_plan: bool) {
        let draft = self.draft;
        let lists = [
            (
                "reproduction",
                &draft.reproduction,
                is_bug,
                "number the steps that show it, from a fresh checkout",
            ),
            ("expected", &draft.expected, is_bug, "say what should have happened"),
            ("hypotheses", &draft.hypotheses, false, ""),
            (
                "scope",
                &draft.scope,
                true,
                "say what belongs to it: places, cases, platforms",
            ),
            ("non_goals", &draft.non_goals, is_plan, "say what does not belong to it"),
            (
                "acceptance_criteria",
                &draft.acceptance_criteria,
                true,
                "say what has to be true to close the issue, each to be answered with yes or no",
            ),
            (
                "validation",
                &draft.validation,
                true,
                "say how that is checked: a command, a test, steps",
            ),
            (
                "dependencies_and_risks",
                &draft.dependencies_and_risks,
                is_plan,
                "say what it waits for and what can go wrong, or that nothing is known",
            ),
        ];
        for (field, list, is_needed, how) in lists {
            if is_needed && list.iter().all(|item| is_missing(item)) {
                self.say(field, format!("a {} needs it; {how}", draft.kind));
                continue;
            }
            if list.iter().any(|item| item.trim().is_empty()) {
                self.say(field, "one of its items is empty; leave it out");
            }
            if list.iter().any(|item| item.chars().count() > MAX_STATEMENT_CHARS) {
                self.say(
                    field,
                    format!("an item is longer than {MAX_STATEMENT_CHARS} characters"),
                );
            }
            if list.len() > MAX_STATEMENTS {
                self.say(
                    field,
                    format!("it has {} items, at most {MAX_STATEMENTS} are read", list.len()),
                );
            }
        }
    }

    fn statements(&mut self) {
        let draft = self.draft;
        if draft.observed.is_empty() && matches!(draft.kind, Kind::Bug | Kind::Security) {
            let words = format!(
                "a {} needs it; say what you saw, each statement with file, symbol, command or log",
                draft.kind
            );
            self.say("observed", words);
        }
        if draft.observed.len() > MAX_STATEMENTS {
            let count = draft.observed.len();
            self.say(
                "observed",
                format!("it has {count} items, at most {MAX_STATEMENTS} are read"),
            );
        }
        for (at, seen) in draft.observed.iter().enumerate() {
            let at = at + 1;
            if seen.statement.trim().is_empty() {
                self.say("observed", format!("statement {at} says nothing"));
            } else if !seen.has_evidence() {
                self.say(
                    "observed",
                    format!(
                        "statement {at} has no evidence: give its file, symbol, command or log, or move it to hypotheses"
                    ),
                );
            } else if is_a_guess(&seen.statement) {
                self.say(
                    "observed",
                    format!("statement {at} is a guess: say only what was seen here, and the guess under hypotheses"),
                );
            }
            let parts = [&seen.statement, &seen.file, &seen.symbol, &seen.command];
            if parts.iter().any(|part| part.chars().count() > MAX_STATEMENT_CHARS) {
                self.say(
                    "observed",
                    format!("a part of statement {at} is longer than {MAX_STATEMENT_CHARS} characters"),
                );
            }
            if seen.log.chars().count() > MAX_LOG_CHARS {
                let words = format!(
                    "the log of statement {at} is longer than {MAX_LOG_CHARS} characters; keep the lines that show it"
                );
                self.say("observed", words);
            }
        }
    }

    fn goals(&mut self) {
        let draft = self.draft;
        let several = "it states several goals; an issue has one that can be accepted by itself: give each goal a draft of its \
             own, with an epic before them that they name in part_of";
        for (field, text) in [("title", &draft.title), ("goal", &draft.goal)] {
            let text = format!("{} ", text.trim().to_lowercase());
            let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
            if lines > 1 || JOINTS.iter().any(|joint| text.contains(joint)) {
                self.say(field, several);
            }
        }
        if draft.acceptance_criteria.len() > MAX_CRITERIA {
            let count = draft.acceptance_criteria.len();
            self.say(
                "acceptance_criteria",
                format!(
                    "{count} criteria are more than one goal has (at most {MAX_CRITERIA}); split the draft into parts"
                ),
            );
        }
        if draft.kind == Kind::Security && !draft.part_of.trim().is_empty() {
            self.say(
                "part_of",
                "what only the maintainers may read is no part of a public issue",
            );
        }
    }

    fn labels(&mut self, known: Option<&[String]>) {
        let draft = self.draft;
        if draft.labels.len() > MAX_LABELS {
            self.say("labels", format!("at most {MAX_LABELS}"));
        }
        let Some(known) = known else { return };
        let is_known = |label: &&String| known.iter().any(|other| other.eq_ignore_ascii_case(label.trim()));
        let unknown: Vec<&str> = draft
            .labels
            .iter()
            .filter(|label| !is_known(label))
            .map(String::as_str)
            .collect();
        if !unknown.is_empty() {
            self.say(
                "labels",
                format!(
                    "the repository has no label {}; it has {}",
                    unknown.join(", "),
                    known.join(", ")
                ),
            );
        }
    }
}

/// Whether a section says nothing.
fn is_missing(text: &str) -> bool {
    let text = text.trim().trim_end_matches('.').to_lowercase();
    text.is_empty() || PLACEHOLDERS.contains(&text.as_str())
}

/// Whether a statement says of itself that nobody saw it.
fn is_a_guess(statement: &str) -> bool {
    let statement = format!(" {} ", statement.to_lowercase());
    [
        " probably ",
        " presumably ",
        " i think ",
        " i suspect ",
        " might be ",
        " may be caused ",
        " likely ",
        "可能是",
        "大概",
        "估计",
    ]
    .iter()
    .any(|word| statement.contains(word))
}
