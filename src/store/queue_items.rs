//! Tables `queue_items`, `queue_cursors` and `autotask_switches`: issues of polled queues with what
//! became of each, how far a queue was read, and who switched it on or off. Called by `unattended`
//! and the command line. Never lets an overtaken look write: each look has a turn, and every write
//! of it is guarded by that turn.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::row::{count, from_json, micros, parse, reason, row, to_json, without_nul};
use super::{StoreError, Tx};
use crate::audit::{Act, Action};
use crate::ids::{IssueNumber, JobId, RepoId, RepoName};
use crate::job::word_enum;
use crate::money::Usd;

word_enum! {
    /// What became of an issue of a queue.
    ItemState, "state of a queue item" {
        /// It was seen and not looked at yet, or it changed since.
        Waiting = "waiting",
        /// There is no room for it now; the reason says which cap.
        Held = "held",
        /// It has a job that is not over.
        Working = "working",
        /// Its job is over.
        Done = "done",
        /// It is not worked on; the reason says why.
        Refused = "refused",
        /// It is not in the queue any more.
        Left = "left",
    }
}

/// An issue of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueueItem {
    /// Its number.
    pub number: IssueNumber,
    /// Hash of its text, who put it into the queue and when; empty until it was looked at.
    pub version: String,
    /// Its last change, as it was when it was last judged.
    pub changed_at: DateTime<Utc>,
    /// What became of it.
    pub state: ItemState,
    /// Why, for people; empty where there is nothing to say.
    pub reason: String,
    /// Its last job.
    pub job: Option<JobId>,
    /// Login of who put it there.
    pub asked_by: Option<String>,
    /// Looks in a row that read the whole queue and did not find it.
    pub absent: u32,
    /// When it was last seen in the queue.
    pub seen_at: DateTime<Utc>,
}

/// A queue of one repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueKey<'a> {
    /// What selects its issues.
    pub source: &'a str,
    /// The repository.
    pub repo: RepoId,
}

/// How far a queue was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueueCursor {
    /// Number of the last look.
    pub turn: i64,
    /// What the next conditional request carries.
    pub mark: Vec<String>,
    /// Issues that the queue had when it was last read.
    pub selected: Option<u32>,
    /// Open issues of the repository, as they were counted when the queue was found empty.
    pub open_items: Option<u32>,
    /// When somebody last looked.
    pub looked_at: Option<DateTime<Utc>>,
    /// When the list was last read well, changed or not.
    pub read_at: Option<DateTime<Utc>>,
    /// Not before this time.
    pub next_at: DateTime<Utc>,
    /// Looks in a row that failed.
    pub failures: u32,
    /// Why the last look failed.
    pub problem: Option<String>,
}

/// Somebody switched the queue of a repository on or off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AutotaskSwitch {
    /// The repository.
    pub repo: RepoName,
    /// On or off.
    pub is_on: bool,
    /// Who, for people.
    pub by: String,
    /// When.
    pub at: DateTime<Utc>,
}

row! {
    StoredItem {
        number: i64,
        version: String,
        changed_at: DateTime<Utc>,
        state: String,
        reason: String,
        job_id: Option<String>,
        asked_by: Option<String>,
        absent: i64,
        seen_at: DateTime<Utc>,
    }
}

row! {
    StoredCursor {
        turn: i64,
        mark: String,
        selected: Option<i64>,
        open_items: Option<i64>,
        looked_at: Option<DateTime<Utc>>,
        read_at: Option<DateTime<Utc>>,
        next_at: DateTime<Utc>,
        failures: i64,
        problem: Option<String>,
    }
}

row! {
    StoredSwitch {
        repo: String,
        is_on: bool,
        by_whom: String,
        at: DateTime<Utc>,
    }
}

impl Tx {
    /// Takes the turn to look into a queue whose next look is due by a time (that of now, or later
    /// where somebody asks for it), and puts the next one off until `next_at`: a process that dies
    /// in the middle of its look holds nothing up for longer. `None`: it is not time, or another
    /// process has the turn.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn take_queue_turn(
        &mut self,
        key: QueueKey<'_>,
        (now, due_by): (DateTime<Utc>, DateTime<Utc>),
        next_at: DateTime<Utc>,
    ) -> Result<Option<QueueCursor>, StoreError> {
        on_db!(
            self,
            sqlx::query(
                "INSERT INTO queue_cursors (source, repo_id, turn, mark, next_at, failures)
                 VALUES ($1, $2, 0, '[]', $3, 0)
                 ON CONFLICT (source, repo_id) DO NOTHING"
            )
            .bind(without_nul(key.source))
            .bind(key.repo.as_i64())
            .bind(micros(now)),
            execute
        )?;
        let stored: Option<StoredCursor> = on_db!(
            self,
            sqlx::query_as(
                "UPDATE queue_cursors
                 SET turn = turn + 1,
                     looked_at = $3,
                     next_at = $4
                 WHERE source = $1
                   AND repo_id = $2
                   AND next_at <= $5
                 RETURNING turn, mark, selected, open_items, looked_at, read_at, next_at, failures, problem"
            )
            .bind(without_nul(key.source))
            .bind(key.repo.as_i64())
            .bind(micros(now))
            .bind(micros(next_at))
            .bind(micros(due_by)),
            fetch_optional
        )?;
        stored.map(QueueCursor::try_from).transpose()
    }

    /// Locks the queue for the rest of the transaction. False: a later look has the turn, and what
    /// this one found is old.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn holds_queue_turn(&mut self, key: QueueKey<'_>, turn: i64) -> Result<bool, StoreError> {
        let held = on_db!(
            self,
            sqlx::query(
                "UPDATE queue_cursors
                 SET turn = turn
                 WHERE source = $1
                   AND repo_id = $2
                   AND turn = $3"
            )
            .bind(without_nul(key.source))
            .bind(key.repo.as_i64())
            .bind(turn),
            execute
        )?;
        Ok(held == 1)
    }

    /// Stores how a look went. False: a later look has the turn.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn note_queue_read(&mut self, key: QueueKey<'_>, cursor: &QueueCursor) -> Result<bool, StoreError> {
        let noted = on_db!(
            self,
            sqlx::query(
                "UPDATE queue_cursors
                 SET mark = $4,
                     selected = $5,
                     open_items = $6,
                     read_at = $7,
                     next_at = $8,
                     failures = $9,
                     problem = $10
                 WHERE source = $1
                   AND repo_id = $2
                   AND turn = $3"
            )
            .bind(without_nul(key.source))
            .bind(key.repo.as_i64())
            .bind(cursor.turn)
            .bind(to_json("queue_cursors.mark", &cursor.mark)?)
            .bind(cursor.selected.map(i64::from))
            .bind(cursor.open_items.map(i64::from))
            .bind(cursor.read_at.map(micros))
            .bind(micros(cursor.next_at))
            .bind(i64::from(cursor.failures))
            .bind(cursor.problem.as_deref().map(reason)),
            execute
        )?;
        Ok(noted == 1)
    }

    /// How far a queue was read; nothing: nobody looked yet.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when a column does not parse.
    pub async fn queue_cursor(&mut self, key: QueueKey<'_>) -> Result<Option<QueueCursor>, StoreError> {
        let stored: Option<StoredCursor> = on_db!(
            self,
            sqlx::query_as(
                "SELECT turn, mark, selected, open_items, looked_at, read_at, next_at, failures, problem
                 FROM queue_cursors
                 WHERE source = $1
                   AND repo_id = $2"
            )
            .bind(without_nul(key.source))
            .bind(key.repo.as_i64()),
            fetch_optional
        )?;
        stored.map(QueueCursor::try_from).transpose()
    }

    /// Everything that was ever in a queue, oldest issue first.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when a column does not parse.
    pub async fn queue_items(&mut self, key: QueueKey<'_>) -> Result<Vec<QueueItem>, StoreError> {
        let stored: Vec<StoredItem> = on_db!(
            self,
            sqlx::query_as(
                "SELECT number, version, changed_at, state, reason, job_id, asked_by, absent, seen_at
                 FROM queue_items
                 WHERE source = $1
                   AND repo_id = $2
                 ORDER BY number"
            )
            .bind(without_nul(key.source))
            .bind(key.repo.as_i64()),
            fetch_all
        )?;
        stored.into_iter().map(QueueItem::try_from).collect()
    }

    /// Stores an issue of a queue as it stands now. The caller holds the turn.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn put_queue_item(&mut self, key: QueueKey<'_>, item: &QueueItem) -> Result<(), StoreError> {
        on_db!(
            self,
            sqlx::query(
                "INSERT INTO queue_items
                     (source, repo_id, number, version, changed_at, state, reason, job_id, asked_by, absent, seen_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
                 ON CONFLICT (source, repo_id, number) DO UPDATE
                 SET version = excluded.version,
                     changed_at = excluded.changed_at,
                     state = excluded.state,
                     reason = excluded.reason,
                     job_id = excluded.job_id,
                     asked_by = excluded.asked_by,
                     absent = excluded.absent,
                     seen_at = excluded.seen_at"
            )
            .bind(without_nul(key.source))
            .bind(key.repo.as_i64())
            .bind(item.number.as_i64())
            .bind(&item.version)
            .bind(micros(item.changed_at))
            .bind(item.state.as_str())
            .bind(reason(&item.reason))
            .bind(item.job.as_ref().map(JobId::as_str))
            .bind(item.asked_by.as_deref().map(without_nul))
            .bind(i64::from(item.absent))
            .bind(micros(item.seen_at)),
            execute
        )?;
        Ok(())
    }

    /// Forgets what became of issues that are not in the queue and were last seen there before a time.
    /// Those with a job that is not over stay.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn forget_queue_items(&mut self, key: QueueKey<'_>, before: DateTime<Utc>) -> Result<u64, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query(
                "DELETE FROM queue_items
                 WHERE source = $1
                   AND repo_id = $2
                   AND seen_at < $3
                   AND absent > 0
                   AND state <> 'working'"
            )
            .bind(without_nul(key.source))
            .bind(key.repo.as_i64())
            .bind(micros(before)),
            execute
        )?)
    }

    /// How many jobs that queues asked for in a repository are not over.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn queue_jobs_open(&mut self, repo: RepoId) -> Result<u32, StoreError> {
        let open: i64 = on_db!(
            self,
            sqlx::query_scalar(
                "SELECT COUNT(*)
                 FROM jobs
                 WHERE repo_id = $1
                   AND state NOT IN ('done', 'dead', 'cancelled')
                   AND request LIKE '{\"trigger\":{\"by\":\"queue\"%'"
            )
            .bind(repo.as_i64()),
            fetch_one
        )?;
        count("jobs", open)
    }

    /// What the jobs that queues asked for in a repository cost on the day of `at`, UTC.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn queue_spent(&mut self, repo: RepoId, at: DateTime<Utc>) -> Result<Usd, StoreError> {
        let spent: i64 = on_db!(
            self,
            sqlx::query_scalar(
                "SELECT CAST(COALESCE(SUM(ledger.micro_usd), 0) AS BIGINT)
                 FROM ledger
                 JOIN jobs ON jobs.id = ledger.job_id
                 WHERE ledger.repo_id = $1
                   AND ledger.day = $2
                   AND jobs.request LIKE '{\"trigger\":{\"by\":\"queue\"%'"
            )
            .bind(repo.as_i64())
            .bind(at.format("%Y-%m-%d").to_string()),
            fetch_one
        )?;
        Ok(Usd::from_micros(spent))
    }

    /// Notes that somebody switched the queue of a repository. Older notes stay.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn switch_autotask(&mut self, switch: &AutotaskSwitch) -> Result<(), StoreError> {
        on_db!(
            self,
            sqlx::query(
                "INSERT INTO autotask_switches (id, repo, is_on, by_whom, at)
                 VALUES ($1, $2, $3, $4, $5)"
            )
            .bind(JobId::new(switch.at).as_str())
            .bind(switch.repo.as_str().to_lowercase())
            .bind(switch.is_on)
            .bind(without_nul(&switch.by))
            .bind(micros(switch.at)),
            execute
        )?;
        let act = Act::new(Action::AutotaskSwitched).at(&switch.repo);
        self.audit(act.with("is_on", switch.is_on).with("by", switch.by.as_str()));
        Ok(())
    }

    /// All switches, oldest first: of a repository the last one counts.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when a column does not parse.
    pub async fn autotask_switches(&mut self) -> Result<Vec<AutotaskSwitch>, StoreError> {
        let stored: Vec<StoredSwitch> = on_db!(
            self,
            sqlx::query_as(
                "SELECT repo, is_on, by_whom, at
                 FROM autotask_switches
                 ORDER BY at, id"
            ),
            fetch_all
        )?;
        let switch = |stored: StoredSwitch| {
            Ok(AutotaskSwitch {
                repo: parse("autotask_switches.repo", &stored.repo)?,
                is_on: stored.is_on,
                by: stored.by_whom,
                at: stored.at,
            })
        };
        stored.into_iter().map(switch).collect()
    }
}

impl TryFrom<StoredItem> for QueueItem {
    type Error = StoreError;

    fn try_from(stored: StoredItem) -> Result<Self, StoreError> {
        let job = stored.job_id.map(|id| parse("queue_items.job_id", &id)).transpose()?;
        Ok(Self {
            number: IssueNumber::from_i64(stored.number),
            version: stored.version,
            changed_at: stored.changed_at,
            state: parse("queue_items.state", &stored.state)?,
            reason: stored.reason,
            job,
            asked_by: stored.asked_by,
            absent: count("queue_items.absent", stored.absent)?,
            seen_at: stored.seen_at,
        })
    }
}

impl TryFrom<StoredCursor> for QueueCursor {
    type Error = StoreError;

    fn try_from(stored: StoredCursor) -> Result<Self, StoreError> {
        let selected = stored
            .selected
            .map(|n| count("queue_cursors.selected", n))
            .transpose()?;
        let open_items = stored
            .open_items
            .map(|n| count("queue_cursors.open_items", n))
            .transpose()?;
        Ok(Self {
            turn: stored.turn,
            mark: from_json("queue_cursors.mark", &stored.mark)?,
            selected,
            open_items,
            looked_at: stored.looked_at,
            read_at: stored.read_at,
            next_at: stored.next_at,
            failures: count("queue_cursors.failures", stored.failures)?,
            problem: stored.problem,
        })
    }
}
