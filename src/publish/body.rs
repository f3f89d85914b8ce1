//! The words of pull requests and follow-up comments. What the model says is quoted under its
//! headings; what was verified is written by the program from what it ran. Pure text.
//! Never lets a model's text ping, close, trigger or claim a test result.

use std::fmt::Write as _;

use super::Publisher;
use crate::event::{CheckRun, Event, Side, Totals};
use crate::git::{Change, Import};
use crate::ids::IssueNumber;
use crate::job::Job;
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
    /// Commands that passed before and do not pass after.
    pub fn regressions(&self) -> Vec<String> {
        let failing = self.head.iter().filter(|check| !check.passed());
        failing
            .filter(|check| {
                self.base
                    .iter()
                    .any(|base| base.command == check.command && base.passed())
            })
            .map(|check| format!("`{}`", check.command))
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
/// Most files listed by name.
const MAX_LISTED_FILES: usize = 30;

/// One line without markup, controls or words that steer other tools.
pub(super) fn title(publisher: &Publisher, title: &str) -> String {
    let line = title
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or("Change made by the agent");
    let clean = publisher
        .safe(line)
        .replace("[skip ci]", "")
        .replace("[ci skip]", "")
        .replace('`', "'");
    text::cap_chars(clean.trim(), MAX_TITLE_CHARS)
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
    sections(publisher, &mut body, import, words, checks);
    body.push_str(footer);
    text::cap_chars(&body, text::MAX_COMMENT_CHARS)
}

/// What the status comment says of new commits on an existing pull request.
pub(super) fn follow_up(publisher: &Publisher, import: &Import, words: &Words<'_>, checks: &Checks<'_>) -> String {
    let mut body = format!("**{}**\n", title(publisher, words.title));
    sections(publisher, &mut body, import, words, checks);
    text::cap_chars(&body, MAX_DETAILS_CHARS)
}

fn sections(publisher: &Publisher, body: &mut String, import: &Import, words: &Words<'_>, checks: &Checks<'_>) {
    section(body, "Summary", &publisher.safe(words.summary));
    section(body, "Changes", &changes(&import.changes));
    section(body, "Verification", &verification(checks));
    section(body, "Risks", &risks(publisher, words.risks, &import.changes));
    section(body, "Not done", &or_nothing(publisher.safe(words.not_done)));
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
        let _ = writeln!(list, "- `{}` {what} ({size})", change.path.replace('`', "'"));
    }
    if changes.len() > MAX_LISTED_FILES {
        let _ = writeln!(list, "- and {} more files", changes.len() - MAX_LISTED_FILES);
    }
    list
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
        let shown = text::cap_chars(command, 200)
            .replace('|', "\\|")
            .replace('`', "'")
            .replace('\n', " ");
        let _ = writeln!(table, "| `{shown}` | {} | {} |", cell(Side::Base), cell(Side::Head));
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
                "\n`{}` failed before this change and passes with it.",
                text::cap_chars(command, 200).replace('`', "'")
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
        (None, Some(killed)) => format!("❌ {killed}"),
        (None, None) => "❌ no exit code".to_owned(),
    }
}

/// The agent's own words and what the program noticed in the diff.
fn risks(publisher: &Publisher, words: &str, changes: &[Change]) -> String {
    let mut list = String::new();
    for change in changes {
        let path = change.path.replace('`', "'");
        let lower = path.to_lowercase();
        let name = lower.rsplit('/').next().unwrap_or_default();
        let is_test = lower
            .split('/')
            .any(|part| matches!(part, "test" | "tests" | "spec" | "__tests__"))
            || name.contains("test");
        if is_test && change.status != 'A' {
            let _ = writeln!(
                list,
                "- An existing test was {}: `{path}`",
                if change.status == 'D' { "deleted" } else { "edited" }
            );
        }
        if name.ends_with(".lock") || matches!(name, "package-lock.json" | "pnpm-lock.yaml" | "go.sum") {
            let _ = writeln!(list, "- A lockfile was changed: `{path}`");
        }
        if change.binary {
            let _ = writeln!(
                list,
                "- A binary file was changed: `{path}` ({})",
                text::bytes_in_words(change.bytes)
            );
        }
    }
    let words = publisher.safe(words);
    if !words.trim().is_empty() {
        let _ = write!(list, "\n{}", words.trim());
    }
    if list.trim().is_empty() {
        "None that the agent or the program noticed.".to_owned()
    } else {
        list
    }
}

/// Where the change comes from and what it cost.
pub(super) fn footer(publisher: &Publisher, job: &Job, import: &Import, events: &[Event]) -> String {
    let totals = Totals::of(events.iter().map(|event| &event.body));
    let model = super::status::model_of(events).unwrap_or("an unnamed model");
    let cost = if totals.price_unknown {
        "price unknown".to_owned()
    } else {
        format!("${:.2}", totals.cost_usd)
    };
    let took = (publisher.clock.now() - job.created_at).to_std().unwrap_or_default();
    format!(
        "\n---\n<sub>Written by {} with {model} for {} · {} turns, {} tokens in, {} out, {cost} · {} · base {} · job {}</sub>\n",
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
