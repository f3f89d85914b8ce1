//! What keeps the database and the state folder from growing for ever: jobs that are long over go into
//! files, one each, and leave the database after that; old rows and files go; in small steps, each safe
//! to repeat after a crash at any point. Called by maintenance and by the command line.
//! Never removes a row of a job before its file is on the disk.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::audit::{Act, Action};
use crate::clock::Clock;
use crate::config::RetentionConfig;
use crate::git;
use crate::ids::{JobId, RepoId};
use crate::job::JobState;
use crate::secret::random_hex;
use crate::store::{AuditFilter, Gone, JobFilter, JobTable, Old, OldJob, Store, StoreError, Tx};

mod file;
mod folder;

pub use file::{Archive, archive_path, read_archive};

/// Whose turn it is, in the table of turns.
const UPKEEP: &str = "retention";
/// How long a turn lasts without a sign of life: longer than any step.
const TURN_SECONDS: u32 = 120;
/// Jobs looked for in one statement.
const JOBS: u32 = 50;
/// Rows of jobs that leave in one transaction, unless a single job has more.
const ROWS: u64 = 2_000;
/// After so much work others get a moment: SQLite gives its lock to whoever happens to ask while it is
/// free, and a process that waits for it asks every tenth of a second.
const WORK: Duration = Duration::from_millis(300);
const MOMENT: Duration = Duration::from_millis(120);
/// Rows of other tables that leave in one transaction.
const DELETED: u32 = 500;
/// Rows of the audit that go into one file and leave in one transaction.
const AUDIT_ROWS: u32 = 2_000;
/// Alerts that were sent or given up are kept so long.
const KEEP_ALERTS: TimeDelta = TimeDelta::days(30);
/// A repository that cannot be looked at for so long keeps no delivery any more.
const LONGEST_KEPT: TimeDelta = TimeDelta::days(90);
/// Rows of a job that are read in one transaction.
const PAGE: u32 = 200;

/// Why something old stays for now.
#[derive(Debug, thiserror::Error)]
pub enum RetentionError {
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The files.
    #[error("the folder {0}: {1}")]
    Files(PathBuf, std::io::Error),
}

/// What it works on.
#[derive(Debug, Clone)]
pub struct Retention {
    /// The database.
    pub store: Store,
    /// Where files go.
    pub state_dir: PathBuf,
    /// How long things are kept.
    pub config: RetentionConfig,
    /// How long records of unattended runs are kept, in days.
    pub keep_records_days: u32,
    /// The time.
    pub clock: Clock,
}

/// What a pass did, or would do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Passed {
    /// Jobs that went into files and left the database.
    pub jobs: u64,
    /// Jobs that stay because somebody began them again meanwhile, or needs them.
    pub jobs_left: u64,
    /// Webhook calls that left.
    pub deliveries: u64,
    /// Fires of schedules that began nothing.
    pub schedule_fires: u64,
    /// Issues of queues that they left long ago.
    pub queue_items: u64,
    /// Switches of issue queues that later ones took the place of.
    pub autotask_switches: u64,
    /// Sums of costs by day.
    pub ledger_days: u64,
    /// Alerts that were sent or given up.
    pub alerts: u64,
    /// Rows of the audit that went into files.
    pub audit_rows: u64,
    /// Files that were removed.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Mirrors that were removed.
    pub mirrors: u64,
}

/// How a pass ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// It was done, as far as there was time.
    Done(Passed),
    /// Another process is at it.
    Another,
}

/// A pass as it goes.
struct Course<'a> {
    /// Whose turn it is.
    holder: &'a str,
    /// When it began.
    now: DateTime<Utc>,
    stop: &'a CancellationToken,
    /// Since when others had no moment.
    worked: Instant,
}

/// A moment so many days ago; nothing for 0, which is for ever.
fn days_ago(now: DateTime<Utc>, days: u32) -> Option<DateTime<Utc>> {
    (days > 0).then(|| now - TimeDelta::days(i64::from(days)))
}

impl Retention {
    /// Moves and removes what is old, until nothing is or `stop`.
    ///
    /// # Errors
    /// [`RetentionError`]; what was done is done, and nothing is lost.
    pub async fn pass(&self, stop: &CancellationToken) -> Result<Turn, RetentionError> {
        let holder = random_hex::<8>();
        if !self.turn(&holder).await? {
            return Ok(Turn::Another);
        }
        let mut passed = Passed::default();
        let done = self.all(&holder, stop, &mut passed).await;
        let mut tx = self.store.begin().await?;
        if let Some(act) = summary(&passed) {
            tx.audit(act);
        }
        tx.leave_upkeep(UPKEEP, &holder).await?;
        tx.commit().await?;
        done.map(|()| Turn::Done(passed))
    }

    /// How many jobs a pass would move now.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn due(&self) -> Result<Passed, StoreError> {
        let mut tx = self.store.begin().await?;
        let jobs = match self.old(self.now(&mut tx).await?) {
            Some(old) => tx.count_old_jobs(old).await?,
            None => 0,
        };
        Ok(Passed {
            jobs: u64::try_from(jobs).unwrap_or(0),
            ..Passed::default()
        })
    }

    async fn all(&self, holder: &str, stop: &CancellationToken, passed: &mut Passed) -> Result<(), RetentionError> {
        let now = self.now(&mut self.store.begin().await?).await?;
        let mut course = Course {
            holder,
            now,
            stop,
            worked: Instant::now(),
        };
        self.move_jobs(&mut course, passed).await?;
        self.remove_rows(&mut course, passed).await?;
        self.move_audit(&mut course, passed).await?;
        self.remove_files(now, passed).await?;
        self.remove_mirrors(now, passed).await
    }

    /// Takes the turn, or says that this process is still there.
    async fn turn(&self, holder: &str) -> Result<bool, StoreError> {
        let mut tx = self.store.begin().await?;
        let taken = tx.take_upkeep(UPKEEP, holder, TURN_SECONDS).await?;
        tx.commit().await?;
        Ok(taken)
    }

    /// Whether a portion follows: nobody stops the pass, and the turn is still its own. Others get their
    /// moment first.
    async fn goes_on(&self, course: &mut Course<'_>) -> Result<bool, StoreError> {
        if course.worked.elapsed() > WORK {
            tokio::time::sleep(MOMENT).await;
            course.worked = Instant::now();
        }
        Ok(!course.stop.is_cancelled() && self.turn(course.holder).await?)
    }

    /// The time by which things are old: the earlier of this process' clock and the database's, so
    /// that one clock that runs ahead makes nothing old.
    async fn now(&self, tx: &mut Tx) -> Result<DateTime<Utc>, StoreError> {
        Ok(self.clock.now().min(tx.db_now().await?))
    }

    fn old(&self, now: DateTime<Utc>) -> Option<Old> {
        Some(Old {
            before: days_ago(now, self.config.runs_days)?,
            records_before: days_ago(now, self.keep_records_days)?,
        })
    }

    async fn move_jobs(&self, course: &mut Course<'_>, passed: &mut Passed) -> Result<(), RetentionError> {
        let Some(old) = self.old(course.now) else { return Ok(()) };
        let mut after: Option<JobId> = None;
        while self.goes_on(course).await? {
            let jobs = {
                let mut tx = self.store.begin().await?;
                tx.old_jobs(old, after.as_ref(), JOBS).await?
            };
            let Some(last) = jobs.last() else { break };
            after = Some(last.id.clone());
            let (mut ready, mut rows) = (Vec::new(), 0);
            for job in jobs {
                if course.stop.is_cancelled() {
                    break;
                }
                let archive = self.archive(&job.id).await?;
                rows += archive.rows;
                ready.push((job, archive));
                if rows >= ROWS {
                    self.remove_jobs(std::mem::take(&mut ready), old, passed).await?;
                    rows = 0;
                }
            }
            self.remove_jobs(ready, old, passed).await?;
        }
        Ok(())
    }

    /// Writes the rows of a job into its file, over one that an interrupted pass left.
    async fn archive(&self, job: &JobId) -> Result<Archive, RetentionError> {
        let path = archive_path(&self.state_dir, job);
        let failed = |error| RetentionError::Files(path.clone(), error);
        let (id, into, at) = (job.clone(), path.clone(), self.clock.now());
        let mut file = off_the_runtime(move || file::Writing::begin(&into, &id, at))
            .await
            .map_err(failed)?;
        for table in JobTable::ALL.iter().copied() {
            let mut seen = 0;
            loop {
                // What is over does not change; if somebody begins it again, it is not removed.
                let page = match table {
                    // One may have many megabytes.
                    JobTable::Checkpoints => 1,
                    _ => PAGE,
                };
                let mut tx = self.store.begin().await?;
                let rows = tx.rows_of_job(table, job, (seen, page)).await?;
                drop(tx);
                let count = u32::try_from(rows.len()).unwrap_or(u32::MAX);
                seen += count;
                if count > 0 {
                    file = off_the_runtime(move || {
                        file.add(table.as_str(), rows)?;
                        Ok(file)
                    })
                    .await
                    .map_err(failed)?;
                }
                if count < page {
                    break;
                }
            }
        }
        off_the_runtime(move || file.end()).await.map_err(failed)
    }

    async fn remove_jobs(
        &self,
        jobs: Vec<(OldJob, Archive)>,
        old: Old,
        passed: &mut Passed,
    ) -> Result<(), RetentionError> {
        if jobs.is_empty() {
            return Ok(());
        }
        let mut tx = self.store.begin().await?;
        let (mut gone, mut stay) = (0, Vec::new());
        for (job, archive) in &jobs {
            let name = archive.path.strip_prefix(&self.state_dir).unwrap_or(&archive.path);
            let act = Act::new(Action::RunArchived)
                .with("file", name.display().to_string())
                .with("machine", machine())
                .with("sha256", archive.sha256.as_str())
                .with("rows", archive.rows);
            match tx.remove_job(job, old, act).await? {
                Gone::Removed => gone += 1,
                Gone::Before => {}
                Gone::Stays => stay.push(archive.path.clone()),
            }
        }
        tx.commit().await?;
        passed.jobs += gone;
        passed.jobs_left += stay.len() as u64;
        for path in stay {
            // It is not archived, and its file would say that it is.
            let shown = path.clone();
            let removed = off_the_runtime(move || std::fs::remove_file(path)).await;
            removed.map_err(|error| RetentionError::Files(shown, error))?;
        }
        Ok(())
    }

    async fn remove_rows(&self, course: &mut Course<'_>, passed: &mut Passed) -> Result<(), RetentionError> {
        let now = course.now;
        while self.goes_on(course).await? {
            let mut tx = self.store.begin().await?;
            let mut more = Portion::default();
            if let Some(before) = days_ago(now, self.config.deliveries_days) {
                // The next look at a repository knows by them what was done already, also after a long downtime.
                let seen = tx.seen_everywhere_to().await?;
                let needed = seen
                    .map_or(now, |seen| seen - TimeDelta::days(1))
                    .max(now - LONGEST_KEPT);
                let before = before.min(needed);
                passed.deliveries += more.of(tx.delete_deliveries(before, DELETED).await?);
            }
            if let Some(before) = days_ago(now, self.config.runs_days) {
                passed.schedule_fires += more.of(tx.forget_fires_before(before, DELETED).await?);
                passed.queue_items += more.of(tx.forget_left_items(before, DELETED).await?);
                passed.autotask_switches += more.of(tx.forget_switches(before, DELETED).await?);
            }
            if let Some(before) = days_ago(now, self.config.costs_days) {
                passed.ledger_days += more.of(tx.forget_costs(before.date_naive(), DELETED).await?);
            }
            passed.alerts += tx.delete_alerts(now - KEEP_ALERTS).await?;
            tx.commit().await?;
            if !more.is_full {
                break;
            }
        }
        Ok(())
    }

    /// The oldest rows of the audit, always from the beginning of the chain and never its last row.
    async fn move_audit(&self, course: &mut Course<'_>, passed: &mut Passed) -> Result<(), RetentionError> {
        let Some(before) = days_ago(course.now, self.config.audit_days) else {
            return Ok(());
        };
        // What this pass adds itself is not for this pass, whatever the clocks say.
        let head = self.store.begin().await?.audit_ends().await?.1;
        while self.goes_on(course).await? {
            let mut tx = self.store.begin().await?;
            let (start, _) = tx.audit_ends().await?;
            let page = tx.audit_after(start.seq, AUDIT_ROWS).await?;
            drop(tx);
            let rows: Vec<_> = page
                .into_iter()
                .take_while(|row| row.at < before && row.seq < head.seq)
                .collect();
            let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
                break;
            };
            let (count, through) = (rows.len() as u64, last.point());
            let name = format!("archive/audit/{:012}-{:012}.jsonl.gz", first.seq, last.seq);
            let path = self.state_dir.join(&name);
            let into = path.clone();
            let sha256 = off_the_runtime(move || file::write_lines(&into, &rows))
                .await
                .map_err(|error| RetentionError::Files(path, error))?;
            let act = Act::new(Action::AuditArchived)
                .with("file", name)
                .with("machine", machine())
                .with("sha256", sha256);
            let mut tx = self.store.begin().await?;
            if !tx.drop_audit(&through, act).await? {
                break;
            }
            tx.commit().await?;
            passed.audit_rows += count;
        }
        Ok(())
    }

    async fn remove_files(&self, now: DateTime<Utc>, passed: &mut Passed) -> Result<(), RetentionError> {
        let folder = self.state_dir.clone();
        let (before, most) = (
            days_ago(now, self.config.archive_days),
            self.config.archive_mib.saturating_mul(1 << 20),
        );
        let most = (most > 0).then_some(most);
        let swept = off_the_runtime(move || folder::sweep(&folder, before, most, now)).await;
        let swept = swept.map_err(|error| RetentionError::Files(self.state_dir.join("archive"), error))?;
        passed.files += swept.files;
        passed.bytes += swept.bytes;
        Ok(())
    }

    /// Mirrors that nobody refreshed for long, in whose repository no job is under way.
    async fn remove_mirrors(&self, now: DateTime<Utc>, passed: &mut Passed) -> Result<(), RetentionError> {
        let Some(before) = days_ago(now, self.config.mirror_days) else {
            return Ok(());
        };
        let folder = self.state_dir.clone();
        let failed = |error| RetentionError::Files(self.state_dir.join("mirrors"), error);
        let mirrors = off_the_runtime(move || folder::mirrors(&folder))
            .await
            .map_err(failed)?;
        for (repo, path) in mirrors {
            let mut tx = self.store.begin().await?;
            if is_busy(&mut tx, repo).await? {
                continue;
            }
            drop(tx);
            let since = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(before.timestamp()).unwrap_or(0));
            let removed = off_the_runtime(move || git::remove_unused_mirror(&path, since)).await;
            passed.mirrors += u64::from(removed.map_err(failed)?);
        }
        Ok(())
    }
}

async fn is_busy(tx: &mut Tx, repo: RepoId) -> Result<bool, StoreError> {
    let filter = JobFilter {
        states: JobState::ALL
            .iter()
            .copied()
            .filter(|state| !state.is_final())
            .collect(),
        repo_id: Some(repo),
        limit: 1,
        ..JobFilter::default()
    };
    Ok(!tx.jobs(&filter).await?.is_empty())
}

/// Whether a table may have more of what is old.
#[derive(Default)]
struct Portion {
    is_full: bool,
}

impl Portion {
    fn of(&mut self, removed: u64) -> u64 {
        self.is_full |= removed >= u64::from(DELETED);
        removed
    }
}

/// A row of the audit about what left for good. Jobs and the audit's own rows have theirs.
fn summary(passed: &Passed) -> Option<Act> {
    let counts = [
        ("deliveries", passed.deliveries),
        ("schedule_fires", passed.schedule_fires),
        ("queue_items", passed.queue_items),
        ("autotask_switches", passed.autotask_switches),
        ("ledger_days", passed.ledger_days),
        ("alerts", passed.alerts),
        ("files", passed.files),
        ("mirrors", passed.mirrors),
    ];
    let counts = counts.into_iter().filter(|(_, count)| *count > 0);
    let act = counts.fold(Act::new(Action::Removed), |act, (name, count)| act.with(name, count));
    (!act.detail.is_empty()).then_some(act)
}

/// This machine's name: a file is on the disk of one of them.
fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(std::io::Error::other)
        .and_then(|done| done)
}

/// Where a job went that is not in the database any more, for people; nothing: it was never moved.
///
/// # Errors
/// Those of the database.
pub async fn where_is(tx: &mut Tx, job: &JobId) -> Result<Option<String>, StoreError> {
    let filter = AuditFilter {
        job: Some(job.clone()),
        action: Some(Action::RunArchived),
        limit: 1,
        ..AuditFilter::default()
    };
    let rows = tx.audit_rows(&filter).await?;
    Ok(rows.first().map(|row| {
        let said = |name| row.said(name).and_then(|value| value.as_str().map(str::to_owned));
        format!(
            "job {job} was over for long and was moved into the file {} of the state folder of {} on {}",
            said("file").unwrap_or_default(),
            said("machine").unwrap_or_default(),
            row.at.format("%Y-%m-%d")
        )
    }))
}

/// Why a job is not in the database, for people.
///
/// # Errors
/// Those of the database.
pub async fn missing(tx: &mut Tx, job: &JobId) -> Result<String, StoreError> {
    let moved = where_is(tx, job).await?;
    Ok(moved.map_or_else(
        || format!("there is no job {job}"),
        |moved| format!("{moved}; `zcat` shows it"),
    ))
}
