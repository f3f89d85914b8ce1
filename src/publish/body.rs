//! The words of pull requests and follow-up comments. What the model says is quoted under its
//! headings; what was verified is written by the program from what it ran. Pure text.
//! Never lets a model's text ping, close, trigger or claim a test result.

use std::fmt::Write as _;

use super::Publisher;
use crate::event::{CheckRun, Event, Side, Totals};
use crate::git::{Change, Import};
use crate::ids::IssueNumber;
use crate::job::Job;
use crate::money::Usd;
use crate::phrase::money::{self, Used};
use crate::text;

/// What the agent said of its change.
pub struct Words<'a> {
    /// One line.
    pub title: &'a str,
    /// Markdown.
    pub summary: &'a str,
    /// Markdown.
    pub risks: &'a str,
    /// Markdown.
    pub not_done: &'a str,
    /// What the program noticed in the difference; safe already.
    pub noticed: &'a [String],
    /// What the program has to say first; safe already.
    pub notice: Option<&'a str>,
}

/// The checks on both sides.
#[derive(Debug, Clone, Copy)]
pub struct Checks<'a> {
    /// Commands in order.
    pub commands: &'a [String],
    /// Before the change.
    pub base: &'a [CheckRun],
    /// After it.
    pub head: &'a [CheckRun],
}

impl Checks<'_> {
    /// Commands that do not pass after the change and are not known to have failed before it.
    pub fn regressions(&self) -> Vec<String> {
        let failing = self.head.iter().filter(|check| !check.passed());
        failing
            .filter(|check| self.of(Side::Base, &check.command).is_none_or(|before| before.passed()))
            .map(|check| code(&check.command))
            .collect()
    }

    fn of(&self, side: Side, command: &str) -> Option<&CheckRun> {
        let runs = match side {
            Side::Base => self.base,
            Side::Head => self.head,
        };
        runs.iter().find(|check| check.command == command)
    }
}

/// Longest title, in characters: what GitHub shows without cutting.
const MAX_TITLE_CHARS: usize = 72;
/// Longest part of a status comment that tells of new commits; the rest of it needs room too.
const MAX_DETAILS_CHARS: usize = 50_000;
/// Most characters of the agent's summary, and of its other words. With the limits below, the
/// sections fit into a body even when every character has to be written out.
const MAX_SUMMARY_CHARS: usize = 3_000;
const MAX_WORDS_CHARS: usize = 1_500;
/// Most characters of a commit message below its title.
const MAX_MESSAGE_CHARS: usize = 8_000;
/// Most files listed by name, and most remarks of the program on them.
const MAX_LISTED_FILES: usize = 30;
const MAX_REMARKS: usize = 20;
/// Most characters of one path or command.
const MAX_CODE_CHARS: usize = 160;
/// Title of a change whose agent found no words that can stand in one.
const UNTITLED: &str = "Change made by the agent";

/// One line without markup, controls or words that steer other tools.
pub(super) fn title(publisher: &Publisher, title: &str) -> String {
    let clean = publisher.plain(title, MAX_MESSAGE_CHARS).replace('`', "'");
    let line = clean.lines().map(str::trim).find(|line| !line.is_empty());
    text::cap_chars(line.unwrap_or(UNTITLED), MAX_TITLE_CHARS)
}

/// A commit message: the title in a line of its own, then words of the agent or the program.
pub(super) fn message(publisher: &Publisher, title: &str, words: &str) -> String {
    format!("{title}\n\n{}\n", publisher.plain(words, MAX_MESSAGE_CHARS).trim())
}

/// The body of a pull request.
pub(super) fn pull(
    publisher: &Publisher,
    import: &Import,
    words: &Words<'_>,
    checks: &Checks<'_>,
    issue: IssueNumber,
    footer: &str,
) -> String {
    let mut body = format!("Fixes #{issue}\n");
    if let Some(notice) = words.notice {
        let _ = write!(body, "\n> [!NOTE]\n> {notice}\n");
    }
    sections(publisher, &mut body, import, words, checks);
    body.push_str(footer);
    text::cap_markdown(&body, text::MAX_COMMENT_CHARS)
}

/// What the status comment says of new commits on an existing pull request.
pub(super) fn follow_up(publisher: &Publisher, import: &Import, words: &Words<'_>, checks: &Checks<'_>) -> String {
    let mut body = format!(
        "**{}**\n",
        publisher.safe_within(&title(publisher, words.title), MAX_TITLE_CHARS)
    );
    if let Some(notice) = words.notice {
        let _ = write!(body, "\n> [!NOTE]\n> {notice}\n");
    }
    sections(publisher, &mut body, import, words, checks);
    text::cap_markdown(&body, MAX_DETAILS_CHARS)
}

/// What the status comment says of a merge of the base. The program's own words come first; what
/// the agent changed in the merge is listed only where it changed something.
pub(super) fn merge(
    publisher: &Publisher,
    lead: &str,
    import: &Import,
    words: &Words<'_>,
    checks: &Checks<'_>,
) -> String {
    let mut body = format!("{lead}\n");
    if !words.summary.is_empty() {
        section(
            &mut body,
            "Summary",
            &publisher.safe_within(words.summary, MAX_SUMMARY_CHARS),
        );
    }
    if !import.changes.is_empty() {
        section(&mut body, "Changed in the merge", &changes(&import.changes));
    }
    section(&mut body, "Verification", &verification(checks));
    let said = publisher.safe_within(words.risks, MAX_WORDS_CHARS);
    section(&mut body, "Risks", &risks(&said, &import.changes, words.noticed));
    text::cap_markdown(&body, MAX_DETAILS_CHARS)
}

fn sections(publisher: &Publisher, body: &mut String, import: &Import, words: &Words<'_>, checks: &Checks<'_>) {
    let safe = |text: &str| publisher.safe_within(text, MAX_WORDS_CHARS);
    let summary = publisher.safe_within(words.summary, MAX_SUMMARY_CHARS);
    section(body, "Summary", &summary);
    section(body, "Changes", &changes(&import.changes));
    section(body, "Verification", &verification(checks));
    section(
        body,
        "Risks",
        &risks(&safe(words.risks), &import.changes, words.noticed),
    );
    section(body, "Not done", &or_nothing(safe(words.not_done)));
}

fn section(body: &mut String, heading: &str, content: &str) {
    let _ = write!(body, "\n## {heading}\n\n{}\n", content.trim());
}

fn or_nothing(text: String) -> String {
    if text.trim().is_empty() {
        "Nothing that the agent knows of.".to_owned()
    } else {
        text
    }
}

fn changes(changes: &[Change]) -> String {
    let mut list = String::new();
    for change in changes.iter().take(MAX_LISTED_FILES) {
        let what = match change.status {
            'A' => "added",
            'D' => "deleted",
            _ => "changed",
        };
        let size = if change.binary {
            "binary".to_owned()
        } else {
            format!("+{} −{}", change.lines.0, change.lines.1)
        };
        let _ = writeln!(list, "- {} {what} ({size})", code(&change.path));
    }
    if changes.len() > MAX_LISTED_FILES {
        let _ = writeln!(list, "- and {} more files", changes.len() - MAX_LISTED_FILES);
    }
    list
}

/// A path or command as code that fits into a line and a cell.
fn code(text: &str) -> String {
    text::code_span(&text::cap_chars(text, MAX_CODE_CHARS))
}

/// The table of commands with exit codes on both sides.
fn verification(checks: &Checks<'_>) -> String {
    if checks.commands.is_empty() {
        return "No check was found in the repository, so nothing was verified. Set `test` in `.github/forgehand.toml`.".to_owned();
    }
    let mut table = "| command | before | after |\n|---|---|---|\n".to_owned();
    for command in checks.commands {
        let cell = |side| {
            checks
                .of(side, command)
                .map_or_else(|| "not run".to_owned(), result_cell)
        };
        let _ = writeln!(
            table,
            "| {} | {} | {} |",
            code(command),
            cell(Side::Base),
            cell(Side::Head)
        );
    }
    table.push_str(
        "\nExit codes as the program saw them: before on the base commit, after on a fresh checkout of this change.\n",
    );
    for command in checks.commands {
        let before = checks.of(Side::Base, command);
        let after = checks.of(Side::Head, command);
        if let (Some(before), Some(after)) = (before, after)
            && !before.passed()
            && after.passed()
        {
            let _ = writeln!(
                table,
                "\n{} failed before this change and passes with it.",
                code(command)
            );
        }
    }
    table
}

fn result_cell(check: &CheckRun) -> String {
    let took = text::duration_in_words(std::time::Duration::from_millis(check.took_ms));
    match (check.exit_code, &check.killed) {
        (Some(0), _) => format!("✅ exit 0 ({took})"),
        (Some(code), _) => format!("❌ exit {code} ({took})"),
        (None, Some(killed)) => format!("❌ {}", killed.replace(['|', '\n'], " ")),
        (None, None) => "❌ no exit code".to_owned(),
    }
}

/// The agent's own words and what the program noticed in the diff.
fn risks(words: &str, changes: &[Change], noticed: &[String]) -> String {
    let of_files = changes.iter().flat_map(remarks);
    let remarks: Vec<String> = noticed.iter().cloned().chain(of_files).collect();
    let mut list = String::new();
    for remark in remarks.iter().take(MAX_REMARKS) {
        let _ = writeln!(list, "- {remark}");
    }
    if remarks.len() > MAX_REMARKS {
        let _ = writeln!(list, "- and {} more remarks like these", remarks.len() - MAX_REMARKS);
    }
    if !words.trim().is_empty() {
        let _ = write!(list, "\n{}", words.trim());
    }
    if list.trim().is_empty() {
        "None that the agent or the program noticed.".to_owned()
    } else {
        list
    }
}

/// What a reviewer should know of one changed file.
fn remarks(change: &Change) -> Vec<String> {
    let path = code(&change.path);
    let lower = change.path.to_lowercase();
    let name = lower.rsplit('/').next().unwrap_or_default();
    let is_test = super::risk::is_test(&change.path);
    let mut remarks = Vec::new();
    match change.status {
        'A' => {}
        'D' if is_test => remarks.push(format!("An existing test was deleted: {path}")),
        _ if is_test => remarks.push(format!("An existing test was edited: {path}")),
        _ => {}
    }
    if name.ends_with(".lock") || matches!(name, "package-lock.json" | "pnpm-lock.yaml" | "go.sum") {
        remarks.push(format!("A lockfile was changed: {path}"));
    }
    if change.binary {
        let size = text::bytes_in_words(change.bytes);
        remarks.push(format!("A binary file was changed: {path} ({size})"));
    }
    remarks
}

/// Where the change comes from and what it cost.
pub(super) fn footer(
    publisher: &Publisher,
    job: &Job,
    import: &Import,
    events: &[Event],
    used: Option<&Used>,
) -> String {
    let language = publisher.language;
    let totals = Totals::of(events.iter().map(|event| &event.body));
    let model = super::status::model_of(events).unwrap_or("an unnamed model");
    let mut cost = money::cost(language, Usd::from_dollars(totals.cost_usd), totals.price_unknown);
    if let Some(used) = used.filter(|used| used.sum > Usd::ZERO) {
        let _ = write!(cost, " ({})", money::used_of(language, used));
    }
    let loud = match totals.price_unknown {
        true => format!(
            "\n> [!WARNING]\n> {}\n",
            money::unpriced(language, &publisher.safe(model))
        ),
        false => String::new(),
    };
    let took = (publisher.clock.now() - job.created_at).to_std().unwrap_or_default();
    format!(
        "{loud}\n---\n<sub>Written by {} with {model} for {} · {} turns, {} tokens in, {} out, {cost} · {} · base {} · job {}</sub>\n",
        publisher.app.name,
        job.request.actor.login,
        totals.turns,
        totals.input_tokens,
        totals.output_tokens,
        text::duration_in_words(took),
        import.base.short(),
        job.id,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &str, side: Side, exit_code: i32) -> CheckRun {
        CheckRun {
            command: command.into(),
            side,
            exit_code: Some(exit_code),
            killed: None,
            took_ms: 1_000,
            output_tail: String::new(),
        }
    }

    fn change(path: &str, status: char) -> Change {
        Change {
            path: path.into(),
            status,
            bytes: 1,
            binary: false,
            lines: (1, 0),
        }
    }

    #[test]
    fn a_command_stays_in_its_cell() {
        let commands = ["a \\| b".to_owned(), "c`d\n| e".to_owned()];
        let table = verification(&Checks {
            commands: &commands,
            base: &[],
            head: &[check(&commands[0], Side::Head, 0)],
        });
        let rows: Vec<&str> = table.lines().filter(|line| line.starts_with('|')).skip(2).collect();
        assert_eq!(
            rows,
            [
                "| <code>a &#92;&#124; b</code> | not run | ✅ exit 0 (1.0 s) |",
                "| <code>c&#96;d &#124; e</code> | not run | not run |",
            ]
        );
    }

    #[test]
    fn a_failing_check_without_a_result_before_is_no_success() {
        let commands = ["t".to_owned()];
        let regressions = |base: &[CheckRun], head: &[CheckRun]| {
            let checks = Checks {
                commands: &commands,
                base,
                head,
            };
            checks.regressions().len()
        };
        let (fails, passes) = (check("t", Side::Base, 1), check("t", Side::Base, 0));
        let after = [check("t", Side::Head, 1)];
        assert_eq!(regressions(&[fails], &after), 0);
        assert_eq!(regressions(&[passes], &after), 1);
        assert_eq!(regressions(&[], &after), 1);
    }

    #[test]
    fn lists_of_files_leave_room_for_the_rest() {
        let many: Vec<Change> = (0..5_000)
            .map(|n| change(&format!("tests/{n}/{}", "x".repeat(4_000)), 'M'))
            .collect();
        assert!(changes(&many).chars().count() < 10_000);
        let noticed = risks("", &many, &[]);
        assert!(
            noticed.chars().count() < 10_000 && noticed.contains("4980 more"),
            "{noticed}"
        );
    }
}
