//! `forgehand autotask status`: the queues as the database knows them. Never asks GitHub.

use std::process::ExitCode;

use serde_json::json;

use super::{is_on, key_of};
use crate::app::App;
use crate::app::cli::show;
use crate::clock::Clock;
use crate::ids::RepoName;
use crate::money::Usd;
use crate::store::{AutotaskSwitch, ItemState, QueueCursor, QueueItem};
use crate::text;
use crate::unattended::autotask::Looked;

/// What there is to know of a queue.
struct Seen {
    repo: RepoName,
    is_on: bool,
    switch: Option<AutotaskSwitch>,
    cursor: Option<QueueCursor>,
    items: Vec<QueueItem>,
    active: u32,
    spent: Usd,
}

pub(super) async fn run(app: &App, targets: &[RepoName], as_json: bool) -> anyhow::Result<ExitCode> {
    let query = app.config().autotask.effective_query();
    let mut all = Vec::new();
    for repo in targets {
        all.push(see(app, &query, repo).await?);
    }
    let caps = &app.config().autotask;
    if as_json {
        let of = |seen: &Seen| {
            json!({
                "repository": seen.repo, "on": seen.is_on, "switch": seen.switch, "cursor": seen.cursor,
                "items": seen.items, "active": seen.active, "spent_today_micro_usd": seen.spent.micros(),
            })
        };
        let repositories: Vec<_> = all.iter().map(of).collect();
        let caps = json!({
            "max_active": caps.max_active, "max_open_pulls": caps.max_open_pulls, "max_day_usd": caps.max_day_usd,
        });
        show::json(&json!({"query": query, "caps": caps, "repositories": repositories}))?;
        return Ok(ExitCode::SUCCESS);
    }
    say!("query: {query}");
    for seen in &all {
        print(app, seen);
    }
    Ok(ExitCode::SUCCESS)
}

async fn see(app: &App, query: &str, repo: &RepoName) -> anyhow::Result<Seen> {
    let store = app.store();
    let key = key_of(store, query, repo).await?;
    let is_on = is_on(store, app.config(), repo).await?;
    let mut tx = store.begin().await?;
    let switches = tx.autotask_switches().await?;
    let is_of = |switch: &AutotaskSwitch| switch.repo.as_str().eq_ignore_ascii_case(repo.as_str());
    let mut seen = Seen {
        repo: repo.clone(),
        is_on,
        switch: switches.into_iter().rev().find(is_of),
        cursor: None,
        items: Vec::new(),
        active: 0,
        spent: Usd::ZERO,
    };
    if let Some(key) = key {
        seen.cursor = tx.queue_cursor(key).await?;
        seen.items = tx.queue_items(key).await?;
        seen.active = tx.queue_jobs_open(key.repo).await?;
        seen.spent = tx.queue_spent(key.repo, Clock::System.now()).await?;
    }
    Ok(seen)
}

fn print(app: &App, seen: &Seen) {
    let by = match &seen.switch {
        Some(switch) => format!(" since {} UTC, by {}", show::time(switch.at), switch.by),
        None => " by the configuration".to_owned(),
    };
    say!("\n{}: {}{by}", seen.repo, if seen.is_on { "on" } else { "off" });
    match &seen.cursor {
        None => say!("  nobody looked yet"),
        Some(cursor) => print_cursor(cursor),
    }
    let caps = &app.config().autotask;
    let pulls = match caps.max_open_pulls {
        0 => "any number of open pull requests".to_owned(),
        most => format!("at most {most} open pull requests"),
    };
    let cap = match caps.max_day_usd {
        0.0 => "without a cap".to_owned(),
        most => format!("of {}", Usd::from_dollars(most)),
    };
    say!(
        "  {} of {} at work · {} {cap} spent today · {pulls}",
        seen.active,
        caps.max_active,
        seen.spent
    );
    for item in seen.items.iter().filter(|item| item.state != ItemState::Left) {
        let by = item
            .asked_by
            .as_deref()
            .map(|login| format!("  by {login}"))
            .unwrap_or_default();
        let job = item.job.as_ref().map(|job| format!("  job {job}")).unwrap_or_default();
        let reason = text::cap_chars(&text::plain_output(&item.reason), 120);
        say!("  #{:<6} {:8}{by}{job}  {reason}", item.number.0, item.state);
    }
}

fn print_cursor(cursor: &QueueCursor) {
    let looked = Looked {
        selected: cursor.selected,
        open_items: cursor.open_items,
        ..Looked::default()
    };
    let at = |at: Option<chrono::DateTime<chrono::Utc>>| at.map_or_else(|| "never".to_owned(), show::time);
    say!("  {}", looked.selection());
    say!(
        "  last look {} · last read {} · next look {} (UTC)",
        at(cursor.looked_at),
        at(cursor.read_at),
        show::time(cursor.next_at)
    );
    if let Some(problem) = &cursor.problem {
        let failures = cursor.failures;
        say!(
            "  not read: {} ({failures} in a row)",
            text::cap_chars(&text::plain_output(problem), 300)
        );
    }
}
