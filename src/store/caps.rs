//! Tables `subject_caps` and `cap_warnings`: caps that people set for one issue or pull request,
//! and which job was warned of which cap. Called by `ledger` and by the command that sets a cap.
//! Never decides who may set one.

use chrono::{DateTime, Utc};

use super::audit::Whose;
use super::row::{micros, row, without_nul};
use super::{StoreError, Tx};
use crate::audit::{Act, Action, person};
use crate::ids::{JobId, RepoId, Subject};
use crate::money::Usd;

/// A cap that somebody sets for an issue or pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCap {
    /// The most that all its jobs together may cost.
    pub most: Usd,
    /// Login of the person.
    pub by: String,
    /// When.
    pub at: DateTime<Utc>,
    /// The job that carries the command, so that doing it again is noticed.
    pub source: JobId,
}

/// A cap that somebody set for an issue or pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubjectCap {
    /// The most that all its jobs together may cost.
    pub most: Usd,
    /// Login of the person.
    pub by: String,
    /// When.
    pub at: DateTime<Utc>,
}

row! {
    Stored {
        micro_usd: i64,
        micro_usd_before: Option<i64>,
        set_by: String,
        set_at: DateTime<Utc>,
        source: String,
    }
}

impl Tx {
    /// The cap that somebody set for an issue or pull request.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn subject_cap(&mut self, repo: RepoId, subject: &Subject) -> Result<Option<SubjectCap>, StoreError> {
        let stored = self.stored_cap(repo, subject).await?;
        Ok(stored.map(|stored| SubjectCap {
            most: Usd::from_micros(stored.micro_usd),
            by: stored.set_by,
            at: stored.set_at,
        }))
    }

    /// Sets the cap of an issue or pull request and returns the one that somebody had set before;
    /// the same when a command is carried out once more.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn set_subject_cap(
        &mut self,
        repo: RepoId,
        subject: &Subject,
        cap: &NewCap,
    ) -> Result<Option<Usd>, StoreError> {
        let before = match self.stored_cap(repo, subject).await? {
            Some(stored) if stored.source == cap.source.as_str() => stored.micro_usd_before,
            stored => stored.map(|stored| stored.micro_usd),
        };
        on_db!(
            self,
            sqlx::query(
                "INSERT INTO subject_caps (repo_id, subject, micro_usd, micro_usd_before, set_by, set_at, source)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)
                 ON CONFLICT (repo_id, subject) DO UPDATE
                 SET micro_usd = excluded.micro_usd,
                     micro_usd_before = excluded.micro_usd_before,
                     set_by = excluded.set_by,
                     set_at = excluded.set_at,
                     source = excluded.source"
            )
            .bind(repo.as_i64())
            .bind(subject.to_string())
            .bind(cap.most.micros())
            .bind(before)
            .bind(without_nul(&cap.by).as_ref())
            .bind(micros(cap.at))
            .bind(cap.source.as_str()),
            execute
        )?;
        let act = Act::new(Action::BudgetSet)
            .by(person(&cap.by))
            .with("micro_usd", cap.most.micros())
            .with("micro_usd_before", before);
        self.audit_job(act, &cap.source, Whose::Act).await?;
        Ok(before.map(Usd::from_micros))
    }

    /// Notes that a job is warned of a cap of this height. False: it was before.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn warn_of_cap(&mut self, job: &JobId, cap: &str, most: Usd) -> Result<bool, StoreError> {
        let noted = on_db!(
            self,
            sqlx::query(
                "INSERT INTO cap_warnings (job_id, cap, micro_usd)
                 VALUES ($1, $2, $3)
                 ON CONFLICT (job_id, cap, micro_usd) DO NOTHING"
            )
            .bind(job.as_str())
            .bind(cap)
            .bind(most.micros()),
            execute
        )?;
        Ok(noted > 0)
    }

    async fn stored_cap(&mut self, repo: RepoId, subject: &Subject) -> Result<Option<Stored>, StoreError> {
        Ok(on_db!(
            self,
            sqlx::query_as(
                "SELECT micro_usd, micro_usd_before, set_by, set_at, source
                 FROM subject_caps
                 WHERE repo_id = $1
                   AND subject = $2"
            )
            .bind(repo.as_i64())
            .bind(subject.to_string()),
            fetch_optional
        )?)
    }
}
