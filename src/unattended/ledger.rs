//! The ledger of unattended runs: each job that nobody waited for gets one record when it is over, with
//! the alert about it in the same transaction; old records move to files.
//! Never writes a second record of a round, and never changes one.

use std::path::{Path, PathBuf};

use chrono::{DateTime, TimeDelta, Utc};

use super::Alerts;
use crate::clock::Clock;
use crate::closed;
use crate::event::{RunEvent, Totals};
use crate::ids::JobId;
use crate::mission::{Counts, Mission};
use crate::store::{Store, StoreError, Tx};

/// Jobs accounted for in one pass.
const BATCH: u32 = 50;
/// Events read in one statement.
const PAGE: u32 = 500;
/// Records moved in one transaction.
const MOVED: u32 = 200;
/// Folder of old records within the state folder.
const FOLDER: &str = "ledger";

/// Why old records stay where they are.
#[derive(Debug, thiserror::Error)]
pub enum RotateError {
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The files.
    #[error("the folder {0}: {1}")]
    Files(PathBuf, std::io::Error),
}

/// One pass: writes the records that are missing of jobs that ended less than `keep` ago; returns how many.
///
/// # Errors
/// Those of the database.
pub async fn account(store: &Store, alerts: &Alerts, keep: TimeDelta, clock: &Clock) -> Result<usize, StoreError> {
    let mut tx = store.begin().await?;
    let jobs = tx.unaccounted_jobs(clock.now() - keep, BATCH).await?;
    drop(tx);
    let mut written = 0;
    for id in jobs {
        let mut tx = store.begin().await?;
        if let Some(mission) = mission_of(&mut tx, &id, clock.now()).await? {
            written += usize::from(note(&mut tx, &mission, alerts, clock).await?);
            tx.commit().await?;
        }
    }
    Ok(written)
}

/// Adds a record with the alert about it. False: it is there already.
///
/// # Errors
/// Those of the database.
pub async fn note(tx: &mut Tx, mission: &Mission, alerts: &Alerts, clock: &Clock) -> Result<bool, StoreError> {
    let is_new = tx.insert_mission(mission).await?;
    if is_new {
        alerts.tell(tx, mission, clock.now()).await?;
    }
    Ok(is_new)
}

async fn mission_of(tx: &mut Tx, id: &JobId, now: DateTime<Utc>) -> Result<Option<Mission>, StoreError> {
    let Some(job) = tx.job(id).await? else { return Ok(None) };
    let Some(mut mission) = Mission::of(&job, JobId::new(now).to_string()) else {
        return Ok(None);
    };
    let (mut totals, mut seen) = (Totals::default(), 0);
    loop {
        let page = tx.events(id, seen, PAGE).await?;
        let Some(last) = page.last() else { break };
        seen = last.seq;
        for event in &page {
            totals.add(&event.body);
            if matches!(event.body, RunEvent::ToolCalled { .. }) {
                mission.counts.tool_calls += 1;
            }
        }
    }
    mission.counts = Counts {
        turns: totals.turns,
        input_tokens: totals.input_tokens,
        output_tokens: totals.output_tokens,
        ..mission.counts
    };
    mission.cost_usd = totals.cost_usd;
    mission.price_unknown = totals.price_unknown;
    Ok(Some(mission))
}

/// Moves records that ended before `keep` ago into files of the state folder, one for each month, a
/// record a line. What a crash leaves in both places is found once by its id.
///
/// # Errors
/// [`RotateError`]; nothing is lost.
pub async fn rotate(store: &Store, state_dir: &Path, keep: TimeDelta, clock: &Clock) -> Result<usize, RotateError> {
    let folder = state_dir.join(FOLDER);
    let mut moved = 0;
    loop {
        let mut tx = store.begin().await?;
        let old = tx.take_missions_before(clock.now() - keep, MOVED).await?;
        if old.is_empty() {
            return Ok(moved);
        }
        moved += old.len();
        let into = folder.clone();
        let written = tokio::task::spawn_blocking(move || append(&into, &old)).await;
        written
            .map_err(std::io::Error::other)
            .and_then(|written| written)
            .map_err(|error| RotateError::Files(folder.clone(), error))?;
        tx.commit().await?;
    }
}

/// On the disk before the rows go.
fn append(folder: &Path, missions: &[Mission]) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    closed::make_folder(folder)?;
    for mission in missions {
        let file = folder.join(format!("{}.jsonl", mission.ended.format("%Y-%m")));
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(file)?;
        let line = serde_json::to_string(mission).map_err(std::io::Error::other)?;
        file.write_all(format!("{line}\n").as_bytes())?;
        file.sync_data()?;
    }
    Ok(())
}

/// The records in the files of a state folder, the oldest first, each once.
///
/// # Errors
/// When a file cannot be read, with its name.
pub fn rotated(state_dir: &Path) -> Result<Vec<Mission>, RotateError> {
    let folder = state_dir.join(FOLDER);
    let failed = |error| RotateError::Files(folder.clone(), error);
    let mut files: Vec<PathBuf> = match std::fs::read_dir(&folder) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    files.retain(|file| file.extension().is_some_and(|end| end == "jsonl"));
    files.sort();
    let mut missions: Vec<Mission> = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(failed)?;
        // A line that a crash cut is in the database still.
        missions.extend(text.lines().filter_map(|line| serde_json::from_str(line).ok()));
    }
    missions.sort_by(|a, b| a.id.cmp(&b.id));
    missions.dedup_by(|a, b| a.id == b.id);
    Ok(missions)
}
