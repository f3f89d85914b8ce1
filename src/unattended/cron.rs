//! Schedules: the pass that makes jobs of fires, for several processes at once. Of the fires since the
//! last look the latest begins a job, the others are noted as missed; the note, the job and how far was
//! looked are one transaction. A clock that goes back fires nothing twice, and loses nothing.
//! Never runs anything itself, and never holds in memory what another process would need to know.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{Graphs, LocateError, locate};
use crate::clock::Clock;
use crate::github::GitHub;
use crate::ids::{JobId, RepoName, Subject};
use crate::job::{Actor, JobKind, NewJob, Pins, Request, Trigger};
use crate::schedule::{Schedule, Source, Work};
use crate::store::{RepoRow, ScheduleCursor, Store, StoreError, Tx};
use crate::timetable;

mod due;

use due::{Due, Fires, OnTime};

/// A clock that is behind the last look by no more was put right, or another process has a faster one:
/// the fires between were looked at when they came.
const CLOCKS_DIFFER: TimeDelta = TimeDelta::seconds(60);

/// 2025-01-01: before this program was. A machine that thinks it is earlier has not heard the time yet.
const NO_CLOCK_BEFORE: i64 = 1_735_689_600;

/// Without any fire, how far was looked is written down so often.
const MOVE_AFTER: TimeDelta = TimeDelta::hours(1);

/// What is noted of a fire.
mod outcome {
    pub(super) const STARTED: &str = "started";
    pub(super) const MADE_UP: &str = "made up for";
    pub(super) const BY_HAND: &str = "started by hand";
    pub(super) const MISSED: &str = "missed";
    pub(super) const MISSED_WITH_OTHERS: &str = "missed, as were all before it";
    pub(super) const AT_WORK: &str = "skipped: still at work";
}

/// What begins the work of schedules.
pub struct Cron {
    /// Where jobs go.
    pub store: Store,
    /// Where repositories are found by their names.
    pub github: GitHub,
    /// The time.
    pub clock: Clock,
    /// The schedules of the configuration.
    pub configured: Vec<Schedule>,
    /// Attempts before a job is given up.
    pub max_attempts: u32,
    /// What begins the milestones of graphs.
    pub graphs: Graphs,
    /// Time between two looks: a fire is at most so late.
    pub pause: Duration,
}

/// A fire that was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fired {
    /// The schedule.
    pub schedule: String,
    /// The time, before any jitter.
    pub fire_at: DateTime<Utc>,
    /// What became of it.
    pub outcome: String,
    /// The job that it began.
    pub job: Option<JobId>,
}

/// Why a schedule was not run by hand.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Its last job is not over.
    #[error("{schedule} is still at work: job {job}")]
    AtWork {
        /// The schedule.
        schedule: String,
        /// The job.
        job: JobId,
    },
    /// It cannot be.
    #[error("{0}")]
    NotStarted(String),
    /// The repository was not found.
    #[error(transparent)]
    Locate(#[from] LocateError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// All schedules: those of the configuration, and those that were added and have other names.
///
/// # Errors
/// Of the database.
pub async fn schedules(store: &Store, configured: &[Schedule]) -> Result<Vec<Schedule>, StoreError> {
    let mut tx = store.begin().await?;
    let added = tx.added_schedules().await?;
    drop(tx);
    let mut all = configured.to_vec();
    for added in added {
        match Schedule::parse(&added.written, Source::Database) {
            Ok(schedule) if configured.iter().any(|other| other.name == schedule.name) => {
                // Asked with every look: `schedule add` refuses it, the file can bring it later.
                tracing::debug!(
                    schedule = schedule.name,
                    "a schedule of this name stands in the configuration, too, and is followed"
                );
            }
            Ok(schedule) => all.push(schedule),
            Err(problems) => tracing::error!(?problems, "a stored schedule is not followed"),
        }
    }
    Ok(all)
}

impl Cron {
    /// Looks for fires until `stop`.
    pub async fn keep(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            if let Err(error) = self.fire().await {
                tracing::warn!(%error, "the schedules could not be looked at");
            }
            tokio::select! {
                () = tokio::time::sleep(self.pause) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// One pass over all schedules; returns what it decided. What went wrong with one schedule is
    /// logged, and tried again by the next pass.
    ///
    /// # Errors
    /// Of the database.
    pub async fn fire(&self) -> Result<Vec<Fired>, StoreError> {
        let mut fired = Vec::new();
        if self.clock.now().timestamp() < NO_CLOCK_BEFORE {
            tracing::warn!("this machine does not know what time it is; no schedule is looked at");
            return Ok(fired);
        }
        for schedule in schedules(&self.store, &self.configured).await? {
            match self.look(&schedule).await {
                Ok(decided) => fired.extend(decided),
                Err(error) => tracing::warn!(schedule = schedule.name, %error, "a schedule is looked at again later"),
            }
        }
        for fire in &fired {
            let job = fire.job.as_ref().map(tracing::field::display);
            tracing::info!(schedule = fire.schedule, at = %fire.fire_at, job.id = job, "{}", fire.outcome);
        }
        Ok(fired)
    }

    /// Begins the work of a schedule now, whatever its timetable says, and even if it is disabled.
    ///
    /// # Errors
    /// [`RunError`] by what can be done about it.
    pub async fn run_now(&self, schedule: &Schedule) -> Result<Fired, RunError> {
        let place = locate(&self.github, &self.store, &schedule.repository).await?;
        let now = self.clock.now();
        let mut tx = self.store.begin().await?;
        if !tx.note_fire(&schedule.name, now, outcome::BY_HAND, now).await? {
            return Err(RunError::NotStarted(format!(
                "{} fires in this very moment",
                schedule.name
            )));
        }
        let fire = Fire {
            at: now,
            run_at: now,
            outcome: outcome::BY_HAND,
        };
        let fired = self.begin(&mut tx, schedule, &Ok(place), &fire).await?;
        if fired.job.is_none() {
            let open = tx.open_job(&key(&schedule.name)).await?;
            let schedule = schedule.name.clone();
            return Err(
                open.map_or(RunError::NotStarted(fired.outcome), |job| RunError::AtWork {
                    schedule,
                    job,
                }),
            );
        }
        tx.commit().await?;
        Ok(fired)
    }

    /// Looks at the fires of one schedule since the last look, whoever had that.
    async fn look(&self, schedule: &Schedule) -> Result<Vec<Fired>, RunError> {
        let now = self.clock.now();
        let here = ScheduleCursor {
            timetable: words_of(schedule),
            until: now,
        };
        let mut tx = self.store.begin().await?;
        let Some(seen) = tx.schedule_cursor(&schedule.name).await? else {
            // Fires before anybody knew of the schedule are nobody's.
            tx.begin_schedule(&schedule.name, &here).await?;
            tx.commit().await?;
            return Ok(Vec::new());
        };
        if seen.timetable != here.timetable || seen.until > now + CLOCKS_DIFFER {
            if tx.move_schedule(&schedule.name, &seen, &here).await? {
                tx.forget_fires_after(&schedule.name, now).await?;
                tx.commit().await?;
                tracing::info!(
                    schedule = schedule.name,
                    "its timetable or the clock was changed; it is followed from now on"
                );
            }
            return Ok(Vec::new());
        }
        drop(tx);
        let due = Due::of(schedule, seen.until, now, self.pause);
        let fires = match due {
            Due::Nothing if now - seen.until < MOVE_AFTER => return Ok(Vec::new()),
            Due::Nothing => Fires::default(),
            Due::Fires(_) if !schedule.enabled => Fires::default(),
            Due::Fires(fires) => fires,
        };
        self.decide(schedule, (&seen, &here), &fires).await
    }

    /// Notes the fires and begins the last, if nobody else has.
    async fn decide(
        &self,
        schedule: &Schedule,
        (seen, here): (&ScheduleCursor, &ScheduleCursor),
        fires: &Fires,
    ) -> Result<Vec<Fired>, RunError> {
        let now = here.until;
        // Asked of GitHub at most, and so before the transaction.
        let place = match &fires.last {
            None => Err(String::new()),
            Some(_) => self.place(&schedule.repository).await?,
        };
        let mut tx = self.store.begin().await?;
        if !tx.move_schedule(&schedule.name, seen, here).await? {
            return Ok(Vec::new());
        }
        let mut decided = Vec::new();
        for (at, fire_at) in fires.missed.iter().enumerate() {
            let outcome = match fires.has_earlier && at == 0 {
                true => outcome::MISSED_WITH_OTHERS,
                false => outcome::MISSED,
            };
            if tx.note_fire(&schedule.name, *fire_at, outcome, now).await? {
                decided.push(fired(schedule, *fire_at, outcome, None));
            }
        }
        if let Some(last) = &fires.last {
            let jitter = timetable::jitter(&schedule.name, last.at, schedule.jitter_seconds);
            let fire = match last.on_time {
                OnTime::Yes => Fire {
                    at: last.at,
                    run_at: last.at + jitter,
                    outcome: outcome::STARTED,
                },
                OnTime::No => Fire {
                    at: last.at,
                    run_at: now + jitter,
                    outcome: outcome::MADE_UP,
                },
            };
            if tx.note_fire(&schedule.name, fire.at, fire.outcome, now).await? {
                decided.push(self.begin(&mut tx, schedule, &place, &fire).await?);
            }
        }
        tx.commit().await?;
        Ok(decided)
    }

    /// Where the work is; or, for good, why it cannot be anywhere.
    async fn place(&self, repository: &RepoName) -> Result<Result<RepoRow, String>, RunError> {
        match locate(&self.github, &self.store, repository).await {
            Ok(place) => Ok(Ok(place)),
            Err(error @ LocateError::Unknown(_)) => Ok(Err(format!("not started: {error}"))),
            Err(error) => Err(error.into()),
        }
    }

    /// Begins the work of a fire that was noted, and says what became of it.
    async fn begin(
        &self,
        tx: &mut Tx,
        schedule: &Schedule,
        place: &Result<RepoRow, String>,
        fire: &Fire,
    ) -> Result<Fired, StoreError> {
        let now = self.clock.now();
        let begun = match (place, &schedule.work) {
            (Err(why), _) => Err(why.clone()),
            // One milestone for each fire.
            (Ok(place), Work::Graph(name)) => self.graphs.begin(tx, place.id, name, fire.run_at).await?,
            (Ok(place), _) => {
                let job = self.job(schedule, place, fire);
                tx.insert_job(&job, now).await?.ok_or(outcome::AT_WORK.to_owned())
            }
        };
        let (outcome, job) = match begun {
            Ok(job) => (fire.outcome.to_owned(), Some(job)),
            Err(why) => (why, None),
        };
        tx.settle_fire(&schedule.name, fire.at, &outcome, job.as_ref()).await?;
        Ok(fired(schedule, fire.at, &outcome, job))
    }

    fn job(&self, schedule: &Schedule, place: &RepoRow, fire: &Fire) -> NewJob {
        let (kind, suite) = match &schedule.work {
            Work::Eval(suite) => (JobKind::Eval, Some(suite.clone())),
            Work::Task(_) | Work::Skill { .. } | Work::Graph(_) => (JobKind::Fix, None),
        };
        NewJob {
            repo_id: place.id,
            repo: place.name.clone(),
            installation: place.installation,
            kind,
            subject: Subject::task(&format!("schedule-{}", schedule.name)),
            dedupe_key: Some(key(&schedule.name)),
            priority: 0,
            run_at: fire.run_at,
            max_attempts: self.max_attempts,
            request: Request {
                trigger: Trigger::Schedule {
                    name: schedule.name.clone(),
                    fire_at: fire.at,
                },
                actor: Actor::operator(),
                instructions: String::new(),
                triggered_at: fire.at,
            },
            pins: Pins {
                title: Some(schedule.work.title()),
                body: schedule.work.task(),
                suite,
                ..Pins::default()
            },
        }
    }
}

/// A fire that begins something.
struct Fire {
    at: DateTime<Utc>,
    run_at: DateTime<Utc>,
    outcome: &'static str,
}

fn fired(schedule: &Schedule, fire_at: DateTime<Utc>, outcome: &str, job: Option<JobId>) -> Fired {
    Fired {
        schedule: schedule.name.clone(),
        fire_at,
        outcome: outcome.to_owned(),
        job,
    }
}

/// A schedule has one job at a time: whoever is still at work is not overtaken by the next.
fn key(schedule: &str) -> String {
    format!("schedule:{schedule}")
}

/// What is compared to know that a timetable was changed.
pub fn words_of(schedule: &Schedule) -> String {
    format!("{} {}", schedule.timetable.expression(), schedule.timetable.zone())
}
