//! Table `looks`: how far GitHub was looked at for what did not arrive by itself, and whose turn it is.
//! Called by the loops that look into GitHub's log of webhook calls and into repositories.
//! Never gives one turn to two processes, and never lets a look that was overtaken write how it went.

use chrono::{DateTime, Utc};

use super::row::{count, micros, parse, reason, row, without_nul};
use super::{RepoRow, StoreError, Tx};
use crate::ids::{InstallationId, RepoId};

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookAt {
    /// GitHub's log of webhook calls.
    Log,
    /// A repository itself.
    Repository(RepoId),
}

impl LookAt {
    fn source(self) -> &'static str {
        match self {
            LookAt::Log => "log",
            LookAt::Repository(_) => "repository",
        }
    }

    fn repo(self) -> i64 {
        match self {
            LookAt::Log => 0,
            LookAt::Repository(repo) => repo.as_i64(),
        }
    }
}

/// How far it was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// Number of the last look.
    pub turn: i64,
    /// Everything that happened until then was seen.
    pub seen_to: DateTime<Utc>,
    /// What the answer was known by, so that an unchanged one costs nothing.
    pub mark: Option<String>,
    /// When somebody last looked to the end.
    pub looked_at: Option<DateTime<Utc>>,
    /// Not before this time.
    pub next_at: DateTime<Utc>,
    /// Looks in a row that failed.
    pub failures: u32,
    /// Why the last look failed.
    pub problem: Option<String>,
}

row! {
    Stored {
        turn: i64,
        seen_to: DateTime<Utc>,
        mark: Option<String>,
        looked_at: Option<DateTime<Utc>>,
        next_at: DateTime<Utc>,
        failures: i64,
        problem: Option<String>,
    }
}

impl TryFrom<Stored> for Look {
    type Error = StoreError;

    fn try_from(stored: Stored) -> Result<Self, StoreError> {
        Ok(Self {
            turn: stored.turn,
            seen_to: stored.seen_to,
            mark: stored.mark,
            looked_at: stored.looked_at,
            next_at: stored.next_at,
            failures: count("looks.failures", stored.failures)?,
            problem: stored.problem,
        })
    }
}

row! {
    StoredRepo {
        id: i64,
        name: String,
        installation_id: i64,
        active: bool,
    }
}

impl Tx {
    /// Takes the turn to look where the next look is due by a time (that of now, or later for a process
    /// that has just begun), and puts the next one off until `next_at`. Where nobody looked before,
    /// everything from `begins` on is to be seen. `None`: it is not time, or another process has the turn.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn take_look(
        &mut self,
        at: LookAt,
        due_by: DateTime<Utc>,
        next_at: DateTime<Utc>,
        begins: DateTime<Utc>,
    ) -> Result<Option<Look>, StoreError> {
        on_db!(
            self,
            sqlx::query(
                "INSERT INTO looks (source, repo_id, turn, seen_to, next_at, failures)
                 VALUES ($1, $2, 0, $3, $3, 0)
                 ON CONFLICT (source, repo_id) DO NOTHING"
            )
            .bind(at.source())
            .bind(at.repo())
            .bind(micros(begins)),
            execute
        )?;
        let stored: Option<Stored> = on_db!(
            self,
            sqlx::query_as(
                "UPDATE looks
                 SET turn = turn + 1,
                     next_at = $3
                 WHERE source = $1
                   AND repo_id = $2
                   AND next_at <= $4
                 RETURNING turn, seen_to, mark, looked_at, next_at, failures, problem"
            )
            .bind(at.source())
            .bind(at.repo())
            .bind(micros(next_at))
            .bind(micros(due_by)),
            fetch_optional
        )?;
        stored.map(Look::try_from).transpose()
    }

    /// Stores how a look went. False: a later look has the turn.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn note_look(&mut self, at: LookAt, look: &Look) -> Result<bool, StoreError> {
        let noted = on_db!(
            self,
            sqlx::query(
                "UPDATE looks
                 SET seen_to = $4,
                     mark = $5,
                     looked_at = $6,
                     next_at = $7,
                     failures = $8,
                     problem = $9
                 WHERE source = $1
                   AND repo_id = $2
                   AND turn = $3"
            )
            .bind(at.source())
            .bind(at.repo())
            .bind(look.turn)
            .bind(micros(look.seen_to))
            .bind(look.mark.as_deref().map(without_nul))
            .bind(look.looked_at.map(micros))
            .bind(micros(look.next_at))
            .bind(i64::from(look.failures))
            .bind(look.problem.as_deref().map(reason)),
            execute
        )?;
        Ok(noted == 1)
    }

    /// How far it was looked at; nothing: nobody looked yet.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn look(&mut self, at: LookAt) -> Result<Option<Look>, StoreError> {
        let stored: Option<Stored> = on_db!(
            self,
            sqlx::query_as(
                "SELECT turn, seen_to, mark, looked_at, next_at, failures, problem
                 FROM looks
                 WHERE source = $1
                   AND repo_id = $2"
            )
            .bind(at.source())
            .bind(at.repo()),
            fetch_optional
        )?;
        stored.map(Look::try_from).transpose()
    }

    /// Active repositories whose next look is due by a time, at most `limit`: first those that nobody
    /// looked at, then those that have waited longest.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when a column does not parse.
    pub async fn repos_to_look_at(&mut self, due_by: DateTime<Utc>, limit: u32) -> Result<Vec<RepoRow>, StoreError> {
        let stored: Vec<StoredRepo> = on_db!(
            self,
            sqlx::query_as(
                "SELECT repositories.id, repositories.name, repositories.installation_id, repositories.active
                 FROM repositories
                 LEFT JOIN looks ON looks.source = 'repository' AND looks.repo_id = repositories.id
                 WHERE repositories.active
                   AND (looks.next_at IS NULL OR looks.next_at <= $1)
                 ORDER BY CASE WHEN looks.next_at IS NULL THEN 0 ELSE 1 END, looks.next_at, repositories.id
                 LIMIT $2"
            )
            .bind(micros(due_by))
            .bind(i64::from(limit)),
            fetch_all
        )?;
        let row = |stored: StoredRepo| {
            Ok(RepoRow {
                id: RepoId::from_i64(stored.id),
                name: parse("repositories.name", &stored.name)?,
                installation: InstallationId::from_i64(stored.installation_id),
                active: stored.active,
            })
        };
        stored.into_iter().map(row).collect()
    }

    /// When a webhook call about a repository was last taken.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn last_heard(&mut self, repo: RepoId) -> Result<Option<DateTime<Utc>>, StoreError> {
        let last = on_db!(
            self,
            sqlx::query_scalar(
                "SELECT received_at
                 FROM deliveries
                 WHERE repo_id = $1
                 ORDER BY received_at DESC
                 LIMIT 1"
            )
            .bind(repo.as_i64()),
            fetch_optional
        )?;
        Ok(last)
    }

    /// Until when every active repository was looked at: what was received since must be kept, so that
    /// the next look knows it again. `None`: none was looked at yet.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn seen_everywhere_to(&mut self) -> Result<Option<DateTime<Utc>>, StoreError> {
        let seen = on_db!(
            self,
            sqlx::query_scalar(
                "SELECT looks.seen_to
                 FROM looks
                 JOIN repositories ON repositories.id = looks.repo_id
                 WHERE looks.source = 'repository'
                   AND repositories.active
                 ORDER BY looks.seen_to
                 LIMIT 1"
            ),
            fetch_optional
        )?;
        Ok(seen)
    }
}
