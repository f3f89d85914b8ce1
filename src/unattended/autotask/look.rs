//! One look into the queue of one repository, thing by thing, each in a transaction of its own: what
//! is new, what is over, what left, and what may begin. Called by the door of `autotask`.
//! Never writes after another look has taken the turn.

use chrono::{DateTime, TimeDelta, Utc};

use super::room::Room;
use super::source::{Asked, Item, Listed, Listing, SourceError};
use super::{Autotask, Looked};
use crate::ids::{IssueNumber, JobId, Subject};
use crate::job::{Actor, Job, JobKind, JobState, NewJob, Outcome, Request, Trigger};
use crate::phrase::reason::{Happened, happened};
use crate::store::{ItemState, JobFilter, QueueCursor, QueueItem, QueueKey, RepoRow, StoreError, Tx};

/// Issues that are read one by one in a look; the rest have their turn in the next.
const MAX_READ: usize = 25;

/// Issues among them that GitHub told nothing of before. However many there are, the others have their turn.
const MAX_READ_AGAIN: usize = 10;

/// Jobs that one issue ever has.
const MAX_JOBS: u32 = 1_000;

/// A label's coming has the same second in a webhook and in the issue's events, but for the time that
/// GitHub takes between the two.
const SAME_ACT: TimeDelta = TimeDelta::seconds(5);

/// How long what became of issues that are not in the queue any more is kept.
const MEMORY: TimeDelta = TimeDelta::days(90);

/// Why a look did not come to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stopped {
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The forge.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Another look has the turn.
    #[error("another look has the turn")]
    Overtaken,
}

/// A look that goes on.
pub(super) struct Look<'a> {
    autotask: &'a Autotask,
    key: QueueKey<'a>,
    repo: &'a RepoRow,
    pub(super) cursor: QueueCursor,
    pub(super) looked: Looked,
    now: DateTime<Utc>,
    room: Option<Room>,
}

impl<'a> Look<'a> {
    pub(super) fn new(
        autotask: &'a Autotask,
        key: QueueKey<'a>,
        repo: &'a RepoRow,
        cursor: QueueCursor,
        now: DateTime<Utc>,
    ) -> Self {
        Self {
            autotask,
            key,
            repo,
            cursor,
            looked: Looked::default(),
            now,
            room: None,
        }
    }

    pub(super) async fn all(&mut self) -> Result<(), Stopped> {
        let listing = self.autotask.source.list(self.repo, &self.cursor.mark).await?;
        self.cursor.read_at = Some(self.now);
        match listing {
            Listing::Unchanged => self.looked.unchanged = true,
            Listing::Read {
                items,
                mark,
                is_complete,
            } => self.enter(&items, mark, is_complete).await?,
        }
        self.count().await?;
        for item in self.items().await? {
            match item.state {
                ItemState::Working => self.follow(item).await?,
                ItemState::Waiting | ItemState::Held | ItemState::Done | ItemState::Refused | ItemState::Left => {}
            }
        }
        self.begin().await
    }

    /// What a list says, in one transaction with the mark that it was read under.
    async fn enter(&mut self, listed: &[Listed], mark: Vec<String>, is_complete: bool) -> Result<(), Stopped> {
        let mut tx = self.in_turn().await?;
        let known = tx.queue_items(self.key).await?;
        for one in listed {
            let before = known.iter().find(|item| item.number == one.number);
            tx.put_queue_item(self.key, &self.seen(before, one)).await?;
        }
        if is_complete {
            for item in &known {
                let is_there = listed.iter().any(|one| one.number == item.number);
                if !is_there && item.state != ItemState::Left {
                    tx.put_queue_item(self.key, &missed(item)).await?;
                }
            }
        }
        tx.forget_queue_items(self.key, self.now - MEMORY).await?;
        self.cursor.mark = mark;
        self.cursor.selected = Some(u32::try_from(listed.len()).unwrap_or(u32::MAX));
        tx.note_queue_read(self.key, &self.cursor).await?;
        Ok(tx.commit().await?)
    }

    /// An issue that is in the queue. One that was dealt with is looked at again when it changed, or
    /// came again.
    fn seen(&self, before: Option<&QueueItem>, listed: &Listed) -> QueueItem {
        let Some(before) = before else {
            return QueueItem {
                number: listed.number,
                version: String::new(),
                changed_at: listed.changed_at,
                state: ItemState::Waiting,
                reason: String::new(),
                job: None,
                asked_by: None,
                absent: 0,
                seen_at: self.now,
            };
        };
        let is_news = before.absent > 0 || before.changed_at != listed.changed_at;
        let state = match before.state {
            ItemState::Left => ItemState::Waiting,
            ItemState::Done | ItemState::Refused if is_news => ItemState::Waiting,
            state => state,
        };
        let reason = match before.state {
            // Why it left says nothing of what it is now.
            ItemState::Left => String::new(),
            _ => before.reason.clone(),
        };
        QueueItem {
            state,
            reason,
            absent: 0,
            seen_at: self.now,
            ..before.clone()
        }
    }

    /// A query that finds nothing is told from a repository without open issues, once.
    async fn count(&mut self) -> Result<(), Stopped> {
        if self.cursor.selected != Some(0) {
            self.cursor.open_items = None;
        } else if self.cursor.open_items.is_none() {
            let open = self.autotask.source.open_items(self.repo).await?;
            self.cursor.open_items = Some(open);
            if open > 0 {
                let query = self.autotask.query();
                tracing::warn!(repo = %self.repo.name, query, "0 of {open} open issues are selected; check the query");
            }
        }
        Ok(())
    }

    /// An issue with a job: the job is over, or the issue left the queue.
    async fn follow(&mut self, item: QueueItem) -> Result<(), Stopped> {
        let mut tx = self.autotask.store.begin().await?;
        let job = match &item.job {
            Some(id) => tx.job(id).await?,
            None => None,
        };
        drop(tx);
        match job {
            Some(job) if !job.state.is_final() => self.follow_open(item, &job).await,
            Some(job) => {
                // What changed meanwhile is looked at while the issue is still in the queue.
                let state = if item.absent == 0 {
                    ItemState::Waiting
                } else {
                    ItemState::Done
                };
                let reason = how_it_ended(&job);
                self.put(QueueItem { state, reason, ..item }).await
            }
            None => {
                self.put(QueueItem {
                    state: ItemState::Waiting,
                    ..item
                })
                .await
            }
        }
    }

    async fn follow_open(&mut self, item: QueueItem, job: &Job) -> Result<(), Stopped> {
        let source = &self.autotask.source;
        // At the end of its work the label is taken off: that is no reason to stop it.
        let is_at_its_end = job.state == JobState::Publishing;
        let is_ours = matches!(job.request.trigger, Trigger::Queue { .. });
        if item.absent == 0 || is_at_its_end || !is_ours || job.cancel_requested_at.is_some() {
            return Ok(());
        }
        let belongs = source.belongs(self.repo, item.number).await?;
        match (belongs, source.patience()) {
            (false, _) => {}
            // The list was older than the issue is.
            (true, 1) => return self.put(QueueItem { absent: 0, ..item }).await,
            (true, patience) if item.absent < patience => return Ok(()),
            _ => {}
        }
        let mut tx = self.in_turn().await?;
        let why = happened(self.autotask.language, Happened::LeftQueue);
        tx.cancel_job(&job.id, why, self.now).await?;
        let number = item.number;
        let left = QueueItem {
            state: ItemState::Left,
            reason: "it left the queue; its work was stopped".to_owned(),
            ..item
        };
        tx.put_queue_item(self.key, &left).await?;
        tx.commit().await?;
        self.looked.stopped.push(number);
        Ok(())
    }

    /// Oldest first, as far as there is room.
    async fn begin(&mut self) -> Result<(), Stopped> {
        let items = self.items().await?;
        let is_candidate =
            |item: &&QueueItem| item.absent == 0 && matches!(item.state, ItemState::Waiting | ItemState::Held);
        let untold = items.iter().filter(is_candidate).filter(|item| is_untold(item));
        let again = in_turn(untold.map(|item| item.number).collect(), self.cursor.turn);
        let (mut read, mut held) = (0, Vec::new());
        for item in items.iter().filter(is_candidate) {
            if is_untold(item) && !again.contains(&item.number) {
                continue;
            }
            // What was dealt with before may have nothing new, and needs no room then.
            let needs_room = item.version.is_empty() || item.state == ItemState::Held;
            if needs_room && let Some(why) = self.lacks().await? {
                held.push((item.clone(), why));
                continue;
            }
            if read == MAX_READ {
                break;
            }
            read += 1;
            self.judge(item.clone()).await?;
        }
        self.hold(held).await
    }

    async fn lacks(&mut self) -> Result<Option<String>, Stopped> {
        if self.room.is_none() {
            self.room = Some(Room::find(self.autotask, self.repo, self.now).await?);
        }
        Ok(self.room.as_ref().and_then(Room::lacks))
    }

    /// A long queue is held in one transaction, and written only where something is new.
    async fn hold(&mut self, items: Vec<(QueueItem, String)>) -> Result<(), Stopped> {
        if items.is_empty() {
            return Ok(());
        }
        let mut tx = self.in_turn().await?;
        for (item, why) in items {
            let (state, reason) = (ItemState::Held, format!("held: {why}"));
            self.looked.held.push((item.number, why));
            if (item.state, &item.reason) != (state, &reason) {
                tx.put_queue_item(self.key, &QueueItem { state, reason, ..item })
                    .await?;
            }
        }
        Ok(tx.commit().await?)
    }

    /// Reads one issue and decides.
    async fn judge(&mut self, item: QueueItem) -> Result<(), Stopped> {
        let Some(found) = self.autotask.source.item(self.repo, item.number).await? else {
            // The list is older than the issue; what it was before is kept.
            let state = if item.version.is_empty() {
                ItemState::Left
            } else {
                dealt_with(&item)
            };
            return self
                .put(QueueItem {
                    state,
                    absent: 1,
                    ..item
                })
                .await;
        };
        let version = found.version();
        let changed_at = found.changed_at;
        if version == item.version {
            let state = dealt_with(&item);
            return self
                .put(QueueItem {
                    state,
                    changed_at,
                    ..item
                })
                .await;
        }
        match &found.asked {
            Asked::NotTold(why) => {
                let reason = why.clone();
                let state = ItemState::Waiting;
                self.put(QueueItem { state, reason, ..item }).await
            }
            Asked::Nobody { why, .. } => {
                self.looked.refused.push((item.number, why.clone()));
                let refused = QueueItem {
                    version,
                    changed_at,
                    state: ItemState::Refused,
                    reason: why.clone(),
                    asked_by: None,
                    job: None,
                    ..item
                };
                self.put(refused).await
            }
            Asked::By { actor, at } => match self.lacks().await? {
                Some(why) => self.hold(vec![(item, why)]).await,
                None => self.take(item, &found, (actor, *at)).await,
            },
        }
    }

    /// The issue becomes a job, or is found to have one.
    async fn take(&mut self, item: QueueItem, found: &Item, asked: (&Actor, DateTime<Utc>)) -> Result<(), Stopped> {
        let mut tx = self.in_turn().await?;
        let subject = Subject::Issue(item.number);
        let taken = QueueItem {
            version: found.version(),
            changed_at: found.changed_at,
            state: ItemState::Working,
            reason: String::new(),
            asked_by: Some(asked.0.login.clone()),
            ..item.clone()
        };
        let jobs = tx
            .jobs(&JobFilter {
                repo_id: Some(self.repo.id),
                subject: Some(subject.clone()),
                limit: MAX_JOBS,
                ..JobFilter::default()
            })
            .await?;
        let new = self.new_job(subject, found, asked);
        let job = match self.same_request(&jobs, &new) {
            Earlier::Same(id) => id,
            Earlier::Open => {
                drop(tx);
                let why = "an earlier job of this issue is not over".to_owned();
                return self.hold(vec![(item, why)]).await;
            }
            Earlier::None => match tx.insert_job(&new, self.now).await? {
                Some(id) => id,
                None => {
                    drop(tx);
                    let why = "another job of this issue is not over".to_owned();
                    return self.hold(vec![(item, why)]).await;
                }
            },
        };
        tx.put_queue_item(
            self.key,
            &QueueItem {
                job: Some(job.clone()),
                ..taken
            },
        )
        .await?;
        tx.commit().await?;
        self.looked.taken.push((item.number, job));
        if let Some(room) = &mut self.room {
            room.take();
        }
        Ok(())
    }

    fn new_job(&self, subject: Subject, found: &Item, (actor, at): (&Actor, DateTime<Utc>)) -> NewJob {
        let source = &self.autotask.source;
        NewJob {
            repo_id: self.repo.id,
            repo: self.repo.name.clone(),
            installation: self.repo.installation,
            kind: JobKind::Fix,
            dedupe_key: Some(NewJob::issue_key(self.repo.id, &subject)),
            subject,
            priority: 0,
            // Oldest first also among those of one look.
            run_at: self.now + TimeDelta::microseconds(i64::try_from(self.looked.taken.len()).unwrap_or(0)),
            max_attempts: self.autotask.max_attempts,
            request: Request {
                trigger: Trigger::Queue {
                    label: source.label().map(str::to_owned),
                    source: source.name().to_owned(),
                },
                actor: actor.clone(),
                instructions: String::new(),
                triggered_at: at,
            },
            pins: found.pins.clone(),
        }
    }

    /// Whether a webhook told of the same act first, or an earlier request is still being worked on.
    fn same_request(&self, jobs: &[Job], new: &NewJob) -> Earlier {
        let asks = |job: &&Job| {
            let is_queue = matches!(job.request.trigger, Trigger::Queue { .. });
            job.kind == JobKind::Fix && (is_queue || job.request.trigger.has_same_label(&new.request.trigger))
        };
        let is_same = |job: &Job| {
            let open = !job.state.is_final() && job.cancel_requested_at.is_none();
            let slack = if open { SAME_ACT } else { TimeDelta::zero() };
            let is_recent = job.request.triggered_at + slack >= new.request.triggered_at;
            is_recent && job.pins.title == new.pins.title && job.pins.body == new.pins.body
        };
        let by_label = |job: &Job| matches!(job.request.trigger, Trigger::Label { .. });
        let mut earlier = jobs.iter().filter(asks);
        // What a queue asked for is known by its version.
        if let Some(job) = earlier
            .clone()
            .find(|job| is_same(job) && (by_label(job) || !job.state.is_final()))
        {
            return Earlier::Same(job.id.clone());
        }
        match earlier.any(|job| !job.state.is_final()) {
            true => Earlier::Open,
            false => Earlier::None,
        }
    }

    async fn items(&self) -> Result<Vec<QueueItem>, Stopped> {
        let mut tx = self.autotask.store.begin().await?;
        Ok(tx.queue_items(self.key).await?)
    }

    async fn put(&self, item: QueueItem) -> Result<(), Stopped> {
        let mut tx = self.in_turn().await?;
        tx.put_queue_item(self.key, &item).await?;
        Ok(tx.commit().await?)
    }

    /// A transaction in which no other look can take the turn.
    async fn in_turn(&self) -> Result<Tx, Stopped> {
        let mut tx = self.autotask.store.begin().await?;
        match tx.holds_queue_turn(self.key, self.cursor.turn).await? {
            true => Ok(tx),
            false => Err(Stopped::Overtaken),
        }
    }
}

/// Whether the issue was read, and GitHub had not told yet who asks for its work.
fn is_untold(item: &QueueItem) -> bool {
    item.state == ItemState::Waiting && item.version.is_empty() && !item.reason.is_empty()
}

/// Those of the issues that are read again in a look, in each look the next ones.
fn in_turn(mut untold: Vec<IssueNumber>, turn: i64) -> Vec<IssueNumber> {
    let steps = usize::try_from(turn).unwrap_or(0).wrapping_mul(MAX_READ_AGAIN);
    if let Some(first) = steps.checked_rem(untold.len()) {
        untold.rotate_left(first);
    }
    untold.truncate(MAX_READ_AGAIN);
    untold
}

/// What there is of an issue's work already.
enum Earlier {
    /// This is the job.
    Same(JobId),
    /// One of another request goes on.
    Open,
    /// Nothing.
    None,
}

/// An issue that a complete list lacks.
fn missed(item: &QueueItem) -> QueueItem {
    let state = match item.state {
        // Nobody began with it.
        ItemState::Waiting | ItemState::Held if item.job.is_none() => ItemState::Left,
        ItemState::Waiting | ItemState::Held => ItemState::Done,
        state => state,
    };
    let reason = match state {
        ItemState::Left => "it left the queue before its turn".to_owned(),
        _ => item.reason.clone(),
    };
    QueueItem {
        state,
        reason,
        absent: item.absent.saturating_add(1),
        ..item.clone()
    }
}

/// What an issue was before it was looked at again and nothing was new.
fn dealt_with(item: &QueueItem) -> ItemState {
    if item.job.is_some() {
        ItemState::Done
    } else {
        ItemState::Refused
    }
}

/// How a job ended, in a few words for lists.
fn how_it_ended(job: &Job) -> String {
    let words = match (&job.outcome, job.state) {
        (Some(Outcome::Opened { pull, .. }), _) => format!("opened #{pull}"),
        (Some(Outcome::Pushed { branch, .. }), _) => format!("pushed to {branch}"),
        (Some(Outcome::Answered | Outcome::Reviewed { .. }), _) => "answered".to_owned(),
        (Some(Outcome::Measured { summary }), _) => summary.clone(),
        (Some(Outcome::NothingToDo { .. }), _) => "nothing had to change".to_owned(),
        (Some(Outcome::Refused { reason }), _) => format!("refused: {reason}"),
        (Some(Outcome::GaveUp { reason, .. }), _) => format!("gave up: {reason}"),
        (Some(Outcome::Stopped { reason, .. }), _) => format!("stopped: {reason}"),
        (None, state) => format!("{state}: {}", job.reason.as_deref().unwrap_or("no reason is known")),
    };
    crate::text::cap_chars(&words, 200)
}
