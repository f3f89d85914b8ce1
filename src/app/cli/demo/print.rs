//! What a person would see on GitHub, printed: the pull request with its diff, the conversation, the
//! commits, and where the time went. Never prints what GitHub would not show.

use std::time::Duration;

use anyhow::Context as _;

use crate::demo::double::GitHubDouble;
use crate::demo::story;
use crate::event::{Event, RunEvent, Stage};
use crate::job::Job;
use crate::text;

/// Characters of a heading's line.
const WIDTH: usize = 80;

/// Something that somebody did.
pub(super) fn act(what: &str) {
    say!("▶ {what}");
}

pub(super) fn heading(text: &str) {
    let rest = WIDTH.saturating_sub(text.chars().count() + 4);
    say!("\n━━ {text} {}\n", "━".repeat(rest));
}

/// The pull request with its diff.
pub(super) async fn pull(double: &GitHubDouble, number: u64) -> anyhow::Result<()> {
    let pulls = double.pulls(story::REPO)?;
    let pull = pulls
        .into_iter()
        .find(|pull| pull.number == number)
        .context("the pull request is not there")?;
    let kind = if pull.draft {
        "Draft pull request"
    } else {
        "Pull request"
    };
    heading(&format!("{kind} #{number}"));
    let issue = double.issue(story::REPO, number)?;
    say!("{}\n{} → {}\n", issue.title, pull.head, pull.base);
    say!("{}", visible(issue.body.as_deref().unwrap_or_default()));
    heading("Its diff");
    let diff = double.diff(story::REPO, &pull.base, &pull.head).await?;
    say!("{}", diff.trim_end());
    Ok(())
}

/// The program's comments on an issue or pull request.
pub(super) fn conversation(double: &GitHubDouble, number: u64) -> anyhow::Result<()> {
    for comment in double.comments(story::REPO, number)? {
        let login = double.login(comment.author);
        // What the person said was printed when it was said.
        if login != story::MAINTAINER {
            heading(&format!("Comment by {login} on #{number}"));
            say!("{}", visible(&comment.body));
        }
    }
    Ok(())
}

/// Subjects of the commits on a branch, newest first.
pub(super) async fn commits(double: &GitHubDouble, branch: &str) -> anyhow::Result<()> {
    heading(&format!("Commits on {branch}, newest first"));
    for subject in double.commits(story::REPO, branch).await? {
        say!("  {subject}");
    }
    Ok(())
}

/// Where the time went, from the job's own log.
pub(super) fn times(job: &Job, events: &[Event]) {
    heading("Where the time went");
    let row = |what: &str, took: Duration| say!("  {what:36}{:>9}", text::duration_in_words(took));
    let stages = [Stage::Brief, Stage::Open, Stage::SetUp, Stage::Solve, Stage::Verify];
    for stage in stages {
        row(stage.words(), took_in(events, stage));
        if stage == Stage::Solve {
            let (mut model, mut tools) = (0, 0);
            for event in events {
                match &event.body {
                    RunEvent::ModelReplied { took_ms, .. } => model += took_ms,
                    RunEvent::ToolCalled { took_ms, .. } => tools += took_ms,
                    _ => {}
                }
            }
            row("  the model's replies", Duration::from_millis(model));
            row("  its tool calls", Duration::from_millis(tools));
        }
    }
    let Some(end) = job.finished_at else { return };
    let publish = RunEvent::StageStarted { stage: Stage::Publish };
    if let Some(started) = events.iter().find(|event| event.body == publish) {
        row(Stage::Publish.words(), (end - started.at).to_std().unwrap_or_default());
    }
    row(
        "From the webhook to the end",
        (end - job.created_at).to_std().unwrap_or_default(),
    );
}

fn took_in(events: &[Event], wanted: Stage) -> Duration {
    let took = events.iter().filter_map(|event| match &event.body {
        RunEvent::StageFinished { stage, took_ms } if *stage == wanted => Some(*took_ms),
        _ => None,
    });
    Duration::from_millis(took.sum())
}

/// What GitHub would show of Markdown: without HTML comments, small print without its tags, tables
/// in columns, and never two blank lines together.
fn visible(markdown: &str) -> String {
    let mut shown: Vec<String> = Vec::new();
    let mut table: Vec<&str> = Vec::new();
    for line in markdown.lines().filter(|line| !line.starts_with("<!--")) {
        if line.starts_with('|') {
            table.push(line);
            continue;
        }
        shown.append(&mut in_columns(&table));
        table.clear();
        let line = line.replace("<sub>", "").replace("</sub>", "");
        let doubled = line.is_empty() && shown.last().is_none_or(String::is_empty);
        if !doubled {
            shown.push(line);
        }
    }
    shown.append(&mut in_columns(&table));
    shown.join("\n").trim_end().to_owned()
}

/// The rows of a table, each cell as wide as the widest of its column.
fn in_columns(table: &[&str]) -> Vec<String> {
    let is_rule = |row: &&&str| row.chars().all(|c| "|-: ".contains(c));
    let cells = |row: &&str| -> Vec<String> {
        let inner = row.trim().trim_matches('|');
        inner.split('|').map(|cell| cell.trim().replace('`', "")).collect()
    };
    let rows: Vec<Vec<String>> = table.iter().filter(|row| !is_rule(row)).map(cells).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| columns(cell)).max().unwrap_or(0)
    };
    let padded = |row: &Vec<String>| {
        let cells = row.iter().enumerate();
        let cells = cells.map(|(at, cell)| format!("{cell}{}", " ".repeat(width(at) - columns(cell))));
        format!("  {}", cells.collect::<Vec<_>>().join("  "))
            .trim_end()
            .to_owned()
    };
    rows.iter().map(padded).collect()
}

/// Columns of a terminal that a text takes: the marks of a check take two.
fn columns(text: &str) -> usize {
    text.chars().map(|c| if "✅❌".contains(c) { 2 } else { 1 }).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_is_shown_without_what_people_do_not_see() {
        let markdown = "<!-- forgehand 1 -->\n\n### Done\n\n\n<sub>by a bot</sub>\n";
        assert_eq!(visible(markdown), "### Done\n\nby a bot");
    }

    #[test]
    fn tables_stand_in_columns() {
        let markdown = "a\n| command | before | after |\n|---|---|---|\n| `make` | ❌ exit 2 | ✅ exit 0 |\nb";
        let shown = "a\n  command  before     after\n  make     ❌ exit 2  ✅ exit 0\nb";
        assert_eq!(visible(markdown), shown);
    }
}
