//! The ledger's record of a local run that nobody watched, and the alert about it. Never fails the run
//! that it tells of, and never holds it up for longer than one message may take.

use chrono::{DateTime, Utc};

use super::args::{Args, Presence};
use super::ending::Ending;
use super::local::Done;
use super::site::Site;
use super::workgraph::Told;
use crate::app::cli::milestones::store_of;
use crate::clock::Clock;
use crate::config::Config;
use crate::event::Totals;
use crate::ids::JobId;
use crate::mission::{Cause, Counts, Left, MilestoneEnd, Mission, MissionState};
use crate::text;
use crate::unattended::{Alerts, ledger};

/// Longest task in a record, in bytes.
const MAX_SUBJECT_BYTES: usize = 120;

/// Writes the record of one task.
pub(super) async fn of_task(
    site: &Site,
    args: &Args,
    task: &str,
    done: &Done,
    ended: (&str, Ending),
    reason: Option<&str>,
) {
    if args.presence() == Presence::Attended {
        return;
    }
    let (outcome, ending) = ended;
    let state = match (outcome, ending) {
        ("nothing_to_do", _) => MissionState::NothingToDo,
        ("cancelled", _) => MissionState::Stopped,
        ("refused", _) => MissionState::Refused,
        (_, Ending::Done) => MissionState::Done,
        (_, Ending::Limit) => MissionState::Limit,
        (_, Ending::Error) => MissionState::Failed,
        _ => MissionState::Stuck,
    };
    let subject = text::slug(task.trim().lines().next().unwrap_or_default(), MAX_SUBJECT_BYTES);
    let mission = Mission {
        subject: format!("task/{subject}"),
        cause: Cause::CommandLine,
        state,
        reason: reason.unwrap_or_default().to_owned(),
        commits: done.left.iter().map(left).collect(),
        ..begun(site, done.took, &done.totals)
    };
    note_down(&site.config, mission).await;
}

/// Writes the record of a call that worked on a graph.
pub(super) async fn of_graph(site: &Site, args: &Args, told: &Told<'_>) {
    if args.presence() == Presence::Attended {
        return;
    }
    let mission = Mission {
        subject: format!("graph/{}", told.name),
        cause: Cause::Graph {
            graph: told.name.to_owned(),
        },
        state: told.state,
        reason: told.reason.clone(),
        milestones: told.graph.map(MilestoneEnd::all).unwrap_or_default(),
        commits: told.left.iter().map(left).collect(),
        ..begun(site, told.took, &told.totals)
    };
    note_down(&site.config, mission).await;
}

fn left((branch, sha): &(crate::ids::BranchName, crate::ids::CommitSha)) -> Left {
    Left {
        branch: branch.clone(),
        sha: Some(sha.clone()),
    }
}

/// What every record has.
fn begun(site: &Site, took: std::time::Duration, totals: &Totals) -> Mission {
    let ended: DateTime<Utc> = Clock::System.now();
    Mission {
        id: JobId::new(ended).to_string(),
        began: ended - chrono::TimeDelta::from_std(took).unwrap_or_default(),
        ended,
        repository: format!("local/{}", site.repo.root.display()),
        subject: String::new(),
        cause: Cause::CommandLine,
        state: MissionState::Done,
        reason: String::new(),
        job: None,
        round: 0,
        milestones: Vec::new(),
        counts: Counts {
            turns: totals.turns,
            tool_calls: 0,
            input_tokens: totals.input_tokens,
            output_tokens: totals.output_tokens,
            attempts: 1,
        },
        cost_usd: totals.cost_usd,
        price_unknown: totals.price_unknown,
        commits: Vec::new(),
        pull: None,
    }
}

async fn note_down(config: &Config, mut mission: Mission) {
    mission.reason = text::cap_middle(&mission.reason, crate::mission::MAX_REASON_BYTES);
    let alerts = Alerts::new(&config.alert);
    let writing = async {
        let store = store_of(config).await?;
        let mut tx = store.begin().await?;
        ledger::note(&mut tx, &mission, &alerts, &Clock::System).await?;
        tx.commit().await?;
        // What is not taken now goes with a later run, or with the service on this database.
        let sending = alerts.send_due(&store, &Clock::System);
        let sent = tokio::time::timeout(config.alert.timeout_seconds, sending).await;
        store.close().await;
        sent.unwrap_or(Ok(0))?;
        anyhow::Ok(())
    };
    if let Err(error) = writing.await {
        note!("forgehand: the ledger has no record of this run: {error:#}");
    }
}
