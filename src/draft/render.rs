//! A draft as the Markdown of an issue: sections in a fixed order, empty ones left out, each
//! observation with the number of its evidence. Called for what is offered and for what is checked.
//! Never writes a text of the draft before it was made safe, and adds no words but headings.

use std::fmt::Write as _;

use super::{Draft, Observation};
use crate::phrase::Language;
use crate::phrase::draft::{Section, heading};
use crate::text;

/// The body of the issue. `safe` is applied to everything that the draft says.
pub fn render(draft: &Draft, language: Language, safe: &dyn Fn(&str) -> String) -> String {
    let mut page = Page {
        out: String::new(),
        language,
        safe,
    };
    page.text(Section::Context, &draft.context);
    page.text(Section::Goal, &draft.goal);
    page.text(Section::Environment, &draft.environment);
    page.list(Section::Reproduction, &draft.reproduction, Mark::Number);
    let seen: Vec<String> = draft.observed.iter().map(|seen| seen.statement.clone()).collect();
    page.list(Section::Observed, &seen, Mark::Number);
    page.list(Section::Expected, &draft.expected, Mark::Bullet);
    page.evidence(&draft.observed);
    page.list(Section::Hypotheses, &draft.hypotheses, Mark::Bullet);
    page.text(Section::Impact, &draft.impact);
    page.text(Section::Severity, &draft.severity);
    page.list(Section::Scope, &draft.scope, Mark::Bullet);
    page.list(Section::NonGoals, &draft.non_goals, Mark::Bullet);
    page.list(Section::Acceptance, &draft.acceptance_criteria, Mark::Box);
    page.list(Section::Validation, &draft.validation, Mark::Bullet);
    page.list(Section::Risks, &draft.dependencies_and_risks, Mark::Bullet);
    page.out.trim_end().to_owned()
}

/// Code on a line, whatever backticks are in it.
fn in_ticks(code: &str) -> String {
    let fence = text::code_fence(code);
    let ticks = if code.contains('`') { fence.as_str() } else { "`" };
    let room = if code.contains('`') { " " } else { "" };
    format!("{ticks}{room}{code}{room}{ticks}")
}

#[derive(Clone, Copy)]
enum Mark {
    Number,
    Bullet,
    Box,
}

struct Page<'a> {
    out: String,
    language: Language,
    safe: &'a dyn Fn(&str) -> String,
}

impl Page<'_> {
    fn heading(&mut self, section: Section) {
        let _ = writeln!(self.out, "### {}\n", heading(self.language, section));
    }

    fn text(&mut self, section: Section, text: &str) {
        let text = text.trim();
        if !text.is_empty() {
            self.heading(section);
            let _ = writeln!(self.out, "{}\n", (self.safe)(text).trim());
        }
    }

    fn list(&mut self, section: Section, items: &[String], mark: Mark) {
        let items: Vec<String> = items.iter().map(|item| self.line(item)).collect();
        if items.iter().all(String::is_empty) {
            return;
        }
        self.heading(section);
        for (at, item) in items.iter().filter(|item| !item.is_empty()).enumerate() {
            let _ = match mark {
                Mark::Number => writeln!(self.out, "{}. {item}", at + 1),
                Mark::Bullet => writeln!(self.out, "- {item}"),
                Mark::Box => writeln!(self.out, "- [ ] {item}"),
            };
        }
        self.out.push('\n');
    }

    /// What stands in a list is one line: a second one could begin a section.
    fn line(&self, text: &str) -> String {
        let words: Vec<&str> = text.split_whitespace().collect();
        (self.safe)(&words.join(" ")).replace('\n', " ").trim().to_owned()
    }

    /// Where each observation was made, under its number.
    fn evidence(&mut self, observed: &[Observation]) {
        if !observed.iter().any(Observation::has_evidence) {
            return;
        }
        self.heading(Section::Evidence);
        for (at, seen) in observed.iter().enumerate() {
            let parts = [&seen.file, &seen.symbol, &seen.command];
            let parts: Vec<String> = parts
                .iter()
                .filter(|part| !part.trim().is_empty())
                .map(|part| self.line(&in_ticks(part.trim().trim_matches('`'))))
                .collect();
            let _ = writeln!(self.out, "{}. {}", at + 1, parts.join(" · "));
            let log = text::plain_output(&seen.log);
            if !log.trim().is_empty() {
                let fence = text::code_fence(&log);
                let block = (self.safe)(&format!("{fence}text\n{}\n{fence}", log.trim_matches('\n')));
                let block: Vec<String> = block.trim().lines().map(|line| format!("   {line}")).collect();
                let _ = writeln!(self.out, "\n{}", block.join("\n"));
            }
        }
        self.out.push('\n');
    }
}
