//! Tables `audit` and `audit_chain`: rows that are only ever added, each chained to the one before it,
//! and where the chain ends and begins. What a transaction did is kept until its commit and written
//! then, under a lock on the chain's end: so rows are there with their acts or not at all, writers
//! follow one another, and nobody who holds that lock waits for another one.
//! Never changes a row, and removes only the oldest ones, which somebody has in a file.

use std::collections::VecDeque;

use chrono::{DateTime, Utc};

use super::row::{micros, row, without_nul};
use super::{StoreError, Tx, Violation};
use crate::audit::{Act, Action, Checked, Checker, Entry, OPERATOR, Point, SERVICE, person};
use crate::event::RunEvent;
use crate::ids::{JobId, RepoName};
use crate::job::{Actor, Request};

/// Rows read in one statement.
const PAGE: u32 = 500;
/// How often a check begins again because the beginning of the chain moved meanwhile.
const MAX_TRIES: u32 = 3;

/// What a transaction did, until it is committed.
#[derive(Debug, Default)]
pub(super) struct Acts {
    actor: Option<String>,
    done: Vec<Act>,
}

/// Which rows to read.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    /// Only rows about this job.
    pub job: Option<JobId>,
    /// Only rows about this repository.
    pub repository: Option<RepoName>,
    /// Only acts of this kind.
    pub action: Option<Action>,
    /// Only acts of this actor.
    pub actor: Option<String>,
    /// Only rows since then.
    pub since: Option<DateTime<Utc>>,
    /// Most rows, the latest first.
    pub limit: u32,
}

row! {
    Stored {
        seq: i64,
        at: DateTime<Utc>,
        actor: String,
        action: String,
        repository: Option<String>,
        subject: Option<String>,
        job_id: Option<String>,
        detail: String,
        prev: String,
        hash: String,
    }
}

row! {
    Ends {
        seq: i64,
        hash: String,
        anchor_seq: i64,
        anchor_hash: String,
    }
}

row! {
    About {
        repo: String,
        subject: String,
        request: String,
    }
}

row! {
    Written {
        kind: String,
        fence: i64,
        remote_id: Option<String>,
    }
}

/// The columns of [`Stored`].
macro_rules! columns {
    () => {
        "seq, at, actor, action, repository, subject, job_id, detail, prev, hash"
    };
}

impl Tx {
    /// From here on what this transaction does is done by this actor, where its acts name no other.
    pub fn act_as(&mut self, actor: impl Into<String>) {
        self.acts().actor = Some(actor.into());
    }

    /// Has an act written when, and only if, this transaction is committed.
    pub fn audit(&mut self, act: Act) {
        self.acts().done.push(act);
    }

    fn acts(&mut self) -> &mut Acts {
        match self {
            Tx::Sqlite(open) => &mut open.acts,
            Tx::Postgres(open) => &mut open.acts,
        }
    }

    /// As [`Tx::audit`], with the repository and the subject of a job, and with the person who asked for
    /// it as its actor where `is_theirs`.
    pub(super) async fn audit_job(&mut self, act: Act, job: &JobId, whose: Whose) -> Result<(), StoreError> {
        let about: Option<About> = on_db!(
            self,
            sqlx::query_as("SELECT repo, subject, request FROM jobs WHERE id = $1").bind(job.as_str()),
            fetch_optional
        )?;
        let mut act = act.of(job);
        if let Some(about) = about {
            let request: Request = super::row::from_json("jobs.request", &about.request)?;
            act = act
                .with("asked_by", asked_by(&request.actor))
                .with("trigger", trigger(&request)?);
            if whose == Whose::Asker {
                act = act.by(asked_by(&request.actor));
            }
            act.repository = Some(about.repo);
            act.subject = Some(about.subject);
        }
        self.audit(act);
        Ok(())
    }

    /// Notes that an effect stands on GitHub, with whatever its row says.
    pub(super) async fn audit_effect(&mut self, job: &JobId, seq: i64) -> Result<(), StoreError> {
        let written: Option<Written> = on_db!(
            self,
            sqlx::query_as(
                "SELECT kind, fence, remote_id
                 FROM effects
                 WHERE job_id = $1
                   AND seq = $2
                   AND state = 'done'"
            )
            .bind(job.as_str())
            .bind(seq),
            fetch_optional
        )?;
        let Some(written) = written else { return Ok(()) };
        let act = Act::new(Action::Written)
            .by(SERVICE)
            .with("kind", written.kind)
            .with("position", seq)
            .with("fence", written.fence)
            .with("remote_id", written.remote_id.unwrap_or_default());
        self.audit_job(act, job, Whose::Act).await
    }

    /// Notes events of a run that decide something, or leave the sandbox.
    pub(super) async fn audit_event(&mut self, job: &JobId, fence: i64, event: &RunEvent) -> Result<(), StoreError> {
        let (act, whose) = match event {
            RunEvent::Authorized { permission, .. } => (
                Act::new(Action::Authorized).with("permission", permission.as_str()),
                Whose::Asker,
            ),
            RunEvent::HostReached { host } => (Act::new(Action::HostReached).with("host", host.as_str()), Whose::Act),
            RunEvent::HostBlocked { host, why, .. } => (
                Act::new(Action::HostBlocked)
                    .with("host", host.as_str())
                    .with("why", why.as_str()),
                Whose::Act,
            ),
            _ => return Ok(()),
        };
        self.audit_job(act.with("fence", fence), job, whose).await
    }

    /// Writes what this transaction did. The last thing before its commit.
    pub(super) async fn write_acts(&mut self) -> Result<(), StoreError> {
        let Acts { actor, done } = std::mem::take(self.acts());
        if done.is_empty() {
            return Ok(());
        }
        let mut last = self.lock_chain().await?.head();
        let at = micros(self.db_now().await?);
        for act in done {
            let actor = act.actor.as_ref().or(actor.as_ref()).map_or(SERVICE, String::as_str);
            let detail = act.detail_text();
            let clean = |text: &Option<String>| text.as_deref().map(|text| without_nul(text).into_owned());
            let mut entry = Entry {
                seq: last.seq + 1,
                at,
                actor: without_nul(actor).into_owned(),
                action: act.action.as_str().to_owned(),
                repository: clean(&act.repository),
                subject: clean(&act.subject),
                job: clean(&act.job),
                detail,
                prev: last.hash,
                hash: String::new(),
            };
            entry.hash = entry.digest();
            self.insert_entry(&entry).await?;
            last = entry.point();
        }
        on_db!(
            self,
            sqlx::query(
                "UPDATE audit_chain
                 SET seq = $1,
                     hash = $2
                 WHERE id = 1"
            )
            .bind(last.seq)
            .bind(&last.hash),
            execute
        )?;
        Ok(())
    }

    async fn insert_entry(&mut self, entry: &Entry) -> Result<(), StoreError> {
        on_db!(
            self,
            sqlx::query(concat!(
                "INSERT INTO audit (",
                columns!(),
                ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
            ))
            .bind(entry.seq)
            .bind(entry.at)
            .bind(&entry.actor)
            .bind(&entry.action)
            .bind(&entry.repository)
            .bind(&entry.subject)
            .bind(&entry.job)
            .bind(&entry.detail)
            .bind(&entry.prev)
            .bind(&entry.hash),
            execute
        )?;
        Ok(())
    }

    /// Nobody else adds a row before this transaction ends. The first one makes the chain.
    async fn lock_chain(&mut self) -> Result<Ends, StoreError> {
        if let Some(ends) = self.locked_ends().await? {
            return Ok(ends);
        }
        let origin = Point::origin();
        on_db!(
            self,
            sqlx::query(
                "INSERT INTO audit_chain (id, seq, hash, anchor_seq, anchor_hash)
                 VALUES (1, $1, $2, $1, $2)
                 ON CONFLICT (id) DO NOTHING"
            )
            .bind(origin.seq)
            .bind(&origin.hash),
            execute
        )?;
        let made = self.locked_ends().await?;
        made.ok_or_else(|| StoreError::Corrupt("the audit has no end".to_owned()))
    }

    async fn locked_ends(&mut self) -> Result<Option<Ends>, StoreError> {
        let lock = match self {
            Tx::Sqlite(_) => {
                "UPDATE audit_chain
                 SET seq = seq
                 WHERE id = 1
                 RETURNING seq, hash, anchor_seq, anchor_hash"
            }
            Tx::Postgres(_) => concat!(
                moment!(),
                "UPDATE audit_chain
                 SET seq = seq
                 FROM moment
                 WHERE id = 1
                   AND given IS NOT NULL
                 RETURNING seq, hash, anchor_seq, anchor_hash"
            ),
        };
        Ok(on_db!(self, sqlx::query_as(lock), fetch_optional)?)
    }

    /// The last migration that the database has.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn schema_version(&mut self) -> Result<i64, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query_scalar("SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations"),
            fetch_one
        )?)
    }

    /// Where the chain begins (what its first row continues) and its last row.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn audit_ends(&mut self) -> Result<(Point, Point), StoreError> {
        let ends: Option<Ends> = on_db!(
            self,
            sqlx::query_as("SELECT seq, hash, anchor_seq, anchor_hash FROM audit_chain WHERE id = 1"),
            fetch_optional
        )?;
        Ok(match ends {
            Some(ends) => (ends.anchor(), ends.head()),
            None => (Point::origin(), Point::origin()),
        })
    }

    /// Rows after a place, in order, at most `limit`.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn audit_after(&mut self, seq: i64, limit: u32) -> Result<Vec<Entry>, StoreError> {
        let stored: Vec<Stored> = on_db!(
            self,
            sqlx::query_as(concat!(
                "SELECT ",
                columns!(),
                " FROM audit WHERE seq > $1 ORDER BY seq LIMIT $2"
            ))
            .bind(seq)
            .bind(i64::from(limit)),
            fetch_all
        )?;
        Ok(stored.into_iter().map(Entry::from).collect())
    }

    /// Rows that pass a filter, the latest first.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn audit_rows(&mut self, filter: &AuditFilter) -> Result<Vec<Entry>, StoreError> {
        let stored: Vec<Stored> = on_db!(
            self,
            sqlx::query_as(concat!(
                "SELECT ",
                columns!(),
                " FROM audit
                 WHERE ($1 IS NULL OR job_id = $1)
                   AND ($2 IS NULL OR LOWER(repository) = LOWER($2))
                   AND ($3 IS NULL OR action = $3)
                   AND ($4 IS NULL OR actor = $4)
                   AND ($5 IS NULL OR at >= $5)
                 ORDER BY seq DESC
                 LIMIT $6"
            ))
            .bind(filter.job.as_ref().map(JobId::as_str))
            .bind(filter.repository.as_ref().map(RepoName::as_str))
            .bind(filter.action.map(Action::as_str))
            .bind(filter.actor.as_deref())
            .bind(filter.since.map(micros))
            .bind(i64::from(filter.limit)),
            fetch_all
        )?;
        Ok(stored.into_iter().map(Entry::from).collect())
    }

    /// Checks every row up to the end that the chain has now, and that each anchor is in it.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn check_audit(&mut self, anchors: &[Point]) -> Result<Checked, StoreError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let (start, head) = self.audit_ends().await?;
            let mut checker = Checker::new(start.clone(), anchors);
            let mut waiting = VecDeque::new();
            let mut last = start.seq - 1;
            loop {
                if waiting.is_empty() {
                    // From before the start, so that rows that should be gone are noticed.
                    waiting.extend(self.audit_after(last, PAGE).await?);
                }
                let Some(entry) = waiting.pop_front() else { break };
                last = entry.seq;
                // Rows that others added since belong to the next check, unless the end was turned back.
                if last > head.seq && self.audit_ends().await?.1.seq >= last {
                    break;
                }
                checker.add(&entry);
            }
            let checked = checker.end(Some(&head));
            let moved = self.audit_ends().await?.0 != start;
            if checked.faults.is_empty() || !moved || tries >= MAX_TRIES {
                return Ok(checked);
            }
        }
    }

    /// I16: the audit's chain is whole.
    pub(super) async fn broken_audit(&mut self) -> Result<Vec<Violation>, StoreError> {
        let checked = self.check_audit(&[]).await?;
        Ok(checked
            .faults
            .iter()
            .map(|fault| Violation {
                invariant: "I16",
                detail: format!("audit {fault}"),
            })
            .collect())
    }

    /// Removes the rows up to one, which stand in `file` now; the chain begins after it from then on, and a
    /// new row says so. False: it is not in the chain, or the last of it.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn drop_audit(&mut self, through: &Point, act: Act) -> Result<bool, StoreError> {
        let ends = self.lock_chain().await?;
        let found: Option<String> = on_db!(
            self,
            sqlx::query_scalar("SELECT hash FROM audit WHERE seq = $1").bind(through.seq),
            fetch_optional
        )?;
        if found.as_ref() != Some(&through.hash) || through.seq >= ends.seq {
            return Ok(false);
        }
        on_db!(
            self,
            sqlx::query(
                "UPDATE audit_chain
                 SET anchor_seq = $1,
                     anchor_hash = $2
                 WHERE id = 1"
            )
            .bind(through.seq)
            .bind(&through.hash),
            execute
        )?;
        on_db!(
            self,
            sqlx::query("DELETE FROM audit WHERE seq <= $1").bind(through.seq),
            execute
        )?;
        self.audit(act.with("through", through.to_string()));
        Ok(true)
    }
}

/// Whose act it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// Of the person who asked for the job.
    Asker,
    /// Of whoever the act or the transaction names.
    Act,
}

fn asked_by(actor: &Actor) -> String {
    match *actor == Actor::operator() {
        true => OPERATOR.to_owned(),
        false => person(&actor.login),
    }
}

/// Why the job began, in one word.
fn trigger(request: &Request) -> Result<String, StoreError> {
    let written = serde_json::to_value(&request.trigger).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    Ok(written["by"].as_str().unwrap_or_default().to_owned())
}

impl Ends {
    fn head(&self) -> Point {
        Point {
            seq: self.seq,
            hash: self.hash.clone(),
        }
    }

    fn anchor(&self) -> Point {
        Point {
            seq: self.anchor_seq,
            hash: self.anchor_hash.clone(),
        }
    }
}

impl From<Stored> for Entry {
    fn from(stored: Stored) -> Self {
        Self {
            seq: stored.seq,
            at: stored.at,
            actor: stored.actor,
            action: stored.action,
            repository: stored.repository,
            subject: stored.subject,
            job: stored.job_id,
            detail: stored.detail,
            prev: stored.prev,
            hash: stored.hash,
        }
    }
}
