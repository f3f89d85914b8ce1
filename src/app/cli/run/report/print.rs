//! The result of a local run for people: the change, what the checks said, the agent's own words,
//! what it cost, and what to do next. The last lines are those that matter most, since they are
//! still on the screen. Never prints a control code of somebody else.

use std::io::IsTerminal as _;

use super::super::super::progress::{ending, in_thousands};
use super::super::super::screen::paint::{Paint, clean, columns, one_line, wrap};
use super::super::super::screen::{paint_of_output, terminal_width};
use super::super::args::Diff;
use super::{Report, drafts};
use crate::agent::Stop;
use crate::event::CheckRun;
use crate::git::Change;
use crate::phrase::Language;
use crate::publish::risks_of;
use crate::run::ChangeSet;
use crate::text;
use crate::tool::{Finish, Mode};

/// Lines of a diff on a terminal; who wants the rest is told how to see it.
const MAX_DIFF_LINES: usize = 200;
/// Changed files that are listed.
const MAX_FILES: usize = 100;
/// Columns of running text.
const MAX_COLUMNS: usize = 100;

/// Where the result goes.
struct Page {
    paint: Paint,
    /// Columns of a terminal; nothing is wrapped or cut elsewhere.
    width: Option<usize>,
}

impl Page {
    /// Running text of somebody else.
    fn words(&self, text: &str) {
        for line in clean(text.trim()).lines() {
            match self.width {
                Some(width) => wrap(line, width).iter().for_each(|row| say!("{row}")),
                None => say!("{line}"),
            }
        }
    }
}

impl Report<'_> {
    /// For people.
    pub(in super::super) fn print(&self, diff: Diff) {
        if self.mode == Mode::Draft {
            return self.print_drafts();
        }
        let is_terminal = std::io::stdout().is_terminal();
        let page = Page {
            paint: paint_of_output(),
            width: is_terminal.then(|| terminal_width().unwrap_or(80).min(MAX_COLUMNS) - 1),
        };
        if is_terminal {
            say!();
        }
        if let Some(finished) = self.finished() {
            if let Some(change) = &finished.change {
                self.print_change(&page, change, diff);
            }
            print_checks(&page, &finished.verdict.base, &finished.verdict.head);
        }
        self.print_words(&page);
        let change = self.finished().and_then(|finished| finished.change.as_ref());
        for risk in change
            .map(|change| risks_of(Language::English, &change.diff))
            .unwrap_or_default()
        {
            say!();
            page.words(&format!("Noticed in the difference: {risk}"));
        }
        if let Some(finished) = self.finished().filter(|finished| !finished.drafts.is_empty()) {
            say!(
                "\n{}\n",
                page.paint.bold("Noticed and left alone, as drafts of issues:")
            );
            drafts::print(finished, self.language);
        }
        say!("\n{}", page.paint.dim(&self.cost()));
        self.print_what_next(&page);
    }

    /// Only the drafts are the result; all else is about how they came about.
    fn print_drafts(&self) {
        if let Some(failure) = &self.done.failure {
            note!("forgehand: {}", clean(failure));
        }
        let Some(finished) = self.finished() else { return };
        drafts::print(finished, self.language);
        let (outcome, _) = self.ending();
        match &finished.stop {
            Stop::Finished(Finish::Answered { answer }) if finished.drafts.is_empty() => {
                note!("forgehand: nothing was drafted: {}", clean(answer));
            }
            Stop::Finished(Finish::Answered { .. }) => {}
            _ => note!("forgehand: {}", clean(self.reason().unwrap_or(outcome))),
        }
        note!("{}", self.cost());
    }

    fn print_change(&self, page: &Page, change: &ChangeSet, diff: Diff) {
        match diff {
            Diff::Whole => {
                let lines = change.diff.trim_end().lines();
                let all = lines.clone().count();
                let most = page.width.map_or(all, |_| MAX_DIFF_LINES);
                print_diff(page, lines.take(most));
                if all > most {
                    let rest = format!("[{} more lines; all of them: {}]", all - most, self.diff_command());
                    say!("{}", page.paint.yellow(&rest));
                }
                say!();
            }
            Diff::Files => {
                print_files(page, &change.import.changes);
                say!();
            }
            Diff::Nothing => {}
        }
    }

    fn print_words(&self, page: &Page) {
        if let Some(failure) = &self.done.failure {
            note!("forgehand: {}", clean(failure));
            return;
        }
        let Some(finished) = self.finished() else {
            say!("Stopped before there was a change.");
            return;
        };
        match &finished.stop {
            Stop::Finished(Finish::Done {
                title,
                summary,
                risks,
                not_done,
                ..
            }) => {
                say!("{}\n", page.paint.bold(&one_line(title)));
                page.words(summary);
                for (heading, text) in [("Look closely at", risks), ("Not done", not_done)] {
                    if !text.trim().is_empty() {
                        say!();
                        page.words(&format!("{heading}: {}", text.trim()));
                    }
                }
            }
            Stop::Finished(Finish::NothingToDo { reason, .. }) => page.words(&format!("No change needed: {reason}")),
            Stop::Finished(Finish::Answered { answer }) => page.words(answer),
            Stop::Finished(Finish::Planned(plan)) => page.words(&plan.in_words()),
            Stop::Finished(Finish::Reviewed(review)) => page.words(&review.summary),
            Stop::Finished(Finish::Refused { reason }) => page.words(&format!("Not done: {reason}")),
            Stop::Budget(limit) => page.words(&format!("Stopped by a limit: {limit}")),
            Stop::Stuck(why) => page.words(&format!("It did not work out: {why}")),
            Stop::NeedsInput(_) => say!("It needs an answer of a person."),
            Stop::Cancelled if finished.change.is_some() => say!("Stopped; the work so far is kept."),
            Stop::Cancelled => say!("Stopped; no file had been changed."),
        }
        self.print_objections(page);
    }

    /// Why a change that the agent calls done is not good.
    fn print_objections(&self, page: &Page) {
        let Some(finished) = self.finished() else { return };
        for violation in &finished.violations {
            say!("\n{}", page.paint.red(&format!("Not allowed: {}", one_line(violation))));
        }
        match self.ending().0 {
            "no_change" => say!("\nBut no file differs from the base."),
            "unfinished" => {
                if let Stop::Finished(Finish::Done { unfinished, .. }) = &finished.stop {
                    let list = one_line(&unfinished.join(", "));
                    say!(
                        "\n{}",
                        page.paint
                            .red(&format!("Still running at the end, and ended unfinished: {list}"))
                    );
                }
            }
            "checks_failed" => {
                for check in finished.verdict.regressions() {
                    let tail = text::cap_middle(check.output_tail.trim(), 2_000);
                    let heading = format!("Passed before and fails now: {}", one_line(&check.command));
                    say!("\n{}\n{}", page.paint.red(&heading), clean(&tail));
                }
            }
            _ => {}
        }
    }

    fn cost(&self) -> String {
        let totals = &self.done.totals;
        let money = if totals.price_unknown {
            "price unknown".to_owned()
        } else {
            format!("${:.4}", totals.cost_usd)
        };
        let turns = match totals.turns {
            1 => "1 turn".to_owned(),
            turns => format!("{turns} turns"),
        };
        format!(
            "{}{turns} · {} tokens in · {} out · {money} · {}",
            self.size().unwrap_or_default(),
            in_thousands(totals.input_tokens),
            in_thousands(totals.output_tokens),
            text::duration_in_words(self.done.took)
        )
    }

    /// How much changed, in figures.
    fn size(&self) -> Option<String> {
        let changes = &self.finished()?.change.as_ref()?.import.changes;
        let sum = |side: fn(&Change) -> u64| changes.iter().map(side).sum::<u64>();
        let files = match changes.len() {
            1 => "1 file".to_owned(),
            files => format!("{files} files"),
        };
        let (added, removed) = (sum(|change| change.lines.0), sum(|change| change.lines.1));
        Some(format!("{files}, +{added} −{removed} · "))
    }

    fn print_what_next(&self, page: &Page) {
        let Some((branch, _)) = &self.done.left else { return };
        say!("\nThe change is on the branch {}", page.paint.bold(branch.as_str()));
        let git = self.git();
        for (what, command) in [
            ("see it", self.diff_command()),
            ("try it", format!("{git} switch {branch}")),
            ("take it", format!("{git} merge {branch}")),
            ("discard it", format!("{git} branch -D {branch}")),
        ] {
            say!("  {what:10}  {}", page.paint.cyan(&command));
        }
    }

    fn diff_command(&self) -> String {
        let head = match &self.done.left {
            Some((branch, _)) => branch.to_string(),
            None => "BRANCH".to_owned(),
        };
        format!("{} diff {}..{head}", self.git(), self.done.base.short())
    }

    /// How to call git where the program was called.
    fn git(&self) -> String {
        let root = &self.repo.root;
        let here = std::env::current_dir().and_then(|here| here.canonicalize());
        if here.is_ok_and(|here| here.starts_with(root)) {
            return "git".to_owned();
        }
        let root = clean(&root.display().to_string());
        let is_plain = |c: char| c.is_alphanumeric() || "/._-+@".contains(c);
        match root.chars().all(is_plain) {
            true => format!("git -C {root}"),
            false => format!("git -C '{}'", root.replace('\'', r"'\''")),
        }
    }
}

/// A unified diff, coloured as git does. The lines stay as they are, so that a pipe gets a patch.
fn print_diff<'a>(page: &Page, lines: impl Iterator<Item = &'a str>) {
    let mut is_heading = false;
    for line in lines {
        if line.starts_with("diff --git ") {
            is_heading = true;
        } else if line.starts_with("@@ ") {
            is_heading = false;
        }
        let shown = match page.width {
            Some(_) => clean(line),
            None => line.to_owned(),
        };
        let paint = page.paint;
        let shown = match line.as_bytes().first() {
            _ if is_heading => paint.bold(&shown),
            Some(b'@') => paint.cyan(&shown),
            Some(b'+') => paint.green(&shown),
            Some(b'-') => paint.red(&shown),
            _ => shown,
        };
        say!("{shown}");
    }
}

/// One line for each changed file.
fn print_files(page: &Page, changes: &[Change]) {
    let paths: Vec<String> = changes
        .iter()
        .take(MAX_FILES)
        .map(|change| clean(&change.path))
        .collect();
    let widest = paths.iter().map(|path| columns(path)).max().unwrap_or(0).min(60);
    for (change, path) in changes.iter().zip(&paths) {
        let room = " ".repeat(widest.saturating_sub(columns(path)));
        let (added, removed) = change.lines;
        let lines = match change.binary {
            true => "binary".to_owned(),
            false => format!(
                "{} {}",
                page.paint.green(&format!("+{added}")),
                page.paint.red(&format!("−{removed}"))
            ),
        };
        say!(" {} {path}{room}  {lines}", change.status);
    }
    if changes.len() > MAX_FILES {
        say!(" … {} more files", changes.len() - MAX_FILES);
    }
}

/// One line for each check: before and after.
fn print_checks(page: &Page, base: &[CheckRun], head: &[CheckRun]) {
    let mut commands: Vec<&str> = Vec::new();
    for check in base.iter().chain(head) {
        if !commands.contains(&check.command.as_str()) {
            commands.push(&check.command);
        }
    }
    if commands.is_empty() {
        return;
    }
    let of = |side: &[CheckRun], command: &str| match side.iter().find(|check| check.command == command) {
        None => "  not run".to_owned(),
        Some(check) if check.passed() => format!("✓ {}", ending(check)),
        Some(check) => format!("✗ {}", ending(check)),
    };
    let rows: Vec<[String; 3]> = commands
        .iter()
        .map(|command| {
            let name = text::cap_chars(&one_line(command), 60);
            [name, of(base, command), of(head, command)]
        })
        .collect();
    let width = |column: usize, heading: &str| {
        let cells = rows.iter().map(|row| columns(&row[column]));
        cells.max().unwrap_or(0).max(columns(heading))
    };
    let (first, second) = (width(0, "check"), width(1, "  before"));
    let padded = |cell: &str, width: usize| format!("{cell}{}", " ".repeat(width.saturating_sub(columns(cell))));
    let painted = |cell: &str, padded: &str| match cell.chars().next() {
        Some('✓') => page.paint.green(padded),
        Some('✗') => page.paint.red(padded),
        _ => page.paint.dim(padded),
    };
    let heading = format!("{}  {}    after", padded("check", first), padded("  before", second));
    say!("{}", page.paint.dim(&heading));
    for [command, before, after] in &rows {
        let before = painted(before, &padded(before, second));
        say!("{}  {before}  {}", padded(command, first), painted(after, after));
    }
    say!();
}
