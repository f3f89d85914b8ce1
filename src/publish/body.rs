//! The words of pull requests and follow-up comments. What the model says is quoted under its
//! headings; what was verified is written by the program from what it ran. Pure text.
//! Never lets a model's text ping, close, trigger or claim a test result.

use std::fmt::Write as _;

use super::template::{self, Kind, Part};
use super::title::Convention;
use super::{Publisher, remark};
use crate::event::{CheckRun, Event, Side, Totals};
use crate::git::{Change, Import};
use crate::job::{Job, Trigger};
use crate::money::Usd;
use crate::phrase::money::{self, Used};
use crate::phrase::{Language, pull as phrase};
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
    /// The command that alone decides whether the work is done; one of `commands`.
    pub acceptance: Option<&'a str>,
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

    /// Whether the command that decides passes, where there is one: after the change, or without one
    /// before it.
    pub fn is_accepted(&self) -> Option<bool> {
        Some(self.last(self.acceptance?).is_some_and(CheckRun::passed))
    }

    /// The last result of a command.
    pub(super) fn last(&self, command: &str) -> Option<&CheckRun> {
        self.of(Side::Head, command).or_else(|| self.of(Side::Base, command))
    }

    /// Every command ran on the change and passed; without any nothing is verified.
    pub fn all_passed(&self) -> bool {
        let passed = |command: &String| self.of(Side::Head, command).is_some_and(CheckRun::passed);
        !self.commands.is_empty() && self.commands.iter().all(passed)
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

/// The line of a pull request that no issue asked for: what planned it.
pub(super) fn planned_by(publisher: &Publisher, job: &Job) -> String {
    let language = publisher.language;
    match &job.request.trigger {
        Trigger::Schedule { name, fire_at } => {
            let at = fire_at.format("%Y-%m-%d %H:%M UTC").to_string();
            phrase::by_schedule(language, &code(name), &at)
        }
        Trigger::Milestone { graph, milestone, .. } => phrase::by_milestone(language, &code(milestone), &code(graph)),
        _ => phrase::by_task(language, &code(&job.subject.to_string())),
    }
}

/// One line without markup, controls or words that steer other tools.
pub(super) fn title(publisher: &Publisher, title: &str) -> String {
    let clean = publisher.plain(title, MAX_MESSAGE_CHARS).replace('`', "'");
    let line = clean.lines().map(str::trim).find(|line| !line.is_empty());
    text::cap_chars(line.unwrap_or(phrase::untitled(publisher.language)), MAX_TITLE_CHARS)
}

/// The same in the form that the repository's titles have.
pub(super) fn title_like(publisher: &Publisher, title: &str, convention: &Convention, import: &Import) -> String {
    let clean = self::title(publisher, title);
    let paths: Vec<&str> = import.changes.iter().map(|change| change.path.as_str()).collect();
    // Scopes and areas are words of strangers, and a prefix can make a keyword of what follows it.
    self::title(publisher, &convention.apply(&clean, &paths))
}

/// A commit message: the title in a line of its own, then words of the agent or the program.
pub(super) fn message(publisher: &Publisher, title: &str, words: &str) -> String {
    format!("{title}\n\n{}\n", publisher.plain(words, MAX_MESSAGE_CHARS).trim())
}

/// What the body of a pull request is made from, beside the words.
pub(super) struct Frame<'a> {
    /// The line that names the issue.
    pub(super) issue: &'a str,
    /// The repository's template.
    pub(super) template: Option<&'a str>,
    /// The last line.
    pub(super) footer: &'a str,
}

/// The body of a pull request.
pub(super) fn pull(
    publisher: &Publisher,
    import: &Import,
    words: &Words<'_>,
    checks: &Checks<'_>,
    frame: &Frame<'_>,
) -> String {
    let language = publisher.language;
    let notice = words.notice.map(|notice| format!("\n\n> [!NOTE]\n> {notice}"));
    let mut parts = parts(publisher, import, words, checks);
    parts.push(Part {
        kind: Kind::Issue,
        heading: "",
        content: format!("{}{}", frame.issue, notice.unwrap_or_default()),
    });
    let whole = |body: String| format!("{body}{}", frame.footer);
    let filled = frame.template.map(|template| {
        let safe = |text: &str| publisher.safe(text);
        whole(template::fill(template, &parts, phrase::not_filled(language), &safe))
    });
    // What is too long with the template is cut in nothing but the template.
    let fits = |body: &String| body.chars().count() <= text::MAX_COMMENT_CHARS;
    let body = filled.filter(fits).unwrap_or_else(|| whole(template::plain(&parts)));
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
    for part in parts(publisher, import, words, checks) {
        section(&mut body, part.heading, &part.content);
    }
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
    let headings = phrase::headings(publisher.language);
    let mut body = format!("{lead}\n");
    for part in parts(publisher, import, words, checks) {
        match part.kind {
            Kind::Summary if words.summary.is_empty() => {}
            Kind::Changes if import.changes.is_empty() => {}
            Kind::Changes => section(&mut body, headings.merge, &part.content),
            Kind::NotDone => {}
            _ => section(&mut body, part.heading, &part.content),
        }
    }
    text::cap_markdown(&body, MAX_DETAILS_CHARS)
}

/// The sections of a change, in order.
fn parts(publisher: &Publisher, import: &Import, words: &Words<'_>, checks: &Checks<'_>) -> Vec<Part> {
    let language = publisher.language;
    let headings = phrase::headings(language);
    let safe = |text: &str| publisher.safe_within(text, MAX_WORDS_CHARS);
    let risks = risks(language, &safe(words.risks), &import.changes, words.noticed);
    let not_done = match safe(words.not_done) {
        words if words.trim().is_empty() => phrase::nothing_left(language).to_owned(),
        words => words,
    };
    let part = |kind, heading, content| Part { kind, heading, content };
    vec![
        part(
            Kind::Summary,
            headings.summary,
            publisher.safe_within(words.summary, MAX_SUMMARY_CHARS),
        ),
        part(Kind::Changes, headings.changes, changes(language, &import.changes)),
        part(
            Kind::Verification,
            headings.verification,
            verification(language, checks),
        ),
        part(Kind::Risks, headings.risks, risks),
        part(Kind::NotDone, headings.not_done, not_done),
    ]
}

fn section(body: &mut String, heading: &str, content: &str) {
    let _ = write!(body, "\n## {heading}\n\n{}\n", content.trim());
}

fn changes(language: Language, changes: &[Change]) -> String {
    let mut list = String::new();
    for change in changes.iter().take(MAX_LISTED_FILES) {
        let size = match change.binary {
            true => phrase::binary(language).to_owned(),
            false => format!("+{} −{}", change.lines.0, change.lines.1),
        };
        let line = phrase::file(language, change.status, &code(&change.path), &size);
        let _ = writeln!(list, "{line}");
    }
    if changes.len() > MAX_LISTED_FILES {
        let more = phrase::more_files(language, changes.len() - MAX_LISTED_FILES);
        let _ = writeln!(list, "{more}");
    }
    list
}

/// A path or command as code that fits into a line and a cell.
fn code(text: &str) -> String {
    text::code_span(&text::cap_chars(text, MAX_CODE_CHARS))
}

/// The table of commands with exit codes on both sides.
fn verification(language: Language, checks: &Checks<'_>) -> String {
    if checks.commands.is_empty() {
        return phrase::no_checks(language).to_owned();
    }
    let mut table = phrase::table(language).to_owned();
    for command in checks.commands {
        let cell = |side| {
            let ran = checks.of(side, command);
            ran.map_or_else(
                || phrase::not_run(language).to_owned(),
                |check| result_cell(language, check),
            )
        };
        let _ = writeln!(
            table,
            "| {} | {} | {} |",
            code(command),
            cell(Side::Base),
            cell(Side::Head)
        );
    }
    let _ = writeln!(table, "\n{}", phrase::about_table(language));
    for command in checks.commands {
        let before = checks.of(Side::Base, command);
        let after = checks.of(Side::Head, command);
        if let (Some(before), Some(after)) = (before, after)
            && !before.passed()
            && after.passed()
        {
            let _ = writeln!(table, "\n{}", phrase::repaired(language, &code(command)));
        }
    }
    table
}

fn result_cell(language: Language, check: &CheckRun) -> String {
    let took = text::duration_in_words(std::time::Duration::from_millis(check.took_ms));
    match (check.exit_code, &check.killed) {
        (Some(code), _) => phrase::exit(language, code, &took),
        (None, Some(killed)) => format!("❌ {}", killed.replace(['|', '\n'], " ")),
        (None, None) => format!("❌ {}", phrase::no_exit_code(language)),
    }
}

/// The agent's own words and what the program noticed in the diff.
fn risks(language: Language, words: &str, changes: &[Change], noticed: &[String]) -> String {
    let mut remarks = noticed.to_vec();
    remarks.extend(remark::remarks_of(language, changes));
    let mut list = String::new();
    for remark in remarks.iter().take(MAX_REMARKS) {
        let _ = writeln!(list, "- {remark}");
    }
    if remarks.len() > MAX_REMARKS {
        let more = phrase::more_remarks(language, remarks.len() - MAX_REMARKS);
        let _ = writeln!(list, "- {more}");
    }
    if !words.trim().is_empty() {
        let _ = write!(list, "\n{}", words.trim());
    }
    if list.trim().is_empty() {
        phrase::no_risks(language).to_owned()
    } else {
        list
    }
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
    let model = super::status::model_of(events).unwrap_or(phrase::unnamed_model(language));
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
    let spent = phrase::tokens(language, totals.turns, totals.input_tokens, totals.output_tokens);
    let origin = phrase::origin(
        language,
        &phrase::Origin {
            app: &publisher.app.name,
            model,
            asker: &job.request.actor.login,
            spent: &format!("{spent}, {cost}"),
            took: &text::duration_in_words(took),
            base: import.base.short(),
            job: job.id.as_str(),
        },
    );
    format!("{loud}\n---\n<sub>{origin}</sub>\n")
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
        let table = verification(
            Language::English,
            &Checks {
                commands: &commands,
                base: &[],
                head: &[check(&commands[0], Side::Head, 0)],
                acceptance: None,
            },
        );
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
                acceptance: None,
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
        assert!(changes(Language::English, &many).chars().count() < 10_000);
        let noticed = risks(Language::English, "", &many, &[]);
        assert!(
            noticed.chars().count() < 10_000 && noticed.contains("4980 more"),
            "{noticed}"
        );
    }
}
